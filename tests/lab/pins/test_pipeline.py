"""The pipeline bundle: its cases, their files, and how they stand to each other."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parity.errors import ConfigError
from parity.items.records import Dataset
from parity.lab.pins import pipeline
from parity.lab.reference_pipeline import build_lesson_dataset
from parity.tensors.bin import read_batch

ORDERS = {
    (17, 0): [9, 10, 4, 1, 0, 7, 6, 8, 2, 5, 3],
    (17, 1): [4, 0, 5, 10, 6, 2, 1, 9, 7, 3, 8],
    (17, 65537): [0, 2, 7, 1, 6, 3, 9, 5, 10, 4, 8],
    (18, 0): [9, 5, 0, 2, 6, 7, 4, 8, 1, 10, 3],
    (18, 1): [0, 7, 2, 6, 4, 9, 1, 3, 8, 5, 10],
    (1099511627794, 0): [5, 10, 9, 0, 8, 2, 7, 1, 6, 4, 3],
    (1099511627794, 65537): [2, 5, 1, 0, 10, 4, 9, 7, 3, 8, 6],
}
LARGE = "seed-1099511627794-epoch-65537"
SIZES = {
    "sequential": [4, 4, 3],
    "keep": [4, 4, 3],
    "drop": [4, 4],
    "pad": [4, 4, 4],
    "keep-again": [4, 4, 3],
    "keep-epoch-1": [4, 4, 3],
    "keep-seed-18": [4, 4, 3],
    "keep-batch-1": [1] * 11,
    "keep-batch-3": [3, 3, 3, 2],
    "keep-batch-5": [5, 5, 1],
    "keep-batch-11": [11],
    "keep-batch-16": [11],
    "drop-batch-3": [3, 3, 3],
    "drop-batch-5": [5, 5],
    "drop-batch-11": [11],
    "drop-batch-16": [],
    "pad-batch-3": [3, 3, 3, 3],
    "pad-batch-5": [5, 5, 5],
    "pad-batch-11": [11],
    "pad-batch-16": [16],
    "keep-resume-0": [4, 4, 3],
    "keep-resume-1": [4, 3],
    "keep-resume-2": [3],
    "keep-resume-3": [],
    "pad-resume-0": [4, 4, 4],
    "pad-resume-1": [4, 4],
    "pad-resume-2": [4],
    "pad-resume-3": [],
    "keep-epoch-65537": [4, 4, 3],
    "keep-seed-18-epoch-1": [4, 4, 3],
    "keep-seed-1099511627794": [4, 4, 3],
    f"keep-{LARGE}": [4, 4, 3],
    f"keep-{LARGE}-resume-1": [4, 3],
    f"keep-{LARGE}-resume-2": [3],
    f"pad-{LARGE}": [4, 4, 4],
    f"pad-{LARGE}-resume-1": [4, 4],
}
KEYS = [
    *("name", "seed", "epoch", "start_batch", "batch_size", "policy", "shuffle", "num_items"),
    *("num_batches", "batch_sizes", "order", "omitted_ids", "fingerprint", "masked_mean"),
    *("dataset", "digest", "tensors"),
]
RELATIONS = {
    "keep-again": {"same_as": "keep"},
    "keep-epoch-1": {"other_epoch_of": "keep"},
    "keep-seed-18": {"other_seed_of": "keep"},
    **{f"{p}-resume-{k}": {"resume_of": p} for p in ("keep", "pad") for k in range(4)},
    "keep-epoch-65537": {"other_epoch_of": "keep-epoch-1"},
    "keep-seed-18-epoch-1": {"other_seed_of": "keep-epoch-1", "other_epoch_of": "keep-seed-18"},
    "keep-seed-1099511627794": {"other_seed_of": "keep-seed-18"},
    f"keep-{LARGE}": {
        "other_seed_of": "keep-epoch-65537",
        "other_epoch_of": "keep-seed-1099511627794",
    },
    **{f"keep-{LARGE}-resume-{k}": {"resume_of": f"keep-{LARGE}"} for k in (1, 2)},
    f"pad-{LARGE}-resume-1": {"resume_of": f"pad-{LARGE}"},
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pipeline")
    with tarfile.open(pipeline.pin(folder)) as tar:
        tar.extractall(folder / "tree", filter="data")
    return folder / "tree"


def meta_of(tree: Path, case: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((tree / case / "meta.json").read_text("utf-8"))
    return loaded


def columns(tree: Path, case: str) -> list[NDArray[np.float32]]:
    """id, x, y and mask of all batches of a case, one after the other."""
    read = [read_batch(path) for path in sorted((tree / case).glob("batch_*.bin"))]
    empty = [np.zeros(0, np.float32)] * 4
    return [np.concatenate(parts) for parts in zip(empty, *read, strict=True)]


def test_it_has_these_cases_and_its_provenance(tree: Path) -> None:
    assert {path.name for path in tree.iterdir()} == {*SIZES, "provenance.json"}


@pytest.mark.parametrize("case", SIZES)
def test_files_are_numbered_as_in_the_whole_epoch(tree: Path, case: str) -> None:
    start = meta_of(tree, case)["start_batch"]
    numbers = range(start, start + len(SIZES[case]))
    expected = {"meta.json", *(f"batch_{number:04d}.bin" for number in numbers)}
    assert {path.name for path in (tree / case).iterdir()} == expected


@pytest.mark.parametrize("case", SIZES)
def test_meta_says_what_the_batches_show(tree: Path, case: str) -> None:
    meta = meta_of(tree, case)
    ids, x, y, mask = columns(tree, case)
    real = mask == 1
    assert meta["batch_sizes"] == SIZES[case]
    assert meta["num_batches"] == len(SIZES[case])
    assert len(ids) == len(x) == len(y) == sum(SIZES[case])
    delivered = meta["order"][meta["start_batch"] * meta["batch_size"] :][: real.sum()]
    assert ids[real].tolist() == delivered
    assert (ids[~real] == -1).all()
    assert not x[~real].any()
    assert not y[~real].any()
    expected = y[real].astype(np.float64).mean() if real.any() else None
    assert meta["masked_mean"] == (pytest.approx(expected) if real.any() else None)


@pytest.mark.parametrize("case", SIZES)
def test_features_and_labels_belong_to_the_id(tree: Path, case: str) -> None:
    ids, x, y, mask = columns(tree, case)
    data = build_lesson_dataset()
    chosen = ids[mask == 1].astype(np.int64)
    assert x[mask == 1].tobytes() == data.x[chosen].tobytes()
    assert y[mask == 1].tobytes() == data.y[chosen].tobytes()


@pytest.mark.parametrize("case", SIZES)
def test_meta_states_order_parameters_and_relations(tree: Path, case: str) -> None:
    meta = meta_of(tree, case)
    assert list(meta) == [*KEYS, *RELATIONS.get(case, {}), "disjoint_with"]
    assert {key: meta[key] for key in RELATIONS.get(case, {})} == RELATIONS.get(case, {})
    assert meta["policy"] == ("keep" if case == "sequential" else case.split("-", maxsplit=1)[0])
    if case == "sequential":
        assert meta["order"] == list(range(11))
    else:
        assert meta["order"] == ORDERS[meta["seed"], meta["epoch"]]
    assert meta["fingerprint"] == meta["digest"]
    assert meta["fingerprint"].startswith("1a81451a8fb32a1b")


@pytest.mark.parametrize(
    ("case", "omitted"),
    [("drop", [2, 3, 5]), ("drop-batch-5", [3]), ("drop-batch-16", list(range(11))), ("pad", [])],
)
def test_omitted_ids_are_named(tree: Path, case: str, omitted: list[int]) -> None:
    assert meta_of(tree, case)["omitted_ids"] == omitted


def test_each_seed_and_epoch_has_an_order_of_its_own(tree: Path) -> None:
    metas = [meta_of(tree, case) for case in SIZES if case != "sequential"]
    orders = {(meta["seed"], meta["epoch"]): tuple(meta["order"]) for meta in metas}
    assert all(sorted(order) == list(range(11)) for order in orders.values())
    assert len(set(orders.values())) == len(orders) == len(ORDERS)


@pytest.mark.parametrize("case", [case for case in SIZES if "resume" in case])
def test_a_resumed_run_has_the_very_files_of_the_whole_one(tree: Path, case: str) -> None:
    whole = tree / meta_of(tree, case)["resume_of"]
    for path in (tree / case).glob("*.bin"):
        assert path.read_bytes() == (whole / path.name).read_bytes()


def test_ids_that_f32_rounds_are_refused(tmp_path: Path) -> None:
    ids = np.array([2**24, 2**24 + 1, 2**24 + 2])
    data = Dataset(ids, np.zeros(3, np.float32), np.zeros(3, np.float32))
    with pytest.raises(ConfigError, match=r"cannot represent these ids: \[16777217\]"):
        pipeline.pin(tmp_path, dataset=data)
    assert not list(tmp_path.iterdir())


def test_another_dataset_can_be_pinned(tmp_path: Path) -> None:
    ids = np.array([2**24, 7])
    data = Dataset(ids, np.ones(2, np.float32), np.ones(2, np.float32))
    with tarfile.open(pipeline.pin(tmp_path, dataset=data)) as tar:
        meta = json.load(tar.extractfile("sequential/meta.json"))  # type: ignore[arg-type]
    assert meta["order"] == [2**24, 7]
    assert meta["masked_mean"] == 1
