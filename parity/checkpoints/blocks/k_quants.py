"""The wrong decoders of super-blocks of 256 elements, Q2_K to Q6_K."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from parity.checkpoints.blocks.decoder import (
    Decoder,
    Mistake,
    join_halves,
    list_mistakes_of,
    list_neighbour_mistakes,
    list_nibble_mistakes,
    make_interleaved_mistake,
    make_mistake,
    vary,
)
from parity.checkpoints.blocks.k_decoders import (
    DECODERS,
    DOWN,
    MINS,
    SCALES,
    clear_bits,
    read_as_stream,
    read_bit_pairs,
    read_bit_planes,
    read_low_nibbles,
    read_q3_subs,
    read_q6_subs,
    read_scales,
    read_six_bit,
    set_bits,
    shift_sub_scales,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from parity.checkpoints.blocks.decoder import Codes, Rows
    from parity.checkpoints.blocks.k_decoders import Subs

__all__ = ["DECODERS", "list_mistakes"]

_WRONG_LOW: Rows = {
    "codes-sequential": vary("the four codes of a byte were read as neighbours", sequential=True),
    "codes-reversed": vary(
        "the four codes of a byte were read from the top downwards", shifts=DOWN
    ),
}
_SEQUENTIAL_BITS = (
    "the {} bits were read bit after bit of each byte, not byte after byte of each bit"
)
_WRONG_Q3_SUBS: Rows = {
    "sub-scales-4-bit": vary(
        "the 6-bit sub-scales were read without their two high bits", high=False
    ),
    "sub-scales-4-bit-raised": vary(
        "the 6-bit sub-scales were read as 4-bit ones with the zero point 8", high=False, zero=8
    ),
    "sub-scales-unsigned": vary("the zero point 32 was not subtracted from the sub-scales", zero=0),
    "sub-scales-swapped": vary(
        "the sub-scales of the two halves of a block were exchanged", roll=8
    ),
    "sub-scales-high-bits-misplaced": vary(
        "the two high bits of the sub-scales were read in the reverse order", tops=DOWN
    ),
}
_WRONG_Q6_SUBS: Rows = {
    "sub-scales-unsigned": vary(
        "the sub-scales were read as unsigned bytes; they are signed", signed=False
    ),
    "sub-scales-paired": vary(
        "one sub-scale was used for 32 elements; each serves 16", paired=True
    ),
}
_WRONG_Q6_CODES: Rows = {
    "high-bits-lost": vary("the two high bits of every code were lost", high=clear_bits),
    "high-bits-sequential": vary(
        "the high bits of a byte were read as those of neighbours",
        high=partial(read_bit_pairs, sequential=True),
    ),
    "high-bits-reversed": vary(
        "the high bits were read from the top of each byte downwards",
        high=partial(read_bit_pairs, shifts=DOWN),
    ),
    "codes-unsigned": vary("the zero point 32 was not subtracted from the codes", zero=0),
    "zero-point-low": vary("31 was subtracted from every code; the zero point is 32", zero=31),
}
_WRONG_SIX_BIT: dict[str, tuple[Callable[..., Codes], dict[str, Any], str]] = {
    "sub-scales-4-bit": (
        read_six_bit,
        {"tops": False},
        "the last four sub-scales and minima were read without their two high bits",
    ),
    "sub-scales-unmasked": (
        read_six_bit,
        {"mask": 255},
        "the high bits of the last four were left in the first four sub-scales and minima",
    ),
    "sub-scales-as-stream": (
        read_as_stream,
        {},
        "the sub-scales were read as a stream of six-bit numbers",
    ),
}


def list_mistakes(kind: str) -> tuple[Mistake, ...]:
    """List the wrong decoders of a type."""
    right = DECODERS[kind]
    at, subs = SCALES[kind]
    text = "each sub-block was given the sub-scale of the next one"
    scales = partial(read_scales, at=at, subs=partial(shift_sub_scales, subs=subs))
    return (
        *_OWN_MISTAKES[kind](right),
        *(_list_min_mistakes(kind, right) if kind in MINS else ()),
        make_mistake(right, "sub-scale-of-next", text, scales=scales),
        *list_neighbour_mistakes(right),
    )


def _list_min_mistakes(kind: str, right: Decoder) -> list[Mistake]:
    (d, scale), (dmin, least) = SCALES[kind], MINS[kind]

    def swap(name: str, text: str, scale: tuple[int, Subs], least: tuple[int, Subs]) -> Mistake:
        scales, mins = (partial(read_scales, at=at, subs=subs) for at, subs in (scale, least))
        return make_mistake(right, name, text, scales=scales, mins=mins)

    added = "the minima were added, not subtracted"
    subs = "sub-scales and minima were exchanged"
    both = "the block's scale and its scale of minima were exchanged"
    return [
        make_mistake(right, "min-ignored", "the minima were not subtracted", mins=None),
        make_mistake(right, "min-sign", added, mins=right.mins, subtracts_mins=False),
        swap("sub-scales-swapped", subs, (d, least), (dmin, scale)),
        swap("scale-and-min-swapped", both, (dmin, scale), (d, least)),
    ]


def _list_plane_mistakes(right: Decoder, ordinal: str, *, has_set: bool) -> list[Mistake]:
    """List the wrong ways of reading a high bit of every code."""
    bits_set = f"the {ordinal} bit of every code was read as set"
    downwards = f"the {ordinal} bits were read from the top bit of each byte downwards"
    rows: Rows = {
        "high-bits-lost": vary(f"the {ordinal} bit of every code was lost", high=clear_bits),
        **({"high-bits-set": vary(bits_set, high=set_bits)} if has_set else {}),
        "high-bits-sequential": vary(
            _SEQUENTIAL_BITS.format(ordinal), high=partial(read_bit_planes, sequential=True)
        ),
        "high-bits-reversed": vary(downwards, high=partial(read_bit_planes, reverse=True)),
    }
    return list_mistakes_of(right, "codes", rows)


def _list_sub_mistakes(right: Decoder, subs: Callable[..., Codes], rows: Rows) -> list[Mistake]:
    """List the wrong ways of reading sub-scales by ``subs``."""
    wrong = {
        name: vary(text, subs=partial(subs, **change)) for name, (change, text) in rows.items()
    }
    return list_mistakes_of(right, "scales", wrong)


def _list_q2_mistakes(right: Decoder) -> list[Mistake]:
    rows: Rows = {
        "sub-scales-unmasked": vary("the minimum's bits were left in the sub-scales", mask=255)
    }
    return [
        *list_mistakes_of(right, "codes", _WRONG_LOW),
        *_list_sub_mistakes(right, read_low_nibbles, rows),
    ]


def _list_q3_mistakes(right: Decoder) -> list[Mistake]:
    low = {
        name: vary(text, low=partial(read_bit_pairs, **change))
        for name, (change, text) in _WRONG_LOW.items()
    }
    return [
        *_list_sub_mistakes(right, read_q3_subs, _WRONG_Q3_SUBS),
        *_list_plane_mistakes(right, "third", has_set=True),
        *list_mistakes_of(right, "codes", low),
    ]


def _list_q4_mistakes(right: Decoder) -> list[Mistake]:
    text = "low and high nibbles were kept apart over the whole block; GGUF does so every 32 bytes"
    # The width shows in this arrangement alone, and so comes with no other one.
    whole: Rows = {"nibbles-by-block": vary(text, arrange=join_halves, width=128)}
    return [
        *list_nibble_mistakes(right),
        *list_mistakes_of(right, "codes", whole),
        *_list_six_bit_mistakes(right),
    ]


def _list_q5_mistakes(right: Decoder) -> list[Mistake]:
    return [
        *list_nibble_mistakes(right),
        *_list_plane_mistakes(right, "fifth", has_set=False),
        make_interleaved_mistake(right, 32, "fifth bits"),
        *_list_six_bit_mistakes(right),
    ]


def _list_six_bit_mistakes(right: Decoder) -> list[Mistake]:
    found = []
    for name, (read, change, text) in _WRONG_SIX_BIT.items():
        scales, mins = (
            partial(read_scales, at=2 * of, subs=partial(read, of=of, **change)) for of in (0, 1)
        )
        found.append(make_mistake(right, name, text, scales=scales, mins=mins))
    return found


def _list_q6_mistakes(right: Decoder) -> list[Mistake]:
    return [
        *list_nibble_mistakes(right),
        *list_mistakes_of(right, "codes", _WRONG_Q6_CODES),
        make_interleaved_mistake(right, 64, "high bits"),
        *_list_sub_mistakes(right, read_q6_subs, _WRONG_Q6_SUBS),
    ]


_OWN_MISTAKES: dict[str, Callable[[Decoder], list[Mistake]]] = {
    "Q2_K": _list_q2_mistakes,
    "Q3_K": _list_q3_mistakes,
    "Q4_K": _list_q4_mistakes,
    "Q5_K": _list_q5_mistakes,
    "Q6_K": _list_q6_mistakes,
}
