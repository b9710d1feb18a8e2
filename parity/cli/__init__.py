"""Words typed become one call."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from parity import __version__
from parity.cli import cache, checking, github, locking, ports

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parity.cli.words import Verb
    from parity.reports.console import Teller

VERBS = (*checking.VERBS, *locking.VERBS, *cache.VERBS, *github.VERBS, *ports.VERBS)
DESCRIPTION = "Proves that a port computes what the original computes."
EXITS = """\
exit codes:
  0  all verified
  1  a dump differs from its reference, or a known failure passes
  2  usage or lockfile
  3  a bundle could not be fetched
  4  integrity: a hash, a length, an unsafe archive
  5  build or dump failed, or a dump cannot be read
  6  fewer cases verified than --min-cases
  7  the reference is suspect or incomplete
  10 bump --check: something newer exists
  70 a fault of this program
"""


def parser() -> argparse.ArgumentParser:
    """The whole command line; each verb carries the function that makes its call."""
    top = argparse.ArgumentParser(prog="parity", description=DESCRIPTION, **_FORM)
    top.add_argument("--version", action="version", version=f"parity-action {__version__}")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    for verb in VERBS:
        _add(verbs, verb)
    return top


_FORM: dict[str, Any] = {
    "epilog": EXITS,
    "allow_abbrev": False,
    "formatter_class": argparse.RawDescriptionHelpFormatter,
}


def _add(verbs: Any, verb: Verb) -> None:
    text = verb.text[0].upper() + verb.text[1:] + "."
    added = verbs.add_parser(verb.name, help=verb.text, description=text, **_FORM)
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
    from parity.reports.console import teller  # noqa: PLC0415 - --help stays cheap

    speaker = teller()
    try:
        return call(speaker)
    finally:
        speaker.close()
