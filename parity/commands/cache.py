"""``cache``: list, check and shrink the store."""

from __future__ import annotations

import os
import re
import time
from argparse import ArgumentTypeError
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

from parity.commands.options import parse_size
from parity.errors import ConfigError, IntegrityError, Problem
from parity.lockfile import load
from parity.reports.console import RunConsole
from parity.store import disk, entries
from parity.store.entries import StoreEntry
from parity.store.paths import StorePaths
from parity.store.store import Store
from parity.text import format_count, sanitize
from parity.verify.options import declare

_AGE = re.compile(r"([0-9]{1,6})([smhdw])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_NAME_WIDTH = 19  # characters of a name: "sha256:" and twelve digits


def parse_age(text: str) -> float:
    """Return seconds from a number with s, m, h, d or w."""
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise ArgumentTypeError(f"{text!r} is not an age such as 12h or 30d")
    return float(match[1]) * _SECONDS[match[2]]


@dataclass(frozen=True, kw_only=True)
class CacheOptions:
    """The command line of ``cache``."""

    action: Literal["ls", "verify", "gc"] = declare(
        "",
        "list entries; read all of them again; remove unused ones",
        choices=("ls", "verify", "gc"),
    )
    repo: Path = declare("--repo", "the folder of the lockfile (.)", Path(), default=".")
    #: Lockfiles in use; all listings name their bundles, too.
    lockfiles: Sequence[Path] = declare(
        "--lockfile LOCKFILE",
        "gc keeps its bundles (repeat; default: REPO/fixtures.lock.yaml if it exists)",
        (),
        action="append",
    )
    max_bytes: int | None = declare(
        "--max-size S",
        "gc: remove least recently used entries down to S (for example 10G)",
        None,
        type=parse_size,
    )
    max_age: float | None = declare(
        "--older-than D", "gc: remove entries unused for D (for example 30d)", None, type=parse_age
    )


def run_cache(options: CacheOptions, console: RunConsole) -> int:
    """List, check or shrink the store; return the exit code.

    Raises:
        ConfigError: A lockfile is invalid, or ``usage``; nothing is removed.
        FetchError: ``store-…``.
        IntegrityError: ``store-damaged``, once for each damaged entry; it is removed if possible.
    """
    if options.action != "gc" and (options.max_bytes, options.max_age) != (None, None):
        message = f"--max-size and --older-than are for cache gc, not for cache {options.action}"
        raise ConfigError(Problem("usage", message))
    names = _collect_names(options)
    store_paths = Store.from_environment().paths
    with disk.explain_errors("cache", store_paths.root):
        with suppress(FileNotFoundError):  # nothing was downloaded so far
            os.scandir(store_paths.root).close()
        if options.action == "ls":
            _list_entries(store_paths, names, console)
        elif options.action == "verify":
            _verify_entries(store_paths, names, console)
        else:
            _remove_unused(options, store_paths, names, console)
    return 0


def _collect_names(options: CacheOptions) -> dict[str, str]:
    """Return the ids of each archive that a lockfile names, by its SHA-256."""
    default = options.repo / "fixtures.lock.yaml"
    names: dict[str, list[str]] = {}
    for path in options.lockfiles or ([default] if default.exists() else []):
        for bundle in chain.from_iterable(one.list_downloads() for one in load(path).bundles):
            if bundle.locked is not None:
                names.setdefault(bundle.locked.sha256, []).append(bundle.id)
    return {sha256: ", ".join(dict.fromkeys(ids)) for sha256, ids in names.items()}


def _list_entries(store_paths: StorePaths, names: Mapping[str, str], console: RunConsole) -> None:
    stored = entries.list_entries(store_paths)
    for entry in stored:
        console.print_line(_format_entry(entry, names))
    total = format_count(sum(entry.size for entry in stored), "bytes")
    where = sanitize(store_paths.root.as_posix())
    console.print_line(f"{_count_entries(stored)}, {total}, in {where}")


def _count_entries(found: Sequence[StoreEntry]) -> str:
    return f"{len(found):,} {'entry' if len(found) == 1 else 'entries'}"


def _format_entry(entry: StoreEntry, names: Mapping[str, str]) -> str:
    used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.last_used))
    line = f"{_format_name(entry):<{_NAME_WIDTH}}  {entry.size:>17,} bytes  used {used}"
    return f"{line}  {names.get(entry.sha256, '')}".rstrip()


def _format_name(entry: StoreEntry) -> str:
    return sanitize(entry.name[:_NAME_WIDTH])


def _verify_entries(store_paths: StorePaths, names: Mapping[str, str], console: RunConsole) -> None:
    problems = []
    if not (stored := entries.list_entries(store_paths)):
        console.print_line(f"0 entries, in {sanitize(store_paths.root.as_posix())}")
    for entry, damage in entries.check_entries(store_paths, stored):
        name = f"{_format_name(entry)}  {names.get(entry.sha256, '')}".rstrip()
        if damage:
            problems.append(_remove_damaged(entry, damage))
        elif entry.name.startswith("crates/"):
            console.print_line(f"not checked  {name}: a build has no digest")
        else:
            console.print_line(f"intact       {name}")
    if problems:
        raise IntegrityError(*problems)


def _remove_damaged(entry: StoreEntry, damage: str) -> Problem:
    end, hint = "was removed", "parity fetch downloads it again; check the disk"
    try:
        entries.remove(entry)
    except OSError as error:
        end, hint = (
            f"cannot be removed: {sanitize(error.strerror or '')}",
            "remove it; check the disk",
        )
    message = f"{entry.name} in the store is damaged, and {end}"
    details = (f"obtained  {sanitize(damage)}", hint)
    return Problem("store-damaged", message, None, details)


def _remove_unused(
    options: CacheOptions, store_paths: StorePaths, names: Mapping[str, str], console: RunConsole
) -> None:
    policy = entries.GcPolicy(
        max_bytes=options.max_bytes, max_age=options.max_age, keep=names.keys()
    )
    removed = entries.clean(store_paths, policy)
    for entry in removed:
        console.print_line(f"removed  {_format_entry(entry, names)}")
    freed = format_count(sum(entry.size for entry in removed), "bytes")
    remaining = sum(entry.size for entry in entries.list_entries(store_paths))
    left = format_count(remaining, "bytes")
    console.print_line(f"{_count_entries(removed)} removed, {freed}; {left} left")
    if policy.max_bytes is not None and remaining > policy.max_bytes:
        console.print_line(
            "the remaining entries are named by a lockfile, being written, or used within the last "
            f"{policy.grace:,.0f} s"
        )
