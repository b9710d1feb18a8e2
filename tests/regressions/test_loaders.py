"""Faults of public reports about data loaders, each as a wrong dump with its siblings.

`docs/cases.md` says which case each test stands for, and where the reports are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from parity.suites.base import Dump
from parity.suites.dataloader import suite
from tests.support.batches import (
    ITEMS,
    ORDER,
    SET,
    SHUFFLED,
    LoaderSpec,
    Row,
    Run,
    compute_features,
    compute_label,
    make_row,
    make_run,
    split_order,
    write_case,
    write_run,
)

SPECS = {"ORDER": ORDER, "SET": SET}


def judged(folder: Path, spec: LoaderSpec, dump: Run, **meta: Any) -> dict[str, str]:
    """Codes of what is wrong with a dump, each with the code of its cause."""
    write_case(folder / "bundle" / "c", spec, **meta)
    (case,) = suite.read_cases(folder / "bundle", {})
    obtained = Dump(folder=write_run(folder / "dump", dump))
    outcome = suite.verify(case, obtained, {"max_abs": 1e-6})
    errors = [one for one in outcome.findings if one.level == "error"]
    return {one.code: str(one.measures.get("cause_code", "")) for one in errors}


def sharded(order: Sequence[int], ranks: int, *, drop: bool) -> list[int]:
    """What all ranks together deliver: every n-th item, padded with the first or cut."""
    left = -len(order) % ranks
    if drop:
        return list(order[: len(order) // ranks * ranks])
    return [*order, *(order * ranks)[:left]]


@pytest.mark.parametrize("mode", SPECS)
@pytest.mark.parametrize("ranks", [3, 4, 6, 7, 8, 9])
def test_ranks_that_pad_or_drop(ranks: int, mode: str, tmp_path: Path) -> None:
    """DLD-01: items that come twice to fill up the last rank, or go missing.

    Siblings: numbers of ranks that leave any rest of ten items, both modes, padding and dropping.
    """
    spec = SPECS[mode]
    padded = judged(tmp_path / "pad", spec, split_order(sharded(spec.order, ranks, drop=False), 4))
    assert "item-twice" in padded
    dropped = judged(tmp_path / "drop", spec, split_order(sharded(spec.order, ranks, drop=True), 4))
    assert "item-missing" in dropped


@pytest.mark.parametrize("mode", SPECS)
@pytest.mark.parametrize("fill", ["first", "last", "zeros", "any"])
def test_filled_last_batch(fill: str, mode: str, tmp_path: Path) -> None:
    """DLD-02: four rows where two are due. Siblings: what it is filled with."""
    spec = SPECS[mode]
    batches = spec.make_run()
    ends = {"first": spec.order[:2], "last": [spec.order[-1]] * 2, "any": spec.order[3:5]}
    more = [Row([0.0] * 4, 0.0)] * 2 if fill == "zeros" else [make_row(item) for item in ends[fill]]
    batches[-1] += more
    found = judged(tmp_path, spec, batches)
    assert "batch-size" in found
    assert found.keys() & {"item-twice", "item-unknown", "values"}
    if fill in ("first", "last"):
        assert "last-batch-padded" in found.values()


@pytest.mark.parametrize("mode", SPECS)
@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("how", ["in turn", "one after the other"])
def test_each_worker_yields_everything(how: str, workers: int, mode: str, tmp_path: Path) -> None:
    """DLD-04: every item as often as there are workers. Siblings: their number and their turns."""
    spec = SPECS[mode]
    once = spec.make_run()
    again = (
        [batch for batch in once for _ in range(workers)] if how == "in turn" else once * workers
    )
    found = judged(tmp_path, spec, again)
    assert found["item-twice"] == "every-item-again"


@pytest.mark.parametrize("mode", SPECS)
@pytest.mark.parametrize("lost", [0, 1])
def test_worker_that_yields_nothing(lost: int, mode: str, tmp_path: Path) -> None:
    """DLD-04's reverse: the items of one worker of two never come."""
    spec = SPECS[mode]
    kept = [item for place, item in enumerate(spec.order) if place % 2 != lost]
    assert judged(tmp_path, spec, split_order(kept, 4))["item-missing"] == "shard-missing"


