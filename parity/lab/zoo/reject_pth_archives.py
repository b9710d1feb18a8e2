"""Checkpoints of torch that a reader must reject: faults in the container around the pickle."""

from __future__ import annotations

import struct
import zipfile
from typing import Any

from parity.lab.zoo.case import ZooCase
from parity.lab.zoo.pth_builder import (
    build_checkpoint,
    build_legacy,
    build_pickle,
    build_zip,
    draw_storage,
    expect_w,
    push_legacy_storage,
    push_long1,
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


def _patch(name: str, mark: bytes, at: int, value: bytes) -> bytes:
    """Build a good archive with ``value`` at offset ``at`` of the first header ``mark``."""
    content = build_checkpoint(name)
    start = content.index(mark) + at
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


# fmt: off
_FILES = [
    ZooCase("pth-n-empty-file", lambda: b"", "a file without a byte", _TORCH),
    ZooCase("pth-n-not-the-format",
            lambda: b"This is no checkpoint at all, only a line of text.\n",
            "a line of text", _TORCH),
    ZooCase("pth-n-lfs-pointer", _POINTER.encode,
            "a Git LFS pointer in place of the file", _TORCH),
    ZooCase("pth-n-html", lambda: b"<!DOCTYPE html><html><body>404</body></html>",
            "a web page in place of the file", _TORCH),
    ZooCase("pth-n-cut-directory", lambda: build_checkpoint("files")[:-22],
            "a zip without its last 22 bytes: the download stopped", _TORCH),
    ZooCase("pth-n-cut-half",
            lambda: build_checkpoint("files")[: len(build_checkpoint("files")) // 2],
            "the first half of a zip", _TORCH),
]
_DIRECTORIES = [
    ZooCase("pth-n-entry-count",
            lambda: _patch("entries", _END, 8, struct.pack("<HH", 900, 900)),
            "an end record that counts 900 members where there are four", f"{_ZIP} 4.3.16"),
    ZooCase("pth-n-directory-past-end", lambda: _patch("far", _END, 16, _PAST_END),
            "a directory that begins beyond the file", f"{_ZIP} 4.3.16"),
    ZooCase("pth-n-directory-overlaps", lambda: _patch("low", _END, 16, b"\0\0\0\0"),
            "a directory that begins at the first member", f"{_ZIP} 4.3.16"),
    ZooCase("pth-n-local-header-past-end", lambda: _patch("away", _CENTRAL, 42, _PAST_END),
            "a member that begins beyond the file", f"{_ZIP} 4.4.16"),
    ZooCase("pth-n-local-header-absent", lambda: _patch("none", _CENTRAL, 42, b"\x05\0\0\0"),
            "a member's offset at which there is no header", f"{_ZIP} 4.3.7"),
    ZooCase("pth-n-name-length", lambda: _patch("name", _CENTRAL, 28, b"\xff\xff"),
            "a member's name that is longer than the directory", f"{_ZIP} 4.4.10"),
    ZooCase("pth-n-no-directory-entry", lambda: _patch("sign", _CENTRAL, 0, b"PKxx"),
            "a directory that does not begin with its signature", f"{_ZIP} 4.3.12"),
    ZooCase("pth-n-sizes-2-32",
            lambda: _patch("sizes", _CENTRAL, 20, b"\xfe\xff\xff\xff" * 2),
            "a stored member of 2^32-2 bytes in a file of 600", f"{_ZIP} 4.4.8"),
    ZooCase("pth-n-sizes-differ", lambda: _patch("differ", _CENTRAL, 24, b"\x07\0\0\0"),
            "a stored member with two different sizes", f"{_ZIP} 4.4.8", by_document=True),
    ZooCase("pth-n-method-unknown", lambda: _patch("method", _CENTRAL, 10, b"\x63\0"),
            "a compression method that is not defined", f"{_ZIP} 4.4.5"),
    ZooCase("pth-n-encrypted", lambda: _patch("locked", _CENTRAL, 8, b"\x01\0"),
            "a member whose flags say it is encrypted", f"{_ZIP} 4.4.4"),
]
_MEMBERS = [
    ZooCase("pth-i-member-twice", lambda: _zip_more("twice", "data/0", draw_storage("twice again")),
            "one storage twice, with different numbers; right is torch's choice", _UNSAID),
    ZooCase("pth-i-pickle-twice", _build_two_pickles,
            "two members named data.pkl; right is torch's choice", _UNSAID),
    ZooCase("pth-n-two-prefixes",
            lambda: build_zip([*_list_members("left"), *_list_members("right", "other")]),
            "two folders with a data.pkl each", _OUTSIDE),
    ZooCase("pth-n-absolute-path", lambda: build_zip(_list_members("absolute", "/archive")),
            "members with absolute paths", f"{_ZIP} 4.4.17: no leading slash", by_document=True),
    ZooCase("pth-n-climbing-path", lambda: build_zip(_list_members("climbing", "../archive")),
            "members whose paths climb out of the folder", _TORCH),
    ZooCase("pth-n-no-data-pkl", lambda: build_zip(_list_members("no pickle")[1:]),
            "an archive without data.pkl", _TORCH),
    ZooCase("pth-n-empty-zip", lambda: build_zip([]),
            "an archive without a member", _TORCH),
    ZooCase("pth-n-bomb-storage", _build_storage_bomb,
            "a storage of six elements that inflates to 128 MiB", _TORCH),
    ZooCase("pth-n-bomb-pickle", _build_pickle_bomb,
            "a data.pkl that inflates to 128 MiB of zeros", _TORCH),
]
_RECORDS = [
    ZooCase("pth-n-byteorder-unknown",
            lambda: build_checkpoint("middle", records={"byteorder": b"middle"}),
            "a record byteorder that is neither little nor big", _TORCH),
    ZooCase("pth-n-version-newer",
            lambda: build_checkpoint("newer", records={"version": b"99\n"}),
            "a version of the archive that no torch writes", _VERSIONS),
    ZooCase("pth-n-version-word",
            lambda: build_checkpoint("word", records={"version": b"three\n"}),
            "a version that is not a number", _TORCH),
    ZooCase("pth-n-no-version",
            lambda: build_checkpoint("no version", records={"version": None}),
            "an archive without its version", _TORCH),
    ZooCase("pth-i-byteorder-newline",
            lambda: build_checkpoint("newline", records={"byteorder": b"little\n"}),
            "a record byteorder that ends with a line feed", "torch compares the whole record",
            expected=expect_w("newline")),
]
_LEGACY = [
    ZooCase("pth-n-legacy-magic",
            lambda: _build_legacy("magic", magic=push_long1(0x1234567890ABCDEF1234)),
            "a legacy stream with another magic number", _TORCH),
    ZooCase("pth-n-legacy-version", lambda: _build_legacy("version", version=1002),
            "a legacy stream of version 1002", _TORCH),
    ZooCase("pth-n-legacy-cut-storage", lambda: _build_legacy("whole")[:-8],
            "a legacy stream whose last storage is cut short", _TORCH),
    ZooCase("pth-n-legacy-cut-pickle", lambda: _build_legacy("whole")[:120],
            "a legacy stream cut inside its pickles", _TORCH),
    ZooCase("pth-n-legacy-count-2-60", lambda: _build_legacy("count", 2**60),
            "a legacy storage that counts 2^60 elements", _TORCH),
    ZooCase("pth-n-legacy-count-negative", lambda: _build_legacy("below", -1),
            "a legacy storage that counts -1 elements", _TORCH),
    ZooCase("pth-n-legacy-count-differs", lambda: _build_legacy("differs", 5),
            "a legacy storage that counts five elements where its tensor declares six", _TORCH),
    ZooCase("pth-n-legacy-key-unknown", lambda: _build_legacy("unknown", keys=["0", "9"]),
            "a list of keys with one that no tensor has", _TORCH),
]
# fmt: on
CASES = [*_FILES, *_DIRECTORIES, *_MEMBERS, *_RECORDS, *_LEGACY]
