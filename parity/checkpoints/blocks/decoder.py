"""What every block decoder consists of, and the ways of reading that several types share.

A value is ``scale * code``, plus or minus a minimum where the type has one; scales and
minima serve a group of neighbouring elements. Each of the three is read by a function
of its own, so that a mistake in one of them is a decoder with that function exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    #: Blocks as bytes, uint8 ``(n, size)``.
    Blocks = NDArray[np.uint8]
    #: float32 ``(n, groups)``.
    Floats = NDArray[np.float32]
    #: int16 ``(n, elements)``.
    Codes = NDArray[np.int16]
    Arrange = Callable[[NDArray[np.uint8], NDArray[np.uint8]], NDArray[np.uint8]]
    Pick = Callable[[Blocks], Blocks]


@dataclass(frozen=True)
class Decoder:
    """A block decoder.

    Attributes:
        elements: Numbers in a block.
        size: Bytes of a block.
        scales: Scale of each group of a block.
        codes: Whole number of each element.
        mins: What is added to each group, None where nothing is.
        taken_off: The minimum is subtracted.
    """

    elements: int
    size: int
    scales: Callable[[Blocks], Floats]
    codes: Callable[[Blocks], Any]
    mins: Callable[[Blocks], Floats] | None = None
    taken_off: bool = False

    def __call__(self, raw: Blocks) -> Floats:
        """``(n, size)`` bytes to ``(n, elements)`` float32."""
        with np.errstate(all="ignore"):
            scales = self.scales(raw)
            groups = (len(raw), scales.shape[1], -1)
            values = scales[:, :, None] * self.codes(raw).reshape(groups).astype(np.float32)
            if self.mins is not None:
                combine = np.subtract if self.taken_off else np.add
                values = combine(values, self.mins(raw)[:, :, None])
        flat: Floats = values.reshape(len(raw), self.elements)
        return flat

    def replace_parts(self, changes: Mapping[str, Any]) -> Decoder:
        """The same decoder with parts exchanged."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Mistake:
    """A wrong decoder.

    Attributes:
        name: Kebab-case, the same for the same mistake in several types.
        text: Names the cause, as half a sentence that follows the tensor's name.
        changes: Parts of the right decoder that are exchanged; empty where it is another
            one altogether.
    """

    name: str
    text: str
    decoder: Decoder
    changes: Mapping[str, Any]


def make_mistake(right: Decoder, name: str, text: str, **changes: Any) -> Mistake:
    """The mistake of ``right`` with some of its parts exchanged."""
    return Mistake(name, text, right.replace_parts(changes), changes)


def read_f16(raw: Blocks, at: int) -> Floats:
    """The f16 field at byte ``at`` of each block, float32 ``(n, 1)``."""
    field: Floats = np.ascontiguousarray(raw[:, at : at + 2]).view("<f2").astype(np.float32)
    return field


def identity(raw: Blocks) -> Blocks:
    """Each block its own."""
    return raw


def next_block(raw: Blocks) -> Blocks:
    """In place of each block the one after it; the last keeps its own."""
    return np.concatenate([raw[1:], raw[-1:]])


def previous_block(raw: Blocks) -> Blocks:
    """In place of each block the one before it; the first keeps its own."""
    return np.concatenate([raw[:1], raw[:-1]])


def shift_stream(raw: Blocks, count: int) -> Blocks:
    """Blocks as one sees them who is ``count`` bytes too far in the stream of all blocks."""
    stream = np.concatenate([raw.reshape(-1)[count:], np.zeros(count, np.uint8)])
    return stream.reshape(raw.shape)


def join_halves(low: NDArray[np.uint8], high: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """All low parts, then all high ones, along the last axis; GGUF's own arrangement."""
    return np.concatenate([low, high], axis=-1)


def join_swapped(low: NDArray[np.uint8], high: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """All high parts, then all low ones."""
    return join_halves(high, low)


def interleave(low: NDArray[np.uint8], high: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Low and high part of a byte next to each other."""
    return np.stack([low, high], axis=-1).reshape(*low.shape[:-1], -1)


def interleave_swapped(low: NDArray[np.uint8], high: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """High and low part of a byte next to each other."""
    return interleave(high, low)


def interleave_codes(raw: Blocks, codes: Callable[[Blocks], Codes], width: int) -> Codes:
    """Codes of which those of each byte, ``width`` apart in GGUF, stand next to each other."""
    pairs = codes(raw).reshape(len(raw), -1, 2, width)
    return pairs.swapaxes(2, 3).reshape(len(raw), -1)


def make_interleaved_mistake(right: Decoder, width: int, bits: str) -> Mistake:
    """Whole codes of more than four bits taken as neighbours, where they lie in one byte."""
    text = f"the two codes of a byte were taken as neighbours, their {bits} with them"
    codes = partial(interleave_codes, codes=right.codes, width=width)
    return make_mistake(right, "codes-interleaved", text, codes=codes)


#: Wrong arrangements of nibbles: name, function, text.
WRONG_NIBBLES: tuple[tuple[str, Arrange, str], ...] = (
    (
        "nibbles-interleaved",
        interleave,
        "the two nibbles of a byte were taken as neighbours; GGUF keeps low and high nibbles apart",
    ),
    (
        "nibbles-swapped",
        join_swapped,
        "high nibbles were taken before low ones; GGUF has the low ones first",
    ),
    (
        "nibbles-interleaved-swapped",
        interleave_swapped,
        "the two nibbles of a byte were taken as neighbours, the high one first",
    ),
)


def read_nibbles(raw: Blocks, at: int, width: int, parts: int, arrange: Arrange) -> Codes:
    """Codes of four bits from ``parts`` runs of ``width`` bytes, which begin at ``at``."""
    run = raw[:, at : at + parts * width].reshape(len(raw), parts, width)
    return arrange(run & np.uint8(15), run >> np.uint8(4)).reshape(len(raw), -1).astype(np.int16)
