"""Faults of the key of an epoch's order: seed or epoch is lost on the way to the generator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from parity.lab.faults.loader_runs import DeliveredRun
from parity.lab.reference_pipeline import Pipeline


class OrderKey(NamedTuple):
    """Seed and epoch, which decide an order; a port may forget them in a resumed run."""

    seed: int
    epoch: int
    is_resumed: bool = False


class KeyFault(NamedTuple):
    """A port that draws the order of another key, and the run that it then delivers."""

    name: str
    text: str
    run: DeliveredRun


#: By name, the port's mistake and the key whose order it draws; a fixed seed is 17.
KEY_FAULTS: dict[str, tuple[str, Callable[[OrderKey], tuple[int, int]]]] = {
    "seed-ignored": ("the seed is ignored", lambda k: (17, k.epoch)),
    "seed-ignored-later": (
        "the seed is ignored from epoch 1 on",
        lambda k: (17 if k.epoch else k.seed, k.epoch),
    ),
    "seed-8-bits": ("the seed is cut to 8 bits", lambda k: (k.seed % 2**8, k.epoch)),
    "seed-32-bits": ("the seed is cut to 32 bits", lambda k: (k.seed % 2**32, k.epoch)),
    "epoch-ignored": ("the epoch is ignored", lambda k: (k.seed, 0)),
    "epoch-clipped": ("each epoch after the first is epoch 1", lambda k: (k.seed, min(k.epoch, 1))),
    "epoch-one-bit": ("only the epoch's lowest bit is used", lambda k: (k.seed, k.epoch % 2)),
    "epoch-8-bits": ("the epoch is cut to 8 bits", lambda k: (k.seed, k.epoch % 2**8)),
    "key-exchanged": ("seed and epoch are exchanged", lambda k: (k.epoch, k.seed)),
    "key-added": ("seed and epoch are added up", lambda k: (k.seed + k.epoch, 0)),
    "resume-seed-fixed": (
        "a resumed run takes another seed's order",
        lambda k: (17 if k.is_resumed else k.seed, k.epoch),
    ),
    "resume-epoch-0": (
        "a resumed run takes epoch 0's order",
        lambda k: (k.seed, 0 if k.is_resumed else k.epoch),
    ),
}


def make_faulty_runs(pipeline: Pipeline, key: OrderKey, start: int) -> Iterator[KeyFault]:
    """Yield the run from batch ``start`` on of a port with each fault, for ``key``.

    A fault that leaves the key as it is leaves the run so, too.
    """
    for name, (text, change) in KEY_FAULTS.items():
        seed, epoch = change(key)
        cursor = pipeline.start(seed=seed, epoch=epoch, batch=start)
        batches = [batch for batch, _ in pipeline.run(cursor)]
        columns = (np.concatenate(parts).astype("<f4") for parts in zip(*batches, strict=True))
        sizes = tuple(len(batch.ids) for batch in batches)
        yield KeyFault(name, text, DeliveredRun(tuple(columns), sizes, start))
