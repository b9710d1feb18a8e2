"""Read and compare JSON documents: numbers within tolerances, everything else exactly.

Depth, size and number of values are bounded. A NaN equals nothing, not even a NaN.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

from parity.tensors import FormatError

MAX_BYTES = 16 * 2**20
MAX_DEPTH = 64
_CONTAINERS = (dict, list)


@dataclass(frozen=True)
class Difference:
    """A value that differs; ``error`` is the distance of two numbers, else infinite."""

    pointer: str
    expected: Any
    obtained: Any
    error: float = math.inf


@dataclass
class Comparison:
    """The result of comparing what one rule is for."""

    count: int = 0
    bad: int = 0
    share: float | None = None  # largest used share of a tolerance
    worst: Difference | None = None
    numbers: list[float] = field(default_factory=list)  # expected ones, under a tolerance


@dataclass
class DocumentComparison:
    """The result of comparing two documents, by the pointer of the rule that applied."""

    rules: dict[str, Comparison] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Values that were compared."""
        return sum(one.count for one in self.rules.values())


#: Tolerances by pointer (RFC 6901); None where a part is ignored.
Rules = dict[str, dict[str, float] | None]
EXACT = {"exact": 1.0}


def read_bytes(path: Path) -> bytes:
    """Read a file; one that cannot be read or is too large is a ``FormatError``."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise FormatError("unreadable", f"cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise FormatError("too-large", f"has more than {MAX_BYTES:,} bytes")
    return data


def read_json(path: Path) -> Any:
    """Read a JSON document.

    Raises:
        FormatError: It cannot be read, is too large, too deep, not JSON, or has a key twice.
    """
    data = read_bytes(path)
    try:
        value = load_json(data)
    except RecursionError:
        raise FormatError("bad-header", f"is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise FormatError("bad-header", f"is not JSON: {error!s:.200}") from None
    check_depth(value)
    return value


def load_json(data: bytes | str) -> Any:
    """Parse JSON.

    Raises:
        ValueError, RecursionError: It is not JSON, or has a key twice.
    """

    def read_float(text: str) -> float:
        # Two numbers beyond all floats are not equal.
        return value if math.isfinite(value := float(text)) else math.nan

    return json.loads(data, object_pairs_hook=_build_object, parse_float=read_float)


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is repeated in one object")
    return found


def check_depth(value: Any) -> None:
    """Reject a document that is nested deeper than ``MAX_DEPTH``.

    Raises:
        FormatError: It is.
    """
    level = [value] if isinstance(value, _CONTAINERS) else []
    for _ in range(MAX_DEPTH):
        inner = (one.values() if isinstance(one, dict) else one for one in level)
        level = [child for one in inner for child in one if isinstance(child, _CONTAINERS)]
        if not level:
            return
    raise FormatError("bad-header", f"is nested deeper than {MAX_DEPTH} levels")


def make_pointer(name: str) -> str:
    """Return the pointer of a member, or of all (`*`); a pointer as it is."""
    if name == "*":
        return ""
    return name if name.startswith("/") else f"/{_escape(name)}"


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def list_parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a document and all its parts by pointer."""
    pending = [("", value)]
    while pending:
        pointer, one = pending.pop()
        yield pointer, one
        pending += _list_children(pointer, one)


def _list_children(pointer: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(f"{pointer}/{_escape(key)}", one) for key, one in value.items()]
    if isinstance(value, list):
        return [(f"{pointer}/{at}", one) for at, one in enumerate(value)]
    return []


def is_plain_list(value: Any) -> bool:
    """Return whether a value is a list without lists and objects in it."""
    return isinstance(value, list) and not any(isinstance(one, _CONTAINERS) for one in value)


