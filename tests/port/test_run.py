"""A run of a case leaves files in a fresh folder, or a finding that says why not."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parity.errors import ConfigError, DumpError, Location, Problem
from parity.lockfile import Dump
from parity.port import cargo, dump_folder, output, process, run
from parity.port.cargo import Program
from parity.port.dump_folder import MAX_DEPTH
from parity.port.outcome_json import load_dump
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


def dump(program: Program, folder: Path, *args: str, **fields: Any) -> run.DumpResult:
    deadline = fields.pop("deadline", None)
    given = {"output_dir": folder / "out", "timeout": 30.0, "repo": folder, "where": LOCK}
    return run.run_job(
        run.Job(name="out", program=program, args=args, **{**given, **fields}), deadline=deadline
    )


def only(dumped: run.DumpResult) -> Finding:
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

    dumped = dump(python(code), tmp_path, str(tmp_path / "out"))

    assert dumped.findings == ()
    assert dumped.folder == tmp_path / "out"
    assert (dumped.folder / "deep" / "x.bin").read_bytes() == b"x"
    assert (dumped.stdout, dumped.stderr) == ("{}\n", "aside\n")
    assert dumped.seconds > 0


def test_files_of_an_earlier_run_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x.bin").touch()

    finding = only(dump(python(""), tmp_path))

    assert (finding.code, finding.message, finding.where) == (
        "output-not-empty",
        f"The output folder {(tmp_path / 'out').as_posix()!r} is not empty.",
        LOCK,
    )


EMPTY = "The dump ended with exit code 0 but wrote no file into its output folder."
ENDED, STOPPED = "The dump ended with exit code", "The dump was stopped with all its children"
TRACE = r"""
import sys
sys.stderr.write("\x1b[31mError:\x1b[0m no opcode 0x8c\n\nCaused by:\n    line 3\n\n"
    "Stack backtrace:\n   0: a::b\n             at ./a.rs:1:2\n   1: main\n")
sys.exit(3)
"""
#: A grandchild keeps the pipe open.
GRANDCHILD = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print("reading block 7", file=sys.stderr, flush=True)
time.sleep(60)
"""
#: Programs that fail: code, message, details and measures of their finding.
FAILURES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "nothing written": ("", ("dump-empty", EMPTY, (), {})),
    "only a folder": ("import os, sys; os.mkdir(sys.argv[1] + '/deep')",
        ("dump-empty", EMPTY, (), {})),
    "an exit code with its reason": (TRACE, ("dump-exit", f"{ENDED} 3: Error: no opcode 0x8c",
        ("Error: no opcode 0x8c", "Caused by:", "    line 3"), {"exit_code": 3})),
    "an exception of Python": ("def f():\n  raise ValueError('bad magic')\nf()",
        ("dump-exit", f"{ENDED} 1: ValueError: bad magic", ("ValueError: bad magic",),
        {"exit_code": 1})),
    "silence": ("raise SystemExit(4)",
        ("dump-exit", f"{ENDED} 4, and printed nothing.", (), {"exit_code": 4})),
    "a word on stdout": ("print('out of ideas'); raise SystemExit(5)",
        ("dump-exit", f"{ENDED} 5: out of ideas", ("out of ideas",), {"exit_code": 5})),
    "a timeout": (GRANDCHILD, ("dump-timeout",
        f"{STOPPED}: it reached its limit of 5 seconds (timeout).", ("reading block 7",), {})),
}  # fmt: skip


@process_test
@pytest.mark.parametrize("name", FAILURES)
def test_a_program_that_fails(name: str, tmp_path: Path) -> None:
    code, expected = FAILURES[name]
    started = time.monotonic()

    finding = only(dump(python(code), tmp_path, str(tmp_path / "out"), timeout=5.0))

    assert time.monotonic() - started < 15
    assert (finding.code, finding.message, finding.details, finding.measures) == expected
    assert finding.where == LOCK


MAIN = Path("port", "examples", "dump.rs")
ASSERTION = f"The dump panicked at {MAIN}:5:21: assertion `left == right` failed; left: 2; right: 3"
WORDLESS = f"{ENDED} 101, as after a Rust panic, and printed no reason."
#: What the port is told, the code, message and line of its finding, and a measure of it.
PANICS: dict[str, tuple[str, str, int, dict[str, Any]]] = {
    "panic": ("dump-panic", f"The dump panicked at {MAIN}:4:20: boom; with more", 4,
        {"exit_code": 101}),
    "assert": ("dump-panic", ASSERTION, 5, {"exit_code": 101}),
    "thread": ("dump-panic", f"The dump panicked at {MAIN}:6:43: inner", 6, {"exit_code": 101}),
    "exit": ("dump-panic", WORDLESS, 0, {"exit_code": 101}),
    "abort": ("dump-signal", "The dump was ended by SIGABRT, and printed nothing.", 0,
        {"signal": "SIGABRT"}),
}  # fmt: skip


