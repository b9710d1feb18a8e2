"""Run the program of a case into a fresh folder, and describe how it ended.

A program's end becomes findings, never an exception: the cases after it still run.
"""

from __future__ import annotations

import os
import shlex
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity.errors import ConfigError, DumpError, Location, Problem
from parity.lockfile.dump_settings import BRACES
from parity.port import dump_folder, output, process
from parity.port.output import TOO_DEEP, explain_exit, make_error

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping, Sequence

    from parity.lockfile import Dump
    from parity.port.cargo import Program
    from parity.results import Finding

#: Bytes kept of a program's stdout, whose last JSON line some suites read.
STDOUT_LIMIT = 1024 * 1024

_STOP_ROUNDS = 100


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run of a case."""

    name: str
    program: Program
    #: After the program's own, placeholders expanded; paths in them are absolute, because the
    #: program runs in a folder of its own choice.
    args: tuple[str, ...]
    output_dir: Path  # the case's own folder; made here, rejected unless it is empty
    timeout: float  # seconds
    repo: Path  # root of the repo under test, in which a panic's source file is looked for
    where: Location | None = None  # the lockfile's line that says how the case is dumped
    env: Mapping[str, str] = field(default_factory=dict)  # of this run, beside the program's own
    #: Folders that are made for the run: arguments of `open_files`.
    folders: tuple[tuple[Path, Mapping[str, Path], Callable[[bytes], bytes] | None], ...] = ()
    memory: int | None = None  # bytes that the program may allocate, where that can be limited
    wave: int = 0  # jobs of a higher one start when all of the lower ones have ended


@dataclass(frozen=True, kw_only=True)
class DumpResult:
    """The end of one run of a case."""

    folder: Path  # of the dump's files
    stdout: str = ""  # the last bytes
    stderr: str = ""
    seconds: float = 0.0  # of the program's run alone
    findings: tuple[Finding, ...] = ()  # why there is nothing to compare; empty if there is
    #: How the program ended; None if none was started, or nothing says so.
    process_result: process.ProcessResult | None = None
    past_deadline: bool = False  # stopped by the run's deadline, which says nothing about it
    #: As the program had ended; None if none was run here
    snapshot: dump_folder.Snapshot | None = None

    @classmethod
    def fail(
        cls, folder: Path, code: str, message: str, where: Location | None = None
    ) -> DumpResult:
        """Return the result of a run that left nothing to compare."""
        return cls(folder=folder, findings=(make_error(code, message, where),))


def run_job(job: Job, *, deadline: float | None = None) -> DumpResult:
    """Run one case into its folder before ``deadline``; every way of ending is in the findings."""

    def fail(code: str, message: str) -> DumpResult:
        return DumpResult.fail(job.output_dir, code, message, job.where)

    # Files of an earlier run, or of another case, must not count.
    try:
        job.output_dir.mkdir(parents=True, exist_ok=True)
        reason = "is not empty" if any(job.output_dir.iterdir()) else ""
    except OSError as error:
        reason = f"cannot be made: {error.strerror}"
    if reason:
        return fail(
            "output-not-empty", f"The output folder {job.output_dir.as_posix()!r} {reason}."
        )
    seconds = process.limit_timeout(job.timeout, deadline)
    if seconds <= 0:
        return fail("dump-timeout", "The dump was not started: the run's deadline had passed.")
    try:
        with ExitStack() as stack:
            for folder in job.folders:
                stack.enter_context(dump_folder.open_files(*folder))
            result = process.run(
                (*job.program.argv, *job.args),
                cwd=job.program.cwd,
                env={**job.program.env, **job.env},
                timeout=seconds,
                stdout_limit=STDOUT_LIMIT,
                memory=job.memory,
            )
    except dump_folder.DumpFileError as error:
        reason = f"There is no state to load: the one that was saved {error}."
        return fail("state-missing", reason)
    except OSError as error:
        reason = f"The extra files could not be put into {{files_dir}}: {error.strerror}."
        return fail("dump-not-started", reason)
    except process.NotStartedError as error:
        return fail("dump-not-started", f"The dump could not be started: {error}.")
    return _make_result(job, result, seconds)


def _make_result(job: Job, result: process.ProcessResult, seconds: float) -> DumpResult:
    too_deep = dump_folder.remove_deep_folders(job.output_dir)
    cut_short = seconds < job.timeout
    reason = f"it reached its limit of {job.timeout:g} seconds (timeout)"
    if cut_short:
        reason = f"the run's deadline passed after {seconds:.1f} seconds"
    findings = explain_exit(
        result,
        has_output=dump_folder.has_file(job.output_dir),
        timeout_reason=reason,
        repo=job.repo,
        cwd=Path(job.program.env.get("CARGO_MANIFEST_DIR") or job.program.cwd),
        where=job.where,
    )
    if too_deep and not findings:
        findings = (make_error("dump-too-deep", TOO_DEEP, job.where),)
    return DumpResult(
        folder=job.output_dir,
        stdout=result.stdout,
        stderr=result.stderr,
        seconds=result.seconds,
        findings=findings,
        process_result=result,
        past_deadline=result.timed_out and cut_short,
        snapshot=dump_folder.take_snapshot(job.output_dir),
    )


def run_jobs(
    jobs: Sequence[Job],
    *,
    workers: int | None = None,
    deadline: float | None = None,
    on_end: Callable[[], None] = lambda: None,
) -> list[DumpResult]:
    """Run ``workers`` cases at a time, by default one a processor; return results in their order.

    No two share a folder, and none starts after ``deadline`` (by ``time.monotonic``). ``on_end`` is
    called in any thread as each program has ended. All have ended when this returns or raises, also
    after Ctrl-C. A dump that changed after its own program had ended is a finding: another case's
    program wrote into it.
    """
    from concurrent.futures import Future, ThreadPoolExecutor, wait  # slow to import

    futures: dict[int, Future[DumpResult]] = {}
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        try:
            for wave in sorted({job.wave for job in jobs}):
                chosen = [number for number, job in enumerate(jobs) if job.wave == wave]
                for number in chosen:
                    futures[number] = pool.submit(run_job, jobs[number], deadline=deadline)
                    futures[number].add_done_callback(lambda _future: on_end())
                for number in chosen:
                    futures[number].result()
        except BaseException:
            # Nothing more starts; a start that races with this is stopped by a later round.
            for future in futures.values():
                future.cancel()
            for _ in range(_STOP_ROUNDS):
                process.stop_all()
                if not wait(futures.values(), timeout=0.1).not_done:
                    break
            raise
    results = [futures[number].result() for number in range(len(jobs))]
    message = (
        "The dump changed after its program had ended, so it is not this case's own. "
        "Write into {output_dir} only."
    )
    for at, (job, result) in enumerate(zip(jobs, results, strict=True)):
        if not result.findings and dump_folder.take_snapshot(result.folder) != result.snapshot:
            changed = make_error("dump-changed", message, job.where)
            results[at] = replace(result, findings=(changed,))
    return results


def resolve_command(dump: Dump, repo: Path) -> Program:
    """Return the program of ``dump.command``, which has its arguments behind it.

    Raises:
        DumpError: ``dump-not-started``, if the caller's PATH has no such program.
    """
    command = dump.command or ("",)
    name = command[0]
    env = process.build_environment(dump.env, pass_env=dump.pass_env)
    cwd = (repo / dump.cwd).resolve()
    program = process.find_program(name, env.get("PATH", ""), cwd)
    if program is None:
        message = f"The dump could not be started: {name!r} was not found, or is not executable."
        raise DumpError(Problem("dump-not-started", message, dump.where.get("command")))
    from parity.port.cargo import Program

    return Program((program,), cwd, env, None, {"command": shlex.join(command)})


def expand_placeholders(
    args: Sequence[str], values: Mapping[str, str], where: Location | None = None
) -> tuple[str, ...]:
    """Return the arguments with placeholders replaced; ``{{`` and ``}}`` stand for braces.

    Raises:
        ConfigError: ``placeholder``, for a name that ``values`` lacks or a lone brace.
    """

    def resolve(match: re.Match[str]) -> str:
        text = match[0]
        if text in ("{{", "}}"):
            return text[0]
        if match[1] in values:
            return values[match[1]]
        allowed = ", ".join(f"{{{name}}}" for name in sorted(values))
        what = f"{text!r} in {match.string!r} is not a placeholder of this case"
        raise ConfigError(Problem("placeholder", f"{what}; allowed: {allowed}.", where))

    return tuple(BRACES.sub(resolve, arg) for arg in args)


def find_json_line(stdout: str) -> dict[str, Any] | None:
    """Return the last line of ``stdout`` that is a JSON object, or None."""
    objects = map(output.parse_json_object, reversed(stdout[-STDOUT_LIMIT:].split("\n")))
    return next((value for value in objects if value is not None), None)
