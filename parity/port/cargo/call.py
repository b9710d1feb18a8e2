"""Calls of cargo for one example: their words, their surroundings, and what a failure means."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from parity.errors import DumpError, Location, Problem
from parity.port import output, process
from parity.port.cargo.messages import CargoOutput, explain_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from parity.lockfile import Dump

# A build script's words can be long, and its reason stands at their end.
_STDERR_LIMIT = 1024 * 1024
# Bars redraw their line with carriage returns; what we read and show are lines.
_PLAIN_OUTPUT = {"CARGO_TERM_PROGRESS_WHEN": "never", "CARGO_TERM_COLOR": "never"}


@dataclass(frozen=True)
class Program:
    """A program that is ready to run.

    Attributes:
        argv: The words before the case's own.
        env: Its whole environment.
        version: Of the package it belongs to; None for a command.
        port: What reports say of it: crate, package and commit, or command.
        source: The source file of an example of the repo.
    """

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    version: str | None
    port: Mapping[str, str]
    source: Path | None = None


@dataclass(frozen=True, kw_only=True)
class CargoCall:
    """What all calls of cargo for one example have in common.

    Attributes:
        repo: Root of the repo under test, as given; places are told relative to it.
        cwd: Where cargo runs: its config and toolchain files hold there.
        env: The whole environment of cargo, and of the example under ``cargo run``.
        ends: When the build's time is over, by ``time.monotonic``.
        cut_short: The run's deadline, not the build's own timeout, decided about ``ends``.
        say: Is given cargo's progress, line by line, unescaped.
    """

    dump: Dump
    example: str
    repo: Path
    cwd: Path
    env: Mapping[str, str]
    toolchain: str
    cargo_args: tuple[str, ...]
    offline: bool
    deadline: float
    cut_short: bool
    on_progress: Callable[[str], None]

    @property
    def where(self) -> Location | None:
        """The line of the lockfile that a person would look at."""
        locations = self.dump.where
        keys = ("crate",) if self.dump.crate else ("example", "package")
        return next((locations[key] for key in keys if key in locations), None)

    @property
    def command_prefix(self) -> tuple[str, ...]:
        """Cargo itself, by its path on the caller's PATH, and the toolchain."""
        cargo = process.find_program("cargo", self.env.get("PATH", ""))
        if cargo is None:
            message = "cargo was not found on PATH; install Rust (https://rustup.rs)."
            raise DumpError(Problem("no-cargo", message, self.where))
        return (cargo, f"+{self.toolchain}") if self.toolchain else (cargo,)

    @property
    def target_args(self) -> tuple[str, ...]:
        """The words that decide which executable comes out."""
        dump = self.dump
        # "--profile release" is "--release", and unlike it is known to all three verbs.
        profile = ("--profile", dump.profile)
        features = ("--features", ",".join(dump.features)) if dump.features else ()
        return ("--example", self.example, *profile, *features, *self.cargo_args)

    @property
    def flags(self) -> tuple[str, ...]:
        """The words that each verb is given, the same for build and run."""
        return ("--offline", *self.target_args) if self.offline else self.target_args

    def read_configs(self) -> list[str]:
        """The texts of the configuration files that cargo reads in ``cwd``, nearest first."""
        folders = [folder / ".cargo" for folder in (self.cwd, *self.cwd.parents)]
        folders.append(Path(self.env.get("CARGO_HOME") or Path.home() / ".cargo"))
        files = [folder / name for folder in folders for name in ("config.toml", "config")]
        return [text for file in dict.fromkeys(files) if (text := _read_text(file))]

    def build(self, *args: str, env: Mapping[str, str] | None = None) -> CargoOutput:
        """Run a verb of cargo that builds the example; ``words`` begin with the verb.

        Raises:
            DumpError: With the codes of ``cargo_messages.problems``, or ``build-timeout``.
        """
        cargo_output = CargoOutput(self.example)
        args = (*args, "--message-format=json", *self.flags)
        result = self.run(
            args, {**self.env, **_PLAIN_OUTPUT, **(env or {})}, cargo_output.read_line
        )
        if result.timed_out:
            raise self.make_timeout_error(output.select_last_lines(result.stderr))
        if result.exit_code != 0:
            raise self._make_error(cargo_output, result.stderr)
        return cargo_output

    def read_version(self) -> str:
        """Cargo's release, commit and host, of the toolchain that ``cwd`` selects."""
        result = self.run(("-Vv",), self.env)
        if result.exit_code != 0:
            raise self._make_error(CargoOutput(self.example), result.stderr)
        return result.stdout

    def _make_error(self, cargo_output: CargoOutput, stderr: str) -> DumpError:
        found = explain_failure(
            cargo_output, stderr, repo=self.repo, start=self.cwd, where=self.where
        )
        return DumpError(*found)

    def run(
        self,
        args: tuple[str, ...],
        env: Mapping[str, str],
        on_line: Callable[[str], None] | None = None,
    ) -> process.ProcessResult:
        """Run cargo, with this whole environment, in what is left of the build's time.

        Raises:
            DumpError: ``no-cargo``, or ``build-failed`` where it cannot be started.
        """
        try:
            return process.run(
                (*self.command_prefix, *args),
                cwd=self.cwd,
                env=env,
                timeout=self.deadline - time.monotonic(),
                stderr_limit=_STDERR_LIMIT,
                on_line=on_line,
                on_error_line=self.on_progress,
            )
        except process.NotStartedError as error:
            message = f"cargo could not be started: {error.reason}."
            raise DumpError(Problem("build-failed", message, self.where)) from error

    def make_timeout_error(self, details: tuple[str, ...] = ()) -> DumpError:
        """The error of a build whose time is over."""
        timeout = f"{self.dump.build_timeout:g} seconds (build-timeout) were over"
        reason = "the run's deadline came" if self.cut_short else f"its {timeout}"
        message = f"The build of example {self.example!r} was stopped: {reason}."
        return DumpError(Problem("build-timeout", message, self.where, details))


def _read_text(file: Path) -> str:
    """What ``file`` says; nothing where it is absent or out of reach."""
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
