"""Verbs that hold a port: ``verify``, ``fetch``, ``prove``, ``show``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from parity.cli import words
from parity.cli.words import Verb

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from parity.reports.console import Teller


def _verify(verb: argparse.ArgumentParser) -> None:
    words.common(verb)
    add = verb.add_argument
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
        type=Path,
        metavar="DIR",
        help="take dumps that lie ready under DIR/<bundle>/<case>/; build and run nothing",
    )
    words.reports(verb)
    add("--toolchain", default="", metavar="T", help="called as cargo +T")
    add("--cargo-args", action="append", default=[], metavar="A", help="one for cargo (repeat)")
    add("--jobs", type=words.positive, metavar="N", help="cases at a time (number of processors)")
    add(
        "--repeat",
        type=words.positive,
        default=1,
        metavar="N",
        help="run each case N times; the runs must agree",
    )
    add("--deadline", type=words.seconds, metavar="S", help="seconds for the whole run (none)")


def _run_verify(arguments: argparse.Namespace) -> Callable[[Teller], int]:
    from parity.commands.options import VerifyOptions
    from parity.commands.verify import verify

    options = VerifyOptions(
        **words.places(arguments),
        bundles=arguments.bundle,
        cases=arguments.case,
        dumps=arguments.dumps,
        **words.report_options(arguments),
        toolchain=arguments.toolchain,
        cargo_args=arguments.cargo_args,
        jobs=arguments.jobs,
        repeat=arguments.repeat,
        deadline=arguments.deadline,
    )
    return lambda speaker: verify(options, speaker)


def _fetch(verb: argparse.ArgumentParser) -> None:
    words.common(verb)
    verb.add_argument("ids", nargs="*", metavar="ID", help="all bundles where none is named")


def _run_fetch(arguments: argparse.Namespace) -> Callable[[Teller], int]:
    from parity.commands.fetch import fetch
    from parity.commands.options import Options

    options = Options(**words.places(arguments))
    return lambda speaker: fetch(options, arguments.ids, speaker)


def _run_prove(arguments: argparse.Namespace) -> Callable[[Teller], int]:
    from parity.commands.options import Options
    from parity.commands.prove import prove

    options = Options(**words.places(arguments))
    return lambda speaker: prove(options, arguments.ids, speaker)


def _show(verb: argparse.ArgumentParser) -> None:
    words.common(verb)
    add = verb.add_argument
    add("case", metavar="CASE", help="bundle/case, or a case's name")
    add("tensor", metavar="TENSOR", help="its name, as findings have it")
    add("slice", nargs="?", default="", metavar="SLICE", help="as in NumPy, such as 0,:,1:3")
    add("--dumps", type=Path, metavar="DIR", help="take the dump from DIR/<bundle>/<case>/")
    add("--toolchain", default="", metavar="T", help="called as cargo +T")


def _run_show(arguments: argparse.Namespace) -> Callable[[Teller], int]:
    from parity.commands.options import Options
    from parity.commands.show import ShowOptions, show

    options = ShowOptions(
        options=Options(**words.places(arguments)),
        case=arguments.case,
        tensor=arguments.tensor,
        slice=arguments.slice,
        dumps=arguments.dumps,
        toolchain=arguments.toolchain,
    )
    return lambda speaker: show(options, speaker)


VERBS = (
    Verb("verify", _verify, _run_verify),
    Verb("fetch", _fetch, _run_fetch),
    Verb("prove", words.ids, _run_prove),
    Verb("show", _show, _run_show),
)
