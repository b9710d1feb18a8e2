"""Verbs around GitHub: ``init``, ``plan``, ``merge``, and ``action`` for action.yml."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from parity.cli import words
from parity.cli.words import Verb

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from parity.reports.console import Teller

STEPS = ("prepare", "verify", "plan", "merge")


def _init(verb: argparse.ArgumentParser) -> None:
    words.common(verb)
    verb.add_argument(
        "source", nargs="?", metavar="PATH-OR-URL", help="where a bundle is to be had"
    )


def _run_init(arguments: argparse.Namespace) -> Callable[[Teller], int]:
    from parity.commands.init import InitOptions, init

    options = InitOptions(**words.places(arguments), source=arguments.source)
    return lambda speaker: init(options, speaker)


def _plan(verb: argparse.ArgumentParser) -> None:
    words.common(verb)
    add = verb.add_argument
    add("--bundle", action="append", default=[], metavar="ID", help="only this bundle (repeat)")
    add("--case", action="append", default=[], metavar="GLOB", help="as of verify (repeat)")
    add("--out", type=Path, metavar="FILE", help="write the plan there, for merge")


def _run_plan(arguments: argparse.Namespace) -> Callable[[Teller], int]:
    from parity.commands.matrix import PlanOptions, matrix

    chosen = {"bundles": arguments.bundle, "cases": arguments.case, "out": arguments.out}
    options = PlanOptions(**words.places(arguments), **chosen)
    return lambda speaker: matrix(options, speaker)


def _merge(verb: argparse.ArgumentParser) -> None:
    words.common(verb)
    add = verb.add_argument
    add("reports", nargs="+", type=Path, metavar="REPORT", help="report.json, or folders of them")
    add("--plan", type=Path, metavar="FILE", help="what was planned; what is missing is red")
    words.reports(verb)


def _run_merge(arguments: argparse.Namespace) -> Callable[[Teller], int]:
    from parity.commands.merge import MergeOptions, merge

    told = {**words.places(arguments), **words.report_options(arguments)}
    options = MergeOptions(**told, reports=arguments.reports, plan=arguments.plan)
    return lambda speaker: merge(options, speaker)


def _action(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("step", choices=STEPS)


def _run_action(arguments: argparse.Namespace) -> Callable[[Teller], int]:
    from parity.commands.action import action

    return lambda speaker: action(arguments.step, speaker)


VERBS = (
    Verb("init", _init, _run_init),
    Verb("plan", _plan, _run_plan),
    Verb("merge", _merge, _run_merge),
    Verb("action", _action, _run_action),
)
