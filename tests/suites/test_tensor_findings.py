"""Findings of the suites that compare named tensors: what once passed in silence."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parity.checkpoints import StorageLocation, blocks
from parity.errors import ReferenceSuspectError
from parity.lab.pins.tensors import pin
from parity.suites import batch_findings, tensor_names
from parity.suites.base import Dump
from parity.suites.bundle_files import find_unread
from parity.suites.tensor_findings import compare_tensors
from parity.suites.tensor_reference import TensorReference
from parity.suites.tensors import suite
from parity.tensors.bin import encode_tensor
from parity.tensors.dtypes import DTYPES
from parity.tensors.folder import MAX_DEPTH, list_tensors
from parity.tensors.stored import StoredTensor
from tests.support.blocks import make_random_blocks
from tests.support.tensors import (
    bf16,
    encode_safetensors,
    f32,
    list_findings,
    make_tensors_case,
    name_dtypes,
    verify_dump,
    write_files,
)

W = np.arange(6, dtype="<f4").reshape(2, 3)


def list_codes(outcome: Any) -> list[tuple[str, str, str | None]]:
    return [(f.level, f.code, f.tensor) for f in outcome.findings]


# --- subfolders and other files --------------------------------------------------------------


@pytest.mark.parametrize("name", ["grads/x", "a/b/c", "epoch_1/fc1.weight"])
@pytest.mark.parametrize("suffix", [".bin", ".npy"])
def test_a_tensor_in_a_subfolder_has_its_path_as_name(
    name: str, suffix: str, tmp_path: Path
) -> None:
    reference = {"y.bin": W, f"{name}{suffix}": W}
    assert verify_dump(tmp_path, reference, reference).compared == 12
    wrong = verify_dump(tmp_path, reference, reference | {f"{name}{suffix}": W * 99})
    assert list_codes(wrong) == [("error", "values", name)]
    assert list_codes(verify_dump(tmp_path, reference, {"y.bin": W})) == [
        ("error", "tensor-missing", name)
    ]


def test_tensors_of_a_safetensors_file_in_a_subfolder(tmp_path: Path) -> None:
    content = encode_safetensors(name_dtypes({"w": W}))
    reference = {"epoch_1/model.safetensors": content}
    assert list_codes(verify_dump(tmp_path, reference, {"epoch_1/w.bin": W})) == []
    wrong = verify_dump(tmp_path, reference, {"epoch_1/w.bin": W + 1})
    assert list_codes(wrong) == [("error", "values", "epoch_1/w")]


def test_a_reference_that_is_too_deep_is_suspect(tmp_path: Path) -> None:
    deep = "d/" * MAX_DEPTH
    contents = list_tensors(write_files(tmp_path / "a", {f"{deep}w.bin": W}))
    assert (list(contents.tensors), contents.unread) == ([f"{deep}w"], [])
    contents = list_tensors(write_files(tmp_path / "b", {"v.bin": W, f"d/{deep}w.bin": W}))
    assert list(contents.tensors) == ["v"]
    assert contents.list_problems() == [
        f"d/{deep} is more than {MAX_DEPTH} folders deep, which is not read"
    ]


def test_a_link_to_a_folder_is_not_followed(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "a", {"w.bin": W})
    (folder / "again").symlink_to(folder, target_is_directory=True)
    assert list(list_tensors(folder).tensors) == ["w"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("out.npz", "a NumPy archive; write one .npy per tensor"),
        ("sub/state.pth", "a torch file; write .safetensors"),
        ("log.TXT", "text"),
        ("core", ""),
        (".bin", "a suffix without a name; name the file after its tensor"),
        ("sub/.npy", "a suffix without a name; name the file after its tensor"),
    ],
)
def test_a_file_of_a_dump_that_is_not_read_is_named(name: str, kind: str, tmp_path: Path) -> None:
    outcome = verify_dump(tmp_path, {"w.bin": W}, {"w.bin": W, name: b"PK"})
    (finding,) = outcome.findings
    assert (finding.level, finding.code) == ("warning", "file-unread")
    assert f"not read: {name}{f' ({kind})' if kind else ''}; tensors are read" in finding.message


@pytest.mark.parametrize("name", ["outcome.json", "._w.bin"])
def test_files_that_are_no_result_are_not_named(name: str, tmp_path: Path) -> None:
    assert list_codes(verify_dump(tmp_path, {"w.bin": W}, {"w.bin": W, name: b"{}"})) == []


BUNDLE = {
    "parity.json": b'{"schema": 1, "cases": {"a": {"checkpoint": "m.pth", "inputs": ["in"]}}}',
    "README.md": b"",
    "LICENSE": b"",
    "provenance.json": b"{}",
    "a/meta.json": b"{}",
    "a/m.pth": b"",
    "a/in/x.txt": b"",
    "a/reference/w.bin": encode_tensor(W),
    "a/reference/grads/x.npy": W,
}


def test_every_file_of_a_bundle_is_read_by_a_case_or_describes_it(tmp_path: Path) -> None:
    tree = write_files(tmp_path / "b", BUNDLE)
    assert find_unread(tree, suite.SUITE, suite.read_cases(tree, {})) == []
    assert pin(tmp_path / "out", folder=tree).is_file()


@pytest.mark.parametrize("name", ["a/reference/w.npz", "a/expected/v.bin", "b/w.bin", "notes.md"])
def test_a_file_of_a_bundle_that_no_case_reads_is_named(name: str, tmp_path: Path) -> None:
    tree = write_files(tmp_path / "b", {**BUNDLE, name: b"\0"})
    (finding,) = find_unread(tree, suite.SUITE, suite.read_cases(tree, {}))
    assert (finding.level, finding.code) == ("warning", "file-unread")
    assert finding.message == (
        f"1 file of the bundle is read by no case, and so compared with nothing: {name}"
    )
    with pytest.raises(ReferenceSuspectError, match=f"with nothing: {name}; name them"):
        pin(tmp_path / "out", folder=tree)


def test_an_archive_of_the_folder_itself_is_explained(tmp_path: Path) -> None:
    write_files(tmp_path / "tree" / "n-v1", BUNDLE)
    with pytest.raises(ReferenceSuspectError) as caught:
        suite.read_cases(tmp_path / "tree", {})
    assert caught.value.problems[0].message == (
        "parity.json is missing; the archive contains only the folder 'n-v1', so that all is one "
        "folder too deep: pack its content (tar -C 'n-v1' -cf bundle.tar .)"
    )


# --- names -----------------------------------------------------------------------------------

NAMES = ("fc1.weight", "fc1.bias", "fc2.weight")
RENAMED = {
    "prefix": (lambda name: f"module.{name}", "have the prefix 'module.' in"),
    "suffix": (lambda name: f"{name}_0", "have the suffix '_0' in"),
    "separator": (lambda name: name.replace(".", "_"), "have '_' in place of '.' in"),
    "a separator of two characters": (lambda name: name.replace(".", "::"),
        "have '::' in place of '.' in"),
    "no separator": (lambda name: name.replace(".", ""), "have '' in place of '.' in"),
    "upper case": (str.upper, "are in upper case in"),
    "prefix and suffix": (lambda name: f"m.{name}.value",
        "have the prefix 'm.' and the suffix '.value' in"),
    "another prefix": (lambda name: name.replace("fc", "linear"),
        "have the prefix 'linear' in place of 'fc' in"),
    "first part lost": (lambda name: name.removeprefix("fc"), "lack the prefix 'fc' in"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "text"), RENAMED.values(), ids=RENAMED)
def test_names_changed_by_one_rule_are_one_finding(change: Any, text: str, tmp_path: Path) -> None:
    reference = {f"{name}.bin": W + number for number, name in enumerate(NAMES)}
    dump = {f"{change(name)}.bin": W + number for number, name in enumerate(NAMES)}
    outcome = verify_dump(tmp_path, reference, dump)
    assert list_codes(outcome) == [("error", "tensor-renamed", None)]
    assert outcome.findings[0].message.startswith(f"the names of 3 tensors {text} the dump: ")
    assert outcome.compared == 18
    dump[f"{change(NAMES[2])}.bin"] = W * 7
    assert list_codes(verify_dump(tmp_path, reference, dump)) == [
        ("error", "tensor-renamed", None),
        ("error", "values", NAMES[2]),
    ]


LAYERS = [f"{stack}.layer.{at}.w" for stack in ("encoder", "decoder") for at in range(3)]
SHIFTS: dict[str, tuple[list[str], int, str]] = {
    "counted from one": (LAYERS, 1, "have the index after 'layer.' 1 higher in"),
    "counted from zero": ([name.replace("2", "3") for name in LAYERS if "0" not in name], -1,
        "have the index after 'layer.' 1 lower in"),
    "two digits": ([f"h.{at}.w" for at in range(9, 12)], 1,
        "have the index after 'h.' 1 higher in"),
    "no common index": (LAYERS, 10, "have the index after 'layer.' 10 higher in"),
    "a sequence": (["0.w", "0.b", "1.w", "1.b"], 1, "have the first index 1 higher in"),
}  # fmt: skip


@pytest.mark.parametrize(("names", "step", "text"), SHIFTS.values(), ids=SHIFTS)
def test_an_index_that_is_shifted_is_one_finding(
    names: list[str], step: int, text: str, tmp_path: Path
) -> None:
    """Names that both sides have are compared under the shifted ones as well."""
    reference = {f"{name}.bin": W + number for number, name in enumerate(names)} | {"x.bin": W}
    shifted = [re.sub(r"\d+", lambda found: str(int(found[0]) + step), name) for name in names]
    dump = {f"{name}.bin": W + number for number, name in enumerate(shifted)} | {"x.bin": W}
    outcome = verify_dump(tmp_path, reference, dump)
    assert list_codes(outcome) == [("error", "tensor-renamed", None)]
    message = f"the names of {len(names)} tensors {text} the dump: "
    assert outcome.findings[0].message.startswith(message)
    dump[f"{shifted[-1]}.bin"] = W * 7
    assert list_codes(verify_dump(tmp_path, reference, dump))[0][1] == "tensor-renamed"


def test_layers_that_are_all_alike_are_not_shifted(tmp_path: Path) -> None:
    """The index says nothing where every layer has the same values: one is lost, one too many."""
    reference = {f"layer.{at}.w.bin": W for at in range(3)}
    dump = {f"layer.{at}.w.bin": W + (at == 3) for at in range(1, 4)}
    assert [code for _, code, _ in list_codes(verify_dump(tmp_path, reference, dump))] == [
        "tensor-missing",
        "tensor-extra",
    ]


def test_two_rules_are_two_findings(tmp_path: Path) -> None:
    """As where TensorFlow's names are kept: gamma for weight, beta for bias."""
    reference = {f"n{at}.{kind}.bin": W + at for at in range(3) for kind in ("weight", "bias")}
    change = {"weight": "gamma", "bias": "beta"}
    dump = {f"n{at}.{change[kind]}.bin": W + at for at in range(3) for kind in change}
    outcome = verify_dump(tmp_path, reference, dump)
    assert [f.message.partition(" the dump")[0] for f in outcome.findings] == [
        "the names of 3 tensors have 'beta' in place of 'bias' in",
        "the names of 3 tensors have 'gamma' in place of 'weight' in",
    ]
    assert outcome.compared == 36


