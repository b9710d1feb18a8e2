"""The pipeline bundle of other data; that of the lesson's records is audited as it is pinned."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from parity.errors import ConfigError
from parity.items.records import Dataset
from parity.lab.pins import pipeline
from tests.support.bundles import read_member


def test_ids_that_f32_rounds_are_refused(tmp_path: Path) -> None:
    ids = np.array([2**24, 2**24 + 1, 2**24 + 2])
    data = Dataset(ids, np.zeros(3, np.float32), np.zeros(3, np.float32))
    with pytest.raises(ConfigError, match=r"cannot represent these ids: \[16777217\]"):
        pipeline.pin(tmp_path, dataset=data)
    assert not list(tmp_path.iterdir())


def test_another_dataset_can_be_pinned(tmp_path: Path) -> None:
    ids = np.array([2**24, 7])
    data = Dataset(ids, np.ones(2, np.float32), np.ones(2, np.float32))
    meta = json.loads(read_member(pipeline.pin(tmp_path, dataset=data), "sequential/meta.json"))
    assert meta["order"] == [2**24, 7]
    assert meta["masked_mean"] == 1
