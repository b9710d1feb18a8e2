"""safetensors files that a reader must reject."""

from __future__ import annotations

import json
from typing import Any

from parity.lab.zoo.case import ExpectedTensor, ZooCase, draw_dyadic
from parity.lab.zoo.safetensors_builder import build_parts, build_safetensors, make_f32

_README = "safetensors README, Format"
_LIBRARY = "the safetensors library rejects it"
_UNIQUE = f"{_README}: duplicate keys are disallowed"
_STRINGS = f"{_README}: a text-to-text map"
_HOLES = f"{_README}: the byte buffer is indexed whole and without holes"
_SILENT = "the document is silent"
_HEADER, _DATA = build_parts({"a": make_f32("good a", 2, 3), "b": make_f32("good b", 2)})
_TEXT = json.dumps(_HEADER)
_GOOD = build_safetensors(_HEADER, _DATA)
_END = len(_GOOD) - len(_DATA)
_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 96\n"
#: Levels that overflow a stack of 8 MiB in a parser that calls itself at each.
_ARRAYS, _OBJECTS = 100_000, 20_000


def _replace(old: str, new: str, count: int = -1) -> bytes:
    """Build a good file with some text of its header replaced."""
    return build_safetensors(_TEXT.replace(old, new, count), _DATA)


def _set_length(length: int) -> bytes:
    return build_safetensors(_HEADER, _DATA, length)


def _set_fields(name: str, **fields: Any) -> bytes:
    """Build a file of one tensor ``w``, six f32, with other fields; None removes one."""
    header, data = build_parts({"w": make_f32(name, 6)})
    entry = {**header["w"], **fields}
    header["w"] = {key: value for key, value in entry.items() if value is not None}
    return build_safetensors(header, data)


def _set_offsets(first: list[int], second: list[int], size: int) -> bytes:
    """Build a file of two tensors over ``size`` bytes of data."""
    pairs = zip(_HEADER.items(), (first, second), strict=True)
    header = {name: {**entry, "data_offsets": offsets} for (name, entry), offsets in pairs}
    return build_safetensors(header, draw_dyadic(f"two {first} {second}", 16).tobytes()[:size])


def _set_metadata(value: Any) -> bytes:
    return build_safetensors({"__metadata__": value, **_HEADER}, _DATA)


def _build_duplicate_name() -> bytes:
    entry = json.dumps(_HEADER["a"])
    return build_safetensors(f'{{"a":{entry},"a":{entry},"b":{json.dumps(_HEADER["b"])}}}', _DATA)


def _build_exponent() -> bytes:
    header, data = build_parts({"w": make_f32("o exp", 6)})
    return build_safetensors(json.dumps(header).replace("24]", "24e0]"), data)


def _build_hole_first() -> bytes:
    header, data = build_parts({"w": make_f32("hole first", 6)})
    header["w"]["data_offsets"] = [4, 28]
    return build_safetensors(header, b"\0\0\0\0" + data)


