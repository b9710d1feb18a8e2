"""``parity reproduce``: what a maintainer is sent, held to golden texts, and harmless."""

from __future__ import annotations

import html
import io
import json
import os
import re
import shlex
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from parity.__main__ import run_command_line
from parity.checkpoints.hexdump import find_spans, format_hex
from parity.commands import reproduce as verb
from parity.lab.pins import packing
from parity.reports import reproduction
from parity.suites.tensors import suite
from parity.verify import outcomes
from tests.support.bundles import lock_bundle
from tests.support.reports import HOSTILE, make_case, make_finding
from tests.support.tensors import encode_safetensors, name_dtypes
from tests.support.traces import INPUTS, write_bundle
from tests.support.zoo import pack_bundle, run_port

pytestmark = pytest.mark.process

LOAD = {"expect": "load", "why": "six numbers", "rule": "the book, page 3"}
REFUSE = {"expect": "refuse", "why": "no numbers"}
WRONG = "print('reading', checkpoint); dump('w', (2, 3), 0, 3, 1, 4, 2, 5)"


@pytest.fixture(autouse=True)
def _same_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "collect_environment", lambda: {"parity": "9.9", "system": "S"})


def repo(folder: Path, port: str, cases: Mapping[str, Any], **more: Any) -> Path:
    """A repo whose port is ``port``; it is run once, as `verify` does."""
    run_port(folder, pack_bundle(folder, cases), port, **more)
    return folder


def packed(folder: Path, name: str = "zoo/y", *words: str) -> int:
    out = str(folder / "out")
    return run_command_line(["reproduce", name, "--repo", str(folder), "--out", out, *words])


def files(folder: Path) -> list[str]:
    found = (folder / "out").rglob("*")
    return sorted(path.relative_to(folder / "out").as_posix() for path in found if path.is_file())


def test_folder_and_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Callable[..., None]
) -> None:
    repo(tmp_path, WRONG, {"y": LOAD}, known={"y:wrong": "declared, and told all the same"})
    capsys.readouterr()
    assert packed(tmp_path) == 0
    first, title = capsys.readouterr().out.splitlines()[-2:]
    assert first.startswith("zoo/y: wrong; packed in ")
    assert title.startswith("title of an issue: ")
    assert title.endswith(": six numbers is read incorrectly (w at [0, 1])")
    assert files(tmp_path) == [
        *("REPORT.md", "bytes.txt", "c.gguf", "expected/r.safetensors", "obtained/w.bin"),
        *("program/port.py", "run.sh", "values.txt"),
    ]
    assert (tmp_path / "out" / "bytes.txt").read_text() == f"00000000  79{' ' * 47}y\n"
    report = (tmp_path / "out" / "REPORT.md").read_text(encoding="utf-8")
    words = [sys.executable, "-I", "-S", str(tmp_path / "port.py")]
    last = ["{case}", "{fixture_dir}", "{checkpoint}", "{output_dir}"]
    report = report.replace(shlex.join([*words, *last]), "PORT")
    words[-1] = "program/port.py"
    report = report.replace(shlex.join([*words, "y", ".", "c.gguf", "obtained-again"]), "RUN")
    report = report.replace(tmp_path.as_posix(), "REPO")
    golden(re.sub(r"sha256:[0-9a-f]{64}", "sha256:DIGEST", report))


ENDS = {
    "refused": ("refuse('this & that')", "is rejected", "FAILED: this & that"),
    "panicked": ("print('BUG', file=sys.stderr); sys.exit(101)", "makes the program panic", "BUG"),
    "crashed": ("sys.exit(1)", "makes the program crash", "exit code 1"),
    "partial": ("pass", "is read in part", "w (F32 [2, 3]) is missing"),
    "right": ("right()", "is loaded correctly", "0 outside the tolerance"),
}  # fmt: skip


@pytest.mark.parametrize("word", ENDS)
def test_each_end_is_reported(word: str, tmp_path: Path) -> None:
    body, received, said = ENDS[word]
    repo(tmp_path, body, {"y": LOAD})
    assert packed(tmp_path) == 0
    reported = (tmp_path / "out" / "REPORT.md").read_text(encoding="utf-8")
    assert received in reported.splitlines()[0]
    assert said in reported


