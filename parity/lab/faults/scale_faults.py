"""Faults of loaders at scale: shares of ranks, random draws, saved states."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from parity.bundle.layout import PipelineCase, find_batch_files
from parity.items.records import PADDING_ID, Dataset
from parity.lab.faults import Fault, make_fault, make_file_fault
from parity.lab.faults.loader_runs import deliver, inject_run
from parity.lab.reference_pipeline import Pipeline, build_pipeline
from parity.port.dump_folder import STATE_FILE
from parity.tensors.bin import read_batch


def write_statements(meta: PipelineCase, folder: Path) -> None:
    """Write the state and the draws that a case asks for, beside the batches in ``folder``."""
    files = find_batch_files(folder)
    if not files:
        _write_draws(folder, [])
    elif meta.draws:
        ids = [column for path in files.values() for column in read_batch(path)[0].tolist()]
        _write_draws(folder, [_draw(meta.seed, meta.epoch, one) for one in ids])
    if meta.stop_after is not None:
        (folder / STATE_FILE).write_bytes(_encode_state(meta, meta.start_batch + len(files)))


def _draw(seed: int, epoch: int, item: float) -> float:
    if item == PADDING_ID:
        return 0.0
    digest = hashlib.sha256(f"{seed} {epoch} {item:g}".encode()).hexdigest()
    return int(digest[:13], 16) / 2**52


def _write_draws(folder: Path, draws: list[float]) -> None:
    count = len(find_batch_files(folder))
    (folder / "meta.json").write_text(json.dumps({"num_batches": count, "draws": draws}))


def _encode_state(meta: PipelineCase, batch: int) -> bytes:
    return f"{meta.seed} {meta.epoch} {batch}".encode()


def list_scale_faults(meta: PipelineCase, data: Dataset) -> Iterator[Fault]:
    """List the faults that may apply to a case."""
    pipeline = build_pipeline(meta, data)
    if meta.rank is not None and meta.stop_after is None and not meta.load_from:
        yield from _list_rank_faults(meta, pipeline)
    if meta.draws:
        yield from _list_draw_faults(meta)
    if meta.stop_after is not None:
        yield from _list_state_faults(meta)
    if meta.load_from:
        yield from _list_load_faults(meta, pipeline)


def _make_run_fault(
    meta: PipelineCase, name: str, text: str, codes: str, pipeline: Pipeline, **key: int
) -> Fault:
    """Make the fault of a port that delivers the run of another key or configuration."""
    settings = {"seed": meta.seed, "epoch": meta.epoch, "batch": meta.start_batch, **key}

    inject = partial(inject_run, lambda _: deliver(pipeline, meta.stop_after, **settings))
    return Fault(name=name, text=text, codes=tuple(codes.split()), inject=inject)


def _list_rank_faults(meta: PipelineCase, pipeline: Pipeline) -> Iterator[Fault]:
    make = partial(_make_run_fault, meta)
    shares = "rank-overlap rank-missing rank-batches"
    other = replace(pipeline, rank=(pipeline.rank + 1) % meta.world)
    yield make(
        "rank-ignored", "every rank delivers all", shares, replace(pipeline, world=1, rank=0)
    )
    yield make("rank-exchanged", "a rank delivers another one's share", shares, other)
    yield make(
        "rank-in-seed", "each rank has a seed of its own", shares, pipeline, seed=meta.seed + 1
    )
    for shortfall in ("fill", "trim", "uneven"):
        wrong = replace(pipeline, shortfall=shortfall)
        if len(wrong.compute_share(0, 0)) != len(pipeline.compute_share(0, 0)):
            text = f"shares are divided as under {shortfall}"
            yield make(f"shortfall-{shortfall}", text, f"{shares} batch-count final-batch", wrong)


def _list_draw_faults(meta: PipelineCase) -> Iterator[Fault]:
    def change(edit: Callable[[list[float], list[float]], Iterable[float]], folder: Path) -> None:
        files = find_batch_files(folder).values()
        ids = [one for path in files for one in read_batch(path)[0].tolist()]
        draws = [_draw(meta.seed, meta.epoch, one) for one in ids]
        _write_draws(folder, list(edit(ids, draws)))

    def fix(ids: list[float], _draws: list[float]) -> list[float]:
        return [_draw(17, 0, one) for one in ids]

    rows: list[tuple[str, str, str, Callable[[list[float], list[float]], Iterable[float]]]] = [
        ("draws-missing", "no draw is stated", "draws-missing", lambda *_: ()),
        ("draws-shared", "two items have one draw", "draws-shared", lambda _, d: [d[-1], *d[1:]]),
    ]
    if (meta.seed, meta.epoch) == (17, 0):  # other cases have the same draws
        text = "the draw is that of a place"
        rows.append(("draws-by-place", text, "draws-changed", lambda _, draws: draws[::-1]))
    else:
        rows.append(("draws-fixed", "each epoch draws the same", "draws-fixed", fix))
    for name, text, code, edit in rows:
        yield make_fault(name, text, code, partial(change, edit), "meta.json")


def _list_state_faults(meta: PipelineCase) -> Iterator[Fault]:
    make = partial(make_file_fault, file=STATE_FILE)
    yield make("state-missing", "no state is written", "state-missing", Path.unlink)
    loaded = _encode_state(meta, meta.start_batch)
    if meta.load_from and meta.stop_after == 0:
        text = "a state that is loaded and saved at once is another one"
        change = partial(Path.write_bytes, data=loaded + b" again")
        yield make("state-changed", text, "state-changed", change)
    elif meta.load_from:
        change = partial(Path.write_bytes, data=loaded)
        text = "the state is the one that was loaded"
        yield make("state-frozen", text, "state-constant", change)


def _list_load_faults(meta: PipelineCase, pipeline: Pipeline) -> Iterator[Fault]:
    make = partial(_make_run_fault, meta)
    start = meta.start_batch
    codes = "resume-start batch-missing"
    if start:
        yield make("load-ignored", "the epoch begins again", codes, pipeline, batch=0)
        yield make("load-early", "the run repeats a batch", codes, pipeline, batch=start - 1)
        yield make("load-late", "the run skips a batch", codes, pipeline, batch=start + 1)
        why = "order resume-order other-epoch"
        yield make(
            "load-reshuffled", "the shuffle is drawn anew", why, pipeline, seed=meta.seed + 9
        )
    elif meta.epoch:
        why = "order other-epoch item-not-due"
        yield make(
            "epoch-again", "the ended epoch begins again", why, pipeline, epoch=meta.epoch - 1
        )
