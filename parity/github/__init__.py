"""GitHub's runner: with ``step``, the only reader of ``GITHUB_*``, inputs and Nox's variables.

The runner accepts commands on stdout, and files that it reads at the end of the step. Both are
escaped as its grammar requires (actions/runner ``ActionCommand.cs``, ``FileCommandManager.cs``).
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from parity.text import add_secret, format_path, mask_secrets

#: Bytes of one step's summary; the runner drops a larger one completely.
MAX_SUMMARY_BYTES = 1024 * 1024
#: Characters of a message and of a title that GitHub displays.
MAX_MESSAGE_CHARACTERS, MAX_TITLE_CHARACTERS = 4096, 255

INPUT_PREFIX = "PARITY_INPUT_"
_DATA_ESCAPES = (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"))
_PROPERTY_ESCAPES = (*_DATA_ESCAPES, (":", "%3A"), (",", "%2C"))
_MODULE_WORDS = 3  # of `python -m nox`
_working_folders: list[Path] = []
_exposed_tokens: list[str] = []


def choose_command_prefix() -> list[str]:
    """Return the command that runs ``verify`` in the way this process was started."""
    if os.environ.get("NOX_CURRENT_SESSION") and not is_on_github():
        return [*_choose_nox(), "-s", "verify", "--"]
    return [*choose_program(), "verify"]


def _choose_nox() -> list[str]:
    """Return the words that started Nox, which our noxfile passes on."""
    words = shlex.split(os.environ.get("PARITY_NOX_COMMAND", ""))
    if len(words) < _MODULE_WORDS:
        return ["nox"]
    if words[1] == "-m":
        return words[:_MODULE_WORDS]
    found = shutil.which("nox")
    is_found = found is not None and Path(found).absolute() == Path(words[1]).absolute()
    return ["nox"] if is_found else [_find_relative_path(Path(words[1]).absolute()).as_posix()]


def choose_program() -> list[str]:
    """Return the words that start this program: the script that was started, else the module.

    On GitHub it is the installed command, since others paste it in their checkout of the repo.
    """
    if is_on_github():
        return ["parity"]
    script = Path(sys.argv[0])
    if script.stem != "parity" or not script.is_file():
        return [_choose_interpreter(), "-m", "parity"]
    found = shutil.which(script.stem)
    if found is not None and Path(found).samefile(script):
        return [script.stem]
    return [_find_relative_path(script.absolute()).as_posix()]


def _choose_interpreter() -> str:
    """Return this interpreter as it is typed here."""
    path = Path(sys.executable)
    for name in ("python", "python3"):
        # An environment's interpreter is a link to another one, which has other packages.
        if (found := shutil.which(name)) and Path(found).absolute() == path:
            return name
    return _find_relative_path(path).as_posix()


def display_path(path: Path) -> str:
    """Return ``path`` as a person types it; on GitHub's runner, in the checkout of the repo."""
    inside = find_workspace_path(path) if is_on_github() else None
    return inside or _find_relative_path(Path(format_path(path))).as_posix()


def _find_relative_path(path: Path) -> Path:
    try:
        folder = Path.cwd()
    except OSError:  # removed meanwhile
        return path
    return path.relative_to(folder) if path.is_relative_to(folder) else path


def is_on_github() -> bool:
    """Return whether GitHub's runner reads this process's output."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def get_workspace() -> Path:
    """Return the folder that paths of annotations are relative to."""
    folder = _get_working_folder()
    return Path(os.environ.get("GITHUB_WORKSPACE") or folder)


def _get_working_folder() -> Path:
    """Return the working folder, or the one that we saw last if a port removed it."""
    with suppress(FileNotFoundError):
        _working_folders[:] = [Path.cwd()]
    return _working_folders[0] if _working_folders else Path.cwd()


def find_workspace_path(path: Path) -> str | None:
    """Return ``path`` relative to the workspace, with ``/``; None if it is outside."""
    root = get_workspace().resolve()
    full = (_get_working_folder() / path).resolve()
    return full.relative_to(root).as_posix() if full.is_relative_to(root) else None


def format_command(name: str, data: str = "", **properties: str | int) -> str:
    """Return one workflow command, escaped and ready to print."""
    fields = ",".join(
        f"{key}={_escape(str(v), _PROPERTY_ESCAPES)}" for key, v in properties.items()
    )
    return f"::{name}{' ' if fields else ''}{fields}::{_escape(data, _DATA_ESCAPES)}"


def _escape(text: str, table: tuple[tuple[str, str], ...]) -> str:
    for char, code in table:
        text = text.replace(char, code)
    return text


def make_fence() -> tuple[str, str]:
    """Return two lines; between them the runner ignores ``::`` commands."""
    token = os.urandom(16).hex()
    return format_command("stop-commands", token), f"::{token}::"


def set_outputs(values: Mapping[str, str]) -> None:
    """Pass values to later steps; a value may contain anything, line breaks included.

    The delimiters of the values are unpredictable (CVE-2022-35954).
    """
    entries = []
    for name, value in values.items():
        delimiter = f"parity_{os.urandom(16).hex()}"
        entries.append(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")
    _append_text("GITHUB_OUTPUT", "".join(entries))


def add_summary(text: str) -> bool:
    """Append to the step's summary; return False if there is none, or no room.

    A text that is too large is not written, since the runner would drop the whole summary.
    """
    if len(text.encode("utf-8", "backslashreplace")) > measure_summary_room():
        return False
    return _append_text("GITHUB_STEP_SUMMARY", text)


def measure_summary_room() -> int:
    """Return the bytes left in the step's summary; 0 if there is none."""
    name = os.environ.get("GITHUB_STEP_SUMMARY")
    if not name:
        return 0
    used = Path(name).stat().st_size if Path(name).exists() else 0
    return max(0, MAX_SUMMARY_BYTES - used)


def _append_text(variable: str, text: str) -> bool:
    """Append to the file that an environment variable names; return whether there is one."""
    name = os.environ.get(variable)
    if not name:
        return False
    # Lone surrogates in foreign text must not make the write fail.
    with Path(name).open("ab") as file:
        file.write(mask_secrets(text).encode("utf-8", "backslashreplace"))
    return True


def expose_hub_token(token: str) -> None:
    """Set ``token`` for the Hub's client in this process, until ``withdraw_hub_token``."""
    if token:
        add_secret(token)
        os.environ["HF_TOKEN"] = token
        _exposed_tokens.append(token)


def withdraw_hub_token() -> None:
    """Remove the token and all inputs, so that programs of the repo do not inherit them."""
    if _exposed_tokens and os.environ.get("HF_TOKEN") == _exposed_tokens.pop():
        del os.environ["HF_TOKEN"]
    for name in [name for name in os.environ if name.startswith(INPUT_PREFIX)]:
        del os.environ[name]
