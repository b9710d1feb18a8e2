"""Checkpoints of torch that must be refused: what is wrong in storages and views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.lab.zoo.accept_pth_containers import one, six
from parity.lab.zoo.pth_builder import (
    FALSE,
    ORDERED_DICT,
    PERSID,
    REDUCE,
    build_archive,
    build_pickle,
    push_dict,
    push_global,
    push_int,
    push_ints,
    push_storage,
    push_tensor,
    push_text,
    push_tuple,
)
from parity.lab.zoo.reject_pth import make_case

if TYPE_CHECKING:
    from collections.abc import Iterable

    from parity.lab.zoo.case import ZooCase

_TORCH = "torch.load refuses, with and without weights_only"
_OPCODES = "CPython Lib/pickletools.py"
#: Levels that overflow a stack of 8 MiB in a reader that calls itself at each.
DEEP = 100_000
#: What the hostile pickle would leave behind.
MARKER = "zoo-marker"


def entries() -> list[ZooCase]:
    """The cases, in the order of the page."""
    return [*_persistent(), *_storages(), *_views()]


def _pid(*parts: bytes) -> bytes:
    return push_dict(("w", push_tensor(push_tuple(*parts) + PERSID)))


def _persistent() -> list[ZooCase]:
    floats, place = push_global("torch", "FloatStorage"), push_text("cpu")
    store = push_text("storage")
    return [
        make_case(
            "pid-short",
            one("short id", _pid(store, floats, push_text("0"))),
            "a persistent id of three parts, not five",
        ),
        make_case(
            "pid-tag",
            one("tag", _pid(push_text("module"), floats, push_text("0"), place, push_int(6))),
            "a persistent id that is no storage's",
        ),
        make_case(
            "pid-class",
            one(
                "class",
                _pid(
                    store,
                    push_global("collections", "OrderedDict"),
                    push_text("0"),
                    place,
                    push_int(6),
                ),
            ),
            "a persistent id whose class is no storage",
        ),
        make_case(
            "pid-text",
            one("text id", push_dict(("w", push_tensor(push_text("storage 0") + PERSID)))),
            "a persistent id that is text",
        ),
        make_case(
            "storage-unknown",
            one("kind", push_dict(("w", push_tensor(push_storage(kind="QuarterStorage"))))),
            "a storage class that torch does not have",
        ),
    ]


def _stored(name: str, length: int, raw: bytes | None = None, **view: Iterable[int]) -> bytes:
    value = push_dict(("w", push_tensor(push_storage("0", length), **view)))  # type: ignore[arg-type]
    return build_archive(build_pickle(value), {} if raw == b"" else {"0": raw or six(name)})


def _storages() -> list[ZooCase]:
    return [
        make_case(
            "storage-missing", _stored("missing", 6, b""), "a storage that is not in the archive"
        ),
        make_case(
            "storage-cut",
            _stored("cut storage", 6, six("cut storage")[:16]),
            "a storage shorter than its declared length: 16 of 24 bytes",
        ),
        make_case(
            "storage-2-31",
            _stored("s231", 2**31),
            "a storage of 2^31 declared elements in 24 bytes",
        ),
        make_case(
            "storage-2-60",
            _stored("s260", 2**60),
            "a storage of 2^60 declared elements, whose bytes still fit 63 bits",
        ),
        make_case(
            "storage-2-63",
            _stored("s263", 2**63),
            "a storage of 2^63 declared elements, which no int64 holds",
        ),
        make_case("storage-negative", _stored("negative", -6), "a storage of a negative length"),
        make_case(
            "storage-zero",
            _stored("zero", 0, six("zero")),
            "a storage declared empty under a tensor of six",
        ),
        make_case(
            "storage-length-text",
            one(
                "length",
                _pid(
                    push_text("storage"),
                    push_global("torch", "FloatStorage"),
                    push_text("0"),
                    push_text("cpu"),
                    push_text("6"),
                ),
            ),
            "a storage's length as text",
        ),
    ]


def _views() -> list[ZooCase]:
    def view(name: str, offset: int = 0, **more: Iterable[int]) -> bytes:
        return one(name, push_dict(("w", push_tensor(offset=push_int(offset), **more))))  # type: ignore[arg-type]

    huge = [2**32, 2**32]
    fewer = (
        push_global("torch._utils", "_rebuild_tensor_v2")
        + push_tuple(push_storage(), push_int(0))
        + REDUCE
    )
    words = push_tuple(
        push_storage(),
        push_int(0),
        push_tuple(push_text("2"), push_text("3")),
        push_ints([3, 1]),
        FALSE,
        ORDERED_DICT,
    )
    worded = push_global("torch._utils", "_rebuild_tensor_v2") + words + REDUCE
    return [
        make_case("size-past-end", view("past", size=[3, 3]), "nine elements on a storage of six"),
        make_case(
            "offset-past-end", view("offset", 5), "an offset that leaves one element for six"
        ),
        make_case("offset-negative", view("minus", -1), "a negative offset"),
        make_case(
            "offset-2-63", view("o63", 2**63 - 1), "an offset that overflows when the view is added"
        ),
        make_case(
            "stride-past-end",
            view("stride", stride=[4, 1]),
            "a stride that reaches past the storage",
        ),
        make_case("stride-negative", view("backward", 5, stride=[-3, -1]), "negative strides"),
        make_case(
            "stride-2-62",
            view("wrap", size=[3, 2], stride=[2**62, 1]),
            "a stride whose product wraps around",
        ),
        make_case("size-negative", view("below", size=[-2, 3]), "a negative size"),
        make_case(
            "size-2-31",
            view("s31v", size=[2**31, 1], stride=[1, 1]),
            "2^31 elements on a storage of six",
        ),
        make_case(
            "size-product",
            view("prod", size=huge, stride=[2**32, 1]),
            "sizes whose product is 2^64, zero in 64 bits",
        ),
        make_case("stride-count", view("count", stride=[1]), "two sizes and one stride"),
        make_case(
            "too-few-arguments",
            one("few", push_dict(("w", fewer))),
            "a tensor rebuilt from a storage and an offset alone",
        ),
        make_case("size-text", one("words", push_dict(("w", worded))), "sizes that are text"),
    ]
