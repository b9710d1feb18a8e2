"""Locate the tensor of a `.npy` file: NumPy's own header parser, bounded, no pickles."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.tensors import FormatError
from parity.tensors.dtypes import NUMPY_DTYPES
from parity.tensors.stored import StoredTensor, map_file

MAX_HEADER = 10_000
MAX_NDIM = 32
_LIMIT = 2**63


def locate_tensor(path: Path, *, reads_columns: bool = False) -> StoredTensor:
    """Return the tensor of a file; only the header is read.

    One in column-major order is rejected, unless ``reads_columns``.

    Raises:
        FormatError: Not a `.npy` file, of a dtype that is not compared (objects are never
            unpickled), big-endian, or of another length than its header says.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            shape, fortran, code = _read_header(file)
            offset = file.tell()
    except OSError as error:
        raise FormatError("unreadable", f"cannot be read: {error.strerror}") from error
    dtype = NUMPY_DTYPES.get(code.str[1:])
    if dtype is None or code.str.startswith(">"):
        known = ", ".join(NUMPY_DTYPES)
        message = f"has the dtype {code.str!r:.80}; known are little-endian {known}"
        raise FormatError("dtype-unsupported", message)
    is_other = fortran and 0 not in shape and sum(length != 1 for length in shape) > 1
    if is_other and not reads_columns:
        message = "is in column-major (Fortran) order; write it in row-major order"
        raise FormatError("bad-header", message)
    storage, left = dtype.storage, size - offset
    needed = prod(shape) * storage.itemsize
    if needed != left:
        code_word = "truncated" if needed > left else "trailing-bytes"
        message = f"{dtype.name} {list(shape)} needs {needed:,} bytes of data, has {left:,}"
        raise FormatError(code_word, message)

    def read_columns(start: int, stop: int) -> NDArray[Any]:
        content = map_file(path)[offset:].view(storage)
        return content.reshape(shape, order="F").flat[start:stop]

    fetch = read_columns if is_other else None
    return StoredTensor(path, offset, dtype, shape, path.suffix, fetch=fetch)


def _read_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    version = _call_parser(np.lib.format.read_magic, file)
    if version not in readers:
        message = f"has the format version {version[0]}.{version[1]}; 1.0 and 2.0 are read"
        raise FormatError("bad-header", message)
    shape, fortran, dtype = _call_parser(readers[version], file, max_header_size=MAX_HEADER)
    whole = all(type(length) is int and length >= 0 for length in shape)
    # A product that NumPy refuses even where another dimension is 0.
    if not whole or len(shape) > MAX_NDIM or prod(filter(None, shape)) * 8 >= _LIMIT:
        # Python prints no integer of more than 4,300 digits.
        bits = max((length.bit_length() for length in shape if isinstance(length, int)), default=0)
        text = f"{list(shape)!r:.200}" if bits < 256 else f"of a length of {bits:,} bits"  # noqa: PLR2004 - still readable
        raise FormatError("bad-header", f"has the impossible shape {text}")
    return shape, fortran, dtype


def _call_parser(parser: Callable[..., Any], file: Any, **options: int) -> Any:
    """Call one of NumPy's parsers; they let errors of Python's own tokenizer through."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the Python literal in a foreign header
            return parser(file, **options)
    except OSError:
        raise
    except Exception as error:
        reason = re.sub(r" object at 0x\w+", "", " ".join(str(error).split()))  # other in each run
        message = f"is not a .npy file: {reason:.300}"
        raise FormatError("bad-header", message) from error
