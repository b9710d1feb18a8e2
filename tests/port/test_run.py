"""What becomes of a case's run: files in a fresh folder, or a finding that says why not."""

from __future__ import annotations

import os
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from parity.errors import ConfigError, DumpError, Location, Problem
from parity.lockfile import Dump
from parity.port import cargo, dumps, output, process
from parity.port.cargo import Program

if TYPE_CHECKING:
    from parity.results import Finding

process_test = pytest.mark.process
cargo_test = pytest.mark.cargo
posix = pytest.mark.skipif(os.name == "nt", reason="signals are POSIX's")

LOCK = Location(Path("fixtures.lock.yaml"), 9, 5)

PORT = """\
fn main() {
    let mode = std::env::args().nth(1).unwrap();
    match mode.as_str() {
        "panic" => panic!("boom\\nwith more"),
        "assert" => assert_eq!(1 + 1, 3),
        "thread" => std::thread::spawn(|| panic!("inner")).join().unwrap(),
        "abort" => std::process::abort(),
        "exit" => std::process::exit(101),
        _ => std::fs::write(std::env::args().nth(2).unwrap() + "/x.bin", "x").unwrap(),
    }
}
"""


def python(code: str, **env: str) -> Program:
    words = (sys.executable, "-c", textwrap.dedent(code))
    return Program(words, Path.cwd(), process.build_environment(env), None, {})


def run(program: Program, folder: Path, *args: str, **fields: Any) -> dumps.Dumped:
    given = {"output_dir": folder / "out", "timeout": 30.0, "repo": folder, "where": LOCK}
    return dumps.run_case(program, args, **{**given, **fields})


def only(dumped: dumps.Dumped) -> Finding:
    (finding,) = dumped.findings
    assert (finding.level, finding.kind) == ("error", "dump")
    return finding


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Program]:
    """A package below the root of its workspace, built for real."""
    repo = tmp_path_factory.mktemp("a port")
    files = {
        "Cargo.toml": '[workspace]\nmembers = ["port"]\nresolver = "2"\n',
        "port/Cargo.toml": '[package]\nname = "port"\nversion = "1.0.0"\nedition = "2021"\n',
        "port/src/lib.rs": "",
        "port/examples/dump.rs": PORT,
    }
    for name, text in files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)
    dump = Dump(package="port", example="dump", profile="dev", env={"RUST_BACKTRACE": "1"})
    program = cargo.build_program(
        dump,
        "dump",
        repo=repo,
        toolchain="",
        cargo_args=(),
        offline=True,
        crates=repo / "crates",
        deadline=None,
        on_progress=lambda _line: None,
    )
    return repo, program


@process_test
def test_a_dump_that_ends_well(tmp_path: Path) -> None:
    code = """
        import pathlib, sys
        pathlib.Path(sys.argv[1], "deep").mkdir()
        pathlib.Path(sys.argv[1], "deep", "x.bin").write_bytes(b"x")
        print("{}"); print("aside", file=sys.stderr)
    """

    dumped = run(python(code), tmp_path, str(tmp_path / "out"))

    assert dumped.findings == ()
    assert dumped.folder == tmp_path / "out"
    assert (dumped.folder / "deep" / "x.bin").read_bytes() == b"x"
    assert (dumped.stdout, dumped.stderr) == ("{}\n", "aside\n")
    assert dumped.seconds > 0


def test_files_of_an_earlier_run_are_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x.bin").touch()

    with pytest.raises(DumpError) as caught:
        run(python(""), tmp_path)
    assert caught.value.problems == (
        Problem(
            "output-not-empty",
            f"The output folder {(tmp_path / 'out').as_posix()!r} is not empty.",
            LOCK,
        ),
    )


@process_test
@pytest.mark.parametrize("code", ["", "import os, sys; os.mkdir(sys.argv[1] + '/deep')"])
def test_a_dump_that_writes_nothing(tmp_path: Path, code: str) -> None:
    finding = only(run(python(code), tmp_path, str(tmp_path / "out")))

    assert finding.code == "dump-empty"
    assert finding.message == (
        "The dump ended with exit code 0 but wrote no file into its output folder."
    )
    assert finding.where == LOCK


