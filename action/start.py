"""Start one step of the action: make its own environment, then run the Nox session in it.

Run by the interpreter that setup-python found, with the standard library alone. Everything that
is installed is locked by hashes. The set-up sees neither tokens nor the workflow's settings of
Python and pip, except those that name an index, a certificate or a proxy; the step itself, and
so the port, gets the caller's environment unchanged.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
EXIT_FAULT = 70
#: Variables with this prefix reach the step under the rest of their name (see noxfile.py).
CALLER_PREFIX = "PARITY_CALLER_"
_QUIET = ("--quiet", "--disable-pip-version-check", "--no-input")
_PIP_SETTINGS = frozenset({"PIP_INDEX_URL", "PIP_CERT", "PIP_PROXY"})
_STEERING = re.compile(r"(NOX|PYTHON|PIP_|VIRTUALENV|VIRTUAL_ENV$|UV_)", re.IGNORECASE)
_SECRET = re.compile(r"PARITY_INPUT_|ACTIONS_|.*(TOKEN|SECRET|PASSWORD)", re.IGNORECASE)


def build_setup_environment(home: Path) -> dict[str, str]:
    """Return the environment in which packages are installed."""
    return {
        name: value
        for name, value in build_step_environment(home).items()
        if not _SECRET.match(name) and not name.startswith(CALLER_PREFIX)
    }


def build_step_environment(home: Path) -> dict[str, str]:
    """Return the environment of a step: the caller's, hidden from Nox where it would steer it."""
    env = {}
    for name, value in os.environ.items():
        if not _STEERING.match(name) or name.upper() in _PIP_SETTINGS:
            env[name] = value
        elif not name.upper().startswith("NOX"):
            env[CALLER_PREFIX + name] = value
    return {**env, "PARITY_CACHE_DIR": str(home / "store")}


def find_python(folder: Path) -> Path:
    """Return the interpreter of the venv in ``folder``."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def prepare_nox(home: Path, env: dict[str, str]) -> Path:
    """Return an interpreter that has Nox; installed and checked once a job."""
    folder = home / "nox"
    python = find_python(folder)
    ready = folder / "ready"
    if not ready.exists():
        run([sys.executable, "-I", "-m", "venv", "--clear", str(folder)], env)
        locked = ("--require-hashes", "-r", str(HERE / "requirements" / "nox.txt"))
        run([str(python), "-I", "-m", "pip", "install", *_QUIET, *locked], env)
        run([str(python), "-I", "-m", "nox", "--version"], env)
        ready.touch()
    return python


def prepare_session(python: Path, home: Path, env: dict[str, str]) -> None:
    """Install the packages of the step's Nox session, and check them, once a job."""
    installed = home / "installed"
    if not installed.exists():
        run([*build_session_args(python, home), "--install-only"], env)
        engine = str(HERE / "action" / "engine.py")
        # Nox shortens the name of the session's folder where its path is long.
        plain = home / "sessions" / "in-action" / "pyvenv.cfg"
        folder = next((home / "sessions").glob("*/pyvenv.cfg"), plain).parent
        run([str(find_python(folder)), "-I", engine, "--version"], env)
        installed.touch()


def build_session_args(python: Path, home: Path) -> list[str]:
    """Return the arguments of Nox for the session that belongs to the action alone."""
    where = ("-f", str(HERE / "noxfile.py"), "--envdir", str(home / "sessions"))
    how = ("--default-venv-backend", "virtualenv", "--reuse-venv", "yes", "--no-color")
    return [str(python), "-I", "-m", "nox", *where, *how, "-s", "in-action"]


def run(args: list[str], env: dict[str, str]) -> None:
    """Run a program of the set-up, whose output goes to stderr and which must succeed."""
    subprocess.run(args, env=env, check=True, stdout=sys.stderr)  # noqa: S603 - our own arguments


def main(step: str) -> int:
    """Run ``step``; return its exit code."""
    home = Path(os.environ["RUNNER_TEMP"]) / "parity-action"
    home.mkdir(parents=True, exist_ok=True)
    setup = build_setup_environment(home)
    try:
        python = prepare_nox(home, setup)
        prepare_session(python, home, setup)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"the action's own environment could not be made: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_FAULT
    args = [*build_session_args(python, home), "--no-install", "--", step]
    return subprocess.run(  # noqa: S603 - our own arguments
        args, env=build_step_environment(home), check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
