"""Faults in a dump of named tensors, each injected into all tensors that it applies to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.checkpoints import StorageLocation, blocks
from parity.lab.faults import Fault, InjectionResult
from parity.lab.faults.file_faults import list_file_faults, overwrite
from parity.lab.faults.value_faults import VALUE_FAULTS, ValueFault
from parity.tensors.dtypes import DTYPES
from parity.tensors.stored import Tensors

Array = NDArray[Any]
Records = Mapping[str, StorageLocation]
#: From a tensor's name and right values to wrong ones; None where it does not fit.
TensorChange = Callable[[str, Array], Array | None]


def list_tensor_faults(
    tensors: Tensors, records: Records, root: Path, *, exact: bool = True
) -> Iterator[Fault]:
    """List the faults that apply to some tensor of the right dump, in files below ``root``.

    The dump that a fault is injected into has files of the same paths. ``records`` are the places
    in the checkpoint, as far as known. Unless the comparison is ``exact``, signs of zeros and the
    like are not faults.
    """
    # Elements that share a byte with their neighbours are left alone.
    tensors = {name: stored for name, stored in tensors.items() if not stored.dtype.packed}

    def make_fault(
        name: str, text: str, codes: tuple[str, ...], change: TensorChange, why: str = ""
    ) -> Fault:
        inject = partial(inject_everywhere, tensors, root, change)
        return Fault(
            name=name, text=text, codes=codes, inject=inject, per_tensor=True, why_unnamed=why
        )

    for name, wrong in VALUE_FAULTS.items():
        if exact or not wrong.exact_only:
            change = partial(_change_values, tensors, records, wrong)
            yield make_fault(name, wrong.text, wrong.codes, change, wrong.why_unnamed)
    codes = ("other-tensor", "strides-ignored", "transposed", "axes-permuted", "factor")
    text = "names of tensors of one size are mixed up"
    yield make_fault("other-tensor", text, codes, _make_neighbour_change(tensors))
    for name, text, wrong_codes, read in _STORAGE_FAULTS:
        change = partial(_change_from_storage, records, read)
        yield make_fault(name, text, tuple(wrong_codes.split()), change)
    for kind in dict.fromkeys(records[name].type_name for name in tensors if name in records):
        for mistake in () if kind in DTYPES else blocks.list_mistakes(kind):
            code = f"block-{mistake.name}"
            change = partial(_decode_wrongly, records, kind, mistake.decoder)
            yield make_fault(f"{code}:{kind}", f"{kind}: {mistake.text}", (code,), change)
    yield from list_file_faults(tensors, root)


def inject_everywhere(
    tensors: Tensors, root: Path, make: TensorChange, folder: Path
) -> InjectionResult:
    """Replace the values of each tensor that ``make`` has wrong ones for."""
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


def _change_values(
    tensors: Tensors, records: Records, fault: ValueFault, name: str, array: Array
) -> Array | None:
    """Apply a fault to the kinds it is for, in their logical shape; GGUF states it reversed."""
    if fault.kinds and tensors[name].dtype.kind not in fault.kinds:
        return None
    record = records.get(name)
    if record is not None and prod(record.shape) == array.size:
        array = array.reshape(record.shape)
    return fault.change(array)


def _make_neighbour_change(tensors: Tensors) -> TensorChange:
    """Give each tensor the values of the next one of its size and dtype."""
    alike: dict[tuple[int, str], list[str]] = {}
    for name, stored in tensors.items():
        alike.setdefault((stored.count, stored.dtype.name), []).append(name)

    def make(name: str, _array: Array) -> Array | None:
        names = alike[tensors[name].count, tensors[name].dtype.name]
        following = names[(names.index(name) + 1) % len(names)]
        return tensors[following].read_array() if following != name else None

    return make


def _change_from_storage(
    records: Records,
    read: Callable[[StorageLocation, Array], Array | None],
    name: str,
    array: Array,
) -> Array | None:
    """Read the record by ``read``; a `.bin` contains it as f32."""
    record = records.get(name)
    if record is None or record.type_name not in DTYPES or array.dtype != np.dtype("<f4"):
        return None
    return read(record, array)


def _read_bytes(raw: StorageLocation, by: int = 0) -> bytes:
    """Read as many bytes as the storage has, ``by`` bytes further on."""
    with raw.path.open("rb") as file:
        file.seek(raw.start + by)
        return file.read(raw.stop - raw.start)


def _read_elements(raw: StorageLocation, kind: str = "", by: int = 0) -> Array:
    """Read elements of ``kind``, by default the stored one, and convert them to f32."""
    dtype, content = DTYPES[kind or raw.type_name], _read_bytes(raw, by)
    size = dtype.storage.itemsize
    return dtype.round_to_f32(np.frombuffer(content[: len(content) // size * size], dtype.storage))


def _take_in_order(raw: StorageLocation, array: Array, by: int = 0) -> Array | None:
    """Take as many elements as the tensor has in the storage's order, ``by`` bytes further on."""
    flat = _read_elements(raw, by=by)[raw.storage_offset : raw.storage_offset + array.size]
    return flat if len(flat) == array.size else None


