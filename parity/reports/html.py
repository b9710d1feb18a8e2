"""A report for a browser: one file that needs no other, in light and in dark."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from parity.reports import drawings, wording
from parity.reports.distribution import decades

if TYPE_CHECKING:
    from parity.results import Finding, Report

#: Figures of one report; a page of thousands helps nobody.
MOST_FIGURES = 200


class Figure(NamedTuple):
    """A drawing and what it shows."""

    svg: Markup
    caption: str


def text(report: Report, code: int) -> str:
    """The whole page."""
    drawn = 0

    def figures(finding: Finding) -> list[Figure]:
        nonlocal drawn
        found = _figures(finding) if drawn < MOST_FIGURES else []
        drawn += len(found)
        return found

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters |= {
        "shown": wording.shown,
        "told": wording.case_summary,
        "figures": figures,
    }
    template = environment.from_string(_template())
    values = {
        "headline": wording.conclusion(report, code),
        "provenance": wording.provenance(report),
    }
    return str(template.render(report=report, code=code, **values))


def _template() -> str:
    return files("parity.reports").joinpath("report.html.j2").read_text(encoding="utf-8")


def _figures(finding: Finding) -> list[Figure]:
    found = []
    if spread := decades(finding.measures.get("histogram")):
        # What is drawn holds numbers alone, so that it needs no escaping.
        svg = Markup(drawings.histogram(spread))  # noqa: S704
        found.append(Figure(svg, "elements by the size of their error"))
    cells: Any = finding.measures.get("map")
    if cells and cells[0]:
        svg = Markup(drawings.heat(cells))  # noqa: S704
        found.append(Figure(svg, "where it differs: last axis across, all others down"))
    return found
