"""A port of the input pipeline in Python that saves and loads states, and wrong ones.

``verify_port`` runs it over a bundle as ``parity verify`` would, without any process.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from parity.bundle.layout import DAMAGES
from parity.items.records import compute_epoch_order
from parity.lab.pins import loader_scale
from parity.lab.pins.packing import write_files
from parity.lab.pins.pipeline import _build_case_files
from parity.lockfile import Bundle, Dump
from parity.port.dump_folder import STATE_FILE, take_snapshot
from parity.port.output import explain_exit
from parity.port.process import ProcessResult
from parity.port.run import DumpResult
from parity.results import CaseResult
from parity.suites.base import Case
from parity.suites.pipeline.suite import SUITE
from parity.tensors.bin import encode_batch
from parity.verify.evaluate import CaseEvaluator
from parity.verify.prepare import PreparedBundle
from tests.support.pipeline import LESSON


class RejectionError(Exception):
    """The port rejects a state."""


@dataclass(frozen=True, kw_only=True)
class Position:
    """Where a run continues: the batches before it belong to its epoch."""

    seed: int
    epoch: int
    batch: int
    items: int = 0


class Port:
    """The right port; a wrong one overrides a step."""

    def order(self, seed: int, epoch: int, _rank: int) -> list[int]:
        """Return the ids of an epoch in order."""
        return compute_epoch_order(len(LESSON), seed, epoch).tolist()

    def share(self, order: Sequence[int], rank: int, world: int, shortfall: str) -> list[int]:
        """Return a rank's part of the order."""
        lacking = -len(order) % world
        if shortfall == "fill":
            order = [*order, *order[:lacking]]
        elif shortfall == "trim" and lacking:
            order = order[: len(order) - (world - lacking)]
        return list(order[rank::world])

    def merge(self, items: list[int], workers: int, *, stream: bool) -> list[int]:
        """Return the items as workers deliver them."""
        if stream:
            return [item for worker in range(workers) for item in items[worker::workers]]
        return items

    def draw(self, seed: int, epoch: int, item: int, _place: int, _workers: int) -> float:
        """Return the random number that an item is augmented with."""
        return float(np.random.default_rng([seed, epoch, item]).random())

    def count_loaded(self, position: Position, _values: dict[str, str]) -> int:
        """Return the batch with which a run continues."""
        return position.batch

    def count_saved(self, start: int, delivered: int) -> int:
        """Return the batch that the state of a run says."""
        return start + delivered

    def end_epoch(self, position: Position, count: int) -> Position:
        """Return where a run continues that was saved at the end of an epoch."""
        if position.batch < count:
            return position
        return Position(seed=position.seed, epoch=position.epoch + 1, batch=0)

    def encode(self, position: Position) -> bytes:
        """Return the state of a run."""
        text = f"{position.seed} {position.epoch} {position.batch}"
        return f"{text} {zlib.crc32(text.encode()):08x}".encode()

    def decode(self, state: bytes, seed: int, _values: dict[str, str]) -> Position:
        """Return where the run of ``state`` continues."""
        text, _, digest = state.decode("latin-1").rpartition(" ")
        if digest != f"{zlib.crc32(text.encode()):08x}":
            raise RejectionError("the state is damaged")
        found, epoch, batch = map(int, text.split())
        if found != seed:
            raise RejectionError(f"the state is that of seed {found}")
        return Position(seed=seed, epoch=epoch, batch=batch)

    def run(self, case: Case, values: dict[str, str], folder: Path, state: bytes | None) -> None:
        """Run one case; only policy, batch size and the like are from its `meta.json`."""
        meta, seed = case.detail[0], int(values["seed"])
        rank, world = int(values.get("rank", 0)), int(values.get("world", 1))
        workers = int(values.get("workers", 0))

        def list_batches(epoch: int) -> tuple[list[int], list[list[int]]]:
            order = self.order(seed, epoch, rank) if meta.shuffle else list(range(len(LESSON)))
            items = self.share(order, rank, world, meta.shortfall)
            items = self.merge(items, workers, stream=meta.any_order)
            size = meta.batch_size
            parts = [items[k : k + size] for k in range(0, len(items), size)]
            return items, [p for p in parts if meta.policy != "drop" or len(p) == size]

        if state is None:
            epoch, start = int(values["epoch"]), int(values["start_batch"])
        else:
            position = self.decode(state, seed, values)
            position = self.end_epoch(position, len(list_batches(position.epoch)[1]))
            epoch, start = position.epoch, self.count_loaded(position, values)
        items, batches = list_batches(epoch)
        stop = start + int(values["stop_after"]) if "stop_after" in values else None
        numbered = list(enumerate(batches))[start:stop]
        draws: list[float] = []
        for number, batch in numbered:
            draws += [
                self.draw(seed, epoch, i, len(draws) + k, workers) for k, i in enumerate(batch)
            ]
            columns = [np.array(batch), LESSON.x[batch], LESSON.y[batch], np.ones(len(batch))]
            empty = (0, meta.batch_size - len(batch) if meta.policy == "pad" else 0)
            fill = (-1, 0, 0, 0)
            padded = [
                np.pad(np.asarray(column, np.float32), empty, constant_values=value)
                for column, value in zip(columns, fill, strict=True)
            ]
            draws += [0.0] * empty[1]
            (folder / f"batch_{number:04}.bin").write_bytes(encode_batch(padded))
        claims: dict[str, Any] = {"num_batches": len(numbered), "order": items, "draws": draws}
        if not meta.draws:
            del claims["draws"]
        (folder / "meta.json").write_text(json.dumps(claims))
        if stop is not None:
            batch = self.count_saved(start, len(numbered))
            (folder / STATE_FILE).write_bytes(
                self.encode(Position(seed=seed, epoch=epoch, batch=batch))
            )


