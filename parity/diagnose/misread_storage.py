"""Propose ways of misreading a tensor's bytes in its checkpoint, where their place is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.checkpoints import StorageLocation
from parity.diagnose.failing_tensor import FailingTensor
from parity.diagnose.hypothesis import Layout, Source, Step, identity
from parity.tensors.dtypes import DTYPES, DType

#: Types that bytes are not taken for.
_NEVER = tuple(dtype for dtype in DTYPES.values() if dtype.kind == "complex")
#: Bytes of a shift in the file that is tried, both ways; a likely alignment of it.
_SHIFTS = (*range(1, 17), *range(24, 513, 8))
_ALIGNMENT = 32


def read_storage(tensor: FailingTensor, dtype: DType) -> NDArray[Any]:
    """Return the storage's bytes as elements of ``dtype``, flat."""
    location = _require_location(tensor)
    content = tensor.maps.map_bytes(location.path)
    return _view_elements(content[location.start : location.stop], dtype)


def _view_elements(content: NDArray[np.uint8], dtype: DType) -> NDArray[Any]:
    """Return bytes as elements, at any alignment."""
    count = len(content) // dtype.storage.itemsize
    return np.ndarray((count,), dtype.storage, content.data)


def _require_location(tensor: FailingTensor) -> StorageLocation:
    if tensor.raw is None:
        raise ValueError(tensor.name)
    return tensor.raw


def find_stored_dtype(tensor: FailingTensor) -> DType | None:
    """Return the stored dtype, None where it is one of blocks or the dump cannot contain it."""
    location = tensor.raw
    dtype = None if location is None else DTYPES.get(location.type_name)
    if dtype is None or (tensor.obtained_dtype.name != "F32" and tensor.obtained_dtype != dtype):
        return None
    return dtype


def _make_source(tensor: FailingTensor, dtype: DType) -> Source:
    """Make a source of the stored elements of ``dtype``, whose places a layout has."""
    convert = identity if tensor.obtained_dtype == dtype else dtype.round_to_f32
    return Source(tensor.expected_logical, convert)


def view_tensor(
    tensor: FailingTensor, dtype: DType, offset: int | None = None
) -> NDArray[Any] | None:
    """Return the tensor in its storage, by its strides; None where it reaches out of it."""
    return _require_location(tensor).view(read_storage(tensor, dtype), offset)


def propose_sources(tensor: FailingTensor) -> Iterator[Source]:
    """Yield the tensor with each element's stored bytes misread."""
    dtype = find_stored_dtype(tensor)
    values = None if dtype is None else view_tensor(tensor, dtype)
    if dtype is None or values is None or tensor.obtained_dtype.name != "F32":
        return
    width = dtype.storage.itemsize
    if width > 1 and dtype.name != "F32":
        text = f"the bytes of each stored {dtype.name} are swapped, as where big-endian was "
        how = f"after swapping the checkpoint's bytes in groups of {width}"
        step = Step("byte-swapped", f"{text}read as little-endian", how)
        yield Source(values, lambda chunk: dtype.round_to_f32(chunk.byteswap()), step)
    for other in DTYPES.values():
        if other not in (dtype, *_NEVER) and other.storage.itemsize == width:
            read = view_tensor(tensor, other)
            if read is not None:
                yield Source(read, other.round_to_f32, _describe_other(dtype, other))


def _describe_other(
    dtype: DType, other: DType, what: str = "the checkpoint's bytes", where: str = ""
) -> Step:
    text = f"stored {dtype.name.lower()} was read as {other.name.lower()}"
    return Step("other-dtype", text, f"after reading {what} as {other.name.lower()}{where}")


