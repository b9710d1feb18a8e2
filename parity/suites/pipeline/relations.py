"""Compare runs of an input pipeline with each other, and check groups of them as a whole.

A case names its partners for repeats, epochs, seeds, resumes and splits. Groups have no name: the
ranks of one epoch, all draws of one seed and epoch, and the states that one configuration saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from parity.bundle.layout import PipelineCase
from parity.items.checks import Ints
from parity.port.dump_folder import MAX_STATE, STATE_FILE, DumpFileError, read_file
from parity.results import Finding
from parity.suites.base import Case, Compared, Dump
from parity.suites.item_findings import check_other_shuffle
from parity.suites.messages import format_list, report_error
from parity.suites.pipeline.audit import audit_run, check_resumed_ids
from parity.suites.pipeline.port_statements import read_draws, read_statements
from parity.suites.pipeline.ranks import (
    check_draws,
    check_other_draws,
    check_ranks,
    check_saved_again,
    check_states,
)
from parity.suites.pipeline.runs import ExpectedRun, Run, describe_difference, read_run
from parity.text import format_count

#: Fewest items whose orders are compared: two orders of 8 are equal by chance in 1/8! = 2.5e-5.
MIN_ITEMS = 8
_RESUME = {"resume-start", "resume-order"}  # Errors that say already how resuming failed
#: For another key that gives the same order: the code, and the reason.
SAME_ORDER = {
    "other_epoch_of": ("epoch-ignored", "the order does not depend on the epoch"),
    "other_seed_of": ("seed-ignored", "the order does not depend on the seed"),
    "other_key_of": ("order-shared", "seed and epoch seem to be added up into one key"),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparedCase:
    """A case that was run; ``run`` is None where its dump cannot be read."""

    meta: PipelineCase
    expected: ExpectedRun
    run: Run | None = None
    errors: frozenset[str] = frozenset()  # Codes of errors of its own, which need no repetition
    state: bytes | None = None  # As the run saved it

    @classmethod
    def read(cls, case: Case, dump: Dump | None) -> ComparedCase:
        """Read a case's dump; None is one that could not be compared."""
        meta, expected = case.detail
        run, found = read_run(dump.folder, expected) if dump else (None, [])
        if dump is None or run is None:
            return cls(meta=meta, expected=expected)
        found += audit_run(run, expected, tolerance=case.tolerances["max_abs"])
        state = None
        with suppress(DumpFileError):
            state = read_file(dump.folder / STATE_FILE, MAX_STATE) if case.saves else None
        if meta.draws:
            run = replace(run, draws=read_draws(read_statements(dump.folder)[0], run))
        return cls(
            meta=meta,
            expected=expected,
            run=run,
            errors=frozenset(one.code for one in found if one.level == "error"),
            state=state,
        )

    @property
    def end(self) -> tuple[int, int]:
        """Epoch and batch with which the next run begins."""
        whole = replace(self.expected, start_batch=0, stop_after=None)
        batch = self.meta.start_batch + len(self.expected.sizes)
        return (self.meta.epoch, batch) if batch < len(whole.sizes) else (self.meta.epoch + 1, 0)


def check_relations(compared: Compared) -> Mapping[str, tuple[Finding, ...]]:
    """Report what only several runs show, by the case that names the other.

    Relations to cases that were not selected are left out; a case may have no dump.
    """
    cases = {name: ComparedCase.read(case, dump) for name, (case, dump) in compared.items()}
    found = {
        name: [
            finding
            for key, partner in _iterate_relations(related, cases)
            for finding in _check_relation(key, related, cases[partner])
        ]
        for name, related in cases.items()
        if related.run is not None
    }
    for name, finding in check_groups(cases.values()):
        found[name].append(finding)
    return {name: tuple(each) for name, each in found.items()}


