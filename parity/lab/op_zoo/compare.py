"""Compare two results of one call: what torch computes with its witness, or with a reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from parity.lab.array_files import to_array
from parity.lab.op_zoo.arrays import encode
from parity.lab.zoo.case import ExpectedTensor
from parity.tensors.dtypes import DTYPES
from parity.tensors.elements import resolve_close

_SHARE = 0.1  # Of a tolerance, by which two references may differ


def round_like(values: Any, expected: ExpectedTensor) -> ExpectedTensor:
    """Round a witness's values to the dtype of torch's.

    Floats with a fraction, and numbers other than 0 and 1 for booleans, become float64.
    """
    array = np.asarray(values)
    if expected.dtype == "BOOL" or (array.dtype.kind == "f" and expected.dtype[0] in "IU"):
        with np.errstate(invalid="ignore"):
            whole = array.astype(bool if expected.dtype == "BOOL" else np.int64)
        if not np.array_equal(whole, array):
            return ExpectedTensor("F64", array.shape, array.astype("<f8").tobytes())
    return encode(array, expected.dtype.lower())


def find_difference(
    expected: ExpectedTensor, other: ExpectedTensor, bounds: Mapping[str, float]
) -> str:
    """Say how another result differs beyond a tenth of the tolerance and a rounding, or ``""``."""
    if expected[:2] != other[:2]:
        return f"{other.dtype} {list(other.shape)}, not {expected.dtype} {list(expected.shape)}"
    one, two = to_array(expected), to_array(other)
    same = np.equal(one, two)
    if one.dtype.kind == "f":
        same |= np.isnan(one) & np.isnan(two)
    if bounds.get("exact"):
        same &= np.signbit(one) == np.signbit(two) if one.dtype.kind == "f" else True
    elif one.dtype.kind == "f":
        with np.errstate(all="ignore"):
            gap = np.abs(one.astype(np.float64) - two)
            same |= gap <= compute_allowed(one.astype(np.float64), expected.dtype, bounds)
    if np.all(same):
        return ""
    at = tuple(int(each[0]) for each in np.nonzero(~same)) if same.ndim else ()
    return f"{two[at]!r}, not {one[at]!r}, at {list(at)}"


def compute_allowed(values: Any, dtype: str, bounds: Mapping[str, float]) -> Any:
    """Return a tenth of the tolerance of each element, and at least a unit in the last place."""
    kind = DTYPES[dtype]
    size = np.maximum(np.abs(values), kind.smallest_normal)
    step = np.ldexp(kind.epsilon, np.frexp(size)[1] - 1)
    bounds = resolve_close(bounds, kind)
    parts = bounds.get("atol", 0.0) + (bounds.get("rtol", 0.0) + bounds.get("relative", 0.0)) * size
    if bounds.get("ulp") == 0:
        return np.zeros_like(values)
    finite = np.isfinite(values)
    return np.where(
        finite, np.maximum(_SHARE * parts, step * max(1.0, _SHARE * bounds.get("ulp", 0))), 0
    )
