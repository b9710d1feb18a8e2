"""``action``: what the steps of ``action.yml`` call; inputs come from the environment."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from parity import runner
from parity.commands import reporting
from parity.commands.inputs import Inputs, read
from parity.commands.matrix import PlanOptions, matrix
from parity.commands.merge import MergeOptions, merge
from parity.commands.options import ReportOptions, VerifyOptions
from parity.commands.verify import verify
from parity.errors import EXIT_CODES, ParityError
from parity.fixtures.store import Store
from parity.lockfile import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from parity.lockfile import Bundle
    from parity.reports.console import Teller

#: Where ``plan`` leaves the plan, and where ``merge`` looks for it.
PLAN = "parity-plan.json"
# These come before all other kinds, so that no other exit code can hide one.
_UNSAVED = [EXIT_CODES["config"], EXIT_CODES["integrity"], EXIT_CODES["fetch"]]


def action(step: str, teller: Teller) -> int:
    """Carry out one step.

    Raises:
        ConfigError: An input, the lockfile or a report cannot be used.
    """
    # Stands until something better is known, also where this program is brought down.
    if step != "prepare":
        reporting.set_outputs({"conclusion": "error"})
    try:
        inputs = read(runner.inputs())
    except ParityError as error:
        if step == "prepare":
            return _no_cache()  # the step that needs the inputs tells what is wrong
        reporting.tell_error(error, ReportOptions())
        raise
    os.chdir(inputs.folder)
    return STEPS[step](inputs, teller)


def _prepare(inputs: Inputs, _teller: Teller) -> int:
    """Say what may be taken from a cache; what is wrong is told by ``verify``."""
    bundles = _bundles(inputs)
    digests = sorted(bundle.locked.sha256 for bundle in bundles if bundle.locked)
    if not digests or not _cached(inputs, runner.may_restore()):
        return _no_cache()
    key = hashlib.sha256("\n".join(digests).encode()).hexdigest()
    blobs = Store.default().root / "blobs"
    reporting.set_outputs({"cache-key": f"parity-blobs-1-{key}", "cache-path": str(blobs)})
    return 0


def _no_cache() -> int:
    reporting.set_outputs({"cache-key": "", "cache-path": ""})
    return 0


def _cached(inputs: Inputs, allowed: bool) -> bool:
    """A bundle that a token was needed for is for nobody else, so nothing is cached with one."""
    if inputs.hf_token:
        return False
    return allowed if inputs.cache == "auto" else inputs.cache == "true"


def _bundles(inputs: Inputs) -> list[Bundle]:
    try:
        lock = load(inputs.lockfile)
    except ParityError:
        return []
    return [b for b in lock.bundles if not inputs.bundles or b.id in inputs.bundles]


def _verify(inputs: Inputs, teller: Teller) -> int:
    if inputs.hf_token:
        print(runner.command("add-mask", inputs.hf_token), flush=True)  # noqa: T201
        runner.lend_hub_token(inputs.hf_token)
    code = verify(_options(inputs), teller)
    kept = _cached(inputs, runner.may_save()) and code not in _UNSAVED
    reporting.set_outputs({"cache-save": "true" if kept else "false"})
    return code


def _options(inputs: Inputs) -> VerifyOptions:
    private = [b.id for b in _bundles(inputs) if b.source.startswith("hf://")]
    return VerifyOptions(
        repo=Path(),
        lockfile=inputs.lockfile,
        bundles=inputs.bundles,
        cases=inputs.cases,
        toolchain=inputs.toolchain,
        cargo_args=inputs.cargo_args,
        deadline=inputs.timeout_minutes * 60,
        withheld=private if inputs.hf_token else (),
        report_dir=inputs.report_dir,
        report_formats=inputs.report_formats,
        fail_on=inputs.fail_on,
        min_cases=inputs.min_cases,
        annotations=inputs.annotations,
        summary=inputs.summary,
    )


def _plan(inputs: Inputs, teller: Teller) -> int:
    runner.lend_hub_token(inputs.hf_token)
    options = PlanOptions(
        repo=Path(),
        lockfile=inputs.lockfile,
        bundles=inputs.bundles,
        cases=inputs.cases,
        out=inputs.report_dir / PLAN,
    )
    inputs.report_dir.mkdir(parents=True, exist_ok=True)
    try:
        with reporting.fenced():
            return matrix(options, teller)
    except ParityError as error:
        reporting.tell_error(error, ReportOptions(annotations=inputs.annotations))
        raise


def _merge(inputs: Inputs, teller: Teller) -> int:
    """Merge what the jobs left below the report's folder."""
    options = MergeOptions(
        repo=Path(),
        lockfile=inputs.lockfile,
        reports=[inputs.report_dir],
        plan=next(iter(sorted(inputs.report_dir.rglob(PLAN))), inputs.report_dir / PLAN),
        report_dir=inputs.report_dir / "merged",
        report_formats=inputs.report_formats,
        fail_on=inputs.fail_on,
        min_cases=inputs.min_cases,
        annotations=inputs.annotations,
        summary=inputs.summary,
    )
    return merge(options, teller)


STEPS: dict[str, Callable[[Inputs, Teller], int]] = {
    "prepare": _prepare,
    "verify": _verify,
    "plan": _plan,
    "merge": _merge,
}
