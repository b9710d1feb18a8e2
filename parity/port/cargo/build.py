"""Examples of the repo under test, or of a published port, become programs to run.

Cargo is asked once per example: never for two packages in one call, because it would
unify their features and build something else than the maintainer's own call does.
A program is then started itself, which costs milliseconds where ``cargo run`` costs
tenths of a second, with exactly what ``cargo run`` gives it.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity.errors import DumpError, Problem
from parity.port import output, process
from parity.port.cargo import recorder
from parity.port.cargo.call import CargoCall, Program

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from parity.lockfile import Dump


# A configuration that holds everywhere and that nobody else writes: a runner under it
# gives way to one for the target's own triple, and never replaces the repo's own.
_RUNNER_KEY = 'target."cfg(not(parity_nowhere))".runner'
_RUNNER_PATTERN = re.compile(r"^[^#\n]*\brunner\b[\"']?\s*=", re.MULTILINE)
_RUNNER_VARIABLE = re.compile(r"CARGO_TARGET_.+_RUNNER$")
_GIT_SECONDS = 30.0
# Set inside a git hook, they would point at another repository.
_GIT_VARIABLES = frozenset({"GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"})


def make_build_key(dump: Dump, example: str) -> Hashable:
    """Equal for cases that one call of ``build`` serves."""
    env = tuple(sorted(dump.env.items()))
    return (dump.package, dump.crate, example, dump.profile, dump.features, env, dump.cwd)


def build_program(
    dump: Dump,
    example: str,
    *,
    repo: Path,
    toolchain: str,
    cargo_args: tuple[str, ...],
    offline: bool,
    crates: Path,
    deadline: float | None,
    on_progress: Callable[[str], None],
) -> Program:
    """Build ``example`` of ``dump.package``, or of ``dump.crate`` under ``crates``.

    Args:
        dump: How the port makes its side; ``package`` or ``crate`` is set.
        example: Name of the example, its placeholders expanded.
        repo: Root of the repo under test; findings name its files as paths below it.
        toolchain: Name of a rustup toolchain, or empty for the one that the repo selects.
        cargo_args: Further words for every call of cargo.
        offline: Let cargo fetch nothing.
        crates: Folder of the store for published ports, shared by all of them.
        deadline: End of the whole run by ``time.monotonic``; cuts ``dump.build_timeout``.
        say: Is given cargo's progress line by line, as cargo wrote it: escape it.

    Raises:
        DumpError: One problem or several, with the code ``no-cargo``, ``compile-error``,
            ``build-script``, ``no-example``, ``no-package``, ``no-registry``,
            ``build-timeout`` or ``build-failed``.
    """
    seconds = process.limit_timeout(dump.build_timeout, deadline)
    call = CargoCall(
        dump=dump,
        example=example,
        repo=repo,
        cwd=_choose_folder(dump, repo),
        env=process.build_environment(dump.env),
        toolchain=toolchain,
        cargo_args=cargo_args,
        offline=offline,
        deadline=time.monotonic() + seconds,
        cut_short=seconds < dump.build_timeout,
        on_progress=on_progress,
    )
    if not dump.crate:
        return _build_package(call)
    from parity.port.cargo.crates import install

    return install(call, crates)


def read_commit(repo: Path) -> str | None:
    """The commit that ``repo`` is at, with ``-dirty`` after local changes; None without git."""
    env = {
        name: value
        for name, value in process.build_environment().items()
        if name not in _GIT_VARIABLES
    }
    args = ("git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty")
    try:
        result = process.run(args, cwd=repo, env=env, timeout=_GIT_SECONDS)
    except process.NotStartedError:
        return None
    return result.stdout.strip() if result.exit_code == 0 else None


def _choose_folder(dump: Dump, repo: Path) -> Path:
    """Where cargo and the program run: in the repo, or for a crate beside the lockfile."""
    location = dump.where.get("crate") if dump.crate else None
    base = location.path.parent if location and location.path.is_file() else repo
    return (base / dump.cwd).resolve()


def _build_package(call: CargoCall) -> Program:
    """Build an example of the repo and find out how cargo would run it."""
    package = ("-p", call.dump.package or "")
    cargo_output = call.build("build", "--keep-going", *package)
    if cargo_output.executable is None:
        message = f"cargo built no executable for example {call.example!r}."
        raise DumpError(Problem("build-failed", message, call.where))
    port = {"package": package[1], "version": cargo_output.version, "commit": read_commit(call.cwd)}
    known = {key: value for key, value in port.items() if value}
    argv, cwd, env = _record_run(call, cargo_output.executable) or _use_cargo_run(call)
    source = (
        output.locate_source(str(cargo_output.source), call.repo, call.cwd)
        if cargo_output.source
        else None
    )
    return Program(argv, cwd, env, cargo_output.version, known, source)


_Invocation = tuple[tuple[str, ...], Path, "Mapping[str, str]"]


def _use_cargo_run(call: CargoCall) -> _Invocation:
    """``cargo run`` itself, for a repo that configures a runner of its own."""
    args = ("run", "-q", "-p", call.dump.package or "", *call.flags, "--")
    return (*call.command_prefix, *args), call.cwd, call.env


def _record_run(call: CargoCall, executable: Path) -> _Invocation | None:
    """What ``cargo run`` gives the program, by a recorder in its place; None if it cannot say."""
    if _has_runner(call):
        return None
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        file = Path(folder) / "record.json"
        runner = [sys.executable, "-I", str(Path(recorder.__file__).resolve()), str(file)]
        # A list in JSON is one in TOML too, and keeps spaces in paths whole.
        config = f"{_RUNNER_KEY}={json.dumps(runner, ensure_ascii=False)}"
        package = ("-p", call.dump.package or "")
        call.run(("run", "-q", "--config", config, *package, *call.flags), call.env)
        record = _read_record(file)
    if record is None:
        return None
    return (str(executable),), Path(record["cwd"]), _remove_own_variables(record["env"], call.env)


def _read_record(file: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return record


def _remove_own_variables(env: dict[str, str], caller_env: Mapping[str, str]) -> dict[str, str]:
    # Python itself sets LC_CTYPE as it starts in the C locale (PEP 538).
    own = {"LC_CTYPE"} - caller_env.keys()
    return {name: value for name, value in env.items() if name not in own}


def _has_runner(call: CargoCall) -> bool:
    """Whether a configuration that cargo reads in ``cwd`` mentions a runner.

    Too often yes is only slower: cargo then runs the cases. Where a file is included
    from elsewhere, cargo prefers its runner and the record stays unwritten.
    """
    if any(_RUNNER_VARIABLE.match(name) for name in call.env):
        return True
    return any(_RUNNER_PATTERN.search(text) for text in call.read_configs())
