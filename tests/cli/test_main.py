"""The only place that exits: an exit code for every way to end, and help that costs nothing."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parity import __main__ as program
from parity.cli import parser as cli
from parity.errors import (
    ConfigError,
    DumpError,
    FetchError,
    IntegrityError,
    Location,
    ParityError,
    Problem,
    ReferenceSuspectError,
)
from tests.support.reports import HOSTILE

HERE = Path(__file__).parents[2]
HEAVY = {"numpy", "urllib3", "rich", "onnx", "onnxruntime", "torch", "yaml", "filelock"}


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException | int], int]:
    """Exit code of a command line that raises or returns what is given."""

    def code(outcome: BaseException | int) -> int:
        def run(_words: list[str]) -> int:
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        monkeypatch.setattr("parity.cli.parser.run", run)
        return program.run_command_line(["verify"])

    return code


@pytest.mark.parametrize("code", [0, 1, 5, 6, 10])
def test_what_a_verb_returns_is_the_exit_code(ends: Callable[[Any], int], code: int) -> None:
    assert ends(code) == code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError, 2),
        (FetchError, 3),
        (IntegrityError, 4),
        (DumpError, 5),
        (ReferenceSuspectError, 7),
    ],
)
def test_each_error_ends_with_its_code_and_is_reported_on_stderr(
    ends: Callable[[Any], int],
    capsys: pytest.CaptureFixture[str],
    error: type[ParityError],
    code: int,
) -> None:
    first = Problem(
        "not-locked", "it is not locked", Location(Path("a.yaml"), 3, 5), ("one", "two")
    )
    assert ends(error(first, Problem("usage", "another"))) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "a.yaml:3:5: error[not-locked] it is not locked\n  | one\n  | two\nerror[usage] another\n"
    )


def test_foreign_text_in_an_error_gives_no_command_and_ends_no_line(
    ends: Callable[[Any], int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    ends(FetchError(Problem("http-gone", HOSTILE, Location(Path(HOSTILE)), (HOSTILE,))))
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 2
    assert not set("\x1b\r\u202e\ud800") & set(err)
    assert "::" not in err
    assert "##[" not in err


def test_an_unexpected_exception_is_a_fault_of_this_program(
    ends: Callable[[Any], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(ZeroDivisionError("by zero")) == 70
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Traceback (most recent call last):\n")
    assert err.endswith(
        "ZeroDivisionError: by zero\n"
        "this is a bug in parity-action; please report it with the lines above\n"
    )


def test_foreign_text_in_an_exception_gives_no_command(
    ends: Callable[[Any], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(ValueError("a\n::error::b\x1b[31m")) == 70
    err = capsys.readouterr().err
    assert "::error" not in err
    assert "\x1b" not in err


def test_ctrl_c_ends_with_130_and_without_a_traceback(
    ends: Callable[[Any], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_argparse_may_exit_by_itself(ends: Callable[[Any], int]) -> None:
    with pytest.raises(SystemExit):
        ends(SystemExit(2))


def test_an_absent_lockfile_ends_with_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert program.run_command_line(["verify"]) == 2
    assert capsys.readouterr().err == (
        "fixtures.lock.yaml: error[lockfile-absent] the lockfile fixtures.lock.yaml does not "
        "exist; create one with parity init, or name another with --lockfile\n"
    )


def ran(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=HERE,
        env={**os.environ, "PYTHONPATH": str(HERE), **env},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.process
@pytest.mark.parametrize("words", ["['--help']", "['verify', '--help']", "['--version']"])
def test_help_imports_nothing_heavy(words: str) -> None:
    script = (
        "import sys\n"
        "from parity.__main__ import run_command_line\n"
        "try:\n"
        f"    sys.exit(run_command_line({words}))\n"
        "except SystemExit as ended:\n"
        "    print(ended.code, *sorted({name.partition('.')[0] for name in sys.modules}))\n"
    )
    code, *modules = ran("-c", script).stdout.splitlines()[-1].split()
    assert code == "0"
    assert ("argparse" in modules) == (words != "['--help']")
    assert not HEAVY & set(modules)


@pytest.mark.process
def test_the_module_exits_with_the_code_of_the_verb() -> None:
    ended = ran("-m", "parity", "verify", "--lockfile", "nowhere.yaml")
    assert ended.returncode == 2
    assert ended.stderr.startswith("nowhere.yaml: error[lockfile-absent]")


@pytest.mark.process
def test_a_log_that_knows_ascii_only_does_not_cost_the_verdict() -> None:
    script = (
        "from parity import __main__ as program\n"
        "from parity.cli import parser as cli\n"
        "cli.run = lambda words: print('max |\u0394|') or 7\n"
        "program.main()\n"
    )
    ended = ran("-c", script, PYTHONIOENCODING="ascii:strict")
    assert (ended.returncode, ended.stderr) == (7, "")
    assert ended.stdout.strip() == "max |\\u0394|"


@pytest.mark.process
def test_a_reader_that_went_away_is_no_fault_of_ours() -> None:
    script = (
        "from parity import __main__ as program\n"
        "from parity.cli import parser as cli\n"
        "cli.run = lambda _words: print('x' * 1_000_000, flush=True) or 0\n"
        "program.main()"
    )
    words = [sys.executable, "-c", script]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.close()
        child.stdout = None
        _, complaint = child.communicate(timeout=60)
    assert (child.returncode, complaint) == (141, b"")


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_is_what_argparse_would_say(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.run_command_line([word]) == 0
    reported = capsys.readouterr().out
    parser = cli.build_parser()
    assert reported == parser.format_help()
    assert reported.split() == argparse.ArgumentParser.format_help(parser).split()
    assert max(map(len, reported.splitlines())) < 80


@pytest.mark.process
def test_a_library_that_is_not_installed_is_no_fault_of_ours() -> None:
    script = (
        "import sys; sys.modules['yaml'] = None\n"
        "from parity import __main__ as program\n"
        "sys.exit(program.run_command_line(['verify']))"
    )
    words = [sys.executable, "-c", script]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, cwd=Path.cwd())
    assert ended.returncode == 2
    assert "error[missing-library]" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to catch")
def test_a_termination_ends_like_ctrl_c() -> None:
    script = (
        "import os, signal\n"
        "from parity import __main__ as program\n"
        "program.run_command_line = lambda _words: os.kill(os.getpid(), signal.SIGTERM) or 0\n"
        "try:\n    program.main()\nexcept KeyboardInterrupt:\n    os._exit(9)"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert ended.returncode == 9


def test_what_the_system_refuses_is_an_error_not_a_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(_words: object) -> int:
        raise OSError(36, "File name too long", "a" * 10)

    monkeypatch.setattr("parity.cli.parser.run", refused)
    assert program.run_command_line(["verify"]) == 2
    assert capsys.readouterr().err == "error[system] aaaaaaaaaa: File name too long\n"