def test_what_must_be_refused_needs_no_control(tmp_path: Path) -> None:
    repo(tmp_path, "right()", {"n": REFUSE})
    assert packed(tmp_path, "zoo/n") == 0
    reported = (tmp_path / "out" / "REPORT.md").read_text(encoding="utf-8")
    assert "is accepted, but must be rejected" in reported
    assert "## Expected and obtained" not in reported
    assert files(tmp_path) == [
        *("REPORT.md", "bytes.txt", "c.gguf", "obtained/w.bin"),
        *("program/port.py", "run.sh", "values.txt"),
    ]


def test_the_checkpoint_has_the_name_that_the_port_opens(tmp_path: Path) -> None:
    repo(tmp_path, WRONG, {"y": LOAD}, options={"checkpoint-names": {".gguf": "model.gguf"}})
    assert packed(tmp_path) == 0
    assert {"model.gguf", "sampled_tensor_names.json"} <= set(files(tmp_path))
    reported = (tmp_path / "out" / "REPORT.md").read_text(encoding="utf-8")
    assert "reading ./model.gguf" in reported
    assert "parity-fixtures" not in reported


def test_dumps_that_lie_ready(tmp_path: Path) -> None:
    repo(tmp_path, WRONG, {"y": LOAD})
    place = tmp_path / "ready" / "zoo" / "y"
    place.mkdir(parents=True)
    (place / "w.bin").write_bytes(struct.pack("<3I6f", 2, 2, 3, 0, 1, 2, 3, 4, 9))
    assert packed(tmp_path, "zoo/y", "--dumps", str(tmp_path / "ready")) == 0
    assert "9         +4" in (tmp_path / "out" / "values.txt").read_text(encoding="utf-8")


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repo(tmp_path, WRONG, {"y": LOAD})
    (tmp_path / "out").mkdir()
    assert packed(tmp_path) == 0, "an empty folder will do"
    before = (tmp_path / "out" / "REPORT.md").read_bytes()
    assert packed(tmp_path) == 2
    assert "[out-not-empty]" in capsys.readouterr().err
    assert (tmp_path / "out" / "REPORT.md").read_bytes() == before


def test_a_file_or_a_link_is_no_folder_to_write_to(tmp_path: Path) -> None:
    repo(tmp_path, WRONG, {"y": LOAD})
    (tmp_path / "out").write_text("mine")
    assert packed(tmp_path) == 2
    (tmp_path / "out").unlink()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere")
    assert packed(tmp_path) == 2
    assert not any((tmp_path / "elsewhere").iterdir())


def test_a_case_without_a_checkpoint_is_packed_with_its_folder(tmp_path: Path) -> None:
    name = "dataloader-batches-v1"
    lock = lock_bundle(tmp_path, name, "dataloader")
    words = ["reproduce", f"{name}/sequential", "--lockfile", str(lock)]
    words += ["--dumps", str(tmp_path / "dumps")]
    assert run_command_line([*words, "--out", str(tmp_path / "out")]) == 0
    assert {"case/meta.json", "run.sh", "REPORT.md"} <= set(files(tmp_path))
    report = (tmp_path / "out" / "REPORT.md").read_text(encoding="utf-8")
    assert "The folder `case` has the input" in report
    assert "Bytes in the file" not in report


@pytest.mark.skipif(os.name == "nt", reason="a script of the shell")
def test_the_script_runs_the_program_again(tmp_path: Path) -> None:
    port = f"assert os.environ['SEED'] == '$(id)'\n{WRONG}"
    repo(tmp_path, port, {"y": LOAD}, env={"SEED": "$(id)"})
    assert packed(tmp_path) == 0
    report = (tmp_path / "out" / "REPORT.md").read_text(encoding="utf-8")
    assert "\nexport 'SEED=$(id)'\n" in report
    subprocess.run(["sh", str(tmp_path / "out" / "run.sh")], check=True, capture_output=True)
    again = tmp_path / "out" / "obtained-again" / "w.bin"
    assert again.read_bytes() == (tmp_path / "out" / "obtained" / "w.bin").read_bytes()


