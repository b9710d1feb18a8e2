"""GGUF files that must be refused."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from parity.lab.zoo import accept_gguf
from parity.lab.zoo.accept_gguf import f32
from parity.lab.zoo.gguf_builder import (
    ARRAY,
    STRING,
    GgufFile,
    TensorInfo,
    encode_array,
    encode_pair,
    encode_scalar,
    encode_string,
)

if TYPE_CHECKING:
    from parity.lab.zoo.case import ZooCase

_DOC = "ggml docs/gguf.md"
_READER = "gguf-py refuses"
_F32 = 0
#: Levels that overflow a stack of 8 MiB in a reader that calls itself at each: 600 kB.
DEEP = 50_000


def entries() -> list[ZooCase]:
    """The cases, in the order of the page."""
    return [*_files(), *_counts(), *_metadata(), *_alignment()]


def make_case(
    name: str, content: bytes | GgufFile, why: str, rule: str = _READER, **more: Any
) -> ZooCase:
    """A case to be refused, whose tensor would be ``w``."""
    return accept_gguf.make_case(name, content, why, rule, letter="n", names=("w",), **more)


def plain(name: str) -> TensorInfo:
    """The tensor ``w``, [3, 2] as stored, of numbers drawn for ``name``."""
    return f32("w", 3, 2, seed=f"n {name}")


def good_file(name: str) -> GgufFile:
    """A file with two pairs and one tensor, nothing wrong yet."""
    return GgufFile(
        tensors=(plain(name),),
        metadata=(
            encode_pair("a.b", STRING, encode_string("text")),
            encode_scalar("a.c", "uint32", 1),
        ),
    )


def _files() -> list[ZooCase]:
    good = good_file("files").build()
    head = len(good_file("files").build_head())
    return [
        make_case("empty-file", b"", "a file without a byte"),
        make_case("three-bytes", b"GGU", "a file that ends inside the magic"),
        make_case(
            "magic",
            GgufFile(tensors=(plain("magic"),), magic=b"GGML"),
            "the magic of the format before GGUF",
        ),
        make_case(
            "not-the-format",
            b"This is no checkpoint at all, only a line of text.\n" * 4,
            "lines of text",
        ),
        make_case("cut-counts", good[:20], "a file that ends inside its counts"),
        make_case("cut-metadata", good[:40], "a file that ends inside its metadata"),
        make_case("cut-info", good[: head - 10], "a file that ends inside a tensor's info"),
        make_case("no-data", good[:head], "a file that ends after its infos"),
        make_case(
            "cut-data", good[: -(-head // 32) * 32 + 20], "a file that ends inside its last tensor"
        ),
        make_case("version-0", GgufFile(tensors=(plain("v0"),), version=0), "version 0"),
        make_case(
            "version-4",
            GgufFile(tensors=(plain("v4"),), version=4),
            "version 4, which is not written yet",
        ),
        make_case(
            "version-2-31",
            GgufFile(tensors=(plain("v31"),), version=2**31 + 3),
            "a version with its highest bit set",
        ),
    ]


def _counts() -> list[ZooCase]:
    def tensors(count: int) -> GgufFile:
        return GgufFile(tensors=(plain(f"t{count}"),), tensor_count=count)

    def pairs(count: int) -> GgufFile:
        return GgufFile(
            tensors=(plain(f"p{count}"),),
            metadata=(encode_scalar("a.b", "uint8", 1),),
            pair_count=count,
        )

    return [
        make_case("tensors-2-31", tensors(2**31), "a count of 2^31 tensors"),
        make_case("tensors-2-60", tensors(2**60), "a count of 2^60 tensors"),
        make_case("tensors-2-63", tensors(2**63), "a count of 2^63 tensors"),
        make_case("tensors-nine", tensors(9), "a count of nine tensors where there is one"),
        make_case("pairs-2-31", pairs(2**31), "a count of 2^31 metadata pairs"),
        make_case("pairs-2-60", pairs(2**60), "a count of 2^60 metadata pairs"),
        make_case("pairs-2-63", pairs(2**63), "a count of 2^63 metadata pairs"),
    ]


def _with(name: str, *metadata: bytes) -> GgufFile:
    return GgufFile(tensors=(plain(name),), metadata=metadata)


def _metadata() -> list[ZooCase]:
    key = encode_string("a.b")
    ends = f"{_DOC}: as many items follow"

    def long(value: int) -> bytes:
        return struct.pack("<Q", value)

    nested = struct.pack("<IQ", ARRAY, 1) * DEEP + encode_array(0, 1, b"\x07")
    once = encode_scalar("a.b", "uint32", 1)
    return [
        make_case("key-2-31", _with("k31", long(2**31) + b"a.b"), "a key of 2^31 bytes"),
        make_case("key-2-63", _with("k63", long(2**63) + b"a.b"), "a key of 2^63 bytes"),
        make_case(
            "string-2-31",
            _with("s31", key + struct.pack("<IQ", STRING, 2**31)),
            "a value of 2^31 bytes of text",
        ),
        make_case(
            "string-2-60",
            _with("s60", key + struct.pack("<IQ", STRING, 2**60)),
            "a value of 2^60 bytes of text",
        ),
        make_case(
            "string-minus-8",
            _with("s8", key + struct.pack("<IQ", STRING, 2**64 - 8)),
            "a value whose length wraps around when it is added",
        ),
        make_case(
            "array-2-31",
            _with("a31", encode_pair("a.b", ARRAY, encode_array(0, 2**31, b""))),
            "an array of 2^31 bytes",
            ends,
            document=True,
        ),
        make_case(
            "array-2-60",
            _with("a60", encode_pair("a.b", ARRAY, encode_array(6, 2**60, b""))),
            "an array of 2^60 floats",
            ends,
            document=True,
        ),
        make_case(
            "array-2-62",
            _with("a62", encode_pair("a.b", ARRAY, encode_array(12, 2**61, b""))),
            "an array whose bytes wrap around to zero",
            ends,
            document=True,
        ),
        make_case(
            "array-strings-2-60",
            _with(
                "as60", encode_pair("a.b", ARRAY, encode_array(STRING, 2**60, encode_string("a")))
            ),
            "an array of 2^60 strings",
            ends,
            document=True,
        ),
        make_case(
            "array-deep",
            _with("deep", encode_pair("a.b", ARRAY, nested)),
            "50,000 arrays in each other",
        ),
        make_case(
            "array-type-99",
            _with("a99", encode_pair("a.b", ARRAY, encode_array(99, 2, bytes(8)))),
            "an array of a type that is not defined",
        ),
        make_case(
            "value-type-99",
            _with("v99", encode_pair("a.b", 99, bytes(8))),
            "a value of a type that is not defined",
        ),
        make_case(
            "bool-2",
            _with("b2", encode_pair("a.b", 7, b"\x02")),
            "a bool that is neither 0 nor 1",
            f"{_DOC}: anything else is invalid",
            document=True,
        ),
        make_case("key-twice", _with("twice", once, once), "a key that stands twice"),
        make_case(
            "key-not-utf8",
            _with("kutf", encode_pair(b"a.\xff", 0, b"\x01")),
            "a key that is not UTF-8",
            f"{_DOC}: a key is ASCII",
        ),
        make_case(
            "pairs-missing",
            GgufFile(tensors=(plain("pm"),), metadata=(once,), pair_count=0),
            "a pair that is not counted, read as a tensor's info",
        ),
    ]


def _alignment() -> list[ZooCase]:
    def by(value: int, kind: str = "uint32") -> GgufFile:
        return _with(f"by {value} {kind}", encode_scalar("general.alignment", kind, value))

    rule = f"{_DOC}: general.alignment, a multiple of 8"
    text = encode_pair("general.alignment", STRING, encode_string("32"))
    return [
        make_case("alignment-0", by(0), "an alignment of zero", rule),
        make_case("alignment-3", by(3), "an alignment of three", rule),
        make_case(
            "alignment-24",
            by(24),
            "an alignment that is a multiple of eight and no power of two",
            "gguf-py refuses; ggml too",
        ),
        make_case(
            "alignment-2-31", by(2**31), "an alignment of 2^31: the data begins beyond the file"
        ),
        make_case(
            "alignment-u64", by(32, "uint64"), "an alignment of 64 bits", f"{_DOC}: a uint32"
        ),
        make_case(
            "alignment-text",
            _with("by text", text),
            "an alignment that is text",
            f"{_DOC}: a uint32",
        ),
    ]
