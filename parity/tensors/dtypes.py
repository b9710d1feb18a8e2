"""The element types of tensors, in one table: safetensors', torch's and NumPy's names.

``bfloat16`` and the floats of 8, 6 and 4 bits have no NumPy type: they are stored as
unsigned integers, and a table or a shift widens them. Sources: the safetensors format
description; OCP 8-bit floating point for E4M3 (no infinity, NaN at 0x7f and 0xff) and
E5M2; OCP Microscaling for E8M0 and for the types of 4 and 6 bits, which have neither
infinity nor NaN; arXiv 2206.02915 for the FNUZ types.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["float", "int", "bool", "complex"]
#: By float type: bits of the mantissa, bias of the exponent.
_FORMATS = {
    "F64": (52, 1023),
    "F32": (23, 127),
    "C128": (52, 1023),
    "F16": (10, 15),
    "BF16": (7, 127),
    "F8_E4M3": (3, 7),
    "F8_E5M2": (2, 15),
    "F8_E4M3FNUZ": (3, 8),
    "F8_E5M2FNUZ": (2, 16),
    "F4": (1, 1),
    "F6_E2M3": (3, 1),
    "F6_E3M2": (2, 3),
}
#: First code, without the sign, that is no number.
_FIRST_SPECIAL = {"F8_E4M3": 0x7F, "F8_E5M2": 0x7C}


@dataclass(frozen=True)
class DType:
    """An element type."""

    name: str  # safetensors' name, such as ``BF16``
    #: NumPy type of an element in a file, little-endian; an unsigned integer where NumPy has no
    #: type of that kind
    storage: np.dtype[Any]
    kind: Kind
    #: Bits of an element where several share a byte in a file; ``storage`` is then the type that
    #: one is unpacked into. 0 where an element is whole bytes.
    packed: int = 0
    torch: str = ""  # torch's name, such as ``bfloat16``; empty where torch has none

    @property
    def width(self) -> int:
        """Bits of an element in a file."""
        return self.packed or 8 * self.storage.itemsize

    @property
    def is_native(self) -> bool:
        """True where NumPy has a type of this kind, so that ``storage`` has the values."""
        return (
            self.storage.kind in {"float": "f", "int": "iu", "bool": "", "complex": "c"}[self.kind]
        )

    @property
    def parts(self) -> int:
        """Floats in an element: 2 for complex numbers, else 1."""
        return 2 if self.kind == "complex" else 1

    @property
    def epsilon(self) -> float:
        """Distance from 1.0 to the next number, of each part of a complex one."""
        mantissa, _ = _FORMATS.get(self.name, _FORMATS["F32"])
        return float(2.0**-mantissa)

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number that is not subnormal."""
        _, bias = _FORMATS.get(self.name, _FORMATS["F32"])
        return float(2.0 ** (1 - bias))

    def decode(self, chunk: NDArray[Any]) -> NDArray[Any]:
        """Return elements as numbers: float64 or complex128, integers and booleans as stored."""
        if self.kind not in ("float", "complex"):
            return chunk
        with np.errstate(invalid="ignore"):  # a signalling NaN stays a NaN
            wide = np.complex128 if self.kind == "complex" else np.float64
            return self.widen(chunk).astype(wide)

    def widen(self, chunk: NDArray[Any]) -> NDArray[Any]:
        """Return floats in the narrowest NumPy float that represents them exactly."""
        if self.name == "BF16":
            wide: NDArray[np.float32] = (chunk.astype("<u4") << np.uint32(16)).view("<f4")
            return wide
        if self.kind == "float" and self.storage.itemsize == 1:
            narrow: NDArray[np.float32] = _build_code_table(self.name, self.width)[chunk]
            return narrow
        return chunk

    def round_to_f32(self, chunk: NDArray[Any]) -> NDArray[np.float32]:
        """Return elements, or their real parts, rounded once to float32, as in a `.bin` dump."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.widen(chunk).real.astype("<f4")

    @property
    def fits_f32(self) -> bool:
        """True where float32 represents every value of the type."""
        return self.storage.itemsize < 4 or self.name == "F32"  # noqa: PLR2004 - bytes of float32


def view_bits(chunk: NDArray[Any]) -> NDArray[Any]:
    """Return the elements' bits without a copy: unsigned integers, 16 plain bytes of C128."""
    width = chunk.dtype.itemsize
    return chunk.view(f"<u{width}" if width in (1, 2, 4, 8) else f"V{width}")


