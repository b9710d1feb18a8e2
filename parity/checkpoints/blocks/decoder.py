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
    #: Of mistakes in one part, by name: the keywords that differ, and the text.
    Rows = Mapping[str, tuple[Mapping[str, Any], str]]


@dataclass(frozen=True)
class Decoder:
    """A decoder of blocks of ``size`` bytes to ``elements`` numbers.

    It reads the scale of each group of a block, the whole number of each element, and what is
    added to each group, or subtracted; without ``mins``, nothing is.
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


@dataclass(frozen=True)
class Mistake:
    """A wrong decoder.

    ``name`` is the same for the same mistake in several types; ``text`` names the cause, as half
    a sentence that follows the tensor's name. ``changes`` are the parts of the right decoder that
    are exchanged; none where it is another one altogether.
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
) -> Decoder:
    """Make the decoder of a type, with its block's elements and bytes from GGUF's table."""
    row = BY_NAME[kind]
    return Decoder(row.elements, row.size, scales, codes, mins)


def make_mistake(right: Decoder, name: str, text: str, **changes: Any) -> Mistake:
    """Make the mistake of ``right`` with other parts."""
    return Mistake(name, text, replace(right, **changes), changes)


def vary(text: str, **changes: Any) -> tuple[Mapping[str, Any], str]:
    """Return a row of ``Rows``."""
    return changes, text


def list_mistakes_of(right: Decoder, part: str, rows: Rows) -> list[Mistake]:
    """List the mistakes of reading one part of ``right``, a field, with other keywords."""
    read = getattr(right, part)
    return [
        make_mistake(right, name, text, **{part: partial(read, **change)})
        for name, (change, text) in rows.items()
    ]


def list_neighbour_mistakes(right: Decoder) -> list[Mistake]:
    """List the mistakes that give a block the scale of a neighbour."""
    text = "each block was given the scale of the {} one"
    rows: Rows = {
        "scale-of-next-block": vary(text.format("next"), pick=next_block),
        "scale-of-previous-block": vary(text.format("previous"), pick=previous_block),
    }
    return list_mistakes_of(right, "scales", rows)


def identity(raw: Blocks) -> Blocks:
    """Return each block itself."""
    return raw


def read_f16(raw: Blocks, at: int, pick: Pick = identity) -> Floats:
    """Read the f16 field at byte ``at`` of each block, or of others, float32 ``(n, 1)``."""
    field = np.ascontiguousarray(pick(raw)[:, at : at + 2])
    return field.view("<f2").astype(np.float32)


def next_block(raw: Blocks) -> Blocks:
    """Return the block after each one; for the last, itself."""
    return np.concatenate([raw[1:], raw[-1:]])


def previous_block(raw: Blocks) -> Blocks:
    """Return the block before each one; for the first, itself."""
    return np.concatenate([raw[:1], raw[:-1]])


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


_APART = "the two nibbles of a byte were read as neighbours; GGUF keeps low and high nibbles apart"
_LOW_FIRST = "high nibbles were read before low ones; GGUF has the low ones first"
_WRONG_NIBBLES: Rows = {
    "nibbles-interleaved": vary(_APART, arrange=interleave),
    "nibbles-swapped": vary(_LOW_FIRST, arrange=join_swapped),
    "nibbles-interleaved-swapped": vary(
        "the two nibbles of a byte were read as neighbours, the high one first",
        arrange=interleave_swapped,
    ),
}


def list_nibble_mistakes(right: Decoder) -> list[Mistake]:
    """List the wrong arrangements of nibbles."""
    return list_mistakes_of(right, "codes", _WRONG_NIBBLES)


def make_long_header(right: Decoder) -> Mistake:
    """Make the mistake of reading the codes two bytes too late."""
    text = "the block's header was read as two bytes longer than it is"
    codes = partial(_read_late_codes, codes=right.codes)
    return make_mistake(right, "header-two-long", text, codes=codes)


def _read_late_codes(raw: Blocks, codes: Callable[[Blocks], Codes]) -> Codes:
    stream = np.concatenate([raw.reshape(-1)[2:], np.zeros(2, np.uint8)])
    return codes(stream.reshape(raw.shape))


def read_nibbles(raw: Blocks, at: int, width: int, parts: int, arrange: Arrange) -> Codes:
    """Read codes of four bits from ``parts`` runs of ``width`` bytes, which begin at ``at``."""
    run = raw[:, at : at + parts * width].reshape(len(raw), parts, width)
    return arrange(run & np.uint8(15), run >> np.uint8(4)).reshape(len(raw), -1).astype(np.int16)