@pytest.mark.parametrize("order", list(permutations(range(3)))[1:], ids=str)
def test_batches_in_another_order(order: tuple[int, ...], tmp_path: Path) -> None:
    """DLD-05: the same batches in another order, as workers' speed has it.

    Siblings: all orders of three batches; where no order is owed it is no fault.
    """
    spec = LoaderSpec("ORDER", batch_size=4, drop_last=False)
    batches = spec.make_run()
    found = judged(tmp_path / "order", spec, [batches[number] for number in order])
    assert "order" in found
    moved = [place for place, number in enumerate(order) if place != number]
    if len(moved) == 2 and 2 not in moved:
        assert found["order"] == "batches-swapped"
    free = LoaderSpec("SET", SHUFFLED, batch_size=5)
    assert judged(tmp_path / "free", free, free.make_run()[::-1]) == {}


@pytest.mark.parametrize("mode", SPECS)
@pytest.mark.parametrize(("twice", "lost"), [(0, 9), (9, 0), (3, 4), (5, 8)])
def test_item_twice_and_another_lost(twice: int, lost: int, mode: str, tmp_path: Path) -> None:
    """DLD-08: the count is right, the items are not. Siblings: first, last, neighbours."""
    spec = SPECS[mode]
    order = [twice if item == lost else item for item in spec.order]
    found = judged(tmp_path, spec, split_order(order, 4))
    assert {"item-twice", "item-missing"} <= found.keys()


@pytest.mark.parametrize("by", [*range(-4, 0), *range(1, 6)])
@pytest.mark.parametrize("mode", SPECS)
def test_rolled_labels(by: int, mode: str, tmp_path: Path) -> None:
    """The base set of the DLD cases: every roll of labels is seen, and named."""
    spec = SPECS[mode]
    labels = [compute_label(item) for item in spec.order]
    rolled = labels[-by:] + labels[:-by]
    rows = [Row(compute_features(i), one) for i, one in zip(spec.order, rolled, strict=True)]
    found = judged(tmp_path, spec, [rows[at : at + 4] for at in range(0, ITEMS, 4)])
    assert set(found) == {"labels-rolled"} or "label" in found
    assert "labels-rolled" in {*found, *found.values()}


LABELS = {
    "2049 through f16": (2049, 2048.0),
    "257 through bf16": (257, 256.0),
    "2^24 - 1 through bf16": (2**24 - 1, 2.0**24),
    "cut to 1": (2, 1.9),
    "a hair beside": (3, 3.0000002),
    "negative": (5, -5.0),
    "wrapped in a byte": (300, 44.0),
    "a sign of 16 bits": (40_000, -25_536.0),
}


@pytest.mark.parametrize(("due", "obtained"), LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("mode", SPECS)
def test_label_converted_through_another_type(
    due: int, obtained: float, mode: str, tmp_path: Path
) -> None:
    """DLD-13: labels never round. Siblings: f16, bf16, fractions, bytes, signs."""
    spec, batches = SPECS[mode], SPECS[mode].make_run()
    folder = tmp_path / "bundle" / "c"
    labels = [int(compute_label(item)) for item in range(ITEMS)]
    labels[spec.order[0]] = due
    write_case(folder, spec, full_dataset_labels=labels)
    batches[0][0].label = float(due)
    write_run(folder, batches)
    assert _compared(tmp_path, batches) == []
    batches[0][0].label = obtained
    assert _compared(tmp_path, batches) == ["label"]


def _compared(folder: Path, batches: Run) -> list[str]:
    (case,) = suite.read_cases(folder / "bundle", {})
    obtained = Dump(folder=write_run(folder / "dump", batches))
    outcome = suite.verify(case, obtained, {"max_abs": 1e-6})
    return [one.code for one in outcome.findings if one.level == "error"]


@pytest.mark.parametrize("size", [4, 5, 10])
def test_data_set_smaller_than_a_batch(size: int, tmp_path: Path) -> None:
    """DLD-11: drop_last leaves nothing; a batch that comes nevertheless is one too many."""
    spec = LoaderSpec("ORDER", (), batch_size=size, drop_last=True)
    three = {
        "full_dataset_features": [compute_features(item) for item in range(3)],
        "full_dataset_labels": [int(compute_label(item)) for item in range(3)],
    }
    found = judged(tmp_path, spec, make_run(range(3)), **three)
    assert {"batch-count", "item-not-due"} <= found.keys()
