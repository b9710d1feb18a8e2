"""Types whose four-bit codes are looked up in a table: IQ4_NL, IQ4_XS, MXFP4, NVFP4.

Layouts: IQ4_NL ``[f16 d][16 bytes]``, IQ4_XS ``[d][u16 high bits][4 low nibble pairs][128]``
with a sub-scale for 32 elements, MXFP4 ``[e8m0][16]``, NVFP4 ``[4 ue4m3][32]`` with a scale for
16. The tables of MXFP4 and NVFP4 have doubled values, so their scales are halved.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.checkpoints.blocks.decoder import (
    Mistake,
    identity,
    join_halves,
    list_mistakes_of,
    list_neighbour_mistakes,
    list_nibble_mistakes,
    make_decoder,
    make_long_header,
    read_f16,
    read_nibbles,
    vary,
)
from parity.checkpoints.gguf_types import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from parity.checkpoints.blocks.decoder import (
        Arrange,
        Blocks,
        Codes,
        Decoder,
        Floats,
        Pick,
        Rows,
    )

    #: From blocks to scales, of neighbours where ``pick`` says so.
    Scales = Callable[..., Floats]

_NONLINEAR = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int16
)
_MAGNITUDES = np.array([0, 1, 2, 3, 4, 6, 8, 12], np.int16)
#: E2M1, doubled: a sign above three bits.
_E2M1 = np.concatenate([_MAGNITUDES, -_MAGNITUDES])


def _read_codes(
    raw: Blocks, *, at: int, parts: int, width: int, table: Any, arrange: Arrange = join_halves
) -> Codes:
    found = read_nibbles(raw, at, width, parts, arrange)
    codes: Codes = table(found) if callable(table) else table[found]
    return codes


def _subtract_8(codes: Codes) -> Codes:
    return codes - np.int16(8)


def _sign_codes(codes: Codes) -> Codes:
    return np.where(codes > 7, codes - 16, codes).astype(np.int16)  # noqa: PLR2004 - four bits


def _read_sub_scales(raw: Blocks, *, high: bool = True, zero: int = 32) -> NDArray[np.int16]:
    """Read IQ4_XS's 8 sub-scales: low nibbles in 4 bytes, two high bits each in a u16."""
    low = np.stack([raw[:, 4:8] & np.uint8(15), raw[:, 4:8] >> np.uint8(4)], axis=-1)
    found = low.reshape(len(raw), 8).astype(np.int16)
    if high:
        tops = np.ascontiguousarray(raw[:, 2:4]).view("<u2")
        found |= ((tops >> np.arange(0, 16, 2, dtype=np.uint16)) & 3).astype(np.int16) << 4
    return found - np.int16(zero)


def _read_scales(raw: Blocks, *, pick: Pick = identity, roll: int = 0, **parts: Any) -> Floats:
    found: Floats = read_f16(raw, 0, pick) * np.roll(_read_sub_scales(raw, **parts), -roll, axis=1)
    return found.astype(np.float32)


def _decode_e8m0(raw: Blocks, *, pick: Pick = identity, half: bool = True) -> Floats:
    """Decode a power of two, halved; the two smallest are subnormal."""
    power = pick(raw)[:, :1].astype(np.int32) - 127 - half
    return np.ldexp(np.float32(1), power).astype(np.float32)


def _decode_ue4m3(
    raw: Blocks, *, pick: Pick = identity, half: bool = True, roll: int = 0, bias: int = 7
) -> Floats:
    """Decode four floats of 4 exponent and 3 mantissa bits, halved; 0x7f is not a number."""
    code = np.roll(pick(raw)[:, :4], -roll, axis=1)
    exponent, mantissa = (code >> np.uint8(3)) & np.uint8(15), code & np.uint8(7)
    fraction = np.where(exponent == 0, mantissa, mantissa + 8.0)
    power = np.maximum(exponent, 1).astype(np.int32) - bias - 3 - half
    found = np.where(code == 0x7F, 0.0, np.ldexp(fraction, power))  # noqa: PLR2004 - NaN of E4M3
    return found.astype(np.float32)


#: By type: reader of scales, byte of the codes, width of their runs, table.
_LAYOUTS: dict[str, tuple[Scales, int, int, NDArray[np.int16]]] = {
    "IQ4_NL": (partial(read_f16, at=0), 2, 16, _NONLINEAR),
    "IQ4_XS": (_read_scales, 8, 16, _NONLINEAR),
    "MXFP4": (_decode_e8m0, 1, 16, _E2M1),
    "NVFP4": (_decode_ue4m3, 4, 8, _E2M1),
}


def _make_decoder(kind: str) -> Decoder:
    scales, at, width, table = _LAYOUTS[kind]
    parts = BY_NAME[kind].elements // 2 // width
    return make_decoder(
        kind, scales, partial(_read_codes, at=at, width=width, parts=parts, table=table)
    )


DECODERS = {kind: _make_decoder(kind) for kind in _LAYOUTS}

_LINEAR: Rows = {
    "codes-linear": vary(
        "8 was subtracted from the codes; they are indices of a table", table=_subtract_8
    )
}
_WRONG_FLOATS: Rows = {
    "codes-as-integers": vary(
        "codes were read as two's complement; they are floats of four bits", table=_sign_codes
    ),
    "codes-unsigned": vary("the sign bit of the codes was ignored", table=np.abs(_E2M1)),
}
_UNHALVED: Rows = {
    "scale-not-halved": vary("codes were read as doubled, and the scale was not halved", half=False)
}
_SKIPPED: Rows = {"header-skipped": vary("the block's scale was read as its first codes", at=0)}
_BY_BLOCK: Rows = {
    # The width shows in this arrangement alone, and so comes with no other one.
    "nibbles-by-block": vary(
        "low and high nibbles were kept apart over the whole block; GGUF does so every 8 bytes",
        arrange=join_halves,
        width=32,
        parts=1,
    )
}
_NEXT: Rows = {
    "sub-scale-of-next": vary("each sub-block was given the sub-scale of the next one", roll=1)
}
_WRONG_SUB_SCALES: Rows = {
    "sub-scales-4-bit": vary(
        "the 6-bit sub-scales were read without their two high bits", high=False
    ),
    "sub-scales-unsigned": vary("the zero point 32 was not subtracted from the sub-scales", zero=0),
    **_NEXT,
}
#: By type: the parts that are read in wrong ways, in the order of the list.
_MISTAKES: dict[str, tuple[tuple[str, Rows], ...]] = {
    "IQ4_NL": (("codes", _LINEAR), ("codes", _SKIPPED)),
    "IQ4_XS": (("codes", _LINEAR), ("scales", _WRONG_SUB_SCALES)),
    "MXFP4": (("codes", _WRONG_FLOATS), ("scales", _UNHALVED), ("codes", _SKIPPED)),
    "NVFP4": (
        ("codes", _WRONG_FLOATS),
        ("scales", _UNHALVED),
        ("codes", _BY_BLOCK),
        ("scales", _NEXT),
    ),
}


def list_mistakes(kind: str) -> tuple[Mistake, ...]:
    """List the wrong decoders of a type."""
    right = DECODERS[kind]
    found = list_nibble_mistakes(right)
    for part, rows in _MISTAKES[kind]:
        found += list_mistakes_of(right, part, rows)
    if kind in ("IQ4_NL", "MXFP4"):
        found.append(make_long_header(right))
    return (*found, *list_neighbour_mistakes(right))
