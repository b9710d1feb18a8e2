"""Every kind of bundle, pinned twice: the same bytes whatever surrounds the process."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from parity.bundle import manifest
from parity.bundle.tensor_rules import EXACT, resolve_rules
from parity.lab import audits
from parity.lab.libraries import require_version
from parity.lab.op_zoo.compare import find_difference
from parity.lab.pins import EMBEDDED, find_pin
from parity.lab.zoo.case import ExpectedTensor
from parity.lockfile.parse import SUITES
from parity.suites.tensors.rules import read_references
from parity.tensors.stored import StoredTensor
from tests.support.bundles import BUNDLES, read_member, unpack

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.process, pytest.mark.torch, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
#: Bundles whose references were computed: other processors give other last bits.
COMPUTED = ("model-traces-v1", "op-zoo-v1")
SAME_BYTES = [bundle for bundle in EMBEDDED if bundle not in COMPUTED]
#: Bundles of suites of their own.
AUDITED = [bundle for bundle, (kind, _) in EMBEDDED.items() if kind in SUITES]
SCRIPT = """
import os, sys
os.umask(int(sys.argv[3], 8))
from pathlib import Path
from parity.lab.pins import EMBEDDED, find_pin
kind, options = EMBEDDED[sys.argv[1]]
print(find_pin(kind)(Path(sys.argv[2]), **options))
"""


def pinned(bundle: str, folder: Path, umask: str = "022", **env: str) -> Path:
    """The tar that another process pins in ``folder``, its cwd, under other settings."""
    folder.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, bundle, str(folder), umask],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("bundle", SAME_BYTES)
def test_two_surroundings_give_one_digest(bundle: str, tmp_path: Path) -> None:
    one = pinned(
        bundle,
        tmp_path / "one",
        TZ="UTC",
        LC_ALL="C",
        PYTHONHASHSEED="1",
        ATEN_CPU_CAPABILITY="default",
        NPY_DISABLE_CPU_FEATURES="AVX2 FMA3",
        OMP_NUM_THREADS="1",
    )
    two = pinned(
        bundle,
        tmp_path / "another folder, deeper" / "two",
        umask="077",
        TZ="Asia/Kathmandu",
        LC_ALL="C.UTF-8",
        PYTHONHASHSEED="2",
        SOURCE_DATE_EPOCH="1700000000",
        OMP_NUM_THREADS="2",
    )
    assert digest(one) == digest(two)


@pytest.mark.parametrize("bundle", SAME_BYTES)
def test_the_embedded_bundle_is_a_fresh_pin(bundle: str, tmp_path: Path) -> None:
    kind, options = EMBEDDED[bundle]
    fresh = find_pin(kind)(tmp_path, **options)
    embedded = BUNDLES / f"{bundle}.tar"
    recorded = json.loads(read_member(bundle, "provenance.json"))["versions"]
    installed = {name: require_version(name) for name in recorded}
    if installed != recorded:
        pytest.skip(f"pinned with {recorded}, installed is {installed}")
    assert fresh.read_bytes() == embedded.read_bytes()


@pytest.mark.parametrize("bundle", AUDITED)
def test_a_fresh_pin_passes_its_audit(bundle: str, tmp_path: Path) -> None:
    """Whatever libraries are installed; an audit shares no code with a pin."""
    kind, options = EMBEDDED[bundle]
    generator = torch.random.get_rng_state()
    unpack(find_pin(kind)(tmp_path, **options), tmp_path / "tree")
    assert torch.equal(generator, torch.random.get_rng_state())
    results = audits.audit(kind, tmp_path / "tree", bundle)
    assert {case.verdict for case in results} == {"pass"}
    # Views of larger storages are there on purpose.
    assert {one.code for case in results for one in case.findings} <= {"bytes-unreferenced"}


def _read_files(archive: Path | str, folder: Path) -> dict[str, bytes]:
    unpack(archive, folder)
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _make_tensor(stored: StoredTensor) -> ExpectedTensor:
    return ExpectedTensor(stored.dtype.name, stored.shape, stored.read_array().tobytes())


@pytest.mark.parametrize("bundle", COMPUTED)
def test_a_computed_bundle_is_near_a_fresh_pin(bundle: str, tmp_path: Path) -> None:
    """A reference may differ by a tenth of its tolerance, all of it where rounding makes it up."""
    kind, options = EMBEDDED[bundle]
    fresh = _read_files(find_pin(kind)(tmp_path / "out", **options), tmp_path / "fresh")
    embedded = _read_files(bundle, tmp_path / "embedded")
    assert fresh.keys() == embedded.keys()
    ends = (".npy", "/model.safetensors", "/inputs.safetensors")
    drawn = [name for name in fresh if name.endswith(ends)]
    assert [name for name in drawn if fresh[name] != embedded[name]] == []
    far = []
    cases = [manifest.read_manifest(tmp_path / tree).cases for tree in ("fresh", "embedded")]
    assert [one.id for one in cases[0]] == [one.id for one in cases[1]]
    for pair in zip(*cases, strict=True):
        if pair[1].reference is None:
            continue
        one, other = (read_references(case) for case in pair)
        assert one.keys() == other.keys()
        for name, rule in resolve_rules(pair[1].rules, other, pair[1].id)[0].items():
            (check,) = rule.checks or EXACT
            bounds = {key: value * (10 if rule.blind else 1) for key, value in check.bounds.items()}
            if "atol" in bounds:  # a few units in the last place of what training accumulates
                bounds["atol"] = max(bounds["atol"], 1e-8)
            sides = (_make_tensor(side[name]) for side in (other, one))
            if text := find_difference(*sides, bounds):
                far.append((pair[1].id, name, text))
    assert far == []


@pytest.mark.parametrize("bundle", EMBEDDED)
def test_a_bundle_does_not_say_where_it_was_made(bundle: str, tmp_path: Path) -> None:
    kind, options = EMBEDDED[bundle]
    content = find_pin(kind)(tmp_path, **options).read_bytes()
    traces = [str(tmp_path), str(ROOT), str(Path.home()), platform.node(), "+cu1", "+cpu"]
    # A name of a few letters may stand in random bytes by chance.
    found = [trace for trace in traces if len(trace) > 3 and trace.encode() in content]
    assert found == []


def test_the_embedded_bundles_stay_small() -> None:
    assert sum(path.stat().st_size for path in BUNDLES.glob("*.tar")) < 11_000_000
