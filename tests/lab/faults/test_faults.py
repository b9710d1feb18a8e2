"""Faults that are planted: each changes what it says, and leaves the rest of a dump alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parity.checkpoints import StorageLocation
from parity.checkpoints.blocks import decode, list_mistakes
from parity.checkpoints.gguf_header import BY_NAME
from parity.codes import list_codes
from parity.lab.faults import InjectionResult, batch_faults, inject, loader_runs, tensor_faults
from parity.lab.faults.value_faults import VALUE_FAULTS
from parity.lab.pins.pipeline import CASES
from parity.lab.reference_pipeline import Pipeline, build_lesson_dataset
from parity.lab.zoo.gguf_builder import TensorInfo, build_gguf
from parity.suites.base import Dump
from parity.suites.tensors import suite
from parity.tensors.bin import encode_batch, encode_tensor, read_batch, read_tensor
from parity.tensors.folder import list_tensors
from tests.support.blocks import make_random_blocks
from tests.support.tensors import make_tensors_case, store_tensor


@pytest.fixture
def references(tmp_path: Path) -> Path:
    """Two tensors and a scalar, as `.bin`."""
    folder = tmp_path / "references"
    folder.mkdir()
    draws = np.random.default_rng(1)
    for name, shape in {"a": (3, 4), "b": (2, 3, 4), "s": ()}.items():
        values = np.asarray(draws.integers(1, 8191, shape) / 64, "<f4")
        (folder / f"{name}.bin").write_bytes(encode_tensor(values))
    return folder


def planted(references: Path, scratch: Path, name: str, **more: Any) -> tuple[Any, Path]:
    folder = scratch / "dump"
    shutil.copytree(references, folder)
    found = list_tensors(references).tensors
    (fault,) = (
        f for f in tensor_faults.list_tensor_faults(found, {}, references, **more) if f.name == name
    )
    return fault.inject(folder), folder


def test_a_fault_is_planted_into_all_tensors_that_it_fits(references: Path, tmp_path: Path) -> None:
    what, folder = planted(references, tmp_path, "transposed")

    assert (what.changed, what.unchanged) == (("a", "b"), ())
    right = read_tensor(references / "a.bin")
    assert read_tensor(folder / "a.bin").tobytes() == right.T.tobytes()
    assert (folder / "s.bin").read_bytes() == (references / "s.bin").read_bytes()


def test_a_plant_that_changes_nothing_is_void(references: Path, tmp_path: Path) -> None:
    """Short dyadic numbers are kept by a rounding to their own width."""
    for name in ("a", "b", "s"):
        values = np.full(read_tensor(references / f"{name}.bin").shape, 0.5, "<f4")
        (references / f"{name}.bin").write_bytes(encode_tensor(values))
    what, _ = planted(references, tmp_path, "rounded-f16")

    assert (what.changed, what.unchanged) == ((), ("a", "b", "s"))


def test_nothing_is_planted_where_elements_share_bytes(tmp_path: Path) -> None:
    """Elements are written as bytes of their own, and would run over the file's end."""
    store_tensor(tmp_path, np.arange(16).astype("u1"), "F4")
    found = list_tensors(tmp_path).tensors
    assert [one.dtype.name for one in found.values()] == ["F4"]
    for fault in tensor_faults.list_tensor_faults(found, {}, tmp_path):
        assert fault.inject(tmp_path) == InjectionResult((), ()), fault.name
    assert list_tensors(tmp_path).list_problems() == []


def test_signs_of_zeros_are_a_fault_only_where_bytes_are_expected(references: Path) -> None:
    found = list_tensors(references).tensors
    exact = {fault.name for fault in tensor_faults.list_tensor_faults(found, {}, references)}
    bounded = {
        fault.name for fault in tensor_faults.list_tensor_faults(found, {}, references, exact=False)
    }

    assert exact - bounded == {"zero-sign-lost", "subnormals-lost"}


def test_faults_have_names_of_their_own(references: Path) -> None:
    names = [
        fault.name
        for fault in tensor_faults.list_tensor_faults(
            list_tensors(references).tensors, {}, references
        )
    ]

    assert len(set(names)) == len(names) > 40


@pytest.mark.parametrize("name", VALUE_FAULTS)
def test_what_a_fault_is_called_is_a_known_code(name: str) -> None:
    """A name that no cause and no finding bears would never be found."""
    findings = {"nan", "signed-zero"}
    for code in VALUE_FAULTS[name].codes:
        assert set(code.split("+")) <= set(list_codes("causes")) | findings


def test_what_has_no_name_says_why() -> None:
    assert [
        name for name, wrong in VALUE_FAULTS.items() if not wrong.codes and not wrong.why_unnamed
    ] == []


