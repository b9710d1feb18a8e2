"""Words typed become one call."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from parity import __version__, usage
from parity.cli import cache, checking, github, locking, ports

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parity.cli.words import Verb
    from parity.reports.console import Teller

VERBS = (*checking.VERBS, *locking.VERBS, *cache.VERBS, *github.VERBS, *ports.VERBS)


class _Top(argparse.ArgumentParser):
    def format_help(self) -> str:
        return usage.help_text()


def parser() -> argparse.ArgumentParser:
    """The whole command line; each verb carries the function that makes its call."""
    top = _Top(prog="parity", description=usage.DESCRIPTION, **_FORM)
    top.add_argument("--version", action="version", version=f"parity-action {__version__}")
    verbs = top.add_subparsers(
        dest="verb", metavar="VERB", required=True, parser_class=argparse.ArgumentParser
    )
    for verb in VERBS:
        _add(verbs, verb)
    return top


_FORM: dict[str, Any] = {
    "epilog": usage.EXITS,
    "allow_abbrev": False,
    "formatter_class": argparse.RawDescriptionHelpFormatter,
}


def _add(verbs: Any, verb: Verb) -> None:
    text = usage.VERBS[verb.name]
    told = text[0].upper() + text[1:] + "."
    added = verbs.add_parser(verb.name, help=text, description=told, **_FORM)
    verb.words(added)
    added.set_defaults(call=verb.call)


def run(words: Sequence[str]) -> int:
    """Carry out one command line; returns the exit code.

    Raises:
        ParityError: What ends the verb.
        SystemExit: From argparse, for usage errors (2) and help (0).
    """
    arguments = parser().parse_args(words)
    return _speaking(arguments.call(arguments))


def _speaking(call: Callable[[Teller], int]) -> int:
    from parity.reports.console import teller

    speaker = teller()
    try:
        return call(speaker)
    finally:
        speaker.close()
