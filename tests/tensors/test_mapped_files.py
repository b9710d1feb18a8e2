"""Bytes of a file stay as they were read, whatever another process does to the file."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

import parity
from parity.tensors import stored

PACKAGE = Path(parity.__file__).parent


@pytest.mark.parametrize("limit", [0, 2**20])
def test_a_file_that_is_cut_short_is_still_whole(
    limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "_MAX_READ", limit or 1000)
    path = tmp_path / "w.bin"
    path.write_bytes(bytes(range(256)) * 64)
    found = stored.map_file(path)
    os.truncate(path, 0)  # a map of the file itself would now end this process with SIGBUS
    assert found.tobytes() == bytes(range(256)) * 64


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "w.bin"
    path.write_bytes(b"one")
    assert stored.map_file(path).tobytes() == b"one"
    path.write_bytes(b"other")
    assert stored.map_file(path).tobytes() == b"other"


def test_an_empty_file_has_no_bytes(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert stored.map_file(tmp_path / "empty").size == 0


def test_no_other_module_maps_a_file() -> None:
    names = {"mmap", "memmap", "mmap_mode"}
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        # What authors of bundles run reads their own files, in processes of its own.
        if "lab" in path.parts or path.name == "stored.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            name = getattr(called, "attr", getattr(called, "id", ""))
            keywords = {one.arg for one in node.keywords} if isinstance(node, ast.Call) else set()
            if name in names or keywords & names:
                found.append(path.name)
    assert found == []