def test_tensors_without_a_reference_follow_the_rule(tmp_path: Path) -> None:
    """A state dict's counters have no reference; under the same prefix they are no extra ones."""
    folder = write_files(tmp_path / "r", {"w.bin": W, "b.bin": W + 1})
    reference = TensorReference(
        tensors=list_tensors(folder).tensors,
        tolerances={"exact": 1.0},
        unreferenced={"steps": "int64"},
    )
    dump = write_files(tmp_path / "d", {f"module.{n}.bin": W for n in ("w", "b", "steps")})
    write_files(dump, {"module.b.bin": W + 1})
    outcome = compare_tensors(reference, list_tensors(dump))
    assert [code for level, code, _ in list_codes(outcome) if level == "error"] == [
        "tensor-renamed"
    ]


@pytest.mark.parametrize("name", ["out.npz", "sub/batch_0000.bin", "labels.npy"])
def test_a_file_that_a_loaders_dump_has_beside_its_batches_is_named(
    name: str, tmp_path: Path
) -> None:
    files = {"batch_0000.bin": W, "meta.json": b"{}", "outcome.json": b"{}"}
    assert batch_findings.check_names(write_files(tmp_path / "a", files)) == []
    (finding,) = batch_findings.check_names(write_files(tmp_path / "b", {**files, name: W}))
    assert (finding.level, finding.code) == ("warning", "file-unread")
    assert f"not read: {name}" in finding.message


