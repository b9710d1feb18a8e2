"""Parse the command line into one call of a verb."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields
from importlib import import_module
from typing import Any

from parity import __version__
from parity.cli import usage
from parity.cli.verbs import VERBS
from parity.text import forget_typed_paths

_PARSER_OPTIONS: dict[str, Any] = {
    "epilog": usage.EXIT_CODE_HELP,
    "allow_abbrev": False,
    "formatter_class": argparse.RawDescriptionHelpFormatter,
}


class _RootParser(argparse.ArgumentParser):
    def format_help(self) -> str:
        return usage.format_help()


class _VerbParser(argparse.ArgumentParser):
    """Accept options between positional arguments, as in ``merge a --report-dir r b``."""

    _is_nested = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._is_nested:  # the method below calls this one, before Python 3.13
            return super().parse_known_args(args, namespace)
        self._is_nested = True
        return self.parse_known_intermixed_args(args, namespace)


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the whole command line."""
    top = _RootParser(prog="parity", description=usage.DESCRIPTION, **_PARSER_OPTIONS)
    top.add_argument("--version", action="version", version=f"parity-action {__version__}")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_VerbParser)
    for name, text in usage.VERB_SUMMARIES.items():
        description = text[0].upper() + text[1:] + "."
        parser = verbs.add_parser(name, help=text, description=description, **_PARSER_OPTIONS)
        VERBS[name].add_arguments(parser)
    return top


def run(args: Sequence[str]) -> int:
    """Run one command line; return the exit code.

    Raises:
        ParityError: The verb failed.
        SystemExit: From argparse, for usage errors (2) and help (0).
    """
    parser = build_parser()
    forget_typed_paths()
    # argparse would drop the value before Python 3.13, and fail or ignore the option.
    for arg in args:
        if arg == "--":
            break
        if arg.startswith("--") and arg.endswith("=--"):
            parser.error(f"{arg}: '--' is not a value; write ./-- for a file of this name")
    arguments = vars(parser.parse_args(args))
    verb = VERBS[arguments["verb"]]
    options_class = _resolve(verb.options)
    if arguments.get("lockfile", "") is None:
        arguments["lockfile"] = arguments["repo"] / "fixtures.lock.yaml"
    names = {field.name for field in fields(options_class)}
    options = options_class(**{k: value for k, value in arguments.items() if k in names})
    from parity.reports.console import make_console

    console = make_console(arguments.get("verbosity", 1))
    try:
        return int(_resolve(verb.call)(options, console))
    finally:
        console.close()


def _resolve(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
