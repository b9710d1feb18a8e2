"""Faults in a dump of named tensors, planted into all tensors that they fit at once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from parity import blocks
from parity.codecs.dtypes import DTYPES
from parity.faults.fault import Fault, Planted, called
from parity.faults.files import file_faults, overwrite
from parity.faults.values import VALUES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from parity.codecs.stored import Stored
    from parity.raw import Raw

    Array = NDArray[Any]
    Tensors = Mapping[str, Stored]
    #: From a tensor's name and right values to wrong ones; None where it does not fit.
    Make = Callable[[str, Array], Array | None]


def faults(tensors: Tensors, records: Mapping[str, Raw], *, exact: bool = True) -> Iterator[Fault]:
    """All faults that fit some tensor.

    Args:
        tensors: The references; the dump in a folder has files of the same names.
        records: Where they lie in their checkpoint, as far as that is known.
        exact: Bytes are owed; under a bound, signs of zeros and the like are no faults.
    """
    # What shares its bytes with its neighbours is not planted into.
    tensors = {name: stored for name, stored in tensors.items() if not stored.dtype.packed}
    for name, wrong in VALUES.items():
        if wrong.exact and not exact:
            continue
        yield Fault(
            name=name,
            text=wrong.text,
            names=called(*wrong.names),
            plant=partial(_everywhere, tensors, _shaped(records, wrong.make)),
            by_tensor=True,
            unnamed=wrong.unnamed,
        )
    yield _neighbours(tensors)
    yield from _stored(tensors, records)
    yield from _blocks(tensors, records)
    yield from file_faults(tensors)


def _shaped(records: Mapping[str, Raw], make: Callable[[Array], Array | None]) -> Make:
    """Values in their logical shape, which GGUF's references state in reverse."""

    def change(name: str, array: Array) -> Array | None:
        record = records.get(name)
        fits = record is not None and int(np.prod(record.shape)) == array.size
        return make(array.reshape(record.shape) if record is not None and fits else array)

    return change


def _everywhere(tensors: Tensors, make: Make, folder: Path) -> Planted:
    changed: list[str] = []
    void: list[str] = []
    for name, stored in tensors.items():
        right = stored.array()
        wrong = make(name, right) if right.size else None
        if wrong is None:
            continue
        content = np.ascontiguousarray(wrong).astype(right.dtype, copy=False).tobytes()
        (void if content == right.tobytes() else changed).append(name)
        overwrite(folder / stored.path.name, stored.offset, content)
    return Planted(tuple(changed), tuple(void))


def _neighbours(tensors: Tensors) -> Fault:
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
        return tensors[follower[name]].array() if name in follower else None

    return Fault(
        name="other-tensor",
        text="names of tensors of one size are mixed up",
        names=called("other-tensor", "strides-ignored", "transposed", "axes-permuted", "factor"),
        plant=partial(_everywhere, tensors, make),
        by_tensor=True,
    )


def _stored(tensors: Tensors, records: Mapping[str, Raw]) -> Iterator[Fault]:
    """Faults of reading a storage: strides, offsets, dtypes, places in the file."""
    kinds: tuple[tuple[str, str, tuple[str, ...], Callable[[Raw, Array], Array | None]], ...] = (
        (
            "strides-ignored",
            "the storage is read in its own order",
            ("strides-ignored", "transposed", "axes-permuted", "dims-reversed"),
            _storage_order,
        ),
        (
            "offset-ignored",
            "the storage is read from its first element",
            ("offset-ignored",),
            _from_first,
        ),
        ("read-late", "the file is read 8 bytes too late", ("shifted",), partial(_moved, by=8)),
        ("read-early", "the file is read 4 bytes too early", ("shifted",), partial(_moved, by=-4)),
        (
            "other-dtype",
            "another dtype of the same width is read",
            ("other-dtype", "bits-as-integers"),
            _other_dtype,
        ),
        ("stored-swapped", "stored values are read as big-endian", ("byte-swapped",), _big_endian),
    )
    for name, text, names, read in kinds:
        make = partial(_from_raw, records, read)
        plant = partial(_everywhere, tensors, make)
        yield Fault(name=name, text=text, names=called(*names), plant=plant, by_tensor=True)


