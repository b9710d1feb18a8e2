"""Read the scales and minima of GGUF's block types; ``codes`` describes the layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.checkpoints.blocks.codes import UP, Blocks, Codes, interleave, join_halves

#: float32 ``(n, groups)``.
Floats = NDArray[np.float32]
Pick = Callable[[Blocks], Blocks]
Subs = Callable[[Blocks], Codes]


def pick_block(raw: Blocks) -> Blocks:
    """Return each block itself."""
    return raw


def read_f16(raw: Blocks, at: int, pick: Pick = pick_block) -> Floats:
    """Read the f16 field at byte ``at`` of each block, or of others, float32 ``(n, 1)``."""
    return np.ascontiguousarray(pick(raw)[:, at : at + 2]).view("<f2").astype(np.float32)


def read_scales(raw: Blocks, at: int, subs: Subs, pick: Pick = pick_block) -> Floats:
    """Read each sub-block's scale: the f16 at byte ``at`` times its sub-scale."""
    return read_f16(raw, at, pick) * subs(raw).astype(np.float32)


def read_low_nibbles(raw: Blocks, *, mask: int = 15) -> Codes:
    """Read Q2_K's 16 sub-scales."""
    return (raw[:, :16] & np.uint8(mask)).astype(np.int16)


def read_high_nibbles(raw: Blocks) -> Codes:
    """Read Q2_K's 16 minima."""
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


def read_xs_scales(
    raw: Blocks, *, pick: Pick = pick_block, roll: int = 0, high: bool = True, zero: int = 32
) -> Floats:
    """Read IQ4_XS's scales; low nibbles of 8 sub-scales in 4 bytes, two high bits each in a u16."""
    subs = interleave(raw[:, 4:8] & np.uint8(15), raw[:, 4:8] >> np.uint8(4)).astype(np.int16)
    if high:
        tops = np.ascontiguousarray(raw[:, 2:4]).view("<u2")
        subs |= ((tops >> np.arange(0, 16, 2, dtype=np.uint16)) & 3).astype(np.int16) << 4
    scales: Floats = read_f16(raw, 0, pick) * np.roll(subs - np.int16(zero), -roll, axis=1)
    return scales.astype(np.float32)


def decode_e8m0(raw: Blocks, *, pick: Pick = pick_block, half: bool = True) -> Floats:
    """Decode a power of two, halved; the two smallest are subnormal."""
    power = pick(raw)[:, :1].astype(np.int32) - 127 - half
    return np.ldexp(np.float32(1), power).astype(np.float32)


def decode_ue4m3(
    raw: Blocks, *, pick: Pick = pick_block, half: bool = True, roll: int = 0
) -> Floats:
    """Decode four floats of 4 exponent and 3 mantissa bits, halved; 0x7f is not a number."""
    code = np.roll(pick(raw)[:, :4], -roll, axis=1)
    exponent, mantissa = (code >> np.uint8(3)) & np.uint8(15), code & np.uint8(7)
    fraction = np.where(exponent == 0, mantissa, mantissa + 8.0)
    power = np.maximum(exponent, 1).astype(np.int32) - 10 - half
    found = np.where(code == 0x7F, 0.0, np.ldexp(fraction, power))  # noqa: PLR2004 - NaN of E4M3
    return found.astype(np.float32)


def read_positive_scales(raw: Blocks, inner: Callable[[Blocks], Floats], at: int) -> Floats:
    """Read scales without the sign of the f16 at byte ``at``."""
    positive = raw.copy()
    positive[:, at + 1] &= 0x7F
    return inner(positive)


def read_as_stream(raw: Blocks, *, of: int) -> Codes:
    """Read the twelve bytes as a stream of six-bit numbers, which they are not."""
    bits = np.unpackbits(np.ascontiguousarray(raw[:, 4:16]), axis=1, bitorder="little")
    numbers = bits.reshape(len(raw), 16, 6).astype(np.int16) @ (1 << np.arange(6, dtype=np.int16))
    return numbers[:, 8 * of : 8 * of + 8].astype(np.int16)


#: Wrong ways, by their names in `mistakes.toml`.
WRONG: dict[str, Any] = {
    "read_positive_scales": read_positive_scales,
    "read_as_stream": read_as_stream,
    "next_block": lambda raw: np.concatenate([raw[1:], raw[-1:]]),  # the last one: itself
    "previous_block": lambda raw: np.concatenate([raw[:1], raw[:-1]]),
    "shift_sub_scales": lambda raw, inner: np.roll(inner(raw), -1, axis=1),
}
