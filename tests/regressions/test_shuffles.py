"""Reported shuffles that hardly shuffle, built small; see docs/cases.md."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from parity.loaders import audit_ids
from tests.support.shuffles import shuffle_buffer, shuffle_shards

RANDOM = np.random.default_rng(0).permutation(10_000)


def share_shards(n: int, size: int, workers: int, batch: int) -> NDArray[np.int64]:
    """Give shuffled shards to workers, which shuffle all their items and deliver in turn."""
    shards = np.split(shuffle_shards(n, size, shards=True, items=False), n // size)
    parts = [np.concatenate(shards[worker::workers]) for worker in range(workers)]
    orders = [shuffle_buffer(part, len(part), seed=k) for k, part in enumerate(parts)]
    pairs = [(start, order) for start in range(0, len(orders[0]), batch) for order in orders]
    return np.concatenate([order[start : start + batch] for start, order in pairs])


def degrade(share: float) -> NDArray[np.int64]:
    """Shuffle well, but leave one source alone at the end of the epoch."""
    last = int(len(RANDOM) * (1 - share))
    return np.concatenate((RANDOM[last > RANDOM], RANDOM[last <= RANDOM]))


#: By report: the order, a figure that must be among the measures, and its value where it is known.
REPORTS = {
    "webdataset/webdataset#62": (shuffle_buffer(range(11_000), 1000, initial=100),
        "rank-correlation", None),
    "webdataset/webdataset#71": (share_shards(10_000, 100, 20, 10), "serial-correlation", None),
    "mosaicml/streaming#796": (degrade(0.1), "rank-correlation", None),
    "huggingface/datasets#8015": (shuffle_buffer(shuffle_shards(20_000, 200, shards=True,
        items=False), 100), "pairs", None),
    "NVIDIA/DALI#6491": (shuffle_buffer(range(20_000), 1024), "displacement", 1023),
    "NVIDIA/DALI#665": (shuffle_buffer(range(5000), 100), "displacement", 99),
}  # fmt: skip


@pytest.mark.parametrize("report", REPORTS)
def test_a_shuffle_that_hardly_shuffles(report: str) -> None:
    order, figure, value = REPORTS[report]

    (found,) = audit_ids(order, len(order))
    assert (found.level, found.code) == ("warning", "weak-shuffle")
    assert figure in found.measures
    assert value is None or found.measures[figure] == value


@pytest.mark.parametrize("n", [20, 1000, 20_000])
def test_a_buffer_of_all_items_is_a_shuffle(n: int) -> None:
    """What these reports were answered with."""
    assert audit_ids(shuffle_buffer(range(n), n), n) == []
