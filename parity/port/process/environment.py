"""Build the environment of a child, and find its program."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from parity.text import add_secret

#: Credentials of the caller. A child gets one only if its lockfile entry names it.
TOKENS = frozenset({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "GITHUB_TOKEN", "GH_TOKEN"})
_TOKEN_PREFIX = "ACTIONS_"  # noqa: S105 - of variables' names
#: Files by which a step of a workflow steers the runner. A child gets files of its own.
_RUNNER_FILES = tuple(
    f"GITHUB_{name}" for name in ("OUTPUT", "ENV", "PATH", "STATE", "STEP_SUMMARY")
)


def build_environment(
    extra: Mapping[str, str] | None = None, *, pass_env: Iterable[str] = ()
) -> dict[str, str]:
    """Return the caller's environment with ``extra``, without our venv.

    Of the caller's tokens the child sees only those named in ``pass_env``.
    """
    tokens = read_passed_env(filter(is_token, os.environ))
    env = {name: value for name, value in os.environ.items() if name not in tokens}
    env |= read_passed_env(pass_env)
    if sys.prefix != sys.base_prefix:
        env.pop("VIRTUAL_ENV", None)
        env["PATH"] = os.pathsep.join(_exclude_own_folder(env.get("PATH", "")))
    return {**env, **(extra or {})}


def read_passed_env(names: Iterable[str]) -> dict[str, str]:
    """Return the caller's secrets with these ``names``, and mask them in all output."""
    passed = {name: os.environ[name] for name in names if name in os.environ}
    for value in passed.values():
        add_secret(value)
    return passed


def is_token(name: str) -> bool:
    """Return whether the variable ``name`` gives access to somebody's account."""
    return name.upper() in TOKENS or name.upper().startswith(_TOKEN_PREFIX)


@contextmanager
def replace_runner_files(env: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """Yield ``env`` with empty files in place of the runner's, and remove these afterwards."""
    names = [name for name in _RUNNER_FILES if name in env]
    if not names:
        yield env
        return
    with tempfile.TemporaryDirectory(prefix="parity-", ignore_cleanup_errors=True) as folder:
        files = {name: Path(folder, name) for name in names}
        for file in files.values():
            file.touch()
        yield {**env, **{name: str(file) for name, file in files.items()}}


def find_program(program: str, path: str, cwd: Path | None = None) -> str | None:
    """Return the file that ``program`` names, or None.

    A bare name is looked up in the absolute entries of ``path``, so that no file of the
    current folder can pose as a tool; any other name is relative to ``cwd``. Windows scripts
    (.bat, .cmd) are not found: they would need a shell.
    """
    folders = [Path(entry) for entry in path.split(os.pathsep) if Path(entry).is_absolute()]
    if Path(program).name != program:
        folders = [cwd or Path.cwd()]
    for file in (str(folder / program) for folder in folders):
        has_suffix = os.name != "nt" or file.lower().endswith((".exe", ".com"))
        for name in [file] if has_suffix else [f"{file}.exe", f"{file}.com"]:
            if Path(name).is_file() and os.access(name, os.X_OK):
                return name
    return None


def _exclude_own_folder(path: str) -> Iterator[str]:
    """Yield the entries of ``path`` except our venv's own folder of programs."""
    own_folder = Path(sys.prefix) / ("Scripts" if os.name == "nt" else "bin")
    for entry in path.split(os.pathsep):
        if _normalize(entry or ".") != _normalize(own_folder):
            yield entry


def _normalize(path: str | Path) -> str:
    return os.path.normcase(os.path.realpath(path))
