"""Bundles of this repo and archives that a test made: unpacked, read, and named by lockfiles."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BUNDLES = Path(__file__).parents[1] / "bundles"


def find_archive(archive: Path | str) -> Path:
    """Return the archive itself, or the bundle of this repo that has the name."""
    return BUNDLES / f"{archive}.tar" if isinstance(archive, str) else archive


def unpack(archive: Path | str, folder: Path) -> Path:
    """Unpack an archive, or the named bundle, into ``folder``, and return that."""
    with tarfile.open(find_archive(archive)) as tar:
        tar.extractall(folder, filter="data")
    return folder


def read_member(archive: Path | str, name: str) -> bytes:
    """Return the content of a file of an archive, or of the named bundle."""
    with tarfile.open(find_archive(archive)) as tar:
        file = tar.extractfile(name)
        assert file is not None
        return file.read()


def list_cases(archive: Path | str) -> list[str]:
    """Return the names of the cases in the manifest of an archive, or of the named bundle."""
    return list(json.loads(read_member(archive, "parity.json"))["cases"])


def write_lockfile(folder: Path, entries: Mapping[str, Mapping[str, Any]]) -> Path:
    """Write a lockfile of these entries; what they lack is of the suite tensors, never run."""
    common = {"suite": "tensors", "dump": {"command": ["never-run"]}}
    bundles = {name: {**common, **entry} for name, entry in entries.items()}
    path = folder / "fixtures.lock.yaml"
    path.write_text(json.dumps({"schema": 1, "bundles": bundles}, indent=1), encoding="utf-8")
    return path


def lock_bundle(folder: Path, archive: Path | str, suite: str, **more: Any) -> Path:
    """Write a lockfile of one bundle, which is copied beside it."""
    path = find_archive(archive)
    content = path.read_bytes()
    (folder / path.name).write_bytes(content)
    locked = {"sha256": f"sha256:{hashlib.sha256(content).hexdigest()}"}
    entry = {"source": path.name, "suite": suite, "locked": locked, **more}
    return write_lockfile(folder, {path.stem: entry})
