"""The lockfile: messages about bad ones with their places, and the contents of good ones."""

from __future__ import annotations

import hashlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parity.errors import ConfigError, Location
from parity.lockfile import Bundle, Dump, load, parse
from parity.lockfile.source_rules import find_source_problem
from tests.support.lockfiles import BAD, BASE, DIGEST, FULL, GOOD

PATH = Path("fixtures.lock.yaml")
HERE = Path(__file__).parents[2]


def rejections(data: bytes) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(PATH, data)
    assert caught.value.exit_code == 2
    return [str(problem).removeprefix(f"{PATH}:").strip() for problem in caught.value.problems]


def only(data: bytes) -> Bundle:
    (bundle,) = parse(PATH, data).bundles
    return bundle


def test_messages_about_bad_lockfiles(golden: Callable[..., None]) -> None:
    golden("".join(_format_rejection(name) for name in BAD))


def _format_rejection(name: str) -> str:
    problems = rejections(BAD[name])
    assert problems
    return "\n  ".join([f"{name}:", *problems]) + "\n"


@pytest.mark.parametrize("name", GOOD)
def test_a_good_lockfile_is_read(name: str) -> None:
    lock = parse(PATH, GOOD[name])
    assert lock.bundles
    assert lock.sha256 == hashlib.sha256(GOOD[name]).hexdigest()


def test_problems_are_sorted_by_place() -> None:
    places = [line.split(": ")[0].split(":") for line in rejections(BAD["several"])]
    numbers = [(int(line), int(column)) for line, column in places]
    assert len(numbers) == 8
    assert numbers == sorted(numbers)


def test_line_endings_and_a_byte_order_mark_move_no_place() -> None:
    bad = BAD["unknown-key"]
    for data in (bad.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + bad):
        assert rejections(data) == rejections(bad)


def test_the_smallest_lockfile_has_the_documented_defaults() -> None:
    bundle = only(BASE.encode())
    assert (bundle.id, bundle.source, bundle.suite) == ("a", "x.tar", "tensors")
    assert (bundle.why, bundle.mirrors, bundle.options) == ("", (), {})
    assert (bundle.bounds, bundle.known_failures, bundle.locked) == ({}, {}, None)
    dump = bundle.dump
    assert (dump.package, dump.example, dump.args) == ("p", "e", None)
    assert (dump.features, dump.profile, dump.cwd, dump.env) == ((), "release", ".", {})
    assert (dump.timeout, dump.build_timeout) == (600.0, 3600.0)


def test_every_key_of_a_full_lockfile_is_read() -> None:
    bundle = only(FULL.encode())
    assert bundle.why == "the loaders"
    assert bundle.source.startswith("hf://datasets/owner/")
    assert len(bundle.mirrors) == 2
    assert bundle.options == {"order": "free", "deep": {"list": [1, "2"]}}
    assert bundle.bounds == {
        "gguf": {"max_abs": 1e-5, "relative": 1e-5, "ulp": 4, "cosine": 0.9999},
        "pth": {"exact": 1.0},
        "onnx": {"max_abs": 1e-5, "relative": 0.5, "ulp": 0},
    }
    assert list(bundle.known_failures) == ["gguf/blk.0.attn_q.weight", "onnx:values", "*:nan"]
    locked = bundle.locked
    assert locked is not None
    assert (locked.sha256, locked.tree, locked.rev) == (DIGEST, DIGEST, DIGEST[:40])
    assert (locked.size, locked.files, locked.unpacked) == (48240640, 232, 48091136)


def test_dump_of_a_full_lockfile_is_read() -> None:
    dump = only(FULL.encode()).dump
    assert (dump.package, dump.example) == ("ferrotorch-serialize@0.6.2", "serialize_{group}_dump")
    assert dump.args == ("--target", "{case}", "{fixture_dir}/in", "{output_dir}", "{{}}", "")
    assert dump.features == ("onnx", "dep:half", "serde/std")
    assert (dump.profile, dump.cwd) == ("dist", "crates/serialize")
    assert dump.env == {"RUST_LOG": "debug", "EMPTY": ""}
    assert (dump.timeout, dump.build_timeout) == (90.5, 1000.0)


def test_case_inherits_missing_keys_of_the_dump() -> None:
    bundle = only(FULL.encode())
    onnx = bundle.find_dump("onnx")
    assert (onnx.package, onnx.example, onnx.timeout) == (
        "ferrotorch-serialize@0.6.2",
        "onnx_dump",
        1800.0,
    )
    assert (onnx.args, onnx.cwd, onnx.env) == (
        bundle.dump.args,
        "crates/serialize",
        bundle.dump.env,
    )


def test_case_with_a_crate_does_not_inherit_the_package() -> None:
    gguf = only(FULL.encode()).find_dump("gguf")
    assert (gguf.package, gguf.crate) == (None, "serialize@0.6.2-rc.1+b")
    assert (gguf.features, gguf.example) == ((), "serialize_{group}_dump")
    assert "package" not in gguf.where


