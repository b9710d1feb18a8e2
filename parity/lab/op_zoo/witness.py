"""Compute operators a second time, in NumPy: the witness of what torch computes.

Floats are float64 when a function of `_WIDE` gets them, in their own dtype for those of `_OWN`;
an operator of neither is computed by ``parity.diagnose.stages``. Definitions: the documentation
of torch and of NumPy, DLMF for the special functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from parity.diagnose.stages.operators import compute, find_operator
from parity.lab.array_files import to_array
from parity.lab.libraries import import_library
from parity.lab.op_zoo.arrays import read_number
from parity.lab.op_zoo.case import OpCase

Array = Any  # of NumPy; a number has no axes


def compute_witness(case: OpCase, *, is_float: bool) -> dict[str, Array]:
    """Return the outputs of a case by name, floats not rounded to their dtype.

    Where the result ``is_float``, integers of a byte or two are taken as float64, of which NumPy
    would compute float16.

    Raises:
        LookupError: No function knows the operator.
    """
    arrays, args = read_arguments(case)
    if is_float and all(one.dtype.kind != "f" for one in arrays.values()):
        arrays = {
            name: one.astype(np.float64) if one.dtype.itemsize <= 2 else one  # noqa: PLR2004 - bytes
            for name, one in arrays.items()
        }
    # NumPy has no axis 0 of a scalar, torch has
    has_axis = isinstance(args.get("dim"), int) and case.op != "unsqueeze"
    is_scalar = has_axis and all(not one.ndim for one in arrays.values())
    if is_scalar:
        arrays = {name: one.reshape(1) for name, one in arrays.items()}
    function = _OWN.get(case.op) or _WIDE.get(case.op)
    with np.errstate(all="ignore"):
        if function is None:
            results = case.name_outputs(_compute_stage(case.op, {**case.bind(arrays), **args}))
        else:
            bound = case.bind(arrays)
            required = [bound.pop(name) for name in case.required if name in bound]
            results = case.name_outputs(function(*required, **bound, **args))
    return {name: one.reshape(()) for name, one in results.items()} if is_scalar else results


def _compute_stage(op: str, arguments: dict[str, Any]) -> Any:
    """Compute an operator as a stage; convolutions and pooling of one sample as a batch of it."""
    kind, given = name_stage(op, arguments)
    if not find_operator(kind):
        raise LookupError(f"no witness computes {op}")
    axes = int(op[-2]) if op[-2:] in ("1d", "2d", "3d") else None
    if axes is not None and given["input"].ndim == axes + 1:
        return compute(kind, {**given, "input": given["input"][None]})[0]
    return compute(kind, given)


def read_arguments(case: OpCase) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return inputs, after their views, and arguments; floats in float64 for most operators."""
    args = {key: read_arg(value) for key, value in case.args.items()}
    arrays = {name: to_array(one) for name, one in case.inputs.items()}
    for name, view in args.pop("views", {}).items():
        arrays[name] = apply_view(arrays[name], view)
    if case.op not in _OWN:
        arrays = {
            name: one.astype(np.float64) if one.dtype.kind == "f" else one
            for name, one in arrays.items()
        }
    return arrays, args


def read_arg(value: Any) -> Any:
    """Return an argument; infinities and NaN, which are texts in JSON, as numbers."""
    return (
        read_number(value) if isinstance(value, str) and value in ("inf", "-inf", "nan") else value
    )


def apply_view(array: Array, view: dict[str, list[int]]) -> Array:
    """Return the elements of a view that `operators.yaml` describes."""
    [(kind, numbers)] = view.items()
    if kind == "transpose":
        return np.swapaxes(array, *numbers)
    if kind == "expand":
        return np.broadcast_to(array, numbers)
    axis, *rest = numbers
    index = [slice(None)] * array.ndim
    index[axis] = slice(rest[0], sum(rest)) if kind == "narrow" else slice(None, None, rest[0])
    return array[tuple(index)]


