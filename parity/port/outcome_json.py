"""Read dumps that are there already, and `outcome.json` in one: how the program ended.

``{"exit": 1, "signal": null, "timed_out": false, "stderr": "FAILED: …"}``; all but one of
``exit`` and ``signal`` may be left out.
"""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any

from parity.port import dump_folder, exit_findings
from parity.port.process import ProcessResult
from parity.port.run import DumpResult

if TYPE_CHECKING:
    from pathlib import Path

    from parity.errors import Location

OUTCOME_FILE = "outcome.json"
MAX_BYTES = 2**20
_KEY_TYPES: dict[str, tuple[type, ...]] = {
    "exit": (int, type(None)),
    "signal": (str, type(None)),
    "timed_out": (bool,),
    "stderr": (str,),
}
#: Stands for a message that was not recorded: a rejection without one would not count.
_UNRECORDED = "(outcome.json does not say what the program said)"


class OutcomeError(Exception):
    """An `outcome.json` that is not valid; the message continues "outcome.json of this case"."""


def load_dump(dumps_dir: Path, bundle: str, case: str, where: Location | None = None) -> DumpResult:
    """Return the dump in ``dumps_dir/bundle/case``; nothing is run.

    An `outcome.json` in it says how the program ended.
    """
    folder = dumps_dir / bundle / case
    if not folder.is_dir():
        finding = exit_findings.describe_missing_dump(folder, where)
        return DumpResult(folder=folder, findings=(finding,))
    if dump_folder.is_too_deep(folder):
        finding = exit_findings.describe_deep_dump(where)
        return DumpResult(folder=folder, findings=(finding,))
    try:
        result = read_outcome(folder)
    except OutcomeError as error:
        finding = exit_findings.describe_bad_outcome(str(error), where)
        return DumpResult(folder=folder, findings=(finding,))
    if result is not None:
        findings = exit_findings.explain_exit(
            result,
            has_output=any(path.name != OUTCOME_FILE for path in folder.iterdir()),
            timeout_reason="as outcome.json says",
            repo=folder,
            cwd=folder,
            where=where,
        )
        return DumpResult(
            folder=folder, stderr=result.stderr, findings=findings, process_result=result
        )
    if dump_folder.has_file(folder):
        return DumpResult(folder=folder)
    return DumpResult(folder=folder, findings=(exit_findings.describe_empty_dump(folder, where),))


def read_outcome(folder: Path) -> ProcessResult | None:
    """Return how the program ended, or None if no file says so.

    Raises:
        OutcomeError: The file cannot be read, or its content is not valid.
    """
    path = folder / OUTCOME_FILE
    if not os.path.lexists(path):
        return None
    outcome = _parse(path)
    timed_out = bool(outcome.get("timed_out"))
    code, signal = outcome.get("exit"), outcome.get("signal")
    if not timed_out and (code is None) == (signal is None):
        message = "must state exit or signal, and not both"
        raise OutcomeError(message)
    stderr = outcome.get("stderr", _UNRECORDED)
    return ProcessResult((), None if timed_out else code, signal, timed_out, "", stderr, 0.0)


def _parse(path: Path) -> dict[str, Any]:
    try:
        outcome = json.loads(_read_bytes(path))
    except (OSError, ValueError, RecursionError) as error:
        message = f"is not valid JSON: {error}"
        raise OutcomeError(message) from None
    if not isinstance(outcome, dict):
        message = "must be a JSON object"
        raise OutcomeError(message)
    for key, value in outcome.items():
        if key not in _KEY_TYPES or type(value) not in _KEY_TYPES[key]:
            known = ", ".join(_KEY_TYPES)
            message = (
                f"has an unknown key or a value of the wrong type: {key!r:.60}; known: {known}"
            )
            raise OutcomeError(message)
    return outcome


def _read_bytes(path: Path) -> bytes:
    """Read a regular file of at most ``MAX_BYTES``; a pipe or a device is never waited for.

    Raises:
        OutcomeError: It is another kind of file, or too large.
        OSError: As the system says.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        message = "is not a regular file"
        raise OutcomeError(message)
    if status.st_size > MAX_BYTES:
        message = f"has more than {MAX_BYTES:,} bytes"
        raise OutcomeError(message)
    return path.read_bytes()
