"""Select the bundles and cases of a command line, and those that an entry's `cases` claims.

What is not claimed decides nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from parity.errors import ConfigError, Location, Problem
from parity.known_failures import match_glob, parse_known_failures
from parity.lockfile import Bundle, Lockfile
from parity.results import CaseResult, Finding
from parity.text import format_path, join_limited

_MAX_EXAMPLES = 20
REASON = "not claimed"
UNCLAIMED = f"{REASON}; the verdict would be "  # Begins the reason of a case that was run
_MAX_LISTED = 5


def select_bundles(lock: Lockfile, ids: Sequence[str], globs: Sequence[str] = ()) -> list[Bundle]:
    """Return the bundles ``ids`` (default: all) of which a glob may match a case.

    Raises:
        ConfigError: An unknown id, or a glob that matches none of the bundles.
    """
    known = {bundle.id: bundle for bundle in lock.bundles}
    unknown = [name for name in ids if name not in known]
    if unknown:
        message = (
            f"unknown bundle {_quote_names(unknown)} in {format_path(lock.path)}; "
            f"it lists {', '.join(known)}"
        )
        raise ConfigError(Problem("no-such-bundle", message, Location(lock.path)))
    chosen = [known[name] for name in dict.fromkeys(ids)] or list(lock.bundles)
    ids = [bundle.id for bundle in chosen]
    unmatched = [
        glob
        for glob in globs
        if not any(match_glob(_split_glob(glob.removeprefix("!"))[0], name) for name in ids)
    ]
    if unmatched:
        message = f"--case {_quote_names(unmatched)} matches no bundle; bundles: {', '.join(ids)}"
        raise ConfigError(Problem("no-such-bundle", message))
    parts = [_split_glob(glob)[0] for glob in globs if not glob.startswith("!")] or ["*"]
    return [bundle for bundle in chosen if any(match_glob(part, bundle.id) for part in parts)]


def _quote_names(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def check_locked(chosen: Iterable[Bundle], place: Sequence[str] = ()) -> None:
    """Check that every bundle is locked; ``place`` are the words that name the repo.

    Raises:
        ConfigError: One has no ``locked`` block; names the command that writes it.
    """
    problems = []
    for bundle in (one for one in chosen if one.locked is None):
        command = shlex.join(["parity", "bump", *place, bundle.id])
        message = f"bundle {bundle.id!r} has no 'locked' block; `{command}` downloads it and "
        message += "records its digest"
        problems.append(Problem("not-locked", message, bundle.where.get("")))
    if problems:
        raise ConfigError(*problems)


def is_selected(globs: Sequence[str], bundle: str, case: str) -> bool:
    """Return whether the globs select ``bundle/case``: all if none is positive; ``!`` excludes."""
    return match_globs(globs, lambda glob: _is_match(glob, bundle, case))


def match_globs(globs: Sequence[str], is_match: Callable[[str], bool]) -> bool:
    """Return whether any positive glob matches, or there is none, and none behind a ``!``."""
    positive = [glob for glob in globs if not glob.startswith("!")] or ["*"]
    negative = [glob[1:] for glob in globs if glob.startswith("!")]
    return any(map(is_match, positive)) and not any(map(is_match, negative))


def check_case_globs(
    globs: Sequence[str], names: Iterable[tuple[str, str]], is_complete: bool
) -> None:
    """Check that every glob matches at least one case of ``names``: (bundle, case).

    The names are not complete if a bundle could not be read; then nothing is checked.

    Raises:
        ConfigError: A glob that matches nothing; lists the cases.
    """
    known = list(names)
    unmatched = [
        g for g in globs if not any(_is_match(g.removeprefix("!"), *name) for name in known)
    ]
    if unmatched and is_complete:
        available = join_limited(["/".join(name) for name in known], _MAX_EXAMPLES)
        message = f"--case {_quote_names(unmatched)} matches no case; cases: {available}"
        raise ConfigError(Problem("no-such-case", message))


def _is_match(glob: str, bundle: str, case: str) -> bool:
    bundle_part, case_part = _split_glob(glob)
    return match_glob(bundle_part, bundle) and match_glob(case_part, case)


def _split_glob(glob: str) -> tuple[str, str]:
    """Split ``bundle/case``; a glob without a slash is a case of any bundle."""
    bundle, slash, case = glob.partition("/")
    return (bundle, case) if slash else ("*", glob)


def find_claimed(globs: Sequence[str], ids: Iterable[str]) -> frozenset[str]:
    """Return the claimed cases: all where there is no glob; ``!`` excludes."""

    def is_claimed(case: str) -> bool:
        return match_globs(globs, lambda glob: match_glob(glob, case))

    return frozenset(filter(is_claimed, ids))


def select_claimed(bundle: Bundle, ids: Collection[str]) -> frozenset[str]:
    """Return the cases that the entry claims.

    Raises:
        ConfigError: A glob matches no case, nothing is claimed, or a known failure is for cases
            that are not claimed.
    """
    claimed = find_claimed(bundle.cases, ids)
    where = bundle.where.get("cases")
    known = join_limited(list(ids), _MAX_LISTED)
    texts = [
        f"cases of {bundle.id!r}: {glob!r} matches no case; cases: {known}"
        for glob in bundle.cases
        if not any(match_glob(glob.removeprefix("!"), case) for case in ids)
    ]
    problems = [Problem("names-nothing", text, where) for text in texts]
    if not claimed and not problems:
        message = f"cases of {bundle.id!r} claims no case, so that nothing would be verified"
        problems.append(Problem("names-nothing", message, where))
    for failure in parse_known_failures(bundle.known_failures, ids):
        matching = [case for case in ids if failure.match_case(case)]
        if matching and not claimed.intersection(matching):
            message = (
                f"known failure {failure.text!r} is for {join_limited(matching, _MAX_LISTED)}, "
                f"which {bundle.id!r} does not claim; remove it, or claim the case"
            )
            where = bundle.where.get("known-failures")
            problems.append(Problem("names-nothing", message, where))
    if problems:
        raise ConfigError(*problems)
    return claimed


def mark_unclaimed(result: CaseResult) -> CaseResult:
    """Return the result of a case that was run for information: its errors are notices."""

    def lower(finding: Finding) -> Finding:
        if finding.level == "notice":
            return finding
        return replace(finding, level="notice", message=f"{REASON}: {finding.message}")

    findings = tuple(map(lower, result.findings))
    reason = f"{UNCLAIMED}{result.verdict}"
    return replace(result, verdict="skipped", reason=reason, findings=findings)
