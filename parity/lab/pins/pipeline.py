"""Make the pipeline bundle: runs of the reference pipeline, a case each.

A folder per case holds ``batch_NNNN.bin`` (tensors id, x, y and mask, each ``[B]``,
f32, numbered as in the whole epoch) and ``meta.json``, which states relations to other
cases, so that a verifier need not parse names:

* ``same_as``: the same run once more, everything is equal;
* ``resume_of``: the batches of that run from ``start_batch`` on;
* ``other_epoch_of``, ``other_seed_of``: the same records in another order;
* ``disjoint_with``: cases whose records must not occur here (none in this bundle).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.errors import ConfigError, Problem
from parity.items.reference_pipeline import (
    Batch,
    Dataset,
    Pipeline,
    Policy,
    build_lesson_dataset,
    compute_fingerprint,
    compute_masked_mean,
)
from parity.lab.pins import packing
from parity.tensors.bin import encode_batch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

BUNDLE_ID = "input-pipeline-v1"
SEED, EPOCH, BATCH_SIZE = 17, 0, 4
#: 18 and 1 in the lowest 32 and 16 bits, with one bit beyond: a port that truncates them gets
#: the order of seed 18 or epoch 1. The high word is not the epoch of another case, since
#: [18, 256] and [18 + 2**40, 0] are one entropy to NumPy.
LARGE_SEED, LARGE_EPOCH = 2**40 + 18, 2**16 + 1
TENSORS = ("id", "x", "y", "mask")


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """One run: the pipeline's parameters, epoch and first batch.

    Attributes:
        relations: Keys of ``meta.json`` that name another case, as the module says.
    """

    name: str
    policy: Policy = "keep"
    shuffle: bool = True
    batch_size: int = BATCH_SIZE
    seed: int = SEED
    epoch: int = EPOCH
    start_batch: int = 0
    relations: Mapping[str, str] = field(default_factory=dict)


def _make_batch_size_cases(policy: Policy, *sizes: int) -> list[RunSettings]:
    return [RunSettings(name=f"{policy}-batch-{b}", policy=policy, batch_size=b) for b in sizes]


def _make_resume_cases(policy: Policy) -> list[RunSettings]:
    """Make a case for every cut of the epoch into two parts; 3 is its end."""
    return [
        RunSettings(
            name=f"{policy}-resume-{cut}",
            policy=policy,
            start_batch=cut,
            relations={"resume_of": policy},
        )
        for cut in range(4)
    ]


def _make_key_case(
    seed: int, epoch: int, *, policy: Policy = "keep", cut: int = 0, **links: str
) -> RunSettings:
    """Make a case, named after its seed or epoch, that begins at batch ``cut``."""
    parts: list[str] = [policy]
    parts += [f"seed-{seed}"] if seed != SEED else []
    parts += [f"epoch-{epoch}"] if epoch != EPOCH else []
    whole = "-".join(parts)
    name, relations = (f"{whole}-resume-{cut}", {"resume_of": whole}) if cut else (whole, links)
    return RunSettings(
        name=name, policy=policy, seed=seed, epoch=epoch, start_batch=cut, relations=relations
    )


#: Runs with other seeds, epochs and both, whole and resumed. Each is compared with the run
#: whose order it would have if its key were truncated.
_KEY_CASES = (
    _make_key_case(SEED, LARGE_EPOCH, other_epoch_of="keep-epoch-1"),
    _make_key_case(18, 1, other_seed_of="keep-epoch-1", other_epoch_of="keep-seed-18"),
    _make_key_case(LARGE_SEED, EPOCH, other_seed_of="keep-seed-18"),
    _make_key_case(
        LARGE_SEED,
        LARGE_EPOCH,
        other_seed_of=f"keep-epoch-{LARGE_EPOCH}",
        other_epoch_of=f"keep-seed-{LARGE_SEED}",
    ),
    _make_key_case(LARGE_SEED, LARGE_EPOCH, cut=1),
    _make_key_case(LARGE_SEED, LARGE_EPOCH, cut=2),
    _make_key_case(LARGE_SEED, LARGE_EPOCH, policy="pad"),
    _make_key_case(LARGE_SEED, LARGE_EPOCH, policy="pad", cut=1),
)

#: Eleven records leave 1 over in fives, 2 (one short) in threes, 0 in elevens and
#: ones, and do not fill one batch of sixteen.
CASES = (
    RunSettings(name="sequential", shuffle=False),
    RunSettings(name="keep"),
    RunSettings(name="drop", policy="drop"),
    RunSettings(name="pad", policy="pad"),
    RunSettings(name="keep-again", relations={"same_as": "keep"}),
    RunSettings(name="keep-epoch-1", epoch=1, relations={"other_epoch_of": "keep"}),
    RunSettings(name="keep-seed-18", seed=18, relations={"other_seed_of": "keep"}),
    *_make_batch_size_cases("keep", 1, 3, 5, 11, 16),
    *_make_batch_size_cases("drop", 3, 5, 11, 16),
    *_make_batch_size_cases("pad", 3, 5, 11, 16),
    *_make_resume_cases("keep"),
    *_make_resume_cases("pad"),
    *_KEY_CASES,
)


def pin(target_dir: Path, *, dataset: Dataset | None = None) -> Path:
    """Write ``input-pipeline-v1.tar`` into ``target_dir``.

    Args:
        target_dir: Folder of the tar, made where it is missing.
        dataset: Records to run over; by default the lesson's eleven.

    Returns:
        Path of the tar.

    Raises:
        ConfigError: An id is not exact in f32, the only type that a batch file has.
    """
    dataset = dataset or build_lesson_dataset()
    _check_ids(dataset)
    seeds = {case.name: case.seed for case in CASES if case.shuffle}
    files = {
        "provenance.json": packing.encode_provenance(BUNDLE_ID, libraries=["numpy"], seeds=seeds)
    }
    for case in CASES:
        files |= _build_case_files(case, dataset)
    return packing.pack(files, target_dir / f"{BUNDLE_ID}.tar")


def _check_ids(dataset: Dataset) -> None:
    rounded = dataset.ids.astype(np.float32).astype(np.int64)
    if inexact := dataset.ids[rounded != dataset.ids].tolist():
        message = f"a .bin file contains only f32, which cannot represent these ids: {inexact}"
        raise ConfigError(Problem("id-not-exact", message))


def _build_case_files(case: RunSettings, dataset: Dataset) -> dict[str, bytes]:
    pipeline = Pipeline(
        dataset=dataset,
        batch_size=case.batch_size,
        policy=case.policy,
        shuffle=case.shuffle,
    )
    cursor = pipeline.start(seed=case.seed, epoch=case.epoch, batch=case.start_batch)
    batches = [batch for batch, _ in pipeline.run(cursor)]
    files = {f"{case.name}/meta.json": packing.encode_json(_build_meta(case, pipeline, batches))}
    for number, batch in enumerate(batches, case.start_batch):
        files[f"{case.name}/batch_{number:04d}.bin"] = encode_batch(_convert_to_f32(batch))
    return files


def _convert_to_f32(batch: Batch) -> list[NDArray[np.float32]]:
    """Convert the four columns to f32, ``[B]`` each, in the order of ``TENSORS``."""
    return [column.astype(np.float32) for column in batch]


def _build_meta(case: RunSettings, pipeline: Pipeline, batches: list[Batch]) -> dict[str, Any]:
    data = pipeline.dataset
    order = pipeline.compute_order(case.seed, case.epoch)
    return {
        "name": case.name,
        "seed": case.seed,
        "epoch": case.epoch,
        "start_batch": case.start_batch,
        "batch_size": case.batch_size,
        "policy": case.policy,
        "shuffle": case.shuffle,
        "num_items": len(data),
        "num_batches": len(batches),
        "batch_sizes": [len(batch.ids) for batch in batches],
        "order": data.ids[order].tolist(),
        "omitted_ids": pipeline.find_omitted_ids(case.seed, case.epoch),
        "fingerprint": compute_fingerprint(data),
        "masked_mean": _compute_masked_mean(batches),
        "dataset": {"ids": data.ids.tolist(), "x": data.x.tolist(), "y": data.y.tolist()},
        # The name that the lesson gives the fingerprint.
        "digest": compute_fingerprint(data),
        "tensors": list(TENSORS),
        **case.relations,
        "disjoint_with": [],
    }


def _compute_masked_mean(batches: list[Batch]) -> float | None:
    if not batches:
        return None
    labels = np.concatenate([batch.y for batch in batches])
    return compute_masked_mean(labels, np.concatenate([batch.mask for batch in batches]))
