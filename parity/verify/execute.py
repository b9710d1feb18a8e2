"""Execute one bundle: build the port, run its cases, evaluate the dumps."""

from __future__ import annotations

import hashlib
import shlex
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import escape
from pathlib import Path
from typing import Any, Protocol

from parity.errors import DumpError, Location
from parity.github import choose_command_prefix, display_path
from parity.lockfile import Dump
from parity.port import cargo
from parity.port.cargo import Program
from parity.port.dump_folder import remove_tree
from parity.port.outcome_json import load_dump
from parity.port.run import DumpResult, Job, expand_placeholders, resolve_command, run_jobs
from parity.reports.console import RunConsole
from parity.results import BundleResult, CaseResult, Finding
from parity.store.store import Store
from parity.suites.base import Case
from parity.verify import claims, fixture_aliases
from parity.verify.evaluate import CaseEvaluator
from parity.verify.options import VerifyOptions
from parity.verify.prepare import PreparedBundle

#: Limits of a case that states what it expects. Its checkpoint is tiny: a reader that takes
#: longer, or more memory, trusts numbers in the file instead of its size.
EXPECT_SECONDS = 10.0
EXPECT_BYTES = 2**30


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """The parameters of a run beside the bundle."""

    options: VerifyOptions
    console: RunConsole
    outputs: Path  # folder for the dumps, `<bundle>/<case>` below it
    deadline: float | None  # end of the run, in seconds of `time.monotonic`


def run_cases(prepared: PreparedBundle, base: BundleResult, context: RunContext) -> BundleResult:
    """Run and evaluate the chosen cases of one bundle."""
    sources: dict[str, Path] = {}

    def source(case: Case) -> Location | None:
        file = sources.get(case.id)
        return Location(file) if file else _locate_program(prepared.bundle.find_dump(case.id))

    evaluator = CaseEvaluator(
        prepared,
        lambda case, control: _format_case_command(prepared, case, control, context.options),
        source,
    )
    if (dumps := context.options.dumps) is not None:
        port = {"dumps": display_path(dumps)}
        for case in prepared.cases:
            evaluator.add(case, load_dump(dumps, prepared.bundle.id, case.id))
    else:
        with fixture_aliases.open_alias_folder(prepared.bundle) as alias_folder:
            port, built = run_dumps(prepared, evaluator, context, sources, alias_folder)
            base = replace(base, seconds={**base.seconds, "build": built})
    cases = evaluator.finish_results(context.console.print_case)
    if dumps is None:
        _remove_green_dumps(context.outputs / prepared.bundle.id, cases)
    run = {case.case for case in cases}
    rest = [
        claims.build_unclaimed(base.bundle, name) for name in prepared.unclaimed if name not in run
    ]
    found = (*base.findings, *evaluator.list_bundle_findings())
    return replace(base, port=port, cases=(*cases, *rest), findings=found)


def _remove_green_dumps(folder: Path, cases: Iterable[CaseResult]) -> None:
    """Remove the dumps of all runs of cases that did not fail."""
    for case in cases:
        if case.verdict not in ("fail", "error"):
            for dump in (folder / case.case, *folder.glob(f"{escape(case.case)}@*")):
                remove_tree(dump)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


@dataclass(frozen=True)
class _BuildResult:
    program: Program | None
    args: tuple[str, ...] | None = None  # of a command
    findings: tuple[Finding, ...] = ()


class DumpSink(Protocol):
    """Receives each dump as it is made."""

    def add(self, case: Case, dump_run: DumpResult) -> None:
        """Receive one run of a case."""


def run_dumps(
    prepared: PreparedBundle,
    sink: DumpSink,
    context: RunContext,
    sources: dict[str, Path],
    alias_folder: Path | None,
) -> tuple[dict[str, str], float]:
    """Build the programs and run the chosen cases of a bundle.

    Args:
        prepared: The bundle.
        sink: Receives the dumps.
        context: The parameters of the run.
        sources: Receives the source file of each case's program, if known.
        alias_folder: Folder for aliased checkpoints, if the bundle needs one.

    Returns:
        The port (crate, package and commit, or command), and the seconds of all builds.
    """
    builds: dict[Hashable, _BuildResult] = {}
    jobs: list[tuple[Case, Job]] = []
    seconds = 0.0
    for case in prepared.cases:
        dump = prepared.bundle.find_dump(case.id)
        started = time.perf_counter()
        build = _build_program(prepared, case, dump, builds, context)
        seconds += time.perf_counter() - started
        if build.program is None:
            folder = context.outputs / prepared.bundle.id / case.id
            sink.add(case, DumpResult(folder=folder, findings=build.findings))
            continue
        if build.program.source:
            sources[case.id] = build.program.source
        aliases = fixture_aliases.build_placeholders(prepared.bundle, case, alias_folder)
        args = dump.args if build.args is None else build.args
        options: dict[str, Any] = {"program": build.program, "args": args, "aliases": aliases}
        runs = range(1, context.options.repeat + 1)
        jobs += [(case, _build_job(prepared, case, context, **options, run=run)) for run in runs]
    results = run_jobs(
        [job for _, job in jobs],
        workers=context.options.jobs,
        deadline=context.deadline,
        on_end=context.console.show_cases(prepared.bundle.id, len(jobs)),
    )
    # Not before all have ended: a port could change or cut a file while it is compared.
    for (case, _), result in zip(jobs, results, strict=True):
        sink.add(case, result)
    return next((dict(b.program.port) for b in builds.values() if b.program), {}), seconds


