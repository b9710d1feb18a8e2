"""Checkpoints that torch reads and does not write today: containers, opcodes, zips of others."""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile

from parity.lab.zoo.case import draw_dyadic, make_rows
from parity.lab.zoo.pth_builder import (
    APPENDS,
    EMPTY_DICT,
    EMPTY_LIST,
    MARK,
    PERSID,
    REDUCE,
    SETITEM,
    SETITEMS,
    SYSTEM,
    build_archive,
    build_checkpoint,
    build_legacy,
    build_pickle,
    build_view,
    build_zip,
    draw_storage,
    expect_w,
    push_dict,
    push_global,
    push_int,
    push_ints,
    push_legacy_storage,
    push_long1,
    push_storage,
    push_tensor,
    push_text,
    push_tuple,
    push_w,
)

_LEGACY = "torch.serialization._legacy_load: five pickles, then the storages"
_TORCH = "torch.serialization, read back by torch.load"
_OPCODES = "CPython Lib/pickletools.py"
_ZIP = "PKWARE APPNOTE"
_SILENT = "the format is silent"


def _build_legacy_views() -> bytes:
    on = push_legacy_storage()
    second = push_tensor(on, offset=1, size=[2, 2], stride=[1, 3])
    value = push_dict(("w", push_tensor(on)), ("v", second))
    return build_legacy(value, {"0": (6, draw_storage("legacy views"))})


def _build_legacy_dtypes() -> bytes:
    halves = push_legacy_storage("1", 4, "HalfStorage")
    doubles = push_legacy_storage("2", 3, "DoubleStorage")
    value = push_dict(
        ("w", push_tensor(push_legacy_storage())),
        ("h", push_tensor(halves, size=[4], stride=[1])),
        ("d", push_tensor(doubles, size=[3], stride=[1])),
    )
    half = draw_dyadic("legacy half", 4, most=255).astype("<f2").tobytes()
    double = (draw_dyadic("legacy double", 3).astype("<f8") + 2.0**-40).tobytes()
    return build_legacy(
        value, {"0": (6, draw_storage("legacy mixed")), "1": (4, half), "2": (3, double)}
    )


