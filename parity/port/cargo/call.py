"""Call cargo for one example: arguments, environment, and the meaning of a failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from parity.errors import DumpError, Location, Problem
from parity.lockfile import Dump
from parity.port import output, process
from parity.port.cargo.messages import CargoOutput, explain_failure

# A build script can print much, and its reason comes last.
_STDERR_LIMIT = 1024 * 1024
# Progress bars redraw their line with carriage returns; we read and print lines.
_PLAIN_OUTPUT = {"CARGO_TERM_PROGRESS_WHEN": "never", "CARGO_TERM_COLOR": "never"}


@dataclass(frozen=True)
class Program:
    """A program that is ready to run."""

    argv: tuple[str, ...]  # the program and the arguments before the case's own
    cwd: Path
    env: Mapping[str, str]  # its whole environment
    version: str | None  # of its package; None for a command
    port: Mapping[str, str]  # for reports: crate, package and commit, or command
    source: Path | None = None  # of an example of the repo


@dataclass(frozen=True, kw_only=True)
class CargoCall:
    """The common part of all calls of cargo for one example."""

    dump: Dump
    example: str
    repo: Path  # root of the repo under test, as given; locations are relative to it
    cwd: Path  # where cargo runs, whose config and toolchain files apply
    env: Mapping[str, str]  # the whole one of cargo, and of the example under `cargo run`
    toolchain: str
    cargo_args: tuple[str, ...]
    offline: bool
    deadline: float  # end of the build's time, by `time.monotonic`
    cut_short: bool  # `deadline` is the run's, not the build's own timeout
    on_progress: Callable[[str], None]  # gets each line of cargo's progress, unescaped

    @property
    def where(self) -> Location | None:
        """The line of the lockfile that names the program."""
        locations = self.dump.where
        keys = ("crate",) if self.dump.crate else ("example", "package")
        return next((locations[key] for key in keys if key in locations), None)

    @property
    def command_prefix(self) -> tuple[str, ...]:
        """Cargo, by its path on the caller's PATH, and the toolchain."""
        cargo = process.find_program("cargo", self.env.get("PATH", ""))
        if cargo is None:
            message = "cargo was not found on PATH; install Rust (https://rustup.rs)."
            raise DumpError(Problem("no-cargo", message, self.where))
        return (cargo, f"+{self.toolchain}") if self.toolchain else (cargo,)

    @property
    def target_args(self) -> tuple[str, ...]:
        """The arguments that decide which executable is built."""
        dump = self.dump
        features = ("--features", ",".join(dump.features)) if dump.features else ()
        # "--profile release" is "--release", and unlike it is known to all three verbs.
        args = ("--example", self.example, "--profile", dump.profile)
        return (*args, *features, *self.cargo_args)

    @property
    def flags(self) -> tuple[str, ...]:
        """The arguments of each verb, the same for build and run."""
        return ("--offline", *self.target_args) if self.offline else self.target_args

    def read_configs(self) -> list[str]:
        """Read the configuration files that apply in ``cwd``, nearest first."""
        folders = [folder / ".cargo" for folder in (self.cwd, *self.cwd.parents)]
        folders.append(Path(self.env.get("CARGO_HOME") or Path.home() / ".cargo"))
        texts = []
        for folder in dict.fromkeys(folders):
            for name in ("config.toml", "config"):
                with suppress(OSError):
                    texts.append((folder / name).read_text(encoding="utf-8", errors="replace"))
        return [text for text in texts if text]

    def build(self, *args: str, env: Mapping[str, str] | None = None) -> CargoOutput:
        """Run a verb of cargo that builds the example; ``args`` begin with the verb.

        Raises:
            DumpError: With the codes of ``explain_failure``, or ``build-timeout``.
        """
        cargo_output = CargoOutput(self.example)
        args = (*args, "--message-format=json", *self.flags)
        env = {**self.env, **_PLAIN_OUTPUT, **(env or {})}
        result = self.run(args, env, cargo_output.read_line)
        if result.timed_out:
            raise self.make_timeout_error(output.select_last_lines(result.stderr))
        if result.exit_code != 0:
            raise self._make_error(cargo_output, result.stderr)
        return cargo_output

    def read_version(self) -> str:
        """Return cargo's release, commit and host, of the toolchain that ``cwd`` selects."""
        result = self.run(("-Vv",), self.env)
        if result.exit_code != 0:
            raise self._make_error(CargoOutput(self.example), result.stderr)
        return result.stdout

    def _make_error(self, cargo_output: CargoOutput, stderr: str) -> DumpError:
        place = {"repo": self.repo, "start": self.cwd}
        return DumpError(*explain_failure(cargo_output, stderr, **place, where=self.where))

    def run(
        self,
        args: tuple[str, ...],
        env: Mapping[str, str],
        on_line: Callable[[str], None] | None = None,
    ) -> process.ProcessResult:
        """Run cargo with this whole environment, in the rest of the build's time.

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
        """Return the error of a build whose time is over."""
        limit = f"it reached its limit of {self.dump.build_timeout:g} seconds (build-timeout)"
        reason = "the run's deadline passed" if self.cut_short else limit
        message = f"The build of example {self.example!r} was stopped: {reason}."
        return DumpError(Problem("build-timeout", message, self.where, details))
