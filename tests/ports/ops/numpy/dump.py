"""NumPy over the op zoo, each operator by NumPy's function of that name or meaning.

`dump.py OP ARGS INPUTS OUT` makes one call. `dump.py BUNDLE OUT` makes all calls of a bundle's
archive in one process, and writes what `parity verify --dumps OUT` reads.

What NumPy raises is a rejection, which ends with code 1; what it has no function for is
`not supported: WHAT`, and code 3. An argument that is never asked for is not supported.
"""

from __future__ import annotations

import json
import sys
import tarfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray
DTYPES = {
    **{f"{kind.upper()}{bits}": f"{kind}{bits // 8}" for kind in "iu" for bits in (8, 16, 32, 64)},
    **{f"F{bits}": f"f{bits // 8}" for bits in (16, 32, 64)},
    "BOOL": "?",
}
NUMBERS = {"inf": np.inf, "-inf": -np.inf, "nan": np.nan}
PAD_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


class NotSupportedError(Exception):
    """NumPy has no such function, option or dtype."""


class Call:
    """The arguments and inputs of one call; each counts as used once asked for."""

    def __init__(self, op: str, args: str, inputs: bytes) -> None:
        self.op, self.left = op, json.loads(args)
        views = self.left.pop("views", {})
        self.inputs = {name: _view(array, views.get(name)) for name, array in _read(inputs)}

    def take(self, name: str = "input") -> Array:
        """Return an input."""
        if name not in self.inputs:
            raise NotSupportedError(f"{self.op} without {name}")
        return self.inputs.pop(name)

    def arg(self, name: str, default: Any = None) -> Any:
        """Return an argument: an input of that name, or what the JSON states."""
        if name in self.inputs:
            return self.inputs.pop(name)
        value = self.left.pop(name, default)
        return NUMBERS.get(value, value) if isinstance(value, str) else value

    def axes(self, name: str = "dim", default: Any = None) -> Any:
        """Return an axis, or several as a tuple."""
        value = self.arg(name, default)
        return tuple(value) if isinstance(value, list) else value

    def require(self, name: str, default: Any, *allowed: Any) -> Any:
        """Return an option that NumPy has for some values alone."""
        if (value := self.arg(name, default)) not in allowed:
            raise NotSupportedError(f"{self.op} with {name} {value}")
        return value

    def listed(self) -> list[Array]:
        """Return the inputs, which are numbered."""
        return [self.take(name) for name in list(self.inputs)]


def _view(array: Array, view: dict[str, Any] | None) -> Array:
    for kind, values in (view or {}).items():
        if kind == "transpose":
            array = array.swapaxes(*values)
        elif kind == "expand":
            array = np.broadcast_to(array, values)
        else:
            axis = values[0] % array.ndim
            part = slice(None, None, values[1])
            if kind == "narrow":
                part = slice(values[1], values[1] + values[2])
            array = array[(slice(None),) * axis + (part,)]
    return array


