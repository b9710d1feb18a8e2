"""Parse the command line into one call of a verb."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from parity import __version__
from parity.cli import bundles, cache, checks, ports, usage, workflows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parity.cli.shared import Verb
    from parity.reports.console import RunConsole

VERBS = (*checks.VERBS, *bundles.VERBS, *cache.VERBS, *workflows.VERBS, *ports.VERBS)


class _RootParser(argparse.ArgumentParser):
    def format_help(self) -> str:
        return usage.format_help()


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the whole command line; each verb sets its call."""
    top = _RootParser(prog="parity", description=usage.DESCRIPTION, **_PARSER_OPTIONS)
    top.add_argument("--version", action="version", version=f"parity-action {__version__}")
    verbs = top.add_subparsers(
        dest="verb", metavar="VERB", required=True, parser_class=argparse.ArgumentParser
    )
    for verb in VERBS:
        _add_verb(verbs, verb)
    return top


_PARSER_OPTIONS: dict[str, Any] = {
    "epilog": usage.EXIT_CODE_HELP,
    "allow_abbrev": False,
    "formatter_class": argparse.RawDescriptionHelpFormatter,
}


def _add_verb(verbs: Any, verb: Verb) -> None:
    text = usage.VERB_SUMMARIES[verb.name]
    description = text[0].upper() + text[1:] + "."
    verb_parser = verbs.add_parser(verb.name, help=text, description=description, **_PARSER_OPTIONS)
    verb.add_arguments(verb_parser)
    verb_parser.set_defaults(call=verb.build_call)


def run(args: Sequence[str]) -> int:
    """Run one command line; return the exit code.

    Raises:
        ParityError: The verb failed.
        SystemExit: From argparse, for usage errors (2) and help (0).
    """
    parser = build_parser()
    # argparse would drop the value before Python 3.13, and fail or ignore the option.
    for arg in args:
        if arg == "--":
            break
        if arg.startswith("--") and arg.endswith("=--"):
            parser.error(f"{arg}: '--' is not a value; write ./-- for a file of this name")
    arguments = parser.parse_args(args)
    return _call_with_console(arguments.call(arguments))


def _call_with_console(call: Callable[[RunConsole], int]) -> int:
    from parity.reports.console import make_console

    console = make_console()
    try:
        return call(console)
    finally:
        console.close()