def test_names_beside_the_rule_are_reported_as_before(tmp_path: Path) -> None:
    reference = {f"{name}.bin": W + number for number, name in enumerate(NAMES)}
    dump = {f"m.{name}.bin": W + number for number, name in enumerate(NAMES[:2])}
    assert list_codes(verify_dump(tmp_path, reference, {**dump, "v.bin": W})) == [
        ("error", "tensor-renamed", None),
        ("error", "tensor-missing", "fc2.weight"),
        ("error", "tensor-extra", "v"),
    ]


def test_other_values_under_a_longer_name_are_no_renaming(tmp_path: Path) -> None:
    outcome = verify_dump(tmp_path, {"w.bin": W}, {"new_w.bin": W * 3})
    assert [code for _, code, _ in list_codes(outcome)] == ["tensor-missing", "tensor-extra"]


def test_an_empty_name_is_quoted(tmp_path: Path) -> None:
    dump = encode_safetensors(name_dtypes({"w": W, "": W + 9}))
    outcome = verify_dump(tmp_path, {"w.bin": W}, {"d.safetensors": dump})
    assert list_findings(outcome) == [
        (
            "error",
            "tensor-extra",
            "'' (the empty name) is in the dump, the reference has no such tensor",
        )
    ]


# --- what a .bin cannot contain --------------------------------------------------------------

