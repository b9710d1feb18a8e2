"""Which bundles and cases a command line means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.errors import ConfigError, Problem, Where
from parity.verdicts import matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from parity.lockfile import Bundle, Lockfile

_EXAMPLES = 20


def bundles(lock: Lockfile, ids: Sequence[str], globs: Sequence[str] = ()) -> list[Bundle]:
    """The bundles named by ``ids`` (all where none is), of which a glob may want a case.

    Raises:
        ConfigError: An id that the lockfile lacks, or a glob for no bundle of those chosen.
    """
    known = {bundle.id: bundle for bundle in lock.bundles}
    unknown = [name for name in ids if name not in known]
    if unknown:
        message = (
            f"no bundle {_listed(unknown)} in {lock.path.as_posix()}; it lists {', '.join(known)}"
        )
        raise ConfigError(Problem("no-such-bundle", message, Where(lock.path)))
    chosen = [known[name] for name in dict.fromkeys(ids)] or list(lock.bundles)
    _hold_bundles_match(globs, [bundle.id for bundle in chosen])
    wanted = [_split(glob)[0] for glob in globs if not glob.startswith("!")]
    return [b for b in chosen if not wanted or any(matches(part, b.id) for part in wanted)]


def _hold_bundles_match(globs: Sequence[str], ids: Sequence[str]) -> None:
    parts = {glob: _split(glob.removeprefix("!"))[0] for glob in globs}
    idle = [glob for glob, part in parts.items() if not any(matches(part, name) for name in ids)]
    if idle:
        message = f"--case {_listed(idle)} matches no bundle; there are {', '.join(ids)}"
        raise ConfigError(Problem("no-such-bundle", message))


def _listed(words: Iterable[str]) -> str:
    return ", ".join(map(repr, words))


def locked(chosen: Iterable[Bundle]) -> None:
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


def wants(globs: Sequence[str], bundle: str, case: str) -> bool:
    """Whether the globs choose ``bundle/case``: all where none is positive; ``!`` excludes."""
    positive = [glob for glob in globs if not glob.startswith("!")]
    negative = [glob[1:] for glob in globs if glob.startswith("!")]
    chosen = not positive or any(_covers(glob, bundle, case) for glob in positive)
    return chosen and not any(_covers(glob, bundle, case) for glob in negative)


def hold_all_match(globs: Sequence[str], names: Iterable[tuple[str, str]], sure: bool) -> None:
    """Hold that every glob means at least one case.

    Args:
        globs: As typed.
        names: (bundle, case) of all that is known.
        sure: Whether that is all there is; else a bundle could not be read.

    Raises:
        ConfigError: A glob that matches nothing; lists what there is.
    """
    known = list(names)
    idle = [g for g in globs if not any(_covers(g.removeprefix("!"), *name) for name in known)]
    if idle and sure:
        there = ", ".join(f"{bundle}/{case}" for bundle, case in known[:_EXAMPLES])
        if len(known) > _EXAMPLES:
            there += f" and {len(known) - _EXAMPLES:,} more"
        message = f"--case {_listed(idle)} matches no case; there are {there}"
        raise ConfigError(Problem("no-such-case", message))


def _covers(glob: str, bundle: str, case: str) -> bool:
    bundle_part, case_part = _split(glob)
    return matches(bundle_part, bundle) and matches(case_part, case)


def _split(glob: str) -> tuple[str, str]:
    """``bundle/case``; a word without a slash means a case of any bundle."""
    bundle, slash, case = glob.partition("/")
    return (bundle, case) if slash else ("*", glob)
