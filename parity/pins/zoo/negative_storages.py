"""Checkpoints of torch that must be refused: what is wrong in storages and views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.pins.zoo.containers import one, six
from parity.pins.zoo.negative_pth import case
from parity.pins.zoo.pickles import (
    FALSE,
    ORDERED_DICT,
    PERSID,
    REDUCE,
    archive,
    counts,
    glob,
    integer,
    mapping,
    storage,
    tensor,
    text,
    tup,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parity.pins.zoo.entry import Entry

_TORCH = "torch.load refuses, with and without weights_only"
_OPCODES = "CPython Lib/pickletools.py"
#: Levels that overflow a stack of 8 MiB in a reader that calls itself at each.
DEEP = 100_000
#: What the hostile pickle would leave behind.
MARKER = "zoo-marker"


def entries() -> list[Entry]:
    """The cases, in the order of the page."""
    return [*_persistent(), *_storages(), *_views()]


def _pid(*parts: bytes) -> bytes:
    return mapping(("w", tensor(tup(*parts) + PERSID)))


def _persistent() -> list[Entry]:
    floats, place = glob("torch", "FloatStorage"), text("cpu")
    store = text("storage")
    return [
        case(
            "pid-short",
            one("short id", _pid(store, floats, text("0"))),
            "a persistent id of three parts, not five",
        ),
        case(
            "pid-tag",
            one("tag", _pid(text("module"), floats, text("0"), place, integer(6))),
            "a persistent id that is no storage's",
        ),
        case(
            "pid-class",
            one(
                "class",
                _pid(store, glob("collections", "OrderedDict"), text("0"), place, integer(6)),
            ),
            "a persistent id whose class is no storage",
        ),
        case(
            "pid-text",
            one("text id", mapping(("w", tensor(text("storage 0") + PERSID)))),
            "a persistent id that is text",
        ),
        case(
            "storage-unknown",
            one("kind", mapping(("w", tensor(storage(kind="QuarterStorage"))))),
            "a storage class that torch does not have",
        ),
    ]


def _stored(name: str, length: int, raw: bytes | None = None, **view: Iterable[int]) -> bytes:
    value = mapping(("w", tensor(storage("0", length), **view)))  # type: ignore[arg-type]
    return archive(whole(value), {} if raw == b"" else {"0": raw or six(name)})


def _storages() -> list[Entry]:
    return [
        case("storage-missing", _stored("missing", 6, b""), "a storage that is not in the archive"),
        case(
            "storage-cut",
            _stored("cut storage", 6, six("cut storage")[:16]),
            "a storage shorter than its declared length: 16 of 24 bytes",
        ),
        case(
            "storage-2-31",
            _stored("s231", 2**31),
            "a storage of 2^31 declared elements in 24 bytes",
        ),
        case(
            "storage-2-60",
            _stored("s260", 2**60),
            "a storage of 2^60 declared elements, whose bytes still fit 63 bits",
        ),
        case(
            "storage-2-63",
            _stored("s263", 2**63),
            "a storage of 2^63 declared elements, which no int64 holds",
        ),
        case("storage-negative", _stored("negative", -6), "a storage of a negative length"),
        case(
            "storage-zero",
            _stored("zero", 0, six("zero")),
            "a storage declared empty under a tensor of six",
        ),
        case(
            "storage-length-text",
            one(
                "length",
                _pid(
                    text("storage"),
                    glob("torch", "FloatStorage"),
                    text("0"),
                    text("cpu"),
                    text("6"),
                ),
            ),
            "a storage's length as text",
        ),
    ]


def _views() -> list[Entry]:
    def view(name: str, offset: int = 0, **more: Iterable[int]) -> bytes:
        return one(name, mapping(("w", tensor(offset=integer(offset), **more))))  # type: ignore[arg-type]

    huge = [2**32, 2**32]
    fewer = glob("torch._utils", "_rebuild_tensor_v2") + tup(storage(), integer(0)) + REDUCE
    words = tup(
        storage(), integer(0), tup(text("2"), text("3")), counts([3, 1]), FALSE, ORDERED_DICT
    )
    worded = glob("torch._utils", "_rebuild_tensor_v2") + words + REDUCE
    return [
        case("size-past-end", view("past", size=[3, 3]), "nine elements on a storage of six"),
        case("offset-past-end", view("offset", 5), "an offset that leaves one element for six"),
        case("offset-negative", view("minus", -1), "a negative offset"),
        case(
            "offset-2-63", view("o63", 2**63 - 1), "an offset that overflows when the view is added"
        ),
        case(
            "stride-past-end",
            view("stride", stride=[4, 1]),
            "a stride that reaches past the storage",
        ),
        case("stride-negative", view("backward", 5, stride=[-3, -1]), "negative strides"),
        case(
            "stride-2-62",
            view("wrap", size=[3, 2], stride=[2**62, 1]),
            "a stride whose product wraps around",
        ),
        case("size-negative", view("below", size=[-2, 3]), "a negative size"),
        case(
            "size-2-31",
            view("s31v", size=[2**31, 1], stride=[1, 1]),
            "2^31 elements on a storage of six",
        ),
        case(
            "size-product",
            view("prod", size=huge, stride=[2**32, 1]),
            "sizes whose product is 2^64, zero in 64 bits",
        ),
        case("stride-count", view("count", stride=[1]), "two sizes and one stride"),
        case(
            "too-few-arguments",
            one("few", mapping(("w", fewer))),
            "a tensor rebuilt from a storage and an offset alone",
        ),
        case("size-text", one("words", mapping(("w", worded))), "sizes that are text"),
    ]
