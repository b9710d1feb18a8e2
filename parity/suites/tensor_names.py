"""Names of a dump's tensors: missing, extra, twice, or all changed in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice, product, zip_longest
from operator import methodcaller
from typing import Any, NamedTuple

from parity.checkpoints import StorageLocation
from parity.checkpoints.gguf_header import BY_NAME
from parity.results import Finding
from parity.suites.messages import format_list, format_name, report_error
from parity.suites.tensor_reference import TensorReference
from parity.tensors import FormatError
from parity.tensors.compare import compare
from parity.tensors.folder import FolderContents
from parity.tensors.stored import StoredTensor
from parity.text import format_count, sanitize

_MAX_TRIED = 8  # Missing names that are compared with every extra one
_MAX_RULES = 64  # Ways of changing a name that are tried, at most
_MAX_RENAMINGS = 4  # Rules that are reported: one may hold for weights, another for biases


class Rule(NamedTuple):
    """A way in which names were changed: a verb phrase, and the change; ``""`` if it has none."""

    description: str
    change: Callable[[str], str]


Renaming = tuple[Rule, dict[str, str]]  # Also the dump's names by those of the reference
_NONE: Renaming = Rule("", str), {}


def check_names(
    reference: TensorReference, found: FolderContents
) -> tuple[list[Finding], dict[str, str]]:
    """Report tensors that are missing or extra; return also the dump's names of renamed ones."""
    many_broken = any(name.endswith(".safetensors") for name in found.unreadable)
    missing = [name for name in reference.tensors if name not in found.tensors]
    left = [] if many_broken else [name for name in missing if name not in found.lost]
    known = {*reference.tensors, *reference.unreferenced}
    extra = [name for name in found.tensors if name not in known]
    findings: list[Finding] = []
    renamed: dict[str, str] = {}
    for _ in range(_MAX_RENAMINGS):
        rule, now = _find_renaming(left, extra, reference, found) if left and extra else _NONE
        if not now:
            break
        findings.append(_report_renaming(rule.description, now))
        renamed |= now
        left = [name for name in left if name not in now]
        mapped = {*now.values(), *filter(None, map(rule.change, reference.unreferenced))}
        extra = [name for name in extra if name not in mapped]
    absent = [name for name in missing if name not in renamed and reference.is_optional(name)]
    needed = {name for name in missing if not reference.is_optional(name)}
    findings = [
        *_report_absent(absent, reference),
        *findings,
        *_report_missing([name for name in left if name in needed], needed, reference),
    ]
    level: Any = "error" if reference.complete else "warning"
    for name in extra:
        message = f"{format_name(name)} is in the dump, the reference has no such tensor"
        findings.append(Finding(level=level, code="tensor-extra", tensor=name, message=message))
    return findings, renamed


def _report_absent(names: list[str], reference: TensorReference) -> list[Finding]:
    """Report optional tensors that are missing; all tensors missing is an error."""
    if not names:
        return []
    listed = format_list(map(format_name, names))
    if len(names) == len(reference.tensors):
        message = f"the dump has none of {format_count(len(names), 'optional tensors')}: {listed}"
        return [report_error("nothing-compared", message)]
    message = f"{format_count(len(names), 'optional tensors')} not in the dump: {listed}"
    return [Finding(level="notice", code="optional-missing", message=message)]


def _find_renaming(
    missing: list[str], extra: list[str], reference: TensorReference, found: FolderContents
) -> Renaming:
    """Find the rule that maps most missing names onto extra ones whose values are right."""
    available = set(extra)
    best = _NONE
    for rule in propose_rules(missing, extra):
        renamed = {name: new for name in missing if (new := rule.change(name)) in available and new}
        if len(renamed) > len(best[1]) and len(set(renamed.values())) == len(renamed):
            best = rule, renamed
    if not _count_right(best[1], reference, found):
        best = _NONE
    return max(best, _find_shift(missing, extra, reference, found), key=lambda one: len(one[1]))


def _find_shift(
    missing: list[str], extra: list[str], reference: TensorReference, found: FolderContents
) -> Renaming:
    """Find the shift of an index under which all tensors are right, not only the missing ones."""
    best = _NONE
    for rule in propose_shifts(missing, extra):
        renamed = {name: new for name in reference.tensors if (new := rule.change(name))}
        if len(renamed) > len(best[1]) and found.tensors.keys() >= set(renamed.values()):
            matching = _count_right(renamed, reference, found)
            same = {name: name for name in renamed if name in found.tensors}
            if matching > _count_right(same, reference, found):
                best = rule, renamed
    return best


