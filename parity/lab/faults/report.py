"""Format the report of ``prove``: a table, unnamed faults and why, undetected faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from parity.lab.faults import Fault
from parity.suites.messages import format_list
from parity.text import align_columns, sanitize_message


@dataclass(frozen=True)
class Detection:
    """The result of one fault in one case: parts of the dump that it changed, or left alone."""

    changed: tuple[str, ...] = ()
    void: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()  # Parts of ``changed`` that were not found wrong
    named: tuple[str, ...] = ()  # Parts of ``changed`` whose cause or finding names the fault
    other_codes: tuple[str, ...] = ()  # Codes that were found instead of its name
    needs: str = ""  # Data that the fault needs and the case does not have

    @property
    def is_caught(self) -> bool:
        """The fault was detected in at least one part of the case."""
        return len(self.missed) < len(self.changed)


@dataclass
class MutationReport:
    """The faults that a bundle detects: ``detections`` by fault and case, and what was skipped."""

    bundle: str
    faults: dict[str, Fault] = field(default_factory=dict)
    detections: dict[str, dict[str, Detection]] = field(default_factory=dict)
    cases: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    allowed: dict[str, str] = field(default_factory=dict)

    def record_fault(self, fault: Fault) -> None:
        """Record a fault; of several cases prefer the one that states why it has no name."""
        known = self.faults.get(fault.name)
        if known is None or fault.why_unnamed:
            self.faults[fault.name] = fault

    @property
    def injected(self) -> list[str]:
        """Names of the faults that changed something in some case."""
        return [
            n for n, row in self.detections.items() if any(cell.changed for cell in row.values())
        ]

    @property
    def missed(self) -> list[str]:
        """Names of the faults that changed something and were caught in no case."""
        cells = self.detections
        return [n for n in self.injected if not any(c.is_caught for c in cells[n].values())]

    @property
    def void(self) -> dict[str, str]:
        """Faults that changed nothing in any case; with the data that all cases lack, or ``""``."""
        rows = {n: [*row.values()] for n, row in self.detections.items()}
        return {
            n: cells[0].needs if all(cell.needs for cell in cells) else ""
            for n, cells in rows.items()
            if not any(cell.changed for cell in cells)
        }


_MAX_COLUMNS = 6  # Maximum number of case columns; with more cases only counts are printed


def print_report(report: MutationReport, line: Callable[[str], None]) -> None:
    """Print the report of a bundle."""
    for text in format_report(report):
        line(sanitize_message(text))


def format_report(report: MutationReport) -> Iterator[str]:
    """Yield the report of a bundle, line by line."""
    yield ""
    yield f"{report.bundle}: faults injected into copies of its references"
    yield from align_columns([*_format_rows(report)])
    yield from _format_left_out(report)
    yield from _format_unnamed(report)
    yield from _format_blind(report)
    for name, why in report.allowed.items():
        yield f"not a fault here: {name}: {why}"
    yield _format_score(report)


def _format_left_out(report: MutationReport) -> Iterator[str]:
    """Yield the skipped cases by reason."""
    reasons: dict[str, list[str]] = {}
    for case, why in report.skipped.items():
        reasons.setdefault(why, []).append(case)
    for why, cases in reasons.items():
        yield f"skipped, {why}: {format_list(cases)}"


def _format_rows(report: MutationReport) -> Iterator[list[str]]:
    is_wide = len(report.cases) <= _MAX_COLUMNS
    heads = report.cases if is_wide else ["named", "caught", "void", "missed", "missed in"]
    yield ["fault", *heads, "what the port does"]
    for name, row in report.detections.items():
        cells = (
            [_format_detection(row.get(case)) for case in report.cases]
            if is_wide
            else _format_counts(row)
        )
        yield [name, *cells, report.faults[name].text]


def _format_detection(detection: Detection | None) -> str:
    if detection is None:
        return "-"
    if not detection.changed:
        return "void"
    count = len(detection.changed)
    if detection.missed:
        return f"MISSED {len(detection.missed)}/{count}"
    return f"named {len(detection.named)}/{count}" if detection.named else f"caught {count}"


def _format_counts(row: dict[str, Detection]) -> list[str]:
    detections = list(row.values())
    named = sum(bool(detection.named) for detection in detections)
    caught = sum(bool(detection.changed) and not detection.missed for detection in detections)
    void = sum(not detection.changed for detection in detections)
    missed = [case for case, detection in row.items() if detection.missed]
    return [*map(str, (named, caught, void, len(missed))), format_list(missed)]


def _format_unnamed(report: MutationReport) -> Iterator[str]:
    """Yield the faults that were caught without their name."""
    rows = []
    for name in report.injected:
        detections = report.detections[name].values()
        caught = [detection for detection in detections if detection.is_caught]
        unnamed = sum(
            len(detection.changed) - len(detection.missed) - len(detection.named)
            for detection in caught
        )
        if unnamed:
            why = report.faults[name].why_unnamed or _explain_other_causes(caught)
            total = sum(len(detection.changed) for detection in caught)
            rows.append(f"  {name}: {unnamed} of {total}: {why}")
    if rows:
        yield "caught, but not by name:"
        yield from rows


def _explain_other_causes(detections: Iterable[Detection]) -> str:
    codes = {code for detection in detections for code in detection.other_codes}
    causes = codes - {"values", "no-simple-cause"}
    if not causes:
        return "too few or too equal values to prove it"
    return f"named {format_list(sorted(causes))} instead, which fits as well"


def _format_blind(report: MutationReport) -> Iterator[str]:
    rows = []
    for name in report.injected:
        for case, detection in report.detections[name].items():
            if detection.missed:
                rows.append(f"  {name} in {case}: {format_list(detection.missed)}")
    if rows:
        yield "not detected by this bundle (the fault changes these, and they pass):"
        yield from rows
    for needs in sorted({*report.void.values()}):
        names = [name for name, lacked in report.void.items() if lacked == needs]
        lacks = f"not applicable, since no case has {needs}" if needs else ""
        what = lacks or "void in every case (it changes nothing, or less than the tolerance)"
        yield f"{len(names)} {what}: {', '.join(names)}"


def _format_score(report: MutationReport) -> str:
    injected, missed = len(report.injected), report.missed
    if not injected:
        return "no fault could be injected: the bundle proves nothing"
    text = f"{injected - len(missed)} of {injected} faults caught"
    return f"{text}; missed: {', '.join(missed)} (exit 7)" if missed else text
