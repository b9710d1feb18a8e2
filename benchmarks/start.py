"""Measure the cost of starting: ``python benchmarks/start.py``.

``parity verify --dumps`` of the embedded dataloader and serialize bundles without ONNX, from
a warm store, as a whole process beside ``python -c "import numpy"``; ``parity --help``
beside a bare interpreter. All in turn, with bytecode that is there already, as it is of an
installed program. The least processor time of each counts: other work only adds.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from ratios import Ratio, measure_process, pick_least, report_ratios

HERE = Path(__file__).parents[1]
ROUNDS = 15
VERIFY, HELP = 2.5, 1.5
BUNDLES = ("dataloader-batches-v1", "serialize-parity-v1")
#: Folder of references of each case that is dumped.
REFERENCES = {
    "pth": "resnet18-pth/reference_state_dict",
    "safetensors": "safetensors-rt/reference_state_dict",
    "gguf": "gguf/reference_dequant",
}
#: As the installed script does it, without the interpreter's own `-m`.
PARITY = ("-c", "from parity.__main__ import main; main()")


def build_environment(folder: Path) -> dict[str, str]:
    """Return an environment with our own store and bytecode."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    own = {"PARITY_CACHE_DIR": "store", "PYTHONPYCACHEPREFIX": "bytecode"}
    folders = {name: str(folder / place) for name, place in own.items()}
    return {**kept, **folders, "PYTHONPATH": str(HERE)}


def write_dumps(trees: Path, folder: Path) -> None:
    """Write right dumps of the two bundles, from the references themselves."""
    for meta in trees.glob("*/*/meta.json"):
        batches, case = list(meta.parent.glob("batch_*.bin")), meta.parent.name
        if batches:
            _copy_files(batches, folder / BUNDLES[0] / case)
    for case, place in REFERENCES.items():
        (references,) = trees.glob(f"*/{place}")
        _copy_files(references.iterdir(), folder / BUNDLES[1] / case)


def _copy_files(files: object, folder: Path) -> None:
    folder.mkdir(parents=True)
    for path in files:  # type: ignore[attr-defined]
        shutil.copyfile(path, folder / path.name)


def build_args(folder: Path) -> dict[str, list[str]]:
    """Return the four command lines, each for an interpreter."""
    chosen = [word for name in BUNDLES for word in ("--bundle", name)]
    without = ("--case", f"!{BUNDLES[1]}/onnx", "--offline", "--dumps", str(folder / "dumps"))
    return {
        "verify": [*PARITY, "verify", *chosen, *without],
        "numpy": ["-c", "import numpy"],
        "help": [*PARITY, "--help"],
        "bare": ["-c", "pass"],
    }


def main() -> int:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = build_environment(folder)
        fetch = [sys.executable, *PARITY, "fetch", *BUNDLES]
        measure_process(fetch, cwd=HERE, env=env)
        write_dumps(folder / "store" / "trees", folder / "dumps")
        lines = {key: [sys.executable, *line] for key, line in build_args(folder).items()}
        runs = [
            {key: measure_process(line, cwd=HERE, env=env) for key, line in lines.items()}
            for _ in range(ROUNDS + 1)
        ][1:]
    best = {key: pick_least([run[key] for run in runs]) for key in lines}
    for key, cost in best.items():
        print(f"{key}: {cost}")
    return report_ratios(
        Ratio("verify --dumps / import numpy", best["verify"].cpu / best["numpy"].cpu, VERIFY),
        Ratio("parity --help / bare interpreter", best["help"].cpu / best["bare"].cpu, HELP),
    )


if __name__ == "__main__":
    sys.exit(main())
