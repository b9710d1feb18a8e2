"""Find out why an exported MLP computes something else: its forward pass with known mistakes.

A mistake is named where it gives the obtained outputs on all inputs, and other outputs than the
reference's on at least one. Two mistakes at once are tried, too.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from parity.diagnose.cause import Cause
from parity.diagnose.onnx_mistakes import (
    Mlp,
    MlpMistake,
    list_mistakes,
    list_rare_mistakes,
    make_factor_mistake,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def find_mlp_mistake(
    weights: list[NDArray[np.float32]],
    inputs: Mapping[str, NDArray[np.float32]],
    expected: Mapping[str, NDArray[np.float32]],
    obtained: Mapping[str, NDArray[np.float32]],
    tolerance: float,
) -> Cause | None:
    """Find the mistake that gives the obtained outputs.

    Args:
        weights: The four arrays of the MLP.
        inputs: ``[1, in]`` by name; the outputs have the same names.
        expected: The reference's outputs.
        obtained: The model's outputs.
        tolerance: Largest difference, absolute.
    """
    names = [name for name in inputs if name in obtained]
    if len(names) < len(inputs) or any(obtained[n].shape != expected[n].shape for n in names):
        return None
    mlp = Mlp.of(weights)
    x, right, wrong = (
        np.concatenate([np.asarray(side[name], np.float64) for name in names])
        for side in (inputs, expected, obtained)
    )
    for code, text, candidate in _propose_mlps(mlp, x, wrong):
        output = candidate(x)
        if _is_close(output, wrong, tolerance) and not _is_close(output, right, tolerance):
            evidence = (
                f"computed in that way, all outputs on {len(names)} inputs "
                f"({', '.join(names)}) are the obtained ones"
            )
            return Cause(code, text, evidence)
    return None


def _is_close(one: Array, other: Array, tolerance: float) -> bool:
    with np.errstate(all="ignore"):
        gap = np.abs(one - other)
        return bool((gap <= tolerance + 1e-6 * np.abs(one)).all())


def _propose_mlps(mlp: Mlp, x: Array, obtained: Array) -> Iterator[tuple[str, str, Mlp]]:
    """Yield MLPs with one mistake, then those with two."""
    single = list_mistakes(mlp)
    for one in (*single, *list_rare_mistakes(mlp), *_fit_factors(mlp, x, obtained)):
        yield one.code, one.text, one.make(mlp)
    for one, other in combinations(single, 2):
        text = f"two causes at once: {one.text}, and {other.text}"
        yield f"{one.code}+{other.code}", text, other.make(one.make(mlp))


def _fit_factors(mlp: Mlp, x: Array, obtained: Array) -> Iterator[MlpMistake]:
    """Fit the factors of each Gemm: alpha of its product, beta of its bias."""
    with np.errstate(all="ignore"):
        product = mlp.hidden(x @ mlp.weight1.T + mlp.bias1) @ mlp.weight2.T
    bias = np.broadcast_to(mlp.bias2, product.shape)
    finite = bool(np.isfinite(product).all() and np.isfinite(obtained).all())
    if finite and obtained.size > 2:  # noqa: PLR2004 - two unknowns, and one more that proves them
        columns = np.column_stack((product.ravel(), bias.ravel()))
        (alpha, beta), *_ = np.linalg.lstsq(columns, obtained.ravel(), rcond=None)
        for one, other in ((alpha, alpha), (alpha, 1.0), (1.0, beta), (alpha, beta)):
            yield make_factor_mistake(2, _round_factor(one), _round_factor(other))
    for factor in _FACTORS:
        for one, other in ((factor, factor), (factor, 1.0), (1.0, factor)):
            yield make_factor_mistake(1, one, other)


#: Factors that are tried on the first layer, whose ReLU hides the exact one.
_FACTORS = (2.0, 0.5, -1.0, 0.1, 10.0, 0.25, 4.0, 0.0)


def _round_factor(factor: float) -> float:
    """Return the short decimal that a factor was meant to be, where it is close to one."""
    short = float(f"{factor:.4g}")
    return short if abs(short - factor) <= 1e-5 * abs(factor) else float(factor)
