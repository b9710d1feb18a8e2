"""NumPy's slice syntax as a typed value: read strictly, never evaluated."""

from __future__ import annotations

import re
from types import EllipsisType

from parity.errors import ConfigError, Problem

Index = tuple[int | slice | EllipsisType, ...]

_NUMBER = "[-+]?[0-9]{1,18}"
_PART = re.compile(
    rf"(?P<at>{_NUMBER})|(?P<start>{_NUMBER})?:(?P<stop>{_NUMBER})?(?::(?P<step>{_NUMBER})?)?"
)
#: More parts than any tensor has dimensions.
_MOST = 64


def parse(text: str) -> Index:
    """``1:3, 0, ..., ::2`` as an index; brackets around it may be left out.

    Raises:
        ConfigError: Anything else than numbers, slices and one ``...``.
    """
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]"):
        inner = inner[1:-1]
    parts = [part.strip() for part in inner.split(",")] if inner.strip() else []
    if parts and not parts[-1]:
        parts.pop()  # a comma at the end, as of a tuple of one
    if len(parts) > _MOST:
        raise _refused(text, f"has {len(parts)} parts, at most {_MOST} are read")
    index = tuple(_part(text, part) for part in parts)
    if index.count(...) > 1:
        raise _refused(text, "has more than one '...'")
    return index


def _part(text: str, part: str) -> int | slice | EllipsisType:
    if part == "...":
        return ...
    found = _PART.fullmatch(part)
    if found is None:
        raise _refused(text, f"{part!r} is neither a number nor start:stop:step nor '...'")
    if found["at"] is not None:
        return int(found["at"])
    start, stop, step = (
        None if found[name] is None else int(found[name]) for name in ("start", "stop", "step")
    )
    if step == 0:
        raise _refused(text, "a step must not be 0")
    return slice(start, stop, step)


def fit(index: Index, shape: tuple[int, ...], text: str) -> Index:
    """``index`` with its ``...`` written out for ``shape``.

    Raises:
        ConfigError: It has more parts than the tensor has dimensions, or a number that lies
            outside of one.
    """
    named = len(index) - index.count(...)
    if named > len(shape):
        message = f"has {named} parts, the tensor has {len(shape)} dimensions: {list(shape)}"
        raise _refused(text, message)
    gap = (slice(None),) * (len(shape) - named)
    at = index.index(...) if ... in index else len(index)
    full = (*index[:at], *gap, *index[at + 1 :])
    for axis, (part, length) in enumerate(zip(full, shape, strict=True)):
        if isinstance(part, int) and not -length <= part < length:
            message = f"{part} lies outside of axis {axis}, which has {length:,} elements"
            raise _refused(text, message)
    return full


def _refused(text: str, why: str) -> ConfigError:
    return ConfigError(Problem("slice", f"slice {text!r:.80}: {why}"))
