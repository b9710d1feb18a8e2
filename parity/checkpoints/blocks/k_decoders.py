"""Super-blocks of 256 elements: Q2_K to Q6_K.

Layouts: Q2_K ``[16 nibble pairs][64 codes][f16 d][f16 dmin]``, Q3_K ``[32 high bits][64 codes]
[12 sub-scales][f16 d]``, Q4_K ``[d][dmin][12 sub-scales and minima][128 nibbles]``, Q5_K the same
with ``[32 high bits]`` before the nibbles, Q6_K ``[128 low nibbles][64 high bits][16 signed
sub-scales][f16 d]``. A sub-scale serves 16 elements, in Q4_K and Q5_K 32.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from parity.checkpoints.blocks.decoder import (
    Decoder,
    identity,
    join_halves,
    make_decoder,
    read_f16,
    read_nibbles,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from parity.checkpoints.blocks.decoder import Arrange, Blocks, Codes, Floats, Pick

    Subs = Callable[[Blocks], Codes]
    Bits = Callable[[Blocks, int], NDArray[np.uint8]]

UP, DOWN = (0, 2, 4, 6), (6, 4, 2, 0)


def read_bit_pairs(
    raw: Blocks, at: int, *, shifts: tuple[int, ...] = UP, sequential: bool = False
) -> NDArray[np.uint8]:
    """Read 64 bytes of four 2-bit codes each: the same bits of 32 bytes are neighbours.

    ``shifts`` is the order of the bits. ``sequential`` is the wrong way, in which the four codes
    of a byte are neighbours.
    """
    run = raw[:, at : at + 64].reshape(len(raw), 2, 1, 32)
    order = np.array(shifts, np.uint8).reshape(1, 1, 4, 1)
    codes = (run >> order) & np.uint8(3)
    return (codes.transpose(0, 1, 3, 2) if sequential else codes).reshape(len(raw), 256)


def read_bit_planes(
    raw: Blocks, at: int, *, reverse: bool = False, sequential: bool = False
) -> NDArray[np.uint8]:
    """Read 32 bytes of high bits: bit k of byte i belongs to element 32 k + i.

    ``reverse`` is the wrong way, from the top bit downwards; ``sequential`` the wrong one in which
    the eight bits of a byte are neighbours.
    """
    field = np.ascontiguousarray(raw[:, at : at + 32]).reshape(len(raw), 32, 1)
    found = np.unpackbits(field, axis=2, bitorder="big" if reverse else "little")
    return (found if sequential else found.transpose(0, 2, 1)).reshape(len(raw), 256)


def clear_bits(raw: Blocks, _at: int) -> NDArray[np.uint8]:
    """Return high bits that are all 0."""
    return np.zeros((len(raw), 256), np.uint8)


def set_bits(raw: Blocks, _at: int) -> NDArray[np.uint8]:
    """Return high bits that are all 1."""
    return np.ones((len(raw), 256), np.uint8)


# Sub-scales and minima


def read_scales(raw: Blocks, at: int, subs: Subs, pick: Pick = identity) -> Floats:
    """Read each sub-block's scale: the f16 at byte ``at`` times its sub-scale."""
    return read_f16(raw, at, pick) * subs(raw).astype(np.float32)


def shift_sub_scales(raw: Blocks, subs: Subs) -> Codes:
    """Give each sub-block the sub-scale of the next one."""
    return np.roll(subs(raw), -1, axis=1)


def read_low_nibbles(raw: Blocks, *, mask: int = 15) -> Codes:
    """Read Q2_K's 16 sub-scales."""
    return (raw[:, :16] & np.uint8(mask)).astype(np.int16)


def _read_high_nibbles(raw: Blocks) -> Codes:
    return (raw[:, :16] >> np.uint8(4)).astype(np.int16)


def read_q3_subs(
    raw: Blocks, *, zero: int = 32, high: bool = True, tops: tuple[int, ...] = UP, roll: int = 0
) -> Codes:
    """Read Q3_K's 16 sub-scales: low nibbles in 8 bytes, two high bits each in 4 bytes."""
    low, top = raw[:, 96:104], raw[:, 104:108]
    scales = join_halves(low & np.uint8(15), low >> np.uint8(4)).astype(np.int16)
    if high:
        parts = [(top >> np.uint8(shift)) & np.uint8(3) for shift in tops]
        scales |= np.concatenate(parts, axis=1).astype(np.int16) << 4
    return np.roll(scales, roll, axis=1) - np.int16(zero)


