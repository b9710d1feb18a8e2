"""Stages of `model-traces-v1` that are wrong at random, which must be found and get no name.

``python -m tests.support.random_changes --count 1000 --seed 1`` prints those that are not found or
get the name of a known mistake, and ends with 1 if there are any.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from parity.bundle.tensor_rules import resolve_rules
from parity.diagnose.stages.operators import find_operator
from parity.lab.faults.stage_faults import find_atol, recompute
from parity.suites.base import Case
from parity.suites.tensors.rules import read_references
from tests.support.embedded_traces import read_trace, unpack_cases, verify_values


def find_misjudged(
    cases: dict[str, Case], folder: Path, *, count: int, seed: int
) -> Iterator[tuple[str, str, list[tuple[str | None, str | None]]]]:
    """Yield case, stage, and stages with causes that are reported instead of that stage alone."""
    rng = np.random.default_rng(seed)
    traces = {name: read_trace(case) for name, case in cases.items()}
    pool = [
        (name, stage)
        for name, trace in traces.items()
        for stage in trace.stages
        if trace.expected(stage) is not None and find_operator(trace.stages[stage].kind)
    ]
    for at in rng.choice(len(pool), count, replace=count > len(pool)):
        name, stage = pool[at]
        case, right = cases[name], traces[name].expected(stage)
        rules = resolve_rules(case.detail.rules, read_references(case.detail), name)[0]
        wrong = _perturb(right, find_atol(rules[stage]), rng)
        findings = verify_values(case, folder, recompute(traces[name], {stage: wrong}))
        firsts = [(one.tensor, one.cause) for one in findings if one.code == "first-divergence"]
        if firsts != [(stage, None)]:
            yield name, stage, firsts


def _perturb(values: Any, limit: float, rng: np.random.Generator) -> Any:
    """Change values at random, by at least 20 times ``limit``: all, some, or their order."""
    size = limit * 10.0 ** rng.uniform(1.5, 6)
    wrong = values.astype(np.float64)
    flat = wrong.reshape(-1)
    kind = rng.integers(6)
    if kind == 0:
        flat += size * rng.standard_normal(flat.size)
    elif kind == 1:
        flat[rng.integers(flat.size)] += size
    elif kind == 2:
        flat += size * rng.uniform(1, 2)
    elif kind == 3:
        flat *= rng.uniform(1.1, 1.9)
    elif kind == 4:
        rng.shuffle(flat)
    else:
        flat[: max(flat.size // 2, 1)] += size * rng.standard_normal()
    if np.max(np.abs(wrong - values)) < 20 * limit:  # one element in another order, or a small draw
        flat[0] += size
    return wrong.astype(values.dtype)


def main() -> int:
    """Try changes, and print those that are judged wrongly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    words = parser.parse_args()
    wrong = 0
    with TemporaryDirectory() as name:
        cases = unpack_cases(Path(name, "tree"))
        options = {"count": words.count, "seed": words.seed}
        for case, stage, found in find_misjudged(cases, Path(name, "dump"), **options):
            wrong += 1
            sys.stdout.write(f"{case} {stage}: {found}\n")
    sys.stdout.write(f"{words.count} random changes, {wrong} judged wrongly\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