def name_stage(op: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the kind of the stage that computes an operator, and its arguments by ATen's names."""
    kind, names = f"aten.{op}", _ATEN.get(op, {})
    if op == "interpolate":
        kind = f"aten.upsample_{arguments.pop('mode', 'nearest')}"
        arguments.pop("align_corners", None) if kind == "aten.upsample_nearest" else None
    if op == "cross_entropy":
        kind = "aten.cross_entropy_loss"
    return kind, {names.get(name, name): value for name, value in arguments.items()}


#: Names of ATen's arguments that differ from those of torch's functions.
_ATEN = {
    "embedding": {"input": "indices"},
    "interpolate": {"size": "output_size", "scale_factor": "scale_factors"},
    "split": {"split_size_or_sections": "split_size"},
}


def _axes(dim: Any) -> Any:
    return tuple(dim) if isinstance(dim, list) else dim


def _reduce(function: Callable[..., Array]) -> Callable[..., Array]:
    def reduce(input: Array, dim: Any = None, keepdim: bool = False, dtype: str = "") -> Array:
        return function(input, axis=_axes(dim), keepdims=keepdim)

    return reduce


def _pick(find: Callable[..., Array]) -> Callable[..., Any]:
    """Return values and indices along an axis, where ``find`` returns the index."""

    def pick(input: Array, dim: int, keepdim: bool = False, **more: Any) -> tuple[Array, Array]:
        at = np.expand_dims(find(input, dim, **more), dim)
        values = np.take_along_axis(input, at, dim)
        return (values, at) if keepdim else (values.squeeze(dim), at.squeeze(dim))

    return pick


def _order(input: Array, dim: int = -1, descending: bool = False, stable: bool = False) -> Array:
    """Return the stable order, NaN as the largest."""
    if not descending:
        return np.argsort(input, axis=dim, kind="stable")
    backwards = np.flip(np.argsort(np.flip(input, dim), axis=dim, kind="stable"), dim)
    return input.shape[dim] - 1 - backwards


def _sort(input: Array, dim: int = -1, **more: Any) -> tuple[Array, Array]:
    if input.ndim == 0:
        return input, np.zeros((), np.int64)
    order = _order(input, dim, **more)
    return np.take_along_axis(input, order, dim), order


def _topk(input: Array, k: int, dim: int = -1, largest: bool = True) -> tuple[Array, Array]:
    values, order = _sort(input, dim, descending=largest)
    return np.take(values, range(k), dim), np.take(order, range(k), dim)


def _find_kth(input: Array, dim: int, k: int) -> Array:
    return np.take(_order(input, dim), k - 1, dim)


def _find_median(input: Array, dim: int) -> Array:
    middle = np.take(_order(input, dim), (input.shape[dim] - 1) // 2, dim)
    missing = np.isnan(input.astype(np.float64))
    return np.where(missing.any(dim), missing.argmax(dim), middle)


def _find_mode(input: Array, dim: int) -> Array:
    def find(row: Array) -> int:
        values, counts = np.unique(row, return_counts=True)
        return int(np.flatnonzero(row == values[counts.argmax()])[-1])

    return np.apply_along_axis(find, dim, input)


def _accumulate(better: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    """Return running extremes with their last places; a NaN stays."""

    def accumulate(input: Array, dim: int) -> tuple[Array, Array]:
        def run(row: Array) -> Array:
            places = [0]
            for at, value in enumerate(row[1:], 1):
                best = row[places[-1]]
                is_new = np.isnan(value) or (not np.isnan(best) and better(value, best))
                places.append(at if is_new else places[-1])
            return np.array(places[: len(row)], np.int64)

        at = np.apply_along_axis(run, dim, input)
        return np.take_along_axis(input, at, dim), at

    return accumulate


def _logsumexp(input: Array, dim: Any, keepdim: bool = False) -> Array:
    top = input.max(axis=_axes(dim), keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    total = np.log(np.exp(input - top).sum(axis=_axes(dim), keepdims=True)) + top
    return total if keepdim else total.squeeze(_axes(dim))


def _norm(input: Array, p: float = 2, dim: Any = None, keepdim: bool = False) -> Array:
    size, axes = np.abs(input), _axes(dim)
    if p in (np.inf, -np.inf):
        return (np.max if p > 0 else np.min)(size, axis=axes, keepdims=keepdim)
    if p == 0:
        return (size != 0).sum(axis=axes, keepdims=keepdim).astype(np.float64)
    return (size**p).sum(axis=axes, keepdims=keepdim) ** (1 / p)


def _quantile(
    input: Array, q: Any, dim: Any = None, keepdim: bool = False, interpolation: Any = "linear"
) -> Array:
    return np.quantile(input, q, axis=dim, keepdims=keepdim, method=interpolation)


def _unique(input: Array, return_inverse: bool = False, return_counts: bool = False) -> Any:
    values, inverse, counts = np.unique(input, return_inverse=True, return_counts=True)
    more = ([inverse.reshape(input.shape)] if return_inverse else []) + [counts] * return_counts
    return (values, *more) if more else values


def _unique_consecutive(
    input: Array, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    flat = input.ravel()
    starts = np.flatnonzero(np.r_[np.ones(min(flat.size, 1), bool), flat[1:] != flat[:-1]])
    counts = np.diff(np.r_[starts, flat.size])
    inverse = np.repeat(np.arange(len(starts)), counts).reshape(input.shape)
    more = ([inverse] if return_inverse else []) + [counts] * return_counts
    return (flat[starts], *more) if more else flat[starts]


def _searchsorted(sequence: Array, input: Array, right: bool = False) -> Array:
    side: Any = "right" if right else "left"
    if sequence.ndim == 1:
        return np.searchsorted(sequence, input, side)
    rows = zip(
        sequence.reshape(-1, sequence.shape[-1]), input.reshape(-1, input.shape[-1]), strict=True
    )
    return np.stack([np.searchsorted(*row, side) for row in rows]).reshape(input.shape)


def _histc(input: Array, bins: int = 100, min: float = 0, max: float = 0) -> Array:
    low, high = (min, max) if min != max else (input.min(), input.max())
    low, high = (low - 1, high + 1) if low == high else (low, high)
    return np.histogram(input, bins, (low, high))[0].astype(np.float64)


def _put(combine: str = "") -> Callable[..., Array]:
    """Return a scatter of one element after another, in the index's order."""

    def put(input: Array, index: Array, src: Array = None, *, dim: int, value: Any = None) -> Array:
        out = np.array(input)
        for at in np.ndindex(index.shape):
            place = list(at)
            if at:
                place[dim] = index[at]
            one = src[at] if src is not None else value
            out[tuple(place)] = out[tuple(place)] + one if combine else one
        return out

    return put


def _index_add(input: Array, index: Array, source: Array, dim: int, alpha: float = 1) -> Array:
    out = np.array(input)
    np.add.at(np.moveaxis(out, dim, 0), index, alpha * np.moveaxis(source, dim, 0))
    return out


def _index_fill(input: Array, index: Array, dim: int, value: Any) -> Array:
    out = np.array(input)
    np.moveaxis(out, dim, 0)[index] = value
    return out


def _gather(input: Array, index: Array, dim: int) -> Array:
    if not index.ndim:
        return input
    window = tuple(
        np.s_[:] if axis == dim % input.ndim else np.s_[:n] for axis, n in enumerate(index.shape)
    )
    return np.take_along_axis(input[window], index, dim)


def _take_along(input: Array, indices: Array, dim: int | None = None) -> Array:
    return np.take_along_axis(input, indices if dim is not None else indices.ravel(), dim)


def _repeat_interleave(input: Array, repeats: Any, dim: int | None = None) -> Array:
    return np.repeat(input, repeats, dim)


def _diag_embed(input: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    size = input.shape[-1] + abs(offset)
    out = np.zeros((*input.shape[:-1], size, size), input.dtype)
    at = np.arange(input.shape[-1])
    out[..., at + max(-offset, 0), at + max(offset, 0)] = input
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def _pad(input: Array, pad: Sequence[int], mode: str = "constant", value: float = 0) -> Array:
    pairs = [(pad[at], pad[at + 1]) for at in range(0, len(pad), 2)][::-1]
    pairs = [(0, 0)] * (input.ndim - len(pairs)) + pairs
    cut = tuple(
        slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(pairs, input.shape, strict=True)
    )
    name: Any = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    more: Any = {"constant_values": value} if mode == "constant" else {}
    return np.pad(input[cut], [(max(a, 0), max(b, 0)) for a, b in pairs], mode=name, **more)


def _unfold(input: Array, dimension: int, size: int, step: int) -> Array:
    dimension %= input.ndim
    windows = np.lib.stride_tricks.sliding_window_view(input, size, dimension)
    return np.take(windows, range(0, windows.shape[dimension], step), dimension)


def _cross(input: Array, other: Array, dim: int = -1) -> Array:
    input, other = np.broadcast_arrays(input, other)
    a, b = np.moveaxis(input, dim, 0), np.moveaxis(other, dim, 0)
    parts = [a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3] for i in range(3)]
    return np.moveaxis(np.stack(parts), 0, dim)


def _cdist(x1: Array, x2: Array, p: float = 2.0) -> Array:
    return _norm(x1[..., :, None, :] - x2[..., None, :, :], p, -1)


def _triangular_solve(
    A: Array, B: Array, upper: bool, left: bool = True, unitriangular: bool = False
) -> Array:
    matrix = np.triu(A) if upper else np.tril(A)
    if unitriangular:
        eye = np.eye(A.shape[-1], dtype=bool)
        matrix = np.where(eye, 1.0, matrix)
    if left:
        return np.linalg.solve(matrix, B)
    return np.linalg.solve(matrix.swapaxes(-1, -2), B.swapaxes(-1, -2)).swapaxes(-1, -2)


def _im2col(
    input: Array,
    kernel_size: Any,
    dilation: Any = (1, 1),
    padding: Any = (0, 0),
    stride: Any = (1, 1),
) -> Array:
    batch = input if input.ndim == 4 else input[None]  # noqa: PLR2004 - batch, channels, y, x
    padded = np.pad(batch, [(0, 0), (0, 0), *((one, one) for one in padding)])
    spans = tuple(gap * (n - 1) + 1 for gap, n in zip(dilation, kernel_size, strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(padded, spans, (2, 3))
    windows = windows[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    moved = windows.transpose(0, 1, 4, 5, 2, 3)
    columns = moved.reshape(len(batch), moved.shape[1] * moved.shape[2] * moved.shape[3], -1)
    return columns if input.ndim == 4 else columns[0]  # noqa: PLR2004


def _normalize(input: Array, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Array:
    return input / np.maximum(_norm(input, p, dim, keepdim=True), eps)


def _reduce_loss(each: Array, reduction: str) -> Array:
    if reduction == "batchmean":
        return each.sum() / len(each)
    reduce: dict[str, Any] = {"mean": np.mean, "sum": np.sum, "none": np.asarray}
    return reduce[reduction](each)


def _huber(input: Array, target: Array, reduction: str = "mean", delta: float = 1.0) -> Array:
    gap = np.abs(input - target)
    each = np.where(gap <= delta, gap * gap / 2, delta * (gap - delta / 2))
    return _reduce_loss(each, reduction)


def _binary_cross_entropy(
    input: Array, target: Array, weight: Array = 1.0, reduction: str = "mean"
) -> Array:
    logs = (np.maximum(np.log(one), -100) for one in (input, 1 - input))
    yes, no = logs
    return _reduce_loss(-weight * (target * yes + (1 - target) * no), reduction)


def _kl_div(
    input: Array, target: Array, reduction: str = "mean", log_target: bool = False
) -> Array:
    if log_target:
        return _reduce_loss(np.exp(target) * (target - input), reduction)
    return _reduce_loss(_xlogy(target, target) - target * input, reduction)


def _xlogy(input: Array, other: Array) -> Array:
    product = input * np.log(np.where(input == 0, 1, other))
    return np.where(np.isnan(other), np.nan, product)


def _cosine(x1: Array, x2: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    sizes = [np.maximum(_norm(one, 2, dim), eps) for one in (x1, x2)]
    return (x1 * x2).sum(dim) / sizes[0] / sizes[1]


def _sample(
    input: Array,
    grid: Array,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Array:
    """Sample each place by itself: neighbours, weights, and what lies outside."""
    sizes = np.array(input.shape[:1:-1])  # x, then y
    places = (grid + 1) / 2 * (sizes - 1) if align_corners else ((grid + 1) * sizes - 1) / 2
    if padding_mode == "reflection":
        low, high = (0 * sizes, sizes - 1) if align_corners else (-0.5 + 0 * sizes, sizes - 0.5)
        span = np.maximum(high - low, 1e-300)
        offset = np.abs(places - low) % (2 * span)
        places = low + np.minimum(offset, 2 * span - offset)
    if padding_mode != "zeros":
        places = np.clip(places, 0, sizes - 1)
    out = np.zeros((*input.shape[:2], *grid.shape[1:3]))
    for batch, row, column in np.ndindex(*grid.shape[:3]):
        place = places[batch, row, column]
        corners = (
            [np.round(place)]
            if mode == "nearest"
            else [np.floor(place) + np.array(one) for one in np.ndindex(2, 2)]
        )
        for corner in corners:
            weight = 1.0 if mode == "nearest" else np.prod(1 - np.abs(place - corner))
            if ((corner >= 0) & (corner < sizes)).all():
                x, y = corner.astype(int)
                out[batch, :, row, column] += weight * input[batch, :, y, x]
    return out


def _interpolate(input: Array, mode: str = "nearest", **args: Any) -> Array:
    if mode == "area":
        return compute("aten.adaptive_avg_pool2d", {"input": input, "output_size": args["size"]})
    if mode != "nearest-exact":
        return _compute_stage("interpolate", {"input": input, "mode": mode, **args})
    for axis, size in enumerate(args["size"], 2):
        places = (np.arange(size) + 0.5) * input.shape[axis] / size
        input = np.take(input, np.floor(places).astype(int), axis)
    return input


def _shuffle(input: Array, upscale_factor: int) -> Array:
    *rest, channels, height, width = input.shape
    r = upscale_factor
    parts = input.reshape(-1, channels // r**2, r, r, height, width).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(*rest, channels // r**2, height * r, width * r)


def _unshuffle(input: Array, downscale_factor: int) -> Array:
    *rest, channels, height, width = input.shape
    r = downscale_factor
    parts = input.reshape(-1, channels, height // r, r, width // r, r).transpose(0, 1, 3, 5, 2, 4)
    return parts.reshape(*rest, channels * r * r, height // r, width // r)


def _fourier(function: str) -> Callable[..., Array]:
    def transform(
        input: Array, n: int | None = None, dim: int = -1, norm: str = "backward"
    ) -> Array:
        given = input if function == "rfft" else input[..., 0] + 1j * input[..., 1]
        more = {} if function == "fft2" else {"n": n, "axis": dim}
        result = getattr(np.fft, function)(given, **more, norm=norm)
        return result if function == "irfft" else np.stack([result.real, result.imag], -1)

    return transform


def _each(function: Callable[..., Any]) -> Callable[..., Array]:
    """Apply a function of mpmath to each number; 200 bits, so that nothing cancels."""

    def apply(*inputs: Array) -> Array:
        mpmath = import_library("mpmath")
        with mpmath.workprec(200):
            call = np.frompyfunc(
                lambda *each: float(function(mpmath, *map(mpmath.mpf, map(float, each)))),
                len(inputs),
                1,
            )
            return np.asarray(call(*inputs), np.float64)

    return apply


def _lgamma(mp: Any, x: Any) -> Any:
    if mp.isinf(x) or (x <= 0 and x == mp.floor(x)):
        return mp.inf
    return (
        mp.nan if mp.isnan(x) else mp.log(abs(mp.gamma(x))) if abs(x) < 1e4 else mp.loggamma(x).real
    )  # noqa: PLR2004


def _digamma(mp: Any, x: Any) -> Any:
    if x == 0:
        return -mp.inf if math.copysign(1, float(x)) > 0 else mp.inf
    is_pole = x < 0 and x == mp.floor(x)
    return mp.nan if mp.isnan(x) or is_pole else x if x == mp.inf else mp.digamma(x)


def _erfinv(mp: Any, x: Any) -> Any:
    return mp.nan if mp.isnan(x) or abs(x) > 1 else x * mp.inf if abs(x) == 1 else mp.erfinv(x)


def _logit(input: Array, eps: float | None = None) -> Array:
    x = input if eps is None else np.clip(input, eps, 1 - eps)
    return np.log(x / (1 - x))


def _round(input: Array, decimals: int = 0) -> Array:
    return (
        np.round(input * 10.0**decimals) / 10.0**decimals
        if decimals > 0
        else np.round(input, decimals)
    )


def _divide(input: Array, other: Array, rounding_mode: str | None = None) -> Array:
    is_whole = input.dtype.kind != "f" and other.dtype.kind != "f"
    if rounding_mode == "floor":
        return np.floor_divide(input, other)
    if rounding_mode == "trunc" and is_whole:
        return (np.abs(input) // np.abs(other)) * np.sign(input) * np.sign(other)
    return np.trunc(input / other) if rounding_mode else input / other


def _clamp(input: Array, min: Any = None, max: Any = None) -> Array:
    low = input if min is None else np.maximum(input, min)
    return low if max is None else np.minimum(low, max)


def _cast(input: Array, dtype: str) -> Array:
    if dtype == "bool":
        return input != 0
    if dtype in ("float64", "float32", "float16", "bfloat16"):
        return input.astype(np.float64)
    return (
        np.trunc(input).astype(np.int64).astype(dtype)
        if input.dtype.kind == "f"
        else input.astype(dtype)
    )


def _arange(start: float, end: float, step: float, dtype: str) -> Array:
    count = math.ceil((end - start) / step)
    return start + step * np.arange(count)


def _one_hot(input: Array, num_classes: int = -1) -> Array:
    count = input.max() + 1 if num_classes < 0 else num_classes
    return (input[..., None] == np.arange(count)).astype(np.int64)


_identity = np.asarray

#: In float64.
_WIDE: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in (
        "sign exp2 expm1 log2 log10 log1p square tan sinh cosh ceil floor trunc sinc deg2rad rad2deg "
        "isnan isinf isfinite isposinf isneginf signbit hypot fmax fmin copysign logaddexp "
        "logaddexp2 heaviside bitwise_and bitwise_or bitwise_xor bitwise_not logical_xor gcd lcm "
        "fmod remainder kron").split()},
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "frac": lambda input: input - np.trunc(input),
    "round": _round, "logit": _logit, "xlogy": _xlogy, "div": _divide, "clamp": _clamp,
    "erf": _each(lambda mp, x: mp.erf(x)), "erfc": _each(lambda mp, x: mp.erfc(x)),
    "erfinv": _each(_erfinv), "lgamma": _each(_lgamma), "digamma": _each(_digamma),
    "floor_divide": lambda input, other: _divide(input, other, "floor"),
    "pow": lambda input, exponent: np.power(input, exponent),
    "bitwise_left_shift": np.left_shift, "bitwise_right_shift": np.right_shift,
    "lerp": lambda input, end, weight: input + weight * (end - input),
    "addcmul": lambda input, tensor1, tensor2, value=1: input + value * tensor1 * tensor2,
    "addcdiv": lambda input, tensor1, tensor2, value=1: input + value * tensor1 / tensor2,
    "isclose": lambda input, other, **args: np.isclose(input, other, **args),
    **{name: _reduce(getattr(np, name)) for name in ("sum", "prod", "mean", "nansum", "nanmean", "amax", "amin", "all", "any")},
    "argmax": _reduce(np.argmax), "argmin": _reduce(np.argmin),
    "max": _pick(lambda input, dim: np.argmax(input, dim)),
    "min": _pick(lambda input, dim: np.argmin(input, dim)),
    "median": _pick(_find_median), "mode": _pick(_find_mode),
    "kthvalue": lambda input, k, dim=-1, keepdim=False: _pick(_find_kth)(input, dim, keepdim, k=k),
    "logsumexp": _logsumexp, "norm": _norm, "quantile": _quantile,
    "count_nonzero": lambda input, dim=None: np.count_nonzero(input, axis=_axes(dim)),
    "cumsum": lambda input, dim, dtype="": np.cumsum(input, dim),
    "cumprod": lambda input, dim, dtype="": np.cumprod(input, dim),
    "cummax": _accumulate(lambda one, best: one >= best),
    "cummin": _accumulate(lambda one, best: one <= best),
    "logcumsumexp": lambda input, dim: np.logaddexp.accumulate(input, dim),
    "diff": lambda input, n=1, dim=-1: np.diff(input, n, dim),
    "sort": _sort, "argsort": lambda input, **more: _sort(input, **more)[1], "topk": _topk,
    "unique": _unique, "unique_consecutive": _unique_consecutive,
    "searchsorted": _searchsorted, "histc": _histc,
    "bucketize": lambda input, boundaries, right=False: _searchsorted(boundaries, input, right),
    "bincount": lambda input, weights=None, minlength=0: np.bincount(input, weights, minlength),
    "gather": _gather, "scatter": _put(), "scatter_add": _put("add"),
    "index_select": lambda input, index, dim: np.take(input, index, dim) if input.ndim else input,
    "index_add": _index_add, "index_fill": _index_fill,
    "take": lambda input, index: np.take(input, index),
    "take_along_dim": _take_along,
    "masked_select": lambda input, mask: np.broadcast_arrays(input, mask)[0][np.broadcast_arrays(input, mask)[1]],
    "nonzero": lambda input: np.argwhere(input),
    "narrow": lambda input, dim, start, length: np.take(input, range(start % input.shape[dim] if start < 0 else start, (start % input.shape[dim] if start < 0 else start) + length), dim),
    "roll": lambda input, shifts, dims=None: np.roll(input, shifts if dims else shifts[0], _axes(dims)),
    "flip": lambda input, dims: np.flip(input, _axes(dims)),
    "repeat_interleave": _repeat_interleave,
    "broadcast_to": lambda input, shape: np.broadcast_to(input, shape),
    "tile": lambda input, dims: np.tile(input, dims),
    "movedim": lambda input, source, destination: np.moveaxis(input, source, destination),
    "diagonal": lambda input, offset=0, dim1=0, dim2=1: np.diagonal(input, offset, dim1, dim2),
    "diag_embed": _diag_embed, "pad": _pad, "unfold": _unfold,
    "mv": np.matmul, "dot": np.dot, "outer": np.outer,
    "mv": lambda input, vec: input @ vec,
    "dot": lambda input, tensor: np.dot(input, tensor),
    "outer": lambda input, vec2: np.outer(input, vec2),
    "bmm": lambda input, mat2: input @ mat2,
    "matmul": lambda input, other: input @ other,
    "addmm": lambda input, mat1, mat2, beta=1, alpha=1: (beta * input if beta else 0) + alpha * (mat1 @ mat2),
    "baddbmm": lambda input, batch1, batch2, beta=1, alpha=1: (beta * input if beta else 0) + alpha * (batch1 @ batch2),
    "einsum": lambda operands, equation: np.einsum(equation, *operands),
    "det": np.linalg.det, "inverse": np.linalg.inv,
    "slogdet": lambda input: tuple(np.linalg.slogdet(input)),
    "solve": lambda A, B: np.linalg.solve(A, B),
    "triangular_solve": _triangular_solve,
    "cholesky": lambda input, upper=False: np.linalg.cholesky(input, upper=upper),
    "matrix_power": lambda input, n: np.linalg.matrix_power(input, n),
    "trace": lambda input: np.trace(input), "cross": _cross, "cdist": _cdist, "im2col": _im2col,
    "normalize": _normalize,
    "relu": lambda input: np.maximum(input, 0),
    "relu6": lambda input: np.clip(input, 0, 6),
    "celu": lambda input, alpha=1.0: np.where(input > 0, input, alpha * np.expm1(np.minimum(input, 0) / alpha)),
    "mish": lambda input: input * np.tanh(np.logaddexp(0, input)),
    "softsign": lambda input: input / (1 + np.abs(input)),
    "hardtanh": lambda input, min_val=-1.0, max_val=1.0: np.clip(input, min_val, max_val),
    "hardsigmoid": lambda input: np.clip(input + 3, 0, 6) / 6,
    "softshrink": lambda input, lambd=0.5: np.where(np.abs(input) > lambd, input - np.copysign(lambd, input), input * 0),
    "hardshrink": lambda input, lambd=0.5: np.where(np.abs(input) <= lambd, 0, input),
    "flatten": lambda input, start_dim=0, end_dim=-1: np.reshape(input, (
        *input.shape[:start_dim], -1, *input.shape[(end_dim % max(input.ndim, 1)) + 1 :]
    )),
    "tanhshrink": _each(lambda mp, x: x - mp.tanh(x)),
    "threshold": lambda input, threshold, value: np.where(input <= threshold, value, input),
    "logsigmoid": lambda input: -np.logaddexp(0, -input),
    "glu": lambda input, dim=-1: np.multiply(*[half if at == 0 else 1 / (1 + np.exp(-half)) for at, half in enumerate(np.split(input, 2, dim))]),
    "prelu": lambda input, weight: np.where(input > 0, input, input * weight.reshape(-1, *(1,) * max(input.ndim - 2, 0))),
    "huber_loss": _huber, "binary_cross_entropy": _binary_cross_entropy, "kl_div": _kl_div,
    "cosine_similarity": _cosine, "grid_sample": _sample, "interpolate": _interpolate,
    "pixel_shuffle": _shuffle, "pixel_unshuffle": _unshuffle,
    **{name: _fourier(name) for name in ("fft", "ifft", "rfft", "irfft", "fft2")},
    "fftshift": lambda input, dim=None: np.fft.fftshift(input, _axes(dim)),
    "ifftshift": lambda input, dim=None: np.fft.ifftshift(input, _axes(dim)),
    "arange": _arange,
    "linspace": lambda start, end, steps, dtype: np.linspace(start, end, steps),
    "logspace": lambda start, end, steps, dtype, base=10.0: np.logspace(start, end, steps, base=base),
    "eye": lambda n, dtype, m=None: np.eye(n, m),
    "full": lambda size, fill_value, dtype: np.full(size, fill_value),
    "tril_indices": lambda row, col, offset=0: np.stack(np.tril_indices(row, offset, col)),
    "triu_indices": lambda row, col, offset=0: np.stack(np.triu_indices(row, offset, col)),
    "one_hot": _one_hot,
    "meshgrid": lambda tensors, indexing="ij": list(np.meshgrid(*tensors, indexing=indexing)),
    "hann_window": lambda window_length, dtype, periodic=True: np.hanning(
        window_length + (periodic and window_length > 1)
    )[:window_length],
    "cast": _cast,
}  # fmt: skip

#: In the dtype of the input.
_OWN: dict[str, Callable[..., Any]] = {
    "nextafter": lambda input, other: np.nextafter(input, other),
    "nan_to_num": lambda input, nan=0.0, posinf=None, neginf=None: np.nan_to_num(
        input, nan=nan, posinf=posinf, neginf=neginf
    ),
}
