"""A fuzz run with a port and readers that are functions: counts, groups, and what is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from parity.bundle.tensor_case import TensorCase
from parity.errors import ConfigError, ReferenceSuspectError
from parity.lab import readers
from parity.lab.fuzz import agreement, campaign, trial
from parity.lab.fuzz.campaign import Budget, FuzzResult
from parity.lab.fuzz.mutant import Base
from parity.lab.fuzz.trial import Trial, normalize
from parity.lab.fuzz.views import make_base
from parity.lab.readers import ReaderResult
from parity.port.process import ProcessResult
from parity.port.run import DumpResult
from parity.results import CaseResult, Finding
from tests.support.tensors import encode_safetensors, name_dtypes

#: Without the bytes 0x7f, 0x80 and 0xff, which the ports below do not like.
W = np.array([[0, 1.5, 2], [3, 2.5, 3.5]], "<f4")
BASE = make_base("y", "safetensors", encode_safetensors(name_dtypes({"w": W})))
BAD = make_base("n", "safetensors", b"\x08\0\0\0\0\0\0\0no json.")
Word = Callable[[bytes], tuple[str, str]]  # The port's outcome and its last line, by the file


class FakeLab:
    """Readers that load what has the base's header, and a port that is a function."""

    def __init__(self, word: Word) -> None:
        self.word = word
        self.prepared: Any = SimpleNamespace(
            cases=[SimpleNamespace(id="y", readers={}), SimpleNamespace(id="n", readers={})]
        )
        self.controls: dict[str, Any] = {}
        self.port: dict[str, str] = {}

    def try_mutants(self, mutants: Sequence[Any], folder: Path) -> list[Trial]:
        found = []
        for mutant in mutants:
            is_loaded = mutant.content[: -W.nbytes] == BASE.content[: -W.nbytes]
            word, line = self.word(mutant.content)
            (folder / "tree" / mutant.id).mkdir(parents=True)
            (folder / "tree" / mutant.id / "reference.safetensors").write_bytes(b"")
            findings = (Finding(level="error", code=word, message=line),)
            case: Any = SimpleNamespace(id=mutant.id)
            result = CaseResult(
                bundle="zoo", case=mutant.id, verdict="fail", findings=findings, outcome=word
            )
            ended = ProcessResult((), int(word != "right"), None, False, "", line, 0.0)
            run = DumpResult(folder=folder, stderr=line, process_result=ended)
            agreement = "loaded" if is_loaded else "rejected"
            prepared: Any = None
            found.append(
                Trial(mutant, prepared, case, agreement, "a reader: no", result, run, is_loaded)  # type: ignore[arg-type]
            )
        return found


def run_campaign(word: Word, tmp_path: Path, mutants: int = 400, seed: int = 1) -> FuzzResult:
    lab: Any = FakeLab(word)
    controls = campaign.try_bases(lab, [BASE, BAD], tmp_path)
    result = campaign.fuzz(lab, controls, Budget(seed, 600, mutants), lambda _result: None)
    campaign.shrink_findings(lab, result)
    return result


def is_right(content: bytes) -> bool:
    return content[: -W.nbytes] == BASE.content[: -W.nbytes]


def read(content: bytes) -> tuple[str, str]:
    return ("right", "") if is_right(content) else ("refused", "FAILED: no")


def plant(condition: Callable[[bytes], bool], word: str, line: str = "") -> Word:
    return lambda content: (word, line) if condition(content) else read(content)


