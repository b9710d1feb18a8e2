"""``scoreboard``: compare several ports' reports, a table for each bundle."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from parity.errors import EXIT_CODES, ConfigError, Location, Problem
from parity.lab.scoreboard import tables, terminal
from parity.lab.scoreboard.board import Scoreboard, build_scoreboard, list_common_bundles
from parity.reports import json_reader
from parity.reports.console import RunConsole
from parity.results import Report
from parity.store.disk import replace_file
from parity.text import sanitize_message
from parity.verify import publish
from parity.verify.options import declare, declare_flag

_NAMED_REPORT = re.compile(r"(?P<name>[^=/\\]{1,60})=(?P<path>.+)", re.DOTALL)
_MAX_DIFFERENCES = 40


@dataclass(frozen=True, kw_only=True)
class ScoreboardOptions:
    """The command line of ``scoreboard``; its help describes each option."""

    reports: Sequence[str] = declare(
        "[NAME=]REPORT", "report.json of a port, or its folder", nargs="+"
    )
    bundle: str = declare("--bundle ID", "this bundle alone", "")
    by_group: bool = declare_flag("--by-group", "a row for each group of cases, with their counts")
    markdown: bool = declare_flag("--markdown", "print a Markdown table")
    html: Path | None = declare("--html FILE", "also write one static page", None)
    write: Path | None = declare(
        "--write PAGE", "rewrite the table between the page's markers", None, group="page"
    )
    check: Path | None = declare(
        "--check PAGE", "exit 1 if the page's cells differ", None, group="page"
    )


def print_scoreboard(options: ScoreboardOptions, console: RunConsole) -> int:
    """Print the table; return 1 if the page to check differs.

    Raises:
        ConfigError: A library is missing, a report or page cannot be read or written, or the
            reports have no bundle in common, or two states of one.
    """
    if options.html is not None and find_spec("jinja2") is None:
        message = "--html needs jinja2: pip install '.[reports]' in a clone of parity-action"
        raise ConfigError(Problem("missing-library", message))
    for page in filter(None, (options.html, options.write)):
        publish.check_no_link(page, "page")
    boards = _build_boards(options)
    if options.html is not None:
        from parity.lab.scoreboard.html_page import render_page

        _write_page(options.html, render_page(boards))
    if options.write is not None:
        _rewrite_page(options.write, boards)
    if options.check is not None:
        return _check_page(options.check, boards, console)
    if options.write is None:
        _print_boards(boards, options)
    return 0


def _build_boards(options: ScoreboardOptions) -> list[Scoreboard]:
    given = [(*(one := _split_name(text)), _read_report(one[1])) for text in options.reports]
    try:
        bundles = list_common_bundles([report for *_, report in given], options.bundle)
        boards = [
            build_scoreboard(_name_reports(given, one), one, by_group=options.by_group)
            for one in bundles
        ]
    except ValueError as error:
        raise ConfigError(Problem("reports-differ", str(error))) from None
    found = {one.bundle: path for _, path, report in given for one in report.bundles}
    for name in sorted(found.keys() - set(bundles)) if not options.bundle else ():
        text = f"{name} of {found[name].as_posix()} is not shown: not all reports have it"
        print(sanitize_message(text), file=sys.stderr)  # noqa: T201 - beside a table on stdout
    return boards


def _name_reports(given: Sequence[tuple[str, Path, Report]], bundle: str) -> dict[str, Report]:
    """Return the reports by the name of the port that they are of in ``bundle``."""
    reports: dict[str, Report] = {}
    for stated, path, report in given:
        name = stated or _choose_port_name(report, path, bundle)
        if name in reports:
            message = f"two reports are named {sanitize_message(name)}; name them with NAME=REPORT"
            raise ConfigError(Problem("usage", message))
        reports[name] = report
    return reports


def _split_name(text: str) -> tuple[str, Path]:
    """Return the name, if one is given, and the report's file."""
    match = None if Path(text).exists() else _NAMED_REPORT.fullmatch(text)
    name, path = (match["name"], Path(match["path"])) if match else ("", Path(text))
    return name, path / "report.json" if path.is_dir() else path


def _read_report(path: Path) -> Report:
    try:
        return json_reader.load_report(path)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        message = f"{sanitize_message(path.as_posix())} is not a valid report: {reason}"
        raise ConfigError(Problem("report-unreadable", message, Location(path))) from None


def _choose_port_name(report: Report, path: Path, bundle: str) -> str:
    """Return the port's name: crate or package with its version, else the lockfile's name.

    A reference reader has no version in its name.
    """
    port = next((one.port for one in report.bundles if one.bundle == bundle and one.port), {})
    if "reader" in port:
        return f"{port['reader']} (reference)"
    if "package" in port:
        return f"{port['package']} {port.get('version', '')}".strip()
    stem = report.lockfile.name.removesuffix(".yaml").removesuffix(".lock")
    return port.get("crate", "").replace("@", " ") or stem or path.parent.name


def _rewrite_page(page: Path, boards: list[Scoreboard]) -> None:
    date = datetime.now(UTC).date().isoformat()
    try:
        new = tables.replace_section(_read_page(page), tables.format_section(boards, date))
    except ValueError as error:
        raise _build_page_error(page, error) from None
    _write_page(page, new)


def _check_page(page: Path, boards: list[Scoreboard], console: RunConsole) -> int:
    """Compare the page's cells with the reports'; print those that differ."""
    try:
        current = tables.read_table_lines(_read_page(page))
    except ValueError as error:
        raise _build_page_error(page, error) from None
    expected = tables.read_table_lines(tables.format_section(boards, ""))
    changes = [line for line in difflib.ndiff(current, expected) if line[:2] in ("- ", "+ ")]
    for line in changes[:_MAX_DIFFERENCES]:
        console.print_line(sanitize_message(line))
    if not changes:
        console.print_line(f"{sanitize_message(page.as_posix())} agrees with the reports")
        return 0
    for line in tables.list_changes(current, expected, boards):
        console.print_line(sanitize_message(line))
    console.print_line(
        f"{sanitize_message(page.as_posix())} differs from the reports; --write updates it"
    )
    return EXIT_CODES["mismatch"]


def _build_page_error(page: Path, error: ValueError) -> ConfigError:
    message = f"{sanitize_message(page.as_posix())} {error}"
    return ConfigError(Problem("page", message, Location(page)))


def _read_page(page: Path) -> str:
    try:
        return page.read_text(encoding="utf-8")
    except OSError as error:
        message = f"{sanitize_message(page.as_posix())} cannot be read: {error.strerror}"
        raise ConfigError(Problem("page", message, Location(page))) from None


def _write_page(path: Path, text: str) -> None:
    try:
        replace_file(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        message = f"{sanitize_message(path.as_posix())} cannot be written: {error.strerror}"
        raise ConfigError(Problem("page", message)) from None


def _print_boards(boards: list[Scoreboard], options: ScoreboardOptions) -> None:
    lines: list[str] = []
    if options.markdown:
        today = datetime.now(UTC).date().isoformat()
        facts = (tables.format_facts(board, today) for board in boards)
        lines = [tables.format_boards(boards), *facts]
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for number, board in enumerate(() if options.markdown else boards):
        lines += ["", ""] if number else []
        lines += terminal.format_terminal(board, colour=colour)
    for line in lines:
        print(line)  # noqa: T201 - this is what prints
