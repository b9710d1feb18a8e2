"""Judge a trace: which stage diverges first, what follows from it, and why it diverges.

The tensors of the stages were compared like all others; here their findings are put in order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from parity.bundle.checkpoint_parts import list_parts
from parity.results import Finding
from parity.suites.messages import format_list, report_error
from parity.tensors.folder import list_tensors
from parity.text import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from parity.bundle.stages import Stage
    from parity.bundle.tensor_case import TensorCase
    from parity.diagnose.stages.find import StageCause
    from parity.diagnose.stages.trace import Trace
    from parity.suites.base import DumpComparison
    from parity.tensors.stored import StoredTensor

#: First diverging stages whose cause is looked for; each may take a second.
_MAX_CAUSES = 4
#: Growth of errors, all inside their tolerances, from which they are called a drift.
_MIN_GROWTH, _MIN_SHARE, _MIN_STAGES = 10.0, 0.25, 4


@dataclass(frozen=True, kw_only=True)
class StageResults:
    """The stages of a case by name, in the order of execution, with what was compared of them."""

    stages: Mapping[str, Stage]
    #: Findings of level error by tensor.
    errors: Mapping[str, list[Finding]]
    #: Measures by tensor.
    compared: Mapping[str, Mapping[str, Any]]
    #: References; stages that only move elements have none.
    expected: Mapping[str, StoredTensor]

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

    @property
    def first(self) -> list[str]:
        """Wrong stages that nothing wrong feeds: each has a fault of its own."""
        return [name for name in self.wrong if name not in self.affected]

    def find_feeds(self, name: str) -> tuple[list[str], list[str]]:
        """Return the nearest stages that feed ``name`` and were compared, and those between.

        The second ones have a reference and were not dumped.
        """
        seen, unseen, known = set(), set(), set()
        waiting = list(self.stages[name].sources)
        while waiting:
            feed = waiting.pop()
            stage = self.stages.get(feed)
            if stage is None or feed in known:
                continue
            known.add(feed)
            if feed in self.compared:
                seen.add(feed)
                continue
            unseen |= {feed} & self.expected.keys()
            waiting += stage.sources
        return [each for each in self.stages if each in seen], [
            each for each in self.stages if each in unseen
        ]


def judge_stages(
    detail: TensorCase,
    outcome: DumpComparison,
    expected: Mapping[str, StoredTensor],
    obtained: Mapping[str, StoredTensor],
) -> DumpComparison:
    """Put the findings of a trace in order: the first stages that diverge, then the rest in a line.

    Findings of other tensors stay as they are.
    """
    stages = {stage.name: stage for stage in detail.stages}
    errors: dict[str, list[Finding]] = {}
    for finding in outcome.findings:
        is_missing = finding.code == "tensor-missing"
        if finding.level == "error" and finding.tensor in stages and not is_missing:
            errors.setdefault(finding.tensor, []).append(finding)
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
    find_cause = _make_cause_finder(detail, expected, obtained)
    findings = [
        *(
            finding
            for at, name in enumerate(results.first)
            for finding in _report_first(results, name, find_cause if at < _MAX_CAUSES else None)
        ),
        *_report_later(results),
        *others,
        *_report_unseen(results),
        *_report_drift(results),
    ]
    measures = {**outcome.measures, **_measure(results)}
    return replace(outcome, findings=tuple(findings), measures=measures)


def _report_first(
    results: StageResults, name: str, find_cause: Callable[[str, list[str]], StageCause] | None
) -> list[Finding]:
    """Report a stage that diverges first, with its cause, then its values."""
    stage = results.stages[name]
    count, place = len(results.stages), list(results.stages).index(name) + 1
    what = f" ({stage.kind})" if stage.kind else ""
    message = f"{name}{what}, stage {place} of {count}, is the first that diverges"
    if len(results.first) > 1:
        message = f"{name}{what}, stage {place} of {count}, diverges, and nothing wrong feeds it"
    seen, unseen = results.find_feeds(name)
    if unseen:
        where = format_list(unseen)
        message += f"; the fault is in it or in what was not dumped before it: {where}"
    elif seen:
        message += f"; what feeds it is right: {format_list(seen)}"
    headline = report_error("first-divergence", message, tensor=name, measures={"stage": place})
    if find_cause is not None:
        headline = _add_cause(headline, find_cause(name, unseen))
    return [headline, *results.errors[name]]


def _report_later(results: StageResults) -> Iterable[Finding]:
    later = [name for name in results.wrong if name in results.affected]
    if not later:
        return
    errors = {name: results.compared.get(name, {}).get("max_abs") or 0.0 for name in later}
    worst = max(errors, key=lambda name: errors[name])
    message = (
        f"{format_count(len(later), 'later stages')} that it feeds differ too; "
        f"the largest error is {errors[worst]:.3g}, in {worst}"
    )
    yield report_error("later-stages", message, measures={"stages": later[:100]})


def _report_unseen(results: StageResults) -> Iterable[Finding]:
    """Count the stages that have a reference and were not dumped."""
    stored = [name for name in results.stages if name in results.expected]
    seen = [name for name in stored if name in results.compared]
    if len(seen) == len(stored):
        return
    missing = [name for name in stored if name not in results.compared]
    message = (
        f"{len(seen):,} of {format_count(len(stored), 'stages')} seen; not dumped: "
        f"{format_list(missing)}"
    )
    yield Finding(level="notice", code="stages-unseen", message=message)


def _report_drift(results: StageResults) -> Iterable[Finding]:
    """Report errors that are inside their tolerances, but grow from stage to stage."""
    names = [name for name in results.stages if name in results.compared]
    if results.wrong or len(names) < _MIN_STAGES:
        return
    errors = [results.compared[name]["max_abs"] or 0.0 for name in names]
    first = next((error for error in errors if error), 0.0)
    share = results.compared[names[-1]].get("margin") or 0.0
    if first and errors[-1] >= _MIN_GROWTH * first and share >= _MIN_SHARE:
        message = (
            f"errors grow from {first:.3g} to {errors[-1]:.3g} over {len(names)} stages, all "
            "inside their tolerances: rounding that adds up, no fault of one stage"
        )
        yield Finding(level="notice", code="drift", message=message)


def _measure(results: StageResults) -> dict[str, Any]:
    count = sum(name in results.expected for name in results.stages)
    growth = [
        {
            "stage": name,
            "max_abs": results.compared[name]["max_abs"],
            "wrong": name in results.errors,
        }
        for name in results.stages
        if name in results.compared
    ]
    return {"stages": count, "stages_seen": len(growth), "growth": growth}


def _add_cause(finding: Finding, cause: StageCause) -> Finding:
    """Add what was found out about the stage itself; a verdict never depends on it."""
    if cause.ways:
        texts = "; or ".join(text for _, text in cause.ways)
        text = (
            f"{texts}: computed in this way, the largest difference is {cause.left:.2g} instead of "
            f"{cause.difference:.2g}"
        )
        measures = {**finding.measures, "cause_code": cause.ways[0][0]}
        return replace(finding, cause=text, measures=measures)
    if cause.tried:
        text = f"none of the {len(cause.tried)} known wrong ways gives its output"
        details = (f"tried: {'; '.join(cause.tried)}",)
        return replace(finding, message=f"{finding.message}; {text}", details=details)
    return replace(finding, message=f"{finding.message}; no cause: {cause.reason}")


def _make_cause_finder(
    detail: TensorCase, expected: Mapping[str, StoredTensor], obtained: Mapping[str, StoredTensor]
) -> Callable[[str, list[str]], StageCause]:
    """Make a function that computes one stage in all ways, and those before it that are unseen.

    Nothing is read before it is called.
    """

    def find(name: str, unseen: list[str]) -> StageCause:
        from parity.diagnose.stages.find import StageCause

        try:
            return make_trace(detail, expected, obtained).find_cause(name, unseen)
        except Exception as error:  # noqa: BLE001 - no verdict depends on a diagnosis
            return StageCause(reason=f"it could not be computed: {error}")

    return find


def make_trace(
    detail: TensorCase, expected: Mapping[str, StoredTensor], obtained: Mapping[str, StoredTensor]
) -> Trace:
    """Return the stages of a case, with ways to read their data; nothing is read before."""
    from parity.diagnose.stages.trace import Trace

    return Trace(
        stages={stage.name: stage for stage in detail.stages},
        expected=_make_reader(expected),
        obtained=_make_reader(obtained),
        given=_make_reader(read_given(detail)),
    )


def read_given(detail: TensorCase) -> dict[str, StoredTensor]:
    """List the inputs and parameters of a case: its input files and its checkpoint's tensors."""
    places = [*detail.inputs, *(list_parts(detail.checkpoint) if detail.checkpoint else ())]
    found: dict[str, StoredTensor] = {}
    for place in places:
        if place.suffix in (".safetensors", ".npy") or place.is_dir():
            found |= list_tensors(place).tensors
    return found


def _make_reader(tensors: Mapping[str, StoredTensor]) -> Callable[[str], NDArray[Any] | None]:
    from parity.diagnose.stages.windows import MAX_ELEMENTS

    def read(name: str) -> NDArray[Any] | None:
        tensor = tensors.get(name)
        if tensor is None or tensor.count > MAX_ELEMENTS:
            return None
        return tensor.read_array()

    return read
