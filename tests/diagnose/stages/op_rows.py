# ruff: noqa: E501 - one call is one line
"""Small calls of single operators at their edges, on which every known wrong way can be seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.diagnose.stages.rows import draw

_INF, _NAN = np.inf, np.nan
_EDGES = np.array(
    [0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 1e-40, 3.25, -7.75, _INF, -_INF, _NAN]
)
_OTHERS = np.array([1.0, 3.0, -2.0, -2.0, 0.5, 2.0, 2.5, 0.75, 1.0, -3.0, 2.0, -_INF, 1.0, 2.0])
_FINITE, _POSITIVE = _EDGES[:11], np.array([0.5, 1.0, 1.5, 2.0, 3.0, 10.0, 1e-3])
_UNIT = np.array([0.0, -0.0, 0.25, -0.5, 0.75, -0.99])
_LOST = np.array(
    [[1.0, _NAN, 2.0, 1.5], [3.0, -4.0, 3.0, 1.5], [-1.0, 5.0, 0.5, -2.0], [0.5, 0.25, -3.0, 9.0]]
)
_CUBE, _SQUARE = draw(4, 4, 4), draw(4, 4)
_TIES = np.array([[3, 1, 3, 1], [2, 2, 2, 2], [0, 1, 1, 0], [4, 5, 5, 1]])
_WIDE = np.array([2**53 + 1, -(2**53) - 1, 2**62, 5, -7])
_OTHER = np.array([2**53, -(2**53), 2**62 + 1, -3, 2])
_BITS, _MASKS = np.array([12, -7, 5, 0, 255]), np.array([10, 3, 1, 4, 2])
_FLAGS = np.array([[True, False, True], [True, True, True], [False, False, False]])
_INDEX = np.array([[0, 2, 2, 1], [1, 1, 3, 0], [3, 3, 3, 2], [0, 1, 2, 3]])
_LARGE = np.array(
    [[100.0, 2.0, 3.0, -1.0], [1.0, 5.0, -2.0, 0.5], [0.0, 1.0, 2.0, 3.0], [4.0, 4.0, 4.0, 4.0]]
)
_GRID = draw(2, 8, 3, 3)
_SPD = np.eye(4) * 3 + _SQUARE @ _SQUARE.T
_TARGET = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.25, 0.25, 0.25, 0.25]])

#: Operator of torch, and arguments by its names.
OPS: list[tuple[str, dict[str, Any]]] = [
    *((op, {"input": _EDGES}) for op in (
        *("abs", "neg", "sign", "ceil", "floor", "trunc", "round", "frac", "square", "exp", "exp2"),
        *("expm1", "isnan", "isinf", "isposinf", "isneginf", "isfinite", "signbit", "erf", "erfc"),
        *("atan", "asinh", "sinh", "cosh", "tanh", "reciprocal", "deg2rad", "rad2deg", "sinc"),
        *("sigmoid", "relu", "relu6", "softsign", "logsigmoid", "sqrt", "rsqrt", "log", "log2"),
        *("log10", "nan_to_num", "elu", "celu", "leaky_relu"))),
    *((op, {"input": _FINITE}) for op in (
        *("sin", "cos", "tan", "lgamma", "hardsigmoid", "hardtanh", "mish", "softshrink"),
        *("hardshrink", "tanhshrink", "gelu", "silu", "hardswish", "selu", "softplus"))),
    *((op, {"input": _POSITIVE}) for op in ("log", "log2", "log10", "log1p", "rsqrt", "acosh")),
    *((op, {"input": _UNIT}) for op in ("asin", "acos", "atanh", "erfinv", "logit")),
    *((op, {"input": _EDGES, "other": _OTHERS}) for op in (
        *("add", "sub", "mul", "div", "maximum", "minimum", "fmax", "fmin", "atan2", "hypot"),
        *("copysign", "logaddexp", "logaddexp2", "xlogy", "eq", "ne", "lt", "le", "gt", "ge"),
        *("isclose", "logical_and", "logical_or", "logical_xor"))),
    *((op, {"input": _FINITE[2:], "other": _OTHERS[2:11]}) for op in (
        *("floor_divide", "remainder", "fmod", "div", "xlogy", "logaddexp", "lt", "eq"),)),
    *(("div", {"input": _FINITE, "other": _OTHERS[:11], "rounding_mode": mode}) for mode in ("floor", "trunc")),
    *(("div", {"input": _BITS, "other": _MASKS - 5, "rounding_mode": mode}) for mode in ("floor", "trunc")),
    *((op, {"input": _WIDE, "other": _OTHER}) for op in (
        *("add", "sub", "mul", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "remainder"),
        *("fmod", "floor_divide", "gcd"))),
    ("div", {"input": _WIDE * 1.0, "other": np.array([3.0, 7.0, 9.0, 11.0, 13.0])}),
    ("sum", {"input": _WIDE[:2]}),
    ("sum", {"input": np.array([2**30, 2**31, 1])}),
    ("prod", {"input": np.array([2**20, 2**12, 3])}),
    ("cumsum", {"input": np.array([2**31 - 1, 5, 300]), "dim": 0}),
    ("cumprod", {"input": np.array([2**20, 2**12, 3]), "dim": 0}),
    ("amax", {"input": _WIDE}),
    ("amin", {"input": _WIDE}),
    ("sort", {"input": np.array([2**53 + 1, 2**53, 3])}),
    ("lcm", {"input": _BITS, "other": _MASKS}),
    *((op, {"input": _BITS, "other": _MASKS}) for op in (
        *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"),
        *("logical_and", "logical_or", "logical_xor", "gcd", "div"))),
    ("logical_and", {"input": np.array([2, 1, 0, 3]), "other": np.array([1, 1, 0, 0])}),
    ("pow", {"input": _BITS, "exponent": np.array([2, 3, 1, 4, 2])}),
    *((op, {"input": _BITS}) for op in ("bitwise_not", "logical_not")),
    *((op, {"input": draw(3, 3), "other": draw(3)}) for op in (
        *("add", "sub", "mul", "div", "maximum", "minimum", "fmax", "fmin", "eq", "lt", "gt"),
        *("atan2", "remainder"))),
    *((op, {"input": draw(3), "other": draw(3, 3)}) for op in (
        *("add", "sub", "mul", "div", "maximum", "minimum", "fmax", "fmin", "lt", "gt", "atan2"),
        "remainder")),
    *((op, {"input": np.array([1, 2, 3]), "other": _TIES[:3, :3]}) for op in ("eq", "le", "ge")),
    *((op, {"input": _TIES[:3, :3], "other": np.array([1, 2, 3])}) for op in ("eq",)),
    ("where", {"condition": _FLAGS, "input": draw(3, 3), "other": draw(3)}),
    ("where", {"condition": _FLAGS, "input": draw(3), "other": draw(3, 3)}),
    ("pow", {"input": draw(3, 3) ** 2, "exponent": draw(3)}),
    ("pow", {"input": _POSITIVE, "exponent": 2.5}),
    ("add", {"input": _FINITE, "other": _OTHERS[:11], "alpha": 2}),
    ("sub", {"input": _FINITE, "other": _OTHERS[:11], "alpha": 3}),
    ("heaviside", {"input": _EDGES, "values": np.array(0.25)}),
    ("isclose", {"input": _EDGES, "other": _EDGES, "equal_nan": True}),
    *((op, {"input": _EDGES, "other": _EDGES}) for op in ("eq", "ne")),
    ("isclose", {"input": np.array([100.0, 1.0, 0.0]), "other": np.array([101.005, 1.2, 1e-3]), "rtol": 0.01, "atol": 1e-3}),
    ("clamp", {"input": _EDGES, "min": -1.0, "max": 2.0}),
    ("clamp", {"input": _EDGES, "min": 2.0, "max": -1.0}),
    ("lerp", {"input": _FINITE, "end": _OTHERS[:11], "weight": 0.25}),
    *((op, {"input": draw(5), "tensor1": draw(5), "tensor2": draw(5), "value": 3}) for op in ("addcmul", "addcdiv")),
    ("nan_to_num", {"input": _EDGES, "nan": 3.0, "posinf": 7.0, "neginf": -2.0}),
    ("logit", {"input": _UNIT, "eps": 0.01}),
    ("round", {"input": np.array([1.25, 2.675, -1.15, 0.449]), "decimals": 1}),
    ("round", {"input": np.array([0.5, 1.5, -0.5, -2.5, 1.2, -1.7])}),
    *((op, {"input": _CUBE, "dim": dim, "keepdim": keep}) for op in (
        *("sum", "mean", "var", "std", "amax", "amin", "nansum", "nanmean", "logsumexp"),)
        for dim, keep in (([1], True), ([0, 2], False), ([-1], False), ([0], False))),
    *((op, {"input": _CUBE, "dim": dim, "keepdim": keep}) for op in (
        *("prod", "argmax", "argmin", "max", "min", "all", "any", "median"),)
        for dim, keep in ((1, True), (-1, False), (0, False))),
    *((op, {"input": _LOST, "dim": 1}) for op in (
        *("sum", "mean", "var", "std", "amax", "amin", "nansum", "nanmean", "logsumexp", "prod"),
        *("argmax", "argmin", "max", "min", "median", "cumsum", "cumprod", "cummax", "cummin"),
        *("logcumsumexp", "sort", "argsort"))),
    *((op, {"input": _LOST}) for op in ("sum", "mean", "amax", "amin", "argmax", "argmin", "nansum")),
    *((op, {"input": _TIES, "dim": 1}) for op in (
        *("argmax", "argmin", "cummax", "cummin", "max", "min"),)),
    ("topk", {"input": _SQUARE, "k": 2, "largest": False}),
    *((op, {"input": _TIES * 1.0, "dim": 1, "stable": True}) for op in ("sort", "argsort")),
    *((op, {"input": _LOST, "dim": 1, "descending": True, "stable": True}) for op in ("sort", "argsort")),
    *((op, {"input": _CUBE, "dim": dim}) for op in (
        *("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "diff", "sort", "argsort"),
        *("softmax", "log_softmax", "glu", "normalize"))
        for dim in (0, 1, -1)),
    *((op, {"input": _FLAGS, "dim": 1}) for op in ("all", "any", "count_nonzero", "sum")),
    *((op, {"input": _FLAGS}) for op in ("all", "any", "count_nonzero", "sum")),
    *(("count_nonzero", {"input": _CUBE > 0, "dim": dim}) for dim in (0, 1, 2)),
    ("any", {"input": np.zeros((2, 0)), "dim": 1}),
    *((op, {"input": np.zeros((2, 0)), "dim": [1]}) for op in ("sum", "mean", "logsumexp", "nansum")),
    *((op, {"input": draw(4, 6), "dim": [1], "correction": c}) for op in ("var", "std") for c in (0, 1, 2)),
    *(("norm", {"input": _CUBE, "p": p, "dim": dim, "keepdim": p == 2})
      for p, dim in ((2, [1]), (1, [0]), (_INF, [-1]), (0, [1]), (3, [1]), (-_INF, [0]))),
    ("norm", {"input": _LOST, "dim": [1]}),
    *(("quantile", {"input": _CUBE, "q": 0.3, "dim": dim, "interpolation": mode, "keepdim": dim == 1})
      for dim, mode in ((0, "linear"), (1, "lower"), (2, "higher"), (1, "nearest"), (1, "linear"))),
    *((op, {"input": _CUBE, "k": 2, "dim": dim}) for op in ("topk", "kthvalue") for dim in (0, 1, -1)),
    ("kthvalue", {"input": _CUBE, "k": 2, "dim": 1, "keepdim": True}),
    ("topk", {"input": _LOST, "k": 2, "dim": 1}),
    ("kthvalue", {"input": _LOST, "k": 2, "dim": 1}),
    ("logsumexp", {"input": _LARGE, "dim": [1]}),
    ("diff", {"input": _SQUARE, "n": 2}),
    *(("searchsorted", {"sorted_sequence": np.array([1.0, 2.0, 2.0, 3.0]), "input": np.array([2.0, 0.0, 3.0, 9.0]), "right": right}) for right in (False, True)),
    *(("bucketize", {"input": np.array([2.0, 0.0, 3.0, 9.0]), "boundaries": np.array([1.0, 2.0, 2.0, 3.0]), "right": right}) for right in (False, True)),
    *(("gather", {"input": _SQUARE, "dim": dim, "index": _INDEX}) for dim in (0, 1)),
    ("gather", {"input": _SQUARE, "dim": 1, "index": _INDEX[:2, :3]}),
    *(("scatter_add", {"input": _SQUARE, "dim": dim, "index": _INDEX, "src": draw(4, 4)}) for dim in (0, 1)),
    *(("scatter", {"input": _SQUARE, "dim": dim, "index": np.argsort(_SQUARE, dim)[:3, :3], "src": draw(4, 4)}) for dim in (0, 1)),
    ("scatter", {"input": _SQUARE, "dim": 1, "index": _INDEX, "value": 7.0}),
    ("scatter", {"input": np.ones((4, 4)), "dim": 1, "index": _INDEX, "src": np.full((4, 4), 2.0)}),
    *(("index_select", {"input": _CUBE, "dim": dim, "index": np.array([2, 0, 0])}) for dim in (0, 1, 2)),
    *(("index_add", {"input": _CUBE, "dim": dim, "index": np.array([2, 0, 0, 1]), "source": draw(4, 4, 4), "alpha": 2}) for dim in (0, 1, 2)),
    ("take", {"input": _SQUARE, "index": np.array([-1, 5, -16])}),
    ("select", {"input": _CUBE, "dim": 1, "index": -1}),
    ("narrow", {"input": _CUBE, "dim": 1, "start": -2, "length": 2}),
    *(("roll", {"input": _CUBE, "shifts": [1, -2], "dims": dims}) for dims in ([0, 1], [2, 0])),
    *(("flip", {"input": _CUBE, "dims": dims}) for dims in ([0], [1], [0, 2], [-1])),
    *(("repeat_interleave", {"input": _CUBE, "repeats": 2, "dim": dim}) for dim in (0, 1, 2)),
    *((op, {"tensors": [_SQUARE, draw(4, 4)], "dim": dim}) for op in ("cat", "stack") for dim in (0, 1, -1)),
    ("stack", {"tensors": [_CUBE, draw(4, 4, 4)], "dim": 1}),
    ("reshape", {"input": draw(3, 4), "shape": [2, 6]}),
    ("movedim", {"input": draw(4, 4, 4), "source": [0, 1], "destination": [2, 0]}),
    ("diagonal", {"input": draw(4, 4), "offset": 1}),
    *((op, {"input": _SQUARE, "diagonal": 1}) for op in ("tril", "triu")),
    *((op, {"row": 3, "col": 4, "offset": offset}) for op in ("tril_indices", "triu_indices") for offset in (0, 1)),
    *(("pad", {"input": _GRID, "pad": [1, 2, 2, 1], "mode": mode}) for mode in ("reflect", "replicate", "circular")),
    ("pad", {"input": _GRID, "pad": [1, 2, -1, 1], "value": 3.0}),
    ("pixel_shuffle", {"input": _GRID, "upscale_factor": 2}),
    ("tile", {"input": _SQUARE, "dims": [2, 1]}),
    ("broadcast_to", {"input": draw(4, 1), "shape": [2, 4, 3]}),
    ("mv", {"input": _SQUARE, "vec": draw(4)}),
    ("dot", {"input": draw(4), "tensor": draw(4)}),
    ("dot", {"input": np.array([2**20, 3]), "tensor": np.array([2**20, 5])}),
    ("outer", {"input": draw(4), "vec2": draw(4)}),
    *((op, {"input": _SPD}) for op in ("det", "inverse", "cholesky", "trace")),
    ("inverse", {"input": _SQUARE}),
    ("det", {"input": np.array([[0.0, 1.0], [2.0, 0.0]])}),
    ("trace", {"input": np.array([[2**31, 1], [1, 2**31]])}),
    ("cholesky", {"input": _SPD, "upper": True}),
    ("solve", {"A": _SQUARE, "B": draw(4, 4)}),
    *(("triangular_solve", {"A": _SPD, "B": draw(4, 4), "upper": upper, "left": left, "unitriangular": unit})
      for upper, left, unit in ((True, True, False), (False, False, True))),
    ("kron", {"input": draw(2, 2), "other": draw(2, 2)}),
    ("cross", {"input": draw(4, 3), "other": draw(4, 3)}),
    *((op, {"input": draw(2, 3, 5), f"{name}1": draw(2, 3, 4), f"{name}2": draw(2, 4, 5), "beta": 2, "alpha": 3})
      for op, name in (("baddbmm", "batch"),)),
    ("addmm", {"input": draw(3, 5), "mat1": draw(3, 4), "mat2": draw(4, 5), "beta": 0.5, "alpha": 2}),
    ("addmm", {"input": np.full((3, 5), _NAN), "mat1": draw(3, 4), "mat2": draw(4, 5), "beta": 0}),
    ("einsum", {"operands": [draw(3, 4), draw(4, 5)], "equation": "ij,jk->ki"}),
    *(("cdist", {"x1": draw(3, 4), "x2": draw(5, 4), "p": p}) for p in (1.0, 2.0, 3.0, _INF)),
    *((op, {"input": draw(5, 2), "norm": norm}) for op in ("fft", "ifft") for norm in ("backward", "ortho")),
    ("fft", {"input": draw(5, 2), "norm": "forward"}),
    ("ifft", {"input": draw(5, 2), "norm": "forward"}),
    *(("rfft", {"input": draw(5), "norm": norm}) for norm in ("backward", "ortho", "forward")),
    *(("irfft", {"input": draw(5, 2) * [1, 1], "norm": norm}) for norm in ("backward", "ortho", "forward")),
    *((op, {"input": draw(5)}) for op in ("fftshift", "ifftshift")),
    ("linspace", {"start": -1.0, "end": 2.0, "steps": 7}),
    *(("logspace", {"start": -1.0, "end": 2.0, "steps": 4, "base": base}) for base in (10.0, 3.0)),
    *(("hann_window", {"window_length": 6, "periodic": periodic}) for periodic in (True, False)),
    ("eye", {"n": 3, "m": 4}),
    *(("meshgrid", {"tensors": [draw(3), draw(3)], "indexing": indexing}) for indexing in ("ij", "xy")),
    ("celu", {"input": _FINITE, "alpha": 0.5}),
    ("hardtanh", {"input": _FINITE, "min_val": -2.0, "max_val": 3.0}),
    ("hardtanh", {"input": _EDGES}),
    *((op, {"input": _FINITE, "lambd": 1.0}) for op in ("hardshrink", "softshrink")),
    ("hardshrink", {"input": np.array([0.7, -0.2, 1.4]), "lambd": 1.0}),
    ("threshold", {"input": _EDGES, "threshold": 0.5, "value": 9.0}),
    ("prelu", {"input": draw(3, 4, 4), "weight": draw(4)}),
    ("prelu", {"input": draw(3, 4), "weight": draw(1)}),
    *(("normalize", {"input": _SQUARE, "p": p, "dim": 1}) for p in (1.0, 3.0)),
    ("normalize", {"input": _SQUARE * 1e-3, "dim": 1, "eps": 1e-3}),
    *(("cosine_similarity", {"x1": _CUBE, "x2": draw(4, 4, 4), "dim": dim}) for dim in (0, 1, -1)),
    *(("huber_loss", {"input": draw(4, 5) * 3, "target": draw(4, 5), "delta": 0.5, "reduction": one}) for one in ("mean", "sum")),
    *(("binary_cross_entropy", {"input": _TARGET, "target": _TARGET[::-1].copy(), "reduction": one, "weight": draw(4) ** 2}) for one in ("mean", "sum")),
    ("binary_cross_entropy", {"input": np.array([0.0, 1.0, 0.5]), "target": np.array([1.0, 1.0, 0.0])}),
    *(("kl_div", {"input": np.log(_TARGET), "target": _TARGET[:, ::-1].copy(), "reduction": one}) for one in ("mean", "sum", "batchmean")),
    ("cross_entropy", {"input": draw(4, 5), "target": np.array([0, 3, 1, 4])}),
    *(("cast", {"input": np.array([0.5, 1.5, -1.5, -0.7, 2.5, 100.25]), "dtype": dtype}) for dtype in ("int64", "bool", "float16", "bfloat16", "int8")),
    ("cast", {"input": np.array([300, -129, 70000, 2**40 + 3]), "dtype": "int16"}),
    ("cast", {"input": np.array([2**53 + 1, 2**24 + 1, 1]), "dtype": "float64"}),
    ("cast", {"input": np.array([1 / 3, 2 / 3, 1e6, -0.1]), "dtype": "bfloat16"}),
    *((op, {"input": _LOST[::-1].copy(), "dim": 0}) for op in ("amax", "amin", "argmax", "argmin", "max", "min")),
    ("maximum", {"input": np.array([_NAN, 1.0, 2.0]), "other": np.array([1.0, _NAN, 3.0])}),
    ("minimum", {"input": np.array([_NAN, 1.0, 2.0]), "other": np.array([1.0, _NAN, 3.0])}),
    ("pow", {"input": np.array([-2.0, 0.0, 1.0]), "exponent": np.array([2.0, 0.0, _INF])}),
    *((op, {"input": np.full(2100, 1.0)}) for op in ("sum", "mean")),
    *((op, {"input": np.full((300, 2), 1.001), "dim": [0], "keepdim": True}) for op in ("sum", "mean")),
    ("logsumexp", {"input": np.array([[-_INF, -_INF], [_INF, 1.0]]), "dim": [1]}),
    ("cumsum", {"input": np.array([1.0, 2.0, _INF, 3.0]), "dim": 0}),
    *((op, {"input": np.array([-1e-8, 1e-8, -1e-3])}) for op in ("elu", "selu", "celu", "expm1", "log1p")),
    *((op, {"input": np.array([-20.0, -1.0, 20.0])}) for op in ("softplus", "logsigmoid")),
    ("scatter", {"input": _SQUARE, "dim": 0, "index": np.array([[0, 1], [2, 3]]), "src": draw(4, 4)}),
    ("scatter_add", {"input": _SQUARE, "dim": 0, "index": np.array([[0, 1], [2, 3]]), "src": draw(4, 4)}),
    ("arange", {"start": 0.0, "end": 1.0, "step": 0.1}),
    ("max_pool2d", {"input": np.where(_GRID > 1.5, _NAN, _GRID), "kernel_size": [2, 2]}),
    *((op, {"input": np.array([1e-40, 1.0, -2e-39])}) for op in ("abs", "neg", "log2")),
    ("div", {"input": np.array([3e-38, 1.0, -2e-38]), "other": np.array([100.0, 2.0, 8.0])}),
]  # fmt: skip
