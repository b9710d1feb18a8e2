"""Compare the cases of a pipeline bundle with each other, by the relations that they name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from parity.results import Finding
from parity.suites.pipeline import relations
from parity.suites.pipeline.audit import audit_run
from parity.suites.pipeline.run_reader import compute_max_bytes, read_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from parity.bundle.layout import PipelineCase
    from parity.suites.base import Case, Dump
    from parity.suites.pipeline.runs import Run

#: Errors that say already how resuming failed.
_RESUME = {"resume-start", "resume-order"}
#: For another key that gives the same order: the code, and the reason.
_SAME_ORDER = {
    "other_epoch_of": ("epoch-ignored", "the order does not depend on the epoch"),
    "other_seed_of": ("seed-ignored", "the order does not depend on the seed"),
    "other_key_of": ("order-shared", "seed and epoch seem to be added up into one key"),
}


@dataclass(frozen=True, eq=False)
class _RelatedCase:
    """A case that was run.

    Attributes:
        run: What it delivered, None where that cannot be read.
        faulty: It has errors of its own, which need no repetition.
        has_resume_error: One of them says how resuming failed.
    """

    meta: PipelineCase
    run: Run | None
    faulty: bool
    has_resume_error: bool = False


def check_relations(
    compared: Mapping[str, tuple[Case, Dump | None]],
) -> Mapping[str, tuple[Finding, ...]]:
    """Report what only several runs show, by the case that names the other.

    Relations to cases that were not selected are left out.

    Args:
        compared: The cases that were run; without a dump where there is nothing to compare.
    """
    cases = {name: _read_case(case, dump) for name, (case, dump) in compared.items()}
    return {
        name: tuple(
            finding
            for key, partner in _iterate_relations(related, cases)
            for finding in _check_relation(key, related, cases[partner])
        )
        for name, related in cases.items()
        if related.run is not None
    }


def _read_case(case: Case, dump: Dump | None) -> _RelatedCase:
    meta, expected = case.detail.meta, case.detail.expected
    if dump is None:
        return _RelatedCase(meta, None, faulty=True)
    run, found = read_run(
        dump.folder, expected.start_batch, len(expected.sizes), compute_max_bytes(expected)
    )
    if run is not None:
        found += audit_run(run, expected, tolerance=case.tolerances["max_abs"])
    errors = {finding.code for finding in found if finding.level == "error"}
    return _RelatedCase(meta, run, faulty=bool(errors), has_resume_error=bool(errors & _RESUME))


def _iterate_relations(
    related: _RelatedCase, cases: Mapping[str, _RelatedCase]
) -> Iterator[tuple[str, str]]:
    """Yield each relation of a case, and the case that it is to."""
    for key, partner in related.meta.relations.items():
        if partner in cases:
            yield key, partner
    for partner in related.meta.disjoint_with:
        if partner in cases:
            yield "disjoint_with", partner
    base = related.meta.relations.get("other_seed_of", "")
    if base in cases and _list_ids(cases[base]) != _list_ids(related):
        # (seed + 1, epoch) and (seed, epoch + 1): one key to a port that adds the two up.
        for name, other in cases.items():
            if other.meta.relations.get("other_epoch_of") == base and _sum_key(other) == _sum_key(
                related
            ):
                yield "other_key_of", name


def _sum_key(related: _RelatedCase) -> int:
    return related.meta.seed + related.meta.epoch


def _list_ids(related: _RelatedCase) -> list[float] | None:
    return None if related.run is None else related.run.ids


def _check_relation(key: str, related: _RelatedCase, other: _RelatedCase) -> list[Finding]:
    partner = other.meta.name
    if related.run is None or other.run is None:
        return [
            _report_skipped(f"not compared with {partner} ({key}), whose dump could not be read")
        ]
    if key == "disjoint_with":
        return relations.check_disjoint(related.run, other.run, partner)
    if related.faulty:
        return [] if other.faulty else _check_start(key, related, other.run)
    if other.faulty:
        return [
            _report_skipped(f"not compared with {partner} ({key}), which has errors of its own")
        ]
    return _compare_runs(key, related.run, related.meta, other.run, other.meta)


def _check_start(key: str, related: _RelatedCase, whole: Run) -> list[Finding]:
    """Report only a wrong start of a resumed run: its other errors follow from it."""
    run = related.run
    if key != "resume_of" or run is None or related.has_resume_error:
        return []
    before = whole.slice_batches(0, run.first_batch - whole.first_batch)
    return relations.check_resumed_ids(whole.ids, run, len(before.ids), strict=True)


def _compare_runs(
    key: str, run: Run, own_meta: PipelineCase, other: Run, other_meta: PipelineCase
) -> list[Finding]:
    if key == "resume_of":
        return relations.check_resumed(other, run, other_meta.name)
    if key == "same_as":
        return relations.check_repeated(other, run, other_meta.name)
    own_key, other_key = (
        f"seed {meta.seed}, epoch {meta.epoch}" for meta in (own_meta, other_meta)
    )
    code, why = _SAME_ORDER[key]
    message = f"{own_key} gives the order of {other_meta.name} ({other_key}): {why}"
    return relations.check_other_order(run, other, code, message)


def _report_skipped(message: str) -> Finding:
    return Finding(level="notice", code="relation-skipped", message=message)
