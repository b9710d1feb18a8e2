"""Print the benchmarks' ratios with their targets, and pass them to ``table.py``."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Variable with the file from which ``table.py`` reads the ratios, a JSON line each.
OUTPUT_VARIABLE = "PARITY_RATIOS"


class Ratio(NamedTuple):
    """One figure and its target.

    Attributes:
        target: At most this, or at least if ``least`` is set; None for no target.
    """

    what: str
    value: float
    target: float | None = None
    unit: str = ""
    least: bool = False

    @property
    def is_met(self) -> bool:
        """Return whether the target is met."""
        if self.target is None:
            return True
        return self.value >= self.target if self.least else self.value <= self.target

    def format_row(self) -> tuple[str, str, str, str]:
        """Return the cells of a table: what, measured, target, whether it is met."""
        unit = self.unit and f" {self.unit}"
        if self.target is None:
            return self.what, f"{self.value:.2f}{unit}", "", ""
        sign = ">=" if self.least else "<="
        target = f"{sign} {self.target:g}{unit}"
        return self.what, f"{self.value:.2f}{unit}", target, "yes" if self.is_met else "MISSED"


def report_ratios(*ratios: Ratio) -> int:
    """Print the ratios, and pass them on if asked; return 1 if one misses its target."""
    for ratio in ratios:
        print(" | ".join(ratio.format_row()))
    if OUTPUT_VARIABLE in os.environ:
        with Path(os.environ[OUTPUT_VARIABLE]).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(ratio) + "\n" for ratio in ratios)
    return int(not all(ratio.is_met for ratio in ratios))


class Cost(NamedTuple):
    """Seconds of one run: of the processors, and by the clock."""

    cpu: float
    wall: float


def measure_cost(work: Callable[[], object]) -> Cost:
    """Measure the cost of a call in this process."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Cost(time.process_time() - cpu, time.perf_counter() - wall)


def measure_process(args: Sequence[str], **options: Any) -> Cost:
    """Measure the cost of a whole process, which must end with 0."""
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(args, check=True, stdout=subprocess.DEVNULL, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(cpu, time.perf_counter() - wall)


def pick_least(costs: Sequence[Cost]) -> Cost:
    """Return the least of each: other work on the machine only adds."""
    return Cost(min(one.cpu for one in costs), min(one.wall for one in costs))
