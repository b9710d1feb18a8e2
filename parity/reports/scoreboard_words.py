"""The table of ports for a terminal and for a page in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.reports.markdown import cell as code
from parity.reports.markdown import spelt
from parity.reports.scoreboard import NOT_ASKED
from parity.reports.wording import shown
from parity.safetext import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from parity.reports.scoreboard import Board, Cell, Group, Row

_WRONG = " that some port does not get right"
#: Characters of a dispute that are shown.
_LONGEST = 400
SIGNS = {"good": "✓", "mild": "○", "bad": "✗", "dead": "!", "none": "·"}
_EMOJI = {"good": "✅", "mild": "🟡", "bad": "❌", "dead": "💥", "none": "▫️"}
_COLOURS = {"good": "32", "mild": "33", "bad": "31", "dead": "1;31", "none": "2"}
#: What a page in Markdown keeps between these is rewritten by a machine; what follows
#: ``FACTS`` differs from day to day, and from machine to machine.
BEGIN, FACTS, END = (
    f"<!-- scoreboard: {word} -->" for word in ("begin", "facts, which may differ", "end")
)


def lines(board: Board, *, colour: bool) -> Iterator[str]:
    """The table for a terminal, all cases in it."""
    names = [shown(port.name) for port in board.ports]
    widths = [max(len(name), 15) for name in names]
    first = _first(board)
    heads = "  ".join(name.ljust(width) for name, width in zip(names, widths, strict=True))
    yield f"{shown(board.bundle)}  sha256:{board.sha256[:12]}"
    for group in board.groups:
        yield ""
        yield f"{shown(group.title).ljust(first + 2)}  {heads}".rstrip()
        for row in group.rows:
            cells = [_painted(*pair, colour=colour) for pair in zip(row.cells, widths, strict=True)]
            yield f"  {shown(row.case).ljust(first)}  {'  '.join(cells)}".rstrip()
            if row.dispute:
                yield f"    {shown(row.dispute)}"
    yield ""
    yield f"{'in all'.ljust(first + 2)}  {heads}".rstrip()
    for name, numbers in board.totals():
        told = "  ".join(f"{n:,}".ljust(width) for n, width in zip(numbers, widths, strict=True))
        yield f"  {name.ljust(first)}  {told}".rstrip()
    yield ""
    yield from _facts(board)


def _first(board: Board) -> int:
    """Width of the first column, without the two spaces before all but its titles."""
    indented = [*(shown(row.case) for row in board.rows), *(name for name, _ in board.totals())]
    titles = [shown(group.title) for group in board.groups]
    return max([*map(len, indented), *(len(title) - 2 for title in titles)], default=0)


def _facts(board: Board) -> Iterator[str]:
    for port in board.ports:
        told = ", ".join(f"{shown(key)} {shown(value)}" for key, value in port.facts)
        yield f"{shown(port.name)}: {told}"


def _painted(cell: Cell, width: int, *, colour: bool) -> str:
    text = f"{SIGNS[cell.tone]} {shown(cell.word)}".ljust(width)
    return f"\x1b[{_COLOURS[cell.tone]}m{text}\x1b[0m" if colour else text


def markdown(board: Board) -> str:
    """Totals, and the cases that some port does not get right; nothing that differs by day."""
    heads = [code(port.name) for port in board.ports]
    parts = [_table(["", *heads], _totals(board), numbers=True)]
    parts += [_folded(group, heads, references=board.references) for group in board.groups]
    spotless = sum(row.spotless for row in board.rows)
    who = "no column" if board.references else "no port"
    parts.append(
        f"{counted(len(board.rows), 'cases')} in all; of {spotless:,} {who} has "
        f"anything but ✅. {_LEGEND}{_REFERENCES if board.references else ''}\n"
    )
    return "\n".join(part for part in parts if part)


_LEGEND = (
    "✅ right, or refused as is due · 🟡 refused, though it must be loaded · ❌ wrong, partial or "
    "accepted · 💥 panicked, crashed, hung or out of memory · ▫️ not shown · an empty cell: the "
    "port has no reader of the format."
)
_REFERENCES = (
    " A column (reference) is the format's own reader, as `parity audit` asks it; where it and "
    "another reader, or it and the rule, do not agree, the case's line says how."
)


def _totals(board: Board) -> Iterator[list[str]]:
    for name, numbers in board.totals():
        yield [name, *(f"{number:,}" if number else "" for number in numbers)]


def _folded(group: Group, heads: Sequence[str], *, references: bool) -> str:
    rows = [row for row in group.rows if not row.spotless]
    if not rows:
        return ""
    told = f"{len(rows):,} of {counted(len(group.rows), 'cases')}"
    what = ", not right in some column or disputed" if references else _WRONG
    summary = f"<b>{code(group.title) or 'cases'}</b>: {told}{what}"
    table = _table(["case", "what it is", *heads], map(_row, rows))
    return f"<details><summary>{summary}</summary>\n\n{table}\n</details>\n"


def _row(row: Row) -> list[str]:
    why = code(row.why)
    if row.dispute:
        # Outside of a code span an underscore may begin emphasis.
        why += "<br>" + spelt(row.dispute, _LONGEST).replace("_", "&#95;")
    return [code(row.case), why, *map(_told, row.cells)]


def _told(cell: Cell) -> str:
    if cell.word == NOT_ASKED:
        return ""
    sign = _EMOJI[cell.tone]
    return sign if cell.tone == "good" else f"{sign} {code(cell.word)}"


def _table(heads: Sequence[str], rows: Iterator[list[str]], *, numbers: bool = False) -> str:
    rule = ["---", *("--:" if numbers else "---" for _ in heads[1:])]
    told = [heads, rule, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in told) + "\n"


def facts(board: Board, date: str) -> str:
    """What was measured, when and on what; apart from the table, since it differs by day."""
    rows = ([code(p.name), code(_port(p.facts)), code(_machine(p.facts))] for p in board.ports)
    table = _table(["port", "what was run", "on"], rows)
    head = f"Measured on {date}, {code(board.bundle)} of {code('sha256:' + board.sha256)}.\n\n"
    return f"{head}{table}"


_MACHINE = ("system", "machine", "processors", "python", "numpy")


def _port(facts: Sequence[tuple[str, str]]) -> str:
    return ", ".join(
        f"{key} {value}"
        for key, value in facts
        if key in ("crate", "package", "reader", "version", "command", "call")
    )


def _machine(facts: Sequence[tuple[str, str]]) -> str:
    """The system by its name alone: its kernel's build is nobody's concern."""
    kept = {key: value for key, value in facts if key in _MACHINE and value}
    return ", ".join(f"{key} {value.split()[0]}" for key, value in kept.items())


def section(board: Board, date: str) -> str:
    """What stands between the markers of a page."""
    parts = [BEGIN, "", markdown(board), FACTS, "", facts(board, date).rstrip("\n"), "", END]
    return "\n".join(parts)


def replaced(page: str, new: str) -> str:
    """``page`` with what stands between its markers replaced.

    Raises:
        ValueError: It has not one pair of markers, each a line of its own.
    """
    lines = page.split("\n")
    first, last = _between(lines)
    return "\n".join([*lines[:first], *new.split("\n"), *lines[last + 1 :]])


def _between(lines: list[str]) -> tuple[int, int]:
    """Where the markers stand."""
    places = [[at for at, line in enumerate(lines) if line == mark] for mark in (BEGIN, END)]
    if [len(found) for found in places] != [1, 1] or places[0] > places[1]:
        message = f"must have one pair of the lines {BEGIN} and {END}"
        raise ValueError(message)
    return places[0][0], places[1][0]


def lasting(page: str) -> list[str]:
    """The lines of a page's table, without those that differ from day to day.

    Raises:
        ValueError: It has no table.
    """
    lines = page.split("\n")
    first, last = _between(lines)
    inside = lines[first + 1 : last]
    if FACTS not in inside:
        message = f"has no table between {BEGIN} and {FACTS}"
        raise ValueError(message)
    return [line for line in inside[: inside.index(FACTS)] if line]
