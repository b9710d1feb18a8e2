"""The lockfiles of the ports that are run over the zoo: locked alike, and naming what there is."""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from pathlib import Path

import pytest

from parity import known_failures
from parity.lockfile import load

ROOT = Path(__file__).parents[3]
PORTS = ROOT / "tests" / "ports" / "zoo"
BUNDLE = ROOT / "tests" / "bundles" / "checkpoint-zoo-v1.tar"
LOCKFILES = [ROOT / "fixtures.lock.yaml", *sorted(PORTS.glob("*.lock.yaml"))]


def cases() -> list[str]:
    with tarfile.open(BUNDLE) as tar:
        file = tar.extractfile("parity.json")
        assert file is not None
        return list(json.load(file)["cases"])


@pytest.mark.parametrize("path", LOCKFILES, ids=lambda path: path.name)
def test_a_lockfile_locks_the_zoo_as_it_is(path: Path) -> None:
    (bundle,) = (one for one in load(path).bundles if one.id == "checkpoint-zoo-v1")
    assert bundle.locked is not None
    assert bundle.locked.sha256 == hashlib.sha256(BUNDLE.read_bytes()).hexdigest()
    assert (path.parent / bundle.source).resolve() == BUNDLE
    known = known_failures.parse_known_failures(bundle.known_failures)
    assert known_failures.find_unmatched(known, cases()) == []
    assert all(one.code for one in known), "each names the outcome that it allows"


@pytest.mark.parametrize(
    "path", sorted(PORTS.glob("*/Cargo.toml")), ids=lambda path: path.parent.name
)
def test_a_direct_dependency_is_exact_and_no_lock_is_kept(path: Path) -> None:
    manifest = path.read_text(encoding="utf-8")
    dependencies = manifest.partition("[dependencies]\n")[2].strip().splitlines()
    assert dependencies
    assert all(re.fullmatch(r'[\w-]+ = "=\d+\.\d+\.\d+"', line) for line in dependencies)
    version = re.search(r'^version = "(.*)"$', manifest, re.MULTILINE)
    assert version is not None
    assert f'"={version[1]}"' in dependencies[0], "reports tell the crate's version"
    assert "Cargo.lock" in (PORTS / ".gitignore").read_text(encoding="utf-8").splitlines()
