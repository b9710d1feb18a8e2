"""The `.bin` formats of the upstream dump contract, little-endian throughout.

A single tensor is ``[u32 ndim][u32 shape…][f32 data]`` in row-major order; a
scalar has ndim 0 and one value. A batch file is ``[u32 num_tensors]`` followed
by that many single tensors. Source: the dataset cards of ferrotorch's
dataloader-batches-v1 and serialize-parity-v1.
"""

from __future__ import annotations

import os
import struct
from math import prod
from typing import TYPE_CHECKING, BinaryIO, TypeVar

import numpy as np

from parity.codecs import FormatError
from parity.codecs.dtypes import DTYPES
from parity.codecs.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from numpy.typing import NDArray

#: More dimensions than any tensor of the field has; NumPy itself stops at 64.
MAX_NDIM = 32
#: More tensors than any batch of the field has.
MAX_TENSORS = 1024
F32 = np.dtype("<f4")
_WORD = 4
_MOST_ELEMENTS = (2**63 - 1) // F32.itemsize

T = TypeVar("T")


def read_tensor(path: Path) -> NDArray[np.float32]:
    """The tensor of a single-tensor file, in the header's shape.

    Raises:
        FormatError: The file is not exactly one tensor.
    """
    return _read(path, _tensor)


def stored(path: Path) -> Stored:
    """Where the tensor of a single-tensor file lies; only the header is read.

    Raises:
        FormatError: The file is not exactly one tensor.
    """

    def parse(file: BinaryIO, size: int) -> Stored:
        shape = _shape(file, size)
        tensor = Stored(path, file.tell(), DTYPES["F32"], shape, path.suffix)
        file.seek(tensor.nbytes, os.SEEK_CUR)
        return tensor

    return _read(path, parse)


def read_batch(path: Path, most: int | None = None) -> list[NDArray[np.float32]]:
    """The tensors of a batch file, in file order.

    Args:
        path: The file.
        most: Bytes that it may have; a sparse file of a terabyte is not read.

    Raises:
        FormatError: The file is not exactly the tensors that it announces.
    """
    return _read(path, _batch, most)


def stored_batch(path: Path, *, counted: bool = True) -> list[Stored]:
    """Where the tensors of a batch file lie, in file order; only headers are read.

    Args:
        path: The file.
        counted: It begins with their number; else tensors follow up to its end, as in
            upstream's `mlp_weights.bin`.

    Raises:
        FormatError: The file is not exactly such tensors, or more than are accepted.
    """

    def parse(file: BinaryIO, size: int) -> list[Stored]:
        left = _count(file) if counted else MAX_TENSORS
        found: list[Stored] = []
        while left > 0 and (counted or file.tell() < size):
            shape = _shape(file, size)
            found.append(Stored(path, file.tell(), DTYPES["F32"], shape, path.suffix))
            file.seek(found[-1].nbytes, os.SEEK_CUR)
            left -= 1
        return found

    return _read(path, parse)


def read_tensors(path: Path, count: int) -> list[NDArray[np.float32]]:
    """The tensors of a file that holds ``count`` of them, one after the other, uncounted.

    Raises:
        FormatError: The file is not exactly that many tensors.
    """
    return _read(path, lambda file, size: [_tensor(file, size) for _ in range(count)])


def _read(path: Path, parse: Callable[[BinaryIO, int], T], most: int | None = None) -> T:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if most is not None and size > most:
                code, message = "too-large", f"has {size:,} bytes; at most {most:,} are read"
                raise FormatError(code, message)
            parsed = parse(file, size)
            left = size - file.tell()
    except OSError as error:
        code, message = "unreadable", f"cannot be read: {error.strerror}"
        raise FormatError(code, message) from error
    if left:
        code = "trailing-bytes"
        follow = "1 byte follows" if left == 1 else f"{left:,} bytes follow"
        message = f"{follow} the data that the header announces (file: {size:,} bytes)"
        raise FormatError(code, message)
    return parsed


def _batch(file: BinaryIO, size: int) -> list[NDArray[np.float32]]:
    return [_tensor(file, size) for _ in range(_count(file))]


def _count(file: BinaryIO) -> int:
    count = _u32(file, "the number of tensors")
    if count > MAX_TENSORS:
        code = "bad-header"
        message = f"announces {count:,} tensors at byte 0; at most {MAX_TENSORS:,} are accepted"
        raise FormatError(code, message)
    return count


def _tensor(file: BinaryIO, size: int) -> NDArray[np.float32]:
    shape = _shape(file, size)
    start, found = file.tell(), np.fromfile(file, F32, prod(shape))
    if found.size < prod(shape):
        # The file has shrunk since its size was looked at.
        code = "truncated"
        message = (
            f"shape {list(shape)} needs {prod(shape):,} values at byte {start}, "
            f"only {found.size:,} were there when they were read"
        )
        raise FormatError(code, message)
    return found.reshape(shape)


def _shape(file: BinaryIO, size: int) -> tuple[int, ...]:
    """The header at the file's position, held against the bytes that are left."""
    start = file.tell()
    ndim = _u32(file, "the number of dimensions")
    if ndim > MAX_NDIM:
        code = "bad-header"
        message = f"announces {ndim:,} dimensions at byte {start}; at most {MAX_NDIM} are accepted"
        raise FormatError(code, message)
    shape = tuple(_u32(file, f"dimension {axis}") for axis in range(ndim))
    if prod(filter(None, shape)) > _MOST_ELEMENTS:
        # NumPy refuses such a shape even where another dimension is 0.
        code, message = "bad-header", f"shape {list(shape)} overflows 63 bits"
        raise FormatError(code, message)
    wanted, left = prod(shape) * F32.itemsize, size - file.tell()
    if wanted > left:
        code = "truncated"
        message = (
            f"shape {list(shape)} needs {wanted:,} bytes of data at byte {file.tell()}, "
            f"the file has {left:,} left"
        )
        raise FormatError(code, message)
    return shape


def _u32(file: BinaryIO, what: str) -> int:
    start, raw = file.tell(), file.read(_WORD)
    if len(raw) < _WORD:
        code = "truncated"
        message = f"ends at byte {start + len(raw)}, where {what} should stand"
        raise FormatError(code, message)
    return int.from_bytes(raw, "little")


def tensor_bytes(array: NDArray[np.float32]) -> bytes:
    """``array`` as a single-tensor file; any strides, written in row-major order."""
    header = struct.pack(f"<{1 + array.ndim}I", array.ndim, *array.shape)
    return header + np.ascontiguousarray(array, F32).tobytes()


def batch_bytes(arrays: Iterable[NDArray[np.float32]]) -> bytes:
    """``arrays`` as a batch file."""
    tensors = [tensor_bytes(array) for array in arrays]
    return struct.pack("<I", len(tensors)) + b"".join(tensors)
