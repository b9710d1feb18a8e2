"""Find runs that belong together without a name for it, and check each group as a whole.

These are the ranks of one epoch, all draws of one seed and epoch, and the states that one
configuration saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from parity.bundle.layout import PipelineCase
from parity.items.checks import Ints
from parity.port.dump_folder import MAX_STATE, STATE_FILE, DumpFileError, read_file
from parity.results import Finding
from parity.suites.base import Case, Dump
from parity.suites.pipeline.audit import audit_run
from parity.suites.pipeline.port_statements import read_draws, read_statements
from parity.suites.pipeline.ranks import Share, check_draws, check_ranks, check_states
from parity.suites.pipeline.runs import ExpectedRun, Run, read_run


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparedCase:
    """A case that was run; ``run`` is None where its dump cannot be read."""

    meta: PipelineCase
    expected: ExpectedRun
    run: Run | None = None
    share: Share | None = None  # The run's ids, with the draws that the port states
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
        state, draws = None, None
        with suppress(DumpFileError):
            state = read_file(dump.folder / STATE_FILE, MAX_STATE) if case.saves else None
        if meta.draws:
            draws = read_draws(read_statements(dump.folder)[0], run)
        return cls(
            meta=meta,
            expected=expected,
            run=run,
            share=Share(ids=run.id, sizes=run.sizes, first_batch=run.first_batch, draws=draws),
            errors=frozenset(one.code for one in found if one.level == "error"),
            state=state,
        )

    @property
    def end(self) -> tuple[int, int]:
        """Epoch and batch with which the next run begins."""
        whole = replace(self.expected, start_batch=0, stop_after=None)
        batch = self.meta.start_batch + len(self.expected.sizes)
        return (self.meta.epoch, batch) if batch < len(whole.sizes) else (self.meta.epoch + 1, 0)


def check_groups(cases: Iterable[ComparedCase]) -> Iterator[tuple[str, Finding]]:
    """Yield what only a whole group shows, each finding with the last case of its group."""
    runs = [case for case in cases if case.share is not None]
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
    shares = {f"rank {one.meta.rank}": one.share for one in ranks if one.share}
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
        lambda members: check_draws({one.meta.name: one.share for one in members if one.share}),
    ),
    (
        lambda case: None if case.state is None else _make_key(case, case.meta.rank),
        _check_states,
    ),
)
