"""The types of 32 elements a block: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.

Layouts: ``[f16 d][16 bytes]`` for Q4_0, ``[d][f16 m][16]`` for Q4_1, with
``[u32 high bits]`` before the 16 bytes for Q5_0 and Q5_1, ``[d][32 signed]`` for Q8_0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from parity.blocks.decoder import (
    WRONG_NIBBLES,
    Decoder,
    Mistake,
    codes_interleaved,
    f16,
    following,
    halves,
    late,
    mistake,
    nibbles,
    preceding,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from parity.blocks.decoder import Arrange, Blocks, Codes, Floats

_HALF = 16


@dataclass(frozen=True)
class _Kind:
    """Where a type keeps what; ``zero`` is the code that stands for 0."""

    size: int
    codes_at: int
    zero: int
    min_at: int | None = None
    high_at: int | None = None

    @property
    def bits(self) -> int:
        return 4 if self.high_at is None else 5


_KINDS = {
    "Q4_0": _Kind(18, 2, 8),
    "Q4_1": _Kind(20, 4, 0, min_at=2),
    "Q5_0": _Kind(22, 6, 16, high_at=2),
    "Q5_1": _Kind(24, 8, 0, min_at=2, high_at=4),
}


def _bits(raw: Blocks, at: int) -> NDArray[np.uint8]:
    """Bit j of the u32 at byte ``at`` belongs to element j."""
    field = np.ascontiguousarray(raw[:, at : at + 4])
    return np.unpackbits(field, axis=1, bitorder="little")


def _no_bits(raw: Blocks, _at: int) -> NDArray[np.uint8]:
    return np.zeros((len(raw), 2 * _HALF), np.uint8)


def _bits_swapped(raw: Blocks, at: int) -> NDArray[np.uint8]:
    return np.roll(_bits(raw, at), _HALF, axis=1)


def _bits_interleaved(raw: Blocks, at: int) -> NDArray[np.uint8]:
    found = _bits(raw, at)
    return np.stack([found[:, :_HALF], found[:, _HALF:]], axis=-1).reshape(len(raw), -1)


def _bits_reversed(raw: Blocks, at: int) -> NDArray[np.uint8]:
    return np.unpackbits(np.ascontiguousarray(raw[:, at : at + 4][:, ::-1]), axis=1)[:, ::-1][
        :, [8 * (3 - j // 8) + j % 8 for j in range(32)]
    ]


def _codes(
    raw: Blocks,
    kind: _Kind,
    *,
    arrange: Arrange = halves,
    high: Callable[[Blocks, int], NDArray[np.uint8]] = _bits,
    zero: int | None = None,
    off: int = 0,
) -> Codes:
    codes = nibbles(raw, kind.codes_at + off, _HALF, 1, arrange)
    if kind.high_at is not None:
        codes |= high(raw, kind.high_at + off).astype(np.int16) << 4
    return codes - np.int16(kind.zero if zero is None else zero)


def _signed(raw: Blocks, kind: _Kind) -> Codes:
    """Codes as two's complement, which they are not."""
    codes = _codes(raw, kind, zero=0)
    return np.where(codes >= 1 << (kind.bits - 1), codes - (1 << kind.bits), codes).astype(np.int16)


def _late(raw: Blocks, codes: Callable[[Blocks], Codes]) -> Codes:
    return codes(late(raw, 2))


def _field(raw: Blocks, at: int) -> Floats:
    return f16(raw, at)


def _of(raw: Blocks, at: int, pick: Callable[[Blocks], Blocks]) -> Floats:
    return f16(pick(raw), at)


def _decoder(kind: _Kind) -> Decoder:
    mins = None if kind.min_at is None else partial(_field, at=kind.min_at)
    return Decoder(32, kind.size, partial(_field, at=0), partial(_codes, kind=kind), mins)


def _eight(raw: Blocks, *, at: int = 2, signed: bool = True, zero: int = 0) -> Codes:
    codes = np.ascontiguousarray(raw[:, at : at + 32])
    return (codes.view(np.int8) if signed else codes).astype(np.int16) - np.int16(zero)


_Q8_0 = Decoder(32, 34, partial(_field, at=0), _eight)
DECODERS = {**{name: _decoder(kind) for name, kind in _KINDS.items()}, "Q8_0": _Q8_0}


