"""The two sides of a tensor, of every bundle kind, as arrays that ``show`` can lay side by side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parity import raw
from parity.codecs import FormatError
from parity.codecs.dtypes import DTYPES, DType
from parity.codecs.files import tensors_in
from parity.diagnose import Subject, diagnose
from parity.errors import ConfigError, DumpError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from parity.codecs.stored import Stored
    from parity.suites.base import Case, Dump


@dataclass(frozen=True, kw_only=True)
class Sides:
    """A tensor on both sides.

    Attributes:
        expected: In its storage type; of the dump's dtype where the dump is a `.bin`.
        obtained: Likewise; its shape may be another one.
        dtype: Of both.
        note: What a reader should know of how they are laid side by side.
        rows: Names of the rows of the first axis, None where their numbers will do.
        cause: Under bounds, the cause of a difference.
    """

    expected: NDArray[Any]
    obtained: NDArray[Any]
    dtype: DType
    note: str = ""
    rows: Callable[[int], str] | None = None
    cause: Callable[[Mapping[str, float]], str | None] = lambda _bounds: None


def sides(suite: str, case: Case, dump: Dump, tensor: str) -> Sides:
    """Both sides of ``tensor``.

    Raises:
        ConfigError: The case has no tensor of that name; lists those that it has.
        DumpError: The dump lacks it, or it cannot be read.
        ReferenceSuspectError: The reference cannot be read.
    """
    try:
        if suite == "dataloader":
            return _dataloader(case, dump, tensor)
        if suite == "pipeline":
            return _pipeline(case, dump, tensor)
        if suite == "serialize" and case.id == "onnx":
            return _onnx(case, dump, tensor)
        return _stored(suite, case, dump, tensor)
    except FormatError as error:
        raise DumpError(Problem(error.code, f"{tensor} {error.message}")) from None


def state_folder(case: Case) -> Path:
    """Folder of the references of a serialize case that is not onnx."""
    return case.folder / ("reference_dequant" if case.id == "gguf" else "reference_state_dict")


def _stored(suite: str, case: Case, dump: Dump, tensor: str) -> Sides:
    from parity.suites.tensors import references

    tensors: Mapping[str, Stored] = (
        references(case.detail) if suite == "tensors" else tensors_in(state_folder(case)).tensors
    )
    if tensor not in tensors:
        raise _unknown(tensor, tensors)
    expected, found = tensors[tensor], tensors_in(dump.folder)
    for name, error in found.broken.items():
        if name.startswith(f"{tensor}."):
            raise error
    obtained = found.tensors.get(tensor)
    if obtained is None:
        message = f"{tensor} is not in the dump"
        raise DumpError(Problem("tensor-missing", message))
    seen, values = _as_dumped(expected, obtained)
    if obtained.dtype != seen:
        message = f"{tensor} is {obtained.dtype.name} in the dump, expected {seen.name}"
        raise DumpError(Problem("dtype", message))
    return Sides(
        expected=values,
        obtained=obtained.array(),
        dtype=seen,
        note=f"{expected.dtype.name} compared as f32" if seen != expected.dtype else "",
        cause=partial(_cause, case, tensor, tensors, obtained),
    )


def _cause(
    case: Case,
    tensor: str,
    tensors: Mapping[str, Stored],
    obtained: Stored,
    bounds: Mapping[str, float],
) -> str | None:
    checkpoint = case.words.get("checkpoint")
    records = raw.records(case.folder, Path(checkpoint)) if checkpoint else {}
    more: dict[str, Any] = {"bounds": bounds, "raw": records.get(tensor)}
    subject = Subject.of(tensor, tensors[tensor], obtained, others=lambda: tensors, **more)
    found = diagnose(subject)
    return None if found is None else str(found)


def _as_dumped(expected: Stored, obtained: Stored) -> tuple[DType, NDArray[Any]]:
    """The reference as the dump's carrier holds it: a `.bin` knows f32 alone."""
    if obtained.carrier == ".bin" and expected.dtype.kind != "opaque":
        return DTYPES["F32"], expected.dtype.as_f32(expected.array())
    return expected.dtype, expected.array()