def _build_program(
    prepared: PreparedBundle,
    case: Case,
    dump: Dump,
    builds: dict[Hashable, _BuildResult],
    context: RunContext,
) -> _BuildResult:
    """Return the program of a case, built at most once; a failure is kept for all its cases."""
    example = ""
    key: Hashable = (dump.command, dump.cwd, tuple(dump.env.items()), dump.pass_env)
    if dump.command is None:
        (example,) = expand_placeholders(
            [dump.example or ""], _build_placeholders(prepared, case), _locate_program(dump)
        )
        key = cargo.make_build_key(dump, example)
    if key not in builds:
        try:
            builds[key] = _build_port(dump, example, context)
        except DumpError as error:
            found = tuple(Finding.from_problem(problem, "dump") for problem in error.problems)
            builds[key] = _BuildResult(None, findings=found)
    return builds[key]


def _build_port(dump: Dump, example: str, context: RunContext) -> _BuildResult:
    options = context.options
    if dump.command is not None:
        return _BuildResult(*resolve_command(dump, options.repo))
    say = context.console.show_build(f"{dump.package or dump.crate} example {example}")
    program = cargo.build_program(
        dump,
        example,
        repo=options.repo,
        toolchain=options.toolchain,
        cargo_args=tuple(options.cargo_args),
        offline=options.offline,
        crates=Store.from_environment().root / "crates",
        deadline=context.deadline,
        on_progress=say,
    )
    return _BuildResult(program)


def _build_job(
    prepared: PreparedBundle,
    case: Case,
    context: RunContext,
    *,
    program: Program,
    args: Sequence[str] | None,
    aliases: Mapping[str, str],
    run: int,
) -> Job:
    dump = prepared.bundle.find_dump(case.id)
    where = _locate_program(dump)
    name = case.id if run == 1 else f"{case.id}@{run}"
    folder = context.outputs / prepared.bundle.id / name
    values = {**_build_placeholders(prepared, case), **aliases, "output_dir": str(folder)}
    files_dir = _choose_files_dir(prepared, dump, args, folder, context)
    values["files_dir"] = str(files_dir or "")
    variables = expand_placeholders(list(dump.run_env.values()), values, where)
    return Job(
        name=name,
        program=program,
        args=expand_placeholders(prepared.suite.args if args is None else args, values, where),
        output_dir=folder,
        timeout=_choose_timeout(case, dump),
        repo=context.options.repo,
        where=where,
        env=dict(zip(dump.run_env, variables, strict=True)),
        files=prepared.files,
        files_dir=files_dir,
        memory=EXPECT_BYTES if case.expect else None,
    )


def _choose_files_dir(
    prepared: PreparedBundle,
    dump: Dump,
    args: Sequence[str] | None,
    folder: Path,
    context: RunContext,
) -> Path | None:
    """Return a folder of its own for a run that uses ``{files_dir}``, outside of its dump."""
    if not any("{files_dir}" in text for text in (*(args or ()), *dump.run_env.values())):
        return None
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    return context.outputs / f".files-{prepared.bundle.id}-{name}"


def _choose_timeout(case: Case, dump: Dump) -> float:
    """Return the lockfile's timeout in seconds, else a short one if the case states `expect`."""
    is_short = case.expect and "timeout" not in dump.where
    return min(dump.timeout, EXPECT_SECONDS) if is_short else dump.timeout


def _build_placeholders(prepared: PreparedBundle, case: Case) -> dict[str, str]:
    return {
        **case.placeholders,
        "case": case.id,
        "fixture_dir": str(case.folder),
        "bundle_dir": str(prepared.tree),
    }


def _locate_program(dump: Dump) -> Any:
    return next((dump.where[k] for k in ("example", "crate", "command") if k in dump.where), None)


def format_rerun_command(options: VerifyOptions) -> str:
    """Return the command that repeats the run."""
    chosen = [("--bundle", name) for name in options.bundles]
    chosen += [("--case", glob) for glob in options.cases]
    return shlex.join([*_build_args(options), *(word for pair in chosen for word in pair)])


def _format_case_command(
    prepared: PreparedBundle, case: Case, control: str, options: VerifyOptions
) -> str:
    """Return the command that repeats one case and its control."""
    args = _build_args(options)
    for name in (control, case.id):
        args += ["--case", f"{prepared.bundle.id}/{name}"] if name else []
    return shlex.join(args)


def _build_args(options: VerifyOptions) -> list[str]:
    args = [*choose_command_prefix(), *options.format_place()]
    if options.dumps is not None:
        args += ["--dumps", display_path(options.dumps)]
    if options.toolchain:
        args += ["--toolchain", options.toolchain]
    if options.repeat > 1:
        args += ["--repeat", str(options.repeat)]
    return args + [f"--cargo-args={argument}" for argument in options.cargo_args]
