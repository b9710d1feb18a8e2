"""safetensors headers: what is accepted is what the library reads, all else is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parity.tensors import FormatError, safetensors
from parity.tensors.dtypes import DTYPES, PACKED
from parity.tensors.stored import StoredTensor
from tests.support.tensors import add_header, bf16, encode_safetensors, f32, pack_codes

# Imported here, since the guards of a test would stop it on its way.
library: Any = import_module("safetensors") if find_spec("safetensors") else None
needs_library = pytest.mark.skipif(library is None, reason="safetensors is not installed")

U8 = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}


def one(**changes: Any) -> dict[str, Any]:
    return {"t": U8 | changes}


def read(tmp_path: Path, content: bytes) -> dict[str, StoredTensor]:
    path = tmp_path / "t.safetensors"
    path.write_bytes(content)
    return safetensors.locate_tensors(path)


def refused(tmp_path: Path, content: bytes) -> FormatError:
    with pytest.raises(FormatError) as caught:
        read(tmp_path, content)
    return caught.value


def of_library(content: bytes) -> dict[str, tuple[str, list[int], bytes]] | None:
    """What the library reads, None where it refuses."""
    try:
        entries = library.deserialize(content)
    except library.SafetensorError:
        return None
    return {
        name: (entry["dtype"], list(entry["shape"]), bytes(entry["data"]))
        for name, entry in entries
    }


def ours(tensors: dict[str, StoredTensor]) -> dict[str, tuple[str, list[int], bytes]]:
    return {
        name: (tensor.dtype.name, list(tensor.shape), as_it_lies(tensor))
        for name, tensor in tensors.items()
    }


def as_it_lies(tensor: StoredTensor) -> bytes:
    elements = tensor.read_array()
    if not tensor.dtype.packed:
        return elements.tobytes()
    return pack_codes(elements.reshape(-1).tolist(), tensor.dtype.width)


# --- what is accepted ----------------------------------------------------------------------

UNSORTED = {
    "z": {"dtype": "U8", "shape": [2], "data_offsets": [2, 4]},
    "a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
}
EMPTY = {
    name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}
    for name, shape in (("a", [0]), ("b", [3, 0]), ("c", [0, 2, 0]))
}
GOOD = {
    "one": add_header(one(), b"abcd"),
    "a scalar": add_header(one(shape=[], data_offsets=[0, 1]), b"a"),
    "no tensor": add_header({}),
    "metadata": add_header({"__metadata__": {"format": "pt"}} | one(), b"abcd"),
    "empty metadata": add_header({"__metadata__": {}} | one(), b"abcd"),
    "keys in any order": add_header(UNSORTED, b"abcd"),
    "empty tensors": add_header(EMPTY),
    "empty before another": add_header(EMPTY | one(), b"abcd"),
    "blanks after the header": add_header(json.dumps(one()) + "   ", b"abcd"),
    "blanks in the header": add_header(json.dumps(one(), indent=3), b"abcd"),
    "an escaped name": add_header('{"\\u0074\\ud83d\\ude00": ' + json.dumps(U8) + "}", b"abcd"),
    "a name of bytes above 127": add_header({"größe/😀": U8}, b"abcd"),
    "an empty name": add_header({"": U8}, b"abcd"),
    "a long name": add_header({"n" * 5000: U8}, b"abcd"),
    "32 dimensions": add_header(one(shape=[1] * 31 + [4]), b"abcd"),
    "every dtype": encode_safetensors(
        {name: (name, np.zeros((2, 3), DTYPES[name].storage)) for name in DTYPES if name != "C128"}
    ),
    **{
        f"{name} {list(shape)}": encode_safetensors({"t": (name, np.full(shape, 13, "u1"))})
        for name in PACKED
        for shape in ((2, 4), (4, 0), (1, 12, 1))
    },
    "one blank": encode_safetensors({"w": ("F32", f32(1.0, 2.0))}, padding=1),
    "three blanks": encode_safetensors({"w": ("F32", f32(1.0, 2.0))}, padding=3),
}


@needs_library
@pytest.mark.torch
@pytest.mark.parametrize("content", GOOD.values(), ids=GOOD)
def test_what_is_accepted_is_what_the_library_reads(content: bytes, tmp_path: Path) -> None:
    assert ours(read(tmp_path, content)) == of_library(content)


@needs_library
@pytest.mark.torch
def test_every_dtype_of_the_library_is_known() -> None:
    with pytest.raises(library.SafetensorError) as caught:
        library.deserialize(add_header(one(dtype="F128"), b"abcd"))
    names = set(re.findall(r"`(\w+)`", str(caught.value)))
    assert names - {"F128"} == {*DTYPES, *PACKED} - {"C128"}


@pytest.mark.parametrize("padding", range(9))
def test_data_may_begin_at_any_byte(padding: int, tmp_path: Path) -> None:
    """ggml-org/llama.cpp PR#18291: a reader that aligned it was off by some bytes."""
    content = encode_safetensors(
        {"w": ("F64", np.array([1.0, 2.0])), "b": ("BF16", bf16(1.0))}, padding=padding
    )
    found = read(tmp_path, content)
    assert found["w"].read_array().tolist() == [1.0, 2.0]
    assert found["b"].read_array().tolist() == [0x3F80]
    assert found["b"].suffix == ".safetensors"


