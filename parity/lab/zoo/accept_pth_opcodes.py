"""Pickles that torch reads and does not write today, and zips of other makers."""

from __future__ import annotations

import io
import zipfile

from parity.lab.zoo import pth_builder
from parity.lab.zoo.accept_pth_containers import make_case, one, right, six
from parity.lab.zoo.case import ZooCase, draw_dyadic
from parity.lab.zoo.pth_builder import (
    build_archive,
    build_pickle,
    push_dict,
    push_int,
    push_long1,
    push_storage,
    push_tensor,
    push_text,
    push_tuple,
)

_LEGACY = "torch.serialization._legacy_load: five pickles, then the storages"
_TORCH = "torch.serialization, read back by torch.load"
_OPCODES = "CPython Lib/pickletools.py"
_ZIP = "PKWARE APPNOTE"


def entries() -> list[ZooCase]:
    """The cases, in the order of the page."""
    return [*_opcodes(), *_zips()]


def _opcodes() -> list[ZooCase]:
    far = push_tensor(size=[1, 6], stride=[70_000, 1])
    long = push_tensor(size=[1, 6], stride=[2**40, 1])
    medium = push_tensor(push_storage("0", 300), offset=push_int(260))
    enough = draw_dyadic("two bytes", 300).tobytes()
    memo = pth_builder.EMPTY_DICT + b"q\x00" + push_text("w") + push_tensor() + pth_builder.SETITEM
    memo += (
        pth_builder.MARK
        + push_text("v")
        + b"q\x09"
        + push_tensor(push_storage() + b"r\x00\x01\x00\x00")
    )
    memo += push_text("u") + push_tensor(b"j\x00\x01\x00\x00") + pth_builder.SETITEMS
    old = (
        push_tensor()
        .replace(push_text("storage"), b"U\x07storage")
        .replace(push_text("0"), b"U\x010")
    )
    return [
        make_case(
            "y-binint1",
            one("binint1", push_dict(("w", push_tensor(offset=push_int(1), size=[5], stride=[1])))),
            "numbers of one byte: BININT1",
            _OPCODES,
        ),
        make_case(
            "y-binint2",
            build_archive(build_pickle(push_dict(("w", medium))), {"0": enough}),
            "numbers of two bytes without a sign: BININT2",
            _OPCODES,
        ),
        make_case(
            "y-binint",
            one("binint", push_dict(("w", far))),
            "a number of four bytes: BININT, the stride of a dimension of one element",
            _OPCODES,
        ),
        make_case(
            "y-long1",
            one("long1", push_dict(("w", long))),
            "a number of six bytes: LONG1",
            _OPCODES,
        ),
        make_case(
            "y-long1-small",
            one(
                "long1 small",
                push_dict(("w", push_tensor(offset=push_long1(1), size=[2, 2], stride=[2, 1]))),
            ),
            "a small number as LONG1, as Python 2 wrote it",
            _OPCODES,
        ),
        make_case(
            "y-setitem",
            one("setitem", memo),
            "SETITEM beside SETITEMS, one storage from the memo by LONG_BINGET",
            _OPCODES,
        ),
        make_case(
            "y-string",
            one("string", push_dict(("w", old))),
            "strings of Python 2: SHORT_BINSTRING",
            _OPCODES,
        ),
        make_case(
            "i-after-stop",
            one(
                "after",
                records={"data.pkl": build_pickle(push_dict(("w", push_tensor()))) + b"more"},
            ),
            "bytes after the pickle's STOP",
            "the format is silent",
            right("after"),
        ),
        make_case(
            "i-memo-bomb",
            one("bomb", _bomb()),
            "thirty lists, each twice in the next: 2^30 paths to nothing",
            "the format is silent; a walk must not take them all",
            right("bomb"),
        ),
        make_case(
            "i-self-reference",
            one("self", _selfish()),
            "a dict that holds itself",
            "CPython Lib/pickletools.py: the memo allows it",
            right("self"),
        ),
    ]


def _bomb() -> bytes:
    """Each list holds the one before it twice, from the memo."""
    lists = [pth_builder.EMPTY_LIST + b"q\x01"]
    for level in range(1, 31):
        twice = b"h" + bytes([level])
        lists.append(
            pth_builder.EMPTY_LIST + b"q" + bytes([level + 1]) + pth_builder.MARK + 2 * twice + b"e"
        )
    return push_dict(("w", push_tensor()), ("nothing", push_tuple(*lists)))


def _selfish() -> bytes:
    return (
        pth_builder.EMPTY_DICT
        + b"q\x01"
        + pth_builder.MARK
        + push_text("w")
        + push_tensor()
        + push_text("me")
        + b"h\x01"
        + pth_builder.SETITEMS
    )


def _zips() -> list[ZooCase]:
    members = [
        ("archive/data.pkl", build_pickle(push_dict(("w", push_tensor())))),
        ("archive/version", b"3\n"),
    ]

    def zipped(name: str, **options: int | bytes) -> bytes:
        return pth_builder.build_zip([*members, ("archive/data/0", six(name))], **options)  # type: ignore[arg-type]

    return [
        make_case(
            "i-deflated",
            zipped("deflated", method=zipfile.ZIP_DEFLATED),
            "deflated members, which torch never writes",
            f"{_ZIP} 4.4.5; torch stores",
            right("deflated"),
        ),
        make_case(
            "i-zip-comment",
            zipped("comment", comment=b"made elsewhere"),
            "a comment after the zip's directory",
            f"{_ZIP} 4.3.16",
            right("comment"),
        ),
        make_case(
            "i-zip64",
            _zip64("zip64"),
            "zip64 extra fields in the local headers of a small file",
            f"{_ZIP} 4.5.3",
            right("zip64"),
        ),
        make_case(
            "i-zip-prepended",
            b"#!/bin/sh\n" + zipped("prepended"),
            "bytes before the zip, as a self-extracting archive has them",
            "the format is silent",
            right("prepended"),
        ),
    ]


def _zip64(name: str) -> bytes:
    buffer = io.BytesIO()
    members = {
        "data.pkl": build_pickle(push_dict(("w", push_tensor()))),
        "version": b"3\n",
        "data/0": six(name),
    }
    with zipfile.ZipFile(buffer, "w") as file:
        for member, raw in members.items():
            info = zipfile.ZipInfo(f"archive/{member}", (1980, 1, 1, 0, 0, 0))
            info.create_system = 0
            with file.open(info, "w", force_zip64=True) as target:
                target.write(raw)
    return buffer.getvalue()
