"""Read two tensors side by side, a chunk at a time, in ranges that threads can share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from parity.tensors.stored import StoredTensor

#: Bytes read of each side at a time: fits the caches, dwarfs the cost of a call.
CHUNK_BYTES = 512 * 1024
THREADS = 2  # Threads that share work; reading and comparing bytes run beside each other
#: Bytes of a tensor from which on threads share it; smaller ones are shared out whole.
MIN_SPLIT_BYTES = 16 << 20
#: Data is read to an address that equals its place in the file modulo this. Where the copy
#: out of the page cache lands less than 32 bytes further into its page than it came from,
#: Zen 3 takes five times as long (measured, docs/performance.md).
_ALIGNMENT = 64

P = TypeVar("P")
T = TypeVar("T")


class _Buffer:
    """Buffer for chunks of one side: bytes, so that one memcmp compares two of them."""

    def __init__(self) -> None:
        self.raw = bytearray(CHUNK_BYTES + _ALIGNMENT)
        self._address = np.frombuffer(self.raw, np.uint8).ctypes.data

    def find_start(self, tensor: StoredTensor) -> int:
        """Return the byte of the buffer at which data of ``tensor`` begins."""
        return (tensor.offset - self._address) % _ALIGNMENT

    def view_array(self, tensor: StoredTensor) -> NDArray[Any]:
        """View the buffer as elements of ``tensor``'s storage type."""
        kind = tensor.dtype.storage
        return np.frombuffer(self.raw, kind, CHUNK_BYTES // kind.itemsize, self.find_start(tensor))


class _Buffers(threading.local):
    """Two per thread, reused: allocating for each tensor would cost as much as comparing it."""

    def __init__(self) -> None:
        self.expected, self.obtained = _Buffer(), _Buffer()


_buffers = _Buffers()


class Chunk(NamedTuple):
    """A run of elements of both sides, overwritten by the next one."""

    start: int  # Flat index of the first
    expected: NDArray[Any]
    obtained: NDArray[Any]
    equal: bool = False  # The bytes are known to be the same


def split_ranges(tensor: StoredTensor, max_parts: int) -> list[range]:
    """Split the elements of a tensor into at most so many ranges of whole chunks."""
    if tensor.nbytes < MIN_SPLIT_BYTES:
        max_parts = 1
    # At least one range, even if it is empty.
    step = CHUNK_BYTES // tensor.dtype.storage.itemsize
    length = max(step, -(-tensor.count // (max_parts * step)) * step)
    return [
        range(start, min(start + length, tensor.count))
        for start in range(0, max(1, tensor.count), length)
    ]


def map_parts(task: Callable[[P], T], parts: Sequence[P]) -> list[T]:
    """Return the results of ``task`` for each part, in order; ``THREADS`` share several."""
    if len(parts) <= 1:
        return [task(part) for part in parts]
    from concurrent.futures import ThreadPoolExecutor  # takes as long as a small case

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(task, parts))


def read_chunks(expected: StoredTensor, obtained: StoredTensor, part: range) -> Iterator[Chunk]:
    """Read the elements of ``part`` on both sides into buffers that are reused.

    Raises:
        FormatError: A file cannot be read.
    """
    mine, other = _buffers.expected, _buffers.obtained
    left, right = mine.view_array(expected), other.view_array(obtained)
    first, beside = mine.find_start(expected), memoryview(other.raw)[other.find_start(obtained) :]
    step = CHUNK_BYTES // max(left.itemsize, right.itemsize)
    same_dtype = expected.dtype == obtained.dtype
    with expected.open() as of_expected, obtained.open() as of_obtained:
        for start in range(part.start, part.stop, step):
            length = min(step, part.stop - start)
            sides = left[:length], right[:length]
            of_expected.read(start, sides[0])
            of_obtained.read(start, sides[1])
            # One memcmp from `first` on, and no slice is copied.
            equal = same_dtype and mine.raw.startswith(beside[: sides[0].nbytes], first)
            yield Chunk(start, *sides, equal)
