"""Faults in a dump of named tensors, each injected into all tensors that it applies to."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.checkpoints import blocks
from parity.lab.faults import Fault, InjectionResult
from parity.lab.faults.file_faults import list_file_faults, overwrite
from parity.lab.faults.value_faults import VALUE_FAULTS, ValueFault
from parity.tensors.dtypes import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from parity.checkpoints import StorageLocation
    from parity.tensors.stored import StoredTensor

    Array = NDArray[Any]
    Tensors = Mapping[str, StoredTensor]
    #: From a tensor's name and right values to wrong ones; None where it does not fit.
    TensorChange = Callable[[str, Array], Array | None]
    #: Injects such a change into the dump in a folder.
    Injector = Callable[[TensorChange, Path], InjectionResult]


def list_tensor_faults(
    tensors: Tensors,
    records: Mapping[str, StorageLocation],
    root: Path,
    *,
    exact: bool = True,
) -> Iterator[Fault]:
    """List the faults that apply to some tensor.

    Args:
        tensors: The right dump, in files below ``root``; the dump that a fault is injected
            into has files of the same paths.
        records: Where they are in their checkpoint, as far as that is known.
        root: Folder of the right dump.
        exact: The comparison is exact; else signs of zeros and the like are no faults.
    """
    # Elements that share a byte with their neighbours are left alone.
    tensors = {name: stored for name, stored in tensors.items() if not stored.dtype.packed}
    everywhere = partial(_inject_everywhere, tensors, root)
    for name, wrong in VALUE_FAULTS.items():
        if wrong.exact_only and not exact:
            continue
        yield Fault(
            name=name,
            text=wrong.text,
            codes=wrong.codes,
            inject=partial(everywhere, _select_kinds(tensors, records, wrong)),
            per_tensor=True,
            why_unnamed=wrong.why_unnamed,
        )
    yield _make_neighbour_fault(tensors, everywhere)
    yield from _list_storage_faults(records, everywhere)
    yield from _list_block_faults(tensors, records, everywhere)
    yield from list_file_faults(tensors, root)


def _select_kinds(
    tensors: Tensors, records: Mapping[str, StorageLocation], fault: ValueFault
) -> TensorChange:
    """Apply a fault to the kinds it is for, in their logical shape; GGUF states it reversed."""

    def change(name: str, array: Array) -> Array | None:
        if fault.kinds and tensors[name].dtype.kind not in fault.kinds:
            return None
        record = records.get(name)
        fits = record is not None and int(np.prod(record.shape)) == array.size
        return fault.change(array.reshape(record.shape) if record is not None and fits else array)

    return change


def _inject_everywhere(
    tensors: Tensors, root: Path, make: TensorChange, folder: Path
) -> InjectionResult:
    changed: list[str] = []
    unchanged: list[str] = []
    for name, stored in tensors.items():
        right = stored.read_array()
        wrong = make(name, right) if right.size else None
        if wrong is None:
            continue
        content = np.ascontiguousarray(wrong).astype(right.dtype, copy=False).tobytes()
        (unchanged if content == right.tobytes() else changed).append(name)
        overwrite(folder / stored.path.relative_to(root), stored.offset, content)
    return InjectionResult(tuple(changed), tuple(unchanged))


def _make_neighbour_fault(tensors: Tensors, everywhere: Injector) -> Fault:
    """Give each tensor the values of the next one of its size and dtype."""
    alike: dict[tuple[int, str], list[str]] = {}
    for name, stored in tensors.items():
        alike.setdefault((stored.count, stored.dtype.name), []).append(name)
    follower = {
        name: names[(place + 1) % len(names)]
        for names in alike.values()
        if len(names) > 1
        for place, name in enumerate(names)
    }

    def make(name: str, _array: Array) -> Array | None:
        return tensors[follower[name]].read_array() if name in follower else None

    return Fault(
        name="other-tensor",
        text="names of tensors of one size are mixed up",
        codes=("other-tensor", "strides-ignored", "transposed", "axes-permuted", "factor"),
        inject=partial(everywhere, make),
        per_tensor=True,
    )


def _list_storage_faults(
    records: Mapping[str, StorageLocation], everywhere: Injector
) -> Iterator[Fault]:
    """List faults of reading a storage: strides, offsets, dtypes, places in the file."""
    kinds: tuple[
        tuple[str, str, tuple[str, ...], Callable[[StorageLocation, Array], Array | None]], ...
    ] = (
        (
            "strides-ignored",
            "the storage is read in its own order",
            ("strides-ignored", "transposed", "axes-permuted", "dims-reversed"),
            _read_storage_order,
        ),
        (
            "offset-ignored",
            "the storage is read from its first element",
            ("offset-ignored",),
            _ignore_offset,
        ),
        (
            "read-late",
            "the file is read 8 bytes too late",
            ("shifted",),
            partial(_read_shifted, by=8),
        ),
        (
            "read-early",
            "the file is read 4 bytes too early",
            ("shifted",),
            partial(_read_shifted, by=-4),
        ),
        (
            "other-dtype",
            "another dtype of the same width is read",
            ("other-dtype", "bits-as-integers"),
            _read_other_dtype,
        ),
        (
            "stored-swapped",
            "stored values are read as big-endian",
            ("byte-swapped",),
            _read_big_endian,
        ),
    )
    for name, text, codes, read in kinds:
        make = partial(_change_from_storage, records, read)
        inject = partial(everywhere, make)
        yield Fault(name=name, text=text, codes=codes, inject=inject, per_tensor=True)


def _change_from_storage(
    records: Mapping[str, StorageLocation],
    read: Callable[[StorageLocation, Array], Array | None],
    name: str,
    array: Array,
) -> Array | None:
    """Read the record by ``read``; a `.bin` contains it as f32."""
    record = records.get(name)
    if record is None or record.type_name not in DTYPES or array.dtype != np.dtype("<f4"):
        return None
    return read(record, array)


def _read_elements(raw: StorageLocation, kind: str, by: int = 0) -> Array:
    """Read the storage as elements of ``kind``, ``by`` bytes further on, and convert to f32."""
    dtype = DTYPES[kind]
    with raw.path.open("rb") as file:
        file.seek(raw.start + by)
        content = file.read(raw.stop - raw.start)
    size = dtype.storage.itemsize
    return dtype.round_to_f32(np.frombuffer(content[: len(content) // size * size], dtype.storage))


def _view_logical(raw: StorageLocation, flat: Array, offset: int) -> Array | None:
    if raw.stride is None:
        count = int(np.prod(raw.shape))
        return flat[offset : offset + count] if offset + count <= len(flat) else None
    steps = tuple(step * flat.itemsize for step in raw.stride)
    farthest = offset + sum((n - 1) * s for n, s in zip(raw.shape, raw.stride, strict=True))
    if farthest >= len(flat):
        return None
    return np.lib.stride_tricks.as_strided(flat[offset:], raw.shape, steps)


def _read_storage_order(raw: StorageLocation, array: Array) -> Array | None:
    if raw.stride is None:
        return None
    flat = _read_elements(raw, raw.type_name)[raw.storage_offset : raw.storage_offset + array.size]
    return flat if len(flat) == array.size else None


def _ignore_offset(raw: StorageLocation, _array: Array) -> Array | None:
    return _view_logical(raw, _read_elements(raw, raw.type_name), 0) if raw.storage_offset else None


def _read_shifted(raw: StorageLocation, array: Array, by: int) -> Array | None:
    """Read a row-major tensor ``by`` bytes further on, into the file's next bytes."""
    if raw.stride is not None and not _is_row_major(raw):
        return None
    flat = _read_elements(raw, raw.type_name, by)[
        raw.storage_offset : raw.storage_offset + array.size
    ]
    return flat if len(flat) == array.size else None


