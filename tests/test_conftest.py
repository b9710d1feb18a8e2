"""The guards themselves: each is seen to bite."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest


def test_a_process_is_forbidden() -> None:
    with pytest.raises(BaseException, match="reached a process"):
        subprocess.run([sys.executable, "-c", ""], check=False)


def test_the_network_is_forbidden() -> None:
    with pytest.raises(BaseException, match="reached the network"):
        socket.socket()


@pytest.mark.network
def test_a_network_test_reaches_loopback_only() -> None:
    with socket.socket() as client, pytest.raises(BaseException, match=r"address 192\.0\.2\.1"):
        client.connect(("192.0.2.1", 80))


def test_the_home_folder_and_the_store_are_thrown_away(tmp_path: Path) -> None:
    assert tmp_path in Path.home().parents or Path.home() == tmp_path / "home"
    assert Path(os.environ["PARITY_CACHE_DIR"]).is_relative_to(tmp_path)
