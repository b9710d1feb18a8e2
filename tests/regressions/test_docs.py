"""The table of public reports: each case has tests that exist, or the reason why it has none."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.support.bundles import list_cases

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "cases.md"
NUMBERS = {
    "PTH": (1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17),
    "SFT": (1, 2, 4, 5, 7, 8, 10, 11, 13),
    "GGF": (1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16),
    "ONX": (1, 2, 4, 5, 7, 8, 10, 11),
    "DLD": (1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 15),
    "CMP": (1, 2, 4, 5, 7, 8),
    "FIX": (1, 2, 4, 5, 7, 8, 10, 11, 13, 14),
}
IDS = {f"{kind}-{number:02}" for kind, numbers in NUMBERS.items() for number in numbers}


def table() -> dict[str, list[str]]:
    """The cells of each case."""
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {row[0]: row[1:] for row in rows if row[0] != "case"}


@cache
def functions_of(file: str) -> set[str]:
    found = set()
    for node in ast.parse((TESTS / file).read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = [one for one in node.body if isinstance(one, ast.FunctionDef)]
            found |= {f"{node.name}::{method.name}" for method in methods}
    return found


def test_every_case_is_listed_once() -> None:
    lines = re.findall(r"^\| ([A-Z]{3}-\d\d) ", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(lines) == sorted(IDS)


@pytest.mark.parametrize("case", sorted(IDS))
def test_case_names_reports_and_existing_tests(case: str) -> None:
    kind, sources, tests = table()[case]
    assert kind
    for source in sources.split(", "):
        assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", source), source
    named = re.findall("`([^`]+)`", tests)
    assert any("test_" in name for name in named)
    for name in named:
        if name.startswith("zoo:"):
            assert name.removeprefix("zoo:") in list_cases("checkpoint-zoo-v1")
        else:
            file, _, test = name.partition("::")
            assert test in functions_of(file), name


def test_every_regression_test_is_in_the_table() -> None:
    """So that what is written for a case can be found from the case."""
    content = PAGE.read_text("utf-8")
    paths = (TESTS / "regressions").glob("test_*.py")
    own = [f"regressions/{path.name}" for path in paths if path != Path(__file__)]
    left = [
        f"{file}::{name}" for file in own for name in functions_of(file) if name.startswith("test_")
    ]
    assert [name for name in left if name not in content] == []
