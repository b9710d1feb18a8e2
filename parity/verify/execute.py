"""Execute one bundle: build the port, run its cases, evaluate the dumps."""

from __future__ import annotations

import hashlib
import shlex
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity.bundle.layout import DAMAGES
from parity.errors import DumpError, Location
from parity.github import choose_command_prefix, display_path
from parity.lockfile import Dump
from parity.port.dump_folder import STATE_FILE, remove_tree
from parity.port.outcome_json import load_dump
from parity.port.run import DumpResult, Job, expand_placeholders, resolve_command, run_jobs
from parity.reports.console import RunConsole
from parity.results import BundleResult, CaseResult, Finding
from parity.store.store import Store
from parity.suites.base import Case
from parity.verify import fixture_aliases, selection
from parity.verify.evaluate import CaseEvaluator
from parity.verify.options import VerifyOptions
from parity.verify.prepare import PreparedBundle

if TYPE_CHECKING:
    from parity.port.cargo import Program

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

    rerun = format_rerun_command(replace(context.options, bundles=(), cases=()))

    def format_command(case: Case, control: str) -> str:
        names = [f"{prepared.bundle.id}/{name}" for name in (control, case.id) if name]
        return " ".join([rerun, *(f"--case {shlex.quote(name)}" for name in names)])

    evaluator = CaseEvaluator(prepared, format_command, source)
    if (dumps := context.options.dumps) is not None:
        port = {"dumps": display_path(dumps)}
        for case in prepared.cases:
            evaluator.add(case, load_dump(dumps, prepared.bundle.id, case.id))
    else:
        port, built = run_dumps(prepared, evaluator.add, context, sources)
        base = replace(base, seconds={**base.seconds, "build": built})
    cases = evaluator.finish_results(context.console.print_case)
    if dumps is None:
        _remove_green_dumps(context.outputs / prepared.bundle.id, cases)
    run = {case.case for case in cases}
    rest = [
        CaseResult(bundle=base.bundle, case=name, verdict="skipped", reason=selection.REASON)
        for name in prepared.unclaimed
        if name not in run
    ]
    found = (*base.findings, *evaluator.known_failures.find_unused())
    return replace(base, port=port, cases=(*cases, *rest), findings=found)


def _remove_green_dumps(folder: Path, cases: Iterable[CaseResult]) -> None:
    """Remove the dumps of all runs of cases that did not fail."""
    for case in cases:
        if case.verdict not in ("fail", "error"):
            for dump in (folder / case.case, *folder.glob(f"{escape(case.case)}@*")):
                remove_tree(dump)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def run_dumps(
    prepared: PreparedBundle,
    add: Callable[[Case, DumpResult], object],
    context: RunContext,
    sources: dict[str, Path],
    builds: dict[Hashable, Program | tuple[Finding, ...]] | None = None,
) -> tuple[dict[str, str], float]:
    """Build the programs and run the chosen cases of a bundle.

    ``add`` is called with each run of a case; ``sources`` receives the source file of each case's
    program, if known; ``builds`` keeps the programs for another call. Return the port (crate,
    package and commit, or command), and the seconds of all builds.
    """
    builds = {} if builds is None else builds
    jobs: list[tuple[Case, Job]] = []
    seconds, runs = 0.0, range(1, context.options.repeat + 1)
    with fixture_aliases.open_alias_folder(prepared.bundle) as alias_folder:
        for case in prepared.cases:
            started = time.perf_counter()
            program = _build_program(prepared, case, builds, context)
            seconds += time.perf_counter() - started
            if isinstance(program, tuple):
                folder = context.outputs / prepared.bundle.id / case.id
                add(case, DumpResult(folder=folder, findings=program))
                continue
            if program.source:
                sources[case.id] = program.source
            aliases = fixture_aliases.build_placeholders(prepared.bundle, case, alias_folder)
            make_job = partial(_build_job, prepared, case, context, program, aliases)
            jobs += [(case, make_job(run=run)) for run in runs]
        results = run_jobs(
            [job for _, job in jobs],
            workers=context.options.jobs,
            deadline=context.deadline,
            on_end=context.console.show_cases(prepared.bundle.id, len(jobs)),
        )
    # Not before all have ended: a port could change or cut a file while it is compared.
    for (case, _), result in zip(jobs, results, strict=True):
        add(case, result)
    built = (program for program in builds.values() if not isinstance(program, tuple))
    return next((dict(program.port) for program in built), {}), seconds


