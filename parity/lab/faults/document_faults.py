"""Faults of a dump's JSON and text outputs, injected into one of them at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from parity.bundle.manifest_outputs import JsonRule
from parity.bundle.tensor_case import TensorCase
from parity.lab.faults import Fault, InjectionResult
from parity.tensors.json_values import list_parts, read_json


def list_document_faults(case: TensorCase) -> Iterator[Fault]:
    """List the faults of the JSON and text outputs that a case compares."""
    for source, rules in case.documents.items():
        name = "stdout.json" if source == "stdout" else source
        compared = _list_compared(read_json(case.find_document(source)), rules)
        for fault, text, codes, change in (
            ("json-value", "a value is another", "json-value", partial(_change, compared[0])),
            (
                "json-lost",
                "a value is left out",
                "json-missing json-value",
                partial(_remove, compared[-1]) if compared[-1] else _delete,
            ),
            ("json-cut", "a document is cut short", "bad-header json-value", _cut),
            ("json-missing", "a document is not written", "json-missing", _delete),
        ):
            yield _make_fault(f"{fault}:{source}", text, codes, name, change)
    for name in case.texts:
        yield _make_fault(f"text:{name}", "text begins in another way", "text", name, _begin)
        yield _make_fault(
            f"text-missing:{name}", "text is not written", "json-missing", name, _delete
        )


def _make_fault(
    name: str, text: str, codes: str, file: str, change: Callable[[Path], Any]
) -> Fault:
    def inject(folder: Path) -> InjectionResult:
        change(folder / file)
        return InjectionResult((file,))

    return Fault(name=name, text=text, codes=tuple(codes.split()), inject=inject)


def _list_compared(document: Any, rules: Mapping[str, JsonRule]) -> list[str]:
    """List the pointers of values, and of empty objects and lists, that are not ignored."""
    found = []
    for pointer, value in list_parts(document):
        nearest = pointer
        while nearest and nearest not in rules:
            nearest = nearest.rpartition("/")[0]
        if (nearest not in rules or rules[nearest].bounds is not None) and not (
            isinstance(value, (dict, list)) and value
        ):
            found.append(pointer)
    return found


def _find(document: Any, pointer: str) -> tuple[Any, Any]:
    """Return what contains a value, and the value's key in it."""
    *above, last = (key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:])
    for key in above:
        document = document[int(key) if isinstance(document, list) else key]
    return document, int(last) if isinstance(document, list) else last


def _change(pointer: str, path: Path) -> None:
    document = [read_json(path)]
    parent, key = _find(document, f"/0{pointer}")
    value = parent[key]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    parent[key] = abs(value) + value + 1 if is_number else f"not {value}"
    path.write_text(json.dumps(document[0]), encoding="utf-8")


def _remove(pointer: str, path: Path) -> None:
    document = read_json(path)
    parent, key = _find(document, pointer)
    del parent[key]
    path.write_text(json.dumps(document), encoding="utf-8")


def _begin(path: Path) -> None:
    path.write_bytes(b"x" + path.read_bytes())


def _cut(path: Path) -> None:
    content = path.read_bytes().rstrip()
    path.write_bytes(content[: len(content) // 2])


def _delete(path: Path) -> None:
    path.unlink()
