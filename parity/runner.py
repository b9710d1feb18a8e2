"""Where this process runs: the only reader of ``GITHUB_*``, ``PARITY_INPUT_*`` and Nox's variables.

It speaks to GitHub's runner in the two ways that the runner understands: commands on
stdout, and files that it reads when the step has ended. Both are escaped by the
runner's own grammar (actions/runner ``ActionCommand.cs``, ``FileCommandManager.cs``).
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Bytes of one step's summary; one more, and the runner drops all of it.
SUMMARY_BYTES = 1024 * 1024
#: Characters of a message and of a title that GitHub shows.
MESSAGE_CHARACTERS, TITLE_CHARACTERS = 4096, 255
#: Annotations of one kind that GitHub keeps of one step; a composite action is one step.
ANNOTATIONS = 10

_INPUT = "PARITY_INPUT_"
_DATA = (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"))
_PROPERTY = (*_DATA, (":", "%3A"), (",", "%2C"))
#: Events whose runs may hand something to others: nothing is taken from a cache there.
_UNCACHED_EVENTS = ("release", "pull_request_target", "workflow_run")
_SAVING_EVENTS = ("push", "schedule", "workflow_dispatch")
_lent: list[str] = []


def door() -> str:
    """The words that a person types to run ``verify`` the way this process was started."""
    if os.environ.get("NOX_CURRENT_SESSION"):
        return "nox -s verify --"
    return "python -m parity verify"


def as_typed(path: Path) -> str:
    """``path`` as a person types it: on GitHub's runner, from a clone beside the repo."""
    inside = in_workspace(path) if on_github() else None
    if inside is None:
        return path.as_posix()
    name = os.environ.get("GITHUB_REPOSITORY", "").rpartition("/")[2] or "REPO"
    return f"../{name}" if inside == "." else f"../{name}/{inside}"


def on_github() -> bool:
    """Whether GitHub's runner reads what this process prints."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def workspace() -> Path:
    """The folder that paths of annotations are relative to."""
    return Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())


def in_workspace(path: Path) -> str | None:
    """``path`` as annotations name it: relative to the workspace, with ``/``; None outside."""
    root = workspace().resolve()
    full = path.resolve()
    return full.relative_to(root).as_posix() if full.is_relative_to(root) else None


def base_revision() -> str | None:
    """The commit that a pull request is held against, where this is a run for one."""
    name = os.environ.get("GITHUB_BASE_REF")
    return f"origin/{name}" if on_github() and name else None


def inputs() -> dict[str, str]:
    """The action's inputs by their names, as they came; a mapping that was forgotten is absent."""
    return {
        name.removeprefix(_INPUT).lower().replace("_", "-"): value
        for name, value in os.environ.items()
        if name.startswith(_INPUT)
    }


def may_restore() -> bool:
    """Whether a cache may be read here: not where others get what this run makes."""
    event, kind = os.environ.get("GITHUB_EVENT_NAME"), os.environ.get("GITHUB_REF_TYPE")
    return event not in _UNCACHED_EVENTS and kind != "tag"


def may_save() -> bool:
    """Whether a cache may be written here: never by a pull request, which only evicts others."""
    return may_restore() and os.environ.get("GITHUB_EVENT_NAME") in _SAVING_EVENTS


def command(name: str, data: str = "", **properties: str | int) -> str:
    """One workflow command, escaped; the line may be printed as it is."""
    told = ",".join(f"{key}={_escaped(str(v), _PROPERTY)}" for key, v in properties.items())
    return f"::{name}{' ' if told else ''}{told}::{_escaped(data, _DATA)}"


def _escaped(text: str, table: tuple[tuple[str, str], ...]) -> str:
    for char, code in table:
        text = text.replace(char, code)
    return text


def fence() -> tuple[str, str]:
    """Two lines between which the runner obeys no ``::`` command."""
    token = secrets.token_hex(16)
    return command("stop-commands", token), f"::{token}::"


def set_outputs(values: Mapping[str, str]) -> None:
    """Hand values to later steps; each may hold anything, lines included."""
    _append(os.environ.get("GITHUB_OUTPUT"), "".join(_entries(values)))


def _entries(values: Mapping[str, str]) -> Iterator[str]:
    """A delimiter that nobody could know beforehand ends each value (CVE-2022-35954)."""
    for name, value in values.items():
        delimiter = f"parity_{secrets.token_hex(16)}"
        yield f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def add_summary(text: str) -> bool:
    """Append to the step's summary; False where there is none, or no room for it.

    ``reports/markdown`` keeps within ``summary_room``; what came too large is not written,
    since the runner would drop all of the step's summary.
    """
    if len(text.encode("utf-8", "backslashreplace")) > summary_room():
        return False
    return _append(os.environ.get("GITHUB_STEP_SUMMARY"), text)


def summary_room() -> int:
    """Bytes that the step's summary can still take; 0 where there is none."""
    name = os.environ.get("GITHUB_STEP_SUMMARY")
    if not name:
        return 0
    used = Path(name).stat().st_size if Path(name).exists() else 0
    return max(0, SUMMARY_BYTES - used)


def _append(name: str | None, text: str) -> bool:
    if not name:
        return False
    # Lone surrogates in foreign text must not cost what the runner is told.
    with Path(name).open("ab") as file:
        file.write(text.encode("utf-8", "backslashreplace"))
    return True


def lend_hub_token(token: str) -> None:
    """Let the Hub's client find ``token`` in this process, until ``take_hub_token_back``."""
    if token:
        os.environ["HF_TOKEN"] = token
        _lent.append(token)


def take_hub_token_back() -> None:
    """Forget a lent token and all inputs, before programs of the repo under test inherit them."""
    if _lent and os.environ.get("HF_TOKEN") == _lent.pop():
        del os.environ["HF_TOKEN"]
    for name in [name for name in os.environ if name.startswith(_INPUT)]:
        del os.environ[name]
