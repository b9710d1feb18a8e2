"""What the cases of a pipeline bundle say only together, by the relations that they name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from parity.results import Finding
from parity.suites.pipeline import relations
from parity.suites.pipeline.audit import audit_run
from parity.suites.pipeline.folders import most_bytes, read_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from parity.layout import PipelineCase
    from parity.suites.base import Case, Dump
    from parity.suites.pipeline.runs import Run

#: For another key that gives the same order: the code, and what it comes from.
_SAME_ORDER = {
    "other_epoch_of": ("epoch-ignored", "the order does not depend on the epoch"),
    "other_seed_of": ("seed-ignored", "the order does not depend on the seed"),
    "other_key_of": ("order-shared", "seed and epoch seem to be added up into one key"),
}


@dataclass(frozen=True, eq=False)
class _Told:
    """A case that was run.

    Attributes:
        run: What it delivered, None where that cannot be read.
        faulty: It has errors of its own, which need not be said once more.
    """

    meta: PipelineCase
    run: Run | None
    faulty: bool


def across(
    compared: Mapping[str, tuple[Case, Dump | None]],
) -> Mapping[str, tuple[Finding, ...]]:
    """Findings about what runs say only together, by the case that names the other.

    Relations to cases that were not chosen are left out.

    Args:
        compared: The cases that were run; without a dump where there is nothing to compare.
    """
    told = {name: _read(case, dump) for name, (case, dump) in compared.items()}
    return {
        name: tuple(
            finding
            for key, partner in _relations(one, told)
            for finding in _related(key, one, told[partner])
        )
        for name, one in told.items()
        if one.run is not None
    }


def _read(case: Case, dump: Dump | None) -> _Told:
    meta, owed = case.detail.meta, case.detail.owed
    if dump is None:
        return _Told(meta, None, faulty=True)
    run, found = read_run(dump.folder, owed.start_batch, len(owed.sizes), most_bytes(owed))
    if run is not None:
        found += audit_run(run, owed, bound=case.bounds["max_abs"])
    return _Told(meta, run, any(finding.level == "error" for finding in found))


def _relations(one: _Told, told: Mapping[str, _Told]) -> Iterator[tuple[str, str]]:
    """Each relation of a case, and the case that it is to."""
    for key, partner in one.meta.relations.items():
        if partner in told:
            yield key, partner
    for partner in one.meta.disjoint_with:
        if partner in told:
            yield "disjoint_with", partner
    base = one.meta.relations.get("other_seed_of", "")
    if base in told and _ids(told[base]) != _ids(one):
        # (seed + 1, epoch) and (seed, epoch + 1): one key to a port that adds the two up.
        for name, other in told.items():
            if other.meta.relations.get("other_epoch_of") == base and _sum(other) == _sum(one):
                yield "other_key_of", name


def _sum(one: _Told) -> int:
    return one.meta.seed + one.meta.epoch


def _ids(one: _Told) -> list[float] | None:
    return None if one.run is None else one.run.ids


def _related(key: str, one: _Told, other: _Told) -> list[Finding]:
    partner = other.meta.name
    if one.run is None or other.run is None:
        return [_skipped(f"not held against {partner} ({key}), whose dump could not be read")]
    if key == "disjoint_with":
        return relations.disjoint(one.run, other.run, partner)
    if one.faulty:
        return []
    if other.faulty:
        return [_skipped(f"not held against {partner} ({key}), which has errors of its own")]
    return _held(key, one.run, one.meta, other.run, other.meta)


def _held(
    key: str, run: Run, mine: PipelineCase, other: Run, theirs: PipelineCase
) -> list[Finding]:
    if key == "resume_of":
        return relations.resumed(other, run, theirs.name)
    if key == "same_as":
        return relations.repeated(other, run, theirs.name)
    own, their = (f"seed {meta.seed}, epoch {meta.epoch}" for meta in (mine, theirs))
    code, why = _SAME_ORDER[key]
    message = f"{own} comes in the order of {theirs.name} ({their}): {why}"
    return relations.other_order(run, other, code, message)


def _skipped(message: str) -> Finding:
    return Finding(level="notice", code="relation-skipped", message=message)
