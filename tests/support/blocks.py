"""Random blocks of GGUF's types whose scales are plain numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.checkpoints import blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Where a type's f16 fields stand in a block.
SCALE_OFFSETS = {
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "IQ4_NL": (0,),
    "IQ4_XS": (0,),
    "TQ1_0": (52,),
    "TQ2_0": (64,),
}


def make_random_blocks(kind: str, count: int, seed: int = 0) -> NDArray[np.uint8]:
    """Random bytes; the scales are numbers between 0.1 and 0.5, every other one negative."""
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, (count, blocks.DECODERS[kind].size), np.uint8)
    for offset in SCALE_OFFSETS.get(kind, ()):
        signs = np.where(np.arange(count) % 2, -1, 1).reshape(-1, 1)
        scale = (signs * rng.integers(103, 512, (count, 1)) / 1024).astype("<f2")
        raw[:, offset : offset + 2] = scale.view(np.uint8)
    if kind == "MXFP4":
        raw[:, 0] = rng.integers(120, 130, count)
    return raw