def _iterate_relations(
    related: ComparedCase, cases: Mapping[str, ComparedCase]
) -> Iterator[tuple[str, str]]:
    """Yield each relation of a case, and the case that it is to."""
    pairs = [*related.meta.relations.items()]
    pairs += [("disjoint_with", partner) for partner in related.meta.disjoint_with]
    pairs += [("load_from", related.meta.load_from)] * (related.meta.stop_after == 0)
    yield from (pair for pair in pairs if pair[1] in cases)
    base = related.meta.relations.get("other_seed_of", "")
    other = cases[base].run if base in cases else None
    if base not in cases or (other and other.ids) == (related.run and related.run.ids):
        return
    # (seed + 1, epoch) and (seed, epoch + 1): one key to a port that adds the two up.
    key = related.meta.seed + related.meta.epoch
    for name, one in cases.items():
        related_to = one.meta.relations.get("other_epoch_of")
        if related_to == base and one.meta.seed + one.meta.epoch == key:
            yield "other_key_of", name


def _check_relation(key: str, related: ComparedCase, other: ComparedCase) -> list[Finding]:
    run, whole, name, meta = related.run, other.run, other.meta.name, related.meta
    if run is None or whole is None:
        return [_report_skipped(f"not compared with {name} ({key}), whose dump could not be read")]
    if key == "disjoint_with":
        return check_disjoint(run, whole, name)
    if meta.stop_after is not None:
        whole = whole.slice_batches(0, meta.start_batch + meta.stop_after - whole.first_batch)
    if not related.errors and other.errors:
        return [_report_skipped(f"not compared with {name} ({key}), which has errors of its own")]
    if related.errors:
        if other.errors or key != "resume_of" or related.errors & _RESUME:
            return []
        # Only a wrong start of a resumed run: its other errors follow from it.
        before = whole.slice_batches(0, run.first_batch - whole.first_batch)
        return check_resumed_ids(whole.ids, run, len(before.ids), strict=True)
    return _compare_runs(key, related, other, run, whole)


def _compare_runs(
    key: str, related: ComparedCase, other: ComparedCase, run: Run, whole: Run
) -> list[Finding]:
    meta, name = related.meta, other.meta.name
    if key == "load_from":
        return check_saved_again(other.state, related.state, name)
    if key in ("resume_of", "same_as"):
        return (check_resumed if key == "resume_of" else check_repeated)(whole, run, name)
    own, others = (f"seed {one.seed}, epoch {one.epoch}" for one in (meta, other.meta))
    code, why = SAME_ORDER[key]
    message = f"{own} gives the order of {name} ({others}): {why}"
    found = check_other_order(run, whole, code, message, name)
    if meta.draws and other.meta.draws and other.run is not None:
        # ``whole`` may be a part of it, which has no draws.
        found += check_other_draws(run, other.run, f"{own} draws as {name} ({others})")
    return found


def _report_skipped(message: str) -> Finding:
    return Finding(level="notice", code="relation-skipped", message=message)


def check_resumed(whole: Run, rest: Run, name: str) -> list[Finding]:
    """Compare run ``name`` with what came before and after the cut at which ``rest`` resumes."""
    cut = rest.first_batch - whole.first_batch
    if not 0 <= cut <= len(whole.sizes):
        message = (
            f"the restart at batch {rest.first_batch} is not in {name}, which has "
            f"{format_count(len(whole.sizes), 'batches', 'batch')} from {whole.first_batch} on"
        )
        return [report_error("resume-start", message)]
    before = whole.slice_batches(0, cut)
    if found := check_resumed_ids(whole.ids, rest, len(before.ids)):
        return found
    text = describe_difference(whole.slice_batches(cut), rest)
    message = f"batches from {rest.first_batch} on differ from those of {name}: {text}"
    return [report_error("resume-values", message)] if text else []


def check_repeated(first: Run, second: Run, name: str) -> list[Finding]:
    """Check that the same (seed, epoch) gave the same run, to the byte."""
    text = describe_difference(first, second)
    message = f"another run than {name} of the same seed and epoch: {text}"
    return [report_error("not-repeated", message)] if text else []


def check_other_order(
    run: Run, other: Run, code: str, message: str, name: str = "the other run"
) -> list[Finding]:
    """Check that another key gave another order than ``name``; one that is close is a warning."""
    if run.ids != other.ids:
        return check_other_shuffle(np.asarray(run.ids), np.asarray(other.ids), name)
    return [report_error(code, message)] if len(run.ids) >= MIN_ITEMS else []


