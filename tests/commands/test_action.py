"""The steps of action.yml in this process: inputs in, outputs and annotations out."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from parity.cli import parser as cli
from parity.errors import ConfigError
from tests.action import consumer
from tests.action.grammar import Command, commands
from tests.test_github import read_outputs

pytestmark = pytest.mark.process


class Runner:
    """What GitHub's runner would have seen."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capsys = capsys

    def step(self, name: str) -> int:
        for file in ("output", "summary"):
            (self.folder / file).unlink(missing_ok=True)
        os.chdir(self.folder)
        return cli.run(["action", name])

    @property
    def outputs(self) -> dict[str, str]:
        return read_outputs(self.folder / "output")

    @property
    def summary(self) -> str:
        path = self.folder / "summary"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def commands(self) -> list[Command]:
        return commands(self.capsys.readouterr().out.splitlines())


@pytest.fixture
def runner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Runner:
    repo = tmp_path / "repo"
    consumer.build(repo, git=False)
    monkeypatch.chdir(repo)
    given = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(repo),
        "GITHUB_REPOSITORY": "me/port",
        "GITHUB_EVENT_NAME": "push",
        "GITHUB_REF_TYPE": "branch",
        "GITHUB_OUTPUT": str(repo / "output"),
        "GITHUB_STEP_SUMMARY": str(repo / "summary"),
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return Runner(repo, capsys)


