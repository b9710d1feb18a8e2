"""Records of an input pipeline, their fingerprint, order and mean, each a function of plain data.

Orders are NumPy's (``numpy.random.SeedSequence``, ``Generator.permutation``), whose stream may
change in a later version: a recorded order belongs to a recorded version.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

#: A last batch that is not full is delivered as it is, omitted, or filled up with masked slots.
Policy = Literal["keep", "drop", "pad"]
POLICIES: tuple[Policy, ...] = ("keep", "drop", "pad")
#: Treatment of items that do not divide into equal shares of ranks: the order is filled up by its
#: own beginning, or its end is left out (both as torch's DistributedSampler has it), or the first
#: shares have one item more.
Shortfall = Literal["fill", "trim", "uneven"]
SHORTFALLS: tuple[Shortfall, ...] = ("fill", "trim", "uneven")
PADDING_ID = -1  # Id of a padded slot; no record may have it


@dataclass(frozen=True, eq=False)
class Dataset:
    """Records in a fixed order, each identified by its id, not by its position.

    The arrays, all ``[n]``, are copied and made read-only, so that a fingerprint stays true.

    Raises:
        ValueError: Lengths differ, an array is not one-dimensional, an id is repeated or negative.
        TypeError: The ids are not integers.
    """

    ids: NDArray[np.int64]
    x: NDArray[np.float32]
    y: NDArray[np.float32]

    def __post_init__(self) -> None:
        for name, dtype in (("ids", np.int64), ("x", np.float32), ("y", np.float32)):
            # Same kind: a plain cast would turn 1.5 into the id 1.
            column = np.asarray(getattr(self, name)).astype(dtype, casting="same_kind")
            column.setflags(write=False)
            object.__setattr__(self, name, column)
        shapes = {"ids": self.ids.shape, "x": self.x.shape, "y": self.y.shape}
        if len(set(shapes.values())) > 1 or self.ids.ndim != 1:
            message = f"ids, x and y must be vectors of one length, obtained shapes {shapes}"
            raise ValueError(message)
        values, counts = np.unique(self.ids, return_counts=True)
        if duplicates := values[counts > 1].tolist():
            raise ValueError(f"ids must be unique, these are not: {duplicates}")
        if negative := values[values < 0].tolist():
            raise ValueError(f"ids must not be negative ({PADDING_ID} marks padding): {negative}")

    def __len__(self) -> int:
        return len(self.ids)


def compute_fingerprint(dataset: Dataset, columns: Iterable[str] = ("x", "y")) -> str:
    """Compute 64 hex digits that change with any edit or reordering of ``columns``.

    SHA-256 over, column by column, the dtype's name, the shape as Python writes it, and the bytes
    in row-major order. The default is the lesson's digest, without the ids; a ``Cursor`` uses all
    three columns.
    """
    digest = hashlib.sha256()
    for name in columns:
        column = getattr(dataset, name)
        digest.update(str(column.dtype).encode())
        digest.update(str(column.shape).encode())
        digest.update(column.tobytes())
    return digest.hexdigest()


def compute_epoch_order(n: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """Compute the order in which an epoch visits ``n`` records: indices, ``[n]``.

    No generator is kept between epochs, so that an interrupted or repeated epoch changes no
    other. Seeds and epochs of 2**32 and more are split into 32-bit words and may meet others:
    [5 + 2**32, 7] gives the order of [5, 1 + 7 * 2**32].

    Raises:
        ValueError: ``n``, ``seed`` or ``epoch`` is negative.
    """
    for name, value in (("n", n), ("seed", seed), ("epoch", epoch)):
        if value < 0:
            raise ValueError(f"{name} must not be negative, obtained {value}")
    generator = np.random.default_rng(np.random.SeedSequence([seed, epoch]))
    return generator.permutation(n).astype(np.int64)


def compute_masked_mean(values: NDArray[np.floating], mask: NDArray[np.bool_]) -> float | None:
    """Compute the mean over the real observations, None where there is none.

    Dividing by the number of slots would count padding as observations of zero. The exact sum is
    rounded once, so that the order of the records does not matter. Both arrays are ``[n]``.

    Raises:
        ValueError: The shapes differ.
    """
    if values.shape != mask.shape:
        raise ValueError(f"a value needs a mask each, obtained {values.shape} and {mask.shape}")
    real = values[mask].astype(np.float64).tolist()
    return math.fsum(real) / len(real) if real else None
