"""Children are bounded in time and memory, whatever they do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from parity.port import process
from parity.port.process import child as child_module
from parity.port.process import is_token, memory_limit
from parity.port.process.child import Child
from parity.text import mask_secrets

process_test = pytest.mark.process
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers and /proc")
posix = pytest.mark.skipif(os.name == "nt", reason="signals and sessions are POSIX's")


def python(
    code: str,
    cwd: Path,
    *args: str,
    timeout: float = 30,
    env: dict[str, str] | None = None,
    **options: int | object,
) -> process.ProcessResult:
    words = (sys.executable, "-c", textwrap.dedent(code), *args)
    env = process.build_environment() if env is None else env
    return process.run(words, cwd=cwd, env=env, timeout=timeout, **options)


def alive(pid: int) -> bool:
    """Whether ``pid`` still runs; one that waits to be reaped by init does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return sys.platform != "linux"
    return stat.read_text("utf-8").rpartition(")")[2].split()[0] != "Z"


def gone(pid: int, seconds: float = 5) -> bool:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if not alive(pid):
            return True
        time.sleep(0.02)
    return False


@process_test
def test_both_streams_the_exit_code_and_the_folder(tmp_path: Path) -> None:
    code = """
        import os, sys
        print(os.path.basename(os.getcwd()), sys.argv[1:])
        print("said aside", file=sys.stderr)
        sys.exit(3)
    """
    folder = tmp_path / "a folder"
    folder.mkdir()

    result = python(code, folder, "x y", "$HOME", "; true")

    assert result.stdout == "a folder ['x y', '$HOME', '; true']\n"
    assert result.stderr == "said aside\n"
    assert (result.exit_code, result.signal, result.timed_out) == (3, None, False)
    assert 0 < result.seconds < 30


@process_test
@posix
def test_a_signal_has_its_name(tmp_path: Path) -> None:
    result = python("import os; os.abort()", tmp_path)

    assert (result.exit_code, result.signal) == (None, "SIGABRT")


@process_test
def test_stdin_is_empty(tmp_path: Path) -> None:
    assert python("print(repr(input))\ninput()", tmp_path).stderr.endswith(
        "EOFError: EOF when reading a line\n"
    )


@process_test
@posix
def test_timeout_kills_the_grandchild_that_keeps_the_pipe(tmp_path: Path) -> None:
    code = """
        import subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        print(child.pid, flush=True)
        time.sleep(60)
    """
    started = time.monotonic()

    result = python(code, tmp_path, timeout=1)

    assert (result.exit_code, result.signal, result.timed_out) == (None, None, True)
    assert time.monotonic() - started < 10
    assert gone(int(result.stdout))


@process_test
@posix
def test_a_grandchild_that_outlives_its_parent_does_not_block_us(tmp_path: Path) -> None:
    code = """
        import subprocess, sys
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        print(child.pid, flush=True)
    """
    started = time.monotonic()

    result = python(code, tmp_path, timeout=30)

    assert (result.exit_code, result.timed_out) == (0, False)
    assert time.monotonic() - started < 10
    assert gone(int(result.stdout))


#: Starts a process that detaches itself, with the environment that is written for ENV.
DETACH = """
    import os, subprocess, sys
    args = [sys.executable, "-c", "import time; time.sleep(60)"]
    quiet = dict.fromkeys(["stdin", "stdout", "stderr"], subprocess.DEVNULL)
    options = {} if KEEPS_PIPES else quiet
    if os.fork():
        os._exit(0)
    os.setsid()
    print(subprocess.Popen(args, start_new_session=True, env=ENV, **options).pid, flush=True)
"""


@process_test
@linux
@pytest.mark.parametrize("keeps_pipes", [True, False])
def test_a_process_that_detaches_is_stopped_by_its_mark(tmp_path: Path, keeps_pipes: bool) -> None:
    started = time.monotonic()

    result = python(
        DETACH.replace("KEEPS_PIPES", str(keeps_pipes)).replace("ENV", "None"), tmp_path
    )

    assert result.exit_code == 0
    assert time.monotonic() - started < 15
    assert gone(int(result.stdout))