INTEGERS = {
    "I64": (np.array([0, 5, 2**24 + 1, -(2**24) - 1, 2**62, 2**62 + 1], "<i8"), 3),
    "I32": (np.array([7, 2**31 - 1, -(2**31)], "<i4"), 1),
    "U64": (np.array([2**63, 2**64 - 1, 2**64 - 2**40], "<u8"), 1),
    "U32": (np.array([2**24, 2**24 + 2, 2**32 - 1], "<u4"), 1),
    "I16": (np.array([-(2**15), 2**15 - 1], "<i2"), 0),
    "exact": (np.array([2**40, -(2**62), 3 << 30], "<i8"), 0),
}


@pytest.mark.parametrize(("values", "count"), INTEGERS.values(), ids=INTEGERS)
def test_integers_that_f32_cannot_represent_are_not_verified(
    values: NDArray[Any], count: int, tmp_path: Path
) -> None:
    for bounds in ({"exact": True}, {"max_abs": 0.5}):
        dump = {"ids.bin": values.astype("<f4")}
        outcome = verify_dump(tmp_path, {"ids.npy": values}, dump, bounds=bounds)
        errors = [f for f in outcome.findings if f.level == "error"]
        assert [(f.code, f.kind) for f in errors] == [("not-verified", "mismatch")] * bool(count)
        assert all(f": {count} of {len(values)} integers w" in f.message for f in errors)
    assert list_codes(verify_dump(tmp_path, {"ids.npy": values}, {"ids.npy": values})) == []


# --- dtypes that the checkpoint has ----------------------------------------------------------


