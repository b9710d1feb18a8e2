"""The two sides of a tensor, of every bundle kind, as arrays that ``show`` can lay side by side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parity import checkpoints
from parity.diagnose import FailingTensor, diagnose
from parity.errors import ConfigError, DumpError, Problem
from parity.tensors import FormatError
from parity.tensors.dtypes import DTYPES, DType
from parity.tensors.folder import list_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from parity.suites.base import Case, Dump
    from parity.tensors.stored import StoredTensor


@dataclass(frozen=True, kw_only=True)
class TensorView:
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


def build_view(suite: str, case: Case, dump: Dump, tensor: str) -> TensorView:
    """Both sides of ``tensor``.

    Raises:
        ConfigError: The case has no tensor of that name; lists those that it has.
        DumpError: The dump lacks it, or it cannot be read.
        ReferenceSuspectError: The reference cannot be read.
    """
    try:
        if suite == "dataloader":
            return _view_dataloader(case, dump, tensor)
        if suite == "pipeline":
            return _view_pipeline(case, dump, tensor)
        if suite == "serialize" and case.id == "onnx":
            return _view_onnx(case, dump, tensor)
        return _view_stored(suite, case, dump, tensor)
    except FormatError as error:
        raise DumpError(Problem(error.code, f"{tensor} {error.message}")) from None


def get_state_folder(case: Case) -> Path:
    """Folder of the references of a serialize case that is not onnx."""
    return case.folder / ("reference_dequant" if case.id == "gguf" else "reference_state_dict")


def _view_stored(suite: str, case: Case, dump: Dump, tensor: str) -> TensorView:
    from parity.suites.tensors.suite import read_references

    tensors: Mapping[str, StoredTensor] = (
        read_references(case.detail)
        if suite == "tensors"
        else list_tensors(get_state_folder(case)).tensors
    )
    if tensor not in tensors:
        raise _build_unknown_error(tensor, tensors)
    expected, dump_files = tensors[tensor], list_tensors(dump.folder)
    for name, error in dump_files.unreadable.items():
        if name.startswith(f"{tensor}."):
            raise error
    obtained = dump_files.tensors.get(tensor)
    if obtained is None:
        message = f"{tensor} is not in the dump"
        raise DumpError(Problem("tensor-missing", message))
    carrier_dtype, values = _convert_to_carrier(expected, obtained)
    if obtained.dtype != carrier_dtype:
        message = f"{tensor} is {obtained.dtype.name} in the dump, expected {carrier_dtype.name}"
        raise DumpError(Problem("dtype", message))
    return TensorView(
        expected=values,
        obtained=obtained.read_array(),
        dtype=carrier_dtype,
        note=f"{expected.dtype.name} compared as f32" if carrier_dtype != expected.dtype else "",
        cause=partial(_find_cause, case, tensor, tensors, obtained),
    )


def _find_cause(
    case: Case,
    tensor: str,
    tensors: Mapping[str, StoredTensor],
    obtained: StoredTensor,
    bounds: Mapping[str, float],
) -> str | None:
    checkpoint = case.placeholders.get("checkpoint")
    records = checkpoints.locate_tensors(case.folder, Path(checkpoint)) if checkpoint else {}
    more: dict[str, Any] = {"bounds": bounds, "raw": records.get(tensor)}
    failing_tensor = FailingTensor.of(
        tensor, tensors[tensor], obtained, others=lambda: tensors, **more
    )
    found = diagnose(failing_tensor)
    return None if found is None else str(found)


def _convert_to_carrier(
    expected: StoredTensor, obtained: StoredTensor
) -> tuple[DType, NDArray[Any]]:
    """The reference as the dump's carrier holds it: a `.bin` knows f32 alone."""
    if obtained.suffix == ".bin" and expected.dtype.kind != "opaque":
        return DTYPES["F32"], expected.dtype.round_to_f32(expected.read_array())
    return expected.dtype, expected.read_array()


def _build_unknown_error(tensor: str, names: Iterable[str]) -> ConfigError:
    available = list(names)
    rest = f" and {len(available) - 20:,} more" if len(available) > 20 else ""
    message = f"the case has no tensor {tensor!r:.80}; it has {', '.join(available[:20])}{rest}"
    return ConfigError(Problem("no-such-tensor", message))


