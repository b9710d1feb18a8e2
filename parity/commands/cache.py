"""``cache``: list, check and shrink the store."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from parity.errors import IntegrityError, Problem
from parity.fixtures import disk, holdings
from parity.fixtures.store import Store
from parity.lockfile import load
from parity.safetext import counted, safe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from parity.fixtures.holdings import Holding
    from parity.fixtures.shelves import Shelves
    from parity.reports.console import Teller

_SHORT = 19  # characters of a name: "sha256:" and twelve digits


@dataclass(frozen=True, kw_only=True)
class CacheOptions:
    """The command line of ``cache``.

    Attributes:
        what: Which of the three.
        lockfiles: Those in use; what they name stays, and is shown by its id.
        most: Bytes that may stay after ``gc``, None for any number.
        older: Seconds since its last use after which ``gc`` removes a thing, None for never.
    """

    what: Literal["ls", "verify", "gc"]
    lockfiles: Sequence[Path] = ()
    most: int | None = None
    older: float | None = None


def cache(options: CacheOptions, teller: Teller) -> int:
    """List, check or shrink the store; returns the exit code.

    Raises:
        ConfigError: A lockfile cannot be used; nothing is removed then.
        FetchError: ``store-…``.
        IntegrityError: ``store-damaged``, for each thing that was; it is removed.
    """
    names = _names(options.lockfiles)
    shelves = Store.default().shelves
    with disk.explained("cache", shelves.root):
        if options.what == "ls":
            _list(shelves, names, teller)
        elif options.what == "verify":
            _verify(shelves, names, teller)
        else:
            rules = holdings.Rules(most=options.most, older=options.older, keep=names.keys())
            _clean(shelves, rules, names, teller)
    return 0


def _names(lockfiles: Sequence[Path]) -> dict[str, str]:
    """SHA-256 of each archive that a lockfile names, and the ids it has there."""
    names: dict[str, list[str]] = {}
    for path in lockfiles:
        for bundle in load(path).bundles:
            if bundle.locked is not None:
                names.setdefault(bundle.locked.sha256, []).append(bundle.id)
    return {sha256: ", ".join(dict.fromkeys(ids)) for sha256, ids in names.items()}


def _list(shelves: Shelves, names: Mapping[str, str], teller: Teller) -> None:
    found = holdings.holdings(shelves)
    for held in found:
        teller.line(_line(held, names))
    total = counted(sum(held.size for held in found), "bytes")
    teller.line(f"{counted(len(found), 'things')}, {total}, in {safe(shelves.root.as_posix())}")


def _line(held: Holding, names: Mapping[str, str]) -> str:
    used = time.strftime("%Y-%m-%d %H:%M", time.localtime(held.used))
    line = f"{_short(held):<{_SHORT}}  {held.size:>17,} bytes  used {used}"
    return f"{line}  {names.get(held.sha256, '')}".rstrip()


def _short(held: Holding) -> str:
    return safe(held.name[:_SHORT])


def _verify(shelves: Shelves, names: Mapping[str, str], teller: Teller) -> None:
    problems = []
    for held, damage in holdings.damaged(shelves, holdings.holdings(shelves)):
        name = f"{_short(held)}  {names.get(held.sha256, '')}".rstrip()
        if damage:
            problems.append(_damaged(held, damage))
        elif held.name.startswith("crates/"):
            teller.line(f"not checked  {name}: a build has no digest")
        else:
            teller.line(f"whole        {name}")
    if problems:
        raise IntegrityError(*problems)


def _damaged(held: Holding, damage: str) -> Problem:
    holdings.remove(held)
    message = f"{held.name} in the store is damaged, and was removed"
    details = (f"got     {safe(damage)}", "parity fetch makes it again; check the disk")
    return Problem("store-damaged", message, None, details)


def _clean(
    shelves: Shelves, rules: holdings.Rules, names: Mapping[str, str], teller: Teller
) -> None:
    gone = holdings.clean(shelves, rules)
    for held in gone:
        teller.line(f"removed  {_line(held, names)}")
    freed = counted(sum(held.size for held in gone), "bytes")
    left = sum(held.size for held in holdings.holdings(shelves))
    teller.line(f"{counted(len(gone), 'things')} removed, {freed}; {counted(left, 'bytes')} left")
    if rules.most is not None and left > rules.most:
        teller.line(
            "what is left is named by a lockfile, is being made, or was used within the last "
            f"{rules.grace:,.0f} s"
        )