COPY = """\
import shutil, sys
source, target = sys.argv[1:]
shutil.copyfile(source, target + '/out.safetensors')
open(target + '/out.safetensors', 'ab').write(b'0')
"""


@pytest.mark.skipif(os.name == "nt", reason="a script of the shell")
def test_a_written_file_is_written_again_elsewhere(tmp_path: Path) -> None:
    """The input, which is the reference, too, is in the folder; as is what was written."""
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    content = encode_safetensors(name_dtypes({"w": np.zeros(3, "<f4")}))
    entry = {"reference": "in.safetensors", "writes": {"out.safetensors": "safetensors"}}
    manifest = json.dumps({"schema": 2, "cases": {"y": {**entry, **LOAD}}}).encode()
    tar = packing.pack({"parity.json": manifest, "y/in.safetensors": content}, here / "zoo.tar")
    (here / "copy.py").write_text(COPY, encoding="utf-8")
    port = [sys.executable, "copy.py", "{fixture_dir}/in.safetensors", "{output_dir}"]
    assert run_port(here, tar, port).code == 1
    assert packed(here) == 0
    (here / "out").rename(elsewhere)
    tar.unlink()
    subprocess.run(["sh", str(elsewhere / "run.sh")], check=True, capture_output=True, cwd=here)
    assert (elsewhere / "obtained-again" / "out.safetensors").read_bytes() == content + b"0"
    assert (elsewhere / "expected" / "in.safetensors").read_bytes() == content


def test_no_such_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repo(tmp_path, WRONG, {"y": LOAD})
    assert packed(tmp_path, "zoo/none") == 2
    assert "[no-such-case]" in capsys.readouterr().err


