"""Shapes under keys of GGUF's metadata: found by a tensor's name, and never a reason to fail."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from parity.checkpoints.gguf_header import find_stated_shape
from parity.lab.zoo.gguf_builder import (
    ARRAY,
    SCALARS,
    GgufFile,
    TensorInfo,
    encode_array,
    encode_pair,
    encode_scalar,
    encode_string,
)

KEY = "comfy.gguf.orig_shape."
KINDS = {"uint8": "B", "int8": "b", "uint16": "H", "int16": "h", "uint32": "I", "int32": "i",
         "uint64": "Q", "int64": "q"}  # fmt: skip


def numbers(name: str, *values: int, kind: str = "int32") -> bytes:
    """A pair that holds an array of whole numbers."""
    content = struct.pack(f"<{len(values)}{KINDS[kind]}", *values)
    return encode_pair(name, ARRAY, encode_array(SCALARS[kind][0], len(values), content))


def written(folder: Path, *metadata: bytes) -> Path:
    info = TensorInfo(name="w", dims=(6,), kind=0, data=bytes(24))
    path = folder / "x.gguf"
    path.write_bytes(GgufFile(tensors=(info,), metadata=metadata).build())
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_shape_of_every_kind_of_whole_number(kind: str, tmp_path: Path) -> None:
    others = (encode_scalar("a.w", "uint32", 7), encode_pair("b.w", 8, encode_string("6")))
    path = written(tmp_path, *others, numbers(f"{KEY}w", 2, 1, 3, kind=kind))
    assert find_stated_shape(path, "w") == (f"{KEY}w", f"{kind}[]", (2, 1, 3))


SILENT = {
    "no key": (),
    "another tensor's": (numbers(f"{KEY}v", 2, 3),),
    "one whose name ends alike": (numbers(f"{KEY}xw", 2, 3),),
    "floats": (encode_pair(f"{KEY}w", ARRAY, encode_array(SCALARS["float32"][0], 1, b"\0" * 4)),),
    "texts": (encode_pair(f"{KEY}w", ARRAY, encode_array(8, 1, encode_string("2"))),),
    "too many": (numbers(f"{KEY}w", *[1] * 33),),
}


@pytest.mark.parametrize("metadata", SILENT.values(), ids=SILENT)
def test_what_states_no_shape(metadata: tuple[bytes, ...], tmp_path: Path) -> None:
    assert find_stated_shape(written(tmp_path, *metadata), "w") is None


def test_a_file_that_is_none_or_is_cut_states_nothing(tmp_path: Path) -> None:
    whole = written(tmp_path, numbers(f"{KEY}w", 2, 3)).read_bytes()
    end = whole.index(b"orig_shape.w") + len("orig_shape.w") + 16 + 7
    for content in (b"", b"GGUF", whole[:end], bytes(200)):
        (tmp_path / "y.gguf").write_bytes(content)
        assert find_stated_shape(tmp_path / "y.gguf", "w") is None
    assert find_stated_shape(tmp_path / "no-such.gguf", "w") is None


@pytest.mark.parametrize("value", [0, 1, 9, 0x7F, 0xFF])
def test_a_byte_that_is_wrong_anywhere_is_no_error(value: int, tmp_path: Path) -> None:
    whole = written(
        tmp_path, numbers("a.b", 1), encode_pair("t", 8, encode_string("x")), numbers(f"{KEY}w", 6)
    )
    content = whole.read_bytes()
    right = (f"{KEY}w", "int32[]", (6,))
    for at in range(len(content)):
        whole.write_bytes(content[:at] + bytes([value]) + content[at + 1 :])
        found = find_stated_shape(whole, "w")
        assert found is None or found.key.endswith(".w")
    whole.write_bytes(content)
    assert find_stated_shape(whole, "w") == right
