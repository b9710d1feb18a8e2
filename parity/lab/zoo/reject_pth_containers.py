"""Checkpoints of torch that must be refused: what is wrong in the container around the pickle."""

from __future__ import annotations

import struct
import zipfile

from parity.lab.zoo import pth_builder
from parity.lab.zoo.accept_pth_containers import one, right, six
from parity.lab.zoo.case import ZooCase
from parity.lab.zoo.pth_builder import build_pickle, push_dict, push_tensor

_TORCH = "torch.load refuses, with and without weights_only"
_ZIP = "PKWARE APPNOTE"
_LOCAL, _CENTRAL, _END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_BOMB = 128 * 2**20


def entries() -> list[ZooCase]:
    """The cases, in the order of the page."""
    return [*_files(), *_directories(), *_members(), *_records(), *_legacy()]


def _case(
    name: str, content: bytes, why: str, rule: str = _TORCH, *, document: bool = False
) -> ZooCase:
    return ZooCase(id=f"pth-n-{name}", content=content, why=why, rule=rule, document=document)


def _files() -> list[ZooCase]:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 1629\n"
    good = one("files")
    return [
        _case("empty-file", b"", "a file without a byte"),
        _case(
            "not-the-format",
            b"This is no checkpoint at all, only a line of text.\n",
            "a line of text",
        ),
        _case("lfs-pointer", pointer.encode(), "a Git LFS pointer in place of the file"),
        _case(
            "html",
            b"<!DOCTYPE html><html><body>404</body></html>",
            "a web page in place of the file",
        ),
        _case("cut-directory", good[:-22], "a zip without its last 22 bytes: the download stopped"),
        _case("cut-half", good[: len(good) // 2], "the first half of a zip"),
    ]


def _patched(name: str, mark: bytes, at: int, value: bytes, *, nth: int = 0) -> bytes:
    """A good archive with ``value`` at offset ``at`` of the ``nth`` header that bears ``mark``."""
    content, start = one(name), -1
    for _ in range(nth + 1):
        start = content.index(mark, start + 1)
    return content[: start + at] + value + content[start + at + len(value) :]


def _directories() -> list[ZooCase]:
    most = b"\xff\xff"
    return [
        _case(
            "entry-count",
            _patched("entries", _END, 8, struct.pack("<HH", 900, 900)),
            "an end record that counts 900 members where there are four",
            f"{_ZIP} 4.3.16",
        ),
        _case(
            "directory-past-end",
            _patched("far", _END, 16, b"\xf0\xff\xff\x7f"),
            "a directory that begins beyond the file",
            f"{_ZIP} 4.3.16",
        ),
        _case(
            "directory-overlaps",
            _patched("low", _END, 16, b"\0\0\0\0"),
            "a directory that begins at the first member",
            f"{_ZIP} 4.3.16",
        ),
        _case(
            "local-header-past-end",
            _patched("away", _CENTRAL, 42, b"\xf0\xff\xff\x7f"),
            "a member that begins beyond the file",
            f"{_ZIP} 4.4.16",
        ),
        _case(
            "local-header-absent",
            _patched("none", _CENTRAL, 42, b"\x05\0\0\0"),
            "a member's offset at which no header stands",
            f"{_ZIP} 4.3.7",
        ),
        _case(
            "name-length",
            _patched("name", _CENTRAL, 28, most),
            "a member's name that is longer than the directory",
            f"{_ZIP} 4.4.10",
        ),
        _case(
            "no-directory-entry",
            _patched("sign", _CENTRAL, 0, b"PKxx"),
            "a directory that does not begin with its signature",
            f"{_ZIP} 4.3.12",
        ),
        _case(
            "sizes-2-32",
            _patched("sizes", _CENTRAL, 20, b"\xfe\xff\xff\xff" * 2),
            "a stored member of 2^32-2 bytes in a file of 600",
            f"{_ZIP} 4.4.8",
        ),
        _case(
            "sizes-differ",
            _patched("differ", _CENTRAL, 24, b"\x07\0\0\0"),
            "a stored member with two different sizes",
            f"{_ZIP} 4.4.8",
            document=True,
        ),
        _case(
            "method-unknown",
            _patched("method", _CENTRAL, 10, b"\x63\0"),
            "a compression method that is not defined",
            f"{_ZIP} 4.4.5",
        ),
        _case(
            "encrypted",
            _patched("locked", _CENTRAL, 8, b"\x01\0"),
            "a member whose flags say it is encrypted",
            f"{_ZIP} 4.4.4",
        ),
    ]


def _good(name: str) -> list[tuple[str, bytes]]:
    pickle = build_pickle(push_dict(("w", push_tensor())))
    return [
        ("archive/data.pkl", pickle),
        ("archive/version", b"3\n"),
        ("archive/data/0", six(name)),
    ]


def _members() -> list[ZooCase]:
    zeros = bytes(_BOMB)
    twice = [*_good("twice"), ("archive/data/0", six("twice again"))]
    absolute = [(f"/{name}", raw) for name, raw in _good("absolute")]
    climbing = [(f"../{name}", raw) for name, raw in _good("climbing")]
    bomb = [*_good("bomb")[:2], ("archive/data/0", zeros)]
    other = build_pickle(push_dict(("w", push_tensor(size=[3, 2], stride=[2, 1]))))
    pickle_bomb = [("archive/data.pkl", zeros), *_good("pickle bomb")[1:]]
    return [
        ZooCase(
            id="pth-i-member-twice",
            content=pth_builder.build_zip(twice),
            why="one storage twice, with different numbers; right is torch's choice",
            rule="which one is meant is not said",
        ),
        ZooCase(
            id="pth-i-pickle-twice",
            content=pth_builder.build_zip([*_good("two"), ("archive/data.pkl", other)]),
            why="two members named data.pkl; right is torch's choice",
            rule="which one is meant is not said",
        ),
        _case(
            "two-prefixes",
            pth_builder.build_zip(
                [*_good("left"), *((f"other/{name[8:]}", raw) for name, raw in _good("right"))]
            ),
            "two folders with a data.pkl each",
            "torch.load refuses a member outside of the first one's folder",
        ),
        _case(
            "absolute-path",
            pth_builder.build_zip(absolute),
            "members with absolute paths",
            f"{_ZIP} 4.4.17: no leading slash",
            document=True,
        ),
        _case(
            "climbing-path",
            pth_builder.build_zip(climbing),
            "members whose paths climb out of the folder",
        ),
        _case(
            "no-data-pkl",
            pth_builder.build_zip(_good("no pickle")[1:]),
            "an archive without data.pkl",
        ),
        _case("empty-zip", pth_builder.build_zip([]), "an archive without a member"),
        _case(
            "bomb-storage",
            pth_builder.build_zip(bomb, method=zipfile.ZIP_DEFLATED),
            "a storage of six elements that inflates to 128 MiB",
        ),
        _case(
            "bomb-pickle",
            pth_builder.build_zip(pickle_bomb, method=zipfile.ZIP_DEFLATED),
            "a data.pkl that inflates to 128 MiB of zeros",
        ),
    ]


def _records() -> list[ZooCase]:
    return [
        _case(
            "byteorder-unknown",
            one("middle", records={"byteorder": b"middle"}),
            "a record byteorder that is neither little nor big",
        ),
        _case(
            "version-newer",
            one("newer", records={"version": b"99\n"}),
            "a version of the archive that no torch writes",
            "caffe2/serialize/versions.h: kMaxSupportedFileFormatVersion",
        ),
        _case(
            "version-word",
            one("word", records={"version": b"three\n"}),
            "a version that is no number",
        ),
        _case(
            "no-version",
            one("no version", records={"version": None}),
            "an archive without its version",
        ),
        ZooCase(
            id="pth-i-byteorder-newline",
            content=one("newline", records={"byteorder": b"little\n"}),
            why="a record byteorder that ends with a line feed",
            rule="torch compares the whole record",
            values=right("newline"),
        ),
    ]


def _legacy() -> list[ZooCase]:
    value = push_dict(("w", push_tensor(pth_builder.push_legacy_storage("0", 6))))

    def stream(name: str, count: int = 6, **more: object) -> bytes:
        return pth_builder.build_legacy(value, {"0": (count, six(name))}, **more)  # type: ignore[arg-type]

    whole_stream = stream("whole")
    return [
        _case(
            "legacy-magic",
            stream("magic", magic=pth_builder.push_long1(0x1234567890ABCDEF1234)),
            "a legacy stream with another magic number",
        ),
        _case("legacy-version", stream("version", version=1002), "a legacy stream of version 1002"),
        _case(
            "legacy-cut-storage",
            whole_stream[:-8],
            "a legacy stream whose last storage is cut short",
        ),
        _case("legacy-cut-pickle", whole_stream[:120], "a legacy stream cut inside its pickles"),
        _case(
            "legacy-count-2-60",
            stream("count", 2**60),
            "a legacy storage that counts 2^60 elements",
        ),
        _case(
            "legacy-count-negative", stream("below", -1), "a legacy storage that counts -1 elements"
        ),
        _case(
            "legacy-count-differs",
            stream("differs", 5),
            "a legacy storage that counts five elements where its tensor declares six",
        ),
        _case(
            "legacy-key-unknown",
            stream("unknown", keys=["0", "9"]),
            "a list of keys with one that no tensor has",
        ),
    ]
