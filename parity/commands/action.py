"""``action``: run a step of ``action.yml``; inputs come from the environment."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from parity import github
from parity.commands.action_inputs import ActionInputs, read_inputs
from parity.commands.merge import MergeOptions, merge
from parity.commands.plan import PlanOptions, plan_jobs
from parity.commands.verify import verify
from parity.errors import EXIT_CODES, ParityError
from parity.lockfile import load
from parity.store.store import Store
from parity.verify import publish
from parity.verify.options import ReportOptions, VerifyOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from parity.lockfile import Bundle
    from parity.reports.console import RunConsole

#: File name of the plan, written by ``plan`` and read by ``merge``.
PLAN_FILE, PLAN_ARTIFACT = "parity-plan.json", "parity-plan"
# Nothing is cached after these. They precede all other kinds, so no exit code hides one.
_UNCACHED_EXIT_CODES = [EXIT_CODES["config"], EXIT_CODES["integrity"], EXIT_CODES["fetch"]]


def run_step(step: str, console: RunConsole) -> int:
    """Run one step.

    Raises:
        ConfigError: An input, the lockfile or a report cannot be used.
    """
    # Valid until replaced, also if this process is killed.
    if step != "prepare":
        publish.set_outputs({"conclusion": "error"})
    try:
        inputs = read_inputs(github.read_inputs())
    except ParityError as error:
        if step == "prepare":
            return _clear_cache_outputs()  # the step that needs the inputs reports the error
        publish.publish_error(error, ReportOptions())
        raise
    os.chdir(inputs.folder)
    return STEPS[step](inputs, console)


def _prepare(inputs: ActionInputs, _console: RunConsole) -> int:
    """Output the cache's key and path; errors are reported by ``verify``."""
    bundles = _load_bundles(inputs)
    digests = sorted(bundle.locked.sha256 for bundle in bundles if bundle.locked)
    if not digests or not _is_cache_allowed(inputs, github.is_cache_readable()):
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
    code = verify(_build_verify_options(inputs), console)
    is_saved = (
        _is_cache_allowed(inputs, github.is_cache_writable()) and code not in _UNCACHED_EXIT_CODES
    )
    publish.set_outputs({"cache-save": "true" if is_saved else "false"})
    return code


def _build_verify_options(inputs: ActionInputs) -> VerifyOptions:
    private = [b.id for b in _load_bundles(inputs) if b.source.startswith("hf://")]
    return VerifyOptions(
        repo=Path(),
        lockfile=inputs.lockfile,
        bundles=inputs.bundles,
        cases=inputs.cases,
        toolchain=inputs.toolchain,
        cargo_args=inputs.cargo_args,
        deadline=inputs.timeout_minutes * 60,
        private_bundles=private if inputs.hf_token else (),
        report_dir=inputs.report_dir,
        report_formats=inputs.report_formats,
        fail_on=inputs.fail_on,
        min_cases=inputs.min_cases,
        annotations=inputs.annotations,
        summary=inputs.summary,
    )


def _run_plan(inputs: ActionInputs, console: RunConsole) -> int:
    github.expose_hub_token(inputs.hf_token)
    options = PlanOptions(
        repo=Path(),
        lockfile=inputs.lockfile,
        bundles=inputs.bundles,
        cases=inputs.cases,
        out=inputs.report_dir / PLAN_FILE,
    )
    try:
        publish.check_no_link(inputs.report_dir)
        inputs.report_dir.mkdir(parents=True, exist_ok=True)
        with publish.fence_output():
            return plan_jobs(options, console)
    except ParityError as error:
        publish.publish_error(error, ReportOptions(annotations=inputs.annotations))
        raise


def _run_merge(inputs: ActionInputs, console: RunConsole) -> int:
    """Merge the reports that the jobs' artifacts contain."""
    options = MergeOptions(
        repo=Path(),
        lockfile=inputs.lockfile,
        reports=[inputs.report_dir],
        plan=_find_plan(inputs.report_dir),
        report_dir=inputs.report_dir / "merged",
        report_formats=inputs.report_formats,
        fail_on=inputs.fail_on,
        min_cases=inputs.min_cases,
        annotations=inputs.annotations,
        summary=inputs.summary,
    )
    return merge(options, console)


def _find_plan(folder: Path) -> Path:
    """Return the plan's path: in its own artifact, else where the step ``plan`` wrote it.

    No other folder is searched, since the other artifacts contain files that ports wrote.
    """
    own = folder / PLAN_ARTIFACT / PLAN_FILE
    return own if own.is_file() else folder / PLAN_FILE


STEPS: dict[str, Callable[[ActionInputs, RunConsole], int]] = {
    "prepare": _prepare,
    "verify": _run_verify,
    "plan": _run_plan,
    "merge": _run_merge,
}
