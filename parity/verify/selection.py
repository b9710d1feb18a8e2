"""Which bundles and cases a command line means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.errors import ConfigError, Location, Problem
from parity.known_failures import match_glob

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from parity.lockfile import Bundle, Lockfile

_MAX_EXAMPLES = 20


def select_bundles(lock: Lockfile, ids: Sequence[str], globs: Sequence[str] = ()) -> list[Bundle]:
    """The bundles named by ``ids`` (all where none is), of which a glob may want a case.

    Raises:
        ConfigError: An id that the lockfile lacks, or a glob for no bundle of those chosen.
    """
    known = {bundle.id: bundle for bundle in lock.bundles}
    unknown = [name for name in ids if name not in known]
    if unknown:
        message = f"no bundle {_quote_names(unknown)} in {lock.path.as_posix()}; it lists {', '.join(known)}"
        raise ConfigError(Problem("no-such-bundle", message, Location(lock.path)))
    chosen = [known[name] for name in dict.fromkeys(ids)] or list(lock.bundles)
    _check_bundle_globs(globs, [bundle.id for bundle in chosen])
    bundle_globs = [_split_glob(glob)[0] for glob in globs if not glob.startswith("!")]
    return [
        b
        for b in chosen
        if not bundle_globs or any(match_glob(part, b.id) for part in bundle_globs)
    ]


def _check_bundle_globs(globs: Sequence[str], ids: Sequence[str]) -> None:
    parts = {glob: _split_glob(glob.removeprefix("!"))[0] for glob in globs}
    unmatched = [
        glob for glob, part in parts.items() if not any(match_glob(part, name) for name in ids)
    ]
    if unmatched:
        message = f"--case {_quote_names(unmatched)} matches no bundle; there are {', '.join(ids)}"
        raise ConfigError(Problem("no-such-bundle", message))


def _quote_names(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def check_locked(chosen: Iterable[Bundle]) -> None:
    """Hold that every bundle has been locked.

    Raises:
        ConfigError: One has no ``locked`` block; names the command that makes it.
    """
    problems = [
        Problem(
            "not-locked",
            f"bundle {bundle.id!r} has no 'locked' block; `parity bump {bundle.id}` fetches it "
            "and records its digest",
            bundle.where.get(""),
        )
        for bundle in chosen
        if bundle.locked is None
    ]
    if problems:
        raise ConfigError(*problems)


def is_selected(globs: Sequence[str], bundle: str, case: str) -> bool:
    """Whether the globs choose ``bundle/case``: all where none is positive; ``!`` excludes."""
    positive = [glob for glob in globs if not glob.startswith("!")]
    negative = [glob[1:] for glob in globs if glob.startswith("!")]
    chosen = not positive or any(_is_match(glob, bundle, case) for glob in positive)
    return chosen and not any(_is_match(glob, bundle, case) for glob in negative)


def check_case_globs(
    globs: Sequence[str], names: Iterable[tuple[str, str]], is_complete: bool
) -> None:
    """Hold that every glob means at least one case.

    Args:
        globs: As typed.
        names: (bundle, case) of all that is known.
        sure: Whether that is all there is; else a bundle could not be read.

    Raises:
        ConfigError: A glob that matches nothing; lists what there is.
    """
    known = list(names)
    unmatched = [
        g for g in globs if not any(_is_match(g.removeprefix("!"), *name) for name in known)
    ]
    if unmatched and is_complete:
        available = ", ".join(f"{bundle}/{case}" for bundle, case in known[:_MAX_EXAMPLES])
        if len(known) > _MAX_EXAMPLES:
            available += f" and {len(known) - _MAX_EXAMPLES:,} more"
        message = f"--case {_quote_names(unmatched)} matches no case; there are {available}"
        raise ConfigError(Problem("no-such-case", message))


def _is_match(glob: str, bundle: str, case: str) -> bool:
    bundle_part, case_part = _split_glob(glob)
    return match_glob(bundle_part, bundle) and match_glob(case_part, case)


def _split_glob(glob: str) -> tuple[str, str]:
    """``bundle/case``; a word without a slash means a case of any bundle."""
    bundle, slash, case = glob.partition("/")
    return (bundle, case) if slash else ("*", glob)
