"""GGUF files that a reader must take: every freedom of the header."""

from __future__ import annotations

from math import prod

from parity.lab.zoo.accept_gguf import f32, make_case
from parity.lab.zoo.case import ExpectedTensor, ZooCase, draw_dyadic
from parity.lab.zoo.gguf_builder import (
    ARRAY,
    SCALARS,
    STRING,
    GgufFile,
    TensorInfo,
    encode_array,
    encode_pair,
    encode_scalar,
    encode_string,
)

_DOC = "ggml docs/gguf.md"
_F32 = 0


def entries() -> list[ZooCase]:
    """The cases, in the order of the page."""
    return [*_layouts(), *_metadata(), *_names(), *_either()]


def _layouts() -> list[ZooCase]:
    three = (f32("a", 3, seed="first"), f32("b", 5, 2, seed="second"), f32("c", 2, seed="third"))
    gap = (three[0], TensorInfo(name="b", dims=(5, 2), kind=_F32, data=three[1].data, offset=96))
    aligned = f"{_DOC}: general.alignment"

    def by(size: int) -> GgufFile:
        return GgufFile(
            tensors=three,
            metadata=(encode_scalar("general.alignment", "uint32", size),),
            alignment=size,
        )

    key = encode_scalar("general.alignment", "uint32", 64)
    return [
        make_case(
            "version-2",
            GgufFile(tensors=three, version=2),
            "version 2, whose layout is that of version 3",
            f"{_DOC}: version history",
        ),
        make_case(
            "three-tensors",
            GgufFile(tensors=three),
            "three tensors one after another, padded to 32 bytes",
        ),
        make_case("alignment-8", by(8), "an alignment of 8", aligned),
        make_case("alignment-16", by(16), "an alignment of 16", aligned),
        make_case("alignment-64", by(64), "an alignment of 64", aligned),
        make_case(
            "alignment-last",
            GgufFile(tensors=three, metadata=(encode_scalar("a.b", "uint8", 1), key), alignment=64),
            "an alignment stated after another key",
            aligned,
        ),
        make_case(
            "other-order",
            GgufFile(tensors=three, data_order=(2, 0, 1)),
            "tensors listed in another order than they lie",
        ),
        make_case(
            "gap",
            GgufFile(tensors=gap),
            "a gap of two alignments between two tensors",
            "gguf-py reads it; each offset stands for itself",
        ),
        make_case(
            "filler",
            GgufFile(tensors=three, padding=b"\xaa"),
            "padding that is not zero",
            f"{_DOC}: padding of any bytes",
        ),
        make_case("no-metadata", GgufFile(tensors=three[:1]), "no metadata at all"),
    ]


def _metadata() -> list[ZooCase]:
    """A value of each type, before a tensor that a reader out of step would miss."""
    numbers = {"float32": 0.5, "float64": -0.25, "bool": 1}
    tail = encode_scalar("z.last", "uint32", 7)
    values = {kind: encode_scalar("a.value", kind, numbers.get(kind, 3)) for kind in SCALARS}
    values["string"] = encode_pair("a.value", STRING, encode_string("größe"))
    values["array-bool"] = encode_pair(
        "a.value", ARRAY, encode_array(SCALARS["bool"][0], 3, b"\x01\x00\x01")
    )
    values["array-uint8"] = encode_pair(
        "a.value", ARRAY, encode_array(0, 5, b"\x01\x02\x03\x04\x05")
    )
    values["array-float64"] = encode_pair("a.value", ARRAY, encode_array(12, 2, bytes(16)))
    values["array-string"] = encode_pair(
        "a.value",
        ARRAY,
        encode_array(STRING, 3, encode_string("a") + encode_string("") + encode_string("été")),
    )
    values["array-empty"] = encode_pair("a.value", ARRAY, encode_array(STRING, 0, b""))
    inner = encode_array(0, 3, b"\x01\x02\x03") + encode_array(0, 1, b"\x04")
    values["array-of-arrays"] = encode_pair("a.value", ARRAY, encode_array(ARRAY, 2, inner))
    values["string-empty"] = encode_pair("a.value", STRING, encode_string(""))
    return [
        make_case(
            f"meta-{name}",
            GgufFile(tensors=(f32("w", 3, 2, seed=name),), metadata=(value, tail)),
            f"metadata of the type {name.replace('-', ', ')}, then another key",
            f"{_DOC}: gguf_metadata_value_type",
        )
        for name, value in values.items()
    ]


