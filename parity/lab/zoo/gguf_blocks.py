"""Blocks of every quantised type that gguf-py reads, for which no wrong decoder finds the values.

Besides the types of ``random_blocks``: random codes, block scales ``k / 1024`` in [0.1, 0.5), every
other one negative where the type has a sign, and random sub-scales. The values are those that
gguf-py decodes. Source of the layouts: ``ggml-common.h`` of llama.cpp.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from parity.checkpoints import gguf_header
from parity.lab.libraries import import_library
from parity.lab.pins import random_blocks
from parity.lab.zoo.case import make_random
from parity.lab.zoo.gguf_builder import TensorInfo

#: Types whose block begins with its f16 scale, and whose other bytes may have any value.
_SCALE_FIRST = (*("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ4_NL", "IQ4_XS"),)
#: Every type of blocks, in the order of their codes.
QUANTS = tuple(name for name, row in gguf_header.BY_NAME.items() if row.elements > 1)


def find_block_size(kind: str) -> tuple[int, int]:
    """Find elements and bytes of a block of ``kind``."""
    return gguf_header.BY_NAME[kind][2:4]


def find_type_code(kind: str) -> int:
    """Find the number of a type."""
    return gguf_header.BY_NAME[kind].code


def make_quantised(kind: str, rows: int, blocks_in_row: int = 1) -> TensorInfo:
    """Make the tensor ``w`` of ``rows`` rows."""
    dims = (blocks_in_row * find_block_size(kind)[0], rows)
    data = build_blocks(kind, rows * blocks_in_row, f"w {kind}")
    return TensorInfo(name="w", dims=dims, kind=find_type_code(kind), data=data)


def build_blocks(kind: str, count: int, name: str) -> bytes:
    """Build ``count`` blocks of ``kind``, drawn for ``name``."""
    if kind in random_blocks.BLOCK_LAYOUTS:
        return random_blocks.make_blocks(kind, count, make_random(name)).tobytes()
    if kind in ("TQ1_0", "TQ2_0"):
        return _build_ternary(kind, count, name)
    blocks = make_random(name).draw_bytes(count, find_block_size(kind)[1]).copy()
    if kind in _SCALE_FIRST:
        blocks[:, :2] = _draw_scales(count, name)
    else:
        _SCALE_SETTERS[kind](blocks, name)
    return blocks.tobytes()


def _draw_scales(count: int, name: str) -> NDArray[np.uint8]:
    scales = _draw_magnitudes(count, name) * random_blocks.make_signs(count)
    return scales.astype("<f2").view(np.uint8)


def _draw_magnitudes(count: int, name: str) -> NDArray[np.float64]:
    return make_random(f"{name} scales").draw_integers(103, 511, count, 1) / 1024


def _build_ternary(kind: str, count: int, name: str) -> bytes:
    """Build blocks of -d, 0 and d with gguf-py; random codes could contain a fourth digit."""
    gguf = import_library("gguf")
    digits = make_random(name).draw_integers(-1, 1, count, 256)
    values = (digits * _draw_magnitudes(count, name)).astype(np.float32)
    raw = gguf.quants.quantize(values, gguf.GGMLQuantizationType[kind]).reshape(count, -1)
    raw[1::2, -1] ^= 0x80  # the sign of the f16 scale, the last field
    packed: bytes = raw.tobytes()
    return packed


def _set_iq1_m_scales(blocks: NDArray[np.uint8], name: str) -> None:
    """Set the f16 block scale, which is in the top four bits of four words at byte 48."""
    words = blocks[:, 48:].copy().view("<u2") & 0x0FFF
    scale = _draw_scales(len(blocks), name).view("<u2").astype(np.uint16)
    nibbles = [(scale[:, 0] >> 4 * place & 15) << 12 for place in range(4)]
    blocks[:, 48:] = (words | np.stack(nibbles, axis=1)).astype("<u2").view(np.uint8)


def _set_mxfp4_scales(blocks: NDArray[np.uint8], name: str) -> None:
    """Set an exponent for each block."""
    blocks[:, 0] = make_random(f"{name} exponents").draw_integers(122, 132, len(blocks))


def _set_nvfp4_scales(blocks: NDArray[np.uint8], name: str) -> None:
    """Set four scales without a sign, 4 exponent bits, none of them small or NaN."""
    blocks[:, :4] = make_random(f"{name} scales").draw_integers(0x29, 0x57, len(blocks), 4)


_SCALE_SETTERS = {
    "IQ1_M": _set_iq1_m_scales,
    "MXFP4": _set_mxfp4_scales,
    "NVFP4": _set_nvfp4_scales,
}
