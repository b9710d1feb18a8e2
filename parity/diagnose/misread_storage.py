"""Propose ways of misreading a tensor's bytes in its checkpoint, where their place is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from parity.diagnose.hypothesis import Layout, Source
from parity.tensors.dtypes import DTYPES, DType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from parity.checkpoints import StorageLocation
    from parity.diagnose.failing_tensor import FailingTensor

#: Bytes of a shift in the file that is tried, both ways; beyond the first, by steps.
_ALIGNMENT = 32
_MAX_FINE_SHIFT, _STEP, _MAX_SHIFT = 16, 8, 512


def read_storage(tensor: FailingTensor, dtype: DType) -> NDArray[Any]:
    """Return the storage's bytes as elements of ``dtype``, flat."""
    location = _require_location(tensor)
    there = tensor.maps.map_bytes(location.path)[location.start : location.stop]
    whole = len(there) // dtype.storage.itemsize * dtype.storage.itemsize
    return np.frombuffer(there[:whole].data, dtype.storage)


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


def make_conversion(tensor: FailingTensor, dtype: DType) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return the conversion from stored elements to those of the dump."""
    return (lambda chunk: chunk) if tensor.obtained_dtype == dtype else dtype.round_to_f32


def view_tensor(
    tensor: FailingTensor, dtype: DType, *, offset: int | None = None
) -> NDArray[Any] | None:
    """Return the tensor in its storage, by its strides; None where it reaches out of it."""
    location, flat = _require_location(tensor), read_storage(tensor, dtype)
    first = location.storage_offset if offset is None else offset
    stride = location.stride or _compute_strides(location.shape)
    farthest = first + sum((n - 1) * s for n, s in zip(location.shape, stride, strict=True))
    if farthest >= len(flat):
        return None
    steps = tuple(step * flat.itemsize for step in stride)
    return np.lib.stride_tricks.as_strided(flat[first:], location.shape, steps, writeable=False)


def _compute_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    steps = [1]
    for length in reversed(shape[1:]):
        steps.append(steps[-1] * length)
    return tuple(reversed(steps[: len(shape)]))


def propose_sources(tensor: FailingTensor) -> Iterator[Source]:
    """Yield the tensor with each element's stored bytes misread."""
    dtype = find_stored_dtype(tensor)
    if dtype is None:
        return
    if dtype.storage.itemsize > 1 and (dtype != tensor.obtained_dtype):
        swapped = view_tensor(tensor, dtype)
        if swapped is not None:
            yield Source(
                code="byte-swapped",
                text=f"the bytes of each stored {dtype.name} are swapped, as where big-endian was "
                "read as little-endian",
                how=f"after swapping the checkpoint's bytes in groups of {dtype.storage.itemsize}",
                values=swapped,
                convert=_make_swapping(make_conversion(tensor, dtype)),
            )
    for other in DTYPES.values():
        same_size = other.storage.itemsize == dtype.storage.itemsize
        if other != dtype and same_size and other.kind != "complex":
            read = view_tensor(tensor, other)
            if read is not None and tensor.obtained_dtype.name == "F32":
                yield _make_misread(dtype, other, read)


def _make_misread(dtype: DType, other: DType, read: NDArray[Any]) -> Source:
    return Source(
        code="other-dtype",
        text=f"stored {dtype.name.lower()} was read as {other.name.lower()}",
        how=f"after reading the checkpoint's bytes as {other.name.lower()}",
        values=read,
        convert=other.round_to_f32,
    )


def _make_swapping(
    convert: Callable[[NDArray[Any]], NDArray[Any]],
) -> Callable[[NDArray[Any]], NDArray[Any]]:
    return lambda chunk: convert(chunk.byteswap())