def _is_row_major(raw: StorageLocation) -> bool:
    steps, step = [], 1
    for length in reversed(raw.shape):
        steps.append(step)
        step *= length
    return raw.stride == tuple(reversed(steps))


_SAME_WIDTH = {"F16": "BF16", "BF16": "F16", "F32": "I32", "F64": "I64"}


def _read_other_dtype(raw: StorageLocation, _array: Array) -> Array | None:
    if raw.type_name not in _SAME_WIDTH:
        return None
    return _view_logical(raw, _read_elements(raw, _SAME_WIDTH[raw.type_name]), raw.storage_offset)


def _read_big_endian(raw: StorageLocation, _array: Array) -> Array | None:
    dtype = DTYPES[raw.type_name]
    with raw.path.open("rb") as file:
        file.seek(raw.start)
        content = np.frombuffer(file.read(raw.stop - raw.start), dtype.storage)
    return _view_logical(raw, dtype.round_to_f32(content.byteswap()), raw.storage_offset)


def _list_block_faults(
    tensors: Tensors, records: Mapping[str, StorageLocation], everywhere: Injector
) -> Iterator[Fault]:
    """List every known mistake of every block type, made on the checkpoint's own bytes."""
    kinds = dict.fromkeys(records[name].type_name for name in tensors if name in records)
    for kind in kinds:
        if kind in DTYPES:
            continue
        for mistake in blocks.list_mistakes(kind):
            make = partial(_decode_wrongly, records, kind, mistake.decoder)
            yield Fault(
                name=f"block-{mistake.name}:{kind}",
                text=f"{kind}: {mistake.text}",
                codes=(f"block-{mistake.name}",),
                inject=partial(everywhere, make),
                per_tensor=True,
            )


def _decode_wrongly(
    records: Mapping[str, StorageLocation],
    kind: str,
    decoder: blocks.Decoder,
    name: str,
    array: Array,
) -> Array | None:
    record = records.get(name)
    if record is None or record.type_name != kind or array.dtype != np.dtype("<f4"):
        return None
    with record.path.open("rb") as file:
        file.seek(record.start)
        raw = np.frombuffer(file.read(record.stop - record.start), np.uint8)
    return decoder(raw.reshape(-1, decoder.size))
