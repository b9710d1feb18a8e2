"""The lockfiles of the ports that are run over the zoos: locked alike, and naming what there is."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from parity import known_failures
from parity.lockfile import load
from parity.verify.selection import select_claimed
from tests.support.bundles import BUNDLES, list_cases

ROOT = Path(__file__).parents[3]
PORTS = ROOT / "tests" / "ports"
#: Folders of ports, by the bundle that they are run over.
FOLDERS = {
    "checkpoint-zoo-v1": PORTS / "zoo",
    "op-zoo-v1": PORTS / "ops",
    "writer-parity-v1": PORTS / "writers",
}
LOCKFILES = [
    (bundle, path)
    for bundle, folder in FOLDERS.items()
    for path in (ROOT / "fixtures.lock.yaml", *sorted(folder.glob("*.lock.yaml")))
]


@pytest.mark.parametrize(
    ("name", "path"), LOCKFILES, ids=lambda one: one.name if isinstance(one, Path) else one
)
def test_a_lockfile_locks_the_zoo_as_it_is(name: str, path: Path) -> None:
    (bundle,) = (one for one in load(path).bundles if one.id == name)
    tar = BUNDLES / f"{name}.tar"
    assert bundle.locked is not None
    assert bundle.locked.sha256 == hashlib.sha256(tar.read_bytes()).hexdigest()
    assert (path.parent / bundle.source).resolve() == tar
    cases = list_cases(name)
    known = known_failures.parse_known_failures(bundle.known_failures, cases)
    assert known_failures.find_unmatched(known, cases) == []
    assert all(one.code for one in known), "each names the outcome that it allows"
    assert select_claimed(bundle, cases) <= set(cases)


@pytest.mark.parametrize(
    "path", sorted(PORTS.glob("zoo/*/Cargo.toml")), ids=lambda path: path.parent.name
)
def test_a_direct_dependency_is_exact_and_no_lock_is_kept(path: Path) -> None:
    manifest = path.read_text(encoding="utf-8")
    dependencies = manifest.partition("[dependencies]\n")[2].strip().splitlines()
    assert dependencies
    assert all(re.fullmatch(r'[\w-]+ = "=\d+\.\d+\.\d+"', line) for line in dependencies)
    version = re.search(r'^version = "(.*)"$', manifest, re.MULTILINE)
    assert version is not None
    assert f'"={version[1]}"' in dependencies[0], "reports tell the crate's version"
    assert "Cargo.lock" in (PORTS / "zoo" / ".gitignore").read_text(encoding="utf-8").splitlines()
