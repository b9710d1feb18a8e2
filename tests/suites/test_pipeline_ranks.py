"""Ranks, draws and states, on arrays: right ones have no finding, each fault has its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from parity.items.records import compute_epoch_order
from parity.suites.pipeline import ranks
from parity.suites.pipeline.ranks import Shortfall
from parity.suites.pipeline.runs import Run

IDS = np.arange(100, 111)
ORDER = IDS[compute_epoch_order(11, 17, 0)]


def make_shares(
    world: int, shortfall: Shortfall, change: Callable[[list[Any]], Any] = lambda _parts: None
) -> dict[str, Run]:
    parts = [ranks.take_share(ORDER, rank, world, shortfall) for rank in range(world)]
    change(parts)
    return {
        f"rank {rank}": Run(id=part, sizes=tuple(map(len, np.array_split(part, 2))))
        for rank, part in enumerate(parts)
    }


@pytest.mark.parametrize("shortfall", ["fill", "trim", "uneven"])
@pytest.mark.parametrize("world", [1, 2, 3, 4, 11, 12, 16, 30])
@pytest.mark.parametrize("is_ordered", [True, False])
def test_right_shares_of_any_number_of_ranks_pass(
    world: int, shortfall: Shortfall, is_ordered: bool
) -> None:
    shares = make_shares(world, shortfall)
    expected = np.concatenate([share.id for share in shares.values()]) if is_ordered else None
    assert ranks.check_ranks(shares, IDS, shortfall, expected=expected) == []


@pytest.mark.torch
@pytest.mark.process
@pytest.mark.parametrize(("count", "world"), [(11, 4), (11, 16), (12, 4), (1, 3), (10, 3)])
@pytest.mark.parametrize("is_dropped", [False, True])
def test_shares_are_those_of_torch(count: int, world: int, is_dropped: bool) -> None:
    from torch.utils import data  # noqa: PLC0415 - of this test alone

    shortfall: Shortfall = "trim" if is_dropped else "fill"
    for rank in range(world):
        sampler = data.DistributedSampler(
            range(count), world, rank, shuffle=False, drop_last=is_dropped
        )
        share = ranks.take_share(np.arange(count), rank, world, shortfall)
        assert share.tolist() == list(sampler)


def put(rank: int, position: int, item: int) -> Callable[[list[Any]], None]:
    def change(parts: list[Any]) -> None:
        parts[rank] = parts[rank].copy()
        parts[rank][position] = item

    return change


def drop_last(parts: list[Any]) -> None:
    parts[1] = parts[1][:1]


def copy_first(parts: list[Any]) -> None:
    parts[:] = [parts[0]] * len(parts)


FAULTS: dict[str, tuple[Shortfall, Callable[[list[Any]], None], list[str]]] = {
    "rank-ignored": ("uneven", copy_first, ["rank-overlap", "rank-missing"]),
    "item-in-place": ("uneven", put(1, 2, 109), ["rank-overlap", "rank-missing"]),
    "filler-is-another": ("fill", put(3, 2, 100), ["rank-overlap", "rank-missing"]),
    "share-cut": ("trim", drop_last, ["rank-batches", "rank-missing"]),
    "foreign-id": ("fill", put(2, 1, 7), ["item-unknown", "rank-missing"]),
}  # fmt: skip


def test_wrong_shares_are_reported_by_rank_batch_and_item(golden: Callable[..., None]) -> None:
    text = ""
    for name, (shortfall, change, codes) in FAULTS.items():
        right = np.concatenate([share.id for share in make_shares(4, shortfall).values()])
        shares = make_shares(4, shortfall, change)
        if name == "share-cut":  # one batch less
            shares["rank 1"] = Run(id=shares["rank 1"].id, sizes=(1,))
        found = ranks.check_ranks(shares, IDS, shortfall, expected=right)
        assert [finding.code for finding in found] == codes
        assert (found[0].cause is not None) == (name == "rank-ignored")
        text += f"{name}: {found[0].message}\n"
    golden(text)


def test_any_order_may_fill_up_with_other_items_but_not_more_often() -> None:
    shares = make_shares(4, "fill", put(3, 2, 100))
    assert ranks.check_ranks(shares, IDS, "fill") == []
    for shortfall in ("fill", "trim"):
        shares = make_shares(4, shortfall, copy_first)
        found = ranks.check_ranks(shares, IDS, shortfall)
        assert "rank-overlap" in [one.code for one in found]


def test_ids_alone_are_reported_by_their_position() -> None:
    shares = {"a": Run(id=np.arange(2)), "b": Run(id=np.array([2, 1, -1]))}
    found = ranks.check_ranks(shares, np.arange(3), "uneven")
    assert [one.message for one in found] == [
        "item 1 was delivered 2 times, expected at most 1: a position 1, b position 1"
    ]


def test_equal_states_of_two_cuts_and_one_that_changes_are_reported() -> None:
    assert ranks.check_states({"after 0 batches": b"a", "after 1 batch": b"b"}) == []
    (found,) = ranks.check_states({"after 0 batches": b"a", "x": b"b", "after 2 batches": b"a"})
    assert (found.code, found.message) == (
        "state-constant",
        "the state saved after 2 batches equals the one saved after 0 batches (1 byte)",
    )
    assert ranks.check_saved_again(b"abc", b"abc", "keep") == []
    for again, place in ((b"axc", 1), (b"ab", 2), (b"abcd", 3)):
        (found,) = ranks.check_saved_again(b"abc", again, "keep")
        assert found.code == "state-changed"
        assert f"from byte {place} on ({len(again)} bytes, expected 3)" in found.message


def make_runs(*draws: list[float]) -> dict[str, Run]:
    ids = np.array([3, 1, 2, -1])
    return {
        f"run {k}": Run(id=ids[: len(one)], sizes=(len(one),), draws=np.array(one))
        for k, one in enumerate(draws)
    }


DRAWS = {
    "right": ([[0.5, 0.25, 0.75, 0.0], [0.5, 0.25, 0.75]], "", ""),
    "shared": ([[0.5, 0.25, 0.5, 0.0]], "draws-shared",
        "items 3 and 2 have the same draw 0.5: run 0 batch 0 row 0 and run 0 batch 0 row 2"),
    "padding": ([[0.5, 0.25, 0.75, 0.5]], "", ""),
    "changed": ([[0.5, 0.25, 0.75, 0.0], [0.5, 0.125]], "draws-changed",
        "item 1 has draw 0.25 and 0.125: run 0 batch 0 row 1 and run 1 batch 0 row 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWS)
def test_draws_belong_to_one_item_each_and_stay_the_same(name: str) -> None:
    draws, code, message = DRAWS[name]
    found = ranks.check_draws(make_runs(*draws))
    assert [(one.code, one.message) for one in found] == ([(code, message)] if code else [])


def test_another_epoch_has_other_draws() -> None:
    run, same, other = make_runs([0.5, 0.25, 0.75], [0.5, 0.25, 0.75], [0.5, 0.1, 0.2]).values()
    assert ranks.check_other_draws(run, other, "x") == []
    (found,) = ranks.check_other_draws(run, same, "epoch 1 draws as epoch 0")
    assert found.code == "draws-fixed"
    assert found.message == "epoch 1 draws as epoch 0: 3 of 3 items have the same draw"
