"""Faults of loaders, injected into a folder of `batch_NNNN.bin` files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import factorial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.bundle.layout import find_batch_files
from parity.lab.faults import Fault, InjectionResult
from parity.lab.faults.file_faults import append_bytes, truncate
from parity.lab.faults.loader_runs import DeliveredRun, LoaderContract, inject_run
from parity.tensors.bin import encode_batch, read_batch

F32 = NDArray[np.float32]
#: From a run to a wrong one; None where the fault does not apply.
RunChange = Callable[[DeliveredRun], DeliveredRun | None]

_SUBSET_REASON = (
    "any part of the data set is allowed (SUBSET), so nobody knows whose items they are"
)
_SINGLE = "one element alone has no provable cause"


def list_loader_faults(loader: LoaderContract) -> Iterator[Fault]:
    """List the faults that may apply."""
    rows = [*_list_run_faults(loader), *(_list_order_faults(loader) if loader.is_ordered else ())]
    for name, text, codes, change, *why in rows:
        yield _make_fault(name, text, codes, change, why_unnamed="".join(why))
    if loader.dataset_order is not None and not loader.is_ordered:
        order = loader.dataset_order
        yield _make_fault(
            *("never-shuffled", "the items are never shuffled", "not-shuffled"),
            lambda run: run.take_rows(order),
            why_allowed=_explain_chance(len(order)),
        )
    for name, text, damage in _FILE_FAULTS:
        yield Fault(name=name, text=text, codes=(name,), inject=partial(_inject_file, damage))


def _explain_chance(count: int) -> str:
    """Explain why so few items in the data set's order are a warning; empty for an error."""
    chance = 1 / factorial(count)
    if chance < 1e-6:  # noqa: PLR2004 - as the suites have it
        return ""
    return f"a right shuffle gives this order with probability {chance:.2g}, so it is a warning"


def _make_fault(name: str, text: str, codes: str, change: RunChange, **why: Any) -> Fault:
    def make(folder: Path) -> DeliveredRun | None:
        run = DeliveredRun.read(folder)
        return None if run is None else change(run)

    inject = partial(inject_run, make)
    return Fault(name=name, text=text, codes=tuple(codes.split()), inject=inject, **why)


def _inject_file(damage: Callable[[Path], object], folder: Path) -> InjectionResult:
    for path in find_batch_files(folder).values():
        damage(path)
        return InjectionResult((path.name,))
    return InjectionResult()


def _list_run_faults(loader: LoaderContract) -> Iterator[tuple[Any, ...]]:
    """List rows of name, text, codes that name it, change, and why no cause can."""
    label = partial(partial, _change_column, loader.label_column)
    feature = partial(partial, _change_column, loader.feature_column)
    hidden = _SUBSET_REASON if loader.is_subset else ""
    # fmt: off
    yield from (
        ("labels-rolled", "labels are rolled by one row", "labels-rolled",
         label(lambda y: np.roll(y, 1))),
        ("label-off", "a label is one too large", "", label(_add_to_first(1.0)), _SINGLE),
        ("label-fraction", "a label is not an integer", "", label(_add_to_first(0.9)), _SINGLE),
        ("label-nan", "a label is NaN", "", label(_add_to_first(np.nan)), _SINGLE),
        ("feature-off", "a feature is off by 0.01", "", feature(_add_to_first(0.01)), _SINGLE),
        ("feature-nan", "a feature is NaN", "nan", feature(_add_to_first(np.nan))),
        ("feature-infinite", "a feature is infinite", "nan", feature(_add_to_first(np.inf))),
        ("features-zero", "all features are zero", "", feature(np.zeros_like),
         "rows without an item have no place in the data set"),
        ("features-nan", "all features are NaN", "nan",
         feature(lambda x: np.full_like(x, np.nan))),
        ("shard-repeated", "one of two workers delivers again", "shard-repeated",
         partial(_repeat_shard, loader.batch_size), hidden),
        ("shard-missing", "one of two workers delivers nothing", "shard-missing",
         partial(_drop_shard, loader.batch_size), hidden),
        ("every-item-twice", "each of two workers delivers everything", "every-item-again",
         lambda run: run.take_rows(np.tile(run.rows, 2), run.sizes * 2)),
        ("item-in-place", "an item is delivered in place of another", "item-twice", _repeat_first,
         "one item alone has no provable cause; the finding names it"),
        ("last-batch-dropped", "the last batch is dropped", "last-batch-dropped final-batch",
         _drop_last),
        ("last-batch-padded", "the last batch is filled up", "last-batch-padded final-batch",
         _pad_last),
        ("last-batch-kept", "a batch that should be dropped is delivered",
         "last-batch-kept final-batch", partial(_keep_last, loader), hidden),
        ("batches-merged", "two batches are one", "batch-count", _merge_first),
    )
    # fmt: on
    if loader.unshuffled_labels is not None:
        plain = loader.unshuffled_labels
        codes = "labels-unshuffled labels-shuffled labels-rolled"
        text = "features are shuffled, labels are not"
        yield "labels-unshuffled", text, codes, label(lambda _: plain)


