"""Lay a named tensor beside its reference; for a stage of a model, with what was tried."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

from parity.bundle.tensor_case import TensorCase
from parity.bundle.tolerances import tighten
from parity.diagnose.stages.find import StageCause
from parity.lab.views.base import TensorView, view_tensor
from parity.suites.base import Case, Dump
from parity.suites.tensors.rules import apply_rules, read_references
from parity.suites.tensors.stage_causes import format_cause, format_distance, make_cause_finder
from parity.suites.tensors.stages import StageResults
from parity.suites.tensors.suite import take_samples
from parity.suites.tensors.written import read_dump
from parity.tensors.stored import Tensors
from parity.text import align_columns


def view(case: Case, dump: Dump, tensor: str) -> TensorView:
    """Lay a tensor of the dump beside its reference, under its own tolerance."""
    detail, dumped = case.detail, read_dump(case.detail, dump.folder)
    references, dumped = take_samples(detail, read_references(detail), dumped)
    found = view_tensor(case, dumped, tensor, references)
    rule = apply_rules(detail, references, dumped).rules.get(tensor)
    if rule is not None and rule.checks:
        bounds = tighten(rule.checks[0].bounds, case.requested)[0]
        found = replace(found, bounds=bounds)
    if all(stage.name != tensor for stage in detail.stages):
        return found
    find = cache(partial(_find_stage_cause, detail, references, dumped.tensors, tensor))
    return replace(
        found, explain=lambda: _explain_cause(find()), cause=lambda _bounds: format_cause(find())
    )


def _find_stage_cause(
    detail: TensorCase, expected: Tensors, obtained: Tensors, name: str
) -> StageCause:
    """Find the cause of one stage, right or wrong."""
    results = StageResults(
        stages={stage.name: stage for stage in detail.stages},
        errors={},
        compared={each: {} for each in expected if each in obtained},
        expected=expected,
    )
    _, unseen, moved = results.find_feeds(name)
    return make_cause_finder(detail, expected, obtained)(name, [*unseen, *moved])


def _explain_cause(cause: StageCause) -> list[str]:
    """Return what was tried to find the cause of a stage, with numbers, in lines."""
    if not cause.tried:
        return [f"nothing was tried: {cause.reason or 'no wrong way of it is known'}"]
    tried = sorted(cause.tried, key=lambda row: row[1])
    tried.insert(0, ("rightly, from what feeds it", cause.difference))
    rows = [("leaves", "computed"), *((format_distance(left, 3), text) for text, left in tried)]
    return [
        f"at most {cause.limit:.3g} of the difference may be left",
        *(f"  {line}" for line in align_columns(rows)),
        *([] if cause.ways else ["no known wrong way explains it"]),
    ]
