"""The zoo: every kind has its cases, every reference is as upstream reads it, none is twice."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from parity.bundle import manifest
from parity.bundle.tensor_case import TensorCase
from parity.errors import ReferenceSuspectError
from parity.lab import readers, zoo
from parity.lab.zoo.case import ZooCase
from parity.tensors import safetensors
from parity.tensors.stored import StoredTensor
from tests.support.bundles import find_archive, unpack


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack("checkpoint-zoo-v1", tmp_path_factory.mktemp("zoo"))


@pytest.fixture(scope="module")
def cases(tree: Path) -> dict[str, TensorCase]:
    return {case.id: case for case in manifest.read_manifest(tree).cases}


def of(cases: dict[str, TensorCase], group: str, *expect: str) -> list[TensorCase]:
    return [case for case in cases.values() if case.group == group and case.expect in expect]


def test_every_kind_has_its_cases(
    cases: dict[str, TensorCase], golden: Callable[..., None]
) -> None:
    golden("\n".join(cases))


def test_it_is_large_enough_and_small_enough(cases: dict[str, TensorCase]) -> None:
    assert len(cases) >= 150
    assert sum(case.expect == "refuse" for case in cases.values()) >= 40
    assert find_archive("checkpoint-zoo-v1").stat().st_size < 3_000_000


def test_each_case_states_why_and_its_rule(cases: dict[str, TensorCase]) -> None:
    for case in cases.values():
        assert case.has_expectation, case.id
        assert case.id.startswith(f"{case.group}-")
        assert {"y": "load", "n": "refuse", "i": "either"}[case.id.split("-")[1]] == case.expect
        for text in (case.why, case.rule):
            assert 3 < len(text) < 160, case.id
            assert text == text.strip()
            assert "\n" not in text
        assert (case.reference is None) == (case.expect == "refuse")


def test_the_rows_are_the_cases_of_the_bundle(cases: dict[str, TensorCase]) -> None:
    rows = [(row.id, row.group, row.expect, row.why, row.rule) for row in zoo.CASES]
    assert rows == [(c.id, c.group, c.expect, c.why, c.rule) for c in cases.values()]


def test_no_two_cases_are_alike(cases: dict[str, TensorCase]) -> None:
    texts = [(case.group, case.expect, case.why) for case in cases.values()]
    assert len(set(texts)) == len(texts)
    contents = [
        case.checkpoint.read_bytes() for case in cases.values() if case.checkpoint is not None
    ]
    filled = [content for content in contents if content]
    assert len(set(filled)) == len(filled)
    assert len(contents) - len(filled) == 3  # the empty file of each format


#: Cases that gguf-py loads although ggml or its document forbids them.
DISPUTED = {"gguf-i-five-dims", "gguf-i-shared-data", "gguf-i-not-padded"}


def test_the_outcomes_of_the_readers_are_recorded(tree: Path, cases: dict[str, TensorCase]) -> None:
    record = json.loads((tree / "readers.json").read_text(encoding="utf-8"))
    assert record["versions"].keys() == {"torch", "safetensors", "gguf", "numpy"}
    assert record["cases"].keys() == cases.keys()
    hostile = {name for name in cases if name.startswith("pth-n-global-") and "absent" not in name}
    for name, outcomes in record["cases"].items():
        readers = {
            "pth": {"torch", "torch-full"},
            "safetensors": {"safetensors"},
            "gguf": {"gguf-py"},
        }
        expected = readers[cases[name].group] - ({"torch-full"} if name in hostile else set())
        assert outcomes.keys() == expected, name
        assert set(outcomes.values()) <= {"loaded", "refused", "crashed", "limit"}
        assert cases[name].expect != "load" or "loaded" in outcomes.values(), name
    assert {name for name in record["against"] if cases[name].expect == "either"} == DISPUTED


#: Cases to be rejected although a reference reader loads them, or does not survive them.
BY_DOCUMENT = {
    "safetensors-n-json-space-first",
    "safetensors-n-json-duplicate-name",
    "gguf-n-bool-2",
    "gguf-n-name-65",
    "gguf-n-offset-misaligned",
    "gguf-n-offset-minus-32",
    "gguf-n-offset-wraps",
    "gguf-n-array-2-31",
    "pth-n-bytes-2-60",
    "pth-n-expanded-huge",
}


def test_each_rejection_has_a_reader_or_a_document(
    tree: Path, cases: dict[str, TensorCase]
) -> None:
    outcomes = json.loads((tree / "readers.json").read_text(encoding="utf-8"))["cases"]
    by_document = {
        name
        for name, case in cases.items()
        if case.expect == "refuse" and set(outcomes[name].values()) != {"refused"}
    }
    assert by_document == BY_DOCUMENT
    for name in by_document:
        assert re.search("README|docs/|Lib/", cases[name].rule), name


# --- the references, which the audit derives again as far as torch reads their dtypes -----------


def read_reference(case: TensorCase) -> dict[str, StoredTensor]:
    assert case.reference is not None
    return safetensors.locate_tensors(case.reference)


@pytest.mark.torch
def test_safetensors_reads_floats_narrower_than_a_byte(cases: dict[str, TensorCase]) -> None:
    library = pytest.importorskip("safetensors")
    for dtype in ("F4", "F6_E2M3", "F6_E3M2"):
        case = cases[f"safetensors-i-{dtype.lower().replace('_', '-')}"]
        assert case.checkpoint is not None
        assert case.reference is not None
        ((name, entry),) = library.deserialize(case.checkpoint.read_bytes())
        expected = read_reference(case)[name]
        raw = case.reference.read_bytes()[expected.offset : expected.offset + expected.nbytes]
        assert (entry["dtype"], tuple(entry["shape"])) == (expected.dtype.name, expected.shape)
        assert bytes(entry["data"]) == raw


@pytest.mark.parametrize("group", ["pth", "safetensors", "gguf"])
def test_values_are_not_all_alike(group: str, cases: dict[str, TensorCase]) -> None:
    """A broken reader would find all zeros, or all of one value, by chance."""
    for case in of(cases, group, "load", "either"):
        for name, tensor in read_reference(case).items():
            values = tensor.read_array().reshape(-1)
            if len(values) > 3 and "specials" not in case.id:
                assert len(np.unique(values.view("u1"))) > 1, (case.id, name)


# --- pinning -----------------------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.process
class TestPin:
    def test_a_reader_that_loads_what_it_must_reject_is_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        good = next(case for case in zoo.CASES if case.id == "safetensors-y-scalar")
        wrong = ZooCase("safetensors-n-lie", good.build, "why", "rule")
        monkeypatch.setattr(zoo, "CASES", [wrong])
        with pytest.raises(ReferenceSuspectError, match="must be rejected by every reader"):
            zoo.pin(tmp_path)

    def test_a_case_that_no_reader_loads_is_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wrong = ZooCase("safetensors-y-lie", lambda: b"", "why", "rule", expected={})
        monkeypatch.setattr(zoo, "CASES", [wrong])
        with pytest.raises(ReferenceSuspectError, match="must be loaded, but no reader loads it"):
            zoo.pin(tmp_path)


#: Of the first, only the size is a reason to reject it; the second is the warning `format-rule`.
_READ_HERE = {"pth-n-expanded-huge", "gguf-n-name-65"}


@pytest.mark.process
def test_the_own_strict_reader_rejects_what_must_be_rejected(tmp_path: Path) -> None:
    """It reads what ports write: what no other reader loads must not pass there."""
    files = {}
    for case in zoo.CASES:
        if case.expect == "refuse":
            files[case.id] = tmp_path / f"{case.id}.{case.group}"
            files[case.id].write_bytes(case.content)
    found = readers.read_files("parity", files)
    assert {name for name, one in found.items() if one.outcome != "refused"} == _READ_HERE
