"""GGUF's block types in NumPy: decoded rightly, and wrongly in every way that has a name.

``diagnose`` holds a dump against the wrong ones, ``faults`` plants them. The right ones
are held against gguf-py in the tests. Source of the layouts: ``ggml-common.h`` and
``ggml-quants.c`` of llama.cpp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parity.blocks import floats, pairs, small, supers, tables, ternary
from parity.blocks.decoder import Decoder, Mistake

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["DECODERS", "Decoder", "Mistake", "decode", "mistakes", "two_mistakes"]

_MODULES: tuple[Any, ...] = (floats, small, supers, pairs, tables, ternary)
#: The right decoder of each type, by GGUF's name for it.
DECODERS: Mapping[str, Decoder] = {
    kind: decoder for module in _MODULES for kind, decoder in module.DECODERS.items()
}


def decode(kind: str, raw: NDArray[np.uint8]) -> NDArray[np.float32]:
    """What blocks of a type hold.

    Args:
        kind: A key of ``DECODERS``.
        raw: ``(n, size)`` bytes, a block a row.

    Returns:
        ``(n, elements)`` float32, bit for bit what gguf-py 0.19 dequantises.
    """
    return DECODERS[kind](raw)


def mistakes(kind: str) -> tuple[Mistake, ...]:
    """The wrong decoders of a type, those seen most often in ports first."""
    found: list[tuple[Mistake, ...]] = [
        module.mistakes(kind) for module in _MODULES if kind in module.DECODERS
    ]
    return found[0] if found else ()


def two_mistakes(kind: str) -> list[tuple[Mistake, Mistake, Decoder]]:
    """Decoders that make two mistakes at once, in different parts of their work."""
    single = mistakes(kind)
    found = []
    for place, one in enumerate(single):
        for other in single[place + 1 :]:
            if one.changes and other.changes and not one.changes.keys() & other.changes.keys():
                decoder = DECODERS[kind].changed({**one.changes, **other.changes})
                found.append((one, other, decoder))
    return found
