"""Strict YAML: the limits of what is accepted, and no other exception."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parity.bundle.yaml_nodes import MAX_DEPTH, MAX_TEXT, compose
from parity.bundle.yaml_reader import YamlItem
from parity.errors import ConfigError

PATH = Path("file.yaml")
DIGITS = "write it in digits, as 42, 0.00001 or 1e-5"


def read(text: str, reader: Callable[[YamlItem], Any]) -> tuple[Any, list[str]]:
    item = YamlItem(PATH, compose(PATH, text.encode()), "it")
    value = reader(item)
    return value, [str(problem) for problem in item.problems]


def enter(item: YamlItem) -> YamlItem:
    """The value of the first key, by the same name."""
    return replace(item, node=item.node.value[0][1])


def rejected(data: bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        compose(PATH, data)
    return str(caught.value)


def test_a_file_of_the_largest_size_is_read_and_one_byte_more_is_not() -> None:
    data = b"a: 1 #" + b"x" * (MAX_TEXT - 6)
    assert compose(PATH, data).value[0][1].value == "1"
    assert "[yaml-size]" in rejected(data + b"x")


def test_depth_limit_is_exact() -> None:
    compose(PATH, b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    assert "[yaml-depth]" in rejected(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))


def test_depth_is_counted_by_nesting_and_not_by_number() -> None:
    compose(PATH, b"- [[]]\n" * (MAX_DEPTH + 1))


def test_deep_file_is_rejected_before_recursion() -> None:
    assert "[yaml-depth]" in rejected(b"- " * (MAX_TEXT // 2))


@pytest.mark.parametrize("mark", ["<<<<<<< ours", "=======", ">>>>>>> theirs"])
def test_each_mark_of_a_merge_conflict_is_seen_alone(mark: str) -> None:
    assert rejected(f"a: 1\n{mark}\nb: 2\n".encode()) == (
        "file.yaml:2:1: [merge-conflict] a merge conflict is not resolved here; "
        "keep one side and remove the marks"
    )


def test_columns_count_characters_after_a_byte_order_mark() -> None:
    assert rejected("\ufeffäö\x00".encode()).startswith(
        "file.yaml:1:3: [yaml] the character U+0000"
    )


NUMBERS = {
    "0": 0,
    "42": 42,
    "+5": 5,
    "-5": -5,
    "0.00001": 1e-5,
    "1e-5": 1e-5,
    '"1e-5"': 1e-5,
    "'1E+5'": 1e5,
    "2.5e3": 2500.0,
    "1.": 1.0,
    ".5": 0.5,
    "-1.5e-3": -0.0015,
}


@pytest.mark.parametrize("text", NUMBERS)
def test_a_number_is_read_in_each_spelling_that_all_readers_share(text: str) -> None:
    value, problems = read(text, lambda item: item.read_number(-1e6, 1e6))
    assert (value, problems) == (NUMBERS[text], [])
    assert type(value) is type(NUMBERS[text])


@pytest.mark.parametrize(
    "text", ["0123", "00", "0x10", "0b1", "1_000", "1:30", ".inf", "-.inf", ".nan", "1:30.5"]
)
def test_ambiguous_number_is_rejected(text: str) -> None:
    _, problems = read(text, lambda item: item.read_number(-1e6, 1e6))
    assert problems == [f"file.yaml:1:1: [lockfile] it is {text}; {DIGITS}"]


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("true", "the value true"),
        ("", "nothing"),
        ("~", "nothing"),
        ("null", "nothing"),
        ("five", "the string 'five'"),
        ('"5"', "the string '5'"),
        ('""', "an empty string"),
        ("e5", "the string 'e5'"),
        ("[]", "a list"),
        ("{}", "a mapping"),
        ("2020-01-01", "the value 2020-01-01"),
        ("=", "the value ="),
        ("x" * 100, "the string '" + "x" * 58 + "…"),
    ],
)
def test_value_in_place_of_a_number_is_named(text: str, printed: str) -> None:
    _, (problem,) = read(f"a: {text}", lambda item: enter(item).read_number(0, 1))
    assert problem.endswith(f"it must be a number, not {printed}")


@pytest.mark.parametrize("text", ["1", "0.5", "1e-9"])
def test_limits_of_a_range_are_included(text: str) -> None:
    limit = float(text)
    assert read(text, lambda item: item.read_number(limit, limit))[1] == []
    assert read(text, lambda item: item.read_number(limit * 1.01, 9))[1] != []
    assert read(text, lambda item: item.read_number(0, limit * 0.99))[1] != []


@pytest.mark.parametrize("text", ["yes", "no", "on", "True", "FALSE", "1", '"true"', ""])
def test_only_true_and_false_are_booleans(text: str) -> None:
    _, problems = read(f"a: {text}", lambda item: enter(item).read_boolean())
    assert len(problems) == 1
    assert "it must be true or false, not " in problems[0]


def test_true_and_false_are_read() -> None:
    assert read("true", lambda item: item.read_boolean()) == (True, [])
    assert read("false", lambda item: item.read_boolean()) == (False, [])


def test_free_value_is_read_at_every_depth() -> None:
    text = 'a: [1, 2.5, true, ~, "", x]\nb: {c: {d: [[]]}}'
    value, problems = read(text, lambda item: item.read_value())
    assert value == {"a": [1, 2.5, True, None, "", "x"], "b": {"c": {"d": [[]]}}}
    assert problems == []


def test_free_value_is_checked_at_every_depth() -> None:
    text = "a:\n- b: 1\n  b: 2\n- {1: x}\n- 0777\n- <<: {c: d}\n"
    _, problems = read(text, lambda item: item.read_value())
    assert problems == [
        "file.yaml:3:3: [lockfile] the key 'b' of item 1 of a of it is in line 2 already",
        "file.yaml:4:4: [lockfile] the key 1 of item 2 of a of it must be a string; quote it",
        f"file.yaml:5:3: [lockfile] item 3 of a of it is 0777; {DIGITS}",
        "file.yaml:6:3: [yaml-merge] merge keys are not read; write the entries out",
    ]


def test_a_quoted_merge_key_is_a_key_like_any_other() -> None:
    assert read('"<<": 1', lambda item: item.read_value()) == ({"<<": 1}, [])


def test_unknown_key_does_not_replace_a_missing_one() -> None:
    _, problems = read("b: 1", lambda item: item.read_mapping(keys=("a",), required=("a",)))
    assert problems == [
        "file.yaml:1:1: [lockfile] it has no key 'b'; known: a",
        "file.yaml:1:1: [lockfile] it needs the key 'a'",
    ]


def test_extensions_are_rejected_in_other_mappings() -> None:
    assert read("x-a: 1", lambda item: item.read_mapping(keys=()))[1] != []
    assert read("x-a: 1", lambda item: item.read_mapping(keys=(), extensions=True)) == (
        {},
        [],
    )


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80) | st.text(max_size=80).map(lambda t: t.encode("utf-8", "replace")))
@example(b'"\\U00110000"')
@example(b'"\\UFFFFFFFF"')
@example(b"%YAML 1." + b"9" * 5000 + b"\n---\n")
@example(b"%TAG ! tag:x,%ff\n---\n!x")
@example(b"? ? ? a")
@example(b"=")
def test_any_bytes_are_read_or_a_config_error(data: bytes) -> None:
    try:
        node = compose(PATH, data)
    except ConfigError as error:
        assert all(problem.message for problem in error.problems)  # noqa: PT017 - any bytes may be read without one
    else:
        YamlItem(PATH, node, "it").read_value()


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="{}[]:,-?&*!|>'\"%@`#<~ \n\tab1.e=\\x", max_size=60))
def test_any_punctuation_is_read_or_a_config_error(text: str) -> None:
    try:
        node = compose(PATH, text.encode())
    except ConfigError:
        return
    YamlItem(PATH, node, "it").read_value()