@process_test
@linux
@pytest.mark.parametrize("environment", ["None", "{}"])
def test_a_process_that_detaches_comes_back_to_a_subreaper(
    tmp_path: Path, environment: str
) -> None:
    """Also one that cleans its environment, and so has no mark."""
    detach = textwrap.dedent(DETACH.replace("KEEPS_PIPES", "False").replace("ENV", environment))
    code = f"""
        import os, sys, pathlib
        from parity.port import process
        process.claim_orphans()
        args = [sys.executable, "-c", {detach!r}]
        for _ in range(2):
            folder = pathlib.Path({str(tmp_path)!r})
            print(process.run(args, cwd=folder, env=dict(os.environ), timeout=30).stdout, end="")
        print(pathlib.Path("/proc/self/task", str(os.getpid()), "children").read_text())
    """
    result = python(code, Path.cwd())

    first, second, children = result.stdout.split("\n")[:3]
    assert result.stderr == ""
    assert gone(int(first), 0.1)
    assert gone(int(second), 0.1)
    assert children == "", "no zombie is left"


@process_test
@linux
def test_a_detached_process_of_a_running_child_is_left_alone(tmp_path: Path) -> None:
    """What one port started in the background must not end with another port."""
    keeper = """
        import os, subprocess, sys, time
        if not os.fork():
            sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
            quiet = dict.fromkeys(["stdin", "stdout", "stderr"], subprocess.DEVNULL)
            pid = subprocess.Popen(sleeper, start_new_session=True, env={}, **quiet).pid
            with open("pid.part", "w") as file:
                file.write(str(pid))
            os.rename("pid.part", "pid")
            os._exit(0)
        while not os.path.exists("go"):
            time.sleep(0.01)
    """
    (tmp_path / "keeper.py").write_text(textwrap.dedent(keeper))
    code = f"""
        import os, pathlib, sys, threading, time
        from parity.port import process
        process.claim_orphans()
        folder = pathlib.Path({str(tmp_path)!r})
        def run(*args):
            process.run([sys.executable, *args], cwd=folder, env=dict(os.environ), timeout=30)
        keeper = threading.Thread(target=run, args=["keeper.py"])
        keeper.start()
        while not (folder / "pid").exists():
            time.sleep(0.01)
        run("-c", "")
        print(os.path.exists("/proc/" + (folder / "pid").read_text()))
        (folder / "go").touch()
        keeper.join()
    """
    result = python(code, Path.cwd())

    assert result.stdout == "True\n", result.stderr
    assert gone(int((tmp_path / "pid").read_text()))


@process_test
@pytest.mark.slow
@pytest.mark.parametrize("end", ["", "\\n"], ids=["one line", "lines"])
def test_a_hundred_megabytes_cost_no_memory(tmp_path: Path, end: str) -> None:
    code = f"""
        import sys
        block = ("x" * 1023 + "{end or "x"}") * 1024
        for _ in range(100):
            sys.stdout.write(block)
            sys.stderr.write(block)
        sys.stdout.write("the end")
    """
    lines: list[int] = []
    tracemalloc.start()

    result = python(code, tmp_path, timeout=60, on_line=lambda line: lines.append(len(line)))

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(result.stdout) == process.TAIL_BYTES
    assert len(result.stderr) == process.TAIL_BYTES
    assert result.stdout.endswith("the end")
    assert peak < 16 * 1024 * 1024
    assert max(lines) <= 1024 * 1024
    assert len(lines) == (100 * 1024 + 1 if end else 1)


@process_test
def test_limits_apply_to_each_stream(tmp_path: Path) -> None:
    code = "import sys; print('o' * 500); print('e' * 500, file=sys.stderr)"

    result = python(code, tmp_path, stdout_limit=100, stderr_limit=10)

    assert result.stdout == "o" * 99 + "\n"
    assert result.stderr == "e" * 9 + "\n"


@process_test
def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    result = python(r"import sys; sys.stdout.buffer.write(b'a\xff\r\nb\xc3\xa9')", tmp_path)

    assert result.stdout == "a\ufffd\nbé"


@process_test
def test_lines_are_passed_on_as_they_are_printed(tmp_path: Path) -> None:
    out: list[str] = []
    err: list[str] = []
    code = r"import sys; print('one\n\ntwo'); sys.stderr.write('aside\r\nlast')"

    python(code, tmp_path, on_line=out.append, on_error_line=err.append)

    assert out == ["one", "two"]
    assert err == ["aside", "last"]