def test_every_mistake_of_a_block_type_is_planted_where_its_bytes_are_known(tmp_path: Path) -> None:
    stored = make_random_blocks("Q4_K", 4)
    (tmp_path / "checkpoint").write_bytes(stored.tobytes())
    (tmp_path / "references").mkdir()
    values = decode("Q4_K", stored).reshape(512, 2)
    (tmp_path / "references" / "w.bin").write_bytes(encode_tensor(values))
    raw = StorageLocation(
        path=tmp_path / "checkpoint", start=0, stop=stored.size, type_name="Q4_K", shape=(2, 512)
    )
    root = tmp_path / "references"
    listed = tensor_faults.list_tensor_faults(
        list_tensors(root).tensors, {"w": raw}, root, exact=False
    )
    faults = {fault.name: fault for fault in listed}
    names = {f"block-{one.name}:Q4_K" for one in list_mistakes("Q4_K")}
    assert names <= set(faults)
    for name in names:
        folder = tmp_path / name.replace(":", "-")
        shutil.copytree(tmp_path / "references", folder)
        assert faults[name].inject(folder).changed == ("w",)


@pytest.mark.parametrize("kind", ["Q4_0", "Q8_0", "Q4_K", "Q6_K"])
def test_wrong_decoders_of_small_scales_are_detected_within_the_tolerance(
    kind: str, tmp_path: Path
) -> None:
    """Scales of 2e-7 keep all values below the tolerance, so that any decoder is within it."""
    stored = make_random_blocks(kind, 4)
    for offset in BY_NAME[kind].scale_offsets:
        signs = np.resize([1, -1], (4, 1))
        stored[:, offset : offset + 2] = (signs * 2e-7).astype("<f2").view(np.uint8)
    elements = BY_NAME[kind].elements
    info = TensorInfo(name="w", dims=(elements, 4), kind=BY_NAME[kind].code, data=stored.tobytes())
    (tmp_path / "bundle" / "a").mkdir(parents=True)
    (tmp_path / "bundle" / "a" / "c.gguf").write_bytes(build_gguf(info))
    references = {"w.npy": decode(kind, stored).reshape(elements, 4)}
    entry = {"bounds": {"max_abs": 1e-2}, "blind": "a test", "checkpoint": "c.gguf"}
    case = make_tensors_case(tmp_path / "bundle", references, **entry)
    (tmp_path / "right").mkdir()
    faults = inject.write_tensors_dump(case, tmp_path / "right")
    assert faults is not None
    right = suite.verify(case, Dump(folder=tmp_path / "right"), case.tolerances)
    assert [f for f in right.findings if f.level == "error"] == []
    decoders = [fault for fault in faults if fault.name.startswith("block-")]
    assert len(decoders) == len(list_mistakes(kind))
    for fault in decoders:
        folder = tmp_path / fault.name.replace(":", "-")
        shutil.copytree(tmp_path / "right", folder)
        if fault.inject(folder).changed:
            found = suite.verify(case, Dump(folder=folder), case.tolerances).findings
            assert [f.tensor for f in found if f.level == "error"] == ["w"], fault.name


OTHER_KINDS = {
    "ids.npy": np.array([[3, 2**24 + 1, 7], [1, 5, 9]]),
    "mask.npy": np.array([True, False, True]),
    "grads/x.npy": np.arange(6, dtype="<f4").reshape(2, 3),
    "spectrum.npy": np.array([1 + 2j, 3 - 1j, -2 + 0.5j], "<c8"),
}
EXPECTED_PARTS = {
    "integers-plus-one": ("ids",),
    "integer-first-off": ("ids",),
    "integers-through-f32": ("ids",),
    "integers-saturated": ("ids",),
    "booleans-inverted": ("mask",),
    "complex-conjugated": ("spectrum",),
    "complex-parts-exchanged": ("spectrum",),
    "sign-flipped": ("grads/x",),
}


@pytest.mark.parametrize(("name", "changed"), EXPECTED_PARTS.items())
def test_faults_of_integers_booleans_complex_numbers_and_subfolders_are_detected(
    name: str, changed: tuple[str, ...], tmp_path: Path
) -> None:
    """Under a tolerance that is meant for floats, each must still be found."""
    bounds = {"max_abs": 0.5, "ulp": 4.0}
    case = make_tensors_case(tmp_path / "bundle", OTHER_KINDS, bounds=bounds)
    (tmp_path / "right").mkdir()
    faults = inject.write_tensors_dump(case, tmp_path / "right")
    assert faults is not None
    assert suite.verify(case, Dump(folder=tmp_path / "right"), bounds).findings == ()
    (fault,) = (fault for fault in faults if fault.name == name)
    shutil.copytree(tmp_path / "right", tmp_path / "wrong")
    assert fault.inject(tmp_path / "wrong").changed == changed
    outcome = suite.verify(case, Dump(folder=tmp_path / "wrong"), bounds)
    assert [f.tensor for f in outcome.findings if f.level == "error"] == list(changed)