def verify_typed(
    tmp_path: Path, stored: str, reference: NDArray[Any], name: str, content: Any
) -> Any:
    case = make_tensors_case(tmp_path / "b", {"w.bin": reference})
    meta = {"tensors": {"w": {"dtype": stored, "shape": list(reference.shape)}}}
    write_files(case.folder, {"meta.json": json.dumps(meta).encode()})
    dump = Dump(
        folder=write_files(tmp_path / f"d-{len(list(tmp_path.iterdir()))}", {name: content})
    )
    return suite.verify(case, dump, dict(case.tolerances))


def test_a_typed_dump_has_the_checkpoints_own_dtype(tmp_path: Path) -> None:
    wide = np.array([0.1, 1 / 3, -2.5])
    narrow = wide.astype("<f4")
    assert list_codes(verify_typed(tmp_path, "float64", narrow, "w.npy", wide)) == []
    assert list_codes(verify_typed(tmp_path, "float64", narrow, "w.bin", narrow)) == []
    outcome = verify_typed(tmp_path, "float64", narrow, "w.npy", narrow)
    (finding,) = list_findings(outcome)
    assert finding[:2] == ("error", "dtype")
    assert finding[2].startswith(
        "w is F32 in the .npy dump, expected F64; a port that has f32 alone"
    )
    assert list_codes(verify_typed(tmp_path, "float64", narrow, "w.npy", wide + 1)) == [
        ("error", "values", "w")
    ]
    half = f32(0.5, -2.0)
    assert list_codes(verify_typed(tmp_path, "float16", half, "w.npy", half.astype("<f2"))) == []
    assert list_codes(verify_typed(tmp_path, "float16", half, "w.npy", half)) == []
    outcome = verify_typed(tmp_path, "float32", half, "w.npy", half.astype("<f8"))
    assert list_codes(outcome) == [("error", "dtype", "w")]


def test_the_digits_beyond_f32_are_those_of_the_checkpoint(tmp_path: Path) -> None:
    wide = np.array([0.1, 1 / 3, -2.5])
    case = make_tensors_case(
        tmp_path / "b",
        {"w.bin": wide.astype("<f4"), "../m.safetensors": encode_safetensors({"w": ("F64", wide)})},
        checkpoint="m.safetensors",
    )
    span = [len((case.folder / "m.safetensors").read_bytes()) - wide.nbytes]
    span.append(span[0] + wide.nbytes)
    record = {"dtype": "F64", "shape": [3], "byte_range": span}
    write_files(case.folder, {"meta.json": json.dumps({"tensors": {"w": record}}).encode()})
    for name, values, codes in (
        ("right", wide, []),
        ("widened", wide.astype("<f4").astype("<f8"), [("error", "values", "w")]),
    ):
        dump = Dump(folder=write_files(tmp_path / name, {"w.npy": values}))
        assert list_codes(suite.verify(case, dump, {"exact": 1.0})) == codes


def test_elements_that_are_the_checkpoints_bytes_are_explained(tmp_path: Path) -> None:
    values = bf16(1.0, -2.5, 3.25, 0.5)
    content = encode_safetensors({"w": ("BF16", values)})
    case = make_tensors_case(
        tmp_path / "b",
        {"r.safetensors": content, "../m.safetensors": content},
        checkpoint="m.safetensors",
    )
    raw = np.frombuffer(values.tobytes(), np.uint8)
    for name, dump, text in (
        ("raw", raw.astype("<f4"), "; these are the raw bytes of BF16, which was not decoded"),
        ("half", raw.view("<f4"), "; these are the checkpoint's bytes of BF16, read as F32: half"),
        ("other", f32(9, 9), "; half the elements, as after reading a narrower dtype as F32"),
    ):
        folder = write_files(tmp_path / name, {"w.bin": dump})
        (finding,) = suite.verify(case, Dump(folder=folder), {"exact": 1.0}).findings
        assert (finding.code, text in finding.message) == ("shape", True), finding.message


