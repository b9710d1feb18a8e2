"""Reference readers as columns: evaluated as ports are, and compared with the bundle's record."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from parity.__main__ import run_command_line
from parity.commands.audit import clear_reports, write_reports
from parity.errors import ConfigError, ReferenceSuspectError
from parity.lab import readers
from parity.lab.audits import isolated
from parity.lab.readers import ReaderResult
from parity.lab.readers.child import write_tensors as dump
from parity.lab.zoo import reader_results
from parity.lab.zoo.reader_results import ReaderResults
from parity.lockfile import Bundle, Dump, Lockfile
from parity.reports import json_reader
from parity.reports.console import RunConsole
from parity.store.store import FetchedBundle
from tests.support.trees import encode_json, write_tree
from tests.support.zoo import W, make_reference

RIGHT = {"w": ("F32", (2, 3), W.tobytes())}
WRONG = {"w": ("F32", (2, 3), (W + 1).tobytes())}
PART: dict[str, Any] = {}

# --- disagreements ------------------------------------------------------------------------------

APART = "torch with weights_only rejects it, torch without weights_only"
BOTH = f"{APART} reads it"


@pytest.mark.parametrize(
    ("expect", "outcomes", "disputed", "expected"),
    [
        ("load", {"torch": "loaded", "torch-full": "loaded"}, False, ""),
        ("load", {"torch": "refused", "torch-full": "loaded"}, False, f"{BOTH}; rule 1"),
        ("load", {"gguf-py": "crashed"}, False, "gguf-py crashes on it; rule 1"),
        ("load", {"torch": "refused"}, False, "torch with weights_only rejects it; rule 1"),
        ("refuse", {"gguf-py": "refused"}, False, ""),
        ("refuse", {"safetensors": "loaded"}, False, "safetensors accepts it, against rule 1"),
        ("refuse", {"gguf-py": "limit"}, False,
            "gguf-py runs out of time or memory on it; it must be rejected: rule 1"),
        ("refuse", {"torch": "refused", "torch-full": "limit"}, False,
            f"{APART} runs out of time or memory on it; it must be rejected: rule 1"),
        ("either", {"torch": "loaded", "torch-full": "loaded"}, False, ""),
        ("either", {"torch": "refused", "torch-full": "refused"}, False,
            "torch rejects it; rule 1"),
        ("either", {"torch": "refused", "torch-full": "loaded"}, False, f"{BOTH}; rule 1"),
        ("either", {"gguf-py": "loaded"}, True, "gguf-py reads it, against rule 1"),
        ("either", {}, False, ""),
        ("either", {"gguf-py": "another word"}, False, "gguf-py another word; rule 1"),
    ],
)  # fmt: skip
def test_a_disagreement_is_explained(
    expect: str, outcomes: dict[str, str], disputed: bool, expected: str
) -> None:
    assert (
        reader_results.explain_disagreement(expect, "rule 1", outcomes, disputed=disputed)
        == expected
    )


def test_a_disagreement_without_a_rule_names_the_readers_alone() -> None:
    assert (
        reader_results.explain_disagreement("refuse", "", {"gguf-py": "loaded"})
        == "gguf-py accepts it"
    )


# --- results ------------------------------------------------------------------------------------


class Zoo:
    """A bundle of GGUF cases, the result of its reader for each, and the recorded outcomes."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.monkeypatch = monkeypatch
        self.cases: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, tuple[ReaderResult, Mapping[str, Any] | None]] = {}
        self.recorded: dict[str, dict[str, str]] = {}
        self.more: dict[str, Any] = {"versions": {"gguf": "0.1.0"}}
        self.case("y-good", "load", ReaderResult("loaded"), RIGHT, "loaded")

    def case(
        self,
        name: str,
        expect: str,
        answer: ReaderResult,
        tensors: Mapping[str, Any] | None = None,
        recorded: str = "",
    ) -> None:
        self.cases[name] = {"expect": expect, "checkpoint": "c.gguf", "group": "gguf", "rule": "R"}
        self.answers[name] = (answer, tensors)
        if recorded:
            self.recorded[name] = {"gguf-py": recorded}

    def _ask(self, _reader: str, files: Mapping[str, Path], out: Path) -> dict[str, ReaderResult]:
        for name in files:
            if tensors := self.answers[name][1]:
                dump(dict(tensors), out / name)
        return {name: self.answers[name][0] for name in files}

    def fetched(self) -> FetchedBundle:
        files = {f"{name}/c.gguf": b"" for name in self.cases}
        for name, entry in self.cases.items():
            if entry["expect"] != "refuse":
                files[f"{name}/reference/r.safetensors"] = make_reference()
        files["parity.json"] = encode_json({"schema": 1, "cases": self.cases})
        if self.recorded:
            files["readers.json"] = encode_json({**self.more, "cases": self.recorded})
        return FetchedBundle(
            path=write_tree(self.root, files), sha256="a" * 64, tree="b" * 64, cached=True
        )

    def column(self, **bundle: Any) -> ReaderResults:
        self.monkeypatch.setattr(readers, "read_files", self._ask)
        self.monkeypatch.setattr(reader_results, "find_version", lambda _name: "0.2.0")
        entry = Bundle(id="zoo", source="z.tar", suite="tensors", dump=Dump(), **bundle)
        (column,) = reader_results.collect_reader_results(
            entry, self.fetched(), "python -m parity audit zoo"
        )
        return column


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Zoo:
    return Zoo(tmp_path / "zoo", monkeypatch)


