"""`parity.json`: all problems are reported at once, with exact messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from parity.bundle import document, manifest
from parity.errors import ReferenceSuspectError


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A bundle whose one case `a` is right, and a folder beside it."""
    (tmp_path / "a" / "reference").mkdir(parents=True)
    (tmp_path / "a" / "in.bin").write_bytes(b"x")
    (tmp_path / "a" / "model.pth").write_bytes(b"x")
    (tmp_path / "b").mkdir()
    return tmp_path


def problems(tree: Path, content: Any) -> list[str]:
    """What is said of a manifest, each with its code where that is another."""
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    (tree / document.NAME).write_bytes(raw)
    with pytest.raises(ReferenceSuspectError) as caught:
        manifest.read_manifest(tree)
    for problem in caught.value.problems:
        assert problem.code in ("reference-malformed", "no-cases")
        assert problem.where is None or problem.where.path == tree / document.NAME
    return [problem.message for problem in caught.value.problems]


def whole(case: Any = None, **more: Any) -> dict[str, Any]:
    return {"schema": 1, "cases": {"a": {} if case is None else case}} | more


def load(tree: Path, content: Any) -> tuple[manifest.TensorCase, ...]:
    (tree / document.NAME).write_text(json.dumps(content), "utf-8")
    return manifest.read_manifest(tree).cases


# --- what is read --------------------------------------------------------------------------


def test_default_case_is_exact_and_expects_load(tree: Path) -> None:
    (case,) = load(tree, whole())
    assert case == manifest.TensorCase(
        id="a",
        folder=tree / "a",
        expect="load",
        reference=tree / "a" / "reference",
    )
    assert case.tolerances == {"exact": 1.0}


def test_every_key_is_read(tree: Path) -> None:
    (tree / "a" / "out").mkdir()
    entry = {
        "group": "pth",
        "why": "größe",
        "rule": "R1",
        "expect": "either",
        "checkpoint": "./model.pth",
        "reference": "out",
        "bounds": {"max_abs": 1e-5, "relative": 0, "ulp": 4, "cosine": 0.9999},
        "inputs": ["in.bin", "reference"],
    }
    (case,) = load(tree, whole(entry))
    assert (case.group, case.why, case.rule, case.expect) == ("pth", "größe", "R1", "either")
    assert case.checkpoint == tree / "a" / "model.pth"
    assert case.reference == tree / "a" / "out"
    assert case.tolerances == {"max_abs": 1e-5, "relative": 0.0, "ulp": 4.0, "cosine": 0.9999}
    assert case.inputs == (tree / "a" / "in.bin", tree / "a" / "reference")


def test_refused_case_needs_no_reference(tree: Path) -> None:
    (case,) = load(tree, {"schema": 1, "cases": {"b": {"expect": "refuse"}}})
    assert case.reference is None


def test_cases_keep_their_order(tree: Path) -> None:
    (tree / "b" / "reference").mkdir()
    assert [case.id for case in load(tree, {"schema": 1, "cases": {"b": {}, "a": {}}})] == [
        "b",
        "a",
    ]


@pytest.mark.parametrize("bounds", [{"ulp": 0}, {"relative": 0}, {"max_abs": 0.0}, {"exact": True}])
def test_tolerance_of_zero_is_accepted(bounds: dict[str, Any], tree: Path) -> None:
    (case,) = load(tree, whole({"bounds": bounds}))
    assert case.tolerances == {name: float(value) for name, value in bounds.items()}


# --- what is refused -----------------------------------------------------------------------

NO_BOUND = "which is not a tolerance"
BELOW = "it must be a path below the case's folder"
KEYS = "group, why, rule, blind, checkpoint, reference, expect, bounds, inputs, names"

