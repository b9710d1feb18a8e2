"""What the cases of a pipeline bundle say only together, by the relations that they name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.results import Finding
from parity.suites.pipeline import relations
from parity.suites.pipeline.folders import most_bytes, read_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from parity.layout import PipelineCase
    from parity.suites.base import Case, Dump
    from parity.suites.pipeline.runs import Owed, Run


def across(
    compared: Mapping[str, tuple[Case, Dump | None]],
) -> Mapping[str, tuple[Finding, ...]]:
    """Findings about what runs say only together, by the case that names the other.

    Args:
        compared: The cases that were run; without a dump where there is nothing to compare.
    """
    runs = {name: _run(case, dump) for name, (case, dump) in compared.items()}
    found: dict[str, tuple[Finding, ...]] = {}
    for name, (case, _) in compared.items():
        if runs[name] is None:
            continue
        found[name] = tuple(
            finding
            for key, partner in _relations(case.detail.meta, compared)
            for finding in _related(key, name, partner, compared, runs)
        )
    return found


def _run(case: Case, dump: Dump | None) -> Run | None:
    if dump is None:
        return None
    owed = case.detail.owed
    run, found = read_run(dump.folder, owed.start_batch, len(owed.sizes), most_bytes(owed))
    return None if found else run


def _relations(
    meta: PipelineCase, compared: Mapping[str, tuple[Case, Dump | None]]
) -> Iterator[tuple[str, str]]:
    """Each relation of a case to one that was run; those to others are left out."""
    for key, partner in meta.relations.items():
        if partner in compared:
            yield key, partner
    for partner in meta.disjoint_with:
        if partner in compared:
            yield "disjoint_with", partner
    if "other_seed_of" in meta.relations:
        for other, (case, _) in compared.items():
            shared = case.detail.meta.relations.get("other_epoch_of")
            if shared == meta.relations["other_seed_of"]:
                yield "other_key_of", other


def _related(
    key: str,
    name: str,
    partner: str,
    compared: Mapping[str, tuple[Case, Dump | None]],
    runs: Mapping[str, Run | None],
) -> list[Finding]:
    run, other = runs[name], runs[partner]
    if run is None or other is None:
        message = f"not held against {partner} ({key}), whose dump could not be compared"
        return [Finding(level="notice", code="relation-skipped", message=message)]
    mine, theirs = (compared[n][0].detail for n in (name, partner))
    if key == "disjoint_with":
        return relations.disjoint(run, other, partner)
    if _told(run, mine.owed) or _told(other, theirs.owed):
        return []
    if key == "resume_of":
        return relations.resumed(other, run, partner)
    if key == "same_as":
        return relations.repeated(other, run, partner)
    return _other_order(key, run, other, mine.meta, theirs.meta)


def _told(run: Run, owed: Owed) -> bool:
    """Whether the order owed to the reference is broken, which the case itself says."""
    return owed.due is not None and run.ids != owed.dataset.ids[owed.due].tolist()


def _other_order(
    key: str, run: Run, other: Run, mine: PipelineCase, theirs: PipelineCase
) -> list[Finding]:
    both = [f"seed {meta.seed}, epoch {meta.epoch}" for meta in (mine, theirs)]
    code, why = {
        "other_epoch_of": ("epoch-ignored", "the order does not depend on the epoch"),
        "other_seed_of": ("seed-ignored", "the order does not depend on the seed"),
        "other_key_of": ("order-shared", "seed and epoch seem to be added up into one key"),
    }[key]
    message = f"{both[0]} comes in the order of {theirs.name} ({both[1]}): {why}"
    return relations.other_order(run, other, code, message)
