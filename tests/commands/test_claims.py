"""What a port claims to support: the rest is named and counted, and decides nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from parity.__main__ import run_command_line
from parity.github import step
from parity.lockfile import parse
from parity.reports.console import RunConsole
from parity.reports.markdown import escape_markdown
from parity.verify.bundle_states import format_lock_changes
from parity.verify.options import VerifyOptions
from parity.verify.prepare import prepare_bundle
from tests.action import consumer
from tests.support.manifests import ManifestBench

W = np.arange(12, dtype="<f4") + 1
MANIFEST = "schema: 2\ncases:\n  adam: {}\n  adam_fused: {}\n  sgd: {}\n"
IDS = ("adam", "adam_fused", "sgd")


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> ManifestBench:
    """A bundle of three cases, two of which the port does right."""
    references = {f"{name}/reference/w.npy": W for name in IDS}
    dumps = {f"{name}/w.npy": W + (name == "adam_fused") for name in IDS}
    return ManifestBench(tmp_path, capsys, references, dumps)


def claim(bench: ManifestBench, *globs: str, more: str = "") -> None:
    bench.more = f"    cases: {json.dumps(globs)}\n{more}"


def test_an_unclaimed_case_is_named_and_not_run(bench: ManifestBench) -> None:
    assert bench.verify(MANIFEST).code == 1
    claim(bench, "adam*", "!adam_fused")
    ran = bench.verify(MANIFEST, "--report-formats", "json,junit")
    assert ran.code == 0
    assert ran.verdicts == {"b/adam": "pass", "b/adam_fused": "skipped", "b/sgd": "skipped"}
    assert ran.out.splitlines()[-1] == "3 cases: 1 pass, 2 skipped, claimed 1 of 3 (exit 0)"
    (bundle,) = ran.report["bundles"]
    assert bundle["claims"] == {"claimed": 1, "of": 3}
    assert {case["reason"] for case in bundle["cases"]} == {"", "not claimed"}
    tree = ET.fromstring((bench.root / "report/junit.xml").read_text())  # noqa: S314 - ours
    assert [one.get("message") for one in tree.iter("skipped")] == ["skipped: not claimed"] * 2


def test_without_the_key_all_is_claimed(bench: ManifestBench) -> None:
    ran = bench.verify(MANIFEST)
    assert ran.report["bundles"][0]["claims"] is None
    assert "claimed" not in ran.out


def test_all_runs_the_rest_for_information(bench: ManifestBench) -> None:
    claim(bench, "adam")
    ran = bench.verify(MANIFEST, "--all")
    assert (ran.code, ran.verdicts["b/adam_fused"]) == (0, "skipped")
    (found,) = ran.list_findings("b/adam_fused")
    assert (found["level"], found["code"]) == ("notice", "values")
    assert found["message"].startswith("not claimed: w: 12 of 12 elements differ")
    reasons = {case["id"]: case["reason"] for case in ran.report["bundles"][0]["cases"]}
    assert reasons == {
        "adam": "",
        "adam_fused": "not claimed; the verdict would be fail",
        "sgd": "not claimed; the verdict would be pass",
    }


def test_min_cases_counts_claimed_cases_alone(bench: ManifestBench) -> None:
    claim(bench, "adam", "sgd")
    assert bench.verify(MANIFEST, "--min-cases", "2").code == 0
    assert bench.verify(MANIFEST, "--all", "--min-cases", "3").code == 6
    assert bench.verify(MANIFEST, "--case", "b/adam_fused").code == 6


NAN, ZEROS = np.full(3, np.nan, "<f4"), np.zeros(3, "<f4")
#: Outputs of two claimed cases, and the exit code where the port does them right.
CONSTANTS: dict[str, tuple[Any, Any, int]] = {
    "NaN": (NAN, NAN[:1], 6),
    "NaN and zeros": (NAN, ZEROS, 0),
    "zeros": (ZEROS, ZEROS[:2], 6),
    "one number that is no zero": (ZEROS + 2, ZEROS[:1] + 2, 0),
    "two numbers": (ZEROS, W, 0),
    "integers": (ZEROS.astype("<i8"), np.arange(2), 0),
}


@pytest.mark.parametrize(("first", "second", "code"), CONSTANTS.values(), ids=CONSTANTS)
def test_a_claim_of_one_value_is_no_pass(
    first: Any, second: Any, code: int, bench: ManifestBench
) -> None:
    claim(bench, "adam", "sgd")
    bench.references |= {"adam/reference/w.npy": first, "sgd/reference/w.npy": second}
    bench.dumps |= {"adam/w.npy": first, "sgd/w.npy": second}
    grouped = MANIFEST.replace("{}", "{group: g}")
    assert {bench.verify(one).code for one in (MANIFEST, grouped)} == {code}
    ran = bench.verify(grouped)
    assert {ran.verdicts["b/adam"], ran.verdicts["b/sgd"]} == {"skipped" if code else "pass"}
    assert ran.list_codes("b/adam") == ["no-control"] * bool(code)
    assert bench.verify(MANIFEST, "--case", "b/adam").verdicts["b/adam"] == "pass"


WRONG = {
    "a glob without a match": (("adam*", "rms*"), "", "'rms*' matches no case"),
    "an exclusion without a match": (("!rms*",), "", "'!rms*' matches no case"),
    "nothing is left": (("adam", "!adam"), "", "claims no case"),
    "a known failure of the rest": (
        ("adam",), '    known-failures: {adam_fused: "slow"}\n',
        "known failure 'adam_fused' is for adam_fused, which 'b' does not claim"),
    "a code of the rest": (
        ("adam",), '    known-failures: {"sgd:values": "slow"}\n', "is for sgd"),
}  # fmt: skip


@pytest.mark.parametrize(("globs", "more", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_claim_is_exit_2(
    globs: tuple[str, ...], more: str, message: str, bench: ManifestBench
) -> None:
    claim(bench, *globs, more=more)
    ((line, column, text),) = bench.list_problems(MANIFEST)
    assert message in text
    assert (line, column) == (9 if more else 8, 5)


def test_an_empty_list_and_schema_1_are_rejected(bench: ManifestBench) -> None:
    claim(bench)
    assert "claims nothing" in bench.verify(MANIFEST).err
    claim(bench, "adam")
    bench.schema = 1
    assert "cases of bundle 'b' needs schema: 2" in bench.verify("").err


def test_a_known_failure_of_a_claimed_case_beside_others_is_fine(bench: ManifestBench) -> None:
    claim(bench, "adam*", more='    known-failures: {"adam*": "slow"}\n')
    ran = bench.verify(MANIFEST)
    assert ran.verdicts["b/adam_fused"] == "known-failure"
    claim(bench, "adam", "sgd", more='    known-failures: {"a*:values": "slow"}\n')
    assert bench.verify(MANIFEST).list_codes("b") == ["known-failure-passes"]


def test_plan_splits_claimed_cases_alone_and_merge_keeps_the_claim(
    bench: ManifestBench, capsys: pytest.CaptureFixture[str]
) -> None:
    claim(bench, "adam", "sgd")
    bench.verify(MANIFEST)
    root, plan = str(bench.root), str(bench.root / "plan.json")
    assert run_command_line(["plan", "--repo", root, "--out", plan]) == 0
    jobs = json.loads((bench.root / "plan.json").read_text())["include"]
    assert [job["cases"].splitlines() for job in jobs] == [["b/adam", "b/sgd"]]
    capsys.readouterr()
    ran = bench.verify(MANIFEST, "--case", "b/adam", "--case", "b/sgd")
    assert ran.verdicts == {"b/adam": "pass", "b/sgd": "pass"}
    report = str(bench.root / "report")
    merged = ["merge", report, "--plan", plan, "--report-dir", str(bench.root / "merged")]
    assert run_command_line(merged) == 0
    assert "claimed 2 of 3" in capsys.readouterr().out


@pytest.mark.process
def test_what_is_checked_less_is_listed(
    bench: ManifestBench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "get_base_revision", lambda: "HEAD")
    claim(bench, "*", more="    bounds: {adam: {max_abs: 0.5}}\n")
    tolerant = MANIFEST.replace("cases:", "defaults: {tolerance: {max_abs: 1}}\ncases:")
    bench.verify(tolerant)
    lock = bench.root / "fixtures.lock.yaml"
    gone = "  gone: {source: b.tar, suite: tensors, dump: {command: [x]}}\n"
    lock.write_text(lock.read_text() + gone, encoding="utf-8")
    consumer.commit(bench.root)
    lock.write_text(lock.read_text().replace(gone, ""), encoding="utf-8")
    options, console = VerifyOptions(repo=bench.root, lockfile=lock), RunConsole()

    def list_changes() -> list[str]:
        (bundle,) = parse(lock, lock.read_bytes()).bundles
        entry = prepare_bundle(bundle, options, console, None)
        return format_lock_changes([entry], options, console)

    assert list_changes() == ["**gone**: not in the lockfile any more\n"]
    claim(bench, "adam*", more="    bounds: {adam: {max_abs: 0.75}}\n")
    bench.verify(f"# comment\n{tolerant}")
    expected = [
        "manifest checks.yaml changed: 1 line added, 0 removed",
        "1 case not claimed any more: sgd",
        "tolerance of adam widened: max_abs 0.5 → max_abs 0.75",
    ]
    lines = [f"**b**: {escape_markdown(line)}\n" for line in expected]
    assert list_changes() == ["**gone**: not in the lockfile any more\n", *lines]
    capsys.readouterr()
    assert run_command_line(["diff", "b", "--repo", str(bench.root)]) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == [f"  {line}" for line in expected]
    bench.references = {**bench.references, "adam/reference/w.npy": W + 1}
    bench.verify(tolerant.replace("  sgd: {}\n", ""))
    assert list_changes()[2:4] == lines[1:]
    (bench.root / "checks.yaml").write_text("schema: 2", encoding="utf-8")
    consumer.commit(bench.root)
    (bench.root / "checks.yaml").write_text(tolerant, encoding="utf-8")
    (line,) = [one for one in list_changes() if "compared" in one]
    assert "the checks cannot be compared: checks.yaml: cases must be an object" in line
    (bench.root / "checks.yaml").unlink()
    (bench.root / "checks.yaml").symlink_to("checks.yaml")
    assert run_command_line(["diff", "b", "--repo", str(bench.root)]) == 0
    assert "the checks cannot be compared: checks.yaml cannot be read" in capsys.readouterr().out
