"""The cases of the op zoo, read from the rows of data files; a row can be several cases."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from parity.bundle.yaml_nodes import compose
from parity.bundle.yaml_reader import YamlItem
from parity.errors import ConfigError
from parity.lab.op_zoo.arrays import make_tensor
from parity.lab.zoo.case import ExpectedTensor

#: What a row or one of its cases may state; the rest of a case are arguments.
_SETTINGS = ("in", "views", "expect", "tolerance", "why", "rule")
_ROW = ("op", "name", "dtypes", "args", "cases", *_SETTINGS)
_FOLDER = Path(__file__).parent
_MARKS = {"load": "", "refuse": "n-", "either": "i-"}


@dataclass(frozen=True, kw_only=True)
class OpCase:
    """One call of an operator."""

    op: str
    name: str
    inputs: Mapping[str, ExpectedTensor]
    args: Mapping[str, Any] = field(default_factory=dict)  # As in JSON, `views` among them
    expect: Literal["load", "refuse", "either"] = "load"
    tolerance: str = "close"  # ``exact``, ``ulp4``, ``close`` or ``relative``
    why: str
    rule: str

    @property
    def id(self) -> str:
        """Operator and name, by which its folder is named too."""
        return f"{self.op}/{_MARKS[self.expect]}{self.name}"

    @property
    def words(self) -> dict[str, str]:
        """The words of the dump program's arguments."""
        args = json.dumps(self.args, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return {"op": self.op, "args": args}

    @property
    def required(self) -> list[str]:
        """The names of the inputs that are always there, in order."""
        names = read_operators()[self.op]["inputs"]
        return [one.rstrip(".") for one in names if not one.endswith("?")]

    def bind(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs in the operator's order, the tensors of a list as a list."""
        bound = {}
        for name in read_operators()[self.op]["inputs"]:
            plain = name.rstrip("?.")
            if name.endswith("..."):
                count = sum(key.startswith(f"{plain}.") for key in tensors)
                bound[plain] = [tensors[f"{plain}.{at}"] for at in range(count)]
            elif plain in tensors:
                bound[plain] = tensors[plain]
        return bound

    def name_outputs(self, results: Any) -> dict[str, Any]:
        """Return the results of a call by name."""
        names = read_operators()[self.op]["outputs"]
        if names == ["out..."]:
            return {f"out.{at}": one for at, one in enumerate(results)}
        if not isinstance(results, (list, tuple)):
            results = [results]
        kept = [
            one
            for one in names
            if not one.endswith("?") or self.args.get(f"return_{one[:-1]}".removesuffix("_indices"))
        ]
        return dict(zip((one.rstrip("?") for one in kept), results, strict=True))


@cache
def read_operators() -> Mapping[str, Mapping[str, Any]]:
    """Return the operators by name, each with its inputs, arguments and outputs."""
    return {
        op: row for family in read_file("operators.yaml").values() for op, row in family.items()
    }


def read_file(name: str) -> Any:
    """Read one of the data files.

    Raises:
        ConfigError: It is not YAML, or a key is repeated, so that a case would be lost.
    """
    path = _FOLDER / name
    item = YamlItem(path, compose(path, path.read_bytes()), name, "yaml")
    value = item.read_value()
    if item.problems:
        raise ConfigError(*item.problems)
    return value


def read_cases() -> list[OpCase]:
    """Read the cases of all families, in the order of the operators.

    Raises:
        ConfigError: As ``read_file``.
        ValueError: A row has a key, an argument or an input that its operator does not have.
    """
    order = list(read_operators())
    names = sorted(one.name for one in _FOLDER.glob("*.yaml"))
    data = [read_file(one) for one in names if one not in ("operators.yaml", "numpy.yaml")]
    cases = [
        case
        for one in data
        for row in one["rows"]
        for case in expand_row({"rule": one["rule"], **row})
    ]
    return sorted(cases, key=lambda case: order.index(case.op))


def expand_row(row: Mapping[str, Any]) -> Iterator[OpCase]:
    """Yield the cases of a row: of each operator, in each dtype, with each set of arguments."""
    if unknown := set(row) - set(_ROW):
        raise ValueError(f"{row.get('op')}: a row has no {', '.join(sorted(unknown))}")
    ops = row["op"] if isinstance(row["op"], list) else [row["op"]]
    dtypes = row.get("dtypes", ["f32"])
    for op, dtype, (suffix, more) in itertools.product(
        ops, dtypes, row.get("cases", {"": {}}).items()
    ):
        parts = [row.get("name", ""), suffix, dtype if len(dtypes) > 1 else ""]
        name = "-".join(filter(None, parts))
        words = {"op": op, "dtype": dtype, "case": suffix.replace("-", " ")}
        yield _make_case(row, more or {}, name, words)


def _make_case(
    row: Mapping[str, Any], more: Mapping[str, Any], name: str, words: Mapping[str, str]
) -> OpCase:
    op = words["op"]
    stated = {key: row[key] for key in _SETTINGS if key in row}
    stated |= {key: more[key] for key in _SETTINGS if key in more}
    given = {**row.get("in", {}), **more.get("in", {})}
    given = {key: one for key, one in given.items() if one is not None}
    args = row.get("args", {}) | {key: one for key, one in more.items() if key not in _SETTINGS}
    args = {key: one for key, one in args.items() if one is not None}
    if views := stated.get("views"):
        args["views"] = views
    signature = read_operators()[op]
    known = {"views", *signature.get("args", {})}
    if unknown := set(args) - known:
        raise ValueError(f"{op}/{name}: the operator has no argument {', '.join(sorted(unknown))}")
    plain = {one.rstrip("?.") for one in signature["inputs"]}
    if unknown := {key.partition(".")[0] for key in given} - plain:
        raise ValueError(f"{op}/{name}: the operator has no input {', '.join(sorted(unknown))}")
    return OpCase(
        op=op,
        name=name,
        inputs={
            key: make_tensor(value, words["dtype"], f"{op}/{name}/{key}")
            for key, value in given.items()
        },
        args=args,
        expect=stated.get("expect", "load"),
        tolerance=stated.get("tolerance", "close"),
        why=stated["why"].format(**words),
        rule=stated["rule"].format(**words),
    )
