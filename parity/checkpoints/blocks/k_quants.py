"""Super-blocks of 256 elements without a minimum: Q3_K and Q6_K.

Layouts: Q3_K ``[32 high bits][64 codes][12 sub-scales][f16 d]``, Q6_K ``[128 low
nibbles][64 high bits][16 signed sub-scales][f16 d]``. A sub-scale serves 16 elements.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.checkpoints.blocks.decoder import (
    WRONG_NIBBLES,
    Decoder,
    Mistake,
    identity,
    join_halves,
    list_neighbour_mistakes,
    make_decoder,
    make_interleaved_mistake,
    make_mistake,
    read_f16,
    read_nibbles,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from parity.checkpoints.blocks.decoder import Arrange, Blocks, Codes, Floats, Pick

_UP, _DOWN = (0, 2, 4, 6), (6, 4, 2, 0)


def read_bit_pairs(
    raw: Blocks, at: int, *, shifts: tuple[int, ...] = _UP, sequential: bool = False
) -> NDArray[np.uint8]:
    """Read 64 bytes of four 2-bit codes each: the same bits of 32 bytes are neighbours.

    Args:
        raw: Blocks.
        at: Byte of the block at which they begin.
        shifts: Order of the bits.
        sequential: The wrong way, in which the four codes of a byte are neighbours.
    """
    run = raw[:, at : at + 64].reshape(len(raw), 2, 1, 32)
    order = np.array(shifts, np.uint8).reshape(1, 1, 4, 1)
    codes = (run >> order) & np.uint8(3)
    if sequential:
        codes = codes.transpose(0, 1, 3, 2)
    return codes.reshape(len(raw), 256)


def read_bit_planes(
    raw: Blocks, at: int, *, reverse: bool = False, sequential: bool = False
) -> NDArray[np.uint8]:
    """Read 32 bytes of high bits: bit k of byte i belongs to element 32 k + i.

    Args:
        raw: Blocks.
        at: Byte of the block at which they begin.
        reverse: The wrong way, from the top bit downwards.
        sequential: The wrong way, in which the eight bits of a byte are neighbours.
    """
    field = np.ascontiguousarray(raw[:, at : at + 32]).reshape(len(raw), 32, 1)
    found = np.unpackbits(field, axis=2, bitorder="big" if reverse else "little")
    return (found if sequential else found.transpose(0, 2, 1)).reshape(len(raw), 256)


def clear_bits(raw: Blocks, _at: int) -> NDArray[np.uint8]:
    """Return high bits that are all 0."""
    return np.zeros((len(raw), 256), np.uint8)


def set_bits(raw: Blocks, _at: int) -> NDArray[np.uint8]:
    """Return high bits that are all 1."""
    return np.ones((len(raw), 256), np.uint8)


def _read_sub_scales(raw: Blocks, *, high: bool = True, tops: tuple[int, ...] = _UP) -> Codes:
    """Read Q3_K's 16 sub-scales: low nibbles in 8 bytes, two high bits each in 4 bytes."""
    low, top = raw[:, 96:104], raw[:, 104:108]
    scales = join_halves(low & np.uint8(15), low >> np.uint8(4)).astype(np.int16)
    if high:
        parts = [(top >> np.uint8(shift)) & np.uint8(3) for shift in tops]
        scales |= np.concatenate(parts, axis=1).astype(np.int16) << 4
    return scales


def _swap_sub_scales(raw: Blocks) -> Codes:
    return np.roll(_read_sub_scales(raw), 8, axis=1)


def _subtract_32(raw: Blocks, subs: Callable[[Blocks], Codes]) -> Codes:
    return subs(raw) - np.int16(32)


def _read_four_bit_signed(raw: Blocks) -> Codes:
    return _read_sub_scales(raw, high=False) - np.int16(8)


def _read_signed_bytes(raw: Blocks) -> Codes:
    return np.ascontiguousarray(raw[:, 192:208]).view(np.int8).astype(np.int16)


def _read_unsigned_bytes(raw: Blocks) -> Codes:
    return raw[:, 192:208].astype(np.int16)


def _shift_sub_scales(raw: Blocks, subs: Callable[[Blocks], Codes]) -> Codes:
    return np.roll(subs(raw), -1, axis=1)


def _repeat_sub_scales(raw: Blocks, subs: Callable[[Blocks], Codes]) -> Codes:
    """Use one sub-scale for 32 elements, so that the second half of them is never used."""
    return np.repeat(subs(raw)[:, :8], 2, axis=1)


def _read_scales(
    raw: Blocks, at: int, subs: Callable[[Blocks], Codes], pick: Pick = identity
) -> Floats:
    return read_f16(pick(raw), at) * subs(raw).astype(np.float32)


_Q3_SUBS = partial(_subtract_32, subs=_read_sub_scales)


def _read_q3_codes(
    raw: Blocks,
    *,
    low: Callable[[Blocks, int], NDArray[np.uint8]] = read_bit_pairs,
    high: Callable[[Blocks, int], NDArray[np.uint8]] = read_bit_planes,
) -> Codes:
    """Read two low bits, minus 4 where the high bit is not set."""
    return low(raw, 32).astype(np.int16) - (high(raw, 0).astype(np.int16) ^ 1) * np.int16(4)


def _read_q6_codes(
    raw: Blocks,
    *,
    arrange: Arrange = join_halves,
    high: Callable[[Blocks, int], NDArray[np.uint8]] = read_bit_pairs,
    zero: int = 32,
) -> Codes:
    low = read_nibbles(raw, 0, 64, 2, arrange)
    return (low | high(raw, 128).astype(np.int16) << 4) - np.int16(zero)