def _read(file: bytes) -> Iterator[tuple[str, Array]]:
    if not file:
        return
    start = 8 + int.from_bytes(file[:8], "little")
    for name, entry in json.loads(file[8:start]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in DTYPES:
            raise NotSupportedError(f"tensors of {entry['dtype']}")
        first, last = entry["data_offsets"]
        array = np.frombuffer(file[start + first : start + last], DTYPES[entry["dtype"]])
        yield name, array.reshape(entry["shape"])


def _write(outputs: dict[str, Any]) -> bytes:
    header, data = {}, b""
    names = {np.dtype(code): name for name, code in DTYPES.items()}
    for name, value in outputs.items():
        array = np.asarray(value)
        if array.dtype.kind == "c":
            array = _unpack(array)
        part = array.tobytes()
        offsets = [len(data), len(data) + len(part)]
        entry = {"dtype": names[array.dtype], "shape": array.shape, "data_offsets": offsets}
        header[name], data = entry, data + part
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def _pack(array: Array) -> Array:
    """Return the complex numbers of a file, where they are pairs on the last axis."""
    return array[..., 0] + 1j * array[..., 1]


def _unpack(array: Array) -> Array:
    return np.stack([array.real, array.imag], axis=-1)


def _dtype(name: str | None) -> Any:
    if name == "bfloat16":
        raise NotSupportedError("tensors of BF16")
    return name and np.dtype(name)


def _unary(function: Callable[..., Any], call: Call) -> Any:
    return function(call.take())


def _binary(function: Callable[..., Any], call: Call, other: str = "other") -> Any:
    call.require("alpha", 1, 1)
    return function(call.take(), call.take(other))


def _divide(call: Call) -> Any:
    mode = call.require("rounding_mode", None, None, "floor")
    return _binary(np.floor_divide if mode else np.divide, call)


def _reduce(function: Callable[..., Any], call: Call) -> Any:
    words = {"dtype": _dtype(call.arg("dtype"))} if "dtype" in call.left else {}
    if "correction" in call.left or function in (np.var, np.std):
        words["ddof"] = call.arg("correction", 1)
    return function(call.take(), axis=call.axes(), keepdims=call.arg("keepdim", False), **words)


def _quantile(call: Call) -> Any:
    q, method = call.arg("q"), call.arg("interpolation", "linear")
    words = {"axis": call.axes(), "keepdims": call.arg("keepdim", False), "method": method}
    return np.quantile(call.take(), q, **words)


def _scan(function: Callable[..., Any], call: Call) -> Any:
    return function(call.take(), axis=call.axes(), dtype=_dtype(call.arg("dtype")))


def _sort(call: Call) -> Any:
    call.require("descending", False, False)
    words = {"axis": call.axes("dim", -1), "stable": call.arg("stable", False)}
    array = call.take()
    indices = np.argsort(array, **words)
    return (
        indices if call.op == "argsort" else {"values": np.sort(array, **words), "indices": indices}
    )


def _unique(call: Call) -> Any:
    inverse, counts = call.arg("return_inverse", False), call.arg("return_counts", False)
    found = np.unique(call.take(), return_inverse=inverse, return_counts=counts)
    names = ["out"] + ["inverse_indices"] * inverse + ["counts"] * counts
    return dict(zip(names, found, strict=True)) if inverse or counts else found


def _search(call: Call, sequence: str) -> Any:
    side = "right" if call.arg("right", False) else "left"
    return np.searchsorted(call.take(sequence), call.take(), side=side)


def _select(call: Call) -> Any:
    array, mask = call.take(), call.take("mask")
    if array.shape != mask.shape:
        raise NotSupportedError("masked_select with broadcasting")
    return array[mask]


def _pad(call: Call) -> Any:
    array, flat = call.take(), call.arg("pad")
    if min(flat, default=0) < 0:
        raise NotSupportedError("pad by negative sizes")
    pairs = list(zip(flat[::2], flat[1::2], strict=True))[::-1]
    widths = [(0, 0)] * (array.ndim - len(pairs)) + pairs
    mode = call.arg("mode", "constant")
    words = {"constant_values": call.arg("value", 0)} if mode == "constant" else {}
    return np.pad(array, widths, PAD_MODES.get(mode, mode), **words)


def _flatten(call: Call) -> Any:
    call.require("start_dim", 0, 0)
    call.require("end_dim", -1, -1)
    return call.take().flatten()


def _unfold(call: Call) -> Any:
    call.require("step", 1, 1)
    window, axis = call.arg("size"), call.arg("dimension")
    return np.lib.stride_tricks.sliding_window_view(call.take(), window, axis)


def _matrix_vector(call: Call) -> Any:
    return np.matvec(call.take(), call.take("vec"))


def _transform(call: Call) -> Any:
    array = call.take()
    array = array if call.op == "rfft" else _pack(array)
    words = {"norm": call.arg("norm", "backward")}
    if call.op != "fft2":
        words |= {"n": call.arg("n"), "axis": call.arg("dim", -1)}
    return getattr(np.fft, call.op)(array, **words)


def _slogdet(call: Call) -> Any:
    sign, logarithm = np.linalg.slogdet(call.take())
    return {"sign": sign, "logabsdet": logarithm}


def _arange(call: Call) -> Any:
    return np.arange(
        call.arg("start"), call.arg("end"), call.arg("step"), _dtype(call.arg("dtype"))
    )


def _space(function: Callable[..., Any], call: Call) -> Any:
    words = {"base": call.arg("base", 10.0)} if call.op == "logspace" else {}
    start, end = call.arg("start"), call.arg("end")
    return function(start, end, call.arg("steps"), dtype=_dtype(call.arg("dtype")), **words)


def _triangle(function: Callable[..., Any], call: Call) -> Any:
    return np.asarray(function(call.arg("row"), call.arg("offset", 0), call.arg("col")))


def _window(call: Call) -> Any:
    call.require("periodic", True, False)
    call.require("dtype", None, "float64")
    return np.hanning(call.arg("window_length"))


def _meshgrid(call: Call) -> Any:
    grids = np.meshgrid(*call.listed(), indexing=call.arg("indexing", "ij"))
    return {f"out.{index}": grid for index, grid in enumerate(grids)}


UNARY = """
    abs sign exp exp2 expm1 log log2 log10 log1p sqrt square reciprocal sin cos tan asin acos atan
    sinh cosh tanh asinh acosh atanh ceil floor trunc sinc deg2rad rad2deg isnan isinf isfinite
    isposinf isneginf signbit bitwise_not logical_not
"""
BINARY = """
    add floor_divide remainder fmod atan2 hypot maximum minimum fmax fmin copysign nextafter
    logaddexp logaddexp2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift
    bitwise_right_shift gcd lcm logical_and logical_or logical_xor
"""
OTHER_NAMES = {
    "sub": np.subtract,
    "mul": np.multiply,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
REDUCTIONS = "sum prod mean var std amax amin argmax argmin all any count_nonzero nansum nanmean"

OPERATORS: dict[str, Callable[[Call], Any]] = {
    **{name: partial(_unary, getattr(np, name)) for name in UNARY.split()},
    **{name: partial(_binary, getattr(np, name)) for name in BINARY.split()},
    **{name: partial(_binary, function) for name, function in OTHER_NAMES.items()},
    **{name: partial(_reduce, getattr(np, name)) for name in REDUCTIONS.split()},
    "neg": partial(_unary, np.negative),
    "round": lambda c: np.round(c.take(), c.arg("decimals", 0)),
    "nan_to_num": lambda c: np.nan_to_num(
        c.take(), nan=c.arg("nan", 0.0), posinf=c.arg("posinf"), neginf=c.arg("neginf")
    ),
    "div": _divide,
    "pow": partial(_binary, np.power, other="exponent"),
    "heaviside": partial(_binary, np.heaviside, other="values"),
    "isclose": lambda c: np.isclose(
        c.take(),
        c.take("other"),
        rtol=c.arg("rtol", 1e-5),
        atol=c.arg("atol", 1e-8),
        equal_nan=c.arg("equal_nan", False),
    ),
    "where": lambda c: np.where(c.take("condition"), c.take(), c.take("other")),
    "clamp": lambda c: np.clip(c.take(), c.arg("min"), c.arg("max")),
    "norm": lambda c: np.linalg.vector_norm(
        c.take(), axis=c.axes(), keepdims=c.arg("keepdim", False), ord=c.arg("p", 2)
    ),
    "quantile": _quantile,
    "cumsum": partial(_scan, np.cumsum),
    "cumprod": partial(_scan, np.cumprod),
    "diff": lambda c: np.diff(c.take(), n=c.arg("n", 1), axis=c.arg("dim", -1)),
    "sort": _sort,
    "argsort": _sort,
    "unique": _unique,
    "searchsorted": partial(_search, sequence="sorted_sequence"),
    "bucketize": partial(_search, sequence="boundaries"),
    "bincount": lambda c: np.bincount(c.take(), c.arg("weights"), c.arg("minlength", 0)),
    "index_select": lambda c: np.take(c.take(), c.take("index"), axis=c.arg("dim")),
    "take": lambda c: np.take(c.take(), c.take("index")),
    "take_along_dim": lambda c: np.take_along_axis(c.take(), c.take("indices"), c.arg("dim")),
    "masked_select": _select,
    "nonzero": partial(_unary, np.argwhere),
    "roll": lambda c: np.roll(c.take(), c.axes("shifts"), c.axes("dims")),
    "flip": lambda c: np.flip(c.take(), c.axes("dims")),
    "repeat_interleave": lambda c: np.repeat(c.take(), c.arg("repeats"), c.arg("dim")),
    "reshape": lambda c: np.reshape(c.take(), c.axes("shape")),
    "transpose": lambda c: np.swapaxes(c.take(), c.arg("dim0"), c.arg("dim1")),
    "permute": lambda c: np.transpose(c.take(), c.axes("dims")),
    "squeeze": lambda c: np.squeeze(c.take(), c.axes()),
    "unsqueeze": lambda c: np.expand_dims(c.take(), c.axes()),
    "broadcast_to": lambda c: np.broadcast_to(c.take(), c.axes("shape")),
    "flatten": _flatten,
    "cat": lambda c: np.concatenate(c.listed(), axis=c.arg("dim", 0)),
    "stack": lambda c: np.stack(c.listed(), axis=c.arg("dim", 0)),
    "tile": lambda c: np.tile(c.take(), c.axes("dims")),
    "movedim": lambda c: np.moveaxis(c.take(), c.axes("source"), c.axes("destination")),
    "diagonal": lambda c: np.diagonal(
        c.take(), c.arg("offset", 0), c.arg("dim1", 0), c.arg("dim2", 1)
    ),
    "tril": lambda c: np.tril(c.take(), c.arg("diagonal", 0)),
    "triu": lambda c: np.triu(c.take(), c.arg("diagonal", 0)),
    "pad": _pad,
    "unfold": _unfold,
    "matmul": partial(_binary, np.matmul),
    "bmm": partial(_binary, np.matmul, other="mat2"),
    "mv": _matrix_vector,
    "dot": partial(_binary, np.dot, other="tensor"),
    "outer": partial(_binary, np.outer, other="vec2"),
    "einsum": lambda c: np.einsum(c.arg("equation"), *c.listed()),
    "det": partial(_unary, np.linalg.det),
    "slogdet": _slogdet,
    "inverse": partial(_unary, np.linalg.inv),
    "solve": lambda c: np.linalg.solve(c.take("A"), c.take("B")),
    "cholesky": lambda c: np.linalg.cholesky(c.take(), upper=c.arg("upper", False)),
    "matrix_power": lambda c: np.linalg.matrix_power(c.take(), c.arg("n")),
    "trace": partial(_unary, np.trace),
    "kron": partial(_binary, np.kron),
    "cross": lambda c: np.linalg.cross(c.take(), c.take("other"), axis=c.arg("dim", -1)),
    "cast": lambda c: c.take().astype(_dtype(c.arg("dtype"))),
    **dict.fromkeys(["fft", "ifft", "rfft", "irfft", "fft2"], _transform),
    "fftshift": lambda c: np.fft.fftshift(c.take(), c.axes()),
    "ifftshift": lambda c: np.fft.ifftshift(c.take(), c.axes()),
    "arange": _arange,
    "linspace": partial(_space, np.linspace),
    "logspace": partial(_space, np.logspace),
    "eye": lambda c: np.eye(c.arg("n"), c.arg("m"), dtype=_dtype(c.arg("dtype"))),
    "full": lambda c: np.full(c.axes("size"), c.arg("fill_value"), _dtype(c.arg("dtype"))),
    "tril_indices": partial(_triangle, np.tril_indices),
    "triu_indices": partial(_triangle, np.triu_indices),
    "meshgrid": _meshgrid,
    "hann_window": _window,
}


def compute(op: str, args: str, inputs: bytes) -> bytes:
    """Make one call; return the file of its outputs.

    Raises:
        NotSupportedError: NumPy has no such function, option or dtype.
        Exception: NumPy rejects the call.
    """
    if op not in OPERATORS:
        raise NotSupportedError(op)
    call = Call(op, args, inputs)
    found = OPERATORS[op](call)
    left = [name for name, value in call.left.items() if value is not None]
    if unused := [*call.inputs, *left]:
        raise NotSupportedError(f"{op} with {unused[0]}")
    return _write(found if isinstance(found, dict) else {"out": found})


def attempt(op: str, args: str, inputs: bytes) -> tuple[int, str, bytes]:
    """Make one call; return the exit code, the message and the file of outputs."""
    try:
        return 0, "", compute(op, args, inputs)
    except NotSupportedError as error:
        return 3, f"not supported: {error}", b""
    except Exception as error:  # noqa: BLE001 -- whatever NumPy raises is its rejection
        return 1, f"{type(error).__name__}: {error}", b""


def compute_all(archive: Path, folder: Path) -> None:
    """Make all calls of a bundle; write the dump and `outcome.json` of each case."""
    with tarfile.open(archive) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}  # type: ignore[union-attr]
    for case, entry in json.loads(files["parity.json"])["cases"].items():
        inputs = files.get(f"{case}/inputs.safetensors", b"")
        code, message, output = attempt(entry["words"]["op"], entry["words"]["args"], inputs)
        place = folder / archive.stem / case
        place.mkdir(parents=True)
        (place / "outcome.json").write_text(json.dumps({"exit": code, "stderr": message}))
        if code == 0:
            (place / "out.safetensors").write_bytes(output)


def main() -> None:
    """Make one call, or all of a bundle."""
    warnings.simplefilter("ignore")
    if len(sys.argv) == 3:
        compute_all(Path(sys.argv[1]), Path(sys.argv[2]))
        return
    op, args, inputs, out = sys.argv[1:]
    path = Path(inputs)
    code, message, output = attempt(op, args, path.read_bytes() if path.exists() else b"")
    if code:
        sys.stderr.write(f"{message}\n")
        sys.exit(code)
    Path(out).write_bytes(output)


if __name__ == "__main__":
    main()
