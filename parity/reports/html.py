"""The report as one self-contained HTML file, with a light and a dark style."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from parity.reports import charts, phrases
from parity.text import sanitize_message

if TYPE_CHECKING:
    from parity.results import Finding, Report

#: Figures of one report.
MAX_FIGURES = 200


class Figure(NamedTuple):
    """A chart and its caption."""

    svg: Markup
    caption: str


def render_html(report: Report, code: int) -> str:
    """Return the whole page."""
    figure_count = 0

    def figures(finding: Finding) -> list[Figure]:
        nonlocal figure_count
        found = _draw_figures(finding) if figure_count < MAX_FIGURES else []
        figure_count += len(found)
        return found

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters |= {
        "sanitize": sanitize_message,
        "summary": phrases.format_case_summary,
        "figures": figures,
    }
    text = files("parity.reports").joinpath("report.html.j2").read_text(encoding="utf-8")
    return str(
        environment.from_string(text).render(
            report=report,
            code=code,
            headline=phrases.format_conclusion(report, code),
            provenance=phrases.collect_provenance(report),
        )
    )


def _draw_figures(finding: Finding) -> list[Figure]:
    found = []
    if spread := phrases.count_decades(finding.measures.get("histogram")):
        # The chart contains only numbers, so it needs no escaping.
        svg = Markup(charts.draw_histogram(spread))  # noqa: S704 - see above
        found.append(Figure(svg, "number of elements by size of the error"))
    cells: Any = finding.measures.get("map")
    if cells and cells[0]:
        svg = Markup(charts.draw_heatmap(cells))  # noqa: S704 - see above
        found.append(Figure(svg, "location of the differences: last axis across, all others down"))
    return found
