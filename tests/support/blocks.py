"""Make random blocks of GGUF's types with finite scales."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from parity.checkpoints import blocks
from parity.checkpoints.gguf_header import BY_NAME

#: Bytes of a block at which its f16 fields begin, of the types that have any.
SCALE_OFFSETS = {
    kind: BY_NAME[kind].scale_offsets for kind in blocks.DECODERS if BY_NAME[kind].scale_offsets
}


def make_random_blocks(kind: str, count: int, seed: int = 0) -> NDArray[np.uint8]:
    """Return random bytes; the scales are from 0.1 to 0.5, every other one negative."""
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, (count, blocks.DECODERS[kind].size), np.uint8)
    for offset in BY_NAME[kind].scale_offsets:
        signs = np.where(np.arange(count) % 2, -1, 1).reshape(-1, 1)
        scale = (signs * rng.integers(103, 512, (count, 1)) / 1024).astype("<f2")
        raw[:, offset : offset + 2] = scale.view(np.uint8)
    if kind == "MXFP4":
        raw[:, 0] = rng.integers(120, 130, count)
    return raw
