"""Call cargo for one example: arguments, environment, its messages, the reason of a failure.

rustc's diagnostics come as JSON on stdout; cargo's own errors (a missing example, a
build script that failed, no network) come as text on stderr and nowhere else.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parity.errors import DumpError, Location, Problem
from parity.lockfile import Dump
from parity.port import output, process
from parity.text import truncate

# A build script can print much, and its reason comes last.
_STDERR_LIMIT = 1024 * 1024
# Progress bars redraw their line with carriage returns; we read and print lines.
_PLAIN_OUTPUT = {"CARGO_TERM_PROGRESS_WHEN": "never", "CARGO_TERM_COLOR": "never"}
MAX_ERRORS = 5  # Diagnostics that are reported; the rest are counted

_MAX_RENDERED_LINES = 30
_ERROR = re.compile(r"^error(?:\[\w+\])?: (?P<what>.+)$", re.MULTILINE)
_SCRIPT = re.compile(r"^error: failed to run custom build command for `(?P<package>[^`]+)`")
_NETWORK = re.compile(
    r"you're using offline mode|but --offline was specified|failed to download|"
    r"download of .+ failed|failed to fetch|unable to update registry|[Cc]ould ?n[o']t connect|"
    r"[Cc]ould ?n[o']t resolve|network failure|spurious network error"
)
# Codes with their meaning; the first whose pattern is in cargo's own text decides.
_REASONS = {
    "no-example": ("The package has no such example", re.compile(r"no example target named")),
    "no-registry": (
        "A dependency cannot be downloaded: no network, or not fetched before --offline",
        _NETWORK,
    ),
    "no-package": (
        "The package does not exist",
        re.compile(r"package ID specification .* did not match|could not find `.*` in"),
    ),
    "no-cargo": (
        "The toolchain is not installed",
        re.compile(r"toolchain '.*' is not installed|no such command: `\+"),
    ),
    "build-failed": ("cargo could not build", re.compile("")),
}


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


@dataclass
class CargoOutput:
    """The messages of cargo on stdout, read line by line in bounded memory."""

    example: str  # that is built
    executable: Path | None = None  # once it is built
    source: Path | None = None  # the example's own source file
    package_id: str = ""
    errors: list[dict[str, Any]] = field(default_factory=list)  # the first `MAX_ERRORS`
    more_errors: int = 0

    def read_line(self, line: str) -> None:
        """Read one line; a line that is not a message of cargo is skipped."""
        message = output.parse_json_object(line) or {}
        # A procedural macro may print to the same stream, so the shape is not certain.
        with suppress(KeyError, TypeError, AttributeError):
            if message.get("reason") == "compiler-artifact":
                target = message["target"]
                is_target = target["kind"] == ["example"] and target["name"] == self.example
                if is_target and message.get("executable"):
                    self.executable = Path(message["executable"])
                    self.source = Path(target["src_path"])
                    self.package_id = message["package_id"]
            elif message.get("reason") == "compiler-message" and _is_error(message["message"]):
                if len(self.errors) < MAX_ERRORS:
                    self.errors.append(message)
                else:
                    self.more_errors += 1

    @property
    def version(self) -> str | None:
        """Version of the package: cargo's ids end with ``#1.2.3`` or ``#name@1.2.3``."""
        found = re.search(r"[#@]([0-9][^#@/]*)$", self.package_id)
        return found[1] if found else None


def explain_failure(
    cargo_output: CargoOutput, stderr: str, *, repo: Path, start: Path, where: Location | None
) -> list[Problem]:
    """Return why cargo failed, the clearest reason first; never empty.

    ``stderr`` is the end of its own text. Locations in files below ``repo`` are reported;
    ``start`` is the package's folder, or one below the workspace's root; ``where`` is named where
    rustc names no location.
    """
    found = [_convert_diagnostic(one, repo, start, where) for one in cargo_output.errors]
    if more := cargo_output.more_errors:
        text = f"{more} more compile errors are not shown; cargo shows them all."
        found.append(Problem("compile-error", text, where))
    for block in re.split(r"^(?=error)", stderr, flags=re.MULTILINE):
        if script := _SCRIPT.match(block):
            script_output = block.partition("--- stderr")[2] or block.partition("--- stdout")[2]
            package = script["package"].split(" (")[0]
            reason = output.find_reason(script_output) or "it gave no reason"
            text = f"The build script of {package} failed: {reason}"
            found.append(Problem("build-script", text, where, output.select_last_lines(block)))
    if found:
        return found
    plain = "\n".join(output.clean_lines(stderr))
    code = next(code for code, (_, pattern) in _REASONS.items() if pattern.search(plain))
    error = _ERROR.search(plain)
    reason = error["what"] if error else output.find_reason(stderr) or "it gave no reason"
    text = f"{_REASONS[code][0]}: {truncate(reason, output.MAX_WIDTH)}"
    return [Problem(code, text, where, output.select_last_lines(stderr))]


def _is_error(diagnostic: dict[str, Any]) -> bool:
    # "aborting due to 3 previous errors" only counts the others.
    is_count = not diagnostic["spans"] and diagnostic["message"].startswith("aborting due to")
    return diagnostic["level"].startswith("error") and not is_count


def _convert_diagnostic(
    message: dict[str, Any], repo: Path, start: Path, where: Location | None
) -> Problem:
    diagnostic = message["message"]
    manifest = message.get("manifest_path")
    folder = Path(manifest).parent if manifest else start
    code = (diagnostic.get("code") or {}).get("code")
    title = truncate(diagnostic["message"].splitlines()[0], output.MAX_WIDTH)
    where = _find_location(diagnostic["spans"], repo, folder) or where
    rendered = (diagnostic["rendered"] or "").rstrip().splitlines()[:_MAX_RENDERED_LINES]
    details = tuple(truncate(line, output.MAX_WIDTH) for line in rendered)
    return Problem("compile-error", f"{title} ({code})" if code else title, where, details)


def _find_location(spans: Iterable[dict[str, Any]], repo: Path, start: Path) -> Location | None:
    """Find the error, or the macro call that led to it, in the repo's own sources."""
    for span in spans:
        current: dict[str, Any] | None = span if span["is_primary"] else None
        while current:
            if file := output.locate_source(current["file_name"], repo, start):
                return Location(file, current["line_start"], current["column_start"])
            current = (current.get("expansion") or {}).get("span")
    return None
