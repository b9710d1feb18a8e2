"""Super-blocks of 256 elements with scales and minima: Q2_K, Q4_K, Q5_K.

Layouts: Q2_K ``[16 nibble pairs][64 codes][f16 d][f16 dmin]``, Q4_K ``[d][dmin][12
sub-scales and minima][128 nibbles]``, Q5_K the same with ``[32 high bits]`` before the
nibbles. A sub-scale serves 16 elements in Q2_K, 32 in the others.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from parity.checkpoints.blocks.decoder import (
    WRONG_NIBBLES,
    Decoder,
    Mistake,
    identity,
    join_halves,
    make_decoder,
    make_interleaved_mistake,
    make_mistake,
    read_f16,
    read_nibbles,
)
from parity.checkpoints.blocks.k_quants import (
    clear_bits,
    list_scale_mistakes,
    read_bit_pairs,
    read_bit_planes,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from parity.checkpoints.blocks.decoder import Arrange, Blocks, Codes, Floats, Pick

    Subs = Callable[[Blocks], Codes]


def _read_low_nibbles(raw: Blocks) -> Codes:
    return (raw[:, :16] & np.uint8(15)).astype(np.int16)


def _read_high_nibbles(raw: Blocks) -> Codes:
    return (raw[:, :16] >> np.uint8(4)).astype(np.int16)


def _read_unmasked(raw: Blocks) -> Codes:
    return raw[:, :16].astype(np.int16)


def _read_six_bit(raw: Blocks, *, of: int, tops: bool = True, mask: int = 63) -> Codes:
    """Read 8 sub-scales (``of`` 0) or minima (1) of six bits each, of Q4_K and Q5_K.

    The first four have a byte each, whose two top bits are those of the last four; the
    low nibbles of the last four scales, the high ones of the last four minima, come last.
    """
    first = raw[:, 4 + 4 * of : 8 + 4 * of].astype(np.int16)
    last = (raw[:, 12:16] >> np.uint8(4 * of)).astype(np.int16) & 15
    if tops:
        last |= first >> 6 << 4
    return np.concatenate([first & mask, last], axis=1)


def _read_as_stream(raw: Blocks, *, of: int) -> Codes:
    """Read the twelve bytes as a stream of six-bit numbers, which they are not."""
    bits = np.unpackbits(np.ascontiguousarray(raw[:, 4:16]), axis=1, bitorder="little")
    numbers = bits.reshape(len(raw), 16, 6).astype(np.int16) @ (1 << np.arange(6, dtype=np.int16))
    return numbers[:, 8 * of : 8 * of + 8].astype(np.int16)


def _read_scales(raw: Blocks, at: int, subs: Subs, pick: Pick = identity) -> Floats:
    return read_f16(pick(raw), at) * subs(raw).astype(np.float32)


def _read_q2_codes(
    raw: Blocks, *, shifts: tuple[int, ...] = (0, 2, 4, 6), sequential: bool = False
) -> Codes:
    return read_bit_pairs(raw, 16, shifts=shifts, sequential=sequential).astype(np.int16)


def _read_q4_codes(raw: Blocks, *, arrange: Arrange = join_halves, width: int = 32) -> Codes:
    return read_nibbles(raw, 16, width, 128 // width, arrange)


def _read_q5_codes(
    raw: Blocks,
    *,
    arrange: Arrange = join_halves,
    high: Callable[[Blocks, int], NDArray[np.uint8]] = read_bit_planes,
) -> Codes:
    low = read_nibbles(raw, 48, 32, 4, arrange)
    return low | high(raw, 16).astype(np.int16) << 4


_SCALE, _MIN = partial(_read_six_bit, of=0), partial(_read_six_bit, of=1)
#: By type: bytes of d and dmin, readers of sub-scales and minima.
_FIELDS: dict[str, tuple[int, int, Subs, Subs]] = {
    "Q2_K": (80, 82, _read_low_nibbles, _read_high_nibbles),
    "Q4_K": (0, 2, _SCALE, _MIN),
    "Q5_K": (0, 2, _SCALE, _MIN),
}
_CODES: dict[str, Callable[[Blocks], Codes]] = {
    "Q2_K": _read_q2_codes,
    "Q4_K": _read_q4_codes,
    "Q5_K": _read_q5_codes,
}


def _make_decoder(kind: str) -> Decoder:
    d, dmin, scale, least = _FIELDS[kind]
    scales, mins = (
        partial(_read_scales, at=d, subs=scale),
        partial(_read_scales, at=dmin, subs=least),
    )
    return make_decoder(kind, scales, _CODES[kind], mins, subtracts_mins=True)


DECODERS = {kind: _make_decoder(kind) for kind in _FIELDS}


def list_mistakes(kind: str) -> tuple[Mistake, ...]:
    """List the wrong decoders of a type."""
    right = DECODERS[kind]
    d, dmin, scale, least = _FIELDS[kind]
    specific = {"Q2_K": _list_q2_mistakes, "Q4_K": _list_q4_mistakes, "Q5_K": _list_q5_mistakes}[
        kind
    ](right)
    shared = [
        make_mistake(right, "min-ignored", "the minima were not subtracted", mins=None),
        make_mistake(
            right,
            "min-sign",
            "the minima were added, not subtracted",
            mins=right.mins,
            subtracts_mins=False,
        ),
        make_mistake(
            right,
            "sub-scales-swapped",
            "sub-scales and minima were exchanged",
            scales=partial(_read_scales, at=d, subs=least),
            mins=partial(_read_scales, at=dmin, subs=scale),
        ),
        make_mistake(
            right,
            "scale-and-min-swapped",
            "the block's scale and its scale of minima were exchanged",
            scales=partial(_read_scales, at=dmin, subs=scale),
            mins=partial(_read_scales, at=d, subs=least),
        ),
    ]
    return (*specific, *shared, *list_scale_mistakes(right, partial(_read_scales, at=d), scale))


def _list_q2_mistakes(right: Decoder) -> list[Mistake]:
    return [
        make_mistake(
            right,
            "codes-sequential",
            "the four codes of a byte were read as neighbours",
            codes=partial(_read_q2_codes, sequential=True),
        ),
        make_mistake(
            right,
            "codes-reversed",
            "the four codes of a byte were read from the top downwards",
            codes=partial(_read_q2_codes, shifts=(6, 4, 2, 0)),
        ),
        make_mistake(
            right,
            "sub-scales-unmasked",
            "the minimum's bits were left in the sub-scales",
            scales=partial(_read_scales, at=80, subs=_read_unmasked),
        ),
    ]


def _list_q4_mistakes(right: Decoder) -> list[Mistake]:
    found = [
        make_mistake(right, name, text, codes=partial(_read_q4_codes, arrange=arrange))
        for name, arrange, text in WRONG_NIBBLES
    ]
    text = "low and high nibbles were kept apart over the whole block; GGUF does so every 32 bytes"
    # The width shows in this arrangement alone, and so comes with no other one.
    codes = partial(_read_q4_codes, arrange=join_halves, width=128)
    whole = make_mistake(right, "nibbles-by-block", text, codes=codes)
    return [*found, whole, *_list_six_bit_mistakes(right)]


def _list_q5_mistakes(right: Decoder) -> list[Mistake]:
    found = [
        make_mistake(right, name, text, codes=partial(_read_q5_codes, arrange=arrange))
        for name, arrange, text in WRONG_NIBBLES
    ]
    wrong = (
        ("high-bits-lost", "the fifth bit of every code was lost", clear_bits),
        (
            "high-bits-sequential",
            "the fifth bits were read bit after bit of each byte, not byte after byte of each bit",
            partial(read_bit_planes, sequential=True),
        ),
        (
            "high-bits-reversed",
            "the fifth bits were read from the top bit of each byte downwards",
            partial(read_bit_planes, reverse=True),
        ),
    )
    found += [
        make_mistake(right, name, text, codes=partial(_read_q5_codes, high=high))
        for name, text, high in wrong
    ]
    return [
        *found,
        make_interleaved_mistake(right, 32, "fifth bits"),
        *_list_six_bit_mistakes(right),
    ]


def _list_six_bit_mistakes(right: Decoder) -> list[Mistake]:
    def wrong(name: str, text: str, scale: Subs, least: Subs) -> Mistake:
        scales, mins = (
            partial(_read_scales, at=0, subs=scale),
            partial(_read_scales, at=2, subs=least),
        )
        return make_mistake(right, name, text, scales=scales, mins=mins)

    return [
        wrong(
            "sub-scales-4-bit",
            "the last four sub-scales and minima were read without their two high bits",
            partial(_read_six_bit, of=0, tops=False),
            partial(_read_six_bit, of=1, tops=False),
        ),
        wrong(
            "sub-scales-unmasked",
            "the high bits of the last four were left in the first four sub-scales and minima",
            partial(_read_six_bit, of=0, mask=255),
            partial(_read_six_bit, of=1, mask=255),
        ),
        wrong(
            "sub-scales-as-stream",
            "the sub-scales were read as a stream of six-bit numbers",
            partial(_read_as_stream, of=0),
            partial(_read_as_stream, of=1),
        ),
    ]
