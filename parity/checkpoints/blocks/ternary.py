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
    list_mistakes_of,
    list_neighbour_mistakes,
    make_decoder,
    read_f16,
    vary,
)
from parity.checkpoints.blocks.k_decoders import DOWN, UP, read_bit_pairs
from parity.checkpoints.gguf_types import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from parity.checkpoints.blocks.decoder import Blocks, Codes, Rows

#: Of TQ1_0's runs: first byte, bytes, digits of each byte.
_RUNS = ((0, 32, 5), (32, 16, 5), (48, 4, 4))


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
    found = read_bit_pairs(raw, 0, shifts=DOWN if reverse else UP, sequential=sequential)
    return found.astype(np.int16) - np.int16(zero)


_READERS: dict[str, Callable[..., Codes]] = {"TQ1_0": _read_tq1_codes, "TQ2_0": _read_tq2_codes}
DECODERS = {
    kind: make_decoder(kind, partial(read_f16, at=BY_NAME[kind].scale_offsets[0]), codes)
    for kind, codes in _READERS.items()
}
_WRONG_CODES: Rows = {
    "codes-sequential": vary("the codes of a byte were read as neighbours", sequential=True),
    "codes-reversed": vary("the codes of a byte were read in the reverse order", reverse=True),
    "codes-unsigned": vary("the zero point 1 was not subtracted from the codes", zero=0),
}


def list_mistakes(kind: str) -> tuple[Mistake, ...]:
    """List the wrong decoders of a type."""
    right = DECODERS[kind]
    return (*list_mistakes_of(right, "codes", _WRONG_CODES), *list_neighbour_mistakes(right))
