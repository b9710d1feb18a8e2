"""Decode blocks: a value is ``scale * code``, plus or minus a minimum where the type has one.

Scales and minima serve a group of neighbouring elements. Each of the three is read by a
function of its own, so that a mistake in one is a decoder with another function, or keywords.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from parity.checkpoints.blocks import codes, scales
from parity.checkpoints.blocks.codes import Blocks
from parity.checkpoints.blocks.scales import Floats
from parity.checkpoints.gguf_types import BY_NAME

Read = Callable[[Any], Any]  # Reads a part of each block, from bytes as uint8 ``(n, size)``


@dataclass(frozen=True)
class Decoder:
    """A decoder of blocks of ``size`` bytes to ``elements`` numbers."""

    elements: int
    size: int
    scales: Read  # The scale of each group of a block, float32 ``(n, groups)``
    codes: Read  # The whole number of each element, ``(n, elements)``
    #: The number that is added to each group, or subtracted; None where nothing is.
    mins: Read | None = None
    subtracts_mins: bool = False

    def __call__(self, raw: Blocks) -> Floats:
        """``(n, size)`` bytes to ``(n, elements)`` float32."""
        with np.errstate(all="ignore"):
            factors = self.scales(raw)
            groups = (len(raw), factors.shape[1], -1)
            values = factors[:, :, None] * self.codes(raw).reshape(groups).astype(np.float32)
            if self.mins is not None:
                combine = np.subtract if self.subtracts_mins else np.add
                values = combine(values, self.mins(raw)[:, :, None])
        flat: Floats = values.reshape(len(raw), self.elements)
        return flat


@dataclass(frozen=True)
class _FloatDecoder(Decoder):
    """A decoder of one element a block; bfloat16 is the upper half of a float32."""

    dtype: str = ""
    is_upper_half: bool = False

    def __call__(self, raw: Blocks) -> Floats:
        values = np.ascontiguousarray(raw).view(self.dtype)
        if self.is_upper_half:
            values = (values.astype("<u4") << np.uint32(16)).view("<f4")
        with np.errstate(all="ignore"):
            return values.astype(np.float32)


def make_float_decoder(dtype: str) -> Decoder:
    """Make the decoder of NumPy's ``dtype``, or of ``<bf16`` and ``>bf16``."""
    code = dtype.replace("bf16", "u2")
    size = np.dtype(code).itemsize
    return _FloatDecoder(1, size, len, len, dtype=code, is_upper_half=code != dtype)


FLOATS = {"F32": "f4", "F16": "f2", "BF16": "bf16"}
_F16 = partial(scales.read_f16, at=0)


def _read_subs(at: int, read: Callable[..., Any], **settings: Any) -> Read:
    return partial(scales.read_scales, at=at, subs=partial(read, **settings))


def _read_plain(**settings: Any) -> Read:
    return partial(codes.read_codes, **settings)


def _look_up(at: int, parts: int, width: int, table: Any) -> Read:
    return partial(codes.look_up_codes, at=at, parts=parts, width=width, table=table)


_SIX_BIT_SCALES, _SIX_BIT_MINS = (_read_subs(2 * of, scales.read_six_bit, of=of) for of in (0, 1))
#: Readers of scales, of codes, and of minima where a type has some.
_PARTS: dict[str, tuple[Any, ...]] = {
    "Q4_0": (_F16, _read_plain(at=2, zero=8)),
    "Q4_1": (_F16, _read_plain(at=4, zero=0), partial(scales.read_f16, at=2)),
    "Q5_0": (_F16, _read_plain(at=6, zero=16, high_at=2)),
    "Q5_1": (_F16, _read_plain(at=8, zero=0, high_at=4), partial(scales.read_f16, at=2)),
    "Q8_0": (_F16, codes.read_byte_codes),
    "Q2_K": (
        _read_subs(80, scales.read_low_nibbles),
        codes.read_q2_codes,
        _read_subs(82, scales.read_high_nibbles),
    ),
    "Q3_K": (
        _read_subs(108, scales.read_q3_subs),
        partial(codes.read_q3_codes, low=codes.read_bit_pairs, high=codes.read_bit_planes),
    ),
    "Q4_K": (_SIX_BIT_SCALES, codes.read_q4_codes, _SIX_BIT_MINS),
    "Q5_K": (
        _SIX_BIT_SCALES,
        partial(codes.read_q5_codes, high=codes.read_bit_planes),
        _SIX_BIT_MINS,
    ),
    "Q6_K": (
        _read_subs(208, scales.read_q6_subs),
        partial(codes.read_q6_codes, high=codes.read_bit_pairs),
    ),
    "IQ4_NL": (_F16, _look_up(2, 1, 16, codes.NONLINEAR)),
    "IQ4_XS": (scales.read_xs_scales, _look_up(8, 8, 16, codes.NONLINEAR)),
    "MXFP4": (scales.decode_e8m0, _look_up(1, 1, 16, codes.E2M1)),
    "NVFP4": (scales.decode_ue4m3, _look_up(4, 4, 8, codes.E2M1)),
    "TQ1_0": (partial(scales.read_f16, at=52), codes.read_tq1_codes),
    "TQ2_0": (partial(scales.read_f16, at=64), codes.read_tq2_codes),
}


def _make_decoder(
    kind: str, read_scales: Read, read_codes: Read, mins: Read | None = None
) -> Decoder:
    row, is_k = BY_NAME[kind], kind.endswith("_K")
    return Decoder(row.elements, row.size, read_scales, read_codes, mins, subtracts_mins=is_k)


#: The right decoder of each type, by GGUF's name for it.
DECODERS: dict[str, Decoder] = {
    **{kind: make_float_decoder(f"<{code}") for kind, code in FLOATS.items()},
    **{kind: _make_decoder(kind, *parts) for kind, parts in _PARTS.items()},
}