def _read_storage_order(raw: StorageLocation, array: Array) -> Array | None:
    return None if raw.stride is None else _take_in_order(raw, array)


def _read_shifted(raw: StorageLocation, array: Array, by: int) -> Array | None:
    """Read a row-major tensor ``by`` bytes further on, into the file's next bytes."""
    if raw.stride not in (None, raw.row_major):
        return None
    return _take_in_order(raw, array, by)


def _ignore_offset(raw: StorageLocation, _array: Array) -> Array | None:
    return raw.view(_read_elements(raw), 0) if raw.storage_offset else None


_SAME_WIDTH = {"F16": "BF16", "BF16": "F16", "F32": "I32", "F64": "I64"}


def _read_other_dtype(raw: StorageLocation, _array: Array) -> Array | None:
    if raw.type_name not in _SAME_WIDTH:
        return None
    return raw.view(_read_elements(raw, _SAME_WIDTH[raw.type_name]), raw.storage_offset)


def _read_big_endian(raw: StorageLocation, _array: Array) -> Array | None:
    dtype = DTYPES[raw.type_name]
    swapped = np.frombuffer(_read_bytes(raw), dtype.storage).byteswap()
    return raw.view(dtype.round_to_f32(swapped), raw.storage_offset)


# fmt: off
#: Faults of reading a storage: name, the port's mistake, causes that name it, the reading.
_STORAGE_FAULTS: tuple[
    tuple[str, str, str, Callable[[StorageLocation, Array], Array | None]], ...
] = (
    ("strides-ignored", "the storage is read in its own order",
     "strides-ignored transposed axes-permuted dims-reversed", _read_storage_order),
    ("offset-ignored", "the storage is read from its first element", "offset-ignored",
     _ignore_offset),
    ("read-late", "the file is read 8 bytes too late", "shifted", partial(_read_shifted, by=8)),
    ("read-early", "the file is read 4 bytes too early", "shifted", partial(_read_shifted, by=-4)),
    ("other-dtype", "another dtype of the same width is read", "other-dtype bits-as-integers",
     _read_other_dtype),
    ("stored-swapped", "stored values are read as big-endian", "byte-swapped", _read_big_endian),
)
# fmt: on


def _decode_wrongly(
    records: Records, kind: str, decoder: blocks.Decoder, name: str, array: Array
) -> Array | None:
    """Decode the checkpoint's own blocks of a ``kind`` by a wrong decoder."""
    record = records.get(name)
    if record is None or record.type_name != kind or array.dtype != np.dtype("<f4"):
        return None
    return decoder(np.frombuffer(_read_bytes(record), np.uint8).reshape(-1, decoder.size))
