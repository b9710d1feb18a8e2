"""What ``prove`` says: a table, what stays unnamed and why, what the bundle cannot see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.reports.wording import shown
from parity.suites.words import listed, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from parity.commands.prove import Cell, Proven

#: Cases that get a column of their own; of more, only counts are told.
_COLUMNS = 6


def tell(proven: Proven, line: Callable[[str], None]) -> None:
    """Say what a bundle can see."""
    for text in lines(proven):
        line(shown(text))


def lines(proven: Proven) -> Iterator[str]:
    """All that is said of a bundle, line by line."""
    yield ""
    yield f"{proven.bundle}: faults planted in copies of its references"
    yield from table([*_rows(proven)])
    yield from _left_out(proven)
    yield from _unnamed(proven)
    yield from _blind(proven)
    for name, why in proven.allowed.items():
        yield f"no fault by what is owed: {name}: {why}"
    yield _score(proven)


def _left_out(proven: Proven) -> Iterator[str]:
    """Cases by the reason why nothing was planted into them."""
    reasons: dict[str, list[str]] = {}
    for case, why in proven.left_out.items():
        reasons.setdefault(why, []).append(case)
    for why, cases in reasons.items():
        yield f"left out, {why}: {listed(cases)}"


def _rows(proven: Proven) -> Iterator[list[str]]:
    wide = len(proven.cases) <= _COLUMNS
    heads = proven.cases if wide else ["named", "caught", "void", "missed", "missed in"]
    yield ["fault", *heads, "what the port does"]
    for name, row in proven.cells.items():
        cells = [_cell(row.get(case)) for case in proven.cases] if wide else _counts(row)
        yield [name, *cells, proven.faults[name].text]


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    if not cell.changed:
        return "void"
    count = len(cell.changed)
    if cell.slipped:
        return f"MISSED {len(cell.slipped)}/{count}"
    return f"named {len(cell.named)}/{count}" if cell.named else f"caught {count}"


def _counts(row: dict[str, Cell]) -> list[str]:
    cells = list(row.values())
    named = sum(bool(cell.named) for cell in cells)
    caught = sum(bool(cell.changed) and not cell.slipped for cell in cells)
    void = sum(not cell.changed for cell in cells)
    missed = [case for case, cell in row.items() if cell.slipped]
    return [*map(str, (named, caught, void, len(missed))), listed(missed)]


def _unnamed(proven: Proven) -> Iterator[str]:
    """Faults that were caught and are called something else, or nothing."""
    found = []
    for name in proven.planted:
        cells = proven.cells[name].values()
        caught = [cell for cell in cells if cell.caught]
        lacking = sum(len(cell.changed) - len(cell.slipped) - len(cell.named) for cell in caught)
        if lacking:
            why = proven.faults[name].unnamed or _said(caught)
            total = sum(len(cell.changed) for cell in caught)
            found.append(f"  {name}: {lacking} of {total}: {why}")
    if found:
        yield "caught, but not by name:"
        yield from found


def _said(cells: Iterable[Cell]) -> str:
    codes = {code for cell in cells for code in cell.said}
    causes = codes - {"values", "no-simple-cause"}
    if not causes:
        return "too few values, or too equal ones, to prove it"
    return f"called {listed(sorted(causes))} there, which fits as well"


def _blind(proven: Proven) -> Iterator[str]:
    found = []
    for name in proven.planted:
        for case, cell in proven.cells[name].items():
            if cell.slipped:
                found.append(f"  {name} in {case}: {listed(cell.slipped)}")
    if found:
        yield "what this bundle cannot see (the fault changes these, and they pass):"
        yield from found
    void = [name for name in proven.cells if name not in proven.planted]
    if void:
        yield f"void in every case (the fault changes nothing): {', '.join(void)}"


def _score(proven: Proven) -> str:
    planted, missed = len(proven.planted), proven.missed
    if not planted:
        return "no fault could be planted: the bundle shows nothing"
    text = f"{planted - len(missed)} of {planted} faults caught"
    return f"{text}; missed: {', '.join(missed)} (exit 7)" if missed else text
