"""Known failures: what they forgive, what they never do, and when they turn red themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from parity.errors import Location
from parity.known_failures import KnownFailures, find_unmatched, match_glob, parse_known_failures
from parity.results import CaseResult, Finding
from tests.support.reports import make_case, make_finding

WHERE = Location(Path("fixtures.lock.yaml"), 9, 5)
TENSORS = ("w", "v", "blk.0.q")


def known(*texts: str, cases: Sequence[str] = ("x", "y", "z")) -> KnownFailures:
    return KnownFailures(parse_known_failures(dict.fromkeys(texts, "#1")), cases, WHERE)


def apply(text: str, *findings: Finding, tensors: Sequence[str] | None = TENSORS) -> CaseResult:
    return known(text).apply(make_case("x", *findings), tensors)


def values(result: CaseResult) -> list[tuple[str, str]]:
    return [(found.level, found.code) for found in result.findings]


ALLOWED = {
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


@pytest.mark.parametrize("name", ALLOWED)
def test_pattern_allows_matching_findings(name: str) -> None:
    result = apply(ALLOWED[name], make_finding("values", "w differs", tensor="w"))
    assert (result.verdict, result.reason) == ("known-failure", "#1")
    (allowed,) = result.findings
    assert (allowed.level, allowed.code) == ("notice", "values")
    assert allowed.message == "known failure (#1): w differs"


@pytest.mark.parametrize("text", ["y", "xx", "X", "y:values", "y/w", "*y*"])
def test_pattern_of_another_case_allows_nothing(text: str) -> None:
    result = apply(text, make_finding("values", tensor="w"))
    assert (result.verdict, values(result)) == ("fail", [("error", "values")])


def test_code_allows_only_that_code() -> None:
    result = apply("x:shape", make_finding("shape", tensor="w"), make_finding("nan", tensor="v"))
    assert (result.verdict, values(result)) == ("fail", [("notice", "shape"), ("error", "nan")])


def test_code_does_not_allow_another_error() -> None:
    result = apply("x:refused", make_finding("wrong"))
    assert result.verdict == "fail"
    assert values(result) == [("error", "wrong"), ("error", "known-failure-passes")]


def test_tensor_allows_only_that_tensor() -> None:
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


def test_every_reason_is_reported_once() -> None:
    applied = KnownFailures(parse_known_failures({"x/w": "one", "x/v": "two", "x/q": "two"}), ["x"])
    errors = [make_finding(tensor=name) for name in "wvq"]
    assert applied.apply(make_case("x", *errors), "wvq").reason == "one; two"


def test_slash_and_colon_belong_to_the_tensor_name() -> None:
    (pattern,) = parse_known_failures({"x/a/b:0": "#1"})
    assert (pattern.case, pattern.tensor, pattern.code) == ("x", "a/b:0", None)


@pytest.mark.parametrize("kind", ["dump", "mismatch"])
def test_errors_of_the_port_are_allowed(kind: str) -> None:
    assert (
        apply("x", make_finding("dump-panic", kind=kind), tensors=None).verdict == "known-failure"
    )


@pytest.mark.parametrize("kind", ["config", "integrity", "fetch", "reference", "empty"])
@pytest.mark.parametrize(
    "text", ["x", "*", "x:reference-malformed", "*:reference-malformed", "x/w"]
)
def test_other_errors_are_never_allowed(kind: str, text: str) -> None:
    result = apply(text, make_finding("reference-malformed", kind=kind, tensor="w"), tensors=None)
    assert (result.verdict, values(result)) == ("error", [("error", "reference-malformed")])


@pytest.mark.parametrize("level", ["warning", "notice"])
def test_warnings_and_notices_are_unchanged(level: str) -> None:
    result = apply("*:values", make_finding("values", level=level))
    assert (result.verdict, values(result)) == ("pass", [(level, "values")])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "known failure 'x' (#1) no longer fails in x; remove it from the lockfile"),
        ("*", "known failure '*' (#1) no longer fails in x; remove it from the lockfile"),
        ("x/w", "known failure 'x/w' (#1) no longer fails in x; remove it from the lockfile"),
        ("x:nan", "known failure 'x:nan' (#1) no longer fails in x; remove it from the lockfile"),
        ("*/w", "known failure '*/w' (#1) no longer fails in x; remove it from the lockfile"),
    ],
)
def test_passing_known_failure_is_an_error(text: str, message: str) -> None:
    result = apply(text)
    assert result.verdict == "fail"
    (stale,) = result.findings
    assert (stale.level, stale.code, stale.kind) == ("error", "known-failure-passes", "mismatch")
    assert (stale.message, stale.where) == (message, WHERE)


def test_passing_tensor_is_an_error_beside_a_failing_one() -> None:
    result = known("x/w", "x/v").apply(make_case("x", make_finding(tensor="w")), TENSORS)
    assert values(result) == [("notice", "values"), ("error", "known-failure-passes")]
    assert result.verdict == "fail"


def test_one_failing_tensor_keeps_a_pattern_in_use() -> None:
    assert apply("x/*", make_finding(tensor="w")).verdict == "known-failure"


@pytest.mark.parametrize("text", ["x", "x/w", "x:nan", "*:nan"])
@pytest.mark.parametrize("kind", ["reference", "dump"])
def test_case_without_comparison_makes_no_pattern_stale(text: str, kind: str) -> None:
    applied = known(text, cases=["x"])
    result = applied.apply(make_case("x", make_finding("other", kind=kind)), None)
    assert "known-failure-passes" not in [found.code for found in result.findings]
    assert applied.find_unused() == []


@pytest.mark.parametrize("text", ["x", "x/w", "x:nan", "*:nan"])
def test_suspect_reference_makes_no_pattern_stale(text: str) -> None:
    applied = known(text, cases=["x"])
    result = applied.apply(make_case("x", make_finding("other", kind="reference")), TENSORS)
    assert values(result) == [("error", "other")]
    assert applied.find_unused() == []


def test_unreadable_dump_makes_no_tensor_stale() -> None:
    result = apply("x/w", make_finding("truncated", kind="dump", tensor="v.bin"), tensors=())
    assert values(result) == [("error", "truncated")]


def test_skipped_case_is_unchanged() -> None:
    skipped = make_case("x", verdict="skipped", reason="no control")
    assert known("x").apply(skipped, None) is skipped


def test_unknown_tensor_is_an_error() -> None:
    result = apply("x/typo")
    (found,) = result.findings
    assert (found.code, found.kind, result.verdict) == ("names-nothing", "config", "error")
    assert found.message == (
        "known failure 'x/typo' (#1) matches no tensor of x; "
        "correct it, or remove it from the lockfile"
    )


def test_tensor_of_a_finding_counts_as_known() -> None:
    assert apply("x/extra", make_finding("tensor-extra", tensor="extra")).verdict == "known-failure"


def test_code_glob_without_match_is_stale() -> None:
    applied = known("*:nan", cases=["x", "y"])
    assert applied.apply(make_case("x"), TENSORS).verdict == "pass"
    assert applied.apply(make_case("y", make_finding("shape")), TENSORS).verdict == "fail"
    (stale,) = applied.find_unused()
    assert (stale.code, stale.kind) == ("known-failure-passes", "mismatch")
    assert stale.message == (
        "known failure '*:nan' (#1) no longer fails in any case; remove it from the lockfile"
    )


def test_code_glob_with_one_match_is_in_use() -> None:
    applied = known("*:nan", cases=["x", "y"])
    assert applied.apply(make_case("x"), TENSORS).verdict == "pass"
    assert applied.apply(make_case("y", make_finding("nan")), TENSORS).verdict == "known-failure"
    assert applied.find_unused() == []


def test_two_patterns_for_one_finding_are_both_in_use() -> None:
    applied = known("x", "*:nan", cases=["x"])
    assert applied.apply(make_case("x", make_finding("nan")), TENSORS).verdict == "known-failure"
    assert applied.find_unused() == []


def test_partial_run_makes_no_glob_stale() -> None:
    applied = known("*:nan", "*/typo", cases=["x", "y"])
    assert applied.apply(make_case("x"), TENSORS).findings == ()
    assert applied.find_unused() == []


def test_tensor_glob_without_match_is_an_error() -> None:
    applied = known("*/typo", "*/w", cases=["x", "y"])
    applied.apply(make_case("x", make_finding(tensor="w")), TENSORS)
    applied.apply(make_case("y", make_finding(tensor="w")), TENSORS)
    (found,) = applied.find_unused()
    assert (found.code, found.kind) == ("names-nothing", "config")
    assert "'*/typo' (#1) matches no tensor of any case" in found.message


def test_without_known_failures_results_are_unchanged() -> None:
    result = make_case("x", make_finding())
    assert KnownFailures([], ["x"]).apply(result, TENSORS) == result


def test_pattern_must_name_a_case_and_a_known_code() -> None:
    found = parse_known_failures(
        dict.fromkeys(["x", "y*", "*", "z", "x:nan", "x:typo", "q:typo", "x/w"], "#1")
    )
    assert find_unmatched(found, ["y1", "x"]) == [
        "known failure 'z' matches no case of this bundle; cases: x, y1",
        "known failure 'x:typo': unknown finding code",
        "known failure 'q:typo' matches no case of this bundle; cases: x, y1",
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
def test_only_a_star_is_a_wildcard(pattern: str, text: str, expected: bool) -> None:
    assert match_glob(pattern, text) is expected
