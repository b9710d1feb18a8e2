"""Super-blocks of 256 elements with scales and minima: Q2_K, Q4_K, Q5_K.

Layouts: Q2_K ``[16 nibble pairs][64 codes][f16 d][f16 dmin]``, Q4_K ``[d][dmin][12
sub-scales and minima][128 nibbles]``, Q5_K the same with ``[32 high bits]`` before the
nibbles. A sub-scale serves 16 elements in Q2_K, 32 in the others.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from parity.blocks.decoder import (
    WRONG_NIBBLES,
    Decoder,
    Mistake,
    codes_interleaved,
    f16,
    halves,
    mistake,
    nibbles,
    own,
)
from parity.blocks.supers import bit_pairs, bit_planes, no_bits, of_scales

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from parity.blocks.decoder import Arrange, Blocks, Codes, Floats, Pick

    Subs = Callable[[Blocks], Codes]


def _low(raw: Blocks) -> Codes:
    return (raw[:, :16] & np.uint8(15)).astype(np.int16)


def _high(raw: Blocks) -> Codes:
    return (raw[:, :16] >> np.uint8(4)).astype(np.int16)


def _whole(raw: Blocks) -> Codes:
    return raw[:, :16].astype(np.int16)


def _six(raw: Blocks, *, of: int, tops: bool = True, mask: int = 63) -> Codes:
    """Q4_K and Q5_K: 8 sub-scales (``of`` 0) or minima (1) of six bits each.

    The first four lie in a byte each, whose two top bits are those of the last four; the
    low nibbles of the last four scales, the high ones of the last four minima, come last.
    """
    first = raw[:, 4 + 4 * of : 8 + 4 * of].astype(np.int16)
    last = (raw[:, 12:16] >> np.uint8(4 * of)).astype(np.int16) & 15
    if tops:
        last |= first >> 6 << 4
    return np.concatenate([first & mask, last], axis=1)


def _stream(raw: Blocks, *, of: int) -> Codes:
    """The twelve bytes as a stream of six-bit numbers, which they are not."""
    bits = np.unpackbits(np.ascontiguousarray(raw[:, 4:16]), axis=1, bitorder="little")
    numbers = bits.reshape(len(raw), 16, 6).astype(np.int16) @ (1 << np.arange(6, dtype=np.int16))
    return numbers[:, 8 * of : 8 * of + 8].astype(np.int16)


def _times(raw: Blocks, at: int, subs: Subs, pick: Pick = own) -> Floats:
    return f16(pick(raw), at) * subs(raw).astype(np.float32)


def _q2_codes(
    raw: Blocks, *, shifts: tuple[int, ...] = (0, 2, 4, 6), sequential: bool = False
) -> Codes:
    return bit_pairs(raw, 16, shifts=shifts, sequential=sequential).astype(np.int16)


def _q4_codes(raw: Blocks, *, arrange: Arrange = halves, width: int = 32) -> Codes:
    return nibbles(raw, 16, width, 128 // width, arrange)


def _q5_codes(
    raw: Blocks,
    *,
    arrange: Arrange = halves,
    high: Callable[[Blocks, int], NDArray[np.uint8]] = bit_planes,
) -> Codes:
    low = nibbles(raw, 48, 32, 4, arrange)
    return low | high(raw, 16).astype(np.int16) << 4


_SCALE, _MIN = partial(_six, of=0), partial(_six, of=1)
#: By type: where d and dmin stand, and how sub-scales and minima are read.
_FIELDS: dict[str, tuple[int, int, Subs, Subs]] = {
    "Q2_K": (80, 82, _low, _high),
    "Q4_K": (0, 2, _SCALE, _MIN),
    "Q5_K": (0, 2, _SCALE, _MIN),
}
_CODES: dict[str, tuple[int, Callable[[Blocks], Codes]]] = {
    "Q2_K": (84, _q2_codes),
    "Q4_K": (144, _q4_codes),
    "Q5_K": (176, _q5_codes),
}


def _decoder(kind: str) -> Decoder:
    (d, dmin, scale, least), (size, codes) = _FIELDS[kind], _CODES[kind]
    scales, mins = partial(_times, at=d, subs=scale), partial(_times, at=dmin, subs=least)
    return Decoder(256, size, scales, codes, mins, taken_off=True)


DECODERS = {kind: _decoder(kind) for kind in _FIELDS}


def mistakes(kind: str) -> tuple[Mistake, ...]:
    """Wrong decoders of a type."""
    right = DECODERS[kind]
    d, dmin, scale, least = _FIELDS[kind]
    made = {"Q2_K": _q2, "Q4_K": _q4, "Q5_K": _q5}[kind](right)
    shared = [
        mistake(right, "min-ignored", "the minima were not subtracted", mins=None),
        mistake(
            right,
            "min-sign",
            "the minima were added, not subtracted",
            mins=right.mins,
            taken_off=False,
        ),
        mistake(
            right,
            "sub-scales-swapped",
            "sub-scales and minima were exchanged",
            scales=partial(_times, at=d, subs=least),
            mins=partial(_times, at=dmin, subs=scale),
        ),
        mistake(
            right,
            "scale-and-min-swapped",
            "the block's scale and its scale of minima were exchanged",
            scales=partial(_times, at=dmin, subs=scale),
            mins=partial(_times, at=d, subs=least),
        ),
    ]
    return (*made, *shared, *of_scales(right, partial(_times, at=d), scale))


def _q2(right: Decoder) -> list[Mistake]:
    return [
        mistake(
            right,
            "codes-sequential",
            "the four codes of a byte were taken as neighbours",
            codes=partial(_q2_codes, sequential=True),
        ),
        mistake(
            right,
            "codes-reversed",
            "the four codes of a byte were taken from the top downwards",
            codes=partial(_q2_codes, shifts=(6, 4, 2, 0)),
        ),
        mistake(
            right,
            "sub-scales-unmasked",
            "the minimum's bits were left in the sub-scales",
            scales=partial(_times, at=80, subs=_whole),
        ),
    ]


def _q4(right: Decoder) -> list[Mistake]:
    found = [
        mistake(right, name, text, codes=partial(_q4_codes, arrange=arrange))
        for name, arrange, text in WRONG_NIBBLES
    ]
    text = "low and high nibbles were kept apart over the whole block; GGUF does so every 32 bytes"
    # The width shows in this arrangement alone, and so comes with no other one.
    codes = partial(_q4_codes, arrange=halves, width=128)
    whole = mistake(right, "nibbles-by-block", text, codes=codes)
    return [*found, whole, *_of_six(right)]


def _q5(right: Decoder) -> list[Mistake]:
    found = [
        mistake(right, name, text, codes=partial(_q5_codes, arrange=arrange))
        for name, arrange, text in WRONG_NIBBLES
    ]
    wrong = (
        ("high-bits-lost", "the fifth bit of every code was lost", no_bits),
        (
            "high-bits-sequential",
            "the fifth bits were taken bit after bit of each byte, not byte after byte of each bit",
            partial(bit_planes, sequential=True),
        ),
        (
            "high-bits-reversed",
            "the fifth bits were taken from the top bit of each byte downwards",
            partial(bit_planes, reverse=True),
        ),
    )
    found += [
        mistake(right, name, text, codes=partial(_q5_codes, high=high))
        for name, text, high in wrong
    ]
    return [*found, codes_interleaved(right, 32, "fifth bits"), *_of_six(right)]


def _of_six(right: Decoder) -> list[Mistake]:
    def wrong(name: str, text: str, scale: Subs, least: Subs) -> Mistake:
        scales, mins = partial(_times, at=0, subs=scale), partial(_times, at=2, subs=least)
        return mistake(right, name, text, scales=scales, mins=mins)

    return [
        wrong(
            "sub-scales-4-bit",
            "the last four sub-scales and minima were read without their two high bits",
            partial(_six, of=0, tops=False),
            partial(_six, of=1, tops=False),
        ),
        wrong(
            "sub-scales-unmasked",
            "the high bits of the last four were left in the first four sub-scales and minima",
            partial(_six, of=0, mask=255),
            partial(_six, of=1, mask=255),
        ),
        wrong(
            "sub-scales-as-stream",
            "the sub-scales were read as a stream of six-bit numbers",
            partial(_stream, of=0),
            partial(_stream, of=1),
        ),
    ]