# --- loaders --------------------------------------------------------------------------------

ROWS = np.arange(10, dtype="<f4")[:, None] * 10 + np.arange(4, dtype="<f4")
LABELS = (3 * np.arange(10) ** 2 + np.arange(10)) % 7.0


def loader_folder(folder: Path) -> Path:
    folder.mkdir()
    for number, start in enumerate((0, 4, 8)):
        part = slice(start, min(start + 4, 10))
        content = encode_batch([ROWS[part], LABELS[part].astype("<f4")])
        (folder / f"batch_{number:04}.bin").write_bytes(content)
    return folder


def rows(folder: Path) -> tuple[list[int], NDArray[Any], NDArray[Any]]:
    read = [read_batch(path) for path in sorted(folder.iterdir())]
    columns = [np.concatenate(parts) for parts in zip(*read, strict=True)]
    return [len(batch[0]) for batch in read], columns[0], columns[1]


LOADER = batch_faults.LoaderContract(
    label_column=1, feature_column=0, is_ordered=True, batch_size=4
)
SIZES = {
    "every-item-twice": [4, 4, 2, 4, 4, 2],
    "shard-repeated": [4, 4, 4, 3],
    "shard-missing": [4, 1],
    "last-batch-dropped": [4, 4],
    "last-batch-padded": [4, 4, 4],
    "batches-merged": [8, 2],
    "batches-swapped": [4, 4, 2],
    "labels-rolled": [4, 4, 2],
}


@pytest.mark.parametrize(("name", "sizes"), SIZES.items())
def test_a_fault_of_a_loader_has_the_batches_that_it_says(
    name: str, sizes: list[int], tmp_path: Path
) -> None:
    folder = loader_folder(tmp_path / "dump")
    (fault,) = (f for f in batch_faults.list_loader_faults(LOADER) if f.name == name)

    assert fault.inject(folder).changed == ("batches",)
    assert rows(folder)[0] == sizes


def test_a_fault_of_order_is_none_where_no_order_is_expected() -> None:
    free = batch_faults.LoaderContract(
        label_column=1, feature_column=0, is_ordered=False, batch_size=4
    )
    names = {fault.name for fault in batch_faults.list_loader_faults(free)}

    assert not names & {"batches-swapped", "items-swapped", "other-epoch"}


@pytest.mark.parametrize(("count", "allowed"), [(9, True), (10, False)])
def test_a_shuffle_of_a_few_items_is_allowed_to_be_none(
    tmp_path: Path, count: int, allowed: bool
) -> None:
    order = np.arange(count)[::-1]
    free = batch_faults.LoaderContract(
        label_column=1, feature_column=0, is_ordered=False, batch_size=4, dataset_order=order
    )
    (fault,) = (f for f in batch_faults.list_loader_faults(free) if f.name == "never-shuffled")

    assert bool(fault.why_allowed) is allowed
    folder = loader_folder(tmp_path / "dump")
    fault.inject(folder)
    assert rows(folder)[1][:, 0].tolist() == ROWS[order, 0].tolist()


def test_a_fault_that_does_not_fit_plants_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    folder.mkdir()
    content = encode_batch([ROWS[:1], LABELS[:1].astype("<f4")])
    (folder / "batch_0000.bin").write_bytes(content)
    for fault in batch_faults.list_loader_faults(LOADER):
        if fault.name in ("batches-swapped", "items-swapped", "shard-missing", "last-batch-padded"):
            what = fault.inject(folder)
            assert (what.changed, what.unchanged) == ((), ())
    assert (folder / "batch_0000.bin").read_bytes() == content


@pytest.mark.parametrize("name", loader_runs.KEY_FAULTS)
def test_each_loss_of_seed_or_epoch_changes_a_run_of_the_pinned_bundle(name: str) -> None:
    """Else the bundle could not see it: 17 and 0 alone come through most of them."""
    changed = []
    for case in (case for case in CASES if case.shuffle and case.name != "drop-batch-16"):
        pipeline = Pipeline(
            dataset=build_lesson_dataset(), batch_size=case.batch_size, policy=case.policy
        )
        key = loader_runs.OrderKey(case.seed, case.epoch, is_resumed=case.start_batch > 0)
        whole = pipeline.start(seed=case.seed, epoch=case.epoch, batch=case.start_batch)
        right = [batch for batch, _ in pipeline.run(whole)]
        for fault in loader_runs.make_faulty_runs(pipeline, key, case.start_batch) if right else ():
            ids = np.concatenate([batch.ids for batch in right])
            assert fault.run.sizes == tuple(len(batch.ids) for batch in right)
            if fault.name == name and fault.run.columns[0].tolist() != ids.tolist():
                changed.append(case.name)
    assert changed
