"""JSON and text outputs: in files and as the last line of stdout, with pointers in findings."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.manifests import ManifestBench

RIGHT = {"losses": [0.5, 0.25], "token_ids": [3, 17], "text": "größe", "n": {"a/b": 1.0}}
LOSSES = "{losses: {atol: 1.0e-4}}"
PARTS = "{token_ids: {partition: [losses]}}"

#: Rules of the document, what the port writes (text or value), and codes with their tensors.
CASES: dict[str, tuple[str, Any, list[tuple[str, str | None]]]] = {
    "right": ("exact", RIGHT, []),
    "within": (LOSSES, {**RIGHT, "losses": [0.50005, 0.25]}, []),
    "beyond": (LOSSES, {**RIGHT, "losses": [0.5, 0.2502]}, [("json-value", "o.json#/losses")]),
    "what has no rule is exact": (
        LOSSES, {**RIGHT, "token_ids": [3, 18]}, [("json-value", "o.json#")]),
    "a pointer": (
        '{"/losses/1": {max_abs: 1}}', {**RIGHT, "losses": [0.5, 0.5]}, []),
    "a pointer beside": (
        '{"/losses/1": {max_abs: 1}}', {**RIGHT, "losses": [0.6, 0.5]},
        [("json-value", "o.json#")]),
    "a pointer with a slash in a key": (
        '{"/n/a~1b": {relative: 0.1}}', {**RIGHT, "n": {"a/b": 1.05}}, []),
    "an exact part of a tolerant one": (
        '{"*": {max_abs: 9}, token_ids: exact}', {**RIGHT, "losses": [1, 1], "token_ids": [3, 18]},
        [("json-value", "o.json#/token_ids")]),
    "ignored": ('{losses: {ignore: "random"}}', {**RIGHT, "losses": None}, []),
    "ignored and missing": (
        '{losses: {ignore: "random"}}', {k: v for k, v in RIGHT.items() if k != "losses"}, []),
    "compared below what is ignored": (
        '{"*": {ignore: "x"}, losses: exact}', {"losses": [0.5, 0.3]},
        [("json-value", "o.json#/losses")]),
    "missing below what is ignored": (
        '{"*": {ignore: "x"}, /losses/1: exact}', {"losses": [0.3]},
        [("json-missing", "o.json#/losses/1")]),
    "another kind above what is compared": (
        '{"*": {ignore: "x"}, /losses/1: exact}', {"losses": 1}, [("json-value", "o.json#")]),
    "ignored in vain": (
        '{losses: exact, loss: {ignore: "x"}}', RIGHT, [("names-nothing", None)]),
    "ignored for other ports": ('{loss: {ignore: "x", optional: true}}', RIGHT, []),
    "ignored in the dump": ('{loss: {ignore: "x"}}', {**RIGHT, "loss": 3}, []),
    "a member is missing": (
        "exact", {k: v for k, v in RIGHT.items() if k != "losses"},
        [("json-missing", "o.json#/losses")]),
    "an item is missing": (
        "exact", {**RIGHT, "losses": [0.5]}, [("json-missing", "o.json#/losses/1")]),
    "a member is extra": ("exact", {**RIGHT, "more": 1}, [("json-extra", "o.json#/more")]),
    "a list for an object": ("exact", [], [("json-value", "o.json#")]),
    "a number for text": ("exact", {**RIGHT, "text": 1}, [("json-value", "o.json#")]),
    "text for a number": (
        LOSSES, {**RIGHT, "losses": ["0.5", 0.25]}, [("json-value", "o.json#/losses")]),
    "true for 1": (
        '{"/n/a~1b": {max_abs: 9}}', {**RIGHT, "n": {"a/b": True}},
        [("json-value", "o.json#/n/a~1b")]),
    "1 for 1.0": ("exact", {**RIGHT, "n": {"a/b": 1}}, []),
    "a set in another order": ("{token_ids: set}", {**RIGHT, "token_ids": [17, 3]}, []),
    "a set with another item": (
        "{token_ids: set}", {**RIGHT, "token_ids": [17, 4]}, [("json-value", "o.json#/token_ids")]),
    "a set with an item twice": (
        "{token_ids: set}", {**RIGHT, "token_ids": [3, 3]}, [("json-value", "o.json#/token_ids")]),
    "a set with a list": (
        "{token_ids: set}", {**RIGHT, "token_ids": [3, [17]]},
        [("json-value", "o.json#/token_ids")]),
    "a set with a NaN": (
        "{losses: set}", json.dumps(RIGHT).replace("0.25", "NaN"),
        [("json-value", "o.json#/losses")]),
    "parts with each other's items": (
        PARTS, {**RIGHT, "token_ids": [0.25, 3], "losses": [17, 0.5]}, []),
    "parts of other sizes": (
        PARTS, {**RIGHT, "token_ids": [3, 17, 0.5], "losses": [0.25]},
        [("json-value", "o.json#/token_ids")]),
    "a part has another's item too": (
        PARTS, {**RIGHT, "token_ids": [3, 0.5]}, [("json-value", "o.json#/token_ids")]),
    "a part is missing": (
        PARTS, {k: v for k, v in RIGHT.items() if k != "losses"},
        [("json-value", "o.json#/token_ids")]),
    "null for a number": (
        LOSSES, {**RIGHT, "losses": [None, 0.25]}, [("json-value", "o.json#/losses")]),
    "NaN for a number": (
        LOSSES, json.dumps(RIGHT).replace("0.25", "NaN"), [("json-value", "o.json#/losses")]),
    "an infinity": (
        LOSSES, json.dumps(RIGHT).replace("0.25", "1e999"), [("json-value", "o.json#/losses")]),
    "no JSON": ("exact", "x", [("bad-header", "o.json")]),
    "nothing": ("exact", "", [("bad-header", "o.json")]),
    "a key twice": ("exact", '{"a": 1, "a": 1}', [("bad-header", "o.json")]),
    "very deep": ("exact", "[" * 100_000 + "]" * 100_000, [("bad-header", "o.json")]),
    "deep": ("exact", "[" * 70 + "]" * 70, [("bad-header", "o.json")]),
    "too many digits": ("exact", "9" * 5000, [("bad-header", "o.json")]),
    "too large": ("exact", " " * (16 * 2**20 + 1), [("too-large", "o.json")]),
    "missing": ("exact", None, [("json-missing", "o.json")]),
}  # fmt: skip


def start(tmp_path: Path, capsys: pytest.CaptureFixture[str], written: Any) -> ManifestBench:
    text = written if isinstance(written, str) else json.dumps(written)
    dumps = {"c/o.json": text.encode()} if written is not None else {"c/x.log": b"x"}
    right = json.dumps(RIGHT).encode()
    return ManifestBench(tmp_path, capsys, {"c/reference/o.json": right}, dumps)


def write_manifest(rules: str) -> str:
    return f"schema: 2\ncases:\n  c:\n    json:\n      o.json: {rules}\n"


@pytest.mark.parametrize(("rules", "written", "expected"), CASES.values(), ids=CASES)
def test_verdict_of_a_document(
    rules: str,
    written: Any,
    expected: list[tuple[str, str | None]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ran = start(tmp_path, capsys, written).verify(write_manifest(rules))
    errors = [one for one in ran.list_findings("b/c") if one["level"] == "error"]
    assert [(one["code"], one["tensor"]) for one in errors] == expected, ran.out
    assert (ran.code == 0) == (not expected)
    (case,) = ran.report["bundles"][0]["cases"]
    assert expected or case["compared"] >= 4


def test_message_names_the_pointer_and_both_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = {**RIGHT, "losses": [0.5, 0.2502], "token_ids": [3, 18]}
    ran = start(tmp_path, capsys, written).verify(write_manifest(LOSSES))
    messages = sorted(one["message"] for one in ran.list_findings("b/c"))
    assert messages == [
        (
            "o.json#/losses: 1 of 2 values differs; worst at /losses/1: expected 0.25, obtained "
            "0.2502 (off by 0.0002); bound: atol <= 0.0001"
        ),
        (
            "o.json#: 1 of 4 values differs; worst at /token_ids/1: expected 17, obtained 18 "
            "(off by 1); bound: exact"
        ),
    ]


@pytest.mark.parametrize(
    ("expected", "obtained", "text"),
    [
        (2**53 + 1, 2**53, "expected 9007199254740993, obtained 9007199254740992 (off by 1)"),
        (2**53 + 1, 2.0**53, "obtained 9007199254740992.0 (off by 1)"),
        pytest.param(10**308, -(10**308), ", obtained -1000", id="beyond all floats"),
        (True, 1, "expected true, obtained 1; bound"),
    ],
)
def test_message_states_the_distance_of_integers_beyond_floats(
    expected: Any, obtained: Any, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = (json.dumps({"a": one}).encode() for one in (expected, obtained))
    right, dump = (
        {path: side} for path, side in zip(("c/reference/o.json", "c/o.json"), sides, strict=True)
    )
    bench = ManifestBench(tmp_path, capsys, right, dump)
    ran = bench.verify("schema: 2\ncases:\n  c: {json: {o.json: exact}}\n")
    (finding,) = ran.list_findings("b/c")
    assert (ran.code, text in finding["message"]) == (1, True), finding["message"]


def test_known_failures_name_a_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = start(tmp_path, capsys, {**RIGHT, "losses": [0.5, 9]})
    bench.more = '    known-failures: {"c/o.json#/losses": "the optimizer: #1"}\n'
    ran = bench.verify(write_manifest(LOSSES))
    assert (ran.code, ran.verdicts) == (0, {"b/c": "known-failure"})


@pytest.mark.parametrize(
    ("reference", "dump"), [(b'{"a": 1e400}', b'{"a": 1e999}'), (b'{"a": NaN}', b'{"a": NaN}')]
)
def test_numbers_beyond_all_floats_are_not_equal(
    reference: bytes, dump: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = start(tmp_path, capsys, RIGHT)
    bench.references = {**bench.references, "c/reference/o.json": reference}
    bench.dumps = {**bench.dumps, "c/o.json": dump}
    bench.check_codes(write_manifest("exact"), ["json-value"])


@pytest.mark.parametrize(
    ("reference", "problem"),
    {
        b"": "is empty",
        b"\xff": "is not UTF-8",
        b" " * (16 * 2**20 + 1): "has more than 16,777,216 bytes",
    }.items(),
    ids=["empty", "not UTF-8", "too large"],
)
def test_a_reference_that_is_no_text_is_exit_2(
    reference: bytes, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = start(tmp_path, capsys, RIGHT)
    bench.references = {**bench.references, "c/reference/t.txt": reference}
    (found,) = bench.list_problems("schema: 2\ncases:\n  c:\n    text: [t.txt]\n")
    assert found == (4, 12, f"case 'c': the reference of 't.txt' {problem}")


#: The lockfile's bounds, the rules, what the port writes for 0.5, and the finding's tolerance.
BOUNDS = {
    "a smaller atol": ("atol: 1.0e-5", LOSSES, 0.50005, "atol <= 1e-05"),
    "an atol that passes": ("atol: 1.0e-5", LOSSES, 0.500005, ""),
    "a larger rtol": ("rtol: 1", LOSSES, 0.50005, None),
    "max_abs beside atol": ("max_abs: 1.0e-5", LOSSES, 0.50005, "atol <= 0.0001, max_abs <= 1e-05"),
    "relative": ("relative: 1.0e-5", '{"*": {relative: 1}}', 0.50005, "relative <= 1e-05"),
    "close": ("close: true", LOSSES, 0.50005, "atol <= 1e-07"),
    "exact": ("exact: true", LOSSES, 0.50005, "exact"),
    "ulp": ("ulp: 1", LOSSES, 0.5, None),
    "exact and not looser": ("atol: 1.0e-4", LOSSES, 0.50005, ""),
    "a tolerance where all is exact": ("atol: 1", "exact", 0.5, None),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_of_the_lockfile_tighten_json(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bounds, rules, value, limits = BOUNDS[name]
    bench = start(tmp_path, capsys, {**RIGHT, "losses": [value, 0.25]})
    bench.more = f"    bounds: {{c: {{{bounds}}}}}\n"
    ran = bench.verify(write_manifest(rules))
    assert ran.code == (2 if limits is None else int(bool(limits))), ran.out
    assert not limits or ran.out.split("bound: ")[1].splitlines()[0] == limits


#: Bounds of a case with an exact tensor `w`, a tolerant one and JSON, and the codes of its errors.
MIXED = {
    "": [],
    "atol: 1.0e-5": ["values", "json-value"],
    "ulp: 4": ["values"],
    "max_abs: 1": [],
    "rtol: 1": None,
}


@pytest.mark.parametrize(("bounds", "codes"), MIXED.items(), ids=MIXED)
def test_bounds_tighten_whatever_has_a_tolerance(
    bounds: str, codes: list[str] | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right: dict[str, Any] = {f"c/reference/{name}.npy": np.ones(3, "<f4") for name in "wv"}
    right["c/reference/o.json"] = json.dumps(RIGHT).encode()
    wrong = json.dumps({**RIGHT, "losses": [0.50005, 0.25]}).encode()
    dumps = {"c/w.npy": np.ones(3, "<f4"), "c/v.npy": np.full(3, 1.00005, "<f4"), "c/o.json": wrong}
    bench = ManifestBench(tmp_path, capsys, right, dumps)
    bench.more = f"    bounds: {{c: {{{bounds}}}}}\n" if bounds else ""
    text = f"{write_manifest(LOSSES)}    tensors: {{v: {{tolerance: {{atol: 1.0e-4}}}}}}\n"
    if codes is not None:
        return bench.check_codes(text, codes)
    ((_, _, message),) = bench.list_problems(text)
    assert message.endswith(
        "tighten what the bundle states: rtol 1 is looser than exact, which is stated"
    )
    return None


@pytest.mark.parametrize("bounds", ["ulp 0", "cosine 1"])
def test_bounds_that_are_for_tensors_alone_do_not_tighten_json(
    bounds: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.dumps(RIGHT).encode()
    right: dict[str, Any] = {"c/reference/w.npy": np.ones(3, "<f4"), "c/reference/o.json": document}
    bench = ManifestBench(tmp_path, capsys, right, {})
    bench.more = f"    bounds: {{c: {{{bounds.replace(' ', ': ')}}}}}\n"
    ((_, _, message),) = bench.list_problems(write_manifest(LOSSES))
    assert message.endswith(f"states: {bounds} is looser than exact, which is stated")


WRONG = {
    "a pointer that matches nothing": ('{"/loss": exact}', (5, 16), "has no '/loss'"),
    "a member that is not there": ("{loss: exact}", (5, 16), "has no '/loss'"),
    "all is ignored": ('{"*": {ignore: "why"}}', (5, 7), "has no value that is compared"),
    "ignored without a reason": ('{losses: {ignore: ""}}', (5, 25), "must be the reason"),
    "a rule in place of which others decide": (
        '{n: {max_abs: 1}, "/n/a~1b": exact}',
        (5, 16),
        "has no value at '/n' that this rule is",
    ),
    "a pointer twice": ('{losses: exact, "/losses": exact}', (5, 31), "is stated twice"),
    "a set of text": ("{text: set}", (5, 16), "has no list of numbers or text at '/text'"),
    "a part that is not there": ("{token_ids: {partition: [loss]}}", (5, 16), "has no '/loss'"),
    "parts that are no list": ("{token_ids: {partition: 3}}", (5, 16), "must be a list of strings"),
    "ulp": ("{losses: {ulp: 4}}", (5, 16), "'ulp' is not a measure"),
    "no tolerance": ("{losses: {}}", (5, 16), "no tolerance is stated"),
}


@pytest.mark.parametrize(("rules", "place", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_rule_is_exit_2(
    rules: str,
    place: tuple[int, int],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ((line, column, text),) = start(tmp_path, capsys, RIGHT).list_problems(write_manifest(rules))
    assert ((line, column), message in text) == (place, True), text


def test_a_reference_that_is_missing_is_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = write_manifest("exact").replace("o.json", "p.json")
    ((_, _, message),) = start(tmp_path, capsys, RIGHT).list_problems(text)
    assert "'p.json', which the bundle does not have" in message


def test_zeros_within_the_tolerance_are_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = start(tmp_path, capsys, RIGHT).verify(write_manifest("{losses: {atol: 1}}"))
    assert (ran.code, ran.list_codes("b/c")) == (0, ["blind-bound"])


PORT = """
import json, pathlib, sys
print("loading")
print(json.dumps({"losses": [0.5, float(sys.argv[1])], "seconds": 3}))
"""


@pytest.mark.process
def test_last_json_line_of_stdout_is_an_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "port.py").write_text(PORT)
    reference = json.dumps({"losses": [0.5, 0.25]}).encode()
    bench = ManifestBench(tmp_path, capsys, {"c/reference/stdout.json": reference}, {})
    text = f"schema: 2\ncases:\n  c: {{json: {{stdout: {LOSSES}}}}}\n"
    for value, codes in {"0.25": ["not-compared"], "0.26": ["not-compared", "json-value"]}.items():
        bench.command = json.dumps([sys.executable, "port.py", value])
        ran = bench.verify(text, ready=False)
        assert ran.list_codes("b/c") == codes, ran.out
    bench.command = json.dumps([sys.executable, "-c", "print('no line')"])
    assert bench.verify(text, ready=False).list_codes("b/c") == ["json-missing"]


TEXTS = {
    "right": (b"one\ntwo\n", []),
    "another line end": (b"one\r\ntwo\r\n", []),
    "another line": (b"one\nthree\n", ["text"]),
    "a line too few": (b"one\n", ["text"]),
    "no end of line": (b"one\ntwo", ["text"]),
    "no text": (b"\xff", ["bad-header"]),
}


@pytest.mark.parametrize(("written", "codes"), TEXTS.values(), ids=TEXTS)
def test_text_is_compared_line_by_line(
    written: bytes, codes: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = ManifestBench(
        tmp_path, capsys, {"c/reference/t.txt": b"one\ntwo\n"}, {"c/t.txt": written}
    )
    ran = bench.verify("schema: 2\ncases:\n  c: {text: [t.txt]}\n")
    assert ran.list_codes("b/c") == codes
    assert (ran.code == 0) == (not codes)


@pytest.mark.parametrize(("obtained", "code"), [(RIGHT, 0), ({**RIGHT, "text": "other"}, 1)])
def test_all_tensors_may_be_ignored_beside_json(
    obtained: Any, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensor = {
        "c/reference/w.npy": np.ones(3, "<f4"),
        "c/reference/o.json": json.dumps(RIGHT).encode(),
    }
    bench = ManifestBench(tmp_path, capsys, tensor, {"c/o.json": json.dumps(obtained).encode()})
    rules = '{json: {o.json: exact}, tensors: {"*": {ignore: "not asked"}}}'
    assert bench.verify(f"schema: 2\ncases:\n  c: {rules}\n").code == code


@pytest.mark.parametrize(("obtained", "code"), [(10**400, 0), (1, 1), (10**400 + 1, 1)])
@pytest.mark.parametrize("bounds", ["max_abs: 1", "relative: 0.1"])
def test_an_integer_beyond_all_floats_equals_itself_alone(
    obtained: int, code: int, bounds: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right, dump = (json.dumps({"a": one}).encode() for one in (10**400, obtained))
    bench = ManifestBench(tmp_path, capsys, {"c/reference/o.json": right}, {"c/o.json": dump})
    rules = f"{{json: {{o.json: {{a: {{{bounds}}}}}}}}}"
    assert bench.verify(f"schema: 2\ncases:\n  c: {rules}\n").code == code
