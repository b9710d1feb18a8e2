"""Two tensors read side by side, a chunk at a time, in parts that threads can share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from parity.codecs.stored import Stored

#: Elements read of each side at a time: fits the caches, dwarfs the cost of a call.
CHUNK = 64 * 1024
#: Threads that share a tensor; reading and NumPy's loops run beside each other.
THREADS = 2
#: Bytes below which starting a thread costs more than it saves.
_LEAST = 1 << 20

T = TypeVar("T")


class Chunk(NamedTuple):
    """A run of elements of both sides.

    Attributes:
        start: Flat index of the first.
        expected, obtained: Overwritten by the next chunk.
        equal: The bytes are known to be the same.
    """

    start: int
    expected: NDArray[Any]
    obtained: NDArray[Any]
    equal: bool = False


def parts(tensor: Stored, most: int) -> list[range]:
    """The elements of a tensor in at most so many parts, each of whole chunks but the last."""
    if tensor.nbytes < _LEAST:
        most = 1
    # At least one part, though it be empty.
    length = max(CHUNK, -(-tensor.count // (most * CHUNK)) * CHUNK)
    return [
        range(start, min(start + length, tensor.count))
        for start in range(0, max(1, tensor.count), length)
    ]


def shared(task: Callable[[range], T], parts: Sequence[range]) -> list[T]:
    """What ``task`` makes of each part, on a thread each."""
    if len(parts) == 1:
        return [task(parts[0])]
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - for large tensors only

    with ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(task, parts))


def chunks(expected: Stored, obtained: Stored, part: range) -> Iterator[Chunk]:
    """The elements of ``part`` on both sides, read into buffers that are used again.

    Raises:
        FormatError: A file cannot be read.
    """
    step = min(CHUNK, max(1, len(part)))
    # Byte arrays, which are compared by one call of memcmp.
    raw = [bytearray(step * side.dtype.storage.itemsize) for side in (expected, obtained)]
    left = np.frombuffer(raw[0], expected.dtype.storage)
    right = np.frombuffer(raw[1], obtained.dtype.storage)
    with expected.open() as read_expected, obtained.open() as read_obtained:
        for start in range(part.start, part.stop, step):
            length = min(step, part.stop - start)
            read_expected(start, left[:length])
            read_obtained(start, right[:length])
            equal = expected.dtype == obtained.dtype and _equal(
                raw[0], raw[1], left[:length].nbytes
            )
            yield Chunk(start, left[:length], right[:length], equal)


def _equal(left: bytearray, right: bytearray, size: int) -> bool:
    return left == right if size == len(left) else left[:size] == right[:size]
