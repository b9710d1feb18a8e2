"""Checkpoints of torch that its writer of today does not make, or not the same way twice."""

from __future__ import annotations

import io
import struct
import tarfile
from typing import TYPE_CHECKING

from parity.pins.zoo import pickles
from parity.pins.zoo.entry import Entry, dyadic, value_of
from parity.pins.zoo.pickles import (
    archive,
    integer,
    mapping,
    tensor,
    text,
    tup,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parity.pins.zoo.entry import Value

_LEGACY = "torch.serialization._legacy_load: five pickles, then the storages"
_TORCH = "torch.serialization, read back by torch.load"
_OPCODES = "CPython Lib/pickletools.py"
_ZIP = "PKWARE APPNOTE"


def six(name: str) -> bytes:
    """Six f32 as a storage's bytes."""
    return dyadic(name, 6).tobytes()


def right(name: str) -> Mapping[str, Value]:
    """What the tensor ``w`` [2, 3] on ``six(name)`` holds."""
    return {"w": value_of(dyadic(name, 6).reshape(2, 3), "F32")}


def one(
    name: str, value: bytes | None = None, records: Mapping[str, bytes | None] | None = None
) -> bytes:
    """An archive with the tensor ``w`` [2, 3]; ``value`` is its pickle's inside."""
    pickle = whole(value or mapping(("w", tensor())))
    return archive(pickle, {"0": six(name)}, records=records)


def entries() -> list[Entry]:
    """The cases, in the order of the page."""
    return [*_legacy(), *_records()]


def _legacy() -> list[Entry]:
    views = mapping(
        ("w", tensor(pickles.legacy_storage("0", 6))),
        (
            "v",
            tensor(pickles.legacy_storage("0", 6), offset=integer(1), size=[2, 2], stride=[1, 3]),
        ),
    )
    mixed = mapping(
        ("w", tensor(pickles.legacy_storage("0", 6))),
        ("h", tensor(pickles.legacy_storage("1", 4, "HalfStorage"), size=[4], stride=[1])),
        ("d", tensor(pickles.legacy_storage("2", 3, "DoubleStorage"), size=[3], stride=[1])),
    )
    halves = dyadic("legacy half", 4, most=255).astype("<f2").tobytes()
    doubles = (dyadic("legacy double", 3).astype("<f8") + 2.0**-40).tobytes()
    plain = mapping(("w", tensor(pickles.legacy_storage("0", 6))))
    storages = {"0": (6, six("legacy mixed")), "1": (4, halves), "2": (3, doubles)}
    return [
        case(
            "y-legacy",
            pickles.legacy(plain, {"0": (6, six("legacy"))}),
            "the container before torch 1.6, one storage",
            _LEGACY,
        ),
        case(
            "y-legacy-views",
            pickles.legacy(views, {"0": (6, six("legacy views"))}),
            "two tensors on one storage of the legacy container",
            _LEGACY,
        ),
        case(
            "y-legacy-dtypes",
            pickles.legacy(mixed, storages),
            "storages of three dtypes: each count is of elements, not bytes",
            _LEGACY,
        ),
        case(
            "i-tar",
            _tar(),
            "the container before torch 0.1.10: a tar",
            "torch.serialization.legacy_load, which refuses weights_only",
            values=right("tar"),
        ),
    ]


def case(
    name: str, content: bytes, why: str, rule: str, values: Mapping[str, Value] | None = None
) -> Entry:
    """A case whose id begins with ``pth-``."""
    return Entry(id=f"pth-{name}", content=content, why=why, rule=rule, values=values)


def _tar() -> bytes:
    """Members sys_info, storages, tensors, pickle; each storage and tensor after its own pickle."""
    floats = pickles.glob("torch", "FloatStorage")
    described = whole(tup(integer(0), text("cpu"), floats))
    storages = whole(integer(1)) + described + struct.pack("<q", 6) + six("tar") + whole(b"]")
    view = whole(tup(integer(7), integer(0), pickles.glob("torch", "FloatTensor")))
    shape = struct.pack("<ii2q2qq", 2, 0, 2, 3, 3, 1, 0)
    members = {
        "sys_info": whole(pickles.SYSTEM),
        "pickle": whole(mapping(("w", integer(7) + pickles.PERSID))),
        "tensors": whole(integer(1)) + view + shape,
        "storages": storages,
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, raw in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            tar.addfile(info, io.BytesIO(raw))
    return buffer.getvalue()


def _records() -> list[Entry]:
    swapped = dyadic("big", 6).astype(">f4").tobytes()
    wide = archive(whole(mapping(("w", tensor()))), {"0": swapped}, records={"byteorder": b"big"})
    members = [
        ("my model/data.pkl", whole(mapping(("w", tensor())))),
        ("my model/data/0", six("prefix")),
    ]
    return [
        case(
            "y-big-endian",
            wide,
            "storages stored most significant byte first, as the record byteorder says",
            _TORCH,
            right("big"),
        ),
        case(
            "y-no-byteorder",
            one("no order", records={"byteorder": None}),
            "no record byteorder, as before torch 2.1: little-endian",
            _TORCH,
            right("no order"),
        ),
        case(
            "y-prefix",
            pickles.zipped([*members, ("my model/version", b"3\n")]),
            "members below another folder, which torch names after the file",
            _TORCH,
            right("prefix"),
        ),
        case(
            "y-extra-record",
            one("extra", records={"extra/note": b"hello"}),
            "a member that torch does not need",
            _TORCH,
            right("extra"),
        ),
    ]
