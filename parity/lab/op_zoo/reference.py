"""Run an operator in torch, on the CPU with one thread: the reference of a case."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from parity.lab.array_files import to_array, to_tensor
from parity.lab.libraries import import_library
from parity.lab.op_zoo.arrays import read_number
from parity.lab.op_zoo.case import OpCase
from parity.lab.zoo.case import ExpectedTensor
from parity.tensors.dtypes import DTYPES

#: What torch raises for a call that it rejects; any other error is one of the call's form.
REJECTIONS = (IndexError, RuntimeError, ValueError)
_TEXTS = ("inf", "-inf", "nan")


def compute_reference(case: OpCase) -> dict[str, ExpectedTensor]:
    """Return the outputs of a case by name; what torch raises, it raises."""
    torch = import_library("torch")
    torch.set_num_threads(1)
    args = {name: _read_arg(torch, name, value) for name, value in case.args.items()}
    tensors = {name: _make_tensor(torch, one) for name, one in case.inputs.items()}
    for name, view in args.pop("views", {}).items():
        tensors[name] = _apply_view(tensors[name], view)
    bound = case.bind(tensors)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        if (own := _OWN.get(case.op)) is not None:
            result = own(torch, **bound, **args)
        else:
            first, *rest = bound.items() or [("", None)]
            given = [first[1]] if bound else []
            result = _find_function(torch, case.op)(*given, **dict(rest), **args)
    return {
        name: to_tensor(
            one.contiguous() if one.numel() else torch.empty(one.shape, dtype=one.dtype)
        )
        for name, one in case.name_outputs(result).items()
    }


def _find_function(torch: Any, op: str) -> Callable[..., Any]:
    places = (torch.nn.functional, torch, torch.linalg, torch.special)
    function: Callable[..., Any] = next(getattr(one, op) for one in places if hasattr(one, op))
    return function


def _read_arg(torch: Any, name: str, value: Any) -> Any:
    if name == "dtype":
        return getattr(torch, value)
    return read_number(value) if isinstance(value, str) and value in _TEXTS else value


def _make_tensor(torch: Any, one: ExpectedTensor) -> Any:
    dtype = getattr(torch, DTYPES[one.dtype].torch)
    if one.dtype == "BOOL":
        return torch.from_numpy(to_array(one).copy())
    return (
        torch.frombuffer(bytearray(one.raw), dtype=dtype).reshape(one.shape)
        if one.raw
        else torch.empty(one.shape, dtype=dtype)
    )


def _apply_view(tensor: Any, view: dict[str, list[int]]) -> Any:
    [(kind, numbers)] = view.items()
    if kind == "step":
        axis, step = numbers
        index = [slice(None)] * tensor.ndim
        index[axis] = slice(None, None, step)
        return tensor[tuple(index)]
    return tensor.expand(numbers) if kind == "expand" else getattr(tensor, kind)(*numbers)


def _as_complex(function: str) -> Callable[..., Any]:
    """Return a function of torch.fft with complex tensors as pairs of floats."""

    def run(torch: Any, input: Any, **args: Any) -> Any:
        given = input if function == "rfft" else torch.view_as_complex(input)
        result = getattr(torch.fft, function)(given, **args)
        return result if function == "irfft" else torch.view_as_real(result)

    return run


def _quantile(torch: Any, input: Any, q: Any, **args: Any) -> Any:
    q = torch.tensor(q, dtype=input.dtype) if isinstance(q, list) else q
    return torch.quantile(input, q, **args)


#: Operators that torch has under other names, or calls otherwise.
_OWN: dict[str, Callable[..., Any]] = {
    **{name: _as_complex(name) for name in ("fft", "ifft", "rfft", "irfft", "fft2")},
    "fftshift": lambda torch, input, **args: torch.fft.fftshift(input, **args),
    "ifftshift": lambda torch, input, **args: torch.fft.ifftshift(input, **args),
    "norm": lambda torch, input, p=2, **args: torch.linalg.vector_norm(input, p, **args),
    "cast": lambda _, input, dtype: input.to(dtype),
    "unfold": lambda _, input, **args: input.unfold(**args),
    "im2col": lambda torch, input, **args: torch.nn.functional.unfold(input, **args),
    "einsum": lambda torch, operands, equation: torch.einsum(equation, *operands),
    "cross": lambda torch, input, **args: torch.linalg.cross(input, **args),
    "inverse": lambda torch, input: torch.linalg.inv(input),
    "cholesky": lambda torch, input, **args: torch.linalg.cholesky(input, **args),
    "solve": lambda torch, A, B: torch.linalg.solve(A, B),
    "triangular_solve": lambda torch, A, B, **args: torch.linalg.solve_triangular(A, B, **args),
    "meshgrid": lambda torch, tensors, indexing="ij": torch.meshgrid(*tensors, indexing=indexing),
    "batch_norm": lambda torch, input, running_mean=None, running_var=None, **args: (
        torch.nn.functional.batch_norm(input, running_mean, running_var, **args)
    ),
    "broadcast_to": lambda torch, input, shape: torch.broadcast_to(input, shape),
    "quantile": _quantile,
    "interpolate": lambda torch, input, **args: torch.nn.functional.interpolate(
        input, recompute_scale_factor=False, **args
    ),
    "unique": lambda torch, input, **args: torch.unique(input, sorted=True, **args),
}