@process_test
def test_an_error_of_the_callback_is_ours_not_the_childs(tmp_path: Path) -> None:
    def reject(line: str) -> None:
        raise RuntimeError(line)

    with pytest.raises(RuntimeError, match="xxxxx"):
        python("print('x' * 10)\nprint('y' * 1_000_000)", tmp_path, on_line=reject)


@process_test
@posix
def test_ctrl_c_kills_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = tmp_path / "pid"
    code = f"""
        import os, pathlib, time
        pathlib.Path({str(note)!r}).write_text(str(os.getpid()))
        time.sleep(60)
    """

    def interrupted(*_: object) -> bool:
        while not (note.exists() and note.read_text()):
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(Child, "wait", interrupted)

    with pytest.raises(KeyboardInterrupt):
        python(code, tmp_path)
    assert gone(int(note.read_text()))


@process_test
def test_stop_all_ends_what_other_threads_wait_for(tmp_path: Path) -> None:
    results: list[process.ProcessResult] = []
    code = "import time; print('up', flush=True); time.sleep(60)"
    up = threading.Event()

    def work() -> None:
        results.append(python(code, tmp_path, on_line=lambda _: up.set()))

    thread = threading.Thread(target=work)
    thread.start()
    assert up.wait(20)
    process.stop_all()
    thread.join(20)

    assert [one.exit_code for one in results] != [0]
    assert len(results) == 1


@process_test
def test_stop_all_reaches_a_child_that_is_being_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its output may be seen before the call that starts it has returned."""
    real = subprocess.Popen

    def start(*args: Any, **options: Any) -> Any:
        started = real(*args, **options)
        process.stop_all()
        return started

    monkeypatch.setattr(child_module.subprocess, "Popen", start)

    result = python("import time; time.sleep(60)", tmp_path, timeout=20)

    assert not result.timed_out
    assert result.exit_code != 0


@process_test
@linux
def test_ctrl_c_during_the_start_leaves_no_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, started = subprocess.Popen, []

    def start(*args: Any, **options: Any) -> Any:
        started.append(real(*args, **options))
        raise KeyboardInterrupt

    monkeypatch.setattr(child_module.subprocess, "Popen", start)

    with pytest.raises(KeyboardInterrupt):
        python("import time; time.sleep(60)", tmp_path)
    with started[0]:  # closes its pipes
        assert gone(started[0].pid)


@process_test
def test_no_program_runs_past_the_deadline_of_all(tmp_path: Path) -> None:
    with process.limit_all(time.monotonic() + 0.5):
        result = python("import time; time.sleep(60)", tmp_path, timeout=30)
    after = python("print(1)", tmp_path)

    assert (result.timed_out, result.past_deadline) == (True, True)
    assert result.seconds < 20
    assert (after.exit_code, after.timed_out) == (0, False)


@process_test
@pytest.mark.parametrize("program", ["no-such-program", "./no-such-program"])
def test_a_program_that_is_absent(tmp_path: Path, program: str) -> None:
    with pytest.raises(process.NotStartedError) as caught:
        process.run([program], cwd=tmp_path, env={"PATH": str(tmp_path)}, timeout=1)
    assert str(caught.value) == f"{program}: not found, or not executable"


@process_test
@posix
@pytest.mark.parametrize(
    ("first", "reason"),
    [("#!/no/such/interpreter\n", "No such file or directory"), ("\x00", "Exec format error")],
)
def test_a_file_that_cannot_be_executed(tmp_path: Path, first: str, reason: str) -> None:
    file = tmp_path / "program"
    file.write_text(first)
    file.chmod(0o755)

    with pytest.raises(process.NotStartedError, match=reason):
        process.run([str(file)], cwd=tmp_path, env={}, timeout=1)


@process_test
def test_a_folder_that_is_absent(tmp_path: Path) -> None:
    with pytest.raises(process.NotStartedError) as caught:
        process.run([sys.executable], cwd=tmp_path / "gone", env={}, timeout=1)
    assert caught.value.reason == f"the folder {(tmp_path / 'gone').as_posix()!r} does not exist"


def executables(*folders: Path) -> Sequence[str]:
    files = []
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / ("tool.exe" if os.name == "nt" else "tool")
        file.write_text("")
        file.chmod(0o755)
        files.append(str(file))
    return files


def test_a_bare_name_is_found_on_path_in_order(tmp_path: Path) -> None:
    first, second = executables(tmp_path / "a b", tmp_path / "c")
    path = os.pathsep.join(["", ".", str(tmp_path / "a b"), str(tmp_path / "c")])

    assert process.find_program("tool", path) == first
    assert process.find_program("tool", str(tmp_path / "c")) == second
    assert process.find_program("tool", "") is None


def test_the_current_folder_offers_no_bare_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executables(tmp_path)
    monkeypatch.chdir(tmp_path)

    assert process.find_program("tool", os.pathsep.join(["", "."])) is None
    assert process.find_program("./tool", "", tmp_path) is not None


@posix
def test_a_file_without_the_right_to_execute_is_passed_over(tmp_path: Path) -> None:
    first, second = executables(tmp_path / "a", tmp_path / "b")
    Path(first).chmod(0o644)

    assert process.find_program("tool", f"{tmp_path / 'a'}{os.pathsep}{tmp_path / 'b'}") == second


def test_children_do_not_see_our_own_venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    other = tmp_path / "other"
    own.mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    monkeypatch.setenv("PATH", os.pathsep.join([str(own), str(other), str(own)]))

    env = process.build_environment({"EXTRA": "1"})

    assert env["PATH"] == str(other)
    assert "VIRTUAL_ENV" not in env
    assert env["EXTRA"] == "1"

    # An empty entry is the current folder.
    monkeypatch.setenv("PATH", os.pathsep.join(["", str(other)]))
    assert process.build_environment()["PATH"] == os.pathsep.join(["", str(other)])
    monkeypatch.chdir(own)
    assert process.build_environment()["PATH"] == str(other)


def test_an_interpreter_without_venv_keeps_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else /usr/bin would vanish, and cargo with it."""
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setenv("PATH", "/usr/bin")

    assert process.build_environment()["PATH"] == "/usr/bin"