def test_case_with_a_command_inherits_no_cargo_key() -> None:
    pth = only(FULL.encode()).find_dump("pth")
    assert pth.command == ("python", "dump.py", "{case}", "{output_dir}")
    assert (pth.package, pth.example, pth.args, pth.features) == (None, None, None, ())
    assert (pth.profile, pth.build_timeout) == (Dump().profile, Dump().build_timeout)
    # What is for any program stays, and variables add up.
    assert (pth.cwd, pth.timeout) == ("crates/serialize", 90.5)
    assert pth.env == {"RUST_LOG": "debug", "EMPTY": "", "A": "b"}
    assert "example" not in pth.where
    assert pth.where["command"] == Location(PATH, 24, 15)


def test_unnamed_case_has_the_default_dump() -> None:
    bundle = only(FULL.encode())
    assert bundle.find_dump("other") is bundle.dump


def test_every_key_keeps_its_place() -> None:
    bundle = only(BASE.encode())
    assert bundle.where[""] == Location(PATH, 3, 3)
    assert bundle.where["source"] == Location(PATH, 4, 5)
    assert bundle.dump.where["example"] == Location(PATH, 6, 24)
    locked = only(GOOD["locked-sha256-only"]).locked
    assert locked is not None
    assert locked.where["sha256"] == Location(PATH, 7, 22)


def test_entry_without_a_lock_is_read() -> None:
    assert only(BASE.encode()).locked is None


def test_lock_with_a_digest_only() -> None:
    locked = only(GOOD["locked-sha256-only"]).locked
    assert locked is not None
    assert (locked.size, locked.files, locked.unpacked, locked.tree, locked.rev) == (None,) * 5


@pytest.mark.parametrize("name", ["source-credentials", "source-user", "mirror-credentials"])
def test_credentials_are_not_in_the_message(name: str) -> None:
    (line,) = rejections(BAD[name])
    assert "secret" not in line
    assert "me@" not in line
    assert "a:b" not in line


@pytest.mark.parametrize(
    "source", ["https://a:b/c@example.org/x", "ftp://h/x?token=secret", "http://h/x?token=secret"]
)
def test_secrets_of_a_bad_source_are_not_printed(source: str) -> None:
    (line,) = rejections(BASE.replace("x.tar", source).encode())
    assert "secret" not in line
    assert "a:b" not in line


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("hf://o/r@main/x", ""),
        ("hf://datasets/o/r@v1/a/b.tar", ""),
        ("hf://models/o/r@v1/x", "the form is hf://"),
        ("hf://o/r@/x", "the form is hf://"),
        ("hf://o/r@main/", "the form is hf://"),
        ("hf://o/r@a b/x", "the form is hf://"),
        ("HTTPS://example.org/x", ""),
        ("http://127.9.9.9/x", ""),
        ("http://10.0.0.1/x", "plain http"),
        ("http://localhost@example.org/x", "it contains a user"),
        ("https://exämple.org/x", "spaces and"),
        ("https://:80/x", "it names no host"),
        ("//host/x", "a path must be relative"),
        ("\\\\host\\x", "a path must be relative"),
        ("c:x", "a path must be relative"),
        ("a\tb", "it contains an invisible"),
        ("https://example.org/\u200b", "it contains an invisible"),
        ("x", ""),
        ("./x y/ü.tar", ""),
    ],
)
def test_a_source_has_one_of_the_allowed_forms(source: str, complaint: str) -> None:
    found = find_source_problem(source)
    assert found.startswith(complaint)
    assert bool(found) == bool(complaint)


def test_missing_lockfile_has_advice(tmp_path: Path) -> None:
    path = tmp_path / "fixtures.lock.yaml"
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value) == (
        f"{path.as_posix()}: [lockfile-absent] the lockfile {path.as_posix()} does not exist; "
        "create one with parity init, or name another with --lockfile"
    )


def test_folder_or_pipe_as_lockfile_is_rejected(tmp_path: Path) -> None:
    places = [tmp_path]
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        places.append(tmp_path / "pipe")
    for place in places:
        with pytest.raises(ConfigError, match=r"\[lockfile-absent\] .* is not a regular file; "):
            load(place)


def test_reading_a_lockfile_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            assert size is not None
            assert 0 < size < 2**20
            return b"#" * size

    monkeypatch.setattr(Path, "open", lambda _path, _mode: Endless())
    with pytest.raises(ConfigError, match="larger than 65,536 bytes"):
        load(PATH)


WITH_SECRETS = """\
schema: 2
bundles:
  a:
    source: "x.tar"
    suite: tensors
    dump: {package: p, example: e, pass-env: [HF_TOKEN, MY_KEY], cases: {x: {}, y: {pass-env: []}}}
"""


