"""Compute operators a second time, in NumPy: the witness of what torch computes.

Floats are float64. An operator is computed by NumPy's own function (`numpy.yaml`), by one of
``witness_functions``, or else by ``parity.diagnose.stages``.
"""

from __future__ import annotations

import warnings
from functools import cache
from operator import attrgetter
from typing import Any

import numpy as np

from parity.diagnose.stages.operators import compute, find_operator
from parity.lab.array_files import to_array
from parity.lab.op_zoo.arrays import read_number
from parity.lab.op_zoo.case import OpCase, read_file, read_operators
from parity.lab.op_zoo.witness_functions import FUNCTIONS

Array = Any  # of NumPy; a number has no axes

_NARROW = ("nextafter", "nan_to_num")  # They depend on the dtype of their input
#: Names of ATen's arguments that differ from those of torch's functions.
_ATEN = {
    "embedding": {"input": "indices"},
    "interpolate": {"size": "output_size", "scale_factor": "scale_factors"},
    "split": {"split_size_or_sections": "split_size"},
}


def compute_witness(case: OpCase, *, is_float: bool) -> dict[str, Array]:
    """Return the outputs of a case by name, floats not rounded to their dtype.

    Where the result ``is_float``, integers of a byte or two are taken as float64, of which NumPy
    would compute float16.

    Raises:
        LookupError: No function knows the operator.
    """
    arrays, args = read_arguments(case)
    if is_float and all(one.dtype.kind != "f" for one in arrays.values()):
        small = {name for name, one in arrays.items() if one.dtype.itemsize <= 2}  # noqa: PLR2004 - bytes
        arrays |= {name: arrays[name].astype(np.float64) for name in small}
    # NumPy has no axis 0 of a scalar, torch has
    has_axis = isinstance(args.get("dim"), int) and case.op != "unsqueeze"
    is_scalar = has_axis and all(not one.ndim for one in arrays.values())
    if is_scalar:
        arrays = {name: one.reshape(1) for name, one in arrays.items()}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns of a mean of nothing
        results = case.name_outputs(_compute(case, case.bind(arrays), args))
    return {name: one.reshape(()) for name, one in results.items()} if is_scalar else results


def _compute(case: OpCase, bound: dict[str, Any], args: dict[str, Any]) -> Any:
    function = FUNCTIONS.get(case.op)
    if function is None and case.op in _read_names():
        path, *renames = _read_names()[case.op]
        names = {"dim": "axis", "keepdim": "keepdims"} | (renames[0] if renames else {})
        function = attrgetter(path)(np)
        args = {
            names.get(name, name): _to_axes(one) for name, one in args.items() if name != "dtype"
        }
    if function is None:
        return _compute_stage(case.op, bound | args)
    required = [bound.pop(name) for name in case.required if name in bound]
    return function(*required, **bound, **args)


@cache
def _read_names() -> dict[str, Any]:
    names: dict[str, Any] = read_file("numpy.yaml")["functions"]
    return names


def _to_axes(value: Any) -> Any:
    is_axes = isinstance(value, list) and all(isinstance(one, int) for one in value)
    return tuple(value) if is_axes else value


def _compute_stage(op: str, arguments: dict[str, Any]) -> Any:
    """Compute an operator as a stage; convolutions and pooling of one sample as a batch of it."""
    kind, given = name_stage(op, arguments)
    if not find_operator(kind):
        raise LookupError(f"no witness computes {op}")
    axes = int(op[-2]) if op[-2:] in ("1d", "2d", "3d") else None
    if axes is not None and given["input"].ndim == axes + 1:
        return compute(kind, {**given, "input": given["input"][None]})[0]
    outputs = read_operators()[op]["outputs"]
    if len(outputs) > 1:
        return [compute(kind, {**given, "output": at}) for at in range(len(outputs))]
    return compute(kind, given)


def name_stage(op: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the kind of the stage that computes an operator, and its arguments by ATen's names."""
    kind, names = f"aten.{op}", _ATEN.get(op, {})
    if op == "interpolate":
        kind = f"aten.upsample_{arguments.pop('mode', 'nearest')}"
        if kind == "aten.upsample_nearest":
            arguments.pop("align_corners", None)
    if op == "cross_entropy":
        kind = "aten.cross_entropy_loss"
    return kind, {names.get(name, name): value for name, value in arguments.items()}


def read_arguments(case: OpCase) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return inputs, after their views, and arguments; floats in float64 for most operators."""
    args = {key: _read_arg(value) for key, value in case.args.items()}
    arrays = {name: to_array(one) for name, one in case.inputs.items()}
    for name, view in args.pop("views", {}).items():
        arrays[name] = _apply_view(arrays[name], view)
    if case.op not in _NARROW:
        floats = {name for name, one in arrays.items() if one.dtype.kind == "f"}
        arrays |= {name: arrays[name].astype(np.float64) for name in floats}
    return arrays, args


def _read_arg(value: Any) -> Any:
    """Return an argument; infinities and NaN, which are texts in JSON, as numbers."""
    return read_number(value) if value in ("inf", "-inf", "nan") else value


def _apply_view(array: Array, view: dict[str, list[int]]) -> Array:
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
