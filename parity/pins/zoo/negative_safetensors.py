"""safetensors files that must be refused."""

from __future__ import annotations

import json
from typing import Any

from parity.pins.zoo.entry import Entry
from parity.pins.zoo.headers import safetensors
from parity.pins.zoo.safetensors import f32, laid

_README = "safetensors README, Format"
_LIBRARY = "the library safetensors refuses"
#: Levels that overflow a stack of 8 MiB in a parser that calls itself at each.
DEEP, OBJECTS = 100_000, 20_000


def entries() -> list[Entry]:
    """The cases, in the order of the page."""
    return [*_files(), *_json(), *_fields()]


def case(
    name: str, content: bytes, why: str, rule: str = _LIBRARY, *, document: bool = False
) -> Entry:
    """A case to be refused."""
    return Entry(id=f"safetensors-n-{name}", content=content, why=why, rule=rule, document=document)


def good() -> tuple[dict[str, Any], bytes]:
    """Header and data of two tensors, nothing wrong yet."""
    return laid({"a": f32("good a", 2, 3), "b": f32("good b", 2)})


def with_fields(name: str, **fields: Any) -> bytes:
    """A file of one tensor ``w``, six f32, some fields set otherwise; None leaves one out."""
    header, data = laid({"w": f32(name, 6)})
    entry = {**header["w"], **fields}
    header["w"] = {key: value for key, value in entry.items() if value is not None}
    return safetensors(header, data)


def _files() -> list[Entry]:
    header, data = good()
    right = safetensors(header, data)
    end = 8 + len(json.dumps(header, separators=(",", ":")))
    swapped = right[:8][::-1] + right[8:]
    return [
        case("empty-file", b"", "a file without a byte"),
        case("seven-bytes", right[:7], "a file that ends inside the header's length"),
        case("length-alone", right[:8], "a file that ends after the header's length"),
        case("cut-header", right[: end - 9], "a file that ends inside its header"),
        case("cut-data", right[:-5], "a file that ends inside its data"),
        case("no-data", right[:end], "a header and no data"),
        case(
            "trailing-data",
            right + b"\0\0\0\0",
            "four bytes after the last tensor",
            f"{_README}: no holes in the byte buffer",
        ),
        case("length-0", safetensors("", data, 0), "a header of no length"),
        case("length-past-end", safetensors(header, data, 5000), "a header longer than the file"),
        case("length-2-31", safetensors(header, data, 2**31), "a header of 2^31 bytes"),
        case("length-2-60", safetensors(header, data, 2**60), "a header of 2^60 bytes"),
        case(
            "length-2-63",
            safetensors(header, data, 2**63),
            "a header of 2^63 bytes: a negative number to some",
            f"{_README}: an unsigned 64-bit integer",
        ),
        case(
            "length-minus-8",
            safetensors(header, data, 2**64 - 8),
            "a header length that wraps around when eight is added",
        ),
        case(
            "length-big-endian",
            swapped,
            "a header length with its most significant byte first",
            f"{_README}: little-endian",
        ),
        case(
            "lfs-pointer",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 96\n",
            "a Git LFS pointer in place of the file",
        ),
    ]


def _json() -> list[Entry]:
    header, data = good()
    text = json.dumps(header)
    entry = json.dumps(header["a"])
    twice = f'{{"a":{entry},"a":{entry},"b":{json.dumps(header["b"])}}}'
    inner = text.replace('"dtype": "F32"', '"dtype": "F32", "dtype": "F32"', 1)
    unique = f"{_README}: duplicate keys are disallowed"
    deep = '{"__metadata__":' + "[" * DEEP + "]" * DEEP + "}"
    objects = '{"a":' * OBJECTS + "1" + "}" * OBJECTS
    return [
        case("json-array", safetensors("[1, 2]  ", data), "a header that is an array"),
        case("json-string", safetensors('"weights"', data), "a header that is a string"),
        case("json-cut", safetensors(text[:-1], data), "a header without its last brace"),
        case("json-after", safetensors(text + "{}", data), "something after the header's object"),
        case(
            "json-nul-padded",
            safetensors(text.encode() + b"\0\0\0\0", data),
            "a header padded with zero bytes",
        ),
        case(
            "json-space-first",
            safetensors(" " + text, data),
            "a header that begins with a space",
            f"{_README}: begins with a {{",
            document=True,
        ),
        case(
            "json-not-utf8",
            safetensors(text.encode().replace(b'"a"', b'"\xff"'), data),
            "a name that is not UTF-8",
            f"{_README}: a UTF-8 string",
        ),
        case(
            "json-half-surrogate",
            safetensors(text.replace('"a"', '"\\ud800"'), data),
            "half of a surrogate pair in a name",
        ),
        case(
            "json-control",
            safetensors(text.replace('"a"', '"\x01"'), data),
            "a control character in a name",
            "RFC 8259, section 7",
        ),
        case(
            "json-comma",
            safetensors(text[:-1] + ",}", data),
            "a comma before the last brace",
            "RFC 8259, section 4",
        ),
        case(
            "json-duplicate-name",
            safetensors(twice, data),
            "a name that stands twice",
            unique,
            document=True,
        ),
        case(
            "json-duplicate-field",
            safetensors(inner, data),
            "a dtype that stands twice in one entry",
            unique,
            document=True,
        ),
        case(
            "json-deep-arrays",
            safetensors(deep, b""),
            "100,000 arrays in each other under __metadata__",
        ),
        case("json-deep-objects", safetensors(objects, b""), "20,000 objects in each other"),
    ]


def _fields() -> list[Entry]:
    header, data = good()

    def metadata(value: Any) -> bytes:
        return safetensors({"__metadata__": value, **header}, data)

    strings = f"{_README}: a text-to-text map"
    return [
        case("metadata-number", metadata({"step": 3}), "a number in __metadata__", strings),
        case("metadata-nested", metadata({"a": {"b": "c"}}), "an object in __metadata__", strings),
        case("metadata-array", metadata(["pt"]), "__metadata__ that is an array", strings),
        case("entry-null", safetensors({"w": None}, b""), "a tensor that is null"),
        case("no-dtype", with_fields("no dtype", dtype=None), "a tensor without a dtype"),
        case("no-shape", with_fields("no shape", shape=None), "a tensor without a shape"),
        case(
            "no-offsets",
            with_fields("no offsets", data_offsets=None),
            "a tensor without data_offsets",
        ),
        case(
            "dtype-unknown",
            with_fields("unknown", dtype="F33"),
            "a dtype that the format does not have",
        ),
        case("dtype-lower", with_fields("lower", dtype="f32"), "a dtype in small letters"),
        case("dtype-number", with_fields("number", dtype=7), "a dtype that is a number"),
        case("shape-negative", with_fields("negative", shape=[-6]), "a negative dimension"),
        case(
            "shape-two-negative",
            with_fields("negatives", shape=[-2, -3]),
            "two negative dimensions, whose product fits",
        ),
        case("shape-float", with_fields("float", shape=[6.0]), "a dimension that is a float"),
        case("shape-text", with_fields("text", shape=["6"]), "a dimension that is a string"),
        case("shape-number", with_fields("bare", shape=6), "a shape that is no array"),
    ]