DECODERS = {
    "Q3_K": make_decoder("Q3_K", partial(_read_scales, at=108, subs=_Q3_SUBS), _read_q3_codes),
    "Q6_K": make_decoder(
        "Q6_K", partial(_read_scales, at=208, subs=_read_signed_bytes), _read_q6_codes
    ),
}


def list_mistakes(kind: str) -> tuple[Mistake, ...]:
    """List the wrong decoders of a type."""
    right = DECODERS[kind]
    made = _list_q3_mistakes(right) if kind == "Q3_K" else _list_q6_mistakes(right)
    at, subs = (108, _Q3_SUBS) if kind == "Q3_K" else (208, _read_signed_bytes)
    return (*made, *list_scale_mistakes(right, partial(_read_scales, at=at), subs))


def list_scale_mistakes(
    right: Decoder, scales: Callable[..., Floats], subs: Callable[[Blocks], Codes]
) -> list[Mistake]:
    """List the mistakes that give a block or sub-block the scale of another one."""
    text = "each sub-block was given the sub-scale of the next one"
    shifted = partial(scales, subs=partial(_shift_sub_scales, subs=subs))
    return [
        make_mistake(right, "sub-scale-of-next", text, scales=shifted),
        *list_neighbour_mistakes(right, partial(scales, subs=subs)),
    ]


def _list_q3_mistakes(right: Decoder) -> list[Mistake]:
    def subs(name: str, text: str, read: Callable[[Blocks], Codes]) -> Mistake:
        return make_mistake(right, name, text, scales=partial(_read_scales, at=108, subs=read))

    def codes(name: str, text: str, **parts: Any) -> Mistake:
        return make_mistake(right, name, text, codes=partial(_read_q3_codes, **parts))

    return [
        subs(
            "sub-scales-4-bit",
            "the 6-bit sub-scales were read without their two high bits",
            partial(_subtract_32, subs=partial(_read_sub_scales, high=False)),
        ),
        subs(
            "sub-scales-4-bit-raised",
            "the 6-bit sub-scales were read as 4-bit ones with the zero point 8",
            _read_four_bit_signed,
        ),
        subs(
            "sub-scales-unsigned",
            "the zero point 32 was not subtracted from the sub-scales",
            _read_sub_scales,
        ),
        subs(
            "sub-scales-swapped",
            "the sub-scales of the two halves of a block were exchanged",
            partial(_subtract_32, subs=_swap_sub_scales),
        ),
        subs(
            "sub-scales-high-bits-misplaced",
            "the two high bits of the sub-scales were read in the reverse order",
            partial(_subtract_32, subs=partial(_read_sub_scales, tops=_DOWN)),
        ),
        codes("high-bits-lost", "the third bit of every code was lost", high=clear_bits),
        codes("high-bits-set", "the third bit of every code was read as set", high=set_bits),
        codes(
            "high-bits-sequential",
            "the third bits were read bit after bit of each byte, not byte after byte of each bit",
            high=partial(read_bit_planes, sequential=True),
        ),
        codes(
            "high-bits-reversed",
            "the third bits were read from the top bit of each byte downwards",
            high=partial(read_bit_planes, reverse=True),
        ),
        codes(
            "codes-sequential",
            "the four codes of a byte were read as neighbours",
            low=partial(read_bit_pairs, sequential=True),
        ),
        codes(
            "codes-reversed",
            "the four codes of a byte were read from the top downwards",
            low=partial(read_bit_pairs, shifts=_DOWN),
        ),
    ]


def _list_q6_mistakes(right: Decoder) -> list[Mistake]:
    found = [
        make_mistake(right, name, text, codes=partial(_read_q6_codes, arrange=arrange))
        for name, arrange, text in WRONG_NIBBLES
    ]
    wrong_codes = (
        (
            "high-bits-lost",
            "the two high bits of every code were lost",
            partial(_read_q6_codes, high=clear_bits),
        ),
        (
            "high-bits-sequential",
            "the high bits of a byte were read as those of neighbours",
            partial(_read_q6_codes, high=partial(read_bit_pairs, sequential=True)),
        ),
        (
            "high-bits-reversed",
            "the high bits were read from the top of each byte downwards",
            partial(_read_q6_codes, high=partial(read_bit_pairs, shifts=_DOWN)),
        ),
        (
            "codes-unsigned",
            "the zero point 32 was not subtracted from the codes",
            partial(_read_q6_codes, zero=0),
        ),
        (
            "zero-point-low",
            "31 was subtracted from every code; the zero point is 32",
            partial(_read_q6_codes, zero=31),
        ),
    )
    found += [make_mistake(right, name, text, codes=codes) for name, text, codes in wrong_codes]
    found.append(make_interleaved_mistake(right, 64, "high bits"))
    wrong_subs = (
        (
            "sub-scales-unsigned",
            "the sub-scales were read as unsigned bytes; they are signed",
            _read_unsigned_bytes,
        ),
        (
            "sub-scales-paired",
            "one sub-scale was used for 32 elements; each serves 16",
            partial(_repeat_sub_scales, subs=_read_signed_bytes),
        ),
    )
    return found + [
        make_mistake(right, name, text, scales=partial(_read_scales, at=208, subs=subs))
        for name, text, subs in wrong_subs
    ]