@process_test
def test_an_exit_code_with_its_reason(tmp_path: Path) -> None:
    code = r"""
        import sys
        sys.stderr.write("\x1b[31mError:\x1b[0m no opcode 0x8c\n\nCaused by:\n    line 3\n\n"
            "Stack backtrace:\n   0: a::b\n             at ./a.rs:1:2\n   1: main\n")
        sys.exit(3)
    """

    finding = only(run(python(code), tmp_path))

    assert finding.code == "dump-exit"
    assert finding.message == "The dump ended with exit code 3: Error: no opcode 0x8c"
    assert finding.details == ("Error: no opcode 0x8c", "Caused by:", "    line 3")
    assert finding.measures == {"exit_code": 3}


@process_test
def test_an_exception_of_python_keeps_its_last_line(tmp_path: Path) -> None:
    finding = only(run(python("def f():\n  raise ValueError('bad magic')\nf()"), tmp_path))

    assert finding.message == "The dump ended with exit code 1: ValueError: bad magic"
    assert finding.details == ("ValueError: bad magic",)


@process_test
def test_a_silent_failure_and_one_that_speaks_on_stdout(tmp_path: Path) -> None:
    silent = only(run(python("raise SystemExit(4)"), tmp_path))
    code = "print('out of ideas'); raise SystemExit(5)"
    spoken = only(run(python(code), tmp_path, output_dir=tmp_path / "2"))

    assert silent.message == "The dump ended with exit code 4, and said nothing."
    assert spoken.message == "The dump ended with exit code 5: out of ideas"


@cargo_test
def test_a_panic_points_at_its_line(port: tuple[Path, Program], tmp_path: Path) -> None:
    repo, program = port

    finding = only(run(program, tmp_path, "panic", repo=repo))

    assert finding.code == "dump-panic"
    assert finding.message == (
        f"The dump panicked at {Path('port', 'examples', 'dump.rs')}:4:20: boom; with more"
    )
    assert finding.where == Location(repo / "port" / "examples" / "dump.rs", 4, 20)
    assert not any("rust_begin_unwind" in line for line in finding.details)
    assert "boom" in finding.details
    assert finding.measures == {"exit_code": 101}


@cargo_test
def test_a_failed_assertion_tells_both_sides(port: tuple[Path, Program], tmp_path: Path) -> None:
    finding = only(run(port[1], tmp_path, "assert", repo=port[0]))

    assert finding.message.endswith(
        ":5:21: assertion `left == right` failed; left: 2; right: 3",
    )


@cargo_test
def test_the_first_panic_is_the_reason(port: tuple[Path, Program], tmp_path: Path) -> None:
    finding = only(run(port[1], tmp_path, "thread", repo=port[0]))

    assert finding.message.endswith(":6:43: inner")


@cargo_test
def test_a_panic_outside_the_repo_points_at_the_lockfile(
    port: tuple[Path, Program], tmp_path: Path
) -> None:
    assert only(run(port[1], tmp_path, "panic")).where == LOCK


@cargo_test
def test_exit_code_101_is_a_panic_without_a_word(
    port: tuple[Path, Program], tmp_path: Path
) -> None:
    finding = only(run(port[1], tmp_path, "exit"))

    assert finding.code == "dump-panic"
    assert finding.message == (
        "The dump ended with exit code 101, as after a Rust panic, and told no reason."
    )


@cargo_test
@posix
def test_a_signal_has_its_name(port: tuple[Path, Program], tmp_path: Path) -> None:
    finding = only(run(port[1], tmp_path, "abort"))

    assert finding.code == "dump-signal"
    assert finding.message == "The dump was ended by SIGABRT, and said nothing."
    assert finding.measures == {"signal": "SIGABRT"}


@process_test
def test_a_timeout_with_a_grandchild_that_holds_the_pipe(tmp_path: Path) -> None:
    code = """
        import subprocess, sys, time
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        print("reading block 7", file=sys.stderr, flush=True)
        time.sleep(60)
    """
    began = time.monotonic()

    finding = only(run(python(code), tmp_path, timeout=1.5))

    assert time.monotonic() - began < 15
    assert finding.code == "dump-timeout"
    assert finding.message == (
        "The dump was stopped with all its children: its 1.5 seconds (timeout) were over."
    )
    assert finding.details == ("reading block 7",)


@process_test
def test_the_deadline_cuts_the_timeout(tmp_path: Path) -> None:
    began = time.monotonic()
    program = python("import time; time.sleep(60)")

    dumped = run(program, tmp_path, timeout=50.0, deadline=began + 1)

    assert only(dumped).code == "dump-timeout"
    assert dumped.seconds < 10
    assert only(dumped).message == (
        "The dump was stopped with all its children: the run's deadline came after 1.0 seconds."
    )


