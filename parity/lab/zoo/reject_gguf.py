"""GGUF files that a reader must reject."""

from __future__ import annotations

import struct
from typing import Any

from parity.lab.zoo import gguf_blocks
from parity.lab.zoo.case import make_rows
from parity.lab.zoo.gguf_builder import (
    ARRAY,
    F32,
    STRING,
    GgufFile,
    TensorInfo,
    build_gguf,
    encode_array,
    encode_array_pair,
    encode_pair,
    encode_scalar,
    encode_string,
    make_f32,
)

_DOC = "ggml docs/gguf.md"
_READER = "gguf-py rejects it"
_ITEMS = f"{_DOC}: as many items follow"
_ALIGNMENT, _UINT32 = f"{_DOC}: general.alignment, a multiple of 8", f"{_DOC}: a uint32"
#: Levels that overflow a stack of 8 MiB in a reader that calls itself at each: 600 kB.
_LEVELS = 50_000
_LINE = b"This is no checkpoint at all, only a line of text.\n"


def _make_w(name: str) -> TensorInfo:
    """Make the tensor ``w``, [3, 2] as stored, of numbers drawn for ``name``."""
    return make_f32("w", 3, 2, seed=f"n {name}")


def _build_w(name: str, *metadata: bytes, **fields: Any) -> bytes:
    """Build a file with the tensor ``w``."""
    return build_gguf(_make_w(name), metadata=metadata, **fields)


