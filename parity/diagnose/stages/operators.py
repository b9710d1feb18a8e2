"""Name the operator of a stage and its arguments, for ATen calls and for modules of torch.nn."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from parity.diagnose.stages import (
    elementwise,
    move,
    multiply,
    nonlinear,
    reduce,
    sequence,
    train,
    windows,
)
from parity.diagnose.stages.base import NAMES, check_broadcast, check_size
from parity.diagnose.stages.elementwise import CHANGES

Arguments = dict[str, Any]
#: Types of what `compute` raises.
ERRORS = (LookupError, ArithmeticError, AttributeError, TypeError, ValueError)

_MODULES: tuple[Any, ...] = (
    *(elementwise, move, multiply, nonlinear),
    *(reduce, sequence, train, windows),
)
#: Every function by the name of its operator.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    name.rstrip("_"): function
    for module in _MODULES
    for name, function in inspect.getmembers(module, inspect.isfunction)
    if function.__module__ == module.__name__ and not name.startswith("_")
}
for _module in _MODULES:
    _FUNCTIONS |= getattr(_module, "TABLE", {})


@cache
def find_operator(kind: str) -> str:
    """Return our name of ``aten.layer_norm.default``, ``nn.LayerNorm`` or ``LayerNorm``, or ``""``.

    Numbers of dimensions (``Conv2d``) and a module's package do not matter.
    """
    if kind.startswith("aten."):
        name = kind.split(".")[1].removesuffix("_")
        name = next(
            (ours for each, ours in NAMES["aliases"].items() if re.fullmatch(each, name)), name
        )
        return name if name in _FUNCTIONS else ""
    known = {**NAMES["optimizers"], **NAMES["modules"]}
    return known.get(_name_module(kind)) or (kind if kind in _FUNCTIONS else "")


def _name_module(kind: str) -> str:
    return re.sub(r"[123]d$", "", kind.rpartition(".")[2])


@cache
def _list_parameters(operator: str) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(_FUNCTIONS[operator]).parameters


def compute(kind: str, arguments: Mapping[str, Any]) -> Any:
    """Compute a stage's output in float64.

    Raises:
        LookupError: The operator, or one of its arguments, is unknown.
        ArithmeticError, AttributeError, TypeError, ValueError: The arguments do not fit each other.
    """
    return call(find_operator(kind), prepare_arguments(kind, arguments))


def call(operator: str, arguments: Mapping[str, Any]) -> Any:
    """Call the function of an operator with prepared arguments; errors as for ``compute``.

    Of several outputs the argument ``output`` says which one, the first without it.
    """
    function = _FUNCTIONS.get(operator)
    if function is None:
        raise LookupError(operator)
    known, arguments = _list_parameters(operator), dict(arguments)
    output = arguments.pop("output", None)
    open_ended = any(one.kind is one.VAR_KEYWORD for one in known.values())
    if not open_ended and (unknown := set(arguments) - set(known)):
        raise LookupError(", ".join(sorted(unknown)))
    _check_sizes(operator, arguments)
    check_broadcast(*(one for one in arguments.values() if isinstance(one, (np.ndarray, float))))
    with np.errstate(all="ignore"):  # a wrong way may divide by zero
        result = function(**arguments)
    if isinstance(result, tuple) or output is not None:
        result = result[output or 0]
    if isinstance(result, np.ndarray):
        check_size(*result.shape)
    return result


def _check_sizes(operator: str, arguments: Mapping[str, Any]) -> None:
    """Reject numbers of the bundle that would make an array too large."""
    names = [name for name in NAMES["sizes"].get(operator, ()) if name in arguments]
    values = ((name, np.asarray(arguments[name])) for name in names)
    sizes = (one.shape if name == "input" else one.ravel() for name, one in values)
    check_size(*(int(size) for each in sizes for size in each))


def call_one(name: str, value: Any) -> Any:
    """Change a value by a function of one argument: one of ``CHANGES``, or an operator."""
    function = CHANGES.get(name) or _FUNCTIONS[name]
    with np.errstate(all="ignore"):
        return function(value)


def prepare_arguments(kind: str, arguments: Mapping[str, Any]) -> Arguments:
    """Return the arguments under the names of our functions, without those of no influence.

    A module's settings that its function does not know are left out; whoever computes the
    right way compares it with the reference, and so sees one that matters.

    Raises:
        LookupError: Dropout in training, which is random.
    """
    operator = find_operator(kind)
    module = "" if kind.startswith("aten.") else _name_module(kind)
    is_module = module in NAMES["modules"]
    names = NAMES["module_arguments"].get(module, {}) if is_module else NAMES["arguments"]
    if arguments.get("dropout") and (arguments.get("train") or arguments.get("training")):
        raise LookupError("dropout in training is random")
    known = _list_parameters(operator)
    ours = {
        (names.get(name, name) if is_module or name not in known else name): _read_number(value)
        for name, value in arguments.items()
        if value is not None and (name in known or name not in NAMES["ignored"])
    }
    if "input" in ours and "input" not in known and "query" not in known:
        ours[next(name for name in known if name not in ours)] = ours.pop("input")
    if isinstance(ours.get("reduction"), str):
        ours["reduction"] = NAMES["reductions"][ours["reduction"]]
    if (fix := _FIXES.get(operator)) is not None:
        ours = fix(kind, ours)
    return {name: value for name, value in ours.items() if not is_module or name in known}


def _read_number(value: Any) -> Any:
    """Return the number that a manifest states as a text, since JSON has no infinity."""
    return float(value) if isinstance(value, str) and value in ("inf", "-inf", "nan") else value


def _fix_recurrent(kind: str, ours: Arguments) -> Arguments:
    """Collect a module's weights in their order, and begin with zeros."""
    if kind.startswith("aten."):
        return ours
    params = [value for name, value in ours.items() if re.match(r"(weight|bias)_[ih]h_l", name)]
    batch = ours["input"].shape[0 if ours.get("batch_first") else 1]
    shape = (len(params) // (4 if ours.get("has_biases", True) else 2), batch, params[1].shape[1])
    zeros = np.zeros(shape)
    state = ours.get("hx", zeros if find_operator(kind) == "gru" else [zeros, zeros])
    return {**ours, "params": params, "hx": state}


def _fix_interpolate(kind: str, ours: Arguments) -> Arguments:
    stated = re.search(r"upsample_([a-z_-]+)", kind)
    mode = stated[1] if stated else str(ours.get("mode", "nearest"))
    if "shape" in ours:
        ours["output_size"] = ours.pop("shape")
    factors = ours.get("scale_factors")
    if isinstance(factors, (int, float)):
        ours["scale_factors"] = [factors] * (ours["input"].ndim - 2)
    return {**ours, "mode": NAMES["modes"][mode]}


def _fix_transpose(kind: str, ours: Arguments) -> Arguments:
    return {**ours, "dim0": 0, "dim1": 1} if kind.split(".")[1] == "t" else ours


_FIXES: dict[str, Callable[[str, Arguments], Arguments]] = {
    "interpolate": _fix_interpolate,
    "transpose": _fix_transpose,
    "lstm": _fix_recurrent,
    "gru": _fix_recurrent,
    "multi_head_attention": lambda _, ours: {
        name.replace(".", "_"): value for name, value in ours.items()
    },
}
