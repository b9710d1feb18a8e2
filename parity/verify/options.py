"""Command lines as typed values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

REPORT_FORMATS = ("json", "junit", "html")
SUMMARIES = ("full", "compact", "false")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of every verb.

    Attributes:
        repo: The repo under test.
        rehash: Hash trees of the store again before they are used.
        bundles: Ids of the chosen bundles; empty for all.
    """

    repo: Path
    lockfile: Path
    offline: bool = False
    rehash: bool = False
    bundles: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Options of reports.

    Attributes:
        annotations: Maximum number of annotated errors, and of warnings, on GitHub.
        summary: ``full``, ``compact`` or ``false``.
    """

    report_dir: Path | None = None
    report_formats: Sequence[str] = ("json",)
    fail_on: str = "mismatch"
    min_cases: int = 1
    annotations: int = 10
    summary: str = "full"


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(Options, ReportOptions):
    """The command line of ``verify``; see its help for each.

    Attributes:
        private_bundles: Bundles of which no dump is kept.
        deadline: Seconds for the whole run, None for no limit.
        dumps: Folder of existing dumps; nothing is built or run then.
    """

    cases: Sequence[str] = ()
    dumps: Path | None = None
    toolchain: str = ""
    cargo_args: Sequence[str] = ()
    jobs: int | None = None
    repeat: int = 1
    deadline: float | None = None
    private_bundles: Sequence[str] = ()
