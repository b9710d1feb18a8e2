"""A matrix and its merge: nothing is planned twice, and nothing that was planned is forgotten."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from parity.cli import parser as cli
from parity.commands.plan import MAX_JOBS, build_jobs
from parity.errors import ConfigError, Location
from parity.lab.pins.tensors import pin
from parity.lockfile import load
from parity.reports import json as json_report
from parity.reports import json_reader
from parity.reports.console import RunConsole
from parity.tensors.bin import encode_tensor
from parity.verify.options import VerifyOptions
from parity.verify.prepare import prepare_bundle
from tests.reports.test_console import mixed
from tests.reports.test_json import REPORTS
from tests.support.reports import make_bundle, make_case, make_finding, make_report

if TYPE_CHECKING:
    from parity.results import Report


def lockfile(folder: Path, dumps: dict[str, dict[str, Any]], cases: str = "abc") -> Path:
    """A lockfile of bundles with the cases named, each dumped as said."""
    bundles = {}
    for name, dump in dumps.items():
        for one in cases:
            reference = folder / name / one / "reference"
            reference.mkdir(parents=True)
            (reference / "w.bin").write_bytes(encode_tensor(np.zeros(2, np.float32)))
        told = json.dumps({"schema": 1, "cases": {one: {"why": name} for one in cases}})
        (folder / name / "parity.json").write_text(told, encoding="utf-8")
        tar = pin(folder, folder=folder / name)
        digest = hashlib.sha256(tar.read_bytes()).hexdigest()
        locked = {"sha256": f"sha256:{digest}"}
        bundles[name] = {"source": tar.name, "suite": "tensors", "dump": dump, "locked": locked}
    path = folder / "fixtures.lock.yaml"
    path.write_text(json.dumps({"schema": 1, "bundles": bundles}), encoding="utf-8")
    return path


def planned(folder: Path, *words: str) -> list[dict[str, str]]:
    assert cli.run(["plan", "--repo", str(folder), "--out", str(folder / "plan.json"), *words]) == 0
    found: list[dict[str, str]] = json.loads((folder / "plan.json").read_bytes())["include"]
    return found


def test_cases_that_share_a_build_share_a_job(tmp_path: Path) -> None:
    example = {"package": "p", "example": "e"}
    own = {"package": "p", "example": "dump_{case}"}
    lockfile(tmp_path, {"one": example, "two": example, "three": own, "four": {"command": ["x"]}})
    found = planned(tmp_path)
    assert [job["cases"].split() for job in found] == [
        ["one/a", "one/b", "one/c", "two/a", "two/b", "two/c"],
        ["three/a"],
        ["three/b"],
        ["three/c"],
        ["four/a", "four/b", "four/c"],
    ]
    assert found[0]["bundles"] == "one\ntwo"
    assert len({job["name"] for job in found}) == 5


def test_globs_and_bundles_choose(tmp_path: Path) -> None:
    lockfile(tmp_path, {"one": {"command": ["x"]}, "two": {"command": ["x"]}})
    (job,) = planned(tmp_path, "--case", "one/*", "--case", "!*/b")
    assert job["cases"].split() == ["one/a", "one/c"]
    with pytest.raises(ConfigError, match="no-such-case"):
        planned(tmp_path, "--case", "one/z")


def test_there_are_never_more_jobs_than_github_makes(tmp_path: Path) -> None:
    lock = lockfile(tmp_path, {"one": {"package": "p", "example": "d_{case}"}}, cases="abcdefg")
    assert len(planned(tmp_path)) == 7
    entry = prepare_bundle(
        load(lock).bundles[0], VerifyOptions(repo=tmp_path, lockfile=lock), RunConsole(), None
    )
    folded = build_jobs([entry], 3)
    assert len(folded) == 3
    named = [name for job in folded for name in job["cases"].split()]
    assert sorted(named) == [f"one/{letter}" for letter in "abcdefg"]
    assert MAX_JOBS == 256


def test_a_bundle_that_cannot_be_had_is_left_to_its_job(tmp_path: Path) -> None:
    lockfile(tmp_path, {"one": {"command": ["x"]}, "two": {"command": ["y"]}})
    (tmp_path / "two.tar").unlink()
    found = planned(tmp_path)
    assert [job["cases"].split() for job in found] == [["one/a", "one/b", "one/c"], ["two/*"]]


@pytest.mark.parametrize("name", [*REPORTS, "all verdicts"])
def test_a_report_is_read_back_as_it_was(name: str, tmp_path: Path) -> None:
    whole = mixed() if name == "all verdicts" else REPORTS[name]
    path = json_report.write_json(whole, 0, tmp_path)
    again = json_report.build_json(json_reader.load_report(path), 0)
    assert again == json.loads(path.read_bytes())


def test_a_margin_beyond_numbers_is_read_back(tmp_path: Path) -> None:
    source = Location(Path("a.rs"), 3)
    whole = make_report(make_bundle(make_case("x", margin=math.inf, source=source)))
    (found,) = json_reader.load_report(json_report.write_json(whole, 0, tmp_path)).cases
    assert (found.margin, found.source) == (math.inf, source)


BROKEN = {
    "no json": "{",
    "a list": "[]",
    "another schema": '{"schema": 99}',
    "no bundles": '{"schema": 1}',
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_report_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(BROKEN[name], encoding="utf-8")
    with pytest.raises(ConfigError, match="report-unreadable"):
        cli.run(["merge", str(tmp_path)])


def merged(tmp_path: Path, *reports: Report, plan: list[str] | None = None) -> tuple[int, Any]:
    for number, one in enumerate(reports):
        folder = tmp_path / f"job-{number}"
        folder.mkdir(parents=True)
        json_report.write_json(one, 0, folder)
    words = ["merge", str(tmp_path), "--report-dir", str(tmp_path / "out")]
    if plan is not None:
        told = [{"name": "n", "bundles": "b", "cases": "\n".join(plan)}]
        (tmp_path / "plan.json").write_text(json.dumps({"include": told}), encoding="utf-8")
        words += ["--plan", str(tmp_path / "plan.json")]
    code = cli.run(words)
    return code, json.loads((tmp_path / "out" / "report.json").read_bytes())


def test_parts_of_a_bundle_become_one(tmp_path: Path) -> None:
    one = make_report(make_bundle(make_case("x")), seconds=1.0)
    two = make_report(make_bundle(make_case("y", make_finding("values"))), seconds=2.0)
    code, value = merged(tmp_path, one, two, plan=["b/x", "b/y"])
    assert (code, value["failure_kind"], value["seconds"]) == (1, "mismatch", 3.0)
    (found,) = value["bundles"]
    assert [(c["id"], c["verdict"]) for c in found["cases"]] == [("x", "pass"), ("y", "fail")]


def test_a_job_that_never_reported_makes_it_red(tmp_path: Path) -> None:
    code, value = merged(
        tmp_path, make_report(make_bundle(make_case("x"))), plan=["b/x", "b/y", "c/*"]
    )
    assert code == 6
    (found,) = value["findings"]
    assert found["code"] == "shard-missing"
    assert "2 planned cases have no result" in found["message"]
    assert "b/y, c/*" in found["message"]


def test_a_bundle_that_failed_as_a_whole_is_not_missing_too(tmp_path: Path) -> None:
    absent = make_finding("http-not-found", kind="fetch")
    code, value = merged(tmp_path, make_report(make_bundle(findings=(absent,))), plan=["b/*"])
    assert code == 3
    assert [f["code"] for f in value["findings"]] == ["nothing-verified"]


def test_all_green_is_green_and_few_cases_are_counted_over_all_jobs(tmp_path: Path) -> None:
    few = make_finding("nothing-verified", kind="empty")
    skipped = make_report(
        make_bundle(make_case("x", verdict="skipped", reason="no control")), findings=(few,)
    )
    code, value = merged(
        tmp_path, make_report(make_bundle(make_case("y"))), skipped, plan=["b/x", "b/y"]
    )
    assert (code, value["findings"]) == (0, [])


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (
            make_report(make_bundle(make_case("x"))),
            make_report(make_bundle(make_case("x"))),
            "case 'x'",
        ),
        (
            make_report(make_bundle(sha256="0" * 64)),
            make_report(make_bundle(sha256="1" * 64)),
            "another digest",
        ),
        (make_report(), make_report(lock_sha256="1" * 64), "different lockfiles"),
    ],
)
def test_reports_that_do_not_go_together_are_refused(
    one: Report, other: Report, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=words):
        merged(tmp_path, one, other)


def test_no_report_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no report"):
        cli.run(["merge", str(tmp_path)])


def test_a_plan_that_is_none_is_refused(tmp_path: Path) -> None:
    json_report.write_json(make_report(make_bundle(make_case("x"))), 0, tmp_path)
    (tmp_path / "plan.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ConfigError, match="no plan that can be read"):
        cli.run(["merge", str(tmp_path), "--plan", str(tmp_path / "plan.json")])