_TEXT = encode_pair("a.b", STRING, encode_string("text"))
_GOOD = GgufFile(tensors=(_make_w("files"),), metadata=(_TEXT, encode_scalar("a.c", "uint32", 1)))
_HEAD, _FILE = len(_GOOD.build_head()), _GOOD.build()
no = make_rows("gguf-n", _READER, names=("w",))
# fmt: off
_FILES = [
    no("empty-file", "a file without a byte", lambda: b""),
    no("three-bytes", "a file that ends inside the magic", lambda: b"GGU"),
    no("magic", "the magic of the format before GGUF", lambda: _build_w("magic", magic=b"GGML")),
    no("not-the-format", "lines of text", lambda: _LINE * 4),
    no("cut-counts", "a file that ends inside its counts", lambda: _FILE[:20]),
    no("cut-metadata", "a file that ends inside its metadata", lambda: _FILE[:40]),
    no("cut-info", "a file that ends inside a tensor's info", lambda: _FILE[: _HEAD - 10]),
    no("no-data", "a file that ends after its infos", lambda: _FILE[:_HEAD]),
    no("cut-data", "a file that ends inside its last tensor",
        lambda: _FILE[: -(-_HEAD // 32) * 32 + 20]),
    no("version-0", "version 0", lambda: _build_w("v0", version=0)),
    no("version-4", "version 4, which is not written yet", lambda: _build_w("v4", version=4)),
    no("version-2-31", "a version with its highest bit set",
        lambda: _build_w("v31", version=2**31 + 3)),
]
# fmt: on


def _count_tensors(count: int) -> bytes:
    return _build_w(f"t{count}", tensor_count=count)


def _count_pairs(count: int) -> bytes:
    return _build_w(f"p{count}", encode_scalar("a.b", "uint8", 1), pair_count=count)


# fmt: off
_COUNTS = [
    no("tensors-2-31", "a count of 2^31 tensors", lambda: _count_tensors(2**31)),
    no("tensors-2-60", "a count of 2^60 tensors", lambda: _count_tensors(2**60)),
    no("tensors-2-63", "a count of 2^63 tensors", lambda: _count_tensors(2**63)),
    no("tensors-nine", "a count of nine tensors where there is one", lambda: _count_tensors(9)),
    no("pairs-2-31", "a count of 2^31 metadata pairs", lambda: _count_pairs(2**31)),
    no("pairs-2-60", "a count of 2^60 metadata pairs", lambda: _count_pairs(2**60)),
    no("pairs-2-63", "a count of 2^63 metadata pairs", lambda: _count_pairs(2**63)),
]
# fmt: on

_ONCE = encode_scalar("a.b", "uint32", 1)


def _claim_key(name: str, length: int) -> bytes:
    return _build_w(name, struct.pack("<Q", length) + b"a.b")


def _claim_string(name: str, length: int) -> bytes:
    return _build_w(name, encode_string("a.b") + struct.pack("<IQ", STRING, length))


def _build_array(name: str, kind: int, count: int, items: bytes = b"") -> bytes:
    return _build_w(name, encode_array_pair(kind, count, items, "a.b"))


def _build_deep_array() -> bytes:
    nested = struct.pack("<IQ", ARRAY, 1) * _LEVELS + encode_array(0, 1, b"\x07")
    return _build_w("deep", encode_pair("a.b", ARRAY, nested))


def _align(value: int, kind: str = "uint32") -> bytes:
    return _build_w(f"by {value} {kind}", encode_scalar("general.alignment", kind, value))


def _align_by_text() -> bytes:
    return _build_w("by text", encode_pair("general.alignment", STRING, encode_string("32")))


# fmt: off
_METADATA = [
    no("key-2-31", "a key of 2^31 bytes", lambda: _claim_key("k31", 2**31)),
    no("key-2-63", "a key of 2^63 bytes", lambda: _claim_key("k63", 2**63)),
    no("string-2-31", "a value of 2^31 bytes of text", lambda: _claim_string("s31", 2**31)),
    no("string-2-60", "a value of 2^60 bytes of text", lambda: _claim_string("s60", 2**60)),
    no("string-minus-8", "a value whose length wraps around when it is added",
        lambda: _claim_string("s8", 2**64 - 8)),
    no("array-2-31", "an array of 2^31 bytes", lambda: _build_array("a31", 0, 2**31), _ITEMS,
        by_document=True),
    no("array-2-60", "an array of 2^60 floats", lambda: _build_array("a60", 6, 2**60), _ITEMS,
        by_document=True),
    no("array-2-62", "an array whose bytes wrap around to zero",
        lambda: _build_array("a62", 12, 2**61), _ITEMS, by_document=True),
    no("array-strings-2-60", "an array of 2^60 strings",
        lambda: _build_array("as60", STRING, 2**60, encode_string("a")), _ITEMS, by_document=True),
    no("array-deep", "50,000 arrays in each other", _build_deep_array),
    no("array-type-99", "an array of a type that is not defined",
        lambda: _build_array("a99", 99, 2, bytes(8))),
    no("value-type-99", "a value of a type that is not defined",
        lambda: _build_w("v99", encode_pair("a.b", 99, bytes(8)))),
    no("bool-2", "a bool that is neither 0 nor 1",
        lambda: _build_w("b2", encode_pair("a.b", 7, b"\x02")), f"{_DOC}: anything else is invalid",
        by_document=True),
    no("key-twice", "a key that occurs twice", lambda: _build_w("twice", _ONCE, _ONCE)),
    no("key-not-utf8", "a key that is not UTF-8",
        lambda: _build_w("kutf", encode_pair(b"a.\xff", 0, b"\x01")), f"{_DOC}: a key is ASCII"),
    no("pairs-missing", "a pair that is not counted, read as a tensor's info",
        lambda: _build_w("pm", _ONCE, pair_count=0)),
    no("alignment-0", "an alignment of zero", lambda: _align(0), _ALIGNMENT),
    no("alignment-3", "an alignment of three", lambda: _align(3), _ALIGNMENT),
    no("alignment-24", "an alignment that is a multiple of eight but not a power of two",
        lambda: _align(24), "gguf-py rejects it; ggml too"),
    no("alignment-2-31", "an alignment of 2^31: the data begins beyond the file",
        lambda: _align(2**31)),
    no("alignment-u64", "an alignment of 64 bits", lambda: _align(32, "uint64"), _UINT32),
    no("alignment-text", "an alignment that is text", _align_by_text, _UINT32),
]
# fmt: on


def _build_info(name: str, dims: tuple[int, ...] = (3, 2), **fields: Any) -> bytes:
    """Build a file whose tensor ``w`` has other fields."""
    given = {"kind": F32, "data": _make_w(name).data, **fields}
    return build_gguf(TensorInfo(name="w", dims=dims, **given))


def _build_blocks(kind: str, rows: int, dims: tuple[int, ...]) -> bytes:
    info = gguf_blocks.make_quantised(kind, rows)
    return build_gguf(TensorInfo(name="w", dims=dims, kind=info.kind, data=info.data))


def _cut_block() -> bytes:
    code, raw = gguf_blocks.find_type_code("Q8_0"), gguf_blocks.build_blocks("Q8_0", 2, "cut")
    return _build_info("cut", (96, 1), kind=code, data=raw)


def _set_offset(offset: int, *dims: int) -> bytes:
    """Build a good file, then set its tensor's offset."""
    tensor = make_f32("w", *dims, seed=f"o{offset}") if dims else _make_w(f"o{offset}")
    good = GgufFile(tensors=(tensor,))
    head, content = good.build_head(), good.build()
    return head[:-8] + struct.pack("<Q", offset) + content[len(head) :]


def _claim_name(length: int) -> bytes:
    content = _build_w(f"l{length}")
    return content[:24] + struct.pack("<Q", length) + content[32:]


def _build_name(name: str | bytes, seed: str) -> bytes:
    return build_gguf(TensorInfo(name=name, dims=(3,), kind=F32, data=_make_w(seed).data[:12]))


# fmt: off
_INFOS = [
    no("dims-2-31", "2^31 dimensions", lambda: _build_info("ndim", ndim=2**31)),
    no("dims-missing", "three dimensions where there are two: the next field is read as the third",
        lambda: _build_info("three", ndim=3, kind=30)),
    no("dim-2-31", "a dimension of 2^31", lambda: _build_info("d31", (2**31, 2))),
    no("dim-2-63", "a dimension of 2^63: a negative number to some",
        lambda: _build_info("d63", (2**63, 1))),
    no("dim-minus-3", "a dimension of -3, as two's complement",
        lambda: _build_info("dm", (2**64 - 3, 2))),
    no("product-2-64", "dimensions whose product is 2^64, zero in 64 bits",
        lambda: _build_info("p64", (2**32, 2**32)), f"{_DOC}: the data has all elements",
        by_document=True),
    no("product-wraps", "a count whose bytes wrap around to the right length",
        lambda: _build_info("pw", (2**62 + 6,))),
    no("one-more-row", "a row more than there is data", lambda: _build_info("row", (3, 3))),
    no("type-99", "a type that is not defined", lambda: _build_info("t99", kind=99)),
    no("type-removed", "a type that was removed: 4, once Q4_2", lambda: _build_info("t4", kind=4),
        f"{_DOC}: ggml_type"),
    no("type-2-31", "a type with its highest bit set", lambda: _build_info("t31", kind=2**31)),
    no("row-of-33", "a row of 33 elements of a type with blocks of 32",
        lambda: _build_blocks("Q4_0", 2, (33, 1))),
    no("row-of-128", "rows of half a block, whose sum is whole blocks",
        lambda: _build_blocks("Q4_K", 2, (128, 4))),
    no("row-of-16", "rows of half a block of 32, whose sum is whole blocks",
        lambda: _build_blocks("Q8_0", 2, (16, 4))),
    no("cut-block", "three blocks of which two are present", _cut_block),
    no("offset-past-end", "an offset beyond the file", lambda: _set_offset(4096)),
    no("offset-at-end", "an offset at the file's end", lambda: _set_offset(32)),
    no("offset-2-63", "an offset of 2^63", lambda: _set_offset(2**63)),
    no("offset-minus-32", "an offset that wraps around when the data's start is added",
        lambda: _set_offset(2**64 - 32), f"{_DOC}: tensor_data contains every tensor",
        by_document=True),
    no("offset-wraps", "an offset that wraps around when the tensor's size is added",
        lambda: _set_offset(2**64 - 32, 8, 2), f"{_DOC}: tensor_data contains every tensor",
        by_document=True),
    no("offset-misaligned", "an offset that is not a multiple of the alignment",
        lambda: _build_info("mis", offset=12), f"{_DOC}: must be a multiple of ALIGNMENT",
        by_document=True),
    no("name-twice", "two tensors of one name",
        lambda: build_gguf(_make_w("again"), _make_w("again 2"))),
    no("name-not-utf8", "a tensor's name that is not UTF-8", lambda: _build_name(b"w\xff", "raw")),
    no("name-2-31", "a tensor's name of 2^31 bytes", lambda: _claim_name(2**31)),
    no("name-2-63", "a tensor's name of 2^63 bytes", lambda: _claim_name(2**63)),
    no("name-65", "a tensor's name of 65 bytes", lambda: _build_name("w" * 65, "wide"),
        f"{_DOC}: at most 64 bytes", by_document=True),
]
# fmt: on
CASES = [*_FILES, *_COUNTS, *_METADATA, *_INFOS]
