"""The reference readers: each runs in a process of its own, and one bad file costs no other."""

from __future__ import annotations

import json
import sys
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.bundle import manifest
from parity.bundle import reader_record as record
from parity.errors import ReferenceSuspectError
from parity.lab import readers, zoo
from parity.lab.readers import ReaderResult, libraries
from parity.lab.readers.child import run_reader, write_tensors
from parity.tensors import safetensors

BUNDLE = Path(__file__).parents[2] / "bundles" / "checkpoint-zoo-v1.tar"

FAKE = """\
import os, time
def fake():
    def read(path):
        if 'crash' in path.name: os.abort()
        if 'leave' in path.name: os._exit(3)
        if 'hang' in path.name: time.sleep(60)
        if 'eat' in path.name: bytearray(4 << 30)
        if 'bad' in path.name: raise ValueError('no\\nmore')
        print('{"noise": of a library')
        return lambda: {'w': ('U8', (1,), b'7')}
    return read
READERS['fake'] = fake
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a reader that does what a file's name says."""
    body = Path(readers.__file__).with_name("child.py").read_text(encoding="utf-8")
    start = body.index("if __name__")
    child = tmp_path / "child.py"
    child.write_text(body[:start] + FAKE + body[start:], encoding="utf-8")
    monkeypatch.setattr(readers, "_CHILD", child)
    monkeypatch.setattr(readers, "SECONDS", 1.0)


def named(folder: Path, *names: str) -> dict[str, Path]:
    folder.mkdir()
    return {name: folder / name for name in names}


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.usefixtures("fake")
@pytest.mark.skipif(sys.platform != "linux", reason="signals, and a limit of memory that holds")
def test_a_file_that_ends_its_reader_costs_no_other(tmp_path: Path) -> None:
    files = named(
        tmp_path / "files", "a-good", "b-crash", "c-bad", "d-hang", "e-eat", "f-leave", "g-good"
    )
    out = tmp_path / "out"
    out.mkdir()

    results = readers.read_files("fake", files, out)

    assert results == {
        "a-good": ReaderResult("loaded"),
        "b-crash": ReaderResult("crashed", "SIGABRT"),
        "c-bad": ReaderResult("refused", "ValueError: no"),
        "d-hang": ReaderResult("limit", "time"),
        "e-eat": ReaderResult("limit", "memory"),
        "f-leave": ReaderResult("crashed"),
        "g-good": ReaderResult("loaded"),
    }
    assert {path.name for path in out.iterdir()} == {"a-good", "g-good"}
    assert safetensors.locate_tensors(out / "g-good" / "dump.safetensors")[
        "w"
    ].read_array().tolist() == [55]


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.usefixtures("fake")
@pytest.mark.skipif(sys.platform != "linux", reason="files are read in a fork")
def test_one_process_reads_all_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[object] = []
    run = readers.process.run
    monkeypatch.setattr(
        readers.process, "run", lambda *args, **words: (starts.append(args), run(*args, **words))[1]
    )
    with closing(readers.Reader("fake")) as reader:
        for number in range(3):
            files = named(tmp_path / str(number), "a-good", "b-hang", "c-crash", "d-good")
            results = reader.read_files(files)
            assert [one.outcome for one in results.values()] == [
                "loaded",
                "limit",
                "crashed",
                "loaded",
            ]
    assert len(starts) == 1


@pytest.mark.process
def test_a_reader_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the reader no-such did not start"):
        readers.read_files("no-such", {"a": tmp_path})


def test_no_file_starts_no_process() -> None:
    assert readers.read_files("torch", {}) == {}


def raising(error: Exception) -> Any:
    def read(_path: Path) -> Any:
        raise error

    return read


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("bad\nmore"), ("refused", "ValueError: bad")),
        (ValueError(), ("refused", "ValueError: ")),
        (MemoryError(), ("limit", "memory")),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), ("limit", "memory")),
        (RuntimeError("memory format unknown"), ("refused", "RuntimeError: memory format unknown")),
        (KeyError("x" * 300), ("refused", f"KeyError: '{'x' * 189}")),
    ],
)
def test_errors_are_classified(error: Exception, expected: tuple[str, str]) -> None:
    assert run_reader(raising(error), Path(), None) == expected