def _view_onnx(case: Case, dump: Dump, tensor: str) -> TensorView:
    from parity.suites.serialize import onnx_export

    inputs = sorted(path.stem.removeprefix("input_") for path in case.folder.glob("input_*.bin"))
    names = [f"onnx-vs-{side}/{name}" for side in ("port", "torch") for name in inputs]
    if tensor not in names:
        raise _build_unknown_error(tensor, names)
    side, _, name = tensor.removeprefix("onnx-vs-").partition("/")
    found = onnx_export.compute_outputs(case, dump, name)
    for part in (side, "onnx"):
        if part not in found:
            message = f"the dump has no output of {part} for the input {name}"
            raise DumpError(Problem("tensor-missing", message))
    dtype = DTYPES["F32"]
    if found["onnx"].dtype != dtype.storage:
        message = f"the exported model's output is {found['onnx'].dtype}, expected float32"
        raise DumpError(Problem("dtype", message))
    note = f"expected is {'what the port computes itself' if side == 'port' else 'torch'}"
    return TensorView(expected=found[side], obtained=found["onnx"], dtype=dtype, note=note)


def _view_dataloader(case: Case, dump: Dump, tensor: str) -> TensorView:
    from parity.items.identity import identify_rows
    from parity.items.matching import UNKNOWN
    from parity.suites.dataloader import batch_folder
    from parity.suites.dataloader.reference import read_reference

    if tensor not in ("features", "labels"):
        raise _build_unknown_error(tensor, ("features", "labels"))
    reference = read_reference(case.detail)
    batches, _, found = batch_folder.read_folder(dump.folder, reference.shape)
    if batches is None:
        raise DumpError(Problem(found[0].code, found[0].message))
    ordered = case.detail.mode == "ORDER"
    dataset, expected_rows = reference.dataset, reference.expected
    candidates = np.arange(len(dataset)) if case.detail.mode == "SUBSET" else expected_rows
    identified = identify_rows(
        dataset, candidates, batches, case.tolerances["max_abs"], ordered=ordered
    )
    if ordered and len(expected_rows) == len(identified):
        rows, note = expected_rows, "each row beside the one that is due there"
    else:
        rows, note = identified, "each row beside the item that it is"
    table: NDArray[Any] = dataset.features if tensor == "features" else dataset.labels
    known = rows != UNKNOWN
    expected = np.full((len(rows), *table.shape[1:]), np.nan, "<f4")
    expected[known] = table[rows[known]]
    obtained = batches.features if tensor == "features" else batches.labels

    def row(position: int) -> str:
        item = f"item {identified[position]}" if identified[position] != UNKNOWN else "no item"
        return f"{batches.locate(position)}, {item}"

    return TensorView(
        expected=expected, obtained=obtained, dtype=DTYPES["F32"], note=note, rows=row
    )


def _view_pipeline(case: Case, dump: Dump, tensor: str) -> TensorView:
    from parity.suites.pipeline.run_reader import read_run
    from parity.suites.pipeline.runs import COLUMNS

    if tensor not in COLUMNS:
        raise _build_unknown_error(tensor, COLUMNS)
    meta, expected_run = case.detail.meta, case.detail.expected
    runs = []
    for folder in (meta.folder, dump.folder):
        run, found = read_run(folder, meta.start_batch, len(expected_run.sizes))
        if run is None or not run.sizes:
            message = found[0].message if found else "no batch is there"
            raise DumpError(Problem("batch-missing", message))
        runs.append(run)
    expected, obtained = (np.asarray(getattr(run, tensor), "<f4") for run in runs)
    batch_numbers = np.repeat(np.arange(len(runs[1].sizes)), runs[1].sizes) + meta.start_batch
    starts = np.cumsum((0, *runs[1].sizes))

    def row(position: int) -> str:
        batch = int(batch_numbers[position])
        return f"batch {batch} row {position - starts[batch - meta.start_batch]}"

    note = "each row beside the one that the reference has there"
    return TensorView(
        expected=expected, obtained=obtained, dtype=DTYPES["F32"], note=note, rows=row
    )
