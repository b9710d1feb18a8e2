"""Parts of every block decoder, and the ways of reading that several types share.

A value is ``scale * code``, plus or minus a minimum where the type has one; scales and
minima serve a group of neighbouring elements. Each of the three is read by a function
of its own, so that a mistake in one of them is a decoder with that function exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.checkpoints.gguf_types import BY_NAME

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
        subtracts_mins: The minimum is subtracted.
    """

    elements: int
    size: int
    scales: Callable[[Blocks], Floats]
    codes: Callable[[Blocks], Any]
    mins: Callable[[Blocks], Floats] | None = None
    subtracts_mins: bool = False

    def __call__(self, raw: Blocks) -> Floats:
        """``(n, size)`` bytes to ``(n, elements)`` float32."""
        with np.errstate(all="ignore"):
            scales = self.scales(raw)
            groups = (len(raw), scales.shape[1], -1)
            values = scales[:, :, None] * self.codes(raw).reshape(groups).astype(np.float32)
            if self.mins is not None:
                combine = np.subtract if self.subtracts_mins else np.add
                values = combine(values, self.mins(raw)[:, :, None])
        flat: Floats = values.reshape(len(raw), self.elements)
        return flat

    def replace_parts(self, changes: Mapping[str, Any]) -> Decoder:
        """Return the same decoder with other parts."""
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


def make_decoder(
    kind: str,
    scales: Callable[[Blocks], Floats],
    codes: Callable[[Blocks], Any],
    mins: Callable[[Blocks], Floats] | None = None,
    *,
    subtracts_mins: bool = False,
) -> Decoder:
    """Make the decoder of a type, with its block's elements and bytes from GGUF's table."""
    row = BY_NAME[kind]
    return Decoder(row.elements, row.size, scales, codes, mins, subtracts_mins)


def make_mistake(right: Decoder, name: str, text: str, **changes: Any) -> Mistake:
    """Make the mistake of ``right`` with other parts."""
    return Mistake(name, text, right.replace_parts(changes), changes)


def list_neighbour_mistakes(right: Decoder, scales: Callable[..., Floats]) -> list[Mistake]:
    """List the mistakes that give a block the scale of a neighbour; ``scales`` takes ``pick``."""
    return [
        make_mistake(
            right,
            f"scale-of-{word}-block",
            f"each block was given the scale of the {word} one",
            scales=partial(scales, pick=pick),
        )
        for word, pick in (("next", next_block), ("previous", previous_block))
    ]


def read_f16(raw: Blocks, at: int) -> Floats:
    """Read the f16 field at byte ``at`` of each block, float32 ``(n, 1)``."""
    field: Floats = np.ascontiguousarray(raw[:, at : at + 2]).view("<f2").astype(np.float32)
    return field


def identity(raw: Blocks) -> Blocks:
    """Return each block itself."""
    return raw


def next_block(raw: Blocks) -> Blocks:
    """Return the block after each one; for the last, itself."""
    return np.concatenate([raw[1:], raw[-1:]])


def previous_block(raw: Blocks) -> Blocks:
    """Return the block before each one; for the first, itself."""
    return np.concatenate([raw[:1], raw[:-1]])


def shift_stream(raw: Blocks, count: int) -> Blocks:
    """Return blocks read ``count`` bytes too late in the stream of all blocks."""
    stream = np.concatenate([raw.reshape(-1)[count:], np.zeros(count, np.uint8)])
    return stream.reshape(raw.shape)


def join_halves(low: NDArray[np.uint8], high: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Join all low parts, then all high ones, along the last axis, as GGUF does."""
    return np.concatenate([low, high], axis=-1)


def join_swapped(low: NDArray[np.uint8], high: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Join all high parts, then all low ones."""
    return join_halves(high, low)


def interleave(low: NDArray[np.uint8], high: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Place low and high part of a byte next to each other."""
    return np.stack([low, high], axis=-1).reshape(*low.shape[:-1], -1)


def interleave_swapped(low: NDArray[np.uint8], high: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Place high and low part of a byte next to each other."""
    return interleave(high, low)


def interleave_codes(raw: Blocks, codes: Callable[[Blocks], Codes], width: int) -> Codes:
    """Place the codes of each byte, ``width`` apart in GGUF, next to each other."""
    pairs = codes(raw).reshape(len(raw), -1, 2, width)
    return pairs.swapaxes(2, 3).reshape(len(raw), -1)


def make_interleaved_mistake(right: Decoder, width: int, bits: str) -> Mistake:
    """Make the mistake of reading codes of more than four bits of one byte as neighbours."""
    text = f"the two codes of a byte were read as neighbours, their {bits} with them"
    codes = partial(interleave_codes, codes=right.codes, width=width)
    return make_mistake(right, "codes-interleaved", text, codes=codes)


#: Wrong arrangements of nibbles: name, function, text.
WRONG_NIBBLES: tuple[tuple[str, Arrange, str], ...] = (
    (
        "nibbles-interleaved",
        interleave,
        "the two nibbles of a byte were read as neighbours; GGUF keeps low and high nibbles apart",
    ),
    (
        "nibbles-swapped",
        join_swapped,
        "high nibbles were read before low ones; GGUF has the low ones first",
    ),
    (
        "nibbles-interleaved-swapped",
        interleave_swapped,
        "the two nibbles of a byte were read as neighbours, the high one first",
    ),
)


def read_nibbles(raw: Blocks, at: int, width: int, parts: int, arrange: Arrange) -> Codes:
    """Read codes of four bits from ``parts`` runs of ``width`` bytes, which begin at ``at``."""
    run = raw[:, at : at + parts * width].reshape(len(raw), parts, width)
    return arrange(run & np.uint8(15), run >> np.uint8(4)).reshape(len(raw), -1).astype(np.int16)
