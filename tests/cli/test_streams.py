"""Closed or full streams, and signals, cost neither the verdict nor a child."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.zoo import make_reference, pack_bundle, run_port

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.name == "nt", reason="POSIX's signals and shell"),
]
ROOT = Path(__file__).parents[2]
#: Starts a process that detaches and cleans its environment, then ignores what would end it.
STUBBORN = """
import os, signal, subprocess, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
sleeper = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
quiet = dict.fromkeys(["stdin", "stdout", "stderr"], subprocess.DEVNULL)
pid = subprocess.Popen(sleeper, start_new_session=True, env={}, **quiet).pid
with open("pids.part", "w") as file:
    file.write(f"{os.getpid()} {pid}")
os.rename("pids.part", "pids")
time.sleep(60)
"""


def repo_with(tmp_path: Path, port: str) -> Path:
    """A repo whose port is green once, and then ``port``."""
    repo = tmp_path / "repo"
    repo.mkdir()
    tar = pack_bundle(repo, {"a": {}}, {"a": make_reference()})
    assert run_port(repo, tar, "right()").code == 0
    if port:
        (repo / "port.py").write_text(port)
    return repo


def shell(line: str, repo: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PARITY": f"{sys.executable} -m parity"}
    env.pop("PYTHONUNBUFFERED", None)  # a line below sets it
    return subprocess.run(
        ["bash", "-c", line], cwd=repo, env=env, check=False, capture_output=True, text=True
    )


def alive(pid: int) -> bool:
    """Whether ``pid`` runs still; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("$PARITY verify --report-dir r >&-", 0),
        ("$PARITY verify --report-dir r >&- 2>&- <&-", 0),
        ("$PARITY verify --report-dir r 2>/dev/full", 0),
        ("$PARITY verify --report-dir r --case nothing >&- 2>&-", 2),
        ("$PARITY --help >&-", 0),
        ("$PARITY --help >/dev/full", 2),
        ("PYTHONUNBUFFERED=1 $PARITY --help >/dev/full", 2),
        ("GITHUB_OUTPUT=/nowhere/x $PARITY verify --report-dir r 2>/dev/full", 0),
        ("$PARITY nonsense 2>&-", 2),
        ("$PARITY verify --report-dir r >/dev/full 2>/dev/full", 2),
        # The pipe's reader has gone before parity starts.
        ("exec 3> >(true); wait $!; $PARITY verify --report-dir r >&3", 141),
        ("exec 3> >(true); wait $!; $PARITY --help >&3", 141),
    ],
)
def test_a_closed_or_full_stream_is_not_a_difference(tmp_path: Path, line: str, code: int) -> None:
    repo = repo_with(tmp_path, "")

    ended = shell(line, repo)

    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    assert (repo / "r" / "report.json").is_file() == ("verify" in line and code == 0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
@pytest.mark.parametrize(
    "numbers",
    [
        [signal.SIGINT],
        [signal.SIGINT] * 4,
        [signal.SIGTERM],
        [signal.SIGQUIT],
        [signal.SIGHUP, signal.SIGTERM, signal.SIGINT],
    ],
    ids=lambda numbers: "-".join(number.name for number in numbers),
)
def test_a_signal_ends_all_children(tmp_path: Path, numbers: list[signal.Signals]) -> None:
    repo = repo_with(tmp_path, STUBBORN)
    args = [sys.executable, "-m", "parity", "verify", "--report-dir", "r"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        args, cwd=repo, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as parity:
        while not (repo / "pids").exists():
            assert parity.poll() is None
            time.sleep(0.02)
        for number in numbers:
            parity.send_signal(number)
            time.sleep(0.01)
        _, stderr = parity.communicate(timeout=60)

    assert parity.returncode == 130
    assert stderr == "interrupted\n"
    assert not [pid for pid in map(int, (repo / "pids").read_text().split()) if alive(pid)]


def test_a_caller_that_ignores_the_end_of_children_hides_no_failure(tmp_path: Path) -> None:
    """The system would not say how a port ended: one that fails would look like a success."""
    repo = repo_with(tmp_path, "")
    script = repo / "port.py"
    script.write_text(f"{script.read_text('utf-8')}\nos._exit(3)", encoding="utf-8")

    ended = shell("trap '' CHLD; exec $PARITY verify", repo)

    assert ended.returncode == 5, ended.stdout
    assert "exit code 3" in ended.stdout
