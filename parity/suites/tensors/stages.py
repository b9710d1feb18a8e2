"""Judge a trace: which stage diverges first, what follows from it, and why it diverges.

The tensors of the stages were compared like all others; here their findings are put in order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.results import Finding
from parity.suites.diagnosis import add_tensor_cause
from parity.suites.messages import EXAMPLES, format_list, report_error
from parity.suites.tensors.growth import format_seen, measure_growth, report_drift
from parity.suites.tensors.stage_causes import add_cause, make_cause_finder
from parity.suites.tensors.training import describe_fault, find_loss_step, group_first
from parity.text import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from parity.bundle.case_parts import Stage
    from parity.bundle.tensor_case import TensorCase
    from parity.suites.base import DumpComparison
    from parity.suites.tensors.stage_causes import FindCause
    from parity.tensors.stored import StoredTensor, Tensors

_FIRST_ELEMENTS = 1024  # Values of an output that are read to find a finite one
_MAX_CAUSES = 4  # First diverging stages whose cause is looked for; each may take a second


@dataclass(frozen=True, kw_only=True)
class StageResults:
    """The stages of a case by name, in the order of execution, with what was compared of them."""

    stages: Mapping[str, Stage]
    errors: Mapping[str, list[Finding]]  # Findings of level error by tensor
    compared: Mapping[str, Mapping[str, Any]]  # Measures by tensor
    expected: Tensors  # References; stages that only move elements have none

    @cached_property
    def wrong(self) -> list[str]:
        """Stages that are outside their tolerance, in the order of execution."""
        return [name for name in self.stages if name in self.errors]

    @cached_property
    def affected(self) -> set[str]:
        """Stages that a wrong stage feeds, directly or through others."""
        found: set[str] = set()
        for name, stage in self.stages.items():
            if any(feed in found or feed in self.errors for feed in stage.sources):
                found.add(name)
        return found

    @cached_property
    def stored(self) -> list[str]:
        """Stages that have a reference, in the order of execution."""
        return [name for name in self.stages if name in self.expected]

    @cached_property
    def seen(self) -> set[str]:
        """Stages that were dumped, also those whose shape or dtype is wrong."""
        return {name for name in self.stages if name in self.compared or name in self.errors}

    @cached_property
    def first(self) -> list[str]:
        """Wrong stages that nothing wrong feeds: each has a fault of its own."""
        return [name for name in self.wrong if name not in self.affected]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self.stages)}

    def find_feeds(self, name: str) -> tuple[list[str], list[str], list[str]]:
        """Return the nearest stages that feed ``name`` and were compared, and those between.

        The second ones have a reference and were not dumped; the third ones only move elements.
        """
        seen, known = set(), set()
        waiting = list(self.stages[name].sources)
        while waiting:
            feed = waiting.pop()
            stage = self.stages.get(feed)
            if stage is None or feed in known:
                continue
            known.add(feed)
            if feed in self.seen:
                seen.add(feed)
                continue
            waiting += stage.sources
        found = sorted(known, key=self._places.__getitem__)
        return (
            [each for each in found if each in seen],
            [each for each in found if each not in seen and each in self.expected],
            [each for each in found if each not in seen and each not in self.expected],
        )


def judge_stages(
    detail: TensorCase, outcome: DumpComparison, expected: Tensors, obtained: Tensors
) -> DumpComparison:
    """Put findings in order: stages that diverge first, the later in a line, other tensors'."""
    stages = {stage.name: stage for stage in detail.stages}
    errors: dict[str, list[Finding]] = {}
    for finding in outcome.findings:
        name = finding.tensor or ""
        is_wrong = finding.level == "error" and finding.kind == "mismatch"
        is_stage = name in stages and name in expected and finding.code != "tensor-missing"
        if is_wrong and is_stage:
            errors.setdefault(name, []).append(finding)
    results = StageResults(
        stages=stages,
        errors=errors,
        compared=outcome.measures.get("per_tensor", {}),
        expected=expected,
    )
    in_order = {id(one) for each in errors.values() for one in each}
    absent = [name for name in expected if name not in obtained]
    others = [
        one
        for one in outcome.findings
        # `stages-unseen` names them in their order.
        if id(one) not in in_order
        and not (one.code == "optional-missing" and stages.keys() >= set(absent))
    ]
    find_cause = make_cause_finder(detail, expected, obtained)

    def explain_values(finding: Finding) -> Finding:
        name = finding.tensor or ""
        pair, bounds = (expected[name], obtained[name]), results.compared.get(name, {})
        more: Any = {"locate": dict, "others": expected}
        found = add_tensor_cause(finding, *pair, bounds.get("bounds", {}), **more)
        return finding if found.measures.get("cause_code") == "no-simple-cause" else found

    if set(results.stored) <= set(detail.outputs):
        return replace(outcome, findings=(*_explain_outputs(results, find_cause), *others))
    measures = measure_growth(results, detail.outputs)
    loss = find_loss_step(results, expected, obtained)
    groups = group_first(results, loss)
    is_partial = measures["stages_seen"] < measures["stages"] or measures["outputs"] == "right"
    findings = [
        *(
            finding
            for at, group in enumerate(groups)
            for finding in _report_first(
                results,
                group[0],
                describe_fault(results, group, loss),
                "" if at or not is_partial else f"; {format_seen(measures)}",
                is_only=len(groups) == 1,
                find_cause=find_cause if at < _MAX_CAUSES else None,
                explain_values=explain_values,
            )
        ),
        *_report_later(results, {name for group in groups for name in group}),
        *others,
        *_report_unseen(results, measures),
        *_report_blind(results, detail.outputs),
        *report_drift(results, obtained, find_cause),
    ]
    if not errors and (ways := detail.words.get("not_visible")):
        message = f"not compared, since the trace does not show it: {ways}"
        findings.append(Finding(level="notice", code="not-visible", message=message))
    return replace(outcome, findings=tuple(findings), measures={**outcome.measures, **measures})


