"""Lay a tensor of a dump beside its reference, for every suite that compares tensors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from parity import checkpoints
from parity.bundle.layout import make_suspect_error
from parity.checkpoints import StorageLocation
from parity.errors import ConfigError, DumpError, Problem
from parity.suites.base import Case, TensorView
from parity.suites.messages import EXAMPLES
from parity.tensors import FormatError
from parity.tensors.dtypes import DTYPES
from parity.tensors.folder import FolderContents, list_tensors
from parity.tensors.stored import StoredTensor
from parity.text import join_limited

_MAX_LISTED = 20  # Names that a message lists


def read_references(place: Path) -> dict[str, StoredTensor]:
    """Read the tensors of a case's references.

    Raises:
        ReferenceSuspectError: They cannot be read or are missing.
    """
    if not place.exists():
        raise make_suspect_error(place, "is missing")
    found = list_tensors(place)
    if problems := found.list_problems():
        raise make_suspect_error(place, "; ".join(problems[:EXAMPLES]))
    return found.tensors


def build_locator(case: Case) -> Callable[[], Mapping[str, StorageLocation]]:
    """Make a function that locates tensors in the checkpoint; its header is read at most once."""
    checkpoint = case.placeholders.get("checkpoint")
    if checkpoint is None:
        return dict
    return cache(lambda: checkpoints.locate_tensors(case.folder, Path(checkpoint)))


def view_tensor(
    case: Case, dump_files: FolderContents, tensor: str, tensors: Mapping[str, StoredTensor]
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
    case: Case,
    tensor: str,
    tensors: Mapping[str, StoredTensor],
    obtained: StoredTensor,
    bounds: Mapping[str, float],
) -> str | None:
    from parity.diagnose import FailingTensor, diagnose

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
