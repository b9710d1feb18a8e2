"""Read the codes of GGUF's block types; `mistakes.toml` has the wrong ways.

Layouts, of 32 elements: Q4_0 ``[f16 d][16 bytes]``, Q4_1 ``[d][f16 m][16]``, Q5_0 and Q5_1 the same
with ``[u32 high bits]`` before the 16 bytes, Q8_0 ``[d][32 signed]``, IQ4_NL ``[d][16]``, MXFP4
``[e8m0][16]``; of 64: NVFP4 ``[4 ue4m3][32]``, a scale for 16. Of 256: Q2_K ``[16 nibble pairs][64
codes][d][f16 dmin]``, Q3_K ``[32 high bits][64 codes][12 sub-scales][d]``, Q4_K ``[d][dmin][12
sub-scales and minima][128 nibbles]``, Q5_K the same with ``[32 high bits]`` before the nibbles,
Q6_K ``[128 low nibbles][64 high bits][16 signed sub-scales][d]``, IQ4_XS ``[d][u16 high bits][4 low
nibble pairs][128]``, TQ1_0 ``[48 bytes of five digits][4 of four][d]``, TQ2_0 ``[64 of four 2-bit
codes][d]``. A sub-scale serves 16 elements, in Q4_K, Q5_K and IQ4_XS 32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Blocks = NDArray[np.uint8]  # Blocks as bytes, uint8 ``(n, size)``; and parts of them
#: int16 ``(n, elements)``.
Codes = NDArray[np.int16]
Arrange = Callable[[Blocks, Blocks], Blocks]
Bits = Callable[[Blocks, int], Blocks]

UP, DOWN = (0, 2, 4, 6), (6, 4, 2, 0)  # Orders of the 2-bit codes in a byte
#: Values of four-bit codes; those of E2M1, a sign above three bits, are doubled.
NONLINEAR = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int16
)
_MAGNITUDES = np.array([0, 1, 2, 3, 4, 6, 8, 12], np.int16)
E2M1 = np.concatenate([_MAGNITUDES, -_MAGNITUDES])


def join_halves(low: Blocks, high: Blocks) -> Blocks:
    """Join all low parts, then all high ones, along the last axis, as GGUF does."""
    return np.concatenate([low, high], axis=-1)


def interleave(low: Blocks, high: Blocks) -> Blocks:
    """Place low and high part of a byte next to each other."""
    return np.stack([low, high], axis=-1).reshape(*low.shape[:-1], -1)


def read_nibbles(raw: Blocks, at: int, width: int, parts: int, arrange: Arrange) -> Codes:
    """Read codes of four bits from ``parts`` runs of ``width`` bytes, which begin at ``at``."""
    run = raw[:, at : at + parts * width].reshape(len(raw), parts, width)
    return arrange(run & np.uint8(15), run >> np.uint8(4)).reshape(len(raw), -1).astype(np.int16)


def read_high_bits(raw: Blocks, at: int) -> Blocks:
    """Read the u32 at byte ``at``, whose bit j belongs to element j."""
    return np.unpackbits(np.ascontiguousarray(raw[:, at : at + 4]), axis=1, bitorder="little")


def read_codes(
    raw: Blocks,
    *,
    at: int,
    zero: int,
    high_at: int | None = None,
    arrange: Arrange = join_halves,
    high: Bits = read_high_bits,
    off: int = 0,
) -> Codes:
    """Read 32 codes of four bits, or of five with the high ones at byte ``high_at``."""
    codes = read_nibbles(raw, at + off, 16, 1, arrange)
    if high_at is not None:
        codes |= high(raw, high_at + off).astype(np.int16) << 4
    return codes - np.int16(zero)


def read_byte_codes(raw: Blocks, *, at: int = 2, signed: bool = True, zero: int = 0) -> Codes:
    """Read Q8_0's 32 signed bytes."""
    codes = np.ascontiguousarray(raw[:, at : at + 32])
    return (codes.view(np.int8) if signed else codes).astype(np.int16) - np.int16(zero)


def read_bit_pairs(
    raw: Blocks, at: int, *, shifts: tuple[int, ...] = UP, sequential: bool = False
) -> Blocks:
    """Read 64 bytes of four 2-bit codes each: the same bits of 32 bytes are neighbours.

    ``sequential`` is the wrong way, in which the four codes of a byte are neighbours.
    """
    run = raw[:, at : at + 64].reshape(len(raw), 2, 1, 32)
    codes = (run >> np.array(shifts, np.uint8).reshape(1, 1, 4, 1)) & np.uint8(3)
    return (codes.transpose(0, 1, 3, 2) if sequential else codes).reshape(len(raw), 256)


def read_bit_planes(
    raw: Blocks, at: int, *, reverse: bool = False, sequential: bool = False
) -> Blocks:
    """Read 32 bytes of high bits: bit k of byte i belongs to element 32 k + i.

    Wrong are ``reverse``, from the top bit downwards, and ``sequential``, bit after bit of a byte.
    """
    field = np.ascontiguousarray(raw[:, at : at + 32]).reshape(len(raw), 32, 1)
    found = np.unpackbits(field, axis=2, bitorder="big" if reverse else "little")
    return (found if sequential else found.transpose(0, 2, 1)).reshape(len(raw), 256)


