"""Compare the cost of comparing tensors with the plain way, and with NumPy's equality.

``python benchmarks/compare_tensors.py [BUNDLE.tar]`` makes the full-size serialize bundle
(which needs torch) unless one is given. The three tensor cases of a dump that is right are
verified in a fresh process, imports excluded and all files in the page cache, in turn with
the plain way: read each file whole, float difference, maximum. Then one large tensor is
compared under exact, in turn with NumPy's equality over the same bytes in memory. The
least time of each counts: other work on the machine only adds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
from ratios import Cost, Ratio, measure_cost, pick_least, report_ratios

sys.path.insert(0, str(Path(__file__).parents[1]))

from parity.suites.base import Dump
from parity.suites.serialize.suite import SUITE
from parity.tensors import bin as bin_codec
from parity.tensors.compare import compare

ROUNDS = 7
MAX_RATIO = 0.2
MIN_PERCENT = 60.0
ELEMENTS = 32 * 2**20
#: Folder of references of each case.
REFERENCES = {
    "pth": "resnet18-pth/reference_state_dict",
    "safetensors": "safetensors-rt/reference_state_dict",
    "gguf": "gguf/reference_dequant",
}


def verify_cases(tree: Path, dumps: Path) -> None:
    """Verify the cases as the verb does."""
    for case in SUITE.cases(tree, {}):
        if case.id in REFERENCES:
            outcome = SUITE.verify(case, Dump(folder=dumps / case.id), dict(case.tolerances))
            assert all(one.level == "notice" for one in outcome.findings), outcome.findings


def compare_plainly(tree: Path, dumps: Path) -> None:
    """Read each file whole, float difference, maximum."""
    for case, folder in REFERENCES.items():
        for path in (tree / folder).iterdir():
            expected, obtained = (_read_floats(file) for file in (path, dumps / case / path.name))
            assert np.abs(expected - obtained).max() == 0


def _read_floats(path: Path) -> np.ndarray:
    data = path.read_bytes()
    dimensions = int.from_bytes(data[:4], "little")
    return np.frombuffer(data, "<f4", offset=4 + 4 * dimensions)


def measure_once(name: str, folder: Path) -> Cost:
    """Measure the cost of one way in a fresh process, imports excluded."""
    args = [sys.executable, __file__, name, str(folder)]
    completed = subprocess.run(args, check=True, capture_output=True, text=True)
    cpu, wall = map(float, completed.stdout.split())
    return Cost(cpu, wall)


def unpack_bundle(folder: Path, bundle: Path | None) -> None:
    """Unpack the bundle, and write a right dump of it."""
    if bundle is None:
        args = ["-m", "parity", "pin", "serialize", "--size", "full", "--out", str(folder)]
        subprocess.run([sys.executable, *args], check=True, cwd=Path(__file__).parents[1])
        bundle = folder / "serialize-parity-v1.tar"
    with tarfile.open(bundle) as tar:
        tar.extractall(folder / "tree", filter="data")
    for case, name in REFERENCES.items():
        dump = folder / "dumps" / case
        dump.mkdir(parents=True)
        for path in (folder / "tree" / name).iterdir():
            (dump / path.name).write_bytes(path.read_bytes())


def measure_cases(folder: Path) -> tuple[Ratio, Ratio]:
    """Measure the three cases and the plain way, in turn."""
    for name in ("plain", "ours"):
        measure_once(name, folder)
    pairs = [(measure_once("ours", folder), measure_once("plain", folder)) for _ in range(ROUNDS)]
    mine, theirs = (pick_least(costs) for costs in zip(*pairs, strict=True))
    print(f"ours {mine}\nplain {theirs}")
    return (
        Ratio("three tensor cases / plain way, clock", mine.wall / theirs.wall, MAX_RATIO),
        Ratio("three tensor cases / plain way, processors", mine.cpu / theirs.cpu),
    )


def measure_exact(folder: Path) -> tuple[Ratio, Ratio]:
    """Measure one large tensor and NumPy's equality over the same bytes in memory, in turn."""
    whole = np.random.default_rng(0).standard_normal(ELEMENTS, np.float32)
    for name in ("left.bin", "right.bin"):
        (folder / name).write_bytes(bin_codec.encode_tensor(whole))
    left, right = (bin_codec.locate_tensor(folder / name) for name in ("left.bin", "right.bin"))
    arrays = left.read_array(), right.read_array()
    pairs = [
        (
            measure_cost(lambda: compare(left, right, {"exact": 1.0})),
            measure_cost(lambda: np.array_equal(*arrays)),
        )
        for _ in range(6 * ROUNDS)
    ]
    mine, theirs = (pick_least(costs) for costs in zip(*pairs, strict=True))
    print(f"ours {mine}\nNumPy {theirs}")
    cpu, clock = (100 * other / own for own, other in zip(mine, theirs, strict=True))
    return (
        Ratio("exact / NumPy equality, speed by the clock", clock, MIN_PERCENT, "%", least=True),
        Ratio("exact / NumPy equality, speed by the processors", cpu, unit="%"),
    )


def main() -> int:
    """Measure and print."""
    if sys.argv[1:2] in (["ours"], ["plain"]):
        folder, way = Path(sys.argv[2]), verify_cases if sys.argv[1] == "ours" else compare_plainly
        print(*measure_cost(lambda: way(folder / "tree", folder / "dumps")))
        return 0
    with tempfile.TemporaryDirectory() as name:
        unpack_bundle(Path(name), Path(sys.argv[1]) if len(sys.argv) > 1 else None)
        os.sync()
        return report_ratios(*measure_cases(Path(name)), *measure_exact(Path(name)))


if __name__ == "__main__":
    sys.exit(main())
