"""Locate and read a tensor in a file: its byte offset, type and shape.

Reading is by chunks into the caller's buffer, so that memory does not depend on the
tensor's size. A map of a file that another process cuts short raises SIGBUS where its lost pages
are read, so small files are read, and large ones are mapped from a private copy without a name.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from io import FileIO
from math import prod
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from parity.tensors import FormatError
from parity.tensors.dtypes import F32, DType

_MAX_READ = 16 * 2**20  # Files of at most this many bytes are read instead of copied
#: Files kept for further calls, as one file often has several failing tensors.
_MAX_KEPT = 4
_KEPT: OrderedDict[tuple[object, ...], mmap.mmap | bytes] = OrderedDict()


def map_file(path: Path) -> NDArray[np.uint8]:
    """Return a file's bytes as they are now; large files take disk space instead of memory.

    Raises:
        OSError: The file cannot be read, or its copy not be written.
    """
    return np.frombuffer(load_content(path), np.uint8)


def load_content(path: Path) -> mmap.mmap | bytes:
    """Return the buffer of ``map_file``, whose pages can be released."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        key = (str(path), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if key in _KEPT:
            _KEPT.move_to_end(key)
            return _KEPT[key]
        if status.st_size <= _MAX_READ:
            content: mmap.mmap | bytes = file.read(_MAX_READ)
        else:
            with tempfile.TemporaryFile(prefix="parity-") as copy:
                shutil.copyfileobj(file, copy, _MAX_READ)
                copy.flush()
                content = mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ)
    _KEPT[key] = content
    while len(_KEPT) > _MAX_KEPT:
        _KEPT.popitem(last=False)
    return content


_MAX_RUN = 2**16  # Elements that are read to take some of them


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file, row-major."""

    file: Path | str  # Making a path takes longer than reading a small tensor
    offset: int  # Byte at which the data begins
    dtype: DType
    shape: tuple[int, ...]
    suffix: str  # Of the file, such as ``.bin``, which has no dtypes
    #: All data of a small tensor, where they were read with the header
    data: bytes | None = field(default=None, repr=False, compare=False)
    #: Makes the elements of a range of flat indices, where they are not in the file as they are
    fetch: Callable[[int, int], Any] | None = field(default=None, repr=False, compare=False)
    #: The tensor of which this one is a sample
    whole: StoredTensor | None = field(default=None, repr=False, compare=False)

    @property
    def path(self) -> Path:
        """Path of the file."""
        return Path(self.file)

    @property
    def count(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the data."""
        return self.count * self.dtype.width // 8

    def read_array(self) -> NDArray[Any]:
        """Read the whole tensor in its storage type; only where it is small."""
        with self.open() as reader:
            flat = np.empty(self.count, self.dtype.storage)
            reader.read(0, flat)
        return flat.reshape(self.shape)

    def take(self, indices: NDArray[np.int64]) -> StoredTensor:
        """Return the elements at ascending flat indices, which are read when they are used."""
        fetch = partial(_fetch_elements, self, indices)
        return replace(self, shape=indices.shape, data=None, fetch=fetch, whole=self)

    def open(self) -> TensorReader:
        """Open the file to read elements; closed by ``with``.

        Raises:
            FormatError: The file cannot be opened.
        """
        return TensorReader(self)


Tensors = Mapping[str, StoredTensor]


class TensorReader:
    """A tensor's open file."""

    def __init__(self, tensor: StoredTensor) -> None:
        try:
            self._file = FileIO(tensor.file)
        except OSError as error:
            raise FormatError("unreadable", f"cannot be read: {error.strerror}") from error
        self._offset, self._dtype, self._fetch = tensor.offset, tensor.dtype, tensor.fetch

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, start: int, into: NDArray[Any]) -> None:
        """Fill a one-dimensional array with the elements from a flat index on.

        Raises:
            FormatError: The file has become shorter.
        """
        if self._fetch is not None:
            try:
                into[:] = self._fetch(start, start + len(into))
            except (OSError, ValueError) as error:
                raise FormatError("unreadable", f"cannot be read any more: {error}") from error
            return
        width = self._dtype.width
        first, last = start * width, (start + len(into)) * width
        if not self._dtype.packed:
            self._read_bytes(first // 8, into.view(np.uint8))
            return
        packed = np.empty(-(-last // 8) - first // 8, np.uint8)
        self._read_bytes(first // 8, packed)
        into[:] = unpack_codes(packed, width, first % 8, len(into))

    def _read_bytes(self, first: int, into: NDArray[np.uint8]) -> None:
        self._file.seek(self._offset + first)
        view = memoryview(into.data)
        while view:
            count = self._file.readinto(view)
            if not count:
                raise FormatError("truncated", "became shorter while it was read")
            view = view[count:]


def _fetch_elements(
    tensor: StoredTensor, indices: NDArray[np.int64], start: int, stop: int
) -> NDArray[Any]:
    """Return the elements at ``indices[start:stop]``; neighbours are read together."""
    chosen = indices[start:stop]
    found, at = np.empty(len(chosen), tensor.dtype.storage), 0
    with tensor.open() as reader:
        while at < len(chosen):
            first = int(chosen[at])
            end = int(np.searchsorted(chosen, first + _MAX_RUN))
            run = np.empty(int(chosen[end - 1]) - first + 1, tensor.dtype.storage)
            reader.read(first, run)
            found[at:end], at = run[chosen[at:end] - first], end
    return found


def make_constant(like: StoredTensor, value: complex) -> StoredTensor:
    """Return a tensor of one value, to try what a comparison lets pass.

    It has the shape and, where NumPy has it, the dtype of another tensor.
    """
    dtype = like.dtype if like.dtype.is_native else F32
    return replace(like, dtype=dtype, data=None, fetch=lambda _start, _stop: value)


def unpack_codes(
    content: NDArray[np.uint8], width: int, skip: int, count: int
) -> NDArray[np.uint8]:
    """Return the codes of ``count`` elements of ``width`` bits, after ``skip`` bits, a byte each.

    The first element is in the lowest bits. safetensors' description does not say so; it
    matters only where a dump has the values in another dtype.
    """
    chosen = np.unpackbits(content, bitorder="little")[skip : skip + count * width]
    return np.packbits(chosen.reshape(count, width), axis=1, bitorder="little").reshape(count)
