"""``action``: run a step of ``action.yml``; inputs come from the environment."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from parity import github
from parity.commands.merge import MergeOptions, merge
from parity.commands.plan import PlanOptions, plan_jobs
from parity.commands.verify import verify
from parity.errors import EXIT_CODES, ConfigError, ParityError, Problem
from parity.github import step
from parity.lockfile import Bundle, load
from parity.reports.console import RunConsole
from parity.store.store import Store
from parity.text import resolve_path
from parity.verify import bundle_states, publish
from parity.verify.options import (
    REPORT_FORMATS,
    SUMMARIES,
    ReportOptions,
    VerifyOptions,
    declare,
)

#: File name of the plan, written by ``plan`` and read by ``merge``.
PLAN_FILE, PLAN_ARTIFACT = "parity-plan.json", "parity-plan"
# Nothing is cached after these. They precede all other kinds, so no exit code hides one.
_UNCACHED_CODES = [EXIT_CODES["config"], EXIT_CODES["integrity"], EXIT_CODES["fetch"]]
_CACHES, _FAIL_ON = ("auto", "true", "false"), ("mismatch", "warning")
_MAX_MINUTES = 100_000.0


@dataclass(frozen=True, kw_only=True)
class StepOptions:
    """The command line of ``action``."""

    step: str = declare("", "the step", choices=("prepare", "verify", "plan", "merge"))


@dataclass(frozen=True, kw_only=True)
class ActionInputs(VerifyOptions):
    """The action's inputs, parsed; ``working_directory`` is an existing folder."""

    working_directory: Path
    cache: str
    hf_token: str


class _Input(NamedTuple):
    """An input: default, the same as in ``action.yml``; field that it fills, parser, valid values.

    The parser raises a ValueError.
    """

    default: str
    field: str
    parse: Callable[[str], Any]
    expected: str = ""


def _match(pattern: str, text: str) -> str:
    if not re.fullmatch(pattern, text, re.ASCII):
        raise ValueError
    return text


def _choose(allowed: tuple[str, ...]) -> tuple[Callable[[str], str], str]:
    pattern = "|".join(allowed)
    return lambda text: _match(pattern, text), f"one of {', '.join(allowed)}"


def _count(maximum: int) -> tuple[Callable[[str], int], str]:
    def parse(text: str) -> int:
        if (value := int(_match("[0-9]{1,9}", text))) > maximum:
            raise ValueError
        return value

    return parse, f"a whole number from 0 to {maximum}"


def _parse_lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def _parse_cargo_args(text: str) -> tuple[str, ...]:
    values = _parse_lines(text)
    if "--" in values:  # all that follows would be the program's
        raise ValueError
    return values


