"""Arguments of ``verify``, ``fetch``, ``prove`` and ``show``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.cli import shared
from parity.cli.shared import Verb

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from parity.reports.console import RunConsole


def _add_verify_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_common_arguments(parser)
    add = parser.add_argument
    add("--bundle", action="append", default=[], metavar="ID", help="only this bundle (repeat)")
    add(
        "--case",
        action="append",
        default=[],
        metavar="GLOB",
        help="only cases bundle/case that match; '!' excludes (repeat)",
    )
    add(
        "--dumps",
        type=shared.parse_path,
        metavar="DIR",
        help="compare existing dumps in DIR/<bundle>/<case>/; build and run nothing",
    )
    shared.add_report_arguments(parser)
    add("--toolchain", default="", metavar="T", help="run cargo +T")
    add(
        "--cargo-args",
        action="append",
        default=[],
        metavar="A",
        help="an argument for cargo (repeat)",
    )
    add(
        "--jobs",
        type=shared.parse_positive,
        metavar="N",
        help="cases run in parallel (default: number of processors)",
    )
    add(
        "--repeat",
        type=shared.parse_positive,
        default=1,
        metavar="N",
        help="run each case N times; the runs must agree",
    )
    add(
        "--deadline",
        type=shared.parse_seconds,
        metavar="S",
        help="seconds for the whole run (default: no limit)",
    )


def _build_verify_call(arguments: argparse.Namespace) -> Callable[[RunConsole], int]:
    from parity.commands.verify import verify
    from parity.verify.options import VerifyOptions

    options = VerifyOptions(
        **shared.read_common_options(arguments),
        bundles=arguments.bundle,
        cases=arguments.case,
        dumps=arguments.dumps,
        **shared.read_report_options(arguments),
        toolchain=arguments.toolchain,
        cargo_args=arguments.cargo_args,
        jobs=arguments.jobs,
        repeat=arguments.repeat,
        deadline=arguments.deadline,
    )
    return lambda console: verify(options, console)


def _add_fetch_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_common_arguments(parser)
    parser.add_argument("ids", nargs="*", metavar="ID", help="bundles (default: all)")


def _build_fetch_call(arguments: argparse.Namespace) -> Callable[[RunConsole], int]:
    from parity.commands.fetch import fetch
    from parity.verify.options import Options

    options = Options(**shared.read_common_options(arguments))
    return lambda console: fetch(options, arguments.ids, console)


def _build_prove_call(arguments: argparse.Namespace) -> Callable[[RunConsole], int]:
    from parity.commands.prove import prove
    from parity.verify.options import Options

    options = Options(**shared.read_common_options(arguments))
    return lambda console: prove(options, arguments.ids, console)


def _add_show_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_common_arguments(parser)
    add = parser.add_argument
    add("case", metavar="CASE", help="bundle/case, or a case's name")
    add("tensor", metavar="TENSOR", help="its name, as findings print it")
    add(
        "slice",
        nargs="?",
        default="",
        metavar="SLICE",
        help="NumPy's notation, for example 0,:,1:3",
    )
    add(
        "--dumps",
        type=shared.parse_path,
        metavar="DIR",
        help="read an existing dump in DIR/<bundle>/<case>/",
    )
    add("--toolchain", default="", metavar="T", help="run cargo +T")


def _build_show_call(arguments: argparse.Namespace) -> Callable[[RunConsole], int]:
    from parity.commands.show import ShowOptions, show
    from parity.verify.options import Options

    options = ShowOptions(
        options=Options(**shared.read_common_options(arguments)),
        case=arguments.case,
        tensor=arguments.tensor,
        slice=arguments.slice,
        dumps=arguments.dumps,
        toolchain=arguments.toolchain,
    )
    return lambda console: show(options, console)


VERBS = (
    Verb("verify", _add_verify_arguments, _build_verify_call),
    Verb("fetch", _add_fetch_arguments, _build_fetch_call),
    Verb("prove", shared.add_id_arguments, _build_prove_call),
    Verb("show", _add_show_arguments, _build_show_call),
)
