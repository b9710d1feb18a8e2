"""Measure the memory of whole processes beyond NumPy's own: ``python benchmarks/memory.py``.

The cases: a right tensor of 4 GiB; one that differs in a block, and one of 128 MiB that is
transposed, both diagnosed; a dataloader case whose ``meta.json`` has 200,000 items. The large
files are sparse, so that they cost no disk.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from ratios import Ratio, report_ratios

HERE = Path(__file__).parents[1]
LARGE = (1024, 1024, 1024)
SQUARE = (4096, 8192)
ITEMS, FEATURES, BATCH = 200_000, 8, 256
PASSING, DIAGNOSED, META = 32.0, 512.0, 150.0


def write_sparse(path: Path, block: bytes = b"") -> None:
    """Write a tensor of ``LARGE`` zeros with a block of other bytes."""
    from parity.tensors.bin import encode_tensor

    header = encode_tensor(np.zeros(0, "<f4"))[:0] + np.array([len(LARGE), *LARGE], "<u4").tobytes()
    with path.open("wb") as file:
        file.write(header)
        file.seek(2**30)
        file.write(block)
        file.truncate(len(header) + 4 * int(np.prod(LARGE)))


def write_tensors(folder: Path) -> None:
    """Write references and dumps of ``passing``, ``block`` and ``transposed``."""
    from parity.tensors.bin import encode_tensor

    noise = np.random.default_rng(0).standard_normal(SQUARE, np.float32)
    for case in ("passing", "block", "transposed"):
        for side in ("expected", "obtained"):
            (folder / case / side).mkdir(parents=True)
    for side in ("expected", "obtained"):
        write_sparse(folder / "passing" / side / "x.bin")
    write_sparse(folder / "block" / "expected" / "x.bin", noise.tobytes()[: 2**20])
    write_sparse(folder / "block" / "obtained" / "x.bin")
    sides = (noise, np.ascontiguousarray(noise.T).reshape(SQUARE))
    for side, values in zip(("expected", "obtained"), sides, strict=True):
        (folder / "transposed" / side / "x.bin").write_bytes(encode_tensor(values))


def write_loader(folder: Path) -> None:
    """Write a dataloader case of many items, and a right dump of it."""
    from parity.tensors.bin import encode_batch

    draw = np.random.default_rng(0)
    features = draw.standard_normal((ITEMS, FEATURES), np.float32)
    labels = (np.arange(ITEMS) % 10).astype(np.float32)
    starts = range(0, ITEMS, BATCH)
    meta = {
        "equality_mode": "ORDER",
        "batch_size": BATCH,
        "shuffle": False,
        "drop_last": False,
        "seed": None,
        "batch_sizes": [min(BATCH, ITEMS - start) for start in starts],
        "full_dataset_features": features.astype(float).tolist(),
        "full_dataset_labels": labels.tolist(),
    }
    for side in ("tree/case", "dump"):
        (folder / side).mkdir(parents=True)
        for number, start in enumerate(starts):
            part = slice(start, start + BATCH)
            data = encode_batch([features[part], labels[part]])
            (folder / side / f"batch_{number:04}.bin").write_bytes(data)
    (folder / "tree" / "case" / "meta.json").write_text(json.dumps(meta), encoding="utf-8")


def check_tensor(folder: Path, errors: int) -> None:
    """Compare one case of tensors; runs in a child."""
    from parity.suites.tensor_findings import compare_tensors
    from parity.suites.tensor_reference import TensorReference
    from parity.tensors.folder import list_tensors

    expected = list_tensors(folder / "expected").tensors
    outcome = compare_tensors(
        TensorReference(tensors=expected, tolerances={"exact": 1.0}),
        list_tensors(folder / "obtained"),
    )
    for finding in outcome.findings:
        print(finding.message, finding.cause, file=sys.stderr)
    assert len(outcome.findings) == errors, outcome.findings


def check_loader(folder: Path) -> None:
    """Verify a dataloader case from its folder; runs in a child."""
    from parity.suites.base import Dump
    from parity.suites.dataloader.suite import SUITE

    (case,) = SUITE.cases(folder / "tree", {})
    outcome = SUITE.verify(case, Dump(folder=folder / "dump"), dict(case.tolerances))
    assert not outcome.findings, outcome.findings


CHILDREN: dict[str, Callable[[Path], object]] = {
    "nothing": lambda _folder: None,
    "passing": lambda folder: check_tensor(folder / "passing", 0),
    "block": lambda folder: check_tensor(folder / "block", 1),
    "transposed": lambda folder: check_tensor(folder / "transposed", 1),
    "loader": lambda folder: check_loader(folder / "loader"),
}


def measure_peak(name: str, folder: Path) -> float:
    """Return the peak MiB of a fresh process."""
    args = [sys.executable, __file__, name, str(folder)]
    completed = subprocess.run(args, check=True, stdout=subprocess.PIPE, text=True)
    return float(completed.stdout)


def run_child(name: str, folder: Path) -> int:
    """Do one thing, and print the peak since the interpreter started."""
    CHILDREN[name](folder)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return 0


def main() -> int:
    """Measure and print."""
    if len(sys.argv) > 1:
        return run_child(sys.argv[1], Path(sys.argv[2]))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # By children: a child begins with the peak of the process that forks it.
        for make in ("write_tensors", "write_loader"):
            target = str(folder / make.removeprefix("write_"))
            code = f"import memory, pathlib; memory.{make}(pathlib.Path({target!r}))"
            env = {**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{Path(__file__).parent}"}
            subprocess.run([sys.executable, "-c", code], check=True, env=env)
        for place in (folder / "tensors").iterdir():
            place.rename(folder / place.name)
        idle = measure_peak("nothing", folder)
        beyond = {each: measure_peak(each, folder) - idle for each in CHILDREN if each != "nothing"}
    print(f"the interpreter with NumPy: {idle:.1f} MiB")
    diagnosed = max(beyond["block"], beyond["transposed"])
    return report_ratios(
        Ratio("memory of a passing comparison, 4 GiB", beyond["passing"], PASSING, "MiB"),
        Ratio("memory of a diagnosis, up to 4 GiB", diagnosed, DIAGNOSED, "MiB"),
        Ratio("memory of a meta.json of 200,000 items", beyond["loader"] * 1.048576, META, "MB"),
    )


sys.path.insert(0, str(HERE))

if __name__ == "__main__":
    sys.exit(main())
