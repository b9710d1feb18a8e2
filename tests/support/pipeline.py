"""Make dumps of the input pipeline, right ones to be spoilt, and its bundle."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.items.records import Dataset
from parity.lab.pins import pipeline as pins
from parity.lab.reference_pipeline import Pipeline, build_lesson_dataset
from parity.results import Finding
from parity.suites.base import Case, Dump
from parity.suites.pipeline.suite import SUITE
from parity.tensors.bin import encode_batch

BOUNDS = {"max_abs": 1e-6}
ID, X, Y, MASK = range(4)
LESSON = build_lesson_dataset()


class FreePipeline(Pipeline):
    """A pipeline with another order than NumPy's, as good a function of seed and epoch."""

    def compute_order(self, seed: int, epoch: int) -> NDArray[np.int64]:
        """As ``Pipeline.order``."""
        if not self.shuffle:
            return super().compute_order(seed, epoch)
        return np.random.default_rng([seed, epoch, 5]).permutation(len(self.dataset))


@dataclass
class PortDump:
    """The dump of one case: the four columns of each batch, and the port's claims.

    ``files`` maps names to bytes that replace or join the files written from these.
    """

    batches: dict[int, list[NDArray[np.float32]]]
    claims: dict[str, Any] | None
    files: dict[str, bytes] = field(default_factory=dict)

    def join_column(self, index: int) -> NDArray[np.float32]:
        """Join one column of all batches."""
        parts = [batch[index] for batch in self.batches.values()]
        return np.concatenate(parts) if parts else np.empty(0, np.float32)

    def replace_column(self, index: int, values: Iterable[float]) -> None:
        """Replace a column of all batches, keeping the sizes."""
        array, start = np.asarray(list(values), np.float32), 0
        for batch in self.batches.values():
            stop = start + len(batch[index])
            batch[index] = array[start:stop]
            start = stop

    def set_rows(self, rows: Mapping[int, tuple[float, float, float, float]]) -> None:
        """Replace whole slots, counted over all batches."""
        for index in range(4):
            column = self.join_column(index)
            for slot, row in rows.items():
                column[slot] = row[index]
            self.replace_column(index, column)

    def list_rows(self) -> list[tuple[float, ...]]:
        """List all slots, each (id, x, y, mask)."""
        return list(zip(*(self.join_column(which).tolist() for which in range(4)), strict=True))

    def rebatch(self, rows: list[tuple[float, ...]], sizes: Iterable[int], first: int = 0) -> None:
        """Put ``rows`` into batches of ``sizes``, numbered from ``first``."""
        self.batches, start = {}, 0
        for number, size in enumerate(sizes, first):
            part = np.asarray(rows[start : start + size], np.float32).reshape(-1, 4)
            self.batches[number] = [part[:, which] for which in range(4)]
            start += size

    def correct_claims(self) -> None:
        """Make the claims agree with the batches, without those that batches do not show."""
        labels, real = self.join_column(Y), self.join_column(MASK) == 1
        sizes = [len(batch[ID]) for batch in self.batches.values()]
        mean = float(labels[real].astype(np.float64).mean()) if real.any() else None
        keep = (self.claims or {}).get("fingerprint")
        self.claims = {
            "num_batches": len(sizes),
            "batch_sizes": sizes,
            "masked_mean": mean,
            "fingerprint": keep,
        }

    def write(self, folder: Path) -> None:
        """Write the files as a port would into ``folder``."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, batch in self.batches.items():
            (folder / f"batch_{number:04}.bin").write_bytes(encode_batch(batch))
        if self.claims is not None:
            (folder / "meta.json").write_text(json.dumps(self.claims), "utf-8")
        for name, data in self.files.items():
            (folder / name).write_bytes(data)


Dumps = dict[str, PortDump]


def make_correct_dumps(pipeline: type[Pipeline] = Pipeline) -> Dumps:
    """Return the right dump of each case of the pinned bundle."""
    return {case.name: make_correct_dump(case, pipeline) for case in pins.CASES}


def make_correct_dump(
    case: pins.RunSettings, kind: type[Pipeline] = Pipeline, dataset: Dataset = LESSON
) -> PortDump:
    """Return the right dump of one case."""
    pipeline = kind(
        dataset=dataset, batch_size=case.batch_size, policy=case.policy, shuffle=case.shuffle
    )
    cursor = pipeline.start(seed=case.seed, epoch=case.epoch, batch=case.start_batch)
    batches = [batch for batch, _ in pipeline.run(cursor)]
    meta = pins._build_meta(case, pipeline, batches)
    claims = {
        key: meta[key]
        for key in (
            *("name", "seed", "epoch", "start_batch", "batch_size", "policy", "num_batches"),
            *("batch_sizes", "order", "omitted_ids", "fingerprint", "masked_mean"),
        )
    }
    tensors = [pins._convert_to_f32(batch) for batch in batches]
    return PortDump(dict(enumerate(tensors, case.start_batch)), claims)


def write_case(tree: Path, case: pins.RunSettings, dataset: Dataset, **meta: Any) -> None:
    """Write one case of a bundle, with further keys of its `meta.json`."""
    for name, data in pins._build_case_files(case, dataset).items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.name == "meta.json" and meta:
            data = json.dumps(json.loads(data) | meta).encode()  # noqa: PLW2901 - with the further keys
        path.write_bytes(data)


def write_bundle(tree: Path) -> Path:
    """Write the pinned bundle's tree."""
    for case in pins.CASES:
        write_case(tree, case, LESSON)
    return tree


def verify_dumps(
    tree: Path, dumps: Mapping[str, PortDump], work: Path, *, order: str = "exact"
) -> dict[str, list[Finding]]:
    """Return the findings by case of a run over the cases in ``dumps``."""
    found: dict[str, list[Finding]] = {}
    compared: dict[str, tuple[Case, Dump | None]] = {}
    for case in SUITE.cases(tree, {"order": order}):
        if case.id in dumps:
            dumps[case.id].write(work / case.id)
            dump = Dump(folder=work / case.id)
            found[case.id] = list(SUITE.verify(case, dump, dict(case.tolerances)).findings)
            compared[case.id] = (case, dump)
    assert SUITE.across is not None
    for name, more in SUITE.across(compared).items():
        found[name] += more
    return found


def find_neighbours(name: str) -> set[str]:
    """Return a case of the pinned bundle with all cases that are related to it."""
    named = {case.name: set(case.relations.values()) for case in pins.CASES}
    bases = named[name] | {name}
    return bases | {other for other, partners in named.items() if partners & bases}


def list_codes(found: Mapping[str, list[Finding]], level: str = "error") -> dict[str, list[str]]:
    """List the codes of the findings of one level, by case; leave out cases without."""
    codes = {name: [f.code for f in each if f.level == level] for name, each in found.items()}
    return {name: some for name, some in codes.items() if some}
