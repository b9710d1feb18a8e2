"""``scoreboard``: several ports' reports on one bundle side by side."""

from __future__ import annotations

import difflib
import os
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from parity.errors import EXIT_CODES, ConfigError, Problem, Where
from parity.reports import reading, scoreboard_moved, scoreboard_words
from parity.reports.scoreboard import board
from parity.reports.wording import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parity.reports.console import Teller
    from parity.reports.scoreboard import Board
    from parity.results import Report

_NAMED = re.compile(r"(?P<name>[^=/\\]{1,60})=(?P<path>.+)", re.DOTALL)
_DIFFERING = 40


@dataclass(frozen=True, kw_only=True)
class ScoreboardOptions:
    """The command line of ``scoreboard``.

    Attributes:
        reports: ``report.json`` files or their folders, each with ``NAME=`` before it or not.
        bundle: Where the reports share several.
        write: A page whose table is rewritten between its marks.
        check: A page whose table is compared.
    """

    reports: Sequence[str]
    bundle: str = ""
    markdown: bool = False
    html: Path | None = None
    write: Path | None = None
    check: Path | None = None


def scoreboard(options: ScoreboardOptions, teller: Teller) -> int:
    """Print the table; 1 where a page that is to be checked says otherwise.

    Raises:
        ConfigError: A report or a page cannot be read or written, or the reports are not of
            one bundle.
    """
    _hold_libraries(options)
    found = _board(options)
    if options.html is not None:
        _write(options.html, _page(found))
    if options.write is not None:
        _rewrite(options.write, found)
    if options.check is not None:
        return _check(options.check, found, teller)
    if options.write is None:
        _say(found, options)
    return 0


def _hold_libraries(options: ScoreboardOptions) -> None:
    if options.html is not None and find_spec("jinja2") is None:
        message = '--html needs jinja2; install "parity-action[reports]"'
        raise ConfigError(Problem("missing-library", message))


def _board(options: ScoreboardOptions) -> Board:
    reports: dict[str, Report] = {}
    for text in options.reports:
        name, path = _split(text)
        report = _read(path)
        name = name or _name(report, path, options.bundle)
        if name in reports:
            message = f"two reports are of {shown(name)}; write NAME=REPORT to tell them apart"
            raise ConfigError(Problem("usage", message))
        reports[name] = report
    try:
        return board(reports, options.bundle)
    except ValueError as error:
        raise ConfigError(Problem("reports-differ", str(error))) from None


def _split(text: str) -> tuple[str, Path]:
    """A name, if one is given, and the report's file."""
    found = None if Path(text).exists() else _NAMED.fullmatch(text)
    name, path = (found["name"], Path(found["path"])) if found else ("", Path(text))
    return name, path / "report.json" if path.is_dir() else path


def _read(path: Path) -> Report:
    try:
        return reading.report(path)
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        message = f"{shown(path.as_posix())} is no report that can be read: {why}"
        raise ConfigError(Problem("report-unreadable", message, Where(path))) from None


def _name(report: Report, path: Path, bundle: str) -> str:
    """What a report's port is called: crate or package with its version, else its lockfile.

    A reference reader bears no version: what it says counts, whatever its release.
    """
    named = [one.port for one in report.bundles if not bundle or one.bundle == bundle]
    port = next((one for one in named if one), {})
    if "reader" in port:
        return f"{port['reader']} (reference)"
    if "package" in port:
        return f"{port['package']} {port.get('version', '')}".strip()
    stem = report.lockfile.name.removesuffix(".yaml").removesuffix(".lock")
    return port.get("crate", "").replace("@", " ") or stem or path.parent.name


def _page(found: Board) -> str:
    from parity.reports import scoreboard_html

    return scoreboard_html.text(found)


def _rewrite(page: Path, found: Board) -> None:
    date = datetime.now(UTC).date().isoformat()
    try:
        new = scoreboard_words.replaced(_text(page), scoreboard_words.section(found, date))
    except ValueError as error:
        raise _bad_page(page, error) from None
    _write(page, new)


def _check(page: Path, found: Board, teller: Teller) -> int:
    """Whether the page's cells are those of the reports; says which are not."""
    try:
        there = scoreboard_words.lasting(_text(page))
    except ValueError as error:
        raise _bad_page(page, error) from None
    due = scoreboard_words.lasting(scoreboard_words.section(found, ""))
    moved = [line for line in difflib.ndiff(there, due) if line[:2] in ("- ", "+ ")]
    for line in moved[:_DIFFERING]:
        teller.line(shown(line))
    if not moved:
        teller.line(f"{shown(page.as_posix())} shows what the reports say")
        return 0
    for line in scoreboard_moved.told(there, due, found):
        teller.line(shown(line))
    teller.line(f"{shown(page.as_posix())} shows other cells than the reports; --write renews it")
    return EXIT_CODES["mismatch"]


def _bad_page(page: Path, error: ValueError) -> ConfigError:
    message = f"{shown(page.as_posix())} {error}"
    return ConfigError(Problem("page", message, Where(page)))


def _text(page: Path) -> str:
    try:
        return page.read_text(encoding="utf-8")
    except OSError as error:
        message = f"{shown(page.as_posix())} cannot be read: {error.strerror}"
        raise ConfigError(Problem("page", message, Where(page))) from None


def _write(path: Path, text: str) -> None:
    try:
        path.write_bytes(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        message = f"{shown(path.as_posix())} cannot be written: {error.strerror}"
        raise ConfigError(Problem("page", message)) from None


def _say(found: Board, options: ScoreboardOptions) -> None:
    if options.markdown:
        today = datetime.now(UTC).date().isoformat()
        lines = [scoreboard_words.markdown(found), scoreboard_words.facts(found, today)]
    else:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        lines = list(scoreboard_words.lines(found, colour=colour))
    for line in lines:
        print(line)  # noqa: T201 - this is what prints
