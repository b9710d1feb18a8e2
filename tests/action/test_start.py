"""The action's set-up sees neither tokens nor the workflow's settings of Python and pip."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

ROOT = Path(__file__).parents[2]
STEERING = {
    "PYTHONPATH": "/evil",
    "PYTHONHOME": "/evil",
    "PYTHONSTARTUP": "/evil.py",
    "PIP_EXTRA_INDEX_URL": "https://evil.example.org",
    "PIP_NO_DEPS": "1",
    "PIP_TARGET": "/evil",
    "PIP_CONFIG_FILE": "/evil",
    "VIRTUALENV_SYSTEM_SITE_PACKAGES": "1",
    "VIRTUAL_ENV": "/evil",
    "UV_INDEX_URL": "https://evil.example.org",
}
TOKENS = {
    "PARITY_INPUT_HF_TOKEN": "secret",
    "PARITY_INPUT_CARGO_ARGS": "secret",
    "HF_TOKEN": "secret",
    "GITHUB_TOKEN": "secret",
    "ACTIONS_RUNTIME_URL": "secret",
    "DEPLOY_PASSWORD": "secret",
}
KEPT = {
    "PIP_INDEX_URL": "https://mirror.example.org",
    "PIP_CERT": "/ca.pem",
    "PIP_PROXY": "http://proxy:1",
    "HTTPS_PROXY": "http://proxy:1",
    "CARGO_HOME": "/cargo",
}


class Runs:
    """Stands in for ``subprocess.run`` and notes each call; installing makes the venv's files."""

    def __init__(self, failing: str = "") -> None:
        self.calls: list[tuple[list[str], dict[str, str]]] = []
        self.failing = failing

    def __call__(self, args: list[str], *, env: dict[str, str], check: bool, **_: Any) -> Any:
        self.calls.append((args, env))
        if self.failing and self.failing in " ".join(args):
            if check:
                raise subprocess.CalledProcessError(1, args)
            return subprocess.CompletedProcess(args, 1)
        if "venv" in args:
            Path(args[-1]).mkdir(parents=True, exist_ok=True)
        return subprocess.CompletedProcess(args, 0)


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = load(ROOT / "action" / "start.py")
    for name, value in {**STEERING, **TOKENS, **KEPT, "NOXSESSION": "x"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RUNNER_TEMP", str(tmp_path))
    return module


def test_the_set_up_sees_no_token_and_no_setting(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Runs()
    monkeypatch.setattr(start.subprocess, "run", runs)

    assert start.main("verify") == 0

    *setup, (args, step) = runs.calls
    assert len(setup) == 5
    for words, env in setup:
        assert not env.keys() & {*STEERING, *TOKENS, "NOXSESSION"}, words
        assert not {value for value in env.values() if value in ("secret", "/evil")}
        assert KEPT.items() <= env.items()
        assert "-I" in words
    assert args[-3:] == ["--no-install", "--", "verify"]
    assert TOKENS.items() <= step.items()
    assert not step.keys() & {*STEERING, "NOXSESSION"}
    hidden = {name.removeprefix(start.CALLER_PREFIX): value for name, value in step.items()}
    assert STEERING.items() <= hidden.items()
    assert "NOXSESSION" not in hidden


@pytest.mark.parametrize(
    "failing", ["-m venv", "-m pip", "nox --version", "--install-only", "engine.py --version"]
)
def test_nothing_counts_as_installed_before_it_was_checked(
    start: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failing: str
) -> None:
    broken, fine = Runs(failing), Runs()
    monkeypatch.setattr(start.subprocess, "run", broken)
    assert start.main("prepare") == 70
    assert "could not be made" in capsys.readouterr().err

    monkeypatch.setattr(start.subprocess, "run", fine)
    assert start.main("prepare") == 0

    assert any(failing in " ".join(args) for args, _ in fine.calls), "it was tried once more"


def test_a_later_step_installs_nothing(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Runs(), Runs()
    monkeypatch.setattr(start.subprocess, "run", first)
    start.main("prepare")
    monkeypatch.setattr(start.subprocess, "run", second)

    start.main("verify")

    assert len(second.calls) == 1


def test_the_session_gives_the_step_the_callers_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`PYTHON*` and `PIP_*` reach the port, though Nox itself did not see them."""
    nox = MagicMock()
    nox.session = lambda function=None, **_: function or (lambda wrapped: wrapped)
    monkeypatch.setitem(sys.modules, "nox", nox)
    noxfile = load(ROOT / "noxfile.py")
    monkeypatch.setenv("PARITY_CALLER_PYTHONPATH", "/mine")
    session = MagicMock(posargs=["verify"])

    noxfile.in_action(session)

    args, options = session.run.call_args
    assert args[:2] == ("python", "-I")
    assert args[-2:] == ("action", "verify")
    assert options["env"]["PYTHONPATH"] == "/mine"
    assert options["env"]["PARITY_CALLER_PYTHONPATH"] is None


def test_the_environment_is_found_under_a_shortened_name(
    start: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nox names a session's folder by a hash where its path is long."""
    runs, folder = Runs(), tmp_path / "sessions" / "b776a698"
    folder.mkdir(parents=True)
    (folder / "pyvenv.cfg").touch()
    monkeypatch.setattr(start, "run", runs_checked(runs))

    start.prepare_session(Path(sys.executable), tmp_path, {})

    assert Path(runs.calls[-1][0][0]).is_relative_to(folder)


def runs_checked(runs: Runs) -> Any:
    return lambda args, env: runs(args, env=env, check=True)
