"""The action's inputs: raw strings once become one typed record, and every mistake is told."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from parity import runner
from parity.commands.options import REPORT_FORMATS, SUMMARIES
from parity.errors import ConfigError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Every input and its default, as ``action.yml`` states them.
DEFAULTS = {
    "working-directory": ".",
    "lockfile": "fixtures.lock.yaml",
    "bundles": "",
    "cases": "",
    "toolchain": "",
    "cargo-args": "",
    "python-version": "3.14",
    "cache": "auto",
    "annotations": "10",
    "summary": "full",
    "report-dir": "parity-report",
    "report-formats": "json junit",
    "fail-on": "mismatch",
    "min-cases": "1",
    "timeout-minutes": "30",
    "hf-token": "",
}
_CACHES = ("auto", "true", "false")
_FAIL_ON = ("mismatch", "warning")
_TOOLCHAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MOST_MINUTES = 100_000.0


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The inputs as values.

    Attributes:
        folder: The repo under test; it exists, and lies in the workspace.
    """

    folder: Path
    lockfile: Path
    bundles: Sequence[str]
    cases: Sequence[str]
    toolchain: str
    cargo_args: Sequence[str]
    cache: str
    annotations: int
    summary: str
    report_dir: Path
    report_formats: Sequence[str]
    fail_on: str
    min_cases: int
    timeout_minutes: float
    hf_token: str


class _Reader:
    """Reads one input after the other and gathers what is wrong with them."""

    def __init__(self, raw: Mapping[str, str]) -> None:
        self.raw = {**DEFAULTS, **raw}
        self.problems = [
            Problem("input", f"the action has no input {name!r}; it has {', '.join(DEFAULTS)}")
            for name in raw
            if name not in DEFAULTS
        ]

    def text(self, name: str) -> str:
        return self.raw[name].strip() or DEFAULTS[name]

    def lines(self, name: str) -> tuple[str, ...]:
        return tuple(line.strip() for line in self.raw[name].splitlines() if line.strip())

    def wrong(self, name: str, expected: str) -> None:
        message = f"input {name} is {self.text(name)!r}; it must be {expected}"
        self.problems.append(Problem("input", message))

    def choice(self, name: str, allowed: Sequence[str]) -> str:
        if (value := self.text(name)) not in allowed:
            self.wrong(name, f"one of {', '.join(allowed)}")
        return value

    def count(self, name: str, most: int) -> int:
        value = self.text(name)
        if value.isascii() and value.isdecimal() and len(value) < 10 and int(value) <= most:  # noqa: PLR2004 - before it becomes a number
            return int(value)
        self.wrong(name, f"a whole number from 0 to {most}")
        return 0

    def minutes(self, name: str) -> float:
        try:
            value = float(self.text(name))
        except ValueError:
            value = 0.0
        if not 0 < value <= _MOST_MINUTES:
            self.wrong(name, "a positive number of minutes")
        return value

    def formats(self, name: str) -> tuple[str, ...]:
        words = tuple(self.text(name).replace(",", " ").split())
        if any(word not in REPORT_FORMATS for word in words):
            self.wrong(name, f"words of {', '.join(REPORT_FORMATS)}")
        return words

    def toolchain(self, name: str) -> str:
        if (value := self.text(name)) and not _TOOLCHAIN.fullmatch(value):
            self.wrong(name, "a rustup toolchain, such as stable or 1.95.0")
        return value

    def path(self, name: str, base: Path) -> Path:
        """A path below the workspace; what leads out of it is nobody's to read or write."""
        value = Path(self.text(name))
        if value.is_absolute() or runner.in_workspace(base / value) is None:
            self.wrong(name, "a path that stays in the workspace")
        return value


def read(raw: Mapping[str, str]) -> Inputs:
    """The record; an input that is absent or blank has its default.

    Raises:
        ConfigError: ``input``, once for each that cannot be used.
    """
    reader = _Reader(raw)
    root = runner.workspace()
    folder = root / reader.path("working-directory", root)
    if not folder.is_dir():
        reader.wrong("working-directory", "a folder of the workspace; is it checked out?")
    inputs = Inputs(
        folder=folder,
        lockfile=reader.path("lockfile", folder),
        bundles=reader.lines("bundles"),
        cases=reader.lines("cases"),
        toolchain=reader.toolchain("toolchain"),
        cargo_args=reader.lines("cargo-args"),
        cache=reader.choice("cache", _CACHES),
        annotations=reader.count("annotations", runner.ANNOTATIONS),
        summary=reader.choice("summary", SUMMARIES),
        report_dir=reader.path("report-dir", folder),
        report_formats=reader.formats("report-formats"),
        fail_on=reader.choice("fail-on", _FAIL_ON),
        min_cases=reader.count("min-cases", 10**6),
        timeout_minutes=reader.minutes("timeout-minutes"),
        hf_token=raw.get("hf-token", "").strip(),
    )
    if reader.problems:
        raise ConfigError(*reader.problems)
    return inputs
