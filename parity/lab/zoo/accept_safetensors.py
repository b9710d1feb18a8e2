"""safetensors files that a reader must load: every dtype, and every freedom of the header."""

from __future__ import annotations

import json
from functools import partial

import numpy as np

from parity.lab.zoo.case import (
    ExpectedTensor,
    ZooCase,
    draw_bfloat16,
    draw_dyadic,
    draw_float64,
    make_random,
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
        return draw_bfloat16(dtype, 15).tobytes()
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


def _build_padded(padding: int) -> bytes:
    return build_safetensors(format_header(_HEADER) + " " * padding, _DATA)


def _build_shuffled() -> bytes:
    shuffled = {name: dict(reversed(entry.items())) for name, entry in _HEADER.items()}
    return build_safetensors(pad_header(format_header(shuffled)), _DATA)


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


_NONE = ExpectedTensor("F32", (0, 3), b"")
# fmt: off
#: Floats narrower than a byte.
_NARROW = [
    ZooCase("safetensors-i-f4", lambda: _build_packed("F4", 4),
            "the dtype F4: two E2M1 to a byte, the first in the low half", _PACKING),
    ZooCase("safetensors-i-f6-e2m3", lambda: _build_packed("F6_E2M3", 6),
            "the dtype F6_E2M3: four to three bytes, the first in the lowest bits", _PACKING),
    ZooCase("safetensors-i-f6-e3m2", lambda: _build_packed("F6_E3M2", 6),
            "the dtype F6_E3M2: four to three bytes, the first in the lowest bits", _PACKING),
]
_HEADERS = [
    ZooCase("safetensors-y-metadata", lambda: build_file(_PAIR, {"format": "pt", "é": "ü"}),
            "__metadata__ with two strings", _README),
    ZooCase("safetensors-y-metadata-empty", lambda: build_file(_PAIR, {}),
            "an empty __metadata__", _README),
    ZooCase("safetensors-y-metadata-last",
            lambda: build_safetensors(
                pad_header(format_header({**_HEADER, "__metadata__": {"format": "pt"}})), _DATA),
            "__metadata__ after the tensors", _README),
    ZooCase("safetensors-y-no-metadata", lambda: build_file(_PAIR),
            "no __metadata__, the header padded to eight bytes", _README),
    ZooCase("safetensors-y-padded", lambda: _build_padded(24),
            "a header padded with more spaces than are needed", f"{_README}: trailing whitespace"),
    ZooCase("safetensors-y-misaligned",
            lambda: build_safetensors(pad_header(format_header(_HEADER)) + " ", _DATA),
            "data that begins at a byte that no element size divides, as older writers left it",
            _README),
    ZooCase("safetensors-y-misaligned-half", _build_misaligned_half,
            "f16 that begins at an odd byte: it cannot be read in place as 16-bit words",
            _README),
    ZooCase("safetensors-y-other-order",
            lambda: build_safetensors(
                pad_header(format_header(dict(reversed(_HEADER.items())))), _DATA),
            "tensors listed in another order than their data", _README),
    ZooCase("safetensors-y-keys-in-other-order", _build_shuffled,
            "data_offsets before shape before dtype", _README),
    ZooCase("safetensors-y-spaced-json",
            lambda: build_safetensors(json.dumps(_HEADER, indent=1), _DATA),
            "a header with spaces and line feeds between its tokens", "RFC 8259, section 2"),
]
_SHAPES = [
    ZooCase("safetensors-y-scalar", lambda: _build_w("scalar st"),
            "a scalar: an empty shape", f"{_README}: 0-rank tensors"),
    ZooCase("safetensors-y-empty",
            lambda: build_file({"none": _NONE, "some": make_f32("some", 2, 3)}),
            "a tensor without an element beside one with some", f"{_README}: empty tensors"),
    ZooCase("safetensors-y-empty-between",
            lambda: build_file({"a": make_f32("before", 2),
                                "none": ExpectedTensor("F32", (0,), b""),
                                "z": make_f32("after", 3)}),
            "a tensor without an element between two others", _README),
    ZooCase("safetensors-y-ones", lambda: _build_w("ones st", 1, 1, 5, 1),
            "dimensions of one element", _README),
    ZooCase("safetensors-y-eight-dims", lambda: _build_w("eight", 2, 1, 2, 1, 3, 1, 1, 2),
            "eight dimensions", _README),
]
_NAMES = [
    ZooCase("safetensors-y-name-unicode", lambda: _build_name("größe.重み"),
            "a name beyond ASCII, as UTF-8", _NAME),
    ZooCase("safetensors-y-name-slash", lambda: _build_name("block/weight"),
            "a slash in a name", _NAME),
    ZooCase("safetensors-y-name-spaces", lambda: _build_name("my weight"),
            "a space in a name", _NAME),
    ZooCase("safetensors-y-name-long", lambda: _build_name("w" * 300),
            "a name of 300 characters", _NAME),
    ZooCase("safetensors-y-name-dots", lambda: _build_name("a.b.0.weight"),
            "dots in a name", _NAME),
    ZooCase("safetensors-y-name-escaped", _build_escaped_name,
            "a name spelled with escapes, a surrogate pair among them", _NAME),
    ZooCase("safetensors-y-name-case-twins",
            lambda: build_file({"Weight": make_f32("upper st", 2, 3),
                                "weight": make_f32("lower st", 2, 3)}),
            "two names that differ by case alone", _NAME),
    ZooCase("safetensors-i-name-empty", lambda: build_file({"": make_f32("nameless", 2)}),
            "a name without a character", _NAME),
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
