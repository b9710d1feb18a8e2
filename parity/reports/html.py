"""The report as one self-contained HTML file, with a light and a dark style."""

from __future__ import annotations

import base64
import hashlib
import math
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from parity.reports import charts, phrases, stages
from parity.results import CaseResult, Finding, Report
from parity.text import join_limited, sanitize_message

MAX_FIGURES = 200  # Figures of one report


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
        "growth": _draw_growth,
        "has_growth": stages.list_growth,
    }
    digest = base64.b64encode(hashlib.sha256(_read("report.js").encode()).digest()).decode()
    return str(
        environment.from_string(_read("report.html.j2")).render(
            report=report,
            code=code,
            headline=phrases.format_conclusion(report, code),
            provenance=phrases.collect_provenance(report),
            script=Markup(_read("report.js")),  # noqa: S704 - our own
            script_digest=f"sha256-{digest}",
        )
    )


def _read(name: str) -> str:
    return files("parity.reports").joinpath(name).read_text(encoding="utf-8")


def _draw_growth(case: CaseResult) -> Figure | None:
    """Draw the errors of a model's stages; the caption names those that diverge first."""
    rows = stages.list_growth(case)
    if not rows:
        return None
    first = [f"stage {row['at']}, {row['stage']}" for row in rows if row["first"]]
    text = f"largest error by stage, and its tolerance (dashed); {stages.describe_seen([case])}"
    text += f"; diverges first: {join_limited(first, 5)}" if first else ""
    return Figure(Markup(charts.draw_growth(rows)), sanitize_message(text))  # noqa: S704 - numbers alone


def _draw_figures(finding: Finding) -> list[Figure]:
    """Draw the charts of a finding; they contain only numbers, so they need no escaping."""
    found = []
    measures = finding.measures
    if spread := phrases.count_decades(measures.get("histogram")):
        svg = charts.draw_histogram(spread)
        found.append(Figure(Markup(svg), "number of elements by size of the error"))  # noqa: S704 - as above
    cells: Any = measures.get("map")
    if cells and cells[0]:
        errors: Any = measures.get("map_error") or cells
        text = "location of the differences: last axis across, all others down; the larger the "
        text += "error, the darker" if "map_error" in measures else "number, the darker"
        found.append(Figure(Markup(charts.draw_heatmap(errors)), text))  # noqa: S704 - as above
    points: Any = [pair for pair in measures.get("points", ()) if all(map(math.isfinite, pair))]
    if points:
        svg = charts.draw_scatter(points)
        found.append(Figure(Markup(svg), "expected and obtained values that differ"))  # noqa: S704 - as above
    return found
