"""Build examples of the repo under test, or of a published crate, as programs to run.

Cargo builds one example a call: for two packages in one call it would unify their features and
build something else than the maintainer's own call does. The program is then started directly,
which costs milliseconds where ``cargo run`` costs tenths of a second, with the arguments,
folder and environment that ``cargo run`` gives it.

Cargo writes every variant of an example (features, profile, package) to one path, so each
executable is linked under a name of its own before the next build.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from parity.errors import DumpError, Problem
from parity.lockfile import Dump
from parity.port import output, process
from parity.port.cargo import recorder
from parity.port.cargo.call import CargoCall, Program

# A configuration that applies everywhere and that nobody else writes: a runner under it
# gives way to one for the target's own triple, and never replaces the repo's own.
_RUNNER_KEY = 'target."cfg(not(parity_nowhere))".runner'
_RUNNER_PATTERN = re.compile(r"^[^#\n]*\brunner\b[\"']?\s*=", re.MULTILINE)
_RUNNER_VARIABLE = re.compile(r"CARGO_TARGET_.+_RUNNER$")
_GIT_SECONDS = 30.0
# Set inside a git hook, they would point at another repository.
_GIT_VARIABLES = ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE")
# By the path that cargo writes, the variant that ``cargo run`` may overwrite it with.
_run_by_cargo: dict[Path, str] = {}


def make_build_key(dump: Dump, example: str) -> Hashable:
    """Return a key that is equal for cases with the same program."""
    target = (dump.package, dump.crate, example, dump.profile, dump.features)
    return (*target, tuple(sorted(dump.env.items())), dump.cwd, dump.pass_env)


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

    ``repo`` is the root of the repo under test; ``toolchain`` is of rustup, empty for the one that
    the repo selects; ``crates`` is shared by all published ports. ``deadline`` is that of the whole
    run by ``time.monotonic``, and cuts ``dump.build_timeout``. ``on_progress`` is called with each
    line of cargo's progress, as cargo wrote it: escape it.

    Raises:
        DumpError: One problem or several, with the code ``no-cargo``, ``compile-error``,
            ``build-script``, ``no-example``, ``no-package``, ``no-registry``,
            ``build-timeout`` or ``build-failed``.
    """
    seconds = process.limit_timeout(dump.build_timeout, deadline)
    # Cargo runs in the repo, or for a crate beside the lockfile.
    location = dump.where.get("crate") if dump.crate else None
    base = location.path.parent if location and location.path.is_file() else repo
    call = CargoCall(
        dump=dump,
        example=example,
        repo=repo,
        cwd=(base / dump.cwd).resolve(),
        env=process.build_environment(dump.env),
        toolchain=toolchain,
        cargo_args=cargo_args,
        offline=offline,
        deadline=time.monotonic() + seconds,
        cut_short=seconds < dump.build_timeout,
        on_progress=on_progress,
    )
    program = install(call, crates) if dump.crate else _build_package(call)
    # Only the program gets secrets: neither cargo nor a build script needs one.
    env = {**process.read_passed_env(dump.pass_env), **program.env}
    return replace(program, env=env)


def read_commit(repo: Path) -> str | None:
    """Return the commit of ``repo``, with ``-dirty`` after local changes; None without git."""
    env = process.build_environment()
    for name in _GIT_VARIABLES:
        env.pop(name, None)
    args = ("git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty")
    try:
        result = process.run(args, cwd=repo, env=env, timeout=_GIT_SECONDS)
    except process.NotStartedError:
        return None
    return result.stdout.strip() if result.exit_code == 0 else None


def _build_package(call: CargoCall) -> Program:
    """Build an example of the repo, and record how cargo would run it."""
    package = ("-p", call.dump.package or "")
    cargo_output = call.build("build", "--keep-going", *package)
    if cargo_output.executable is None:
        message = f"cargo built no executable for example {call.example!r}."
        raise DumpError(Problem("build-failed", message, call.where))
    port = {"package": package[1], "version": cargo_output.version, "commit": read_commit(call.cwd)}
    known = {key: value for key, value in port.items() if value}
    # Everything that decides which executable is built.
    key = (make_build_key(call.dump, call.example), call.toolchain, call.cargo_args)
    variant = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
    record = _record_run(call)
    if record is None:
        argv, cwd, env = _use_cargo_run(call, cargo_output.executable, variant)
    else:
        argv = (str(_keep_executable(call, cargo_output.executable, variant)),)
        cwd, env = Path(record["cwd"]), record["env"]
        if "LC_CTYPE" not in call.env:  # Python sets it as it starts in the C locale (PEP 538)
            env.pop("LC_CTYPE", None)
    source = output.locate_source(str(cargo_output.source), call.repo, call.cwd)
    return Program(argv, cwd, env, cargo_output.version, known, source)