PANIC = "thread 'main' panicked at src/read.rs:{}:5:\nindex out of bounds"
TABLE: dict[str, tuple[Word, set[tuple[str, str]]]] = {
    "a right port": (read, set()),
    "it rejects what readers load": (lambda _content: ("refused", "FAILED"), set()),
    "a wrong value": (
        plant(lambda data: is_right(data) and 0xFF in data[-24:], "wrong", "w differs [values]"),
        {("wrong", "values")},
    ),
    "a panic": (
        plant(lambda data: 0x80 in data[-24:], "panicked", PANIC.format(7)),
        {("panicked", "src/read.rs:7")},
    ),
    "two panics": (
        lambda data: next(
            ("panicked", PANIC.format(byte)) for byte in (0x80, 0x7F) if byte in data[-24:]
        ) if {0x80, 0x7F} & set(data[-24:]) else read(data),
        {("panicked", "src/read.rs:128"), ("panicked", "src/read.rs:127")},
    ),
    "it accepts what no reader loads": (
        plant(lambda data: not is_right(data) and data[8:9] == b"{", "accepted"),
        {("accepted", "a reader: no")},
    ),
    "wrong where the readers reject it": (
        plant(lambda data: not is_right(data) and data[8:9] == b"{", "wrong", "w [values]"), set(),
    ),
    "it hangs": (plant(lambda data: 0x7F in data[-24:], "hung"), {("hung", "")}),
    "memory": (
        plant(lambda data: 0x7F in data[-24:], "out-of-memory", "memory allocation of 77 bytes"),
        {("out-of-memory", "memory allocation of N bytes")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_what_is_found(name: str, tmp_path: Path) -> None:
    word, expected = TABLE[name]
    result = run_campaign(word, tmp_path)
    assert {one.smallest.key for one in result.findings} == expected
    for finding in result.findings:
        assert len(finding.smallest.mutant.edits) == 1, finding.place
        assert finding.mutants >= 1
    assert result.counts["safetensors"]["mutants"] == 400
    assert 40 < result.counts["safetensors"]["readers loaded"] < 360, "some load, some do not"


def test_the_same_seed_finds_the_same(tmp_path: Path) -> None:
    word = TABLE["two panics"][0]
    runs = [run_campaign(word, tmp_path / str(number), seed=9) for number in range(2)]
    first, again = (
        [(f.place, f.mutants, f.smallest.mutant.content) for f in run.findings] for run in runs
    )
    assert first == again


def test_more_time_tries_more_of_the_same_sequence(tmp_path: Path) -> None:
    word = TABLE["a panic"][0]
    few, many = (run_campaign(word, tmp_path / str(n), mutants=n) for n in (100, 300))
    assert 0 < few.findings[0].mutants < sum(one.mutants for one in many.findings)
    assert {one.place for one in few.findings} <= {one.place for one in many.findings}


def test_the_fault_of_the_unmutated_case_is_not_found_again(tmp_path: Path) -> None:
    result = run_campaign(lambda _data: ("panicked", PANIC.format(1)), tmp_path)
    assert not result.findings
    assert result.known == 400


def test_one_fault_in_one_place_is_one_finding(tmp_path: Path) -> None:
    word = plant(lambda data: data[-24:] != BASE.content[-24:] and is_right(data), "wrong", "[v]")
    result = run_campaign(word, tmp_path)
    assert [one.place for one in result.findings] == ["bytes of the data", "data"]
    assert sum(one.mutants for one in result.findings) > 40


def test_a_fault_that_is_not_repeated_is_none(tmp_path: Path) -> None:
    calls: list[bytes] = []

    def word(data: bytes) -> tuple[str, str]:
        calls.append(data)
        is_first = calls.count(data) == 1
        return ("panicked", PANIC.format(3)) if is_first and b"\x80" in data else read(data)

    lab: Any = FakeLab(word)
    controls = campaign.try_bases(lab, [BASE, BAD], tmp_path)
    result = campaign.fuzz(lab, controls, Budget(1, 600, 200), lambda _result: None)
    packed: list[str] = []
    campaign.confirm_findings(lab, result, lambda name, _trial: packed.append(name))
    assert (packed, result.findings) == ([], [])
    assert result.unrepeated > 0


def test_the_time_is_a_limit(tmp_path: Path) -> None:
    lab: Any = FakeLab(read)
    controls = campaign.try_bases(lab, [BASE, BAD], tmp_path)
    result = campaign.fuzz(lab, controls, Budget(1, 1e-9, None), lambda _result: None)
    assert result.counts["safetensors"]["mutants"] in (0, campaign.BATCH)


def test_a_reader_that_rejects_what_it_loaded_is_an_error(tmp_path: Path) -> None:
    lab: Any = FakeLab(read)
    lab.prepared.cases[1].readers = {"safetensors": "loaded"}
    with pytest.raises(ReferenceSuspectError, match="safetensors loaded n when the bundle"):
        campaign.try_bases(lab, [BASE, BAD], tmp_path)


def test_commands_in_pickles_are_not_mutated(tmp_path: Path) -> None:
    path = tmp_path / "c.pth"
    path.write_bytes(b"PK")
    prepared: Any = SimpleNamespace(
        bundle=SimpleNamespace(id="zoo"),
        cases=[
            SimpleNamespace(
                id=name,
                expect="refuse",
                placeholders={"group": "pth"},
                detail=SimpleNamespace(checkpoint=path),
            )
            for name in ("pth-n-global-system", "pth-n-pid-short")
        ],
    )
    assert [base.id for base in campaign.collect_bases(prepared)] == ["pth-n-pid-short"]
    prepared.cases = prepared.cases[:1]
    with pytest.raises(ConfigError, match="no checkpoint to mutate"):
        campaign.collect_bases(prepared)


LOADED, REFUSED = ReaderResult("loaded"), ReaderResult("refused", "RuntimeError: no")
ABSTAINS = ReaderResult("refused", "FormatError: not-verified: w has no decoder here")
AGREEMENTS = {
    "all load it": ((LOADED, LOADED), (1, 1), "loaded"),
    "all reject it": ((REFUSED, REFUSED), (0, 0), "rejected"),
    "other tensors": ((LOADED, LOADED), (1, 2), "undecided"),
    "one rejects it": ((LOADED, REFUSED), (1, 0), "undecided"),
    "one crashes": ((ReaderResult("crashed", "SIGSEGV"), REFUSED), (0, 0), "undecided"),
    "no time": ((REFUSED, ReaderResult("limit", "time")), (0, 0), "undecided"),
    "no dump": ((LOADED, LOADED), (0, 0), "undecided"),
    "one does not read the form": ((LOADED, ABSTAINS), (1, 0), "loaded"),
    "one alone reads the form, and rejects it": ((REFUSED, ABSTAINS), (0, 0), "rejected"),
    "one alone rejects an opcode": ((ABSTAINS, LOADED), (0, 1), "loaded"),
    "none reads the form": ((ABSTAINS, ABSTAINS), (0, 0), "undecided"),
    "not dumped": ((LOADED, ReaderResult("loaded", "TypeError: x")), (1, 1), "undecided"),
    "weights_only": (
        (ReaderResult("refused", "UnpicklingError: Weights only load failed"),) * 2, (0, 0),
        "undecided",
    ),
    "version 1": (
        (ReaderResult("refused", "ValueError: Sorry, file appears to be version 1 which"),) * 2,
        (0, 0), "undecided",
    ),
    "version 1,000": (
        (ReaderResult("refused", "ValueError: Sorry, file appears to be version 1000 which"),) * 2,
        (0, 0), "rejected",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AGREEMENTS)
def test_agreement_of_readers(name: str, tmp_path: Path) -> None:
    results, dumps, expected = AGREEMENTS[name]
    mutant = campaign.Mutant("m1", BASE, BASE.views[0], ())
    (tmp_path / "m1").mkdir()
    for number, kind in enumerate(dumps):
        folder = tmp_path / "safetensors" / f"r{number}" / "m1"
        folder.mkdir(parents=True)
        if kind:
            arrays = name_dtypes({"w": W * kind})
            (folder / "dump.safetensors").write_bytes(encode_safetensors(arrays))
    by_reader = {f"r{number}": {"m1": one} for number, one in enumerate(results)}
    assert agreement.agree(by_reader, mutant, tmp_path, tmp_path)[0] == expected


UNCLEAR: list[tuple[str, Any, str]] = [
    ("BOOL", np.array([0, 1], np.uint8), "loaded"),
    ("BOOL", np.array([0, 2], np.uint8), "undecided"),
    ("BOOL", np.array([0, 128], np.uint8), "undecided"),
    ("F32", np.zeros((0, 2**32 - 1), "<f4"), "loaded"),
    ("F32", np.zeros((0, 2**32), "<f4"), "undecided"),
]


@pytest.mark.parametrize(("dtype", "array", "expected"), UNCLEAR)
def test_what_a_port_may_show_otherwise_is_undecided(
    dtype: str, array: Any, expected: str, tmp_path: Path
) -> None:
    mutant = campaign.Mutant("m1", BASE, BASE.views[0], ())
    folder = tmp_path / "safetensors" / "r" / "m1"
    folder.mkdir(parents=True)
    (tmp_path / "m1").mkdir()
    content = {"w": (dtype, array)}
    (folder / "dump.safetensors").write_bytes(encode_safetensors(content))
    found = agreement.agree({"r": {"m1": LOADED}}, mutant, tmp_path, tmp_path)
    assert found[0] == expected


def test_a_port_that_opens_tensors_by_name_opens_those_of_the_case(tmp_path: Path) -> None:
    """Also of a mutant that all reject: a port that opens none reads no data."""
    path = tmp_path / "r.safetensors"
    path.write_bytes(encode_safetensors(name_dtypes({"v": W})))
    details = (
        TensorCase(id="y", folder=tmp_path, reference=path),
        TensorCase(id="n", folder=tmp_path, names=("w",)),
    )
    prepared: Any = SimpleNamespace(
        cases=[SimpleNamespace(id=one.id, detail=one) for one in details]
    )
    nothing: Any = None
    lab = trial.Lab(prepared, nothing)
    mutants = [campaign.Mutant("m1", base, base.views[0], ()) for base in (BASE, BAD)]
    found = [lab._describe(one, "rejected", "no", {})["names"] for one in mutants]
    assert found == [["v"], ["w"]]


def test_a_file_without_a_tensor_is_undecided(tmp_path: Path) -> None:
    mutant = campaign.Mutant("m1", BASE, BASE.views[0], ())
    (tmp_path / "m1").mkdir()
    folder = tmp_path / "safetensors" / "r" / "m1"
    folder.mkdir(parents=True)
    (folder / "dump.safetensors").write_bytes(encode_safetensors({}))
    found = agreement.agree({"r": {"m1": LOADED}}, mutant, tmp_path, tmp_path)
    assert found[0] == "undecided"


SILENCES: dict[str, Any] = {
    "says nothing of 1 files": {"m1": REFUSED, "control": LOADED},
    "no longer loads y: RuntimeError: no": {"m1": REFUSED, "m2": REFUSED, "control": REFUSED},
    "no longer loads y: loaded": {"m1": REFUSED, "m2": REFUSED, "control": LOADED},
}


@pytest.mark.parametrize("message", SILENCES)
def test_the_silence_of_a_reader_is_no_agreement(
    message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that dies, says nothing, or rejects everything from now on, is an error."""
    monkeypatch.setattr(readers.Reader, "read_files", lambda *_args: SILENCES[message])
    mutants = [campaign.Mutant(f"m{n}", BASE, BASE.views[0], ()) for n in (1, 2)]
    for mutant in mutants:
        (tmp_path / "tree" / mutant.id).mkdir(parents=True)
    nothing: Any = None
    lab = trial.Lab(nothing, nothing, controls={"safetensors": (mutants[0], b"tensors")})
    with pytest.raises(ReferenceSuspectError, match=message):
        lab._ask_readers(mutants, tmp_path / "tree", tmp_path / "out")


def test_the_own_reader_must_load_the_control_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant = campaign.Mutant("m1", BASE, BASE.views[0], ())
    nothing: Any = None
    lab = trial.Lab(nothing, nothing, controls={"safetensors": (mutant, b"tensors")})
    for number, (result, is_lost) in enumerate(
        ((LOADED, False), (ABSTAINS, False), (REFUSED, True))
    ):
        found = {"m1": REFUSED, "control": result}
        monkeypatch.setattr(readers.Reader, "read_files", lambda *_, found=found: found)
        call = ("parity", "safetensors", [mutant], tmp_path, tmp_path / str(number))
        with pytest.raises(ReferenceSuspectError) if is_lost else nullcontext():
            assert lab._run_reader(*call) == found


def test_a_reader_that_does_not_start_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object) -> Any:
        raise RuntimeError("the reader safetensors did not start: no module")

    monkeypatch.setattr(readers.Reader, "read_files", fail)
    nothing: Any = None
    mutant = campaign.Mutant("m1", BASE, BASE.views[0], ())
    with pytest.raises(ReferenceSuspectError, match="did not start"):
        trial.Lab(nothing, nothing)._ask_readers([mutant], tmp_path, tmp_path / "out")


def test_decoded_blocks_may_be_rounded_and_all_else_is_exact(tmp_path: Path) -> None:
    path = tmp_path / "r.safetensors"
    arrays = {"w": np.array([np.inf, np.nan, 2], "<f4"), "v": W * -100}
    path.write_bytes(encode_safetensors(name_dtypes(arrays)))
    tensors = trial.list_tensors(path).tensors.values()
    assert agreement._choose_tolerance("pth", tensors) == {}
    tolerance = agreement._choose_tolerance("gguf", tensors)["tolerance"]
    assert tolerance == {"atol": pytest.approx(350e-6), "rtol": 4e-6}


def test_bases_are_chosen_by_what_readers_do(tmp_path: Path) -> None:
    """Most mutants are made of what a reader loads: else all of them are rejected by everybody."""
    seen: list[Base] = []
    lab: Any = FakeLab(read)
    tried = lab.try_mutants

    def count(mutants: Sequence[Any], folder: Path) -> list[Trial]:
        seen.extend(one.base for one in mutants)
        return list(tried(mutants, folder))

    lab.try_mutants = count
    controls = campaign.try_bases(lab, [BASE, BAD], tmp_path)
    controls["n"] = replace(controls["n"])
    campaign.fuzz(lab, controls, Budget(1, 600, 384), lambda _result: None)
    assert 250 < sum(base.id == "y" for base in seen) < 386
    assert any(base.id == "n" for base in seen[2:])


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("ValueError: Unknown endianness type: l)ttle", "ValueError: Unknown endianness type: …"),
        (
            "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xf8 in 'a.b'",
            "UnicodeDecodeError: … codec can't decode byte N in …",
        ),
        ("AssertionError: expected dict, got tuple", "AssertionError: expected dict, got tuple"),
        ("RuntimeError: no", "RuntimeError: no"),
    ],
)
def test_texts_of_a_file_do_not_separate_findings(message: str, expected: str) -> None:
    assert normalize(message) == expected
