"""Faults of loaders, planted into a folder of `batch_NNNN.bin` files."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import factorial
from typing import TYPE_CHECKING

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
    #: From a run to a wrong one; None where the fault does not fit.
    RunChange = Callable[["DeliveredRun"], "DeliveredRun | None"]


def list_loader_faults(loader: LoaderContract) -> Iterator[Fault]:
    """All faults that can fit."""
    for name, text, codes, change, why_unnamed in _list_run_faults(loader):
        inject = partial(_inject_run, change)
        yield Fault(
            name=name,
            text=text,
            codes=codes,
            inject=inject,
            why_unnamed=why_unnamed,
        )
    if loader.dataset_order is not None and not loader.is_ordered:
        dataset_order = loader.dataset_order
        yield Fault(
            name="never-shuffled",
            text="the items are never shuffled",
            codes=("not-shuffled",),
            inject=partial(_inject_run, lambda run: run.take_rows(dataset_order)),
            why_allowed=_explain_chance(len(dataset_order)),
        )
    for name, text, code, damage in _list_file_faults():
        inject = partial(_inject_file, damage)
        yield Fault(name=name, text=text, codes=(code,), inject=inject)


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
    return (
        InjectionResult(unchanged=("batches",))
        if before == after
        else InjectionResult(changed=("batches",))
    )


def _inject_file(damage: Callable[[Path], None], folder: Path) -> InjectionResult:
    files = list(find_batch_files(folder).values())
    if not files:
        return InjectionResult()
    damage(files[0])
    return InjectionResult(changed=(files[0].name,))


_FaultRow = tuple[str, str, tuple[str, ...], "RunChange", str]
_SUBSET_REASON = "any part of the data set is owed (SUBSET), so nobody knows whose items they are"
_SINGLE_ELEMENT = "one element alone tells no cause"


def _list_run_faults(loader: LoaderContract) -> Iterator[_FaultRow]:
    yield from _list_label_faults(loader)
    yield from _list_feature_faults(loader)
    yield from _list_member_faults(loader)
    yield from _list_last_batch_faults(loader)
    if loader.is_ordered:
        yield from _list_order_faults(loader)


def _list_label_faults(loader: LoaderContract) -> Iterator[_FaultRow]:
    def labels(change: Callable[[F32], F32]) -> RunChange:
        def made(run: DeliveredRun) -> DeliveredRun:
            return run.replace_column(
                loader.label_column, change(run.columns[loader.label_column].copy())
            )

        return made

    roll_codes = ("labels-rolled",)
    yield (
        "labels-rolled",
        "labels are rolled by one row",
        roll_codes,
        labels(lambda y: np.roll(y, 1)),
        "",
    )
    yield (
        "label-off",
        "a label is one too large",
        (),
        labels(partial(_change_first, by=1.0)),
        _SINGLE_ELEMENT,
    )
    yield (
        "label-fraction",
        "a label is no whole number",
        (),
        labels(partial(_change_first, by=0.9)),
        _SINGLE_ELEMENT,
    )
    nan = labels(partial(_change_first, by=np.nan))
    yield "label-nan", "a label is NaN", (), nan, _SINGLE_ELEMENT
    if loader.unshuffled_labels is not None:
        plain = loader.unshuffled_labels
        names = ("labels-unshuffled", "labels-shuffled", "labels-rolled")
        unshuffled = labels(lambda _: plain)
        yield "labels-unshuffled", "features are shuffled, labels are not", names, unshuffled, ""


def _change_first(column: F32, by: float) -> F32:
    column[0] += np.float32(by)
    return column


def _list_feature_faults(loader: LoaderContract) -> Iterator[_FaultRow]:
    def features(change: Callable[[F32], F32]) -> RunChange:
        def made(run: DeliveredRun) -> DeliveredRun:
            return run.replace_column(
                loader.feature_column, change(run.columns[loader.feature_column].copy())
            )

        return made

    def spoilt(value: float) -> RunChange:
        def change(x: F32) -> F32:
            x.reshape(-1)[0] = value
            return x

        return features(change)

    yield (
        "feature-off",
        "a feature is off by 0.01",
        (),
        features(partial(_add_to_first, by=0.01)),
        _SINGLE_ELEMENT,
    )
    yield "feature-nan", "a feature is NaN", ("nan",), spoilt(np.nan), ""
    yield "feature-infinite", "a feature is infinite", ("nan",), spoilt(np.inf), ""
    zeros = features(np.zeros_like)
    why = "rows that are no item have no place in the data set"
    yield "features-zero", "all features are zero", (), zeros, why
    nan = features(lambda x: np.full_like(x, np.nan))
    yield "features-nan", "all features are NaN", ("nan",), nan, ""


def _add_to_first(column: F32, by: float) -> F32:
    column.reshape(-1)[0] += np.float32(by)
    return column


def _list_member_faults(loader: LoaderContract) -> Iterator[_FaultRow]:
    part = _SUBSET_REASON if loader.is_subset else ""

    def shard(run: DeliveredRun) -> DeliveredRun | None:
        if len(run.rows) < 4:
            return None
        again = run.rows[::2]
        return run.take_rows(
            np.concatenate([run.rows, again]), _split_sizes(loader, len(run.rows) + len(again))
        )

    def gone(run: DeliveredRun) -> DeliveredRun | None:
        kept = run.rows[1::2]
        if len(run.rows) < 4:
            return None
        return run.take_rows(kept, _split_sizes(loader, len(kept)))

    def twice(run: DeliveredRun) -> DeliveredRun | None:
        rows = np.concatenate([run.rows, run.rows])
        return run.take_rows(rows, (*run.sizes, *run.sizes))

    def replaced(run: DeliveredRun) -> DeliveredRun | None:
        rows = run.rows.copy()
        if len(rows) < 2:
            return None
        rows[-1] = 0
        return run.take_rows(rows)

    yield "shard-repeated", "one of two workers delivers again", ("shard-repeated",), shard, part
    yield "shard-missing", "one of two workers delivers nothing", ("shard-missing",), gone, part
    yield (
        "every-item-twice",
        "each of two workers delivers everything",
        ("every-item-again",),
        twice,
        "",
    )
    why = "one item alone tells no cause; the finding names it"
    yield "item-in-place", "an item comes in another's place", ("item-twice",), replaced, why


def _split_sizes(loader: LoaderContract, count: int) -> tuple[int, ...]:
    full, rest = divmod(count, loader.batch_size)
    return (loader.batch_size,) * full + ((rest,) if rest else ())


def _list_last_batch_faults(loader: LoaderContract) -> Iterator[_FaultRow]:
    part = _SUBSET_REASON if loader.is_subset else ""

    def dropped(run: DeliveredRun) -> DeliveredRun | None:
        if len(run.sizes) < 2 or run.sizes[-1] == run.sizes[0]:
            return None
        return run.take_rows(run.rows[: -run.sizes[-1]], run.sizes[:-1])

    def padded(run: DeliveredRun) -> DeliveredRun | None:
        lack = run.sizes[0] - run.sizes[-1]
        if len(run.sizes) < 2 or not lack:
            return None
        rows = np.concatenate([run.rows, run.rows[:lack]])
        return run.take_rows(rows, (*run.sizes[:-1], run.sizes[0]))

    def kept(run: DeliveredRun) -> DeliveredRun | None:
        if not loader.left_out or len(loader.left_out[0]) >= loader.batch_size:
            return None
        pairs = zip(run.columns, loader.left_out, strict=True)
        columns = tuple(np.concatenate(pair) for pair in pairs)
        return replace(run, columns=columns, sizes=(*run.sizes, len(loader.left_out[0])))

    def merged(run: DeliveredRun) -> DeliveredRun | None:
        if len(run.sizes) < 2:
            return None
        return replace(run, sizes=(run.sizes[0] + run.sizes[1], *run.sizes[2:]))

    final = "final-batch"
    yield (
        "last-batch-dropped",
        "the last batch is dropped",
        ("last-batch-dropped", final),
        dropped,
        "",
    )
    yield (
        "last-batch-padded",
        "the last batch is filled up",
        ("last-batch-padded", final),
        padded,
        "",
    )
    yield (
        "last-batch-kept",
        "a batch comes that is to be dropped",
        ("last-batch-kept", final),
        kept,
        part,
    )
    yield "batches-merged", "two batches are one", ("batch-count",), merged, ""


def _list_order_faults(loader: LoaderContract) -> Iterator[_FaultRow]:
    def exchanged(run: DeliveredRun) -> DeliveredRun | None:
        if len(run.sizes) < 2 or run.sizes[0] != run.sizes[1]:
            return None
        size = run.sizes[0]
        rows = np.concatenate([run.rows[size : 2 * size], run.rows[:size], run.rows[2 * size :]])
        return run.take_rows(rows)

    def neighbours(run: DeliveredRun) -> DeliveredRun | None:
        if len(run.rows) < 2:
            return None
        rows = run.rows.copy()
        rows[[0, 1]] = 1, 0
        return run.take_rows(rows)

    yield "batches-swapped", "two batches are exchanged", ("batches-swapped",), exchanged, ""
    why = "two items that changed places tell no cause; the finding names them"
    yield "items-swapped", "two items are exchanged", ("order",), neighbours, why
    if loader.dataset_order is not None:
        own = loader.dataset_order
        text = "the items are never shuffled"
        yield (
            "never-shuffled",
            text,
            ("never-shuffled", "sorted", "batches-swapped"),
            lambda run: run.take_rows(own),
            "",
        )
    if loader.next_epoch is not None:
        text = "the order is another epoch's"
        yield "other-epoch", text, ("other-epoch",), partial(_replace_run, loader.next_epoch), ""
    for name, text, wrong in loader.key_faults:
        yield name, text, ("other-epoch", "resume-order"), partial(_replace_run, wrong), ""


def _replace_run(wrong: DeliveredRun, _right: DeliveredRun) -> DeliveredRun:
    return wrong


def _list_file_faults() -> Iterator[tuple[str, str, str, Callable[[Path], None]]]:
    yield "batch-missing", "the first batch is not written", "batch-missing", lambda p: p.unlink()
    yield (
        "truncated",
        "a file is cut short",
        "truncated",
        lambda p: _write_bytes(p, p.read_bytes()[:-1]),
    )
    yield (
        "trailing-bytes",
        "bytes follow the data",
        "trailing-bytes",
        lambda p: _write_bytes(p, p.read_bytes() + bytes(4)),
    )
    yield "tensor-count", "a batch lacks its labels", "tensor-count", _drop_labels


def _write_bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _drop_labels(path: Path) -> None:
    path.write_bytes(encode_batch(read_batch(path)[:-1]))