@cargo_test
@pytest.mark.parametrize("mode", PANICS)
def test_a_port_that_panics(mode: str, port: tuple[Path, Program], tmp_path: Path) -> None:
    if mode == "abort" and os.name == "nt":
        pytest.skip("signals are POSIX's")
    (code, message, line, measures), (repo, program) = PANICS[mode], port

    finding = only(dump(program, tmp_path, mode, repo=repo))

    assert (finding.code, finding.message, finding.measures) == (code, message, measures)
    assert (finding.where or LOCK).line == (line or LOCK.line)
    assert not any("rust_begin_unwind" in line for line in finding.details)
    if line:
        assert (finding.where or LOCK).path == repo / MAIN
        assert message.rpartition(": ")[2] in "; ".join(finding.details)


@cargo_test
def test_a_panic_outside_the_repo_points_at_the_lockfile(
    port: tuple[Path, Program], tmp_path: Path
) -> None:
    assert only(dump(port[1], tmp_path, "panic")).where == LOCK


@process_test
def test_the_deadline_cuts_the_timeout(tmp_path: Path) -> None:
    program = python("import time; time.sleep(60)")

    dumped = dump(program, tmp_path, timeout=50.0, deadline=time.monotonic() + 1)

    assert only(dumped).code == "dump-timeout"
    assert dumped.seconds < 10
    assert only(dumped).message == f"{STOPPED}: the run's deadline passed after 1.0 seconds."


def test_nothing_starts_after_the_deadline(tmp_path: Path) -> None:
    dumped = dump(python(""), tmp_path, deadline=time.monotonic() - 1)

    assert only(dumped).message == "The dump was not started: the run's deadline had passed."
    assert dumped.process_result is None


@process_test
def test_a_program_that_is_absent(tmp_path: Path) -> None:
    program = Program((str(tmp_path / "gone"),), tmp_path, {}, None, {})

    finding = only(dump(program, tmp_path))

    assert finding.code == "dump-not-started"
    assert finding.message == (
        f"The dump could not be started: {tmp_path / 'gone'}: not found, or not executable."
    )


