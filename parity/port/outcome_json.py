"""Dumps that lie ready, and `outcome.json` beside one: how the program that wrote it ended.

``{"exit": 1, "signal": null, "timed_out": false, "stderr": "FAILED: …"}``; all but one of
``exit`` and ``signal`` may be left out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from parity.port.exit_findings import (
    describe_bad_outcome,
    describe_empty_dump,
    describe_missing_dump,
    explain_exit,
)
from parity.port.process import ProcessResult
from parity.port.run import DumpResult, has_file

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
#: Stands for words that were not recorded: a refusal without any would be none.
_UNRECORDED = "(outcome.json does not say what the program said)"


class OutcomeError(Exception):
    """The file is not what it should be."""


def load_dump(dumps_dir: Path, bundle: str, case: str, where: Location | None = None) -> DumpResult:
    """The dump that lies ready under ``dumps_dir/bundle/case``; nothing is run.

    Where `outcome.json` lies in it, that says how the program ended.
    """
    folder = dumps_dir / bundle / case
    if not folder.is_dir():
        return DumpResult(folder=folder, findings=(describe_missing_dump(folder, where),))
    try:
        result = read_outcome(folder)
    except OutcomeError as error:
        return DumpResult(folder=folder, findings=(describe_bad_outcome(str(error), where),))
    if result is not None:
        findings = explain_exit(
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
    return DumpResult(
        folder=folder, findings=() if has_file(folder) else (describe_empty_dump(folder, where),)
    )


def read_outcome(folder: Path) -> ProcessResult | None:
    """How the program ended, None where no file says so.

    Raises:
        OutcomeError: The file cannot be read, or says nothing.
    """
    path = folder / OUTCOME_FILE
    if not path.exists():
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
        if path.stat().st_size > MAX_BYTES:
            message = f"has more than {MAX_BYTES:,} bytes"
            raise OutcomeError(message)
        outcome = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        message = f"is not the JSON that it should be: {error}"
        raise OutcomeError(message) from None
    if not isinstance(outcome, dict):
        message = "is no object"
        raise OutcomeError(message)
    for key, value in outcome.items():
        if key not in _KEY_TYPES or type(value) not in _KEY_TYPES[key]:
            message = f"has no key {key!r:.60} with such a value; known: {', '.join(_KEY_TYPES)}"
            raise OutcomeError(message)
    return outcome
