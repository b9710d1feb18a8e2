"""Locate the tensor of a `.npy` file: NumPy's own header parser, bounded, no pickles."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.tensors import FormatError
from parity.tensors.dtypes import NUMPY_DTYPES, DType
from parity.tensors.private_map import map_file
from parity.tensors.stored import StoredTensor

MAX_HEADER = 10_000
MAX_NDIM = 32
_LIMIT = 2**63
_PRINTABLE_BITS = 256


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
    dtype = _find_dtype(code)
    is_other = fortran and 0 not in shape and sum(length != 1 for length in shape) > 1
    if is_other and not reads_columns:
        message = "is in column-major (Fortran) order; write it in row-major order"
        raise FormatError("bad-header", message)
    needed, left = prod(shape) * dtype.storage.itemsize, size - offset
    if needed != left:
        code_word = "truncated" if needed > left else "trailing-bytes"
        message = f"{dtype.name} {list(shape)} needs {needed:,} bytes of data, has {left:,}"
        raise FormatError(code_word, message)
    found = StoredTensor(path, offset, dtype, shape, path.suffix)
    return replace(found, fetch=partial(_read_columns, found)) if is_other else found


def _read_columns(stored: StoredTensor, start: int, stop: int) -> NDArray[Any]:
    content = map_file(stored.path)[stored.offset :].view(stored.dtype.storage)
    return content.reshape(stored.shape, order="F").flat[start:stop]


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
    _check_shape(shape)
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
        message = f"is not a .npy file: {' '.join(str(error).split()):.300}"
        raise FormatError("bad-header", message) from error


def _check_shape(shape: tuple[int, ...]) -> None:
    whole = all(type(length) is int and length >= 0 for length in shape)
    # A product that NumPy refuses even where another dimension is 0.
    if not whole or len(shape) > MAX_NDIM or prod(filter(None, shape)) * 8 >= _LIMIT:
        # Python prints no integer of more than 4,300 digits.
        bits = max((length.bit_length() for length in shape if isinstance(length, int)), default=0)
        text = (
            f"{list(shape)!r:.200}" if bits < _PRINTABLE_BITS else f"of a length of {bits:,} bits"
        )
        raise FormatError("bad-header", f"has the impossible shape {text}")


def _find_dtype(dtype: np.dtype[Any]) -> DType:
    found = NUMPY_DTYPES.get(dtype.str[1:])
    if found is None or dtype.str.startswith(">"):
        known = ", ".join(NUMPY_DTYPES)
        message = f"has the dtype {dtype.str!r:.80}; known are little-endian {known}"
        raise FormatError("dtype-unsupported", message)
    return found
