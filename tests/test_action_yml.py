"""action.yml, the workflows and the README say the same, and pin what they use."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from parity.commands import action
from parity.errors import ConfigError

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
WORKFLOW = (ROOT / "parity/commands/init_workflow.yml").read_text(encoding="utf-8")
DEFAULTS = {name: entry.default for name, entry in action.INPUTS.items()}
ACTIONS = [ROOT / name for name in ("action.yml", "plan/action.yml", "merge/action.yml")]
FILES = [*ACTIONS, *sorted((ROOT / ".github").rglob("*.yml"))]
STEPS = {
    "action.yml": ("prepare", "verify"),
    "plan/action.yml": ("plan",),
    "merge/action.yml": ("merge",),
}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parsed(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def uses(text: str) -> list[str]:
    return re.findall(r"^\s*(?:- )?uses: *(.+)$", text, re.MULTILINE)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_everything_used_is_pinned_by_its_sha_with_the_version_beside_it(path: Path) -> None:
    for used in uses(path.read_text(encoding="utf-8")):
        own = used.startswith("$/")
        assert own or re.fullmatch(r"[\w-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), used


def test_an_action_is_pinned_to_one_commit_everywhere() -> None:
    texts = [path.read_text(encoding="utf-8") for path in FILES] + [WORKFLOW, README]
    pins: dict[str, set[str]] = {}
    for text in texts:
        for used in uses(text):
            if found := re.match(r"(actions/[\w-]+)\S*(@.+)", used):
                pins.setdefault(found[1], set()).add(found[2])
    assert {name: len(found) for name, found in pins.items()} == dict.fromkeys(pins, 1)
    assert len(pins) >= 5


def test_the_stand_ins_are_for_what_is_used() -> None:
    stubs = ROOT / "tests" / "action" / "stubs"
    used = {u.split("@")[0] for path in FILES for u in uses(path.read_text(encoding="utf-8"))}
    for stub in stubs.rglob("action.yml"):
        assert f"actions/{stub.parent.relative_to(stubs).as_posix()}" in used


def test_the_inputs_are_those_of_the_reader_with_their_defaults() -> None:
    found = {name: spec["default"] for name, spec in parsed(ACTIONS[0])["inputs"].items()}
    assert found == DEFAULTS


@pytest.mark.parametrize("path", ACTIONS, ids=name_of)
def test_every_input_is_optional_and_handed_on_once_under_its_name(path: Path) -> None:
    value = parsed(path)
    mapped: set[str] = set()
    for step in value["runs"]["steps"]:
        for key, text in step.get("env", {}).items():
            if key.startswith("PARITY_INPUT_"):
                name = key.removeprefix("PARITY_INPUT_").lower().replace("_", "-")
                assert text == f"${{{{ inputs.{name} }}}}"
                mapped.add(name)
    assert mapped == set(value["inputs"]) - {"python-version"}
    for name, spec in value["inputs"].items():
        assert spec["required"] is False
        assert spec["default"] == DEFAULTS[name]
        assert spec["description"].endswith(".")


@pytest.mark.parametrize("path", ACTIONS, ids=name_of)
def test_a_step_runs_one_program_and_no_expression(path: Path) -> None:
    runs = [step for step in parsed(path)["runs"]["steps"] if "run" in step]
    for step in runs:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]
        assert "\n" not in step["run"].strip()
    started = [step["run"].rsplit(" ", 1)[1] for step in runs if "start.py" in step["run"]]
    assert tuple(started) == STEPS[name_of(path)]


def test_the_users_python_and_matchers_are_left_alone() -> None:
    for path in ACTIONS:
        steps = parsed(path)["runs"]["steps"]
        assert steps[0]["with"]["update-environment"] is False
        assert steps[1]["run"] == 'echo "::remove-matcher owner=python::"'
        assert "GITHUB_ENV" not in path.read_text(encoding="utf-8")
        assert "GITHUB_PATH" not in path.read_text(encoding="utf-8")


def test_every_workflow_has_the_least_rights() -> None:
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        value = parsed(path)
        assert value["permissions"] == {}, path
        for name, job in value["jobs"].items():
            rights = job.get("permissions", {})
            more = {key for key, right in rights.items() if right != "read"}
            assert not more or name in ("bump", "release"), (path, name)


def test_bump_only_opens_a_pull_request() -> None:
    """It pushes a branch of its own, from the one step that has a token and runs no package."""
    steps = parsed(ROOT / ".github" / "workflows" / "bump.yml")["jobs"]["bump"]["steps"]
    (step,) = [step for step in steps if "github.token" in str(step)]
    words = [line.split() for line in step["run"].splitlines()]
    pushed = [line for line in words if line[:2] == ["git", "push"]]

    assert ["git", "switch", "--create", '"$branch"'] in words
    assert [line[3:] for line in pushed] == [['"$branch"']]
    assert [line[:3] for line in words if line[0] == "gh"] == [["gh", "pr", "create"]]
    assert not {"python", "pip"} & {word for line in words for word in line}


def test_the_gate_needs_every_other_job() -> None:
    jobs = parsed(ROOT / ".github/workflows/ci.yml")["jobs"]
    assert set(jobs["done"]["needs"]) == set(jobs) - {"done"}


@pytest.mark.parametrize("name", ["nox", "action"])
def test_what_is_installed_is_locked_by_hashes(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    packages = re.findall(r"^([a-z][\w.-]*)==.*\\$", text, re.MULTILINE)
    entries = re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]
    assert len(packages) == len(entries) > 5
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "torch" not in packages
    assert "://" not in text


def test_locks_have_all_requirements() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    requirements = [*project["dependencies"], *extras["onnx"], *extras["reports"]]
    names = {re.split(r"[<>=!\[ ;]", word)[0].lower() for word in requirements}
    text = (ROOT / "requirements" / "action.txt").read_text(encoding="utf-8")
    assert names <= set(re.findall(r"^([a-z][\w.-]*)==", text, re.MULTILINE))


def test_workflow_in_the_readme_is_the_one_that_init_writes() -> None:
    assert f"```yaml\n{WORKFLOW}```" in README


def test_workflows_in_the_documentation_use_existing_inputs() -> None:
    text = README + (ROOT / "docs" / "action.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    given = [
        step
        for block in blocks
        for job in ((yaml.safe_load(block) or {}).get("jobs") or {}).values()
        for step in [*job.get("steps", []), job]
        if "parity-action" in step.get("uses", "")
    ]
    assert len(given) >= 4
    reusable = parsed(ROOT / ".github/workflows/parity.yml")
    for step in given:
        known = (
            reusable[True]["workflow_call"]["inputs"] if "workflows" in step["uses"] else DEFAULTS
        )
        assert set(step.get("with", {})) <= set(known)


def test_cases_of_a_matrix_are_counted_once_over_all_jobs() -> None:
    jobs = parsed(ROOT / ".github/workflows/parity.yml")["jobs"]
    given = {
        name: step.get("with", {}).get("min-cases", DEFAULTS["min-cases"])
        for name in ("verify", "merge")
        for step in jobs[name]["steps"]
        if step.get("uses", "").startswith("$/")
    }
    assert given == {"verify": "0", "merge": "1"}


RAW = {
    "working-directory": ["..", "/", "/etc", "absent"],
    "lockfile": ["/etc/passwd", "../../x"],
    "report-dir": ["/tmp", "../.."],  # noqa: S108 - rejected
    "toolchain": ["-Zscript", "+nightly", "a b", "$(id)"],
    "cache": ["yes", "True"],
    "annotations": ["-1", "11", "ten", "1e1", "\u0663"],
    "summary": ["short"],
    "report-formats": ["pdf", "json pdf"],
    "fail-on": ["never"],
    "min-cases": ["-1", "1.5", "9" * 20],
    "timeout-minutes": ["0", "-1", "nan", "inf", "soon", "1_0", "\u0661\u0660", "1e1"],
    "cargo-args": ["--", "-v\n--"],
    "no-such-input": ["x"],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in RAW.items() for v in values])
def test_invalid_input_is_reported_with_its_name_and_valid_values(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    with pytest.raises(ConfigError) as raised:
        action.read_inputs({name: value})
    assert {problem.code for problem in raised.value.problems} == {"input"}
    assert name in raised.value.problems[0].message


def test_a_path_is_relative_even_where_it_stays_inside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    with pytest.raises(ConfigError, match="report-dir"):
        action.read_inputs({"report-dir": str(tmp_path / "out")})


def test_all_invalid_inputs_are_reported_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    with pytest.raises(ConfigError) as raised:
        action.read_inputs({"cache": "x", "summary": "y", "annotations": "z"})
    assert len(raised.value.problems) == 3


def test_blank_inputs_have_their_defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    assert action.read_inputs(dict.fromkeys(DEFAULTS, " ")) == action.read_inputs({})
    found = action.read_inputs({"bundles": " a \n\nb\n", "cargo-args": "--locked\n--features x"})
    assert (found.bundles, found.cargo_args) == (("a", "b"), ("--locked", "--features x"))
    assert (found.min_cases, found.deadline, found.report_formats) == (
        1,
        1800.0,
        ("json", "junit"),
    )
