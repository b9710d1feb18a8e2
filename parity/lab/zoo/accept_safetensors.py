"""safetensors files that a reader must load: every dtype, and every freedom of the header."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np

from parity.lab.zoo.case import (
    ExpectedTensor,
    ZooCase,
    draw_dyadic,
    draw_float64,
    make_random,
    make_rows,
)
from parity.lab.zoo.safetensors_builder import (
    build_file,
    build_parts,
    build_safetensors,
    format_header,
    make_f32,
    pad_header,
)

_README = "safetensors README, Format"
_NAME = f"{_README}: keys are strings; RFC 8259, section 7"
_PACKING = "OCP Microscaling; the packing is not in the README"
#: Bytes of an element, of the dtypes whose elements are whole bytes.
_SIZES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1, "F8_E4M3FNUZ": 1,
    "F8_E5M2FNUZ": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2, "I32": 4, "U32": 4, "F32": 4,
    "C64": 8, "F64": 8, "I64": 8, "U64": 8,
}  # fmt: skip
#: Codes that are finite numbers, of the dtypes of one byte where not all are.
_CODES = {"BOOL": (0, 1), "F8_E8M0": (100, 140)}
_SIGNED = ("F8_E5M2", "F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2FNUZ")
_CODES |= dict.fromkeys(_SIGNED, (1, 0x77))
#: NumPy's type of the parts of an element, and its largest number times 64.
_FLOATS = {"F16": ("<f2", 2047), "F32": ("<f4", 8191), "C64": ("<f4", 8191)}


def _build_dtype(dtype: str) -> bytes:
    return build_file({"w": ExpectedTensor(dtype, (3, 5), _draw_elements(dtype))})


def _draw_elements(dtype: str) -> bytes:
    """Draw fifteen elements; floats are finite numbers, bools are 0 and 1."""
    size = 15 * _SIZES[dtype]
    if dtype in _CODES:
        low, high = _CODES[dtype]
        signs = (
            make_random(f"{dtype} signs").draw_integers(0, 1, 15) << 7 if dtype in _SIGNED else 0
        )
        return (make_random(dtype).draw_integers(low, high, 15) | signs).astype("u1").tobytes()
    if dtype in _FLOATS:
        code, most = _FLOATS[dtype]
        return draw_dyadic(dtype, size // np.dtype(code).itemsize, most=most).astype(code).tobytes()
    if dtype == "BF16":
        return make_random(dtype).draw_bfloat16(15).tobytes()
    if dtype == "F64":
        return draw_float64(dtype, 15, low="F64 low").tobytes()
    return make_random(dtype).draw_bytes(size).tobytes()


def _build_packed(dtype: str, width: int) -> bytes:
    codes = make_random(dtype).draw_integers(0, 2**width - 1, 16)
    stream = sum(int(code) << width * place for place, code in enumerate(codes))
    packed = ExpectedTensor(dtype, (2, 8), stream.to_bytes(2 * width, "little"))
    return build_file({"w": packed})


_PAIR = {"a": make_f32("a", 2, 3), "b": make_f32("b", 4)}
_HEADER, _DATA = build_parts(_PAIR)


def _build_header(header: dict[str, Any], more: str = "") -> bytes:
    """Build a file of the two tensors with another header, padded, and ``more`` after it."""
    return build_safetensors(pad_header(format_header(header)) + more, _DATA)


def _build_misaligned_half() -> bytes:
    raw = draw_dyadic("odd half", 6, most=2047).astype("<f2").tobytes()
    header, data = build_parts({"h": ExpectedTensor("F16", (2, 3), raw)})
    return build_safetensors(pad_header(format_header(header)) + " ", data)


def _build_escaped_name() -> bytes:
    header, data = build_parts({"N": make_f32("escaped", 2, 3)})
    escaped = json.dumps({'"é\\😀': 0})[1:-4]
    return build_safetensors(pad_header(json.dumps(header).replace('"N"', escaped)), data)


def _build_name(name: str) -> bytes:
    return build_file({name: make_f32(name, 2, 3)})


def _build_w(name: str, *shape: int) -> bytes:
    return build_file({"w": make_f32(name, *shape)})


def _build_specials(dtype: str, code: str, *codes: int) -> bytes:
    return build_file({"w": ExpectedTensor(dtype, (6,), np.array(codes, code).tobytes())})


_NONE, _EMPTY = (ExpectedTensor("F32", shape, b"") for shape in ((0, 3), (0,)))
yes = make_rows("safetensors-y", _README)
may = make_rows("safetensors-i", _PACKING)
# fmt: off
#: Floats narrower than a byte.
_NARROW = [
    may("f4", "the dtype F4: two E2M1 to a byte, the first in the low half",
        lambda: _build_packed("F4", 4)),
    may("f6-e2m3", "the dtype F6_E2M3: four to three bytes, the first in the lowest bits",
        lambda: _build_packed("F6_E2M3", 6)),
    may("f6-e3m2", "the dtype F6_E3M2: four to three bytes, the first in the lowest bits",
        lambda: _build_packed("F6_E3M2", 6)),
]
_HEADERS = [
    yes("metadata", "__metadata__ with two strings",
        lambda: build_file(_PAIR, {"format": "pt", "é": "ü"})),
    yes("metadata-empty", "an empty __metadata__", lambda: build_file(_PAIR, {})),
    yes("metadata-last", "__metadata__ after the tensors",
        lambda: _build_header({**_HEADER, "__metadata__": {"format": "pt"}})),
    yes("no-metadata", "no __metadata__, the header padded to eight bytes",
        lambda: build_file(_PAIR)),
    yes("padded", "a header padded with more spaces than are needed",
        lambda: build_safetensors(format_header(_HEADER) + " " * 24, _DATA),
        f"{_README}: trailing whitespace"),
    yes("misaligned",
        "data that begins at a byte that no element size divides, as older writers left it",
        lambda: _build_header(_HEADER, " ")),
    yes("misaligned-half",
        "f16 that begins at an odd byte: it cannot be read in place as 16-bit words",
        _build_misaligned_half),
    yes("other-order", "tensors listed in another order than their data",
        lambda: _build_header(dict(reversed(_HEADER.items())))),
    yes("keys-in-other-order", "data_offsets before shape before dtype",
        lambda: _build_header({k: dict(reversed(v.items())) for k, v in _HEADER.items()})),
    yes("spaced-json", "a header with spaces and line feeds between its tokens",
        lambda: build_safetensors(json.dumps(_HEADER, indent=1), _DATA), "RFC 8259, section 2"),
]
_SHAPES = [
    yes("scalar", "a scalar: an empty shape", lambda: _build_w("scalar st"),
        f"{_README}: 0-rank tensors"),
    yes("empty", "a tensor without an element beside one with some",
        lambda: build_file({"none": _NONE, "some": make_f32("some", 2, 3)}),
        f"{_README}: empty tensors"),
    yes("empty-between", "a tensor without an element between two others",
        lambda: build_file(
            {"a": make_f32("before", 2), "none": _EMPTY, "z": make_f32("after", 3)})),
    yes("ones", "dimensions of one element", lambda: _build_w("ones st", 1, 1, 5, 1)),
    yes("eight-dims", "eight dimensions", lambda: _build_w("eight", 2, 1, 2, 1, 3, 1, 1, 2)),
]
_NAMES = [
    yes("name-unicode", "a name beyond ASCII, as UTF-8", lambda: _build_name("größe.重み"), _NAME),
    yes("name-slash", "a slash in a name", lambda: _build_name("block/weight"), _NAME),
    yes("name-spaces", "a space in a name", lambda: _build_name("my weight"), _NAME),
    yes("name-long", "a name of 300 characters", lambda: _build_name("w" * 300), _NAME),
    yes("name-dots", "dots in a name", lambda: _build_name("a.b.0.weight"), _NAME),
    yes("name-escaped", "a name spelled with escapes, a surrogate pair among them",
        _build_escaped_name, _NAME),
    yes("name-case-twins", "two names that differ by case alone",
        lambda: build_file(
            {"Weight": make_f32("upper st", 2, 3), "weight": make_f32("lower st", 2, 3)}), _NAME),
    may("name-empty", "a name without a character",
        lambda: build_file({"": make_f32("nameless", 2)}), _NAME),
]
_SPECIALS = {
    "F32": ("<u4", 0x80000000, 0x7F800000, 0xFF800000, 0x7FC12345, 0x7F812345, 1),
    "F16": ("<u2", 0x8000, 0x7C00, 0xFC00, 0x7E01, 1, 0x03FF),
    "BF16": ("<u2", 0x8000, 0x7F80, 0xFF80, 0x7FA4, 1, 0x7F),
    "F8_E4M3": ("u1", 0x80, 0x7E, 0x7F, 0xFF, 1, 7),
    "F8_E5M2": ("u1", 0x80, 0x7C, 0xFC, 0x7D, 1, 3),
}
CASES = [
    *(ZooCase(f"safetensors-y-{dtype.lower().replace('_', '-')}", partial(_build_dtype, dtype),
              f"the dtype {dtype}", f"{_README}: DTYPE")
      for dtype in _SIZES),
    *_NARROW, *_HEADERS, *_SHAPES, *_NAMES,
    *(ZooCase(f"safetensors-y-{dtype.lower().replace('_', '-')}-specials",
              partial(_build_specials, dtype, *codes),
              f"-0.0, infinities, NaN and subnormals of {dtype}, as far as it has them",
              "IEEE 754; OCP 8-bit floating point")
      for dtype, codes in _SPECIALS.items()),
]
# fmt: on
