"""report.json: strict JSON of a fixed form, whole or not there, whatever a run has found."""

from __future__ import annotations

import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from parity.cli import parser as cli
from parity.errors import EXIT_CODES, Location
from parity.reports import json as json_report
from parity.results import Report
from tests.reports.test_console import mixed, passing
from tests.support.bundles import lock_bundle, unpack
from tests.support.reports import (
    HOSTILE,
    make_bundle,
    make_case,
    make_finding,
    make_report,
    make_trace,
)

SCHEMA = json.loads(files("parity").joinpath("schemas", "report.schema.json").read_bytes())
VALIDATOR = Draft202012Validator(SCHEMA)
DIGEST = "a1" * 32
BUNDLE = "dataloader-batches-v1"


def rich_finding() -> Report:
    found = make_finding(
        "values",
        "w differs",
        tensor="w",
        index=(np.int64(3), 1),
        expected="1.25",
        obtained="nan",
        measures={"max_abs": math.nan, "ulp": np.int64(7), "first": [np.float32(0.5), math.inf]},
        cause="columns",
        where=Location(Path("a/b.rs"), 3, None),
        details=("one", "two"),
        rule="README, Format",
    )
    whole = make_bundle(
        make_case("x", found, margin=math.inf, compared=4, seconds={"dump": 0.1234567891}),
        sha256=DIGEST,
        tree=DIGEST,
        port={"package": "p 0.1.0", "commit": "abc"},
        seconds={"fetch": 0.5},
    )
    return make_report(
        whole,
        environment={"python": "3.11.9"},
        seconds=1.23456,
        findings=(make_finding("nothing-verified", kind="empty"),),
    )


REPORTS = {
    "nothing": make_report(),
    "passing": passing(),
    "mixed": mixed(),
    "rich": rich_finding(),
    "trace": make_report(make_bundle(make_trace(0.0, None, math.inf, 0.5, first=2))),
    "hostile": make_report(
        make_bundle(make_case(HOSTILE, make_finding(message=HOSTILE)), bundle=HOSTILE)
    ),
}


def read(path: Path) -> Any:
    def constant(word: str) -> Any:
        raise AssertionError(word)

    return json.loads(path.read_bytes(), parse_constant=constant)


@pytest.mark.parametrize("name", REPORTS)
def test_report_matches_its_schema(name: str, tmp_path: Path) -> None:
    code = EXIT_CODES.get(REPORTS[name].failure_kind, 0)  # type: ignore[arg-type]
    value = read(json_report.write_json(REPORTS[name], code, tmp_path))
    assert [error.message for error in VALIDATOR.iter_errors(value)] == []


def test_every_finding_is_in_the_report(tmp_path: Path) -> None:
    value = read(json_report.write_json(rich_finding(), 1, tmp_path))
    assert value["schema"] == 1
    assert value["tool"]["name"] == "parity-action"
    assert (value["exit_code"], value["failure_kind"]) == (1, "mismatch")
    assert value["lockfile"] == {"path": "fixtures.lock.yaml", "sha256": "0" * 64}
    assert value["environment"] == {"python": "3.11.9"}
    assert value["seconds"] == 1.235
    (found,) = value["bundles"]
    assert (found["id"], found["suite"], found["sha256"]) == ("b", "tensors", DIGEST)
    assert (found["tree"], found["port"]) == (DIGEST, {"package": "p 0.1.0", "commit": "abc"})
    assert found["seconds"] == {"fetch": 0.5}
    (result,) = found["cases"]
    assert (result["id"], result["verdict"], result["compared"]) == ("x", "fail", 4)
    assert (result["margin"], result["seconds"]) == ("inf", {"dump": 0.123457})
    assert result["findings"] == [
        {
            "level": "error",
            "code": "values",
            "message": "w differs",
            "kind": "mismatch",
            "tensor": "w",
            "index": [3, 1],
            "expected": "1.25",
            "obtained": "nan",
            "measures": {"max_abs": "nan", "ulp": 7, "first": [0.5, "inf"]},
            "cause": "columns",
            "where": {"path": "a/b.rs", "line": 3, "column": None},
            "details": ["one", "two"],
            "rule": "README, Format",
        }
    ]


def test_foreign_text_is_kept_unchanged(tmp_path: Path) -> None:
    value = read(json_report.write_json(REPORTS["hostile"], 1, tmp_path))
    assert value["bundles"][0]["id"] == HOSTILE
    assert value["bundles"][0]["cases"][0]["findings"][0]["message"] == HOSTILE


@pytest.mark.parametrize("text", ["\ud800", "\\\ud800", "\udc80x", "a\x00b", "\u2028", "😀"])
def test_any_character_can_be_written(text: str, tmp_path: Path) -> None:
    whole = make_report(
        make_bundle(make_case("x", make_finding(message=text, measures={text: text})))
    )
    value = read(json_report.write_json(whole, 1, tmp_path))
    found = value["bundles"][0]["cases"][0]["findings"][0]
    assert (found["message"], found["measures"]) == (text, {text: text})


def test_measure_of_unexpected_type_can_be_written(tmp_path: Path) -> None:
    measures = {"dtype": np.dtype("float32"), "set": {1}, "complex": 1j, "nan": np.float32("nan")}
    whole = make_report(make_bundle(make_case("x", measures=measures)))
    value = read(json_report.write_json(whole, 0, tmp_path))
    assert value["bundles"][0]["cases"][0]["measures"] == {
        "dtype": "float32",
        "set": "{1}",
        "complex": "1j",
        "nan": "nan",
    }
    assert VALIDATOR.is_valid(value)


