"""Wrong ways that a trace does not show: they stay inside the tolerance of every stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from parity.bundle import manifest
from parity.bundle.stages import Stage
from parity.bundle.tensor_case import TensorCase
from parity.bundle.tensor_rules import resolve_rules
from parity.diagnose.stages.find import list_ways, measure_distance, read_ways
from parity.diagnose.stages.operators import find_operator
from parity.diagnose.stages.trace import Trace
from parity.diagnose.stages.values import TraceError, Values
from parity.lab.bundle_writer import BundleWriter
from parity.lab.faults.stage_faults import find_limit, list_planted, recompute
from parity.lab.pins import packing
from parity.suites.tensors.rules import read_references
from parity.suites.tensors.stage_causes import make_trace, read_given
from parity.text import format_count

#: Elements from which stages are computed, which is some ten seconds; what is left is counted.
_MAX_WORK = 2**27
#: A way that changes nothing is the right one, unless it changes something for larger values.
_LARGER = 64.0

Key = tuple[str, str]  # Operator, and text of the way


@dataclass
class _Search:
    """The shares of their tolerances that wrong ways take up, by way and stage."""

    trace: Trace
    limits: Mapping[str, float]  # Absolute tolerances of the stages that have one
    sizes: dict[str, int]  # Elements of references, inputs and parameters
    left: int  # Elements that may still be computed from
    shares: dict[Key, dict[str, float]] = field(default_factory=dict)
    untried: int = 0  # Stages

    def measure_stages(self) -> None:
        """Measure each way in the output of its own stage, small stages first."""
        known = [one for one in self.trace.stages.values() if find_operator(one.kind)]
        for stage in sorted(known, key=self._count):
            operator = find_operator(stage.kind)
            if not self._spend((2 + len(read_ways().get(operator, ()))) * self._count(stage)):
                self.untried += 1
                continue
            with suppress(TraceError):
                for text, share in self._measure_ways(stage):
                    self.shares.setdefault((operator, text), {})[stage.name] = share

    def measure_later(self) -> None:
        """Measure the ways that no stage shows in all stages after it, until one does."""
        order = [*self.trace.stages]
        for (_, text), shares in self.shares.items():
            for name in shares if max(shares.values()) <= 1 else ():
                stage = self.trace.stages[name]
                later = [self.trace.stages[one] for one in order[order.index(name) :]]
                if not self._spend(sum(map(self._count, later))):
                    break
                arguments = Values(self.trace, (self.trace.expected,)).collect(stage)
                for _, _, values in list_ways(stage.kind, arguments, text):
                    shares[name] = max(shares[name], self._measure_all(name, values))
                if shares[name] > 1:
                    break

    def _count(self, stage: Stage) -> int:
        return sum(self._measure_size(one) for one in stage.sources)

    def _measure_size(self, name: str) -> int:
        if name not in self.sizes:
            stage = self.trace.stages.get(name)
            self.sizes[name] = self._count(stage) if stage else 0
        return self.sizes[name]

    def _spend(self, work: int) -> bool:
        is_enough = work <= self.left
        self.left -= work if is_enough else 0
        return is_enough

    def _measure_ways(self, stage: Stage) -> Iterator[tuple[str, float]]:
        limit = self.limits.get(stage.name, np.inf)
        ways = {way.text for way in read_ways().get(find_operator(stage.kind), ())}
        found = {
            text: one.size / limit
            for (_, operator, text), one in list_planted(self.trace, stage)
            if text in ways or (not operator and one.size)
        }
        yield from found.items()
        if ways <= found.keys():
            return
        arguments = Values(self.trace, (self.trace.expected,)).collect(stage)
        first = next((key for key, one in arguments.items() if _is_float(one)), None)
        if first is not None:
            larger = {**arguments, first: _LARGER * arguments[first]}
            yield from (
                (text, 0.0)
                for _, text, _ in list_ways(stage.kind, larger)
                if text in ways - found.keys()
            )

    def _measure_all(self, name: str, wrong: Any) -> float:
        values = recompute(self.trace, {name: wrong})
        return max(
            measure_distance(values[one], self.trace.expected(one)) / limit
            for one, limit in self.limits.items()
        )


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def state_hidden_ways(writer: BundleWriter, report: Callable[[str], None]) -> None:
    """Put the wrong ways that a case does not show into its words, and report them."""
    with TemporaryDirectory(prefix="parity-") as folder:
        packing.write_files(Path(folder), writer.list_files())
        for case in manifest.load(Path(folder)):
            if not (hidden := list_hidden_ways(case)):
                continue
            entry = writer.manifest["cases"][case.id]
            entry["words"] = {**entry.get("words", {}), "not_visible": "; ".join(hidden)}
            report(f"not visible in {case.id}, so that a port that does this passes:")
            for line in hidden:
                report(f"  {line}")
            report("  try other inputs, another --seed, smaller or larger activations")


def list_hidden_ways(detail: TensorCase) -> list[str]:
    """Return what no stage of a case shows outside its tolerance, an operator each.

    The last one counts the stages that were too large to be tried.
    """
    references = read_references(detail)
    rules = resolve_rules(detail.rules, references, detail.id)[0]
    stored = {**read_given(detail), **references}
    search = _Search(
        trace=make_trace(detail, references, {}),
        limits={
            one.name: find_limit(rules[one.name]) for one in detail.stages if one.name in rules
        },
        sizes={name: one.count for name, one in stored.items()},
        left=_MAX_WORK,
    )
    search.measure_stages()
    search.measure_later()
    hidden: dict[str, dict[str, dict[str, float]]] = {}
    for (operator, text), shares in search.shares.items():
        if max(shares.values()) <= 1:
            hidden.setdefault(operator, {})[text] = shares
    lines = [_format_hidden(operator, ways) for operator, ways in sorted(hidden.items())]
    untried = f"{format_count(search.untried, 'stages')} were too large to be tried"
    return [*lines, untried] if search.untried else lines


def _format_hidden(operator: str, ways: Mapping[str, Mapping[str, float]]) -> str:
    stages = {name for shares in ways.values() for name in shares}
    share = 100 * max(max(shares.values()) for shares in ways.values())
    return (
        f"{operator}: {'; '.join(ways)} ({format_count(len(stages), 'stages')}, "
        f"at most {share:.2g} % of the tolerance)"
    )
