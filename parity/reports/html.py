"""A report for a browser: one file that needs no other, in light and in dark."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from parity.reports import charts, phrases
from parity.reports.sparkline import count_decades

if TYPE_CHECKING:
    from parity.results import Finding, Report

#: Figures of one report; a page of thousands helps nobody.
MAX_FIGURES = 200


class Figure(NamedTuple):
    """A drawing and what it shows."""

    svg: Markup
    caption: str


def render_html(report: Report, code: int) -> str:
    """The whole page."""
    figure_count = 0

    def figures(finding: Finding) -> list[Figure]:
        nonlocal figure_count
        found = _draw_figures(finding) if figure_count < MAX_FIGURES else []
        figure_count += len(found)
        return found

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters |= {
        "shown": phrases.sanitize_message,
        "told": phrases.format_case_summary,
        "figures": figures,
    }
    template = environment.from_string(_read_template())
    values = {
        "headline": phrases.format_conclusion(report, code),
        "provenance": phrases.collect_provenance(report),
    }
    return str(template.render(report=report, code=code, **values))


def _read_template() -> str:
    return files("parity.reports").joinpath("report.html.j2").read_text(encoding="utf-8")


def _draw_figures(finding: Finding) -> list[Figure]:
    found = []
    if spread := count_decades(finding.measures.get("histogram")):
        # What is drawn holds numbers alone, so that it needs no escaping.
        svg = Markup(charts.draw_histogram(spread))
        found.append(Figure(svg, "elements by the size of their error"))
    cells: Any = finding.measures.get("map")
    if cells and cells[0]:
        svg = Markup(charts.draw_heatmap(cells))
        found.append(Figure(svg, "where it differs: last axis across, all others down"))
    return found