def jobs(tmp_path: Path, program: Program, *names: str) -> list[run.Job]:
    return [
        run.Job(
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
    program = python(WRITE.format("2.0 if sys.argv[2] == 'a' else 0"))

    done = run.run_jobs(jobs(tmp_path, program, "a", "b", "c"), workers=2)

    files = [one.folder / "x" for one in done]
    assert [file.read_text() for file in files] == ["a", "b", "c"]
    assert [one.findings for one in done] == [()] * 3
    times = [file.stat().st_mtime_ns for file in files]
    assert times[0] == max(times), "a ended last"


@process_test
@pytest.mark.parametrize(
    "change", ["open(a / 'x', 'a').write('!')", "open(a / 'y', 'w')", "os.remove(a / 'x')"]
)
def test_a_dump_that_another_case_changes_afterwards_is_not_compared(
    tmp_path: Path, change: str
) -> None:
    code = f"""
        import os, pathlib, sys, time
        out = pathlib.Path(sys.argv[1])
        (out / "x").write_text("right")
        if sys.argv[2] == "b":
            a = out.parent / "a"
            while not (a / "x").exists():
                time.sleep(0.01)
            time.sleep(1)
            {change}
    """
    changed, changing = run.run_jobs(jobs(tmp_path, python(code), "a", "b"), workers=2)

    assert only(changed).code == "dump-changed"
    assert changing.findings == ()


def test_a_change_beside_a_folder_that_cannot_be_listed_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "x").write_text("right")
    scandir = os.scandir

    def list_some(path: str) -> Any:
        if path.endswith("closed"):
            raise PermissionError(errno.EACCES, "denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", list_some)
    before = dump_folder.take_snapshot(tmp_path)
    (tmp_path / "x").write_text("wrong!")

    assert before
    assert dump_folder.take_snapshot(tmp_path) != before


@process_test
def test_the_deadline_ends_a_long_list_early(tmp_path: Path) -> None:
    program = python(WRITE.format("2"))
    started = time.monotonic()

    done = run.run_jobs(
        jobs(tmp_path, program, *"abcdefghij"), workers=1, deadline=time.monotonic() + 5
    )

    assert time.monotonic() - started < 15
    assert done[0].findings == ()
    assert [only(one).code for one in done[3:]] == ["dump-timeout"] * 7


@process_test
@posix
def test_ctrl_c_ends_every_program(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    # A shell that starts the tests in the background lets them ignore SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    program = python("import time; time.sleep(60)")
    quick = python("")
    started, threads = time.monotonic(), set(threading.enumerate())

    main = threading.main_thread().ident or 0
    interrupt = threading.Timer(2, signal.pthread_kill, [main, signal.SIGINT])
    interrupt.start()

    with pytest.raises(KeyboardInterrupt):
        run.run_jobs(
            [*jobs(tmp_path, quick, "quick"), *jobs(tmp_path, program, *"abcdef")], workers=3
        )
    interrupt.join()
    assert time.monotonic() - started < 20
    for thread in set(threading.enumerate()) - threads:
        thread.join(10)  # the last readers of pipes
    assert set(threading.enumerate()) <= threads
    assert not (tmp_path / "f").exists()


@process_test
def test_a_full_output_folder_fails_its_case_alone(tmp_path: Path) -> None:
    """An earlier run, or another case, wrote into it."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "old").touch()
    (tmp_path / "c").touch()

    good, full, file = run.run_jobs(jobs(tmp_path, python(WRITE.format(0)), "a", "b", "c"))

    assert good.findings == ()
    assert [only(one).code for one in (full, file)] == ["output-not-empty"] * 2


@process_test
@posix
@pytest.mark.parametrize(
    "code",
    [
        "shutil.rmtree(out)",
        "shutil.rmtree(out.parent)",
        "shutil.rmtree(out); out.write_text('a file')",
        "shutil.rmtree(out); out.symlink_to('/nowhere')",
        "shutil.rmtree(out); os.mkfifo(out)",
        "os.mkfifo(out / 'x.bin')",
        "out.chmod(0)",
    ],
)
def test_no_output_folder_is_too_odd_for_a_finding(tmp_path: Path, code: str) -> None:
    (tmp_path / "dumps").mkdir()
    program = python(f"import os, pathlib, shutil, sys; out = pathlib.Path(sys.argv[1]); {code}")
    folder = tmp_path / "dumps" / "out"

    dumped = dump(program, tmp_path, str(folder), output_dir=folder)

    assert [finding.code for finding in dumped.findings] in (["dump-empty"], [])
    if folder.is_dir():
        folder.chmod(0o700)


def test_a_folder_that_cannot_be_read_is_not_called_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rglob", fail)
    (tmp_path / "b" / "x").mkdir(parents=True)

    assert load_dump(tmp_path, "b", "x").findings == ()


@pytest.fixture
def deep_path(tmp_path: Path) -> Iterator[Path]:
    """Return a folder that is removed however deep it is; pytest cannot remove it."""
    yield tmp_path
    subprocess.run(["rm", "-r", "-f", str(tmp_path)], check=True)


#: Nests 3,000 folders, whose path is longer than the system takes at once.
NEST = """
import os, sys
os.chdir(sys.argv[1])
for _ in range(3000):
    os.mkdir("nested")
    os.chdir("nested")
"""


@process_test
@posix
@pytest.mark.parametrize(
    ("code", "start"), [("dump-empty", ""), ("dump-too-deep", "open('w.bin', 'w').close()\n")]
)
def test_folders_nested_too_deep_are_removed_and_reported(
    code: str, start: str, deep_path: Path
) -> None:
    nest = NEST.replace("for _", f"{start}for _", 1)

    dumped = dump(python(nest), deep_path, str(deep_path / "out"))

    assert only(dumped).code == code
    assert len(list((deep_path / "out").rglob("*"))) <= MAX_DEPTH + 1


@process_test
@posix
def test_a_ready_dump_nested_too_deep_is_reported_and_kept(deep_path: Path) -> None:
    folder = deep_path / "b" / "x"
    folder.mkdir(parents=True)
    (folder / "w.bin").touch()
    subprocess.run([sys.executable, "-c", NEST, str(folder)], check=True)

    assert only(load_dump(deep_path, "b", "x")).code == "dump-too-deep"

    assert (folder / "/".join(["nested"] * (MAX_DEPTH + 2))).is_dir()


@process_test
@posix
@pytest.mark.parametrize("kind", ["fifo", "folder", "link to a device"])
def test_an_outcome_that_is_not_a_file_is_never_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "b" / "x" / "outcome.json"
    path.parent.mkdir(parents=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")

    finding = only(load_dump(tmp_path, "b", "x"))

    assert (finding.code, finding.message) == (
        "outcome-malformed",
        "outcome.json of this case is not a regular file.",
    )


@pytest.mark.parametrize(
    "stderr",
    [
        "memory allocation of 1152921504606846976 bytes failed",
        "thread 'main' panicked at src/read.rs:7:9:\nan `Err` value: TryReserveError { kind: … }",
        "Error: memory allocation failed because the memory allocator returned an error",
        "Error: memory allocation failed because the computed capacity exceeded the maximum",
        "MemoryError",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 1.00 EiB for an array with",
        "terminate called after throwing an instance of 'std::bad_alloc'\n  what():",
        "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 7 bytes.",
        "Error: mmap: Cannot allocate memory (os error 12)",
        "fatal error: runtime: out of memory",
        "java.lang.OutOfMemoryError: Java heap space",
        "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
    ],
)
def test_running_out_of_memory_is_recognised_in_each_wording(stderr: str) -> None:
    assert output.is_out_of_memory(ended(exit_code=1, stderr=stderr))
    assert not output.is_out_of_memory(ended(exit_code=0, stderr=stderr))


def test_running_out_of_memory_is_recognised_without_a_word() -> None:
    assert output.is_out_of_memory(ended(signal="SIGKILL"))
    assert output.is_out_of_memory(ended(exit_code=1, reached_limit=True))
    assert not output.is_out_of_memory(ended(exit_code=1, stderr="not a GGUF file"))
    assert not output.is_out_of_memory(ended(signal="SIGABRT", stderr="capacity overflow"))


def ended(
    *,
    exit_code: int | None = None,
    signal: str | None = None,
    stderr: str = "",
    reached_limit: bool = False,
) -> process.ProcessResult:
    return process.ProcessResult((), exit_code, signal, False, "", stderr, 0.0, reached_limit)


@process_test
def test_a_command_gets_the_secrets_that_its_entry_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret_of_the_job")
    monkeypatch.setenv("GITHUB_TOKEN", "another_secret")
    code = "import os; print(*sorted({'HF_TOKEN', 'GITHUB_TOKEN'} & os.environ.keys()))"
    command = (sys.executable, "-c", code)

    for number, (passed, seen) in enumerate([((), ""), (("HF_TOKEN",), "HF_TOKEN")]):
        program = run.resolve_command(Dump(command=command, pass_env=passed), tmp_path)
        dumped = dump(program, tmp_path, *command[1:], output_dir=tmp_path / str(number))
        assert dumped.stdout.strip() == seen


def test_placeholders_are_replaced_within_words() -> None:
    words = ("--target", "{case}", "--dir={output_dir}/x", "{{case}}", "a }} b", "")

    assert run.expand_placeholders(words, {"case": "gguf", "output_dir": "/o {case}"}) == (
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
def test_an_unknown_placeholder_is_rejected(word: str) -> None:
    if word == "{{{case}":
        assert run.expand_placeholders([word], {"case": "x"}) == ("{x",)
        return
    with pytest.raises(ConfigError) as caught:
        run.expand_placeholders(["ok", word], {"seed": "42", "case": "x"}, LOCK)
    (problem,) = caught.value.problems
    assert (problem.code, problem.where) == ("placeholder", LOCK)
    assert problem.message.endswith("is not a placeholder of this case; allowed: {case}, {seed}.")
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

    program = run.resolve_command(dump, tmp_path / "repo")

    assert program.argv == (str(theirs / name),)
    assert program.cwd == tmp_path / "repo" / "sub"
    assert program.env["A"] == "1"
    assert program.port == {"command": "python 'dump it.py' '{case}'"}


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    dump = Dump(command=("no-such-program",), where={"command": LOCK})

    with pytest.raises(DumpError) as caught:
        run.resolve_command(dump, tmp_path)
    assert caught.value.problems == (
        Problem(
            "dump-not-started",
            "The dump could not be started: 'no-such-program' was not found, or is not executable.",
            LOCK,
        ),
    )


def test_ready_dumps_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "b-v1" / "full").mkdir(parents=True)
    (tmp_path / "b-v1" / "full" / "x.bin").touch()
    (tmp_path / "b-v1" / "empty").mkdir()

    assert load_dump(tmp_path, "b-v1", "full").findings == ()
    assert load_dump(tmp_path, "b-v1", "full").folder == tmp_path / "b-v1" / "full"
    empty = only(load_dump(tmp_path, "b-v1", "empty"))
    missing = only(load_dump(tmp_path, "b-v1", "gone"))
    folder = (tmp_path / "b-v1").as_posix()
    assert (empty.code, empty.message) == (
        "dump-empty",
        f"The dump of this case is empty: '{folder}/empty' contains no file.",
    )
    assert (missing.code, missing.message) == (
        "dump-missing",
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
        ('{"a": 1, "a": 2}', None),
        ('{"a": 1}\n{"a": "\u2028"}\r\n', {"a": "\u2028"}),
        ('{"a":' * 100_000 + "\n", None),
        ('{"a": "' + "x" * run.STDOUT_LIMIT + '"}', None),
    ],
)
def test_the_last_line_that_is_an_object(stdout: str, found: dict[str, Any] | None) -> None:
    assert run.find_json_line(stdout) == found


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
