"""Findings of the suites that compare named tensors: what once passed in silence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
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
    format_findings,
    list_findings,
    make_tensors_case,
    name_dtypes,
    verify_dump,
    write_files,
)

W = np.arange(6, dtype="<f4").reshape(2, 3)


def list_codes(outcome: Any) -> list[tuple[str, str, str | None]]:
    return [(f.level, f.code, f.tensor) for f in outcome.findings]


def test_threads_leave_no_trace_in_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passing and failing tensors of floats and integers, and one that is NaN."""
    reference, dump = {}, {}
    for number in range(12):
        values = np.arange(50_000, dtype="<f4" if number % 3 else "<i4")
        wrong = values.copy()
        if number % 2:
            wrong[number:] += wrong.dtype.type(number)
        if number == 4:
            wrong[7] = np.nan
        reference[f"t{number}.npy"], dump[f"t{number}.npy"] = values, wrong
    monkeypatch.setattr("parity.tensors.compare._RUN_BYTES", 400_000)
    shared = verify_dump(tmp_path, reference, dump)
    monkeypatch.setattr("parity.suites.tensor_findings.compare_shared", lambda _tasks: {})
    alone = verify_dump(tmp_path, reference, dump)
    assert len(shared.findings) == 7
    assert repr(shared) == repr(alone)


# --- subfolders and other files --------------------------------------------------------------


NAMES = ("fc1.weight", "fc1.bias", "fc2.weight")
#: How the names of a dump differ, each by one rule.
RENAMED: dict[str, Callable[[str], str]] = {
    "prefix": lambda name: f"module.{name}",
    "suffix": lambda name: f"{name}_0",
    "separator": lambda name: name.replace(".", "_"),
    "a separator of two characters": lambda name: name.replace(".", "::"),
    "no separator": lambda name: name.replace(".", ""),
    "upper case": str.upper,
    "prefix and suffix": lambda name: f"m.{name}.value",
    "another prefix": lambda name: name.replace("fc", "linear"),
    "first part lost": lambda name: name.removeprefix("fc"),
}
LAYERS = [f"{stack}.layer.{at}.w" for stack in ("encoder", "decoder") for at in range(3)]
#: Names with an index, and by how much a dump's is shifted.
SHIFTS: dict[str, tuple[list[str], int]] = {
    "counted from one": (LAYERS, 1),
    "counted from zero": ([name.replace("2", "3") for name in LAYERS if "0" not in name], -1),
    "two digits": ([f"h.{at}.w" for at in range(9, 12)], 1),
    "no common index": (LAYERS, 10),
    "a sequence": (["0.w", "0.b", "1.w", "1.b"], 1),
}
INTEGERS = {
    "I64": np.array([0, 5, 2**24 + 1, -(2**24) - 1, 2**62, 2**62 + 1], "<i8"),
    "I32": np.array([7, 2**31 - 1, -(2**31)], "<i4"),
    "U64": np.array([2**63, 2**64 - 1, 2**64 - 2**40], "<u8"),
    "U32": np.array([2**24, 2**24 + 2, 2**32 - 1], "<u4"),
    "I16": np.array([-(2**15), 2**15 - 1], "<i2"),
    "exact": np.array([2**40, -(2**62), 3 << 30], "<i8"),
}
SMALL = np.linspace(1e-6, 9e-6, 16).astype("<f4")
CLOSE = np.linspace(0.5, 1.0, 16).astype("<f4")
TURNS = np.exp(2j * np.pi * np.arange(16) / 16)
LOST = np.full(64, 5e-4, "<f4")
#: Values, and a tolerance under which another constant may pass for them.
BLIND: dict[str, tuple[NDArray[Any], dict[str, float]]] = {
    "zeros": (SMALL, {"max_abs": 1e-5}),
    "constant": (CLOSE, {"max_abs": 0.25}),
    "constant, relative": (CLOSE, {"relative": 0.5}),
    "relative 1": (CLOSE, {"relative": 1.0}),
    "max_abs, but relative": (SMALL, {"max_abs": 1e-5, "relative": 0.1}),
    "max_abs, but cosine": (CLOSE, {"max_abs": 1.0, "cosine": 0.99}),
    "seven elements": (CLOSE[:7], {"max_abs": 0.25}),
    "a constant itself": (np.full(16, 0.5, "<f4"), {"max_abs": 0.25}),
    "wide values": (np.linspace(-1, 1, 16).astype("<f4"), {"max_abs": 0.9}),
    "few ulp": (SMALL, {"ulp": 4.0}),
    "complex zeros": (TURNS * 1e-6, {"max_abs": 1e-5}),
    "a circle around a number": (3 + 4j + 0.4 * TURNS, {"max_abs": 0.41}),
    "a circle of which half is close": (3 + 4j + 0.4 * TURNS, {"max_abs": 0.39}),
    "a triangle": (9j + np.repeat(TURNS[[0, 5, 11]], 3), {"max_abs": 1.05}),
    "three corners of a square": (np.repeat(TURNS[[0, 4, 8]], 3) + 5, {"max_abs": 1.05}),
    "complex, relative": (3 + 4j + 0.4 * TURNS, {"relative": 0.1}),
    "complex, but cosine": (0.5 + TURNS, {"max_abs": 1.1, "cosine": 0.99}),
    "seven complex numbers": (3 + 0.4 * TURNS[:7], {"max_abs": 1.0}),
    "one number itself": (np.full(16, 3 + 4j), {"max_abs": 1.0}),
}
MASKED = W > 3
#: Reference, dump, and keys of the case.
Row = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