def test_nothing_starts_after_the_deadline(tmp_path: Path) -> None:
    dumped = run(python(""), tmp_path, deadline=time.monotonic() - 1)

    assert only(dumped).message == "The dump was not started: the run's deadline had come."
    assert dumped.process_result is None


@process_test
def test_a_program_that_is_absent(tmp_path: Path) -> None:
    program = Program((str(tmp_path / "gone"),), tmp_path, {}, None, {})

    finding = only(run(program, tmp_path))

    assert finding.code == "dump-not-started"
    assert finding.message == (
        f"The dump could not be started: {tmp_path / 'gone'}: not found, or not executable."
    )


def jobs(tmp_path: Path, program: Program, *names: str) -> list[dumps.Job]:
    return [
        dumps.Job(
            name=name,
            program=program,
            args=(str(tmp_path / name), name),
            output_dir=tmp_path / name,
            timeout=30,
            repo=tmp_path,
        )
        for name in names
    ]


WRITE = "import sys, time; time.sleep({}); open(sys.argv[1] + '/x', 'w').write(sys.argv[2])"


@process_test
def test_cases_run_next_to_each_other_in_their_order(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    program = python(WRITE.format("2.0 if sys.argv[2] == 'a' else 0"))

    done = dumps.run_jobs(
        jobs(tmp_path, program, "a", "b", "c"),
        workers=2,
        on_done=lambda job, dumped: told.append((job.name, len(dumped.findings))),
    )

    assert [(one.folder / "x").read_text() for one in done] == ["a", "b", "c"]
    assert told == [("b", 0), ("c", 0), ("a", 0)]


@process_test
def test_the_deadline_ends_a_long_list_early(tmp_path: Path) -> None:
    program = python(WRITE.format("1"))
    began = time.monotonic()

    done = dumps.run_jobs(
        jobs(tmp_path, program, *"abcdefghij"), workers=1, deadline=time.monotonic() + 2.5
    )

    assert time.monotonic() - began < 10
    assert done[0].findings == ()
    assert [only(one).code for one in done[3:]] == ["dump-timeout"] * 7


@process_test
def test_ctrl_c_ends_every_program(tmp_path: Path) -> None:
    program = python("import time; time.sleep(60)")
    quick = python("")
    began = time.monotonic()

    def interrupt(_job: dumps.Job, _dumped: dumps.Dumped) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dumps.run_jobs(
            [*jobs(tmp_path, quick, "quick"), *jobs(tmp_path, program, *"abcdef")],
            workers=3,
            on_done=interrupt,
        )
    assert time.monotonic() - began < 20
    assert threading.active_count() == 1
    assert not (tmp_path / "f").exists()


@process_test
def test_a_full_folder_ends_the_run_before_anything_is_compared(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "old").touch()

    with pytest.raises(DumpError, match="output-not-empty"):
        dumps.run_jobs(jobs(tmp_path, python(WRITE.format(0)), "a", "b"))


def test_placeholders_are_replaced_within_words() -> None:
    words = ("--target", "{case}", "--dir={output_dir}/x", "{{case}}", "a }} b", "")

    assert dumps.expand_placeholders(words, {"case": "gguf", "output_dir": "/o {case}"}) == (
        "--target",
        "gguf",
        "--dir=/o {case}/x",
        "{case}",
        "a } b",
        "",
    )


@pytest.mark.parametrize(
    "word", ["{cases}", "{}", "{", "a}", "{case", "{case!r}", "{{{case}", "{ case }"]
)
def test_what_is_no_placeholder_is_refused(word: str) -> None:
    if word == "{{{case}":
        assert dumps.expand_placeholders([word], {"case": "x"}) == ("{x",)
        return
    with pytest.raises(ConfigError) as caught:
        dumps.expand_placeholders(["ok", word], {"seed": "42", "case": "x"}, LOCK)
    (problem,) = caught.value.problems
    assert (problem.code, problem.where) == ("placeholder", LOCK)
    assert problem.message.endswith("is no placeholder of this case; allowed: {case}, {seed}.")
    assert repr(word) in problem.message


def test_a_command_is_found_on_the_callers_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    theirs = tmp_path / "theirs"
    name = "python.exe" if os.name == "nt" else "python"
    for folder in (own, theirs, tmp_path / "repo" / "sub"):
        folder.mkdir(parents=True)
        (folder / name).touch()
        (folder / name).chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setenv("PATH", os.pathsep.join([str(own), str(theirs)]))
    dump = Dump(command=("python", "dump it.py", "{case}"), cwd="sub", env={"A": "1"})

    program, words = dumps.resolve_command(dump, tmp_path / "repo")

    assert program.argv == (str(theirs / name),)
    assert words == ("dump it.py", "{case}")
    assert program.cwd == tmp_path / "repo" / "sub"
    assert program.env["A"] == "1"
    assert program.port == {"command": "python 'dump it.py' '{case}'"}


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    dump = Dump(command=("no-such-program",), where={"command": LOCK})

    with pytest.raises(DumpError) as caught:
        dumps.resolve_command(dump, tmp_path)
    assert caught.value.problems == (
        Problem(
            "dump-not-started",
            "The dump could not be started: 'no-such-program' was not found, or is not executable.",
            LOCK,
        ),
    )


def test_dumps_that_lie_ready(tmp_path: Path) -> None:
    (tmp_path / "b-v1" / "full").mkdir(parents=True)
    (tmp_path / "b-v1" / "full" / "x.bin").touch()
    (tmp_path / "b-v1" / "empty").mkdir()

    assert dumps.load_dump(tmp_path, "b-v1", "full").findings == ()
    assert dumps.load_dump(tmp_path, "b-v1", "full").folder == tmp_path / "b-v1" / "full"
    empty = only(dumps.load_dump(tmp_path, "b-v1", "empty"))
    missing = only(dumps.load_dump(tmp_path, "b-v1", "gone", LOCK))
    folder = (tmp_path / "b-v1").as_posix()
    assert (empty.code, empty.message) == (
        "dump-empty",
        f"The dump of this case is empty: '{folder}/empty' holds no file.",
    )
    assert (missing.code, missing.where, missing.message) == (
        "dump-missing",
        LOCK,
        f"There is no dump of this case: the folder '{folder}/gone' does not exist.",
    )


@pytest.mark.parametrize(
    ("stdout", "found"),
    [
        ("", None),
        ("text\n[1]\n3\n", None),
        ('{"a": 1}\n{"b": 2}\n', {"b": 2}),
        ('{"a": 1}\ntext\n{broken\n', {"a": 1}),
        ('  {"a": 1}  \r\n', {"a": 1}),
        ('{"a":' * 100_000 + "\n", None),
        ('{"a": "' + "x" * dumps.STDOUT_LIMIT + '"}', None),
    ],
)
def test_the_last_line_that_is_an_object(stdout: str, found: dict[str, int] | None) -> None:
    assert dumps.find_json_line(stdout) == found


@pytest.mark.parametrize(
    ("text", "panic"),
    [
        ("all is well", None),
        (
            "thread 'main' panicked at 'boom: 1', a.rs:2:5\nnote: run with `RUST_BACKTRACE=1`",
            output.Panic("boom: 1", "a.rs", 2, 5),
        ),
        (
            "thread 'a b' (12) panicked at C:\\x y\\main.rs:2:5:\nboom\n\nlater",
            output.Panic("boom", "C:\\x y\\main.rs", 2, 5),
        ),
        ("thread 'main' panicked at a.rs:1:2:\n", output.Panic("", "a.rs", 1, 2)),
        (
            (
                "thread 'main' panicked at a.rs:1:2:\nx\n"
                "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n"
            ),
            output.Panic("x", "a.rs", 1, 2),
        ),
    ],
)
def test_panics_of_old_and_new_compilers(text: str, panic: output.Panic | None) -> None:
    assert output.find_panic(text) == panic


def test_long_lines_and_many_lines_are_cut() -> None:
    text = "\n".join(f"{number} " + "x" * 1000 for number in range(100))

    kept = output.select_last_lines(text)

    assert len(kept) == output.MAX_LINES
    assert {len(line) for line in kept} == {output.MAX_WIDTH}
    assert kept[-1].startswith("99 ")
    assert kept[-1].endswith("…")


def test_what_follows_a_backtrace_is_kept() -> None:
    text = "a\nstack backtrace:\n   0: x\n             at y.rs:1:2\n  11: z\nb\n  12: not a frame\n"

    assert output.clean_lines(text) == ["a", "b", "  12: not a frame"]
