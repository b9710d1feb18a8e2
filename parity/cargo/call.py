"""Calls of cargo for one example: their words, their surroundings, and what a failure means."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from parity import process, said
from parity.cargo.messages import Heard, problems
from parity.errors import DumpError, Problem, Where

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from parity.lockfile import Dump

# A build script's words can be long, and its reason stands at their end.
_STDERR_LIMIT = 1024 * 1024
# Bars redraw their line with carriage returns; what we read and show are lines.
_PLAIN = {"CARGO_TERM_PROGRESS_WHEN": "never", "CARGO_TERM_COLOR": "never"}


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
class Call:
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
    ends: float
    cut_short: bool
    say: Callable[[str], None]

    @property
    def where(self) -> Where | None:
        """The line of the lockfile that a person would look at."""
        places = self.dump.where
        keys = ("crate",) if self.dump.crate else ("example", "package")
        return next((places[key] for key in keys if key in places), None)

    @property
    def start(self) -> tuple[str, ...]:
        """Cargo itself, by its path on the caller's PATH, and the toolchain."""
        cargo = process.which("cargo", self.env.get("PATH", ""))
        if cargo is None:
            message = "cargo was not found on PATH; install Rust (https://rustup.rs)."
            raise DumpError(Problem("no-cargo", message, self.where))
        return (cargo, f"+{self.toolchain}") if self.toolchain else (cargo,)

    @property
    def choice(self) -> tuple[str, ...]:
        """The words that decide which executable comes out."""
        dump = self.dump
        # "--profile release" is "--release", and unlike it is known to all three verbs.
        profile = ("--profile", dump.profile)
        features = ("--features", ",".join(dump.features)) if dump.features else ()
        return ("--example", self.example, *profile, *features, *self.cargo_args)

    @property
    def flags(self) -> tuple[str, ...]:
        """The words that each verb is given, the same for build and run."""
        return ("--offline", *self.choice) if self.offline else self.choice

    def configs(self) -> list[str]:
        """The texts of the configuration files that cargo reads in ``cwd``, nearest first."""
        folders = [folder / ".cargo" for folder in (self.cwd, *self.cwd.parents)]
        folders.append(Path(self.env.get("CARGO_HOME") or Path.home() / ".cargo"))
        files = [folder / name for folder in folders for name in ("config.toml", "config")]
        return [text for file in dict.fromkeys(files) if (text := _text(file))]

    def build(self, *words: str, env: Mapping[str, str] | None = None) -> Heard:
        """Run a verb of cargo that builds the example; ``words`` begin with the verb.

        Raises:
            DumpError: With the codes of ``cargo_messages.problems``, or ``build-timeout``.
        """
        heard = Heard(self.example)
        words = (*words, "--message-format=json", *self.flags)
        ended = self.run(words, {**self.env, **_PLAIN, **(env or {})}, heard.hear)
        if ended.timed_out:
            raise self.late(said.last(ended.stderr))
        if ended.exit_code != 0:
            raise self._failed(heard, ended.stderr)
        return heard

    def version(self) -> str:
        """Cargo's release, commit and host, of the toolchain that ``cwd`` selects."""
        ended = self.run(("-Vv",), self.env)
        if ended.exit_code != 0:
            raise self._failed(Heard(self.example), ended.stderr)
        return ended.stdout

    def _failed(self, heard: Heard, stderr: str) -> DumpError:
        found = problems(heard, stderr, repo=self.repo, start=self.cwd, where=self.where)
        return DumpError(*found)

    def run(
        self,
        words: tuple[str, ...],
        env: Mapping[str, str],
        hear: Callable[[str], None] | None = None,
    ) -> process.Completed:
        """Run cargo, with this whole environment, in what is left of the build's time.

        Raises:
            DumpError: ``no-cargo``, or ``build-failed`` where it cannot be started.
        """
        try:
            return process.run(
                (*self.start, *words),
                cwd=self.cwd,
                env=env,
                timeout=self.ends - time.monotonic(),
                stderr_limit=_STDERR_LIMIT,
                on_line=hear,
                on_error_line=self.say,
            )
        except process.NotStartedError as error:
            message = f"cargo could not be started: {error.reason}."
            raise DumpError(Problem("build-failed", message, self.where)) from error

    def late(self, details: tuple[str, ...] = ()) -> DumpError:
        """The error of a build whose time is over."""
        allowed = f"{self.dump.build_timeout:g} seconds (build-timeout) were over"
        why = "the run's deadline came" if self.cut_short else f"its {allowed}"
        message = f"The build of example {self.example!r} was stopped: {why}."
        return DumpError(Problem("build-timeout", message, self.where, details))


def _text(file: Path) -> str:
    """What ``file`` says; nothing where it is absent or out of reach."""
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
