"""The report as one self-contained HTML file, with a light and a dark style."""

from __future__ import annotations

import base64
import hashlib
import io
import math
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from parity.reports import phrases
from parity.results import CaseResult, Finding, Report
from parity.text import join_limited, sanitize_message

MAX_FIGURES = 200  # Figures of one report
# Matplotlib cannot use the page's colours; these placeholders are replaced in the SVG.
_INK, _BAD = "#010203", "#030201"
_INCHES, _WIDE_INCHES = (4.2, 2.2), (7.0, 2.6)


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
        "has_growth": phrases.list_growth,
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
    rows = phrases.list_growth(case)
    if not rows:
        return None
    first = [f"stage {row['at']}, {row['stage']}" for row in rows if row["first"]]
    text = f"largest error by stage, and its tolerance (dashed); {phrases.describe_seen([case])}"
    text += f"; diverges first: {join_limited(first, 5)}" if first else ""
    return Figure(Markup(draw_growth(rows)), sanitize_message(text))  # noqa: S704 - numbers alone


def _draw_figures(finding: Finding) -> list[Figure]:
    """Draw the charts of a finding; they contain only numbers, so they need no escaping."""
    found = []
    measures = finding.measures
    if spread := phrases.count_decades(measures.get("histogram")):
        svg = draw_histogram(spread)
        found.append(Figure(Markup(svg), "number of elements by size of the error"))  # noqa: S704 - as above
    cells: Any = measures.get("map")
    if cells and cells[0]:
        errors: Any = measures.get("map_error") or cells
        text = "location of the differences: last axis across, all others down; the larger the "
        text += "error, the darker" if "map_error" in measures else "number, the darker"
        found.append(Figure(Markup(draw_heatmap(errors)), text))  # noqa: S704 - as above
    points: Any = [pair for pair in measures.get("points", ()) if all(map(_is_drawable, pair))]
    if points:
        svg = draw_scatter(points)
        found.append(Figure(Markup(svg), "expected and obtained values that differ"))  # noqa: S704 - as above
    return found


# Charts as inline SVG, made by matplotlib, in the colours of the surrounding page


def draw_histogram(spread: Sequence[tuple[int, int]]) -> str:
    """Draw counts over powers of ten; heights are logarithmic, so single elements are visible."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    figure, axes = _make_axes()
    axes.bar([power for power, _ in spread], [count for _, count in spread], color=_BAD)
    axes.set_yscale("symlog", linthresh=1)
    axes.set(xlabel="error", ylabel="elements")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda power, _: f"1e{power:+.0f}"))
    return _render_svg(figure, f"errors from 1e{spread[0][0]} to 1e{spread[-1][0] + 1}")


def draw_heatmap(cells: Sequence[Sequence[float]]) -> str:
    """Draw a map of cells, darker where errors are larger, by powers of ten."""
    from matplotlib.patches import Rectangle

    figure, axes = _make_axes()
    sizes = [math.log10(one) for row in cells for one in row if 0 < one < math.inf]
    low, high = min(sizes, default=0.0), max(sizes, default=0.0)
    for down, row in enumerate(cells):
        for across, error in enumerate(row):
            if error > 0:
                share = (math.log10(error) - low) / (high - low) if low < high else 1.0
                alpha = 0.15 + 0.85 * min(share, 1.0)
                cell = Rectangle((across, down), 1, 1, color=_BAD, alpha=alpha, linewidth=0)
                axes.add_patch(cell)
    axes.set(xlim=(0, len(cells[0])), ylim=(len(cells), 0), xticks=[], yticks=[])
    return _render_svg(figure, "map of elements that differ")


def draw_scatter(points: Sequence[Sequence[float]]) -> str:
    """Draw expected against obtained values; equal ones would be on the line."""
    figure, axes = _make_axes()
    low, high = min(map(min, points)), max(map(max, points))
    axes.plot([low, high], [low, high], color=_INK, linewidth=0.8)
    columns = list(zip(*points, strict=True))
    axes.scatter(*columns, color=_BAD, alpha=0.6, s=10, linewidths=0)
    axes.set(xlabel="expected", ylabel="obtained")
    axes.locator_params(nbins=6)
    return _render_svg(figure, f"expected against obtained, {len(points)} elements")


def draw_growth(rows: Sequence[Mapping[str, Any]]) -> str:
    """Draw the largest error of each stage and its tolerance on a logarithmic axis.

    Stages that were not dumped are gaps; one without an error is at the bottom, one whose error
    is not a number at the top; a line marks the first ones that diverge.
    """
    figure, axes = _make_axes(_WIDE_INCHES)
    places = [row["at"] for row in rows]
    known = [row[key] for row in rows for key in ("max_abs", "tolerance")]
    sizes = [one for one in known if one and _is_drawable(one) and _is_drawable(1 / one)] or [1.0]
    low, high = min(sizes) / 3, max(sizes) * 3

    def plot(key: str, color: str, **style: Any) -> None:
        values = [math.nan if row[key] is None else min(max(row[key], low), high) for row in rows]
        axes.plot(places, values, color=color, **style)

    plot("tolerance", _INK, linewidth=0.8, linestyle="--")
    plot("max_abs", _BAD, linewidth=1, marker="o", markersize=2.5)
    for place in (row["at"] for row in rows if row["first"]):
        axes.axvline(place, color=_BAD, linewidth=0.8, linestyle=":")
    axes.set(yscale="log", ylim=(low / 2, high * 2), xlabel="stage", ylabel="largest error")
    axes.xaxis.get_major_locator().set_params(integer=True, nbins=6)
    return _render_svg(figure, f"largest error of {len(rows)} stages")


def _is_drawable(value: float) -> bool:
    """Return whether an axis with margins around the value stays within the floats."""
    return abs(value) < 1e290  # noqa: PLR2004 - far from 1.8e308


def _make_axes(inches: tuple[float, float] = _INCHES) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=inches, layout="constrained")
    axes = figure.add_subplot()
    axes.patch.set_visible(False)
    figure.patch.set_visible(False)
    for part in (*axes.spines.values(), axes.xaxis.label, axes.yaxis.label):
        part.set_color(_INK)
    axes.tick_params(colors=_INK, which="both")
    return figure, axes


def _render_svg(figure: Any, label: str) -> str:
    import matplotlib as mpl

    target = io.StringIO()
    # Equal reports give equal bytes: a fixed salt, and no metadata, which contain a date.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "parity", "font.size": 9}):
        figure.savefig(target, format="svg")
    svg = target.getvalue().partition("<svg")[2]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = svg.replace(_INK, "currentColor").replace(_BAD, "var(--bad)")
    # Ids are unique within a page; equal charts may share them.
    digest = hashlib.sha256(svg.encode()).hexdigest()[:8]
    svg = re.sub(r'\bid="', f'id="d{digest}-', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\g<1>d{digest}-", svg)
    return f'<svg role="img" aria-label="{label}"{svg}'
