"""safetensors files that a reader must reject."""

from __future__ import annotations

import json
from typing import Any

from parity.lab.zoo.case import ExpectedTensor, draw_dyadic, make_rows
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


no = make_rows("safetensors-n", _LIBRARY)
may = make_rows("safetensors-i", _SILENT)
# fmt: off
_FILES = [
    no("empty-file", "a file without a byte", lambda: b""),
    no("seven-bytes", "a file that ends inside the header's length", lambda: _GOOD[:7]),
    no("length-alone", "a file that ends after the header's length", lambda: _GOOD[:8]),
    no("cut-header", "a file that ends inside its header", lambda: _GOOD[: _END - 9]),
    no("cut-data", "a file that ends inside its data", lambda: _GOOD[:-5]),
    no("no-data", "a header and no data", lambda: _GOOD[:_END]),
    no("trailing-data", "four bytes after the last tensor", lambda: _GOOD + b"\0\0\0\0",
        f"{_README}: no holes in the byte buffer"),
    no("length-0", "a header of no length", lambda: build_safetensors("", _DATA, 0)),
    no("length-past-end", "a header longer than the file", lambda: _set_length(5000)),
    no("length-2-31", "a header of 2^31 bytes", lambda: _set_length(2**31)),
    no("length-2-60", "a header of 2^60 bytes", lambda: _set_length(2**60)),
    no("length-2-63", "a header of 2^63 bytes: a negative number to some",
        lambda: _set_length(2**63), f"{_README}: an unsigned 64-bit integer"),
    no("length-minus-8", "a header length that wraps around when eight is added",
        lambda: _set_length(2**64 - 8)),
    no("length-big-endian", "a header length with its most significant byte first",
        lambda: _GOOD[:8][::-1] + _GOOD[8:], f"{_README}: little-endian"),
    no("lfs-pointer", "a Git LFS pointer in place of the file", lambda: _POINTER),
]
_JSON = [
    no("json-array", "a header that is an array", lambda: build_safetensors("[1, 2]  ", _DATA)),
    no("json-string", "a header that is a string", lambda: build_safetensors('"weights"', _DATA)),
    no("json-cut", "a header without its last brace", lambda: build_safetensors(_TEXT[:-1], _DATA)),
    no("json-after", "something after the header's object",
        lambda: build_safetensors(_TEXT + "{}", _DATA)),
    no("json-nul-padded", "a header padded with zero bytes",
        lambda: build_safetensors(_TEXT + "\0\0\0\0", _DATA)),
    no("json-space-first", "a header that begins with a space",
        lambda: build_safetensors(" " + _TEXT, _DATA), f"{_README}: begins with a {{",
        by_document=True),
    no("json-not-utf8", "a name that is not UTF-8",
        lambda: build_safetensors(_TEXT.encode().replace(b'"a"', b'"\xff"'), _DATA),
        f"{_README}: a UTF-8 string"),
    no("json-half-surrogate", "half of a surrogate pair in a name",
        lambda: _replace('"a"', '"\\ud800"')),
    no("json-control", "a control character in a name", lambda: _replace('"a"', '"\x01"'),
        "RFC 8259, section 7"),
    no("json-comma", "a comma before the last brace",
        lambda: build_safetensors(_TEXT[:-1] + ",}", _DATA), "RFC 8259, section 4"),
    no("json-duplicate-name", "a name that occurs twice", _build_duplicate_name, _UNIQUE,
        by_document=True),
    no("json-duplicate-field", "a dtype that occurs twice in one entry",
        lambda: _replace('"dtype": "F32"', '"dtype": "F32", "dtype": "F32"', 1), _UNIQUE,
        by_document=True),
    no("json-deep-arrays", "100,000 arrays in each other under __metadata__",
        lambda: build_safetensors('{"__metadata__":' + "[" * _ARRAYS + "]" * _ARRAYS + "}", b"")),
    no("json-deep-objects", "20,000 objects in each other",
        lambda: build_safetensors('{"a":' * _OBJECTS + "1" + "}" * _OBJECTS, b"")),
]
_FIELDS = [
    no("metadata-number", "a number in __metadata__", lambda: _set_metadata({"step": 3}), _STRINGS),
    no("metadata-nested", "an object in __metadata__", lambda: _set_metadata({"a": {"b": "c"}}),
        _STRINGS),
    no("metadata-array", "__metadata__ that is an array", lambda: _set_metadata(["pt"]), _STRINGS),
    no("entry-null", "a tensor that is null", lambda: build_safetensors({"w": None}, b"")),
    no("no-dtype", "a tensor without a dtype", lambda: _set_fields("no dtype", dtype=None)),
    no("no-shape", "a tensor without a shape", lambda: _set_fields("no shape", shape=None)),
    no("no-offsets", "a tensor without data_offsets",
        lambda: _set_fields("no offsets", data_offsets=None)),
    no("dtype-unknown", "a dtype that the format does not have",
        lambda: _set_fields("unknown", dtype="F33")),
    no("dtype-lower", "a dtype in small letters", lambda: _set_fields("lower", dtype="f32")),
    no("dtype-number", "a dtype that is a number", lambda: _set_fields("number", dtype=7)),
    no("shape-negative", "a negative dimension", lambda: _set_fields("negative", shape=[-6])),
    no("shape-two-negative", "two negative dimensions, whose product fits",
        lambda: _set_fields("negatives", shape=[-2, -3])),
    no("shape-float", "a dimension that is a float", lambda: _set_fields("float", shape=[6.0])),
    no("shape-text", "a dimension that is a string", lambda: _set_fields("text", shape=["6"])),
    no("shape-number", "a shape that is not an array", lambda: _set_fields("bare", shape=6)),
]
_OFFSETS = [
    no("offsets-float", "an offset that is a float",
        lambda: _set_fields("o float", data_offsets=[0, 24.0])),
    no("offsets-exponent", "an offset written with an exponent", _build_exponent),
    no("offsets-negative", "negative offsets", lambda: _set_fields("o neg", data_offsets=[-24, 0])),
    no("offsets-reversed", "an end before its begin",
        lambda: _set_fields("o rev", data_offsets=[24, 0])),
    no("offsets-three", "three offsets", lambda: _set_fields("o three", data_offsets=[0, 12, 24])),
    no("offsets-one", "one offset", lambda: _set_fields("o one", data_offsets=[0])),
    no("offsets-past-end", "a tensor that ends past the file",
        lambda: _set_fields("o past", data_offsets=[8, 32])),
    no("offsets-2-63", "offsets beyond 2^63",
        lambda: _set_fields("o 63", data_offsets=[2**63, 2**63 + 24])),
    no("offsets-2-64", "an offset that wraps around to the right one",
        lambda: _set_fields("o 64", data_offsets=[0, 2**64 + 24])),
    no("length-short", "offsets that span less than the shape needs",
        lambda: _set_fields("short", data_offsets=[0, 20])),
    no("length-long", "offsets that span more than the shape needs",
        lambda: _set_fields("long", shape=[5])),
    no("length-dtype", "a dtype that needs twice the bytes",
        lambda: _set_fields("wide", dtype="F64")),
    no("overlap", "two tensors that share eight bytes", lambda: _set_offsets([0, 24], [16, 24], 24),
        _HOLES),
    no("alias", "a tensor whose data is the start of another's",
        lambda: _set_offsets([0, 24], [0, 8], 24), _HOLES),
    no("hole", "a hole of four bytes between two tensors",
        lambda: _set_offsets([0, 24], [28, 36], 36), _HOLES),
    no("hole-first", "four bytes before the first tensor", _build_hole_first, _HOLES),
    no("product-2-64", "a shape whose product is 2^64, zero in 64 bits",
        lambda: _set_fields("p64", shape=[2**32, 2**32], data_offsets=[0, 0])),
    no("product-wraps", "a count whose bytes wrap around to the right length",
        lambda: _set_fields("wraps", shape=[2**62 + 6])),
    no("shape-2-31", "a dimension of 2^31 over 24 bytes",
        lambda: _set_fields("s31", shape=[2**31])),
    no("shape-2-64", "a dimension beyond 64 bits", lambda: _set_fields("s64", shape=[2**64 + 6])),
]
# fmt: on

_HUGE = {"none": ExpectedTensor("F32", (0, 2**31, 2**20), b""), "some": make_f32("beside", 3)}
_ARRAY = {"w": ["F32", [1], [0, 4]]}
# fmt: off
#: The document does not forbid them.
_ALLOWED = [
    may("extra-field", "an entry with a field that the format does not have",
        lambda: _set_fields("extra key", quant="none")),
    may("empty-but-huge", "a tensor without an element whose other dimensions multiply to 2^51",
        lambda: build_safetensors(*build_parts(_HUGE)), expected=_HUGE),
    may("entry-array", "a tensor whose fields are an array, in order",
        lambda: build_safetensors(_ARRAY, draw_dyadic("array", 1).tobytes())),
    may("name-nul", "a zero byte in a name, escaped",
        lambda: build_safetensors(*build_parts({"a\0b": make_f32("nul", 2)}))),
]
# fmt: on
CASES = [*_FILES, *_JSON, *_FIELDS, *_OFFSETS, *_ALLOWED]
