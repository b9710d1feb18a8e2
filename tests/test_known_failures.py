"""Known failures: what they allow, what they never do, and when they turn red themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from parity.errors import Location
from parity.known_failures import KnownFailures, find_unmatched, match_glob, parse_known_failures
from parity.results import Finding
from tests.support.reports import make_case, make_finding

WHERE = Location(Path("fixtures.lock.yaml"), 9, 5)
TENSORS = ("w", "v", "blk.0.q")


def known(*texts: str, cases: Sequence[str] = ("x", "y", "z")) -> KnownFailures:
    return KnownFailures(parse_known_failures(dict.fromkeys(texts, "#1")), cases, WHERE)


VALUES = make_finding("values", "w differs", tensor="w")
OTHER, NO_TENSOR = make_finding(tensor="v"), make_finding(tensor=None)
NAN, SHAPE = make_finding("nan", tensor="v"), make_finding("shape", tensor="w")
KINDS = ("config", "integrity", "fetch", "reference", "empty")
NOT_COMPARED = (make_finding("other", kind="reference"), make_finding("other", kind="dump"))
MALFORMED = [make_finding("reference-malformed", kind=kind, tensor="w") for kind in KINDS]


def list_rows() -> Iterator[tuple[str, dict[str, tuple[Finding, ...]], Sequence[str] | None]]:
    """List patterns, the findings of each case of a bundle, and the tensors that it compared."""
    for text in ("x", "*", "x*", "x/w", "x/w*", "x/*", "*/w", "x:values", "*:values"):
        yield text, {"x": (VALUES,)}, TENSORS
    for text in ("y", "xx", "X", "y:values", "y/w", "*y*"):  # patterns of another case
        yield text, {"x": (VALUES,)}, TENSORS
    yield "x:shape", {"x": (SHAPE, NAN)}, TENSORS
    yield "x:refused", {"x": (make_finding("wrong"),)}, TENSORS
    yield "x/w", {"x": (VALUES, OTHER, NO_TENSOR)}, TENSORS
    yield "x/w x/v", {"x": (VALUES, OTHER)}, TENSORS
    yield "x/w x/v", {"x": (VALUES,)}, TENSORS
    yield "x/*", {"x": (VALUES,)}, TENSORS
    for kind in ("dump", "mismatch"):
        yield "x", {"x": (make_finding("dump-panic", kind=kind),)}, None
    for text in ("x", "*", "x:reference-malformed", "*:reference-malformed", "x/w"):
        for found in MALFORMED:
            yield text, {"x": (found,)}, None
    for level in ("warning", "notice"):
        yield "*:values", {"x": (make_finding("values", level=level),)}, TENSORS
    for text in ("x", "*", "x/w", "x:nan", "*/w"):  # nothing fails
        yield text, {"x": ()}, TENSORS
    for text in ("x", "x/w", "x:nan", "*:nan"):
        yield text, {"x": NOT_COMPARED[:1]}, None
        yield text, {"x": NOT_COMPARED[1:]}, None
        yield text, {"x": NOT_COMPARED[:1]}, TENSORS
    yield "x/w", {"x": (make_finding("truncated", kind="dump", tensor="v.bin"),)}, ()
    yield "x/typo", {"x": ()}, TENSORS
    yield "x/extra", {"x": (make_finding("tensor-extra", tensor="extra"),)}, TENSORS
    yield "*:nan", {"x": (), "y": (SHAPE,)}, TENSORS
    yield "*:nan", {"x": (), "y": (NAN,)}, TENSORS
    yield "x *:nan", {"x": (NAN,)}, TENSORS
    yield "*/typo */w", {"x": (VALUES,), "y": (VALUES,)}, TENSORS


def test_patterns_allow_what_they_name(golden: Callable[..., None]) -> None:
    text = ""
    for patterns, cases, tensors in list_rows():
        applied = known(*patterns.split(), cases=[*cases])
        text += f"# {patterns}{'' if tensors else f', compared: {tensors}'}\n"
        for case, findings in cases.items():
            result = applied.apply(make_case(case, *findings), tensors)
            text += f"{case}: {result.verdict}{result.reason and f' ({result.reason})'}\n"
            text += "".join(map(format_finding, result.findings))
        text += "".join(map(format_finding, applied.find_unused()))
    golden(text)


def format_finding(found: Finding) -> str:
    assert found.where in (None, WHERE)
    line = f"  {found.level}[{found.code}/{found.kind}] {found.tensor}: {found.message}"
    return f"{line}{' (at the entry)' if found.where else ''}\n"


def test_a_partial_run_makes_no_glob_stale() -> None:
    applied = known("*:nan", "*/typo", cases=["x", "y"])
    assert applied.apply(make_case("x"), TENSORS).findings == ()
    assert applied.find_unused() == []


def test_every_reason_is_reported_once() -> None:
    applied = KnownFailures(parse_known_failures({"x/w": "one", "x/v": "two", "x/q": "two"}), ["x"])
    errors = [make_finding(tensor=name) for name in "wvq"]
    assert applied.apply(make_case("x", *errors), "wvq").reason == "one; two"


def test_slash_and_colon_belong_to_the_tensor_name() -> None:
    (pattern,) = parse_known_failures({"x/a/b:0": "#1"})
    assert (pattern.case, pattern.tensor, pattern.code) == ("x", "a/b:0", None)


def test_skipped_case_is_unchanged() -> None:
    skipped = make_case("x", verdict="skipped", reason="no control")
    assert known("x").apply(skipped, None) is skipped


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
