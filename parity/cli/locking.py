"""Verbs around bundles: ``pin``, ``bump``, ``diff``, ``audit``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from parity.cli import words
from parity.cli.words import Verb

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from parity.reports.console import Teller


def _pin(verb: argparse.ArgumentParser) -> None:
    add = verb.add_argument
    add("kind", nargs="?", metavar="KIND", help="a kind of bundle; all embedded ones if left out")
    add("folder", nargs="?", type=Path, metavar="FOLDER", help="tensors only: what to pack")
    add(
        "--out", type=Path, default=Path("tests/bundles"), metavar="DIR", help="where (%(default)s)"
    )
    add("--size", choices=("small", "full"), help="serialize only")
    add("--upstream-only", action="store_true", help="serialize only: what upstream's bundle holds")
    add("--pth", type=Path, metavar="FILE", help="serialize only: a real checkpoint")
    add("--gguf", type=Path, metavar="FILE", help="serialize only: a real checkpoint")


def _run_pin(arguments: argparse.Namespace) -> Callable[[Teller], int]:
    from parity.commands.pin import PinOptions, pin

    extra = {
        name: getattr(arguments, name)
        for name in ("size", "upstream_only", "pth", "gguf", "folder")
    }
    typed = {name: value for name, value in extra.items() if value}
    options = PinOptions(kind=arguments.kind or "", out=arguments.out, extra=typed)
    return lambda speaker: pin(options, speaker)


def _bump(verb: argparse.ArgumentParser) -> None:
    words.common(verb)
    add = verb.add_argument
    add("ids", nargs="*", metavar="ID", help="all bundles where none is named")
    add("--to", metavar="REF", help="lock this ref or commit of an hf:// source")
    add("--source", metavar="URL", help="lock from here, and write it as the source")
    add("--from-file", type=Path, metavar="TAR", help="lock this file; no host is asked")
    add("--check", action="store_true", help="only say whether there is something newer (10)")
    add("--download", action="store_true", help="--check: fetch where no digest is stated")
    add("--accept-audit", action="store_true", help="lock also what the audit finds wrong")


def _run_bump(arguments: argparse.Namespace) -> Callable[[Teller], int]:
    from parity.commands.asking import BumpOptions
    from parity.commands.bump import bump

    names = ("ids", "to", "source", "from_file", "check", "download", "accept_audit")
    own = {name: getattr(arguments, name) for name in names}
    options = BumpOptions(**words.places(arguments), **own)
    return lambda speaker: bump(options, speaker)


def _diff(verb: argparse.ArgumentParser) -> None:
    words.common(verb)
    add = verb.add_argument
    state = "a git revision, whose lockfile counts, or a .tar"
    add("id", metavar="ID", help="the bundle")
    add("--from", dest="before", default="HEAD", metavar="REV", help=f"{state} (HEAD)")
    add("--to", dest="after", metavar="REV", help="the same (the lockfile as it lies there)")
    add("--markdown", action="store_true", help="as a table for a pull request")


def _run_diff(arguments: argparse.Namespace) -> Callable[[Teller], int]:
    from parity.commands.diff import DiffOptions, diff

    own = {name: getattr(arguments, name) for name in ("before", "after", "markdown")}
    options = DiffOptions(**words.places(arguments), bundle=arguments.id, **own)
    return lambda speaker: diff(options, speaker)


def _audit(verb: argparse.ArgumentParser) -> None:
    words.ids(verb)
    told = "write a report of each reference reader there, to go into `scoreboard`"
    verb.add_argument("--report-dir", type=Path, metavar="DIR", help=told)


def _run_audit(arguments: argparse.Namespace) -> Callable[[Teller], int]:
    from parity.commands.audit import AuditOptions, audit

    options = AuditOptions(**words.places(arguments), report_dir=arguments.report_dir)
    return lambda speaker: audit(options, arguments.ids, speaker)


VERBS = (
    Verb("pin", _pin, _run_pin),
    Verb("bump", _bump, _run_bump),
    Verb("diff", _diff, _run_diff),
    Verb("audit", _audit, _run_audit),
)
