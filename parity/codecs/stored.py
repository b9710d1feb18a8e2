"""A tensor where it lies: in which file, at which byte, of which type and shape.

Reading is by chunks into a buffer of the caller's, so that a tensor of any size
is compared without being held.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.codecs import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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
        with self.open() as read:
            flat = np.empty(self.count, self.dtype.storage)
            read(0, flat)
        return flat.reshape(self.shape)

    @contextmanager
    def open(self) -> Iterator[Callable[[int, NDArray[Any]], None]]:
        """A function that fills an array with the elements from a flat index on.

        Raises:
            FormatError: The file cannot be opened, or has become shorter.
        """
        try:
            file = self.path.open("rb", buffering=0)
        except OSError as error:
            message = f"cannot be read: {error.strerror}"
            raise FormatError("unreadable", message) from error

        def read(start: int, into: NDArray[Any]) -> None:
            file.seek(self.offset + start * self.dtype.storage.itemsize)
            view, done = memoryview(into.view(np.uint8).data), 0
            while done < len(view):
                count = file.readinto(view[done:])
                if not count:
                    message = "became shorter while it was read"
                    raise FormatError("truncated", message)
                done += count

        with file:
            yield read
