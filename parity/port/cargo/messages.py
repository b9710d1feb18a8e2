"""Read the messages of cargo and rustc: executables, diagnostics, the reason of a failure.

rustc's diagnostics come as JSON on stdout; cargo's own errors (a missing example, a
build script that failed, no network) come as text on stderr and nowhere else.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity.errors import Location, Problem
from parity.port import output

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Diagnostics that are reported; the rest are counted.
MAX_ERRORS = 5

_MAX_RENDERED_LINES = 30
_ERROR = re.compile(r"^error(?:\[\w+\])?: (?P<what>.+)$", re.MULTILINE)
_SCRIPT = re.compile(r"^error: failed to run custom build command for `(?P<package>[^`]+)`")
_NETWORK = re.compile(
    r"you're using offline mode|but --offline was specified|failed to download|"
    r"download of .+ failed|failed to fetch|unable to update registry|[Cc]ould ?n[o']t connect|"
    r"[Cc]ould ?n[o']t resolve|network failure|spurious network error"
)
# The first that is found in cargo's own text decides.
_TEXTS = (
    ("no-example", re.compile(r"no example target named")),
    ("no-registry", _NETWORK),
    ("no-package", re.compile(r"package ID specification .* did not match|could not find `.*` in")),
    ("no-cargo", re.compile(r"toolchain '.*' is not installed|no such command: `\+")),
)
_MEANING = {
    "no-example": "The package has no such example",
    "no-registry": "A dependency cannot be downloaded: no network, or not fetched before --offline",
    "no-package": "The package does not exist",
    "no-cargo": "The toolchain is not installed",
    "build-failed": "cargo could not build",
}


@dataclass
class CargoOutput:
    """The messages of cargo on stdout, read line by line in bounded memory.

    Attributes:
        example: Name of the example that is built.
        executable: Its path, once it is built.
        source: The example's own source file.
        package_id: Cargo's id of the package it belongs to.
        errors: The first ``MAX_ERRORS`` diagnostics; ``more_errors`` counts the others.
    """

    example: str
    executable: Path | None = None
    source: Path | None = None
    package_id: str = ""
    errors: list[dict[str, Any]] = field(default_factory=list)
    more_errors: int = 0

    def read_line(self, line: str) -> None:
        """Read one line; a line that is not a message of cargo is skipped."""
        message = _parse_json_object(line)
        # A procedural macro may print to the same stream, so the shape is not certain.
        with contextlib.suppress(KeyError, TypeError, AttributeError):
            if message.get("reason") == "compiler-artifact":
                self._read_artifact(message)
            elif message.get("reason") == "compiler-message" and _is_error(message["message"]):
                self._add_error(message)

    def _add_error(self, message: dict[str, Any]) -> None:
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(message)
        else:
            self.more_errors += 1

    def _read_artifact(self, message: dict[str, Any]) -> None:
        target = message["target"]
        is_target = target["kind"] == ["example"] and target["name"] == self.example
        if is_target and message.get("executable"):
            self.executable = Path(message["executable"])
            self.source = Path(target["src_path"])
            self.package_id = message["package_id"]

    @property
    def version(self) -> str | None:
        """Version of the package: cargo's ids end with ``#1.2.3`` or ``#name@1.2.3``."""
        found = re.search(r"[#@]([0-9][^#@/]*)$", self.package_id)
        return found[1] if found else None


def explain_failure(
    cargo_output: CargoOutput, stderr: str, *, repo: Path, start: Path, where: Location | None
) -> list[Problem]:
    """Return why cargo failed, the clearest reason first; never empty.

    Args:
        cargo_output: Its messages on stdout.
        stderr: The end of cargo's own text.
        repo: Locations in files below it are reported, as paths that begin with it.
        start: The package's folder, or one below the workspace's root.
        where: The location to name if rustc names none.
    """
    found = [
        *_convert_diagnostics(cargo_output, repo, start, where),
        *_find_script_failures(stderr, where),
    ]
    return found or [_classify_text(stderr, where)]


def _parse_json_object(line: str) -> dict[str, Any]:
    if not line.startswith("{"):
        return {}
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _is_error(diagnostic: dict[str, Any]) -> bool:
    # "aborting due to 3 previous errors" only counts the others.
    is_count = not diagnostic["spans"] and diagnostic["message"].startswith("aborting due to")
    return diagnostic["level"].startswith("error") and not is_count


def _convert_diagnostics(
    cargo_output: CargoOutput, repo: Path, start: Path, where: Location | None
) -> Iterator[Problem]:
    for message in cargo_output.errors:
        diagnostic = message["message"]
        manifest = message.get("manifest_path")
        folder = Path(manifest).parent if manifest else start
        location = _find_location(diagnostic["spans"], repo, folder) or where
        details = tuple(
            map(output.truncate_line, (diagnostic["rendered"] or "").rstrip().splitlines())
        )
        yield Problem(
            "compile-error", _format_title(diagnostic), location, details[:_MAX_RENDERED_LINES]
        )
    if cargo_output.more_errors:
        text = (
            f"{cargo_output.more_errors} more compile errors are not shown; cargo shows them all."
        )
        yield Problem("compile-error", text, where)


def _format_title(diagnostic: dict[str, Any]) -> str:
    code = (diagnostic.get("code") or {}).get("code")
    text = output.truncate_line(diagnostic["message"].splitlines()[0])
    return f"{text} ({code})" if code else text


def _find_location(spans: Iterable[dict[str, Any]], repo: Path, start: Path) -> Location | None:
    """Find the error, or the macro call that led to it, in the repo's own sources."""
    for span in spans:
        current: dict[str, Any] | None = span if span["is_primary"] else None
        while current:
            if file := output.locate_source(current["file_name"], repo, start):
                return Location(file, current["line_start"], current["column_start"])
            current = (current.get("expansion") or {}).get("span")
    return None


def _find_script_failures(stderr: str, where: Location | None) -> Iterator[Problem]:
    """Yield one problem per build script that failed, with the reason that it gave."""
    blocks = re.split(r"^(?=error)", stderr, flags=re.MULTILINE)
    for block in blocks:
        if found := _SCRIPT.match(block):
            script_output = block.partition("--- stderr")[2] or block.partition("--- stdout")[2]
            package = found["package"].split(" (")[0]
            reason = output.find_reason(script_output) or "it gave no reason"
            text = f"The build script of {package} failed: {reason}"
            yield Problem("build-script", text, where, output.select_last_lines(block))


def _classify_text(stderr: str, where: Location | None) -> Problem:
    plain = "\n".join(output.clean_lines(stderr))
    code = next((code for code, text in _TEXTS if text.search(plain)), "build-failed")
    found = _ERROR.search(plain)
    reason = found["what"] if found else output.find_reason(stderr) or "it gave no reason"
    return Problem(
        code,
        f"{_MEANING[code]}: {output.truncate_line(reason)}",
        where,
        output.select_last_lines(stderr),
    )
