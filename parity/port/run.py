"""The port's side of a case: its program is run into a fresh folder, and what came of it is told.

A program's end becomes findings, never an exception: the cases after it go on.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity.errors import ConfigError, DumpError, Location, Problem
from parity.port import process
from parity.port.cargo.call import Program
from parity.port.exit_findings import describe_missed_deadline, describe_not_started, explain_exit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from parity.lockfile import Dump
    from parity.results import Finding

#: Bytes kept of a program's stdout, whose last JSON line some suites read.
STDOUT_LIMIT = 1024 * 1024

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
# A start that races with the end of the run is caught by a later round of killing.
_STOP_ROUNDS = 100


@dataclass(frozen=True, kw_only=True)
class Job:
    """One case to run.

    Attributes:
        args: Words after the program's own, placeholders expanded; paths in them are
            absolute, because the program runs in a folder of its own choice.
        output_dir: The case's own folder; made here, refused unless it is empty.
        timeout: Seconds.
        repo: Root of the repo under test, in which a panic's source file is looked for.
        where: The line of the lockfile that says how the case is dumped.
        memory: Bytes that the program may allocate, where the system can bound it.
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
    """What became of one case's run.

    Attributes:
        folder: Where the files lie.
        stdout, stderr: The last bytes of each.
        seconds: Of the program's run alone.
        findings: Why there is nothing to compare; empty where there is something.
        ended: How the program ended; None where none was started, or nothing says so.
        late: It was stopped by the run's deadline, which says nothing about it.
    """

    folder: Path
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    findings: tuple[Finding, ...] = ()
    process_result: process.ProcessResult | None = None
    past_deadline: bool = False


def run_case(
    program: Program,
    args: Sequence[str],
    *,
    output_dir: Path,
    timeout: float,
    repo: Path,
    deadline: float | None = None,
    where: Location | None = None,
) -> DumpResult:
    """Run one case; the arguments are those of ``FetchJob`` and ``run_job``."""
    job = Job(
        name=output_dir.name,
        program=program,
        args=tuple(args),
        output_dir=output_dir,
        timeout=timeout,
        repo=repo,
        where=where,
    )
    return run_job(job, deadline=deadline)


def run_job(job: Job, *, deadline: float | None = None) -> DumpResult:
    """Run one case into its folder; whatever becomes of it is in the findings.

    Args:
        job: The case.
        deadline: End of the whole run by ``time.monotonic``; cuts the job's timeout.

    Raises:
        DumpError: ``output-not-empty``, where files of an earlier run would be compared.
    """
    _prepare_folder(job)
    seconds = process.limit_timeout(job.timeout, deadline)
    if seconds <= 0:
        return DumpResult(folder=job.output_dir, findings=(describe_missed_deadline(job.where),))
    try:
        result = _run_program(job, seconds)
    except process.NotStartedError as error:
        finding = describe_not_started(error.program, error.reason, job.where)
        return DumpResult(folder=job.output_dir, findings=(finding,))
    return _make_result(job, result, seconds)


def run_jobs(
    jobs: Sequence[Job],
    *,
    workers: int | None = None,
    deadline: float | None = None,
    on_done: Callable[[Job, DumpResult], None] | None = None,
) -> list[DumpResult]:
    """Run cases next to each other; the results are in the order of ``jobs``.

    Args:
        jobs: The cases; no two share a folder.
        workers: Cases at a time, by default as many as there are processors.
        deadline: End of the whole run by ``time.monotonic``; what is not begun by then, is not.
        on_done: Told of each case as it ends, from the calling thread.

    Raises:
        DumpError: As ``run_job``; all programs have ended then, after Ctrl-C too.
    """
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        futures = {pool.submit(run_job, job, deadline=deadline): job for job in jobs}
        try:
            for future in as_completed(futures):
                if on_done:
                    on_done(futures[future], future.result())
            return [future.result() for future in futures]
        except BaseException:
            _stop_jobs(futures)
            raise


def resolve_command(dump: Dump, repo: Path) -> tuple[Program, tuple[str, ...]]:
    """The program of ``dump.command`` and its words, placeholders not yet expanded.

    Raises:
        DumpError: ``dump-not-started``, where the caller's PATH has no such program.
    """
    first, *args = dump.command or ("",)
    env = process.build_environment(dump.env)
    cwd = (repo / dump.cwd).resolve()
    program = process.find_program(first, env.get("PATH", ""), cwd)
    where = dump.where.get("command")
    if program is None:
        message = f"The dump could not be started: {first!r} was not found, or is not executable."
        raise DumpError(Problem("dump-not-started", message, where))
    port = {"command": shlex.join((first, *args))}
    return Program((program,), cwd, env, None, port), tuple(args)


def expand_placeholders(
    args: Sequence[str], values: Mapping[str, str], where: Location | None = None
) -> tuple[str, ...]:
    """Each word with its placeholders replaced; ``{{`` and ``}}`` stand for braces.

    Raises:
        ConfigError: ``placeholder``, for a name that ``values`` lacks or a lone brace.
    """
    return tuple(
        _PLACEHOLDER.sub(lambda match: _resolve_placeholder(match, values, where), arg)
        for arg in args
    )


def find_json_line(stdout: str) -> dict[str, Any] | None:
    """The last line of ``stdout`` that is a JSON object, or None."""
    for line in reversed(stdout[-STDOUT_LIMIT:].splitlines()):
        if line.lstrip().startswith("{") and (value := _parse_json_object(line)) is not None:
            return value
    return None


def _prepare_folder(job: Job) -> None:
    job.output_dir.mkdir(parents=True, exist_ok=True)
    if any(job.output_dir.iterdir()):
        message = f"The output folder {job.output_dir.as_posix()!r} is not empty."
        raise DumpError(Problem("output-not-empty", message, job.where))


def _run_program(job: Job, seconds: float) -> process.ProcessResult:
    return process.run(
        (*job.program.argv, *job.args),
        cwd=job.program.cwd,
        env=job.program.env,
        timeout=seconds,
        stdout_limit=STDOUT_LIMIT,
        memory=job.memory,
    )


def _make_result(job: Job, result: process.ProcessResult, seconds: float) -> DumpResult:
    findings = explain_exit(
        result,
        has_output=has_file(job.output_dir),
        timeout_reason=_explain_timeout(job, seconds),
        repo=job.repo,
        cwd=_find_source_folder(job.program),
        where=job.where,
    )
    return DumpResult(
        folder=job.output_dir,
        stdout=result.stdout,
        stderr=result.stderr,
        seconds=result.seconds,
        findings=findings,
        process_result=result,
        past_deadline=result.timed_out and seconds < job.timeout,
    )


def _explain_timeout(job: Job, seconds: float) -> str:
    if seconds < job.timeout:
        return f"the run's deadline came after {seconds:.1f} seconds"
    return f"its {job.timeout:g} seconds (timeout) were over"


def _find_source_folder(program: Program) -> Path:
    """Where a panic's path begins, or a folder below it."""
    return Path(program.env.get("CARGO_MANIFEST_DIR") or program.cwd)


def has_file(folder: Path) -> bool:
    """Whether anything was written into ``folder``, however deep."""
    try:
        return any(path.is_file() for path in folder.rglob("*"))
    except OSError:
        return True  # something is there, though it lies too deep to be looked at


def _stop_jobs(futures: Mapping[Future[DumpResult], Job]) -> None:
    """Start nothing more, and kill what runs."""
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
    message = f"{text!r} in {match.string!r} is no placeholder of this case; allowed: {allowed}."
    raise ConfigError(Problem("placeholder", message, where))


def _parse_json_object(line: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
