"""safetensors files that a reader must take: every dtype, and every freedom of the header."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.lab.zoo.case import ExpectedTensor, ZooCase, draw_dyadic, make_random
from parity.lab.zoo.gguf_builder import build_safetensors

if TYPE_CHECKING:
    from collections.abc import Mapping

_README = "safetensors README, Format"
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
#: NumPy's type of the parts of an element, and the most that it holds times 64.
_FLOATS = {"F16": ("<f2", 2047), "F32": ("<f4", 8191), "C64": ("<f4", 8191)}


def entries() -> list[ZooCase]:
    """The cases, in the order of the page."""
    return [*_dtypes(), *_narrow(), *_headers(), *_shapes(), *_names(), *_specials()]


def f32(name: str, *shape: int) -> ExpectedTensor:
    """A tensor of short dyadic numbers."""
    return ExpectedTensor("F32", shape, draw_dyadic(name, *shape).astype("<f4").tobytes())


def laid(tensors: Mapping[str, ExpectedTensor]) -> tuple[dict[str, Any], bytes]:
    """Header entries and data, the tensors one after another."""
    header: dict[str, Any] = {}
    data = b""
    for name, (dtype, shape, raw) in tensors.items():
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets}
        data += raw
    return header, data


def _case(name: str, content: bytes, why: str, rule: str = _README, **more: Any) -> ZooCase:
    letter = more.pop("letter", "y")
    return ZooCase(id=f"safetensors-{letter}-{name}", content=content, why=why, rule=rule, **more)


def _file(
    tensors: Mapping[str, ExpectedTensor], metadata: Mapping[str, str] | None = None
) -> bytes:
    """A file as the library writes it, its data aligned: one feature a file."""
    header, data = laid(tensors)
    first = {} if metadata is None else {"__metadata__": metadata}
    return build_safetensors(_aligned({**first, **header}), data)


def _aligned(header: Mapping[str, Any]) -> str:
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False)
    return text + " " * (-len(text.encode()) % 8)


def _dtypes() -> list[ZooCase]:
    found = []
    for dtype, size in _SIZES.items():
        raw = _elements(dtype, size)
        name = dtype.lower().replace("_", "-")
        content = _file({"w": ExpectedTensor(dtype, (3, 5), raw)})
        found.append(_case(name, content, f"the dtype {dtype}", f"{_README}: DTYPE"))
    return found


def _elements(dtype: str, size: int) -> bytes:
    """Fifteen elements; floats are finite numbers, bools are 0 and 1."""
    if dtype in _CODES:
        low, high = _CODES[dtype]
        signs = (
            make_random(f"{dtype} signs").draw_integers(0, 1, 15) << 7 if dtype in _SIGNED else 0
        )
        return (make_random(dtype).draw_integers(low, high, 15) | signs).astype("u1").tobytes()
    if dtype in _FLOATS:
        code, most = _FLOATS[dtype]
        count = 15 * size // np.dtype(code).itemsize
        return make_random(dtype).draw_dyadic(count, largest=most).astype(code).tobytes()
    if dtype == "BF16":
        exact = make_random(dtype).draw_dyadic(15, largest=255).astype("<f4").view("<u4")
        return (exact >> 16).astype("<u2").tobytes()
    if dtype == "F64":
        low_bits = make_random("F64 low").draw_integers(1, 2**20, 15) / 2.0**40
        return (make_random(dtype).draw_dyadic(15).astype("<f8") + low_bits).tobytes()
    return make_random(dtype).draw_bytes(15 * size).tobytes()


def _narrow() -> list[ZooCase]:
    """Floats narrower than a byte: the document does not say how they are packed."""
    halves = "two E2M1 to a byte, the first in the low half"
    threes = "four to three bytes, the first in the lowest bits"
    found = []
    for dtype, width, why in (("F4", 4, halves), ("F6_E2M3", 6, threes), ("F6_E3M2", 6, threes)):
        codes = make_random(dtype).draw_integers(0, 2**width - 1, 16)
        stream = sum(int(code) << width * place for place, code in enumerate(codes))
        packed = ExpectedTensor(dtype, (2, 8), stream.to_bytes(2 * width, "little"))
        found.append(
            _case(
                dtype.lower().replace("_", "-"),
                _file({"w": packed}),
                f"the dtype {dtype}: {why}",
                "OCP Microscaling; the packing is not in the README",
                letter="i",
            )
        )
    return found


def _headers() -> list[ZooCase]:
    pair = {"a": f32("a", 2, 3), "b": f32("b", 4)}
    header, data = laid(pair)
    turned = dict(reversed(header.items()))
    last = {**header, "__metadata__": {"format": "pt"}}
    shuffled = {name: dict(reversed(entry.items())) for name, entry in header.items()}
    compact = json.dumps(header, separators=(",", ":"))
    aligned = _aligned(header)
    halves = {
        "h": ExpectedTensor(
            "F16",
            (2, 3),
            make_random("odd half").draw_dyadic(6, largest=2047).astype("<f2").tobytes(),
        )
    }
    half_header, half_data = laid(halves)
    return [
        _case("metadata", _file(pair, {"format": "pt", "é": "ü"}), "__metadata__ with two strings"),
        _case("metadata-empty", _file(pair, {}), "an empty __metadata__"),
        _case(
            "metadata-last",
            build_safetensors(_aligned(last), data),
            "__metadata__ after the tensors",
        ),
        _case(
            "no-metadata",
            build_safetensors(aligned, data),
            "no __metadata__, the header padded to eight bytes",
        ),
        _case(
            "padded",
            build_safetensors(compact + " " * 24, data),
            "a header padded with more spaces than are needed",
            f"{_README}: trailing whitespace",
        ),
        _case(
            "misaligned",
            build_safetensors(aligned + " ", data),
            "data that begins at a byte that no element size divides, as older writers left it",
        ),
        _case(
            "misaligned-half",
            build_safetensors(_aligned(half_header) + " ", half_data),
            "f16 that begins at an odd byte: it cannot be taken as 16-bit words where it lies",
        ),
        _case(
            "other-order",
            build_safetensors(_aligned(turned), data),
            "tensors listed in another order than they lie",
        ),
        _case(
            "keys-in-other-order",
            build_safetensors(_aligned(shuffled), data),
            "data_offsets before shape before dtype",
        ),
        _case(
            "spaced-json",
            build_safetensors(json.dumps(header, indent=1), data),
            "a header with spaces and line feeds between its tokens",
            "RFC 8259, section 2",
        ),
    ]


def _shapes() -> list[ZooCase]:
    empty = {"none": ExpectedTensor("F32", (0, 3), b""), "some": f32("some", 2, 3)}
    between = {
        "a": f32("before", 2),
        "none": ExpectedTensor("F32", (0,), b""),
        "z": f32("after", 3),
    }
    return [
        _case(
            "scalar",
            _file({"w": f32("scalar st")}),
            "a scalar: an empty shape",
            f"{_README}: 0-rank tensors",
        ),
        _case(
            "empty",
            _file(empty),
            "a tensor without an element beside one with some",
            f"{_README}: empty tensors",
        ),
        _case("empty-between", _file(between), "a tensor without an element between two others"),
        _case("ones", _file({"w": f32("ones st", 1, 1, 5, 1)}), "dimensions of one element"),
        _case("eight-dims", _file({"w": f32("eight", 2, 1, 2, 1, 3, 1, 1, 2)}), "eight dimensions"),
    ]


def _names() -> list[ZooCase]:
    rule = f"{_README}: keys are strings; RFC 8259, section 7"
    escaped = json.dumps({'"é\\😀': 0})[1:-4]
    header, data = laid({"N": f32("escaped", 2, 3)})
    made = {
        "unicode": ("größe.重み", "a name beyond ASCII, as UTF-8"),
        "slash": ("block/weight", "a slash in a name"),
        "spaces": ("my weight", "a space in a name"),
        "long": ("w" * 300, "a name of 300 characters"),
        "dots": ("a.b.0.weight", "dots in a name"),
    }
    twins = {"Weight": f32("upper st", 2, 3), "weight": f32("lower st", 2, 3)}
    text = json.dumps(header).replace('"N"', escaped)
    text += " " * (-len(text) % 8)
    return [
        *[
            _case(f"name-{key}", _file({name: f32(name, 2, 3)}), why, rule)
            for key, (name, why) in made.items()
        ],
        _case(
            "name-escaped",
            build_safetensors(text, data),
            "a name spelled with escapes, a surrogate pair among them",
            rule,
        ),
        _case("name-case-twins", _file(twins), "two names that differ by case alone", rule),
        _case(
            "name-empty",
            _file({"": f32("nameless", 2)}),
            "a name without a character",
            rule,
            letter="i",
        ),
    ]


def _specials() -> list[ZooCase]:
    made = {
        "f32-specials": (
            "F32",
            "<u4",
            [0x80000000, 0x7F800000, 0xFF800000, 0x7FC12345, 0x7F812345, 1],
        ),
        "f16-specials": ("F16", "<u2", [0x8000, 0x7C00, 0xFC00, 0x7E01, 1, 0x03FF]),
        "bf16-specials": ("BF16", "<u2", [0x8000, 0x7F80, 0xFF80, 0x7FA4, 1, 0x7F]),
        "f8-e4m3-specials": ("F8_E4M3", "u1", [0x80, 0x7E, 0x7F, 0xFF, 1, 7]),
        "f8-e5m2-specials": ("F8_E5M2", "u1", [0x80, 0x7C, 0xFC, 0x7D, 1, 3]),
    }
    return [
        _case(
            name,
            _file({"w": ExpectedTensor(dtype, (6,), np.array(codes, code).tobytes())}),
            f"-0.0, infinities, NaN and subnormals of {dtype}, as far as it has them",
            "IEEE 754; OCP 8-bit floating point",
        )
        for name, (dtype, code, codes) in made.items()
    ]