def _explain_outputs(results: StageResults, find_cause: FindCause) -> Iterable[Finding]:
    """Add its cause to the first finding of each output of a case that is a single call."""
    for name, (first, *rest) in results.errors.items():
        _, unseen, moved = results.find_feeds(name)
        is_known = bool(results.stages[name].kind)
        yield add_cause(first, find_cause(name, [*unseen, *moved])) if is_known else first
        yield from rest


def _report_first(
    results: StageResults,
    name: str,
    description: str,
    remark: str,
    *,
    is_only: bool,
    find_cause: FindCause | None,
    explain_values: Callable[[Finding], Finding],
) -> list[Finding]:
    """Report a stage that diverges first, with its cause; its values have one where it has none.

    ``description`` says of a step of training what it is, ``""`` for other stages; ``remark`` ends
    the message.
    """
    stage = results.stages[name]
    count, place = len(results.stored), results.stored.index(name) + 1
    what = f"{name} ({stage.kind})" if stage.kind else name
    verdict = "is the first that diverges" if is_only else "diverges, and nothing wrong feeds it"
    message = description or f"{what}, stage {place} of {count}, {verdict}"
    seen, unseen, moved = results.find_feeds(name)
    if unseen and not description:
        where = _format_stretches(unseen, results.stored)
        message += f"; the fault is in it or in what was not dumped before it: {where}"
    elif seen and not description:
        message += f"; what feeds it is right: {format_list(seen)}"
    message += remark
    headline = report_error("first-divergence", message, tensor=name, measures={"stage": place})
    if find_cause is not None and stage.kind:
        headline = add_cause(headline, find_cause(name, [*unseen, *moved]))
    is_open = find_cause is not None and not headline.cause
    return [headline, *(explain_values(one) if is_open else one for one in results.errors[name])]


def _format_stretches(names: list[str], stored: list[str]) -> str:
    """Return the names of stages, of many the first and last of each stretch without gaps."""
    if len(names) <= EXAMPLES:
        return format_list(names)
    chosen = set(names)
    stretches = [list(group) for is_in, group in groupby(stored, key=chosen.__contains__) if is_in]
    return format_list(
        each[0]
        if len(each) == 1
        else f"{each[0]} to {each[-1]} ({format_count(len(each), 'stages')})"
        for each in stretches
    )


def _report_later(results: StageResults, reported: set[str]) -> Iterable[Finding]:
    later = [name for name in results.wrong if name not in reported]
    if not later:
        return
    errors = {name: results.compared.get(name, {}).get("max_abs") or 0.0 for name in later}
    worst = max(errors, key=lambda name: errors[name])
    verb = "differ" if len(later) > 1 else "differs"
    message = (
        f"{format_count(len(later), 'later stages')} {verb} too; "
        f"the largest error is {errors[worst]:.3g}, in {worst}"
    )
    yield report_error("later-stages", message, measures={"later_stages": later[:100]})


def _report_blind(results: StageResults, outputs: Iterable[str]) -> Iterable[Finding]:
    """Warn of outputs of a model whose references have no number that a mistake could change."""
    blind = [
        name
        for name in outputs
        if name in results.compared and not _has_number(results.expected[name])
    ]
    if blind:
        message = "no value of the reference is finite, and most mistakes give the same: "
        message += format_list(blind)
        yield Finding(level="warning", code="blind-bound", message=message, tensor=blind[0])


def _has_number(tensor: StoredTensor) -> bool:
    """Return whether a value is finite; it is usually among the first, and no others are read."""
    with tensor.open() as reader:
        for size in (min(tensor.count, _FIRST_ELEMENTS), tensor.count):
            values = np.empty(size, tensor.dtype.storage)
            reader.read(0, values)
            if np.isfinite(tensor.dtype.decode(values)).any():
                return True
    return False


def _report_unseen(results: StageResults, measures: Mapping[str, Any]) -> Iterable[Finding]:
    """Count the stages that have a reference and were not dumped."""
    missing = [name for name in results.stored if name not in results.seen]
    if not missing:
        return
    message = f"{format_seen(measures)}; not dumped: {_format_stretches(missing, results.stored)}"
    yield Finding(level="notice", code="stages-unseen", message=message)
