"""The runner's files and commands: what is written is read back as it was, and nothing more."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from parity import runner
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
def test_an_output_is_its_value_and_sets_no_other(name: str, github: Path) -> None:
    value = INJECTIONS[name]
    runner.set_outputs({"worst-case": value, "total": "3"})
    found = read_outputs(github / "github_output")
    told = value.encode("utf-8", "backslashreplace").decode()
    assert found == {"worst-case": told, "total": "3"}


def test_outputs_are_appended_and_the_last_counts(github: Path) -> None:
    runner.set_outputs({"conclusion": "error"})
    runner.set_outputs({"conclusion": "success"})
    assert read_outputs(github / "github_output") == {"conclusion": "success"}


def test_a_delimiter_is_never_used_twice(github: Path) -> None:
    runner.set_outputs({"a": "1", "b": "2"})
    runner.set_outputs({"c": "3"})
    delimiters = re.findall("<<(.*)", (github / "github_output").read_text())
    assert len(set(delimiters)) == 3
    assert all(len(delimiter) > 32 for delimiter in delimiters)


def test_without_a_runner_nothing_is_written(tmp_path: Path) -> None:
    runner.set_outputs({"a": "1"})
    assert runner.add_summary("text") is False
    assert runner.summary_room() == 0
    assert not runner.on_github()
    assert list(tmp_path.iterdir()) == []


def test_a_summary_fits_to_the_byte(github: Path) -> None:
    path = github / "github_step_summary"
    path.write_text("before", encoding="utf-8")
    room = runner.summary_room()
    assert room == 2**20 - 6
    assert runner.add_summary("é" * (room // 2) + "xx"[: room % 2 + 1]) is (room % 2 == 1)
    path.write_text("before", encoding="utf-8")
    assert runner.add_summary("x" * room)
    assert path.stat().st_size == 2**20
    assert runner.add_summary("x") is False
    assert path.stat().st_size == 2**20


@pytest.mark.parametrize(
    "text", ["", "a", "100%", "%0A", "a\nb\r\nc", "x::y::z", "a,b=c:d", "::error::x"]
)
def test_a_command_is_read_back_by_the_runners_grammar(text: str) -> None:
    line = runner.command("error", text, file=text or "f", title=text or "t")
    assert "\n" not in line
    assert commands([line]) == [Command("error", text, {"file": text or "f", "title": text or "t"})]


def test_a_command_without_properties() -> None:
    assert runner.command("add-mask", "a%b") == "::add-mask::a%25b"
    assert runner.command("error", "x", line=3) == "::error line=3::x"


def test_between_fences_no_command_is_obeyed() -> None:
    opening, closing = runner.fence()
    inside = ["::error::a", "::stop-commands::x", "  ::add-path::/b", "::set-output name=a::b"]
    assert commands([opening, *inside, closing, "::notice::c"]) == [Command("notice", "c")]
    assert runner.fence()[0] != opening


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("a/b.rs", "a/b.rs"),
        ("./a.rs", "a.rs"),
        ("x/../a.rs", "a.rs"),
        ("..", None),
        ("/etc/passwd", None),
        (".", "."),
    ],
)
def test_paths_are_relative_to_the_workspace(path: str, told: str | None, github: Path) -> None:
    full = Path(path) if Path(path).is_absolute() else github / path
    assert runner.in_workspace(full) == told


def test_from_a_sub_directory_paths_are_still_the_workspaces(
    github: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (github / "sub").mkdir()
    monkeypatch.chdir(github / "sub")
    assert runner.in_workspace(Path("src/lib.rs")) == "sub/src/lib.rs"
    monkeypatch.setenv("GITHUB_REPOSITORY", "me/port")
    assert runner.as_typed(Path()) == "../port/sub"
    assert runner.as_typed(github) == "../port"


def test_elsewhere_a_path_is_typed_as_it_is() -> None:
    assert runner.as_typed(Path("../port")) == "../port"


def test_inputs_bear_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARITY_INPUT_MIN_CASES", "3")
    monkeypatch.setenv("INPUT_MIN_CASES", "4")
    assert runner.inputs() == {"min-cases": "3"}


CACHING = {
    ("push", "branch"): (True, True),
    ("push", "tag"): (False, False),
    ("pull_request", "branch"): (True, False),
    ("schedule", "branch"): (True, True),
    ("release", "tag"): (False, False),
    ("pull_request_target", "branch"): (False, False),
    ("workflow_run", "branch"): (False, False),
    ("workflow_dispatch", "branch"): (True, True),
    ("an event of tomorrow", "branch"): (True, False),
}


@pytest.mark.parametrize(("event", "kind"), CACHING)
def test_where_a_cache_may_be_read_and_written(
    event: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_EVENT_NAME", event)
    monkeypatch.setenv("GITHUB_REF_TYPE", kind)
    assert (runner.may_restore(), runner.may_save()) == CACHING[event, kind]


def test_a_lent_token_and_all_inputs_are_gone_before_the_port_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_TOKEN", "the user's own")
    runner.take_hub_token_back()
    assert os.environ["HF_TOKEN"] == "the user's own"  # noqa: S105 - a stand-in
    monkeypatch.setenv("PARITY_INPUT_HF_TOKEN", "secret")
    runner.lend_hub_token("secret")
    assert os.environ["HF_TOKEN"] == "secret"  # noqa: S105 - a stand-in
    runner.take_hub_token_back()
    assert "secret" not in os.environ.values()
