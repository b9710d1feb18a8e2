"""Read a pipeline's run, as delivered and as expected, into arrays in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parity.bundle.layout import find_batch_files
from parity.items.checks import Ints, format_position
from parity.items.matching import UNKNOWN
from parity.items.records import PADDING_ID, Dataset, Policy
from parity.results import Finding
from parity.suites.batch_findings import check_gaps, read_batches
from parity.suites.messages import format_list, format_number, report_each, report_error
from parity.text import format_count

Bools = NDArray[np.bool_]
Numbers = NDArray[Any]

COLUMNS = ("id", "x", "y", "mask")


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """Slots as a pipeline delivered them, batch after batch; each column is ``[n]``.

    What compares ranks and draws needs no column but ``id``.
    """

    id: Numbers  # Of any real dtype; ``PADDING_ID`` in a padded slot
    x: Numbers = field(default_factory=lambda: np.empty(0))
    y: Numbers = field(default_factory=lambda: np.empty(0))
    #: Of any real dtype: 1 for an observation, 0 for padding
    mask: Numbers = field(default_factory=lambda: np.empty(0))
    sizes: tuple[int, ...] = ()  # Slots of each batch; their sum is ``n``, or they are unknown
    first_batch: int = 0
    draws: Numbers | None = None  # One random number a slot, if recorded

    @classmethod
    def of(cls, batches: Iterable[Sequence[ArrayLike]], first_batch: int = 0) -> Run:
        """Build the run of ``batches``: id, x, y and perhaps mask (else all ones), each ``[B]``.

        A batch may be its ids alone.

        Raises:
            ValueError: The columns of a batch differ in length.
        """
        parts = [_check_columns(batch) for batch in batches]
        sizes = tuple(len(part[0]) for part in parts)
        none = [np.empty(0, np.float32)] * len(COLUMNS)
        columns = [np.concatenate(c) for c in zip(*parts, strict=True)] if parts else none
        given = dict(zip(COLUMNS, columns, strict=True))
        return cls(**given, sizes=sizes, first_batch=first_batch)

    def format_position(self, slot: int) -> str:
        """Format batch and row of a slot."""
        if not self.sizes:
            return f"position {slot:,}"
        return format_position(self.sizes, int(slot), self.first_batch)

    def slice_batches(self, start: int, stop: int | None = None) -> Run:
        """Return batches ``start`` to ``stop`` of this run, counted from its first, as a run."""
        sizes = self.sizes[start:stop]
        first = sum(self.sizes[:start])
        columns = {name: getattr(self, name)[first : first + sum(sizes)] for name in COLUMNS}
        return Run(**columns, sizes=sizes, first_batch=self.first_batch + start)

    @cached_property
    def padded(self) -> Bools:
        """``[n]``: the slot has the id of padding."""
        return np.asarray(self.id == PADDING_ID)

    @cached_property
    def ids(self) -> list[int | float]:
        """Ids of the slots that are not padding, in order of arrival."""
        ids = self.id[~self.padded].tolist()
        return ids if self.id.dtype.kind in "iu" else [int(i) if i % 1 == 0 else i for i in ids]


def _check_columns(batch: Sequence[ArrayLike]) -> list[Numbers]:
    is_plain = len(batch) > 0 and np.ndim(batch[0]) == 0
    columns = [np.asarray(column) for column in ([batch] * 3 if is_plain else batch)]
    if len(columns) == len(COLUMNS) - 1:
        columns.append(np.ones(len(columns[0]), np.bool_))
    if len({column.shape for column in columns}) != 1 or columns[0].ndim != 1:
        shapes = [column.shape for column in columns]
        raise ValueError(f"a batch must have vectors of one length, obtained shapes {shapes}")
    return columns


@dataclass(frozen=True, kw_only=True, eq=False)
class ExpectedRun:
    """Run that a pipeline must deliver."""

    dataset: Dataset
    batch_size: int  # Slots of a full batch
    policy: Policy  # For a last batch that is not full
    start_batch: int = 0
    #: ``[total]`` indices into the data set in the order of the epoch; None for any order.
    order: Ints | None = None
    shuffled: bool = True  # The epoch has an order of its own, not the data set's
    key: tuple[int, int] | None = None  # Seed and epoch, where the order is NumPy's
    share: int | None = None  # Records of a rank's epoch; None for one process alone
    stop_after: int | None = None  # Batches after which the run is interrupted

    @property
    def total(self) -> int:
        """Records of the epoch."""
        return len(self.dataset) if self.share is None else self.share

    @property
    def position(self) -> int:
        """Records of the epoch before the first batch."""
        return min(self.start_batch * self.batch_size, self.total)

    @property
    def count(self) -> int:
        """Number of records."""
        left = self.total - self.position
        left -= left % self.batch_size if self.policy == "drop" else 0
        return left if self.stop_after is None else min(left, self.stop_after * self.batch_size)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Slots of each batch."""
        full, rest = divmod(self.count, self.batch_size)
        last = {"keep": rest, "pad": self.batch_size, "drop": 0}[self.policy] if rest else 0
        return (self.batch_size,) * full + ((last,) if last else ())

    @property
    def indices(self) -> Ints | None:
        """``[count]`` indices in the expected order; None for any order."""
        if self.order is None:
            return None
        return self.order[self.position : self.position + self.count]