def give(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    for name, value in values.items():
        monkeypatch.setenv(f"PARITY_INPUT_{name.upper()}", value)


def test_a_green_run_sets_every_output(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, working_directory="green", report_formats="json junit html")
    assert runner.step("verify") == 0
    outputs = runner.outputs
    folder = (runner.folder / "green" / "parity-report").as_posix()
    digest = outputs.pop("lock-sha256")
    assert len(digest) == 64
    assert outputs == {
        "conclusion": "success",
        "failure-kind": "",
        "total": "1",
        "passed": "1",
        "failed": "0",
        "warnings": "0",
        "worst-case": "things-v1/case",
        "report-dir": folder,
        "report-json": f"{folder}/report.json",
        "report-junit": f"{folder}/junit.xml",
        "report-html": f"{folder}/report.html",
        "command": "parity verify --repo green",
        "cache-save": "true",
    }
    assert runner.commands() == []
    assert runner.summary.startswith("## ✅ parity: 1 case: 1 pass")


RED = {
    "mismatch": (1, "failure", "mismatch", "true"),
    "nan": (1, "failure", "mismatch", "true"),
    "injection": (5, "error", "dump", "true"),
    "wrong-hash": (4, "error", "integrity", "false"),
    "hostile": (4, "error", "integrity", "false"),
}


@pytest.mark.parametrize("name", RED)
def test_a_red_run_says_so_everywhere(
    name: str, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, working_directory=name)
    code, *reported = RED[name]
    assert runner.step("verify") == code
    outputs = runner.outputs
    assert [outputs[key] for key in ("conclusion", "failure-kind", "cache-save")] == reported
    (error,) = runner.commands()
    assert error.name == "error"
    assert error.properties["file"].startswith(f"{name}/")
    assert error.properties["title"].split(": ")[1] in runner.summary
    value = json.loads((runner.folder / name / "parity-report/report.json").read_bytes())
    assert value["exit_code"] == code


def test_warnings_can_be_made_red(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, working_directory="green", fail_on="warning", min_cases="2")
    assert runner.step("verify") == 6
    assert runner.outputs["failure-kind"] == "empty"


def test_a_lockfile_that_cannot_be_read_is_reported_on_its_line(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = runner.folder / "green" / "fixtures.lock.yaml"
    path.write_text("schema: 1\nbundles:\n  a: {sourc: x}\n", encoding="utf-8")
    give(monkeypatch, working_directory="green")
    with pytest.raises(ConfigError):
        runner.step("verify")
    assert runner.outputs["conclusion"] == "error"
    assert runner.outputs["failure-kind"] == "config"
    first = runner.commands()[0]
    assert first.properties["file"] == "green/fixtures.lock.yaml"
    assert first.properties["line"] == "3"
    assert "❌ parity: the command line or the lockfile is invalid" in runner.summary


def test_a_fault_of_this_program_is_an_error_too(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> int:
        raise RuntimeError

    monkeypatch.setattr("parity.commands.verify._run_job", broken)
    with pytest.raises(RuntimeError):
        runner.step("verify")
    assert runner.outputs == {"conclusion": "error"}


def test_the_key_is_of_the_bundles_alone(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = []
    for name in ("green", "mismatch", "wrong-hash"):
        give(monkeypatch, working_directory=name)
        assert runner.step("prepare") == 0
        keys.append(runner.outputs["cache-key"])
        assert Path(runner.outputs["cache-path"]).name == "blobs"
    assert keys[0] == keys[1] != keys[2]
    assert keys[0].startswith("parity-blobs-1-")
    assert "," not in keys[0]


@pytest.mark.parametrize(
    "given",
    [
        {"cache": "false"},
        {"hf_token": "secret"},
        {"hf_token": "secret", "cache": "true"},
        {"working_directory": "absent"},
        {"lockfile": "absent.yaml"},
        {"annotations": "many"},
    ],
)
def test_nothing_is_cached_where_it_may_not_be(
    given: dict[str, str], runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, **{"working_directory": "green", **given})
    assert runner.step("prepare") == 0
    assert runner.outputs == {"cache-key": "", "cache-path": ""}


@pytest.mark.parametrize("event", ["release", "pull_request_target", "workflow_run"])
def test_a_run_that_others_rely_on_takes_nothing_from_a_cache(
    event: str, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_EVENT_NAME", event)
    give(monkeypatch, working_directory="green")
    runner.step("prepare")
    assert runner.outputs["cache-key"] == ""
    give(monkeypatch, cache="true")
    runner.step("prepare")
    assert runner.outputs["cache-key"] != ""


def test_a_token_is_masked_and_out_of_reach_of_the_port(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = 'assert "s3cret" not in str(os.environ), "leaked"\nwrite("w.bin", [0, 1, 2, 3])\n'
    (runner.folder / "green" / "dump.py").write_text(consumer.DUMP + body, encoding="utf-8")
    give(monkeypatch, working_directory="green", hf_token="s3cret")  # noqa: S106 - no password
    assert runner.step("verify") == 0
    assert runner.outputs["cache-save"] == "false"
    assert runner.commands() == [Command("add-mask", "s3cret")]
    assert "s3cret" not in runner.summary


def test_of_a_private_bundle_no_dump_is_kept(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, working_directory="mismatch")
    assert runner.step("verify") == 1
    kept = runner.folder / "mismatch" / "parity-report" / "dumps"
    assert list(kept.rglob("w.bin"))
    monkeypatch.setattr(
        "parity.commands.action._load_bundles",
        lambda _inputs: [type("B", (), {"id": "things-v1", "source": "hf://o/r@main/b.tar"})],
    )
    give(monkeypatch, working_directory="mismatch", hf_token="s3cret")  # noqa: S106 - no password
    assert runner.step("verify") == 1
    assert not list(kept.rglob("w.bin"))


def test_a_plan_and_its_merge(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, working_directory="sharded")
    assert runner.step("plan") == 0
    jobs = json.loads(runner.outputs["matrix"])["include"]
    assert [job["cases"].split() for job in jobs] == [
        ["things-v1/a", "things-v1/c"],
        ["things-v1/b"],
    ]
    for job in jobs:
        give(monkeypatch, cases=job["cases"], bundles=job["bundles"])
        give(monkeypatch, working_directory="sharded", report_dir=f"parity-report/{job['name']}")
        runner.step("verify")
    for name in ("PARITY_INPUT_CASES", "PARITY_INPUT_BUNDLES", "PARITY_INPUT_REPORT_DIR"):
        monkeypatch.delenv(name, raising=False)
    give(monkeypatch, working_directory="sharded")
    runner.capsys.readouterr()
    assert runner.step("merge") == 1
    assert runner.outputs["conclusion"] == "failure"
    assert (runner.outputs["total"], runner.outputs["passed"]) == ("3", "2")
    (error,) = runner.commands()
    assert error.properties["title"] == "things-v1/b: values"
    (runner.folder / "sharded/parity-report/001-things-v1/report.json").unlink()
    give(monkeypatch, working_directory="sharded")
    assert runner.step("merge") == 1
    assert "shard-missing" in runner.summary


def test_a_merge_takes_no_plan_that_a_port_wrote(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, working_directory="sharded")
    assert runner.step("plan") == 0
    reports = runner.folder / "sharded" / "parity-report"
    give(monkeypatch, cases="things-v1/a", report_dir="parity-report/parity-001-x")
    runner.step("verify")
    for name in ("PARITY_INPUT_CASES", "PARITY_INPUT_REPORT_DIR"):
        monkeypatch.delenv(name, raising=False)
    forged = reports / "parity-001-x" / "dumps" / "parity-plan.json"
    forged.parent.mkdir(exist_ok=True)
    job = {"name": "n", "bundles": "things-v1", "cases": "things-v1/a"}
    forged.write_text(json.dumps({"include": [job]}), encoding="utf-8")
    own = reports / "parity-plan"
    own.mkdir()
    (reports / "parity-plan.json").replace(own / "parity-plan.json")

    give(monkeypatch, working_directory="sharded")
    assert runner.step("merge") == 6
    assert "shard-missing" in runner.summary


def test_a_plan_makes_no_folder_below_a_link(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    (runner.folder / "other").mkdir()
    (runner.folder / "sharded" / "sub").symlink_to(runner.folder / "other")
    give(monkeypatch, working_directory="sharded", report_dir="sub/new")
    with pytest.raises(ConfigError, match="symbolic link"):
        runner.step("plan")
    assert not list((runner.folder / "other").iterdir())


def test_what_a_pull_request_does_to_the_lockfile_stands_in_the_summary(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer.commit(runner.folder)
    git = ["git", "-C", str(runner.folder), "update-ref", "refs/remotes/origin/main", "HEAD"]
    subprocess.run(git, check=True)
    monkeypatch.setenv("GITHUB_BASE_REF", "main")
    give(monkeypatch, working_directory="green")
    assert runner.step("verify") == 0
    assert "changed" not in runner.summary

    consumer.repin(runner.folder / "green", values=(0, 1, 2, 3.0005))
    give(monkeypatch, working_directory="green")
    assert runner.step("verify") == 0
    assert "things-v1</code>: changed" in runner.summary
    assert "1 of 4" in runner.summary

    monkeypatch.setenv("GITHUB_BASE_REF", "no-such-branch")
    give(monkeypatch, working_directory="green")
    assert runner.step("verify") == 0
