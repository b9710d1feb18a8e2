"""A tensor where it lies: in which file, at which byte, of which type and shape.

Reading is by chunks into a buffer of the caller's, so that a tensor of any size
is compared without being held.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import FileIO
from math import prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from parity.tensors import FormatError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from parity.tensors.dtypes import DType


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file, row-major.

    Attributes:
        offset: Byte at which the data begins.
        carrier: Suffix of the file, such as ``.bin``; decides what it says of its dtype.
    """

    path: Path
    offset: int
    dtype: DType
    shape: tuple[int, ...]
    suffix: str

    @property
    def count(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the data."""
        return self.count * self.dtype.width // 8

    def read_array(self) -> NDArray[Any]:
        """The whole tensor in its storage type; only for what is small or must be held."""
        with self.open() as reader:
            flat = np.empty(self.count, self.dtype.storage)
            reader.read(0, flat)
        return flat.reshape(self.shape)

    def open(self) -> TensorReader:
        """The file, to read elements from; closed by ``with``.

        Raises:
            FormatError: The file cannot be opened.
        """
        return TensorReader(self)


class TensorReader:
    """A tensor's open file."""

    def __init__(self, tensor: StoredTensor) -> None:
        try:
            self._file = FileIO(tensor.path)
        except OSError as error:
            message = f"cannot be read: {error.strerror}"
            raise FormatError("unreadable", message) from error
        self._offset, self._dtype = tensor.offset, tensor.dtype

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, start: int, into: NDArray[Any]) -> None:
        """Fill a one-dimensional array with the elements from a flat index on.

        Raises:
            FormatError: The file has become shorter.
        """
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
                message = "became shorter while it was read"
                raise FormatError("truncated", message)
            view = view[count:]


def unpack_codes(
    content: NDArray[np.uint8], width: int, skip: int, count: int
) -> NDArray[np.uint8]:
    """The codes of ``count`` elements of ``width`` bits, after ``skip`` bits, a byte each.

    The first element lies in the lowest bits. safetensors' description is silent on that; it
    matters only where a dump holds the values in another dtype.
    """
    chosen = np.unpackbits(content, bitorder="little")[skip : skip + count * width]
    return np.packbits(chosen.reshape(count, width), axis=1, bitorder="little").reshape(count)
