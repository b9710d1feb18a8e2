"""The dataloader bundle: upstream's layout, torch's items."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parity.lab.libraries import import_library
from parity.lab.pins import dataloader
from parity.tensors.bin import read_batch

pytestmark = [pytest.mark.torch, pytest.mark.slow]

#: Every case with its batch sizes, its bound of equality and the items in order.
EXPECTED = {
    "sequential": ([4, 4, 2], "ORDER", range(10)),
    "sequential_droplast": ([4, 4], "ORDER", range(8)),
    "shuffled_seeded": ([4, 4, 2], "SET", [8, 0, 9, 1, 4, 5, 6, 3, 2, 7]),
    "shuffled_droplast": ([4, 4], "SUBSET", [8, 0, 9, 1, 4, 5, 6, 3]),
    "batch_size_3": ([3, 3, 3, 1], "ORDER", range(10)),
}
KEYS = [
    *("name", "batch_size", "shuffle", "drop_last", "seed", "num_items", "feature_dim"),
    *("num_batches", "batch_sizes", "expected_num_batches", "item_features", "item_labels"),
    *("full_dataset_features", "full_dataset_labels", "dtype", "torch_version", "format"),
    "equality_mode",
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:

    folder = tmp_path_factory.mktemp("dataloader")
    with tarfile.open(dataloader.pin(folder)) as tar:
        tar.extractall(folder / "tree", filter="data")
    return folder / "tree"


def meta_of(tree: Path, case: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((tree / case / "meta.json").read_text("utf-8"))
    return loaded


def item(index: int) -> NDArray[np.float32]:
    return np.arange(8, dtype=np.float32) + np.float32(index * 0.1)


def test_it_has_five_cases_and_its_provenance(tree: Path) -> None:
    assert {path.name for path in tree.iterdir()} == {*EXPECTED, "provenance.json"}
    record = json.loads((tree / "provenance.json").read_text("utf-8"))
    assert record["seeds"] == {"shuffled_seeded": 42, "shuffled_droplast": 42}


@pytest.mark.parametrize("case", EXPECTED)
def test_meta_has_upstreams_keys(tree: Path, case: str) -> None:
    meta = meta_of(tree, case)
    sizes, equality, _ = EXPECTED[case]
    assert list(meta) == KEYS
    assert (meta["name"], meta["batch_sizes"], meta["equality_mode"]) == (case, sizes, equality)
    assert meta["num_batches"] == meta["expected_num_batches"] == len(sizes)
    assert meta["seed"] == (42 if meta["shuffle"] else None)
    assert (meta["num_items"], meta["feature_dim"], meta["dtype"]) == (10, 8, "float32")
    assert "+" not in meta["torch_version"]


@pytest.mark.parametrize("case", EXPECTED)
def test_batches_have_the_items_in_torchs_order(tree: Path, case: str) -> None:
    sizes, _, order = EXPECTED[case]
    files = sorted((tree / case).glob("*.bin"))
    assert [path.name for path in files] == [f"batch_{k:04d}.bin" for k in range(len(sizes))]
    batches = [read_batch(path) for path in files]
    assert [batch[0].shape for batch in batches] == [(size, 8) for size in sizes]
    assert [batch[1].shape for batch in batches] == [(size,) for size in sizes]
    features = np.concatenate([batch[0] for batch in batches])
    labels = np.concatenate([batch[1] for batch in batches])
    assert features.tobytes() == np.stack([item(index) for index in order]).tobytes()
    assert labels.tolist() == [index % 3 for index in order]


@pytest.mark.parametrize("case", EXPECTED)
def test_meta_lists_what_was_delivered_and_what_there_is(tree: Path, case: str) -> None:
    meta = meta_of(tree, case)
    order = EXPECTED[case][2]
    assert meta["item_features"] == [item(index).tolist() for index in order]
    assert meta["item_labels"] == [index % 3 for index in order]
    assert meta["full_dataset_features"] == [item(index).tolist() for index in range(10)]
    assert meta["full_dataset_labels"] == [index % 3 for index in range(10)]


def test_pinning_leaves_the_global_generator_alone(tmp_path: Path) -> None:
    torch = import_library("torch")

    before = torch.random.get_rng_state()
    dataloader.pin(tmp_path)
    assert torch.equal(before, torch.random.get_rng_state())
