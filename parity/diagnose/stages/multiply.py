"""Compute products, lookups, linear algebra and Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from parity.diagnose.stages.base import MAX_BINS, Array, Function, check_product, check_size
from parity.diagnose.stages.reduce import norm


def linear(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    turned: bool = False,
    reshaped: bool = False,
    times: int = 1,
) -> Array:
    """Return ``input @ weight.T + times * bias``, or with the weight ``turned`` or ``reshaped``."""
    matrix = weight if turned else weight.T
    if reshaped:
        matrix = weight.reshape(weight.T.shape)
    check_product(input, matrix)
    product = input @ matrix
    return product if bias is None else product + times * bias


def matmul(input: Array, other: Array, *, turned: str = "") -> Array:
    """Return the matrix product; ``turned`` transposes the ``input`` or the ``other`` first."""
    first = input.mT if turned == "input" else input
    second = other.mT if turned == "other" else other
    check_product(first, second)
    return first @ second


def addmm(
    input: Array, mat1: Array, mat2: Array, beta: float = 1, alpha: float = 1, *, times: int = 1
) -> Array:
    """Return ``beta * input + alpha * mat1 @ mat2``."""
    check_product(mat1, mat2)
    return times * (beta * input if beta else 0) + alpha * (mat1 @ mat2)


def embedding(
    weight: Array,
    indices: Array,
    padding_idx: int = -1,
    *,
    shift: int = 0,
    zeroed: bool = False,
    root: int = 0,
) -> Array:
    """Return rows of ``weight``; ``root`` 1 or -1 multiplies or divides by the root of d.

    ``zeroed`` gives zeros for ``padding_idx``.
    """
    check_size(*indices.shape, *weight.shape[1:])
    indices = indices.astype(np.int64)
    rows = weight[(indices + shift) % len(weight)] * sqrt(weight.shape[-1]) ** root
    return np.where((indices == padding_idx)[..., None], 0, rows) if zeroed else rows


def embedding_bag(
    weight: Array,
    indices: Array,
    offsets: Array | None = None,
    mode: int = 0,
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
    *,
    shift: int = 0,
) -> Array:
    """Return the sum (mode 0), mean (1) or maximum (2) of the rows of each bag."""
    bags = _split_bags(indices.astype(np.int64), offsets, last=include_last_offset)
    factors = _split_bags(
        np.ones(indices.size) if per_sample_weights is None else per_sample_weights.ravel(),
        np.cumsum([0, *map(len, bags[:-1])]),
        last=False,
    )
    check_size(len(bags), limit=MAX_BINS)
    check_size(max(indices.size, len(bags)), weight.shape[1])
    result = np.zeros((len(bags), weight.shape[1]))
    for at, (bag, factor) in enumerate(zip(bags, factors, strict=True)):
        kept = np.ones(len(bag), bool) if padding_idx is None else bag != padding_idx
        if kept.any():
            values = weight[(bag[kept] + shift) % len(weight)] * factor[kept, None]
            result[at] = (np.sum, np.mean, np.max)[mode](values, axis=0)
    return result


def _split_bags(values: Array, offsets: Array | None, *, last: bool) -> list[Array]:
    if offsets is None:
        return list(values)
    starts = offsets.astype(np.int64)[: len(offsets) - last]
    return np.split(values.ravel(), starts[1:])


def _transform(function: Any, *, real: bool = False, complex: bool = True) -> Function:
    """Return a Fourier transform; complex numbers have a last axis of real and imaginary part."""

    def transform(
        input: Array, n: int | None = None, dim: int = -1, norm: str = "backward"
    ) -> Array:
        check_size(*input.shape, n or 1)
        values = input if real else input[..., 0] + 1j * input[..., 1]
        found = function(values, n, dim, norm)
        return np.stack([found.real, found.imag], -1) if complex else found

    return transform


def triangular_solve(
    A: Array, B: Array, upper: bool, left: bool = True, unitriangular: bool = False
) -> Array:
    """Solve ``A @ X = B``, or ``X @ A = B`` where not ``left``; reads one triangle of A."""
    matrix = np.triu(A) if upper else np.tril(A)
    if unitriangular:
        matrix = matrix - matrix * np.eye(len(A)) + np.eye(len(A))
    return np.linalg.solve(matrix, B) if left else np.linalg.solve(matrix.mT, B.mT).mT


def einsum(operands: Sequence[Array], equation: str) -> Array:
    """Return a sum of products."""
    sizes = {
        (letter, size)
        for term, one in zip(equation.partition("->")[0].split(","), operands, strict=True)
        for letter, size in zip(term.strip(), one.shape, strict=False)
    }
    check_size(*(size for _, size in sizes))
    return np.einsum(equation, *operands)


TABLE: dict[str, Function] = {
    "mv": lambda input, vec: matmul(input, vec),
    "dot": lambda input, tensor: matmul(input, tensor),
    "outer": lambda input, vec2: matmul(input[:, None], vec2[None]),
    "baddbmm": lambda input, batch1, batch2, **rest: addmm(input, batch1, batch2, **rest),
    "solve": lambda A, B: np.linalg.solve(A, B),
    "cholesky": lambda input, upper=False: (np.matrix_transpose if upper else np.asarray)(
        np.linalg.cholesky(input)
    ),
    "cross": lambda input, other, dim=-1: np.cross(input, other, axis=dim),
    "cdist": lambda x1, x2, p=2.0: norm(x1[..., :, None, :] - x2[..., None, :, :], p, -1),
    "fft": _transform(np.fft.fft),
    "ifft": _transform(np.fft.ifft),
    "rfft": _transform(np.fft.rfft, real=True),
    "irfft": _transform(np.fft.irfft, complex=False),
    "fftshift": lambda input, dim=None: np.fft.fftshift(input, dim),
    "ifftshift": lambda input, dim=None: np.fft.ifftshift(input, dim),
}
