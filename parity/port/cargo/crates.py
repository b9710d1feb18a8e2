"""Build an example of a published crate by ``cargo install``, once, and find it again.

The folder of a build is named after everything that decides the result, so that another
toolchain or other flags never find a program that they did not make.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from filelock import FileLock, Timeout

from parity.port.cargo.call import CargoCall, Program

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
    crates.mkdir(parents=True, exist_ok=True)
    root = crates.resolve() / _compute_key(call)  # 64 hex digits
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


def _compute_key(call: CargoCall) -> str:
    target = [call.dump.crate, call.target_args, sorted(call.dump.env.items())]
    state = [target, call.read_version(), call.read_configs(), _select_variables(call.env)]
    return hashlib.sha256(json.dumps(state).encode()).hexdigest()


def _select_variables(env: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the variables that change what a compiler makes."""
    return [
        (name, env[name])
        for name in sorted(env)
        if name in _COMPILER_VARIABLES
        or (name.startswith(_COMPILER_PREFIXES) and name != "CARGO_TARGET_DIR")
    ]