def _names() -> list[ZooCase]:
    made = {
        "unicode": ("größe.重み", "a name beyond ASCII"),
        "spaces": ("my weight", "a space in a name"),
        "slash": ("block/weight", "a slash in a name"),
        "longest": ("w" * 64, "a name of 64 bytes, the longest that is allowed"),
    }
    rule = f"{_DOC}: gguf_tensor_info_t, name"
    found = [
        make_case(f"name-{key}", GgufFile(tensors=(f32(name, 3, 2, seed=key),)), why, rule)
        for key, (name, why) in made.items()
    ]
    twins = (f32("Weight", 3, 2, seed="up"), f32("weight", 3, 2, seed="low"))
    return [
        *found,
        make_case(
            "name-case-twins", GgufFile(tensors=twins), "two names that differ by case alone", rule
        ),
    ]


def _either() -> list[ZooCase]:
    """What the document leaves open, or a reader need not know."""
    numbers = draw_dyadic("gguf either", 3, 2)
    big = TensorInfo(name="w", dims=(3, 2), kind=_F32, data=numbers.astype(">f4").tobytes())
    info = TensorInfo(name="w", dims=(3, 2), kind=_F32, data=numbers.tobytes())
    right = {"w": ExpectedTensor("F32", (3, 2), numbers.tobytes())}
    swapped = GgufFile(
        tensors=(big,), order=">", metadata=(encode_scalar("a.b", "uint32", 3, ">"),)
    )
    first = GgufFile(tensors=(info,), version=1, has_32bit_counts=True)
    scalarish = TensorInfo(name="w", dims=(), kind=_F32, data=numbers.tobytes()[:4])
    five = TensorInfo(name="w", dims=(3, 1, 2, 1, 1), kind=_F32, data=numbers.tobytes())
    none = TensorInfo(name="none", dims=(0, 2), kind=_F32, data=b"")
    empty = {"none": ExpectedTensor("F32", (0, 2), b""), **right}
    shared = (
        info,
        TensorInfo(
            name="v", dims=(prod((3, 1)),), kind=_F32, data=numbers.tobytes()[:12], offset=0
        ),
    )
    return [
        make_case(
            "big-endian",
            swapped,
            "version 3, most significant byte first: the magic does not tell",
            f"{_DOC}: endianness",
            letter="i",
        ),
        make_case(
            "version-1",
            first,
            "version 1, whose counts have 32 bits",
            f"{_DOC}: version history",
            letter="i",
            values=right,
        ),
        make_case(
            "no-dims",
            GgufFile(tensors=(scalarish,)),
            "a tensor of no dimensions",
            "the document is silent; a scalar is meant",
            letter="i",
            values={"w": ExpectedTensor("F32", (), numbers.tobytes()[:4])},
        ),
        make_case(
            "five-dims",
            GgufFile(tensors=(five,)),
            "five dimensions, one more than ggml has",
            f"{_DOC}: at most 4 at present",
            letter="i",
            against=True,
        ),
        make_case(
            "empty-tensor",
            GgufFile(tensors=(none, info)),
            "a dimension of zero",
            "the document is silent",
            letter="i",
            values=empty,
        ),
        make_case(
            "shared-data",
            GgufFile(tensors=shared),
            "two tensors on the same bytes",
            "ggml: each tensor's offset follows the one before",
            letter="i",
            against=True,
        ),
        make_case(
            "trailing-data",
            GgufFile(tensors=(info,)).build() + bytes(64),
            "64 bytes after the last tensor",
            "the document is silent",
            letter="i",
        ),
        make_case(
            "not-padded",
            GgufFile(tensors=(info,)).build()[:-8],
            "a last tensor that is not padded",
            "ggml: the data ends with padding",
            letter="i",
            against=True,
        ),
        make_case(
            "name-empty",
            GgufFile(tensors=(f32("", 3),)),
            "a name without a character",
            "the document is silent",
            letter="i",
        ),
    ]
