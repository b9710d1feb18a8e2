"""List what an entry of the lockfile checks less than before: claims, tolerances, ignored parts."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from parity.bundle.tensor_rules import EXACT, Check, Rule
from parity.bundle.tolerances import tighten
from parity.lockfile import Bundle
from parity.suites.base import Case
from parity.text import format_count, join_limited
from parity.verify.prepare import get_suite
from parity.verify.selection import find_claimed

_MAX_LISTED = 5
#: Text before the names of what is checked less, and after them.
Change = tuple[str, str]


def list_weaker(
    previous: Bundle, old: Sequence[Case], bundle: Bundle, new: Sequence[Case]
) -> list[str]:
    """Return a line for each way in which an entry with its cases checks less than before."""
    before, after = {case.id: case for case in old}, {case.id: case for case in new}
    claimed = find_claimed(previous.cases, before)
    lost = sorted(claimed - find_claimed(bundle.cases, after))
    lines = list(list_entry_changes(previous, bundle))
    if lost:
        cases = format_count(len(lost), "cases")
        lines.insert(0, f"{cases} not claimed any more: {join_limited(lost, _MAX_LISTED)}")
    found: defaultdict[Change, dict[str, None]] = defaultdict(dict)
    for name in sorted(claimed - {*lost}):
        sides = _list_rules(previous, before[name]), _list_rules(bundle, after[name])
        for change, part in _compare_rules(*sides):
            found[change][f"{name}/{part}" if part else name] = None
        words = [side[name].expect or "load" for side in (before, after)]
        if words[0] not in ("either", words[1]):
            found["expect of", f": {words[0]} → {words[1]}"][name] = None
    for (text, end), names in found.items():
        lines.append(f"{text} {join_limited([*names], _MAX_LISTED)}{end}")
    return lines


def list_entry_changes(previous: Bundle, bundle: Bundle) -> Iterator[str]:
    """Yield what changed in an entry itself."""
    for key, before, after in (
        ("suite", previous.suite, bundle.suite),
        ("manifest", previous.manifest, bundle.manifest),
        ("options", _format(previous.options), _format(bundle.options)),
    ):
        if before != after:
            yield f"{key}: {before or 'none'} → {after or 'none'}"
    for name in sorted(previous.extra_files.keys() | bundle.extra_files.keys()):
        sides = [one.extra_files.get(name) for one in (previous, bundle)]
        if sides[0] != sides[1]:
            texts = [f"{one.source} at {one.path}" if one else "none" for one in sides]
            yield f"extra file {name}: {texts[0]} → {texts[1]}"
    for text, reason in bundle.known_failures.items():
        if text not in previous.known_failures:
            yield f"known failure {text} added: {reason}"


def _list_rules(bundle: Bundle, case: Case) -> Mapping[str, Rule]:
    list_rules = get_suite(bundle).list_rules
    bounds = tighten(case.tolerances, case.requested)[0]
    if list_rules is None:
        return {"": Rule(checks=(Check(bounds=bounds),))}
    return list_rules(case, bounds)


def _compare_rules(
    before: Mapping[str, Rule], after: Mapping[str, Rule]
) -> Iterator[tuple[Change, str]]:
    """Yield each change to a weaker rule, and the name, glob or pointer that it is stated for."""
    for name in {**before, **after}:
        old, new = _find_rule(before, name), _find_rule(after, name)
        if old is None or old.ignore:
            continue
        if new is None:
            yield ("not compared any more:", ""), name
            continue
        stated = str(new.place[-1]) if new.origin != "default" and new.place else ""
        stated = stated or (name if "#" in name else "")
        if new.ignore:
            yield ("ignored now:", f": {new.ignore}"), stated
            continue
        sides = [one.checks or EXACT for one in (old, new)]
        texts = [" or ".join(dict.fromkeys(map(_format_check, side))) for side in sides]
        if texts[0] != texts[1] and _is_weaker(*sides):
            yield ("tolerance of", f" widened: {texts[0]} → {texts[1]}"), stated
        for key, text in (
            ("optional", "optional now:"),
            ("blind", "blind now:"),
            ("like", "compared with another tensor alone:"),
            ("covered_by", "compared by a measure of another tensor alone:"),
        ):
            if (now := getattr(new, key)) and now != getattr(old, key):
                yield (text, "" if now is True else f": {now}"), name


def _find_rule(rules: Mapping[str, Rule], name: str) -> Rule | None:
    """Return the rule of a tensor, or the nearest one above a pointer (`o.json#/a/b`)."""
    while name not in rules and "#" in name and "/" in name.partition("#")[2]:
        name = name.rpartition("/")[0]
    return rules.get(name)


def _is_weaker(before: Sequence[Check], after: Sequence[Check]) -> bool:
    """Return whether conditions are wider, or cannot be compared with the former ones."""
    if all("exact" in one.bounds for one in after):
        return False
    if len(before) > 1 or len(after) > 1:
        return True  # the caller knows that they differ
    (old,), (new,) = before, after
    if any(new.measures.get(name) != settings for name, settings in old.measures.items()):
        return True
    # Of atol and rtol, the one that is not stated is 0.
    sides = [
        {**({"atol": 0.0, "rtol": 0.0} if {"atol", "rtol"} & one.keys() else {}), **one}
        for one in (old.bounds, new.bounds)
    ]
    is_unclear = ("close" in old.bounds) != ("close" in new.bounds)
    return is_unclear or tighten(sides[1], sides[0])[0] != sides[1]


def _format_check(check: Check) -> str:
    bounds = [
        name if name in ("exact", "close") else f"{name} {value!r}".removesuffix(".0")
        for name, value in check.bounds.items()
    ]
    measures = [f"{name} {_format(settings)}".rstrip() for name, settings in check.measures.items()]
    return ", ".join(chain(bounds, measures)) or "none"


def _format(settings: Mapping[str, object]) -> str:
    stated = {key: value for key, value in settings.items() if value is not None}
    return json.dumps(stated, ensure_ascii=False, default=str) if stated else ""
