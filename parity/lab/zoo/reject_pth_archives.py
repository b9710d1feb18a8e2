"""Checkpoints of torch that a reader must reject: faults in the container around the pickle."""

from __future__ import annotations

import re
import struct
import zipfile
from typing import Any

from parity.lab.zoo.case import make_rows
from parity.lab.zoo.pth_builder import (
    build_checkpoint,
    build_legacy,
    build_pickle,
    build_zip,
    draw_storage,
    expect_w,
    push_legacy_storage,
    push_long1,
    push_storage,
    push_w,
)

_TORCH = "torch.load rejects it, with and without weights_only"
_OUTSIDE = "torch.load rejects a member outside of the first one's folder"
_VERSIONS = "caffe2/serialize/versions.h: kMaxSupportedFileFormatVersion"
_UNSAID = "the format does not define which one is meant"
_ZIP = "PKWARE APPNOTE"
_CENTRAL, _END = b"PK\x01\x02", b"PK\x05\x06"
_PAST_END = b"\xf0\xff\xff\x7f"
_BOMB = 128 * 2**20
_POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 1629\n"


def _patch(name: str, mark: bytes, at: int, value: bytes, member: int = 0) -> bytes:
    """Build a good archive with ``value`` at offset ``at`` of a header ``mark``."""
    content = build_checkpoint(name)
    start = [found.start() for found in re.finditer(mark, content)][member] + at
    return content[:start] + value + content[start + len(value) :]


def _list_members(name: str, prefix: str = "archive") -> list[tuple[str, bytes]]:
    """List the members of a good archive: pickle, version, storage."""
    members = {"data.pkl": build_pickle(push_w()), "version": b"3\n", "data/0": draw_storage(name)}
    return [(f"{prefix}/{member}", raw) for member, raw in members.items()]


def _zip_more(name: str, member: str, raw: bytes) -> bytes:
    return build_zip([*_list_members(name), (f"archive/{member}", raw)])


def _build_two_pickles() -> bytes:
    return _zip_more("two", "data.pkl", build_pickle(push_w(size=[3, 2], stride=[2, 1])))


def _build_storage_bomb() -> bytes:
    members = [*_list_members("bomb")[:2], ("archive/data/0", bytes(_BOMB))]
    return build_zip(members, zipfile.ZIP_DEFLATED)


def _build_pickle_bomb() -> bytes:
    members = [("archive/data.pkl", bytes(_BOMB)), *_list_members("pickle bomb")[1:]]
    return build_zip(members, zipfile.ZIP_DEFLATED)


def _build_legacy(name: str, count: int = 6, **fields: Any) -> bytes:
    """Build a legacy stream with one storage that counts ``count`` elements."""
    return build_legacy(push_w(push_legacy_storage()), {"0": (count, draw_storage(name))}, **fields)


