"""JUnit XML: written by one library, read back by two others."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from junit2htmlreport.parser import Junit

from parity.errors import Location
from parity.reports import junit
from tests.reports.test_console import mixed
from tests.support.reports import HOSTILE, make_bundle, make_case, make_finding, make_report

SOURCE = Location(Path("examples/dump.rs"))


def parsed(whole: object) -> ET.Element:
    return ET.fromstring(junit.format_junit(whole))  # type: ignore[arg-type]  # noqa: S314 - our own


@pytest.fixture(autouse=True)
def _workspace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_counters_add_up() -> None:
    root = parsed(mixed())
    assert root.tag == "testsuites"
    suites = root.findall("testsuite")
    assert [suite.get("name") for suite in suites] == ["b", "absent"]
    for suite in suites:
        for word, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(word, "")) == len(suite.findall(f"testcase/{tag}"))
        assert int(suite.get("tests", "")) == len(suite.findall("testcase"))
    for word in ("tests", "failures", "errors", "skipped"):
        assert int(root.get(word, "")) == sum(int(suite.get(word, "")) for suite in suites)


def test_each_verdict_has_its_element() -> None:
    found = {c.get("name"): [child.tag for child in c] for c in parsed(mixed()).iter("testcase")}
    assert found == {
        "good": [],
        "quants": ["skipped"],
        "pth": ["failure"],
        "gguf": ["error"],
        "onnx": ["skipped"],
        "(as a whole)": ["error"],
    }


def test_failure_has_message_location_and_command() -> None:
    failure = next(parsed(mixed()).iter("failure"))
    assert (failure.get("type"), failure.get("message")) == (
        "values",
        "w[3] is 1.5, expected 1.25; bound 1e-06",
    )
    assert "cause: the rows are read in column order" in (failure.text or "")
    assert "repeat: nox -s verify -- --case b/pth" in (failure.text or "")


def test_file_and_line_of_the_finding_else_of_the_dump_program() -> None:
    at = make_finding("dump-panic", kind="dump", where=Location(Path("src/a.rs"), 7))
    whole = make_report(
        make_bundle(
            make_case("x", at, source=SOURCE), make_case("y", make_finding(), source=SOURCE)
        )
    )
    places = [(c.get("file"), c.get("line")) for c in parsed(whole).iter("testcase")]
    assert places == [("src/a.rs", "7"), ("examples/dump.rs", "1")]


def test_seconds_are_written_without_exponent() -> None:
    whole = make_report(make_bundle(make_case("x", seconds={"dump": 0.25, "compare": 1e-9})))
    (only,) = parsed(whole).iter("testcase")
    assert re.fullmatch(r"\d+(\.\d+)?", only.get("time", ""))
    assert float(only.get("time", "")) == pytest.approx(0.25)


@pytest.mark.parametrize("text", [HOSTILE, "<a>&\"'", "]]>", "\x00\x0b\ufffe", "a\nb"])
def test_any_text_gives_well_formed_xml(text: str) -> None:
    bad = make_finding("values", text, cause=text, details=(text,))
    root = parsed(make_report(make_bundle(make_case(text, bad, command=text), bundle=text)))
    (only,) = root.iter("testcase")
    assert "\n" not in (only.get("name", "") + next(root.iter("failure")).get("message", ""))


def test_independent_reader_gets_the_same_results(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text(junit.format_junit(mixed()), encoding="utf-8")
    read = Junit(str(tmp_path / "junit.xml"))
    cases = [case for suite in read.suites for case in suite.all()]
    assert sorted(case.name for case in cases) == sorted(
        ["good", "quants", "pth", "gguf", "onnx", "(as a whole)"]
    )
    assert {case.name for case in cases if case.failed()} == {"pth", "gguf", "(as a whole)"}
    assert {case.name for case in cases if case.skipped} == {"quants", "onnx"}
