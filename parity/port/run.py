"""Run the program of a case into a fresh folder, and describe how it ended.

A program's end becomes findings, never an exception: the cases after it still run.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity.errors import ConfigError, DumpError, Location, Problem
from parity.port import dump_folder, exit_findings, process
from parity.port.cargo.call import Program
from parity.results import Finding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from parity.lockfile import Dump

#: Bytes kept of a program's stdout, whose last JSON line some suites read.
STDOUT_LIMIT = 1024 * 1024

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
# A start that races with the end of the run is stopped by a later round.
_STOP_ROUNDS = 100


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run of a case.

    Attributes:
        args: Arguments after the program's own, placeholders expanded; paths in them are
            absolute, because the program runs in a folder of its own choice.
        output_dir: The case's own folder; made here, rejected unless it is empty.
        timeout: Seconds.
        repo: Root of the repo under test, in which a panic's source file is looked for.
        where: The line of the lockfile that says how the case is dumped.
        memory: Bytes that the program may allocate, where the system can limit it.
    """

    name: str
    program: Program
    args: tuple[str, ...]
    output_dir: Path
    timeout: float
    repo: Path
    where: Location | None = None
    memory: int | None = None


@dataclass(frozen=True, kw_only=True)
class DumpResult:
    """The end of one run of a case.

    Attributes:
        folder: Folder of the dump's files.
        stdout, stderr: The last bytes of each.
        seconds: Of the program's run alone.
        findings: Why there is nothing to compare; empty if there is something.
        process_result: How the program ended; None if none was started, or nothing says so.
        past_deadline: It was stopped by the run's deadline, which says nothing about it.
        snapshot: State of the files as the program had ended.
    """

    folder: Path
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    findings: tuple[Finding, ...] = ()
    process_result: process.ProcessResult | None = None
    past_deadline: bool = False
    snapshot: frozenset[tuple[object, ...]] = frozenset()


def run_job(job: Job, *, deadline: float | None = None) -> DumpResult:
    """Run one case into its folder; every way of ending is in the findings.

    Args:
        job: The case.
        deadline: End of the whole run by ``time.monotonic``; cuts the job's timeout.
    """
    if problem := _prepare_folder(job):
        return _fail(job, Finding.from_problem(problem, "dump"))
    seconds = process.limit_timeout(job.timeout, deadline)
    if seconds <= 0:
        return _fail(job, exit_findings.describe_missed_deadline(job.where))
    try:
        result = process.run(
            (*job.program.argv, *job.args),
            cwd=job.program.cwd,
            env=job.program.env,
            timeout=seconds,
            stdout_limit=STDOUT_LIMIT,
            memory=job.memory,
        )
    except process.NotStartedError as error:
        return _fail(
            job, exit_findings.describe_not_started(error.program, error.reason, job.where)
        )
    return _make_result(job, result, seconds)


def run_jobs(
    jobs: Sequence[Job],
    *,
    workers: int | None = None,
    deadline: float | None = None,
) -> list[DumpResult]:
    """Run cases next to each other; return the results in the order of ``jobs``.

    All programs have ended when this returns or raises, also after Ctrl-C. A dump that changed
    after its own program had ended is a finding: another case's program wrote into it.

    Args:
        jobs: The cases; no two share a folder.
        workers: Cases at a time, by default as many as there are processors.
        deadline: End of the whole run by ``time.monotonic``; no case starts after it.
    """
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        futures = [pool.submit(run_job, job, deadline=deadline) for job in jobs]
        try:
            results = [future.result() for future in futures]
        except BaseException:
            _stop_jobs(futures)
            raise
    return [_check_unchanged(job, result) for job, result in zip(jobs, results, strict=True)]


