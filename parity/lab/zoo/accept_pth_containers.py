"""Checkpoints of torch that its writer of today does not make, or not the same way twice."""

from __future__ import annotations

import io
import struct
import tarfile
from typing import TYPE_CHECKING

from parity.lab.zoo import pth_builder
from parity.lab.zoo.case import ZooCase, draw_dyadic, make_expected
from parity.lab.zoo.pth_builder import (
    build_archive,
    build_pickle,
    push_dict,
    push_int,
    push_tensor,
    push_text,
    push_tuple,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parity.lab.zoo.case import ExpectedTensor

_LEGACY = "torch.serialization._legacy_load: five pickles, then the storages"
_TORCH = "torch.serialization, read back by torch.load"
_OPCODES = "CPython Lib/pickletools.py"
_ZIP = "PKWARE APPNOTE"


def six(name: str) -> bytes:
    """Six f32 as a storage's bytes."""
    return draw_dyadic(name, 6).tobytes()


def right(name: str) -> Mapping[str, ExpectedTensor]:
    """What the tensor ``w`` [2, 3] on ``six(name)`` holds."""
    return {"w": make_expected(draw_dyadic(name, 6).reshape(2, 3), "F32")}


def one(
    name: str, value: bytes | None = None, records: Mapping[str, bytes | None] | None = None
) -> bytes:
    """An archive with the tensor ``w`` [2, 3]; ``value`` is its pickle's inside."""
    pickle = build_pickle(value or push_dict(("w", push_tensor())))
    return build_archive(pickle, {"0": six(name)}, records=records)


def entries() -> list[ZooCase]:
    """The cases, in the order of the page."""
    return [*_legacy(), *_records()]


def _legacy() -> list[ZooCase]:
    views = push_dict(
        ("w", push_tensor(pth_builder.push_legacy_storage("0", 6))),
        (
            "v",
            push_tensor(
                pth_builder.push_legacy_storage("0", 6),
                offset=push_int(1),
                size=[2, 2],
                stride=[1, 3],
            ),
        ),
    )
    mixed = push_dict(
        ("w", push_tensor(pth_builder.push_legacy_storage("0", 6))),
        (
            "h",
            push_tensor(
                pth_builder.push_legacy_storage("1", 4, "HalfStorage"), size=[4], stride=[1]
            ),
        ),
        (
            "d",
            push_tensor(
                pth_builder.push_legacy_storage("2", 3, "DoubleStorage"), size=[3], stride=[1]
            ),
        ),
    )
    halves = draw_dyadic("legacy half", 4, most=255).astype("<f2").tobytes()
    doubles = (draw_dyadic("legacy double", 3).astype("<f8") + 2.0**-40).tobytes()
    plain = push_dict(("w", push_tensor(pth_builder.push_legacy_storage("0", 6))))
    storages = {"0": (6, six("legacy mixed")), "1": (4, halves), "2": (3, doubles)}
    return [
        make_case(
            "y-legacy",
            pth_builder.build_legacy(plain, {"0": (6, six("legacy"))}),
            "the container before torch 1.6, one storage",
            _LEGACY,
        ),
        make_case(
            "y-legacy-views",
            pth_builder.build_legacy(views, {"0": (6, six("legacy views"))}),
            "two tensors on one storage of the legacy container",
            _LEGACY,
        ),
        make_case(
            "y-legacy-dtypes",
            pth_builder.build_legacy(mixed, storages),
            "storages of three dtypes: each count is of elements, not bytes",
            _LEGACY,
        ),
        make_case(
            "i-tar",
            _tar(),
            "the container before torch 0.1.10: a tar",
            "torch.serialization.legacy_load, which refuses weights_only",
            values=right("tar"),
        ),
    ]


def make_case(
    name: str,
    content: bytes,
    why: str,
    rule: str,
    values: Mapping[str, ExpectedTensor] | None = None,
) -> ZooCase:
    """A case whose id begins with ``pth-``."""
    return ZooCase(id=f"pth-{name}", content=content, why=why, rule=rule, values=values)


def _tar() -> bytes:
    """Members sys_info, storages, tensors, pickle; each storage and tensor after its own pickle."""
    floats = pth_builder.push_global("torch", "FloatStorage")
    described = build_pickle(push_tuple(push_int(0), push_text("cpu"), floats))
    storages = (
        build_pickle(push_int(1))
        + described
        + struct.pack("<q", 6)
        + six("tar")
        + build_pickle(b"]")
    )
    view = build_pickle(
        push_tuple(push_int(7), push_int(0), pth_builder.push_global("torch", "FloatTensor"))
    )
    shape = struct.pack("<ii2q2qq", 2, 0, 2, 3, 3, 1, 0)
    members = {
        "sys_info": build_pickle(pth_builder.SYSTEM),
        "pickle": build_pickle(push_dict(("w", push_int(7) + pth_builder.PERSID))),
        "tensors": build_pickle(push_int(1)) + view + shape,
        "storages": storages,
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, raw in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            tar.addfile(info, io.BytesIO(raw))
    return buffer.getvalue()


def _records() -> list[ZooCase]:
    swapped = draw_dyadic("big", 6).astype(">f4").tobytes()
    wide = build_archive(
        build_pickle(push_dict(("w", push_tensor()))), {"0": swapped}, records={"byteorder": b"big"}
    )
    members = [
        ("my model/data.pkl", build_pickle(push_dict(("w", push_tensor())))),
        ("my model/data/0", six("prefix")),
    ]
    return [
        make_case(
            "y-big-endian",
            wide,
            "storages stored most significant byte first, as the record byteorder says",
            _TORCH,
            right("big"),
        ),
        make_case(
            "y-no-byteorder",
            one("no order", records={"byteorder": None}),
            "no record byteorder, as before torch 2.1: little-endian",
            _TORCH,
            right("no order"),
        ),
        make_case(
            "y-prefix",
            pth_builder.build_zip([*members, ("my model/version", b"3\n")]),
            "members below another folder, which torch names after the file",
            _TORCH,
            right("prefix"),
        ),
        make_case(
            "y-extra-record",
            one("extra", records={"extra/note": b"hello"}),
            "a member that torch does not need",
            _TORCH,
            right("extra"),
        ),
    ]