def number(names: Iterable[str]) -> dict[str, Any]:
    """Return files of tensors that differ by a number each."""
    return {f"{name}.bin": W + at for at, name in enumerate(names)}


def shift_names(names: Iterable[str], step: int) -> list[str]:
    return [re.sub(r"\d+", lambda found: str(int(found[0]) + step), name) for name in names]


def write_metadata(**metadata: str) -> dict[str, Any]:
    return {"d.safetensors": encode_safetensors(name_dtypes({"w": W}), metadata=metadata)}


def list_path_rows() -> Iterator[tuple[str, Row]]:
    for name in ("grads/x", "a/b/c", "epoch_1/fc1.weight"):
        for suffix in (".bin", ".npy"):
            both = {"y.bin": W, f"{name}{suffix}": W}
            yield f"{name}{suffix}", (both, both, {})
            yield f"{name}{suffix}, wrong", (both, both | {f"{name}{suffix}": W * 99}, {})
            yield f"{name}{suffix}, missing", (both, {"y.bin": W}, {})
    content = encode_safetensors(name_dtypes({"w": W}))
    for text, by in (("", 0), (", wrong", 1)):
        files = {"epoch_1/m.safetensors": content}, {"epoch_1/w.bin": W + by}
        yield f"a subfolder with safetensors{text}", (*files, {})
    unread = ("out.npz", "sub/state.pth", "log.TXT", "core", ".bin", "sub/.npy")
    for name in (*unread, "outcome.json", "._w.bin"):
        yield f"beside {name}", ({"w.bin": W}, {"w.bin": W, name: b"PK"}, {})


def list_name_rows() -> Iterator[tuple[str, Row]]:
    for rule, change in RENAMED.items():
        names = [change(name) for name in NAMES]
        yield rule, (number(NAMES), number(names), {})
        wrong = number(names) | {f"{names[2]}.bin": W * 7}
        yield f"{rule}, one wrong", (number(NAMES), wrong, {})
    for rule, (before, step) in SHIFTS.items():
        # Names that both sides have are compared under the shifted ones as well.
        after, both = shift_names(before, step), {"x.bin": W}
        yield rule, (number(before) | both, number(after) | both, {})
        wrong = number(after) | both | {f"{after[-1]}.bin": W * 7}
        yield f"{rule}, one wrong", (number(before) | both, wrong, {})
    # The index says nothing where every layer has the same values: one is lost, one too many.
    alike = {f"layer.{at}.w.bin": W for at in range(3)}
    yield "layers alike", (alike, {f"layer.{at}.w.bin": W + (at == 3) for at in range(1, 4)}, {})
    # As where TensorFlow's names are kept: gamma for weight, beta for bias.
    right, wrong = (
        {f"n{at}.{kind}.bin": W + at for at in range(3) for kind in kinds}
        for kinds in (("weight", "bias"), ("gamma", "beta"))
    )
    yield "two rules", (right, wrong, {})
    two = number([f"m.{name}" for name in NAMES[:2]]) | {"v.bin": W}
    yield "names beside the rule", (number(NAMES), two, {})
    yield "other values under a longer name", ({"w.bin": W}, {"new_w.bin": W * 3}, {})
    empty = encode_safetensors(name_dtypes({"w": W, "": W + 9}))
    yield "an empty name", ({"w.bin": W}, {"d.safetensors": empty}, {})
    hidden = encode_safetensors(name_dtypes({"w": W, "\u200b": W + 9}))
    yield "an invisible name", ({"w.bin": W}, {"d.safetensors": hidden}, {})
    huge = {"w.npy": np.array([1e308, 1.0])}
    yield "a distance beyond all floats", (huge, {"w.npy": -huge["w.npy"]}, {})


