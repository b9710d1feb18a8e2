"""Faults of loaders, injected into a folder of `batch_NNNN.bin` files."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import factorial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from parity.bundle.layout import find_batch_files
from parity.lab.faults import Fault, InjectionResult
from parity.lab.faults.loader_runs import DeliveredRun, LoaderContract
from parity.tensors.bin import encode_batch, read_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    F32 = NDArray[np.float32]
    #: From a run to a wrong one; None where the fault does not apply.
    RunChange = Callable[[DeliveredRun], DeliveredRun | None]

_SUBSET_REASON = (
    "any part of the data set is allowed (SUBSET), so nobody knows whose items they are"
)
_SINGLE_ELEMENT = "one element alone has no provable cause"
_TWO = 2
#: Items of one worker of two, if each has two.
_FEWEST_FOR_SHARDS = 4
_FINAL = "final-batch"


class _RunFault(NamedTuple):
    """A fault of a run: name, text, codes that name it, change, and why no cause can."""

    name: str
    text: str
    codes: tuple[str, ...]
    change: RunChange
    why_unnamed: str = ""


def list_loader_faults(loader: LoaderContract) -> Iterator[Fault]:
    """List the faults that may apply."""
    for one in _list_run_faults(loader):
        yield Fault(
            name=one.name,
            text=one.text,
            codes=one.codes,
            inject=partial(_inject_run, one.change),
            why_unnamed=one.why_unnamed,
        )
    if loader.dataset_order is not None and not loader.is_ordered:
        order = loader.dataset_order
        yield Fault(
            name="never-shuffled",
            text="the items are never shuffled",
            codes=("not-shuffled",),
            inject=partial(_inject_run, lambda run: run.take_rows(order)),
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


def _inject_run(change: RunChange, folder: Path) -> InjectionResult:
    run = DeliveredRun.read(folder)
    wrong = None if run is None else change(run)
    if run is None or wrong is None:
        return InjectionResult()
    before = {path.name: path.read_bytes() for path in find_batch_files(folder).values()}
    wrong.write(folder)
    after = {path.name: path.read_bytes() for path in find_batch_files(folder).values()}
    parts = ("batches",)
    return InjectionResult(unchanged=parts) if before == after else InjectionResult(changed=parts)


def _inject_file(damage: Callable[[Path], object], folder: Path) -> InjectionResult:
    files = list(find_batch_files(folder).values())
    if not files:
        return InjectionResult()
    damage(files[0])
    return InjectionResult(changed=(files[0].name,))


def _list_run_faults(loader: LoaderContract) -> Iterator[_RunFault]:
    yield from _list_label_faults(loader)
    yield from _list_feature_faults(loader)
    yield from _list_member_faults(loader)
    yield from _list_last_batch_faults(loader)
    if loader.is_ordered:
        yield from _list_order_faults(loader)


def _change_column(index: int, change: Callable[[F32], F32], run: DeliveredRun) -> DeliveredRun:
    return run.replace_column(index, change(run.columns[index].copy()))


def _list_label_faults(loader: LoaderContract) -> Iterator[_RunFault]:
    labels = partial(partial, _change_column, loader.label_column)
    text = "labels are rolled by one row"
    yield _RunFault("labels-rolled", text, ("labels-rolled",), labels(lambda y: np.roll(y, 1)))
    for name, text, by in (
        ("label-off", "a label is one too large", 1.0),
        ("label-fraction", "a label is not an integer", 0.9),
        ("label-nan", "a label is NaN", np.nan),
    ):
        yield _RunFault(name, text, (), labels(partial(_add_to_first, by=by)), _SINGLE_ELEMENT)
    if loader.unshuffled_labels is not None:
        plain = loader.unshuffled_labels
        codes = ("labels-unshuffled", "labels-shuffled", "labels-rolled")
        text = "features are shuffled, labels are not"
        yield _RunFault("labels-unshuffled", text, codes, labels(lambda _: plain))


def _list_feature_faults(loader: LoaderContract) -> Iterator[_RunFault]:
    features = partial(partial, _change_column, loader.feature_column)
    off = features(partial(_add_to_first, by=0.01))
    yield _RunFault("feature-off", "a feature is off by 0.01", (), off, _SINGLE_ELEMENT)
    nan, infinite = (features(partial(_add_to_first, by=by)) for by in (np.nan, np.inf))
    yield _RunFault("feature-nan", "a feature is NaN", ("nan",), nan)
    yield _RunFault("feature-infinite", "a feature is infinite", ("nan",), infinite)
    why = "rows that are no item have no place in the data set"
    zeros = features(np.zeros_like)
    yield _RunFault("features-zero", "all features are zero", (), zeros, why)
    all_nan = features(lambda x: np.full_like(x, np.nan))
    yield _RunFault("features-nan", "all features are NaN", ("nan",), all_nan)


def _add_to_first(column: F32, by: float) -> F32:
    column.reshape(-1)[0] += np.float32(by)
    return column


def _list_member_faults(loader: LoaderContract) -> Iterator[_RunFault]:
    why = _SUBSET_REASON if loader.is_subset else ""

    def repeat_shard(run: DeliveredRun) -> DeliveredRun | None:
        rows = np.concatenate([run.rows, run.rows[::2]])
        sizes = _split_sizes(loader, len(rows))
        return run.take_rows(rows, sizes) if len(run.rows) >= _FEWEST_FOR_SHARDS else None

    def drop_shard(run: DeliveredRun) -> DeliveredRun | None:
        rows = run.rows[1::2]
        sizes = _split_sizes(loader, len(rows))
        return run.take_rows(rows, sizes) if len(run.rows) >= _FEWEST_FOR_SHARDS else None

    def deliver_twice(run: DeliveredRun) -> DeliveredRun:
        return run.take_rows(np.concatenate([run.rows, run.rows]), (*run.sizes, *run.sizes))

    def replace_last(run: DeliveredRun) -> DeliveredRun | None:
        return run.take_rows(np.append(run.rows[:-1], 0)) if len(run.rows) >= _TWO else None

    text = "one of two workers delivers again"
    yield _RunFault("shard-repeated", text, ("shard-repeated",), repeat_shard, why)
    text = "one of two workers delivers nothing"
    yield _RunFault("shard-missing", text, ("shard-missing",), drop_shard, why)
    text = "each of two workers delivers everything"
    yield _RunFault("every-item-twice", text, ("every-item-again",), deliver_twice)
    why = "one item alone has no provable cause; the finding names it"
    text = "an item is delivered in place of another"
    yield _RunFault("item-in-place", text, ("item-twice",), replace_last, why)


def _split_sizes(loader: LoaderContract, count: int) -> tuple[int, ...]:
    full, rest = divmod(count, loader.batch_size)
    return (loader.batch_size,) * full + ((rest,) if rest else ())


def _list_last_batch_faults(loader: LoaderContract) -> Iterator[_RunFault]:
    def drop_last(run: DeliveredRun) -> DeliveredRun | None:
        if len(run.sizes) < _TWO or run.sizes[-1] == run.sizes[0]:
            return None
        return run.take_rows(run.rows[: -run.sizes[-1]], run.sizes[:-1])

    def pad_last(run: DeliveredRun) -> DeliveredRun | None:
        lack = run.sizes[0] - run.sizes[-1]
        if len(run.sizes) < _TWO or not lack:
            return None
        rows = np.concatenate([run.rows, run.rows[:lack]])
        return run.take_rows(rows, (*run.sizes[:-1], run.sizes[0]))

    def keep_last(run: DeliveredRun) -> DeliveredRun | None:
        if not loader.left_out or len(loader.left_out[0]) >= loader.batch_size:
            return None
        pairs = zip(run.columns, loader.left_out, strict=True)
        columns = tuple(np.concatenate(pair) for pair in pairs)
        return replace(run, columns=columns, sizes=(*run.sizes, len(loader.left_out[0])))

    def merge_first(run: DeliveredRun) -> DeliveredRun | None:
        if len(run.sizes) < _TWO:
            return None
        return replace(run, sizes=(run.sizes[0] + run.sizes[1], *run.sizes[2:]))

    why = _SUBSET_REASON if loader.is_subset else ""
    for name, text, change, reason in (
        ("last-batch-dropped", "the last batch is dropped", drop_last, ""),
        ("last-batch-padded", "the last batch is filled up", pad_last, ""),
        ("last-batch-kept", "a batch that should be dropped is delivered", keep_last, why),
    ):
        yield _RunFault(name, text, (name, _FINAL), change, reason)
    yield _RunFault("batches-merged", "two batches are one", ("batch-count",), merge_first)


def _list_order_faults(loader: LoaderContract) -> Iterator[_RunFault]:
    def swap_batches(run: DeliveredRun) -> DeliveredRun | None:
        if len(run.sizes) < _TWO or run.sizes[0] != run.sizes[1]:
            return None
        size = run.sizes[0]
        rows = np.concatenate([run.rows[size : 2 * size], run.rows[:size], run.rows[2 * size :]])
        return run.take_rows(rows)

    def swap_items(run: DeliveredRun) -> DeliveredRun | None:
        if len(run.rows) < _TWO:
            return None
        rows = run.rows.copy()
        rows[[0, 1]] = 1, 0
        return run.take_rows(rows)

    swapped = ("batches-swapped",)
    yield _RunFault("batches-swapped", "two batches are exchanged", swapped, swap_batches)
    why = "two exchanged items have no provable cause; the finding names them"
    yield _RunFault("items-swapped", "two items are exchanged", ("order",), swap_items, why)
    if loader.dataset_order is not None:
        order = loader.dataset_order
        codes = ("never-shuffled", "sorted", "batches-swapped")
        text = "the items are never shuffled"
        yield _RunFault("never-shuffled", text, codes, lambda run: run.take_rows(order))
    if loader.next_epoch is not None:
        change = partial(_replace_run, loader.next_epoch)
        yield _RunFault("other-epoch", "the order is another epoch's", ("other-epoch",), change)
    for name, text, wrong in loader.key_faults:
        change = partial(_replace_run, wrong)
        yield _RunFault(name, text, ("other-epoch", "resume-order"), change)


def _replace_run(wrong: DeliveredRun, _right: DeliveredRun) -> DeliveredRun:
    return wrong


#: Faults of a file, whose names are also the codes that they are found by.
_FILE_FAULTS: tuple[tuple[str, str, Callable[[Path], object]], ...] = (
    ("batch-missing", "the first batch is not written", lambda p: p.unlink()),
    ("truncated", "a file is truncated", lambda p: p.write_bytes(p.read_bytes()[:-1])),
    (
        "trailing-bytes",
        "bytes follow the data",
        lambda p: p.write_bytes(p.read_bytes() + bytes(4)),
    ),
    (
        "tensor-count",
        "a batch lacks its labels",
        lambda p: p.write_bytes(encode_batch(read_batch(p)[:-1])),
    ),
)
