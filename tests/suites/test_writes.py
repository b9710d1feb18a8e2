"""Files that a port must write: what passes, what each wrong file is told, and bad input."""

from __future__ import annotations

import json
import os
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest_regressions.file_regression import FileRegressionFixture

from parity.errors import ConfigError
from parity.lab import writers
from parity.lab.faults.written_faults import list_written_faults
from parity.lab.views.tensors import view
from parity.lab.zoo import pth_builder
from parity.lab.zoo.case import ExpectedTensor
from parity.lab.zoo.gguf_blocks import find_block_size, find_type_code
from parity.lab.zoo.gguf_builder import TensorInfo
from parity.lab.zoo.safetensors_builder import build_file
from parity.suites.base import Case, Dump, DumpComparison
from parity.suites.tensors import suite
from tests.support.tensors import format_findings, list_findings, write_files

W = np.arange(6, dtype="<f4").reshape(2, 3)
TENSORS = {
    "half": ExpectedTensor("F16", (5,), np.array([1, -2, 0.5, 65504, 3], "<f2").tobytes()),
    "w": ExpectedTensor("F32", (2, 3), (W / 3).astype("<f4").tobytes()),
    "z": ExpectedTensor("F32", (3, 2), (W * W / 7 - 1).astype("<f4").tobytes()),
}
METADATA = {"general.architecture": "test", "a.count": "uint32 7"}
FORMS = ("gguf", "npy", "pth", "safetensors")


def make_case(folder: Path, writes: Mapping[str, str], tensors: Any = None, **entry: Any) -> Case:
    """Make a bundle whose only case has ``tensors``, or ``TENSORS``, for reference."""
    content = build_file(tensors or TENSORS, METADATA)
    files = {"a/reference.safetensors": content, **entry.pop("files", {})}
    described = {"reference": "reference.safetensors", "writes": dict(writes), **entry}
    manifest = {"schema": 2, "cases": {"a": described}}
    write_files(folder, {**files, "parity.json": json.dumps(manifest).encode()})
    (case,) = suite.read_cases(folder, {})
    return case


def make_form_case(folder: Path, form: str) -> Case:
    if form == "npy":
        return make_case(folder, {"w.npy": "npy"}, {"w": TENSORS["w"]})
    return make_case(folder, {f"out.{form}": form}, metadata=True)


def compare(case: Case, folder: Path) -> DumpComparison:
    return suite.verify(case, Dump(folder=folder), dict(case.tolerances))


@pytest.mark.parametrize("form", FORMS)
def test_a_right_file_passes_without_a_word(form: str, tmp_path: Path) -> None:
    case = make_form_case(tmp_path / "bundle", form)
    dump = tmp_path / "dump"
    dump.mkdir()
    writers.write_right(case.detail, dump)
    outcome = compare(case, dump)
    assert list_findings(outcome) == []
    assert outcome.compared == (6 if form == "npy" else 17)


@pytest.mark.parametrize("form", FORMS)
def test_each_fault_is_reported_in_these_words(
    form: str, tmp_path: Path, file_regression: FileRegressionFixture
) -> None:
    case, text = make_form_case(tmp_path / "bundle", form), ""
    dump = tmp_path / "dump"
    for fault in list_written_faults(case.detail, writers.list_contents(case.detail)):
        dump.mkdir()
        writers.write_right(case.detail, dump)
        fault.inject(dump)
        outcome = compare(case, dump)
        levels = {found.level for found in outcome.findings}
        assert ("warning" if fault.warns else "error") in levels, fault.name
        causes = {found.measures.get("cause_code") for found in outcome.findings}
        assert ({found.code for found in outcome.findings} | causes) & {*fault.codes}, fault.name
        text += f"--- {fault.name}: {fault.text}\n{format_findings(outcome)}"
        _remove(dump)
    file_regression.check(text, extension=".golden", encoding="utf-8")


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def build_gguf(kind: str, **metadata: str) -> bytes:
    """Build a file with ``w`` in two blocks of a type."""
    elements, size = find_block_size(kind)
    data = bytes(2 * size)
    info = TensorInfo(name="w", dims=(elements, 2), kind=find_type_code(kind), data=data)
    keys = {"general.architecture": "test", "general.quantization_version": "uint32 2"}
    return writers.build_gguf([info], keys | metadata)


