"""Verbs about ports as such: ``scoreboard`` of several, ``reproduce`` for one's maintainer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from parity.cli import words
from parity.cli.words import Verb

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from parity.reports.console import Teller


def _scoreboard(verb: argparse.ArgumentParser) -> None:
    add = verb.add_argument
    add("reports", nargs="+", metavar="[NAME=]REPORT", help="report.json of a port, or its folder")
    add("--bundle", default="", metavar="ID", help="where the reports share several")
    add("--markdown", action="store_true", help="as a table for a page")
    add("--html", type=Path, metavar="FILE", help="write one static page there, too")
    page = verb.add_mutually_exclusive_group()
    page.add_argument("--write", type=Path, metavar="PAGE", help="put the table between its marks")
    page.add_argument("--check", type=Path, metavar="PAGE", help="1 where its cells are others")


def _run_scoreboard(arguments: argparse.Namespace) -> Callable[[Teller], int]:
    from parity.commands.scoreboard import (
        ScoreboardOptions,
        scoreboard,
    )

    names = ("reports", "bundle", "markdown", "html", "write", "check")
    options = ScoreboardOptions(**{name: getattr(arguments, name) for name in names})
    return lambda speaker: scoreboard(options, speaker)


def _reproduce(verb: argparse.ArgumentParser) -> None:
    words.common(verb)
    add = verb.add_argument
    add("case", metavar="BUNDLE/CASE", help="a case that has a checkpoint")
    add("--out", type=Path, required=True, metavar="DIR", help="a new folder, or an empty one")
    add("--dumps", type=Path, metavar="DIR", help="take the dump from DIR/<bundle>/<case>/")
    add("--toolchain", default="", metavar="T", help="called as cargo +T")


def _run_reproduce(arguments: argparse.Namespace) -> Callable[[Teller], int]:
    from parity.commands.options import Options
    from parity.commands.reproduce import ReproduceOptions, reproduce

    options = ReproduceOptions(
        options=Options(**words.places(arguments)),
        case=arguments.case,
        out=arguments.out,
        dumps=arguments.dumps,
        toolchain=arguments.toolchain,
    )
    return lambda speaker: reproduce(options, speaker)


VERBS = (
    Verb("scoreboard", _scoreboard, _run_scoreboard),
    Verb("reproduce", _reproduce, _run_reproduce),
)
