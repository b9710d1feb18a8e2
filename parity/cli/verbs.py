"""The verbs: their functions, their records of options, and the arguments that fill the fields.

An argument's ``dest`` is the name of a field. Both are named by strings, since the modules are
imported for the verb that was typed alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from parity.cli import values
from parity.verify.options import REPORT_FORMATS, SUMMARIES

_OPTIONS, _VERIFY_OPTIONS = "parity.verify.options:Options", "parity.verify.options:VerifyOptions"
_LOCKFILE = "fixtures.lock.yaml"


class Verb(NamedTuple):
    """One subcommand; ``call`` and ``options`` are ``module:name``."""

    call: str
    options: str
    add_arguments: Callable[[argparse.ArgumentParser], None]


def _add_common(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of every verb that reads a lockfile."""
    add = parser.add_argument
    add("--repo", type=values.parse_path, default=".", help="the repo under test (.)")
    add("--lockfile", type=values.parse_path, help=f"default: REPO/{_LOCKFILE}")
    add("--offline", action="store_true", help="no network access, also for cargo")
    add("--rehash", action="store_true", help="hash the bytes of every unpacked bundle again")
    # The old name, for one release.
    add("--verify", action="store_true", dest="rehash", help=argparse.SUPPRESS)


def _add_ids(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of a verb on some or all bundles."""
    _add_common(parser)
    parser.add_argument("bundles", nargs="*", metavar="ID", help="bundles (default: all)")


def _add_report(parser: argparse.ArgumentParser) -> None:
    add = partial(parser.add_argument, metavar="N", type=values.parse_count)
    text = "write reports and failed dumps there"
    add("--report-dir", type=values.parse_path, metavar="DIR", help=text)
    text = f"of {', '.join(REPORT_FORMATS)}; separated by commas or spaces (json)"
    formats = partial(add, type=values.parse_formats, default=("json",))
    formats("--report-formats", metavar="F", help=text)
    text = "least severe finding that fails the run (mismatch)"
    levels = ("mismatch", "warning")
    parser.add_argument("--fail-on", choices=levels, default="mismatch", help=text)
    add("--min-cases", default=1, help="fail if fewer cases are verified (1)")
    add("--annotations", default=10, help="on GitHub: at most N annotated errors (10)")
    text = "on GitHub: the job's summary"
    parser.add_argument("--summary", choices=SUMMARIES, default="full", help=text)


def _add_verbosity(parser: argparse.ArgumentParser) -> None:
    add = partial(parser.add_mutually_exclusive_group().add_argument, action="store_const")
    text = "print a line for each case, and every notice"
    add("-v", "--verbose", dest="verbosity", const=1, default=0, help=text)
    add("-q", "--quiet", dest="verbosity", const=-1, help="print the last line only")


def _add_selection(parser: argparse.ArgumentParser, exclusion: str = "") -> None:
    add = partial(parser.add_argument, action="append", default=[])
    add("--bundle", dest="bundles", metavar="ID", help="only this bundle (repeat)")
    text = f"only cases bundle/case that match{exclusion} (repeat)"
    add("--case", dest="cases", metavar="GLOB", help=text)


def _add_toolchain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--toolchain", default="", metavar="T", help="run cargo +T")


def _add_dumps(parser: argparse.ArgumentParser, text: str) -> None:
    text = f"{text} in DIR/<bundle>/<case>/"
    if "compare" in text:
        text += "; build and run nothing"
    parser.add_argument("--dumps", type=values.parse_path, metavar="DIR", help=text)


def _add_verify(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    _add_selection(parser, "; '!' excludes")
    _add_dumps(parser, "compare existing dumps")
    _add_report(parser)
    _add_toolchain(parser)
    text = "an argument for cargo (repeat)"
    parser.add_argument("--cargo-args", action="append", default=[], metavar="A", help=text)
    add = partial(parser.add_argument, metavar="N", type=values.parse_positive)
    add("--jobs", help="cases run in parallel (default: number of processors)")
    add("--repeat", default=1, help="run each case N times; the runs must agree")
    text = "run cases that are not claimed, too, for information"
    parser.add_argument("--all", dest="all_cases", action="store_true", help=text)
    text = "seconds for the whole run (default: no limit)"
    add("--deadline", type=values.parse_seconds, metavar="S", help=text)
    _add_verbosity(parser)


def _add_show(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    add = parser.add_argument
    add("cases", nargs=1, metavar="CASE", help="bundle/case, or a case's name")
    add("tensor", metavar="TENSOR", help="its name, as findings print it")
    text = "NumPy's notation, for example 0,:,1:3"
    add("slice", nargs="?", default="", metavar="SLICE", help=text)
    text = "list the wrong ways that were tried for a stage, and what each leaves"
    add("--why", action="store_true", help=text)
    _add_dumps(parser, "read an existing dump")
    _add_toolchain(parser)


def _add_pin(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = "kind of bundle (default: all embedded ones)"
    add("kind", nargs="?", default="", metavar="KIND", help=text)
    path = partial(add, type=values.parse_path)
    text = "tensors only: a folder, or a file of arrays (.npz, .npy, .safetensors, .pt, .json)"
    path("folder", nargs="?", metavar="PATH", help=text)
    path("more", nargs="*", metavar="FILE", help="tensors only: further files, each a case")
    add("--name", help="tensors and trace: id of the bundle (default: the first one's name)")
    path("--out", default="tests/bundles", metavar="DIR", help="output folder (%(default)s)")
    add("--size", choices=("small", "full"), help="serialize only")
    text = "serialize only: the cases of upstream's bundle"
    add("--upstream-only", action="store_true", help=text)
    path("--pth", metavar="FILE", help="serialize only: a real checkpoint")
    path("--gguf", metavar="FILE", help="serialize only: a real checkpoint")
    text = "trace only: a function that returns a model and its inputs; the file is run (repeat)"
    add("--model", action="append", default=[], metavar="FILE.py:FUNCTION", help=text)
    text = "trace only: a stage for each ATen call or each module (op)"
    add("--level", choices=("op", "module"), help=text)
    number = partial(add, type=values.parse_count)
    number("--train", metavar="STEPS", help="trace only: steps of training to trace, too")
    number("--seed", metavar="S", help="trace only: of the parameters and inputs (0)")
    text = "trace only: store only the stages that match, and the outputs (repeat)"
    add("--stages", action="append", default=[], metavar="GLOB", help=text)
    text = "trace only: limit of the bundle's files, in bytes or as 2G (64 MiB)"
    add("--max-size", type=values.parse_size, metavar="S", help=text)
    text = "trace only: leave the parameters as the function made them"
    add("--keep-parameters", action="store_true", help=text)


def _add_bump(parser: argparse.ArgumentParser) -> None:
    _add_ids(parser)
    add = parser.add_argument
    add("--to", metavar="REF", help="lock this ref or commit of an hf:// source")
    add("--source", metavar="URL", help="lock from this URL, and write it as the source")
    text = "lock this file, without network access"
    add("--from-file", type=values.parse_path, metavar="TAR", help=text)
    text = "only report whether something newer exists (exit code 10)"
    add("--check", action="store_true", help=text)
    text = "with --check: download where the host states no digest"
    add("--download", action="store_true", help=text)
    add("--accept-audit", action="store_true", help="update the lock even if the audit fails")


def _add_diff(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    add = parser.add_argument
    state = "git revision of the lockfile, or a .tar"
    add("bundle", metavar="ID", help="the bundle")
    add("--from", dest="before", default="HEAD", metavar="REV", help=f"{state} (HEAD)")
    add("--to", dest="after", metavar="REV", help="the same (default: the lockfile on disk)")
    add("--markdown", action="store_true", help="print a Markdown table for a pull request")


def _add_audit(parser: argparse.ArgumentParser) -> None:
    _add_ids(parser)
    text = "write a report of each reference reader there, for `scoreboard`"
    parser.add_argument("--report-dir", type=values.parse_path, metavar="DIR", help=text)


def _add_cache(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = "list entries; read all of them again; remove unused ones"
    add("action", choices=("ls", "verify", "gc"), help=text)
    add("--repo", type=values.parse_path, default=".", help="the folder of the lockfile (.)")
    text = f"gc keeps its bundles (repeat; default: REPO/{_LOCKFILE} if it exists)"
    path = partial(add, type=values.parse_path, action="append", default=[])
    path("--lockfile", dest="lockfiles", metavar="LOCKFILE", help=text)
    text = "gc: remove least recently used entries down to S (for example 10G)"
    add("--max-size", dest="max_bytes", type=values.parse_size, metavar="S", help=text)
    text = "gc: remove entries unused for D (for example 30d)"
    add("--older-than", dest="max_age", type=values.parse_age, metavar="D", help=text)


def _add_init(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    text = "path or URL of a bundle's archive"
    parser.add_argument("source", nargs="?", metavar="PATH-OR-URL", help=text)


def _add_plan(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    _add_selection(parser)
    text = "write the plan to FILE, for merge"
    parser.add_argument("--out", type=values.parse_path, metavar="FILE", help=text)


def _add_merge(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    path = partial(parser.add_argument, type=values.parse_path)
    text = "report.json files, or folders that contain them"
    path("reports", nargs="+", metavar="REPORT", help=text)
    text = "the plan; a planned case without a result is an error"
    path("--plan", metavar="FILE", help=text)
    _add_report(parser)
    _add_verbosity(parser)


def _add_action(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("step", choices=("prepare", "verify", "plan", "merge"))


def _add_scoreboard(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = "report.json of a port, or its folder"
    add("reports", nargs="+", metavar="[NAME=]REPORT", help=text)
    add("--bundle", default="", metavar="ID", help="this bundle alone")
    add("--by-group", action="store_true", help="a row for each group of cases, with their counts")
    add("--markdown", action="store_true", help="print a Markdown table")
    add("--html", type=values.parse_path, metavar="FILE", help="also write one static page")
    page = parser.add_mutually_exclusive_group()
    path = partial(page.add_argument, type=values.parse_path, metavar="PAGE")
    path("--write", help="rewrite the table between the page's markers")
    path("--check", help="exit 1 if the page's cells differ")


def _add_reproduce(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    add = parser.add_argument
    add("cases", nargs=1, metavar="BUNDLE/CASE", help="the case")
    add("--out", type=values.parse_path, required=True, metavar="DIR", help="a new or empty folder")
    _add_dumps(parser, "read an existing dump")
    _add_toolchain(parser)


def _name_verb(name: str, options: str, add: Callable[[argparse.ArgumentParser], None]) -> Verb:
    """Return a verb whose module, and function if no other is given, have its name."""
    module, _, function = name.partition(":")
    module = f"parity.commands.{module}"
    options = options if ":" in options else f"{module}:{options}"
    return Verb(f"{module}:{function or name}", options, add)


VERBS = {
    "verify": _name_verb("verify", _VERIFY_OPTIONS, _add_verify),
    "fetch": _name_verb("fetch", _OPTIONS, _add_ids),
    "prove": _name_verb("prove", _VERIFY_OPTIONS, _add_ids),
    "show": _name_verb("show", "ShowOptions", _add_show),
    "pin": _name_verb("pin", "PinOptions", _add_pin),
    "bump": _name_verb("bump", "BumpOptions", _add_bump),
    "diff": _name_verb("diff", "DiffOptions", _add_diff),
    "audit": _name_verb("audit", "AuditOptions", _add_audit),
    "cache": _name_verb("cache:run_cache", "CacheOptions", _add_cache),
    "init": _name_verb("init", "InitOptions", _add_init),
    "plan": _name_verb("plan:plan_jobs", "PlanOptions", _add_plan),
    "merge": _name_verb("merge", "MergeOptions", _add_merge),
    "action": _name_verb("action:run_step", "StepOptions", _add_action),
    "scoreboard": _name_verb("scoreboard:print_scoreboard", "ScoreboardOptions", _add_scoreboard),
    "reproduce": _name_verb("reproduce", "ReproduceOptions", _add_reproduce),
}
