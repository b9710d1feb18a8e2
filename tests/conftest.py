"""Guards: a test without the marker reaches no process, no network and no home folder."""

from __future__ import annotations

import os
import re
import socket
import ssl  # noqa: F401 - it subclasses socket.socket, so it comes before that is guarded
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pytest_regressions.file_regression import FileRegressionFixture

# A loaded machine is slow, not wrong; pytest's own timeout bounds each test.
settings.register_profile("parity", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("parity")

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class MissingMarkerError(BaseException):
    """Not an ``Exception``, so that no code under test can swallow it."""


def pytest_configure(config: pytest.Config) -> None:
    """Reject ``--regen-all``, which writes golden files and lets their tests pass."""
    if config.getoption("regen_all", default=False):
        message = "--regen-all hides what changed; use --force-regen and review the difference"
        raise pytest.UsageError(message)


@pytest.fixture
def golden(
    request: pytest.FixtureRequest, file_regression: FileRegressionFixture
) -> Callable[..., None]:
    """Return ``check(text, name="")``: compare ``text`` with a golden file.

    The file is ``<test module>/<class>.<test>[.name].golden`` beside the test module. A missing
    file is written and the test fails once; ``--force-regen`` rewrites files that differ.
    """
    parts = [request.node.parent.name] if request.cls else []
    parts.append(request.node.name)

    def check(text: str, name: str = "") -> None:
        words = [re.sub(r"[^\w.-]+", "_", part).strip("_") for part in [*parts, name] if part]
        file_regression.check(
            text.rstrip("\n") + "\n",
            encoding="utf-8",
            newline="\n",
            extension=".golden",
            basename=".".join(words),
        )

    return check


def _forbid(what: str, marker: str) -> Any:
    def forbidden(*_args: object, **_kwargs: object) -> NoReturn:
        message = f"this test reached {what}; if it must, mark it: @pytest.mark.{marker}"
        raise MissingMarkerError(message)

    return forbidden


@pytest.fixture(autouse=True)
def _guard_test(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    marked = {mark.name for mark in request.node.iter_markers()}
    if not marked & {"process", "cargo"}:
        monkeypatch.setattr(subprocess, "Popen", _forbid("a process", "process"))
        monkeypatch.setattr(os, "system", _forbid("a process", "process"))
    if "network" in marked:
        _allow_loopback_only(monkeypatch)
    elif not marked & {"process", "cargo"}:
        monkeypatch.setattr(socket, "socket", _forbid("the network", "network"))
    # A home and a store of its own, never the user's. Cargo and rustup keep theirs, since the
    # toolchain is there.
    home = os.path.expanduser("~")  # noqa: PTH111 - before it is changed
    monkeypatch.setenv("CARGO_HOME", os.environ.get("CARGO_HOME", f"{home}/.cargo"))
    monkeypatch.setenv("RUSTUP_HOME", os.environ.get("RUSTUP_HOME", f"{home}/.rustup"))
    for name in ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("PARITY_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.setattr("parity.text._secrets", set())
    for name in [name for name in os.environ if name.startswith("GITHUB_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("NOX_CURRENT_SESSION", raising=False)


def _allow_loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.socket.connect

    def connect(self: socket.socket, address: Any) -> None:
        if isinstance(address, tuple) and address[0] not in _LOOPBACK:
            _forbid(f"the address {address[0]}", "nothing: loopback only")()
        real(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
