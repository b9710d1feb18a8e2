"""The tensor types of GGUF, in one table.

Source: ``ggml.h`` and ``ggml-common.h`` of llama.cpp.
"""

from __future__ import annotations

from typing import NamedTuple


class GgufType(NamedTuple):
    """A tensor type; ``code`` is its number in a file."""

    code: int
    name: str
    elements: int  # of a block; 1 where elements are stored one by one
    size: int  # bytes of a block
    #: Bytes of a block at which its f16 scales and minima begin; none if of another form.
    scale_offsets: tuple[int, ...] = ()


_ROWS = (
    GgufType(0, "F32", 1, 4),
    GgufType(1, "F16", 1, 2),
    GgufType(2, "Q4_0", 32, 18, (0,)),
    GgufType(3, "Q4_1", 32, 20, (0, 2)),
    GgufType(6, "Q5_0", 32, 22, (0,)),
    GgufType(7, "Q5_1", 32, 24, (0, 2)),
    GgufType(8, "Q8_0", 32, 34, (0,)),
    GgufType(10, "Q2_K", 256, 84, (80, 82)),
    GgufType(11, "Q3_K", 256, 110, (108,)),
    GgufType(12, "Q4_K", 256, 144, (0, 2)),
    GgufType(13, "Q5_K", 256, 176, (0, 2)),
    GgufType(14, "Q6_K", 256, 210, (208,)),
    GgufType(16, "IQ2_XXS", 256, 66, (0,)),
    GgufType(17, "IQ2_XS", 256, 74, (0,)),
    GgufType(18, "IQ3_XXS", 256, 98, (0,)),
    GgufType(19, "IQ1_S", 256, 50, (0,)),
    GgufType(20, "IQ4_NL", 32, 18, (0,)),
    GgufType(21, "IQ3_S", 256, 110, (0,)),
    GgufType(22, "IQ2_S", 256, 82, (0,)),
    GgufType(23, "IQ4_XS", 256, 136, (0,)),
    GgufType(24, "I8", 1, 1),
    GgufType(25, "I16", 1, 2),
    GgufType(26, "I32", 1, 4),
    GgufType(27, "I64", 1, 8),
    GgufType(28, "F64", 1, 8),
    GgufType(29, "IQ1_M", 256, 56),
    GgufType(30, "BF16", 1, 2),
    GgufType(34, "TQ1_0", 256, 54, (52,)),
    GgufType(35, "TQ2_0", 256, 66, (64,)),
    GgufType(39, "MXFP4", 32, 17),
    GgufType(40, "NVFP4", 64, 36),
)
BY_CODE: dict[int, GgufType] = {row.code: row for row in _ROWS}
BY_NAME: dict[str, GgufType] = {row.name: row for row in _ROWS}
