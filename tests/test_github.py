"""The runner's files and commands: what is written is read back as it was, and nothing more."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from parity import github as parity_github
from parity.github import step
from parity.text import add_secret, mask_secrets
from parity.verify.options import VerifyOptions
from tests.action.grammar import Command, commands

#: Values that try to be more than a value.
INJECTIONS = {
    "a line": "a\nb",
    "a key": "a\nconclusion=success",
    "the old delimiter": "a\n_GitHubActionsFileCommandDelimeter_\nconclusion<<x\nsuccess\nx",
    "a guess at ours": "a\nparity_\nconclusion=success",
    "heredoc": "x<<EOF\nsuccess\nEOF",
    "carriage return": "a\r\nconclusion=success\r\n",
    "nul and escape": "a\x00b\x1b[31m",
    "lone surrogate": "a\ud800b",
    "empty": "",
    "command": "::error::a",
}


def read_outputs(path: Path) -> dict[str, str]:
    """As the runner reads the file (FileCommandManager.cs)."""
    lines = path.read_bytes().decode().split("\n")
    found: dict[str, str] = {}
    while lines:
        line = lines.pop(0)
        if not line:
            continue
        equals, heredoc = (line.find(sign) % 10**9 for sign in ("=", "<<"))
        if equals < heredoc:
            name, _, found[name] = line.partition("=")
            continue
        name, _, delimiter = line.partition("<<")
        value = []
        while (line := lines.pop(0)) != delimiter:
            value.append(line)
        found[name] = "\n".join(value)
    return found


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    values = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(tmp_path)}
    values |= {
        name: str(tmp_path / name.lower()) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return tmp_path


@pytest.mark.parametrize("name", INJECTIONS)
def test_output_value_sets_no_other_output(name: str, github: Path) -> None:
    value = INJECTIONS[name]
    parity_github.set_outputs({"worst-case": value, "total": "3"})
    found = read_outputs(github / "github_output")
    expected = value.encode("utf-8", "backslashreplace").decode()
    assert found == {"worst-case": expected, "total": "3"}


def test_no_secret_is_in_outputs_and_summary(github: Path) -> None:
    add_secret("a secret of outputs")
    parity_github.set_outputs({"worst-case": "x/a secret of outputs"})
    parity_github.add_summary("has a secret of outputs")

    assert read_outputs(github / "github_output") == {"worst-case": "x/***"}
    assert (github / "github_step_summary").read_text(encoding="utf-8") == "has ***"


def test_outputs_are_appended_and_the_last_wins(github: Path) -> None:
    parity_github.set_outputs({"conclusion": "error"})
    parity_github.set_outputs({"conclusion": "success"})
    assert read_outputs(github / "github_output") == {"conclusion": "success"}


def test_delimiter_is_never_reused(github: Path) -> None:
    parity_github.set_outputs({"a": "1", "b": "2"})
    parity_github.set_outputs({"c": "3"})
    delimiters = re.findall("<<(.*)", (github / "github_output").read_text())
    assert len(set(delimiters)) == 3
    assert all(len(delimiter) > 32 for delimiter in delimiters)


def test_without_a_runner_nothing_is_written(tmp_path: Path) -> None:
    parity_github.set_outputs({"a": "1"})
    assert parity_github.add_summary("text") is False
    assert parity_github.measure_summary_room() == 0
    assert not parity_github.is_on_github()
    assert list(tmp_path.iterdir()) == []


def test_summary_is_limited_to_the_byte(github: Path) -> None:
    path = github / "github_step_summary"
    path.write_text("before", encoding="utf-8")
    room = parity_github.measure_summary_room()
    assert room == 2**20 - 6
    assert parity_github.add_summary("é" * (room // 2) + "xx"[: room % 2 + 1]) is (room % 2 == 1)
    path.write_text("before", encoding="utf-8")
    assert parity_github.add_summary("x" * room)
    assert path.stat().st_size == 2**20
    assert parity_github.add_summary("x") is False
    assert path.stat().st_size == 2**20


@pytest.mark.parametrize(
    "text", ["", "a", "100%", "%0A", "a\nb\r\nc", "x::y::z", "a,b=c:d", "::error::x"]
)
def test_command_is_parsed_back_by_the_runners_grammar(text: str) -> None:
    line = parity_github.format_command("error", text, file=text or "f", title=text or "t")
    assert "\n" not in line
    assert commands([line]) == [Command("error", text, {"file": text or "f", "title": text or "t"})]


def test_command_without_properties() -> None:
    assert parity_github.format_command("add-mask", "a%b") == "::add-mask::a%25b"
    assert parity_github.format_command("error", "x", line=3) == "::error line=3::x"


def test_commands_between_fences_are_ignored() -> None:
    opening, closing = parity_github.make_fence()
    inside = ["::error::a", "::stop-commands::x", "  ::add-path::/b", "::set-output name=a::b"]
    assert commands([opening, *inside, closing, "::notice::c"]) == [Command("notice", "c")]
    assert parity_github.make_fence()[0] != opening


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/b.rs", "a/b.rs"),
        ("./a.rs", "a.rs"),
        ("x/../a.rs", "a.rs"),
        ("..", None),
        ("/etc/passwd", None),
        (".", "."),
    ],
)
def test_paths_are_relative_to_the_workspace(path: str, expected: str | None, github: Path) -> None:
    full = Path(path) if Path(path).is_absolute() else github / path
    assert parity_github.find_workspace_path(full) == expected


def test_paths_in_a_subfolder_are_relative_to_the_workspace(
    github: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (github / "sub").mkdir()
    monkeypatch.chdir(github / "sub")
    assert parity_github.find_workspace_path(Path("src/lib.rs")) == "sub/src/lib.rs"
    assert parity_github.display_path(Path()) == "sub"
    assert parity_github.display_path(github) == "."


def test_path_is_unchanged_without_a_runner() -> None:
    assert parity_github.display_path(Path("../port")) == "../port"


def test_inputs_are_read_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARITY_INPUT_MIN_CASES", "3")
    monkeypatch.setenv("INPUT_MIN_CASES", "4")
    assert step.read_inputs() == {"min-cases": "3"}


CACHING = {
    ("push", "branch"): (True, True),
    ("push", "tag"): (False, False),
    ("pull_request", "branch"): (True, False),
    ("schedule", "branch"): (True, True),
    ("release", "tag"): (False, False),
    ("release", ""): (False, False),
    ("pull_request_target", "branch"): (False, False),
    ("workflow_run", "branch"): (False, False),
    ("workflow_dispatch", "branch"): (True, True),
    ("an event of tomorrow", "branch"): (True, False),
}


@pytest.mark.parametrize(("event", "kind"), CACHING)
def test_cache_rules_by_event(event: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_EVENT_NAME", event)
    monkeypatch.setenv("GITHUB_REF_TYPE", kind)
    assert (step.is_cache_readable(), step.is_cache_writable()) == CACHING[event, kind]


def test_token_and_inputs_are_removed_before_the_port_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_TOKEN", "the user's own")
    parity_github.withdraw_hub_token()
    assert os.environ["HF_TOKEN"] == "the user's own"  # noqa: S105 - not a real one
    token = "an exposed token"  # noqa: S105 - not a real one
    monkeypatch.setenv("PARITY_INPUT_HF_TOKEN", token)
    parity_github.expose_hub_token(token)
    assert os.environ["HF_TOKEN"] == token
    parity_github.withdraw_hub_token()
    assert token not in os.environ.values()
    assert mask_secrets(token) == "***"


@pytest.mark.parametrize(
    ("script", "path", "command"),
    [
        ("bin/parity", "bin", ["parity"]),
        ("bin/parity", "elsewhere", ["bin/parity"]),
        ("bin/parity", "other", ["bin/parity"]),
        ("parity/__main__.py", "bin", [sys.executable, "-m", "parity"]),
        ("missing/parity", "bin", [sys.executable, "-m", "parity"]),
    ],
)
def test_a_command_begins_as_this_process_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, path: str, command: list[str]
) -> None:
    suffix = ".exe" if sys.platform == "win32" else ""
    for name in ("bin/parity", "other/parity", "parity/__main__.py"):
        file = tmp_path / (name if name.endswith(".py") else f"{name}{suffix}")
        file.parent.mkdir()
        file.write_bytes(b"")
        file.chmod(0o755)
    started = script if script.endswith(".py") else f"{script}{suffix}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(tmp_path / started), "verify"])
    monkeypatch.setenv("PATH", str(tmp_path / path))
    expected = [f"{word}{suffix}" if word == "bin/parity" else word for word in command]
    assert parity_github.choose_program() == expected
    assert parity_github.choose_command_prefix() == [*expected, "verify"]


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        ("", "nox"),
        ("env/bin/python -m nox -s verify", "env/bin/python -m nox"),
        ("/usr/bin/python env/bin/nox -s verify", "env/bin/nox"),
    ],
)
def test_a_command_begins_as_nox_was_started(
    typed: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOX_CURRENT_SESSION", "verify")
    monkeypatch.setenv("PARITY_NOX_COMMAND", typed)
    found = parity_github.choose_command_prefix()
    assert found == [*command.split(), "-s", "verify", "--"]


def test_a_command_of_github_is_for_a_checkout(
    github: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOX_CURRENT_SESSION", "verify")
    assert parity_github.choose_command_prefix() == ["parity", "verify"]
    options = VerifyOptions(repo=github / "sub", lockfile=github / "own.yaml")
    assert options.format_place() == ["--repo", "sub", "--lockfile", "own.yaml"]
