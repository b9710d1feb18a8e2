"""Lay a tensor of a dump beside its reference, for every suite that compares tensors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from numpy.typing import NDArray

from parity.diagnose import FailingTensor, diagnose
from parity.errors import ConfigError, DumpError, Problem
from parity.suites.base import Case
from parity.suites.tensor_reference import build_locator
from parity.tensors import FormatError
from parity.tensors.dtypes import DTYPES, DType
from parity.tensors.folder import FolderContents
from parity.tensors.stored import StoredTensor, Tensors
from parity.text import join_limited

_MAX_LISTED = 20  # Names that a message lists


@dataclass(frozen=True, kw_only=True)
class TensorView:
    """A tensor of the reference and of the dump, as arrays that ``show`` lays side by side."""

    expected: NDArray[Any]  # In its storage type; of the dump's dtype where the dump is a `.bin`
    obtained: NDArray[Any]  # Likewise; its shape may be another one
    dtype: DType  # Of both
    note: str = ""  # What a reader should know of how they are laid side by side
    #: Names the rows of the first axis; None where their numbers will do.
    rows: Callable[[int], str] | None = None
    #: Finds, under bounds, the cause of a difference.
    cause: Callable[[Mapping[str, float]], str | None] = lambda _bounds: None
    #: Tolerance of the tensor where it has its own; None for the case's.
    bounds: Mapping[str, float] | None = None
    #: Lists what was tried to find the cause, with numbers; None where nobody can.
    explain: Callable[[], list[str]] | None = None


def view_tensor(
    case: Case, dump_files: FolderContents, tensor: str, tensors: Tensors
) -> TensorView:
    """Lay a tensor of the dump beside its reference, one of ``tensors``.

    Raises:
        ConfigError: ``tensors`` has no tensor of that name; lists those that it has.
        DumpError: The dump lacks it, or either side cannot be read.
    """
    if tensor not in tensors:
        raise build_unknown_error(tensor, tensors)
    expected = tensors[tensor]
    try:
        for name, error in dump_files.unreadable.items():
            if name.startswith(f"{tensor}."):
                raise error
        obtained = dump_files.tensors.get(tensor)
        if obtained is None:
            raise DumpError(Problem("tensor-missing", f"{tensor} is not in the dump"))
        values, given, dtype = expected.read_array(), obtained.read_array(), expected.dtype
    except FormatError as error:
        raise DumpError(Problem(error.code, f"{tensor} {error.message}")) from None
    if obtained.suffix == ".bin" and dtype.kind != "complex":  # which has only f32
        values, dtype = dtype.round_to_f32(values), DTYPES["F32"]
    if obtained.dtype != dtype:
        message = f"{tensor} is {obtained.dtype.name} in the dump, expected {dtype.name}"
        raise DumpError(Problem("dtype", message))
    return TensorView(
        expected=values,
        obtained=given,
        dtype=dtype,
        note=f"{expected.dtype.name} compared as f32" if dtype != expected.dtype else "",
        cause=partial(_find_cause, case, tensor, tensors, obtained),
    )


def _find_cause(
    case: Case, tensor: str, tensors: Tensors, obtained: StoredTensor, bounds: Mapping[str, float]
) -> str | None:
    more: dict[str, Any] = {"bounds": bounds, "raw": build_locator(case)().get(tensor)}
    found = diagnose(
        FailingTensor.of(tensor, tensors[tensor], obtained, others=lambda: tensors, **more)
    )
    return None if found is None else str(found)


def build_unknown_error(tensor: str, names: Collection[str]) -> ConfigError:
    """Build the error for a tensor that a case does not have; it lists those that it has."""
    listed = join_limited([*names], _MAX_LISTED)
    message = f"the case has no tensor {tensor!r:.80}; it has {listed}"
    return ConfigError(Problem("no-such-tensor", message))