def compare_documents(
    expected: Any, obtained: Any, rules: Rules, partitions: Collection[tuple[str, ...]] = ()
) -> DocumentComparison:
    """Compare two documents; a part is compared by the rule of the nearest pointer above it.

    So a part may be compared below one that is ignored. ``partitions`` are lists that are parts of
    a whole: each has its size, and all together have the same items, each as often, in any order;
    in ``expected`` each is a plain list. No rule applies to these.
    """
    result = DocumentComparison()
    if partitions:
        sides = dict(list_parts(expected)), dict(list_parts(obtained))
        for parts in partitions:
            _compare_parts(result, parts, *([side.get(one) for one in parts] for side in sides))
        rules = {**rules, **dict.fromkeys(chain.from_iterable(partitions))}
    stated = [one for one, bounds in rules.items() if bounds is not None]
    above, with_rules = (
        {one[:at] for one in some for at, sign in enumerate(one) if sign == "/"}
        for some in (stated, rules)
    )

    def is_ignored(pointer: str, rule: str) -> bool:
        rule = pointer if pointer in rules else rule
        return rules.get(rule, EXACT) is None and pointer not in above

    pending: list[tuple[str, Any, Any, str]] = [("", expected, obtained, "")]
    while pending:
        pointer, left, right, rule = pending.pop()
        if is_ignored(pointer, rule):
            continue
        rule = pointer if pointer in rules else rule
        bounds = rules.get(rule)
        bounds = EXACT if bounds is None else bounds
        is_list = pointer not in with_rules and is_plain_list(left) and is_plain_list(right)
        if is_list and left and len(left) == len(right):
            items = result.rules.setdefault(rule, Comparison())
            for at in reversed(range(len(left))):
                _add(items, f"{pointer}/{at}", left[at], right[at], bounds)
        elif isinstance(left, _CONTAINERS) and type(left) is type(right):
            ours, theirs = dict(_list_children(pointer, left)), dict(_list_children(pointer, right))
            for found, these, others in (
                (result.missing, ours, theirs),
                (result.extra, theirs, ours),
            ):
                found += [one for one in these if one not in others and not is_ignored(one, rule)]
            pending += [(one, ours[one], theirs[one], rule) for one in ours if one in theirs]
        else:
            _add(result.rules.setdefault(rule, Comparison()), pointer, left, right, bounds)
    return result


def _count_items(lists: list[Any], side: str) -> Counter[tuple[str | bool, Any]]:
    """Count the items of lists: True is not 1, and a NaN of one side none of the other."""
    return Counter(
        (side if isinstance(item, float) and math.isnan(item) else type(item) is bool, item)
        for one in lists
        if is_plain_list(one)
        for item in one
    )


def _compare_parts(
    result: DocumentComparison, parts: tuple[str, ...], expected: list[Any], obtained: list[Any]
) -> None:
    ours, theirs = _count_items(expected, "expected"), _count_items(obtained, "obtained")
    lost, added = list((ours - theirs).elements()), list((theirs - ours).elements())
    worst = next(
        (
            Difference(pointer, one, other)
            for pointer, one, other in zip(parts, expected, obtained, strict=True)
            if not is_plain_list(other) or len(one) != len(other)
        ),
        Difference(parts[0], lost[0][1], added[0][1]) if lost and added else None,
    )
    bad = max(len(lost) + len(added), int(worst is not None))
    result.rules[parts[0]] = Comparison(ours.total(), bad, worst=worst)


def _add(
    found: Comparison, pointer: str, expected: Any, obtained: Any, bounds: Mapping[str, float]
) -> None:
    found.count += 1
    error = _measure(expected, obtained)
    is_within = error == 0
    if _is_number(expected) and not bounds.get("exact"):
        found.numbers.append(_to_float(expected))
        size = abs(_to_float(expected))
        allowed = [bounds["max_abs"]] if "max_abs" in bounds else []
        allowed += [bounds["relative"] * size] if "relative" in bounds else []
        if "atol" in bounds or "rtol" in bounds:
            allowed.append(bounds.get("atol", 0.0) + bounds.get("rtol", 0.0) * size)
        is_within |= math.isfinite(error) and all(error <= one for one in allowed)
        share = max((error / one if one else 0.0 for one in allowed if error), default=0.0)
        found.share = max(found.share or 0.0, share)
    if is_within:
        return
    found.bad += 1
    if found.worst is None or error > found.worst.error:
        found.worst = Difference(pointer, expected, obtained, error)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _measure(expected: Any, obtained: Any) -> float:
    """Return the distance of two values: 0 where they are equal, infinite if not numbers."""
    if not (_is_number(expected) and _is_number(obtained)):
        same = type(expected) is type(obtained) and expected == obtained
        return 0.0 if same and not isinstance(expected, _CONTAINERS) else math.inf
    if expected == obtained:
        return 0.0
    if not (math.isfinite(_to_float(expected)) and math.isfinite(_to_float(obtained))):
        return math.inf
    # Two integers may be closer than the floats next to them.
    if isinstance(expected, int) or isinstance(obtained, int):
        return _to_float(abs(Fraction(obtained) - Fraction(expected)))
    return float(abs(obtained - expected))


def _to_float(value: float | Fraction) -> float:
    """Return a number as a float, infinite where it is beyond all floats."""
    try:
        return float(value)
    except OverflowError:
        return math.inf
