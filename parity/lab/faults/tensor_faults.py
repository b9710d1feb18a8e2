"""Faults in a dump of named tensors, planted into all tensors that they fit at once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.checkpoints import blocks
from parity.lab.faults.fault import Fault, InjectionResult, collect_codes
from parity.lab.faults.file_faults import list_file_faults, overwrite
from parity.lab.faults.value_faults import VALUE_FAULTS
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


def list_tensor_faults(
    tensors: Tensors, records: Mapping[str, StorageLocation], *, exact: bool = True
) -> Iterator[Fault]:
    """All faults that fit some tensor.

    Args:
        tensors: The references; the dump in a folder has files of the same names.
        records: Where they lie in their checkpoint, as far as that is known.
        exact: Bytes are owed; under a bound, signs of zeros and the like are no faults.
    """
    # What shares its bytes with its neighbours is not planted into.
    tensors = {name: stored for name, stored in tensors.items() if not stored.dtype.packed}
    for name, wrong in VALUE_FAULTS.items():
        if wrong.exact_only and not exact:
            continue
        yield Fault(
            name=name,
            text=wrong.text,
            codes=collect_codes(*wrong.codes),
            inject=partial(_inject_everywhere, tensors, _use_logical_shape(records, wrong.change)),
            per_tensor=True,
            why_unnamed=wrong.why_unnamed,
        )
    yield _make_neighbour_fault(tensors)
    yield from _list_storage_faults(tensors, records)
    yield from _list_block_faults(tensors, records)
    yield from list_file_faults(tensors)


def _use_logical_shape(
    records: Mapping[str, StorageLocation], make: Callable[[Array], Array | None]
) -> TensorChange:
    """Values in their logical shape, which GGUF's references state in reverse."""

    def change(name: str, array: Array) -> Array | None:
        record = records.get(name)
        fits = record is not None and int(np.prod(record.shape)) == array.size
        return make(array.reshape(record.shape) if record is not None and fits else array)

    return change


def _inject_everywhere(tensors: Tensors, make: TensorChange, folder: Path) -> InjectionResult:
    changed: list[str] = []
    unchanged: list[str] = []
    for name, stored in tensors.items():
        right = stored.read_array()
        wrong = make(name, right) if right.size else None
        if wrong is None:
            continue
        content = np.ascontiguousarray(wrong).astype(right.dtype, copy=False).tobytes()
        (unchanged if content == right.tobytes() else changed).append(name)
        overwrite(folder / stored.path.name, stored.offset, content)
    return InjectionResult(tuple(changed), tuple(unchanged))


def _make_neighbour_fault(tensors: Tensors) -> Fault:
    """Each tensor gets the values of the next one of its size and dtype."""
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
        codes=collect_codes(
            "other-tensor", "strides-ignored", "transposed", "axes-permuted", "factor"
        ),
        inject=partial(_inject_everywhere, tensors, make),
        per_tensor=True,
    )


def _list_storage_faults(
    tensors: Tensors, records: Mapping[str, StorageLocation]
) -> Iterator[Fault]:
    """Faults of reading a storage: strides, offsets, dtypes, places in the file."""
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
        inject = partial(_inject_everywhere, tensors, make)
        yield Fault(
            name=name, text=text, codes=collect_codes(*codes), inject=inject, per_tensor=True
        )


def _change_from_storage(
    records: Mapping[str, StorageLocation],
    read: Callable[[StorageLocation, Array], Array | None],
    name: str,
    array: Array,
) -> Array | None:
    """What ``read`` makes of the record; a `.bin` carries it as f32."""
    record = records.get(name)
    if record is None or record.type_name not in DTYPES or array.dtype != np.dtype("<f4"):
        return None
    return read(record, array)


def _read_elements(raw: StorageLocation, kind: str, by: int = 0) -> Array:
    """The storage as elements of ``kind``, in f32, read ``by`` bytes further on."""
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
    """Of tensors in row-major order alone; what lies beyond is the file's next bytes."""
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


def _list_block_faults(tensors: Tensors, records: Mapping[str, StorageLocation]) -> Iterator[Fault]:
    """Every known mistake of every block type, made on the checkpoint's own bytes."""
    kinds = dict.fromkeys(records[name].type_name for name in tensors if name in records)
    for kind in kinds:
        if kind in DTYPES:
            continue
        for mistake in blocks.list_mistakes(kind):
            make = partial(_decode_wrongly, records, kind, mistake.decoder)
            yield Fault(
                name=f"block-{mistake.name}:{kind}",
                text=f"{kind}: {mistake.text}",
                codes=collect_codes(f"block-{mistake.name}"),
                inject=partial(_inject_everywhere, tensors, make),
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
