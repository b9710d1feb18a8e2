"""What the bytes of a checkpoint hold when they are read wrongly; needs a record of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from parity.codecs.dtypes import DTYPES, DType
from parity.diagnose.claims import Base, Placed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from parity.diagnose.subject import Subject
    from parity.raw import Raw

#: Bytes by which a slip in the file is looked for, both ways; then by steps of eight.
_SLIP, _STEP, _FAR = 16, 8, 512


def storage(subject: Subject, dtype: DType) -> NDArray[Any]:
    """The storage's bytes as elements of ``dtype``, flat."""
    raw = _raw(subject)
    there = subject.maps.bytes_of(raw.path)[raw.first : raw.last]
    whole = len(there) // dtype.storage.itemsize * dtype.storage.itemsize
    return np.frombuffer(there[:whole].data, dtype.storage)


def _raw(subject: Subject) -> Raw:
    if subject.raw is None:
        raise ValueError(subject.name)
    return subject.raw


def known(subject: Subject) -> DType | None:
    """The stored dtype where elements are stored one by one and the dump can hold them."""
    raw = subject.raw
    dtype = None if raw is None else DTYPES.get(raw.kind)
    if dtype is None or (subject.seen.name != "F32" and subject.seen != dtype):
        return None
    return dtype


def turn_of(subject: Subject, dtype: DType) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """From stored elements to those of the dump."""
    return (lambda chunk: chunk) if subject.seen == dtype else dtype.as_f32


def view(subject: Subject, dtype: DType, *, offset: int | None = None) -> NDArray[Any] | None:
    """The tensor in its storage, strides heeded; None where it would reach out of it."""
    raw, flat = _raw(subject), storage(subject, dtype)
    first = raw.offset if offset is None else offset
    stride = raw.stride or _row_major(raw.shape)
    farthest = first + sum((n - 1) * s for n, s in zip(raw.shape, stride, strict=True))
    if farthest >= len(flat):
        return None
    steps = tuple(step * flat.itemsize for step in stride)
    return np.lib.stride_tricks.as_strided(flat[first:], raw.shape, steps, writeable=False)


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    steps = [1]
    for length in reversed(shape[1:]):
        steps.append(steps[-1] * length)
    return tuple(reversed(steps[: len(shape)]))


def bases(subject: Subject) -> Iterator[Base]:
    """The tensor with its stored bytes read wrongly, element by element."""
    dtype = known(subject)
    if dtype is None:
        return
    if dtype.storage.itemsize > 1 and (dtype != subject.seen):
        swapped = view(subject, dtype)
        if swapped is not None:
            yield Base(
                code="byte-swapped",
                text=f"the bytes of each stored {dtype.name} are swapped, as where big-endian was "
                "taken for little-endian",
                how=f"after swapping the checkpoint's bytes in groups of {dtype.storage.itemsize}",
                values=swapped,
                turn=_swapping(turn_of(subject, dtype)),
            )
    for other in DTYPES.values():
        same_size = other.storage.itemsize == dtype.storage.itemsize
        if other != dtype and same_size and other.kind != "opaque":
            read = view(subject, other)
            if read is not None and subject.seen.name == "F32":
                yield _as_other(dtype, other, read)


def _as_other(dtype: DType, other: DType, read: NDArray[Any]) -> Base:
    return Base(
        code="other-dtype",
        text=f"stored {dtype.name} was read as {other.name}",
        how=f"after reading the checkpoint's bytes as {other.name}",
        values=read,
        turn=other.as_f32,
    )


def _swapping(
    turn: Callable[[NDArray[Any]], NDArray[Any]],
) -> Callable[[NDArray[Any]], NDArray[Any]]:
    return lambda chunk: turn(chunk.byteswap())