CONTENT: dict[str, tuple[Any, list[str]]] = {
    "a list": ([], [
        "the file must be an object, not []", "schema must be 1 or 2, not None",
        "cases must be an object, not None"]),
    "nothing in it": ({}, ["schema must be 1 or 2, not None", "cases must be an object, not None"]),
    "no case": ({"schema": 1, "cases": {}}, ["lists no case"]),
    "an older schema": (whole(schema=0), ["schema must be 1 or 2, not 0"]),
    "a newer schema": (whole(schema=3), ["schema 3 is newer than 2; upgrade parity-action"]),
    "a schema of digits": (whole(schema=10**400), [
        f"schema 1{'0' * 59} is newer than 2; upgrade parity-action"]),
    "a true schema": (whole(schema=True), ["schema must be 1 or 2, not True"]),
    "a schema with a point": (whole(schema=1.0), ["schema must be 1 or 2, not 1.0"]),
    "a schema in quotes": (whole(schema="1"), ["schema must be 1 or 2, not '1'"]),
    "another key": (whole(bundle="x"), ["the file has no key 'bundle'; known: schema, cases"]),
    "cases in a list": (whole(cases=["a"]), ["cases must be an object, not ['a']"]),
    "a case that is null": ({"schema": 1, "cases": {"a": None}}, [
        "case 'a' must be an object, not None"]),
    "an unknown key": (whole({"bound": {}}), [f"case 'a' has no key 'bound'; known: {KEYS}"]),
    "a group that is a number": (whole({"group": 1}), [
        "group of case 'a' must be a string, not 1"]),
    "a reason that is null": (whole({"why": None}), ["why of case 'a' must be a string, not None"]),
    "another expectation": (whole({"expect": "fail"}), [
        "expect of case 'a' is 'fail'; it must be load, refuse or either"]),
    "an expectation that is a list": (whole({"expect": ["load"]}), [
        "expect of case 'a' is ['load']; it must be load, refuse or either"]),
    "bounds in a list": (whole({"bounds": ["exact"]}), [
        "bounds of case 'a' must be an object, not ['exact']",
        "bounds of case 'a': no tolerance is stated"]),
    "no bounds": (whole({"bounds": {}}), ["bounds of case 'a': no tolerance is stated"]),
    "an unknown measure": (whole({"bounds": {"max_ab": 1}}), [
        "bounds of case 'a': 'max_ab' is not a measure"]),
    "a bound that is text": (whole({"bounds": {"max_abs": "1"}}), [
        f"bounds of case 'a': max_abs is '1', {NO_BOUND}"]),
    "a bound that is true": (whole({"bounds": {"ulp": True}}), [
        f"bounds of case 'a': ulp is True, {NO_BOUND}"]),
    "a bound below 0": (whole({"bounds": {"max_abs": -1e-9}}), [
        f"bounds of case 'a': max_abs is -1e-09, {NO_BOUND}"]),
    "an infinite bound": (b'{"schema":1,"cases":{"a":{"bounds":{"max_abs":1e999}}}}', [
        f"bounds of case 'a': max_abs is inf, {NO_BOUND}"]),
    "a bound of digits": (whole({"bounds": {"max_abs": 10**400}}), [
        f"bounds of case 'a': max_abs is 1{'0' * 59}, {NO_BOUND}"]),
    "a cosine above 1": (whole({"bounds": {"max_abs": 1, "cosine": 1.5}}), [
        f"bounds of case 'a': cosine is 1.5, {NO_BOUND}"]),
    "exact that is false": (whole({"bounds": {"exact": False}}), [
        f"bounds of case 'a': exact is False, {NO_BOUND}"]),
    "exact that is 1": (whole({"bounds": {"exact": 1}}), [
        f"bounds of case 'a': exact is 1, {NO_BOUND}"]),
    "exact and another": (whole({"bounds": {"exact": True, "ulp": 4}}), [
        "bounds of case 'a': exact excludes the other measures"]),
    "cosine alone": (whole({"bounds": {"cosine": 0.9999}}), [
        "bounds of case 'a': cosine alone passes any scale; state another measure beside it"]),
    "inputs that are text": (whole({"inputs": "in.bin"}), [
        "inputs of case 'a' must be a list, not 'in.bin'"]),
    "an input that is a number": (whole({"inputs": [1]}), [
        f"an input of case 'a' is 1; {BELOW}"]),
    "an input that is not there": (whole({"inputs": ["no.bin", "in.bin"]}), [
        "an input of case 'a' is 'no.bin', which the bundle does not have"]),
    "a reference that is null": (whole({"reference": None}), [
        f"reference of case 'a' is None; {BELOW}"]),
    "a checkpoint that is null": (whole({"checkpoint": None}), [
        f"checkpoint of case 'a' is None; {BELOW}"]),
    "a checkpoint that is not there": (whole({"checkpoint": "m.pth"}), [
        "checkpoint of case 'a' is 'm.pth', which the bundle does not have"]),
    "no default reference": ({"schema": 1, "cases": {"b": {}}}, [
        "the default reference of case 'b' is 'reference', which the bundle does not have"]),
    "no reference for either": ({"schema": 1, "cases": {"b": {"expect": "either"}}}, [
        "the default reference of case 'b' is 'reference', which the bundle does not have"]),
    "no folder": ({"schema": 1, "cases": {"c": {"expect": "refuse"}}}, [
        "case 'c' has no folder of that name"]),
}  # fmt: skip


