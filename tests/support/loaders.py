"""Provide data sets for torch's loader."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from torch.utils.data import Dataset as MapDataset
from torch.utils.data import IterableDataset, get_worker_info

from parity.items.records import Dataset

Row = tuple[np.int64, np.float32, np.float32]


class Records(MapDataset[Row]):
    """A data set of single rows; one worker may be slow."""

    def __init__(self, dataset: Dataset, slow_worker: int | None = None) -> None:
        self.dataset, self.slow_worker = dataset, slow_worker

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Row:
        info = get_worker_info()
        if info is not None and info.id == self.slow_worker:
            time.sleep(0.2)
        data = self.dataset
        return data.ids[index], data.x[index], data.y[index]


class Stream(IterableDataset[Row]):
    """A stream of rows that every worker yields completely."""

    def __init__(self, dataset: Dataset) -> None:
        self.records = Records(dataset)

    def __iter__(self) -> Iterator[Row]:
        return (self.records[index] for index in range(len(self.records)))
