"""Arguments of ``cache``, and its sizes and ages with units."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from parity.cli.shared import Verb, parse_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from parity.commands.cache import CacheOptions
    from parity.reports.console import RunConsole

_SIZE = re.compile(r"([0-9]{1,12})([KMGT]?)(?:i?B)?", re.ASCII | re.IGNORECASE)
_AGE = re.compile(r"([0-9]{1,6})([smhdw])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DEFAULT_LOCKFILE = "fixtures.lock.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``cache``."""
    add = parser.add_argument
    add(
        "what",
        choices=("ls", "verify", "gc"),
        help="list entries; read all of them again; remove unused ones",
    )
    add("--repo", type=Path, default=Path(), help="the folder of the lockfile (.)")
    add(
        "--lockfile",
        type=parse_path,
        action="append",
        default=[],
        help=f"gc keeps its bundles (repeat; default: REPO/{_DEFAULT_LOCKFILE} if it exists)",
    )
    add(
        "--max-size",
        type=parse_size,
        metavar="S",
        help="gc: remove least recently used entries down to S (for example 10G)",
    )
    add(
        "--older-than",
        type=parse_age,
        metavar="D",
        help="gc: remove entries unused for D (for example 30d)",
    )


def read_options(arguments: argparse.Namespace) -> CacheOptions:
    """Build the options from the parsed arguments.

    Raises:
        ConfigError: ``usage``.
    """
    from parity.commands.cache import CacheOptions
    from parity.errors import ConfigError, Problem

    limits = (arguments.max_size, arguments.older_than)
    if arguments.what != "gc" and limits != (None, None):
        message = f"--max-size and --older-than are for cache gc, not for cache {arguments.what}"
        raise ConfigError(Problem("usage", message))
    found = [path for path in [arguments.repo / _DEFAULT_LOCKFILE] if path.exists()]
    return CacheOptions(
        action=arguments.what,
        lockfiles=tuple(arguments.lockfile or found),
        max_bytes=arguments.max_size,
        max_age=arguments.older_than,
    )


def parse_size(text: str) -> int:
    """Return bytes from a number with K, M, G or T for powers of 1,024."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        message = f"{text!r} is not a size such as 500M or 10G"
        raise argparse.ArgumentTypeError(message)
    return int(match[1]) << (10 * " KMGT".index(match[2].upper() or " "))


def parse_age(text: str) -> float:
    """Return seconds from a number with s, m, h, d or w."""
    match = _AGE.fullmatch(text.strip())
    if match is None:
        message = f"{text!r} is not an age such as 12h or 30d"
        raise argparse.ArgumentTypeError(message)
    return float(match[1]) * _SECONDS[match[2]]


def _build_cache_call(arguments: argparse.Namespace) -> Callable[[RunConsole], int]:
    from parity.commands.cache import run_cache

    cache_options = read_options(arguments)
    return lambda console: run_cache(cache_options, console)


VERBS = (Verb("cache", add_arguments, _build_cache_call),)