def test_blocks_are_decoded_and_their_type_is_compared(tmp_path: Path) -> None:
    zeros = ExpectedTensor("F32", (2, 32), bytes(256))
    meta = json.dumps({"tensors": {"w": {"type": "Q8_0"}}}).encode()
    case = make_case(tmp_path / "b", {"o.gguf": "gguf"}, {"w": zeros}, files={"a/meta.json": meta})
    right = write_files(tmp_path / "right", {"o.gguf": build_gguf("Q8_0")})
    assert list_findings(compare(case, right)) == []
    wrong = write_files(tmp_path / "wrong", {"o.gguf": build_gguf("Q4_0")})
    message = "w is Q4_0 in o.gguf, expected Q8_0"
    assert list_findings(compare(case, wrong))[0] == ("error", "dtype", message)
    plain = make_case(tmp_path / "plain", {"o.gguf": "gguf"}, {"w": zeros})
    message = "w is Q8_0 in o.gguf, expected F32"
    assert list_findings(compare(plain, right)) == [("error", "dtype", message)]


def test_a_type_without_a_decoder_is_not_verified(tmp_path: Path) -> None:
    zeros = ExpectedTensor("F32", (2, 256), bytes(2048))
    case = make_case(tmp_path / "b", {"o.gguf": "gguf"}, {"w": zeros})
    dump = write_files(tmp_path / "dump", {"o.gguf": build_gguf("IQ2_XXS")})
    (first, _second) = list_findings(compare(case, dump))
    message = "w in o.gguf was not verified: it has the type IQ2_XXS, which has no decoder here"
    assert first == ("error", "not-verified", message)


@pytest.mark.parametrize(("dims", "row"), [((), 1), ((16, 2), 16)])
def test_rows_of_a_quantised_type_are_whole_blocks(
    dims: tuple[int, ...], row: int, tmp_path: Path
) -> None:
    zeros = ExpectedTensor("F32", dims[::-1], bytes(4 * int(np.prod(dims))))
    case = make_case(tmp_path / "b", {"o.gguf": "gguf"}, {"w": zeros})
    info = TensorInfo(name="w", dims=dims, kind=find_type_code("Q8_0"), data=bytes(34))
    keys = {"general.architecture": "test", "general.quantization_version": "uint32 2"}
    dump = write_files(tmp_path / "dump", {"o.gguf": writers.build_gguf([info], keys)})
    message = f"w in o.gguf was not verified: it has rows of {row}, no whole blocks of Q8_0"
    assert list_findings(compare(case, dump))[0] == ("error", "not-verified", message)


def test_views_of_one_storage_are_read_as_they_are(tmp_path: Path) -> None:
    """A transposed view, one of every other element, and one at an offset."""
    whole = ExpectedTensor("F32", (6,), W.tobytes())
    views = {"t": (0, (3, 2), (1, 3)), "s": (0, (3,), (2,)), "o": (2, (2, 2), (2, 1))}
    pairs = [
        (name, writers.push_view("0", whole, offset=first, size=size, stride=stride))
        for name, (first, size, stride) in views.items()
    ]
    members = {
        "archive/data.pkl": pth_builder.build_pickle(pth_builder.push_dict(*pairs)),
        "archive/byteorder": b"little",
        "archive/data/0": whole.raw,
        "archive/version": b"3\n",
    }
    expected = {
        "t": ExpectedTensor("F32", (3, 2), W.T.tobytes()),
        "s": ExpectedTensor("F32", (3,), W.ravel()[::2].tobytes()),
        "o": ExpectedTensor("F32", (2, 2), W.ravel()[2:].tobytes()),
    }
    dump = write_files(tmp_path / "dump", {"o.pth": writers.build_zip(members.items())})
    case = make_case(tmp_path / "b", {"o.pth": "pth"}, expected)
    assert list_findings(compare(case, dump)) == []
    # A tolerance takes another path than an exact comparison, and `show` a third one.
    close = make_case(tmp_path / "c", {"o.pth": "pth"}, expected, tolerance={"max_abs": 1e-6})
    assert list_findings(compare(close, dump)) == []
    found = view(close, Dump(folder=dump), "t")
    assert found.obtained.tolist() == W.T.tolist()
    wrong = {**expected, "t": ExpectedTensor("F32", (3, 2), W.tobytes())}
    other = make_case(tmp_path / "d", {"o.pth": "pth"}, wrong)
    (finding,) = compare(other, dump).findings
    assert (finding.code, finding.tensor, finding.measures["cause_code"]) == (
        *("values", "t"),
        "transposed",
    )