@pytest.mark.parametrize(("content", "messages"), CONTENT.values(), ids=CONTENT)
def test_message_of_a_problem(content: Any, messages: list[str], tree: Path) -> None:
    due = [
        f"parity.json {text}" if text == "lists no case" else f"parity.json: {text}"
        for text in messages
    ]
    assert problems(tree, content) == due


@pytest.mark.parametrize(
    "path",
    ["", ".", "..", "../b", "a/../../b", "reference/..", "/etc/passwd", "C:/x", "c:x", "a\\b",
     "\\\\host\\x", "//etc"],
)  # fmt: skip
@pytest.mark.parametrize("key", ["reference", "checkpoint", "inputs"])
def test_a_path_stays_below_its_case(key: str, path: str, tree: Path) -> None:
    entry = {key: [path] if key == "inputs" else path}
    what = "an input" if key == "inputs" else key
    assert problems(tree, whole(entry)) == [f"parity.json: {what} of case 'a' is {path!r}; {BELOW}"]


@pytest.mark.parametrize("path", ["\x00", "a\x00b", "\ud800", "x" * 5000, "in.bin/x"])
def test_impossible_path_is_missing(path: str, tree: Path) -> None:
    (message,) = problems(tree, whole({"checkpoint": path}))
    assert message.endswith(", which the bundle does not have")
    assert len(message) < 200


ID_FORM = "an id is lower-case letters, digits, '.', '_' and '-'"


@pytest.mark.parametrize(
    "name",
    ["", "A", "a/b", "..", ".a", "-a", "a b", "ä", "a\n", "\ud800", "a" * 101, "a:b", "\x00"],
)
def test_case_id_has_the_form_of_a_bundle_id(name: str, tree: Path) -> None:
    printed = f"{name!r:.60}"
    due = [f"parity.json: case {printed}: {ID_FORM}"]
    assert problems(tree, {"schema": 1, "cases": {name: {}}}) == due


NO_JSON = "parity.json is not the JSON it should be: "
RAW = {
    "nothing": (b"", NO_JSON + "Expecting value: line 1 column 1 (char 0)"),
    "no JSON": (b"schema: 1", NO_JSON + "Expecting value: line 1 column 1 (char 0)"),
    "cut": (b'{"schema": 1', NO_JSON + "Expecting ',' delimiter: line 1 column 13 (char 12)"),
    "more after it": (b"{}{}", NO_JSON + "Extra data: line 1 column 3 (char 2)"),
    "a key twice": (b'{"schema": 1, "schema": 1}',
                    NO_JSON + "the key 'schema' is repeated in one object"),
    "a case twice": (b'{"schema": 1, "cases": {"a": {}, "a": {}}}',
                     NO_JSON + "the key 'a' is repeated in one object"),
    "a measure twice": (b'{"schema":1,"cases":{"a":{"bounds":{"ulp":1,"ulp":2}}}}',
                        NO_JSON + "the key 'ulp' is repeated in one object"),
    "a long key twice": (b'{"' + b"k" * 9999 + b'":1,"' + b"k" * 9999 + b'":1}',
                         NO_JSON + f"the key '{'k' * 59} is repeated in one object"),
    "NaN": (b'{"schema": NaN}', NO_JSON + "NaN is not JSON"),
    "infinity": (b'{"schema": -Infinity}', NO_JSON + "-Infinity is not JSON"),
    "bytes": (b'{"\xff": 1}',
              NO_JSON + "'utf-8' codec can't decode byte 0xff in position 2: invalid start byte"),
    "too large": (b" " * (4 * 2**20 + 1), "parity.json has more than 4,194,304 bytes"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "message"), RAW.values(), ids=RAW)
