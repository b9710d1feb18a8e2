"""Dumps that lie ready, and `outcome.json` beside one: how the program that wrote it ended.

``{"exit": 1, "signal": null, "timed_out": false, "stderr": "FAILED: …"}``; all but one of
``exit`` and ``signal`` may be left out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from parity.dumps.ends import bad_outcome, empty, findings_of, missing
from parity.dumps.run import Dumped, has_file
from parity.process import Completed

if TYPE_CHECKING:
    from pathlib import Path

    from parity.errors import Where

NAME = "outcome.json"
MAX_BYTES = 2**20
_KINDS: dict[str, tuple[type, ...]] = {
    "exit": (int, type(None)),
    "signal": (str, type(None)),
    "timed_out": (bool,),
    "stderr": (str,),
}
#: Stands for words that were not recorded: a refusal without any would be none.
_UNTOLD = "(outcome.json does not say what the program said)"


class OutcomeError(Exception):
    """The file is not what it should be."""


def ready(dumps_dir: Path, bundle: str, case: str, where: Where | None = None) -> Dumped:
    """The dump that lies ready under ``dumps_dir/bundle/case``; nothing is run.

    Where `outcome.json` lies in it, that says how the program ended.
    """
    folder = dumps_dir / bundle / case
    if not folder.is_dir():
        return Dumped(folder=folder, findings=(missing(folder, where),))
    try:
        ended = read(folder)
    except OutcomeError as error:
        return Dumped(folder=folder, findings=(bad_outcome(str(error), where),))
    if ended is not None:
        findings = findings_of(
            ended,
            wrote=any(path.name != NAME for path in folder.iterdir()),
            over="as outcome.json says",
            repo=folder,
            cwd=folder,
            where=where,
        )
        return Dumped(folder=folder, stderr=ended.stderr, findings=findings, ended=ended)
    return Dumped(folder=folder, findings=() if has_file(folder) else (empty(folder, where),))


def read(folder: Path) -> Completed | None:
    """How the program ended, None where no file says so.

    Raises:
        OutcomeError: The file cannot be read, or says nothing.
    """
    path = folder / NAME
    if not path.exists():
        return None
    found = _parsed(path)
    timed_out = bool(found.get("timed_out"))
    code, signal = found.get("exit"), found.get("signal")
    if not timed_out and (code is None) == (signal is None):
        message = "must state exit or signal, and not both"
        raise OutcomeError(message)
    stderr = found.get("stderr", _UNTOLD)
    return Completed((), None if timed_out else code, signal, timed_out, "", stderr, 0.0)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_BYTES:
            message = f"has more than {MAX_BYTES:,} bytes"
            raise OutcomeError(message)
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        message = f"is not the JSON that it should be: {error}"
        raise OutcomeError(message) from None
    if not isinstance(found, dict):
        message = "is no object"
        raise OutcomeError(message)
    for key, value in found.items():
        if key not in _KINDS or type(value) not in _KINDS[key]:
            message = f"has no key {key!r:.60} with such a value; known: {', '.join(_KINDS)}"
            raise OutcomeError(message)
    return found