def test_metadata_of_a_safetensors_file_that_a_dump_lacks_is_a_notice(tmp_path: Path) -> None:
    tensors = name_dtypes({"w": W})
    reference = {
        "r.safetensors": encode_safetensors(tensors, metadata={"format": "pt", "step": "3"})
    }
    assert list_codes(verify_dump(tmp_path, reference, {"w.bin": W})) == []
    kept = {"d.safetensors": encode_safetensors(tensors, metadata={"step": "3", "format": "pt"})}
    assert list_codes(verify_dump(tmp_path, reference, kept)) == []
    lost = {"d.safetensors": encode_safetensors(tensors, metadata={"step": "4"})}
    assert list_findings(verify_dump(tmp_path, reference, lost)) == [
        (
            "notice",
            "metadata-changed",
            (
                "d.safetensors lacks or changes 2 entries of __metadata__ in r.safetensors: "
                "format='pt', step='3'"
            ),
        )
    ]


# --- tolerances that cannot see --------------------------------------------------------------

SMALL = np.linspace(1e-6, 9e-6, 16).astype("<f4")
CLOSE = np.linspace(0.5, 1.0, 16).astype("<f4")
BLIND = {
    "zeros": (SMALL, {"max_abs": 1e-5}, "w: zeros would pass (the values are at most 9e-06)"),
    "constant": (CLOSE, {"max_abs": 0.25}, "w: a constant 0.75 would pass"),
    "constant, relative": (CLOSE, {"relative": 0.5}, "w: a constant 0.75 would pass"),
    "relative 1": (CLOSE, {"relative": 1.0}, "w: zeros would pass"),
    "max_abs, but relative": (SMALL, {"max_abs": 1e-5, "relative": 0.1}, ""),
    "max_abs, but cosine": (CLOSE, {"max_abs": 1.0, "cosine": 0.99}, ""),
    "seven elements": (CLOSE[:7], {"max_abs": 0.25}, ""),
    "a constant itself": (np.full(16, 0.5, "<f4"), {"max_abs": 0.25}, ""),
    "wide values": (np.linspace(-1, 1, 16).astype("<f4"), {"max_abs": 0.9}, ""),
    "few ulp": (SMALL, {"ulp": 4.0}, ""),
}


TURNS = np.exp(2j * np.pi * np.arange(16) / 16)
COMPLEX_BLIND = {
    "complex zeros": (TURNS * 1e-6, {"max_abs": 1e-5}, "w: zeros would pass"),
    "a circle around a number": (*(3 + 4j + 0.4 * TURNS, {"max_abs": 0.41}),
        "w: a constant 3+4j would pass (the values are at most 5.4 from 0)"),
    "a circle of which half is close": (3 + 4j + 0.4 * TURNS, {"max_abs": 0.39}, ""),
    "a triangle": (*(9j + np.repeat(TURNS[[0, 5, 11]], 3), {"max_abs": 1.05}), "w: a constant "),
    "three corners of a square": (*(np.repeat(TURNS[[0, 4, 8]], 3) + 5, {"max_abs": 1.05}),
        "w: a constant "),
    "relative": (3 + 4j + 0.4 * TURNS, {"relative": 0.1}, "w: a constant 2.98+3.97j would"),
    "but cosine": (0.5 + TURNS, {"max_abs": 1.1, "cosine": 0.99}, ""),
    "seven complex numbers": (3 + 0.4 * TURNS[:7], {"max_abs": 1.0}, ""),
    "one number itself": (np.full(16, 3 + 4j), {"max_abs": 1.0}, ""),
}  # fmt: skip


@pytest.mark.parametrize(("values", "bounds", "text"), COMPLEX_BLIND.values(), ids=COMPLEX_BLIND)
@pytest.mark.parametrize("code", ["<c8", "<c16"])
def test_a_complex_constant_that_would_pass_is_a_warning(
    values: NDArray[Any], bounds: dict[str, float], text: str, code: str, tmp_path: Path
) -> None:
    tensors = {"w.npy": values.astype(code)}
    outcome = verify_dump(tmp_path, tensors, tensors, bounds=bounds)
    found = [f.message for f in outcome.findings if f.code == "blind-bound"]
    assert [text in message for message in found] == [True] * bool(text), found