LIMIT, OUT, CRASH = (
    ReaderResult("limit", "time"),
    ReaderResult("limit", "memory"),
    ReaderResult("crashed", "SIGSEGV"),
)
REFUSED, LOADED = ReaderResult("refused", "ValueError: no"), ReaderResult("loaded")


@pytest.mark.parametrize(
    ("expect", "answer", "recorded", "expected"),
    [
        ("load", (LOADED, RIGHT), "loaded", ("right", "pass")),
        ("load", (LOADED, RIGHT), "", ("right", "pass")),
        ("load", (REFUSED, None), "refused", ("refused", "known-failure")),
        ("load", (REFUSED, None), "", ("refused", "known-failure")),
        ("load", (REFUSED, None), "loaded", ("refused", "fail")),
        ("load", (LOADED, WRONG), "loaded", ("wrong", "fail")),
        ("load", (LOADED, PART), "loaded", ("partial", "fail")),
        ("load", (ReaderResult("loaded", "KeyError: x"), None), "loaded", ("", "skipped")),
        ("refuse", (REFUSED, None), "refused", ("refused", "pass")),
        ("refuse", (ReaderResult("refused"), None), "refused", ("crashed", "known-failure")),
        ("refuse", (LOADED, RIGHT), "loaded", ("accepted", "known-failure")),
        ("refuse", (LOADED, RIGHT), "refused", ("accepted", "fail")),
        (
            "refuse",
            (ReaderResult("loaded", "KeyError: x"), None),
            "loaded",
            ("accepted", "known-failure"),
        ),
        ("refuse", (LIMIT, None), "limit", ("hung", "known-failure")),
        ("refuse", (OUT, None), "limit", ("out-of-memory", "known-failure")),
        ("refuse", (OUT, None), "refused", ("out-of-memory", "fail")),
        ("refuse", (CRASH, None), "crashed", ("crashed", "known-failure")),
        ("either", (REFUSED, None), "refused", ("refused", "pass")),
        ("either", (LOADED, RIGHT), "loaded", ("right", "pass")),
        ("either", (LOADED, WRONG), "loaded", ("wrong", "fail")),
    ],
)
def test_a_reader_is_evaluated_as_a_port(
    zoo: Zoo,
    expect: str,
    answer: tuple[ReaderResult, Mapping[str, Any] | None],
    recorded: str,
    expected: tuple[str, str],
) -> None:
    zoo.case("x", expect, *answer, recorded)

    found = {case.case: case for case in zoo.column().cases}["x"]

    assert (found.outcome, found.verdict) == expected
    assert (found.expect, found.group) == (expect, "gguf")
    assert found.command == "python -m parity audit zoo"