def _from_raw(
    records: Mapping[str, Raw],
    read: Callable[[Raw, Array], Array | None],
    name: str,
    array: Array,
) -> Array | None:
    """What ``read`` makes of the record; a `.bin` carries it as f32."""
    record = records.get(name)
    if record is None or record.kind not in DTYPES or array.dtype != np.dtype("<f4"):
        return None
    return read(record, array)


def _elements(raw: Raw, kind: str, by: int = 0) -> Array:
    """The storage as elements of ``kind``, in f32, read ``by`` bytes further on."""
    dtype = DTYPES[kind]
    with raw.path.open("rb") as file:
        file.seek(raw.first + by)
        content = file.read(raw.last - raw.first)
    size = dtype.storage.itemsize
    return dtype.as_f32(np.frombuffer(content[: len(content) // size * size], dtype.storage))


def _logical(raw: Raw, flat: Array, offset: int) -> Array | None:
    if raw.stride is None:
        count = int(np.prod(raw.shape))
        return flat[offset : offset + count] if offset + count <= len(flat) else None
    steps = tuple(step * flat.itemsize for step in raw.stride)
    farthest = offset + sum((n - 1) * s for n, s in zip(raw.shape, raw.stride, strict=True))
    if farthest >= len(flat):
        return None
    return np.lib.stride_tricks.as_strided(flat[offset:], raw.shape, steps)


def _storage_order(raw: Raw, array: Array) -> Array | None:
    if raw.stride is None:
        return None
    flat = _elements(raw, raw.kind)[raw.offset : raw.offset + array.size]
    return flat if len(flat) == array.size else None


def _from_first(raw: Raw, _array: Array) -> Array | None:
    return _logical(raw, _elements(raw, raw.kind), 0) if raw.offset else None


def _moved(raw: Raw, array: Array, by: int) -> Array | None:
    """Of tensors in row-major order alone; what lies beyond is the file's next bytes."""
    if raw.stride is not None and not _row_major(raw):
        return None
    flat = _elements(raw, raw.kind, by)[raw.offset : raw.offset + array.size]
    return flat if len(flat) == array.size else None


def _row_major(raw: Raw) -> bool:
    steps, step = [], 1
    for length in reversed(raw.shape):
        steps.append(step)
        step *= length
    return raw.stride == tuple(reversed(steps))


_TWIN = {"F16": "BF16", "BF16": "F16", "F32": "I32", "F64": "I64"}


def _other_dtype(raw: Raw, _array: Array) -> Array | None:
    if raw.kind not in _TWIN:
        return None
    return _logical(raw, _elements(raw, _TWIN[raw.kind]), raw.offset)


def _big_endian(raw: Raw, _array: Array) -> Array | None:
    dtype = DTYPES[raw.kind]
    with raw.path.open("rb") as file:
        file.seek(raw.first)
        content = np.frombuffer(file.read(raw.last - raw.first), dtype.storage)
    return _logical(raw, dtype.as_f32(content.byteswap()), raw.offset)


def _blocks(tensors: Tensors, records: Mapping[str, Raw]) -> Iterator[Fault]:
    """Every known mistake of every block type, made on the checkpoint's own bytes."""
    kinds = dict.fromkeys(records[name].kind for name in tensors if name in records)
    for kind in kinds:
        if kind in DTYPES:
            continue
        for one in blocks.mistakes(kind):
            make = partial(_decoded, records, kind, one.decoder)
            yield Fault(
                name=f"block-{one.name}:{kind}",
                text=f"{kind}: {one.text}",
                names=called(f"block-{one.name}"),
                plant=partial(_everywhere, tensors, make),
                by_tensor=True,
            )


def _decoded(
    records: Mapping[str, Raw], kind: str, decoder: blocks.Decoder, name: str, array: Array
) -> Array | None:
    record = records.get(name)
    if record is None or record.kind != kind or array.dtype != np.dtype("<f4"):
        return None
    with record.path.open("rb") as file:
        file.seek(record.first)
        raw = np.frombuffer(file.read(record.last - record.first), np.uint8)
    return decoder(raw.reshape(-1, decoder.size))
