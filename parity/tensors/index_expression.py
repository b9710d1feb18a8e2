"""Parse NumPy's slice syntax strictly; it is never evaluated."""

from __future__ import annotations

import re
from types import EllipsisType

from parity.errors import ConfigError, Problem

Index = tuple[int | slice | EllipsisType, ...]

_NUMBER = "[-+]?[0-9]{1,18}"
_PART = re.compile(
    rf"(?P<at>{_NUMBER})|(?P<start>{_NUMBER})?:(?P<stop>{_NUMBER})?(?::(?P<step>{_NUMBER})?)?"
)
_MAX_PARTS = 64  # More parts than any tensor has dimensions


def parse_index(text: str) -> Index:
    """Parse ``1:3, 0, ..., ::2``, with or without brackets, into an index.

    Raises:
        ConfigError: Anything else than numbers, slices and one ``...``.
    """
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]"):
        inner = inner[1:-1]
    parts = [part.strip() for part in inner.split(",")] if inner.strip() else []
    if parts and not parts[-1]:
        parts.pop()  # a comma at the end, as of a tuple of one
    if len(parts) > _MAX_PARTS:
        raise _build_error(text, f"has {len(parts)} parts, at most {_MAX_PARTS} are read")
    index = tuple(_parse_part(text, part) for part in parts)
    if index.count(...) > 1:
        raise _build_error(text, "has more than one '...'")
    return index


def _parse_part(text: str, part: str) -> int | slice | EllipsisType:
    if part == "...":
        return ...
    match = _PART.fullmatch(part)
    if match is None:
        raise _build_error(text, f"{part!r} is neither a number nor start:stop:step nor '...'")
    if match["at"] is not None:
        return int(match["at"])
    start, stop, step = (
        None if match[name] is None else int(match[name]) for name in ("start", "stop", "step")
    )
    if step == 0:
        raise _build_error(text, "a step must not be 0")
    return slice(start, stop, step)


def expand_index(index: Index, shape: tuple[int, ...], text: str) -> Index:
    """Return ``index`` with its ``...`` written out for ``shape``.

    Raises:
        ConfigError: It has more parts than the tensor has dimensions, or a number outside
            of one.
    """
    count = len(index) - index.count(...)
    if count > len(shape):
        message = f"has {count} parts, the tensor has {len(shape)} dimensions: {list(shape)}"
        raise _build_error(text, message)
    gap = (slice(None),) * (len(shape) - count)
    at = index.index(...) if ... in index else len(index)
    expanded = (*index[:at], *gap, *index[at + 1 :])
    for axis, (part, length) in enumerate(zip(expanded, shape, strict=True)):
        if isinstance(part, int) and not -length <= part < length:
            message = f"{part} is outside of axis {axis}, which has {length:,} elements"
            raise _build_error(text, message)
    return expanded


def _build_error(text: str, reason: str) -> ConfigError:
    return ConfigError(Problem("slice", f"slice {text!r:.80}: {reason}"))
