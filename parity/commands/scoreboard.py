"""``scoreboard``: compare several ports' reports on one bundle."""

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

from parity.errors import EXIT_CODES, ConfigError, Location, Problem
from parity.lab.scoreboard import changes as scoreboard_changes
from parity.lab.scoreboard import tables
from parity.lab.scoreboard.board import build_scoreboard
from parity.reports import json_reader
from parity.store.disk import replace_file
from parity.text import sanitize_message
from parity.verify import publish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parity.lab.scoreboard.board import Scoreboard
    from parity.reports.console import RunConsole
    from parity.results import Report

_NAMED_REPORT = re.compile(r"(?P<name>[^=/\\]{1,60})=(?P<path>.+)", re.DOTALL)
_MAX_DIFFERENCES = 40


@dataclass(frozen=True, kw_only=True)
class ScoreboardOptions:
    """The command line of ``scoreboard``.

    Attributes:
        reports: ``report.json`` files or their folders, each optionally as ``NAME=PATH``.
        bundle: The bundle, if the reports share several.
        write: A page whose table is rewritten between its markers.
        check: A page whose table is compared.
    """

    reports: Sequence[str]
    bundle: str = ""
    markdown: bool = False
    html: Path | None = None
    write: Path | None = None
    check: Path | None = None


def print_scoreboard(options: ScoreboardOptions, console: RunConsole) -> int:
    """Print the table; return 1 if the page to check differs.

    Raises:
        ConfigError: A report or page cannot be read or written, or the reports are not of
            one bundle.
    """
    _check_libraries(options)
    for page in filter(None, (options.html, options.write)):
        publish.check_no_link(page, "page")
    cells = _build_board(options)
    if options.html is not None:
        _write_page(options.html, _format_page(cells))
    if options.write is not None:
        _rewrite_page(options.write, cells)
    if options.check is not None:
        return _check_page(options.check, cells, console)
    if options.write is None:
        _print_board(cells, options)
    return 0


def _check_libraries(options: ScoreboardOptions) -> None:
    if options.html is not None and find_spec("jinja2") is None:
        message = "--html needs jinja2: pip install '.[reports]' in a clone of parity-action"
        raise ConfigError(Problem("missing-library", message))


def _build_board(options: ScoreboardOptions) -> Scoreboard:
    reports: dict[str, Report] = {}
    for text in options.reports:
        name, path = _split_name(text)
        report = _read_report(path)
        name = name or _choose_port_name(report, path, options.bundle)
        if name in reports:
            message = f"two reports are named {sanitize_message(name)}; name them with NAME=REPORT"
            raise ConfigError(Problem("usage", message))
        reports[name] = report
    try:
        return build_scoreboard(reports, options.bundle)
    except ValueError as error:
        raise ConfigError(Problem("reports-differ", str(error))) from None


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
    ports = [one.port for one in report.bundles if not bundle or one.bundle == bundle]
    port = next((one for one in ports if one), {})
    if "reader" in port:
        return f"{port['reader']} (reference)"
    if "package" in port:
        return f"{port['package']} {port.get('version', '')}".strip()
    stem = report.lockfile.name.removesuffix(".yaml").removesuffix(".lock")
    return port.get("crate", "").replace("@", " ") or stem or path.parent.name


def _format_page(cells: Scoreboard) -> str:
    from parity.lab.scoreboard import html_page

    return html_page.render_page(cells)


def _rewrite_page(page: Path, cells: Scoreboard) -> None:
    date = datetime.now(UTC).date().isoformat()
    try:
        new = tables.replace_section(_read_page(page), tables.format_section(cells, date))
    except ValueError as error:
        raise _build_page_error(page, error) from None
    _write_page(page, new)


def _check_page(page: Path, cells: Scoreboard, console: RunConsole) -> int:
    """Compare the page's cells with the reports'; print those that differ."""
    try:
        current = tables.read_table_lines(_read_page(page))
    except ValueError as error:
        raise _build_page_error(page, error) from None
    expected = tables.read_table_lines(tables.format_section(cells, ""))
    changes = [line for line in difflib.ndiff(current, expected) if line[:2] in ("- ", "+ ")]
    for line in changes[:_MAX_DIFFERENCES]:
        console.print_line(sanitize_message(line))
    if not changes:
        console.print_line(f"{sanitize_message(page.as_posix())} agrees with the reports")
        return 0
    for line in scoreboard_changes.list_changes(current, expected, cells):
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


def _print_board(cells: Scoreboard, options: ScoreboardOptions) -> None:
    if options.markdown:
        today = datetime.now(UTC).date().isoformat()
        lines = [tables.format_markdown(cells), tables.format_facts(cells, today)]
    else:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        lines = list(tables.format_terminal(cells, colour=colour))
    for line in lines:
        print(line)  # noqa: T201 - this is what prints