def propose_orders(tensor: FailingTensor) -> Iterator[tuple[Source, Layout]]:
    """Yield the storage's order instead of the logical one, and its beginning for the tensor's."""
    dtype, location = find_stored_dtype(tensor), tensor.raw
    if dtype is None or location is None:
        return
    flat, first, count = read_storage(tensor, dtype), location.storage_offset, tensor.count
    source, obtained = _make_source(tensor, dtype), tensor.obtained_flat
    strides = list(location.stride or ())
    strided = location.stride not in (None, location.row_major)
    if strided and first + count <= len(flat):
        text = f"the strides {strides} were ignored"
        step = Step("strides-ignored", text, "in the order of the storage")
        yield source, Layout(flat[first : first + count], obtained, step)
    begin = view_tensor(tensor, dtype, offset=0) if first else None
    if begin is not None:
        text = f"the storage offset {first:,} was ignored"
        step = Step("offset-ignored", text, "read from the storage's first element")
        yield source, Layout(begin, obtained.reshape(begin.shape), step)
    if first and strided and count <= len(flat):
        text = f"storage offset {first:,} and strides {strides} were ignored"
        how = "in the order of the storage from its first element"
        step = Step("offset-ignored+strides-ignored", text, how)
        yield source, Layout(flat[:count], obtained, step)


def read_shifted(
    tensor: FailingTensor, offset: int, size: int, distances: Iterable[int]
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Yield runs of ``size`` bytes too late, and too early, with their distance.

    ``offset`` are the bytes of the storage before the tensor; its location must be known.
    """
    location = _require_location(tensor)
    content, begin = tensor.maps.map_bytes(location.path), location.start + offset
    for by in (sign * step for step in distances for sign in (1, -1)):
        if 0 <= begin + by <= len(content) - size:
            yield by, content[begin + by : begin + by + size]


def format_byte_shift(by: int) -> str:
    """Format a distance as ``1 byte too late`` or ``32 bytes too early``."""
    return f"{abs(by):,} byte{'s' * (abs(by) != 1)} too {'late' if by > 0 else 'early'}"


def propose_shifts(tensor: FailingTensor) -> Iterator[tuple[Source, Layout]]:
    """Yield the checkpoint read some bytes too early or late, or as elements of another size."""
    dtype, location = find_stored_dtype(tensor), tensor.raw
    if dtype is None or location is None:
        return
    if location.stride not in (None, location.row_major):
        return
    with np.errstate(invalid="ignore"):  # a signalling NaN is no news here
        is_zero = not tensor.obtained_flat.any()
    # Zeros are found at many bytes; another alignment is the likeliest.
    far = sorted(_SHIFTS, key=lambda by: (is_zero and by % _ALIGNMENT != 0, by))
    width, source = dtype.storage.itemsize, _make_source(tensor, dtype)
    offset, size = location.storage_offset * width, tensor.count * width
    for by, moved in read_shifted(tensor, offset, size, far):
        way = format_byte_shift(by)
        text = f"the checkpoint was read {way}: a header, an offset or the alignment was misread"
        step = Step("shifted", text, f"read {way} in the checkpoint")
        yield source, Layout(_view_elements(moved, dtype), tensor.obtained_flat, step)
    for other in DTYPES.values() if tensor.obtained_dtype.name == "F32" else ():
        if other not in _NEVER and other.storage.itemsize != width:
            for layout in _propose_other_size(tensor, dtype, other):
                yield _make_source(tensor, other), layout


def _propose_other_size(tensor: FailingTensor, dtype: DType, other: DType) -> Iterator[Layout]:
    """Yield the storage as elements of ``other``, counted from its begin, and from the tensor's."""
    location, count, flat = _require_location(tensor), tensor.count, read_storage(tensor, other)
    first, width = location.storage_offset, dtype.storage.itemsize
    content = tensor.maps.map_bytes(location.path)[location.start + first * width :]
    part = _view_elements(content[: count * width], other)[:count]
    if len(part) < count and first + count <= len(flat):
        where = f" from its element {first:,} on"
        step = _describe_other(dtype, other, "the storage", where)
        yield Layout(flat[first : first + count], tensor.obtained_flat, step)
    if len(part):
        yield Layout(part, tensor.obtained_flat[: len(part)], _describe_other(dtype, other))
