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

from parity.codecs import FormatError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from parity.codecs.dtypes import DType


@dataclass(frozen=True)
class Stored:
    """A tensor in a file, row-major.

    Attributes:
        offset: Byte at which the data begins.
        carrier: Suffix of the file, such as ``.bin``; decides what it says of its dtype.
    """

    path: Path
    offset: int
    dtype: DType
    shape: tuple[int, ...]
    carrier: str

    @property
    def count(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the data."""
        return self.count * self.dtype.storage.itemsize

    def array(self) -> NDArray[Any]:
        """The whole tensor in its storage type; only for what is small or must be held."""
        with self.open() as reader:
            flat = np.empty(self.count, self.dtype.storage)
            reader.read(0, flat)
        return flat.reshape(self.shape)

    def open(self) -> Reader:
        """The file, to read elements from; closed by ``with``.

        Raises:
            FormatError: The file cannot be opened.
        """
        return Reader(self)


class Reader:
    """A tensor's open file."""

    def __init__(self, tensor: Stored) -> None:
        try:
            self._file = FileIO(tensor.path)
        except OSError as error:
            message = f"cannot be read: {error.strerror}"
            raise FormatError("unreadable", message) from error
        self._offset, self._size = tensor.offset, tensor.dtype.storage.itemsize

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, start: int, into: NDArray[Any]) -> None:
        """Fill a one-dimensional array with the elements from a flat index on.

        Raises:
            FormatError: The file has become shorter.
        """
        self._file.seek(self._offset + start * self._size)
        view = memoryview(into.view(np.uint8).data)
        while view:
            count = self._file.readinto(view)
            if not count:
                message = "became shorter while it was read"
                raise FormatError("truncated", message)
            view = view[count:]