def test_columns_of_an_npy_are_read_as_its_header_says(tmp_path: Path) -> None:
    """Exactly and with a tolerance, also of a tensor that is read in several chunks."""
    for number, shape in enumerate(((2, 3), (700, 3, 500))):
        array = np.arange(np.prod(shape), dtype="<f4").reshape(shape)
        tensor = ExpectedTensor("F32", shape, array.tobytes())
        columns = tensor._replace(raw=array.tobytes(order="F"))
        content = writers.build_npy({"": columns}, fortran_order=True)
        dump = write_files(tmp_path / f"dump{number}", {"w.npy": content})
        for rule in ("exact", {"max_abs": 1e-6}):
            bundle = tmp_path / f"{number}{rule == 'exact'}"
            case = make_case(bundle, {"w.npy": "npy"}, {"w": tensor}, tolerance=rule)
            assert list_findings(compare(case, dump)) == []
    wrong = write_files(tmp_path / "wrong", {"w.npy": writers.build_npy({"": columns})})
    (finding,) = compare(case, wrong).findings
    assert (finding.code, finding.tensor) == ("values", "w")


def test_only_named_files_are_read(tmp_path: Path) -> None:
    case = make_case(tmp_path / "b", {"w.npy": "npy"}, {"w": TENSORS["w"]})
    right = writers.build_npy({"w": TENSORS["w"]})
    dump = write_files(tmp_path / "dump", {"w.bin": W, "more/w.npy": right})
    missing, unread = list_findings(compare(case, dump))
    assert missing == ("error", "file-missing", "the port did not write w.npy")
    assert unread[:2] == ("warning", "file-unread")
    assert "w.bin, more/w.npy; of a case with `writes`" in unread[2]


def test_a_second_file_must_have_the_bytes_of_the_first(tmp_path: Path) -> None:
    writes = {"w.npy": "npy", "again/w.npy": "w.npy"}
    case = make_case(tmp_path / "b", writes, {"w": TENSORS["w"]})
    right = writers.build_npy({"w": TENSORS["w"]})
    message = "again/w.npy differs from w.npy, which must have the same bytes"
    wrong = [("error", "bytes-differ", message)]
    for content, expected in ((right, []), (right + b"\0", wrong)):
        dump = tmp_path / f"dump{len(content)}"
        write_files(dump, {"w.npy": right, "again/w.npy": content})
        assert list_findings(compare(case, dump)) == expected
    (dump / "again/w.npy").unlink()
    message = "the port did not write again/w.npy"
    assert list_findings(compare(case, dump)) == [("error", "file-missing", message)]


def test_two_files_share_tensors_or_have_one_twice(tmp_path: Path) -> None:
    names = ("a.safetensors", "b.safetensors")
    case = make_case(tmp_path / "b", dict.fromkeys(names, "safetensors"))
    parts = ({"half": TENSORS["half"]}, {"w": TENSORS["w"], "z": TENSORS["z"]})
    files = {name: build_file(part) for name, part in zip(names, parts, strict=True)}
    assert list_findings(compare(case, write_files(tmp_path / "right", files))) == []
    files["a.safetensors"] = build_file({"w": TENSORS["w"], **parts[0]})
    (found,) = compare(case, write_files(tmp_path / "wrong", files)).findings
    assert (found.level, found.code, found.tensor) == ("error", "tensor-twice", "w")