no = make_rows("pth-n", _TORCH)
may = make_rows("pth-i", _UNSAID)
# fmt: off
_FILES = [
    no("empty-file", "a file without a byte", lambda: b""),
    no("not-the-format", "a line of text",
        lambda: b"This is no checkpoint at all, only a line of text.\n"),
    no("lfs-pointer", "a Git LFS pointer in place of the file", _POINTER.encode),
    no("html", "a web page in place of the file",
        lambda: b"<!DOCTYPE html><html><body>404</body></html>"),
    no("cut-directory", "a zip without its last 22 bytes: the download stopped",
        lambda: build_checkpoint("files")[:-22]),
    no("cut-half", "the first half of a zip",
        lambda: build_checkpoint("files")[: len(build_checkpoint("files")) // 2]),
]
_DIRECTORIES = [
    no("entry-count", "an end record that counts 900 members where there are four",
        lambda: _patch("entries", _END, 8, struct.pack("<HH", 900, 900)), f"{_ZIP} 4.3.16"),
    no("directory-past-end", "a directory that begins beyond the file",
        lambda: _patch("far", _END, 16, _PAST_END), f"{_ZIP} 4.3.16"),
    no("directory-overlaps", "a directory that begins at the first member",
        lambda: _patch("low", _END, 16, b"\0\0\0\0"), f"{_ZIP} 4.3.16"),
    no("local-header-past-end", "a member that begins beyond the file",
        lambda: _patch("away", _CENTRAL, 42, _PAST_END), f"{_ZIP} 4.4.16"),
    no("local-header-absent", "a member's offset at which there is no header",
        lambda: _patch("none", _CENTRAL, 42, b"\x05\0\0\0"), f"{_ZIP} 4.3.7"),
    no("name-length", "a member's name that is longer than the directory",
        lambda: _patch("name", _CENTRAL, 28, b"\xff\xff"), f"{_ZIP} 4.4.10"),
    no("no-directory-entry", "a directory that does not begin with its signature",
        lambda: _patch("sign", _CENTRAL, 0, b"PKxx"), f"{_ZIP} 4.3.12"),
    no("sizes-2-32", "a stored member of 2^32-2 bytes in a file of 600",
        lambda: _patch("sizes", _CENTRAL, 20, b"\xfe\xff\xff\xff" * 2), f"{_ZIP} 4.4.8"),
    no("sizes-differ", "a stored member with two different sizes",
        lambda: _patch("differ", _CENTRAL, 24, b"\x07\0\0\0"), f"{_ZIP} 4.4.8", by_document=True),
    no("method-unknown", "a compression method that is not defined",
        lambda: _patch("method", _CENTRAL, 10, b"\x63\0"), f"{_ZIP} 4.4.5"),
    no("encrypted", "a member whose flags say it is encrypted",
        lambda: _patch("locked", _CENTRAL, 8, b"\x01\0"), f"{_ZIP} 4.4.4"),
    no("strongly-encrypted", "a data.pkl whose flags say it is strongly encrypted, without bit 0",
        lambda: _patch("strong", _CENTRAL, 8, b"\x40\0"), f"{_ZIP} 4.4.4, bit 6"),
    no("encrypted-record", "a record byteorder, which no tensor needs, whose flags say it is "
        "encrypted",
        lambda: _patch("locked record", _CENTRAL, 8, b"\x01\0", member=1), f"{_ZIP} 4.4.4"),
    no("directory-size", "an end record with a directory of 65,535 bytes in a file of 600",
        lambda: _patch("size", _END, 12, b"\xff\xff\0\0"), f"{_ZIP} 4.4.23"),
]
_MEMBERS = [
    may("member-twice", "one storage twice, with different numbers; right is torch's choice",
        lambda: _zip_more("twice", "data/0", draw_storage("twice again"))),
    may("pickle-twice", "two members named data.pkl; right is torch's choice", _build_two_pickles),
    no("two-prefixes", "two folders with a data.pkl each",
        lambda: build_zip([*_list_members("left"), *_list_members("right", "other")]), _OUTSIDE),
    no("absolute-path", "members with absolute paths",
        lambda: build_zip(_list_members("absolute", "/archive")),
        f"{_ZIP} 4.4.17: no leading slash", by_document=True),
    no("climbing-path", "members whose paths climb out of the folder",
        lambda: build_zip(_list_members("climbing", "../archive"))),
    no("no-data-pkl", "an archive without data.pkl",
        lambda: build_zip(_list_members("no pickle")[1:])),
    no("other-pkl", "an archive whose pickle is weights.pkl, not data.pkl",
        lambda: build_zip([("archive/weights.pkl", build_pickle(push_w())),
                           *_list_members("other pickle")[1:]])),
    no("empty-zip", "an archive without a member", lambda: build_zip([])),
    no("bomb-storage", "a storage of six elements that inflates to 128 MiB", _build_storage_bomb),
    no("bomb-pickle", "a data.pkl that inflates to 128 MiB of zeros", _build_pickle_bomb),
]
_RECORDS = [
    no("byteorder-unknown", "a record byteorder that is neither little nor big",
        lambda: build_checkpoint("middle", records={"byteorder": b"middle"})),
    no("version-newer", "a version of the archive that no torch writes",
        lambda: build_checkpoint("newer", records={"version": b"99\n"}), _VERSIONS),
    no("version-word", "a version that is not a number",
        lambda: build_checkpoint("word", records={"version": b"three\n"})),
    no("no-version", "an archive without its version",
        lambda: build_checkpoint("no version", records={"version": None})),
    no("alignment-word", "a record .storage_alignment that is not a number",
        lambda: build_checkpoint("wide", records={".storage_alignment": b"wide"})),
    no("serialization-id-not-utf8", "a record .data/serialization_id that is not UTF-8",
        lambda: build_checkpoint("id", records={".data/serialization_id": b"\xff" * 40})),
    may("byteorder-newline", "a record byteorder that ends with a line feed",
        lambda: build_checkpoint("newline", records={"byteorder": b"little\n"}),
        "torch compares the whole record", expected=expect_w("newline")),
]
_LEGACY = [
    no("legacy-magic", "a legacy stream with another magic number",
        lambda: _build_legacy("magic", magic=push_long1(0x1234567890ABCDEF1234))),
    no("legacy-version", "a legacy stream of version 1002",
        lambda: _build_legacy("version", version=1002)),
    no("legacy-cut-storage", "a legacy stream whose last storage is cut short",
        lambda: _build_legacy("whole")[:-8]),
    no("legacy-cut-pickle", "a legacy stream cut inside its pickles",
        lambda: _build_legacy("whole")[:120]),
    no("legacy-pid-short", "a legacy persistent id without its last part, the view",
        lambda: build_legacy(push_w(push_storage()), {"0": (6, draw_storage("short id"))})),
    no("legacy-count-2-60", "a legacy storage that counts 2^60 elements",
        lambda: _build_legacy("count", 2**60)),
    no("legacy-count-negative", "a legacy storage that counts -1 elements",
        lambda: _build_legacy("below", -1)),
    no("legacy-count-differs",
        "a legacy storage that counts five elements where its tensor declares six",
        lambda: _build_legacy("differs", 5)),
    no("legacy-key-unknown", "a list of keys with one that no tensor has",
        lambda: _build_legacy("unknown", keys=["0", "9"])),
]
# fmt: on
CASES = [*_FILES, *_DIRECTORIES, *_MEMBERS, *_RECORDS, *_LEGACY]
