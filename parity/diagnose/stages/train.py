"""Compute losses, and steps of training as the documentation of ``torch.optim`` has them.

``reduction`` is ATen's number: 0 none, 1 mean, 2 sum; and 3 is the sum over the length of the
first axis (``batchmean``). A step takes a parameter, its gradient and the state before the step,
and returns the parameter afterwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from parity.diagnose.stages.base import Array, Function
from parity.diagnose.stages.nonlinear import log_softmax

_MEAN, _BATCH_MEAN = 1, 3


def _reduce(values: Array, reduction: int, count: float | None = None) -> Array:
    if not reduction:
        return values
    total = values.sum()
    if reduction == _BATCH_MEAN:
        return total / len(values)
    return total / (values.size if count is None else count) if reduction == _MEAN else total


def mse_loss(input: Array, target: Array, reduction: int = 1, *, factor: float = 1.0) -> Array:
    """Return the squared error, times ``factor``."""
    return factor * _reduce(np.square(input - target), reduction)


def l1_loss(input: Array, target: Array, reduction: int = 1) -> Array:
    """Return the absolute error."""
    return _reduce(np.abs(input - target), reduction)


def smooth_l1_loss(
    input: Array, target: Array, reduction: int = 1, beta: float = 1.0, *, huber: bool = False
) -> Array:
    """Return the squared error over twice ``beta`` below it, the absolute one above."""
    error = np.abs(input - target)
    values = np.where(error < beta, error * error / 2 / beta, error - beta / 2)
    return _reduce(values * (beta if huber else 1), reduction)


def binary_cross_entropy_with_logits(
    input: Array,
    target: Array,
    weight: Array | None = None,
    pos_weight: Array | None = None,
    reduction: int = 1,
    *,
    probabilities: bool = False,
    eps: float = 1e-12,
) -> Array:
    """Return the cross entropy of logits, or of ``probabilities`` from ``eps`` to ``1 - eps``."""
    if probabilities:
        inside = np.clip(input, eps, 1 - eps)
        positive, negative = (np.minimum(-np.log(one), 100) for one in (inside, 1 - inside))
    else:
        positive, negative = np.logaddexp(0, -input), np.logaddexp(0, input)
    values = target * positive * (1 if pos_weight is None else pos_weight) + (1 - target) * negative
    return _reduce(values if weight is None else values * weight, reduction)


def nll_loss(
    input: Array,
    target: Array,
    weight: Array | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    **ways: bool,
) -> Array:
    """Return ``-weight[t] * input[…, t]`` over the classes of axis 1 (or 0 of a vector).

    ``ways`` are those of ``_choose_classes``.
    """
    scores = np.moveaxis(np.atleast_2d(input), 1, -1)
    used, chosen, count = _choose_classes(target, weight, ignore_index, **ways)
    each = np.where(used, 1.0 if weight is None else weight[chosen], 0.0)
    values = -each * np.take_along_axis(scores, chosen[..., None], -1)[..., 0]
    return _reduce(values.reshape(np.shape(target)), reduction, count)


def _choose_classes(
    target: Array,
    weight: Array | None,
    ignored: int,
    *,
    counted: bool = False,
    unweighted: bool = False,
    as_first: bool = False,
) -> tuple[Array, Array, float]:
    """Return which items are used, their classes, and what a mean divides by.

    ``counted`` divides by all items, ``unweighted`` by their number and not their weights; if
    ``as_first``, an ignored item is one of class 0.
    """
    classes = np.atleast_1d(target).astype(np.int64)
    used = (classes != ignored) | as_first
    chosen = np.where(classes == ignored, 0, classes)
    if counted:
        return used, chosen, used.size
    if unweighted or weight is None:
        return used, chosen, used.sum()
    return used, chosen, np.where(used, weight[chosen], 0.0).sum()


def cross_entropy_loss(
    input: Array,
    target: Array,
    weight: Array | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    *,
    probabilities: bool = False,
    before: bool = False,
    **ways: bool,
) -> Array:
    """Return the cross entropy of logits, after a softmax (``before``), or of ``probabilities``."""
    axis = 0 if input.ndim == 1 else 1
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.log(input) if probabilities else log_softmax(input, axis, before=before)
    if target.dtype.kind == "f" and target.shape == input.shape:
        size = input.shape[axis]
        target = target * (1 - label_smoothing) + label_smoothing / size
        each = -(
            target * logs * (1 if weight is None else weight.reshape(-1, *(1,) * (input.ndim - 2)))
        )
        return _reduce(each.sum(axis), reduction)
    plain = nll_loss(logs, target, weight, reduction, ignore_index, **ways)
    if not label_smoothing:
        return plain
    return (1 - label_smoothing) * plain + label_smoothing * _smooth(
        logs, target, weight, reduction, ignore_index, **ways
    )


def _smooth(
    logs: Array, target: Array, weight: Array | None, reduction: int, ignored: int, **ways: bool
) -> Array:
    """Return the mean over all classes of the loss, as torch weighs it."""
    rows = np.moveaxis(np.atleast_2d(logs), 1, -1)
    used, _, count = _choose_classes(target, weight, ignored, **ways)
    factors = np.ones(rows.shape[-1]) if weight is None else weight
    values = np.where(used, -(rows * factors).sum(-1), 0.0) / rows.shape[-1]
    return _reduce(values.reshape(np.shape(target)), reduction, count)


def kl_div(input: Array, target: Array, reduction: int = 1, log_target: bool = False) -> Array:
    """Return ``target * (log target - input)``."""
    if log_target:
        return _reduce(np.exp(target) * (target - input), reduction)
    return _reduce(np.where(target > 0, target * (np.log(target) - input), 0.0), reduction)


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

    ``eps`` is added below the root if ``inside``, before the bias correction if ``early``.
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


TABLE: dict[str, Function] = {
    "huber_loss": lambda input, target, reduction=1, delta=1.0, *, huber=True: smooth_l1_loss(
        input, target, reduction, delta, huber=huber
    ),
    "binary_cross_entropy": lambda input, target, weight=None, reduction=1, *, eps=0.0: (
        binary_cross_entropy_with_logits(
            input, target, weight, None, reduction, probabilities=True, eps=eps
        )
    ),
}