def test_an_index_names_the_file_of_each_tensor(tmp_path: Path) -> None:
    index = json.dumps({"weight_map": {"half": "a.safetensors", "w": "b.safetensors"}}).encode()
    names, name = ("m/a.safetensors", "m/b.safetensors"), "m/o.index.json"
    more = {"json": {name: "exact"}, "files": {f"a/{name}": index}}
    tensors = {key: TENSORS[key] for key in ("half", "w")}
    case = make_case(tmp_path / "b", dict.fromkeys(names, "safetensors"), tensors, **more)
    parts = [build_file({key: one}, METADATA) for key, one in tensors.items()]
    right = {**dict(zip(names, parts, strict=True)), name: index}
    assert list_findings(compare(case, write_files(tmp_path / "right", right))) == []
    wrong = {**dict(zip(names, parts[::-1], strict=True)), name: index}
    assert list_findings(compare(case, write_files(tmp_path / "wrong", wrong))) == [
        (
            "error",
            "json-value",
            f"{name} says that {one} is in '{other}.safetensors'; it is in m/{place}.safetensors",
        )
        for one, other, place in (("half", "a", "b"), ("w", "b", "a"))
    ]
    damaged = compare(case, write_files(tmp_path / "damaged", {**right, names[1]: b""}))
    assert [code for _, code, _ in list_findings(damaged)] == ["truncated"]
    lost = {**right, names[1]: build_file({}, METADATA)}
    text = f"{name} says that w is in 'b.safetensors'; it is in no file"
    findings = list_findings(compare(case, write_files(tmp_path / "lost", lost)))
    assert ("error", "json-value", text) in findings


def test_metadata_that_nothing_states_cannot_pass(tmp_path: Path) -> None:
    files = {"a/plain.safetensors": build_file(TENSORS)}
    more = {"files": files, "reference": "plain.safetensors", "metadata": True}
    case = make_case(tmp_path / "b", {"o.safetensors": "safetensors"}, **more)
    dump = write_files(tmp_path / "dump", {"o.safetensors": build_file(TENSORS)})
    message = "metadata is stated, and the reference has none"
    assert ("error", "metadata-changed", message) in list_findings(compare(case, dump))


# --- bad input -----------------------------------------------------------------------------


def _make_fifo(path: Path) -> None:
    os.mkfifo(path)


def _make_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"GGUF\x03\0\0\0" + b"\xff" * 16)
        file.truncate(2**38)


def _make_bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", bytes(2**26))
        file.writestr("archive/version", b"3\n")


def _make_overlap(path: Path) -> None:
    """Let twenty members of a zip be the same bytes."""
    raw = writers.build_zip([("archive/data.pkl", b"\x80\x02}."), ("archive/data/0", bytes(2**16))])
    start = raw.index(b"PK\x01\x02", 2**16)
    first = raw.index(b"PK\x01\x02", start + 4)
    last = raw.index(b"PK\x05\x06")
    entry, directory = raw[first:last], raw[start:last]
    for number in range(20):
        directory += entry.replace(b"data/0", f"data/{chr(ord('a') + number)}".encode())
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 22, 22, len(directory), start, 0)
    path.write_bytes(raw[:start] + directory + end)


def _make_laughs(path: Path) -> None:
    """Put a mapping a hundred times into the next one, seven times over."""
    pickle = b"\x80\x02}q\0"
    for level in range(7):
        pickle += b"}(" + b"".join(
            b"X\3\0\0\0" + f"{key:03}".encode() + b"h" + bytes([level]) for key in range(100)
        )
        pickle += b"uq" + bytes([level + 1])
    members = [("archive/data.pkl", pickle + b"."), ("archive/version", b"3\n")]
    path.write_bytes(writers.build_zip([*members, ("archive/byteorder", b"little")]))