def test_earlier_report_is_replaced_completely(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("{old", encoding="utf-8")
    json_report.write_json(passing(), 0, tmp_path)
    assert read(tmp_path / "report.json")["exit_code"] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_full_disk_keeps_the_earlier_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "report.json").write_text("{}", encoding="utf-8")

    def full(_fd: int, _flags: object = None, *_more: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("parity.store.disk.os.open", full)
    with pytest.raises(OSError, match="No space"):
        json_report.write_json(passing(), 0, tmp_path)
    assert (tmp_path / "report.json").read_text(encoding="utf-8") == "{}"


def verified(tmp_path: Path, *more: str, spoil: bool, known: str = "") -> tuple[int, Any]:
    """Exit code and report of a whole run over ready dumps, which are the references."""
    dumps = tmp_path / "dumps"
    for path in unpack(BUNDLE, dumps / BUNDLE).rglob("*.json"):
        path.unlink()
    if spoil:
        last = max(dumps.rglob("*.bin"))
        last.write_bytes(last.read_bytes() + b"more")
    lock_bundle(
        tmp_path, BUNDLE, "dataloader", **{"known-failures": {known: "#1"} if known else {}}
    )
    folders = ["--repo", tmp_path, "--dumps", dumps, "--report-dir", tmp_path / "out"]
    code = cli.run(["verify", *map(str, folders), *more])
    value = read(tmp_path / "out" / "report.json")
    assert [error.message for error in VALIDATOR.iter_errors(value)] == []
    assert value["exit_code"] == code
    return code, value


def test_report_of_a_passing_run_matches_the_schema(tmp_path: Path) -> None:
    code, value = verified(tmp_path, spoil=False)
    assert (code, value["failure_kind"]) == (0, None)
    assert {case["verdict"] for case in value["bundles"][0]["cases"]} == {"pass"}


def test_report_of_a_failing_run_matches_the_schema(tmp_path: Path) -> None:
    code, value = verified(tmp_path, spoil=True)
    assert (code, value["failure_kind"]) == (5, "dump")
    codes = [f["code"] for case in value["bundles"][0]["cases"] for f in case["findings"]]
    assert codes == ["trailing-bytes"]


def test_known_failure_is_allowed_and_reported(tmp_path: Path) -> None:
    code, value = verified(tmp_path, spoil=True, known="*:trailing-bytes")
    assert (code, value["failure_kind"]) == (0, None)
    verdicts = sorted(case["verdict"] for case in value["bundles"][0]["cases"])
    assert verdicts[0] == "known-failure"
    assert set(verdicts[1:]) == {"pass"}


def test_known_failure_glob_without_match_fails(tmp_path: Path) -> None:
    code, value = verified(tmp_path, spoil=False, known="*:trailing-bytes")
    assert (code, value["failure_kind"]) == (1, "mismatch")
    assert [f["code"] for f in value["bundles"][0]["findings"]] == ["known-failure-passes"]


def test_run_of_one_case_reports_no_stale_glob(tmp_path: Path) -> None:
    code, value = verified(
        tmp_path, "--case", "*/sequential", spoil=False, known="*:trailing-bytes"
    )
    assert (code, len(value["bundles"][0]["cases"])) == (0, 1)


SPOILED: dict[str, Any] = {
    "a key less": lambda value: value.pop("seconds"),
    "another schema": lambda value: value.update(schema=2),
    "an exit code that there is not": lambda value: value.update(exit_code=8),
    "a kind that there is not": lambda value: value.update(failure_kind="other"),
    "a verdict that there is not": lambda v: v["bundles"][0]["cases"][0].update(verdict="ok"),
    "a level that there is not": lambda value: value["findings"][0].update(level="info"),
    "a code in capitals": lambda value: value["findings"][0].update(code="Values"),
    "a short digest": lambda value: value["bundles"][0].update(sha256="a1"),
    "a line of zero": lambda v: v["bundles"][0]["cases"][0]["findings"][0]["where"].update(line=0),
    "an index of fractions": lambda value: value["findings"][0].update(index=[0.5]),
    "negative seconds": lambda value: value.update(seconds=-1),
}


@pytest.mark.parametrize("name", SPOILED)
def test_schema_rejects_wrong_types(name: str) -> None:
    value = json.loads(json.dumps(json_report.build_json(rich_finding(), 1)))
    assert VALIDATOR.is_valid(value)
    SPOILED[name](value)
    assert not VALIDATOR.is_valid(value)


def test_every_key_of_the_schema_is_required() -> None:
    # Measures depend on the suite; a row of `growth` has all its keys.
    kinds = [kind for name, kind in SCHEMA["$defs"].items() if name != "measures"]
    kinds.append(SCHEMA["$defs"]["measures"]["properties"]["growth"]["items"])
    kinds = [SCHEMA, *(kind for kind in kinds if "properties" in kind)]
    for kind in kinds:
        assert kind["required"] == list(kind["properties"])


def test_schema_allows_keys_of_later_versions() -> None:
    value = json.loads(json.dumps(json_report.build_json(rich_finding(), 1)))
    for part in (value, value["bundles"][0], value["bundles"][0]["cases"][0], value["findings"][0]):
        part["of_a_later_version"] = 1
    assert VALIDATOR.is_valid(value)
