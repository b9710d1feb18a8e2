"""safetensors files that must be refused."""

from __future__ import annotations

import json
from typing import Any

from parity.lab.zoo.accept_safetensors import f32, laid
from parity.lab.zoo.case import ZooCase
from parity.lab.zoo.gguf_builder import build_safetensors

_README = "safetensors README, Format"
_LIBRARY = "the library safetensors refuses"
#: Levels that overflow a stack of 8 MiB in a parser that calls itself at each.
DEEP, OBJECTS = 100_000, 20_000


def entries() -> list[ZooCase]:
    """The cases, in the order of the page."""
    return [*_files(), *_json(), *_fields()]


def make_case(
    name: str, content: bytes, why: str, rule: str = _LIBRARY, *, document: bool = False
) -> ZooCase:
    """A case to be refused."""
    return ZooCase(
        id=f"safetensors-n-{name}", content=content, why=why, rule=rule, document=document
    )


def good() -> tuple[dict[str, Any], bytes]:
    """Header and data of two tensors, nothing wrong yet."""
    return laid({"a": f32("good a", 2, 3), "b": f32("good b", 2)})


def with_fields(name: str, **fields: Any) -> bytes:
    """A file of one tensor ``w``, six f32, some fields set otherwise; None leaves one out."""
    header, data = laid({"w": f32(name, 6)})
    entry = {**header["w"], **fields}
    header["w"] = {key: value for key, value in entry.items() if value is not None}
    return build_safetensors(header, data)


def _files() -> list[ZooCase]:
    header, data = good()
    right = build_safetensors(header, data)
    end = 8 + len(json.dumps(header, separators=(",", ":")))
    swapped = right[:8][::-1] + right[8:]
    return [
        make_case("empty-file", b"", "a file without a byte"),
        make_case("seven-bytes", right[:7], "a file that ends inside the header's length"),
        make_case("length-alone", right[:8], "a file that ends after the header's length"),
        make_case("cut-header", right[: end - 9], "a file that ends inside its header"),
        make_case("cut-data", right[:-5], "a file that ends inside its data"),
        make_case("no-data", right[:end], "a header and no data"),
        make_case(
            "trailing-data",
            right + b"\0\0\0\0",
            "four bytes after the last tensor",
            f"{_README}: no holes in the byte buffer",
        ),
        make_case("length-0", build_safetensors("", data, 0), "a header of no length"),
        make_case(
            "length-past-end",
            build_safetensors(header, data, 5000),
            "a header longer than the file",
        ),
        make_case("length-2-31", build_safetensors(header, data, 2**31), "a header of 2^31 bytes"),
        make_case("length-2-60", build_safetensors(header, data, 2**60), "a header of 2^60 bytes"),
        make_case(
            "length-2-63",
            build_safetensors(header, data, 2**63),
            "a header of 2^63 bytes: a negative number to some",
            f"{_README}: an unsigned 64-bit integer",
        ),
        make_case(
            "length-minus-8",
            build_safetensors(header, data, 2**64 - 8),
            "a header length that wraps around when eight is added",
        ),
        make_case(
            "length-big-endian",
            swapped,
            "a header length with its most significant byte first",
            f"{_README}: little-endian",
        ),
        make_case(
            "lfs-pointer",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 96\n",
            "a Git LFS pointer in place of the file",
        ),
    ]


