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
    WRONG_NIBBLES,
    Mistake,
    identity,
    join_halves,
    list_neighbour_mistakes,
    make_decoder,
    make_mistake,
    read_f16,
    read_nibbles,
    shift_stream,
)
from parity.checkpoints.gguf_types import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from parity.checkpoints.blocks.decoder import Arrange, Blocks, Codes, Floats, Pick

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


def _read_late_codes(raw: Blocks, codes: Callable[[Blocks], Codes]) -> Codes:
    return codes(shift_stream(raw, 2))


def _read_scale(raw: Blocks, *, pick: Pick = identity) -> Floats:
    return read_f16(pick(raw), 0)


def _read_sub_scales(raw: Blocks, *, high: bool = True, zero: int = 32) -> NDArray[np.int16]:
    """Read IQ4_XS's 8 sub-scales: low nibbles in 4 bytes, two high bits each in a u16."""
    low = np.stack([raw[:, 4:8] & np.uint8(15), raw[:, 4:8] >> np.uint8(4)], axis=-1)
    found = low.reshape(len(raw), 8).astype(np.int16)
    if high:
        tops = np.ascontiguousarray(raw[:, 2:4]).view("<u2")
        found |= ((tops >> np.arange(0, 16, 2, dtype=np.uint16)) & 3).astype(np.int16) << 4
    return found - np.int16(zero)


def _read_scales(raw: Blocks, *, pick: Pick = identity, roll: int = 0, **parts: Any) -> Floats:
    found: Floats = read_f16(pick(raw), 0) * np.roll(_read_sub_scales(raw, **parts), -roll, axis=1)
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


#: By type: reader of scales, byte of the codes, width of their runs.
_LAYOUTS: dict[str, tuple[Scales, int, int]] = {
    "IQ4_NL": (_read_scale, 2, 16),
    "IQ4_XS": (_read_scales, 8, 16),
    "MXFP4": (_decode_e8m0, 1, 16),
    "NVFP4": (_decode_ue4m3, 4, 8),
}
_TABLES = {"IQ4_NL": _NONLINEAR, "IQ4_XS": _NONLINEAR, "MXFP4": _E2M1, "NVFP4": _E2M1}


def _make_reader(kind: str, **changed: Any) -> Callable[[Blocks], Codes]:
    _, at, width = _LAYOUTS[kind]
    runs = BY_NAME[kind].elements // 2 // width
    parts = {"at": at, "width": width, "parts": runs, "table": _TABLES[kind]}
    return partial(_read_codes, **{**parts, **changed})


DECODERS = {
    kind: make_decoder(kind, scales, _make_reader(kind))
    for kind, (scales, _, _) in _LAYOUTS.items()
}


def list_mistakes(kind: str) -> tuple[Mistake, ...]:
    """List the wrong decoders of a type."""
    right = DECODERS[kind]
    found = [
        make_mistake(right, name, text, codes=_make_reader(kind, arrange=arrange))
        for name, arrange, text in WRONG_NIBBLES
    ]
    table = _list_float_mistakes if kind in ("MXFP4", "NVFP4") else _list_integer_mistakes
    return (
        *found,
        *table(kind),
        *_OWN_MISTAKES[kind](kind),
        *list_neighbour_mistakes(right, _LAYOUTS[kind][0]),
    )


def _list_integer_mistakes(kind: str) -> list[Mistake]:
    text = "8 was subtracted from the codes; they are indices of a table"
    return [
        make_mistake(
            DECODERS[kind], "codes-linear", text, codes=_make_reader(kind, table=_subtract_8)
        )
    ]


def _list_float_mistakes(kind: str) -> list[Mistake]:
    right, scales = DECODERS[kind], _LAYOUTS[kind][0]
    return [
        make_mistake(
            right,
            "codes-as-integers",
            "codes were read as two's complement; they are floats of four bits",
            codes=_make_reader(kind, table=_sign_codes),
        ),
        make_mistake(
            right,
            "codes-unsigned",
            "the sign bit of the codes was ignored",
            codes=_make_reader(kind, table=np.abs(_E2M1)),
        ),
        make_mistake(
            right,
            "scale-not-halved",
            "codes were read as doubled, and the scale was not halved",
            scales=partial(scales, half=False),
        ),
    ]


def _list_header_mistakes(kind: str) -> list[Mistake]:
    """List the mistakes that read the header as shorter, so that the scale is codes, or longer."""
    right = DECODERS[kind]
    longer = "the block's header was read as two bytes longer than it is"
    return [
        make_mistake(
            right,
            "header-skipped",
            "the block's scale was read as its first codes",
            codes=_make_reader(kind, at=0),
        ),
        make_mistake(
            right, "header-two-long", longer, codes=partial(_read_late_codes, codes=right.codes)
        ),
    ]


def _list_sub_scale_mistakes(kind: str) -> list[Mistake]:
    right = DECODERS[kind]
    ways: tuple[tuple[str, str, dict[str, Any]], ...] = (
        (
            "sub-scales-4-bit",
            "the 6-bit sub-scales were read without their two high bits",
            {"high": False},
        ),
        (
            "sub-scales-unsigned",
            "the zero point 32 was not subtracted from the sub-scales",
            {"zero": 0},
        ),
        (
            "sub-scale-of-next",
            "each sub-block was given the sub-scale of the next one",
            {"roll": 1},
        ),
    )
    return [
        make_mistake(right, name, text, scales=partial(_read_scales, **change))
        for name, text, change in ways
    ]


def _list_nvfp4_mistakes(kind: str) -> list[Mistake]:
    right = DECODERS[kind]
    apart = "low and high nibbles were kept apart over the whole block; GGUF does so every 8 bytes"
    text = "each sub-block was given the sub-scale of the next one"
    # The width shows in this arrangement alone, and so comes with no other one.
    codes = _make_reader(kind, arrange=join_halves, width=32, parts=1)
    return [
        make_mistake(right, "nibbles-by-block", apart, codes=codes),
        make_mistake(right, "sub-scale-of-next", text, scales=partial(_decode_ue4m3, roll=1)),
    ]


_OWN_MISTAKES: dict[str, Callable[[str], list[Mistake]]] = {
    "IQ4_NL": _list_header_mistakes,
    "IQ4_XS": _list_sub_scale_mistakes,
    "MXFP4": _list_header_mistakes,
    "NVFP4": _list_nvfp4_mistakes,
}