def mistakes(kind: str) -> tuple[Mistake, ...]:
    """Wrong decoders of a type."""
    right = DECODERS[kind]
    if kind == "Q8_0":
        return (*_of_eight(right), *_of_scales(right))
    layout = _KINDS[kind]
    found = [
        mistake(right, name, text, codes=partial(_codes, kind=layout, arrange=arrange))
        for name, arrange, text in WRONG_NIBBLES
    ]
    if layout.high_at is not None:
        found += _of_high_bits(right, layout)
    found += _of_sign(right, layout) if layout.min_at is None else _of_mins(right, layout)
    return (*found, *_of_header(right, layout), *_of_scales(right))


def _of_high_bits(right: Decoder, kind: _Kind) -> list[Mistake]:
    wrong = (
        ("high-bits-lost", _no_bits, "the fifth bit of every code was lost"),
        (
            "high-bits-swapped",
            _bits_swapped,
            "the fifth bits of the two halves of a block were exchanged",
        ),
        (
            "high-bits-interleaved",
            _bits_interleaved,
            "the fifth bits were taken in the order of bytes, not of elements",
        ),
        (
            "high-bits-byte-order",
            _bits_reversed,
            "the four bytes of fifth bits were read as big-endian",
        ),
    )
    found = [
        mistake(right, name, text, codes=partial(_codes, kind=kind, high=high))
        for name, high, text in wrong
    ]
    return [codes_interleaved(right, _HALF, "fifth bits"), *found]


def _of_sign(right: Decoder, kind: _Kind) -> list[Mistake]:
    return [
        mistake(
            right,
            "codes-unsigned",
            f"the {kind.zero} that every code is raised by was not taken off",
            codes=partial(_codes, kind=kind, zero=0),
        ),
        mistake(
            right,
            "codes-signed",
            f"codes were taken as two's complement; they are raised by {kind.zero}",
            codes=partial(_signed, kind=kind),
        ),
        mistake(
            right,
            "zero-point-low",
            f"{kind.zero - 1} was taken off every code; they are raised by {kind.zero}",
            codes=partial(_codes, kind=kind, zero=kind.zero - 1),
        ),
    ]


def _of_mins(right: Decoder, kind: _Kind) -> list[Mistake]:
    return [
        mistake(right, "min-ignored", "the block's minimum was not added", mins=None),
        mistake(
            right,
            "min-sign",
            "the block's minimum was subtracted, not added",
            mins=right.mins,
            taken_off=True,
        ),
        mistake(
            right,
            "scale-and-min-swapped",
            "the block's scale and minimum were exchanged",
            scales=partial(_field, at=kind.min_at or 0),
            mins=partial(_field, at=0),
        ),
        mistake(
            right,
            "header-two-short",
            "the block's header was taken as two bytes shorter than it is, so its codes are "
            "shifted by 2 bytes",
            codes=partial(_codes, kind=kind, off=-2),
        ),
    ]


def _of_header(right: Decoder, kind: _Kind) -> list[Mistake]:
    found = []
    if kind.min_at is None:
        found.append(
            mistake(
                right,
                "header-skipped",
                "the block's scale was taken as its first codes",
                codes=partial(_codes, kind=kind, off=-2),
            )
        )
    codes = partial(_late, codes=partial(_codes, kind=kind))
    return [*found, _two_long(right, codes)]


def _two_long(right: Decoder, codes: Callable[[Blocks], Codes]) -> Mistake:
    text = "the block's header was taken as two bytes longer than it is"
    return mistake(right, "header-two-long", text, codes=codes)


def _of_scales(right: Decoder) -> list[Mistake]:
    return [
        mistake(
            right,
            f"scale-of-{word}-block",
            f"each block was given the scale of the {word} one",
            scales=partial(_of, at=0, pick=pick),
        )
        for word, pick in (("next", following), ("previous", preceding))
    ]


def _of_eight(right: Decoder) -> list[Mistake]:
    return [
        mistake(
            right,
            "codes-unsigned",
            "codes were taken as unsigned bytes; they are signed",
            codes=partial(_eight, signed=False),
        ),
        mistake(
            right,
            "codes-raised",
            "128 was taken off every code; they are signed bytes",
            codes=partial(_eight, signed=False, zero=128),
        ),
        mistake(
            right,
            "header-skipped",
            "the block's scale was taken as its first codes",
            codes=partial(_eight, at=0),
        ),
        mistake(
            right,
            "scale-at-end",
            "the scale was read from the block's end; it stands at its beginning",
            scales=partial(_field, at=32),
            codes=partial(_eight, at=0),
        ),
        _two_long(right, partial(_late, codes=_eight)),
    ]
