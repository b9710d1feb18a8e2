"""The scoreboard as one HTML page; each cell that is not right links to its findings."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from jinja2 import Environment, StrictUndefined

from parity.lab.scoreboard.tables import SIGNS
from parity.text import sanitize_message

if TYPE_CHECKING:
    from parity.lab.scoreboard.board import Cell, Row, Scoreboard


class LinkedCell(NamedTuple):
    """A cell with findings on the page."""

    anchor: str
    port: str
    row: Row
    cell: Cell


def render_page(board: Scoreboard) -> str:
    """Return the whole page."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["sanitize"] = sanitize_message
    template = environment.from_string(_read_template())
    linked = _link_cells(board)
    anchors = {id(one.cell): one.anchor for one in linked}
    values = {"board": board, "linked": linked, "signs": SIGNS}
    return str(template.render(**values, anchor=lambda cell: anchors.get(id(cell), "")))


def _read_template() -> str:
    return files("parity.lab.scoreboard").joinpath("page.html.j2").read_text(encoding="utf-8")


def _link_cells(board: Scoreboard) -> list[LinkedCell]:
    """List the cells with findings, or with a command that repeats them."""
    found = []
    for at, port in enumerate(board.ports):
        for number, row in enumerate(board.rows):
            cell = row.cells[at]
            if cell.case is not None and (cell.case.findings or cell.tone != "good"):
                found.append(LinkedCell(f"p{at + 1}-c{number + 1}", port.name, row, cell))
    return found
