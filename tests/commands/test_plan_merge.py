"""A matrix and its merge: nothing is planned twice, and nothing that was planned is forgotten."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.__main__ import run_command_line
from parity.cli import parser as cli
from parity.commands.plan import MAX_JOBS, build_jobs
from parity.errors import ConfigError, Location
from parity.lab.pins.tensors import pin
from parity.lockfile import load
from parity.reports import json as json_report
from parity.reports import json_file, json_reader
from parity.reports.console import RunConsole
from parity.results import BundleResult, CaseResult, Finding, Report, exit_code
from parity.tensors.bin import encode_tensor
from parity.verify.options import VerifyOptions
from parity.verify.prepare import prepare_bundle
from tests.reports.test_console import mixed
from tests.reports.test_json import REPORTS
from tests.support import reports
from tests.support.bundles import write_lockfile
from tests.support.reports import make_finding, make_report


def make_case(name: str, *findings: Finding, **more: Any) -> CaseResult:
    """A case as ``verify`` reports it: one that passes has compared something."""
    return reports.make_case(name, *findings, **{"compared": 6, **more})


def make_bundle(*cases: CaseResult, **more: Any) -> BundleResult:
    return reports.make_bundle(*cases, **{"sha256": "a" * 64, "tree": "b" * 64, **more})


def lockfile(folder: Path, dumps: dict[str, dict[str, Any]], cases: str = "abc") -> Path:
    """A lockfile of bundles with the cases named, each dumped as said."""
    bundles = {}
    for name, dump in dumps.items():
        for one in cases:
            reference = folder / name / one / "reference"
            reference.mkdir(parents=True)
            (reference / "w.bin").write_bytes(encode_tensor(np.zeros(2, np.float32)))
        reported = json.dumps({"schema": 1, "cases": {one: {"why": name} for one in cases}})
        (folder / name / "parity.json").write_text(reported, encoding="utf-8")
        tar = pin(folder, folder=folder / name)
        locked = {"sha256": f"sha256:{hashlib.sha256(tar.read_bytes()).hexdigest()}"}
        bundles[name] = {"source": tar.name, "dump": dump, "locked": locked}
    return write_lockfile(folder, bundles)


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


def test_a_known_failure_without_a_finite_error_is_merged(tmp_path: Path) -> None:
    """The report has the largest error as text, since JSON has no infinity."""
    allowed = make_finding("values", level="notice", message="known failure (#1): values")
    case = make_case(
        "x", allowed, verdict="known-failure", reason="#1", measures={"max_abs": math.inf}
    )
    code, value = merged(tmp_path, make_report(make_bundle(case)))
    assert code == 0
    assert value["bundles"][0]["cases"][0]["measures"]["max_abs"] == "inf"


ODD_MEASURES: dict[str, Any] = {
    "a largest error that is text": {"max_abs": "a"},
    "a largest error beyond every float": {"max_abs": 10**400},
    "a histogram of far decades": {"histogram": {"-4": 1, "4000000000": 1}},
    "a histogram of no decade": {"histogram": {"1_0": 1}},
    "a histogram of less than nothing": {"histogram": {"1": -1}},
    "a list as histogram": {"histogram": [1]},
    "a map of text": {"map": [["inf"]]},
    "a map of no rows": {"map": [1]},
    "a map of unequal rows": {"map": [[1], [1, 2]]},
    "a huge map": {"map": [[0] * 2000]},
}


@pytest.mark.parametrize("name", ODD_MEASURES)
def test_measures_that_no_report_can_show_are_rejected(name: str, tmp_path: Path) -> None:
    case = make_case("x", make_finding("values", measures=ODD_MEASURES[name]))
    json_report.write_json(make_report(make_bundle(case)), 1, tmp_path)
    words = ["merge", str(tmp_path), "--report-dir", str(tmp_path / "out"), "--report-formats"]
    with pytest.raises(ConfigError, match="report-unreadable"):
        cli.run([*words, "json,html"])


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
        json_report.write_json(one, exit_code(one), folder)
    words = ["merge", str(tmp_path), "--report-dir", str(tmp_path / "out")]
    if plan is not None:
        reported = [{"name": "n", "bundles": "b", "cases": "\n".join(plan)}]
        (tmp_path / "plan.json").write_text(json.dumps({"include": reported}), encoding="utf-8")
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
    assert "2 planned cases without a result" in found["message"]
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
    ("more", "code"), [({}, 6), ({"compared": 6}, 0), ({"measures": {"tensors": 0}}, 6)]
)
def test_known_failures_alone_in_all_jobs_prove_nothing(
    more: dict[str, Any], code: int, tmp_path: Path
) -> None:
    notice = make_finding("refused", "known failure (not yet): rejected", level="notice")
    known = make_case("x", notice, verdict="known-failure", reason="not yet", compared=0)
    jobs = [make_report(make_bundle(one)) for one in (known, replace(known, case="y", **more))]
    found, value = merged(tmp_path, *jobs, plan=["b/x", "b/y"])
    assert (found, [one["code"] for one in value["findings"]]) == (
        code,
        ["nothing-verified"] * (code == 6),
    )


@pytest.mark.parametrize(
    ("more", "codes"),
    [
        ({"verdict": "skipped", "reason": "no-control"}, ["bundle-not-compared"]),
        ({"verdict": "known-failure", "reason": "not yet"}, ["bundle-not-compared"]),
        ({"reason": "the reference has no elements"}, ["bundle-not-compared"]),
        ({"verdict": "known-failure", "reason": "not yet", "compared": 6}, []),
        ({"expect": "refuse", "outcome": "refused"}, []),
    ],
)
def test_a_bundle_of_which_nothing_was_compared_is_named(
    more: dict[str, Any], codes: list[str], tmp_path: Path
) -> None:
    notice = make_finding("refused", "known failure (not yet): rejected", level="notice")
    idle = make_case("x", notice, **{"compared": 0, "bundle": "c", **more})
    bundles = make_bundle(make_case("y")), make_bundle(idle, bundle="c")
    code, value = merged(tmp_path, *map(make_report, bundles), plan=["b/y", "c/x"])
    assert (code, [one["code"] for one in value["findings"]]) == (0, codes)
    assert all("nothing of c was compared" in one["message"] for one in value["findings"])


CONTRADICTIONS = {
    "a case twice": (make_report(make_bundle(make_case("x"))), "case 'x' of bundle 'b'"),
    "another digest": (make_report(make_bundle(make_case("y"), sha256="1" * 64)), "digest"),
    "another suite": (make_report(make_bundle(make_case("y"), suite="pipeline")), "suite"),
    "another tree": (make_report(make_bundle(make_case("y"), tree="1" * 64)), "another tree"),
    "another lockfile": (
        make_report(make_bundle(make_case("y")), lock_sha256="1" * 64),
        "another lockfile",
    ),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_reports_that_contradict_each_other_are_not_merged(name: str, tmp_path: Path) -> None:
    other, words = CONTRADICTIONS[name]
    code, value = merged(tmp_path, make_report(make_bundle(make_case("x"))), other)
    assert code == 2
    (found,) = value["findings"]
    assert (found["code"], found["kind"]) == ("reports-differ", "config")
    assert words in found["message"]
    assert [case["id"] for bundle in value["bundles"] for case in bundle["cases"]] == ["x"]


def write_plan(path: Path, cases: list[str], **more: Any) -> Path:
    jobs = [{"name": "n", "bundles": "b", "cases": "\n".join(cases)}]
    path.write_text(json.dumps({"include": jobs, **more}), encoding="utf-8")
    return path


PLANNED = {
    "a case": ({"cases": ["b/y"]}, "not planned: b/x"),
    "a bundle": ({"cases": ["c/x"]}, "not planned: b, b/x"),
    "a lockfile": ({"cases": ["b/x"], "lock_sha256": "1" * 64}, "another lockfile"),
    "a version": ({"cases": ["b/x"], "version": "0.0"}, "not 0.0"),
    "a suite": (
        {"cases": ["b/x"], "bundles": {"b": {"suite": "pipeline", "digest": "", "tree": ""}}},
        "another suite than planned",
    ),
    "a digest": (
        {"cases": ["b/x"], "bundles": {"b": {"suite": "", "digest": "1" * 64, "tree": ""}}},
        "another digest than planned",
    ),
    "a tree": (
        {"cases": ["b/x"], "bundles": {"b": {"suite": "", "digest": "", "tree": "1" * 64}}},
        "another tree than planned",
    ),
}


@pytest.mark.parametrize("name", PLANNED)
def test_a_report_that_contradicts_its_plan_is_rejected(name: str, tmp_path: Path) -> None:
    plan, words = PLANNED[name]
    json_report.write_json(make_report(make_bundle(make_case("x"))), 0, tmp_path)
    path = write_plan(tmp_path / "plan.json", **plan)
    with pytest.raises(ConfigError) as caught:
        cli.run(["merge", str(tmp_path), "--plan", str(path)])
    assert words in str(caught.value)


def change(text: str, value: Any) -> Callable[[Any], None]:
    """A change of one leaf of a report: keys and indices, separated by dots."""

    def apply(report: Any) -> None:
        *path, last = [int(key) if key.isdecimal() else key for key in text.split(".")]
        for key in path:
            report = report[key]
        report[last] = value

    return apply


def change_all(values: dict[str, Any]) -> Callable[[Any], None]:
    """Several changes, for a report that agrees with itself but for one thing."""

    def apply(report: Any) -> None:
        for text, value in values.items():
            change(text, value)(report)

    return apply


CASE, RED = "bundles.0.cases.0", "bundles.0.cases.1"
GREEN = {"exit_code": 0, "failure_kind": None}
EXCUSED = "but its findings have errors"
#: What is changed in a report, and why it is rejected.
FORGED: dict[str, tuple[Callable[[Any], None], str]] = {
    "a fail without findings": (change(f"{RED}.findings", []), "'fail', but its findings give"),
    "a pass with an error": (change(f"{RED}.verdict", "pass"), "'pass', but its findings give"),
    "a skipped case with an error": (change(f"{RED}.verdict", "skipped"), EXCUSED),
    "a known failure with an error": (change(f"{RED}.verdict", "known-failure"), EXCUSED),
    "a skipped case with an error, and all else to match": (change_all({f"{RED}.verdict": "skipped",
        f"{RED}.reason": "no control", **GREEN}), EXCUSED),
    "a known failure that nothing allows": (change_all({f"{CASE}.verdict": "known-failure",
        f"{CASE}.reason": "it is known"}), "'known-failure' without a reason"),
    "an error that is a mismatch": (change(f"{RED}.verdict", "error"), "'error', but its findings"),
    "a fail without an error": (change(f"{CASE}.verdict", "fail"), "'fail', but its findings give"),
    "a skipped case without a reason": (change(f"{CASE}.verdict", "skipped"),
        "'skipped' without a reason"),
    "an exit code that is none": (change("exit_code", 70), "70 is not one of"),
    "another exit code": (change("exit_code", 0), "exit code 0, but its findings give 1"),
    "another kind": (change("failure_kind", None), "failure kind None, but its findings give"),
    "nothing compared": (change(f"{CASE}.compared", 0), "but no element was compared"),
    "less than nothing compared": (change(f"{CASE}.compared", -6), "obtained -6"),
    "compared as a truth": (change(f"{CASE}.compared", True), "obtained True"),
    "a case twice": (
        lambda report: report["bundles"][0]["cases"].append(report["bundles"][0]["cases"][0]),
        "case 'x' twice",
    ),
    "a bundle twice": (lambda report: report["bundles"].append(report["bundles"][0]),
        "bundle 'b' twice"),
    "no tree": (change("bundles.0.tree", None), "but no digest of its files"),
    "an outcome that was not expected": (change(f"{CASE}.outcome", "refused"), "expects 'nothing'"),
    "an expectation that was not met": (change(f"{CASE}.expect", "refuse"), "is not 'refuse'"),
}  # fmt: skip


def make_red_report() -> Report:
    cases = make_case("x"), make_case("y", make_finding("values"))
    return make_report(make_bundle(*cases), environment={"parity": "1"})


@pytest.mark.parametrize("name", FORGED)
def test_a_report_that_contradicts_itself_is_rejected(name: str, tmp_path: Path) -> None:
    path = json_report.write_json(make_red_report(), 1, tmp_path)
    report = json.loads(path.read_bytes())
    forge, words = FORGED[name]
    forge(report)
    path.write_text(json.dumps(report), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        cli.run(["merge", str(tmp_path)])
    assert {problem.code for problem in caught.value.problems} <= {
        "report-contradiction",
        "report-unreadable",
    }
    assert words in str(caught.value)


#: Values that replace each leaf of a report, one after the other.
ODD: list[Any] = [None, True, -1, 1.5, "", "x", "nan", [], {}, [None], {"a": None}, 10**30, "\0"]


def list_leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    for key, one in items:
        yield from list_leaves(one, (*path, key))


def test_no_changed_leaf_ends_a_merge_with_a_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = json_report.write_json(make_red_report(), 1, tmp_path)
    text = path.read_bytes()
    codes = set()
    leaves = [leaf for leaf in list_leaves(json.loads(text)) if leaf]
    for leaf in leaves:
        for odd in ODD:
            report = json.loads(text)
            target = report
            for key in leaf[:-1]:
                target = target[key]
            target[leaf[-1]] = odd
            path.write_text(json.dumps(report), encoding="utf-8")
            code = run_command_line(["merge", str(tmp_path)])
            assert code in (1, 2), (leaf, odd, code, capsys.readouterr())
            codes.add(code)
    assert codes == {1, 2}
    assert len(leaves) * len(ODD) > 500


def _repeat_key(text: str) -> str:
    return text.replace('"schema":', '"schema": 1, "schema":', 1)


#: What is in place of a report, and why it is rejected; texts are changes of a whole report.
FILES: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "a link": (lambda path, real: path.symlink_to(real), "is not a regular file"),
    "a pipe": (lambda path, _real: os.mkfifo(path), "is not a regular file"),
    "a folder": (lambda path, _real: path.mkdir(), "is not a regular file"),
    "deep nesting": (
        lambda path, _real: path.write_text("[" * 100_000, encoding="utf-8"),
        "is nested too deeply",
    ),
    "a key twice": (
        lambda path, real: path.write_text(_repeat_key(real.read_text("utf-8")), "utf-8"),
        "has a key twice",
    ),
    "a number that is none": (
        lambda path, real: path.write_text(f"[NaN, {real.read_text('utf-8')}]", "utf-8"),
        "has NaN, which is not JSON",
    ),
    "too large": (
        lambda path, real: path.write_bytes(real.read_bytes() + b" " * json_file.MAX_BYTES),
        "bytes, at most 20,000 are read",
    ),
}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.parametrize("name", FILES)
def test_only_regular_files_of_json_are_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, words = FILES[name]
    real = json_report.write_json(make_report(make_bundle(make_case("x"))), 0, tmp_path)
    folder = tmp_path / "job"
    folder.mkdir()
    if name == "too large":
        monkeypatch.setattr(json_file, "MAX_BYTES", 20_000)
    put(folder / "report.json", real)
    with pytest.raises(ConfigError, match="report-unreadable") as caught:
        cli.run(["merge", str(folder)])
    assert words in str(caught.value)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such links for every user")
def test_a_folder_behind_a_link_is_not_searched(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    json_report.write_json(make_report(make_bundle(make_case("y"))), 0, elsewhere)
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "job-y").symlink_to(elsewhere, target_is_directory=True)
    code, _ = merged(jobs, make_report(make_bundle(make_case("x"))), plan=["b/x", "b/y"])
    assert code == 6


def test_a_port_s_files_are_neither_reports_nor_plans(tmp_path: Path) -> None:
    dump = tmp_path / "job" / "dumps" / "b" / "y"
    dump.mkdir(parents=True)
    json_report.write_json(make_report(make_bundle(make_case("y"))), 0, dump)
    code, value = merged(tmp_path, make_report(make_bundle(make_case("x"))), plan=["b/x", "b/y"])
    assert code == 6
    assert [found["code"] for found in value["findings"]] == ["shard-missing"]


def test_no_report_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no report"):
        cli.run(["merge", str(tmp_path)])


def test_a_plan_that_is_none_is_refused(tmp_path: Path) -> None:
    json_report.write_json(make_report(make_bundle(make_case("x"))), 0, tmp_path)
    (tmp_path / "plan.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ConfigError, match="is not a valid plan"):
        cli.run(["merge", str(tmp_path), "--plan", str(tmp_path / "plan.json")])
