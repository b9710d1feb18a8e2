"""The table of ports as one static page: each cell that is not right leads to what was found."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from jinja2 import Environment, StrictUndefined

from parity.lab.scoreboard.tables import SIGNS
from parity.reports import phrases

if TYPE_CHECKING:
    from parity.lab.scoreboard.board import Cell, Row, Scoreboard


class LinkedCell(NamedTuple):
    """A cell that has a place of its own on the page."""

    anchor: str
    port: str
    row: Row
    cell: Cell


def render_page(board: Scoreboard) -> str:
    """The whole page."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["shown"] = phrases.sanitize_message
    template = environment.from_string(_read_template())
    linked = _link_cells(board)
    anchors = {id(one.cell): one.anchor for one in linked}
    values = {"board": board, "told": linked, "signs": SIGNS}
    return str(template.render(**values, anchor=lambda cell: anchors.get(id(cell), "")))


def _read_template() -> str:
    return files("parity.reports").joinpath("scoreboard.html.j2").read_text(encoding="utf-8")


def _link_cells(board: Scoreboard) -> list[LinkedCell]:
    """Cells with something behind them: findings, or a line that repeats them."""
    found = []
    for at, port in enumerate(board.ports):
        for number, row in enumerate(board.rows):
            cell = row.cells[at]
            if cell.case is not None and (cell.case.findings or cell.tone != "good"):
                found.append(LinkedCell(f"p{at + 1}-c{number + 1}", port.name, row, cell))
    return found
