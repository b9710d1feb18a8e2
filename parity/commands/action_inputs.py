"""Parse the action's inputs into one typed record; report every mistake."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from parity import github
from parity.errors import ConfigError, Problem
from parity.verify.options import REPORT_FORMATS, SUMMARIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Every input and its default, the same as in ``action.yml``.
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
_MINUTES = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", re.ASCII)
_MAX_MINUTES = 100_000.0
_MAX_DIGITS = 9


@dataclass(frozen=True, kw_only=True)
class ActionInputs:
    """The action's inputs, parsed.

    Attributes:
        folder: The repo under test; an existing folder in the workspace.
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


class _InputReader:
    """Reads inputs one by one and collects the problems."""

    def __init__(self, raw: Mapping[str, str]) -> None:
        self.raw = {**DEFAULTS, **raw}
        self.problems = [
            Problem("input", f"the action has no input {name!r}; it has {', '.join(DEFAULTS)}")
            for name in raw
            if name not in DEFAULTS
        ]

    def read_text(self, name: str) -> str:
        return self.raw[name].strip() or DEFAULTS[name]

    def read_lines(self, name: str) -> tuple[str, ...]:
        return tuple(line.strip() for line in self.raw[name].splitlines() if line.strip())

    def read_cargo_args(self, name: str) -> tuple[str, ...]:
        values = self.read_lines(name)
        if "--" in values:  # all that follows would be the program's
            self.reject(name, "arguments for cargo itself, without --")
        return values

    def reject(self, name: str, expected: str) -> None:
        message = f"input {name} is {self.read_text(name)!r}; it must be {expected}"
        self.problems.append(Problem("input", message))

    def read_choice(self, name: str, allowed: Sequence[str]) -> str:
        if (value := self.read_text(name)) not in allowed:
            self.reject(name, f"one of {', '.join(allowed)}")
        return value

    def read_count(self, name: str, maximum: int) -> int:
        value = self.read_text(name)
        if (
            value.isascii()
            and value.isdecimal()
            and len(value) <= _MAX_DIGITS
            and int(value) <= maximum
        ):
            return int(value)
        self.reject(name, f"a whole number from 0 to {maximum}")
        return 0

    def read_minutes(self, name: str) -> float:
        text = self.read_text(name)
        value = float(text) if _MINUTES.fullmatch(text) else 0.0
        if not 0 < value <= _MAX_MINUTES:
            self.reject(name, "a positive number of minutes")
        return value

    def read_formats(self, name: str) -> tuple[str, ...]:
        names = tuple(self.read_text(name).replace(",", " ").split())
        if any(report_format not in REPORT_FORMATS for report_format in names):
            self.reject(name, f"formats of {', '.join(REPORT_FORMATS)}")
        return names

    def read_toolchain(self, name: str) -> str:
        if (value := self.read_text(name)) and not _TOOLCHAIN.fullmatch(value):
            self.reject(name, "a rustup toolchain, such as stable or 1.95.0")
        return value

    def read_path(self, name: str, base: Path) -> Path:
        """Read a path; it must stay in the workspace."""
        value = Path(self.read_text(name))
        if value.is_absolute() or github.find_workspace_path(base / value) is None:
            self.reject(name, "a path that stays in the workspace")
        return value


def read_inputs(raw: Mapping[str, str]) -> ActionInputs:
    """Parse all inputs; an absent or blank one has its default.

    Raises:
        ConfigError: ``input``, once for each invalid input.
    """
    reader = _InputReader(raw)
    root = github.get_workspace()
    folder = root / reader.read_path("working-directory", root)
    if not folder.is_dir():
        reader.reject(
            "working-directory", "an existing folder of the workspace; was the repo checked out?"
        )
    inputs = ActionInputs(
        folder=folder,
        lockfile=reader.read_path("lockfile", folder),
        bundles=reader.read_lines("bundles"),
        cases=reader.read_lines("cases"),
        toolchain=reader.read_toolchain("toolchain"),
        cargo_args=reader.read_cargo_args("cargo-args"),
        cache=reader.read_choice("cache", _CACHES),
        annotations=reader.read_count("annotations", github.MAX_ANNOTATIONS),
        summary=reader.read_choice("summary", SUMMARIES),
        report_dir=reader.read_path("report-dir", folder),
        report_formats=reader.read_formats("report-formats"),
        fail_on=reader.read_choice("fail-on", _FAIL_ON),
        min_cases=reader.read_count("min-cases", 10**6),
        timeout_minutes=reader.read_minutes("timeout-minutes"),
        hf_token=raw.get("hf-token", "").strip(),
    )
    if reader.problems:
        raise ConfigError(*reader.problems)
    return inputs