def orders(subject: Subject) -> Iterator[Placed]:
    """Storage order in place of logical order, and the storage's beginning for the tensor's."""
    dtype, raw = known(subject), subject.raw
    if dtype is None or raw is None:
        return
    flat, count = storage(subject, dtype), subject.count
    strided = raw.stride is not None and raw.stride != _row_major(raw.shape)
    if strided and raw.offset + count <= len(flat):
        yield Placed(
            code="strides-ignored",
            text=f"the strides {list(raw.stride or ())} were ignored",
            how="in the order of the storage",
            source=flat[raw.offset : raw.offset + count],
            target=subject.target,
        )
    if not raw.offset:
        return
    first = view(subject, dtype, offset=0)
    if first is not None:
        yield Placed(
            code="offset-ignored",
            text=f"the storage offset {raw.offset:,} was ignored",
            how="read from the storage's first element",
            source=first,
            target=subject.target.reshape(first.shape),
        )
    if strided and count <= len(flat):
        yield Placed(
            code="offset-ignored+strides-ignored",
            text=f"storage offset {raw.offset:,} and strides {list(raw.stride or ())} were ignored",
            how="in the order of the storage from its first element",
            source=flat[:count],
            target=subject.target,
        )


def slips(subject: Subject) -> Iterator[tuple[DType, Placed]]:
    """The checkpoint read some bytes too early or too late, or as elements of another size."""
    dtype, raw = known(subject), subject.raw
    if dtype is None or raw is None or raw.stride not in (None, _row_major(raw.shape)):
        return
    content = subject.maps.bytes_of(raw.path)
    begin = raw.first + raw.offset * dtype.storage.itemsize
    size = subject.count * dtype.storage.itemsize
    far = [*range(1, _SLIP + 1), *range(_SLIP + _STEP, _FAR + 1, _STEP)]
    for by in (sign * step for step in far for sign in (1, -1)):
        first = begin + by
        if first >= 0 and first + size <= len(content):
            yield dtype, _slipped(by, _elements(content[first : first + size], dtype), subject)
    yield from _other_sizes(subject, dtype, content[begin : begin + size])


def _slipped(by: int, source: NDArray[Any], subject: Subject) -> Placed:
    way = "late" if by > 0 else "early"
    count = f"{abs(by):,} byte{'s' * (abs(by) != 1)}"
    return Placed(
        code="shifted",
        text=f"the checkpoint was read {count} too {way}: a header, an offset or padding was "
        "misread",
        how=f"read {count} too {way} in the checkpoint",
        source=source,
        target=subject.target,
    )


def _other_sizes(
    subject: Subject, dtype: DType, content: NDArray[np.uint8]
) -> Iterator[tuple[DType, Placed]]:
    if subject.seen.name != "F32":
        return
    for other in DTYPES.values():
        width = other.storage.itemsize
        if other.kind == "opaque" or width == dtype.storage.itemsize:
            continue
        count = min(len(content) // width, subject.count)
        if count < subject.count and (whole := _whole_storage(subject, dtype, other)):
            yield other, whole
        if count:
            yield (
                other,
                Placed(
                    code="other-dtype",
                    text=f"stored {dtype.name} was read as {other.name}",
                    how=f"after reading the checkpoint's bytes as {other.name}",
                    source=_elements(content[: count * width], other),
                    target=subject.target[:count],
                ),
            )


def _whole_storage(subject: Subject, dtype: DType, other: DType) -> Placed | None:
    """The storage as elements of ``other``, where it holds enough of them from the offset on."""
    first, flat = _raw(subject).offset, storage(subject, other)
    if first + subject.count > len(flat):
        return None
    return Placed(
        code="other-dtype",
        text=f"stored {dtype.name} was read as {other.name}",
        how=f"after reading the storage as {other.name} from its element {first:,} on",
        source=flat[first : first + subject.count],
        target=subject.target,
    )


def _elements(content: NDArray[np.uint8], dtype: DType) -> NDArray[Any]:
    """Bytes as elements, wherever they begin."""
    count = len(content) // dtype.storage.itemsize
    return np.ndarray((count,), dtype.storage, content.data)