def test_pass_env_is_read_and_inherited() -> None:
    bundle = only(WITH_SECRETS.encode())
    assert bundle.dump.pass_env == ("HF_TOKEN", "MY_KEY")
    assert bundle.find_dump("x").pass_env == ("HF_TOKEN", "MY_KEY")
    assert bundle.find_dump("y").pass_env == ()
    assert only(BASE.encode()).dump.pass_env == ()
    assert only(BASE.replace("schema: 1", "schema: 2").encode()).dump.pass_env == ()


@pytest.mark.parametrize("event", ["pull_request_target", "workflow_run"])
def test_pass_env_is_rejected_in_events_that_run_foreign_code(
    event: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "fixtures.lock.yaml"
    path.write_text(WITH_SECRETS, encoding="utf-8")
    monkeypatch.setenv("GITHUB_EVENT_NAME", event)

    with pytest.raises(ConfigError) as caught:
        load(path)

    assert [str(problem.where) for problem in caught.value.problems] == [
        f"{path.as_posix()}:6:36",
        f"{path.as_posix()}:6:85",
    ]
    assert all(f"the event {event}" in problem.message for problem in caught.value.problems)


@pytest.mark.parametrize("event", ["push", "pull_request", ""])
def test_pass_env_is_accepted_in_other_events(
    event: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "fixtures.lock.yaml"
    path.write_text(WITH_SECRETS, encoding="utf-8")
    monkeypatch.setenv("GITHUB_EVENT_NAME", event)

    assert load(path).bundles


def test_a_lockfile_is_read_from_disk(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(BASE, encoding="utf-8")
    assert load(path).path == path
    assert load(path).bundles[0].id == "a"


def test_the_lockfile_of_this_repo_is_good() -> None:
    assert all(bundle.locked for bundle in load(HERE / "fixtures.lock.yaml").bundles)


def test_newer_lockfile_has_one_problem() -> None:
    text = "future: {}\nschema: 7\nbundles: {A: {}}\nschema: 8\n"
    assert rejections(text.encode()) == [
        "2:9: [lockfile-newer] schema 7 is newer than 2, the newest known; upgrade parity"
    ]


_LINES = FULL.splitlines(keepends=True)
_SCRAPS = (
    *("&a ", "*a", "!!int ", "<<: ", "- ", "? ", '"', "'", "{", "}", "[", "]", ": ", "#"),
    *("\n", "\t", "\x00", "\u2028", "\\ud800", "1e999", "~", "yes", "0123", "x-", "-", "é"),
)


def _mutated(edits: Sequence[tuple[int, int, str, bool]]) -> str:
    text = FULL
    for start, length, scrap, cut in edits:
        at = start % (len(text) + 1)
        text = text[:at] + scrap + text[at + (length if cut else 0) :]
    return text


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 10_000), st.integers(0, 30), st.sampled_from(_SCRAPS), st.booleans()
        ),
        min_size=1,
        max_size=4,
    )
)
def test_damaged_lockfile_is_read_or_a_config_error(
    edits: list[tuple[int, int, str, bool]],
) -> None:
    _parse(_mutated(edits).encode("utf-8", "surrogatepass"))


@settings(max_examples=100, deadline=None)
@given(st.permutations(_LINES), st.integers(0, len(_LINES)))
def test_shuffled_lines_are_read_or_a_config_error(lines: list[str], count: int) -> None:
    _parse("".join(lines[:count]).encode())


def _parse(data: bytes) -> None:
    try:
        lock = parse(PATH, data)
    except ConfigError as error:
        lines = data.count(b"\n") + 1
        for problem in error.problems:
            assert problem.message
            assert problem.where is not None
            assert problem.where.line is None or 1 <= problem.where.line <= lines
    else:
        for bundle in lock.bundles:
            _fit_to_run(bundle)


def _fit_to_run(bundle: Bundle) -> None:
    """What is read must not stumble later over what no system call takes."""
    for dump in (bundle.dump, *bundle.case_dumps.values()):
        assert sum(x is not None for x in (dump.package, dump.crate, dump.command)) == 1
        words = [*(dump.args or ()), *(dump.command or ()), *dump.env, *dump.env.values(), dump.cwd]
        assert all("\0" not in word for word in words)
        if sys.platform != "win32":
            assert all(os.fsencode(word) is not None for word in words)
        assert all(name and "=" not in name for name in dump.env)


def test_lockfiles_of_ports_agree_on_the_traces() -> None:
    paths = [HERE / "fixtures.lock.yaml", *(HERE / "tests/ports/traces").glob("*.lock.yaml")]
    bundles = [one for path in paths for one in load(path).bundles if one.id == "model-traces-v1"]
    assert len(bundles) == len(paths) > 1
    assert all(bundle.locked == bundles[0].locked for bundle in bundles)
