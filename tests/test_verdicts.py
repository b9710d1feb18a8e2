"""Known failures: what they forgive, what they never do, and when they turn red themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from parity.errors import Location
from parity.known_failures import KnownFailures, find_unmatched, match_glob, parse_known_failures
from tests.support.reports import make_case, make_finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parity.results import CaseResult, Finding

WHERE = Location(Path("fixtures.lock.yaml"), 9, 5)
TENSORS = ("w", "v", "blk.0.q")


def known(*texts: str, cases: Sequence[str] = ("x", "y", "z")) -> KnownFailures:
    return KnownFailures(parse_known_failures(dict.fromkeys(texts, "#1")), cases, WHERE)


def apply(text: str, *findings: Finding, tensors: Sequence[str] | None = TENSORS) -> CaseResult:
    return known(text).apply(make_case("x", *findings), tensors)


def told(result: CaseResult) -> list[tuple[str, str]]:
    return [(found.level, found.code) for found in result.findings]


FORGIVEN = {
    "the case": "x",
    "any case": "*",
    "some cases": "x*",
    "the tensor": "x/w",
    "tensors": "x/w*",
    "all tensors": "x/*",
    "the tensor of any case": "*/w",
    "the code": "x:values",
    "the code of any case": "*:values",
}


@pytest.mark.parametrize("name", FORGIVEN)
def test_a_pattern_forgives_what_it_covers(name: str) -> None:
    result = apply(FORGIVEN[name], make_finding("values", "w differs", tensor="w"))
    assert (result.verdict, result.reason) == ("known-failure", "#1")
    (forgiven,) = result.findings
    assert (forgiven.level, forgiven.code) == ("notice", "values")
    assert forgiven.message == "known failure (#1): w differs"


@pytest.mark.parametrize("text", ["y", "xx", "X", "y:values", "y/w", "*y*"])
def test_a_pattern_of_another_case_forgives_nothing(text: str) -> None:
    result = apply(text, make_finding("values", tensor="w"))
    assert (result.verdict, told(result)) == ("fail", [("error", "values")])


def test_a_code_forgives_that_code_alone() -> None:
    result = apply("x:shape", make_finding("shape", tensor="w"), make_finding("nan", tensor="v"))
    assert (result.verdict, told(result)) == ("fail", [("notice", "shape"), ("error", "nan")])


def test_a_code_turns_red_when_the_port_becomes_wrong_in_another_way() -> None:
    result = apply("x:refused", make_finding("wrong"))
    assert result.verdict == "fail"
    assert told(result) == [("error", "wrong"), ("error", "known-failure-passes")]


def test_a_tensor_forgives_that_tensor_alone() -> None:
    result = apply(
        "x/w", make_finding(tensor="w"), make_finding(tensor="v"), make_finding(tensor=None)
    )
    assert [found.level for found in result.findings] == ["notice", "error", "error"]
    assert result.verdict == "fail"


def test_several_patterns_add_up() -> None:
    result = known("x/w", "x/v").apply(
        make_case("x", make_finding(tensor="w"), make_finding(tensor="v")), TENSORS
    )
    assert result.verdict == "known-failure"
    assert result.reason == "#1"


def test_reasons_are_all_told_once() -> None:
    applied = KnownFailures(parse_known_failures({"x/w": "one", "x/v": "two", "x/q": "two"}), ["x"])
    errors = [make_finding(tensor=name) for name in "wvq"]
    assert applied.apply(make_case("x", *errors), "wvq").reason == "one; two"


def test_a_slash_in_a_tensor_and_a_colon_in_its_name_belong_to_the_tensor() -> None:
    (pattern,) = parse_known_failures({"x/a/b:0": "#1"})
    assert (pattern.case, pattern.tensor, pattern.code) == ("x", "a/b:0", None)


@pytest.mark.parametrize("kind", ["dump", "mismatch"])
def test_what_is_the_ports_own_trouble_is_forgiven(kind: str) -> None:
    assert (
        apply("x", make_finding("dump-panic", kind=kind), tensors=None).verdict == "known-failure"
    )


@pytest.mark.parametrize("kind", ["config", "integrity", "fetch", "reference", "empty"])
@pytest.mark.parametrize(
    "text", ["x", "*", "x:reference-malformed", "*:reference-malformed", "x/w"]
)
def test_trouble_that_is_not_the_ports_is_never_forgiven(kind: str, text: str) -> None:
    result = apply(text, make_finding("reference-malformed", kind=kind, tensor="w"), tensors=None)
    assert (result.verdict, told(result)) == ("error", [("error", "reference-malformed")])


@pytest.mark.parametrize("level", ["warning", "notice"])
def test_what_is_no_error_needs_no_forgiving(level: str) -> None:
    result = apply("*:values", make_finding("values", level=level))
    assert (result.verdict, told(result)) == ("pass", [(level, "values")])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "known failure 'x' (#1) no longer fails in x; take it out of the lockfile"),
        ("*", "known failure '*' (#1) no longer fails in x; take it out of the lockfile"),
        ("x/w", "known failure 'x/w' (#1) no longer fails in x; take it out of the lockfile"),
        ("x:nan", "known failure 'x:nan' (#1) no longer fails in x; take it out of the lockfile"),
        ("*/w", "known failure '*/w' (#1) no longer fails in x; take it out of the lockfile"),
    ],
)
def test_a_known_failure_that_passes_is_red(text: str, message: str) -> None:
    result = apply(text)
    assert result.verdict == "fail"
    (stale,) = result.findings
    assert (stale.level, stale.code, stale.kind) == ("error", "known-failure-passes", "mismatch")
    assert (stale.message, stale.where) == (message, WHERE)


def test_a_tensor_that_passes_is_red_beside_one_that_fails() -> None:
    result = known("x/w", "x/v").apply(make_case("x", make_finding(tensor="w")), TENSORS)
    assert told(result) == [("notice", "values"), ("error", "known-failure-passes")]
    assert result.verdict == "fail"


def test_of_tensors_under_one_pattern_one_that_fails_is_enough() -> None:
    assert apply("x/*", make_finding(tensor="w")).verdict == "known-failure"


@pytest.mark.parametrize("text", ["x", "x/w", "x:nan", "*:nan"])
@pytest.mark.parametrize("kind", ["reference", "dump"])
def test_a_case_that_could_not_be_compared_makes_nothing_stale(text: str, kind: str) -> None:
    applied = known(text, cases=["x"])
    result = applied.apply(make_case("x", make_finding("other", kind=kind)), None)
    assert "known-failure-passes" not in [found.code for found in result.findings]
    assert applied.find_unused() == []


@pytest.mark.parametrize("text", ["x", "x/w", "x:nan", "*:nan"])
def test_a_reference_that_is_suspect_makes_nothing_stale(text: str) -> None:
    applied = known(text, cases=["x"])
    result = applied.apply(make_case("x", make_finding("other", kind="reference")), TENSORS)
    assert told(result) == [("error", "other")]
    assert applied.find_unused() == []


def test_a_dump_that_cannot_be_read_makes_no_tensor_stale() -> None:
    result = apply("x/w", make_finding("truncated", kind="dump", tensor="v.bin"), tensors=())
    assert told(result) == [("error", "truncated")]


def test_a_skipped_case_is_left_as_it_is() -> None:
    skipped = make_case("x", verdict="skipped", reason="no control")
    assert known("x").apply(skipped, None) is skipped


def test_a_tensor_that_the_case_lacks_names_nothing() -> None:
    result = apply("x/typo")
    (found,) = result.findings
    assert (found.code, found.kind, result.verdict) == ("names-nothing", "config", "error")
    assert found.message == (
        "known failure 'x/typo' (#1) names no tensor of x; "
        "correct it, or take it out of the lockfile"
    )


def test_a_tensor_that_only_a_finding_knows_is_named() -> None:
    assert apply("x/extra", make_finding("tensor-extra", tensor="extra")).verdict == "known-failure"


def test_a_code_of_any_case_is_stale_where_it_shows_in_none() -> None:
    applied = known("*:nan", cases=["x", "y"])
    assert applied.apply(make_case("x"), TENSORS).verdict == "pass"
    assert applied.apply(make_case("y", make_finding("shape")), TENSORS).verdict == "fail"
    (stale,) = applied.find_unused()
    assert (stale.code, stale.kind) == ("known-failure-passes", "mismatch")
    assert stale.message == (
        "known failure '*:nan' (#1) no longer shows in any case; take it out of the lockfile"
    )


def test_a_code_of_any_case_is_in_use_where_it_shows_in_one() -> None:
    applied = known("*:nan", cases=["x", "y"])
    assert applied.apply(make_case("x"), TENSORS).verdict == "pass"
    assert applied.apply(make_case("y", make_finding("nan")), TENSORS).verdict == "known-failure"
    assert applied.find_unused() == []


def test_two_patterns_that_forgive_the_same_are_both_in_use() -> None:
    applied = known("x", "*:nan", cases=["x"])
    assert applied.apply(make_case("x", make_finding("nan")), TENSORS).verdict == "known-failure"
    assert applied.find_unused() == []


def test_a_run_of_some_cases_calls_nothing_stale_that_others_may_show() -> None:
    applied = known("*:nan", "*/typo", cases=["x", "y"])
    assert applied.apply(make_case("x"), TENSORS).findings == ()
    assert applied.find_unused() == []


def test_a_tensor_that_no_case_has_names_nothing() -> None:
    applied = known("*/typo", "*/w", cases=["x", "y"])
    applied.apply(make_case("x", make_finding(tensor="w")), TENSORS)
    applied.apply(make_case("y", make_finding(tensor="w")), TENSORS)
    (found,) = applied.find_unused()
    assert (found.code, found.kind) == ("names-nothing", "config")
    assert "'*/typo' (#1) names no tensor of any case" in found.message


def test_without_known_failures_nothing_changes() -> None:
    result = make_case("x", make_finding())
    assert KnownFailures([], ["x"]).apply(result, TENSORS) == result


def test_a_pattern_names_a_case_and_a_code_of_the_vocabulary() -> None:
    found = parse_known_failures(
        dict.fromkeys(["x", "y*", "*", "z", "x:nan", "x:typo", "q:typo", "x/w"], "#1")
    )
    assert find_unmatched(found, ["y1", "x"], ["nan"]) == [
        "known failure 'z' names no case of this bundle; cases: x, y1",
        "known failure 'x:typo' names no finding code",
        "known failure 'q:typo' names no case of this bundle; cases: x, y1",
    ]


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("a", "a", True),
        ("a", "ab", False),
        ("a*", "a", True),
        ("*a", "ba", True),
        ("a*c*e", "abcde", True),
        ("*", "", True),
        ("", "", True),
        ("", "a", False),
        ("a.c", "abc", False),
        ("[ab]", "a", False),
        ("a?", "ab", False),
        ("a*", "a\nb", True),
        ("A", "a", False),
    ],
)
def test_only_a_star_stands_for_anything(pattern: str, text: str, expected: bool) -> None:
    assert match_glob(pattern, text) is expected
