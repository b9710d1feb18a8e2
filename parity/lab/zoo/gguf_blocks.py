"""Blocks of every quantised type that gguf-py reads, made so that no wrong decoder hits the values.

Beside the types of ``kquants``: random codes, block scales ``k / 1024`` in [0.1, 0.5), every
other one negative where the type has a sign, and sub-scales as they come. What a block means
is gguf-py's word. Source of the layouts: ``ggml-common.h`` of llama.cpp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.lab.pins import random_blocks
from parity.lab.pins.libraries import import_library
from parity.lab.zoo.case import make_random

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Byte offset of the f16 block scale, of the types whose other bytes may be anything.
_SCALE_AT = dict.fromkeys(
    ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ4_NL", "IQ4_XS"], 0
)
#: Every type of blocks, in the order of their codes.
QUANTS = (
    *("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
    *("IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "IQ1_M"),
    *("TQ1_0", "TQ2_0", "MXFP4", "NVFP4"),
)


def find_block_size(kind: str) -> tuple[int, int]:
    """Elements and bytes of a block of ``kind``, by gguf-py."""
    gguf = import_library("gguf")
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    return int(elements), int(size)


def find_type_code(kind: str) -> int:
    """The number of a type, by gguf-py."""
    return int(import_library("gguf").GGMLQuantizationType[kind])


def build_blocks(kind: str, count: int, name: str) -> bytes:
    """``count`` blocks of ``kind``, drawn for ``name``."""
    if kind in random_blocks.BLOCK_LAYOUTS:
        return random_blocks.make_blocks(kind, count, make_random(name)).tobytes()
    if kind in ("TQ1_0", "TQ2_0"):
        return _build_ternary(kind, count, name)
    found = make_random(name).draw_bytes(count, find_block_size(kind)[1]).copy()
    if kind in _SCALE_AT:
        at = _SCALE_AT[kind]
        found[:, at : at + 2] = _draw_scales(count, name)
    else:
        _SCALE_SETTERS[kind](found, name)
    return found.tobytes()


def _draw_scales(count: int, name: str) -> NDArray[np.uint8]:
    scales = (
        make_random(f"{name} scales").draw_integers(103, 511, count, 1)
        / 1024
        * random_blocks.make_signs(count)
    )
    return scales.astype("<f2").view(np.uint8)


def _build_ternary(kind: str, count: int, name: str) -> bytes:
    """-d, 0 and d, packed by gguf-py, whose code for three is not left to chance."""
    gguf = import_library("gguf")
    digits = make_random(name).draw_integers(-1, 1, count, 256)
    scales = make_random(f"{name} scales").draw_integers(103, 511, count, 1) / 1024
    values = (digits * scales).astype(np.float32)
    raw = gguf.quants.quantize(values, gguf.GGMLQuantizationType[kind]).reshape(count, -1)
    raw[1::2, -1] ^= 0x80  # the f16 scale stands last
    packed: bytes = raw.tobytes()
    return packed


def _set_iq1_m_scales(found: NDArray[np.uint8], name: str) -> None:
    """The f16 block scale lies in the top four bits of four words at byte 48."""
    words = found[:, 48:].copy().view("<u2") & 0x0FFF
    scale = _draw_scales(len(found), name).view("<u2").astype(np.uint16)
    nibbles = [(scale[:, 0] >> 4 * place & 15) << 12 for place in range(4)]
    found[:, 48:] = (words | np.stack(nibbles, axis=1)).astype("<u2").view(np.uint8)


def _set_mxfp4_scales(found: NDArray[np.uint8], name: str) -> None:
    """An exponent of its own for each block."""
    found[:, 0] = make_random(f"{name} exponents").draw_integers(122, 132, len(found))


def _set_nvfp4_scales(found: NDArray[np.uint8], name: str) -> None:
    """Four scales without a sign, 4 exponent bits, none of them small or NaN."""
    found[:, :4] = make_random(f"{name} scales").draw_integers(0x29, 0x57, len(found), 4)


_SCALE_SETTERS = {
    "IQ1_M": _set_iq1_m_scales,
    "MXFP4": _set_mxfp4_scales,
    "NVFP4": _set_nvfp4_scales,
}
