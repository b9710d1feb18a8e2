"""Arguments of ``scoreboard`` and ``reproduce``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.cli import shared
from parity.cli.shared import Verb

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from parity.reports.console import RunConsole


def _add_scoreboard_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("reports", nargs="+", metavar="[NAME=]REPORT", help="report.json of a port, or its folder")
    add("--bundle", default="", metavar="ID", help="the bundle, if the reports share several")
    add("--markdown", action="store_true", help="print a Markdown table")
    add("--html", type=shared.parse_path, metavar="FILE", help="also write one static page")
    page = parser.add_mutually_exclusive_group()
    page.add_argument(
        "--write",
        type=shared.parse_path,
        metavar="PAGE",
        help="rewrite the table between the page's markers",
    )
    page.add_argument(
        "--check", type=shared.parse_path, metavar="PAGE", help="exit 1 if the page's cells differ"
    )


def _build_scoreboard_call(arguments: argparse.Namespace) -> Callable[[RunConsole], int]:
    from parity.commands.scoreboard import ScoreboardOptions, print_scoreboard

    names = ("reports", "bundle", "markdown", "html", "write", "check")
    options = ScoreboardOptions(**{name: getattr(arguments, name) for name in names})
    return lambda console: print_scoreboard(options, console)


def _add_reproduce_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_common_arguments(parser)
    add = parser.add_argument
    add("case", metavar="BUNDLE/CASE", help="a case that has a checkpoint")
    add("--out", type=shared.parse_path, required=True, metavar="DIR", help="a new or empty folder")
    add(
        "--dumps",
        type=shared.parse_path,
        metavar="DIR",
        help="read an existing dump in DIR/<bundle>/<case>/",
    )
    add("--toolchain", default="", metavar="T", help="run cargo +T")


def _build_reproduce_call(arguments: argparse.Namespace) -> Callable[[RunConsole], int]:
    from parity.commands.reproduce import ReproduceOptions, reproduce
    from parity.verify.options import Options

    options = ReproduceOptions(
        options=Options(**shared.read_common_options(arguments)),
        case=arguments.case,
        out=arguments.out,
        dumps=arguments.dumps,
        toolchain=arguments.toolchain,
    )
    return lambda console: reproduce(options, console)


VERBS = (
    Verb("scoreboard", _add_scoreboard_arguments, _build_scoreboard_call),
    Verb("reproduce", _add_reproduce_arguments, _build_reproduce_call),
)
