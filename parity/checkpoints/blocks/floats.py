"""Decode the types whose elements are stored one by one: F32, F16, BF16."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.checkpoints.blocks.decoder import Decoder, Mistake

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from parity.checkpoints.blocks.decoder import Blocks, Floats


@dataclass(frozen=True)
class _FloatDecoder(Decoder):
    """A decoder of one element a block, read by ``values``."""

    values: Callable[[NDArray[np.uint8]], NDArray[Any]] = lambda raw: raw

    def __call__(self, raw: Blocks) -> Floats:
        with np.errstate(all="ignore"):
            found: Floats = self.values(np.ascontiguousarray(raw)).astype(np.float32)
        return found


def _reject_call(_raw: Any) -> Any:
    raise NotImplementedError


def _make_decoder(size: int, values: Callable[[NDArray[np.uint8]], NDArray[Any]]) -> Decoder:
    return _FloatDecoder(1, size, _reject_call, _reject_call, values=values)


def _view_f32(raw: NDArray[np.uint8]) -> NDArray[Any]:
    return raw.view("<f4")


def _view_f16(raw: NDArray[np.uint8]) -> NDArray[Any]:
    return raw.view("<f2")


def _widen_bf16(raw: NDArray[np.uint8]) -> NDArray[Any]:
    return (raw.view("<u2").astype("<u4") << np.uint32(16)).view("<f4")


def _reverse_bytes(
    values: Callable[[NDArray[np.uint8]], NDArray[Any]],
) -> Callable[[NDArray[np.uint8]], NDArray[Any]]:
    return lambda raw: values(np.ascontiguousarray(raw[:, ::-1]))


DECODERS = {
    "F32": _make_decoder(4, _view_f32),
    "F16": _make_decoder(2, _view_f16),
    "BF16": _make_decoder(2, _widen_bf16),
}
_READERS = {"F32": _view_f32, "F16": _view_f16, "BF16": _widen_bf16}
_MISREADINGS = {
    "F32": (("as-integers", "<i4", "32-bit integers"),),
    "F16": (("as-bf16", None, "bfloat16"), ("as-integers", "<u2", "16-bit integers")),
    "BF16": (("as-f16", "<f2", "float16"), ("as-integers", "<u2", "16-bit integers")),
}


def list_mistakes(kind: str) -> tuple[Mistake, ...]:
    """List the wrong readers of a float type."""
    size = DECODERS[kind].size
    swap = _make_decoder(size, _reverse_bytes(_READERS[kind]))
    found = [Mistake("byte-order", f"{kind} was read as big-endian", swap, {})]
    for name, code, what in _MISREADINGS[kind]:
        values = _widen_bf16 if code is None else _make_viewer(code)
        found.append(Mistake(name, f"{kind} was read as {what}", _make_decoder(size, values), {}))
    return tuple(found)


def _make_viewer(code: str) -> Callable[[NDArray[np.uint8]], NDArray[Any]]:
    return lambda raw: raw.view(code)
