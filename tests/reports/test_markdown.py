"""The job's summary, word for word, within its bytes, and harmless whatever it holds."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from parity import __version__
from parity.errors import ConfigError, Problem
from parity.reports import markdown
from parity.reports.phrases import count_decades, format_decades
from tests.reports.test_console import mixed, passing
from tests.support.reports import HOSTILE, make_bundle, make_case, make_finding, make_report

ROOM = 2**20


def mask_version(found: str) -> str:
    return text_of(found).replace(__version__, "VERSION")


def text_of(found: str) -> str:
    return html.unescape(re.sub(r"</?(code|pre|summary|details)>", "", found))


def test_passing_run(golden: Callable[..., None]) -> None:
    golden(mask_version(markdown.format_summary(passing(), 0, form="full", max_bytes=ROOM)))


def test_failing_run(golden: Callable[..., None]) -> None:
    golden(mask_version(markdown.format_summary(mixed(), 3, form="full", max_bytes=ROOM)))


def test_warnings_and_drift_are_listed() -> None:
    whole = make_report(
        make_bundle(make_case("x", make_finding("onnx-checker", "odd", level="warning")))
    )
    found = markdown.format_summary(whole, 0, form="full", max_bytes=ROOM, drift=["### it moved"])
    assert "b/x: warning[onnx-checker] odd" in found
    assert "### it moved" in found


def test_compact_form_is_one_line_per_failing_case() -> None:
    found = text_of(markdown.format_summary(mixed(), 3, form="compact", max_bytes=ROOM))
    assert "- ❌ b/pth values: w[3] is 1.5, expected 1.25; bound 1e-06\n" in found
    assert "cause" not in found
    assert "b/good" not in found


def test_long_table_is_folded() -> None:
    whole = make_report(make_bundle(*(make_case(f"c{n}") for n in range(30))))
    assert "<details><summary>All 30 cases</summary>" in markdown.format_summary(
        whole, 0, form="full", max_bytes=ROOM
    )


@pytest.mark.parametrize("form", ["full", "compact"])
@pytest.mark.parametrize("room", [0, 10, 300, 2_000, 20_000, 200_000])
def test_summary_respects_the_limit_and_counts_omitted_sections(form: str, room: int) -> None:
    cases = [
        make_case(f"é{n}", make_finding("values", "é" * 500, details=("d" * 90,) * 9))
        for n in range(300)
    ]
    found = markdown.format_summary(make_report(make_bundle(*cases)), 1, form=form, max_bytes=room)
    assert len(found.encode()) <= room
    if room >= 300:
        assert found.startswith("## ❌ parity: 300 cases: 300 fail")
        assert "omitted for lack of space" in found or form == "compact"
    if room >= 200_000 and form == "full":
        assert found.count("### ❌") > 50
        assert "<summary>Provenance</summary>" in found


class Tags(HTMLParser):
    """Which tags and attributes a reader of HTML would see."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag + "".join(f" {name}" for name, _ in attrs))


INJECTIONS = [
    HOSTILE,
    "<script>alert(1)</script>",
    "</pre></code><img src=x onerror=y>",
    "a|b\n# heading",
    "[link](https://example.org) @someone #12 owner/repo#3",
    "https://example.org www.example.org",
    "```\n~~~",
    "**bold** _it_ `code` <!-- -->",
    "&lt;b&gt;",
    "\\| \\`",
]


@pytest.mark.parametrize("text", INJECTIONS)
def test_foreign_text_is_escaped_everywhere(text: str) -> None:
    bad = make_finding("values", text, cause=text, details=(text,))
    known = make_case(text, verdict="known-failure", reason=text)
    whole = make_report(
        make_bundle(make_case(text, bad, command=text), known, bundle=text, port={text: text}),
        findings=(make_finding("x", text, level="warning"),),
        environment={text: text},
    )
    for form in ("full", "compact"):
        found = markdown.format_summary(whole, 1, form=form, max_bytes=ROOM)
        tags = Tags()
        tags.feed(found)
        assert tags.seen <= {"code", "pre", "details", "summary"}
        # Outside of code nothing of it is left that Markdown reads.
        bare = re.sub(r"<pre>.*?</pre>|<code>.*?</code>", "", found, flags=re.DOTALL)
        assert not re.search(r"https?:|www\.|@|\[|`|\*\*|<img|<script", bare)
        cells = re.findall(r"<code>(.*?)</code>", found, re.DOTALL)
        assert not any(re.search(r"[|`\[\]@*\n]|://|www\.", cell) for cell in cells)


def test_error_that_ends_the_run() -> None:
    error = ConfigError(Problem("yaml", "the file is <b>empty</b>"))
    found = markdown.format_error(error, ROOM)
    assert found.startswith("## ❌ parity: the command line or the lockfile is invalid\n")
    assert "[yaml] the file is &lt;b&gt;empty&lt;/b&gt;" in found


def test_distribution_in_block_characters() -> None:
    assert format_decades({"-7": 1000, "-5": 3, "-4": 1}) == "1e-07 █ ▂▂ 1e-03, 1,004 of them"
    assert format_decades({"0": 1}) == "1e+00 █ 1e+01, 1 of them"
    assert format_decades({}) == format_decades(None) == format_decades("x") == ""
    assert count_decades({"-1": 2, "1": 3}) == [(-1, 2), (0, 0), (1, 3)]
