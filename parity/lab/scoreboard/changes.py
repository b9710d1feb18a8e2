"""Compare two states of a scoreboard's page, column by column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from parity.lab.scoreboard.board import Scoreboard
from parity.lab.scoreboard.tables import HEADING
from parity.reports.markdown import format_cell as code

#: Cells by heading, row and column, all in Markdown.
Cells = dict[tuple[str, str, str], str]

_RULE = "---"
#: Cells of a row that is not on the page: all ports are right, or not run.
_ABSENT_VALUES = ("✅", "")


def list_changes(
    page_lines: Sequence[str], new_lines: Sequence[str], boards: Sequence[Scoreboard]
) -> Iterator[str]:
    """Yield one line for each column with changed cells, in the tables of all bundles."""
    counts = _count_changes(_read_cells(page_lines), _read_cells(new_lines))
    for port in {port.name: port for board in boards for port in board.ports}.values():
        if count := counts.get(code(port.name), 0):
            cells = "1 cell differs" if count == 1 else f"{count} cells differ"
            whose = "; the reference has changed, not a port" if port.is_reference else ""
            yield f"{port.name}: {cells}{whose}"


def _count_changes(page_cells: Cells, new_cells: Cells) -> Counter[str]:
    changes: Counter[str] = Counter()
    for key in page_cells.keys() | new_cells.keys():
        one, other = page_cells.get(key), new_cells.get(key)
        present = one if other is None else other
        differs = present not in _ABSENT_VALUES if None in (one, other) else one != other
        changes[key[-1]] += differs
    return changes


def _read_cells(lines: Sequence[str]) -> Cells:
    """Read the cells of all tables with one row for each case."""
    found: Cells = {}
    heads: list[str] = []
    heading = ""
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        row = _split_row(line)
        heading = line if line.startswith(HEADING) else heading
        if _split_row(following)[:1] == [_RULE]:
            heads = row
        elif row and row[0] != _RULE and heads[:1] == ["case"]:
            pairs = zip(heads[2:], row[2:], strict=False)
            found |= {(heading, row[0], head): cell for head, cell in pairs}
    return found


def _split_row(line: str) -> list[str]:
    """Split a line of a table; in foreign text bars are escaped."""
    return [cell.strip() for cell in line[1:-1].split("|")] if line.startswith("|") else []
