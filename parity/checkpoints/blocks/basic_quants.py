"""The types of 32 elements a block: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.

Layouts: ``[f16 d][16 bytes]`` for Q4_0, ``[d][f16 m][16]`` for Q4_1, with
``[u32 high bits]`` before the 16 bytes for Q5_0 and Q5_1, ``[d][32 signed]`` for Q8_0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from parity.checkpoints.blocks.decoder import (
    Decoder,
    Mistake,
    interleave,
    join_halves,
    list_mistakes_of,
    list_neighbour_mistakes,
    list_nibble_mistakes,
    make_decoder,
    make_interleaved_mistake,
    make_long_header,
    make_mistake,
    read_f16,
    read_nibbles,
    vary,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from parity.checkpoints.blocks.decoder import Arrange, Blocks, Codes, Rows

_HALF = 16


@dataclass(frozen=True)
class _Layout:
    """Offsets of a block's fields; ``zero`` is the code of the value 0."""

    codes_at: int
    zero: int
    min_at: int | None = None
    high_at: int | None = None


_LAYOUTS = {
    "Q4_0": _Layout(2, 8),
    "Q4_1": _Layout(4, 0, min_at=2),
    "Q5_0": _Layout(6, 16, high_at=2),
    "Q5_1": _Layout(8, 0, min_at=2, high_at=4),
}


def _read_high_bits(raw: Blocks, at: int) -> NDArray[np.uint8]:
    """Read the u32 at byte ``at``, whose bit j belongs to element j."""
    field = np.ascontiguousarray(raw[:, at : at + 4])
    return np.unpackbits(field, axis=1, bitorder="little")


def _clear_high_bits(raw: Blocks, _at: int) -> NDArray[np.uint8]:
    return np.zeros((len(raw), 2 * _HALF), np.uint8)


def _swap_high_bits(raw: Blocks, at: int) -> NDArray[np.uint8]:
    return np.roll(_read_high_bits(raw, at), _HALF, axis=1)


def _interleave_high_bits(raw: Blocks, at: int) -> NDArray[np.uint8]:
    found = _read_high_bits(raw, at)
    return interleave(found[:, :_HALF], found[:, _HALF:])


def _reverse_high_bits(raw: Blocks, at: int) -> NDArray[np.uint8]:
    """Read the u32 as big-endian."""
    return _read_high_bits(raw[:, at : at + 4][:, ::-1], 0)


def _read_codes(
    raw: Blocks,
    kind: _Layout,
    *,
    arrange: Arrange = join_halves,
    high: Callable[[Blocks, int], NDArray[np.uint8]] = _read_high_bits,
    zero: int | None = None,
    off: int = 0,
) -> Codes:
    codes = read_nibbles(raw, kind.codes_at + off, _HALF, 1, arrange)
    if kind.high_at is not None:
        codes |= high(raw, kind.high_at + off).astype(np.int16) << 4
    return codes - np.int16(kind.zero if zero is None else zero)


def _read_signed_codes(raw: Blocks, kind: _Layout) -> Codes:
    """Read codes as two's complement, which they are not."""
    codes, bits = _read_codes(raw, kind, zero=0), 4 if kind.high_at is None else 5
    return np.where(codes >= 1 << (bits - 1), codes - (1 << bits), codes).astype(np.int16)


def _make_decoder(name: str) -> Decoder:
    layout = _LAYOUTS[name]
    mins = None if layout.min_at is None else partial(read_f16, at=layout.min_at)
    codes = partial(_read_codes, kind=layout)
    return make_decoder(name, partial(read_f16, at=0), codes, mins)


def _read_byte_codes(raw: Blocks, *, at: int = 2, signed: bool = True, zero: int = 0) -> Codes:
    codes = np.ascontiguousarray(raw[:, at : at + 32])
    return (codes.view(np.int8) if signed else codes).astype(np.int16) - np.int16(zero)


