"""Several ports on one bundle as one table: a row a case, a column a port or a reference reader."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from parity.reports import phrases

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from parity.results import BundleResult, CaseResult, Report

Tone = Literal["good", "mild", "bad", "dead", "none"]

#: Code of the finding that says where references do not agree.
DISPUTED = "disputed"
NOT_SHOWN, NOT_RUN = "not shown", "not asked"
#: Reasons that begin like this speak of the dump program, not of the port behind it.
EXAMPLE_REASON = "the example"
_DEAD = ("panicked", "crashed", "hung", "out-of-memory")
_EXPECTATION_TEXT = {
    "load": "to be loaded",
    "refuse": "to be refused",
    "either": "to be loaded right or refused",
}
#: Lines of the totals, in the order in which they are told.
TOTALS = (
    *("right", "refused, as is due", "refused, though due to load", "partial", "wrong"),
    *("accepted", "panicked", "crashed", "hung", "out-of-memory", NOT_SHOWN, NOT_RUN),
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
    def is_clean(self) -> bool:
        """Whether none got it wrong, refused what it must load, or died; nor is it disputed."""
        good = all(cell.tone in ("good", "none") for cell in self.cells)
        return good and not self.dispute


@dataclass(frozen=True)
class Group:
    """Cases of one reader, of which the same is owed."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class PortColumn:
    """A column.

    Attributes:
        facts: Crate, package and version, or command; then the machine's facts.
    """

    name: str
    bundle: BundleResult
    report: Report

    @property
    def is_reference(self) -> bool:
        """Whether it is a reference reader, as `audit` asks it, and no port."""
        return "reader" in self.bundle.port

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What was run, and on what."""
        own = [*self.bundle.port.items(), *self.report.environment.items()]
        return [(str(key), str(value)) for key, value in own]


@dataclass(frozen=True)
class Scoreboard:
    """The whole table."""

    bundle: str
    sha256: str
    ports: tuple[PortColumn, ...]
    groups: tuple[Group, ...]

    @property
    def has_references(self) -> bool:
        """Whether a column is a reference reader's."""
        return any(port.is_reference for port in self.ports)

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, group by group."""
        return tuple(row for group in self.groups for row in group.rows)

    def totals(self) -> list[tuple[str, tuple[int, ...]]]:
        """How often each port met each end; ends that no port met are left out."""
        columns = [
            Counter(_choose_total(row.cells[at]) for row in self.rows)
            for at in _iterate_columns(self.ports)
        ]
        counts = [(name, tuple(column[name] for column in columns)) for name in TOTALS]
        return [(name, numbers) for name, numbers in counts if any(numbers)]


def _iterate_columns(ports: Sequence[PortColumn]) -> range:
    return range(len(ports))


def build_scoreboard(reports: Mapping[str, Report], bundle: str = "") -> Scoreboard:
    """The table of ``reports``, by the ports' names.

    Raises:
        ValueError: They share no bundle, several, or two states of one.
    """
    name = _find_common_bundle(reports, bundle)
    ports = [
        PortColumn(port, _find_bundle(report, name), report) for port, report in reports.items()
    ]
    digests = {port.bundle.sha256 or "" for port in ports}
    if len(digests) > 1:
        message = (
            f"the reports are of different states of {phrases.sanitize_message(name)}: "
            + ", ".join(
                f"{phrases.sanitize_message(p.name)} of sha256:{(p.bundle.sha256 or '-')[:12]}"
                for p in ports
            )
        )
        raise ValueError(message)
    return Scoreboard(name, digests.pop(), tuple(ports), _group_cases(ports))


def _find_bundle(report: Report, name: str) -> BundleResult:
    return next(bundle for bundle in report.bundles if bundle.bundle == name)


def _find_common_bundle(reports: Mapping[str, Report], chosen: str) -> str:
    """The one bundle that all reports are of."""
    names_by_report = [
        {bundle.bundle: None for bundle in report.bundles} for report in reports.values()
    ]
    common = [
        name for name in names_by_report[0] if all(name in names for names in names_by_report)
    ]
    if chosen:
        common = [name for name in common if name == chosen]
    if len(common) == 1:
        return common[0]
    what = f"share {len(common)} bundles, name one with --bundle: " if common else "share no bundle"
    listed = ", ".join(map(phrases.sanitize_message, common))
    message = f"the reports {what}{listed}" + (f" {chosen!r:.80}" if chosen else "")
    raise ValueError(message)


def _group_cases(ports: Sequence[PortColumn]) -> tuple[Group, ...]:
    """Cases in the order of the reports, put together by reader and by what is owed."""
    results = [{case.case: case for case in port.bundle.cases} for port in ports]
    first: dict[str, CaseResult] = {}
    for cases in results:
        first = {**cases, **first}
    by_title: dict[str, list[Row]] = {}
    for name, case in first.items():
        cells = tuple(_make_cell(cases.get(name)) for cases in results)
        by_title.setdefault(_format_title(case), []).append(Row(name, case.why, cells))
    return tuple(Group(title, tuple(rows)) for title, rows in _sort_groups(by_title))


def _sort_groups(by_title: Mapping[str, list[Row]]) -> Iterable[tuple[str, list[Row]]]:
    return sorted(by_title.items(), key=lambda item: item[0].partition(",")[0])


def _format_title(case: CaseResult) -> str:
    expectation = _EXPECTATION_TEXT.get(case.expect, "")
    return ", ".join(part for part in (case.group if expectation else "", expectation) if part)


def _make_cell(case: CaseResult | None) -> Cell:
    if case is None:
        return Cell(NOT_RUN, "none")
    word = _choose_word(case)
    return Cell(word, _choose_tone(word, case), case)


def _choose_word(case: CaseResult) -> str:
    """How it ended; not shown where nothing can be said of the port."""
    if case.verdict in ("skipped", "error"):
        return NOT_SHOWN
    if case.outcome == "partial" and case.reason.lower().startswith(EXAMPLE_REASON):
        return NOT_SHOWN
    if case.outcome in ("", "right"):
        wrong = [finding for finding in case.errors if finding.code != "known-failure-passes"]
        failing = not case.outcome and case.verdict == "known-failure"
        return "wrong" if wrong or failing else "right"
    return case.outcome


def _choose_tone(word: str, case: CaseResult) -> Tone:
    if word in (NOT_SHOWN, NOT_RUN):
        return "none"
    if word == "refused":
        return "mild" if case.expect == "load" else "good"
    if word == "right":
        return "good"
    return "dead" if word in _DEAD else "bad"


def _choose_total(cell: Cell) -> str:
    if cell.word == "refused":
        return "refused, though due to load" if cell.tone == "mild" else "refused, as is due"
    return cell.word
