"""Propose where each element comes from: rearranged, or misread in the checkpoint.

Rearrangements are views of the reference beside views of the dump.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, permutations
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

_MAX_PERMUTED_AXES = 4  # More axes than these have too many orders to try them all
_MAX_RANK = 8  # Tensors of more axes are not rearranged
#: Elements of a shift that is tried, both ways; beside it, whole rows.
MAX_SHIFT = 64
_MAX_ROW_SHIFT = 8


def propose_layouts(
    expected: NDArray[Any], obtained: NDArray[Any], max_shift: int = MAX_SHIFT
) -> Iterator[Layout]:
    """Yield all rearrangements that are tried, likelier ones first.

    ``expected`` are correct values in their logical shape, ``obtained`` those of the dump, flat;
    ``max_shift`` is in elements.
    """
    yield from _propose_axis_orders(expected, obtained)
    how = "after reversing the order of all elements"
    step = Step("reversed", "the elements run backwards", how)
    yield Layout(expected.reshape(-1)[::-1], obtained, step)
    yield from _propose_flips(expected, obtained)
    yield from _propose_shifts(expected, obtained, max_shift)


def _propose_flips(expected: NDArray[Any], obtained: NDArray[Any]) -> Iterator[Layout]:
    """Yield single axes, and the last two, reversed, as kernels are in a convolution."""
    rank = expected.ndim
    if not 1 < rank <= _MAX_RANK:
        return
    names: dict[tuple[int, ...], str] = {
        (axis,): f"axis {axis} runs" for axis in range(rank) if expected.shape[axis] > 1
    }
    if rank > 2:  # noqa: PLR2004 - else all of it is reversed
        names[rank - 2, rank - 1] = f"axes {rank - 2} and {rank - 1} run"
    for axes, name in names.items():
        how = f"after reversing the order along {name.rsplit(' ', 1)[0]}"
        step = Step("reversed", f"{name} backwards", how)
        yield Layout(np.flip(expected, axes), obtained.reshape(expected.shape), step)


def _propose_axis_orders(expected: NDArray[Any], obtained: NDArray[Any]) -> Iterator[Layout]:
    """Yield orders of axes, as a wrong way of writing and as a wrong way of reading."""
    if not 1 < expected.ndim <= _MAX_RANK or not expected.flags.c_contiguous:
        return
    rank = expected.ndim
    orders: Iterable[tuple[int, ...]] = permutations(range(rank))
    if rank > _MAX_PERMUTED_AXES:  # the reverse one, and exchanges of two
        pairs = combinations(range(rank), 2)
        swaps = ({one: other, other: one} for one, other in pairs)
        orders = [tuple(swap.get(axis, axis) for axis in range(rank)) for swap in swaps]
        orders = [tuple(reversed(range(rank))), *orders]
    for order in orders:
        if order == tuple(range(rank)):
            continue
        moved = expected.transpose(order)
        yield Layout(moved, obtained.reshape(moved.shape), _describe_order(order))
        back = obtained.reshape(expected.shape).transpose(order)
        yield Layout(expected.reshape(back.shape), back, _describe_order(order, " of the dump"))


def _describe_order(order: tuple[int, ...], side: str = "") -> Step:
    rank = len(order)
    moved = [axis for axis in range(rank) if order[axis] != axis]
    if len(moved) == 2:  # noqa: PLR2004 - two axes changed places
        text = f"axes {moved[0]} and {moved[1]} are exchanged"
        return Step("transposed", text, f"after transposing axes {moved[0]} and {moved[1]}{side}")
    if order == tuple(reversed(range(rank))):
        text = "the axes are in the reverse order (Fortran order for C)"
        return Step("dims-reversed", text, f"after reversing the axes{side}")
    how = f"after permuting the axes{side} to {', '.join(map(str, order))}"
    return Step("axes-permuted", "the axes are in another order", how)


def _propose_shifts(
    expected: NDArray[Any], obtained: NDArray[Any], max_shift: int
) -> Iterator[Layout]:
    flat, count = expected.reshape(-1), obtained.size
    row = expected.shape[-1] if expected.ndim > 1 else 1
    rows = (row * k for k in range(1, _MAX_ROW_SHIFT + 1))
    for by in dict.fromkeys([*range(1, max_shift + 1), *rows]):
        if 2 * by > count:
            continue
        where = f"by {by:,} element{'s' * (by != 1)} ({obtained.itemsize * by:,} bytes)"
        for way, expected_part, obtained_part in (
            ("right", flat[: count - by], obtained[by:]),
            ("left", flat[by:], obtained[: count - by]),
        ):
            text = (
                f"the values are shifted {way} {where}: a header, an offset or the alignment was "
                "misread"
            )
            step = Step("shifted", text, f"after shifting the reference {way} {where}")
            yield Layout(expected_part, obtained_part, step)


# --- misread in the checkpoint --------------------------------------------------------------


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