def _build_program(
    prepared: PreparedBundle,
    case: Case,
    builds: dict[Hashable, Program | tuple[Finding, ...]],
    context: RunContext,
) -> Program | tuple[Finding, ...]:
    """Return the program of a case, built at most once; a failure is kept for all its cases."""
    dump, example = prepared.bundle.find_dump(case.id), ""
    key: Hashable = (dump.command, dump.cwd, tuple(dump.env.items()), dump.pass_env)
    if dump.command is None:
        from parity.port import cargo

        (example,) = expand_placeholders(
            [dump.example or ""], _build_placeholders(prepared, case), _locate_program(dump)
        )
        key = cargo.make_build_key(dump, example)
    if key not in builds:
        try:
            builds[key] = _build_port(dump, example, context)
        except DumpError as error:
            builds[key] = tuple(Finding.from_problem(one, "dump") for one in error.problems)
    return builds[key]


def _build_port(dump: Dump, example: str, context: RunContext) -> Program:
    options = context.options
    if dump.command is not None:
        return resolve_command(dump, options.repo)
    from parity.port import cargo

    return cargo.build_program(
        dump,
        example,
        repo=options.repo,
        toolchain=options.toolchain,
        cargo_args=tuple(options.cargo_args),
        offline=options.offline,
        crates=Store.from_environment().root / "crates",
        deadline=context.deadline,
        on_progress=context.console.show_build(f"{dump.package or dump.crate} example {example}"),
    )


def _build_job(
    prepared: PreparedBundle,
    case: Case,
    context: RunContext,
    program: Program,
    aliases: Mapping[str, str],
    *,
    run: int,
) -> Job:
    dump = prepared.bundle.find_dump(case.id)
    where = _locate_program(dump)
    suffix = "" if run == 1 else f"@{run}"
    outputs = context.outputs / prepared.bundle.id
    folder = outputs / f"{case.id}{suffix}"
    values = {**_build_placeholders(prepared, case), **aliases, "output_dir": str(folder)}
    # Outside of the dump.
    key = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    files_dir, state_dir = (
        context.outputs / f".{name}-{prepared.bundle.id}-{key}" for name in ("files", "state")
    )
    values["files_dir"] = str(files_dir)
    if case.saves:
        values["save_state"] = str(folder / STATE_FILE)
    if case.load_from:
        values["load_state"] = str(state_dir / STATE_FILE)
    stated = dump.args if dump.command is None else dump.command[1:]
    args = prepared.suite.list_args(values, stated)
    folders: list[Any] = []
    if any("{files_dir}" in text for text in (*args, *dump.run_env.values())):
        folders.append((files_dir, prepared.files, None))
    if case.load_from:
        state = outputs / f"{case.load_from}{suffix}" / STATE_FILE
        folders.append((state_dir, {STATE_FILE: state}, DAMAGES.get(case.damage, bytes)))
    variables = expand_placeholders(list(dump.run_env.values()), values, where)
    return Job(
        name=folder.name,
        program=program,
        args=expand_placeholders(args, values, where),
        output_dir=folder,
        timeout=_choose_timeout(case, dump),
        repo=context.options.repo,
        where=where,
        env=dict(zip(dump.run_env, variables, strict=True)),
        folders=tuple(folders),
        wave=len(prepared.list_loaded(case)),
        memory=EXPECT_BYTES if case.expect else None,
    )


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
    args = [*choose_command_prefix(), *options.format_place()]
    if options.dumps is not None:
        args += ["--dumps", display_path(options.dumps)]
    if options.toolchain:
        args += ["--toolchain", options.toolchain]
    if options.repeat > 1:
        args += ["--repeat", str(options.repeat)]
    args += [f"--cargo-args={argument}" for argument in options.cargo_args]
    for flag, names in (("--bundle", options.bundles), ("--case", options.cases)):
        args += [word for name in names for word in (flag, name)]
    return shlex.join(args)
