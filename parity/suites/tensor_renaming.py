"""Rules by which the names of a dump's tensors may have been changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from itertools import islice, product, zip_longest
from typing import NamedTuple

#: Missing names that are compared with every extra one, to find how names were changed.
MAX_TRIED = 8
_MAX_RULES = 64  # Ways of changing a name that are tried, at most


class Rule(NamedTuple):
    """A way in which names were changed: a verb phrase, and the change; ``""`` if it has none."""

    description: str
    change: Callable[[str], str]


def propose_rules(missing: list[str], extra: list[str]) -> Iterator[Rule]:
    """Yield ways in which one of the first missing names may have become an extra one."""
    pairs = [(name, other) for name in missing[:MAX_TRIED] for other in extra if name and other]
    ends = dict.fromkeys(_find_common_end(name, other) for name, other in pairs)
    yield from (_replace_ends(*one) for one in islice(filter(None, ends), _MAX_RULES))
    for old, new in _list_separators(missing[0], extra):
        yield Rule(f"have {new!r} in place of {old!r} in", _replace_separator(old, new))
    yield Rule("are in lower case in", str.lower)
    yield Rule("are in upper case in", str.upper)
    yield from _propose_replacements(missing, extra)


def _list_separators(name: str, extra: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the separators of a name, each with what may have replaced it."""
    known = ["_", ".", "/", "-", "::", ":", "|"]
    for old in dict.fromkeys(re.findall(r"\W+|_", name)):
        yield from (
            (old, new) for new in known if new != old and any(new in other for other in extra)
        )
        yield old, ""


def _find_common_end(name: str, other: str) -> tuple[str, str, str, str] | None:
    """Return how the prefix or the suffix of one name was changed, if the rest is the other."""
    if other.endswith(name) or name.endswith(other):
        size = min(len(name), len(other))
        return name[: len(name) - size], other[: len(other) - size], "", ""
    if other.startswith(name) or name.startswith(other):
        size = min(len(name), len(other))
        return "", "", name[size:], other[size:]
    return None


def _propose_replacements(missing: list[str], extra: list[str]) -> Iterator[Rule]:
    """Yield other parts, prefixes and suffixes, where most of a name is as it was."""
    parts: dict[tuple[str, str], None] = {}
    ends: dict[tuple[str, str, str, str], None] = {}
    for name, other in product(missing[:MAX_TRIED], extra[:_MAX_RULES]):
        pairs = [*zip_longest(_split(name), _split(other))]
        changed = {pair for pair in pairs if pair[0] != pair[1]}
        if len(changed) == 1 < len(pairs) and None not in (change := changed.pop()):
            parts[change] = None
        start, at, size = SequenceMatcher(None, name, other, autojunk=False).find_longest_match()
        if 2 * size >= len(name):
            ends[name[:start], other[:at], name[start + size :], other[at + size :]] = None
    yield from (_replace_part(*part) for part in islice(parts, _MAX_RULES))
    yield from (_replace_ends(*four) for four in islice(ends, _MAX_RULES))


def propose_shifts(missing: list[str], extra: list[str]) -> Iterator[Rule]:
    """Yield shifts of an index, as from layer.0 to layer.1, also of names that both sides have."""
    seen: dict[tuple[str, int], None] = {}
    for name, other in product(missing[:MAX_TRIED], extra[:_MAX_RULES]):
        pairs = [*zip_longest(_split(name), _split(other), fillvalue="")]
        places = [at for at, (old, new) in enumerate(pairs) if old != new]
        if len(places) == 1 and all(part.isdecimal() for part in pairs[places[0]]):
            old, new = map(int, pairs[places[0]])
            before = "".join(_split(name)[max(places[0] - 2, 0) : places[0]])
            seen |= dict.fromkeys((before, step) for step in (1, -1, new - old))
    yield from (_shift_index(*one) for one in islice(seen, _MAX_RULES))


def _shift_index(before: str, step: int) -> Rule:
    """Shift the index that follows a part of a name; the first part if ``before`` is empty."""
    place = rf"(?<![^\W_]){re.escape(before)}" if before else r"\A"
    pattern = re.compile(rf"({place})(\d+)(?![^\W_])")

    def change(name: str) -> str:
        found = pattern.search(name)
        if found is None or int(found[2]) + step < 0:
            return ""
        return f"{name[: found.end(1)]}{int(found[2]) + step}{name[found.end() :]}"

    where = f"the index after {before!r}" if before else "the first index"
    return Rule(f"have {where} {abs(step)} {'higher' if step > 0 else 'lower'} in", change)


def _split(name: str) -> list[str]:
    """Split a name into its parts and the separators between them."""
    return re.split(r"(\W+|_)", name)


def _replace_part(old: str, new: str) -> Rule:
    return Rule(
        f"have {new!r} in place of {old!r} in",
        lambda name: "".join(new if part == old else part for part in _split(name)),
    )


def _replace_ends(old: str, new: str, old_end: str, new_end: str) -> Rule:
    """Replace a prefix and a suffix, each of which may be empty."""
    changes: dict[str, list[str]] = {"have": [], "lack": []}
    for kind, before, after in (("prefix", old, new), ("suffix", old_end, new_end)):
        if after:
            place = f" in place of {before!r}" if before else ""
            changes["have"].append(f"the {kind} {after!r}{place}")
        elif before:
            changes["lack"].append(f"the {kind} {before!r}")
    texts = [f"{verb} {' and '.join(parts)}" for verb, parts in changes.items() if parts]

    def change(name: str) -> str:
        if not name.startswith(old) or not name[len(old) :].endswith(old_end):
            return ""
        return new + name[len(old) : len(name) - len(old_end)] + new_end

    return Rule(f"{' and '.join(texts)} in", change)


def _replace_separator(old: str, new: str) -> Callable[[str], str]:
    return lambda name: name.replace(old, new)
