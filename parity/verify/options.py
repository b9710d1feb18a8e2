"""Command lines as typed values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from parity.github import display_path

REPORT_FORMATS = ("json", "junit", "html")
SUMMARIES = ("full", "compact", "false")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of every verb."""

    repo: Path  # under test
    lockfile: Path
    offline: bool = False
    rehash: bool = False  # hash trees of the store again before they are used
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

    report_dir: Path | None = None
    report_formats: Sequence[str] = ("json",)
    fail_on: str = "mismatch"
    min_cases: int = 1
    annotations: int = 10  # most annotated errors, and warnings, on GitHub
    summary: str = "full"  # one of `SUMMARIES`


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(Options, ReportOptions):
    """The command line of ``verify``; see its help for each."""

    cases: Sequence[str] = ()
    dumps: Path | None = None  # folder of existing dumps; nothing is built or run then
    toolchain: str = ""
    cargo_args: Sequence[str] = ()
    jobs: int | None = None
    repeat: int = 1
    all_cases: bool = False  # run those that are not claimed, too, for information
    deadline: float | None = None  # seconds for the whole run, None for no limit
    private_bundles: Sequence[str] = ()  # of which no dump is kept