def _unknown(tensor: str, names: Iterable[str]) -> ConfigError:
    there = list(names)
    rest = f" and {len(there) - 20:,} more" if len(there) > 20 else ""  # noqa: PLR2004 - as many as were shown
    message = f"the case has no tensor {tensor!r:.80}; it has {', '.join(there[:20])}{rest}"
    return ConfigError(Problem("no-such-tensor", message))


def _onnx(case: Case, dump: Dump, tensor: str) -> Sides:
    from parity.suites import onnx_export

    inputs = sorted(path.stem.removeprefix("input_") for path in case.folder.glob("input_*.bin"))
    names = [f"onnx-vs-{side}/{name}" for side in ("port", "torch") for name in inputs]
    if tensor not in names:
        raise _unknown(tensor, names)
    side, _, name = tensor.removeprefix("onnx-vs-").partition("/")
    found = onnx_export.sides(case, dump, name)
    for part in (side, "onnx"):
        if part not in found:
            message = f"the dump has no output of {part} for the input {name}"
            raise DumpError(Problem("tensor-missing", message))
    dtype = DTYPES["F32"]
    if found["onnx"].dtype != dtype.storage:
        message = f"the exported model's output is {found['onnx'].dtype}, expected float32"
        raise DumpError(Problem("dtype", message))
    note = f"expected is {'what the port computes itself' if side == 'port' else 'torch'}"
    return Sides(expected=found[side], obtained=found["onnx"], dtype=dtype, note=note)


def _dataloader(case: Case, dump: Dump, tensor: str) -> Sides:
    from parity.identity import identify
    from parity.matching import UNKNOWN
    from parity.suites import batch_folders
    from parity.suites.dataloader_reference import read_reference

    if tensor not in ("features", "labels"):
        raise _unknown(tensor, ("features", "labels"))
    reference = read_reference(case.detail)
    delivered, _, found = batch_folders.read(dump.folder, reference.shape)
    if delivered is None:
        raise DumpError(Problem(found[0].code, found[0].message))
    ordered = case.detail.mode == "ORDER"
    dataset, due = reference.dataset, reference.due
    owed = np.arange(len(dataset)) if case.detail.mode == "SUBSET" else due
    came = identify(dataset, owed, delivered, case.bounds["max_abs"], ordered=ordered)
    if ordered and len(due) == len(came):
        rows, note = due, "each row beside the one that is due there"
    else:
        rows, note = came, "each row beside the item that it is"
    table: NDArray[Any] = dataset.features if tensor == "features" else dataset.labels
    known = rows != UNKNOWN
    expected = np.full((len(rows), *table.shape[1:]), np.nan, "<f4")
    expected[known] = table[rows[known]]
    obtained = delivered.features if tensor == "features" else delivered.labels

    def row(position: int) -> str:
        item = f"item {came[position]}" if came[position] != UNKNOWN else "no item"
        return f"{delivered.place(position)}, {item}"

    return Sides(expected=expected, obtained=obtained, dtype=DTYPES["F32"], note=note, rows=row)


def _pipeline(case: Case, dump: Dump, tensor: str) -> Sides:
    from parity.suites.pipeline.folders import read_run
    from parity.suites.pipeline.runs import COLUMNS

    if tensor not in COLUMNS:
        raise _unknown(tensor, COLUMNS)
    meta, owed = case.detail.meta, case.detail.owed
    runs = []
    for folder in (meta.folder, dump.folder):
        run, found = read_run(folder, meta.start_batch, len(owed.sizes))
        if run is None or not run.sizes:
            message = found[0].message if found else "no batch is there"
            raise DumpError(Problem("batch-missing", message))
        runs.append(run)
    expected, obtained = (np.asarray(getattr(run, tensor), "<f4") for run in runs)
    places = np.repeat(np.arange(len(runs[1].sizes)), runs[1].sizes) + meta.start_batch
    starts = np.cumsum((0, *runs[1].sizes))

    def row(position: int) -> str:
        batch = int(places[position])
        return f"batch {batch} row {position - starts[batch - meta.start_batch]}"

    note = "each row beside the one that the reference has there"
    return Sides(expected=expected, obtained=obtained, dtype=DTYPES["F32"], note=note, rows=row)