def _parse_deadline(text: str) -> float:
    minutes = float(_match(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", text))
    if not 0 < minutes <= _MAX_MINUTES:
        raise ValueError
    return minutes * 60


def _parse_formats(text: str) -> tuple[str, ...]:
    names = tuple(text.replace(",", " ").split())
    if set(names) - set(REPORT_FORMATS):
        raise ValueError
    return names


def _parse_path(text: str, base: Path = Path()) -> Path:
    path = Path(text)
    if path.is_absolute() or github.find_workspace_path(base / path) is None:
        raise ValueError
    return path


_PATH = "a path that stays in the workspace"
INPUTS = {
    "working-directory": _Input(".", "working_directory", _parse_path, _PATH),
    "lockfile": _Input("fixtures.lock.yaml", "lockfile", _parse_path, _PATH),
    "bundles": _Input("", "bundles", _parse_lines),
    "cases": _Input("", "cases", _parse_lines),
    "toolchain": _Input(
        "",
        "toolchain",
        lambda text: _match(r"(?:[A-Za-z0-9][A-Za-z0-9._-]*)?", text),
        "a rustup toolchain, such as stable or 1.95.0",
    ),
    "cargo-args": _Input(
        "", "cargo_args", _parse_cargo_args, "arguments for cargo itself, without --"
    ),
    "python-version": _Input("3.14", "", str),
    "cache": _Input("auto", "cache", *_choose(_CACHES)),
    "annotations": _Input("10", "annotations", *_count(step.MAX_ANNOTATIONS)),
    "summary": _Input("full", "summary", *_choose(SUMMARIES)),
    "report-dir": _Input("parity-report", "report_dir", _parse_path, _PATH),
    "report-formats": _Input(
        "json junit", "report_formats", _parse_formats, f"formats of {', '.join(REPORT_FORMATS)}"
    ),
    "fail-on": _Input("mismatch", "fail_on", *_choose(_FAIL_ON)),
    "min-cases": _Input("1", "min_cases", *_count(10**6)),
    "timeout-minutes": _Input("30", "deadline", _parse_deadline, "a positive number of minutes"),
    "hf-token": _Input("", "hf_token", str),
}


def read_inputs(raw: Mapping[str, str]) -> ActionInputs:
    """Parse all inputs; an absent or blank one has its default.

    Raises:
        ConfigError: ``input``, once for each invalid input.
    """
    problems = [
        Problem("input", f"the action has no input {name!r}; it has {', '.join(INPUTS)}")
        for name in raw
        if name not in INPUTS
    ]

    def reject(name: str, expected: str) -> None:
        text = f"input {name} is {texts[name]!r}; it must be {expected}"
        problems.append(Problem("input", text))

    texts = {name: raw.get(name, "").strip() or entry.default for name, entry in INPUTS.items()}
    values: dict[str, Any] = {}
    base = github.get_workspace()
    for name, entry in INPUTS.items():
        try:
            parse = partial(_parse_path, base=base) if entry.expected == _PATH else entry.parse
            value = parse(texts[name])
        except ValueError:
            reject(name, entry.expected)
            continue
        if name == "working-directory":
            base = value = base / value
            if not value.is_dir():
                where = "an existing folder of the workspace; was the repo checked out?"
                reject(name, where)
        values |= {entry.field: value} if entry.field else {}
    if problems:
        raise ConfigError(*problems)
    return ActionInputs(repo=Path(), **values)


def run_step(options: StepOptions, console: RunConsole) -> int:
    """Run one step.

    Raises:
        ConfigError: An input, the lockfile or a report cannot be used.
    """
    is_first = options.step == "prepare"
    # Valid until replaced, also if this process is killed.
    if not is_first:
        publish.set_outputs({"conclusion": "error"})
    try:
        inputs = read_inputs(step.read_inputs())
    except ParityError as error:
        if is_first:
            return _clear_cache_outputs()  # the step that needs the inputs reports the error
        publish.publish_error(error, ReportOptions())
        raise
    os.chdir(inputs.working_directory)
    lockfile = resolve_path(str(inputs.lockfile))
    inputs = replace(inputs, repo=resolve_path("."), lockfile=lockfile)
    return STEPS[options.step](inputs, console)


def _prepare(inputs: ActionInputs, _console: RunConsole) -> int:
    """Output the cache's key and path; errors are reported by ``verify``."""
    bundles = _load_bundles(inputs)
    digests = sorted(
        one.locked.sha256 for bundle in bundles for one in bundle.list_downloads() if one.locked
    )
    if not digests or not _is_cache_allowed(inputs, step.is_cache_readable()):
        return _clear_cache_outputs()
    key = hashlib.sha256("\n".join(digests).encode()).hexdigest()
    blobs = Store.from_environment().root / "blobs"
    publish.set_outputs({"cache-key": f"parity-blobs-1-{key}", "cache-path": str(blobs)})
    return 0


def _clear_cache_outputs() -> int:
    publish.set_outputs({"cache-key": "", "cache-path": ""})
    return 0


def _is_cache_allowed(inputs: ActionInputs, allowed: bool) -> bool:
    """Return whether the store may be cached: never with a token, since its bundles are private."""
    if inputs.hf_token:
        return False
    return allowed if inputs.cache == "auto" else inputs.cache == "true"


def _load_bundles(inputs: ActionInputs) -> list[Bundle]:
    try:
        lock = load(inputs.lockfile)
    except ParityError:
        return []
    return [b for b in lock.bundles if not inputs.bundles or b.id in inputs.bundles]


def _run_verify(inputs: ActionInputs, console: RunConsole) -> int:
    if inputs.hf_token:
        print(github.format_command("add-mask", inputs.hf_token), flush=True)  # noqa: T201 - this is what prints
        github.expose_hub_token(inputs.hf_token)
        private = [b.id for b in _load_bundles(inputs) if b.source.startswith("hf://")]
        inputs = replace(inputs, private_bundles=private)
    code = verify(inputs, console, bundle_states.format_lock_changes)
    is_saved = _is_cache_allowed(inputs, step.is_cache_writable()) and code not in _UNCACHED_CODES
    publish.set_outputs({"cache-save": "true" if is_saved else "false"})
    return code


def _run_plan(inputs: ActionInputs, console: RunConsole) -> int:
    github.expose_hub_token(inputs.hf_token)
    folder = inputs.report_dir or Path()
    options = PlanOptions(
        repo=inputs.repo,
        lockfile=inputs.lockfile,
        bundles=inputs.bundles,
        cases=inputs.cases,
        out=folder / PLAN_FILE,
    )
    try:
        publish.check_no_link(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with publish.fence_output():
            return plan_jobs(options, console)
    except ParityError as error:
        publish.publish_error(error, ReportOptions(annotations=inputs.annotations))
        raise


def _run_merge(inputs: ActionInputs, console: RunConsole) -> int:
    """Merge the reports that the jobs' artifacts contain."""
    folder = inputs.report_dir or Path()
    # The plan is in its own artifact, else where the step ``plan`` wrote it. No other folder is
    # searched, since the other artifacts contain files that ports wrote.
    own = folder / PLAN_ARTIFACT / PLAN_FILE
    report = {field.name: getattr(inputs, field.name) for field in fields(ReportOptions)}
    options = MergeOptions(
        **report | {"report_dir": folder / "merged"},
        repo=inputs.repo,
        lockfile=inputs.lockfile,
        reports=[folder],
        plan=own if own.is_file() else folder / PLAN_FILE,
    )
    return merge(options, console)


STEPS: dict[str, Callable[[ActionInputs, RunConsole], int]] = {
    "prepare": _prepare,
    "verify": _run_verify,
    "plan": _run_plan,
    "merge": _run_merge,
}
