"""Propose changes of complex numbers: of their parts, and those of both parts alike."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.diagnose.float_transforms import (
    MIN_DISTINCT,
    ULPS,
    make_transform,
    propose_fitted,
    propose_roundings,
    propose_signs,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from parity.diagnose.hypothesis import Transform


def propose_complex(expected: NDArray[Any], obtained: NDArray[Any]) -> Iterator[Transform]:
    """Yield transforms of complex numbers, then those of both parts alike."""
    if expected.imag.any():
        how = "after conjugating the reference"
        yield make_transform("conjugated", "every number is conjugated", how, np.conj)
        how = "after exchanging the parts of the reference"
        text = "real and imaginary part are exchanged"
        yield make_transform("parts-exchanged", text, how, _exchange_parts)
        how = "after setting the imaginary part of the reference to 0"
        text = "the imaginary part is 0 everywhere"
        yield make_transform("imaginary-lost", text, how, _drop_imaginary)
    if expected.real.any():
        how = "after setting the real part of the reference to 0"
        yield make_transform("real-lost", "the real part is 0 everywhere", how, _drop_real)
    parts = np.ascontiguousarray(expected).view("<f4"), np.ascontiguousarray(obtained).view("<f4")
    for transform in (
        *propose_roundings("F32"),
        *propose_signs(parts[0]),
        *propose_fitted(*parts),
    ):
        yield replace(transform, apply=partial(_apply_to_parts, change=transform.apply))
    yield from _propose_rotation(expected, obtained)


def _apply_to_parts(
    chunk: NDArray[Any], change: Callable[[NDArray[Any]], NDArray[Any]]
) -> NDArray[Any]:
    flat = np.ascontiguousarray(chunk)
    return np.ascontiguousarray(change(flat.view("<f4"))).view("<c8").reshape(chunk.shape)


def _exchange_parts(chunk: NDArray[Any]) -> NDArray[Any]:
    flat = np.ascontiguousarray(chunk).view("<f4").reshape(-1, 2)[:, ::-1]
    return np.ascontiguousarray(flat).view("<c8").reshape(chunk.shape)


def _drop_imaginary(chunk: NDArray[Any]) -> NDArray[Any]:
    return chunk.real.astype(chunk.dtype)


def _drop_real(chunk: NDArray[Any]) -> NDArray[Any]:
    found = np.zeros_like(chunk)
    found.imag = chunk.imag
    return found


def _propose_rotation(expected: NDArray[Any], obtained: NDArray[Any]) -> Iterator[Transform]:
    """Yield a complex factor, fitted to the largest element."""
    finite = np.isfinite(expected) & np.isfinite(obtained)
    left, right = expected[finite].astype(complex), obtained[finite].astype(complex)
    if len(np.unique(left)) < MIN_DISTINCT or not left.any():
        return
    top = int(np.abs(left).argmax())
    factor = complex(right[top] / left[top])
    short = complex(*(float(f"{part:.4g}") + 0.0 for part in (factor.real, factor.imag)))
    for one in dict.fromkeys((short, factor)):
        if one.imag and np.isfinite(one):
            text = f"every number is multiplied by {one:.6g}"
            how = f"after multiplying the reference by {one:.6g}"
            yield make_transform("factor", text, how, partial(_rotate, factor=one), ulps=ULPS)


def _rotate(chunk: NDArray[Any], factor: complex) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return (chunk.astype(complex) * factor).astype(chunk.dtype)
