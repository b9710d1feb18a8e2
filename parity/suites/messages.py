"""Numbers and lists as messages show them; findings built the same way by every suite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.results import Finding
from parity.tensors import FormatError

EXAMPLES = 5  # Examples that a message lists before it only counts


def format_number(value: Any) -> str:
    """The shortest decimal that reads back as the same value of its dtype."""
    text = str(value.item() if hasattr(value, "dtype") and value.dtype.kind in "iub" else value)
    return text.removesuffix(".0")


def format_name(name: str) -> str:
    """Format a tensor's name; quoted where a reader would not see it."""
    if not name:
        return "'' (the empty name)"
    return name if name == name.strip() and name.isprintable() else repr(name)


def format_list(names: Iterable[object], total: int | None = None) -> str:
    """``a, b, c``, cut after ``EXAMPLES`` with the count of the rest."""
    items = list(names)
    rest = (len(items) if total is None else total) - EXAMPLES
    return ", ".join(map(str, items[:EXAMPLES])) + (f" and {rest:,} more" if rest > 0 else "")


def report_unreadable(tensor: str, error: FormatError) -> Finding:
    """The finding for a dump file that cannot be read as what it should be."""
    message = f"{tensor} {error.message}"
    return Finding(level="error", kind="dump", code=error.code, tensor=tensor, message=message)


def report_error(code: str, message: str, **more: Any) -> Finding:
    """An error of kind mismatch: the port is wrong."""
    return Finding(level="error", code=code, message=message, **more)


def report_examples(
    code: str, lines: Sequence[str], count: int, heading: str, **more: Any
) -> Finding:
    """An error about ``count`` things at once, the first few of which have a line each."""
    head = f"{count:,} {heading}; first: " if count > 1 else ""
    return report_error(code, head + lines[0], details=tuple(lines[1:]), **more)


def report_each(
    code: str, positions: NDArray[np.int64], describe: Callable[[int], str], heading: str
) -> list[Finding]:
    """Report all ``positions`` in one finding: their number, and the first few described."""
    count = len(positions)
    if not count:
        return []
    lines = [describe(int(position)) for position in positions[:EXAMPLES]]
    if count > EXAMPLES:
        lines.append(f"and {count - EXAMPLES:,} more")
    return [report_examples(code, lines, count, heading, measures={"items": count})]