def test_links_of_a_dump_are_left_behind(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mine")
    repo(tmp_path, f"{WRONG}; os.symlink({str(secret)!r}, out / 'v.bin')", {"y": LOAD})
    assert packed(tmp_path) == 0
    assert "obtained/v.bin" not in files(tmp_path)


def test_a_path_of_rust_is_reported_as_one(tmp_path: Path) -> None:
    port = "print('core::pickle::read'); print('::x::y'); dump('w', (2, 3), 0, 1, 2, 3, 4, 5)"
    assert packed(repo(tmp_path, port, {"y": LOAD})) == 0
    report = (tmp_path / "out" / "REPORT.md").read_text(encoding="utf-8")
    assert "  core::pickle::read\n" in report
    assert "  \\x3a\\x3ax::y\n" in report, "the runner would take it for a command"


def test_foreign_words_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    evil = f"</code></pre><script>|`@org {HOSTILE}"
    found = make_finding("wrong", evil, cause=evil, details=(evil,))
    reported = reproduction.format_reproduction(
        reproduction.Reproduction(
            **dict.fromkeys(("case", "why", "rule", "checkpoint", "sha256", "bundle_sha256"), evil),
            **{name: [evil] for name in ("values", "stored_bytes", "output")},
            result=make_case(evil, found, outcome="wrong", expect="load"),
            size=1,
            port={evil: evil},
            run_commands=[evil],
            subject=[evil],
            repeat_command=evil,
            facts={evil: evil},
        )
    )
    for part in ("\x1b", "\u202e", "::error::", "\r"):
        assert part not in reported
    page = MarkdownIt().render(reported)
    outside = re.sub(r"<code[^>]*>.*?</code>", "", page, flags=re.DOTALL)
    assert "<script" not in page
    assert not {"@", "|", "`"} & set(outside)


def test_call_is_listed_with_the_values_of_its_inputs(tmp_path: Path) -> None:
    tree = write_bundle(tmp_path, words={"op": "tanh", "args": "{}"})
    (case,) = suite.read_cases(tree, {})
    *words, line = verb._format_call(case)
    assert words == ["op: tanh", "args: {}"]
    name, _, values = line.partition(" [4, 6]: ")
    assert name == "x: F32"
    assert np.array_equal(np.array(values.split(", "), np.float32), INPUTS["x"].ravel())
    (silent,) = suite.read_cases(write_bundle(tmp_path / "silent"), {})
    assert list(verb._format_call(silent)) == []


def test_a_case_without_a_checkpoint_is_computed() -> None:
    reported = reproduction.format_reproduction(
        reproduction.Reproduction(
            **dict.fromkeys(("checkpoint", "sha256", "bundle_sha256", "repeat_command"), ""),
            **{name: [] for name in ("values", "stored_bytes", "output", "run_commands")},
            case="ops/exp/n-text",
            why="exp of a text",
            rule="IEEE 754",
            result=make_case("exp/n-text", outcome="wrong", expect="refuse"),
            size=0,
            subject=["port 1.0"],
            port={},
            facts={},
        )
    )
    title, _, text, *_ = reported.splitlines()
    assert title == "# `port 1.0`: `exp/n-text` is computed incorrectly"
    assert text.startswith("The folder `case` has the input: `exp of a text`. It must be rejected")
    assert text.endswith(" The rule: `IEEE 754`.")


@pytest.mark.parametrize("text", ["a", "a `b` c", "``", "`", "a|b", "\\", "*x*", "&amp;"])
def test_foreign_text_is_one_span_of_code(text: str) -> None:
    page = MarkdownIt().render(f"# {reproduction._quote(text)}")
    assert page == f"<h1><code>{html.escape(text)}</code></h1>\n"


# --- bytes ------------------------------------------------------------------------------------


def gguf(*names: str, alignment: int = 32) -> bytes:
    def text(word: str) -> bytes:
        return struct.pack("<Q", len(word)) + word.encode()

    head = struct.pack("<4sIQQ", b"GGUF", 3, len(names), 3)
    head += text("general.alignment") + struct.pack("<II", 4, alignment)
    head += text("a") + struct.pack("<I", 9) + struct.pack("<IQ", 8, 2) + text("x") + text("yz")
    head += text("b") + struct.pack("<IIQHH", 9, 2, 2, 7, 8)
    for at, name in enumerate(names):
        head += text(name) + struct.pack("<IQIQ", 1, 8, 0, at * 32)
    head += bytes(-len(head) % alignment)
    return head + b"".join(bytes([65 + at]) * 32 for at in range(len(names)))


def test_tensors_of_gguf_are_found(tmp_path: Path) -> None:
    path = tmp_path / "c.gguf"
    for alignment in (8, 32, 64):
        path.write_bytes(gguf("w", "v", alignment=alignment))
        data = path.read_bytes()
        found = {name: data[first:last] for name, (first, last) in find_spans(path).items()}
        assert found == {"w": b"A" * 32, "v": b"B" * 32}


def test_tensors_of_safetensors_and_storages_of_pth_are_found(tmp_path: Path) -> None:
    array = np.arange(3, dtype="<f4")
    path = tmp_path / "c.safetensors"
    path.write_bytes(encode_safetensors(name_dtypes({"w": array})))
    ((name, (first, last)),) = find_spans(path).items()
    assert (name, path.read_bytes()[first:last]) == ("w", array.tobytes())
    path = tmp_path / "c.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"x")
        archive.writestr("archive/data/0", array.tobytes())
    ((name, (first, last)),) = find_spans(path).items()
    assert (name, path.read_bytes()[first:last]) == ("archive/data/0", array.tobytes())


def archive() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as members:
        members.writestr("archive/data/0", b"0123")
    return file.getvalue()


WHOLE = {
    ".gguf": gguf("w", "v"),
    ".safetensors": encode_safetensors(name_dtypes({"w": np.zeros(3, "<f4")})),
    ".pth": archive(),
}


@given(st.sampled_from(sorted(WHOLE)), st.data())
def test_no_file_breaks_the_look(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("x") / f"c{suffix}"
    whole = bytearray(WHOLE[suffix])
    for _ in range(data.draw(st.integers(0, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    size = path.stat().st_size
    assert all(0 <= first <= last <= size for first, last in find_spans(path).values())


def test_hex_as_one_reads_it() -> None:
    assert format_hex(b"GGUF\x03\0" + bytes(range(12)), 32) == [
        "00000020  47 47 55 46 03 00 00 01 02 03 04 05 06 07 08 09  GGUF............",
        "00000030  0a 0b                                            ..",
    ]


def test_every_end_has_its_words() -> None:
    assert reproduction._OUTCOME_TEXT.keys() == outcomes.MEANINGS.keys()
