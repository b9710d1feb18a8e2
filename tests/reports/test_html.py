"""The page for a browser: whole, harmless, the same bytes each time, and usable by keyboard."""

from __future__ import annotations

import base64
import hashlib
import math
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from parity.reports import html
from parity.results import Finding, Report
from tests.reports.test_console import mixed, passing
from tests.support.reports import HOSTILE, make_bundle, make_case, make_finding, make_report

# matplotlib asks fc-list for fonts when it is first imported.
pytestmark = pytest.mark.process
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


def drawn() -> Report:
    measures = {
        "histogram": {"-7": 100, "-5": 3, "0": 4},
        "map": [[0, 0, 1], [0, 9, 0]],
        "map_error": [[0.0, 0.0, 1e-7], [0.0, math.inf, 0.0]],
        "points": [[0.0, 1.0], [2.5, -1.0], [3.0, math.nan]],
    }
    bad = make_finding("values", "w differs", tensor="w", measures=measures)
    return make_report(make_bundle(make_case("x", bad, margin=3.0, command="nox -s verify")))


class Page(HTMLParser):
    """Tags, ids and targets of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "path", "use", "rect", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


def test_page_has_every_case_and_finding() -> None:
    text = html.render_html(mixed(), 3)
    for words in (
        "Parity failed", "b/good", "b/quants", "there is no such file",
        "w[3] is 1.5, expected 1.25; bound 1e-06", "the rows are read in column order",
        "src/gguf.rs:7:1", "nox -s verify -- --case b/gguf", "0" * 64,
    ):  # fmt: skip
        assert words in text
    assert "Parity verified" in html.render_html(passing(), 0)


def test_same_report_gives_the_same_bytes() -> None:
    assert html.render_html(drawn(), 1) == html.render_html(drawn(), 1)


def test_page_is_self_contained_and_its_only_script_is_ours() -> None:
    text = html.render_html(drawn(), 1)
    page = Page(text)
    assert page.open == []
    assert {"link", "img", "iframe"} & {tag for tag, _ in page.tags} == set()
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [m["content"] for m in page.of("meta") if "Content-Security" in str(m.values())]
    assert str(policy).split("; ") == [
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        f"script-src 'sha256-{digest}'",
        "img-src data:",
    ]
    assert "hidden" in page.of("p")[1], "the filter is shown by the script alone"
    for _, attrs in page.tags:
        assert not [name for name in attrs if name.startswith("on")]
        target = attrs.get("href") or attrs.get("xlink:href") or "#"
        assert target.startswith("#")


def test_links_have_targets_and_ids_are_unique() -> None:
    page = Page(html.render_html(mixed(), 3))
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {str(attrs["href"])[1:] for attrs in page.of("a")} <= set(ids)


def test_scrolling_areas_are_focusable_and_charts_have_labels() -> None:
    page = Page(html.render_html(drawn(), 1))
    assert page.of("a")[0]["href"] == "#findings"
    assert all("tabindex" in attrs for attrs in page.of("pre"))
    assert len(page.of("svg")) == 3
    assert all(attrs["aria-label"] for attrs in page.of("svg"))
    assert all(attrs["scope"] == "col" for attrs in page.of("th"))


INJECTIONS = [
    HOSTILE,
    "<script>alert(1)</script>",
    '"><img src=x onerror=y>',
    "{{ 7*7 }}",
    "'><svg/onload=x>",
]


@pytest.mark.parametrize("text", INJECTIONS)
def test_foreign_text_is_escaped_everywhere(text: str) -> None:
    bad = make_finding(
        "values", text, tensor=text, cause=text, details=(text,), measures={text: text}
    )
    whole = make_report(
        make_bundle(
            make_case(text, bad, command=text, reason=text), bundle=text, port={text: text}
        ),
        environment={text: text},
    )
    page = Page(html.render_html(whole, 1))
    assert {"img", "svg"} & {tag for tag, _ in page.tags} == set()
    assert len(page.of("script")) == 1
    assert "49" not in html.render_html(whole, 1).split("<body>")[1]


def test_charts_use_the_colours_of_the_page() -> None:
    for svg in (
        html.draw_histogram([(-3, 4), (-2, 0), (-1, 9)]),
        html.draw_heatmap([[1, 0], [0, math.inf]]),
        html.draw_scatter([[1.0, 2.0], [1.0, 1.0]]),
    ):
        assert ET.fromstring(svg.replace("xlink:", "")).tag.endswith("svg")  # noqa: S314 - our own
        assert "var(--bad)" in svg
        assert "currentColor" in svg
        assert not re.search(r"#0[123]0[123]0[123]|#000000|#ffffff", svg)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e308, 5e-324])
def test_charts_have_room_for_the_ends_of_floats(size: float) -> None:
    measures = {"points": [[size, -size], [1.0, 2.0]], "map": [[1]], "map_error": [[size]]}
    bad = Finding(level="error", code="values", message="m", tensor="w", measures=measures)
    assert "<svg" in html.render_html(make_report(make_bundle(make_case("a", bad))), 1)
    rows = [{"at": 0, "max_abs": size, "tolerance": size, "first": True}]
    assert html.draw_growth(rows).startswith("<svg")


def test_labels_of_forty_bins_do_not_overlap() -> None:
    svg = html.draw_histogram([(power, 1 + power % 9) for power in range(-30, 10)])
    labels = re.findall(r">(1e[+-]\d+)<", svg)
    assert 3 <= len(labels) <= 8


def test_cases_with_errors_can_be_jumped_to() -> None:
    page = Page(html.render_html(mixed(), 3))
    nav = html.render_html(mixed(), 3).partition("<nav")[2].partition("</nav>")[0]
    assert re.findall(r'href="#case-\d+">([^<]+)', nav) == ["b/pth", "b/gguf"]
    rows = [attrs["data-case"] for attrs in page.of("tr") if "data-case" in attrs]
    assert rows == ["b/good pass", "b/quants known-failure", "b/pth fail", "b/gguf error",
                    "b/onnx skipped"]  # fmt: skip


@pytest.mark.parametrize(
    "measures", [{}, {"histogram": {}}, {"map": []}, {"map": [[]]}, {"histogram": "x"}]
)
def test_invalid_chart_data_is_omitted(measures: dict[str, object]) -> None:
    whole = make_report(make_bundle(make_case("x", make_finding(measures=measures))))
    assert "<svg" not in html.render_html(whole, 1)


def test_number_of_charts_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MAX_FIGURES", 3)
    (one,) = drawn().cases
    text = html.render_html(make_report(make_bundle(*(one,) * 9)), 1)
    assert text.count("<svg") == 3


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
@pytest.mark.parametrize("scheme", ["0", "1"])
def test_browser_renders_the_page(scheme: str, tmp_path: Path) -> None:
    assert CHROMIUM is not None
    (tmp_path / "r.html").write_text(html.render_html(drawn(), 1), encoding="utf-8")
    words = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}"]
    words += [
        f"--blink-settings=preferredColorScheme={scheme}",
        f"--screenshot={tmp_path / 'r.png'}",
    ]
    page = (tmp_path / "r.html").as_uri()
    subprocess.run([*words, page], check=True, capture_output=True, timeout=120)
    assert (tmp_path / "r.png").stat().st_size > 10_000
    dumped = subprocess.run(
        [*words[:-1], "--dump-dom", page], check=True, capture_output=True, timeout=120, text=True
    )
    assert "Parity failed" in dumped.stdout