def test_options_of_the_port_do_not_apply_to_a_reader(zoo: Zoo) -> None:
    column = zoo.column(
        options={"gguf-dims": "logical"},
        known_failures={"y-good:right": "x"},
        bounds={"y-good": {"exact": 1.0}},
    )
    assert [case.verdict for case in column.cases] == ["pass"]


def test_a_column_describes_its_reader(zoo: Zoo) -> None:
    zoo.case("n", "refuse", LOADED, RIGHT, "loaded")
    column = zoo.column()
    assert column.port == {
        "reader": "gguf-py",
        "version": "0.2.0",
        "call": "gguf.GGUFReader, gguf.quants.dequantize",
    }
    assert column.summary == "gguf-py 0.2.0 over 2 cases: 1 right, 1 accepted"
    (note,) = [one for one in column.cases[1].findings if one.code == "disputed"]
    assert (note.level, note.message) == ("notice", "gguf-py accepts it, against R")
    assert column.cases[1].reason == "gguf-py accepts it, against R"


def test_the_record_explains_the_other_reader_of_a_library(zoo: Zoo) -> None:
    zoo.case("i", "either", LOADED, RIGHT, "loaded")
    zoo.recorded["i"]["torch-full"] = "refused"
    zoo.more["against"] = ["i"]

    found = zoo.column().cases[1].findings

    message = "gguf-py reads it, torch without weights_only rejects it, against R"
    assert [one.message for one in found] == [message]


DRIFT = (
    "gguf-py 0.2.0 reads n, but the bundle records that gguf-py 0.1.0 rejects it: the reference "
    "reader has changed, not a port"
)


def test_another_outcome_than_the_recorded_one_is_drift(zoo: Zoo) -> None:
    zoo.case("n", "refuse", LOADED, RIGHT, "refused")

    (finding,) = zoo.column().drift

    assert (finding.level, finding.kind, finding.code) == ("error", "reference", "reader-drift")
    assert finding.message == DRIFT


def test_a_reader_that_improved_is_drift_too(zoo: Zoo) -> None:
    zoo.case("y", "load", LOADED, RIGHT, "refused")
    column = zoo.column()
    assert [case.verdict for case in column.cases] == ["pass", "pass"]
    assert [one.code for one in column.drift] == ["reader-drift"]


def test_a_bundle_without_a_record_has_no_drift(zoo: Zoo) -> None:
    zoo.recorded.clear()
    zoo.case("n", "refuse", LOADED, RIGHT)
    column = zoo.column()
    assert column.drift == ()
    assert [case.verdict for case in column.cases] == ["pass", "known-failure"]


def test_a_reader_that_does_not_start_is_an_error_of_the_audit(zoo: Zoo) -> None:
    def broken(*_words: object) -> None:
        raise RuntimeError

    zoo._ask = broken  # type: ignore[assignment,method-assign]
    with pytest.raises(ReferenceSuspectError, match="audit-crashed"):
        zoo.column()


@pytest.mark.parametrize(
    ("suite", "entry"),
    [
        ("serialize", {"expect": "refuse", "checkpoint": "c.gguf"}),
        ("tensors", {"checkpoint": "c.gguf"}),  # states no expectation
        ("tensors", {"expect": "load"}),
        ("tensors", {"expect": "refuse", "checkpoint": "c.onnx"}),
    ],
    ids=str,
)
def test_cases_without_a_reader_are_left_out(
    tmp_path: Path, suite: str, entry: dict[str, Any]
) -> None:
    files = {
        "parity.json": encode_json({"schema": 1, "cases": {"a": entry}}),
        "a/reference/r.safetensors": make_reference(),
        "a/c.gguf": b"",
        "a/c.onnx": b"",
    }
    fetched = FetchedBundle(path=write_tree(tmp_path, files), sha256="", tree="", cached=True)
    bundle = Bundle(id="zoo", source="z.tar", suite=suite, dump=Dump())
    assert reader_results.collect_reader_results(bundle, fetched, "") == ()


