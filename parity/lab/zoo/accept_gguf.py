"""GGUF files that a reader must load: every type, and every freedom of the header."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.lab.pins import random_blocks
from parity.lab.zoo import gguf_blocks
from parity.lab.zoo.case import (
    EQUAL,
    ExpectedTensor,
    ZooCase,
    draw_dyadic,
    draw_float64,
    make_random,
    make_rows,
)
from parity.lab.zoo.gguf_builder import (
    ARRAY,
    F32,
    SCALARS,
    STRING,
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
_DIMS, _NAME = f"{_DOC}: n_dimensions", f"{_DOC}: gguf_tensor_info_t, name"
_ALIGNMENT = f"{_DOC}: general.alignment"
_VERSION = f"{_DOC}: version history"
_SILENT = "the document is silent"
_SUPER_BLOCK = 256


def _build_plain(kind: str) -> bytes:
    """Build three rows of seven of a type whose elements stand alone."""
    draws: dict[str, Callable[[], NDArray[Any]]] = {
        "F32": lambda: draw_dyadic("gguf f32", 21).astype("<f4"),
        "F16": lambda: draw_dyadic("gguf f16", 21, most=2047).astype("<f2"),
        "BF16": lambda: make_random("gguf bf16").draw_bfloat16(21),
        "F64": lambda: draw_float64("gguf f64", 21, low="gguf f64"),
    }
    random = make_random(f"gguf {kind.lower()}")
    raw = draws[kind]() if kind in draws else random.draw_bytes(21 * int(kind[1:]) // 8)
    code = gguf_blocks.find_type_code(kind)
    return build_gguf(TensorInfo(name="w", dims=(7, 3), kind=code, data=raw.tobytes()))


#: Rows, blocks in a row and elements of a block of each quantised type.
_SIZES = {
    kind: (3, 1, elements) if elements == _SUPER_BLOCK else (5, 3, elements)
    for kind in gguf_blocks.QUANTS
    for elements, _ in [gguf_blocks.find_block_size(kind)]
}


def _build_quantised(kind: str, rows: int, blocks_in_row: int) -> bytes:
    return build_gguf(gguf_blocks.make_quantised(kind, rows, blocks_in_row))


def _build_cube() -> bytes:
    info = gguf_blocks.make_quantised("Q5_0", 6)
    return build_gguf(TensorInfo(name="w", dims=(32, 2, 3), kind=info.kind, data=info.data))


#: Block scales that a decoder may treat apart, as f16.
_SCALES = {"zero": 0x0000, "subnormal": 0x0155, "infinite": 0x7C00, "nan": 0x7E01}


def _build_scale(kind: str, scale: int) -> bytes:
    """Build a block with this scale, before one whose scale is a finite number."""
    info = gguf_blocks.make_quantised(kind, 2)
    raw = np.frombuffer(info.data, np.uint8).copy()
    at = random_blocks.BLOCK_LAYOUTS[kind].scale_offsets[0]
    raw[at : at + 2] = np.array([scale], "<u2").view(np.uint8)
    return build_gguf(TensorInfo(name="w", dims=info.dims, kind=info.kind, data=raw.tobytes()))


_THREE = (
    make_f32("a", 3, seed="first"),
    make_f32("b", 5, 2, seed="second"),
    make_f32("c", 2, seed="third"),
)
_GAP = TensorInfo(name="b", dims=(5, 2), kind=F32, data=_THREE[1].data, offset=96)


def _state_alignment(size: int) -> bytes:
    key = encode_scalar("general.alignment", "uint32", size)
    return build_gguf(*_THREE, metadata=(key,), alignment=size)


def _build_late_alignment() -> bytes:
    keys = encode_scalar("a.b", "uint8", 1), encode_scalar("general.alignment", "uint32", 64)
    return build_gguf(*_THREE, metadata=keys, alignment=64)


#: A value of each type.
_INNER = encode_array(0, 3, b"\x01\x02\x03") + encode_array(0, 1, b"\x04")
_NUMBERS = {"float32": 0.5, "float64": -0.25, "bool": 1}
_TEXTS = encode_string("a") + encode_string("") + encode_string("été")
_VALUES = {
    **{kind: encode_scalar("a.value", kind, _NUMBERS.get(kind, 3)) for kind in SCALARS},
    "string": encode_pair("a.value", STRING, encode_string("größe")),
    "array-bool": encode_array_pair(SCALARS["bool"][0], 3, b"\x01\x00\x01"),
    "array-uint8": encode_array_pair(0, 5, b"\x01\x02\x03\x04\x05"),
    "array-float64": encode_array_pair(12, 2, bytes(16)),
    "array-string": encode_array_pair(STRING, 3, _TEXTS),
    "array-empty": encode_array_pair(STRING, 0, b""),
    "array-of-arrays": encode_array_pair(ARRAY, 2, _INNER),
    "string-empty": encode_pair("a.value", STRING, encode_string("")),
}


def _build_value(name: str) -> bytes:
    """Build a value before a tensor that a reader out of step would miss."""
    metadata = (_VALUES[name], encode_scalar("z.last", "uint32", 7))
    return build_gguf(make_f32("w", 3, 2, seed=name), metadata=metadata)


def _build_name(name: str, seed: str) -> bytes:
    return build_gguf(make_f32(name, 3, 2, seed=seed))


_NUMBER = draw_dyadic("gguf either", 3, 2)
_RAW = _NUMBER.tobytes()
_EXPECTED = {"w": ExpectedTensor("F32", (3, 2), _RAW)}
_W = TensorInfo(name="w", dims=(3, 2), kind=F32, data=_RAW)


def _build_w(dims: tuple[int, ...], data: bytes = _RAW) -> bytes:
    return build_gguf(TensorInfo(name="w", dims=dims, kind=F32, data=data))


def _build_big_endian() -> bytes:
    swapped = TensorInfo(name="w", dims=(3, 2), kind=F32, data=_NUMBER.astype(">f4").tobytes())
    return build_gguf(swapped, order=">", metadata=(encode_scalar("a.b", "uint32", 3, ">"),))


yes = make_rows("gguf-y", _NAME)
may = make_rows("gguf-i", _SILENT)
# fmt: off
_TYPES = [
    *(ZooCase(f"gguf-y-{kind.lower()}", partial(_build_plain, kind),
              f"the type {kind}, in rows of seven", f"{_DOC}: ggml_type")
      for kind in ("F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64")),
    *(ZooCase(f"gguf-y-{kind.lower().replace('_', '-')}",
              partial(_build_quantised, kind, rows, blocks_in_row),
              f"{kind}: {rows} rows of {blocks_in_row} blocks of {elements}",
              "ggml-common.h, as gguf-py dequantises it", bounds=EQUAL)
      for kind, (rows, blocks_in_row, elements) in _SIZES.items()),
    *(ZooCase(f"gguf-y-{kind.lower().replace('_', '-')}-scale-{word}",
              partial(_build_scale, kind, scale),
              f"{kind}: a block whose scale is {word}, before one whose scale is a number",
              "IEEE 754: binary16", bounds=EQUAL)
      for kind in ("Q4_0", "Q5_1", "Q8_0", "Q4_K", "Q6_K") for word, scale in _SCALES.items()),
]
_SHAPES = [
    yes("one-dim", "one dimension", lambda: build_gguf(make_f32("w", 11, seed="one")), _DIMS),
    yes("three-dims", "three dimensions, fastest first",
        lambda: build_gguf(make_f32("w", 5, 2, 3, seed="three")), _DIMS),
    yes("four-dims", "four dimensions, one of them of one element",
        lambda: build_gguf(make_f32("w", 3, 1, 4, 2, seed="four")), _DIMS),
    yes("ones", "four dimensions of one element",
        lambda: build_gguf(make_f32("w", 1, 1, 1, 1, seed="ones")), _DIMS),
    yes("three-dims-quantised", "three dimensions of a quantised type", _build_cube, _DOC,
        bounds=EQUAL),
]
_LAYOUTS = [
    yes("version-2", "version 2, whose layout is that of version 3",
        lambda: build_gguf(*_THREE, version=2), _VERSION),
    yes("three-tensors", "three tensors one after another, padded to 32 bytes",
        lambda: build_gguf(*_THREE), _DOC),
    yes("alignment-8", "an alignment of 8", lambda: _state_alignment(8), _ALIGNMENT),
    yes("alignment-16", "an alignment of 16", lambda: _state_alignment(16), _ALIGNMENT),
    yes("alignment-64", "an alignment of 64", lambda: _state_alignment(64), _ALIGNMENT),
    yes("alignment-last", "an alignment stated after another key", _build_late_alignment,
        _ALIGNMENT),
    yes("other-order", "tensors listed in another order than their data",
        lambda: build_gguf(*_THREE, data_order=(2, 0, 1)), _DOC),
    yes("gap", "a gap of two alignments between two tensors", lambda: build_gguf(_THREE[0], _GAP),
        "gguf-py reads it; each offset is independent"),
    yes("filler", "padding that is not zero", lambda: build_gguf(*_THREE, padding=b"\xaa"),
        f"{_DOC}: padding of any bytes"),
    yes("no-metadata", "no metadata at all", lambda: build_gguf(_THREE[0]), _DOC),
    *(ZooCase(f"gguf-y-meta-{name}", partial(_build_value, name),
              f"metadata of the type {name.replace('-', ', ')}, then another key",
              f"{_DOC}: gguf_metadata_value_type")
      for name in _VALUES),
]
_NAMES = [
    yes("name-unicode", "a name beyond ASCII", lambda: _build_name("größe.重み", "unicode")),
    yes("name-spaces", "a space in a name", lambda: _build_name("my weight", "spaces")),
    yes("name-slash", "a slash in a name", lambda: _build_name("block/weight", "slash")),
    yes("name-longest", "a name of 64 bytes, the longest that is allowed",
        lambda: _build_name("w" * 64, "longest")),
    yes("name-case-twins", "two names that differ by case alone",
        lambda: build_gguf(
            make_f32("Weight", 3, 2, seed="up"), make_f32("weight", 3, 2, seed="low"))),
]
#: The document leaves them open, or a reader need not know them.
_EITHER = [
    may("big-endian", "version 3, most significant byte first: the magic is the same",
        _build_big_endian, f"{_DOC}: endianness"),
    may("version-1", "version 1, whose counts have 32 bits",
        lambda: build_gguf(_W, version=1, has_32bit_counts=True), _VERSION, expected=_EXPECTED),
    may("no-dims", "a tensor of no dimensions", lambda: _build_w((), _RAW[:4]),
        f"{_SILENT}; a scalar is meant", expected={"w": ExpectedTensor("F32", (), _RAW[:4])}),
    may("five-dims", "five dimensions, one more than ggml has", lambda: _build_w((3, 1, 2, 1, 1)),
        f"{_DOC}: at most 4 at present", disputed=True),
    may("empty-tensor", "a dimension of zero",
        lambda: build_gguf(TensorInfo(name="none", dims=(0, 2), kind=F32, data=b""), _W),
        expected={"none": ExpectedTensor("F32", (0, 2), b""), **_EXPECTED}),
    may("shared-data", "two tensors on the same bytes",
        lambda: build_gguf(_W, TensorInfo(name="v", dims=(3,), kind=F32, data=_RAW[:12], offset=0)),
        "ggml: each tensor's offset follows the one before", disputed=True),
    may("trailing-data", "64 bytes after the last tensor", lambda: build_gguf(_W) + bytes(64)),
    may("not-padded", "a last tensor that is not padded", lambda: build_gguf(_W)[:-8],
        "ggml: the data ends with padding", disputed=True),
    may("name-nul", "two names, w and w with a NUL, which is a part of the name",
        lambda: build_gguf(_W, make_f32("w\0", 3, 2, seed="nul")),
        f"{_DOC}: a string has a length, and is not null-terminated"),
    may("name-empty", "a name without a character", lambda: build_gguf(make_f32("", 3))),
]
# fmt: on
CASES = [*_TYPES, *_SHAPES, *_LAYOUTS, *_NAMES, *_EITHER]
