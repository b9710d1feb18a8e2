"""The session `ferrotorch`: which rows run, what is printed, and which exit code is returned."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("rows", ROOT / "tests/ports/ferrotorch/rows.py")
assert SPEC is not None
assert SPEC.loader is not None
rows = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(rows)


def make_report(*verdicts: str) -> dict[str, Any]:
    return {"bundles": [{"cases": [{"verdict": verdict} for verdict in verdicts]}]}


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """Bundles that were verified, with the words for `parity verify`; the first one fails."""
    calls: list[tuple[str, list[str]]] = []

    def verify(bundle: str, more: list[str]) -> tuple[int, dict[str, Any], float, float]:
        calls.append((bundle, more))
        code = 1 if len(calls) == 1 else 0
        return code, make_report("pass", "pass", "fail" if code else "pass"), 1.25, 8.5

    monkeypatch.setattr(rows, "verify", verify)
    return calls


def test_the_quick_rows(
    verified: list[tuple[str, list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert rows.main(["--offline"]) == 1
    assert [bundle for bundle, _ in verified] == [
        "dataloader-batches-v1",
        "serialize-upstream-v1",
        "autograd-parity-v1",
        "optimizer-trajectories-v1",
    ]
    assert {tuple(more) for _, more in verified} == {("--offline",)}
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["row", "check", "cases", "verdict", "seconds", "processor"]
    assert lines[2].split("  ")[1:3] == ["3", "the DataLoader against torch's"]
    assert lines[2].split()[-7:] == ["3", "2", "pass,", "1", "fail", "1.2", "8.5"]


def test_every_row(verified: list[tuple[str, list[str]]]) -> None:
    assert rows.main(["--all"]) == 1
    assert len(verified) >= 16
    assert all(more == [] for _, more in verified)


def test_verdicts_are_counted() -> None:
    assert rows.count_verdicts(make_report("pass", "fail", "pass")) == {"pass": 2, "fail": 1}
    assert rows.count_verdicts({}) == {}


@pytest.mark.parametrize("package", ["quick", "rest"])
def test_each_example_of_a_package_is_that_of_a_row(package: str) -> None:
    folder = ROOT / "tests/ports/ferrotorch/examples" / package
    manifest = tomllib.loads((folder / "Cargo.toml").read_text(encoding="utf-8"))
    lockfile = yaml.safe_load(rows.LOCKFILE.read_text(encoding="utf-8"))
    dumps = [bundle["dump"] for bundle in lockfile["bundles"].values()]
    chosen = [dump for dump in dumps if dump["package"] == manifest["package"]["name"]]
    examples = {
        part["example"]
        for dump in chosen
        for part in (dump, *dump.get("cases", {}).values())
        if "example" in part
    }
    assert {one["name"] for one in manifest["example"]} == examples
    assert {ROOT / dump["cwd"] for dump in chosen} == {folder}
