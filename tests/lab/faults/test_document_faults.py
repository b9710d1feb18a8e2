"""Faults of JSON and text outputs: each is detected by its own code, whatever the value is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from parity.bundle.tensor_case import JsonRule, TensorCase
from parity.lab.faults.document_faults import list_document_faults
from parity.suites.base import Dump
from parity.suites.tensors.documents import compare_outputs

#: Documents, and the rules beside which they are compared exactly.
DOCUMENTS: dict[str, tuple[Any, dict[str, JsonRule]]] = {
    "-1": (-1, {}),
    "a number": (3.5, {}),
    "a large number": (10**400, {}),
    "true": (True, {}),
    "nothing": (None, {}),
    "text": ("a", {}),
    "an empty object": ({}, {}),
    "a list": ([-1, [0.0]], {}),
    "a key with a slash": ({"a/b": -2, "c~": [1]}, {}),
    "an ignored part": ({"a": 1, "b": [2, 3]}, {"/b": JsonRule(None, "random")}),
    "a tolerance": ({"a": [-1.0]}, {"/a": JsonRule({"atol": 0.5})}),
    "a set": ({"a": [-1, 2]}, {"/a": JsonRule({}, parts=("/a",))}),
}


def list_errors(case: TensorCase, folder: Path) -> set[str]:
    findings, _, _ = compare_outputs(case, Dump(folder=folder))
    return {one.code for one in findings if one.level == "error"}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_fault_of_a_document_is_detected(name: str, tmp_path: Path) -> None:
    document, rules = DOCUMENTS[name]
    right, wrong = tmp_path / "reference", tmp_path / "dump"
    right.mkdir()
    (right / "o.json").write_text(json.dumps(document))
    (right / "o.txt").write_text("a\nb\n")
    case = TensorCase(
        id="c", folder=right, reference=right, documents={"o.json": rules}, texts=("o.txt",)
    )
    faults = list(list_document_faults(case))
    assert len(faults) == 6
    assert list_errors(case, right) == set()
    for fault in faults:
        shutil.rmtree(wrong, ignore_errors=True)
        shutil.copytree(right, wrong)
        fault.inject(wrong)
        codes = list_errors(case, wrong)
        assert codes, fault.name
        assert codes <= set(fault.codes), fault.name
