"""Compare the cost of pinning and verifying a traced transformer with handling its bytes plainly.

``python benchmarks/trace_model.py [WIDTH]`` pins 12 layers of a width of 592, which are 50
million parameters (needs torch). Then dumps of all stages are verified, each in a fresh process,
imports excluded and all files in the page cache, in turn with the plain way: both sides read
whole, the difference in float64, its maximum. One dump is bit-equal, one differs by rounding, and
in others one stage is wrong, so that its cause is looked for. The least time of each counts:
other work on the machine only adds.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 - imported where it is used; imports are excluded
import json
import resource
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from ratios import Cost, Ratio, measure_cost, measure_process, pick_least, report_ratios

sys.path.insert(0, str(Path(__file__).parents[1]))

from parity.lab.array_files import encode_file
from parity.suites.base import Dump
from parity.suites.tensors.suite import SUITE
from parity.tensors.folder import list_tensors

ROUNDS = 5
WIDTH, LAYERS, LENGTH, HEADS = 592, 12, 128, 8
MAX_RATIO, MAX_SECONDS = 0.5, 2.0
MODEL = """
import torch
F = torch.nn.functional


class Layer(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (torch.nn.Linear(width, width) for _ in range(4))
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, d = x.shape
        h = self.norm1(x)
        q, k, v = (f(h).view(n, t, {heads}, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(n, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def model():
    layers = torch.nn.Sequential(*[Layer({width}) for _ in range({layers})])
    return layers, torch.zeros(1, {length}, {width})
"""
#: Stages that are wrong in dumps of their own: in one a bias is missing, the others are scaled,
#: so that every known wrong way is computed in vain.
WRONG = ("6.up/linear", "6.norm1/layer_norm", "6/scaled_dot_product_attention", "6/gelu")


def pin_model(folder: Path, width: int) -> list[Ratio]:
    """Pin the model, and compare the cost with writing and reading the same bytes."""
    text = MODEL.format(heads=HEADS, width=width, layers=LAYERS, length=LENGTH)
    (folder / "model.py").write_text(text, encoding="utf-8")
    args = ["-m", "parity", "pin", "trace", "--model", str(folder / "model.py") + ":model"]
    args += ["--max-size", "1G", "--out", str(folder)]
    cost = measure_process([sys.executable, *args], cwd=Path(__file__).parents[1])
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**10
    with tarfile.open(folder / "model-trace.tar") as tar:
        tar.extractall(folder / "tree", filter="data")
    size = (folder / "model-trace.tar").stat().st_size
    plain = measure_cost(lambda: _copy_plainly(folder / "model-trace.tar", folder / "copy"))
    return [
        Ratio("pin of a trace, processors", cost.cpu, unit="s"),
        Ratio("pin of a trace / writing and reading its bytes, processors", cost.cpu / plain.cpu),
        Ratio("pin of a trace, most memory / its bytes", peak * 2**20 / size),
    ]


def _copy_plainly(source: Path, target: Path) -> None:
    target.write_bytes(source.read_bytes())
    target.read_bytes()


def write_dumps(folder: Path) -> None:
    """Write a right dump, one that differs by rounding, and those with a wrong stage."""
    case = folder / "tree" / "forward"
    right, parameters = (
        {name: one.read_array() for name, one in list_tensors(case / place).tensors.items()}
        for place in ("reference.safetensors", "model.safetensors")
    )
    rng = np.random.Generator(np.random.PCG64(0))
    dumps: dict[str, dict[str, Any]] = {"right": right, "rounded": {}}
    for name, value in right.items():
        signs = rng.choice(np.array([-1, 0, 1], np.float32), value.shape)
        dumps["rounded"][name] = value + signs * np.spacing(np.abs(value))
    for number, name in enumerate(WRONG):
        bias = parameters.get(name.replace("/linear", ".bias"))
        wrong = right[name] * np.float32(1.5) if bias is None else right[name] - bias
        dumps[f"wrong{number}"] = {**right, name: wrong}
    for dump, values in dumps.items():
        (folder / "dumps" / dump).mkdir(parents=True)
        data = encode_file("out.safetensors", values)
        (folder / "dumps" / dump / "out.safetensors").write_bytes(data)


def verify_dump(folder: Path, dump: str) -> None:
    """Verify a dump as the verb does."""
    (case,) = SUITE.cases(folder / "tree", {})
    outcome = SUITE.verify(case, Dump(folder=folder / "dumps" / dump), dict(case.tolerances))
    errors = [one for one in outcome.findings if one.level == "error"]
    assert bool(errors) == dump.startswith("wrong"), errors
    if dump == "wrong0":
        assert errors[0].measures["cause_code"] == "bias-missing", errors[0]


def compare_plainly(folder: Path, dump: str) -> None:
    """Read both sides whole, and take the largest difference in float64."""
    for expected, obtained in zip(
        _read_plainly(folder / "tree" / "forward" / "reference.safetensors"),
        _read_plainly(folder / "dumps" / dump / "out.safetensors"),
        strict=True,
    ):
        np.abs(expected.astype(np.float64) - obtained.astype(np.float64)).max()


def _read_plainly(path: Path) -> list[Any]:
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    places = [header[name]["data_offsets"] for name in sorted(header) if name != "__metadata__"]
    return [np.frombuffer(data, "<f4", (end - begin) // 4, start + begin) for begin, end in places]


def _read_peak() -> int:
    """Return the most KiB of this program alone; `ru_maxrss` begins with those of its starter."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0])


def measure_once(way: str, folder: Path, dump: str) -> tuple[Cost, float]:
    """Measure the cost of one way in a fresh process, imports excluded, and its most memory."""
    args = [sys.executable, __file__, way, str(folder), dump]
    completed = subprocess.run(args, check=True, capture_output=True, text=True)
    cpu, wall, peak = map(float, completed.stdout.split())
    return Cost(cpu, wall), peak


def measure_dumps(folder: Path) -> list[Ratio]:
    """Measure each dump and the plain way, in turn."""
    ratios: list[Ratio] = []
    right = Cost(0.0, 0.0)
    for dump in sorted(path.name for path in (folder / "dumps").iterdir()):
        runs = [
            (measure_once("ours", folder, dump), measure_once("plain", folder, dump))
            for _ in range(ROUNDS)
        ]
        ours, plain = (pick_least([run[side][0] for run in runs]) for side in (0, 1))
        if dump.startswith("wrong"):
            name = WRONG[int(dump[-1])]
            seconds = ours.wall - right.wall
            ratios.append(Ratio(f"cause of a wrong {name}", seconds, MAX_SECONDS, "s"))
            continue
        right = ours if dump == "right" else right
        ratios += [
            Ratio(
                f"verify of a {dump} trace / plain way, clock", ours.wall / plain.wall, MAX_RATIO
            ),
            Ratio(f"verify of a {dump} trace / plain way, processors", ours.cpu / plain.cpu),
            Ratio(f"verify of a {dump} trace, memory", runs[0][0][1] / 2**10, unit="MiB"),
            Ratio("the plain way, memory", runs[0][1][1] / 2**10, unit="MiB"),
        ]
    return ratios


def main() -> int:
    """Measure and print."""
    if sys.argv[1:2] in (["ours"], ["plain"]):
        way = verify_dump if sys.argv[1] == "ours" else compare_plainly
        base = _read_peak()
        cost = measure_cost(lambda: way(Path(sys.argv[2]), sys.argv[3]))
        print(*cost, _read_peak() - base)
        return 0
    width = int(sys.argv[1]) if len(sys.argv) > 1 else WIDTH
    with tempfile.TemporaryDirectory() as name:
        ratios = pin_model(Path(name), width)
        write_dumps(Path(name))
        return report_ratios(*ratios, *measure_dumps(Path(name)))


if __name__ == "__main__":
    sys.exit(main())