def test_a_timeout_is_cut_to_the_deadline() -> None:
    assert process.limit_timeout(10, None) == 10
    assert process.limit_timeout(10, time.monotonic() + 100) == 10
    assert 4 < process.limit_timeout(10, time.monotonic() + 5) <= 5
    assert process.limit_timeout(10, time.monotonic() - 1) < 0


def test_no_token_reaches_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = [
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "GITHUB_TOKEN",
        "GH_TOKEN",
        "ACTIONS_RUNTIME_TOKEN",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
    ]
    for number, name in enumerate(tokens):
        monkeypatch.setenv(name, f"token of nobody, {number}")
    monkeypatch.setenv("HF_HOME", "/models")

    env = process.build_environment()

    assert not env.keys() & {*tokens}
    assert env["HF_HOME"] == "/models"
    passed = process.build_environment(pass_env=["HF_TOKEN"])
    assert {name for name in tokens if name in passed} == {"HF_TOKEN"}
    own = process.build_environment({"HF_TOKEN": "its own"})
    assert [own[name] for name in tokens if name in own] == ["its own"]
    # A child may find them elsewhere, and print them.
    assert [mask_secrets(f"token of nobody, {number}") for number in range(len(tokens))] == [
        "***"
    ] * len(tokens)


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [("hf_token", True), ("Actions_Cache_Url", True), ("HF_HOME", False), ("MY_ACTIONS_", False)],
)
def test_tokens_are_recognised_in_any_case(name: str, *, is_secret: bool) -> None:
    assert is_token(name) == is_secret