DECODERS = {
    **{name: _make_decoder(name) for name in _LAYOUTS},
    "Q8_0": make_decoder("Q8_0", partial(read_f16, at=0), _read_byte_codes),
}
_SCALE_AS_CODES = "the block's scale was read as its first codes"
_WRONG_HIGH_BITS: Rows = {
    "high-bits-lost": vary("the fifth bit of every code was lost", high=_clear_high_bits),
    "high-bits-swapped": vary(
        "the fifth bits of the two halves of a block were exchanged", high=_swap_high_bits
    ),
    "high-bits-interleaved": vary(
        "the fifth bits were read in the order of bytes, not of elements",
        high=_interleave_high_bits,
    ),
    "high-bits-byte-order": vary(
        "the four bytes of fifth bits were read as big-endian", high=_reverse_high_bits
    ),
}
_WRONG_BYTES: Rows = {
    "codes-unsigned": vary("codes were read as unsigned bytes; they are signed", signed=False),
    "codes-raised": vary(
        "128 was subtracted from every code; they are signed bytes", signed=False, zero=128
    ),
    "header-skipped": vary(_SCALE_AS_CODES, at=0),
}


def list_mistakes(kind: str) -> tuple[Mistake, ...]:
    """List the wrong decoders of a type."""
    right = DECODERS[kind]
    if kind == "Q8_0":
        found = _list_q8_mistakes(right)
    else:
        layout = _LAYOUTS[kind]
        found = list_nibble_mistakes(right)
        if layout.high_at is not None:
            found.append(make_interleaved_mistake(right, _HALF, "fifth bits"))
            found += list_mistakes_of(right, "codes", _WRONG_HIGH_BITS)
        found += (
            _list_code_mistakes(right, layout)
            if layout.min_at is None
            else _list_min_mistakes(right, layout.min_at)
        )
    return (*found, make_long_header(right), *list_neighbour_mistakes(right))


def _list_code_mistakes(right: Decoder, kind: _Layout) -> list[Mistake]:
    zero = kind.zero
    unsigned = f"the zero point {zero} was not subtracted from the codes"
    signed = f"codes were read as two's complement; their zero point is {zero}"
    low = f"{zero - 1} was subtracted from every code; the zero point is {zero}"
    first, *others = list_mistakes_of(
        right,
        "codes",
        {
            "codes-unsigned": vary(unsigned, zero=0),
            "zero-point-low": vary(low, zero=zero - 1),
            "header-skipped": vary(_SCALE_AS_CODES, off=-2),
        },
    )
    codes = partial(_read_signed_codes, kind=kind)
    return [first, make_mistake(right, "codes-signed", signed, codes=codes), *others]


def _list_min_mistakes(right: Decoder, min_at: int) -> list[Mistake]:
    sign = "the block's minimum was subtracted, not added"
    swapped = "the block's scale and minimum were exchanged"
    short = (
        "the block's header was read as two bytes shorter than it is, so its codes are "
        "shifted by 2 bytes"
    )
    scales, mins = partial(read_f16, at=min_at), partial(read_f16, at=0)
    return [
        make_mistake(right, "min-ignored", "the block's minimum was not added", mins=None),
        make_mistake(right, "min-sign", sign, mins=right.mins, subtracts_mins=True),
        make_mistake(right, "scale-and-min-swapped", swapped, scales=scales, mins=mins),
        *list_mistakes_of(right, "codes", {"header-two-short": vary(short, off=-2)}),
    ]


def _list_q8_mistakes(right: Decoder) -> list[Mistake]:
    text = "the scale was read from the block's end; it is at its beginning"
    scales, codes = partial(read_f16, at=32), partial(_read_byte_codes, at=0)
    at_end = make_mistake(right, "scale-at-end", text, scales=scales, codes=codes)
    return [*list_mistakes_of(right, "codes", _WRONG_BYTES), at_end]
