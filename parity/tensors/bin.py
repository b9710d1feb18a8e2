"""The `.bin` formats of the upstream dump contract, little-endian throughout.

A single tensor is ``[u32 ndim][u32 shape…][f32 data]`` in row-major order; a
scalar has ndim 0 and one value. A batch file is ``[u32 num_tensors]`` followed
by that many single tensors. Source: the dataset cards of ferrotorch's
dataloader-batches-v1 and serialize-parity-v1.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import FileIO
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parity.tensors import FormatError
from parity.tensors.dtypes import F32
from parity.tensors.stored import StoredTensor
from parity.text import format_count

MAX_NDIM = 32  # More dimensions than any tensor of the field has; NumPy itself stops at 64
#: More tensors than any batch of the field has.
MAX_TENSORS = 1024
SUFFIX = ".bin"
F32_STORAGE = np.dtype("<f4")
_WORD = 4
#: Bytes read at a time, more than the longest header: one call for header and data.
_HEADER_BYTES = 256
#: Shapes that a message names.
_MAX_LISTED = 4
_MAX_ELEMENTS = (2**63 - 1) // F32_STORAGE.itemsize


def read_tensor(path: Path) -> NDArray[np.float32]:
    """Read the tensor of a single-tensor file, in the header's shape.

    Raises:
        FormatError: The file is not exactly one tensor.
    """
    return locate_tensor(path).read_array()


def locate_tensor(path: Path | str) -> StoredTensor:
    """Locate the tensor of a single-tensor file; only the header is read.

    Raises:
        FormatError: The file is not exactly one tensor.
    """
    try:  # not `_open_file`, which costs as much as reading a small tensor
        with FileIO(path) as file:
            raw = file.read(_HEADER_BYTES)
            size = len(raw) if len(raw) < _HEADER_BYTES else _find_size(file)
    except OSError as error:
        raise _make_unreadable_error(error) from error
    tensor, end = _locate_tensor(path, raw, 0, size)
    _check_end(end, size)
    return tensor


def read_batch(path: Path, max_bytes: int | None = None) -> list[NDArray[np.float32]]:
    """Read the tensors of a batch file, in file order; one above ``max_bytes`` is not read.

    Raises:
        FormatError: The file is not exactly the tensors that it announces.
    """
    with _open_file(path) as file:
        size = _find_size(file)
        if max_bytes is not None and size > max_bytes:
            message = f"has {size:,} bytes; at most {max_bytes:,} are read"
            raise FormatError("too-large", message)
        return [_load_tensor(file, one) for one in _locate_counted(path, file, size)]


def locate_batch(path: Path, *, counted: bool = True) -> list[StoredTensor]:
    """Locate the tensors of a batch file, in file order; only headers are read.

    A file that is not ``counted`` begins without their number: tensors follow up to its end, as in
    upstream's `mlp_weights.bin`.

    Raises:
        FormatError: The file is not exactly such tensors, or more than are accepted.
    """
    with _open_file(path) as file:
        size = _find_size(file)
        if counted:
            return _locate_counted(path, file, size)
        found: list[StoredTensor] = []
        at = 0
        while at < size and len(found) < MAX_TENSORS:
            tensor, at = _locate_tensor(path, _read_header(file, at), at, size)
            found.append(tensor)
        _check_end(at, size)
        return found


@contextmanager
def _open_file(path: Path | str) -> Iterator[FileIO]:
    try:
        with FileIO(path) as file:
            yield file
    except OSError as error:
        raise _make_unreadable_error(error) from error


def _make_unreadable_error(error: OSError) -> FormatError:
    return FormatError("unreadable", f"cannot be read: {error.strerror}")


def _find_size(file: FileIO) -> int:
    return os.fstat(file.fileno()).st_size


def _check_end(end: int, size: int) -> None:
    if left := size - end:
        follow = "1 byte follows" if left == 1 else f"{left:,} bytes follow"
        message = f"{follow} the data that the header announces (file: {size:,} bytes)"
        raise FormatError("trailing-bytes", message)


def _locate_counted(path: Path, file: FileIO, size: int) -> list[StoredTensor]:
    """Locate the tensors that follow their number; an error says what the file is without it."""
    try:
        return _locate_announced(path, file, size)
    except FormatError as error:
        shapes = _scan_shapes(file, 0, size)
        if len(shapes) < 2:  # noqa: PLR2004 - many a truncated file is one tensor
            raise
        what = f"{len(shapes):,} tensors of the shapes {_format_shapes(shapes)}"
        hint = f"read without the leading count, the file is {what}"
        raise FormatError(error.code, f"{error.message}; {hint}") from None


def _locate_announced(path: Path, file: FileIO, size: int) -> list[StoredTensor]:
    count = _parse_u32(file.read(_WORD), 0, "the number of tensors")
    if count > MAX_TENSORS:
        message = f"announces {count:,} tensors at byte 0; at most {MAX_TENSORS:,} are accepted"
        raise FormatError("bad-header", message)
    found: list[StoredTensor] = []
    at = _WORD
    while len(found) < count:
        if found and at == size:
            message = f"ends at byte {at}, after {len(found):,} of {count:,} tensors"
            raise FormatError("truncated", message)
        tensor, at = _locate_tensor(path, _read_header(file, at), at, size)
        found.append(tensor)
    if shapes := _scan_shapes(file, at, size):
        total = count + len(shapes)
        announced = f"announces {count:,} of its {total:,} tensors at byte 0"
        raise FormatError("trailing-bytes", f"{announced}; not announced: {_format_shapes(shapes)}")
    _check_end(at, size)
    return found


def describe_tensors(path: Path) -> str:
    """Return a clause with the tensors of a file that is not a single one, or with a likely reason.

    Raises:
        FormatError: The file cannot be read.
    """
    with _open_file(path) as file:
        size, count = _find_size(file), int.from_bytes(file.read(_WORD), "little")
        shapes = _scan_shapes(file, _WORD, size)
        what = ", after their number" if shapes and len(shapes) == count else ""
        shapes = shapes if what else _scan_shapes(file, 0, size)
    if len(shapes) > 1 or what:
        count_text = format_count(len(shapes), "tensors")
        shape_text = f"{count_text} of the shapes {_format_shapes(shapes)}{what}"
        return f"; the file is {shape_text}; write a file for each tensor"
    if count > MAX_NDIM and size % _WORD == 0:
        values = format_count(size // _WORD, "values")
        return f"; {values} of f32 without a header look so; write their shape first"
    return ""


def _scan_shapes(file: FileIO, at: int, size: int) -> list[tuple[int, ...]]:
    """Return the shapes of tensors that fill a file to its end exactly, or none.

    Scalars and empty tensors do not count: zeros could be any number of them.
    """
    found: list[tuple[int, ...]] = []
    while at < size and len(found) < MAX_TENSORS:
        try:
            shape, start = _parse_shape(_read_header(file, at), at, size)
        except FormatError:
            return []
        at = start + prod(shape) * F32_STORAGE.itemsize
        found.append(shape)
    return found if at == size and all(shape and prod(shape) for shape in found) else []


def _format_shapes(shapes: list[tuple[int, ...]]) -> str:
    """Format shapes as ``[4, 8], [4]``."""
    some = ", ".join(str(list(shape)) for shape in shapes[:_MAX_LISTED])
    return some + (", …" if len(shapes) > _MAX_LISTED else "")


def _locate_tensor(path: Path | str, raw: bytes, at: int, size: int) -> tuple[StoredTensor, int]:
    """Return the tensor whose header ``raw`` begins at byte ``at``, and the byte at its end."""
    shape, start = _parse_shape(raw, at, size)
    end = start + prod(shape) * F32_STORAGE.itemsize
    data = raw[start - at : end - at] if end <= at + len(raw) else None
    return StoredTensor(path, start, F32, shape, SUFFIX, data), end


def _load_tensor(file: FileIO, tensor: StoredTensor) -> NDArray[np.float32]:
    file.seek(tensor.offset)
    found = np.fromfile(file, F32_STORAGE, tensor.count)
    if found.size < tensor.count:
        # The file has shrunk since its size was read.
        message = (
            f"shape {list(tensor.shape)} needs {tensor.count:,} values at byte {tensor.offset}, "
            f"only {found.size:,} were there when they were read"
        )
        raise FormatError("truncated", message)
    return found.reshape(tensor.shape)


def _read_header(file: FileIO, at: int) -> bytes:
    """Read a header at byte ``at``, and of a small tensor the data as well."""
    file.seek(at)
    return file.read(_HEADER_BYTES)


def _parse_shape(raw: bytes, at: int, size: int) -> tuple[tuple[int, ...], int]:
    """Parse the shape at byte ``at``, check it against the bytes left; return it and its end."""
    ndim = _parse_u32(raw, at, "the number of dimensions")
    if ndim > MAX_NDIM:
        message = f"announces {ndim:,} dimensions at byte {at}; at most {MAX_NDIM} are accepted"
        raise FormatError("bad-header", message)
    start = at + _WORD + _WORD * ndim
    if at + len(raw) < start:
        raise _make_truncated_error(at, raw, f"dimension {len(raw) // _WORD - 1}")
    shape = struct.unpack_from(f"<{ndim}I", raw, _WORD)
    count = prod(shape)
    if (count or prod(filter(None, shape))) > _MAX_ELEMENTS:
        # NumPy refuses such a shape even where another dimension is 0.
        code, message = "bad-header", f"shape {list(shape)} overflows 63 bits"
        raise FormatError(code, message)
    needed, left = count * F32_STORAGE.itemsize, size - start
    if needed > left:
        message = (
            f"shape {list(shape)} needs {needed:,} bytes of data at byte {start}, "
            f"the file has {left:,} left"
        )
        raise FormatError("truncated", message)
    return shape, start


def _parse_u32(raw: bytes, at: int, what: str) -> int:
    if len(raw) < _WORD:
        raise _make_truncated_error(at, raw, what)
    return int.from_bytes(raw[:_WORD], "little")


def _make_truncated_error(start: int, raw: bytes, what: str) -> FormatError:
    end = start + len(raw)
    return FormatError("truncated", f"ends at byte {end}, where {what} is expected")


def encode_tensor(array: NDArray[np.float32]) -> bytes:
    """Encode ``array``, of any strides, as a single-tensor file in row-major order."""
    header = struct.pack(f"<{1 + array.ndim}I", array.ndim, *array.shape)
    return header + np.ascontiguousarray(array, F32_STORAGE).tobytes()


def encode_batch(arrays: Iterable[NDArray[np.float32]]) -> bytes:
    """Encode ``arrays`` as a batch file."""
    tensors = [encode_tensor(array) for array in arrays]
    return struct.pack("<I", len(tensors)) + b"".join(tensors)
