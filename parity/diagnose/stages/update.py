"""Compute steps of training in NumPy; keyword arguments after ``*`` select known mistakes.

Definitions: the algorithms in the documentation of ``torch.optim``. A step takes a parameter,
its gradient and the state before the step, and returns the parameter afterwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any  # of NumPy; a number has no axes


def gradient(input: Array, earlier: Array | None = None, *, accumulated: bool = False) -> Array:
    """Return the right gradient, plus that of the step before, ``earlier``, if ``accumulated``."""
    return input + earlier if accumulated and earlier is not None else input


def sgd(
    param: Array,
    grad: Array,
    momentum_buffer: Array | None = None,
    lr: float = 1e-3,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    maximize: bool = False,
    *,
    decoupled: bool = False,
    zero_start: bool = False,
) -> Array:
    """Step by SGD; ``momentum_buffer`` is None before the first step.

    ``zero_start`` begins with a momentum of zero, so that dampening applies to the first step.
    """
    grad = -grad if maximize else grad
    if weight_decay and not decoupled:
        grad = grad + weight_decay * param
    if momentum:
        first = momentum_buffer is None
        old = np.zeros_like(grad) if momentum_buffer is None else momentum_buffer
        taken = 1 if first and not zero_start else 1 - dampening
        buffer = momentum * old + taken * grad
        grad = grad + momentum * buffer if nesterov else buffer
    shrunk = param * (1 - lr * weight_decay) if decoupled else param
    return shrunk - lr * grad


def adam(
    param: Array,
    grad: Array,
    exp_avg: Array | None = None,
    exp_avg_sq: Array | None = None,
    step: int = 1,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    maximize: bool = False,
    *,
    decoupled: bool = False,
    corrected: bool = True,
    inside: bool = False,
    early: bool = False,
) -> Array:
    """Step by Adam; ``step`` counts from 1, the averages are those before the step.

    Args:
        decoupled: Weight decay shrinks the parameter, not the gradient (AdamW).
        corrected: Averages are divided by ``1 - beta ** step``.
        inside: ``eps`` is added below the root.
        early: ``eps`` is added before the second average is corrected.
    """
    grad = -grad if maximize else grad
    if decoupled:
        param = param * (1 - lr * weight_decay)
    else:
        grad = grad + weight_decay * param
    first = betas[0] * (0 if exp_avg is None else exp_avg) + (1 - betas[0]) * grad
    second = betas[1] * (0 if exp_avg_sq is None else exp_avg_sq) + (1 - betas[1]) * grad * grad
    one, two = (1 - beta**step if corrected else 1.0 for beta in betas)
    if early:
        return param - lr / one * first / ((np.sqrt(second) + eps) / np.sqrt(two))
    root = np.sqrt(second / two + eps) if inside else np.sqrt(second / two) + eps
    return param - lr * (first / one) / root


def adamw(
    param: Array, grad: Array, *, decoupled: bool = True, weight_decay: float = 1e-2, **rest: Any
) -> Array:
    """Step by AdamW."""
    return adam(param, grad, decoupled=decoupled, weight_decay=weight_decay, **rest)
