"""Measures of vectors: relative norm, direction up to sign, and moments of random results."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from parity.tensors.groups.base import (
    Condition,
    Group,
    Measure,
    Outcome,
    Setting,
    iterate_rows,
    locate_row,
    read_side,
)
from parity.tensors.paired_reads import read_chunks

MIN_DRAWS = 30  # Random results of fewer draws say nothing about a distribution


def compute_relative_norm(group: Group, settings: Mapping[str, Any]) -> Outcome:
    """Divide the norm of the difference by the expected norm, in float64."""
    (pair,) = group[""]
    gaps = sizes = 0.0
    wide = np.complex128 if pair.expected.dtype.kind == "complex" else np.float64
    with np.errstate(all="ignore"):
        for chunk in read_chunks(*pair, range(pair.expected.count)):
            expected = pair.expected.dtype.decode(chunk.expected).astype(wide)
            obtained = pair.obtained.dtype.decode(chunk.obtained).astype(wide)
            gaps += float(np.square(np.abs(obtained - expected)).sum())
            sizes += float(np.square(np.abs(expected)).sum())
    value = math.sqrt(gaps / sizes) if sizes else (0.0 if gaps == 0 else math.inf)
    if not math.isfinite(gaps + sizes):
        value = math.nan
    return Outcome((Condition("relative_norm", value, "<=", settings["max"]),))


def compute_cosine_columns(group: Group, settings: Mapping[str, Any]) -> Outcome:
    """Find the smallest cosine of a vector and its counterpart, whatever their signs are."""
    (pair,) = group[""]
    axis = settings["axis"]
    worst, largest, at = math.inf, 0.0, 0
    for start, expected, obtained in iterate_rows(pair, axis):
        with np.errstate(all="ignore"):
            dot = (expected * obtained).sum(axis=1)
            norms = [np.sqrt(np.square(side).sum(axis=1)) for side in (expected, obtained)]
            cosine = np.abs(dot) / (norms[0] * norms[1])
            zeros = norms[0] == 0, norms[1] == 0
            cosine = np.where(zeros[0] | zeros[1], (zeros[0] & zeros[1]) * 1.0, cosine)
            aligned = obtained * np.where(dot < 0, -1.0, 1.0)[:, None]
            gap = np.abs(aligned - expected).max(axis=1)
        cosine = np.where(np.isnan(cosine), -1.0, cosine)  # NaN is the worst of all
        if cosine.min() < worst:
            worst, at = float(cosine.min()), start + int(cosine.argmin())
        largest = max(largest, math.inf if np.isnan(gap).any() else float(gap.max()))
    if math.isinf(worst):
        return Outcome()
    conditions = [Condition("cosine", worst, ">=", settings["cosine"])]
    if settings["max_abs"] is not None:
        conditions.append(Condition("max_abs", largest, "<=", settings["max_abs"]))
    return Outcome(tuple(conditions), locate_row(at, pair.expected.shape, axis))


def compute_moments(group: Group, settings: Mapping[str, Any]) -> Outcome:
    """Compare the mean and the variance of all draws with the reference's."""
    (pair,) = group[""]
    with np.errstate(all="ignore"):
        sides = [read_side(side).astype(np.float64) for side in pair]
        found = {
            "mean": [float(side.mean()) if side.size else math.nan for side in sides],
            "variance": [float(side.var(ddof=1)) if side.size > 1 else math.nan for side in sides],
        }
    return Outcome(
        tuple(
            Condition(name, abs(values[1] - values[0]), "<=", settings[name])
            for name, values in found.items()
            if settings[name] is not None
        )
    )


RELATIVE_NORM = Measure(
    name="relative_norm",
    text="the norm of the difference, divided by the norm of the reference; an infinite or NaN "
    "element fails it",
    settings={"max": Setting("largest quotient", most=1.0)},
    compute=compute_relative_norm,
    kinds=("float", "complex"),
    memory="512 KiB of each side",
)
COSINE_COLUMNS = Measure(
    name="cosine_columns",
    text="the direction of each vector along `axis`, up to its sign, as eigenvectors have it",
    settings={
        "axis": Setting("axis that a vector runs along", "integer", 0, least=-32, most=31),
        "cosine": Setting("smallest cosine", most=1.0),
        "max_abs": Setting("largest difference after the signs are aligned", optional=True),
    },
    compute=compute_cosine_columns,
    ndim=1,
    memory="1 MiB of each side along the last axis, else both sides",
)
MOMENTS = Measure(
    name="moments",
    text="mean and variance of random draws, which are all elements",
    settings={
        "mean": Setting("largest difference of the means", optional=True),
        "variance": Setting("largest difference of the variances", optional=True),
    },
    compute=compute_moments,
    kinds=("float", "int"),
    count=MIN_DRAWS,
    shapes_differ=False,
    requires_one_of=("mean", "variance"),
)