@needs_library
@pytest.mark.torch
def test_what_the_library_writes_is_read(tmp_path: Path) -> None:
    numpy_library = import_module("safetensors.numpy")
    arrays = {
        f"{code}.{number}": np.arange(number).astype(code).reshape(shape)
        for code in ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u1", "?")
        for number, shape in ((1, ()), (6, (2, 3)), (0, (0,)))
    }
    path = tmp_path / "t.safetensors"
    numpy_library.save_file(arrays, path, metadata={"b": "1", "a": "2"})
    found = safetensors.locate_tensors(path)
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].shape == array.shape
        assert found[name].read_array().tobytes() == array.tobytes()


# --- what is refused -----------------------------------------------------------------------


def deep(depth: int) -> str:
    return "[" * depth + "]" * depth


#: Files that are refused; messages are golden.
REFUSED: dict[str, bytes] = {
    "nothing": b"",
    "a length cut": b"\x01" + bytes(6),
    "no header": bytes(8),
    "a header cut": add_header(one(), b"abcd")[:20],
    "the largest length": b"\xff" * 8,
    "a page": b"<!DOCTYPE html>",
    "a pointer": b"version https://git-lfs.github.com/spec/v1\n",
    "a list": add_header("[1]"),
    "a blank first": add_header(" {}"),
    "a mark of order": add_header("\ufeff{}"),
    "no end": add_header('{"a"'),
    "more after it": add_header("{}{}"),
    "not UTF-8": add_header(b'{"\xff":1}'),
    "a key twice": add_header(f'{{"t":{json.dumps(U8)},"t":{json.dumps(U8)}}}', b"abcd"),
    "a key twice by escapes": add_header(f'{{"t":{json.dumps(U8)},"\\u0074":{json.dumps(U8)}}}',
        b"abcd"),
    "a dtype twice":
        add_header('{"t":{"dtype":"U8","dtype":"I8","shape":[4],"data_offsets":[0,4]}}', b"abcd"),
    "metadata twice": add_header('{"__metadata__":{},"__metadata__":{}}'),
    "half a surrogate pair": add_header('{"a\\ud800":' + json.dumps(U8) + "}", b"abcd"),
    "half a pair in metadata": add_header('{"__metadata__":{"a":"\\udfff"}}'),
    "metadata of numbers": add_header({"__metadata__": {"step": 3}} | one(), b"abcd"),
    "metadata that is null": add_header({"__metadata__": None}),
    "metadata in metadata": add_header({"__metadata__": {"a": {"b": "c"}}}),
    "a float": add_header('{"t":{"dtype":"U8","shape":[4.0],"data_offsets":[0,4]}}', b"abcd"),
    "an exponent": add_header('{"t":{"dtype":"U8","shape":[4e0],"data_offsets":[0,4]}}', b"abcd"),
    "NaN": add_header('{"t":NaN}'),
    "infinity": add_header('{"t":-Infinity}'),
    "a negative length": add_header(one(shape=[-4]), b"abcd"),
    "minus nothing": add_header(json.dumps(one()).replace("[0", "[-0"), b"abcd"),
    "2**63": add_header(one(shape=[2**63]), b"abcd"),
    "5000 digits": add_header(json.dumps(one()).replace("[4]", f"[{'9' * 5000}]")),
    "a truth": add_header(one(shape=[True]), b"a"),
    "text for a length": add_header(one(shape=["4"]), b"abcd"),
    "no list": add_header(one(shape=4), b"abcd"),
    "null": add_header(one(data_offsets=None), b"abcd"),
    "no entry": add_header({"t": 1}),
    "an entry without": add_header({"t": {"dtype": "U8", "shape": [4]}}, b"abcd"),
    "an entry with more": add_header(one(stride=[1]), b"abcd"),
    "an unknown dtype": add_header(one(dtype="F128"), b"abcd"),
    "complex numbers of two f64": add_header(one(dtype="C128"), b"abcd"),
    "a dtype in small letters": add_header(one(dtype="u8"), b"abcd"),
    "a dtype that is a list": add_header(one(dtype=["U8"]), b"abcd"),
    "half a byte": add_header(one(dtype="F4", shape=[7]), b"abcd"),
    "six bits of a byte": add_header(one(dtype="F6_E2M3", shape=[5]), b"abcd"),
    "a byte for each half": add_header(one(dtype="F4", shape=[4]), b"abcd"),
    "one offset": add_header(one(data_offsets=[4]), b"abcd"),
    "three offsets": add_header(one(data_offsets=[0, 2, 4]), b"abcd"),
    "offsets reversed": add_header(one(data_offsets=[4, 0]), b"abcd"),
    "a shape too large": add_header(one(shape=[1000, 1000]), b"abcd"),
    "a shape too small": add_header(one(shape=[3]), b"abcd"),
    "an overflow": add_header(one(shape=[2**62, 2**62, 0], data_offsets=[0, 0])),
    "an overflow of bytes": add_header(one(dtype="F64", shape=[2**60])),
    "33 dimensions": add_header(one(shape=[1] * 32 + [4]), b"abcd"),
    "the same bytes twice": add_header({"k": U8, "v": U8}, b"abcd"),
    "an overlap": add_header({"k": U8, "v": U8 | {"data_offsets": [2, 6]}}, b"abcdef"),
    "a hole": add_header({"k": U8, "v": U8 | {"data_offsets": [6, 10]}}, bytes(10)),
    "a hole at the start": add_header(one(data_offsets=[1, 5]), bytes(5)),
    "data cut": add_header(one(), b"abc"),
    "data too long": add_header(one(), b"abcde"),
    "two more": add_header(one(), b"abcdef"),
    "data without a tensor": add_header({}, b"a"),
    "nested deeply": add_header('{"t":' + deep(100_000) + "}"),
}  # fmt: skip


