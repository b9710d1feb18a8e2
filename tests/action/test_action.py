"""The action itself, in workflows of a repo that uses it, run by act without GitHub."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.action import consumer
from tests.action.forge import FORGERIES
from tests.action.grammar import Command, commands

ROOT = Path(__file__).parents[2]
WORKFLOW = (ROOT / "parity/commands/init_workflow.yml").read_text(encoding="utf-8")
STUBS = Path(__file__).parent / "stubs"
FORGE = Path(__file__).parent / "forge.py"
ACT = shutil.which("act")
pytestmark = [
    pytest.mark.skipif(ACT is None, reason="act is installed by `nox -s action`"),
    pytest.mark.process,
    pytest.mark.slow,
]
PINS = re.findall(
    r"uses: (actions/[\w-]+)(?:/\w+)?@([0-9a-f]{40})",
    "".join((ROOT / p).read_text() for p in ("action.yml", ".github/workflows/parity.yml")),
)
RUST = {"CARGO_HOME": ".cargo", "RUSTUP_HOME": ".rustup"}
SCENARIOS = (
    "green",
    "mismatch",
    "nan",
    "rustc",
    "panic",
    "wrong-hash",
    "hostile",
    "injection",
    "names",
)


class Run:
    """What a workflow did, step by step."""

    def __init__(self, ended: subprocess.CompletedProcess[str]) -> None:
        self.code = ended.returncode
        self.text = ended.stdout + ended.stderr
        self.events: list[dict[str, Any]] = []
        for line in ended.stdout.splitlines():
            if line.startswith("{"):
                self.events.append(json.loads(line))

    def of(self, step: str) -> list[dict[str, Any]]:
        """Events of a step of the workflow and of all steps inside it."""
        return [e for e in self.events if e.get("stepID", [""])[0] == step]

    def lines(self, step: str) -> list[str]:
        """What the step printed, as it was printed."""
        listed = [e for e in self.of(step) if e.get("raw_output") or "raw" in e]
        return [str(e.get("raw", e["msg"])).rstrip("\n") for e in listed]

    def commands(self, step: str) -> list[Command]:
        return commands(self.lines(step))

    def reported(self, step: str, name: str = "error") -> list[Command]:
        return [command for command in self.commands(step) if command.name == name]

    def summary(self, step: str) -> str:
        found = [e for e in self.of(step) if e.get("command") == "summary"]
        return str(found[0]["content"]) if found else ""

    def outputs(self, step: str) -> dict[str, str]:
        """The last that was set, by name; act says it once for each level."""
        events = [e for e in self.of(step) if e.get("command") == "set-output"]
        return {e["name"]: e["arg"] for e in events}


def snapshot(folder: Path) -> Path:
    """The working tree without what git ignores: act copies all of it, for every step."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    named = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, named.split("\0")):
        # Only what the action is made of; tests and their bundles are large.
        if (ROOT / name).is_file() and not name.startswith(("tests/", "docs/", "benchmarks/")):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    return folder


def act(repo: Path, workflow: str, work: Path, *more: str, jobs: str | None = None) -> Run:
    """Run one workflow of ``repo``; nested actions are stand-ins, the rest is real."""
    assert ACT is not None
    here = work / "parity-action"
    if not here.exists():
        snapshot(here)
    mapped = [f"{consumer.HERE}@v1={here}"]
    mapped += sorted(
        {
            f"{name}@{sha}={STUBS / consumer.STUBBED[name]}"
            for name, sha in PINS
            if name in consumer.STUBBED
        }
    )
    words = [ACT, "push", "--json", "-P", "ubuntu-latest=-self-hosted", "-W", workflow]
    words += ["--no-cache-server", "--action-offline-mode", *more]
    words += ["-j", jobs] if jobs else []
    words += [word for one in mapped for word in ("--local-repository", one)]
    for name in ("STUB_CACHE", "STUB_ARTIFACTS"):
        folder = work / name.lower()
        folder.mkdir(exist_ok=True)
        words += ["--env", f"{name}={folder}"]
    # act keeps its own things under HOME; cargo's stay where they are.
    rust = {n: os.environ.get(n, str(Path("~").expanduser() / d)) for n, d in RUST.items()}
    home = {**rust, "HOME": str(work / "home"), "XDG_CACHE_HOME": str(work / "cache")}
    env = {
        **os.environ,
        **home,
        "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(work / "pip")),
    }
    return Run(
        subprocess.run(words, cwd=repo, env=env, check=False, capture_output=True, text=True)
    )


