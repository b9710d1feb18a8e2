"""Command lines as typed values: each field has the argument that fills it.

Parsers of values raise ``ArgumentTypeError`` with what is wrong.
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Any

from parity.github import display_path
from parity.text import resolve_path

REPORT_FORMATS = ("json", "junit", "html")
SUMMARIES = ("full", "compact", "false")
#: Limits of numbers on the command line: digits of a count, seconds of a deadline.
_MAX_DIGITS, _MAX_SECONDS = 9, 1e9
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?(?:[eE][-+]?[0-9]{1,3})?", re.ASCII)


def declare(argument: str, text: str, unset: Any = MISSING, **more: Any) -> Any:
    """Return a field of a record that an argument fills.

    Args:
        argument: ``--flag``, ``--flag METAVAR``, or the name of a positional one.
        text: Its help.
        unset: Value of the field where the argument is not typed.
        more: Further parameters of ``add_argument``; paths, counts and seconds need no ``type``.
            A ``default`` is a text that counts as typed; those of one ``group`` exclude each other.
    """
    return field(default=unset, metadata={"argument": argument, "help": text, **more})


def declare_flag(argument: str, text: str) -> Any:
    """Return a field that is true if the argument is typed."""
    return declare(argument, text, False, action="store_true")


def declare_list(argument: str, text: str, **more: Any) -> Any:
    """Return a field with the values of an argument that may be typed several times."""
    return declare(argument, f"{text} (repeat)", (), action="append", **more)


def parse_path(text: str) -> Path:
    """Return an absolute path."""
    if not text:
        raise ArgumentTypeError("a path must not be empty")
    return resolve_path(text)


def parse_positive(text: str) -> int:
    """Return a whole number of at least 1."""
    if (value := parse_count(text)) == 0:
        raise ArgumentTypeError("must be at least 1")
    return value


def parse_count(text: str) -> int:
    """Return a whole number: ASCII digits only."""
    if not text.isascii() or not text.isdecimal() or len(text) > _MAX_DIGITS:
        raise ArgumentTypeError(f"{text!r} is not a whole number of at most {_MAX_DIGITS} digits")
    return int(text)


def parse_formats(text: str) -> tuple[str, ...]:
    """Return the report formats, separated by commas or spaces."""
    names = tuple(text.replace(",", " ").split())
    if unknown := [name for name in names if name not in REPORT_FORMATS]:
        message = f"{', '.join(map(repr, unknown))} is not one of {', '.join(REPORT_FORMATS)}"
        raise ArgumentTypeError(message)
    return names


def parse_seconds(text: str) -> float:
    """Return a positive number of seconds."""
    value = float(text) if _NUMBER.fullmatch(text.strip()) else -1.0
    if not 0 < value < _MAX_SECONDS:
        raise ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return value


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of every verb that reads a lockfile."""

    repo: Path = declare("--repo", "the repo under test (.)", default=".")
    lockfile: Path = declare("--lockfile", "default: REPO/fixtures.lock.yaml")
    offline: bool = declare_flag("--offline", "no network access, also for cargo")
    rehash: bool = declare_flag("--rehash", "hash the bytes of every unpacked bundle again")
    bundles: Sequence[str] = ()  # ids of the chosen bundles; empty for all

    def format_place(self) -> list[str]:
        """Return the words that name the repo and the lockfile in a command typed here."""
        words = []
        if (repo := display_path(self.repo)) != ".":
            words += ["--repo", repo]
        if self.lockfile != self.repo / "fixtures.lock.yaml":
            words += ["--lockfile", display_path(self.lockfile)]
        return words


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Options of reports."""

    report_dir: Path | None = declare(
        "--report-dir DIR", "write reports and failed dumps there", None
    )
    report_formats: Sequence[str] = declare(
        "--report-formats F",
        f"of {', '.join(REPORT_FORMATS)}; separated by commas or spaces (json)",
        ("json",),
        type=parse_formats,
    )
    fail_on: str = declare(
        "--fail-on",
        "least severe finding that fails the run (mismatch)",
        "mismatch",
        choices=("mismatch", "warning"),
    )
    min_cases: int = declare("--min-cases N", "fail if fewer cases are verified (1)", 1)
    annotations: int = declare("--annotations N", "on GitHub: at most N annotated errors (10)", 10)
    summary: str = declare("--summary", "on GitHub: the job's summary", "full", choices=SUMMARIES)


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(ReportOptions, Options):
    """The command line of ``verify``."""

    bundles: Sequence[str] = declare_list("--bundle ID", "only this bundle")
    cases: Sequence[str] = declare_list(
        "--case GLOB", "only cases bundle/case that match; '!' excludes"
    )
    dumps: Path | None = declare(
        "--dumps DIR", "compare existing dumps in DIR/<bundle>/<case>/; build and run nothing", None
    )
    toolchain: str = declare("--toolchain T", "run cargo +T", "")
    cargo_args: Sequence[str] = declare_list("--cargo-args A", "an argument for cargo")
    jobs: int | None = declare(
        "--jobs N",
        "cases run in parallel (default: number of processors)",
        None,
        type=parse_positive,
    )
    repeat: int = declare(
        "--repeat N", "run each case N times; the runs must agree", 1, type=parse_positive
    )
    all_cases: bool = declare_flag("--all", "run cases that are not claimed, too, for information")
    deadline: float | None = declare(
        "--deadline S", "seconds for the whole run (default: no limit)", None
    )
    private_bundles: Sequence[str] = ()  # of which no dump is kept
