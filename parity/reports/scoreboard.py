"""Several ports on one bundle as one table: a row a case, a column a port or a reference reader."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from parity.reports import wording

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from parity.results import BundleResult, CaseResult, Report

Tone = Literal["good", "mild", "bad", "dead", "none"]

#: Code of the finding that says where references do not agree.
DISPUTED = "disputed"
NOT_SHOWN, NOT_ASKED = "not shown", "not asked"
#: Reasons that begin like this speak of the dump program, not of the port behind it.
OF_THE_EXAMPLE = "the example"
_DEAD = ("panicked", "crashed", "hung", "out-of-memory")
_OWED = {
    "load": "to be loaded",
    "refuse": "to be refused",
    "either": "to be loaded right or refused",
}
#: Lines of the totals, in the order in which they are told.
TOTALS = (
    *("right", "refused, as is due", "refused, though due to load", "partial", "wrong"),
    *("accepted", "panicked", "crashed", "hung", "out-of-memory", NOT_SHOWN, NOT_ASKED),
)


@dataclass(frozen=True)
class Cell:
    """What one port made of one case.

    Attributes:
        word: How it ended.
        tone: How bad that is; ``mild`` is a refusal of what must be loaded.
        case: The result behind it, None where the port was not asked.
    """

    word: str
    tone: Tone
    case: CaseResult | None = None


@dataclass(frozen=True)
class Row:
    """One case: its id, what it is, and a cell for each port."""

    case: str
    why: str
    cells: tuple[Cell, ...]

    @property
    def dispute(self) -> str:
        """Where reference readers and the rule do not agree on it, as their reports say."""
        results = [cell.case for cell in self.cells if cell.case is not None]
        found = [one for case in results for one in case.findings if one.code == DISPUTED]
        return found[0].message if found else ""

    @property
    def spotless(self) -> bool:
        """Whether none got it wrong, refused what it must load, or died; nor is it disputed."""
        good = all(cell.tone in ("good", "none") for cell in self.cells)
        return good and not self.dispute


@dataclass(frozen=True)
class Group:
    """Cases of one reader, of which the same is owed."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Port:
    """A column.

    Attributes:
        facts: Crate, package and version, or command; then the machine's facts.
    """

    name: str
    bundle: BundleResult
    report: Report

    @property
    def reference(self) -> bool:
        """Whether it is a reference reader, as `audit` asks it, and no port."""
        return "reader" in self.bundle.port

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What was run, and on what."""
        own = [*self.bundle.port.items(), *self.report.environment.items()]
        return [(str(key), str(value)) for key, value in own]


@dataclass(frozen=True)
class Board:
    """The whole table."""

    bundle: str
    sha256: str
    ports: tuple[Port, ...]
    groups: tuple[Group, ...]

    @property
    def references(self) -> bool:
        """Whether a column is a reference reader's."""
        return any(port.reference for port in self.ports)

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, group by group."""
        return tuple(row for group in self.groups for row in group.rows)

    def totals(self) -> list[tuple[str, tuple[int, ...]]]:
        """How often each port met each end; ends that no port met are left out."""
        columns = [Counter(_total(row.cells[at]) for row in self.rows) for at in _range(self.ports)]
        counts = [(name, tuple(column[name] for column in columns)) for name in TOTALS]
        return [(name, numbers) for name, numbers in counts if any(numbers)]


def _range(ports: Sequence[Port]) -> range:
    return range(len(ports))


def board(reports: Mapping[str, Report], bundle: str = "") -> Board:
    """The table of ``reports``, by the ports' names.

    Raises:
        ValueError: They share no bundle, several, or two states of one.
    """
    name = _common(reports, bundle)
    ports = [Port(port, _of(report, name), report) for port, report in reports.items()]
    digests = {port.bundle.sha256 or "" for port in ports}
    if len(digests) > 1:
        message = f"the reports are of different states of {wording.shown(name)}: " + ", ".join(
            f"{wording.shown(p.name)} of sha256:{(p.bundle.sha256 or '-')[:12]}" for p in ports
        )
        raise ValueError(message)
    return Board(name, digests.pop(), tuple(ports), _groups(ports))


def _of(report: Report, name: str) -> BundleResult:
    return next(bundle for bundle in report.bundles if bundle.bundle == name)


def _common(reports: Mapping[str, Report], wanted: str) -> str:
    """The one bundle that all reports are of."""
    held = [{bundle.bundle: None for bundle in report.bundles} for report in reports.values()]
    common = [name for name in held[0] if all(name in names for names in held)]
    if wanted:
        common = [name for name in common if name == wanted]
    if len(common) == 1:
        return common[0]
    what = f"share {len(common)} bundles, name one with --bundle: " if common else "share no bundle"
    told = ", ".join(map(wording.shown, common))
    message = f"the reports {what}{told}" + (f" {wanted!r:.80}" if wanted else "")
    raise ValueError(message)


def _groups(ports: Sequence[Port]) -> tuple[Group, ...]:
    """Cases in the order of the reports, put together by reader and by what is owed."""
    results = [{case.case: case for case in port.bundle.cases} for port in ports]
    first: dict[str, CaseResult] = {}
    for cases in results:
        first = {**cases, **first}
    titled: dict[str, list[Row]] = {}
    for name, case in first.items():
        cells = tuple(_cell(cases.get(name)) for cases in results)
        titled.setdefault(_title(case), []).append(Row(name, case.why, cells))
    return tuple(Group(title, tuple(rows)) for title, rows in _ordered(titled))


def _ordered(titled: Mapping[str, list[Row]]) -> Iterable[tuple[str, list[Row]]]:
    return sorted(titled.items(), key=lambda item: item[0].partition(",")[0])


def _title(case: CaseResult) -> str:
    owed = _OWED.get(case.expect, "")
    return ", ".join(part for part in (case.group if owed else "", owed) if part)


def _cell(case: CaseResult | None) -> Cell:
    if case is None:
        return Cell(NOT_ASKED, "none")
    word = _word(case)
    return Cell(word, _tone(word, case), case)


def _word(case: CaseResult) -> str:
    """How it ended; not shown where nothing can be said of the port."""
    if case.verdict in ("skipped", "error"):
        return NOT_SHOWN
    if case.outcome == "partial" and case.reason.lower().startswith(OF_THE_EXAMPLE):
        return NOT_SHOWN
    if case.outcome in ("", "right"):
        wrong = [finding for finding in case.errors if finding.code != "known-failure-passes"]
        failing = not case.outcome and case.verdict == "known-failure"
        return "wrong" if wrong or failing else "right"
    return case.outcome


def _tone(word: str, case: CaseResult) -> Tone:
    if word in (NOT_SHOWN, NOT_ASKED):
        return "none"
    if word == "refused":
        return "mild" if case.expect == "load" else "good"
    if word == "right":
        return "good"
    return "dead" if word in _DEAD else "bad"


def _total(cell: Cell) -> str:
    if cell.word == "refused":
        return "refused, though due to load" if cell.tone == "mild" else "refused, as is due"
    return cell.word