def write_scale_bundle(tree: Path) -> Path:
    """Write the tree of the bundle on loaders at scale."""
    for case in loader_scale.CASES:
        write_files(tree, _build_case_files(case, LESSON))
    return tree


def run_case(port: Port, case: Case, folder: Path) -> DumpResult:
    """Run one case of a port into ``folder / case``, with the state that it loads beside it."""
    place = folder / case.id
    place.mkdir(parents=True)
    stderr, code = "", 0
    state = None
    if case.load_from:
        saved = folder / case.load_from / STATE_FILE
        if not saved.is_file():
            return DumpResult.fail(place, "state-missing", "no state", None)
        state = DAMAGES.get(case.damage, bytes)(saved.read_bytes())
    try:
        port.run(case, dict(case.placeholders), place, state)
    except RejectionError as error:
        stderr, code = f"error: {error}", 1
    ended = ProcessResult((), code, None, False, "", stderr, 0.0)
    found = explain_exit(
        ended, has_output=True, timeout_reason="", repo=place, cwd=place, where=None
    )
    snapshot = take_snapshot(place)
    return DumpResult(folder=place, findings=found, process_result=ended, snapshot=snapshot)


def verify_port(
    port: Port, tree: Path, folder: Path, *, order: str = "exact", cases: str = "*"
) -> dict[str, CaseResult]:
    """Return the result of each of the ``cases``, a pattern, of a bundle for ``port``."""
    chosen = tuple(
        case for case in SUITE.cases(tree, {"order": order}) if fnmatchcase(case.id, cases)
    )
    prepared = PreparedBundle(
        bundle=Bundle(id=loader_scale.BUNDLE_ID, suite="pipeline", source="", dump=Dump()),
        suite=SUITE,
        tree=tree,
        tree_digest="",
        cases=chosen,
        all_cases=chosen,
        bounds={case.id: case.tolerances for case in chosen},
        findings=(),
        seconds=0.0,
    )
    evaluator = CaseEvaluator(prepared, lambda _case, _control: "")
    for case in sorted(chosen, key=lambda case: len(prepared.list_loaded(case))):
        evaluator.add(case, run_case(port, case, folder))
    return {result.case: result for result in evaluator.finish_results(lambda _result: None)}