def _make_list_laughs(path: Path) -> None:
    """Put a list twice into the next one, fifty times over."""
    pickle = b"\x80\x02}X\1\0\0\0w]q\0"
    pickle += b"".join(b"](h" + bytes([n, ord("h"), n]) + b"eq" + bytes([n + 1]) for n in range(50))
    members = [("archive/data.pkl", pickle + b"s."), ("archive/version", b"3\n")]
    path.write_bytes(writers.build_zip(members))


def _make_long_list(path: Path) -> None:
    """Put a text of 100,000 characters a thousand times into a list."""
    size = struct.pack("<I", 100_000)
    pickle = b"\x80\x02}X\1\0\0\0w](X" + size + b"a" * 100_000 + b"q\0" + b"h\0" * 999 + b"es."
    members = [("archive/data.pkl", pickle), ("archive/version", b"3\n")]
    path.write_bytes(writers.build_zip([*members, ("archive/byteorder", b"little")]))


BAD: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "a FIFO": ("o.npy", _make_fifo, "file-missing"),
    "a folder": ("o.gguf", Path.mkdir, "file-missing"),
    "a link to nowhere": ("o.pth", lambda path: path.symlink_to("nowhere"), "file-missing"),
    "an empty file": ("o.safetensors", Path.touch, "truncated"),
    "256 GB": ("o.gguf", _make_sparse, "bad-header"),
    "64 MB of zeros, compressed": ("o.pth", _make_bomb, "bad-header"),
    "members that overlap": ("o.pth", _make_overlap, "bad-header"),
    "lists in lists": ("o.pth", _make_list_laughs, "not-verified"),
    "a long text in a list": ("o.pth", _make_long_list, "not-verified"),
    "mappings in mappings": ("o.pth", _make_laughs, "not-verified"),
    "a header beyond the file": ("o.safetensors",
        lambda path: path.write_bytes(struct.pack("<Q", 2**40) + b"{}"), "bad-header"),
    "2^60 tensors": ("o.gguf",
        lambda path: path.write_bytes(struct.pack("<4sIQQ", b"GGUF", 3, 2**60, 0) + bytes(99)),
        "bad-header"),
    "a text of 2^62 bytes": ("o.gguf",
        lambda path: path.write_bytes(struct.pack("<4sIQQQ", b"GGUF", 3, 0, 1, 2**62)),
        "bad-header"),
    "an HTML page": ("o.npy", lambda path: path.write_bytes(b"<html>" * 9), "bad-header"),
    "torch's legacy form": ("o.pth", lambda path: path.write_bytes(
        b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}."), "not-verified"),
    "a pickle": ("o.pth", lambda path: path.write_bytes(b"\x80\x02}."), "bad-header"),
}  # fmt: skip


@pytest.mark.skipif(os.name == "nt", reason="no FIFOs")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_bounded_error(name: str, tmp_path: Path) -> None:
    file, make, code = BAD[name]
    case = make_case(tmp_path / "b", {file: Path(file).suffix[1:]})
    dump = tmp_path / "dump"
    dump.mkdir()
    make(dump / file)
    ((level, found, _),) = list_findings(compare(case, dump))
    assert (level, found) == ("error", code)


PROBLEMS: dict[str, Any] = {
    "another format": {"out.onnx": "onnx"},
    "no text": {"out.gguf": 1},
    "a file that is not written": {"out.gguf": "in.gguf"},
    "itself": {"out.gguf": "out.gguf"},
    "a path that leads out": {"../out.gguf": "gguf"},
    "a path of Windows": {"a\\out.gguf": "gguf"},
    "a list": ["out.gguf"],
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_an_invalid_entry_is_an_error_of_the_manifest(
    name: str, tmp_path: Path, file_regression: FileRegressionFixture
) -> None:
    write_files(tmp_path, {"a/reference.safetensors": build_file(TENSORS)})
    entry = {"reference": "reference.safetensors", "writes": PROBLEMS[name]}
    manifest = {"schema": 2, "cases": {"a": entry}}
    (tmp_path / "parity.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        suite.read_cases(tmp_path, {})
    text = "\n".join(problem.message for problem in caught.value.problems) + "\n"
    file_regression.check(text, extension=".golden", encoding="utf-8")