@process_test
@posix
def test_an_end_that_the_system_forgets_is_no_success(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        result = python("", tmp_path)
    finally:
        signal.signal(signal.SIGCHLD, before)

    assert (result.exit_code, result.signal) == (None, "SIGTERM")


@process_test
def test_a_child_has_its_own_files_for_the_runner(tmp_path: Path) -> None:
    names = ["GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"]
    for name in names:
        (tmp_path / name).write_text("ours\n")
    env = {**process.build_environment(), **{name: str(tmp_path / name) for name in names}}
    code = f"""
        import os
        for name in {names!r}:
            with open(os.environ[name], "a") as file:
                file.write("stolen=1")
            print(os.environ[name])
    """
    result = python(code, tmp_path, env=env)

    given = result.stdout.splitlines()
    assert result.exit_code == 0
    assert len({*given}) == len(names)
    assert [(tmp_path / name).read_text() for name in names] == ["ours\n"] * len(names)
    assert not any(Path(path).exists() for path in given), "thrown away"


@process_test
@posix
def test_the_limit_of_memory_is_noticed_when_it_is_reached(tmp_path: Path) -> None:
    code = """
        held = []
        try:
            while True:
                held.append(bytearray(2**20))
        except MemoryError:
            pass
        raise SystemExit("something went wrong")
    """
    import resource  # noqa: PLC0415 - there is none on Windows

    # A child's peak is known where it is above this process's own, which may have loaded torch.
    unit = 1 if sys.platform == "darwin" else 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    near = python(code, tmp_path, memory=own + 200 * 2**20)
    far = python("raise SystemExit('wrong')", tmp_path, memory=200 * 2**20)

    assert (near.exit_code, near.reached_limit) == (1, True)
    assert (far.exit_code, far.reached_limit) == (1, False)


@pytest.fixture(params=["prlimit", "python"])
def launcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each program that starts another one under a limit of memory."""
    if request.param == "python":
        monkeypatch.setattr(memory_limit, "_PRLIMIT", "/nowhere/prlimit")
    elif not Path(memory_limit._PRLIMIT).exists():
        pytest.skip("this system has no prlimit")
    return str(request.param)


@process_test
@posix
@pytest.mark.usefixtures("launcher")
def test_a_program_and_its_children_have_the_limits(tmp_path: Path) -> None:
    code = """
        import resource, signal, subprocess, sys
        names = ("DATA" if sys.platform == "linux" else "AS", "STACK", "CORE")
        kinds = [getattr(resource, f"RLIMIT_{name}") for name in names]
        print([resource.getrlimit(kind) for kind in kinds], flush=True)
        if len(sys.argv) < 2:
            subprocess.run([sys.executable, *sys.orig_argv[1:], "child"], check=True)
    """
    import resource  # noqa: PLC0415 - there is none on Windows

    result = python(code, tmp_path, memory=2**30)

    stack = (8 * 2**20, resource.getrlimit(resource.RLIMIT_STACK)[1])
    expected = [(2**30, 2**30), stack, (0, 0)]
    assert result.stdout.splitlines() == [str(expected)] * 2


BROKEN = {
    "a text without a first line": (b"touch started\n", "Exec format error"),
    "an interpreter that is missing": (b"#!/nowhere/sh\n", "No such file or directory"),
    "another machine's": (b"\x7fELF\x02\x02\x01" + bytes(13), "Exec format error"),
}


@process_test
@posix
@pytest.mark.usefixtures("launcher")
@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_started_is_no_end(name: str, tmp_path: Path) -> None:
    content, reason = BROKEN[name]
    program = tmp_path / "program"
    program.write_bytes(content)
    program.chmod(0o755)
    with pytest.raises(process.NotStartedError, match=reason):
        process.run([str(program)], cwd=tmp_path, env={}, timeout=30, memory=2**30)
    assert not Path(tmp_path, "started").exists(), "no shell has read it"


@process_test
@linux
@pytest.mark.usefixtures("launcher")
def test_a_program_that_prlimit_cannot_start_is_no_end(tmp_path: Path) -> None:
    program = tmp_path / "program"
    original = Path(sys.executable).resolve()
    # Linked against a loader that is missing, so that only the launcher can say why.
    data = original.read_bytes()
    at = data.index(b"/ld-linux") if b"/ld-linux" in data else data.index(b"/ld-musl")
    program.write_bytes(data[: at + 1] + b"xx" + data[at + 3 :])
    program.chmod(0o755)
    with pytest.raises(process.NotStartedError, match="No such file or directory"):
        process.run([str(program)], cwd=tmp_path, env={}, timeout=30, memory=2**30)


@process_test
@linux
def test_a_limit_that_prlimit_rejects_is_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path(memory_limit._PRLIMIT).exists():
        pytest.skip("this system has no prlimit")
    monkeypatch.setattr(memory_limit, "_list_limits", lambda _size: [("DATA", 2**30, 2**20)])
    with pytest.raises(process.NotStartedError, match="soft limit"):
        python("pass", tmp_path, memory=2**30)
