"""The tensors of a folder: found by name, none lost, none guessed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from parity.codecs.files import tensors_in
from tests.support.tensors import f32, named, safetensors_bytes, write

if TYPE_CHECKING:
    from pathlib import Path

ONE = f32(1.0, 2.0)


def test_names_are_stems_or_keys(tmp_path: Path) -> None:
    many = named({"a/b": ONE, "": np.arange(3), "x" * 400: ONE.astype("<f2")})
    folder = write(
        tmp_path,
        {
            "conv1.weight.bin": ONE,
            "größe.npy": np.arange(4),
            f"{'n' * 240}.bin": ONE,
            ".bin": ONE,
            "m.safetensors": safetensors_bytes(many),
            "notes.txt": b"no tensor",
            "model.onnx": b"",
            "w.BIN": b"",
        },
    )
    (folder / "folder.bin").mkdir()
    found = tensors_in(folder)
    assert {name: tensor.dtype.name for name, tensor in found.tensors.items()} == {
        "conv1.weight": "F32",
        "größe": "I64",
        "n" * 240: "F32",
        "a/b": "F32",
        "": "I64",
        "x" * 400: "F16",
    }
    assert (found.broken, found.twice) == ({}, [])


def test_one_file_is_a_place_too(tmp_path: Path) -> None:
    write(tmp_path, {"m.safetensors": safetensors_bytes(named({"a": ONE})), "b.bin": ONE})
    assert list(tensors_in(tmp_path / "m.safetensors").tensors) == ["a"]
    assert list(tensors_in(tmp_path / "b.bin").tensors) == ["b"]


def test_what_macos_keeps_of_a_file_is_passed_over(tmp_path: Path) -> None:
    double = b"\x00\x05\x16\x07" + bytes(78)
    files = {"a.npy": ONE, "b.bin": ONE, "m.safetensors": safetensors_bytes(named({"c": ONE}))}
    folder = write(tmp_path, files | {f"._{name}": double for name in files})
    found = tensors_in(folder)
    assert (set(found.tensors), found.broken) == ({"a", "b", "c"}, {})


def test_a_name_like_macos_s_is_a_tensor_s_where_it_holds_one_or_stands_alone(
    tmp_path: Path,
) -> None:
    folder = write(tmp_path, {"a.npy": ONE, "._a.npy": ONE, "._b.npy": b"x", "._": b"x"})
    found = tensors_in(folder)
    assert (set(found.tensors), set(found.broken)) == ({"a", "._a"}, {"._b.npy"})


def test_what_cannot_be_read_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        {"a.bin": ONE, "b.bin": b"\x01", "c.npy": b"", "d.safetensors": b"{}", "e.npy": ONE},
    )
    found = tensors_in(folder)
    assert list(found.tensors) == ["a", "e"]
    assert {name: error.code for name, error in found.broken.items()} == {
        "b.bin": "truncated",
        "c.npy": "bad-header",
        "d.safetensors": "truncated",
    }
    assert found.faults() == [f"{name} {error.message}" for name, error in found.broken.items()]


def test_a_name_twice_is_told(tmp_path: Path) -> None:
    many = safetensors_bytes(named({"a": ONE, "b": ONE, "c": ONE}))
    folder = write(tmp_path, {"a.bin": ONE, "b.npy": ONE, "m.safetensors": many})
    found = tensors_in(folder)
    assert sorted(found.twice) == ["a", "b"]
    assert found.faults() == ["the tensor 'a' stands twice", "the tensor 'b' stands twice"]


def test_references_hold_something(tmp_path: Path) -> None:
    assert tensors_in(tmp_path).faults() == ["holds no tensor"]
    write(tmp_path, {"a.npy": np.zeros((0, 3), "<f4"), "b.bin": f32()})
    assert tensors_in(tmp_path).faults() == ["holds not one element"]
    write(tmp_path, {"c.bin": ONE})
    assert tensors_in(tmp_path).faults() == []


@pytest.mark.skipif(os.name == "nt", reason="file systems of Windows hold no such name")
def test_a_name_of_any_bytes_is_a_name(tmp_path: Path) -> None:
    for name in (b"\xff.bin", b"a\nb.bin", b"::error::x.bin"):
        (tmp_path / os.fsdecode(name)).write_bytes(b"\x01")
    assert set(tensors_in(tmp_path).broken) == {"\udcff.bin", "a\nb.bin", "::error::x.bin"}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such links without rights")
def test_a_link_to_nothing_is_no_tensor(tmp_path: Path) -> None:
    (tmp_path / "a.bin").symlink_to("nowhere")
    (tmp_path / "b.bin").symlink_to("b.bin")
    found = tensors_in(tmp_path)
    assert (found.tensors, found.broken) == ({}, {})


def test_only_headers_are_read(tmp_path: Path) -> None:
    """A sparse file of 4 GiB costs nothing until it is compared."""
    with (tmp_path / "a.bin").open("wb") as file:
        file.write(b"\x01\x00\x00\x00\x00\x00\x00\x40")
        file.truncate(8 + 4 * 2**30)
    assert tensors_in(tmp_path).tensors["a"].shape == (2**30,)
