"""Decode GGUF's block types in NumPy: correctly, and with every mistake that has a name.

``diagnose`` compares a dump with the mistakes, ``lab.faults`` injects them. Tests compare
the correct decoders with gguf-py. Source of the layouts: ``ggml-common.h`` and
``ggml-quants.c`` of llama.cpp.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

from parity.checkpoints.blocks import basic_quants, floats, k_quants, table_quants, ternary
from parity.checkpoints.blocks.decoder import Decoder, Mistake, make_mistake
from parity.checkpoints.gguf_types import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["DECODERS", "Decoder", "Mistake", "decode", "list_mistakes", "pair_mistakes"]

_FAMILIES: tuple[Any, ...] = (floats, basic_quants, k_quants, table_quants, ternary)
#: The right decoder of each type, by GGUF's name for it.
DECODERS: Mapping[str, Decoder] = {
    kind: decoder for module in _FAMILIES for kind, decoder in module.DECODERS.items()
}


def decode(kind: str, raw: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Decode blocks of a type.

    Args:
        kind: A key of ``DECODERS``.
        raw: ``(n, size)`` bytes, a block a row.

    Returns:
        ``(n, elements)`` float32, bit for bit what gguf-py 0.19 dequantises.
    """
    return DECODERS[kind](raw)


def list_mistakes(kind: str) -> tuple[Mistake, ...]:
    """List the wrong decoders of a type, those seen most often in ports first."""
    found: list[tuple[Mistake, ...]] = [
        module.list_mistakes(kind) for module in _FAMILIES if kind in module.DECODERS
    ]
    return (*found[0], *_list_sign_mistakes(kind)) if found else ()


def _list_sign_mistakes(kind: str) -> tuple[Mistake, ...]:
    """List the mistake of reading an f16 block scale without its sign."""
    offsets, right = BY_NAME[kind].scale_offsets, DECODERS[kind]
    if not offsets:
        return ()
    at = offsets[0]

    def scales(raw: NDArray[np.uint8]) -> NDArray[np.float32]:
        positive = raw.copy()
        positive[:, at + 1] &= 0x7F
        return right.scales(positive)

    text = "the signs of the block scales were lost"
    return (make_mistake(right, "scale-sign-lost", text, scales=scales),)


def pair_mistakes(kind: str) -> list[tuple[Mistake, Mistake, Decoder]]:
    """List decoders that make two mistakes at once, in different parts."""
    right, found = DECODERS[kind], []
    for one, other in combinations(list_mistakes(kind), 2):
        changes = _merge_changes(right, one.changes, other.changes)
        if changes:
            found.append((one, other, replace(right, **changes)))
    return found


def _merge_changes(
    right: Decoder, one: Mapping[str, Any], other: Mapping[str, Any]
) -> dict[str, Any]:
    """Merge the changes of two mistakes; return none where they change the same thing."""
    changes = {**one, **other} if one and other else {}
    for part in one.keys() & other.keys():
        changes[part] = _merge_readers(getattr(right, part), one[part], other[part])
    return {} if None in (changes[part] for part in one.keys() & other.keys()) else changes


def _merge_readers(right: Any, one: Any, other: Any) -> Any:
    """Merge the changes of two readers, such as those of nibbles and of high bits of codes.

    Returns:
        None where both change the same keyword, or are other functions than ``right``.
    """
    (read, plain), *wrong = (
        (it.func, it.keywords) if isinstance(it, partial) else (it, {})
        for it in (right, one, other)
    )
    if any(func is not read for func, _ in wrong):
        return None
    first, second = (
        {key: value for key, value in keywords.items() if plain.get(key) is not value}
        for _, keywords in wrong
    )
    return None if first.keys() & second.keys() else partial(read, **{**plain, **first, **second})
