"""How errors are spread over powers of ten, drawn in block characters."""

from __future__ import annotations

import math
from typing import Any

_BLOCKS = "▁▂▃▄▅▆▇█"


def decades(histogram: Any) -> list[tuple[int, int]]:
    """Powers of ten and their counts, without a gap; empty where there is none to be drawn."""
    if not isinstance(histogram, dict):
        return []
    found = {int(power): int(count) for power, count in histogram.items()}
    return (
        [(power, found.get(power, 0)) for power in range(min(found), max(found) + 1)]
        if found
        else []
    )


def decades_line(histogram: Any) -> str:
    """``1e-07 ▁▅█ 1e-05, 12 elements``: heights are logarithms, so that single ones are seen."""
    spread = decades(histogram)
    if not spread:
        return ""
    most = math.log1p(max(count for _, count in spread))
    bars = "".join(_block(count, most) for _, count in spread)
    total = sum(count for _, count in spread)
    return f"1e{spread[0][0]:+03d} {bars} 1e{spread[-1][0] + 1:+03d}, {total:,} of them"


def _block(count: int, most: float) -> str:
    if not count:
        return " "
    return _BLOCKS[round(math.log1p(count) / most * (len(_BLOCKS) - 1))]
