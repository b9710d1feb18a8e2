"""Read dumps that are there already, and `outcome.json` in one: how the program ended.

``{"exit": 1, "signal": null, "timed_out": false, "stderr": "FAILED: …"}``; all but one of
``exit`` and ``signal`` may be left out.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from parity.port.dump_folder import DumpFileError, has_file, list_deep_folders, read_file
from parity.port.output import TOO_DEEP, explain_exit
from parity.port.process import ProcessResult
from parity.port.run import DumpResult

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


def load_dump(dumps_dir: Path, bundle: str, case: str) -> DumpResult:
    """Return the dump in ``dumps_dir/bundle/case``; nothing is run.

    An `outcome.json` in it says how the program ended.
    """
    folder = dumps_dir / bundle / case
    name = repr(folder.as_posix())
    if not folder.is_dir():
        message = f"There is no dump of this case: the folder {name} does not exist."
        return DumpResult.fail(folder, "dump-missing", message)
    if list_deep_folders(folder):
        return DumpResult.fail(folder, "dump-too-deep", TOO_DEEP)
    try:
        result = read_outcome(folder)
    except DumpFileError as error:
        message = f"outcome.json of this case {error}."
        return DumpResult.fail(folder, "outcome-malformed", message)
    if result is None:
        message = f"The dump of this case is empty: {name} contains no file."
        empty = DumpResult.fail(folder, "dump-empty", message)
        return DumpResult(folder=folder) if has_file(folder) else empty
    findings = explain_exit(
        result,
        has_output=any(path.name != OUTCOME_FILE for path in folder.iterdir()),
        timeout_reason="as outcome.json says",
        repo=folder,
        cwd=folder,
    )
    return DumpResult(folder=folder, stderr=result.stderr, findings=findings, process_result=result)


def read_outcome(folder: Path) -> ProcessResult | None:
    """Return how the program ended, or None if no file says so.

    Raises:
        DumpFileError: The file cannot be read, or its content is not valid.
    """
    path = folder / OUTCOME_FILE
    if not os.path.lexists(path):
        return None
    try:
        outcome = json.loads(read_file(path, MAX_BYTES))
    except (ValueError, RecursionError) as error:
        raise DumpFileError(f"is not valid JSON: {error}") from None
    if not isinstance(outcome, dict):
        raise DumpFileError("must be a JSON object")
    for key, value in outcome.items():
        if type(value) not in _KEY_TYPES.get(key, ()):
            known = f"{key!r:.60}; known: {', '.join(_KEY_TYPES)}"
            raise DumpFileError(f"has an unknown key or a value of the wrong type: {known}")
    code, signal = outcome.get("exit"), outcome.get("signal")
    timed_out, stderr = outcome.get("timed_out", False), outcome.get("stderr", _UNRECORDED)
    if (code is None) == (signal is None) and not timed_out:
        raise DumpFileError("must state exit or signal, and not both")
    return ProcessResult((), None if timed_out else code, signal, timed_out, "", stderr, 0.0)
