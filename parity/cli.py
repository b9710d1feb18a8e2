"""Words typed become one call."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity import __version__, cli_github
from parity.commands import cache_words
from parity.commands.options import REPORT_FORMATS, SUMMARIES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parity.reports.console import Teller

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
    """The whole command line; each verb carries the function that runs it."""
    top = argparse.ArgumentParser(
        prog="parity",
        description=DESCRIPTION,
        epilog=EXITS,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"parity-action {__version__}")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    _verify(_verb(verbs, "verify", "hold a port against its pinned references", _run_verify))
    _fetch(_verb(verbs, "fetch", "fetch, check and unpack bundles", _run_fetch))
    _pin(_verb(verbs, "pin", "make a bundle, byte for byte reproducible", _run_pin))
    _bump(_verb(verbs, "bump", "lock a new or re-pinned bundle, with open eyes", _run_bump))
    _diff(_verb(verbs, "diff", "what changed between two states of a bundle", _run_diff))
    _audit(_verb(verbs, "audit", "derive every reference once more", _run_audit))
    _ids(_verb(verbs, "prove", "show which faults a bundle can see", _run_prove))
    _show(_verb(verbs, "show", "a tensor's two sides next to each other", _run_show))
    cache_words.add(_verb(verbs, "cache", "list, check or shrink the store", _run_cache))
    _init(_verb(verbs, "init", "write a first lockfile and workflow", _run_init))
    _plan(_verb(verbs, "plan", "print a job matrix for GitHub", _run_plan))
    _merge(_verb(verbs, "merge", "make one report of many", _run_merge))
    cli_github.action_words(_verb(verbs, "action", "a step of the action", _run_action))
    return top


def run(words: Sequence[str]) -> int:
    """Carry out one command line; returns the exit code.

    Raises:
        ParityError: What ends the verb.
        SystemExit: From argparse, for usage errors (2) and help (0).
    """
    arguments = parser().parse_args(words)
    code: int = arguments.run(arguments)
    return code


def _verb(
    verbs: Any, name: str, text: str, run_verb: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=EXITS,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.set_defaults(run=run_verb)
    return verb


def _common(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--repo", type=Path, default=Path(), help="the repo under test (.)")
    verb.add_argument("--lockfile", type=Path, help="default: REPO/fixtures.lock.yaml")
    verb.add_argument("--offline", action="store_true", help="ask no server, nor let cargo do so")
    verb.add_argument("--verify", action="store_true", help="hash the store's trees again")


def _verify(verb: argparse.ArgumentParser) -> None:
    _common(verb)
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
    _reports(verb)
    add("--toolchain", default="", metavar="T", help="called as cargo +T")
    add("--cargo-args", action="append", default=[], metavar="A", help="one for cargo (repeat)")
    add("--jobs", type=_positive, metavar="N", help="cases at a time (number of processors)")
    add(
        "--repeat",
        type=_positive,
        default=1,
        metavar="N",
        help="run each case N times; the runs must agree",
    )
    add("--deadline", type=_seconds, metavar="S", help="seconds for the whole run (none)")


def _reports(verb: argparse.ArgumentParser) -> None:
    add = verb.add_argument
    add("--report-dir", type=Path, metavar="DIR", help="write reports and failed dumps there")
    add(
        "--report-formats",
        type=_formats,
        default=("json",),
        metavar="F",
        help=f"of {', '.join(REPORT_FORMATS)}; separated by commas or spaces (json)",
    )
    add("--fail-on", choices=("mismatch", "warning"), default="mismatch")
    add(
        "--min-cases",
        type=_count,
        default=1,
        metavar="N",
        help="fewer verified cases than this is a failure (1)",
    )
    add(
        "--annotations",
        type=_count,
        default=10,
        metavar="N",
        help="on GitHub: most errors that are annotated (10)",
    )
    add("--summary", choices=SUMMARIES, default="full", help="on GitHub: the job's summary")


def _report_options(arguments: argparse.Namespace) -> dict[str, Any]:
    names = ("report_dir", "report_formats", "fail_on", "min_cases", "annotations", "summary")
    return {name: getattr(arguments, name) for name in names}


def _init(verb: argparse.ArgumentParser) -> None:
    _common(verb)
    cli_github.init_words(verb)


def _plan(verb: argparse.ArgumentParser) -> None:
    _common(verb)
    cli_github.plan_words(verb)


def _merge(verb: argparse.ArgumentParser) -> None:
    _common(verb)
    cli_github.merge_words(verb)
    _reports(verb)


def _fetch(verb: argparse.ArgumentParser) -> None:
    _common(verb)
    verb.add_argument("ids", nargs="*", metavar="ID", help="all bundles where none is named")


def _ids(verb: argparse.ArgumentParser) -> None:
    _common(verb)
    verb.add_argument("ids", nargs="*", metavar="ID", help="all bundles where none is named")


def _show(verb: argparse.ArgumentParser) -> None:
    _common(verb)
    add = verb.add_argument
    add("case", metavar="CASE", help="bundle/case, or a case's name")
    add("tensor", metavar="TENSOR", help="its name, as findings have it")
    add("slice", nargs="?", default="", metavar="SLICE", help="as in NumPy, such as 0,:,1:3")
    add("--dumps", type=Path, metavar="DIR", help="take the dump from DIR/<bundle>/<case>/")
    add("--toolchain", default="", metavar="T", help="called as cargo +T")


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


def _bump(verb: argparse.ArgumentParser) -> None:
    _common(verb)
    add = verb.add_argument
    add("ids", nargs="*", metavar="ID", help="all bundles where none is named")
    add("--to", metavar="REF", help="lock this ref or commit of an hf:// source")
    add("--source", metavar="URL", help="lock from here, and write it as the source")
    add("--from-file", type=Path, metavar="TAR", help="lock this file; no host is asked")
    add("--check", action="store_true", help="only say whether there is something newer (10)")
    add("--download", action="store_true", help="--check: fetch where no digest is stated")
    add("--accept-audit", action="store_true", help="lock also what the audit finds wrong")


def _diff(verb: argparse.ArgumentParser) -> None:
    _common(verb)
    add = verb.add_argument
    state = "a git revision, whose lockfile counts, or a .tar"
    add("id", metavar="ID", help="the bundle")
    add("--from", dest="before", default="HEAD", metavar="REV", help=f"{state} (HEAD)")
    add("--to", dest="after", metavar="REV", help="the same (the lockfile as it lies there)")
    add("--markdown", action="store_true", help="as a table for a pull request")


def _audit(verb: argparse.ArgumentParser) -> None:
    _common(verb)
    verb.add_argument("ids", nargs="*", metavar="ID", help="all bundles where none is named")


def _positive(text: str) -> int:
    value = _count(text)
    if value == 0:
        message = "must be at least 1"
        raise argparse.ArgumentTypeError(message)
    return value


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:  # noqa: PLR2004
        message = f"{text!r} is not a whole number"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def _formats(text: str) -> tuple[str, ...]:
    words = tuple(text.replace(",", " ").split())
    if unknown := [word for word in words if word not in REPORT_FORMATS]:
        message = f"{', '.join(map(repr, unknown))} is not one of {', '.join(REPORT_FORMATS)}"
        raise argparse.ArgumentTypeError(message)
    return words


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:  # noqa: PLR2004 - NaN fails this too
        message = f"{text!r} is not a positive number of seconds"
        raise argparse.ArgumentTypeError(message)
    return value


def _places(arguments: argparse.Namespace) -> dict[str, Any]:
    default = arguments.repo / "fixtures.lock.yaml"
    return {
        "repo": arguments.repo,
        "lockfile": default if arguments.lockfile is None else arguments.lockfile,
        "offline": arguments.offline,
        "rehash": arguments.verify,
    }


def _run_verify(arguments: argparse.Namespace) -> int:
    from parity.commands.options import VerifyOptions  # noqa: PLC0415 - --help stays cheap
    from parity.commands.verify import verify  # noqa: PLC0415

    options = VerifyOptions(
        **_places(arguments),
        bundles=arguments.bundle,
        cases=arguments.case,
        dumps=arguments.dumps,
        **_report_options(arguments),
        toolchain=arguments.toolchain,
        cargo_args=arguments.cargo_args,
        jobs=arguments.jobs,
        repeat=arguments.repeat,
        deadline=arguments.deadline,
    )
    return _speaking(lambda speaker: verify(options, speaker))


def _run_init(arguments: argparse.Namespace) -> int:
    return _speaking(cli_github.run_init(_places(arguments), arguments))


def _run_plan(arguments: argparse.Namespace) -> int:
    return _speaking(cli_github.run_plan(_places(arguments), arguments))


def _run_merge(arguments: argparse.Namespace) -> int:
    told = _report_options(arguments)
    return _speaking(cli_github.run_merge(_places(arguments), told, arguments))


def _run_action(arguments: argparse.Namespace) -> int:
    return _speaking(cli_github.run_action(arguments))


def _run_fetch(arguments: argparse.Namespace) -> int:
    from parity.commands.fetch import fetch  # noqa: PLC0415
    from parity.commands.options import Options  # noqa: PLC0415

    options = Options(**_places(arguments))
    return _speaking(lambda speaker: fetch(options, arguments.ids, speaker))


def _run_prove(arguments: argparse.Namespace) -> int:
    from parity.commands.options import Options  # noqa: PLC0415
    from parity.commands.prove import prove  # noqa: PLC0415

    options = Options(**_places(arguments))
    return _speaking(lambda speaker: prove(options, arguments.ids, speaker))


def _run_show(arguments: argparse.Namespace) -> int:
    from parity.commands.options import Options  # noqa: PLC0415
    from parity.commands.show import ShowOptions, show  # noqa: PLC0415

    options = ShowOptions(
        options=Options(**_places(arguments)),
        case=arguments.case,
        tensor=arguments.tensor,
        slice=arguments.slice,
        dumps=arguments.dumps,
        toolchain=arguments.toolchain,
    )
    return _speaking(lambda speaker: show(options, speaker))


def _run_pin(arguments: argparse.Namespace) -> int:
    from parity.commands.pin import PinOptions, pin  # noqa: PLC0415
    from parity.reports.console import teller  # noqa: PLC0415

    extra = {
        name: getattr(arguments, name)
        for name in ("size", "upstream_only", "pth", "gguf", "folder")
    }
    typed = {name: value for name, value in extra.items() if value}
    return pin(PinOptions(kind=arguments.kind or "", out=arguments.out, extra=typed), teller())


def _run_bump(arguments: argparse.Namespace) -> int:
    from parity.commands.asking import BumpOptions  # noqa: PLC0415
    from parity.commands.bump import bump  # noqa: PLC0415

    names = ("ids", "to", "source", "from_file", "check", "download", "accept_audit")
    own = {name: getattr(arguments, name) for name in names}
    options = BumpOptions(**_places(arguments), **own)
    return _speaking(lambda speaker: bump(options, speaker))


def _run_diff(arguments: argparse.Namespace) -> int:
    from parity.commands.diff import DiffOptions, diff  # noqa: PLC0415

    own = {name: getattr(arguments, name) for name in ("before", "after", "markdown")}
    options = DiffOptions(**_places(arguments), bundle=arguments.id, **own)
    return _speaking(lambda speaker: diff(options, speaker))


def _run_audit(arguments: argparse.Namespace) -> int:
    from parity.commands.audit import audit  # noqa: PLC0415
    from parity.commands.options import Options  # noqa: PLC0415

    options = Options(**_places(arguments))
    return _speaking(lambda speaker: audit(options, arguments.ids, speaker))


def _run_cache(arguments: argparse.Namespace) -> int:
    from parity.commands.cache import cache  # noqa: PLC0415

    options = cache_words.options(arguments)
    return _speaking(lambda speaker: cache(options, speaker))


def _speaking(verb: Callable[[Teller], int]) -> int:
    from parity.reports.console import teller  # noqa: PLC0415

    speaker = teller()
    try:
        return verb(speaker)
    finally:
        speaker.close()
