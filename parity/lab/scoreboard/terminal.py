"""The scoreboard as a table for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from parity.lab.scoreboard.board import Scoreboard, Tone
from parity.lab.scoreboard.summaries import count_groups, summarize_groups
from parity.text import sanitize_message

SIGNS = {"good": "✓", "mild": "○", "bad": "✗", "dead": "!", "none": "·"}
_COLOURS = {"good": "32", "mild": "33", "bad": "31", "dead": "1;31", "none": "2"}


def format_terminal(board: Scoreboard, *, colour: bool) -> Iterator[str]:
    """Yield the lines of a table of all cases."""
    blocks, totals = _list_blocks(board)
    names = [sanitize_message(port.name) for port in board.ports]
    lines = [line for _, lines in blocks for line in lines]
    widths = [
        max(len(name), 15, *(len(line.cells[at][1]) + 2 for line in lines))
        for at, name in enumerate(names)
    ]
    indented = [*(line.name for line in lines), *(name for name, _ in totals)]
    first = max([*map(len, indented), *(len(title) - 2 for title, _ in blocks)], default=0)
    heads = "  ".join(name.ljust(width) for name, width in zip(names, widths, strict=True))
    yield f"{sanitize_message(board.bundle)}  sha256:{board.sha256[:12]}"
    for title, lines in blocks:
        yield ""
        yield f"{title.ljust(first + 2)}  {heads}".rstrip()
        for line in lines:
            cells = [
                _paint_cell(*cell, width, colour=colour)
                for cell, width in zip(line.cells, widths, strict=True)
            ]
            yield f"  {line.name.ljust(first)}  {'  '.join(cells)}".rstrip()
            if line.remark:
                yield f"    {line.remark}"
    yield ""
    yield f"{'total'.ljust(first + 2)}  {heads}".rstrip()
    for name, numbers in totals:
        counts = "  ".join(f"{n:,}".ljust(width) for n, width in zip(numbers, widths, strict=True))
        yield f"  {name.ljust(first)}  {counts}".rstrip()
    yield ""
    for port in board.ports:
        facts = (f"{sanitize_message(key)} {sanitize_message(text)}" for key, text in port.facts)
        yield f"{sanitize_message(port.name)}: {', '.join(facts)}"


class _Line(NamedTuple):
    """A line of the terminal's table: sanitized texts, each cell with its tone."""

    name: str
    cells: list[tuple[Tone, str]]
    remark: str


def _list_blocks(
    board: Scoreboard,
) -> tuple[list[tuple[str, list[_Line]]], list[tuple[str, tuple[int, ...]]]]:
    """Return blocks of lines with their titles, and the totals."""
    clean = sanitize_message
    if board.by_group:
        rows = summarize_groups(board)
        lines = [_Line(clean(row.name), [(c.tone, c.text) for c in row.cells], "") for row in rows]
        return [("group", lines)], [*count_groups(rows), *board.count_totals()]
    blocks = [
        (
            clean(group.title),
            [
                _Line(
                    clean(row.case),
                    [(c.tone, clean(c.word)) for c in row.cells],
                    clean(row.dispute),
                )
                for row in group.rows
            ],
        )
        for group in board.groups
    ]
    return blocks, board.count_totals()


def _paint_cell(tone: Tone, word: str, width: int, *, colour: bool) -> str:
    text = (f"{SIGNS[tone]} {word}" if word else "").ljust(width)
    return f"\x1b[{_COLOURS[tone]}m{text}\x1b[0m" if colour else text
