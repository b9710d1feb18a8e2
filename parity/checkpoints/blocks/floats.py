"""Decode the types whose elements are stored one by one: F32, F16, BF16."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.checkpoints.blocks.decoder import Decoder, Mistake

if TYPE_CHECKING:
    from parity.checkpoints.blocks.decoder import Blocks, Floats


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


def _reject_call(_raw: Any) -> Any:
    raise NotImplementedError


def _make_decoder(dtype: str) -> Decoder:
    """Make the decoder of NumPy's ``dtype``, or of ``<bf16`` and ``>bf16``."""
    code = dtype.replace("bf16", "u2")
    size = np.dtype(code).itemsize
    return _FloatDecoder(
        1, size, _reject_call, _reject_call, dtype=code, is_upper_half=code != dtype
    )


_DTYPES = {"F32": "f4", "F16": "f2", "BF16": "bf16"}
DECODERS = {kind: _make_decoder(f"<{code}") for kind, code in _DTYPES.items()}
_MISREADINGS = {
    "F32": (("as-integers", "<i4", "32-bit integers"),),
    "F16": (("as-bf16", "<bf16", "bfloat16"), ("as-integers", "<u2", "16-bit integers")),
    "BF16": (("as-f16", "<f2", "float16"), ("as-integers", "<u2", "16-bit integers")),
}


def list_mistakes(kind: str) -> tuple[Mistake, ...]:
    """List the wrong readers of a float type."""
    ways = [("byte-order", f">{_DTYPES[kind]}", "big-endian"), *_MISREADINGS[kind]]
    return tuple(
        Mistake(name, f"{kind} was read as {what}", _make_decoder(dtype), {})
        for name, dtype, what in ways
    )
