"""Read the messages of cargo and rustc: executables, diagnostics, the reason of a failure.

rustc's diagnostics come as JSON on stdout; cargo's own errors (a missing example, a
build script that failed, no network) come as text on stderr and nowhere else.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parity.errors import Location, Problem
from parity.port import output
from parity.text import truncate

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
        with contextlib.suppress(KeyError, TypeError, AttributeError):
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
