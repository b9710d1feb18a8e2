"""Real loaders under the audit: what they owe is held, and where they fall short it says so.

A finding here is a result about the loader as it was set up, not a fault of this project.
"""

# ruff: noqa: PLC0415 - torch is imported by the tests that need it

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import pytest

from parity.items.records import Dataset
from parity.lab.reference_pipeline import build_lesson_dataset
from parity.loaders import (
    ExpectedRun,
    Run,
    audit_run,
    check_other_order,
    check_repeated,
    check_resumed,
)
from parity.results import Finding
from tests.support.grain_source import Source

pytestmark = [pytest.mark.torch, pytest.mark.process, pytest.mark.slow]

LESSON = build_lesson_dataset()
EIGHT = Dataset(LESSON.ids[:8], LESSON.x[:8], LESSON.y[:8])
WORKERS = pytest.mark.parametrize("workers", [0, 2])


def key(seed: int, epoch: int) -> int:
    """One number for both, in which neither can stand in for the other."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{epoch}".encode()).digest()[:7])


def torch_loader(dataset: Dataset, generator: Any = None, **options: Any) -> Any:
    from torch.utils.data import DataLoader

    from tests.support.loaders import Records

    slow = options.pop("slow_worker", None)
    options = {"batch_size": 4, "num_workers": 0, **options}
    shuffle = generator is not None
    return DataLoader(Records(dataset, slow), shuffle=shuffle, generator=generator, **options)


def seeded(seed: int) -> Any:
    import torch

    return torch.Generator().manual_seed(seed)


def epoch_of(seed: int, epoch: int, **options: Any) -> Run:
    return Run.of(torch_loader(LESSON, seeded(key(seed, epoch)), **options))


def expected_run(policy: Literal["keep", "drop", "pad"] = "keep", **options: Any) -> ExpectedRun:
    return ExpectedRun(**{"dataset": LESSON, "batch_size": 4, "policy": policy} | options)


def codes(found: Iterable[Finding]) -> list[str]:
    return [finding.code for finding in found if finding.level != "notice"]


@WORKERS
@pytest.mark.parametrize("policy", ["keep", "drop"])
def test_torch_in_order_delivers_what_is_expected(workers: int, policy: Any) -> None:
    run = Run.of(torch_loader(LESSON, num_workers=workers, drop_last=policy == "drop"))

    assert codes(audit_run(run, expected_run(policy, order=np.arange(11), shuffled=False))) == []


def test_torch_names_nobody_that_drop_last_leaves_out_but_the_audit_does() -> None:
    run = Run.of(torch_loader(LESSON, drop_last=True))

    (notice,) = audit_run(run, expected_run("drop", order=np.arange(11)))
    assert notice.measures["ids"] == [8, 9, 10]


@WORKERS
def test_torch_keyed_on_seed_and_epoch_needs_nothing(workers: int) -> None:
    run = epoch_of(17, 0, num_workers=workers)

    assert codes(audit_run(run, expected_run())) == []
    assert check_repeated(run, epoch_of(17, 0, num_workers=2 - workers), "other workers") == []
    for other in (epoch_of(17, 1), epoch_of(18, 0)):
        assert check_other_order(run, other, "epoch-ignored", "same order") == []
    for cut in range(4):
        loader = torch_loader(LESSON, seeded(key(17, 0)), num_workers=workers)
        rest = Run.of(itertools.islice(loader, cut, None), cut)
        assert check_resumed(run, rest, "the epoch") == []


@pytest.mark.parametrize(
    "options",
    [{}, {"num_workers": 2, "prefetch_factor": 1}],
    ids=["alone", "workers"],
)
def test_torch_with_one_generator_changes_an_epoch_when_the_one_before_is_abandoned(
    options: dict[str, int],
) -> None:
    whole, left = (torch_loader(EIGHT, seeded(7), batch_size=2, **options) for _ in range(2))
    list(whole)
    next(iter(left))
    second, after = Run.of(whole), Run.of(left)

    expected = ExpectedRun(dataset=EIGHT, batch_size=2, policy="keep")
    assert codes(audit_run(second, expected)) == codes(audit_run(after, expected)) == []
    assert codes(check_repeated(second, after, "epoch 1")) == ["not-repeated"]
    rest = Run.of([_columns(after.slice_batches(1))], 1)
    assert codes(check_resumed(second, rest, "epoch 1")) == ["resume-order"]


def test_torch_workers_that_fetch_ahead_to_the_end_hide_that() -> None:
    whole, left = (torch_loader(EIGHT, seeded(7), num_workers=2) for _ in range(2))
    list(whole)
    next(iter(left))

    assert check_repeated(Run.of(whole), Run.of(left), "epoch 1") == []


def _columns(run: Run) -> list[Any]:
    return [run.id, run.x, run.y, run.mask]


def test_torch_seeded_with_the_sum_of_seed_and_epoch_shares_orders() -> None:
    one, other = (Run.of(torch_loader(LESSON, seeded(s + e))) for s, e in ((18, 0), (17, 1)))

    assert codes(check_other_order(one, other, "order-shared", "one key")) == ["order-shared"]


def test_torch_does_not_pad() -> None:
    run = Run.of(torch_loader(LESSON))

    assert codes(audit_run(run, expected_run("pad", order=np.arange(11)))) == ["final-batch"]


def test_torch_lets_batches_overtake_each_other_where_requested() -> None:
    run = Run.of(torch_loader(EIGHT, num_workers=2, in_order=False, slow_worker=0))

    expected = ExpectedRun(dataset=EIGHT, batch_size=4, policy="keep", order=np.arange(8))
    (finding,) = audit_run(run, expected)
    assert finding.code == "order"
    assert "the batches themselves are right" in str(finding.cause)


def test_torch_workers_that_each_read_a_whole_stream_deliver_it_twice() -> None:
    from torch.utils.data import DataLoader

    from tests.support.loaders import Stream

    run = Run.of(DataLoader(Stream(LESSON), batch_size=4, num_workers=2))

    found = audit_run(run, expected_run())
    assert codes(found) == ["batch-count", "item-twice"]
    assert found[1].measures["items"] == 11


def test_torch_s_distributed_sampler_pads_with_items_that_come_twice() -> None:
    from torch.utils.data import DistributedSampler

    from tests.support.loaders import Records

    ranks = [DistributedSampler(Records(LESSON), 4, rank, shuffle=False) for rank in range(4)]
    loaders = [torch_loader(LESSON, sampler=sampler, batch_size=3) for sampler in ranks]
    run = Run.of(itertools.chain.from_iterable(loaders))

    found = audit_run(run, expected_run(batch_size=3))
    assert codes(found) == ["batch-size", "item-twice"]
    assert found[1].message.startswith(
        "item 0 was delivered again in batch 3 row 2, after batch 0 row 0"
    )


def grain_loader(workers: int, seed: int = 17, epochs: int = 1, batch_size: int = 4) -> Any:
    grain = pytest.importorskip("grain.python")
    sampler = grain.IndexSampler(
        num_records=len(LESSON),
        shard_options=grain.NoSharding(),
        shuffle=True,
        num_epochs=epochs,
        seed=seed,
    )
    return grain.DataLoader(
        data_source=Source(LESSON),
        sampler=sampler,
        operations=[grain.Batch(batch_size, drop_remainder=False)],
        worker_count=workers,
    )


def test_grain_delivers_each_item_once_and_obeys_its_seed() -> None:
    run = Run.of(grain_loader(0))

    assert codes(audit_run(run, expected_run())) == []
    assert check_repeated(run, Run.of(grain_loader(0)), "the first run") == []
    other = Run.of(grain_loader(0, seed=18))
    assert check_other_order(run, other, "seed-ignored", "same order") == []


@WORKERS
def test_grain_resumes_at_every_cut_from_a_saved_state(workers: int) -> None:
    first = iter(grain_loader(workers))
    states, batches = [first.get_state()], []
    for batch in first:
        batches.append(batch)
        states.append(first.get_state())

    for cut, state in enumerate(states):
        second = iter(grain_loader(workers))
        second.set_state(state)
        assert check_resumed(Run.of(batches), Run.of(second, cut), "the epoch") == []
    assert len(states) == len(batches) + 1 > 3


def test_grain_with_workers_has_short_batches_in_the_middle_and_another_order() -> None:
    run, alone = Run.of(grain_loader(2)), Run.of(grain_loader(0))

    assert run.sizes == (4, 4, 2, 1)
    assert codes(audit_run(run, expected_run())) == ["batch-count"]
    assert sorted(run.ids) == LESSON.ids.tolist()
    assert run.ids != alone.ids


def test_grain_s_batches_cross_the_border_of_an_epoch() -> None:
    both = Run.of(grain_loader(0, epochs=2))

    first = both.slice_batches(0, 3)
    found = audit_run(first, expected_run())
    assert codes(found) == ["batch-size", "item-twice"]
    one, other = both.ids[:11], both.ids[11:]
    assert sorted(one) == sorted(other) == LESSON.ids.tolist()
    assert one != other
