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
    WRONG_NIBBLES,
    Decoder,
    Mistake,
    identity,
    join_halves,
    list_neighbour_mistakes,
    make_decoder,
    make_interleaved_mistake,
    make_mistake,
    read_f16,
    read_nibbles,
    shift_stream,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from parity.checkpoints.blocks.decoder import Arrange, Blocks, Codes, Floats, Pick

_HALF = 16


@dataclass(frozen=True)
class _Layout:
    """Offsets of a block's fields; ``zero`` is the code of the value 0."""

    codes_at: int
    zero: int
    min_at: int | None = None
    high_at: int | None = None

    @property
    def bits(self) -> int:
        return 4 if self.high_at is None else 5


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
    return np.stack([found[:, :_HALF], found[:, _HALF:]], axis=-1).reshape(len(raw), -1)


def _reverse_high_bits(raw: Blocks, at: int) -> NDArray[np.uint8]:
    return np.unpackbits(np.ascontiguousarray(raw[:, at : at + 4][:, ::-1]), axis=1)[:, ::-1][
        :, [8 * (3 - j // 8) + j % 8 for j in range(32)]
    ]


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
    codes = _read_codes(raw, kind, zero=0)
    return np.where(codes >= 1 << (kind.bits - 1), codes - (1 << kind.bits), codes).astype(np.int16)


def _read_late_codes(raw: Blocks, codes: Callable[[Blocks], Codes]) -> Codes:
    return codes(shift_stream(raw, 2))


def _read_field(raw: Blocks, at: int, pick: Pick = identity) -> Floats:
    return read_f16(pick(raw), at)


def _make_decoder(name: str) -> Decoder:
    layout = _LAYOUTS[name]
    mins = None if layout.min_at is None else partial(_read_field, at=layout.min_at)
    codes = partial(_read_codes, kind=layout)
    return make_decoder(name, partial(_read_field, at=0), codes, mins)


def _read_byte_codes(raw: Blocks, *, at: int = 2, signed: bool = True, zero: int = 0) -> Codes:
    codes = np.ascontiguousarray(raw[:, at : at + 32])
    return (codes.view(np.int8) if signed else codes).astype(np.int16) - np.int16(zero)


DECODERS = {
    **{name: _make_decoder(name) for name in _LAYOUTS},
    "Q8_0": make_decoder("Q8_0", partial(_read_field, at=0), _read_byte_codes),
}


def list_mistakes(kind: str) -> tuple[Mistake, ...]:
    """List the wrong decoders of a type."""
    right = DECODERS[kind]
    if kind == "Q8_0":
        return (
            *_list_q8_mistakes(right),
            *list_neighbour_mistakes(right, partial(_read_field, at=0)),
        )
    layout = _LAYOUTS[kind]
    found = [
        make_mistake(right, name, text, codes=partial(_read_codes, kind=layout, arrange=arrange))
        for name, arrange, text in WRONG_NIBBLES
    ]
    if layout.high_at is not None:
        found += _list_high_bit_mistakes(right, layout)
    found += (
        _list_sign_mistakes(right, layout)
        if layout.min_at is None
        else _list_min_mistakes(right, layout)
    )
    return (
        *found,
        *_list_header_mistakes(right, layout),
        *list_neighbour_mistakes(right, partial(_read_field, at=0)),
    )


def _list_high_bit_mistakes(right: Decoder, kind: _Layout) -> list[Mistake]:
    wrong = (
        ("high-bits-lost", _clear_high_bits, "the fifth bit of every code was lost"),
        (
            "high-bits-swapped",
            _swap_high_bits,
            "the fifth bits of the two halves of a block were exchanged",
        ),
        (
            "high-bits-interleaved",
            _interleave_high_bits,
            "the fifth bits were read in the order of bytes, not of elements",
        ),
        (
            "high-bits-byte-order",
            _reverse_high_bits,
            "the four bytes of fifth bits were read as big-endian",
        ),
    )
    found = [
        make_mistake(right, name, text, codes=partial(_read_codes, kind=kind, high=high))
        for name, high, text in wrong
    ]
    return [make_interleaved_mistake(right, _HALF, "fifth bits"), *found]


def _list_sign_mistakes(right: Decoder, kind: _Layout) -> list[Mistake]:
    return [
        make_mistake(
            right,
            "codes-unsigned",
            f"the zero point {kind.zero} was not subtracted from the codes",
            codes=partial(_read_codes, kind=kind, zero=0),
        ),
        make_mistake(
            right,
            "codes-signed",
            f"codes were read as two's complement; their zero point is {kind.zero}",
            codes=partial(_read_signed_codes, kind=kind),
        ),
        make_mistake(
            right,
            "zero-point-low",
            f"{kind.zero - 1} was subtracted from every code; the zero point is {kind.zero}",
            codes=partial(_read_codes, kind=kind, zero=kind.zero - 1),
        ),
    ]


def _list_min_mistakes(right: Decoder, kind: _Layout) -> list[Mistake]:
    return [
        make_mistake(right, "min-ignored", "the block's minimum was not added", mins=None),
        make_mistake(
            right,
            "min-sign",
            "the block's minimum was subtracted, not added",
            mins=right.mins,
            subtracts_mins=True,
        ),
        make_mistake(
            right,
            "scale-and-min-swapped",
            "the block's scale and minimum were exchanged",
            scales=partial(_read_field, at=kind.min_at or 0),
            mins=partial(_read_field, at=0),
        ),
        make_mistake(
            right,
            "header-two-short",
            "the block's header was read as two bytes shorter than it is, so its codes are "
            "shifted by 2 bytes",
            codes=partial(_read_codes, kind=kind, off=-2),
        ),
    ]


def _list_header_mistakes(right: Decoder, kind: _Layout) -> list[Mistake]:
    found = []
    if kind.min_at is None:
        found.append(
            make_mistake(
                right,
                "header-skipped",
                "the block's scale was read as its first codes",
                codes=partial(_read_codes, kind=kind, off=-2),
            )
        )
    codes = partial(_read_late_codes, codes=partial(_read_codes, kind=kind))
    return [*found, _make_long_header(right, codes)]


def _make_long_header(right: Decoder, codes: Callable[[Blocks], Codes]) -> Mistake:
    text = "the block's header was read as two bytes longer than it is"
    return make_mistake(right, "header-two-long", text, codes=codes)


def _list_q8_mistakes(right: Decoder) -> list[Mistake]:
    return [
        make_mistake(
            right,
            "codes-unsigned",
            "codes were read as unsigned bytes; they are signed",
            codes=partial(_read_byte_codes, signed=False),
        ),
        make_mistake(
            right,
            "codes-raised",
            "128 was subtracted from every code; they are signed bytes",
            codes=partial(_read_byte_codes, signed=False, zero=128),
        ),
        make_mistake(
            right,
            "header-skipped",
            "the block's scale was read as its first codes",
            codes=partial(_read_byte_codes, at=0),
        ),
        make_mistake(
            right,
            "scale-at-end",
            "the scale was read from the block's end; it is at its beginning",
            scales=partial(_read_field, at=32),
            codes=partial(_read_byte_codes, at=0),
        ),
        _make_long_header(right, partial(_read_late_codes, codes=_read_byte_codes)),
    ]
