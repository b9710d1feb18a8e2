"""Types of three values: TQ1_0 and TQ2_0, each -d, 0 or d; 256 elements a block.

Layouts: TQ1_0 ``[48 bytes of five digits][4 of four][f16 d]``, TQ2_0 ``[64 of four 2-bit
codes][f16 d]``. A digit of base three is what multiplying a byte by a power of three, modulo
256, leaves in its top: ``(byte * 3**k mod 256) * 3 >> 8``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from parity.checkpoints.blocks.decoder import (
    Mistake,
    identity,
    list_neighbour_mistakes,
    make_decoder,
    make_mistake,
    read_f16,
)
from parity.checkpoints.blocks.k_quants import read_bit_pairs
from parity.checkpoints.gguf_types import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from parity.checkpoints.blocks.decoder import Blocks, Codes, Floats, Pick

_UP, _DOWN = (0, 2, 4, 6), (6, 4, 2, 0)
#: Of TQ1_0's runs: first byte, bytes, digits of each byte.
_RUNS = ((0, 32, 5), (32, 16, 5), (48, 4, 4))


def _read_scale(raw: Blocks, *, at: int, pick: Pick = identity) -> Floats:
    return read_f16(pick(raw), at)


def _decode_digits(
    raw: Blocks, at: int, width: int, count: int, *, reverse: bool, sequential: bool
) -> NDArray[np.uint8]:
    """Decode the digits of a run: digit k of byte i is element ``width * k + i``."""
    powers = 3 ** np.arange(count, dtype=np.uint16)[:, None]
    if reverse:
        powers = powers[::-1]
    run = raw[:, None, at : at + width].astype(np.uint16) * powers & 255
    found = (run * 3 >> 8).astype(np.uint8)
    return (found.transpose(0, 2, 1) if sequential else found).reshape(len(raw), -1)


def _read_tq1_codes(
    raw: Blocks, *, zero: int = 1, reverse: bool = False, sequential: bool = False
) -> Codes:
    parts = [_decode_digits(raw, *run, reverse=reverse, sequential=sequential) for run in _RUNS]
    return np.concatenate(parts, axis=1).astype(np.int16) - np.int16(zero)


def _read_tq2_codes(
    raw: Blocks, *, zero: int = 1, reverse: bool = False, sequential: bool = False
) -> Codes:
    found = read_bit_pairs(raw, 0, shifts=_DOWN if reverse else _UP, sequential=sequential)
    return found.astype(np.int16) - np.int16(zero)


_READERS: dict[str, Callable[..., Codes]] = {"TQ1_0": _read_tq1_codes, "TQ2_0": _read_tq2_codes}
DECODERS = {
    kind: make_decoder(kind, partial(_read_scale, at=BY_NAME[kind].scale_offsets[0]), codes)
    for kind, codes in _READERS.items()
}


def list_mistakes(kind: str) -> tuple[Mistake, ...]:
    """List the wrong decoders of a type."""
    right, codes = DECODERS[kind], _READERS[kind]
    found = [
        make_mistake(
            right,
            "codes-sequential",
            "the codes of a byte were read as neighbours",
            codes=partial(codes, sequential=True),
        ),
        make_mistake(
            right,
            "codes-reversed",
            "the codes of a byte were read in the reverse order",
            codes=partial(codes, reverse=True),
        ),
        make_mistake(
            right,
            "codes-unsigned",
            "the zero point 1 was not subtracted from the codes",
            codes=partial(codes, zero=0),
        ),
    ]
    return (*found, *list_neighbour_mistakes(right, right.scales))
