"""Published ports: a crate's example, built by ``cargo install`` once and found again.

The folder of a build is named after everything that decides what comes out, so that
another toolchain or other flags never find a program that they did not make.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from parity.cargo.call import Call, Program

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Variables of the caller that change what a compiler makes.
_NAMES = ("AR", "CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "RUSTC", "RUSTFLAGS")
_PREFIXES = ("CARGO_BUILD_", "CARGO_ENCODED_RUSTFLAGS", "CARGO_PROFILE_", "CARGO_TARGET_", "RUSTC_")


def install(call: Call, crates: Path) -> Program:
    """The example of ``dump.crate``, built under ``crates`` if it is not there yet.

    Raises:
        DumpError: It could not be built, or another process builds it for too long.
    """
    crates.mkdir(parents=True, exist_ok=True)
    root = crates.resolve() / _key(call)
    file = root / "bin" / (f"{call.example}.exe" if os.name == "nt" else call.example)
    try:
        with FileLock(f"{root}.lock", timeout=max(call.ends - time.monotonic(), 0)):
            if not file.is_file():
                _publish(call, root)
    except Timeout as error:
        raise call.late(("Another process holds the lock of this build.",)) from error
    crate = call.dump.crate or ""
    return Program((str(file),), call.cwd, call.env, crate.partition("@")[2], {"crate": crate})


def _publish(call: Call, root: Path) -> None:
    """Build into a folder next to ``root``, and let it bear that name only when whole."""
    part = root.with_suffix(".part")
    for stale in (part, root):
        shutil.rmtree(stale, ignore_errors=True)
    try:
        _build(call, part, root.parent / "target")
        part.rename(root)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _build(call: Call, part: Path, target: Path) -> None:
    name, _, version = (call.dump.crate or "").partition("@")
    words = ("install", name, "--version", version, "--locked", "--root", str(part))
    # Crates of one family share most of their dependencies, and so this folder.
    call.build(*words, env={"CARGO_TARGET_DIR": str(target)})


def _key(call: Call) -> str:
    """Name of the build's folder: 64 hex digits."""
    dump = call.dump
    program = [dump.crate, call.choice, sorted(dump.env.items())]
    text = json.dumps([program, call.version(), call.configs(), _decisive(call.env)])
    return hashlib.sha256(text.encode()).hexdigest()


def _decisive(env: Mapping[str, str]) -> list[tuple[str, str]]:
    """The variables that change what a compiler makes."""
    chosen = [name for name in env if name in _NAMES or name.startswith(_PREFIXES)]
    return [(name, env[name]) for name in sorted(chosen) if name != "CARGO_TARGET_DIR"]