def propose_orders(tensor: FailingTensor) -> Iterator[Layout]:
    """Yield the storage's order instead of the logical one, and its beginning for the tensor's."""
    dtype, location = find_stored_dtype(tensor), tensor.raw
    if dtype is None or location is None:
        return
    flat, count = read_storage(tensor, dtype), tensor.count
    strided = location.stride is not None and location.stride != _compute_strides(location.shape)
    if strided and location.storage_offset + count <= len(flat):
        yield Layout(
            code="strides-ignored",
            text=f"the strides {list(location.stride or ())} were ignored",
            how="in the order of the storage",
            expected=flat[location.storage_offset : location.storage_offset + count],
            obtained=tensor.obtained_flat,
        )
    if not location.storage_offset:
        return
    first = view_tensor(tensor, dtype, offset=0)
    if first is not None:
        yield Layout(
            code="offset-ignored",
            text=f"the storage offset {location.storage_offset:,} was ignored",
            how="read from the storage's first element",
            expected=first,
            obtained=tensor.obtained_flat.reshape(first.shape),
        )
    if strided and count <= len(flat):
        yield Layout(
            code="offset-ignored+strides-ignored",
            text=f"storage offset {location.storage_offset:,} and strides "
            f"{list(location.stride or ())} were ignored",
            how="in the order of the storage from its first element",
            expected=flat[:count],
            obtained=tensor.obtained_flat,
        )


def propose_shifts(tensor: FailingTensor) -> Iterator[tuple[DType, Layout]]:
    """Yield the checkpoint read some bytes too early or late, or as elements of another size."""
    dtype, location = find_stored_dtype(tensor), tensor.raw
    if (
        dtype is None
        or location is None
        or location.stride not in (None, _compute_strides(location.shape))
    ):
        return
    content = tensor.maps.map_bytes(location.path)
    begin = location.start + location.storage_offset * dtype.storage.itemsize
    size = tensor.count * dtype.storage.itemsize
    far = [*range(1, _MAX_FINE_SHIFT + 1), *range(_MAX_FINE_SHIFT + _STEP, _MAX_SHIFT + 1, _STEP)]
    with np.errstate(invalid="ignore"):  # a signalling NaN is no news here
        is_zero = not tensor.obtained_flat.any()
    if is_zero:
        # Zeros are found at many bytes; another alignment is the likeliest.
        far.sort(key=lambda by: (by % _ALIGNMENT != 0, by))
    for by in (sign * step for step in far for sign in (1, -1)):
        first = begin + by
        if first >= 0 and first + size <= len(content):
            yield (
                dtype,
                _make_shifted(by, _view_elements(content[first : first + size], dtype), tensor),
            )
    yield from _propose_other_sizes(tensor, dtype, content[begin : begin + size])


def _make_shifted(by: int, source: NDArray[Any], tensor: FailingTensor) -> Layout:
    way = "late" if by > 0 else "early"
    count = f"{abs(by):,} byte{'s' * (abs(by) != 1)}"
    return Layout(
        code="shifted",
        text=f"the checkpoint was read {count} too {way}: a header, an offset or the alignment "
        "was misread",
        how=f"read {count} too {way} in the checkpoint",
        expected=source,
        obtained=tensor.obtained_flat,
    )


def _propose_other_sizes(
    tensor: FailingTensor, dtype: DType, content: NDArray[np.uint8]
) -> Iterator[tuple[DType, Layout]]:
    if tensor.obtained_dtype.name != "F32":
        return
    for other in DTYPES.values():
        width = other.storage.itemsize
        if other.kind == "complex" or width == dtype.storage.itemsize:
            continue
        count = min(len(content) // width, tensor.count)
        if count < tensor.count and (whole := _read_whole_storage(tensor, dtype, other)):
            yield other, whole
        if count:
            yield (
                other,
                Layout(
                    code="other-dtype",
                    text=f"stored {dtype.name.lower()} was read as {other.name.lower()}",
                    how=f"after reading the checkpoint's bytes as {other.name.lower()}",
                    expected=_view_elements(content[: count * width], other),
                    obtained=tensor.obtained_flat[:count],
                ),
            )


def _read_whole_storage(tensor: FailingTensor, dtype: DType, other: DType) -> Layout | None:
    """Return the storage as elements of ``other``, if it has enough of them after the offset."""
    first, flat = _require_location(tensor).storage_offset, read_storage(tensor, other)
    if first + tensor.count > len(flat):
        return None
    return Layout(
        code="other-dtype",
        text=f"stored {dtype.name.lower()} was read as {other.name.lower()}",
        how=f"after reading the storage as {other.name.lower()} from its element {first:,} on",
        expected=flat[first : first + tensor.count],
        obtained=tensor.obtained_flat,
    )


def _view_elements(content: NDArray[np.uint8], dtype: DType) -> NDArray[Any]:
    """Return bytes as elements, at any alignment."""
    count = len(content) // dtype.storage.itemsize
    return np.ndarray((count,), dtype.storage, content.data)
