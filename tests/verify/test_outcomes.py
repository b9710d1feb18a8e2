"""How a port ended, as one word: each word shown by a port made for it, and each made to fail."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.lockfile.contents import Dump
from parity.port.process import memory_limit
from parity.suites.base import Case
from parity.suites.bundle_files import is_portable
from parity.verify import outcomes
from parity.verify.execute import EXPECT_BYTES, EXPECT_SECONDS, _choose_timeout
from tests.support.zoo import W, make_reference, pack_bundle, run_port

pytestmark = pytest.mark.process

LOAD, REFUSE, EITHER = {"expect": "load"}, {"expect": "refuse"}, {"expect": "either"}
THREE = {"y": LOAD, "n": REFUSE, "i": EITHER}
#: The same port reads the control `y` right, and does in the others what a test asks for.
CONTROLLED = "if case == 'y':\n    right()\nelse:\n    {}\n"


def controlled(deed: str) -> str:
    return CONTROLLED.format(deed.replace("\n", "\n    "))


# --- each word, under each of the three expectations ----------------------------------------

#: What a port does, by the word for it, and the verdict under load, refuse and either.
DEEDS: dict[str, tuple[str, str, tuple[str, str, str]]] = {
    "right": ("right()", "right", ("pass", "fail", "pass")),
    "wrong values": ("dump('w', (2, 3), 0, 1, 2, 3, 4, 6)", "wrong", ("fail", "fail", "fail")),
    "wrong shape": ("dump('w', (3, 2), 0, 1, 2, 3, 4, 5)", "wrong", ("fail", "fail", "fail")),
    "one too many": ("right(); dump('v', (), 1)", "wrong", ("fail", "fail", "fail")),
    "a dump cut short": ("right(); p = out / 'w.bin'; p.write_bytes(p.read_bytes()[:-4])", "wrong",
        ("fail", "fail", "fail")),
    "nothing": ("pass", "partial", ("fail", "fail", "fail")),
    "a note alone": ("(out / 'note.txt').write_text('x')", "partial", ("fail", "fail", "fail")),
    "refuses": ("refuse()", "refused", ("fail", "pass", "pass")),
    "an uncaught exception": ("raise ValueError('bad magic')", "refused", ("fail", "pass", "pass")),
    "refuses on stdout": ("print('no'); sys.exit(3)", "refused", ("fail", "pass", "pass")),
    "refuses and leaves a tensor": ("right(); refuse()", "partial", ("fail", "fail", "fail")),
    "does not have it": ("sys.exit('not supported: erfinv')", "not-supported", ("fail",) * 3),
    "has it not, says so last": (
        "print('op: erfinv', file=sys.stderr); sys.exit('not supported: erfinv of F16\\r\\n\\n')",
        "not-supported",
        ("fail",) * 3,
    ),
    "says so within a message": ("refuse('not supported: x')", "refused", ("fail", "pass", "pass")),
    "says so, then another thing": ("print('not supported: x', file=sys.stderr); refuse()",
        "refused", ("fail", "pass", "pass")),
    "says so on stdout": ("print('not supported: x'); sys.exit(3)", "refused",
        ("fail", "pass", "pass")),
    "says so and leaves a tensor": ("right(); sys.exit('not supported: x')", "partial",
        ("fail",) * 3),
    "says so and leaves half of one": (
        "(out / 'w.bin').write_bytes(b'x'); sys.exit('not supported: x')",
        "partial",
        ("fail",) * 3,
    ),
    "says so and succeeds": ("print('not supported: x', file=sys.stderr)", "partial",
        ("fail",) * 3),
    "says so and aborts": ("print('not supported: x', file=sys.stderr, flush=True); os.abort()",
        "crashed", ("fail",) * 3),
    "says so and panics": ("print('not supported: x', file=sys.stderr); sys.exit(101)", "panicked",
        ("fail",) * 3),
    "ends without a word": ("sys.exit(1)", "crashed", ("fail", "fail", "fail")),
    "aborts": ("os.abort()", "crashed", ("fail", "fail", "fail")),
    "dumps right and aborts": ("right(); os.abort()", "crashed", ("fail", "fail", "fail")),
    "exit code 101": ("print('x', file=sys.stderr); sys.exit(101)", "panicked", ("fail",) * 3),
    "says that it panicked": (
        "print(\"thread 'main' panicked at src/x.rs:1:2:\\nboom\", file=sys.stderr); sys.exit(1)",
        "panicked",
        ("fail",) * 3,
    ),
    "aborts for memory": (
        "print('memory allocation of 99 bytes failed', file=sys.stderr, flush=True); os.abort()",
        "out-of-memory",
        ("fail",) * 3,
    ),
    "is killed": ("import signal; os.kill(os.getpid(), signal.SIGKILL)", "out-of-memory",
        ("fail",) * 3),
}  # fmt: skip


@pytest.mark.parametrize("deed", DEEDS)
def test_each_end_has_its_word(deed: str, tmp_path: Path) -> None:
    body, word, verdicts = DEEDS[deed]
    tar = pack_bundle(tmp_path, {"y": LOAD, "l": LOAD, "n": REFUSE, "i": EITHER})

    found = run_port(tmp_path, tar, controlled(body))

    under_reject = "accepted" if word in ("right", "wrong", "partial") else word
    due = {"l": word, "n": under_reject, "i": word}
    for name, verdict in zip(due, verdicts, strict=True):
        assert found.list_outcomes()[name] == (due[name], verdict), name
        codes = [code for level, code in found.list_findings(name) if level == "error"]
        assert codes == ([] if verdict == "pass" else [due[name]])
    assert found.code == 1
    assert found.report["failure_kind"] == "mismatch"


def test_every_word_is_printed_here() -> None:
    printed = {word for _, word, _ in DEEDS.values()} | {"accepted", "hung"}
    assert printed == outcomes.MEANINGS.keys()


def test_what_the_report_says_of_expected_and_obtained(tmp_path: Path) -> None:
    found = run_port(tmp_path, pack_bundle(tmp_path, THREE), controlled("refuse()"))
    assert [case["expect"] for case in found.cases.values()] == ["load", "refuse", "either"]
    assert (found.code, found.report["failure_kind"]) == (0, None)
    assert found.cases["n"]["command"].endswith("--case zoo/y --case zoo/n")
    assert (
        found.cases["y"]["command"].endswith("verify --case zoo/y")
        or "--case zoo/y" in (found.cases["y"]["command"])
    )


# --- time and memory -------------------------------------------------------------------------


def test_a_port_that_hangs_stops_alone(tmp_path: Path) -> None:
    tar = pack_bundle(tmp_path, {"y": LOAD, "n": REFUSE})
    found = run_port(tmp_path, tar, controlled("time.sleep(60)"), timeout=1)
    assert found.list_outcomes() == {"y": ("right", "pass"), "n": ("hung", "fail")}
    assert found.cases["n"]["seconds"]["dump"] < 10


def test_the_run_s_deadline_says_nothing_of_a_port(tmp_path: Path) -> None:
    tar = pack_bundle(tmp_path, {"y": LOAD})
    found = run_port(tmp_path, tar, "time.sleep(60)", deadline=3)
    assert found.list_outcomes() == {"y": (None, "error")}
    assert (found.code, found.list_findings("y")) == (5, [("error", "dump-timeout")])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is bounded on Linux")
def test_a_port_that_eats_memory_is_ended(tmp_path: Path) -> None:
    tar = pack_bundle(tmp_path, {"y": LOAD, "n": REFUSE})
    found = run_port(tmp_path, tar, controlled(f"bytearray({2 * EXPECT_BYTES})"))
    assert found.list_outcomes() == {"y": ("right", "pass"), "n": ("out-of-memory", "fail")}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is bounded on Linux")
def test_a_case_that_states_nothing_runs_as_before(tmp_path: Path) -> None:
    body = "import resource\nassert resource.getrlimit(resource.RLIMIT_DATA)[0] {} 0\nright()"
    tar = pack_bundle(tmp_path, {"a": {}})
    found = run_port(tmp_path, tar, body.format("<"))  # no limit is -1
    assert (found.code, found.list_outcomes()) == (0, {"a": (None, "pass")})
    found = run_port(tmp_path, pack_bundle(tmp_path, {"a": LOAD}), body.format(">"))
    assert (found.code, found.list_outcomes()) == (0, {"a": ("right", "pass")})


def test_the_short_timeout_is_for_such_cases_and_the_lockfile_overrides_it(tmp_path: Path) -> None:
    plain, required = (Case(id="a", folder=tmp_path, expect=word) for word in ("", "load"))
    stated = Dump(timeout=77.0, where={"timeout": None})
    assert _choose_timeout(plain, Dump()) == 600
    assert _choose_timeout(required, Dump()) == EXPECT_SECONDS == 10
    assert _choose_timeout(required, stated) == _choose_timeout(plain, stated) == 77


def test_a_program_that_cannot_be_started_is_no_refusal(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF and nothing more")
    broken.chmod(0o755)
    found = run_port(tmp_path, pack_bundle(tmp_path, THREE), [str(broken)])
    assert found.code == 5
    assert found.list_findings("y") == [("error", "dump-not-started")]
    assert "pass" not in {verdict for _, verdict in found.list_outcomes().values()}


# --- controls, known failures, names and options -----------------------------------------------

NO_MEMORY = "import signal; os.kill(os.getpid(), signal.SIGKILL)"
WRONG, NOT_SUPPORTED = "dump('w', (2, 3), 0, 1, 2, 3, 4, 6)", "sys.exit('not supported: x')"
OFF = "dump('w', (2, 3), 1, 1, 1, 1, 1, 1)"
START_FAILED = f"print({memory_limit.START_FAILURE_PREFIX!r}, file=sys.stderr); sys.exit(1)"
ONCE = "m = Path(__file__).with_name('mark')\nm.exists() and os.abort()\nm.touch()\nrefuse()"
COPY = (
    "(out / 'd.safetensors').write_bytes((fixtures / 'reference' / 'r.safetensors').read_bytes())"
)
ODD = make_reference(**{"a/b": W, "w": W})
TURNED = "dump('w', (3, 2), 0, 1, 2, 3, 4, 5)"
TWO, PLAIN = {"y": LOAD, "n": REFUSE}, {"a": {}, "y": {}}
LOGICAL = {"options": {"gguf-dims": "logical"}}
#: Cases, what the port does, options of the run, and references that are not the usual one.
Row = tuple[Mapping[str, Any], str | list[str], dict[str, Any], dict[str, bytes]]
CONTROLS: dict[str, Row] = {
    "a tensor is dropped": ({"y": LOAD}, "right()", {}, {"y": make_reference(w=W, v=W + 1)}),
    "one is dropped, one is wrong": (
        {"y": LOAD}, "right(); dump('v', (2, 3), 0, 0, 0, 0, 0, 0)", {},
        {"y": make_reference(w=W, v=W, u=W)}),
    "a case that states nothing": ({"a": {}}, "refuse()", {}, {}),
    "the launcher's words": (TWO, controlled(START_FAILED), {}, {}),
    "false as a port": (THREE, ["false"], {}, {}),
    "all is refused": (THREE, "refuse()", {}, {}),
    "nothing is supported": (THREE, "sys.exit(f'not supported: {case}')", {}, {}),
    "nothing is supported, as is known": (
        THREE, NOT_SUPPORTED, {"known": {"*:not-supported": "not written yet"}}, {}),
    "what is not supported is no control": (
        THREE, f"refuse() if case == 'n' else {NOT_SUPPORTED}",
        {"known": {"y:not-supported": "not written yet"}}, {}),
    "not claimed": (THREE, controlled(NOT_SUPPORTED), {"claims": ("y",)}, {}),
    "not claimed, but run": (
        THREE, controlled(NOT_SUPPORTED), {"claims": ("y",), "all_cases": True}, {}),
    "a control is for its own group": (
        {**TWO, "other": {**REFUSE, "group": "pth"}}, controlled("refuse()"), {}, {}),
    "a control that is wrong": (THREE, "refuse() if case == 'n' else dump('w', (), 1)", {}, {}),
    "an either is no control": (THREE, "right() if case == 'i' else refuse()", {}, {}),
    "a case that states nothing is a control": (
        {"plain": {}, "n": REFUSE, "i": EITHER},
        CONTROLLED.replace("'y'", "'plain'").format("refuse()"), {}, {}),
    # Nothing else was compared, so the run is not green.
    "a case without elements is no control": (
        TWO, "dump('w', (0,)) if case == 'y' else refuse()", {},
        {"y": make_reference(w=np.zeros((0,), np.float32))}),
    "a wrong case is no control": (
        TWO, f"if case == 'y':\n    {WRONG}\nelse:\n    refuse()\n", {}, {}),
    "a wrong case that states nothing is no control": (
        {"y": {}, "n": REFUSE}, f"if case == 'y':\n    {WRONG}\nelse:\n    refuse()\n", {}, {}),
    **{f"without a control, {word}": ({"n": REFUSE}, deed, {"timeout": 2}, {})
       for word, deed in {
           "accepted": "right()", "panicked": "sys.exit(101)", "crashed": "os.abort()",
           "hung": "time.sleep(60)", "out of memory": NO_MEMORY}.items()},
    **{f"an either alone, {word}": ({"i": EITHER}, deed, {}, {})
       for word, deed in {
           "wrong": WRONG, "partial": "pass", "right": "right()",
           "crashed": "os.abort()"}.items()},
    "runs that differ, without a control": ({"n": REFUSE}, ONCE, {"repeat": 2}, {}),
    "a refusal alone": (THREE, controlled("refuse()"), {"globs": ("zoo/n",)}, {}),
    "a refusal beside its control": (
        THREE, controlled("refuse()"), {"globs": ("zoo/n", "zoo/y")}, {}),
}  # fmt: skip
KNOWN: dict[str, Row] = {
    **{f"a known refusal, {word}": (
        {"y": LOAD, "l": LOAD}, controlled(deed), {"known": {"l:refused": "not yet"}}, {})
       for word, deed in {"refused": "refuse()", "wrong": OFF, "right": "right()"}.items()},
    **{f"states nothing, {deed}, known {known}": (
        PLAIN, controlled(deed), {"known": {f"a:{known}": "no such op"} if known else {}}, {})
       for deed, known in (
           ("refuse()", ""), ("refuse()", "refused"), ("refuse()", "wrong"),
           ("dump('w', (1,), 9); refuse()", "refused"), ("os.abort()", "refused"),
           (NOT_SUPPORTED, "not-supported"), (NOT_SUPPORTED, "refused"),
           ("refuse()", "not-supported"), ("sys.exit(3)", "refused"))},
    **{f"known failures {where}, {deed}, {expected or 'nothing'} stated": (
        {"a": expected, "y": expected}, deed if where == "alone" else controlled(deed),
        {"known": {"*" if where == "alone" else "a": "not yet"}}, {})
       for where in ("alone", "beside a right case") for deed in ("refuse()", "os.abort()")
       for expected in ({}, LOAD)},
    "nothing is written, as is known": (
        {"y": LOAD, "l": LOAD}, "pass", {"known": {"*:partial": "not yet"}}, {}),
    "all that is wrong with a case is known": (
        {"y": LOAD}, "[dump(n, (2, 3), 9, 9, 9, 9, 9, 9) for n in 'wv']",
        {"known": {"y:wrong": "why"}}, {"y": make_reference(w=W, v=W)}),
}  # fmt: skip
NAMES: dict[str, Row] = {
    "a name that is no file's beside another": (
        {"y": LOAD, "odd": LOAD}, controlled("right()"), {}, {"odd": ODD}),
    "a name that is no file's beside a wrong one": (
        {"y": LOAD, "odd": LOAD}, controlled(OFF), {}, {"odd": ODD}),
    "a name that is no file's in safetensors": ({"odd": LOAD}, COPY, {}, {"odd": ODD}),
    "a name that is no file's is missing in safetensors": (
        {"odd": LOAD}, f"(out / 'd.safetensors').write_bytes({make_reference()!r})", {},
        {"odd": ODD}),
    "dims as stored": ({"y": LOAD}, "right()", {}, {}),
    "dims as stored, stated": (
        {"y": LOAD}, "right()", {"options": {"gguf-dims": "stored"}}, {}),
    "logical dims": ({"y": LOAD}, TURNED, {}, {}),
    "logical dims, stated": ({"y": LOAD}, TURNED, LOGICAL, {}),
    "dims as stored, logical stated": ({"y": LOAD}, "right()", LOGICAL, {}),
    "logical dims stated of safetensors": (
        {"y": {**LOAD, "checkpoint": "reference/r.safetensors"}}, "right()", LOGICAL, {}),
    "a suffix without a name": (
        {"y": LOAD}, "assert checkpoint == fixtures / 'c.gguf'\nright()",
        {"options": {"checkpoint-names": {".pth": "x.pth"}}}, {}),
}  # fmt: skip


@pytest.mark.parametrize("rows", [CONTROLS, KNOWN, NAMES], ids=["controls", "known", "names"])
def test_each_run_ends_in_these_outcomes(
    rows: Mapping[str, Row], tmp_path: Path, golden: Callable[..., None]
) -> None:
    text = ""
    for number, (name, (cases, body, options, references)) in enumerate(rows.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = run_port(folder, pack_bundle(folder, cases, references), body, **options)
        codes = ", ".join(one["code"] for one in found.report["findings"])
        text += f"{name}: exit code {found.code}{codes and f' ({codes})'}\n"
        for case, (outcome, verdict) in found.list_outcomes().items():
            words = " ".join(f"{level}[{code}]" for level, code in found.list_findings(case))
            reason = found.cases[case]["reason"]
            text += f"  {case}: {outcome}, {verdict}{reason and f' ({reason})'} {words}\n"
    golden(text)


# --- dumps that lie ready ---------------------------------------------------------------------


def ready(folder: Path, case: str, outcome: object = None, *, dumped: bool = False) -> None:
    place = folder / "ready" / "zoo" / case
    place.mkdir(parents=True)
    if dumped:
        (place / "d.safetensors").write_bytes(make_reference())
    if outcome is not None:
        (place / "outcome.json").write_text(json.dumps(outcome))


def test_ready_dumps_say_how_their_program_ended(tmp_path: Path) -> None:
    cases = dict.fromkeys(("plain", "said", "silent", "killed", "late", "fine"), REFUSE)
    tar = pack_bundle(tmp_path, {"y": LOAD, **cases})
    ready(tmp_path, "y", dumped=True)
    ready(tmp_path, "plain", {"exit": 1})
    ready(tmp_path, "said", {"exit": 1, "signal": None, "timed_out": False, "stderr": "FAILED"})
    ready(tmp_path, "silent", {"exit": 1, "stderr": ""})
    ready(tmp_path, "killed", {"signal": "SIGSEGV"})
    ready(tmp_path, "late", {"timed_out": True})
    ready(tmp_path, "fine", {"exit": 0})
    found = run_port(tmp_path, tar, ["false"], dumps=tmp_path / "ready")
    words = {name: outcome for name, (outcome, _) in found.list_outcomes().items()}
    assert words == {
        "y": "right",
        "plain": "refused",
        "said": "refused",
        "silent": "crashed",
        "killed": "crashed",
        "late": "hung",
        "fine": "accepted",
    }


def test_without_an_outcome_a_refusal_is_skipped(tmp_path: Path) -> None:
    cases = {"y": LOAD, "l": LOAD, "empty": EITHER, "either": EITHER, "absent": REFUSE, "n": REFUSE}
    tar = pack_bundle(tmp_path, cases)
    for name in ("y", "either", "n"):
        ready(tmp_path, name, dumped=True)
    ready(tmp_path, "empty")
    found = run_port(tmp_path, tar, ["false"], dumps=tmp_path / "ready")
    assert found.list_outcomes() == {
        "y": ("right", "pass"),
        "l": (None, "error"),
        "empty": (None, "skipped"),
        "either": ("right", "pass"),
        "absent": (None, "skipped"),
        "n": (None, "skipped"),
    }
    assert found.list_findings("n") == [("notice", "no-outcome")]
    assert found.list_findings("l") == [("error", "dump-missing")]


def test_an_outcome_alone_is_no_dump(tmp_path: Path) -> None:
    tar = pack_bundle(tmp_path, {"plain": {}, "l": LOAD})
    for name in ("plain", "l"):
        ready(tmp_path, name, {"exit": 0})
    found = run_port(tmp_path, tar, ["false"], dumps=tmp_path / "ready")
    assert found.list_findings("plain") == [("error", "dump-empty")]
    assert found.list_outcomes()["l"] == ("partial", "fail")


MALFORMED = {
    "no object": [1],
    "nothing said": {},
    "both": {"exit": 1, "signal": "SIGABRT"},
    "another key": {"exit": 1, "code": 2},
    "a word for a number": {"exit": "1"},
    "a truth for a number": {"exit": True},
    "a number for a truth": {"exit": 1, "timed_out": 0},
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_outcome_is_no_outcome(name: str, tmp_path: Path) -> None:
    tar = pack_bundle(tmp_path, {"y": LOAD, "n": REFUSE})
    ready(tmp_path, "y", dumped=True)
    ready(tmp_path, "n", MALFORMED[name])
    found = run_port(tmp_path, tar, ["false"], dumps=tmp_path / "ready")
    assert (found.code, found.list_findings("n")) == (5, [("error", "outcome-malformed")])


# --- names that no file can bear ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["a/b", "a:b", "aux", "x" * 201, "", "é" * 101, "a\nb"])
def test_a_name_that_is_no_file_s_is_skipped(name: str, tmp_path: Path) -> None:
    assert not is_portable(name)
    tar = pack_bundle(tmp_path, {"y": LOAD, "odd": LOAD}, {"odd": make_reference(**{name: W})})
    for deed in ("pass", "refuse('no file name')"):
        found = run_port(tmp_path, tar, controlled(deed))
        assert (found.code, found.list_outcomes()["odd"]) == (0, (None, "skipped")), deed
        assert found.list_findings("odd") == [("notice", "not-a-file-name")]
        assert found.cases["odd"]["reason"] == "not-a-file-name"


@pytest.mark.parametrize("name", ["w", "fc.weight", "größe", "my w", "w ", "x.", "x" * 200, "a.b"])
def test_a_name_that_is_a_file_s_is_compared(name: str, tmp_path: Path) -> None:
    assert is_portable(name)
    tar = pack_bundle(tmp_path, {"y": LOAD, "odd": LOAD}, {"odd": make_reference(**{name: W})})
    found = run_port(tmp_path, tar, controlled("refuse()"))
    assert found.list_outcomes()["odd"] == ("refused", "fail")


def test_a_dump_that_vanishes_after_it_was_compared_has_no_constant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "w.npy", np.zeros(3, "<f4"))
    assert outcomes.find_constant([tmp_path]) == "0"
    contents = outcomes.list_tensors(tmp_path)
    monkeypatch.setattr(outcomes, "list_tensors", lambda _: contents)
    (tmp_path / "w.npy").unlink()
    assert not outcomes.find_constant([tmp_path])


# --- options ------------------------------------------------------------------------------------


def test_a_checkpoint_is_presented_under_another_name(tmp_path: Path) -> None:
    tar = pack_bundle(tmp_path, {"y": LOAD, "n": {**REFUSE, "names": ["a", "b"]}})
    body = """
