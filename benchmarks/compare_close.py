"""Compare the cost of tensors that are a little off everywhere with the plain way.

``python benchmarks/compare_close.py`` compares 200 tensors of 250,000 float32, each element off by
up to 1e-5 under a tolerance of 1e-4, and 20,000 tensors of 16 elements. The plain way reads each
file whole and takes the maximum of the float64 differences. Each way runs in fresh processes,
imports excluded and all files in the page cache, in turn; the least time counts.
Wall-clock time is meaningful only on an idle machine with two processors.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 - imported where it is used; imports are excluded
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from ratios import Cost, Ratio, measure_cost, pick_least, report_ratios

sys.path.insert(0, str(Path(__file__).parents[1]))

from parity.suites.tensor_findings import compare_tensors
from parity.suites.tensor_reference import TensorReference
from parity.tensors.bin import encode_tensor
from parity.tensors.folder import list_tensors

ROUNDS = 5
TOLERANCE = 1e-4
#: Number of tensors, elements of each, largest ratio.
SIZES = {"large": (200, 250_000, 0.3), "small": (20_000, 16, 1.5)}
MAX_MEMORY = 32.0


def write_sides(folder: Path, count: int, size: int) -> None:
    """Write the references and a dump that is off by up to a tenth of the tolerance."""
    draw = np.random.default_rng(0)
    for side in ("expected", "obtained"):
        (folder / side).mkdir(parents=True)
    for number in range(count):
        values = draw.standard_normal(size, np.float32)
        noise = draw.uniform(-TOLERANCE / 10, TOLERANCE / 10, size)
        for side, data in (("expected", values), ("obtained", (values + noise).astype("<f4"))):
            (folder / side / f"t{number:05}.bin").write_bytes(encode_tensor(data))


def compare_ours(folder: Path) -> None:
    """Compare as a suite does."""
    expected = list_tensors(folder / "expected").tensors
    reference = TensorReference(tensors=expected, tolerances={"max_abs": TOLERANCE})
    outcome = compare_tensors(reference, list_tensors(folder / "obtained"))
    assert not outcome.findings, outcome.findings


def compare_plainly(folder: Path) -> None:
    """Read each file whole, float64 difference, maximum."""
    for path in sorted((folder / "expected").iterdir()):
        sides = (_read_floats(path), _read_floats(folder / "obtained" / path.name))
        expected, obtained = (side.astype(np.float64) for side in sides)
        assert np.abs(expected - obtained).max() <= TOLERANCE


def _read_floats(path: Path) -> np.ndarray:
    data = path.read_bytes()
    return np.frombuffer(data, "<f4", offset=4 + 4 * int.from_bytes(data[:4], "little"))


WAYS: dict[str, Callable[[Path], object]] = {
    "ours": compare_ours,
    "plain": compare_plainly,
    "nothing": lambda _folder: None,
}


def measure_once(way: str, folder: Path) -> tuple[Cost, float]:
    """Return the cost and the peak MiB of one way in a fresh process."""
    args = [sys.executable, __file__, way, str(folder)]
    completed = subprocess.run(args, check=True, capture_output=True, text=True)
    cpu, wall, peak = map(float, completed.stdout.split())
    return Cost(cpu, wall), peak


def measure_size(name: str, folder: Path) -> list[Ratio]:
    """Measure both ways in turn for one of ``SIZES``."""
    count, size, most = SIZES[name]
    # By a child: a child begins with the peak of the process that forks it.
    subprocess.run([sys.executable, __file__, "write", str(folder), name], check=True)
    runs = [(measure_once("ours", folder), measure_once("plain", folder)) for _ in range(ROUNDS)]
    ours, plain = (pick_least([cost for cost, _ in one]) for one in zip(*runs, strict=True))
    print(f"{name}: ours {ours}, plain {plain}")
    idle = measure_once("nothing", folder)[1]
    what = f"{count:,} tensors of {size:,}, all a little off"
    memory = max(peak for (_, peak), _ in runs) - idle
    # Large tensors are shared by threads.
    by_clock, by_cpu = (most, None) if name == "large" else (None, most)
    return [
        Ratio(f"{what} / plain way, clock", ours.wall / plain.wall, by_clock),
        Ratio(f"{what} / plain way, processors", ours.cpu / plain.cpu, by_cpu),
        Ratio(f"{what}, memory", memory, MAX_MEMORY if name == "large" else None, "MiB"),
    ]


def main() -> int:
    """Measure and print."""
    if sys.argv[1:2] == ["write"]:
        write_sides(Path(sys.argv[2]), *SIZES[sys.argv[3]][:2])
        return 0
    if sys.argv[1:]:
        cost = measure_cost(lambda: WAYS[sys.argv[1]](Path(sys.argv[2])))
        print(*cost, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return 0
    with tempfile.TemporaryDirectory() as name:
        return report_ratios(
            *(one for size in SIZES for one in measure_size(size, Path(name, size)))
        )


if __name__ == "__main__":
    sys.exit(main())
