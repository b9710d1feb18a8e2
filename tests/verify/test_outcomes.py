"""How a port ended, as one word: each word shown by a port made for it, and each made to fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path

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


def test_tensors_that_are_dropped_are_partial(tmp_path: Path) -> None:
    two = {"y": make_reference(w=W, v=W + 1)}
    found = run_port(tmp_path, pack_bundle(tmp_path, {"y": LOAD}, two), "right()")
    assert found.list_outcomes()["y"] == ("partial", "fail")
    (finding,) = found.cases["y"]["findings"]
    assert finding["message"] == "v (F32 [2, 3]) is missing from the dump [tensor-missing]"
    assert finding["tensor"] == "v"


def test_one_dropped_and_one_wrong_is_wrong(tmp_path: Path) -> None:
    three = {"y": make_reference(w=W, v=W, u=W)}
    body = "right(); dump('v', (2, 3), 0, 0, 0, 0, 0, 0)"
    found = run_port(tmp_path, pack_bundle(tmp_path, {"y": LOAD}, three), body)
    assert found.list_outcomes()["y"] == ("wrong", "fail")
    assert found.list_findings("y") == [("error", "wrong"), ("notice", "values")]
    assert found.cases["y"]["findings"][0]["message"].endswith("(and 1 further finding)")


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


def test_a_case_that_states_nothing_keeps_its_codes_and_exit_code(tmp_path: Path) -> None:
    found = run_port(tmp_path, pack_bundle(tmp_path, {"a": {}}), "refuse()")
    assert (found.code, found.list_findings("a")) == (5, [("error", "dump-exit")])
    assert (found.cases["a"]["expect"], found.cases["a"]["outcome"]) == (None, None)


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


def test_the_launcher_is_known_by_its_words_alone(tmp_path: Path) -> None:
    body = f"print({memory_limit.START_FAILURE_PREFIX!r}, file=sys.stderr); sys.exit(1)"
    found = run_port(tmp_path, pack_bundle(tmp_path, {"y": LOAD, "n": REFUSE}), controlled(body))
    assert found.list_outcomes()["n"] == ("refused", "pass")


# --- the positive control ---------------------------------------------------------------------


def test_false_as_a_port_passes_nothing(tmp_path: Path) -> None:
    found = run_port(tmp_path, pack_bundle(tmp_path, THREE), ["false"])
    assert found.code == 1
    assert found.list_outcomes() == {
        "y": ("crashed", "fail"),
        "n": ("crashed", "fail"),
        "i": ("crashed", "fail"),
    }


def test_a_port_that_refuses_everything_passes_nothing(tmp_path: Path) -> None:
    found = run_port(tmp_path, pack_bundle(tmp_path, THREE), "refuse()")
    verdicts = {name: verdict for name, (_, verdict) in found.list_outcomes().items()}
    assert verdicts == {"y": "fail", "n": "skipped", "i": "skipped"}
    assert found.list_findings("n") == [("notice", "no-control")]
    assert found.cases["n"]["reason"] == "no-control"


def test_a_port_that_supports_nothing_passes_nothing(tmp_path: Path) -> None:
    tar = pack_bundle(tmp_path, THREE)
    found = run_port(tmp_path, tar, "sys.exit(f'not supported: {case}')")
    assert (found.code, found.list_outcomes()) == (
        1,
        dict.fromkeys("yni", ("not-supported", "fail")),
    )
    assert found.cases["n"]["findings"][0]["message"].endswith("exit code 1: not supported: n")
    known = {"*:not-supported": "not written yet"}
    found = run_port(tmp_path, tar, "sys.exit(f'not supported: {case}')", known=known)
    assert (found.code, found.report["findings"][0]["code"]) == (6, "nothing-verified")


def test_what_is_not_supported_is_no_control(tmp_path: Path) -> None:
    body = "refuse() if case == 'n' else sys.exit('not supported: x')"
    known = {"y:not-supported": "not written yet"}
    found = run_port(tmp_path, pack_bundle(tmp_path, THREE), body, known=known)
    assert found.list_findings("n") == [("notice", "no-control")]


def test_what_is_not_claimed_may_be_unsupported(tmp_path: Path) -> None:
    tar, body = pack_bundle(tmp_path, THREE), controlled("sys.exit('not supported: x')")
    found = run_port(tmp_path, tar, body, claims=("y",))
    assert (found.code, found.list_outcomes()["n"]) == (0, (None, "skipped"))
    found = run_port(tmp_path, tar, body, claims=("y",), all_cases=True)
    assert (found.code, found.list_outcomes()["n"]) == (0, ("not-supported", "skipped"))
    assert [level for level, _ in found.list_findings("n")] == ["notice"]


def test_a_control_counts_for_its_own_group(tmp_path: Path) -> None:
    cases = {"y": LOAD, "n": REFUSE, "other": {**REFUSE, "group": "pth"}}
    found = run_port(tmp_path, pack_bundle(tmp_path, cases), controlled("refuse()"))
    assert found.list_outcomes()["n"] == ("refused", "pass")
    assert found.list_findings("other") == [("notice", "no-control")]


def test_a_control_must_be_right(tmp_path: Path) -> None:
    body = "refuse() if case == 'n' else dump('w', (), 1)"
    found = run_port(tmp_path, pack_bundle(tmp_path, THREE), body)
    assert found.list_outcomes()["n"][1] == "skipped"


def test_an_either_is_no_control(tmp_path: Path) -> None:
    found = run_port(tmp_path, pack_bundle(tmp_path, THREE), "right() if case == 'i' else refuse()")
    assert found.list_outcomes()["n"][1] == "skipped"


def test_a_case_without_a_stated_expectation_is_a_control(tmp_path: Path) -> None:
    tar = pack_bundle(tmp_path, {"plain": {}, "n": REFUSE, "i": EITHER})
    port = CONTROLLED.replace("'y'", "'plain'").format("refuse()")

    found = run_port(tmp_path, tar, port)

    assert found.list_outcomes() == {
        "plain": (None, "pass"),
        "n": ("refused", "pass"),
        "i": ("refused", "pass"),
    }
    assert found.cases["n"]["command"].endswith("--case zoo/plain --case zoo/n")


def test_a_case_without_elements_is_no_control(tmp_path: Path) -> None:
    empty = make_reference(w=np.zeros((0,), np.float32))
    tar = pack_bundle(tmp_path, {"y": LOAD, "n": REFUSE}, {"y": empty})

    found = run_port(tmp_path, tar, "dump('w', (0,)) if case == 'y' else refuse()")

    assert found.list_outcomes() == {"y": ("right", "pass"), "n": ("refused", "skipped")}
    assert found.cases["n"]["reason"] == "no-control"
    # Nothing else was compared, so the run is not green.
    assert (found.code, found.report["findings"][0]["code"]) == (6, "nothing-verified")


@pytest.mark.parametrize("control", [{}, LOAD])
def test_a_wrong_case_is_no_control_stated_or_not(control: dict[str, str], tmp_path: Path) -> None:
    tar = pack_bundle(tmp_path, {"y": control, "n": REFUSE})
    wrong = "dump('w', (2, 3), 0, 1, 2, 3, 4, 6)"

    found = run_port(tmp_path, tar, f"if case == 'y':\n    {wrong}\nelse:\n    refuse()\n")

    assert found.cases["n"]["reason"] == "no-control"


#: Ends that are wrong whatever else the port can do.
NEVER_RIGHT = {
    "right()": "accepted",
    "sys.exit(101)": "panicked",
    "os.abort()": "crashed",
    "time.sleep(60)": "hung",
    "import signal; os.kill(os.getpid(), signal.SIGKILL)": "out-of-memory",
}


@pytest.mark.parametrize("deed", NEVER_RIGHT)
def test_a_wrong_end_counts_without_a_control(deed: str, tmp_path: Path) -> None:
    tar = pack_bundle(tmp_path, {"n": REFUSE})

    found = run_port(tmp_path, tar, "import time\n" + deed, timeout=2)

    assert found.list_outcomes()["n"] == (NEVER_RIGHT[deed], "fail")
    assert found.code == 1


@pytest.mark.parametrize(
    ("deed", "word", "verdict"),
    [
        ("dump('w', (2, 3), 0, 1, 2, 3, 4, 6)", "wrong", "fail"),
        ("pass", "partial", "fail"),
        ("right()", "right", "pass"),
        ("os.abort()", "crashed", "fail"),
    ],
)
def test_an_either_that_is_no_refusal_needs_no_control(
    deed: str, word: str, verdict: str, tmp_path: Path
) -> None:
    found = run_port(tmp_path, pack_bundle(tmp_path, {"i": EITHER}), deed)
    assert found.list_outcomes()["i"] == (word, verdict)


def test_runs_that_differ_are_an_error_without_a_control(tmp_path: Path) -> None:
    body = "m = Path(__file__).with_name('mark')\nm.exists() and os.abort()\nm.touch()\nrefuse()"
    found = run_port(tmp_path, pack_bundle(tmp_path, {"n": REFUSE}), body, repeat=2)
    assert found.list_outcomes()["n"] == ("crashed", "fail")


def test_a_refusal_alone_says_nothing(tmp_path: Path) -> None:
    tar = pack_bundle(tmp_path, THREE)
    alone = run_port(tmp_path, tar, controlled("refuse()"), globs=("zoo/n",))
    assert (alone.code, alone.list_findings("n")) == (6, [("notice", "no-control")])
    beside = run_port(tmp_path, tar, controlled("refuse()"), globs=("zoo/n", "zoo/y"))
    assert (beside.code, beside.list_outcomes()["n"]) == (0, ("refused", "pass"))


# --- known failures ---------------------------------------------------------------------------


def test_a_known_failure_allows_its_own_word_alone(tmp_path: Path) -> None:
    tar = pack_bundle(tmp_path, {"y": LOAD, "l": LOAD})
    known = {"l:refused": "not supported yet"}
    assert run_port(tmp_path, tar, controlled("refuse()"), known=known).list_outcomes()["l"] == (
        "refused",
        "known-failure",
    )
    worse = run_port(tmp_path, tar, controlled("dump('w', (2, 3), 1, 1, 1, 1, 1, 1)"), known=known)
    assert (worse.code, worse.list_outcomes()["l"]) == (1, ("wrong", "fail"))
    better = run_port(tmp_path, tar, controlled("right()"), known=known)
    assert (better.code, better.list_findings("l")) == (1, [("error", "known-failure-passes")])


@pytest.mark.parametrize(
    ("body", "known", "code", "codes"),
    [
        ("refuse()", {}, 5, ["dump-exit"]),
        ("refuse()", {"a:refused": "no such op"}, 0, ["refused"]),
        ("refuse()", {"a:wrong": "no such op"}, 5, ["dump-exit"]),
        ("dump('w', (1,), 9); refuse()", {"a:refused": "no such op"}, 5, ["dump-exit"]),
        ("os.abort()", {"a:refused": "no such op"}, 5, ["dump-signal"]),
        ("sys.exit('not supported: a')", {"a:not-supported": "no"}, 0, ["not-supported"]),
        ("sys.exit('not supported: a')", {"a:refused": "no"}, 5, ["dump-exit"]),
        ("refuse()", {"a:not-supported": "no"}, 5, ["dump-exit"]),
        ("sys.exit(3)", {"a:refused": "no such op"}, 5, ["dump-exit"]),
    ],
)
def test_a_declared_refusal_needs_no_expectation(
    body: str, known: dict[str, str], code: int, codes: list[str], tmp_path: Path
) -> None:
    tar = pack_bundle(tmp_path, {"a": {}, "y": {}})
    found = run_port(tmp_path, tar, controlled(body), known=known)
    assert (found.code, [one for _, one in found.list_findings("a")][:1]) == (code, codes)


@pytest.mark.parametrize("body", ["refuse()", "os.abort()"])
@pytest.mark.parametrize("expected", [{}, LOAD])
def test_known_failures_alone_without_a_dump_prove_nothing(
    expected: dict[str, str], body: str, tmp_path: Path
) -> None:
    tar = pack_bundle(tmp_path, {"a": expected, "y": expected})
    found = run_port(tmp_path, tar, body, known={"*": "not yet"})
    assert (found.code, found.report["findings"][0]["code"]) == (6, "nothing-verified")
    assert run_port(tmp_path, tar, controlled(body), known={"a": "not yet"}).code == 0


def test_a_known_failure_allows_all_that_is_wrong_with_a_case(tmp_path: Path) -> None:
    tar = pack_bundle(tmp_path, {"y": LOAD}, {"y": make_reference(w=W, v=W)})
    body = "[dump(n, (2, 3), 9, 9, 9, 9, 9, 9) for n in 'wv']"
    found = run_port(tmp_path, tar, body, known={"y:wrong": "why"})
    assert (found.code, found.list_outcomes()["y"]) == (0, ("wrong", "known-failure"))


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


def test_the_other_tensors_of_such_a_case_are_compared(tmp_path: Path) -> None:
    both = {"odd": make_reference(**{"a/b": W, "w": W})}
    tar = pack_bundle(tmp_path, {"y": LOAD, "odd": LOAD}, both)
    found = run_port(tmp_path, tar, controlled("right()"))
    assert found.list_outcomes()["odd"] == ("right", "pass")
    assert found.list_findings("odd") == [("notice", "not-a-file-name")]
    found = run_port(tmp_path, tar, controlled("dump('w', (2, 3), 1, 1, 1, 1, 1, 1)"))
    assert found.list_outcomes()["odd"] == ("wrong", "fail")


def test_a_port_that_dumps_safetensors_must_have_every_name(tmp_path: Path) -> None:
    both = {"odd": make_reference(**{"a/b": W, "w": W})}
    tar = pack_bundle(tmp_path, {"odd": LOAD}, both)
    copy = "(out / 'd.safetensors').write_bytes((fixtures / 'reference' / {}).read_bytes())"
    found = run_port(tmp_path, tar, copy.format("'r.safetensors'"))
    assert found.list_outcomes()["odd"] == ("right", "pass")
    write = f"(out / 'd.safetensors').write_bytes({make_reference()!r})"
    found = run_port(tmp_path, tar, write)
    assert found.list_outcomes()["odd"] == ("partial", "fail")


@pytest.mark.parametrize("name", ["w", "fc.weight", "größe", "my w", "w ", "x.", "x" * 200, "a.b"])
def test_a_name_that_is_a_file_s_is_compared(name: str, tmp_path: Path) -> None:
    assert is_portable(name)
    tar = pack_bundle(tmp_path, {"y": LOAD, "odd": LOAD}, {"odd": make_reference(**{name: W})})
    found = run_port(tmp_path, tar, controlled("refuse()"))
    assert found.list_outcomes()["odd"] == ("refused", "fail")


# --- options ------------------------------------------------------------------------------------


def test_gguf_dims_are_compared_in_the_order_that_the_lockfile_states(tmp_path: Path) -> None:
    tar = pack_bundle(tmp_path, {"y": LOAD})
    stored, logical = "right()", "dump('w', (3, 2), 0, 1, 2, 3, 4, 5)"
    turned = {"gguf-dims": "logical"}
    assert run_port(tmp_path, tar, stored).code == 0
    assert run_port(tmp_path, tar, stored, options={"gguf-dims": "stored"}).code == 0
    assert run_port(tmp_path, tar, logical).list_outcomes()["y"] == ("wrong", "fail")
    assert run_port(tmp_path, tar, logical, options=turned).code == 0
    found = run_port(tmp_path, tar, stored, options=turned)
    assert found.list_outcomes()["y"] == ("wrong", "fail")
    assert "[2, 3], expected [3, 2]" in found.cases["y"]["findings"][0]["message"]


def test_gguf_dims_speak_of_gguf_alone(tmp_path: Path) -> None:
    tar = pack_bundle(tmp_path, {"y": {**LOAD, "checkpoint": "reference/r.safetensors"}})
    assert run_port(tmp_path, tar, "right()", options={"gguf-dims": "logical"}).code == 0


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


def test_a_suffix_without_a_name_is_presented_as_ever(tmp_path: Path) -> None:
    body = "assert checkpoint == fixtures / 'c.gguf'\nright()"
    options = {"checkpoint-names": {".pth": "x.pth"}}
    assert run_port(tmp_path, pack_bundle(tmp_path, {"y": LOAD}), body, options=options).code == 0


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
    body = controlled(
        "m = Path(__file__).with_name('mark')\nm.exists() and os.abort()\nm.touch()\nrefuse()"
    )
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