def test_each_file_is_refused_in_these_words(golden: Callable[..., None], tmp_path: Path) -> None:
    errors = {name: refused(tmp_path, content) for name, content in REFUSED.items()}
    golden("".join(f"{name}: [{one.code}] {one.message}\n" for name, one in errors.items()))


@pytest.mark.parametrize("depth", [*range(100, 1000, 90), *range(880, 1010, 3)])
@pytest.mark.parametrize("key", ["t", "__metadata__"])
def test_no_depth_is_a_crash(key: str, depth: int, tmp_path: Path) -> None:
    """Near Python's own limit, parsing may succeed and showing the value fail."""
    for content in (f'{{"{key}":{deep(depth)}}}', json.dumps(one()).replace('"U8"', deep(depth))):
        assert refused(tmp_path, add_header(content, b"abcd")).code == "bad-header"


def test_a_message_is_of_bounded_length(tmp_path: Path) -> None:
    for content in (
        {"n" * 10**6: 1},
        one(dtype="F" * 10**6),
        one(shape=["x" * 10**6]),
        one(data_offsets=[1] * 10**5),
        one(shape=[1] * 10**5),
    ):
        assert len(refused(tmp_path, add_header(content, b"abcd")).message) < 500


def test_a_length_beyond_the_formats_limit_is_not_read(tmp_path: Path) -> None:
    """A sparse file: its header would take 100 MB of memory before a word of it is read."""
    path = tmp_path / "t.safetensors"
    with path.open("wb") as file:
        file.write((100_000_001).to_bytes(8, "little") + b"{")
        file.truncate(200_000_000)
    with pytest.raises(FormatError) as caught:
        safetensors.locate_tensors(path)
    assert caught.value.message.endswith(
        "which claims a header of 100,000,001 bytes; at most 100,000,000"
    )


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot be read: No such file or directory") as caught:
        safetensors.locate_tensors(tmp_path / "t.safetensors")
    assert caught.value.code == "unreadable"


# --- mutations -----------------------------------------------------------------------------

WHOLE = encode_safetensors(
    {"w": ("F32", f32(1.0, 2.0, 3.0, 4.0, shape=(2, 2))), "é": ("U8", np.arange(3, dtype="u1"))},
    metadata={"k": "v"},
)
PIECES = st.sampled_from(
    [b"0", b"9", b"-", b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\u", b"e5", b"null", b"true",
     b"\x00", b"\xff", b" ", b"F32", b"BF16", b'"w":', b"\\ud800", b"1" * 20]
)  # fmt: skip


@needs_library
@pytest.mark.torch
@settings(max_examples=600, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edits=st.lists(
        st.tuples(st.integers(0, len(WHOLE)), st.integers(0, 4), PIECES | st.binary(max_size=2)),
        max_size=4,
    ),
    end=st.none() | st.integers(0, len(WHOLE)),
    honest=st.booleans(),
)
def test_mutated_bytes_are_refused_or_read_as_the_library_reads_them(
    edits: list[tuple[int, int, bytes]], end: int | None, honest: bool, tmp_path: Path
) -> None:
    content = bytearray(WHOLE)
    for at, length, piece in edits:
        content[at : at + length] = piece
    mutated = bytes(content[:end])
    if honest:  # the length of the header says what it is, so that the JSON is reached
        cut = mutated.rfind(b"}") + 1
        mutated = add_header(mutated[8:cut], mutated[cut:])
    try:
        found = read(tmp_path, mutated)
    except FormatError:
        return
    assert ours(found) == of_library(mutated)
