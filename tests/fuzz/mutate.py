"""A small mutator without coverage: for the tests, and where atheris does not install."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

#: Numbers at which readers of headers go wrong, in four and eight bytes.
EDGES = [
    (value % 2**bits).to_bytes(bits // 8, order)
    for value in (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**53 + 1, 2**63 - 1, -1)
    for bits in (32, 64)
    for order in ("little", "big")
]
WORDS = [b"\xed\xa0\x80", b"\\ud800", b"1e999", b"NaN", b"-0", b"[" * 200, b"null", b"\0", b"~"]
LONGEST = 1 << 14


def mutants(seeds: Sequence[bytes], seed: int) -> Iterator[bytes]:
    """Inputs near the seeds, without an end; the same ones for the same number."""
    random = Random(seed)  # noqa: S311 - nothing secret
    while True:
        data = bytearray(random.choice(seeds))
        for _ in range(random.choice((1, 1, 2, 4, 8))):
            _change(data, seeds, random)
        yield bytes(data[:LONGEST])


def _change(data: bytearray, seeds: Sequence[bytes], random: Random) -> None:
    at, other = random.randint(0, len(data)), random.choice(seeds)
    length = random.choice((1, 2, 4, 8, 64, 512))
    part = other[(start := random.randint(0, len(other))) : start + length]
    match random.randrange(6):
        case 0:
            data[at : at + 1] = bytes([random.randrange(256)])
        case 1:
            del data[at : at + length]
        case 2:
            data[at:at] = part
        case 3:
            data[at : at + len(part)] = part
        case 4:
            edge = random.choice(EDGES)
            data[at : at + len(edge)] = edge
        case _:
            data[at:at] = random.choice(WORDS)