def _count_right(
    renamed: Mapping[str, str], reference: TensorReference, found: FolderContents
) -> int:
    """Count the first few tensors that are right under other names; 0 if most are not."""
    tried = [*renamed.items()][:_MAX_TRIED]
    matching = sum(
        _is_right(reference.tensors[name], found.tensors[other], reference.select_bounds(name))
        for name, other in tried
    )
    return matching if 2 * matching > len(tried) else 0


def _is_right(
    expected: StoredTensor, obtained: StoredTensor, tolerances: Mapping[str, float]
) -> bool:
    same = expected.shape == obtained.shape
    as_f32 = obtained.suffix == ".bin" and expected.dtype.kind != "complex"
    if not same or not (expected.dtype == obtained.dtype or as_f32):
        return False
    try:
        return compare(expected, obtained, tolerances, payloads=False).passed
    except FormatError:
        return False


def _report_renaming(description: str, renamed: Mapping[str, str]) -> Finding:
    name, other = next(iter(renamed.items()))
    message = (
        f"the names of {format_count(len(renamed), 'tensors')} {description} the dump: "
        f"{format_name(other)} for {format_name(name)}"
        f"{'' if len(renamed) == 1 else ', and so on'}; they were compared under the reference's "
        "names; write the names as the reference has them"
    )
    return report_error("tensor-renamed", message, measures={"renamed": len(renamed)})


def _report_missing(
    names: list[str], missing: Collection[str], reference: TensorReference
) -> Iterator[Finding]:
    locations = reference.locate() if names else {}
    locations = {name: place for name, place in locations.items() if name in reference.tensors}
    for name in names:
        stored = reference.tensors[name]
        shape = list((stored.whole or stored).shape)
        message = f"{format_name(name)} ({stored.dtype.name} {shape}) is missing from the dump"
        if name in locations:
            message += _describe_place(name, missing, locations, stored)
        yield report_error("tensor-missing", message, tensor=name)


def _describe_place(
    name: str,
    missing: Collection[str],
    locations: Mapping[str, StorageLocation],
    stored: StoredTensor,
) -> str:
    """Name the checkpoint's type and file, and say so where all tensors of it are missing."""
    path, kind, text = locations[name].path, locations[name].type_name, ""
    alike = [other for other, location in locations.items() if location.type_name == kind]
    inside = [other for other, location in locations.items() if location.path == path]
    if kind != stored.dtype.name:
        is_gguf = path.suffix == ".gguf" and kind in BY_NAME
        number = f" (type {BY_NAME[kind].code})" if is_gguf else ""
        text = f"; the checkpoint has it as {kind}{number}"
        if len(alike) < len(locations) and all(other in missing for other in alike):
            count = "the only tensor" if len(alike) == 1 else f"all {len(alike):,} tensors"
            text += f", and {count} of that type {'is' if len(alike) == 1 else 'are'} missing"
    if len(inside) < len(locations):
        text += f"; it is in {sanitize(path.name)}"
        if all(other in missing for other in inside):
            text += f", and all {format_count(len(inside), 'tensors')} of it are missing"
    return text


def propose_rules(missing: list[str], extra: list[str]) -> Iterator[Rule]:
    """Yield ways in which one of the first missing names may have become an extra one."""
    pairs = [(name, other) for name in missing[:_MAX_TRIED] for other in extra if name and other]
    ends = dict.fromkeys(_find_common_end(name, other) for name, other in pairs)
    yield from (_replace_ends(*one) for one in islice(filter(None, ends), _MAX_RULES))
    for old, new in _list_separators(missing[0], extra):
        yield Rule(f"have {new!r} in place of {old!r} in", methodcaller("replace", old, new))
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
    size = min(len(name), len(other))
    if other.endswith(name) or name.endswith(other):
        return name[: len(name) - size], other[: len(other) - size], "", ""
    if other.startswith(name) or name.startswith(other):
        return "", "", name[size:], other[size:]
    return None


def _propose_replacements(missing: list[str], extra: list[str]) -> Iterator[Rule]:
    """Yield other parts, prefixes and suffixes, where most of a name is as it was."""
    parts: dict[tuple[str, str], None] = {}
    from difflib import SequenceMatcher

    ends: dict[tuple[str, str, str, str], None] = {}
    for name, other in product(missing[:_MAX_TRIED], extra[:_MAX_RULES]):
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
    for name, other in product(missing[:_MAX_TRIED], extra[:_MAX_RULES]):
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