def workflow(repo: Path, name: str, text: str) -> str:
    path = repo / ".github" / "workflows" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


CHECKOUT = "      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1\n"
HEAD = "on: push\njobs:\n  parity:\n    runs-on: ubuntu-latest\n    steps:\n" + CHECKOUT


def step(name: str, *, uses: str = "org/parity-action@v1", **given: str) -> str:
    lines = [f"      - id: {name}", f"        uses: {uses}", "        continue-on-error: true"]
    lines += ["        with:", *(f"          {k}: {json.dumps(v)}" for k, v in given.items())]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("act")


@pytest.fixture(scope="module")
def repo(work: Path) -> Path:
    folder = work / "repo"
    consumer.build(folder)
    return folder


@pytest.fixture(scope="module")
def run(repo: Path, work: Path) -> Run:
    """All scenarios as steps of one job, so that its environment is made once."""
    text = HEAD
    for name in SCENARIOS:
        text += step(name, **{"working-directory": name, "report-formats": "json junit html"})
    text += step("nothing", **{"working-directory": "green", "cases": "!*"})
    text += step(
        "inputs",
        **{"working-directory": "../..", "annotations": "many", "toolchain": "-Z; echo pwned"},
    )
    text += step(
        "quiet", **{"working-directory": "mismatch", "annotations": "0", "summary": "false"}
    )
    found = act(repo, workflow(repo, "all.yml", text), work)
    (work / "all.log").write_text(found.text, encoding="utf-8")
    return found


def only_error(run: Run, step: str) -> Command:
    (error,) = run.reported(step)
    return error


def test_a_run_that_is_green(run: Run) -> None:
    assert run.reported("green") == []
    outputs = run.outputs("green")
    assert (outputs["conclusion"], outputs["failure-kind"]) == ("success", "")
    assert (outputs["total"], outputs["passed"], outputs["failed"]) == ("1", "1", "0")
    assert outputs["worst-case"] == "things-v1/case"
    assert re.fullmatch("[0-9a-f]{64}", outputs["lock-sha256"])
    assert outputs["command"].startswith("parity verify --repo ")
    assert outputs["report-junit"].endswith("green/parity-report/junit.xml")
    assert "## ✅ parity: 1 case: 1 pass" in run.summary("green")


#: By step: conclusion, kind, the error's code, file and line, and words of its message.
RED = {
    "mismatch": ("failure", "mismatch", "values", "fixtures.lock.yaml", 8, "obtained 2.5"),
    "nan": ("failure", "mismatch", "nan", "fixtures.lock.yaml", 8, "obtained nan"),
    "rustc": ("error", "dump", "compile-error", "examples/dump_case.rs", 2, "mismatched types"),
    "panic": ("error", "dump", "dump-panic", "src/lib.rs", 4, "no parts, 100% of them"),
    "wrong-hash": ("error", "integrity", "integrity-hash", "fixtures.lock.yaml", 15, "sha256"),
    "hostile": ("error", "integrity", "archive-name", "fixtures.lock.yaml", 5, "pwned"),
    "nothing": ("error", "empty", "nothing-verified", "", 0, "0 cases were verified"),
    "names": ("failure", "mismatch", "tensor-extra", "fixtures.lock.yaml", 8, "no such tensor"),
}