# fmt: off
_FILES = [
    ZooCase("safetensors-n-empty-file", lambda: b"", "a file without a byte", _LIBRARY),
    ZooCase("safetensors-n-seven-bytes", lambda: _GOOD[:7],
            "a file that ends inside the header's length", _LIBRARY),
    ZooCase("safetensors-n-length-alone", lambda: _GOOD[:8],
            "a file that ends after the header's length", _LIBRARY),
    ZooCase("safetensors-n-cut-header", lambda: _GOOD[: _END - 9],
            "a file that ends inside its header", _LIBRARY),
    ZooCase("safetensors-n-cut-data", lambda: _GOOD[:-5],
            "a file that ends inside its data", _LIBRARY),
    ZooCase("safetensors-n-no-data", lambda: _GOOD[:_END], "a header and no data", _LIBRARY),
    ZooCase("safetensors-n-trailing-data", lambda: _GOOD + b"\0\0\0\0",
            "four bytes after the last tensor", f"{_README}: no holes in the byte buffer"),
    ZooCase("safetensors-n-length-0", lambda: build_safetensors("", _DATA, 0),
            "a header of no length", _LIBRARY),
    ZooCase("safetensors-n-length-past-end", lambda: _set_length(5000),
            "a header longer than the file", _LIBRARY),
    ZooCase("safetensors-n-length-2-31", lambda: _set_length(2**31),
            "a header of 2^31 bytes", _LIBRARY),
    ZooCase("safetensors-n-length-2-60", lambda: _set_length(2**60),
            "a header of 2^60 bytes", _LIBRARY),
    ZooCase("safetensors-n-length-2-63", lambda: _set_length(2**63),
            "a header of 2^63 bytes: a negative number to some",
            f"{_README}: an unsigned 64-bit integer"),
    ZooCase("safetensors-n-length-minus-8", lambda: _set_length(2**64 - 8),
            "a header length that wraps around when eight is added", _LIBRARY),
    ZooCase("safetensors-n-length-big-endian", lambda: _GOOD[:8][::-1] + _GOOD[8:],
            "a header length with its most significant byte first", f"{_README}: little-endian"),
    ZooCase("safetensors-n-lfs-pointer", lambda: _POINTER,
            "a Git LFS pointer in place of the file", _LIBRARY),
]
_JSON = [
    ZooCase("safetensors-n-json-array", lambda: build_safetensors("[1, 2]  ", _DATA),
            "a header that is an array", _LIBRARY),
    ZooCase("safetensors-n-json-string", lambda: build_safetensors('"weights"', _DATA),
            "a header that is a string", _LIBRARY),
    ZooCase("safetensors-n-json-cut", lambda: build_safetensors(_TEXT[:-1], _DATA),
            "a header without its last brace", _LIBRARY),
    ZooCase("safetensors-n-json-after", lambda: build_safetensors(_TEXT + "{}", _DATA),
            "something after the header's object", _LIBRARY),
    ZooCase("safetensors-n-json-nul-padded",
            lambda: build_safetensors(_TEXT + "\0\0\0\0", _DATA),
            "a header padded with zero bytes", _LIBRARY),
    ZooCase("safetensors-n-json-space-first", lambda: build_safetensors(" " + _TEXT, _DATA),
            "a header that begins with a space", f"{_README}: begins with a {{", by_document=True),
    ZooCase("safetensors-n-json-not-utf8",
            lambda: build_safetensors(_TEXT.encode().replace(b'"a"', b'"\xff"'), _DATA),
            "a name that is not UTF-8", f"{_README}: a UTF-8 string"),
    ZooCase("safetensors-n-json-half-surrogate", lambda: _replace('"a"', '"\\ud800"'),
            "half of a surrogate pair in a name", _LIBRARY),
    ZooCase("safetensors-n-json-control", lambda: _replace('"a"', '"\x01"'),
            "a control character in a name", "RFC 8259, section 7"),
    ZooCase("safetensors-n-json-comma", lambda: build_safetensors(_TEXT[:-1] + ",}", _DATA),
            "a comma before the last brace", "RFC 8259, section 4"),
    ZooCase("safetensors-n-json-duplicate-name", _build_duplicate_name,
            "a name that occurs twice", _UNIQUE, by_document=True),
    ZooCase("safetensors-n-json-duplicate-field",
            lambda: _replace('"dtype": "F32"', '"dtype": "F32", "dtype": "F32"', 1),
            "a dtype that occurs twice in one entry", _UNIQUE, by_document=True),
    ZooCase("safetensors-n-json-deep-arrays",
            lambda: build_safetensors(
                '{"__metadata__":' + "[" * _ARRAYS + "]" * _ARRAYS + "}", b""),
            "100,000 arrays in each other under __metadata__", _LIBRARY),
    ZooCase("safetensors-n-json-deep-objects",
            lambda: build_safetensors('{"a":' * _OBJECTS + "1" + "}" * _OBJECTS, b""),
            "20,000 objects in each other", _LIBRARY),
]
_FIELDS = [
    ZooCase("safetensors-n-metadata-number", lambda: _set_metadata({"step": 3}),
            "a number in __metadata__", _STRINGS),
    ZooCase("safetensors-n-metadata-nested", lambda: _set_metadata({"a": {"b": "c"}}),
            "an object in __metadata__", _STRINGS),
    ZooCase("safetensors-n-metadata-array", lambda: _set_metadata(["pt"]),
            "__metadata__ that is an array", _STRINGS),
    ZooCase("safetensors-n-entry-null", lambda: build_safetensors({"w": None}, b""),
            "a tensor that is null", _LIBRARY),
    ZooCase("safetensors-n-no-dtype", lambda: _set_fields("no dtype", dtype=None),
            "a tensor without a dtype", _LIBRARY),
    ZooCase("safetensors-n-no-shape", lambda: _set_fields("no shape", shape=None),
            "a tensor without a shape", _LIBRARY),
    ZooCase("safetensors-n-no-offsets", lambda: _set_fields("no offsets", data_offsets=None),
            "a tensor without data_offsets", _LIBRARY),
    ZooCase("safetensors-n-dtype-unknown", lambda: _set_fields("unknown", dtype="F33"),
            "a dtype that the format does not have", _LIBRARY),
    ZooCase("safetensors-n-dtype-lower", lambda: _set_fields("lower", dtype="f32"),
            "a dtype in small letters", _LIBRARY),
    ZooCase("safetensors-n-dtype-number", lambda: _set_fields("number", dtype=7),
            "a dtype that is a number", _LIBRARY),
    ZooCase("safetensors-n-shape-negative", lambda: _set_fields("negative", shape=[-6]),
            "a negative dimension", _LIBRARY),
    ZooCase("safetensors-n-shape-two-negative", lambda: _set_fields("negatives", shape=[-2, -3]),
            "two negative dimensions, whose product fits", _LIBRARY),
    ZooCase("safetensors-n-shape-float", lambda: _set_fields("float", shape=[6.0]),
            "a dimension that is a float", _LIBRARY),
    ZooCase("safetensors-n-shape-text", lambda: _set_fields("text", shape=["6"]),
            "a dimension that is a string", _LIBRARY),
    ZooCase("safetensors-n-shape-number", lambda: _set_fields("bare", shape=6),
            "a shape that is not an array", _LIBRARY),
]
_OFFSETS = [
    ZooCase("safetensors-n-offsets-float", lambda: _set_fields("o float", data_offsets=[0, 24.0]),
            "an offset that is a float", _LIBRARY),
    ZooCase("safetensors-n-offsets-exponent", _build_exponent,
            "an offset written with an exponent", _LIBRARY),
    ZooCase("safetensors-n-offsets-negative", lambda: _set_fields("o neg", data_offsets=[-24, 0]),
            "negative offsets", _LIBRARY),
    ZooCase("safetensors-n-offsets-reversed", lambda: _set_fields("o rev", data_offsets=[24, 0]),
            "an end before its begin", _LIBRARY),
    ZooCase("safetensors-n-offsets-three",
            lambda: _set_fields("o three", data_offsets=[0, 12, 24]), "three offsets", _LIBRARY),
    ZooCase("safetensors-n-offsets-one", lambda: _set_fields("o one", data_offsets=[0]),
            "one offset", _LIBRARY),
    ZooCase("safetensors-n-offsets-past-end", lambda: _set_fields("o past", data_offsets=[8, 32]),
            "a tensor that ends past the file", _LIBRARY),
    ZooCase("safetensors-n-offsets-2-63",
            lambda: _set_fields("o 63", data_offsets=[2**63, 2**63 + 24]),
            "offsets beyond 2^63", _LIBRARY),
    ZooCase("safetensors-n-offsets-2-64", lambda: _set_fields("o 64", data_offsets=[0, 2**64 + 24]),
            "an offset that wraps around to the right one", _LIBRARY),
    ZooCase("safetensors-n-length-short", lambda: _set_fields("short", data_offsets=[0, 20]),
            "offsets that span less than the shape needs", _LIBRARY),
    ZooCase("safetensors-n-length-long", lambda: _set_fields("long", shape=[5]),
            "offsets that span more than the shape needs", _LIBRARY),
    ZooCase("safetensors-n-length-dtype", lambda: _set_fields("wide", dtype="F64"),
            "a dtype that needs twice the bytes", _LIBRARY),
    ZooCase("safetensors-n-overlap", lambda: _set_offsets([0, 24], [16, 24], 24),
            "two tensors that share eight bytes", _HOLES),
    ZooCase("safetensors-n-alias", lambda: _set_offsets([0, 24], [0, 8], 24),
            "a tensor whose data is the start of another's", _HOLES),
    ZooCase("safetensors-n-hole", lambda: _set_offsets([0, 24], [28, 36], 36),
            "a hole of four bytes between two tensors", _HOLES),
    ZooCase("safetensors-n-hole-first", _build_hole_first,
            "four bytes before the first tensor", _HOLES),
    ZooCase("safetensors-n-product-2-64",
            lambda: _set_fields("p64", shape=[2**32, 2**32], data_offsets=[0, 0]),
            "a shape whose product is 2^64, zero in 64 bits", _LIBRARY),
    ZooCase("safetensors-n-product-wraps", lambda: _set_fields("wraps", shape=[2**62 + 6]),
            "a count whose bytes wrap around to the right length", _LIBRARY),
    ZooCase("safetensors-n-shape-2-31", lambda: _set_fields("s31", shape=[2**31]),
            "a dimension of 2^31 over 24 bytes", _LIBRARY),
    ZooCase("safetensors-n-shape-2-64", lambda: _set_fields("s64", shape=[2**64 + 6]),
            "a dimension beyond 64 bits", _LIBRARY),
]
# fmt: on

_HUGE = {"none": ExpectedTensor("F32", (0, 2**31, 2**20), b""), "some": make_f32("beside", 3)}
_ARRAY = {"w": ["F32", [1], [0, 4]]}
# fmt: off
#: The document does not forbid them.
_ALLOWED = [
    ZooCase("safetensors-i-extra-field", lambda: _set_fields("extra key", quant="none"),
            "an entry with a field that the format does not have", _SILENT),
    ZooCase("safetensors-i-empty-but-huge", lambda: build_safetensors(*build_parts(_HUGE)),
            "a tensor without an element whose other dimensions multiply to 2^51", _SILENT,
            expected=_HUGE),
    ZooCase("safetensors-i-entry-array",
            lambda: build_safetensors(_ARRAY, draw_dyadic("array", 1).tobytes()),
            "a tensor whose fields are an array, in order", _SILENT),
    ZooCase("safetensors-i-name-nul",
            lambda: build_safetensors(*build_parts({"a\0b": make_f32("nul", 2)})),
            "a zero byte in a name, escaped", _SILENT),
]
# fmt: on
CASES = [*_FILES, *_JSON, *_FIELDS, *_OFFSETS, *_ALLOWED]
