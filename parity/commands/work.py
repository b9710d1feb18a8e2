"""The part of ``verify`` that runs: build, dump, compare, judge the cases of one bundle."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass, replace
from glob import escape
from typing import TYPE_CHECKING, Any, Protocol

from parity import dumps
from parity.commands import presenting, untouched
from parity.commands.judge import Judge
from parity.errors import DumpError, Where
from parity.results import Finding
from parity.runner import as_typed, door

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable
    from pathlib import Path

    from parity.cargo import Program
    from parity.commands.options import VerifyOptions
    from parity.commands.plan import Planned
    from parity.dumps import Dumped, Job
    from parity.lockfile import Dump
    from parity.reports.console import Teller
    from parity.results import BundleResult, CaseResult
    from parity.suites.base import Case


#: Of a case that says what it expects: its checkpoint is tiny, so that a reader which takes
#: longer, or more memory, goes by numbers in the file and not by the file.
EXPECT_SECONDS = 10.0
EXPECT_BYTES = 2**30


@dataclass(frozen=True, kw_only=True)
class Work:
    """What running cases needs beside the bundle.

    Attributes:
        outputs: Folder for the dumps, ``<bundle>/<case>`` below it.
        deadline: End of the run by ``time.monotonic``.
    """

    options: VerifyOptions
    teller: Teller
    outputs: Path
    deadline: float | None


def run_cases(entry: Planned, base: BundleResult, work: Work) -> BundleResult:
    """Dump and judge the chosen cases of one bundle."""
    sources: dict[str, Path] = {}
    touched: Finding | None = None

    def source(case: Case) -> Where | None:
        file = sources.get(case.id)
        return Where(file) if file else _where(entry.bundle.dump_of(case.id))

    judge = Judge(entry, lambda case, control: _command(entry, case, control, work.options), source)
    if work.options.dumps is not None:
        port = {"dumps": work.options.dumps.as_posix()}
        for case in entry.cases:
            folder = work.options.dumps
            judge.add(case, dumps.ready(folder, entry.bundle.id, case.id))
    else:
        before = untouched.state(entry.tree)
        with presenting.folder(entry.bundle) as place:
            port = dump_all(entry, judge, work, sources, place)
        touched = untouched.finding(before, entry.tree)
    work.teller.running(len(entry.cases))
    cases = judge.results(work.teller.case)
    if work.options.dumps is None:
        _clear(work.outputs / entry.bundle.id, cases)
    found = (*base.findings, *judge.bundle_findings(), *([touched] if touched else []))
    return replace(base, port=port, cases=cases, findings=found)


def _clear(folder: Path, cases: Iterable[CaseResult]) -> None:
    """Remove the dumps, of every run, that nobody needs to look at."""
    for case in cases:
        if case.verdict not in ("fail", "error"):
            for dump in (folder / case.case, *folder.glob(f"{escape(case.case)}@*")):
                shutil.rmtree(dump, ignore_errors=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


@dataclass(frozen=True)
class _Built:
    program: Program | None
    words: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def ready(self) -> Program:
        """The program, where there is one."""
        if self.program is None:
            raise DumpError
        return self.program


class Taker(Protocol):
    """Is given each dump as it is made."""

    def add(self, case: Case, dumped: Dumped) -> None:
        """One run of a case."""


def dump_all(
    entry: Planned, judge: Taker, work: Work, sources: dict[str, Path], place: Path | None
) -> dict[str, str]:
    """Build what is needed, and run the chosen cases of a bundle.

    Args:
        entry: The bundle.
        judge: Is given the dumps.
        work: What is asked for.
        sources: Gets the source file of each case's program, where it is known.
        place: Folder for presented checkpoints, if the bundle needs one.

    Returns:
        The port: crate, package and commit, or command.
    """
    built: dict[Hashable, _Built] = {}
    jobs: list[tuple[Case, Job]] = []
    for case in entry.cases:
        dump = entry.bundle.dump_of(case.id)
        program = _program(entry, case, dump, built, work)
        if program.program is None:
            judge.add(case, _not_run(work, entry, case, program.findings))
            continue
        if program.program.source:
            sources[case.id] = program.program.source
        runs = range(1, work.options.repeat + 1)
        jobs += [(case, _job(entry, case, program, work, run=run, place=place)) for run in runs]
    by_name = {job.name: case for case, job in jobs}
    dumps.run_all(
        [job for _, job in jobs],
        workers=work.options.jobs,
        deadline=work.deadline,
        on_done=lambda job, done: judge.add(by_name[job.name], done),
    )
    return next((dict(b.program.port) for b in built.values() if b.program), {})


def _not_run(work: Work, entry: Planned, case: Case, findings: tuple[Finding, ...]) -> Dumped:
    return dumps.Dumped(folder=work.outputs / entry.bundle.id / case.id, findings=findings)


def _program(
    entry: Planned, case: Case, dump: Dump, built: dict[Hashable, _Built], work: Work
) -> _Built:
    """The program of a case, built at most once; a failure stands for all its cases."""
    example = ""
    key: Hashable = (dump.command, dump.cwd, tuple(dump.env.items()))
    if dump.command is None:
        from parity import cargo

        (example,) = dumps.expand([dump.example or ""], _values(entry, case), _where(dump))
        key = cargo.build_key(dump, example)
    if key not in built:
        try:
            built[key] = _build(dump, example, work)
        except DumpError as error:
            found = tuple(Finding.of(problem, "dump") for problem in error.problems)
            built[key] = _Built(None, findings=found)
    return built[key]


def _build(dump: Dump, example: str, work: Work) -> _Built:
    options = work.options
    if dump.command is not None:
        return _Built(*dumps.command(dump, options.repo))
    from parity import cargo
    from parity.fixtures.store import Store

    say = work.teller.building(f"{dump.package or dump.crate} example {example}")
    program = cargo.build(
        dump,
        example,
        repo=options.repo,
        toolchain=options.toolchain,
        cargo_args=tuple(options.cargo_args),
        offline=options.offline,
        crates=Store.default().root / "crates",
        deadline=work.deadline,
        say=say,
    )
    return _Built(program)


def _job(
    entry: Planned, case: Case, built: _Built, work: Work, *, run: int, place: Path | None
) -> Job:
    dump = entry.bundle.dump_of(case.id)
    name = case.id if run == 1 else f"{case.id}@{run}"
    folder = work.outputs / entry.bundle.id / name
    words = built.words if dump.command else dump.args
    presented = presenting.words(entry.bundle, case, place)
    values = {**_values(entry, case), **presented, "output_dir": str(folder)}
    return dumps.Job(
        name=name,
        program=built.ready,
        args=dumps.expand(entry.suite.args if words is None else words, values, _where(dump)),
        output_dir=folder,
        timeout=_seconds(case, dump),
        repo=work.options.repo,
        where=_where(dump),
        memory=EXPECT_BYTES if case.expect else None,
    )


def _seconds(case: Case, dump: Dump) -> float:
    """The timeout that the lockfile states, else a short one for a case that expects something."""
    short = case.expect and "timeout" not in dump.where
    return min(dump.timeout, EXPECT_SECONDS) if short else dump.timeout


def _values(entry: Planned, case: Case) -> dict[str, str]:
    return {
        **case.words,
        "case": case.id,
        "fixture_dir": str(case.folder),
        "bundle_dir": str(entry.tree),
    }


def _where(dump: Dump) -> Any:
    return next((dump.where[k] for k in ("example", "crate", "command") if k in dump.where), None)


def repeated(options: VerifyOptions) -> str:
    """The line that repeats the run."""
    chosen = [("--bundle", name) for name in options.bundles]
    chosen += [("--case", glob) for glob in options.cases]
    return shlex.join([*_words(options), *(word for pair in chosen for word in pair)])


def _command(entry: Planned, case: Case, control: str, options: VerifyOptions) -> str:
    """The line that repeats one case, and the one beside which it counts."""
    words = _words(options)
    for name in (control, case.id):
        words += ["--case", f"{entry.bundle.id}/{name}"] if name else []
    return shlex.join(words)


def _words(options: VerifyOptions) -> list[str]:
    words = door().split()
    if (repo := as_typed(options.repo)) != ".":
        words += ["--repo", repo]
    if options.lockfile != options.repo / "fixtures.lock.yaml":
        words += ["--lockfile", as_typed(options.lockfile)]
    if options.dumps is not None:
        words += ["--dumps", options.dumps.as_posix()]
    if options.toolchain:
        words += ["--toolchain", options.toolchain]
    return words + [f"--cargo-args={argument}" for argument in options.cargo_args]