def resolve_command(dump: Dump, repo: Path) -> tuple[Program, tuple[str, ...]]:
    """Return the program of ``dump.command`` and its arguments, placeholders not yet expanded.

    Raises:
        DumpError: ``dump-not-started``, if the caller's PATH has no such program.
    """
    first, *args = dump.command or ("",)
    env = process.build_environment(dump.env, pass_env=dump.pass_env)
    cwd = (repo / dump.cwd).resolve()
    program = process.find_program(first, env.get("PATH", ""), cwd)
    if program is None:
        message = f"The dump could not be started: {first!r} was not found, or is not executable."
        raise DumpError(Problem("dump-not-started", message, dump.where.get("command")))
    port = {"command": shlex.join((first, *args))}
    return Program((program,), cwd, env, None, port), tuple(args)


def expand_placeholders(
    args: Sequence[str], values: Mapping[str, str], where: Location | None = None
) -> tuple[str, ...]:
    """Return the arguments with placeholders replaced; ``{{`` and ``}}`` stand for braces.

    Raises:
        ConfigError: ``placeholder``, for a name that ``values`` lacks or a lone brace.
    """
    return tuple(
        _PLACEHOLDER.sub(lambda match: _resolve_placeholder(match, values, where), arg)
        for arg in args
    )


def find_json_line(stdout: str) -> dict[str, Any] | None:
    """Return the last line of ``stdout`` that is a JSON object, or None."""
    for line in reversed(stdout[-STDOUT_LIMIT:].splitlines()):
        if line.lstrip().startswith("{") and (value := _parse_json_object(line)) is not None:
            return value
    return None


def _prepare_folder(job: Job) -> Problem | None:
    """Make the output folder; files of an earlier run, or of another case, must not count."""
    folder = job.output_dir
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            return None
        message = f"The output folder {folder.as_posix()!r} is not empty."
    except OSError as error:
        message = f"The output folder {folder.as_posix()!r} cannot be made: {error.strerror}."
    return Problem("output-not-empty", message, job.where)


def _fail(job: Job, finding: Finding) -> DumpResult:
    return DumpResult(folder=job.output_dir, findings=(finding,))


def _make_result(job: Job, result: process.ProcessResult, seconds: float) -> DumpResult:
    too_deep = dump_folder.remove_deep_folders(job.output_dir)
    findings = exit_findings.explain_exit(
        result,
        has_output=dump_folder.has_file(job.output_dir),
        timeout_reason=_explain_timeout(job, seconds),
        repo=job.repo,
        cwd=Path(job.program.env.get("CARGO_MANIFEST_DIR") or job.program.cwd),
        where=job.where,
    )
    if too_deep and not findings:
        findings = (exit_findings.describe_deep_dump(job.where),)
    return DumpResult(
        folder=job.output_dir,
        stdout=result.stdout,
        stderr=result.stderr,
        seconds=result.seconds,
        findings=findings,
        process_result=result,
        past_deadline=result.timed_out and seconds < job.timeout,
        snapshot=dump_folder.take_snapshot(job.output_dir),
    )


def _explain_timeout(job: Job, seconds: float) -> str:
    if seconds < job.timeout:
        return f"the run's deadline passed after {seconds:.1f} seconds"
    return f"it reached its limit of {job.timeout:g} seconds (timeout)"


def _check_unchanged(job: Job, result: DumpResult) -> DumpResult:
    if result.findings or dump_folder.take_snapshot(result.folder) == result.snapshot:
        return result
    return replace(result, findings=(exit_findings.describe_changed_dump(job.where),))


def _stop_jobs(futures: Sequence[Future[DumpResult]]) -> None:
    """Start nothing more, and stop what runs."""
    for future in futures:
        future.cancel()
    for _ in range(_STOP_ROUNDS):
        process.stop_all()
        if not wait(futures, timeout=0.1).not_done:
            return


def _resolve_placeholder(
    match: re.Match[str], values: Mapping[str, str], where: Location | None
) -> str:
    text = match[0]
    if text in ("{{", "}}"):
        return text[0]
    if match[1] in values:
        return values[match[1]]
    allowed = ", ".join(f"{{{name}}}" for name in sorted(values))
    message = f"{text!r} in {match.string!r} is not a placeholder of this case; allowed: {allowed}."
    raise ConfigError(Problem("placeholder", message, where))


def _parse_json_object(line: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