def _build_tar() -> bytes:
    """Build sys_info, pickle, tensors, storages; each storage and tensor after its own pickle."""
    floats = push_global("torch", "FloatStorage")
    described = build_pickle(push_tuple(push_int(0), push_text("cpu"), floats))
    one = build_pickle(push_int(1))
    storages = one + described + struct.pack("<q", 6) + draw_storage("tar") + build_pickle(b"]")
    kind = push_global("torch", "FloatTensor")
    view = build_pickle(push_tuple(push_int(7), push_int(0), kind))
    shape = struct.pack("<ii2q2qq", 2, 0, 2, 3, 3, 1, 0)
    members = {
        "sys_info": build_pickle(SYSTEM),
        "pickle": build_pickle(push_dict(("w", push_int(7) + PERSID))),
        "tensors": one + view + shape,
        "storages": storages,
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, raw in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            tar.addfile(info, io.BytesIO(raw))
    return buffer.getvalue()


def _build_big_endian() -> bytes:
    swapped = draw_dyadic("big", 6).astype(">f4").tobytes()
    return build_archive(build_pickle(push_w()), {"0": swapped}, {"byteorder": b"big"})


def _build_prefix() -> bytes:
    pickle, raw = build_pickle(push_w()), draw_storage("prefix")
    members = {"data.pkl": pickle, "data/0": raw, "version": b"3\n"}
    return build_zip((f"my model/{name}", raw) for name, raw in members.items())


def _build_binint2() -> bytes:
    value = push_w(push_storage("0", 300), offset=260)
    return build_archive(build_pickle(value), {"0": draw_dyadic("two bytes", 300).tobytes()})


def _build_setitem() -> bytes:
    value = EMPTY_DICT + b"q\x00" + push_text("w") + push_tensor() + SETITEM
    value += MARK + push_text("v") + b"q\x09" + push_tensor(push_storage() + b"r\x00\x01\x00\x00")
    value += push_text("u") + push_tensor(b"j\x00\x01\x00\x00") + SETITEMS
    return build_checkpoint("setitem", value)


def _build_string() -> bytes:
    old = push_tensor().replace(push_text("storage"), b"U\x07storage")
    return build_checkpoint("string", push_dict(("w", old.replace(push_text("0"), b"U\x010"))))


def _build_rebuild_tensor() -> bytes:
    """Build a transposed view by the four arguments that torch wrote before 0.4."""
    view = push_storage(), push_int(0), push_ints([2, 3]), push_ints([1, 2])
    call = push_global("torch._utils", "_rebuild_tensor") + push_tuple(*view) + REDUCE
    return build_checkpoint("rebuild", push_dict(("w", call)))


def _build_memo_bomb() -> bytes:
    """Build lists that contain the one before them twice, from the memo."""
    lists = [EMPTY_LIST + b"q\x01"]
    for level in range(1, 31):
        memo, twice = b"q" + bytes([level + 1]), 2 * (b"h" + bytes([level]))
        lists.append(EMPTY_LIST + memo + MARK + twice + APPENDS)
    value = push_dict(("w", push_tensor()), ("nothing", push_tuple(*lists)))
    return build_checkpoint("bomb", value)


def _build_self_reference() -> bytes:
    members = push_text("w") + push_tensor() + push_text("me") + b"h\x01"
    return build_checkpoint("self", EMPTY_DICT + b"q\x01" + MARK + members + SETITEMS)


def _zip_w(
    name: str, method: int = zipfile.ZIP_STORED, *, comment: bytes = b"", zip64: bool = False
) -> bytes:
    """Build the archive of another maker."""
    members = {"data.pkl": build_pickle(push_w()), "version": b"3\n", "data/0": draw_storage(name)}
    named = ((f"archive/{member}", raw) for member, raw in members.items())
    return build_zip(named, method, comment=comment, zip64=zip64)


yes = make_rows("pth-y", _OPCODES)
may = make_rows("pth-i", _SILENT)
# fmt: off
_CONTAINERS = [
    yes("legacy", "the container before torch 1.6, one storage",
        lambda: build_legacy(push_w(push_legacy_storage()), {"0": (6, draw_storage("legacy"))}),
        _LEGACY),
    yes("legacy-views", "two tensors on one storage of the legacy container", _build_legacy_views,
        _LEGACY),
    yes("legacy-dtypes", "storages of three dtypes: each count is of elements, not bytes",
        _build_legacy_dtypes, _LEGACY),
    may("tar", "the container before torch 0.1.10: a tar", _build_tar,
        "torch.serialization.legacy_load, which rejects weights_only", expected=expect_w("tar")),
    yes("big-endian", "storages stored most significant byte first, as the record byteorder says",
        _build_big_endian, _TORCH, expected=expect_w("big")),
    yes("no-byteorder", "no record byteorder, as before torch 2.1: little-endian",
        lambda: build_checkpoint("no order", records={"byteorder": None}), _TORCH,
        expected=expect_w("no order")),
    yes("prefix", "members below another folder, which torch names after the file", _build_prefix,
        _TORCH, expected=expect_w("prefix")),
    yes("extra-record", "a member that torch does not need",
        lambda: build_checkpoint("extra", records={"extra/note": b"hello"}), _TORCH,
        expected=expect_w("extra")),
]
_PICKLES = [
    yes("binint1", "numbers of one byte: BININT1",
        lambda: build_view("binint1", 1, size=[5], stride=[1])),
    yes("binint2", "numbers of two bytes without a sign: BININT2", _build_binint2),
    yes("binint", "a number of four bytes: BININT, the stride of a dimension of one element",
        lambda: build_view("binint", size=[1, 6], stride=[70_000, 1])),
    yes("long1", "a number of six bytes: LONG1",
        lambda: build_view("long1", size=[1, 6], stride=[2**40, 1])),
    yes("long1-small", "a small number as LONG1, as Python 2 wrote it",
        lambda: build_view("long1 small", push_long1(1), size=[2, 2], stride=[2, 1])),
    yes("setitem", "SETITEM beside SETITEMS, one storage from the memo by LONG_BINGET",
        _build_setitem),
    yes("string", "strings of Python 2: SHORT_BINSTRING", _build_string),
    yes("rebuild-tensor",
        "a transposed tensor without requires_grad and hooks, as before torch 0.4",
        _build_rebuild_tensor, "torch._utils._rebuild_tensor: storage, offset, size, stride"),
    may("after-stop", "bytes after the pickle's STOP",
        lambda: build_checkpoint("after", records={"data.pkl": build_pickle(push_w()) + b"more"}),
        expected=expect_w("after")),
    may("memo-bomb", "thirty lists, each twice in the next: 2^30 paths to nothing",
        _build_memo_bomb, f"{_SILENT}; a walk must not take them all", expected=expect_w("bomb")),
    may("self-reference", "a dict that contains itself", _build_self_reference,
        f"{_OPCODES}: the memo allows it", expected=expect_w("self")),
]
_ZIPS = [
    may("deflated", "deflated members, which torch never writes",
        lambda: _zip_w("deflated", zipfile.ZIP_DEFLATED), f"{_ZIP} 4.4.5; torch stores",
        expected=expect_w("deflated")),
    may("zip-comment", "a comment after the zip's directory",
        lambda: _zip_w("comment", comment=b"made elsewhere"), f"{_ZIP} 4.3.16",
        expected=expect_w("comment")),
    may("zip64", "zip64 extra fields in the local headers of a small file",
        lambda: _zip_w("zip64", zip64=True), f"{_ZIP} 4.5.3", expected=expect_w("zip64")),
    may("zip-prepended", "bytes before the zip, as a self-extracting archive has them",
        lambda: b"#!/bin/sh\n" + _zip_w("prepended"), expected=expect_w("prepended")),
]
# fmt: on
CASES = [*_CONTAINERS, *_PICKLES, *_ZIPS]
