"""GGUF files that must be refused: what is wrong in a tensor's info."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from parity.lab.zoo import gguf_blocks
from parity.lab.zoo.accept_gguf import f32, quantised
from parity.lab.zoo.gguf_builder import GgufFile, TensorInfo
from parity.lab.zoo.reject_gguf import make_case, plain

if TYPE_CHECKING:
    from parity.lab.zoo.case import ZooCase

_DOC = "ggml docs/gguf.md"
_READER = "gguf-py refuses"
_F32 = 0
#: Levels that overflow a stack of 8 MiB in a reader that calls itself at each: 600 kB.
DEEP = 50_000


def entries() -> list[ZooCase]:
    """The cases, in the order of the page."""
    return [*_infos(), *_offsets(), *_names()]


def _info(name: str, dims: tuple[int, ...] = (3, 2), **more: Any) -> GgufFile:
    given = {"kind": _F32, "data": plain(name).data, **more}
    return GgufFile(tensors=(TensorInfo(name="w", dims=dims, **given),))


def _infos() -> list[ZooCase]:
    odd = quantised("w", "Q4_0", 2)
    short = quantised("w", "Q4_K", 2)
    return [
        make_case("dims-2-31", _info("ndim", ndim=2**31), "2^31 dimensions"),
        make_case(
            "dims-missing",
            _info("three", ndim=3, kind=30),
            "three dimensions where two stand: what follows is read as the third",
        ),
        make_case("dim-2-31", _info("d31", (2**31, 2)), "a dimension of 2^31"),
        make_case(
            "dim-2-63", _info("d63", (2**63, 1)), "a dimension of 2^63: a negative number to some"
        ),
        make_case(
            "dim-minus-3", _info("dm", (2**64 - 3, 2)), "a dimension of -3, as two's complement"
        ),
        make_case(
            "product-2-64",
            _info("p64", (2**32, 2**32)),
            "dimensions whose product is 2^64, zero in 64 bits",
            f"{_DOC}: the data has all elements",
            document=True,
        ),
        make_case(
            "product-wraps",
            _info("pw", (2**62 + 6,)),
            "a count whose bytes wrap around to the right length",
        ),
        make_case("one-more-row", _info("row", (3, 3)), "a row more than there is data"),
        make_case("type-99", _info("t99", kind=99), "a type that is not defined"),
        make_case(
            "type-removed",
            _info("t4", kind=4),
            "a type that was removed: 4, once Q4_2",
            f"{_DOC}: ggml_type",
        ),
        make_case("type-2-31", _info("t31", kind=2**31), "a type with its highest bit set"),
        make_case(
            "row-of-33",
            _info("r33", (33, 1), kind=odd.kind, data=odd.data),
            "a row of 33 elements of a type whose blocks hold 32",
        ),
        make_case(
            "row-of-128",
            _info("r128", (128, 4), kind=short.kind, data=short.data),
            "rows of half a block, whose sum is whole blocks",
        ),
        make_case(
            "cut-block",
            _info(
                "cut",
                (96, 1),
                kind=gguf_blocks.find_type_code("Q8_0"),
                data=gguf_blocks.build_blocks("Q8_0", 2, "cut"),
            ),
            "three blocks of which two are there",
        ),
    ]


def _offsets() -> list[ZooCase]:
    return [
        make_case("offset-past-end", _moved(4096), "an offset beyond the file"),
        make_case("offset-at-end", _moved(32), "an offset at the file's end"),
        make_case("offset-2-63", _moved(2**63), "an offset of 2^63"),
        make_case(
            "offset-minus-32",
            _moved(2**64 - 32),
            "an offset that wraps around when the data's start is added",
            f"{_DOC}: tensor_data holds every tensor",
            document=True,
        ),
        make_case(
            "offset-misaligned",
            _info("mis", offset=12),
            "an offset that is no multiple of the alignment",
            f"{_DOC}: must be a multiple of ALIGNMENT",
            document=True,
        ),
    ]


def _moved(offset: int) -> GgufFile | bytes:
    """A good file whose tensor's offset is set afterwards."""
    good = GgufFile(tensors=(plain(f"o{offset}"),))
    head, content = good.build_head(), good.build()
    return head[:-8] + struct.pack("<Q", offset) + content[len(head) :]


def _names() -> list[ZooCase]:
    again = (plain("again"), f32("w", 3, 2, seed="n again 2"))
    raw = TensorInfo(name=b"w\xff", dims=(3,), kind=_F32, data=plain("raw").data[:12])
    longer = _longer(2**31)
    wide = TensorInfo(name="w" * 65, dims=(3,), kind=_F32, data=plain("wide").data[:12])
    return [
        make_case("name-twice", GgufFile(tensors=again), "two tensors of one name"),
        make_case("name-not-utf8", GgufFile(tensors=(raw,)), "a tensor's name that is not UTF-8"),
        make_case("name-2-31", longer, "a tensor's name of 2^31 bytes"),
        make_case("name-2-63", _longer(2**63), "a tensor's name of 2^63 bytes"),
        make_case(
            "name-65",
            GgufFile(tensors=(wide,)),
            "a tensor's name of 65 bytes",
            f"{_DOC}: at most 64 bytes",
            document=True,
        ),
    ]


def _longer(length: int) -> bytes:
    content = GgufFile(tensors=(plain(f"l{length}"),)).build()
    return content[:24] + struct.pack("<Q", length) + content[32:]