def _json() -> list[ZooCase]:
    header, data = good()
    text = json.dumps(header)
    entry = json.dumps(header["a"])
    twice = f'{{"a":{entry},"a":{entry},"b":{json.dumps(header["b"])}}}'
    inner = text.replace('"dtype": "F32"', '"dtype": "F32", "dtype": "F32"', 1)
    unique = f"{_README}: duplicate keys are disallowed"
    deep = '{"__metadata__":' + "[" * DEEP + "]" * DEEP + "}"
    objects = '{"a":' * OBJECTS + "1" + "}" * OBJECTS
    return [
        make_case("json-array", build_safetensors("[1, 2]  ", data), "a header that is an array"),
        make_case("json-string", build_safetensors('"weights"', data), "a header that is a string"),
        make_case(
            "json-cut", build_safetensors(text[:-1], data), "a header without its last brace"
        ),
        make_case(
            "json-after",
            build_safetensors(text + "{}", data),
            "something after the header's object",
        ),
        make_case(
            "json-nul-padded",
            build_safetensors(text.encode() + b"\0\0\0\0", data),
            "a header padded with zero bytes",
        ),
        make_case(
            "json-space-first",
            build_safetensors(" " + text, data),
            "a header that begins with a space",
            f"{_README}: begins with a {{",
            document=True,
        ),
        make_case(
            "json-not-utf8",
            build_safetensors(text.encode().replace(b'"a"', b'"\xff"'), data),
            "a name that is not UTF-8",
            f"{_README}: a UTF-8 string",
        ),
        make_case(
            "json-half-surrogate",
            build_safetensors(text.replace('"a"', '"\\ud800"'), data),
            "half of a surrogate pair in a name",
        ),
        make_case(
            "json-control",
            build_safetensors(text.replace('"a"', '"\x01"'), data),
            "a control character in a name",
            "RFC 8259, section 7",
        ),
        make_case(
            "json-comma",
            build_safetensors(text[:-1] + ",}", data),
            "a comma before the last brace",
            "RFC 8259, section 4",
        ),
        make_case(
            "json-duplicate-name",
            build_safetensors(twice, data),
            "a name that stands twice",
            unique,
            document=True,
        ),
        make_case(
            "json-duplicate-field",
            build_safetensors(inner, data),
            "a dtype that stands twice in one entry",
            unique,
            document=True,
        ),
        make_case(
            "json-deep-arrays",
            build_safetensors(deep, b""),
            "100,000 arrays in each other under __metadata__",
        ),
        make_case(
            "json-deep-objects", build_safetensors(objects, b""), "20,000 objects in each other"
        ),
    ]


def _fields() -> list[ZooCase]:
    header, data = good()

    def metadata(value: Any) -> bytes:
        return build_safetensors({"__metadata__": value, **header}, data)

    strings = f"{_README}: a text-to-text map"
    return [
        make_case("metadata-number", metadata({"step": 3}), "a number in __metadata__", strings),
        make_case(
            "metadata-nested", metadata({"a": {"b": "c"}}), "an object in __metadata__", strings
        ),
        make_case("metadata-array", metadata(["pt"]), "__metadata__ that is an array", strings),
        make_case("entry-null", build_safetensors({"w": None}, b""), "a tensor that is null"),
        make_case("no-dtype", with_fields("no dtype", dtype=None), "a tensor without a dtype"),
        make_case("no-shape", with_fields("no shape", shape=None), "a tensor without a shape"),
        make_case(
            "no-offsets",
            with_fields("no offsets", data_offsets=None),
            "a tensor without data_offsets",
        ),
        make_case(
            "dtype-unknown",
            with_fields("unknown", dtype="F33"),
            "a dtype that the format does not have",
        ),
        make_case("dtype-lower", with_fields("lower", dtype="f32"), "a dtype in small letters"),
        make_case("dtype-number", with_fields("number", dtype=7), "a dtype that is a number"),
        make_case("shape-negative", with_fields("negative", shape=[-6]), "a negative dimension"),
        make_case(
            "shape-two-negative",
            with_fields("negatives", shape=[-2, -3]),
            "two negative dimensions, whose product fits",
        ),
        make_case("shape-float", with_fields("float", shape=[6.0]), "a dimension that is a float"),
        make_case("shape-text", with_fields("text", shape=["6"]), "a dimension that is a string"),
        make_case("shape-number", with_fields("bare", shape=6), "a shape that is no array"),
    ]
