"""Wrong ways that a trace does not show: they stay inside the tolerance of every stage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from parity.bundle import manifest
from parity.bundle.case_parts import Stage
from parity.bundle.tensor_case import TensorCase
from parity.bundle.tensor_rules import resolve_rules
from parity.diagnose.stages.find import list_ways, read_ways
from parity.diagnose.stages.operators import find_operator
from parity.diagnose.stages.trace import Trace
from parity.diagnose.stages.values import TraceError, Values
from parity.lab.bundle_writer import BundleWriter
from parity.lab.faults.stage_faults import find_atol, list_planted, measure_seen, recompute
from parity.lab.pins import packing
from parity.suites.tensors.rules import read_references
from parity.suites.tensors.stage_causes import make_trace, read_given
from parity.text import format_count

#: Elements from which stages are computed, which is some ten seconds; what is left is counted.
_MAX_WORK = 2**27
_MAX_LATER = 3  # Stages after each of which all others are computed, to see a way there
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
    untried: set[str] = field(default_factory=set)  # Stages that are too large

    def measure_stages(self) -> None:
        """Measure each way in the output of its own stage, small stages first."""
        known = [one for one in self.trace.stages.values() if find_operator(one.kind)]
        for stage in sorted(known, key=self._count):
            operator = find_operator(stage.kind)
            if not self._spend((2 + len(read_ways().get(operator, ()))) * self._count(stage)):
                self.untried.add(stage.name)
                continue
            with suppress(TraceError):
                for text, share in self._measure_ways(stage):
                    self.shares.setdefault((operator, text), {})[stage.name] = share

    def measure_later(self, visible: Collection[Key]) -> None:
        """Measure the ways that no stage shows in all stages after it, until one does."""
        order = [*self.trace.stages]
        for key in [one for one in self.shares if one not in visible]:
            shares = self.shares[key]
            for name in sorted(shares, key=shares.__getitem__, reverse=True)[:_MAX_LATER]:
                stage = self.trace.stages[name]
                later = [self.trace.stages[one] for one in order[order.index(name) :]]
                if not self._spend(sum(map(self._count, later))):
                    self.untried.add(name)
                    continue
                arguments = Values(self.trace, (self.trace.expected,)).collect(stage)
                for _, _, values in list_ways(stage.kind, arguments, key[1]):
                    shares[name] = max(shares[name], self._measure_all(name, values))
                if shares[name] > 1:
                    break

    def list_visible(self) -> set[Key]:
        """Return the ways that are outside the tolerance of some stage."""
        return {key for key, shares in self.shares.items() if max(shares.values()) > 1}

    def list_hidden(self, visible: Collection[Key]) -> list[str]:
        """Describe the ways that are not among ``visible``, an operator each.

        The last line counts the stages that were too large to be tried.
        """
        hidden: dict[str, dict[str, dict[str, float]]] = {}
        for (operator, text), shares in self.shares.items():
            if (operator, text) not in visible and not self.untried >= shares.keys():
                hidden.setdefault(operator, {})[text] = shares
        lines = [_format_hidden(operator, ways) for operator, ways in sorted(hidden.items())]
        untried = f"{format_count(len(self.untried), 'stages')} were too large to be tried"
        return [*lines, untried] if self.untried else lines

    def _count(self, stage: Stage) -> int:
        return sum(self._measure_size(one) for one in stage.sources)

    def _measure_size(self, name: str) -> int:
        if name not in self.sizes:
            stage = self.trace.stages.get(name)
            self.sizes[name] = self._count(stage) if stage and stage.kind else 0
        return self.sizes[name]

    def _spend(self, work: int) -> bool:
        is_enough = work <= self.left
        self.left -= work if is_enough else 0
        return is_enough

    def _measure_ways(self, stage: Stage) -> Iterator[tuple[str, float]]:
        limit = self.limits.get(stage.name, np.inf)
        ways = {way.text for way in read_ways().get(find_operator(stage.kind), ())}
        found = {
            text: one.size / limit if np.isfinite(one.size) else np.inf
            for (code, _, text), one in list_planted(self.trace, stage)
            if text in ways or (code == "stage-skipped" and one.size)
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
            measure_seen(self.trace, one, values[one], self.trace.expected(one)) / limit
            for one, limit in self.limits.items()
        )


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def state_hidden_ways(writer: BundleWriter, report: Callable[[str], None]) -> None:
    """Put the wrong ways that no case shows into the words of each case, and report them."""
    with TemporaryDirectory(prefix="parity-") as folder:
        packing.write_files(Path(folder), writer.list_files())
        for case, hidden in list_hidden_ways(manifest.read_manifest(Path(folder)).cases).items():
            entry = writer.manifest["cases"][case]
            entry["words"] = {**entry.get("words", {}), "not_visible": "; ".join(hidden)}
            report(f"not visible in {case}, so that a port that does this passes:")
            for line in hidden:
                report(f"  {line}")
            report("  try other inputs, another --seed, smaller or larger activations")


def list_hidden_ways(cases: Iterable[TensorCase]) -> dict[str, list[str]]:
    """Return by case the ways of its stages that no stage of any case shows."""
    searches = {case.id: _make_search(case) for case in cases}
    for search in searches.values():
        search.measure_stages()
    visible = {key for search in searches.values() for key in search.list_visible()}
    for search in searches.values():
        search.measure_later(visible)
        visible |= search.list_visible()
    found = {case: search.list_hidden(visible) for case, search in searches.items()}
    return {case: lines for case, lines in found.items() if lines}


def _make_search(detail: TensorCase) -> _Search:
    references = read_references(detail)
    rules = resolve_rules(detail.rules, references, detail.id)[0]
    stored = {**read_given(detail), **references}
    named = [one.name for one in detail.stages if one.name in rules]
    return _Search(
        trace=make_trace(detail, references, {}),
        limits={name: find_atol(rules[name]) for name in named},
        sizes={name: one.count for name, one in stored.items()},
        left=_MAX_WORK,
    )


def _format_hidden(operator: str, ways: Mapping[str, Mapping[str, float]]) -> str:
    stages = {name for shares in ways.values() for name in shares}
    share = 100 * max(max(shares.values()) for shares in ways.values())
    return (
        f"{operator}: {'; '.join(ways)} ({format_count(len(stages), 'stages')}, "
        f"at most {share:.2g} % of the tolerance)"
    )
