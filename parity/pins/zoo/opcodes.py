"""Pickles that torch reads and does not write today, and zips of other makers."""

from __future__ import annotations

import io
import zipfile

from parity.pins.zoo import pickles
from parity.pins.zoo.containers import case, one, right, six
from parity.pins.zoo.entry import Entry, dyadic
from parity.pins.zoo.pickles import (
    archive,
    integer,
    long1,
    mapping,
    storage,
    tensor,
    text,
    tup,
    whole,
)

_LEGACY = "torch.serialization._legacy_load: five pickles, then the storages"
_TORCH = "torch.serialization, read back by torch.load"
_OPCODES = "CPython Lib/pickletools.py"
_ZIP = "PKWARE APPNOTE"


def entries() -> list[Entry]:
    """The cases, in the order of the page."""
    return [*_opcodes(), *_zips()]


def _opcodes() -> list[Entry]:
    far = tensor(size=[1, 6], stride=[70_000, 1])
    long = tensor(size=[1, 6], stride=[2**40, 1])
    medium = tensor(storage("0", 300), offset=integer(260))
    enough = dyadic("two bytes", 300).tobytes()
    memo = pickles.EMPTY_DICT + b"q\x00" + text("w") + tensor() + pickles.SETITEM
    memo += pickles.MARK + text("v") + b"q\x09" + tensor(storage() + b"r\x00\x01\x00\x00")
    memo += text("u") + tensor(b"j\x00\x01\x00\x00") + pickles.SETITEMS
    old = tensor().replace(text("storage"), b"U\x07storage").replace(text("0"), b"U\x010")
    return [
        case(
            "y-binint1",
            one("binint1", mapping(("w", tensor(offset=integer(1), size=[5], stride=[1])))),
            "numbers of one byte: BININT1",
            _OPCODES,
        ),
        case(
            "y-binint2",
            archive(whole(mapping(("w", medium))), {"0": enough}),
            "numbers of two bytes without a sign: BININT2",
            _OPCODES,
        ),
        case(
            "y-binint",
            one("binint", mapping(("w", far))),
            "a number of four bytes: BININT, the stride of a dimension of one element",
            _OPCODES,
        ),
        case(
            "y-long1", one("long1", mapping(("w", long))), "a number of six bytes: LONG1", _OPCODES
        ),
        case(
            "y-long1-small",
            one("long1 small", mapping(("w", tensor(offset=long1(1), size=[2, 2], stride=[2, 1])))),
            "a small number as LONG1, as Python 2 wrote it",
            _OPCODES,
        ),
        case(
            "y-setitem",
            one("setitem", memo),
            "SETITEM beside SETITEMS, one storage from the memo by LONG_BINGET",
            _OPCODES,
        ),
        case(
            "y-string",
            one("string", mapping(("w", old))),
            "strings of Python 2: SHORT_BINSTRING",
            _OPCODES,
        ),
        case(
            "i-after-stop",
            one("after", records={"data.pkl": whole(mapping(("w", tensor()))) + b"more"}),
            "bytes after the pickle's STOP",
            "the format is silent",
            right("after"),
        ),
        case(
            "i-memo-bomb",
            one("bomb", _bomb()),
            "thirty lists, each twice in the next: 2^30 paths to nothing",
            "the format is silent; a walk must not take them all",
            right("bomb"),
        ),
        case(
            "i-self-reference",
            one("self", _selfish()),
            "a dict that holds itself",
            "CPython Lib/pickletools.py: the memo allows it",
            right("self"),
        ),
    ]


def _bomb() -> bytes:
    """Each list holds the one before it twice, from the memo."""
    lists = [pickles.EMPTY_LIST + b"q\x01"]
    for level in range(1, 31):
        twice = b"h" + bytes([level])
        lists.append(
            pickles.EMPTY_LIST + b"q" + bytes([level + 1]) + pickles.MARK + 2 * twice + b"e"
        )
    return mapping(("w", tensor()), ("nothing", tup(*lists)))


def _selfish() -> bytes:
    return (
        pickles.EMPTY_DICT
        + b"q\x01"
        + pickles.MARK
        + text("w")
        + tensor()
        + text("me")
        + b"h\x01"
        + pickles.SETITEMS
    )


def _zips() -> list[Entry]:
    members = [("archive/data.pkl", whole(mapping(("w", tensor())))), ("archive/version", b"3\n")]

    def zipped(name: str, **options: int | bytes) -> bytes:
        return pickles.zipped([*members, ("archive/data/0", six(name))], **options)  # type: ignore[arg-type]

    return [
        case(
            "i-deflated",
            zipped("deflated", method=zipfile.ZIP_DEFLATED),
            "deflated members, which torch never writes",
            f"{_ZIP} 4.4.5; torch stores",
            right("deflated"),
        ),
        case(
            "i-zip-comment",
            zipped("comment", comment=b"made elsewhere"),
            "a comment after the zip's directory",
            f"{_ZIP} 4.3.16",
            right("comment"),
        ),
        case(
            "i-zip64",
            _zip64("zip64"),
            "zip64 extra fields in the local headers of a small file",
            f"{_ZIP} 4.5.3",
            right("zip64"),
        ),
        case(
            "i-zip-prepended",
            b"#!/bin/sh\n" + zipped("prepended"),
            "bytes before the zip, as a self-extracting archive has them",
            "the format is silent",
            right("prepended"),
        ),
    ]


def _zip64(name: str) -> bytes:
    buffer = io.BytesIO()
    members = {"data.pkl": whole(mapping(("w", tensor()))), "version": b"3\n", "data/0": six(name)}
    with zipfile.ZipFile(buffer, "w") as file:
        for member, raw in members.items():
            info = zipfile.ZipInfo(f"archive/{member}", (1980, 1, 1, 0, 0, 0))
            info.create_system = 0
            with file.open(info, "w", force_zip64=True) as target:
                target.write(raw)
    return buffer.getvalue()
