"""Faults that users of loaders reported, each built as a port of the bundle on loaders at scale.

A row has the reports, the wrong step, and the codes that it raises, by patterns of cases; all
other cases pass. What a report says is in the comment beside its port; those of which only the
class was known (a resumed run continues elsewhere) share a row.
"""

# ruff: noqa: ARG002 - a wrong step ignores what it is given

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.suites.base import Case
from tests.support.loader_port import (
    Port,
    Position,
    RejectionError,
    verify_port,
    write_scale_bundle,
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scale_bundle(tmp_path_factory.mktemp("bundle"))


class SkipsNothingWithWorkers(Port):
    """Workers were started before the state was loaded, so that they begin at the first item."""

    def count_loaded(self, position: Position, values: dict[str, str]) -> int:
        return 0 if int(values.get("workers", 0)) else position.batch


class CountsFromLoad(Port):
    """The counter of batches is set to 0 on load, so the second state counts from there."""

    def count_saved(self, start: int, delivered: int) -> int:
        return delivered


class NeverLoads(Port):
    """The state is read, and the epoch begins again."""

    def count_loaded(self, position: Position, values: dict[str, str]) -> int:
        return 0


class SkipsOneMore(Port):
    """The run continues one batch late: what was prefetched counts as delivered."""

    def count_saved(self, start: int, delivered: int) -> int:
        return start + delivered + (1 if delivered else 0)


class ShufflesAnew(Port):
    """The position is right, and the shuffle is drawn again after a load."""

    is_loaded = False

    def run(self, case: Case, values: dict[str, str], folder: Path, state: bytes | None) -> None:
        self.is_loaded = state is not None
        super().run(case, values, folder, state)

    def order(self, seed: int, epoch: int, rank: int) -> list[int]:
        return super().order(seed + 1000 * self.is_loaded, epoch, rank)


class EndsTwice(Port):
    """A state saved at the end of an epoch is at its end again: the next one has no batch."""

    def end_epoch(self, position: Position, count: int) -> Position:
        return position


class RepeatsEpoch(Port):
    """A state saved at the end of an epoch begins the same epoch again."""

    def end_epoch(self, position: Position, count: int) -> Position:
        return position if position.batch < count else replace(position, batch=0)


class RestartsWithOtherWorkers(Port):
    """Another number of workers is a warning, and the run begins again."""

    def count_loaded(self, position: Position, values: dict[str, str]) -> int:
        return position.batch if values.get("workers", "2") == "2" else 0


class FreezesState(Port):
    """After a load, each state saved is the one that was loaded."""

    def count_saved(self, start: int, delivered: int) -> int:
        return start or delivered


class DividesBatches(Port):
    """Workers take their share of the batches in the wrong turn."""

    def merge(self, items: list[int], workers: int, *, stream: bool) -> list[int]:
        if stream or workers < 2:
            return super().merge(items, workers, stream=stream)
        return [item for worker in range(workers) for item in items[worker::workers]]


class WorkersDeliverAll(Port):
    """Each worker of an iterable data set delivers all of it."""

    def merge(self, items: list[int], workers: int, *, stream: bool) -> list[int]:
        return items * workers if stream else items


class RanksDeliverAll(Port):
    """Each rank delivers all."""

    def share(self, order: Sequence[int], rank: int, world: int, shortfall: str) -> list[int]:
        return list(order)


class EpochIgnored(Port):
    """Each epoch has the order of the first."""

    def order(self, seed: int, epoch: int, rank: int) -> list[int]:
        return super().order(seed, 0, rank)


class WorkersDrawAlike(Port):
    """Each worker has a copy of one generator."""

    def draw(self, seed: int, epoch: int, item: int, place: int, workers: int) -> float:
        return float(np.random.default_rng([seed, epoch, place // max(workers, 1)]).random())


class DrawsIgnoreEpoch(Port):
    """The generator of draws is seeded with the item alone."""

    def draw(self, seed: int, epoch: int, item: int, place: int, workers: int) -> float:
        return super().draw(0, 0, item, place, workers)


class RankInSeed(Port):
    """Each rank shuffles with a seed of its own."""

    def order(self, seed: int, epoch: int, rank: int) -> list[int]:
        return super().order(seed + rank, epoch, rank)


class NeverFills(Port):
    """The shares are never filled up."""

    def share(self, order: Sequence[int], rank: int, world: int, shortfall: str) -> list[int]:
        return super().share(order, rank, world, "uneven" if shortfall == "fill" else shortfall)


class FillsWithLast(Port):
    """The shares are filled up with the last item."""

    def share(self, order: Sequence[int], rank: int, world: int, shortfall: str) -> list[int]:
        more = [order[-1]] * (-len(order) % world if shortfall == "fill" else 0)
        return super().share([*order, *more], rank, world, shortfall)


class StateUnchecked(Port):
    """A state is read without a checksum, and its seed is not compared."""

    def decode(self, state: bytes, seed: int, values: dict[str, str]) -> Position:
        try:
            _, epoch, batch, *_ = map(int, state.split()[:3])
        except ValueError:
            return Position(seed=seed, epoch=0, batch=0)
        return Position(seed=seed, epoch=epoch, batch=batch)


class StateConstant(Port):
    """The state has no position; the run that loads it has another way to know."""

    def encode(self, position: Position) -> bytes:
        return super().encode(replace(position, batch=1))


class StateCountsLoads(Port):
    """The state grows with each load."""

    loads = b""

    def run(self, case: Case, values: dict[str, str], folder: Path, state: bytes | None) -> None:
        self.loads = b"" if state is None else state[len(state.rstrip(b"+")) :] + b"+"
        super().run(case, values, folder, state)

    def encode(self, position: Position) -> bytes:
        return super().encode(position) + self.loads

    def decode(self, state: bytes, seed: int, values: dict[str, str]) -> Position:
        return super().decode(state.rstrip(b"+"), seed, values)


class RejectsAll(Port):
    """Every state is rejected."""

    def decode(self, state: bytes, seed: int, values: dict[str, str]) -> Position:
        raise RejectionError("states are not supported yet")


_LATE, _RESUMED = "batch-missing", "resume-start"
_ELSEWHERE = ("keep-batch-*-load-h", "keep-load-[ekt]", "keep-load-k-save-e", "pad-load-p")
_ANY_WORKERS = {"keep-workers-[03]-load-g": "wrong", "keep-workers-2-load-g": _RESUMED}
#: Reports, the wrong port, and by pattern of cases the code that names its fault, whether the
#: order is the reference's or free. The last row of each kind is a fault that nobody reported.
ROWS: list[tuple[str, type[Port], dict[str, str]]] = [
    ("nvidia-cosmos/cosmos-rl PR#621, PrimeIntellect-ai/prime-rl PR#3301", SkipsNothingWithWorkers,
        {"keep-workers-3-load-g": "wrong", "keep-workers-2-load-g": _RESUMED}),
    ("KempnerInstitute/KempnerForge#57", CountsFromLoad,
        {"keep-load-e": _RESUMED, "keep-load-t-save-f": "state-changed"}),
    ("KempnerInstitute/KempnerForge#51, ecmwf/anemoi-core#4, wyim-pgl/transgenic#59", NeverLoads,
        {**dict.fromkeys(_ELSEWHERE, _RESUMED), "keep-load-t-save-f": "state-changed",
        **_ANY_WORKERS}),
    ("meta-pytorch/data#1520", SkipsOneMore, {"keep-batch-*-load-h": _LATE, "keep-load-k*": _LATE,
        "keep-load-[et]": _RESUMED, "keep-load-t-save-f": "state-changed", "pad-load-p": _RESUMED,
        "keep-workers-[03]-load-g": "wrong", "keep-workers-2-load-g": _LATE}),
    ("meta-pytorch/data#1437", EndsTwice, dict.fromkeys(("*-load-q", "*-load-r"), "batch-count")),
    ("alibaba/TorchEasyRec PR#544", RepeatsEpoch,
        dict.fromkeys(("drop-load-q", "keep-load-r"), "item-not-due order resume-order")),
    ("NVIDIA-BioNeMo/bionemo-recipes PR#1250, PrimeIntellect-ai/prime-rl PR#859",
        RestartsWithOtherWorkers, {"keep-workers-[03]-load-g": "wrong"}),
    ("PrimeIntellect-ai/prime-rl PR#3301", FreezesState,
        {"keep-load-e": _RESUMED, "keep-load-t-save-f": "state-constant"}),
    ("meta-pytorch/data#302, meta-pytorch/data PR#1251", ShufflesAnew,
        {"keep-load-[kmt]": "order resume-order",
        "*-load-*": "item-not-due order resume-order claim wrong"}),
    ("", StateConstant,
        {"keep-load-t-save-f": "state-constant", "*-load-?": f"{_LATE} {_RESUMED}"}),
    ("", StateCountsLoads, {"keep-load-t-save-f": "state-changed"}),
    ("", StateUnchecked, {"keep-load-[uvwx]": "accepted", "keep-seed-18-load-k": "accepted"}),
    ("dmlc/dgl#5068", DividesBatches, {"keep-workers-[23]": "order not-repeated",
        "keep-workers-*": "order not-repeated resume-order item-not-due wrong"}),
    ("webdataset/webdataset#172", WorkersDeliverAll, {"*-stream-workers-[23]": "item-twice"}),
    ("webdataset/webdataset#172", RanksDeliverAll, {"*-rank-[0123]": "batch-count",
        "*-rank-1-*": "batch-count item-not-due",
        "keep-batch-2-trim-world-4-rank-3": "rank-overlap"}),
    ("tracel-ai/burn#701", EpochIgnored, {"*epoch-1": "order item-not-due epoch-ignored",
        "*-epoch-1-rank-[01]": "item-not-due", "*-load-[qr]": "order item-not-due"}),
    ("", RankInSeed, {"*-rank-*": "order item-not-due resume-order rank-missing rank-overlap"}),
    ("", NeverFills, {"*-fill-*": "batch-size rank-batches final-batch item-missing claim"}),
    ("", FillsWithLast, {"*-fill-*": "item-not-due claim rank-overlap"}),
    ("", WorkersDrawAlike, {"keep-workers-*": "draws-shared"}),
    ("", DrawsIgnoreEpoch, {"keep-workers-2-*": "draws-fixed"}),
    ("", RejectsAll, {"*-load-*": "dump-exit state-missing"}),
]  # fmt: skip


@pytest.mark.parametrize("order", ["exact", "free"])
def test_the_right_port_passes_every_case(order: str, tree: Path, tmp_path: Path) -> None:
    results = verify_port(Port(), tree, tmp_path, order=order)
    assert {result.verdict for result in results.values()} == {"pass"}
    found = [one.code for result in results.values() for one in result.findings]
    assert set(found) <= {"claims-missing", "omitted"}


@pytest.mark.parametrize("order", ["exact", "free"])
@pytest.mark.parametrize("row", ROWS, ids=[port.__name__ for _, port, _ in ROWS])
def test_each_report_is_judged(
    row: tuple[str, type[Port], dict[str, str]], order: str, tree: Path, tmp_path: Path
) -> None:
    reports, port, expected = row
    results = verify_port(port(), tree, tmp_path, order=order)
    failed = {
        name: [finding.code for finding in result.errors]
        for name, result in results.items()
        if result.errors
    }
    assert failed, reports
    matched = {}
    for name, codes in failed.items():
        patterns = [one for one in expected if fnmatchcase(name, one)]
        assert patterns, f"{name}: {codes}"
        named = [one for one in patterns if set(expected[one].split()).intersection(codes)]
        assert named, f"{name}: {codes}"
        matched |= dict.fromkeys(named)
    if order == "exact":
        assert set(matched) == set(expected)


class SeedIgnored(Port):
    """A shuffle of its own, the same for every seed."""

    def order(self, seed: int, epoch: int, rank: int) -> list[int]:
        return super().order(5, epoch, rank)


class OtherWorld(Port):
    """The order is divided among one rank more than there are."""

    def share(self, order: Sequence[int], rank: int, world: int, shortfall: str) -> list[int]:
        return super().share(order, rank, world + (world > 1), shortfall)


class ExchangesItems(Port):
    """Rank 0 has an item of rank 1 as well, which has one of rank 0: as many items as expected."""

    def share(self, order: Sequence[int], rank: int, world: int, shortfall: str) -> list[int]:
        items = super().share(order, rank, world, shortfall)
        if world > 1 and rank < 2:
            items[-rank] = super().share(order, 1 - rank, world, shortfall)[rank]
        return items


class LoadsNothing(Port):
    """A run that loads a state says that the epoch is over."""

    def count_loaded(self, position: Position, values: dict[str, str]) -> int:
        return 99


class DrawsOneNumber(Port):
    """Every item has one draw."""

    def draw(self, seed: int, epoch: int, item: int, place: int, workers: int) -> float:
        return 0.5


@pytest.mark.parametrize(
    ("port", "code"),
    [
        (SeedIgnored, "seed-ignored"),
        (OtherWorld, "rank-missing"),
        (ExchangesItems, "rank-overlap"),
        (LoadsNothing, "batch-count"),
        (DrawsOneNumber, "draws-shared"),
    ],
)
def test_an_order_of_its_own_excuses_nothing_else(
    port: type[Port], code: str, tree: Path, tmp_path: Path
) -> None:
    results = verify_port(port(), tree, tmp_path, order="free")
    assert code in {finding.code for result in results.values() for finding in result.errors}


def test_a_port_that_rejects_every_state_has_not_rejected_a_wrong_one(
    tree: Path, tmp_path: Path
) -> None:
    results = verify_port(RejectsAll(), tree, tmp_path)
    refused = {name: one.reason for name, one in results.items() if one.expect == "refuse"}
    assert set(refused.values()) == {"no-control"}


@pytest.mark.parametrize("order", ["exact", "free"])
def test_some_ranks_alone_are_compared_and_the_rest_is_a_notice(
    order: str, tree: Path, tmp_path: Path
) -> None:
    few = "keep-batch-2-trim-world-4-rank-[01]"
    results = verify_port(Port(), tree, tmp_path, order=order, cases=few)
    found = [one for result in results.values() for one in result.findings]
    assert [one.message for one in found if one.code == "relation-skipped"] == [
        "only 2 of 4 ranks were compared, so that it was not checked what they deliver together"
    ]
    assert {result.verdict for result in results.values()} == {"pass"}


class DrawsLost(Port):
    """The draws are not those of the slots."""

    wrong: Any = None

    def run(self, case: Case, values: dict[str, str], folder: Path, state: bytes | None) -> None:
        super().run(case, values, folder, state)
        claims = json.loads((folder / "meta.json").read_text())
        (folder / "meta.json").write_text(json.dumps(claims | {"draws": self.wrong}))


@pytest.mark.parametrize(
    "wrong",
    [
        *(None, [], "0.5", [0.5] * 10, [0.5] * 12, ["0.5"] * 11, [10**400] * 11, [True] * 11),
        [None, *[0.5] * 11],  # eleven numbers, each one slot late
    ],
)
def test_draws_that_are_no_number_for_each_slot_are_missing(
    wrong: Any, tree: Path, tmp_path: Path
) -> None:
    port = DrawsLost()
    port.wrong = wrong
    (result,) = verify_port(port, tree, tmp_path, cases="keep-workers-0").values()
    assert [one.code for one in result.errors] == ["draws-missing"]


def test_findings_name_rank_batch_and_item(tree: Path, tmp_path: Path) -> None:
    results = verify_port(RankInSeed(), tree, tmp_path, order="free")
    case = results["keep-batch-2-uneven-world-2-rank-1"]
    assert case.errors[0].message == (
        "item 2 was delivered 2 times, expected at most 1: rank 0 batch 2 row 0, rank 1 batch 0 "
        "row 1"
    )
