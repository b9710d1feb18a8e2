"""``docs/zoo-faults.md`` lists each silent fault that a port's lockfile declares, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "zoo-faults.md").read_text("utf-8")
SILENT = ("wrong", "partial", "accepted")
PORTS = {
    "ferrotorch": "ferrotorch-serialize",
    "candle": "candle-core",
    "pytorch-reader": "pytorch-reader",
    "safetensors": "safetensors",
}


def read_declared(port: str) -> set[str]:
    """Read the cases whose silent fault the port's lockfile declares."""
    lock = yaml.safe_load((ROOT / "tests/ports/zoo" / f"{port}.lock.yaml").read_text("utf-8"))
    known = lock["bundles"]["checkpoint-zoo-v1"]["known-failures"]
    pairs = (key.rsplit(":", 1) for key in known)
    return {case for case, code in pairs if code in SILENT}


def list_cases(title: str) -> set[str]:
    """List the cases in the first column of a port's table; ``-x`` ends the name before it."""
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (text,) = (part for part in section if part.startswith(f"{title} "))
    found = set()
    for row in re.findall(r"^\| (`.+?) \| ", text, re.MULTILINE):
        last = ""
        for name in re.findall(r"`([^`]+)`", row):
            last = last if name.startswith("-") else name
            found.add(name if name == last else f"{last}…{name}")
    return found


@pytest.mark.parametrize(("port", "title"), PORTS.items(), ids=list(PORTS))
def test_each_silent_fault_is_on_the_page(port: str, title: str) -> None:
    names = list_cases(title)
    missing = {
        case for case in read_declared(port) if not any(_matches(case, name) for name in names)
    }
    assert missing == set()


@pytest.mark.parametrize(("port", "title"), PORTS.items(), ids=list(PORTS))
def test_no_other_case_is_on_the_page(port: str, title: str) -> None:
    lock = (ROOT / "tests/ports/zoo" / f"{port}.lock.yaml").read_text("utf-8")
    cases = set(re.findall(r'^ +"([a-z0-9-]+):', lock, re.MULTILINE))
    assert {
        name for name in list_cases(title) if not any(_matches(case, name) for case in cases)
    } == set()


def _matches(case: str, name: str) -> bool:
    first, _, end = name.partition("…")
    same_kind = case.split("-")[:2] == first.split("-")[:2]
    return case == name or (bool(end) and same_kind and case.endswith(end))