def check_disjoint(run: Run, other: Run, name: str) -> list[Finding]:
    """Check that no item of ``run`` occurs in ``other``, the run of this name."""
    shared = sorted(set(run.ids) & set(other.ids))
    if not shared:
        return []
    message = (
        f"{format_count(len(shared), 'items')} in common with {name}, though the two are declared "
        f"disjoint: {format_list(shared)}"
    )
    return [report_error("leakage", message, measures={"items": len(shared)})]


def check_groups(cases: Iterable[ComparedCase]) -> Iterator[tuple[str, Finding]]:
    """Yield what only a whole group shows, each finding with the last case of its group."""
    runs = [case for case in cases if case.run is not None]
    for make_key, check in _GROUPS:
        groups: dict[Any, list[ComparedCase]] = {}
        for case in runs:
            if (key := make_key(case)) is not None:
                groups.setdefault(key, []).append(case)
        for members in groups.values():
            yield from ((members[-1].meta.name, finding) for finding in check(members))


def _make_key(case: ComparedCase, *more: Any) -> tuple[Any, ...]:
    meta = case.meta
    settings = (meta.seed, meta.policy, meta.batch_size, meta.shuffle, meta.workers)
    return (*settings, meta.world, meta.shortfall, *more)


def _make_rank_key(case: ComparedCase) -> Any:
    meta = case.meta
    if meta.rank is None or meta.stop_after is not None or meta.load_from:
        return None
    return _make_key(case, meta.epoch, meta.start_batch)


def _check_ranks(members: list[ComparedCase]) -> list[Finding]:
    meta, ids = members[0].meta, members[0].expected.dataset.ids
    by_rank = {one.meta.rank: one for one in members}
    if len(by_rank) < meta.world:
        message = (
            f"only {len(by_rank):,} of {meta.world:,} ranks were compared, so that it was not "
            "checked what they deliver together"
        )
        return [Finding(level="notice", code="relation-skipped", message=message)]
    ranks = [by_rank[rank] for rank in range(meta.world)]
    shares = {f"rank {one.meta.rank}": one.run for one in ranks if one.run}
    parts = [one.expected.indices for one in ranks]
    known = [ids[part] for part in parts if part is not None]
    expected = np.concatenate(known) if len(known) == len(parts) else _fill_own_order(ranks, ids)
    found = check_ranks(shares, ids, meta.shortfall, expected=expected)
    if expected is None and meta.policy == "drop":  # the ends of shares are left out
        return [one for one in found if one.code != "rank-missing"]
    return found


def _fill_own_order(ranks: list[ComparedCase], ids: Ints) -> Ints | None:
    """Return the ids that ranks must deliver whose own order was filled up by its beginning.

    None where that was not their task, or where their order is none.
    """
    runs = [one.run.id[~one.run.padded] for one in ranks if one.run is not None]
    is_filled = ranks[0].meta.shortfall == "fill" and len({len(run) for run in runs}) == 1
    order = np.column_stack(runs).ravel()[: len(ids)] if is_filled else ids[:0]
    if not np.array_equal(np.sort(order), np.sort(ids)):
        return None
    return np.resize(order, sum(map(len, runs)))


def _check_states(members: list[ComparedCase]) -> list[Finding]:
    states, places = {}, {}
    for one in members:
        name = f"by {one.meta.name} before batch {one.end[1]} of epoch {one.end[0]}"
        states[name], places[name] = one.state or b"", one.end
    return check_states(states, places)


_Check = Callable[[list[ComparedCase]], list[Finding]]
#: Returns the key of the group that a case belongs to, or None; and checks such a group.
_GROUPS: tuple[tuple[Callable[[ComparedCase], Any], _Check], ...] = (
    (_make_rank_key, _check_ranks),
    (
        lambda case: (case.meta.seed, case.meta.epoch) if case.meta.draws else None,
        lambda members: check_draws({one.meta.name: one.run for one in members if one.run}),
    ),
    (lambda case: None if case.state is None else _make_key(case, case.meta.rank), _check_states),
)