def test_messages_about_files_that_are_not_manifests(
    content: bytes, message: str, tree: Path
) -> None:
    assert problems(tree, content) == [message]


@pytest.mark.parametrize(
    ("content", "line", "column"),
    [
        (b'{"schema":\n 2, "a": NaN}', 2, 5),
        (b'{"schema": [1,\n -Infinity]}', 2, 2),
        (b'{"schema":\n 2, "a": ' + b"9" * 5000 + b"}", 2, 5),
        (b'{"schema": 1,\n "schema": 1}', 2, 2),
        (b'{"schema":\n ' + b"[" * 100_000, 2, 66),
        (b'{"schema":\n "\xff"}', 2, 3),
        (b'{"schema":\n x}', 2, 2),
        (b"\nNaN }", 2, 1),
        (b"9" * 5000 + b",", 1, 1),
    ],
)
def test_place_of_what_is_no_json(content: bytes, line: int, column: int, tree: Path) -> None:
    (tree / document.NAME).write_bytes(content)
    with pytest.raises(ReferenceSuspectError) as caught:
        manifest.read_manifest(tree)
    (problem,) = caught.value.problems
    assert problem.where is not None
    assert (problem.where.line, problem.where.column) == (line, column)
    assert problem.message.startswith(NO_JSON)


def test_missing_manifest_is_rejected(tree: Path) -> None:
    reported = "is missing; a bundle of the suite tensors has one"
    with pytest.raises(ReferenceSuspectError, match=reported):
        manifest.read_manifest(tree)


@pytest.mark.parametrize("depth", [5, 100, *range(850, 1010, 4), 100_000])
def test_no_depth_is_a_crash(depth: int, tree: Path) -> None:
    """Near Python's own limit, parsing may succeed and showing the value fail."""
    nested = "[" * depth + "]" * depth
    for content in (
        nested,
        f'{{"schema": {nested}}}',
        f'{{"schema": 1, "cases": {{"a": {{"expect": {nested}}}}}}}',
        f'{{"schema": 1, "cases": {{"a": {{"bounds": {{"ulp": {nested}}}}}}}}}',
        f'{{"schema": 1, "cases": {{"a": {{"inputs": [{nested}]}}}}}}',
    ):
        assert problems(tree, content.encode())


DEFAULT = "the default reference of case 'b' is 'reference'"


def test_all_problems_are_reported_at_once(tree: Path) -> None:
    content = {
        "schema": 3,
        "case": {},
        "cases": {
            "A": {},
            "a": {"group": 1, "expect": "x", "reference": "..", "bounds": {"ulp": -1, "z": 1}},
            "b": {"inputs": ["x", "/y"]},
        },
    }
    assert problems(tree, content) == [
        "parity.json: the file has no key 'case'; known: schema, cases",
        "parity.json: schema 3 is newer than 2; upgrade parity-action",
        f"parity.json: case 'A': {ID_FORM}",
        "parity.json: group of case 'a' must be a string, not 1",
        f"parity.json: reference of case 'a' is '..'; {BELOW}",
        "parity.json: expect of case 'a' is 'x'; it must be load, refuse or either",
        "parity.json: bounds of case 'a': 'z' is not a measure",
        f"parity.json: bounds of case 'a': ulp is -1, {NO_BOUND}",
        f"parity.json: {DEFAULT}, which the bundle does not have",
        "parity.json: an input of case 'b' is 'x', which the bundle does not have",
        f"parity.json: an input of case 'b' is '/y'; {BELOW}",
    ]


def test_any_value_can_be_formatted() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    assert manifest.format_value(nested) == "list of great depth or length"
    assert manifest.format_value(10**5000) == "int of great depth or length"
    assert len(manifest.format_value("x" * 10**6)) == 60
