"""Make the pipeline bundle: runs of the reference pipeline, a case each.

A folder per case has ``batch_NNNN.bin`` (tensors id, x, y and mask, each ``[B]``,
f32, numbered as in the whole epoch) and ``meta.json``, which states relations to other
cases, so that a verifier need not parse names:

* ``same_as``: the same run once more, everything is equal;
* ``resume_of``: the batches of that run from ``start_batch`` on;
* ``other_epoch_of``, ``other_seed_of``: the same records in another order;
* ``disjoint_with``: cases whose records must not occur here (none in this bundle).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.errors import ConfigError, Problem
from parity.items.records import Dataset, Policy, compute_fingerprint
from parity.lab.pins import packing
from parity.lab.pins.blindness import pack_checked
from parity.lab.reference_pipeline import Batch, Pipeline, build_lesson_dataset, compute_run_mean
from parity.suites.pipeline.suite import SUITE
from parity.tensors.bin import encode_batch

BUNDLE_ID = "input-pipeline-v1"
SEED, EPOCH, BATCH_SIZE = 17, 0, 4
#: 18 and 1 in the lowest 32 and 16 bits, with one bit beyond: a port that truncates them gets
#: the order of seed 18 or epoch 1. The high word is not the epoch of another case, since
#: [18, 256] and [18 + 2**40, 0] are one entropy to NumPy.
LARGE_SEED, LARGE_EPOCH = 2**40 + 18, 2**16 + 1
TENSORS = ("id", "x", "y", "mask")


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """One run: the pipeline's parameters, epoch and first batch."""

    name: str
    policy: Policy = "keep"
    shuffle: bool = True
    batch_size: int = BATCH_SIZE
    seed: int = SEED
    epoch: int = EPOCH
    start_batch: int = 0
    #: Keys of ``meta.json`` that name another case, as the module says.
    relations: Mapping[str, str] = field(default_factory=dict)
    #: Keys on ranks, workers and saved states, as ``layout.PipelineCase`` has them.
    scale: Mapping[str, Any] = field(default_factory=dict)

    def build_pipeline(self, dataset: Dataset, kind: type[Pipeline] = Pipeline) -> Pipeline:
        """Return the reference pipeline of this run."""
        keys = ("rank", "world", "shortfall")
        return kind(
            dataset=dataset,
            batch_size=self.batch_size,
            policy=self.policy,
            shuffle=self.shuffle,
            **{key: self.scale[key] for key in keys if key in self.scale},
        )

    def list_batches(self, pipeline: Pipeline) -> list[Batch]:
        """List the batches of this run."""
        cursor = pipeline.start(seed=self.seed, epoch=self.epoch, batch=self.start_batch)
        return [batch for batch, _ in pipeline.run(cursor)][: self.scale.get("stop_after")]


def _resume(whole: RunSettings, *cuts: int) -> list[RunSettings]:
    """Make a case of a whole run for each batch from which it is resumed."""
    return [
        replace(
            whole,
            name=f"{whole.name}-resume-{cut}",
            start_batch=cut,
            relations={"resume_of": whole.name},
        )
        for cut in cuts
    ]


def _make_key_case(seed: int, epoch: int, *, policy: Policy = "keep", **links: str) -> RunSettings:
    """Make a case that is named after its policy, and its seed or epoch."""
    name: str = policy
    name += f"-seed-{seed}" if seed != SEED else ""
    name += f"-epoch-{epoch}" if epoch != EPOCH else ""
    return RunSettings(name=name, policy=policy, seed=seed, epoch=epoch, relations=links)


_KEEP, _PAD = RunSettings(name="keep"), RunSettings(name="pad", policy="pad")
_SIZES: Mapping[Policy, tuple[int, ...]] = {
    "keep": (1, 3, 5, 11, 16),
    "drop": (3, 5, 11, 16),
    "pad": (3, 5, 11, 16),
}
_LARGE_KEY = _make_key_case(
    LARGE_SEED,
    LARGE_EPOCH,
    other_seed_of=f"keep-epoch-{LARGE_EPOCH}",
    other_epoch_of=f"keep-seed-{LARGE_SEED}",
)
_PADDED_KEY = _make_key_case(LARGE_SEED, LARGE_EPOCH, policy="pad")
#: Eleven records leave 1 over in fives, 2 (one short) in threes, 0 in elevens and
#: ones, and do not fill one batch of sixteen. Runs are resumed at every cut; 3 is the end.
#: The last ones have other seeds, epochs and both, whole and resumed: each is compared with the
#: run whose order it would have if its key were truncated.
CASES = (
    RunSettings(name="sequential", shuffle=False),
    _KEEP,
    RunSettings(name="drop", policy="drop"),
    _PAD,
    RunSettings(name="keep-again", relations={"same_as": "keep"}),
    _make_key_case(SEED, 1, other_epoch_of="keep"),
    _make_key_case(18, EPOCH, other_seed_of="keep"),
    *(
        RunSettings(name=f"{policy}-batch-{size}", policy=policy, batch_size=size)
        for policy, sizes in _SIZES.items()
        for size in sizes
    ),
    *_resume(_KEEP, 0, 1, 2, 3),
    *_resume(_PAD, 0, 1, 2, 3),
    _make_key_case(SEED, LARGE_EPOCH, other_epoch_of="keep-epoch-1"),
    _make_key_case(18, 1, other_seed_of="keep-epoch-1", other_epoch_of="keep-seed-18"),
    _make_key_case(LARGE_SEED, EPOCH, other_seed_of="keep-seed-18"),
    _LARGE_KEY,
    *_resume(_LARGE_KEY, 1, 2),
    _PADDED_KEY,
    *_resume(_PADDED_KEY, 1),
)


def pin(
    target_dir: Path,
    *,
    dataset: Dataset | None = None,
    name: str = BUNDLE_ID,
    cases: Sequence[RunSettings] = CASES,
) -> Path:
    """Write ``input-pipeline-v1.tar``, of the lesson's records by default; return its path.

    Raises:
        ConfigError: An id is not exact in f32, the only type that a batch file has.
        ReferenceSuspectError: A tolerance is blind.
    """
    dataset = dataset or build_lesson_dataset()
    _check_ids(dataset)
    seeds = {case.name: case.seed for case in cases if case.shuffle}
    files = {"provenance.json": packing.encode_provenance(name, libraries=["numpy"], seeds=seeds)}
    for case in cases:
        files |= _build_case_files(case, dataset)
    return pack_checked(files, target_dir / f"{name}.tar", SUITE)


def _check_ids(dataset: Dataset) -> None:
    rounded = dataset.ids.astype(np.float32).astype(np.int64)
    if inexact := dataset.ids[rounded != dataset.ids].tolist():
        message = f"a .bin file contains only f32, which cannot represent these ids: {inexact}"
        raise ConfigError(Problem("id-not-exact", message))


def _build_case_files(case: RunSettings, dataset: Dataset) -> dict[str, bytes]:
    pipeline = case.build_pipeline(dataset)
    batches = case.list_batches(pipeline)
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
        "masked_mean": compute_run_mean(batches),
        "dataset": {"ids": data.ids.tolist(), "x": data.x.tolist(), "y": data.y.tolist()},
        # The name that the lesson gives the fingerprint.
        "digest": compute_fingerprint(data),
        "tensors": list(TENSORS),
        **case.relations,
        **case.scale,
        "disjoint_with": [],
    }
