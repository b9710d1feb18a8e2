"""Faults of a dump's JSON and text outputs, injected into one of them at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from parity.bundle.tensor_case import JsonRule, TensorCase
from parity.lab.faults import Fault, make_file_fault
from parity.tensors.json_values import list_parts, read_json


def list_document_faults(case: TensorCase) -> Iterator[Fault]:
    """List the faults of the JSON and text outputs that a case compares."""
    for source, rules in case.documents.items():
        name = "stdout.json" if source == "stdout" else source
        compared = _list_compared(read_json(case.find_document(source)), rules)
        remove = partial(_remove, compared[-1]) if compared[-1] else Path.unlink
        for fault, text, codes, change in (
            ("json-value", "a value is another", "json-value", partial(_change, compared[0])),
            ("json-lost", "a value is left out", "json-missing json-value", remove),
            ("json-cut", "a document is cut short", "bad-header json-value", _cut),
            ("json-missing", "a document is not written", "json-missing", Path.unlink),
        ):
            yield make_file_fault(f"{fault}:{source}", text, codes, change, name)
    for name in case.texts:
        text = "text begins in another way"
        yield make_file_fault(f"text:{name}", text, "text", _begin, name)
        text = "text is not written"
        yield make_file_fault(f"text-missing:{name}", text, "json-missing", Path.unlink, name)


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
