"""Arguments of ``init``, ``plan``, ``merge``, and of ``action`` for action.yml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.cli import shared
from parity.cli.shared import Verb

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from parity.reports.console import RunConsole

STEPS = ("prepare", "verify", "plan", "merge")


def _add_init_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_common_arguments(parser)
    parser.add_argument(
        "source", nargs="?", metavar="PATH-OR-URL", help="path or URL of a bundle's archive"
    )


def _build_init_call(arguments: argparse.Namespace) -> Callable[[RunConsole], int]:
    from parity.commands.init import InitOptions, init

    options = InitOptions(**shared.read_common_options(arguments), source=arguments.source)
    return lambda console: init(options, console)


def _add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_common_arguments(parser)
    add = parser.add_argument
    add("--bundle", action="append", default=[], metavar="ID", help="only this bundle (repeat)")
    add(
        "--case",
        action="append",
        default=[],
        metavar="GLOB",
        help="only cases bundle/case that match (repeat)",
    )
    add("--out", type=shared.parse_path, metavar="FILE", help="write the plan to FILE, for merge")


def _build_plan_call(arguments: argparse.Namespace) -> Callable[[RunConsole], int]:
    from parity.commands.plan import PlanOptions, plan_jobs

    own_options = {"bundles": arguments.bundle, "cases": arguments.case, "out": arguments.out}
    options = PlanOptions(**shared.read_common_options(arguments), **own_options)
    return lambda console: plan_jobs(options, console)


def _add_merge_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_common_arguments(parser)
    add = parser.add_argument
    add(
        "reports",
        nargs="+",
        type=shared.parse_path,
        metavar="REPORT",
        help="report.json files, or folders that contain them",
    )
    add(
        "--plan",
        type=shared.parse_path,
        metavar="FILE",
        help="the plan; a planned case without a result is an error",
    )
    shared.add_report_arguments(parser)


def _build_merge_call(arguments: argparse.Namespace) -> Callable[[RunConsole], int]:
    from parity.commands.merge import MergeOptions, merge

    shared_options = {
        **shared.read_common_options(arguments),
        **shared.read_report_options(arguments),
    }
    options = MergeOptions(**shared_options, reports=arguments.reports, plan=arguments.plan)
    return lambda console: merge(options, console)


def _add_action_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("step", choices=STEPS)


def _build_action_call(arguments: argparse.Namespace) -> Callable[[RunConsole], int]:
    from parity.commands.action import run_step

    return lambda console: run_step(arguments.step, console)


VERBS = (
    Verb("init", _add_init_arguments, _build_init_call),
    Verb("plan", _add_plan_arguments, _build_plan_call),
    Verb("merge", _add_merge_arguments, _build_merge_call),
    Verb("action", _add_action_arguments, _build_action_call),
)