def test_tensors_that_cannot_be_made_are_not_a_rejection(tmp_path: Path) -> None:
    result = run_reader(lambda _path: raising(KeyError("dtype")), Path(), tmp_path / "x")  # type: ignore[arg-type,return-value]
    assert result[0] == "loaded"
    assert result[1].startswith("TypeError: ")
    assert not (tmp_path / "x").exists()


def test_written_tensors_are_read_back(tmp_path: Path) -> None:
    two = np.array([[1.5, -2.0]], np.float32)
    write_tensors({"ä\0": ("F32", (1, 2), two.tobytes()), "": ("I8", (), b"\xff")}, tmp_path / "a")

    found = safetensors.locate_tensors(tmp_path / "a" / "dump.safetensors")

    assert {name: one.read_array().tolist() for name, one in found.items()} == {
        "ä\0": [[1.5, -2.0]],
        "": -1,
    }


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.process  # importing torch asks the system for its name
def test_cycles_and_deep_dicts_end() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(2)
    state: dict[str, Any] = {"w": tensor, "in": {"b": tensor}}
    state["again"] = state
    deep: dict[str, Any] = {"w": tensor}
    for _ in range(5000):
        deep = {"d": deep}
    state["deep"] = deep

    assert [name for name, _ in libraries._walk_tensors(state, "", ())] == ["w", "in.b"]


@pytest.mark.torch
@pytest.mark.process
def test_tensors_in_a_list_are_not_left_out() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(2)
    for nested in ([tensor], ("text", tensor)):
        with pytest.raises(TypeError, match="a lists tensors"):
            list(libraries._walk_tensors({"w": tensor, "a": nested}, "", ()))
    assert len(list(libraries._walk_tensors({"w": tensor, "a": [1, ()]}, "", ()))) == 1


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.process
def test_a_view_too_large_to_dump_costs_no_memory(tmp_path: Path) -> None:
    (case,) = [one for one in zoo.CASES if one.id == "pth-n-expanded-huge"]
    path = tmp_path / case.id
    path.write_bytes(case.content)
    out = tmp_path / "out"
    out.mkdir()

    result = readers.read_files("torch", {case.id: path}, out)[case.id]

    assert result.outcome == "loaded"
    assert result.reason.startswith("RuntimeError: ")
    assert list(out.iterdir()) == []


RECORD = {
    "versions": {"torch": "2.1.0"},
    "limits": {"seconds": 5.0},
    "against": ["a"],
    "cases": {"a": {"torch": "refused", "torch-full": "loaded"}},
}


def test_the_record_of_a_bundle_is_read(tmp_path: Path) -> None:
    assert record.read_record(tmp_path) == record.ReaderRecord()
    (tmp_path / record.RECORD_NAME).write_text(json.dumps(RECORD))

    found = record.read_record(tmp_path)

    assert found.versions == {"torch": "2.1.0"}
    assert found.outcomes["a"] == {"torch": "refused", "torch-full": "loaded"}
    assert found.disputed == {"a"}


@pytest.mark.parametrize(
    "change",
    [
        {"versions": ["torch"]},
        {"versions": {"torch": 2}},
        {"cases": []},
        {"cases": {"a": "loaded"}},
        {"cases": {"a": {"torch": None}}},
        {"against": "a"},
        {"against": [1]},
    ],
    ids=str,
)
def test_a_malformed_record_is_suspect(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / record.RECORD_NAME).write_text(json.dumps(RECORD | change))
    with pytest.raises(ReferenceSuspectError, match="is not a record of the readers' outcomes"):
        record.read_record(tmp_path)


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("reader", ["safetensors", "gguf-py"])
def test_the_outcomes_are_those_that_the_zoo_records(tmp_path: Path, reader: str) -> None:
    with tarfile.open(BUNDLE) as tar:
        tar.extractall(tmp_path / "zoo", filter="data")
    group = "gguf" if reader == "gguf-py" else reader
    slow = "gguf-n-array-2-31"  # it runs until its time limit
    cases = [one for one in manifest.read_manifest(tmp_path / "zoo").cases if one.group == group]
    files = {one.id: one.checkpoint for one in cases if one.checkpoint and one.id != slow}

    results = readers.read_files(reader, files)

    recorded = record.read_record(tmp_path / "zoo")
    assert {name: one.outcome for name, one in results.items()} == {
        name: recorded.outcomes[name][reader] for name in files
    }
