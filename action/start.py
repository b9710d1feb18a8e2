"""Start one step of the action: an environment of its own, then the Nox session.

Run by the interpreter that setup-python found, with the standard library alone. What is
installed is locked by hashes. The caller's environment reaches the port as it is.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
EXIT_FAULT = 70
_QUIET = ("--quiet", "--disable-pip-version-check", "--no-input")


def build_environment(home: Path) -> dict[str, str]:
    """The caller's environment, but for what would steer Nox, and with our own store."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("NOX")}
    return {**env, "PARITY_CACHE_DIR": str(home / "store")}


def find_python(folder: Path) -> Path:
    """The interpreter of the venv in ``folder``."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def prepare_nox(home: Path, env: dict[str, str]) -> Path:
    """An interpreter that has Nox; made once a job."""
    folder = home / "nox"
    ready = folder / "ready"
    if not ready.exists():
        run([sys.executable, "-I", "-m", "venv", "--clear", str(folder)], env)
        locked = ("--require-hashes", "-r", str(HERE / "requirements" / "nox.txt"))
        run([str(find_python(folder)), "-I", "-m", "pip", "install", *_QUIET, *locked], env)
        ready.touch()
    return find_python(folder)


def build_session_args(python: Path, home: Path, step: str) -> list[str]:
    """The words that run a step in the Nox session that belongs to the action alone."""
    where = ("-f", str(HERE / "noxfile.py"), "--envdir", str(home / "sessions"))
    how = ["--default-venv-backend", "virtualenv", "--reuse-venv", "yes", "--no-color"]
    # A later step of the same job finds all installed.
    how += ["--no-install"] if (home / "installed").exists() else []
    return [str(python), "-I", "-m", "nox", *where, *how, "-s", "in-action", "--", step]


def run(args: list[str], env: dict[str, str]) -> None:
    """Run a program that must succeed."""
    subprocess.run(args, env=env, check=True)


def main(step: str) -> int:
    """Run ``step``; returns its exit code."""
    home = Path(os.environ["RUNNER_TEMP"]) / "parity-action"
    home.mkdir(parents=True, exist_ok=True)
    env = build_environment(home)
    try:
        python = prepare_nox(home, env)
    except subprocess.CalledProcessError as error:
        print(f"the action's own environment could not be made: {error}", file=sys.stderr)
        return EXIT_FAULT
    args = build_session_args(python, home, step)
    code = subprocess.run(args, env=env, check=False).returncode
    if step == "prepare" and code == 0:
        (home / "installed").touch()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
