"""Arguments of ``pin``, ``bump``, ``diff`` and ``audit``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.cli import shared
from parity.cli.shared import Verb

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from parity.reports.console import RunConsole


def _add_pin_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("kind", nargs="?", metavar="KIND", help="kind of bundle (default: all embedded ones)")
    add(
        "folder",
        nargs="?",
        type=shared.parse_path,
        metavar="FOLDER",
        help="tensors only: folder to pack",
    )
    add(
        "--out",
        type=shared.parse_path,
        default="tests/bundles",
        metavar="DIR",
        help="output folder (%(default)s)",
    )
    add("--size", choices=("small", "full"), help="serialize only")
    add(
        "--upstream-only",
        action="store_true",
        help="serialize only: the cases of upstream's bundle",
    )
    add("--pth", type=shared.parse_path, metavar="FILE", help="serialize only: a real checkpoint")
    add("--gguf", type=shared.parse_path, metavar="FILE", help="serialize only: a real checkpoint")


def _build_pin_call(arguments: argparse.Namespace) -> Callable[[RunConsole], int]:
    from parity.commands.pin import PinOptions, pin

    extra = {
        name: getattr(arguments, name)
        for name in ("size", "upstream_only", "pth", "gguf", "folder")
    }
    given = {name: value for name, value in extra.items() if value}
    options = PinOptions(kind=arguments.kind or "", out=arguments.out, extra=given)
    return lambda console: pin(options, console)


def _add_bump_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_common_arguments(parser)
    add = parser.add_argument
    add("ids", nargs="*", metavar="ID", help="bundles (default: all)")
    add("--to", metavar="REF", help="lock this ref or commit of an hf:// source")
    add("--source", metavar="URL", help="lock from this URL, and write it as the source")
    add(
        "--from-file",
        type=shared.parse_path,
        metavar="TAR",
        help="lock this file, without network access",
    )
    add(
        "--check",
        action="store_true",
        help="only report whether something newer exists (exit code 10)",
    )
    add(
        "--download",
        action="store_true",
        help="with --check: download where the host states no digest",
    )
    add("--accept-audit", action="store_true", help="update the lock even if the audit fails")


def _build_bump_call(arguments: argparse.Namespace) -> Callable[[RunConsole], int]:
    from parity.commands.bump import BumpOptions, bump

    names = ("ids", "to", "source", "from_file", "check", "download", "accept_audit")
    own_options = {name: getattr(arguments, name) for name in names}
    options = BumpOptions(**shared.read_common_options(arguments), **own_options)
    return lambda console: bump(options, console)


def _add_diff_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_common_arguments(parser)
    add = parser.add_argument
    state = "git revision of the lockfile, or a .tar"
    add("id", metavar="ID", help="the bundle")
    add("--from", dest="before", default="HEAD", metavar="REV", help=f"{state} (HEAD)")
    add("--to", dest="after", metavar="REV", help="the same (default: the lockfile on disk)")
    add("--markdown", action="store_true", help="print a Markdown table for a pull request")


def _build_diff_call(arguments: argparse.Namespace) -> Callable[[RunConsole], int]:
    from parity.commands.diff import DiffOptions, diff

    own_options = {name: getattr(arguments, name) for name in ("before", "after", "markdown")}
    options = DiffOptions(
        **shared.read_common_options(arguments), bundle=arguments.id, **own_options
    )
    return lambda console: diff(options, console)


def _add_audit_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_id_arguments(parser)
    help_text = "write a report of each reference reader there, for `scoreboard`"
    parser.add_argument("--report-dir", type=shared.parse_path, metavar="DIR", help=help_text)


def _build_audit_call(arguments: argparse.Namespace) -> Callable[[RunConsole], int]:
    from parity.commands.audit import AuditOptions, audit

    options = AuditOptions(**shared.read_common_options(arguments), report_dir=arguments.report_dir)
    return lambda console: audit(options, arguments.ids, console)


VERBS = (
    Verb("pin", _add_pin_arguments, _build_pin_call),
    Verb("bump", _add_bump_arguments, _build_bump_call),
    Verb("diff", _add_diff_arguments, _build_diff_call),
    Verb("audit", _add_audit_arguments, _build_audit_call),
)
