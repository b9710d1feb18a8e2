"""GGUF files that a reader must take: every freedom of the header."""

from __future__ import annotations

from math import prod

from parity.pins.zoo.entry import Entry, Value, dyadic
from parity.pins.zoo.gguf import case, f32
from parity.pins.zoo.headers import ARRAY, SCALARS, STRING, Gguf, Info, array, pair, scalar, string

_DOC = "ggml docs/gguf.md"
_F32 = 0


def entries() -> list[Entry]:
    """The cases, in the order of the page."""
    return [*_layouts(), *_metadata(), *_names(), *_either()]


def _layouts() -> list[Entry]:
    three = (f32("a", 3, seed="first"), f32("b", 5, 2, seed="second"), f32("c", 2, seed="third"))
    gap = (three[0], Info(name="b", dims=(5, 2), kind=_F32, data=three[1].data, offset=96))
    aligned = f"{_DOC}: general.alignment"

    def by(size: int) -> Gguf:
        return Gguf(
            tensors=three, metadata=(scalar("general.alignment", "uint32", size),), alignment=size
        )

    key = scalar("general.alignment", "uint32", 64)
    return [
        case(
            "version-2",
            Gguf(tensors=three, version=2),
            "version 2, whose layout is that of version 3",
            f"{_DOC}: version history",
        ),
        case(
            "three-tensors",
            Gguf(tensors=three),
            "three tensors one after another, padded to 32 bytes",
        ),
        case("alignment-8", by(8), "an alignment of 8", aligned),
        case("alignment-16", by(16), "an alignment of 16", aligned),
        case("alignment-64", by(64), "an alignment of 64", aligned),
        case(
            "alignment-last",
            Gguf(tensors=three, metadata=(scalar("a.b", "uint8", 1), key), alignment=64),
            "an alignment stated after another key",
            aligned,
        ),
        case(
            "other-order",
            Gguf(tensors=three, lying=(2, 0, 1)),
            "tensors listed in another order than they lie",
        ),
        case(
            "gap",
            Gguf(tensors=gap),
            "a gap of two alignments between two tensors",
            "gguf-py reads it; each offset stands for itself",
        ),
        case(
            "filler",
            Gguf(tensors=three, filler=b"\xaa"),
            "padding that is not zero",
            f"{_DOC}: padding of any bytes",
        ),
        case("no-metadata", Gguf(tensors=three[:1]), "no metadata at all"),
    ]


def _metadata() -> list[Entry]:
    """A value of each type, before a tensor that a reader out of step would miss."""
    numbers = {"float32": 0.5, "float64": -0.25, "bool": 1}
    tail = scalar("z.last", "uint32", 7)
    values = {kind: scalar("a.value", kind, numbers.get(kind, 3)) for kind in SCALARS}
    values["string"] = pair("a.value", STRING, string("größe"))
    values["array-bool"] = pair("a.value", ARRAY, array(SCALARS["bool"][0], 3, b"\x01\x00\x01"))
    values["array-uint8"] = pair("a.value", ARRAY, array(0, 5, b"\x01\x02\x03\x04\x05"))
    values["array-float64"] = pair("a.value", ARRAY, array(12, 2, bytes(16)))
    values["array-string"] = pair(
        "a.value", ARRAY, array(STRING, 3, string("a") + string("") + string("été"))
    )
    values["array-empty"] = pair("a.value", ARRAY, array(STRING, 0, b""))
    inner = array(0, 3, b"\x01\x02\x03") + array(0, 1, b"\x04")
    values["array-of-arrays"] = pair("a.value", ARRAY, array(ARRAY, 2, inner))
    values["string-empty"] = pair("a.value", STRING, string(""))
    return [
        case(
            f"meta-{name}",
            Gguf(tensors=(f32("w", 3, 2, seed=name),), metadata=(value, tail)),
            f"metadata of the type {name.replace('-', ', ')}, then another key",
            f"{_DOC}: gguf_metadata_value_type",
        )
        for name, value in values.items()
    ]


def _names() -> list[Entry]:
    made = {
        "unicode": ("größe.重み", "a name beyond ASCII"),
        "spaces": ("my weight", "a space in a name"),
        "slash": ("block/weight", "a slash in a name"),
        "longest": ("w" * 64, "a name of 64 bytes, the longest that is allowed"),
    }
    rule = f"{_DOC}: gguf_tensor_info_t, name"
    found = [
        case(f"name-{key}", Gguf(tensors=(f32(name, 3, 2, seed=key),)), why, rule)
        for key, (name, why) in made.items()
    ]
    twins = (f32("Weight", 3, 2, seed="up"), f32("weight", 3, 2, seed="low"))
    return [
        *found,
        case("name-case-twins", Gguf(tensors=twins), "two names that differ by case alone", rule),
    ]


def _either() -> list[Entry]:
    """What the document leaves open, or a reader need not know."""
    numbers = dyadic("gguf either", 3, 2)
    big = Info(name="w", dims=(3, 2), kind=_F32, data=numbers.astype(">f4").tobytes())
    info = Info(name="w", dims=(3, 2), kind=_F32, data=numbers.tobytes())
    right = {"w": Value("F32", (3, 2), numbers.tobytes())}
    swapped = Gguf(tensors=(big,), order=">", metadata=(scalar("a.b", "uint32", 3, ">"),))
    first = Gguf(tensors=(info,), version=1, narrow=True)
    scalarish = Info(name="w", dims=(), kind=_F32, data=numbers.tobytes()[:4])
    five = Info(name="w", dims=(3, 1, 2, 1, 1), kind=_F32, data=numbers.tobytes())
    none = Info(name="none", dims=(0, 2), kind=_F32, data=b"")
    empty = {"none": Value("F32", (0, 2), b""), **right}
    shared = (
        info,
        Info(name="v", dims=(prod((3, 1)),), kind=_F32, data=numbers.tobytes()[:12], offset=0),
    )
    return [
        case(
            "big-endian",
            swapped,
            "version 3, most significant byte first: the magic does not tell",
            f"{_DOC}: endianness",
            letter="i",
        ),
        case(
            "version-1",
            first,
            "version 1, whose counts have 32 bits",
            f"{_DOC}: version history",
            letter="i",
            values=right,
        ),
        case(
            "no-dims",
            Gguf(tensors=(scalarish,)),
            "a tensor of no dimensions",
            "the document is silent; a scalar is meant",
            letter="i",
            values={"w": Value("F32", (), numbers.tobytes()[:4])},
        ),
        case(
            "five-dims",
            Gguf(tensors=(five,)),
            "five dimensions, one more than ggml has",
            f"{_DOC}: at most 4 at present",
            letter="i",
            against=True,
        ),
        case(
            "empty-tensor",
            Gguf(tensors=(none, info)),
            "a dimension of zero",
            "the document is silent",
            letter="i",
            values=empty,
        ),
        case(
            "shared-data",
            Gguf(tensors=shared),
            "two tensors on the same bytes",
            "ggml: each tensor's offset follows the one before",
            letter="i",
            against=True,
        ),
        case(
            "trailing-data",
            Gguf(tensors=(info,)).build() + bytes(64),
            "64 bytes after the last tensor",
            "the document is silent",
            letter="i",
        ),
        case(
            "not-padded",
            Gguf(tensors=(info,)).build()[:-8],
            "a last tensor that is not padded",
            "ggml: the data ends with padding",
            letter="i",
            against=True,
        ),
        case(
            "name-empty",
            Gguf(tensors=(f32("", 3),)),
            "a name without a character",
            "the document is silent",
            letter="i",
        ),
    ]