names = json.loads((fixtures / "sampled_tensor_names.json").read_text())
assert checkpoint == fixtures / "Model-Q8_0.gguf", checkpoint
assert checkpoint.read_text() == case
assert sorted(os.listdir(fixtures)) == ["Model-Q8_0.gguf", "sampled_tensor_names.json"]
if case == "y":
    assert names == ["w"], names
    right()
else:
    assert names == ["a", "b"], names
    refuse()
"""
    options = {"checkpoint-names": {".gguf": "Model-Q8_0.gguf", ".pth": "x.pth"}}
    found = run_port(tmp_path, tar, body, options=options, repeat=2)
    assert (found.code, found.list_outcomes()["n"]) == (0, ("refused", "pass"))


@pytest.mark.parametrize(
    "names",
    [
        {},
        [],
        "x",
        {".pth": "a/b"},
        {".pth": "../x"},
        {".pth": 1},
        {"pth": "x"},
        {".a/b": "x"},
        {".pth": ""},
    ],
)
def test_names_that_are_no_file_s_are_refused(names: object, tmp_path: Path) -> None:
    tar = pack_bundle(tmp_path, {"y": LOAD})
    found = run_port(tmp_path, tar, "right()", options={"checkpoint-names": names})
    assert found.code == 2
    (finding,) = found.report["bundles"][0]["findings"]
    assert finding["code"] == "no-such-option"


def test_a_large_checkpoint_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parity.verify.fixture_aliases.MAX_BYTES", 0)
    options = {"checkpoint-names": {".gguf": "x.gguf"}}
    found = run_port(tmp_path, pack_bundle(tmp_path, {"y": LOAD}), "right()", options=options)
    assert found.code == 2
    (finding,) = found.report["bundles"][0]["findings"]
    assert finding["code"] == "too-large"


# --- two runs -----------------------------------------------------------------------------------


def test_a_second_run_that_ends_otherwise_fails_the_case(tmp_path: Path) -> None:
    body = controlled("out.name.endswith('@2') and os.abort()\nrefuse()")  # The runs are parallel.
    found = run_port(tmp_path, pack_bundle(tmp_path, {"y": LOAD, "n": REFUSE}), body, repeat=2)
    assert found.list_outcomes()["n"] == ("crashed", "fail")


def test_a_nan_of_a_widened_reference_has_no_payload(tmp_path: Path) -> None:
    halves = np.array([0x7E01, 0x3C00], "<u2").view("<f2")
    tar = pack_bundle(tmp_path, {"y": LOAD}, {"y": make_reference(w=halves)})
    assert run_port(tmp_path, tar, "dump('w', (2,), float('nan'), 1)").code == 0
    found = run_port(tmp_path, tar, "dump('w', (2,), 1, 1)")
    assert found.list_outcomes()["y"] == ("wrong", "fail")


def test_a_wide_reference_is_compared_as_f32_and_the_report_says_so(tmp_path: Path) -> None:
    wide = np.array([2**24 + 2, 2**24 + 4], "<i8")
    tar = pack_bundle(tmp_path, {"y": LOAD}, {"y": make_reference(w=wide)})
    found = run_port(tmp_path, tar, "dump('w', (2,), 2**24 + 2, 2**24 + 4)")
    assert (found.code, found.list_findings("y")) == (0, [("notice", "seen-as-f32")])
    assert run_port(tmp_path, tar, "dump('w', (2,), 2**24, 2**24 + 2)").code == 1


def test_integers_that_f32_cannot_represent_are_neither_right_nor_wrong(tmp_path: Path) -> None:
    wide = np.array([2**24 + 1, 2**24 + 3], "<i8")
    tar = pack_bundle(tmp_path, {"y": LOAD}, {"y": make_reference(w=wide)})
    found = run_port(tmp_path, tar, "dump('w', (2,), 2**24, 2**24 + 4)")
    assert found.code == 1
    assert not found.list_outcomes()["y"][0]
    assert ("error", "not-verified") in found.list_findings("y")


# --- the rule that an accepted file breaks ---------------------------------------------------


@pytest.mark.parametrize(
    ("readers", "end"),
    [
        ({}, "; rule: README, Format"),
        ({"a": "refused", "b": "limit"}, "; rule: README, Format; accepted by no reference reader"),
        (
            {"a": "refused", "b": "loaded"},
            "; rule: README, Format; accepted by the reference reader too: b",
        ),
    ],
)
def test_an_accepted_file_names_its_rule_and_the_readers_that_accept_it(
    readers: dict[str, str], end: str, tmp_path: Path
) -> None:
    cases = {"y": LOAD, "n": {**REFUSE, "rule": "README, Format"}}
    files = {"readers.json": json.dumps({"cases": {"n": readers}}).encode()}
    found = run_port(tmp_path, pack_bundle(tmp_path, cases, files=files), "right()")
    (finding,) = found.cases["n"]["findings"]
    assert (finding["code"], finding["rule"]) == ("accepted", "README, Format")
    assert finding["message"].endswith(f"it succeeded and dumped 1 file{end}")
    assert found.list_outcomes()["y"] == ("right", "pass")


#: What the first and the second run of `y` do, its expectation, the known failure, and the exit
#: code: 5 for an error of the dump that nothing declares.
FLAKY = {
    "another known failure": ("dump('w', (1,), 0)", "sys.exit(101)", LOAD, "wrong", 1),
    "a known difference": ("dump('w', (1,), 0)", "sys.exit(101)", {}, "shape", 5),
    "a known refusal": ("refuse()", "sys.exit(101)", {}, "refused", 5),
    "right later": ("refuse()", "right()", {}, "refused", 1),
    "right at first": ("right()", "refuse()", {}, "refused", 1),
    "loaded later": ("refuse()", "right()", LOAD, "refused", 1),
    "refused later": ("right()", "refuse()", LOAD, "refused", 1),
    "wrong in two ways": ("dump('w', (1,), 0)", "dump('w', (1,), 1)", LOAD, "wrong", 1),
    "crashed at first": ("right(); os.abort()", "right()", {}, "dump-signal", 1),
}


@pytest.mark.parametrize("name", FLAKY)
def test_a_known_failure_hides_no_other_end_of_a_repeated_run(name: str, tmp_path: Path) -> None:
    first, again, expected, known, code = FLAKY[name]
    body = (
        "seen = Path(__file__).with_name('seen')\nif case == 'z':\n    right()\n"
        f"elif seen.exists():\n    {again}\nelse:\n    seen.touch()\n    {first}\n"
    )
    tar = pack_bundle(tmp_path, {"y": expected, "z": LOAD})
    found = run_port(tmp_path, tar, body, known={f"y:{known}": "not yet"}, repeat=2, jobs=1)
    assert found.code == code
    assert ("error", "nondeterministic") in found.list_findings("y")