@pytest.mark.parametrize("step", RED)
def test_a_run_that_must_go_red_goes_red_on_the_right_line(step: str, run: Run) -> None:
    conclusion, kind, code, file, line, words = RED[step]
    outputs = run.outputs(step)
    assert (outputs["conclusion"], outputs["failure-kind"]) == (conclusion, kind)
    error = only_error(run, step)
    assert error.properties.get("file", "") == (f"{step}/{file}" if file else "")
    assert int(error.properties.get("line", 0)) == line
    assert error.properties["title"].endswith(f": {code}")
    assert words in error.data
    assert f"error[{code}]" in run.summary(step)
    results = {e["stepResult"] for e in run.of(step) if "stepResult" in e and len(e["stepID"]) == 1}
    assert results <= {"failure", "success"}


def test_nothing_that_a_port_says_is_obeyed(run: Run) -> None:
    allowed = {"error", "remove-matcher"}
    for step in ("injection", "names"):
        found = run.commands(step)
        assert {command.name for command in found} <= allowed, found
        assert len(run.reported(step)) == 1
        assert not any(c.properties.get("file") == "a" for c in found)
    assert run.outputs("injection")["conclusion"] == "error"
    assert "dump-exit" in only_error(run, "injection").properties["title"]


def test_wrong_inputs_are_reported_all_at_once(run: Run) -> None:
    reported = "\n".join(error.data for error in run.reported("inputs"))
    for name in ("working-directory", "annotations", "toolchain"):
        assert f"input {name} is" in reported
    assert run.outputs("inputs")["failure-kind"] == "config"


def test_annotations_and_summary_can_be_switched_off(run: Run) -> None:
    assert run.reported("quiet") == []
    assert run.summary("quiet") == ""
    assert run.outputs("quiet")["conclusion"] == "failure"


def test_nothing_is_left_in_the_users_environment(run: Run) -> None:
    names = {e.get("command") for e in run.events}
    assert not names & {"set-env", "add-path", "add-matcher"}


def test_bundles_that_were_verified_are_cached_and_no_others(run: Run, work: Path) -> None:
    assert run.outputs("green")["cache-hit"] == "false"
    # The same bundle under the same key, in another step.
    assert run.outputs("mismatch")["cache-hit"] == "true"
    blobs = {path.name for path in (work / "stub_cache").rglob("*") if path.is_file()}
    assert blobs
    assert run.outputs("wrong-hash").get("cache-save", "false") == "false"
    assert run.outputs("hostile").get("cache-save", "false") == "false"
    assert not list(work.rglob("pwned"))


def test_the_job_goes_red_with_the_action(repo: Path, work: Path) -> None:
    """Without ``continue-on-error``; and the outputs are there for later steps all the same."""
    text = HEAD.replace("parity:\n", "parity:\n    name: red\n", 1)
    text += "      - id: red\n        uses: org/parity-action@v1\n"
    text += "        with: {working-directory: mismatch}\n"
    text += "      - if: failure() && steps.red.outputs.failure-kind == 'mismatch'\n"
    text += "        run: echo seen-by-a-later-step\n"
    found = act(repo, workflow(repo, "red.yml", text), work)
    assert found.code == 1
    assert "seen-by-a-later-step" in found.text


def test_it_runs_from_its_own_repo_too(work: Path) -> None:
    folder = snapshot(work / "own")
    consumer.build(folder / "it", git=False)
    text = HEAD + step("own", uses="./", **{"working-directory": "it/green"})
    git = ["git", "-C", str(folder)]
    subprocess.run([*git, "init", "-q"], check=True)
    found = act(folder, workflow(folder, "own.yml", text), work)
    assert found.outputs("own")["conclusion"] == "success"


def test_the_workflow_that_init_writes_is_green_as_it_is(repo: Path, work: Path) -> None:
    folder = work / "newcomer"
    shutil.copytree(repo / "green", folder)
    consumer.commit(folder)
    found = act(folder, workflow(folder, "parity.yml", WORKFLOW), work)
    assert found.code == 0, found.text[-2000:]
    assert "1 case: 1 pass" in found.text