def _list_order_faults(loader: LoaderContract) -> Iterator[tuple[Any, ...]]:
    """List rows of faults of a run whose order is compared."""
    yield "batches-swapped", "two batches are exchanged", "batches-swapped", _swap_batches
    why = "two exchanged items have no provable cause; the finding names them"
    yield "items-swapped", "two items are exchanged", "order", _swap_items, why
    if loader.dataset_order is not None:
        order = loader.dataset_order
        codes = "never-shuffled sorted batches-swapped"
        text = "the items are never shuffled"
        yield "never-shuffled", text, codes, lambda run: run.take_rows(order)
    if loader.next_epoch is not None:
        text, following = "the order is another epoch's", loader.next_epoch
        yield "other-epoch", text, "other-epoch", lambda _: following
    for name, text, wrong in loader.key_faults:
        yield name, text, "other-epoch resume-order", partial(lambda wrong, _: wrong, wrong)


def _change_column(index: int, change: Callable[[F32], F32], run: DeliveredRun) -> DeliveredRun:
    columns = list(run.columns)
    columns[index] = change(columns[index].copy())
    return replace(run, columns=tuple(columns))


def _add_to_first(by: float) -> Callable[[F32], F32]:
    def change(column: F32) -> F32:
        column.reshape(-1)[0] += np.float32(by)
        return column

    return change


def _repeat_shard(batch_size: int, run: DeliveredRun) -> DeliveredRun | None:
    rows = np.concatenate([run.rows, run.rows[::2]])
    return _take_shards(batch_size, run, rows)


def _drop_shard(batch_size: int, run: DeliveredRun) -> DeliveredRun | None:
    return _take_shards(batch_size, run, run.rows[1::2])


def _take_shards(
    batch_size: int, run: DeliveredRun, rows: NDArray[np.int64]
) -> DeliveredRun | None:
    """Take rows in full batches and a rest, where each of two workers has at least two."""
    full, rest = divmod(len(rows), batch_size)
    sizes = (batch_size,) * full + ((rest,) if rest else ())
    return run.take_rows(rows, sizes) if len(run.rows) >= 4 else None  # noqa: PLR2004 - two each


def _repeat_first(run: DeliveredRun) -> DeliveredRun | None:
    return run.take_rows(np.append(run.rows[:-1], 0)) if len(run.rows) > 1 else None


def _drop_last(run: DeliveredRun) -> DeliveredRun | None:
    if len(run.sizes) == 1 or run.sizes[-1] == run.sizes[0]:
        return None
    return run.take_rows(run.rows[: -run.sizes[-1]], run.sizes[:-1])


def _pad_last(run: DeliveredRun) -> DeliveredRun | None:
    lack = run.sizes[0] - run.sizes[-1]
    if len(run.sizes) == 1 or not lack:
        return None
    rows = np.concatenate([run.rows, run.rows[:lack]])
    return run.take_rows(rows, (*run.sizes[:-1], run.sizes[0]))


def _keep_last(loader: LoaderContract, run: DeliveredRun) -> DeliveredRun | None:
    if not loader.left_out or len(loader.left_out[0]) >= loader.batch_size:
        return None
    columns = tuple(map(np.concatenate, zip(run.columns, loader.left_out, strict=True)))
    return replace(run, columns=columns, sizes=(*run.sizes, len(loader.left_out[0])))


def _merge_first(run: DeliveredRun) -> DeliveredRun | None:
    if len(run.sizes) == 1:
        return None
    return replace(run, sizes=(run.sizes[0] + run.sizes[1], *run.sizes[2:]))


def _swap_batches(run: DeliveredRun) -> DeliveredRun | None:
    if len(run.sizes) == 1 or run.sizes[0] != run.sizes[1]:
        return None
    size = run.sizes[0]
    return run.take_rows(np.r_[size : 2 * size, :size, 2 * size : len(run.rows)])


def _swap_items(run: DeliveredRun) -> DeliveredRun | None:
    return run.take_rows(np.r_[1, 0, 2 : len(run.rows)]) if len(run.rows) > 1 else None


#: Faults of a file, whose names are also the codes that they are found by.
_FILE_FAULTS: tuple[tuple[str, str, Callable[[Path], object]], ...] = (
    ("batch-missing", "the first batch is not written", lambda p: p.unlink()),
    ("truncated", "a file is truncated", truncate),
    ("trailing-bytes", "bytes follow the data", append_bytes),
    (
        "tensor-count",
        "a batch lacks its labels",
        lambda p: p.write_bytes(encode_batch(read_batch(p)[:-1])),
    ),
)
