"""Arguments that several verbs share, and the parsers of their values."""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity.verify.options import REPORT_FORMATS, SUMMARIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from parity.reports.console import RunConsole

#: Limits of numbers on the command line: digits of a count, seconds of a deadline.
_MAX_DIGITS, _MAX_SECONDS = 9, 1e9
_SECONDS = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?(?:[eE][-+]?[0-9]{1,3})?", re.ASCII)


@dataclass(frozen=True)
class Verb:
    """One subcommand.

    Attributes:
        add_arguments: Declares its arguments.
        build_call: Returns the verb's call; imports what the verb needs only then, so
            that ``--help`` stays fast.
    """

    name: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    build_call: Callable[[argparse.Namespace], Callable[[RunConsole], int]]


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of every verb that reads a lockfile."""
    parser.add_argument("--repo", type=Path, default=Path(), help="the repo under test (.)")
    parser.add_argument("--lockfile", type=Path, help="default: REPO/fixtures.lock.yaml")
    parser.add_argument("--offline", action="store_true", help="no network access, also for cargo")
    text = "hash the bytes of every unpacked bundle again"
    parser.add_argument("--rehash", action="store_true", help=text)
    # The old name, for one release.
    parser.add_argument("--verify", action="store_true", dest="rehash", help=argparse.SUPPRESS)


def add_id_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of a verb on some or all bundles."""
    add_common_arguments(parser)
    parser.add_argument("ids", nargs="*", metavar="ID", help="bundles (default: all)")


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments about reports."""
    add = parser.add_argument
    add("--report-dir", type=parse_path, metavar="DIR", help="write reports and failed dumps there")
    add(
        "--report-formats",
        type=parse_formats,
        default=("json",),
        metavar="F",
        help=f"of {', '.join(REPORT_FORMATS)}; separated by commas or spaces (json)",
    )
    add(
        "--fail-on",
        choices=("mismatch", "warning"),
        default="mismatch",
        help="least severe finding that fails the run (mismatch)",
    )
    add(
        "--min-cases",
        type=parse_count,
        default=1,
        metavar="N",
        help="fail if fewer cases are verified (1)",
    )
    add(
        "--annotations",
        type=parse_count,
        default=10,
        metavar="N",
        help="on GitHub: at most N annotated errors (10)",
    )
    add("--summary", choices=SUMMARIES, default="full", help="on GitHub: the job's summary")


def read_report_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the values of ``add_report_arguments``, by the options' names."""
    names = ("report_dir", "report_formats", "fail_on", "min_cases", "annotations", "summary")
    return {name: getattr(arguments, name) for name in names}


def read_common_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the values of ``add_common_arguments``, by the options' names."""
    default = arguments.repo / "fixtures.lock.yaml"
    return {
        "repo": arguments.repo,
        "lockfile": default if arguments.lockfile is None else arguments.lockfile,
        "offline": arguments.offline,
        "rehash": arguments.rehash,
    }


def parse_path(text: str) -> Path:
    """Return an absolute path, so that it is the same from every working folder."""
    if not text:
        message = "a path must not be empty"
        raise argparse.ArgumentTypeError(message)
    # Links stay as they are: whether to follow them is decided where the file is opened.
    return Path(os.path.abspath(text))  # noqa: PTH100 - Path.absolute keeps `..`


def parse_positive(text: str) -> int:
    """Return a whole number of at least 1."""
    value = parse_count(text)
    if value == 0:
        message = "must be at least 1"
        raise argparse.ArgumentTypeError(message)
    return value


def parse_count(text: str) -> int:
    """Return a whole number: ASCII digits only."""
    if not text.isascii() or not text.isdecimal() or len(text) > _MAX_DIGITS:
        message = f"{text!r} is not a whole number"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def parse_formats(text: str) -> tuple[str, ...]:
    """Return the report formats, separated by commas or spaces."""
    names = tuple(text.replace(",", " ").split())
    if unknown := [name for name in names if name not in REPORT_FORMATS]:
        message = f"{', '.join(map(repr, unknown))} is not one of {', '.join(REPORT_FORMATS)}"
        raise argparse.ArgumentTypeError(message)
    return names


def parse_seconds(text: str) -> float:
    """Return a positive number of seconds."""
    value = float(text) if _SECONDS.fullmatch(text.strip()) else -1.0
    if not 0 < value < _MAX_SECONDS:  # false for NaN, too
        message = f"{text!r} is not a positive number of seconds"
        raise argparse.ArgumentTypeError(message)
    return value