def list_content_rows() -> Iterator[tuple[str, Row]]:
    for dtype, values in INTEGERS.items():
        for bounds in ({"exact": True}, {"max_abs": 0.5}):
            dump = {"ids.bin": values.astype("<f4")}
            yield f"{dtype} as f32 under {bounds}", ({"ids.npy": values}, dump, {"bounds": bounds})
        yield f"{dtype} as it is", ({"ids.npy": values}, {"ids.npy": values}, {})
    stated = write_metadata(format="pt", step="3")
    yield "metadata of no file", (stated, {"w.bin": W}, {})
    yield "metadata in another order", (stated, write_metadata(step="3", format="pt"), {})
    yield "metadata lost and changed", (stated, write_metadata(step="4"), {})
    raw, wide, pairs = (
        np.frombuffer(W.tobytes(), "u1"),
        W.astype("<f8") / 3,
        (W + 1j).astype("<c8"),
    )
    yield "bytes of f32", ({"w.npy": W}, {"w.npy": raw}, {})
    yield "bytes of f32 as f32", ({"w.npy": W}, {"w.npy": raw.astype("<f4")}, {})
    yield "halves of f64", ({"w.npy": wide}, {"w.npy": wide.view("<f4")}, {})
    parts = pairs.view("<f4").reshape(2, 3, 2)
    yield "parts of complex numbers", ({"w.npy": pairs}, {"w.npy": parts}, {})


def list_blind_rows() -> Iterator[tuple[str, Row]]:
    """List tolerances; a blind one is blind under a dump that is right to the last bit, too."""
    for text, (values, bounds) in BLIND.items():
        for code in ["<f4"] if values.dtype.kind == "f" else ["<c8", "<c16"]:
            files = {"w.npy": values.astype(code)}
            yield f"{text} {code}", (files, files, {"bounds": bounds})
    off = {"w.npy": np.nextafter(CLOSE, np.float32(0))}
    yield "constant, and off", ({"w.npy": CLOSE}, off, {"bounds": {"max_abs": 0.25}})
    cosine = {"bounds": {"max_abs": 1e-3, "cosine": 0.9}}
    yield "a cosine that is excused", ({"w.bin": SMALL}, {"w.bin": -SMALL}, cosine)
    yield "a cosine of a lost tensor", ({"w.bin": LOST}, {"w.bin": LOST * 0}, cosine)
    masked = {"w.npy": np.where(MASKED, -np.inf, W / 100 + 0.01).astype("<f4")}
    zeros = {"w.npy": np.where(MASKED, -np.inf, 0).astype("<f4")}
    yield "beside masked elements", (masked, zeros, {"bounds": {"max_abs": 0.1}})
    steps = {"w.safetensors": encode_safetensors({"w": ("BF16", bf16(*np.arange(1, 2, 0.125)))})}
    same = {"w.safetensors": encode_safetensors({"w": ("BF16", bf16(*[1.5] * 8))})}
    yield "steps of bfloat16", (steps, same, {"bounds": {"ulp": 70}})


ROWS = {
    "paths": list_path_rows,
    "names": list_name_rows,
    "contents": list_content_rows,
    "blind": list_blind_rows,
}


@pytest.mark.parametrize("kind", ROWS)
def test_each_dump_is_reported_in_these_words(
    kind: str, golden: Callable[..., None], tmp_path: Path
) -> None:
    text = ""
    for name, (reference, dump, entry) in ROWS[kind]():
        outcome = verify_dump(tmp_path, reference, dump, **entry)
        text += f"# {name}: {outcome.compared} compared\n{format_findings(outcome)}"
    golden(text)


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


@pytest.mark.parametrize(("place", "depth"), [("n-v1", "one folder"), ("a/b", "2 folders")])
@pytest.mark.parametrize("beside", [(), ("README.md", "__MACOSX/a/._b")])
def test_an_archive_of_the_folder_itself_is_explained(
    place: str, depth: str, beside: tuple[str, ...], tmp_path: Path
) -> None:
    write_files(tmp_path / "tree" / place, BUNDLE)
    write_files(tmp_path / "tree", dict.fromkeys(beside, b"x"))
    with pytest.raises(ReferenceSuspectError) as caught:
        suite.read_cases(tmp_path / "tree", {})
    assert caught.value.problems[0].message == (
        f"parity.json is missing; all cases are in the folder '{place}' of the archive, {depth} "
        f"too deep: pack its content (tar -C '{place}' -cf bundle.tar .)"
    )


# --- names -----------------------------------------------------------------------------------


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


# --- what a .bin cannot contain --------------------------------------------------------------

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
        ("signed", raw.view("i1").astype("<f4"), "; these are the raw bytes of BF16"),
        ("half", raw.view("<f4"), "; these are the checkpoint's bytes of BF16, read as F32: half"),
        ("other", f32(9, 9), "; half the elements, as after reading a narrower dtype as F32"),
    ):
        folder = write_files(tmp_path / name, {"w.bin": dump})
        (finding,) = suite.verify(case, Dump(folder=folder), {"exact": 1.0}).findings
        assert (finding.code, text in finding.message) == ("shape", True), finding.message


# --- tolerances that cannot see --------------------------------------------------------------


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
