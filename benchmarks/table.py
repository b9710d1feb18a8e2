"""Run every benchmark and print one table: ``python benchmarks/table.py [NAME…]``.

A benchmark's output goes to stderr, the table to stdout. The exit code is 1 if a benchmark
breaks, never for a figure: people judge figures, who know what else the machine did.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from ratios import OUTPUT_VARIABLE, Ratio

HERE = Path(__file__).parent
BENCHMARKS = (
    "compare_tensors",
    "compare_close",
    "trace_model",
    "memory",
    "start",
    "audit_items",
    "audit_pipeline",
    "audit_ranks",
    "hash_tree",
    "fetch_full",
)
HEAD = ("what", "measured", "target", "met")


def run_benchmark(name: str) -> list[Ratio]:
    """Return the ratios of one benchmark; none if it broke."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "ratios")
        args = [sys.executable, str(HERE / f"{name}.py")]
        subprocess.run(
            args, check=False, stdout=sys.stderr, env={**os.environ, OUTPUT_VARIABLE: str(output)}
        )
        if not output.exists():
            return []
        return [Ratio(*json.loads(line)) for line in output.read_text("utf-8").splitlines()]


def describe_machine() -> str:
    """Describe the machine and how busy it is with other work."""
    busy = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}"
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors, {versions}{busy}"
    )


def main() -> int:
    """Run, and print the table."""
    print(f"{describe_machine()}\n\n| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}", flush=True)
    broken = []
    for name in sys.argv[1:] or BENCHMARKS:
        ratios = run_benchmark(name)
        broken += [] if ratios else [name]
        for ratio in ratios:
            print(f"| {' | '.join(ratio.format_row())} |", flush=True)
    if broken:
        print(f"broken: {', '.join(broken)}", file=sys.stderr)
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