def _keep_executable(call: CargoCall, built: Path, variant: str) -> Path:
    """Link or copy ``built`` beside itself, so that no later build replaces it.

    It stays in its folder, where its libraries are (``$ORIGIN``, DLLs). Cargo removes an
    executable before it links the next, so a hard link is safe.

    Raises:
        DumpError: ``build-failed``.
    """
    name, suffix = (built.stem, ".exe") if built.suffix == ".exe" else (built.name, "")
    kept = built.with_name(f"{name}-parity-{variant}{suffix}")
    partial = kept.with_name(f"{kept.name}.{os.getpid()}.part")
    try:
        if kept.exists() and kept.samefile(built):
            return kept
        partial.unlink(missing_ok=True)
        try:
            os.link(built, partial)
        except OSError:
            shutil.copy2(built, partial)
        partial.replace(kept)
    except OSError as error:
        message = f"The executable {built.as_posix()!r} cannot be kept: {error.strerror or error}."
        raise DumpError(Problem("build-failed", message, call.where)) from error
    return kept


def _use_cargo_run(
    call: CargoCall, built: Path, variant: str
) -> tuple[tuple[str, ...], Path, Mapping[str, str]]:
    """Use ``cargo run`` itself, for a repo that configures a runner of its own.

    Each run may write ``built`` again, so a second variant of it gets a target folder of its own.
    """
    package = ("-p", call.dump.package or "")
    if _run_by_cargo.setdefault(built, variant) != variant:
        target = built.parents[2] / "parity" / variant
        call = replace(call, env={**call.env, "CARGO_TARGET_DIR": str(target)})
        call.build("build", *package)
    return (*call.command_prefix, "run", "-q", *package, *call.flags, "--"), call.cwd, call.env


def _record_run(call: CargoCall) -> dict[str, Any] | None:
    """Return what ``cargo run`` gives the program, by a recorder in its place; None if unknown."""
    # A configuration that mentions a runner, too, is only slower: cargo then runs the cases. If a
    # file is included from elsewhere, cargo prefers its runner and no record is written.
    texts = call.read_configs()
    if any(map(_RUNNER_VARIABLE.match, call.env)) or any(map(_RUNNER_PATTERN.search, texts)):
        return None
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        file = Path(folder) / "record.json"
        runner = [sys.executable, "-I", str(Path(recorder.__file__).resolve()), str(file)]
        # A list in JSON is one in TOML too, and keeps spaces in paths whole.
        config = f"{_RUNNER_KEY}={json.dumps(runner, ensure_ascii=False)}"
        package = ("-p", call.dump.package or "")
        call.run(("run", "-q", "--config", config, *package, *call.flags), call.env)
        with contextlib.suppress(OSError, ValueError):
            record: dict[str, Any] = json.loads(file.read_text(encoding="ascii"))
            return record
    return None


# Variables of the caller that change the result of a compiler.
_COMPILER_VARIABLES = ("AR", "CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "RUSTC", "RUSTFLAGS")
_COMPILER_PREFIXES = (
    "CARGO_BUILD_",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_PROFILE_",
    "CARGO_TARGET_",
    "RUSTC_",
)


def install(call: CargoCall, crates: Path) -> Program:
    """Return the example of ``dump.crate``, built under ``crates`` if it is not there yet.

    Raises:
        DumpError: It could not be built, or another process builds it for too long.
    """
    from filelock import FileLock, Timeout

    crates.mkdir(parents=True, exist_ok=True)
    target = [call.dump.crate, call.target_args, sorted(call.dump.env.items())]
    variables = [
        (name, value)
        for name, value in sorted(call.env.items())
        if name in _COMPILER_VARIABLES
        or (name.startswith(_COMPILER_PREFIXES) and name != "CARGO_TARGET_DIR")
    ]
    state = [target, call.read_version(), call.read_configs(), variables]
    root = crates.resolve() / hashlib.sha256(json.dumps(state).encode()).hexdigest()
    file = root / "bin" / (f"{call.example}.exe" if os.name == "nt" else call.example)
    try:
        with FileLock(f"{root}.lock", timeout=max(call.deadline - time.monotonic(), 0)):
            if not file.is_file():
                _publish(call, root)
    except Timeout as error:
        raise call.make_timeout_error(("Another process has the lock of this build.",)) from error
    crate = call.dump.crate or ""
    return Program((str(file),), call.cwd, call.env, crate.partition("@")[2], {"crate": crate})


def _publish(call: CargoCall, root: Path) -> None:
    """Build into a folder next to ``root``, and rename it to ``root`` only when complete."""
    partial = root.with_suffix(".part")
    for stale in (partial, root):
        shutil.rmtree(stale, ignore_errors=True)
    name, _, version = (call.dump.crate or "").partition("@")
    args = ("install", name, "--version", version, "--locked", "--root", str(partial))
    try:
        # Crates of one family share most of their dependencies, so they share this folder.
        call.build(*args, env={"CARGO_TARGET_DIR": str(root.parent / "target")})
        partial.rename(root)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
