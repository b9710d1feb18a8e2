"""The table: one row for each case, one column for each port or reference reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from parity.results import VERIFIED, BundleResult, CaseResult, Report
from parity.text import sanitize_message
from parity.verify.selection import UNCLAIMED

Tone = Literal["good", "mild", "bad", "dead", "none"]

DISPUTED = "disputed"  # Code of the finding about disagreeing references
#: Code of the finding about integers that a `.bin` dump cannot contain.
UNVERIFIED = "not-verified"
NOT_SHOWN, NOT_RUN = "not shown", "not run"
NOT_SUPPORTED = "not-supported"  # An outcome
#: A reason that begins like this is about the dump program, not about the port.
EXAMPLE_REASON = "the example"
DEAD = ("panicked", "crashed", "hung", "out-of-memory")
_EXPECTATION_TEXT = {
    "load": "must be loaded",
    "refuse": "must be rejected",
    "either": "may be loaded or rejected",
}
_REJECTED, _REJECTED_WRONGLY = "refused, as expected", "refused, must be loaded"
#: Labels of the totals, in order.
TOTALS = (
    *("right", _REJECTED, _REJECTED_WRONGLY, "partial", "wrong"),
    *("accepted", *DEAD, NOT_SUPPORTED, NOT_SHOWN, NOT_RUN),
)


@dataclass(frozen=True)
class Cell:
    """The result of one port on one case: its outcome in a word or two, and how bad it is."""

    word: str
    tone: Tone  # ``mild`` is a rejection of a file that must be loaded
    case: CaseResult | None = None  # The complete result, None if the port was not run


@dataclass(frozen=True)
class Row:
    """One case: its id, its description, and a cell for each port."""

    case: str
    why: str
    cells: tuple[Cell, ...]

    @property
    def dispute(self) -> str:
        """Message about disagreeing reference readers, empty if they agree."""
        results = [cell.case for cell in self.cells if cell.case is not None]
        found = [one for case in results for one in case.findings if one.code == DISPUTED]
        return found[0].message if found else ""

    @property
    def is_clean(self) -> bool:
        """True if every port is right, and the references agree."""
        good = all(cell.tone in ("good", "none") for cell in self.cells)
        return good and not self.dispute


@dataclass(frozen=True)
class Group:
    """Cases of one reader with the same expected outcome."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class PortColumn:
    """One port or reference reader, with its report."""

    name: str
    bundle: BundleResult
    report: Report

    @property
    def is_reference(self) -> bool:
        """True for a reference reader, run by ``audit``."""
        return "reader" in self.bundle.port

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Crate, package and version, or command; then the facts of the machine."""
        own = [*self.bundle.port.items(), *self.report.environment.items()]
        return [(str(key), str(value)) for key, value in own]


@dataclass(frozen=True)
class Scoreboard:
    """The whole table."""

    bundle: str
    sha256: str
    ports: tuple[PortColumn, ...]
    groups: tuple[Group, ...]
    by_group: bool = False  # A row is a group of cases, such as an operator

    @property
    def has_references(self) -> bool:
        """True if a column is a reference reader's."""
        return any(port.is_reference for port in self.ports)

    @property
    def rows(self) -> tuple[Row, ...]:
        """Rows of all groups."""
        return tuple(row for group in self.groups for row in group.rows)

    def count_totals(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return the number of cases by label and port, without labels that no port has."""
        columns = [
            Counter(_choose_total(row.cells[at]) for row in self.rows)
            for at in range(len(self.ports))
        ]
        counts = [(name, tuple(column[name] for column in columns)) for name in TOTALS]
        return [(name, numbers) for name, numbers in counts if any(numbers)]


def list_common_bundles(reports: Sequence[Report], chosen: str = "") -> list[str]:
    """List the bundles that all reports have, or ``chosen`` alone.

    Raises:
        ValueError: There is none.
    """
    names = [[bundle.bundle for bundle in report.bundles] for report in reports]
    common = [one for one in dict.fromkeys(names[0]) if all(one in listed for listed in names)]
    common = [one for one in common if chosen in ("", one)]
    if not common:
        message = "the reports have no bundle in common" + (f" named {chosen!r}" if chosen else "")
        raise ValueError(sanitize_message(message))
    return common


def build_scoreboard(
    reports: Mapping[str, Report], bundle: str = "", *, by_group: bool = False
) -> Scoreboard:
    """Build the scoreboard of a bundle, by default the first that all ``reports``, by port, have.

    Raises:
        ValueError: They have no such bundle in common, or two states of it.
    """
    (name, *_) = list_common_bundles(list(reports.values()), bundle)
    ports = [
        PortColumn(port, next(one for one in report.bundles if one.bundle == name), report)
        for port, report in reports.items()
    ]
    digests = {port.bundle.sha256 or "" for port in ports}
    if len(digests) > 1:
        states = [f"{port.name} has sha256:{(port.bundle.sha256 or '-')[:12]}" for port in ports]
        message = f"the reports are of different states of {name}: {', '.join(states)}"
        raise ValueError(sanitize_message(message))
    return Scoreboard(name, digests.pop(), tuple(ports), _group_cases(ports), by_group)


def _group_cases(ports: Sequence[PortColumn]) -> tuple[Group, ...]:
    """Group cases by reader and expected outcome, in the order of the reports."""
    results = [{case.case: case for case in port.bundle.cases} for port in ports]
    first: dict[str, CaseResult] = {}
    for cases in results:
        first = {**cases, **first}
    by_title: dict[str, list[Row]] = {}
    for name, case in first.items():
        cells = tuple(_make_cell(cases.get(name)) for cases in results)
        by_title.setdefault(_format_title(case), []).append(Row(name, case.why, cells))
    groups = sorted(by_title.items(), key=lambda item: item[0].partition(",")[0])
    return tuple(Group(title, tuple(rows)) for title, rows in groups)


def _format_title(case: CaseResult) -> str:
    expectation = _EXPECTATION_TEXT.get(case.expect, "")
    return ", ".join(part for part in (case.group if expectation else "", expectation) if part)


def _make_cell(case: CaseResult | None) -> Cell:
    if case is None:
        return Cell(NOT_RUN, "none")
    word = _choose_word(case)
    return Cell(word, _choose_tone(word, case), case)


def _choose_word(case: CaseResult) -> str:
    """Return the outcome in one word; ``not shown`` if the result says nothing about the port."""
    by_example = case.outcome == "partial" and case.reason.lower().startswith(EXAMPLE_REASON)
    # What a port does not claim may have been run for information.
    verdict = case.reason.removeprefix(UNCLAIMED) if case.verdict == "skipped" else case.verdict
    is_unknown = verdict not in VERIFIED or by_example
    if is_unknown or (not case.outcome and _is_unverified(case)):
        return NOT_SHOWN
    if case.outcome in ("", "right"):
        wrong = [finding for finding in case.errors if finding.code != "known-failure-passes"]
        failing = not case.outcome and verdict == "known-failure"
        failing |= case.verdict == "skipped" and verdict == "fail"
        return "wrong" if wrong or failing else "right"
    return case.outcome


def _is_unverified(case: CaseResult) -> bool:
    """Return whether the dump's format cannot contain the values, and nothing else is wrong."""
    codes = {finding.code for finding in case.errors}
    return codes <= {UNVERIFIED} and any(finding.code == UNVERIFIED for finding in case.findings)


def _choose_tone(word: str, case: CaseResult) -> Tone:
    if word in (NOT_SHOWN, NOT_RUN, NOT_SUPPORTED):
        return "none"
    if word == "refused":
        return "mild" if case.expect == "load" else "good"
    if word == "right":
        return "good"
    return "dead" if word in DEAD else "bad"


def _choose_total(cell: Cell) -> str:
    if cell.word == "refused":
        return _REJECTED_WRONGLY if cell.tone == "mild" else _REJECTED
    return cell.word