def read_q2_codes(raw: Blocks, **way: Any) -> Codes:
    """Read two bits."""
    return read_bit_pairs(raw, 16, **way).astype(np.int16)


def read_q3_codes(raw: Blocks, *, low: Bits, high: Bits) -> Codes:
    """Read two low bits, minus 4 where the high bit is not set."""
    return low(raw, 32).astype(np.int16) - (high(raw, 0).astype(np.int16) ^ 1) * np.int16(4)


def read_q4_codes(raw: Blocks, *, arrange: Arrange = join_halves, width: int = 32) -> Codes:
    """Read four bits."""
    return read_nibbles(raw, 16, width, 128 // width, arrange)


def read_q5_codes(raw: Blocks, *, arrange: Arrange = join_halves, high: Bits) -> Codes:
    """Read four bits and a high one."""
    return read_nibbles(raw, 48, 32, 4, arrange) | high(raw, 16).astype(np.int16) << 4


def read_q6_codes(
    raw: Blocks, *, arrange: Arrange = join_halves, high: Bits, zero: int = 32
) -> Codes:
    """Read four bits and two high ones."""
    low = read_nibbles(raw, 0, 64, 2, arrange)
    return (low | high(raw, 128).astype(np.int16) << 4) - np.int16(zero)


def look_up_codes(
    raw: Blocks,
    *,
    at: int,
    parts: int,
    width: int,
    table: NDArray[np.int16],
    arrange: Arrange = join_halves,
) -> Codes:
    """Read four bits, and the number that a table has for them."""
    codes: Codes = table[read_nibbles(raw, at, width, parts, arrange)]
    return codes


def read_tq1_codes(
    raw: Blocks, *, zero: int = 1, reverse: bool = False, sequential: bool = False
) -> Codes:
    """Read digits of base three: digit k of byte i is element ``width * k + i`` of its run.

    A digit is what multiplying a byte by a power of three, modulo 256, leaves in its top:
    ``(byte * 3**k mod 256) * 3 >> 8``.
    """
    parts = []
    for at, width, count in ((0, 32, 5), (32, 16, 5), (48, 4, 4)):
        powers = 3 ** np.arange(count, dtype=np.uint16)[:: -1 if reverse else 1, None]
        run = raw[:, None, at : at + width].astype(np.uint16) * powers & 255
        found = run * 3 >> 8
        parts.append((found.transpose(0, 2, 1) if sequential else found).reshape(len(raw), -1))
    return np.concatenate(parts, axis=1).astype(np.int16) - np.int16(zero)


def read_tq2_codes(
    raw: Blocks, *, zero: int = 1, reverse: bool = False, sequential: bool = False
) -> Codes:
    """Read two bits."""
    found = read_bit_pairs(raw, 0, shifts=DOWN if reverse else UP, sequential=sequential)
    return found.astype(np.int16) - np.int16(zero)


def read_signed_codes(raw: Blocks, *, zero: int, **layout: Any) -> Codes:
    """Read codes as two's complement, which they are not; ``zero`` is the highest bit."""
    codes = read_codes(raw, zero=0, **layout)
    return np.where(codes >= zero, codes - 2 * zero, codes).astype(np.int16)


#: Wrong tables and ways to arrange or read, by their names in `mistakes.toml`.
WRONG: dict[str, Any] = {
    "LINEAR": np.arange(-8, 8, dtype=np.int16),
    "SIGNED": np.concatenate([np.arange(8), np.arange(-8, 0)]).astype(np.int16),
    "UNSIGNED_E2M1": np.abs(E2M1),
    "DOWN": DOWN,
    "join_halves": join_halves,
    "interleave": interleave,
    "join_swapped": lambda low, high: join_halves(high, low),
    "interleave_swapped": lambda low, high: interleave(high, low),
    "read_signed_codes": read_signed_codes,
    # The codes of a byte, ``width`` apart in GGUF, are neighbours.
    "interleave_codes": lambda raw, inner, width: (
        inner(raw).reshape(len(raw), -1, 2, width).swapaxes(2, 3).reshape(len(raw), -1)
    ),
    # Codes begin two bytes too late.
    "read_late_codes": lambda raw, inner: inner(
        np.append(raw.ravel()[2:], np.zeros(2, np.uint8)).reshape(raw.shape)
    ),
    "swap_high_bits": lambda raw, at: np.roll(read_high_bits(raw, at), 16, axis=1),
    "interleave_high_bits": lambda raw, at: interleave(*np.hsplit(read_high_bits(raw, at), 2)),
    "reverse_high_bits": lambda raw, at: read_high_bits(raw[:, at : at + 4][:, ::-1], 0),
    "clear_bits": lambda raw, _at: np.zeros((len(raw), 1), np.uint8),
    "set_bits": lambda raw, _at: np.ones((len(raw), 1), np.uint8),
}