def add_forged_merges(text: str) -> str:
    """Add a job that merges forged artifacts, by the workflow's own step, once for each forgery.

    It is one job, so that its environment is made once.
    """
    rest, merge = text.split("  merge:\n")
    before, step, after = merge.partition("      - id: merge\n")
    after, _, _ = after.partition("      - if: always()\n")
    folder = "parity-${{ github.run_id }}-${{ github.run_attempt }}"
    assert folder in before
    assert f"report-dir: {folder}\n" in after
    job = before.replace("steps.merge.", "steps.forged.")
    for kind in FORGERIES:
        job += "      - if: always()\n        working-directory: sharded\n"
        job += f"        run: python3 {FORGE} {kind} {folder} {folder}-{kind}\n"
        job += step.replace("merge", kind) + "        if: always()\n"
        job += after.replace(folder, f"{folder}-{kind}")
    return f"{rest}  forged:\n{job}  merge:\n{merge}"


@pytest.fixture(scope="module")
def matrix(repo: Path, work: Path) -> Run:
    """The reusable workflow itself, but for ``$/``, which act does not know."""
    shutil.rmtree(work / "stub_artifacts", ignore_errors=True)
    text = (ROOT / ".github/workflows/parity.yml").read_text(encoding="utf-8")
    text = re.sub(
        r"uses: \$/(\w*)", lambda m: f"uses: org/parity-action{'/' if m[1] else ''}{m[1]}@v1", text
    )
    workflow(repo, "reused.yml", add_forged_merges(text))
    caller = "on: push\njobs:\n  all:\n    uses: ./.github/workflows/reused.yml\n"
    caller += "    with: {working-directory: sharded}\n"
    found = act(repo, workflow(repo, "caller.yml", caller), work)
    (work / "matrix.log").write_text(found.text, encoding="utf-8")
    return found


def test_a_matrix_with_merge(matrix: Run, work: Path) -> None:
    assert matrix.code == 1
    names = sorted(path.name for path in (work / "stub_artifacts").iterdir())
    assert names == ["merged", "parity-001-things-v1", "parity-002-things-v1", "parity-plan"]
    merged = json.loads((work / "stub_artifacts/merged/report.json").read_text(encoding="utf-8"))
    verdicts = {c["id"]: c["verdict"] for b in merged["bundles"] for c in b["cases"]}
    assert verdicts == {"a": "pass", "c": "pass", "b": "fail"}
    assert matrix.outputs("merge")["conclusion"] == "failure"
    (error,) = matrix.reported("merge")
    assert error.properties["title"] == "things-v1/b: values"
    assert "3 cases: 2 pass, 1 fail" in matrix.summary("merge")


#: By forgery: the errors' codes. The case that fails is in none of these results.
FORGED = {
    "forged": {"report-contradiction", "shard-missing"},
    "replaced": {"reports-differ", "shard-missing"},
    "short": {"reports-differ"},
    "missing": {"shard-missing"},
}


@pytest.mark.parametrize("kind", FORGED)
def test_the_merge_of_a_forged_matrix_is_red(kind: str, matrix: Run) -> None:
    assert matrix.outputs(kind)["conclusion"] == "error"
    titles = [error.properties["title"] for error in matrix.reported(kind)]
    assert {title.rpartition(": ")[2] for title in titles} == FORGED[kind]
    steps = [e for e in matrix.of(kind) if e["stepID"] == [kind] and e.get("stage") == "Main"]
    assert [e["stepResult"] for e in steps if "stepResult" in e] == ["failure"]
    # No step may continue on an error, so the job is red with it.
    jobs = {e["jobID"]: e["jobResult"] for e in matrix.events if "jobResult" in e}
    assert (jobs["plan"], jobs["forged"], jobs["merge"]) == ("success", "failure", "failure")
