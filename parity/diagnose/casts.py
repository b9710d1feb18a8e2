"""Round numbers to narrower floats and back, and read words of f16 and bf16 as each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.tensors.dtypes import DTYPES

_BF16 = DTYPES["BF16"]
#: NumPy's names of floats by the short ones, which codes of causes end with.
NAMES = {"f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16"}


def encode_bf16(values: NDArray[Any]) -> NDArray[Any]:
    """Round floats to the nearest bfloat16, ties to even; return its codes as uint16."""
    with np.errstate(all="ignore"):
        code = np.ascontiguousarray(values, "<f4").view("<u4")
        half = np.uint32(0x7FFF) + ((code >> np.uint32(16)) & np.uint32(1))
        nan = (code >> np.uint32(16)) | np.uint32(0x40)
        rounded = np.where(np.isnan(values), nan, (code + half) >> np.uint32(16)).astype("<u2")
    return rounded.reshape(values.shape)


def round_through(chunk: NDArray[Any], name: str) -> NDArray[Any]:
    """Return numbers rounded to a float of ``NAMES`` and back to their own type."""
    with np.errstate(all="ignore"):
        if name != "bf16":
            return chunk.astype(NAMES[name]).astype(chunk.dtype)
        wide = _BF16.widen(encode_bf16(chunk.astype("<f4"))).astype(chunk.dtype)
        return np.where(np.isnan(chunk), chunk, wide)


def cut_to_bf16(chunk: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as float32 without the lower 16 bits, in their own type."""
    with np.errstate(all="ignore"):
        code = chunk.astype("<f4").view("<u4") & np.uint32(0xFFFF0000)
        return code.view("<f4").astype(chunk.dtype)


def read_words(values: NDArray[Any], stored: str, code: str = "") -> NDArray[Any]:
    """Return floats written as ``f16`` or ``bf16`` and read as the other one.

    With ``code``, NumPy's of an integer of two bytes, they are read as that.
    """
    with np.errstate(all="ignore"):
        words = values.astype("<f2").view("<u2") if stored == "f16" else encode_bf16(values)
        if code:
            return words.view(code).astype(values.dtype)
        read = _BF16.widen(words) if stored == "f16" else words.view("<f2")
        return read.astype(values.dtype)