@pytest.mark.parametrize(("values", "bounds", "text"), BLIND.values(), ids=BLIND)
def test_a_tolerance_under_which_a_constant_would_pass_is_a_warning(
    values: NDArray[Any], bounds: dict[str, float], text: str, tmp_path: Path
) -> None:
    """It is the tolerance that is blind, so a dump that is right to the last bit hides nothing."""
    for obtained in (np.nextafter(values, np.float32(0)), values):
        outcome = verify_dump(tmp_path, {"w.bin": values}, {"w.bin": obtained}, bounds=bounds)
        found = [f for f in outcome.findings if f.code == "blind-bound"]
        assert [(f.level, text in f.message) for f in found] == [("warning", True)] * bool(text)


def test_a_blind_tolerance_is_pinned_only_with_its_reason(tmp_path: Path) -> None:
    entry: dict[str, Any] = {"bounds": {"max_abs": 1e-3}}
    tree = write_files(tmp_path / "b", {"a/reference/w.bin": SMALL})
    for reason, level in (("", "warning"), ("values of a mask", "notice")):
        entry |= {"blind": reason} if reason else {}
        (tree / "parity.json").write_text(json.dumps({"schema": 1, "cases": {"a": entry}}))
        if reason:
            assert pin(tmp_path / "out", folder=tree).is_file()
        else:
            with pytest.raises(ReferenceSuspectError, match=r"zeros would pass .* `blind` with a"):
                pin(tmp_path / "out", folder=tree)
        (case,) = suite.read_cases(tree, {})
        dump = Dump(folder=write_files(tmp_path / f"d-{level}", {"w.bin": SMALL * 2}))
        (finding,) = suite.verify(case, dump, dict(case.tolerances)).findings
        assert (finding.level, finding.code) == (level, "blind-bound")
        assert reason in finding.message


def test_ulp_of_complex_numbers_is_not_pinned(tmp_path: Path) -> None:
    tree = write_files(tmp_path / "b", {"a/reference/z.npy": np.array([1 + 2j], "<c8")})
    case = {"bounds": {"ulp": 4}}
    (tree / "parity.json").write_text(json.dumps({"schema": 1, "cases": {"a": case}}))
    with pytest.raises(ReferenceSuspectError, match="`ulp` is not defined for complex numbers"):
        pin(tmp_path / "out", folder=tree)


def test_a_small_tensor_whose_cosine_is_excused_says_so(tmp_path: Path) -> None:
    bounds = {"max_abs": 1e-3, "cosine": 0.9}
    outcome = verify_dump(tmp_path, {"w.bin": SMALL}, {"w.bin": -SMALL}, bounds=bounds)
    assert [(level, code) for level, code, _ in list_codes(outcome)] == [
        ("notice", "cosine-excused"),
        ("warning", "blind-bound"),
    ]
    lost = np.full(64, 5e-4, "<f4")
    outcome = verify_dump(tmp_path, {"w.bin": lost}, {"w.bin": lost * 0}, bounds=bounds)
    assert list_codes(outcome) == [("error", "cosine", "w")]


@pytest.mark.parametrize("mistake", ["sub-scales-4-bit", "nibbles-interleaved"])
def test_a_known_wrong_decoder_is_an_error_within_the_tolerance(
    mistake: str, tmp_path: Path
) -> None:
    raw = make_random_blocks("Q4_K", 2)
    raw[:, :4] = np.array([1e-7, 1e-7], "<f2").view(np.uint8)
    (wrong,) = (m for m in blocks.list_mistakes("Q4_K") if m.name == mistake)
    right, obtained = (
        decode.reshape(-1) for decode in (blocks.decode("Q4_K", raw), wrong.decoder(raw))
    )
    case = make_tensors_case(
        tmp_path / "b",
        {"w.bin": right, "../m.gguf": raw.tobytes()},
        checkpoint="m.gguf",
        bounds={"max_abs": 1e-3},
    )
    record = {"type": "Q4_K", "dims": [512], "byte_range": [0, raw.size]}
    write_files(case.folder, {"meta.json": json.dumps({"tensors": {"w": record}}).encode()})
    for name, values, codes in (
        ("right", right, []),
        ("wrong", obtained, [("error", "wrong-decoder", "w")]),
        ("rounded", np.nextafter(obtained, np.float32(1)), [("warning", "blind-bound", "w")]),
    ):
        dump = Dump(folder=write_files(tmp_path / name, {"w.bin": values}))
        outcome = suite.verify(case, dump, {"max_abs": 1e-3})
        assert list_codes(outcome) == codes
        assert all(f.cause for f in outcome.findings if f.level == "error")


