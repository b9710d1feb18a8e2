"""Annotations word for word, read back by the runner's grammar."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity.errors import ConfigError, Location, Problem
from parity.reports import github_annotations
from parity.results import Report
from tests.action.grammar import Command, commands
from tests.reports.test_console import mixed
from tests.support.reports import HOSTILE, make_bundle, make_case, make_finding, make_report

SOURCE = Location(Path("examples/dump.rs"))


@pytest.fixture(autouse=True)
def _workspace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def parse_annotations(whole: Report, most: int = 10) -> list[Command]:
    lines = github_annotations.format_annotations(whole, most)
    found = commands(lines)
    assert len(found) == len(lines), "each line is one command"
    return found


def titles(whole: Report, most: int = 10) -> list[str]:
    return [command.properties["title"] for command in parse_annotations(whole, most)]


def test_every_kind_of_failure() -> None:
    absent, panicked, differs = github_annotations.format_annotations(mixed(), 10)
    assert absent == (
        "::error file=fixtures.lock.yaml,line=8,col=7,title=absent%3A http-not-found"
        "::there is no such file"
    )
    assert panicked == (
        "::error file=src/gguf.rs,line=7,col=1,title=b/gguf%3A dump-panic"
        "::The dump panicked at src/gguf.rs:7:1: no such block"
        "%0Arepeat: nox -s verify -- --case b/gguf%0A| thread 'main' panicked"
    )
    assert differs == (
        "::error title=b/pth%3A values::w[3] is 1.5, expected 1.25; bound 1e-06"
        "%0Acause: the rows are read in column order%0Arepeat: nox -s verify -- --case b/pth"
        "%0A| [0]  1.5  1.25%0A| [1]  2.5  2.25"
    )


def test_case_points_to_its_dump_program() -> None:
    whole = make_report(make_bundle(make_case("x", make_finding("values"), source=SOURCE)))
    (only,) = parse_annotations(whole)
    assert (only.properties["file"], only.properties["line"]) == ("examples/dump.rs", "1")


def test_file_outside_the_workspace_is_omitted() -> None:
    whole = make_report(
        make_bundle(make_case("x", make_finding("values", where=Location(Path("/etc/passwd"), 3))))
    )
    (only,) = parse_annotations(whole)
    assert set(only.properties) == {"title"}


def test_most_severe_annotation_is_first() -> None:
    cases = [
        make_case("near", make_finding("values"), margin=1.5),
        make_case("far", make_finding("values", "far"), margin=90.0),
        make_case("not-a-number", make_finding("nan", "nan"), margin=2.0),
        make_case("built", make_finding("compile-error", "no", kind="dump")),
    ]
    found = titles(make_report(make_bundle(*cases)))
    assert found == [
        "b/built: compile-error",
        "b/not-a-number: nan",
        "b/far: values",
        "b/near: values",
    ]


def test_shared_cause_is_one_annotation() -> None:
    same = make_finding(
        "compile-error", "mismatched types", kind="dump", where=Location(Path("a.rs"), 2)
    )
    other = make_finding(
        "compile-error", "no such name", kind="dump", where=Location(Path("a.rs"), 9)
    )
    whole = make_report(make_bundle(*(make_case(f"c{n}", same, other) for n in range(7))))
    first, second = parse_annotations(whole)
    assert (first.properties["line"], second.properties["line"]) == ("2", "9")
    assert "in 7 cases: b/c0, b/c1, b/c2, b/c3, b/c4 and 2 more" in first.data


def test_shared_finding_without_location_is_one_annotation() -> None:
    same = make_finding("dump-not-started", "not found", kind="dump")
    whole = make_report(make_bundle(*(make_case(f"c{n}", same, source=SOURCE) for n in range(3))))
    (only,) = parse_annotations(whole)
    assert "in 3 cases: b/c0, b/c1, b/c2" in only.data
    assert only.properties["file"] == "examples/dump.rs"


def test_several_findings_of_a_case_are_one_annotation() -> None:
    whole = make_report(
        make_bundle(
            make_case(
                "x",
                make_finding("values", "a"),
                make_finding("shape", "b"),
                make_finding("nan", "c"),
            )
        )
    )
    (only,) = parse_annotations(whole)
    assert only.data.split("\n") == ["a", "and 2 more findings in this case"]


@pytest.mark.parametrize(
    ("count", "most", "kept"),
    [(10, 10, 10), (11, 10, 10), (300, 10, 10), (3, 2, 2), (2, 1, 1), (3, 0, 0)],
)
def test_annotations_are_limited_and_the_last_counts_the_rest(
    count: int, most: int, kept: int
) -> None:
    whole = make_report(
        make_bundle(*(make_case(f"c{n}", make_finding("values", str(n))) for n in range(count)))
    )
    found = parse_annotations(whole, most)
    assert len(found) == kept
    if count > most > 0:
        assert found[-1].properties["title"] == f"parity: {count - most + 1} more errors"
        assert "See the job's summary." in found[-1].data


def test_warnings_have_their_own_limit_and_notices_are_omitted() -> None:
    whole = make_report(
        make_bundle(
            make_case("x", make_finding("a", level="warning"), make_finding("b", level="notice"))
        )
    )
    assert [command.name for command in parse_annotations(whole)] == ["warning"]


def test_nothing_verified_is_omitted_beside_another_error() -> None:
    few = make_finding("nothing-verified", kind="empty")
    assert titles(make_report(findings=(few,))) == ["parity: nothing-verified"]
    broken = make_case("x", make_finding("dump-panic", kind="dump"))
    assert titles(make_report(make_bundle(broken), findings=(few,))) == ["b/x: dump-panic"]


def test_titles_and_messages_respect_the_limits_of_github() -> None:
    long = make_case("x" * 999, make_finding("values", "é" * 1990, details=("d" * 1990,) * 9))
    (only,) = parse_annotations(make_report(make_bundle(long)))
    assert len(only.properties["title"]) == 255
    assert len(only.data) == 4096
    assert only.data.endswith("…")


INJECTIONS = [
    HOSTILE,
    "a\n::error::b",
    "a\r::add-path::/b",
    "##[add-matcher]/x",
    "%0A::error::b",
    "::stop-commands::x",
    ",line=9,file=/etc/passwd",
    "\u2028::error::b",
]


@pytest.mark.parametrize("text", INJECTIONS)
def test_foreign_text_is_escaped_everywhere(text: str) -> None:
    found = make_finding(
        "values", text, cause=text, details=(text,), where=Location(Path("a.rs"), 1)
    )
    whole = make_report(make_bundle(make_case(text, found, command=text), bundle=text))
    (only,) = parse_annotations(whole)
    assert (only.name, set(only.properties)) == ("error", {"file", "line", "title"})
    assert (only.properties["file"], only.properties["line"]) == ("a.rs", "1")
    lines = "".join(github_annotations.format_annotations(whole, 10))
    assert "##[" not in lines
    assert lines.isprintable() or "\ud800" in lines


def test_error_that_ends_the_run_points_to_its_locations() -> None:
    problems = [Problem("yaml", f"wrong {n}", Location(Path("l.yaml"), n, 2)) for n in range(1, 13)]
    found = commands(github_annotations.format_error_annotations(ConfigError(*problems), 10))
    assert len(found) == 10
    assert found[0] == Command(
        "error", "wrong 1", {"file": "l.yaml", "line": "1", "col": "2", "title": "parity: yaml"}
    )
    assert found[-1].properties["title"] == "parity: 3 more errors"