def read_q6_subs(raw: Blocks, *, signed: bool = True, paired: bool = False) -> Codes:
    """Read 16 signed bytes; ``paired`` is the wrong way, in which one serves 32 elements."""
    field = np.ascontiguousarray(raw[:, 192:208])
    subs = (field.view(np.int8) if signed else field).astype(np.int16)
    return np.repeat(subs[:, :8], 2, axis=1) if paired else subs


def read_six_bit(raw: Blocks, *, of: int, tops: bool = True, mask: int = 63) -> Codes:
    """Read 8 sub-scales (``of`` 0) or minima (1) of six bits each, of Q4_K and Q5_K.

    The first four have a byte each, whose two top bits are those of the last four; the
    low nibbles of the last four scales, the high ones of the last four minima, come last.
    """
    first = raw[:, 4 + 4 * of : 8 + 4 * of].astype(np.int16)
    last = (raw[:, 12:16] >> np.uint8(4 * of)).astype(np.int16) & 15
    if tops:
        last |= first >> 6 << 4
    return np.concatenate([first & mask, last], axis=1)


def read_as_stream(raw: Blocks, *, of: int) -> Codes:
    """Read the twelve bytes as a stream of six-bit numbers, which they are not."""
    bits = np.unpackbits(np.ascontiguousarray(raw[:, 4:16]), axis=1, bitorder="little")
    numbers = bits.reshape(len(raw), 16, 6).astype(np.int16) @ (1 << np.arange(6, dtype=np.int16))
    return numbers[:, 8 * of : 8 * of + 8].astype(np.int16)


# Codes


def _read_q2_codes(raw: Blocks, *, shifts: tuple[int, ...] = UP, sequential: bool = False) -> Codes:
    return read_bit_pairs(raw, 16, shifts=shifts, sequential=sequential).astype(np.int16)


def _read_q3_codes(
    raw: Blocks, *, low: Bits = read_bit_pairs, high: Bits = read_bit_planes
) -> Codes:
    """Read two low bits, minus 4 where the high bit is not set."""
    return low(raw, 32).astype(np.int16) - (high(raw, 0).astype(np.int16) ^ 1) * np.int16(4)


def _read_q4_codes(raw: Blocks, *, arrange: Arrange = join_halves, width: int = 32) -> Codes:
    return read_nibbles(raw, 16, width, 128 // width, arrange)


def _read_q5_codes(
    raw: Blocks, *, arrange: Arrange = join_halves, high: Bits = read_bit_planes
) -> Codes:
    return read_nibbles(raw, 48, 32, 4, arrange) | high(raw, 16).astype(np.int16) << 4


def _read_q6_codes(
    raw: Blocks, *, arrange: Arrange = join_halves, high: Bits = read_bit_pairs, zero: int = 32
) -> Codes:
    low = read_nibbles(raw, 0, 64, 2, arrange)
    return (low | high(raw, 128).astype(np.int16) << 4) - np.int16(zero)


_CODES: dict[str, Callable[[Blocks], Codes]] = {
    "Q2_K": _read_q2_codes,
    "Q3_K": _read_q3_codes,
    "Q4_K": _read_q4_codes,
    "Q5_K": _read_q5_codes,
    "Q6_K": _read_q6_codes,
}
_SCALE, _MIN = partial(read_six_bit, of=0), partial(read_six_bit, of=1)
#: By type: byte of d, reader of sub-scales.
SCALES: dict[str, tuple[int, Subs]] = {
    "Q2_K": (80, read_low_nibbles),
    "Q3_K": (108, read_q3_subs),
    "Q4_K": (0, _SCALE),
    "Q5_K": (0, _SCALE),
    "Q6_K": (208, read_q6_subs),
}
#: By type: byte of dmin, reader of minima.
MINS: dict[str, tuple[int, Subs]] = {
    "Q2_K": (82, _read_high_nibbles),
    "Q4_K": (2, _MIN),
    "Q5_K": (2, _MIN),
}


def _make_decoder(kind: str) -> Decoder:
    at, subs = SCALES[kind]
    right = make_decoder(kind, partial(read_scales, at=at, subs=subs), _CODES[kind])
    if kind not in MINS:
        return right
    at, subs = MINS[kind]
    return replace(right, mins=partial(read_scales, at=at, subs=subs), subtracts_mins=True)


DECODERS = {kind: _make_decoder(kind) for kind in _CODES}
