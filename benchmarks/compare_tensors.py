"""What comparing tensors costs beside the plain way, and beside NumPy's equality.

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
from ratios import Cost, Ratio, cost, least, tell

sys.path.insert(0, str(Path(__file__).parents[1]))

from parity.codecs import bin as bin_codec
from parity.compare import compare
from parity.suites.base import Dump
from parity.suites.serialize import SUITE

ROUNDS = 7
MOST = 0.2
LEAST = 60.0
ELEMENTS = 32 * 2**20
#: Folder of references of each case.
REFERENCES = {
    "pth": "resnet18-pth/reference_state_dict",
    "safetensors": "safetensors-rt/reference_state_dict",
    "gguf": "gguf/reference_dequant",
}


def ours(tree: Path, dumps: Path) -> None:
    """Verify the cases as the verb does."""
    for case in SUITE.cases(tree, {}):
        if case.id in REFERENCES:
            outcome = SUITE.verify(case, Dump(folder=dumps / case.id), case.bounds)
            assert all(one.level == "notice" for one in outcome.findings), outcome.findings


def plain(tree: Path, dumps: Path) -> None:
    """Read each file whole, float difference, maximum."""
    for case, folder in REFERENCES.items():
        for path in (tree / folder).iterdir():
            due, came = (_floats(file) for file in (path, dumps / case / path.name))
            assert np.abs(due - came).max() == 0


def _floats(path: Path) -> np.ndarray:
    data = path.read_bytes()
    dimensions = int.from_bytes(data[:4], "little")
    return np.frombuffer(data, "<f4", offset=4 + 4 * dimensions)


def once(name: str, folder: Path) -> Cost:
    """What one way costs a fresh process, imports excluded."""
    words = [sys.executable, __file__, name, str(folder)]
    said = subprocess.run(words, check=True, capture_output=True, text=True)
    cpu, wall = map(float, said.stdout.split())
    return Cost(cpu, wall)


def unpacked(folder: Path, bundle: Path | None) -> None:
    """The bundle's tree, and a dump of it that is right."""
    if bundle is None:
        words = ["-m", "parity", "pin", "serialize", "--size", "full", "--out", str(folder)]
        subprocess.run([sys.executable, *words], check=True, cwd=Path(__file__).parents[1])
        bundle = folder / "serialize-parity-v1.tar"
    with tarfile.open(bundle) as tar:
        tar.extractall(folder / "tree", filter="data")
    for case, name in REFERENCES.items():
        dump = folder / "dumps" / case
        dump.mkdir(parents=True)
        for path in (folder / "tree" / name).iterdir():
            (dump / path.name).write_bytes(path.read_bytes())


def cases(folder: Path) -> tuple[Ratio, Ratio]:
    """The three cases beside the plain way."""
    for name in ("plain", "ours"):
        once(name, folder)
    pairs = [(once("ours", folder), once("plain", folder)) for _ in range(ROUNDS)]
    mine, theirs = (least(costs) for costs in zip(*pairs, strict=True))
    print(f"ours {mine}\nplain {theirs}")
    return (
        Ratio("three tensor cases / plain way, clock", mine.wall / theirs.wall, MOST),
        Ratio("three tensor cases / plain way, processors", mine.cpu / theirs.cpu),
    )


def exact(folder: Path) -> tuple[Ratio, Ratio]:
    """One large tensor beside NumPy's equality over the same bytes in memory."""
    whole = np.random.default_rng(0).standard_normal(ELEMENTS, np.float32)
    for name in ("left.bin", "right.bin"):
        (folder / name).write_bytes(bin_codec.tensor_bytes(whole))
    left, right = (bin_codec.stored(folder / name) for name in ("left.bin", "right.bin"))
    arrays = left.array(), right.array()
    pairs = [
        (
            cost(lambda: compare(left, right, {"exact": 1.0})),
            cost(lambda: np.array_equal(*arrays)),
        )
        for _ in range(6 * ROUNDS)
    ]
    mine, theirs = (least(costs) for costs in zip(*pairs, strict=True))
    print(f"ours {mine}\nNumPy {theirs}")
    cpu, clock = (100 * other / own for own, other in zip(mine, theirs, strict=True))
    return (
        Ratio("exact / NumPy equality, speed by the clock", clock, LEAST, "%", least=True),
        Ratio("exact / NumPy equality, speed by the processors", cpu, unit="%"),
    )


def main() -> int:
    """Measure and print."""
    if sys.argv[1:2] in (["ours"], ["plain"]):
        folder, way = Path(sys.argv[2]), ours if sys.argv[1] == "ours" else plain
        print(*cost(lambda: way(folder / "tree", folder / "dumps")))
        return 0
    with tempfile.TemporaryDirectory() as name:
        unpacked(Path(name), Path(sys.argv[1]) if len(sys.argv) > 1 else None)
        os.sync()
        return tell(*cases(Path(name)), *exact(Path(name)))


if __name__ == "__main__":
    sys.exit(main())
