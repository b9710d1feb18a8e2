"""The distribution of errors over powers of ten, drawn in block characters."""

from __future__ import annotations

import math
from typing import Any

_BLOCKS = "▁▂▃▄▅▆▇█"


def count_decades(histogram: Any) -> list[tuple[int, int]]:
    """Return consecutive powers of ten with their counts; empty without a histogram."""
    if not isinstance(histogram, dict):
        return []
    counts = {int(power): int(count) for power, count in histogram.items()}
    return (
        [(power, counts.get(power, 0)) for power in range(min(counts), max(counts) + 1)]
        if counts
        else []
    )


def format_decades(histogram: Any) -> str:
    """Format a histogram as ``1e-07 ▁▅█ 1e-05, 12 of them``; heights are logarithmic."""
    spread = count_decades(histogram)
    if not spread:
        return ""
    largest = math.log1p(max(count for _, count in spread))
    bars = "".join(_choose_block(count, largest) for _, count in spread)
    total = sum(count for _, count in spread)
    return f"1e{spread[0][0]:+03d} {bars} 1e{spread[-1][0] + 1:+03d}, {total:,} of them"


def _choose_block(count: int, largest: float) -> str:
    if not count:
        return " "
    return _BLOCKS[round(math.log1p(count) / largest * (len(_BLOCKS) - 1))]