BYTES_OF_REFERENCES = {
    "bytes of f32": (W, np.frombuffer(W.tobytes(), "u1"), "the raw bytes of F32, which"),
    "bytes of f32 as f32": (W, np.frombuffer(W.tobytes(), "u1").astype("<f4"), "raw bytes of F32"),
    "halves of f64": (W.astype("<f8") / 3, (W.astype("<f8") / 3).view("<f4"),
        "the bytes of F64, read"),
    "parts of complex numbers": ((W + 1j).astype("<c8"),
        (W + 1j).astype("<c8").view("<f4").reshape(2, 3, 2),
        "real and imaginary part are an axis of their own"),
}  # fmt: skip


@pytest.mark.parametrize("name", BYTES_OF_REFERENCES)
def test_elements_that_are_a_references_bytes_are_explained(name: str, tmp_path: Path) -> None:
    reference, dump, text = BYTES_OF_REFERENCES[name]
    outcome = verify_dump(tmp_path, {"w.npy": reference}, {"w.npy": dump})
    (finding,) = outcome.findings
    assert finding.code == "shape"
    assert text in finding.message


def test_a_tolerance_is_blind_beside_masked_elements_too(tmp_path: Path) -> None:
    masked = np.where(W > 3, -np.inf, W / 100 + 0.01).astype("<f4")
    zeros = np.where(W > 3, -np.inf, 0).astype("<f4")
    files = {"w.npy": masked}, {"w.npy": zeros}
    (finding,) = verify_dump(tmp_path, *files, bounds={"max_abs": 0.1}).findings
    assert finding.code == "blind-bound"
    assert "zeros would pass (the values are at most 0.04)" in finding.message


def test_steps_of_bfloat16_are_those_of_bfloat16(tmp_path: Path) -> None:
    values = encode_safetensors({"w": ("BF16", bf16(*np.arange(1, 2, 0.125)))})
    constant = encode_safetensors({"w": ("BF16", bf16(*[1.5] * 8))})
    files = {"w.safetensors": values}, {"w.safetensors": constant}
    findings = verify_dump(tmp_path, *files, bounds={"ulp": 70}).findings
    assert "blind-bound" in {finding.code for finding in findings}


TYPES = {
    "": {"w": "F32"},
    "; the checkpoint has it as F16": {"w": "F16"},
    "; the checkpoint has it as IQ4_NL (type 20)": {"w": "IQ4_NL", "u": "IQ4_NL", "z": "F32"},
    ", and the only tensor of that type is missing": {"w": "IQ4_NL", "v": "Q4_0"},
    ", and all 2 tensors of that type are missing": {"w": "IQ4_NL", "v": "IQ4_NL", "u": "F32"},
}


@pytest.mark.parametrize("end", TYPES)
def test_the_block_type_of_a_missing_tensor_is_named(end: str) -> None:
    suffix = ".safetensors" if "F16" in end else ".gguf"
    place = StorageLocation(path=Path(f"m{suffix}"), start=0, stop=4, type_name="", shape=(1,))
    locations = {name: replace(place, type_name=kind) for name, kind in TYPES[end].items()}
    stored = StoredTensor(Path("w.bin"), 0, DTYPES["F32"], (1,), ".bin")
    message = tensor_names._describe_place("w", {"w", "v"}, locations, stored)
    assert message.endswith(end)
    assert message == end or message.startswith("; the checkpoint has it as IQ4_NL (type 20), ")
