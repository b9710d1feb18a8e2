"""Parse the command line into one call of a verb."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import MISSING, fields
from functools import partial
from importlib import import_module
from typing import Any

from parity import __version__
from parity.cli import usage
from parity.cli.usage import VERBS
from parity.text import forget_typed_paths
from parity.verify.options import ReportOptions, parse_count, parse_path, parse_seconds

_PARSER_OPTIONS: dict[str, Any] = {
    "epilog": usage.EXIT_CODE_HELP,
    "allow_abbrev": False,
    "formatter_class": argparse.RawDescriptionHelpFormatter,
}
#: Parsers of values by a word in the type of their field.
_PARSERS = {"Path": parse_path, "int": parse_count, "float": parse_seconds}
#: Fields of every verb that has them.
_COMMON = ("repo", "lockfile", "offline", "rehash")


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


def build_parser(typed: Collection[str] = VERBS.keys()) -> argparse.ArgumentParser:
    """Build the parser; only the ``typed`` verbs, whose modules are imported, have arguments."""
    top = _RootParser(prog="parity", description=usage.DESCRIPTION, **_PARSER_OPTIONS)
    top.add_argument("--version", action="version", version=f"parity-action {__version__}")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_VerbParser)
    for name, verb in VERBS.items():
        description = verb.summary[0].upper() + verb.summary[1:] + "."
        parser = verbs.add_parser(
            name, help=verb.summary, description=description, **_PARSER_OPTIONS
        )
        if name in typed:
            _add_arguments(parser, _resolve(name, verb.options), verb.fields.split())
    return top


def _add_arguments(
    parser: argparse.ArgumentParser, record: type[Any], chosen: Collection[str]
) -> None:
    """Declare the arguments of a record's fields, of the ``chosen`` ones if there are any."""
    groups: defaultdict[str, Any] = defaultdict(parser.add_mutually_exclusive_group)
    for entry in fields(record):
        settings: dict[str, Any] = {"default": argparse.SUPPRESS, **entry.metadata}
        if not entry.metadata or (chosen and entry.name not in {*chosen, *_COMMON}):
            continue
        if kind := next((kind for kind in _PARSERS if kind in entry.type), ""):
            settings.setdefault("type", _PARSERS[kind])
        flag, _, metavar = settings.pop("argument").rpartition(" ")
        group = groups[settings.pop("group")] if "group" in settings else parser
        if metavar.startswith("--"):
            group.add_argument(metavar, dest=entry.name, **settings)
        elif flag:
            group.add_argument(flag, dest=entry.name, metavar=metavar, **settings)
        else:  # argparse would take the default of a positional one for a typed text
            settings["default"] = None if entry.default is MISSING else entry.default
            group.add_argument(entry.name, metavar=metavar or None, **settings)
        if entry.name == "rehash":  # the old name, for one release
            old = {**settings, "help": argparse.SUPPRESS}
            parser.add_argument("--verify", dest=entry.name, **old)
    if issubclass(record, ReportOptions) and not chosen:
        add = partial(parser.add_mutually_exclusive_group().add_argument, action="store_const")
        text = "print a line for each case, and every notice"
        add("-v", "--verbose", dest="verbosity", const=1, default=0, help=text)
        add("-q", "--quiet", dest="verbosity", const=-1, help="print the last line only")


def run(args: Sequence[str]) -> int:
    """Run one command line; return the exit code.

    Raises:
        ParityError: The verb failed.
        SystemExit: From argparse, for usage errors (2) and help (0).
    """
    parser = build_parser(args)
    forget_typed_paths()
    # argparse would drop the value before Python 3.13, and fail or ignore the option.
    for arg in args:
        if arg == "--":
            break
        if arg.startswith("--") and arg.endswith("=--"):
            parser.error(f"{arg}: '--' is not a value; write ./-- for a file of this name")
    arguments = vars(parser.parse_args(args))
    name = arguments["verb"]
    record = _resolve(name, VERBS[name].options)
    names = {entry.name for entry in fields(record)}
    if "lockfile" in names and arguments.get("lockfile") is None:
        arguments["lockfile"] = arguments["repo"] / "fixtures.lock.yaml"
    options = record(**{key: value for key, value in arguments.items() if key in names})
    from parity.reports.console import make_console

    console = make_console(arguments.get("verbosity", 1))
    try:
        return int(_resolve(name, VERBS[name].call or name)(options, console))
    finally:
        console.close()


def _resolve(verb: str, path: str) -> Any:
    """Return what ``path`` names in the module of a verb, or in another one (``module:name``)."""
    module, _, name = path.rpartition(":")
    return getattr(import_module(module or f"parity.commands.{verb}"), name)