# --- printed and written ------------------------------------------------------------------------


def test_the_audit_prints_a_line_a_reader_and_each_failure(
    zoo: Zoo, capsys: pytest.CaptureFixture[str]
) -> None:
    zoo.case("n", "refuse", LOADED, RIGHT, "refused")
    bundle = Bundle(id="zoo", source="z.tar", suite="tensors", dump=Dump())

    assert not isolated.print_reader(bundle, zoo.column(), RunConsole())

    assert capsys.readouterr().out == (
        "zoo: gguf-py 0.2.0 over 2 cases: 1 right, 1 accepted\n"
        "  FAIL  zoo/n  accepted\n"
        f"    error[reader-drift] {DRIFT}\n"
        "      | find out which of the two is right, and make the bundle again with today's "
        "libraries\n"
        "    error[accepted] accepted, but must be rejected (); it succeeded and dumped 1 file; "
        "rule: R\n"
    )


def test_drift_alone_fails_the_audit(zoo: Zoo, capsys: pytest.CaptureFixture[str]) -> None:
    zoo.case("y", "load", LOADED, RIGHT, "refused")
    bundle = Bundle(id="zoo", source="z.tar", suite="tensors", dump=Dump())
    assert not isolated.print_reader(bundle, zoo.column(), RunConsole())
    assert "FAIL" not in capsys.readouterr().out


def test_a_column_without_failures_is_one_line(
    zoo: Zoo, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = Bundle(id="zoo", source="z.tar", suite="tensors", dump=Dump())
    assert isolated.print_reader(bundle, zoo.column(), RunConsole())
    assert capsys.readouterr().out == "zoo: gguf-py 0.2.0 over 1 cases: 1 right\n"


@pytest.fixture
def reported(zoo: Zoo, tmp_path: Path) -> Callable[[], Path]:
    def make() -> Path:
        bundle = Bundle(id="zoo", source="z.tar", suite="tensors", dump=Dump())
        lock = Lockfile(path=Path("fixtures.lock.yaml"), sha256="0" * 64, bundles=(bundle,))
        write_reports(lock, [(bundle, "b" * 64, (zoo.column(),))], tmp_path / "out")
        return tmp_path / "out"

    return make


@pytest.mark.parametrize(("recorded", "code"), [("loaded", 0), ("refused", 7)])
def test_the_report_of_a_reader_is_a_column_of_the_scoreboard(
    zoo: Zoo,
    reported: Callable[[], Path],
    capsys: pytest.CaptureFixture[str],
    recorded: str,
    code: int,
) -> None:
    zoo.case("n", "refuse", LOADED, RIGHT, recorded)
    out = reported()

    assert [path.name for path in out.iterdir()] == ["gguf-py"]
    assert json.loads((out / "gguf-py" / "report.json").read_bytes())["exit_code"] == code
    found = json_reader.load_report(out / "gguf-py" / "report.json")
    assert [case.outcome for case in found.cases] == ["right", "accepted"]

    assert run_command_line(["scoreboard", str(out / "gguf-py")]) == 0
    printed = capsys.readouterr().out
    assert "gguf-py (reference)\n" in printed, "its version is not part of its name"
    assert "  n                     ✗ accepted\n    gguf-py accepts it, against R\n" in printed


def test_earlier_reports_are_removed(reported: Callable[[], Path], tmp_path: Path) -> None:
    out = reported()
    clear_reports(None)
    clear_reports(out)
    clear_reports(tmp_path / "none")
    assert list(out.rglob("*.json")) == []


def test_a_report_folder_that_is_a_file_is_an_error(
    reported: Callable[[], Path], tmp_path: Path
) -> None:
    (tmp_path / "out").write_text("")
    for call in (reported, lambda: clear_reports(tmp_path / "out")):
        with pytest.raises(ConfigError, match="report-dir"):
            call()
