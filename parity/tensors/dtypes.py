"""The element types that tensors come in, named as safetensors names them.

``bfloat16`` and the floats of 8, 6 and 4 bits have no NumPy type: they are held as
unsigned integers, and a table or a shift widens them. Sources: the safetensors format
description; OCP 8-bit floating point for E4M3 (no infinity, NaN at 0x7f and 0xff) and
E5M2; OCP Microscaling for E8M0 and for the types of 4 and 6 bits, which have neither
infinity nor NaN; arXiv 2206.02915 for the FNUZ types.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kind = Literal["float", "int", "bool", "opaque"]


@dataclass(frozen=True)
class DType:
    """An element type.

    Attributes:
        name: safetensors' name, such as ``BF16``.
        storage: NumPy type of one element as it lies in a file, little-endian; an unsigned
            integer where NumPy has no type of that kind.
        kind: ``opaque`` types can be compared by their bytes only.
        packed: Bits of an element where several share a byte in a file; ``storage`` is then
            what one is taken apart into. 0 where an element is whole bytes.
    """

    name: str
    storage: np.dtype[Any]
    kind: Kind
    packed: int = 0

    @property
    def width(self) -> int:
        """Bits of an element in a file."""
        return self.packed or 8 * self.storage.itemsize

    def decode(self, chunk: NDArray[Any]) -> NDArray[Any]:
        """Elements as numbers: float64 for floats, the storage itself for all else."""
        if self.kind != "float":
            return chunk
        with np.errstate(invalid="ignore"):  # a signalling NaN stays a NaN
            return self.widen(chunk).astype(np.float64)

    def widen(self, chunk: NDArray[Any]) -> NDArray[Any]:
        """Elements of a float type in the narrowest float type of NumPy that holds them."""
        if self.name == "BF16":
            wide: NDArray[np.float32] = (chunk.astype("<u4") << np.uint32(16)).view("<f4")
            return wide
        if self.storage.itemsize == 1:
            narrow: NDArray[np.float32] = _build_code_table(self.name, self.width)[chunk]
            return narrow
        return chunk

    def round_to_f32(self, chunk: NDArray[Any]) -> NDArray[np.float32]:
        """Elements rounded once to float32, as a `.bin` dump carries them."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.widen(chunk).astype("<f4") if self.kind == "float" else chunk.astype("<f4")

    @property
    def fits_f32(self) -> bool:
        """Whether float32 holds every value of the type."""
        return self.storage.itemsize < 4 or self.name == "F32"


def view_bits(chunk: NDArray[Any]) -> NDArray[Any]:
    """The elements' bits as unsigned integers, without a copy."""
    return chunk.view(f"<u{chunk.dtype.itemsize}")


@cache
def _build_code_table(name: str, width: int) -> NDArray[np.float32]:
    """Value of each code of a float of at most 8 bits."""
    codes = np.arange(1 << width)
    if name == "F8_E8M0":
        powers = 2.0 ** (codes - 127.0)
        powers[-1] = np.nan
        return powers.astype(np.float32)
    mantissa, bias, special = _FLOAT_FORMATS[name]
    top = 1 << width - 1
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


#: Bits of the mantissa, bias of the exponent, first code of no sign that is no number.
_FLOAT_FORMATS = {
    "F8_E4M3": (3, 7, 0x7F),
    "F8_E5M2": (2, 15, 0x7C),
    "F8_E4M3FNUZ": (3, 8, 0x80),
    "F8_E5M2FNUZ": (2, 16, 0x80),
    "F4": (1, 1, 0x08),
    "F6_E2M3": (3, 1, 0x20),
    "F6_E3M2": (2, 3, 0x20),
}


def _build_dtypes() -> dict[str, DType]:
    plain: dict[str, tuple[str, Kind]] = {
        "F64": ("<f8", "float"),
        "F32": ("<f4", "float"),
        "F16": ("<f2", "float"),
        "BF16": ("<u2", "float"),
        "F8_E4M3": ("u1", "float"),
        "F8_E5M2": ("u1", "float"),
        "F8_E4M3FNUZ": ("u1", "float"),
        "F8_E5M2FNUZ": ("u1", "float"),
        "F8_E8M0": ("u1", "float"),
        "I64": ("<i8", "int"),
        "I32": ("<i4", "int"),
        "I16": ("<i2", "int"),
        "I8": ("i1", "int"),
        "U64": ("<u8", "int"),
        "U32": ("<u4", "int"),
        "U16": ("<u2", "int"),
        "U8": ("u1", "int"),
        "BOOL": ("u1", "bool"),
        "C64": ("<u8", "opaque"),
    }
    return {name: DType(name, np.dtype(code), kind) for name, (code, kind) in plain.items()}


DTYPES: dict[str, DType] = _build_dtypes()
#: Those that only a safetensors file carries, several elements to a byte.
PACKED: dict[str, DType] = {
    name: DType(name, np.dtype("u1"), "float", packed)
    for name, packed in (("F4", 4), ("F6_E2M3", 6), ("F6_E3M2", 6))
}
F32 = DTYPES["F32"]
