"""Verbs around GitHub: ``init``, ``plan``, ``merge``, and ``action`` for action.yml."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

STEPS = ("prepare", "verify", "plan", "merge")


def init_words(verb: argparse.ArgumentParser) -> None:
    """The words of ``init``."""
    verb.add_argument("source", nargs="?", metavar="URL", help="where a bundle is to be had")


def plan_words(verb: argparse.ArgumentParser) -> None:
    """The words of ``plan`` beside those of all verbs."""
    add = verb.add_argument
    add("--bundle", action="append", default=[], metavar="ID", help="only this bundle (repeat)")
    add("--case", action="append", default=[], metavar="GLOB", help="as of verify (repeat)")
    add("--out", type=Path, metavar="FILE", help="write the plan there, for merge")


def merge_words(verb: argparse.ArgumentParser) -> None:
    """The words of ``merge`` beside those of all reports."""
    add = verb.add_argument
    add("reports", nargs="+", type=Path, metavar="REPORT", help="report.json, or folders of them")
    add("--plan", type=Path, metavar="FILE", help="what was planned; what is missing is red")


def action_words(verb: argparse.ArgumentParser) -> None:
    """The words of ``action``."""
    verb.add_argument("step", choices=STEPS)


def run_init(places: dict[str, Any], arguments: argparse.Namespace) -> Callable[[Any], int]:
    """The call of ``init``."""
    from parity.commands.init import InitOptions, init  # noqa: PLC0415 - --help stays cheap

    return lambda speaker: init(InitOptions(**places, source=arguments.source), speaker)


def run_plan(places: dict[str, Any], arguments: argparse.Namespace) -> Callable[[Any], int]:
    """The call of ``plan``."""
    from parity.commands.matrix import PlanOptions, matrix  # noqa: PLC0415

    chosen = {"bundles": arguments.bundle, "cases": arguments.case, "out": arguments.out}
    return lambda speaker: matrix(PlanOptions(**places, **chosen), speaker)


def run_merge(
    places: dict[str, Any], told: dict[str, Any], arguments: argparse.Namespace
) -> Callable[[Any], int]:
    """The call of ``merge``."""
    from parity.commands.merge import MergeOptions, merge  # noqa: PLC0415

    own = {"reports": arguments.reports, "plan": arguments.plan}
    return lambda speaker: merge(MergeOptions(**places, **told, **own), speaker)


def run_action(arguments: argparse.Namespace) -> Callable[[Any], int]:
    """The call of ``action``."""
    from parity.commands.action import action  # noqa: PLC0415

    return lambda speaker: action(arguments.step, speaker)