@dataclass(frozen=True, kw_only=True, eq=False)
class SlotKinds:
    """Kind of each slot of a run, ``[n]``."""

    item: Ints  # Index into the data set, or UNKNOWN
    filler: Bools  # Masked, yet not padding: an item that occurs elsewhere, or none at all
    hidden: Bools  # A masked item that occurs nowhere else
    real: Bools  # Neither padding nor filler

    @classmethod
    def of(cls, run: Run, dataset: Dataset) -> SlotKinds:
        """Look up each slot's id in ``dataset``, by one sort and one search."""
        item = find_indices(dataset.ids, run.id)
        masked = (run.mask == 0) & ~run.padded
        elsewhere = np.zeros(len(dataset) + 1, np.bool_)  # the last is that of UNKNOWN
        elsewhere[item[(run.mask != 0) & ~run.padded]] = True
        elsewhere[UNKNOWN] = True
        filler = masked & elsewhere[item]
        real = ~(run.padded | filler)
        return cls(item=item, filler=filler, hidden=masked & ~filler, real=real)


def find_indices(ids: Ints, targets: Numbers) -> Ints:
    """Return the index in ``ids``, which are unique, of each target, or UNKNOWN."""
    if not len(ids):
        return np.full(len(targets), UNKNOWN, np.int64)
    if targets.dtype.kind == "i" and ids[0] == 0 and np.array_equal(ids, np.arange(len(ids))):
        return np.where((targets >= 0) & (targets < len(ids)), targets, UNKNOWN)
    order, queries = np.argsort(ids, kind="stable"), np.argsort(targets, kind="stable")
    # Sorted queries visit the ids in order, which suits the processor's caches.
    slot = np.empty(len(targets), np.int64)
    slot[queries] = np.searchsorted(ids[order], targets[queries])
    found = order[np.minimum(slot, len(ids) - 1)]
    return np.where(ids[found] == targets, found, UNKNOWN)


def check_unknown_ids(ids: Numbers, unknown: Bools, locate: Callable[[int], str]) -> list[Finding]:
    """Report the ``unknown`` ones of a run's ids, ``[n]``, which the data set does not have."""

    def describe(slot: int) -> str:
        value = ids[slot]
        whole = np.isfinite(value) and value == np.floor(value)
        reason = "which the data set does not have" if whole else "which is not a whole number"
        return f"{locate(slot)} has id {format_number(value)}, {reason}"

    text = "rows are not items of the data set"
    return report_each("item-unknown", np.flatnonzero(unknown), describe, text)


def describe_difference(expected_run: Run, obtained_run: Run) -> str | None:
    """Describe where two runs differ first; None where they are equal to the byte."""
    if expected_run.sizes != obtained_run.sizes:
        sizes = [format_list(run.sizes) for run in (obtained_run, expected_run)]
        return f"sizes [{sizes[0]}] instead of [{sizes[1]}]"
    for name in COLUMNS:
        expected, obtained = getattr(expected_run, name), getattr(obtained_run, name)
        differing = np.flatnonzero(_view_bits(expected, obtained) != _view_bits(obtained, expected))
        if len(differing):
            slot = int(differing[0])
            count = f"{format_count(len(differing), 'slots')} of {len(expected):,}"
            return (
                f"{obtained_run.format_position(slot)} has {name} {format_number(obtained[slot])} "
                f"instead of {format_number(expected[slot])} ({count} differ in {name})"
            )
    return None


def _view_bits(column: Numbers, other: Numbers) -> Numbers:
    """View the elements' bits as integers, of the dtype that fits both columns."""
    packed = np.ascontiguousarray(column, np.result_type(column, other))
    return packed.view(f"u{packed.dtype.itemsize}")


def read_run(folder: Path, expected: ExpectedRun) -> tuple[Run | None, list[Finding]]:
    """Read a folder's `batch_NNNN.bin` files, and report them; the run is None if unreadable."""
    first = expected.start_batch
    files, found = _renumber_files(find_batch_files(folder), first, len(expected.sizes))
    missing = check_gaps(list(files), first) if files else []
    # All items in one batch, and wrong sizes, can be reported.
    max_bytes = 4 * 4 * len(COLUMNS) * (len(expected.dataset) + expected.batch_size) + 2**20
    batches, broken = read_batches(files.values(), max_bytes, COLUMNS, _describe_shapes)
    run = None if missing or broken else Run.of(batches, first)
    return run, [*found, *missing, *broken]


def _renumber_files(
    files: Mapping[int, Path], first: int, count: int
) -> tuple[Mapping[int, Path], list[Finding]]:
    """Give files the numbers that they should have, where a resumed run began at another."""
    start = min(files, default=first)
    if start >= first:
        return files, []
    if len(files) == count:
        files = {number + first - start: path for number, path in files.items()}
    else:
        files = {number: path for number, path in files.items() if number >= first}
    expected = f"batch_{first:04}.bin must be the first" if count else "no batch is left"
    message = (
        f"the first batch file is batch_{start:04}.bin; the run continues at batch {first}, so "
        f"{expected}"
    )
    return files, [report_error("resume-start", message, expected=str(first), obtained=str(start))]


def _describe_shapes(batch: list[NDArray[np.float32]]) -> str:
    shapes = [list(tensor.shape) for tensor in batch]
    if len(shapes[0]) == 1 and shapes[0][0] and shapes.count(shapes[0]) == len(shapes):
        return ""
    pairs = ", ".join(f"{name} {shape}" for name, shape in zip(COLUMNS, shapes, strict=True))
    return f"{pairs}; expected [B] for all four, with B of at least 1"
