"""Make synthetic GGUF blocks that show every fault of a decoder.

gguf-py quantises only the older types, so blocks are made from random bytes, and
their scales are then set. Zero or tiny block scales, scales of one sign, equal sub-scales and
empty high bits each hide faults: so block scales are ``k / 1024`` in [0.1, 0.5), every
other one negative, and the sub-scales of a block differ and use all their bits. Every
decoded value is then a multiple of 1/1024 below 2**14, which f32 represents exactly.

Values are never decoded here; gguf-py does that. Source of the layouts: ``ggml-common.h`` and
``ggml-quants.c`` of llama.cpp.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from parity.checkpoints.gguf_header import BY_NAME
from parity.lab.pins.seeded_random import SeededRandom

Blocks = NDArray[np.uint8]  # Blocks as bytes, uint8 ``[n, size]``


#: Types that every pin of upstream's bundle draws.
BLOCK_LAYOUTS = {
    name: BY_NAME[name]
    for name in (
        *("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"),
        *("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
    )
}
_MIN_SCALE, _MAX_SCALE = 103, 511


def make_blocks(kind: str, count: int, random: SeededRandom) -> Blocks:
    """Make ``count`` blocks of a type of ``BLOCK_LAYOUTS``, uint8 ``[count, size]``."""
    layout = BLOCK_LAYOUTS[kind]
    content = random.draw_bytes(count, layout.size).copy()
    if kind in _SUB_SCALES:
        offset, sub_scales = _SUB_SCALES[kind]
        packed = sub_scales(count, random).astype(np.uint8)
        content[:, offset : offset + packed.shape[1]] = packed
    for phase, offset in enumerate(layout.scale_offsets):
        scale = random.draw_integers(_MIN_SCALE, _MAX_SCALE, count, 1) / 1024
        scale *= make_signs(count, phase)
        content[:, offset : offset + 2] = scale.astype("<f2").view(np.uint8)
    return content


def make_signs(count: int, phase: int = 0) -> NDArray[np.int64]:
    """Make 1 and -1 for ``count`` blocks, int64 ``[count, 1]``; each ``phase`` in another rhythm.

    So the signs of a block's scale and minimum occur in all four pairs.
    """
    return 1 - 2 * (np.arange(count).reshape(-1, 1) >> phase & 1)


def _pack_nibble_pairs(count: int, random: SeededRandom) -> NDArray[np.int64]:
    """Pack Q2_K: 16 bytes, each a 4-bit scale below a 4-bit minimum; all values of 4 bits occur."""
    scales, mins = (random.draw_distinct(count, 16, np.arange(16)) for _ in range(2))
    return scales | mins << 4


def _pack_six_bit(count: int, random: SeededRandom) -> NDArray[np.int64]:
    """Pack Q3_K: 16 scales of 6 bits in 12 bytes; the low four bits first, then the high two.

    32 means zero and is left out.
    """
    scales = random.draw_distinct(count, 16, np.delete(np.arange(64), 32))
    low = scales[:, :8] & 15 | (scales[:, 8:] & 15) << 4
    high = scales >> 4
    tops = [high[:, 4 * part : 4 * part + 4] << 2 * part for part in range(4)]
    return np.hstack([low, tops[0] | tops[1] | tops[2] | tops[3]])


def _pack_six_bit_pairs(count: int, random: SeededRandom) -> NDArray[np.int64]:
    """Pack Q4_K and Q5_K: 8 scales and 8 minima of 6 bits in 12 bytes.

    The first four of each are in bytes 0 to 7, whose top bits are the top
    bits of the last four; bytes 8 to 11 are their low bits. From 16 upwards, every
    number has a top bit that a careless decoder would lose.
    """
    scales, mins = (random.draw_distinct(count, 8, np.arange(16, 64)) for _ in range(2))
    first = [part[:, :4] | part[:, 4:] >> 4 << 6 for part in (scales, mins)]
    low = scales[:, 4:] & 15 | (mins[:, 4:] & 15) << 4
    return np.hstack([*first, low])


def _pack_signed_bytes(count: int, random: SeededRandom) -> NDArray[np.int64]:
    """Pack Q6_K: 16 signed bytes, none of them zero."""
    return random.draw_distinct(count, 16, np.delete(np.arange(-128, 128), 128)) & 255


#: Offset of the packed sub-scales of a type, and their maker.
_SUB_SCALES: dict[str, tuple[int, Callable[[int, SeededRandom], NDArray[np.int64]]]] = {
    "Q2_K": (0, _pack_nibble_pairs),
    "Q3_K": (96, _pack_six_bit),
    "Q4_K": (4, _pack_six_bit_pairs),
    "Q5_K": (4, _pack_six_bit_pairs),
    "Q6_K": (192, _pack_signed_bytes),
}
