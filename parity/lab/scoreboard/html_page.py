"""The scoreboard as one HTML page; each cell that is not right links to its findings."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

from jinja2 import Environment, StrictUndefined

from parity.lab.scoreboard.board import Cell, Row, Scoreboard
from parity.lab.scoreboard.summaries import GroupRow, Summary, summarize_groups
from parity.lab.scoreboard.terminal import SIGNS
from parity.text import sanitize_message


class LinkedCell(NamedTuple):
    """A cell with a section of its own on the page: a case's, or a group's."""

    anchor: str
    port: str
    row: Row | GroupRow
    cell: Cell | Summary


def render_page(boards: Sequence[Scoreboard]) -> str:
    """Return the whole page, one bundle after another."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["sanitize"] = sanitize_message
    template = environment.from_string(_read_template())
    pages = []
    for number, board in enumerate(boards, 1):
        rows = summarize_groups(board) if board.by_group else []
        pages.append((board, rows, _link_cells(board, rows, number)))
    anchors = {id(one.cell): one.anchor for *_, linked in pages for one in linked}
    values = {"pages": pages, "signs": SIGNS}
    return str(template.render(**values, anchor=lambda cell: anchors.get(id(cell), "")))


def _read_template() -> str:
    return files("parity.lab.scoreboard").joinpath("page.html.j2").read_text(encoding="utf-8")


def _link_cells(board: Scoreboard, groups: Sequence[GroupRow], place: int) -> list[LinkedCell]:
    """List the cells with cases, or with findings or a command that repeats them."""
    found, prefix = [], f"b{place}-" if place > 1 else ""
    rows: Sequence[Row | GroupRow] = groups or board.rows
    for at, port in enumerate(board.ports):
        for number, row in enumerate(rows):
            cell = row.cells[at]
            if isinstance(cell, Summary):
                is_linked = bool(cell.cases)
            else:
                is_linked = cell.case is not None and bool(
                    cell.case.findings or cell.tone != "good"
                )
            if is_linked:
                found.append(LinkedCell(f"{prefix}p{at + 1}-c{number + 1}", port.name, row, cell))
    return found
