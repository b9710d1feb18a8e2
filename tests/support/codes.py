"""Collect every finding code that the source of ``parity`` can report, from its syntax trees.

A code is an argument for a parameter or field named ``code``, or a value of a variable of that
name. Codes in tables are read from the tables in ``TABLES``.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
#: Their codes are of causes and mistakes, with lists of their own.
EXCLUDED = ("parity/diagnose", "parity/checkpoints/blocks", "parity/lab/faults", "parity/drift")
#: By module, the codes in tables of its namespace.
TABLES: dict[str, Callable[[dict[str, Any]], Iterable[str]]] = {
    "parity.port.cargo.call": lambda names: names["_REASONS"],
    "parity.verify.outcomes": lambda names: names["MEANINGS"].keys() - {"right"},
    "parity.store.disk": lambda names: names["_HINTS"],
    "parity.store.integrity": lambda names: names["_CODES"].values(),
    "parity.store.retries": lambda names: [row[0] for row in names["_MEANINGS"].values()],
    "parity.suites.pipeline.relations": lambda names: [
        row[0] for row in names["SAME_ORDER"].values()
    ],
}
#: Functions that return a code, or a tuple that begins with one.
RETURNING = ("_choose_code",)

Signatures = dict[str, int]


def collect_codes() -> dict[str, list[str]]:
    """Return each code with the places that report it."""
    trees = dict(_parse_sources())
    by_module = {path: _find_code_positions(tree) for path, tree in trees.items()}
    methods = _keep_unanimous(_find_code_positions(tree, methods=True) for tree in trees.values())
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees.items():
        names = _collect_imported(tree, by_module) | by_module[path]
        for code, line in _find_codes(tree, names, methods | by_module[path]):
            places[code].append(f"{path}:{line}")
    for module, codes in TABLES.items():
        source = ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
        for code in codes(vars(import_module(module))):
            assert f'"{code}"' in source, (module, code)
            places[code].append(module)
    return dict(places)


def _keep_unanimous(signatures: Iterable[Signatures]) -> Signatures:
    found: dict[str, set[int]] = defaultdict(set)
    for names in signatures:
        for name, position in names.items():
            found[name].add(position)
    return {name: next(iter(where)) for name, where in found.items() if len(where) == 1}


def _collect_imported(tree: ast.Module, by_module: dict[str, Signatures]) -> Signatures:
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            path = node.module.replace(".", "/")
            known = by_module.get(f"{path}.py", by_module.get(f"{path}/__init__.py", {}))
            found |= {
                alias.asname or alias.name: known[alias.name]
                for alias in node.names
                if alias.name in known
            }
    return found


def _parse_sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(ROOT.joinpath("parity").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(EXCLUDED):
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def _find_code_positions(tree: ast.Module, *, methods: bool = False) -> Signatures:
    """Return the position of ``code`` by name of a function, method or record."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names = [arg.arg for arg in node.args.posonlyargs + node.args.args]
            if methods and names[:1] not in (["self"], ["cls"]):
                continue
            names = [name for name in names if name not in ("self", "cls")]
            keywords = [arg.arg for arg in node.args.kwonlyargs]
            if "code" in names:
                found[node.name] = names.index("code")
            elif "code" in keywords:
                found[node.name] = -1
        elif isinstance(node, ast.ClassDef) and not methods:
            fields = [
                item.target.id
                for item in node.body
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
            ]
            if "code" in fields:
                found[node.name] = fields.index("code")
            inits = [item for item in node.body if getattr(item, "name", "") == "__init__"]
            for position in _find_code_positions(ast.Module(inits, [])).values():
                found[node.name] = position
    return found


def _find_codes(
    tree: ast.Module, functions: Signatures, methods: Signatures
) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        for value in _find_values(node, functions, methods):
            for code in _find_constants(value):
                yield code, value.lineno


def _find_values(node: ast.AST, functions: Signatures, methods: Signatures) -> Iterator[ast.expr]:
    if isinstance(node, ast.Call):
        yield from _find_arguments(node, functions, methods)
    elif isinstance(node, ast.FunctionDef):
        yield from _find_defaults(node.args)
        if node.name in RETURNING:
            yield from _find_returned(node)
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _find_assigned(target, node.value)
    elif isinstance(node, (ast.For, ast.comprehension)):
        for value in getattr(node.iter, "elts", ()):
            yield from _find_assigned(node.target, value)


def _find_arguments(
    node: ast.Call, functions: Signatures, methods: Signatures
) -> Iterator[ast.expr]:
    yield from (keyword.value for keyword in node.keywords if keyword.arg == "code")
    if isinstance(node.func, ast.Name):
        position = functions.get(node.func.id, -1)
    else:
        position = methods.get(getattr(node.func, "attr", ""), -1)
    if 0 <= position < len(node.args):
        yield node.args[position]


def _find_defaults(arguments: ast.arguments) -> Iterator[ast.expr]:
    names = (arguments.posonlyargs + arguments.args)[::-1]
    pairs = [
        *zip(names, arguments.defaults[::-1], strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    yield from (value for arg, value in pairs if arg.arg == "code" and value is not None)


def _find_returned(node: ast.FunctionDef) -> Iterator[ast.expr]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Return) and inner.value is not None:
            value = inner.value
            yield value.elts[0] if isinstance(value, ast.Tuple) else value


def _find_assigned(target: ast.expr, value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Name) and target.id == "code":
        yield value
    elif isinstance(target, ast.Tuple):
        for branch in _split_branches(value):
            if isinstance(branch, ast.Tuple):
                for part, item in zip(target.elts, branch.elts, strict=False):
                    yield from _find_assigned(part, item)


def _split_branches(value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(value, ast.IfExp):
        yield from _split_branches(value.body)
        yield from _split_branches(value.orelse)
    elif isinstance(value, ast.BoolOp):
        for part in value.values:
            yield from _split_branches(part)
    else:
        yield value


def _find_constants(value: ast.expr) -> Iterator[str]:
    for branch in _split_branches(value):
        value = branch.value if isinstance(branch, ast.Constant) else None
        # One letter or two are codes of struct and of NumPy.
        if isinstance(value, str) and len(value) > 2:
            yield value
