"""Provide a source for Grain without torch, since each worker process imports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from parity.items.records import Dataset


class Source:
    """The rows of a data set. Grain compares ``repr`` when it sets a saved state."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[np.int64, np.float32, np.float32]:
        data = self.dataset
        return data.ids[index], data.x[index], data.y[index]

    def __repr__(self) -> str:
        return f"Source({len(self)})"
