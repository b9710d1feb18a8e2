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
MAX_SUMMARY_BYTES = 1024 * 1024
#: Characters of a message and of a title that GitHub shows.
MAX_MESSAGE_CHARACTERS, MAX_TITLE_CHARACTERS = 4096, 255
#: Annotations of one kind that GitHub keeps of one step; a composite action is one step.
MAX_ANNOTATIONS = 10

_INPUT = "PARITY_INPUT_"
_DATA_ESCAPES = (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"))
_PROPERTY_ESCAPES = (*_DATA_ESCAPES, (":", "%3A"), (",", "%2C"))
#: Events whose runs may hand something to others: nothing is taken from a cache there.
_UNCACHED_EVENTS = ("release", "pull_request_target", "workflow_run")
_SAVING_EVENTS = ("push", "schedule", "workflow_dispatch")
_exposed_tokens: list[str] = []


def choose_command_prefix() -> str:
    """The words that a person types to run ``verify`` the way this process was started."""
    if os.environ.get("NOX_CURRENT_SESSION"):
        return "nox -s verify --"
    return "python -m parity verify"


def display_path(path: Path) -> str:
    """``path`` as a person types it: on GitHub's runner, from a clone beside the repo."""
    inside = find_workspace_path(path) if is_on_github() else None
    if inside is None:
        return path.as_posix()
    name = os.environ.get("GITHUB_REPOSITORY", "").rpartition("/")[2] or "REPO"
    return f"../{name}" if inside == "." else f"../{name}/{inside}"


def is_on_github() -> bool:
    """Whether GitHub's runner reads what this process prints."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def get_workspace() -> Path:
    """The folder that paths of annotations are relative to."""
    return Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())


def find_workspace_path(path: Path) -> str | None:
    """``path`` as annotations name it: relative to the workspace, with ``/``; None outside."""
    root = get_workspace().resolve()
    full = path.resolve()
    return full.relative_to(root).as_posix() if full.is_relative_to(root) else None


def get_base_revision() -> str | None:
    """The commit that a pull request is held against, where this is a run for one."""
    name = os.environ.get("GITHUB_BASE_REF")
    return f"origin/{name}" if is_on_github() and name else None


def read_inputs() -> dict[str, str]:
    """The action's inputs by their names, as they came; a mapping that was forgotten is absent."""
    return {
        name.removeprefix(_INPUT).lower().replace("_", "-"): value
        for name, value in os.environ.items()
        if name.startswith(_INPUT)
    }


def is_cache_readable() -> bool:
    """Whether a cache may be read here: not where others get what this run makes."""
    event, kind = os.environ.get("GITHUB_EVENT_NAME"), os.environ.get("GITHUB_REF_TYPE")
    return event not in _UNCACHED_EVENTS and kind != "tag"


def is_cache_writable() -> bool:
    """Whether a cache may be written here: never by a pull request, which only evicts others."""
    return is_cache_readable() and os.environ.get("GITHUB_EVENT_NAME") in _SAVING_EVENTS


def format_command(name: str, data: str = "", **properties: str | int) -> str:
    """One workflow command, escaped; the line may be printed as it is."""
    fields = ",".join(
        f"{key}={_escape(str(v), _PROPERTY_ESCAPES)}" for key, v in properties.items()
    )
    return f"::{name}{' ' if fields else ''}{fields}::{_escape(data, _DATA_ESCAPES)}"


def _escape(text: str, table: tuple[tuple[str, str], ...]) -> str:
    for char, code in table:
        text = text.replace(char, code)
    return text


def make_fence() -> tuple[str, str]:
    """Two lines between which the runner obeys no ``::`` command."""
    token = secrets.token_hex(16)
    return format_command("stop-commands", token), f"::{token}::"


def set_outputs(values: Mapping[str, str]) -> None:
    """Hand values to later steps; each may hold anything, lines included."""
    _append_text(os.environ.get("GITHUB_OUTPUT"), "".join(_format_outputs(values)))


def _format_outputs(values: Mapping[str, str]) -> Iterator[str]:
    """A delimiter that nobody could know beforehand ends each value (CVE-2022-35954)."""
    for name, value in values.items():
        delimiter = f"parity_{secrets.token_hex(16)}"
        yield f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def add_summary(text: str) -> bool:
    """Append to the step's summary; False where there is none, or no room for it.

    ``reports/markdown`` keeps within ``measure_summary_room``; what came too large is not written,
    since the runner would drop all of the step's summary.
    """
    if len(text.encode("utf-8", "backslashreplace")) > measure_summary_room():
        return False
    return _append_text(os.environ.get("GITHUB_STEP_SUMMARY"), text)


def measure_summary_room() -> int:
    """Bytes that the step's summary can still take; 0 where there is none."""
    name = os.environ.get("GITHUB_STEP_SUMMARY")
    if not name:
        return 0
    used = Path(name).stat().st_size if Path(name).exists() else 0
    return max(0, MAX_SUMMARY_BYTES - used)


def _append_text(name: str | None, text: str) -> bool:
    if not name:
        return False
    # Lone surrogates in foreign text must not cost what the runner is told.
    with Path(name).open("ab") as file:
        file.write(text.encode("utf-8", "backslashreplace"))
    return True


def expose_hub_token(token: str) -> None:
    """Let the Hub's client find ``token`` in this process, until ``withdraw_hub_token``."""
    if token:
        os.environ["HF_TOKEN"] = token
        _exposed_tokens.append(token)


def withdraw_hub_token() -> None:
    """Forget a lent token and all inputs, before programs of the repo under test inherit them."""
    if _exposed_tokens and os.environ.get("HF_TOKEN") == _exposed_tokens.pop():
        del os.environ["HF_TOKEN"]
    for name in [name for name in os.environ if name.startswith(_INPUT)]:
        del os.environ[name]