@cache
def _build_code_table(name: str, width: int) -> NDArray[np.float32]:
    """Return the value of each code of a float of at most 8 bits."""
    codes = np.arange(1 << width)
    if name == "F8_E8M0":
        powers = 2.0 ** (codes - 127.0)
        powers[-1] = np.nan
        return powers.astype(np.float32)
    mantissa, bias = _FORMATS[name]
    top = 1 << width - 1
    special = _FIRST_SPECIAL.get(name, top)
    sign = np.where(codes & top, -1.0, 1.0)
    exponent = (codes & top - 1) >> mantissa
    fraction = (codes & ((1 << mantissa) - 1)) / (1 << mantissa)
    normal = (1 + fraction) * 2.0 ** (exponent - bias)
    values = sign * np.where(exponent == 0, fraction * 2.0 ** (1 - bias), normal)
    if name.endswith("FNUZ"):
        values[0x80] = np.nan  # the one NaN, where others have -0.0
    else:
        values[(codes & top - 1) >= special] = np.nan
    if name == "F8_E5M2":
        values[special], values[special | top] = np.inf, -np.inf
    return values.astype(np.float32)


_ROWS: tuple[tuple[str, str, Kind, str], ...] = (
    ("F64", "<f8", "float", "float64"),
    ("F32", "<f4", "float", "float32"),
    ("F16", "<f2", "float", "float16"),
    ("BF16", "<u2", "float", "bfloat16"),
    ("F8_E4M3", "u1", "float", "float8_e4m3fn"),
    ("F8_E5M2", "u1", "float", "float8_e5m2"),
    ("F8_E4M3FNUZ", "u1", "float", "float8_e4m3fnuz"),
    ("F8_E5M2FNUZ", "u1", "float", "float8_e5m2fnuz"),
    ("F8_E8M0", "u1", "float", "float8_e8m0fnu"),
    ("I64", "<i8", "int", "int64"),
    ("I32", "<i4", "int", "int32"),
    ("I16", "<i2", "int", "int16"),
    ("I8", "i1", "int", "int8"),
    ("U64", "<u8", "int", "uint64"),
    ("U32", "<u4", "int", "uint32"),
    ("U16", "<u2", "int", "uint16"),
    ("U8", "u1", "int", "uint8"),
    ("BOOL", "u1", "bool", "bool"),
    ("C64", "<c8", "complex", "complex64"),
    ("C128", "<c16", "complex", "complex128"),
)
DTYPES: dict[str, DType] = {
    name: DType(name, np.dtype(code), kind, 0, torch) for name, code, kind, torch in _ROWS
}
#: By torch's name without ``torch.``, such as ``float32``.
TORCH_DTYPES: dict[str, DType] = {dtype.torch: dtype for dtype in DTYPES.values()}
#: By NumPy's code without the byte order, such as ``f4``.
NUMPY_DTYPES: dict[str, DType] = {
    "b1": DTYPES["BOOL"],
    **{dtype.storage.str[1:]: dtype for dtype in DTYPES.values() if dtype.is_native},
}
#: Types that only a safetensors file has, several elements to a byte.
PACKED: dict[str, DType] = {
    name: DType(name, np.dtype("u1"), "float", packed)
    for name, packed in (("F4", 4), ("F6_E2M3", 6), ("F6_E3M2", 6))
}
F32 = DTYPES["F32"]
