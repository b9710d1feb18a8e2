"""``parity scoreboard``: golden texts, what each cell says, and foreign words made harmless."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from parity.__main__ import run_command_line
from parity.lab.scoreboard import html_page, tables, terminal
from parity.lab.scoreboard.board import Scoreboard, build_scoreboard
from parity.reports import json as json_report
from parity.results import CaseResult, Report
from tests.support.reports import HOSTILE, make_bundle, make_case, make_finding, make_report

PASSES, DIFFERS = make_finding("known-failure-passes"), make_finding("nondeterministic")
UNSEEN = make_finding("not-verified")
ALLOWED = make_finding("not-verified", level="notice")


def ended(name: str, expect: str, outcome: str, **more: Any) -> CaseResult:
    right = outcome in {"load": ["right"], "refuse": ["refused"]}.get(expect, ["right", "refused"])
    values = {"verdict": "pass" if right else "known-failure", "group": "pth", "why": f"a {name}"}
    return make_case(name, **{**values, "expect": expect, "outcome": outcome, **more})


def of_port(*cases: CaseResult, **port: str) -> Report:
    return make_report(make_bundle(*cases, port=port, sha256="a" * 64), environment={"system": "S"})


def two() -> Scoreboard:
    wrong = make_finding("wrong", "w differs", level="notice", tensor="w", cause="axes 0 and 1")
    good = of_port(
        ended("y-one", "load", "right"),
        ended("y-two", "load", "right"),
        ended("n-one", "refuse", "refused"),
        crate="good@1.0.0",
    )
    bad = of_port(
        ended("y-one", "load", "right"),
        ended("y-two", "load", "wrong", findings=(wrong,), reason="known", command="parity verify"),
        ended("n-one", "refuse", "hung"),
        ended("n-two", "refuse", "accepted"),
        package="bad",
        version="2.0.0",
    )
    return build_scoreboard({"good": good, "bad": bad})


def test_table_for_a_terminal(golden: Callable[..., None]) -> None:
    golden("\n".join(terminal.format_terminal(two(), colour=False)))


def with_reference() -> Scoreboard:
    dispute = make_finding(
        "disputed", "torch takes it, against _R_ <b>", level="notice", kind="reference"
    )
    reference = of_port(
        ended("y-one", "load", "right"),
        ended("n-one", "refuse", "accepted", findings=(dispute,), command="parity audit"),
        ended("i-one", "either", "refused", findings=(dispute,)),
        reader="torch",
        version="2.1.0",
    )
    port = of_port(
        ended("y-one", "load", "right"),
        ended("n-one", "refuse", "refused"),
        ended("i-one", "either", "right"),
        crate="good@1.0.0",
    )
    return build_scoreboard({"torch (reference)": reference, "good": port})


def test_dispute_is_explained_in_the_row(golden: Callable[..., None]) -> None:
    table = with_reference()
    golden(tables.format_markdown(table))
    lines = list(terminal.format_terminal(table, colour=False))
    place = next(at for at, line in enumerate(lines) if line.startswith("  i-one"))
    assert lines[place + 1] == "    torch takes it, against _R_ <b>"
    page = html_page.render_page([table])
    assert "<small>torch takes it, against _R_ &lt;b&gt;</small>" in page
    facts = tables.format_facts(table, "2026-01-01")
    assert "<code>reader torch, version 2.1.0</code>" in facts


def test_changed_columns_of_a_page() -> None:
    table = with_reference()
    due = tables.format_markdown(table).split("\n")

    def moved(old: str, new: str) -> list[str]:
        return list(tables.list_changes([line.replace(old, new) for line in due], due, [table]))

    assert moved("", "") == []
    assert moved("❌ <code>accepted</code>", "✅") == [
        "torch (reference): 1 cell differs; the reference has changed, not a port"
    ]
    assert moved("| ✅ | ✅ |", "| ✅ | ❌ <code>wrong</code> |") == ["good: 1 cell differs"]
    whose = "torch (reference): 1 cell differs; the reference has changed, not a port"
    assert moved("| <code>n-one</code>", "<!-- -->") == [whose]
    assert moved("| <code>i-one</code>", "<!-- -->") == [], "a row without a fault may be left out"
    assert "| right | 1 | 2 |" in due
    assert moved("| right | 1 | 2 |", "| right | 1 | 3 |") == [], "totals follow from the cells"


def test_colours_do_not_change_the_text() -> None:
    text = "\n".join(terminal.format_terminal(two(), colour=True))
    assert "\x1b[31m✗ wrong" in text
    assert "\x1b[32m✓ right" in text
    assert "\x1b[1;31m! hung" in text


def test_table_in_markdown(golden: Callable[..., None]) -> None:
    golden(tables.format_markdown(two()))


def unclaimed(outcome: str, verdict: str) -> dict[str, str]:
    """A case that was run for information alone."""
    reason = f"not claimed; the verdict would be {verdict}"
    return {"outcome": outcome, "verdict": "skipped", "reason": reason}


@pytest.mark.parametrize(
    ("expect", "more", "word", "tone"),
    [
        ("load", {"outcome": "right"}, "right", "good"),
        ("load", {"outcome": "refused"}, "refused", "mild"),
        ("refuse", {"outcome": "refused"}, "refused", "good"),
        ("either", {"outcome": "refused"}, "refused", "good"),
        ("load", {"outcome": "partial"}, "partial", "bad"),
        ("load", {"outcome": "partial", "reason": "the example skips it"}, "not shown", "none"),
        ("load", {"outcome": "partial", "reason": "drops integers"}, "partial", "bad"),
        ("refuse", {"outcome": "accepted"}, "accepted", "bad"),
        ("refuse", {"outcome": "panicked"}, "panicked", "dead"),
        ("refuse", {"outcome": "crashed"}, "crashed", "dead"),
        ("refuse", {"outcome": "out-of-memory"}, "out-of-memory", "dead"),
        ("refuse", {"outcome": "", "verdict": "skipped"}, "not shown", "none"),
        ("load", {"outcome": "not-supported"}, "not-supported", "none"),
        ("refuse", {"outcome": "not-supported", "verdict": "fail"}, "not-supported", "none"),
        ("load", unclaimed("right", "pass"), "right", "good"),
        ("load", unclaimed("wrong", "fail"), "wrong", "bad"),
        ("load", unclaimed("right", "fail"), "wrong", "bad"),
        ("load", unclaimed("not-supported", "fail"), "not-supported", "none"),
        ("", unclaimed("", "pass"), "right", "good"),
        ("", unclaimed("", "fail"), "wrong", "bad"),
        ("refuse", unclaimed("refused", "skipped"), "not shown", "none"),
        ("load", unclaimed("", "error"), "not shown", "none"),
        ("load", {**unclaimed("", ""), "reason": "not claimed"}, "not shown", "none"),
        ("load", {"outcome": "", "verdict": "error"}, "not shown", "none"),
        ("", {"outcome": "", "verdict": "pass"}, "right", "good"),
        ("", {"outcome": "", "verdict": "fail", "findings": (make_finding(),)}, "wrong", "bad"),
        ("", {"outcome": "", "verdict": "known-failure"}, "wrong", "bad"),
        ("load", {"outcome": "", "verdict": "fail", "findings": (UNSEEN,)}, "not shown", "none"),
        (
            "load",
            {"outcome": "", "verdict": "known-failure", "findings": (ALLOWED,)},
            "not shown",
            "none",
        ),
        ("", {"outcome": "", "verdict": "fail", "findings": (UNSEEN, DIFFERS)}, "wrong", "bad"),
        (
            "load",
            {"outcome": "right", "verdict": "fail", "findings": (PASSES,)},
            "right",
            "good",
        ),
        (
            "load",
            {"outcome": "right", "verdict": "fail", "findings": (DIFFERS,)},
            "wrong",
            "bad",
        ),
    ],
)  # fmt: skip
def test_text_of_a_cell(expect: str, more: dict[str, Any], word: str, tone: str) -> None:
    ((cell,),) = (
        row.cells for row in build_scoreboard({"p": of_port(ended("x", expect, **more))}).rows
    )
    assert (cell.word, cell.tone) == (word, tone)


OPERATORS = {
    # Group and case, what it expects, and the outcome of each of two ports.
    "exp/a": ("load", "right", "right"),
    "exp/b": ("load", "right", "wrong"),
    "exp/n": ("refuse", "refused", "accepted"),
    "sign/a": ("load", "right", "right"),
    "sign/b": ("load", "not-supported", "right"),
    "sum/a": ("load", "not-supported", "refused"),
    "sum/b": ("load", "not-supported", "panicked"),
    "tril/a": ("load", "right", ""),
}


def by_operator() -> Scoreboard:
    ports = {}
    for at, name in enumerate(("one", "two")):
        wrong = make_finding("wrong", "out differs", level="notice", cause="half away from zero")
        cases = [
            ended(case, expect, outcomes[at], group=case.partition("/")[0], command=f"run {case}")
            for case, (expect, *outcomes) in OPERATORS.items()
            if outcomes[at]
        ]
        cases = [
            replace(one, findings=(wrong,)) if one.outcome == "wrong" else one for one in cases
        ]
        ports[name] = of_port(*cases, crate=f"{name}@1.0.0")
    return build_scoreboard(ports, by_group=True)


def test_table_by_group(golden: Callable[..., None]) -> None:
    golden("\n".join(terminal.format_terminal(by_operator(), colour=False)))


def test_table_by_group_in_markdown(golden: Callable[..., None]) -> None:
    golden(tables.format_markdown(by_operator()))


def test_changed_columns_of_a_page_by_group() -> None:
    board = by_operator()
    lines = tables.format_markdown(board).split("\n")
    old = [line.replace("✅ 1, 1 not supported", "✅ 2") for line in lines]

    assert list(tables.list_changes(lines, lines, [board])) == []
    assert list(tables.list_changes(old, lines, [board])) == ["one: 1 cell differs"]


def test_each_cell_of_a_group_opens_its_cases() -> None:
    text = html_page.render_page([by_operator()])
    page = Page(text)
    ids = {attrs["id"] for _, attrs in page.tags if "id" in attrs}
    links = {str(attrs["href"])[1:] for tag, attrs in page.tags if tag == "a"}
    assert links <= ids
    assert {f"p{port}-c{row}" for port in (1, 2) for row in (1, 2, 3)} | {"p1-c4"} < links
    assert "p2-c4" not in links
    section = text.partition('<section id="p2-c1">')[2].partition("</section>")[0]
    assert section.count("<details>") == 3
    for part in ("✗ 1 of 3 wrong, 1 accepted", "out differs", "half away from zero", "run exp/b"):
        assert part in section


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_each_wrong_cell_links_to_its_findings() -> None:
    text = html_page.render_page([two()])
    page = Page(text)
    ids = {attrs["id"] for _, attrs in page.tags if "id" in attrs}
    links = [attrs["href"] for tag, attrs in page.tags if tag == "a"]
    assert links == ["#findings", "#p2-c2", "#p2-c3", "#p2-c4"]
    assert {str(link)[1:] for link in links} <= ids
    section = text.partition('<section id="p2-c2">')[2].partition("</section>")[0]
    for part in ("✗ wrong", "w differs", "axes 0 and 1", "parity verify", "Known failure: known"):
        assert part in section
    assert not [tag for tag, attrs in page.tags if tag in ("script", "link", "img")]


def hostile() -> Scoreboard:
    evil = f"</code></pre><script>alert(1)</script>|`@org {HOSTILE}"
    found = make_finding("wrong", evil, tensor=evil, cause=evil, details=(evil,))
    one = ended(evil, "load", "wrong", findings=(found,), why=evil, reason=evil, command=evil)
    return build_scoreboard({evil: of_port(one, command=evil)})


def test_foreign_text_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    table = hostile()
    page = Page(html_page.render_page([table]))
    printed = "\n".join(terminal.format_terminal(table, colour=False))
    marked = tables.format_section([table], "2026-01-01")
    assert not [tag for tag, _ in page.tags if tag == "script"]
    for text in (printed, marked):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "::error::" not in text
    assert "<script" not in marked
    assert "@org" not in marked
    rows = [line for line in marked.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows[:2]} == {3}


# --- the verb ---------------------------------------------------------------------------------


def written(folder: Path, name: str, found: Report) -> Path:
    place = folder / name
    place.mkdir()
    return json_report.write_json(found, 0, place)


@pytest.fixture
def reports(tmp_path: Path) -> list[str]:
    ports = {port.name: port.report for port in two().ports}
    return [str(written(tmp_path, name, found)) for name, found in ports.items()]


def test_reports_and_folders_are_read_and_named(
    reports: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["scoreboard", f"mine={reports[0]}", str(tmp_path / "bad")]
    assert run_command_line([*words, "--html", str(tmp_path / "x.html")]) == 0
    text = capsys.readouterr().out
    assert "mine             bad 2.0.0\n" in text
    assert "✗ wrong" in (tmp_path / "x.html").read_text(encoding="utf-8")
    assert run_command_line([*words, "--markdown"]) == 0
    assert "| ✅ | ❌ <code>wrong</code> |" in capsys.readouterr().out


def test_page_is_written_and_checked(
    reports: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "zoo.md"
    marks = f"{tables.BEGIN}\nold\n{tables.END}"
    page.write_text(f"# Zoo\n\n{marks}\n\nafter\n", encoding="utf-8")
    assert run_command_line(["scoreboard", *reports, "--write", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Zoo\n\n<!--")
    assert text.endswith("-->\n\nafter\n")
    assert "old" not in text
    assert run_command_line(["scoreboard", *reports, "--check", str(page)]) == 0

    page.write_text(text.replace("Measured on 2", "Measured on 1").replace("system S", "system T"))
    assert run_command_line(["scoreboard", *reports, "--check", str(page)]) == 0, "facts may differ"

    capsys.readouterr()
    page.write_text(text.replace("❌ <code>wrong</code>", "✅"), encoding="utf-8")
    assert run_command_line(["scoreboard", *reports, "--check", str(page)]) == 1
    text = capsys.readouterr().out
    assert "+ | <code>y-two</code> |" in text
    assert "\nbad 2.0.0: 1 cell differs\n" in text


def test_markers_within_a_line_are_ignored(reports: list[str], tmp_path: Path) -> None:
    page = tmp_path / "zoo.md"
    text = f"Between `{tables.BEGIN}` and\n`{tables.END}`\n"
    page.write_text(f"{text}{tables.BEGIN}\n{tables.END}\n", encoding="utf-8")
    assert run_command_line(["scoreboard", *reports, "--write", str(page)]) == 0
    assert page.read_text(encoding="utf-8").startswith(text)


def test_facts_omit_details_of_the_machine() -> None:
    found = make_report(
        make_bundle(make_case("x")), environment={"system": "Linux 6.1-mine", "python": "3.11.7"}
    )
    text = tables.format_facts(build_scoreboard({"p": found}), "2026-01-01")
    assert "system Linux, python 3.11.7" in text
    assert "mine" not in text


@pytest.mark.parametrize("text", ["", "no marks", f"{tables.END}{tables.BEGIN}"])
def test_page_without_markers_is_unchanged(text: str, reports: list[str], tmp_path: Path) -> None:
    page = tmp_path / "zoo.md"
    page.write_text(text, encoding="utf-8")
    for flag in ("--write", "--check"):
        assert run_command_line(["scoreboard", *reports, flag, str(page)]) == 2
    assert page.read_text(encoding="utf-8") == text


def broken(change: str, value: Any) -> bytes:
    found = json_report.build_json(two().ports[1].report, 0)
    places = {"report": found, "bundle": found["bundles"][0]}
    places["case"] = found["bundles"][0]["cases"][1]
    places["finding"] = places["case"]["findings"][0]
    place, _, key = change.partition(".")
    places[place][key] = value
    return json.dumps(found).encode()


MALFORMED = {
    "empty": b"",
    "no JSON": b"{",
    "no UTF-8": b"\xff\xfe\xff",
    "a list": b"[]",
    "deep": b"[" * 200_000,
    "another schema": broken("report.schema", 99),
    "no bundles": broken("report.bundles", None),
    "a bundle's id": broken("bundle.id", 7),
    "a case's outcome": broken("case.outcome", ["wrong"]),
    "a case's id": broken("case.id", {}),
    "a reason": broken("case.reason", 1.5),
    "a verdict": broken("case.verdict", "good"),
    "findings": broken("case.findings", "x"),
    "a message": broken("finding.message", 1),
    "a cause": broken("finding.cause", 1),
    "a port": broken("bundle.port", [1]),
    "a digest": broken("bundle.sha256", 1),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_report_is_a_clear_error(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(MALFORMED[kind])
    assert run_command_line(["scoreboard", str(path)]) == 2
    text = capsys.readouterr().err
    assert "[report-unreadable]" in text
    assert "Traceback" not in text


def test_missing_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["scoreboard", str(tmp_path / "none")]) == 2
    assert "[report-unreadable]" in capsys.readouterr().err


def test_reports_without_a_common_bundle(
    reports: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = written(
        tmp_path, "o", make_report(make_bundle(make_case("x"), bundle="other", sha256="a" * 64))
    )
    moved = written(tmp_path, "m", make_report(make_bundle(make_case("x"), sha256="b" * 64)))
    for path, why in ((other, "have no bundle in common"), (moved, "different states of b")):
        assert run_command_line(["scoreboard", reports[0], f"x={path}"]) == 2
        assert why in capsys.readouterr().err
    assert run_command_line(["scoreboard", reports[0], reports[0]]) == 2
    assert run_command_line(["scoreboard", *reports, "--bundle", "other"]) == 2


@pytest.fixture
def several(tmp_path: Path) -> str:
    """The report of two bundles that have a case of the same name, right and wrong."""
    ports = {"b": {"package": "first"}, "c": {"package": "second"}}
    cases = {"b": ended("x", "load", "right"), "c": ended("x", "load", "wrong")}
    bundles = (make_bundle(cases[name], bundle=name, port=ports[name]) for name in ports)
    return str(written(tmp_path, "r", make_report(*bundles)))


def test_each_of_several_bundles_has_a_table(
    several: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "x.html"
    assert run_command_line(["scoreboard", several, "--html", str(page)]) == 0
    text = capsys.readouterr().out
    first, second = text.split("\n\n\n")
    assert first.startswith("b  sha256:")
    assert "first" in first
    assert "✓ right" in first
    assert second.startswith("c  sha256:")
    assert "second" in second
    assert "✗ wrong" in second
    html = page.read_text(encoding="utf-8")
    assert html.count("<h1>") == 2
    assert html.count('id="findings') == 2
    assert 'href="#b2-p1-c1"' in html
    assert run_command_line(["scoreboard", several, "--bundle", "c"]) == 0
    assert capsys.readouterr().out.startswith("c  sha256:")


def test_a_bundle_that_one_report_lacks_is_named(
    several: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = make_bundle(ended("x", "load", "right"), bundle="c", port={"package": "third"})
    other = written(tmp_path, "o", make_report(bundle))
    assert run_command_line(["scoreboard", several, str(other)]) == 0
    out, err = capsys.readouterr()
    assert "third" in out
    assert err.startswith("b of ")
    assert err.endswith(" is not shown: not all reports have it\n")


def test_a_page_of_several_bundles_is_checked_table_by_table(
    several: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{tables.BEGIN}\n{tables.END}\n", encoding="utf-8")
    assert run_command_line(["scoreboard", several, "--write", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.index("### <code>b</code>") < text.index("### <code>c</code>")
    assert run_command_line(["scoreboard", several, "--check", str(page)]) == 0
    page.write_text(text.replace("❌ <code>wrong</code>", "✅"), encoding="utf-8")
    capsys.readouterr()
    assert run_command_line(["scoreboard", several, "--check", str(page)]) == 1
    assert "\nsecond: 1 cell differs\n" in capsys.readouterr().out


def test_a_page_without_jinja2_is_an_error_before_any_report_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    args = ["scoreboard", str(tmp_path / "absent"), "--html", str(tmp_path / "x.html")]
    assert run_command_line(args) == 2
    assert "error[missing-library]" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
