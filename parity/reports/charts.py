"""Charts as inline SVG, made by matplotlib, in the colours of the surrounding page."""

from __future__ import annotations

import hashlib
import io
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

# Matplotlib cannot use the page's colours; these placeholders are replaced in the SVG.
_INK, _BAD = "#010203", "#030201"
_INCHES, _WIDE_INCHES = (4.2, 2.2), (7.0, 2.6)


def draw_histogram(spread: Sequence[tuple[int, int]]) -> str:
    """Draw counts over powers of ten; heights are logarithmic, so single elements are visible."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    figure, axes = _make_axes()
    axes.bar([power for power, _ in spread], [count for _, count in spread], color=_BAD)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_xlabel("error")
    axes.set_ylabel("elements")
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
    axes.set_xlabel("expected")
    axes.set_ylabel("obtained")
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
    sizes = [one for one in known if one and one < math.inf] or [1.0]
    low, high = min(sizes) / 3, max(sizes) * 3

    def plot(key: str, color: str, **style: Any) -> None:
        values = [math.nan if row[key] is None else min(max(row[key], low), high) for row in rows]
        axes.plot(places, values, color=color, **style)

    plot("tolerance", _INK, linewidth=0.8, linestyle="--")
    plot("max_abs", _BAD, linewidth=1, marker="o", markersize=2.5)
    for place in (row["at"] for row in rows if row["first"]):
        axes.axvline(place, color=_BAD, linewidth=0.8, linestyle=":")
    axes.set_yscale("log")
    axes.set_ylim(low / 2, high * 2)
    axes.set_xlabel("stage")
    axes.set_ylabel("largest error")
    axes.xaxis.get_major_locator().set_params(integer=True, nbins=6)
    return _render_svg(figure, f"largest error of {len(rows)} stages")


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
