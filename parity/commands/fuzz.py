"""``fuzz``: mutate the cases of a zoo, and pack what a port reads otherwise than the readers."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from parity.commands import reproduce
from parity.commands.selection import choose_bundles, list_ready, prepare_bundles
from parity.errors import ConfigError, ErrorKind, Problem, exit_code_of
from parity.lab.fuzz import campaign
from parity.lab.fuzz.campaign import Budget, Finding, FuzzResult
from parity.lab.fuzz.mutant import Base
from parity.lab.fuzz.trial import Lab, Trial
from parity.port.dump_folder import open_temporary_folder
from parity.reports.console import RunConsole, print_error
from parity.text import align_columns, format_count, join_limited, sanitize_message, truncate
from parity.verify.execute import RunContext
from parity.verify.options import (
    VerifyOptions,
    declare,
    parse_count,
    parse_positive,
    parse_seconds,
)
from parity.verify.prepare import PreparationError, PreparedBundle

_SUITE = "tensors"
_MAX_CAUSE = 90  # Characters of a cause in the table


@dataclass(frozen=True, kw_only=True)
class FuzzOptions(VerifyOptions):
    """The command line of ``fuzz``; ``lockfile`` is that of the port."""

    lockfile: Path = declare("PORT", "the port's lockfile (REPO/fixtures.lock.yaml)", nargs="?")
    seconds: float = declare(
        "--seconds N",
        "time for mutants; shrinking what was found comes after it (60)",
        60.0,
        type=parse_seconds,
    )
    seed: int = declare("--seed S", "of the sequence of mutants (0)", 0, type=parse_count)
    mutants: int | None = declare(
        "--mutants N",
        "number of mutants (default: as many as the time is enough for)",
        None,
        type=parse_positive,
    )
    out: Path = declare(
        "--out DIR",
        "a new or empty folder, for a folder of each finding (%(default)s)",
        default="parity-report/fuzz",
    )

    def format_command(self, mutants: int) -> str:
        """Return the command that tries this many mutants again."""
        place = [word for word in self.format_place() if word != "--lockfile"]
        words = ["python", "-m", "parity", "fuzz", *place]
        words += [word for glob in self.cases for word in ("--case", glob)]
        words += ["--seed", str(self.seed), "--seconds", "3600", "--mutants", str(mutants)]
        return shlex.join([*words, "--out", "NEW-FOLDER"])


def fuzz_port(options: FuzzOptions, console: RunConsole) -> int:
    """Fuzz the port of a lockfile; return 0 without a finding, 1 with one.

    Return 6 if the port and the readers load no case of a format alike, before any mutant or
    among all of them: then nothing was compared.

    Raises:
        ConfigError: The lockfile is invalid, has no zoo or several, or ``out`` is not empty.
        DumpError: The port could not be built or started.
        ReferenceSuspectError: A reference reader does not start, or no longer loads a case.
    """
    reproduce.check_out(options.out)
    prepared = _prepare_zoo(options, console)
    bases = campaign.collect_bases(prepared)
    context = RunContext(options=options, console=console, outputs=Path(), deadline=None)
    with closing(Lab(prepared, context)) as lab:
        return _fuzz(lab, bases, options, console)


def _fuzz(lab: Lab, bases: Sequence[Base], options: FuzzOptions, console: RunConsole) -> int:
    with open_temporary_folder() as folder:
        controls = campaign.try_bases(lab, bases, folder)
    if uncontrolled := campaign.find_uncontrolled(lab, bases):
        _print_nothing(
            f"the port and the readers load no unmutated case of {', '.join(uncontrolled)} alike: "
            "mutants would show nothing; leave the format out with --case, or run `parity verify`"
        )
        return exit_code_of(["empty"])
    _print_controls(lab, controls, console)

    def print_batch(result: FuzzResult) -> None:
        total = sum(result.counts.values(), Counter[str]())
        console.print_step("fuzz", f"{_format_counts(total)}, {result.seconds:.0f} s")

    budget = Budget(options.seed, options.seconds, options.mutants)
    result = campaign.fuzz(lab, controls, budget, print_batch)
    console.print_line(f"shrinking {format_count(len(result.findings), 'findings')}")
    campaign.shrink_findings(lab, result)
    _pack_findings(lab, result, options)
    for line in _format_result(result, options):
        console.print_line(line)
    kinds: list[ErrorKind] = ["mismatch"] if result.findings else []
    if unseen := [group for group, counts in result.counts.items() if not counts["right"]]:
        _print_nothing(
            f"no mutant of {', '.join(unseen)} was loaded by the port and the readers alike, so "
            "no value was compared; run it for longer"
        )
        kinds.append("empty")
    return exit_code_of(kinds)


def _print_nothing(message: str) -> None:
    print_error(ConfigError(Problem("no-control", message)))


def _prepare_zoo(options: FuzzOptions, console: RunConsole) -> PreparedBundle:
    """Prepare the one bundle of the lockfile that has checkpoints to be loaded or rejected."""
    _, chosen = choose_bundles(options)
    prepared = prepare_bundles([one for one in chosen if one.suite == _SUITE], options, console)
    for entry in prepared:
        if isinstance(entry, PreparationError):
            raise entry.error
    zoos = [one for one in list_ready(prepared) if campaign.list_checkpoints(one)]
    if len(zoos) != 1:
        found = ", ".join(one.bundle.id for one in zoos) or "none"
        message = f"fuzz needs one bundle of checkpoints that state `expect`, found {found}"
        raise ConfigError(Problem("usage", f"{message}; choose it with --bundle"))
    return zoos[0]


def _print_controls(lab: Lab, controls: Mapping[str, Trial], console: RunConsole) -> None:
    words = Counter(trial.result.outcome or "not shown" for trial in controls.values())
    port = " ".join(lab.port.values())
    counts = ", ".join(f"{count} {word}" for word, count in words.most_common())
    console.print_bundle(port, f"{format_count(len(controls), 'unmutated cases')}: {counts}")


def _pack_findings(lab: Lab, result: FuzzResult, options: FuzzOptions) -> None:
    """Write a folder of each finding, as ``reproduce`` does."""
    with open_temporary_folder() as folder:

        def pack(name: str, trial: Trial) -> None:
            number = int(trial.mutant.id.partition("-")[0][1:])
            case_run = reproduce.CaseRun(trial.prepared, trial.case, trial.dump_run, lab.port)
            draft = folder / name
            reproduce.write_draft(draft, case_run, options.repo, options.format_command(number))
            reproduce.copy_draft(draft, options.out / name)

        campaign.confirm_findings(lab, result, pack)


def _format_counts(counts: Mapping[str, int]) -> str:
    return (
        f"{format_count(counts['mutants'], 'mutants')}, loaded by the port {counts['loaded']:,}, "
        f"by the readers {counts['readers loaded']:,}, by both alike {counts['right']:,}; "
        f"rejected by the port {counts['refused']:,}, by the readers "
        f"{counts['readers rejected']:,}; undecided {counts['readers undecided']:,}"
    )


def _format_result(result: FuzzResult, options: FuzzOptions) -> Iterator[str]:
    """Yield the table of findings, and the counts."""
    if result.findings:
        rows: list[tuple[str, ...]] = [
            ("folder", "mutants", "cases", "format", "outcome", "what", "changed")
        ]
        rows += [_format_row(number, one) for number, one in enumerate(result.findings, start=1)]
        yield from ("", *map(sanitize_message, align_columns(rows)))
    yield ""
    for group, counts in result.counts.items():
        yield f"{group}: {_format_counts(counts)}"
    total = sum(counts["mutants"] for counts in result.counts.values())
    rate = total / result.seconds * 60 if result.seconds else 0
    text = f"{format_count(total, 'mutants')} of seed {options.seed} in {result.seconds:.0f} s"
    yield f"{text}, {rate:,.0f} a minute"
    if result.known:
        yield f"{format_count(result.known, 'mutants')} with the fault of the unmutated case"
    if result.unrepeated:
        yield f"{format_count(result.unrepeated, 'faults')} not repeated by another run"
    if packed := sum(one.is_packed for one in result.findings):
        where = sanitize_message(options.out.as_posix())
        yield f"{format_count(packed, 'findings')} packed in {where}"


def _format_row(number: int, finding: Finding) -> tuple[str, ...]:
    trial = finding.smallest
    return (
        f"{number:02}" if finding.is_packed else "-",
        f"{finding.mutants:,}",
        join_limited(sorted(finding.bases), 1),
        trial.mutant.base.group,
        trial.word,
        truncate(trial.cause, _MAX_CAUSE),
        truncate(finding.place, _MAX_CAUSE),
    )
