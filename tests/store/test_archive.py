"""Archives: every rule of the reader, with archives that must be rejected."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import itertools
import os
import shutil
import stat
import subprocess
import tarfile
import tracemalloc
import unicodedata
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parity.errors import IntegrityError, Location, Problem
from parity.lockfile import Locked
from parity.store import archive, member_names
from parity.store.archive import UNLOCKED, Member, scan, unpack
from parity.store.member_names import ArchiveError
from parity.store.tar_headers import parse_header
from parity.store.trees import TreeFile, compute_tree_digest
from parity.text import UNPRINTABLE, sanitize
from tests.support.fetching import read_files
from tests.support.tar import (
    BLOCK,
    END,
    add_checksum,
    make_folder,
    make_header,
    make_member,
    make_pax,
    make_record,
    make_tar,
    pad,
)

Put = Callable[[bytes], Path]

REPACK = (
    "re-pack with GNU tar:  "
    "tar --format=pax --dereference --hard-dereference -cf BUNDLE.tar -C FOLDER ."
)


@pytest.fixture
def put(tmp_path: Path) -> Put:
    def put(data: bytes) -> Path:
        path = tmp_path / "x.tar"
        path.write_bytes(data)
        return path

    return put


def rejected(path: Path, locked: Locked = UNLOCKED) -> Problem:
    with pytest.raises(IntegrityError) as caught:
        scan(path, locked)
    (problem,) = caught.value.problems
    return problem


def scan_or_reject(path: Path) -> list[Member]:
    """Any other exception is a bug of the reader."""
    with contextlib.suppress(IntegrityError):
        return scan(path)
    return []


# What passes


def test_members_are_found_at_their_offsets(put: Put) -> None:
    path = put(
        make_tar(
            make_folder("./"),
            make_folder("./d/"),
            make_member("./d/a", b"x" * 700),
            make_member("b"),
        )
    )

    assert scan(path) == [Member("d/a", 3 * BLOCK, 700), Member("b", 6 * BLOCK, 0)]


CONTENT = {"d/e/long" + "n" * 150: b"1" * 5000, "d/ü.bin": b"\0\xff", "top": b"", "z/z": b"z"}


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT], ids=["ustar", "pax"])
def test_archives_of_tarfile_are_unpacked(tmp_path: Path, form: int) -> None:
    content = {k: v for k, v in CONTENT.items() if form == tarfile.PAX_FORMAT or len(k) < 100}
    with tarfile.open(tmp_path / "x.tar", "w", format=form) as packed:
        for name, data in content.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 2**60 if form == tarfile.PAX_FORMAT else 0
            packed.addfile(info, io.BytesIO(data))
    (tmp_path / "out").mkdir()

    entries = unpack(tmp_path / "x.tar", tmp_path / "out")

    assert read_files(tmp_path / "out") == content
    assert [(e.path, e.size, e.sha256) for e in entries] == [
        (name, len(data), hashlib.sha256(data).hexdigest()) for name, data in content.items()
    ]


@pytest.mark.parametrize(
    ("why", "data"),
    [
        ("no padding after the two blocks", make_tar(make_member("a", b"1"))),
        ("zeros up to a record of 20 blocks", make_tar(make_member("a", b"1")) + bytes(20 * BLOCK)),
        ("typeflag NUL", make_tar(make_member("a", b"1", flag=b"\0"))),
        ("GNU magic without GNU fields", make_tar(make_member("a", b"1", magic=b"ustar  \0"))),
        (
            "ignored pax keys",
            make_tar(make_pax(make_record("uid", "9" * 30)), make_member("a", b"1")),
        ),
        (
            "pax size that repeats the header's",
            make_tar(make_pax(make_record("size", "1")), make_member("a", b"1")),
        ),
        (
            "pax path in place of the name",
            make_tar(make_pax(make_record("path", "a")), make_member("../b", b"1")),
        ),
        (
            "a folder stated after its file",
            make_tar(make_member("d/a"), make_folder("d"), make_member("a", b"1")),
        ),
        ("the root folder as .", make_tar(make_folder("."), make_member("a", b"1"))),
        (
            "names that differ in compatibility forms only",
            make_tar(make_member("\uff21"), make_member("a", b"1")),
        ),
    ],
)
def test_passes(put: Put, why: str, data: bytes) -> None:
    assert scan(put(data))[-1].size == 1, why


@pytest.mark.parametrize("form", [b"%06o\0 ", b"%06o \0", b"%07o\0"])
def test_three_ways_to_write_the_checksum(put: Put, form: bytes) -> None:
    total = int(make_header("a")[148:154], 8)

    assert scan(put(make_tar(make_header("a", checksum=form % total))))


@pytest.mark.parametrize("form", [b"%06o\0 ", b"%06o \0", b"%07o\0"])
def test_no_changed_byte_of_a_checksum_is_missed(form: bytes) -> None:
    good = make_header("a", checksum=form % int(make_header("a")[148:154], 8))

    for at, byte in itertools.product(range(148, 156), range(256)):
        if good[at] != byte:
            with pytest.raises(ArchiveError):
                parse_header(good[:at] + bytes([byte]) + good[at + 1 :])


def test_prefix_and_name_are_joined(put: Put) -> None:
    assert scan(put(make_tar(make_member("b", prefix=b"d/e"))))[0].path == "d/e/b"


def test_archive_without_members_is_accepted(put: Put) -> None:
    assert scan(put(END)) == []


# Rejected


@pytest.mark.parametrize("flag", range(256))
def test_typeflags(put: Put, flag: int) -> None:
    path = put(make_tar(make_header("a", flag=bytes([flag]))))

    if flag in b"0\x005":
        scan(path)
    elif flag in b"x":
        assert rejected(path).code == "archive-pax"  # one that no member follows
    else:
        problem = rejected(path)
        assert problem.code == "archive-type"
        assert problem.details[1] == f"obtained  typeflag '{sanitize(bytes([flag]))}'"


_INVISIBLE = "\xa0\u034f\u115f\u1160\u17b4\u180b\u2003\u2800\u3000\u3164\ufe0f\uffa0\U000e0100"
BAD_NAMES = {
    "a part of the name is empty, '.' or '..'": [
        *("", ".", "..", "./", "././a", ".//a", "../a", "a/../b", "a/./b", "a//b", "/a", "a/")
    ],
    "the name contains a character that is not allowed": [
        *("a\\b", "C:/a", "a:stream", "a*", "a?", 'a"', "a<b", "a>b", "a|b", "a\nb", "a\x1b[31m"),
        *("a\u202eb", "a\u200bb", "a\ue000", "a\u0378", "a\u2028b", "a\u2029b"),
        *(f"a{char}b" for char in _INVISIBLE),
    ],
    "Windows reserves the name for a device": [
        *("CON", "d/nul.txt", "prn", "AUX .tar.gz", "com1", "LPT9.x", "COM\u00b9", "CONIN$"),
        *("d/conout$.txt", "Clock$"),
    ],
    "a part of the name ends with a dot or space": ["a.", "d /a", "..."],
    "the name belongs to git": [
        *(".git/hooks/post-checkout", "d/.GitHub/workflows/a.yml", "GIT~1/config")
    ],
    "a part of the name is too long": ["p" * 256, "ü" * 128],
    "the name is too deep": ["/".join("d" * 33)],
    "the name is too long": ["/".join(["d" * 200] * 6)],
}
LONGEST = "/".join(["d" * 203] * 5 + ["e" * 4])
GOOD_NAMES = [
    *("com0", "COM10", "CONSOLE", "nul_", ".gitignore", "a b", "...a", "~a", "é", "日本", "-rf"),
    *("p" * 255, "/".join("d" * 32), LONGEST),
]


@pytest.mark.parametrize(
    ("reason", "name"),
    [(reason, name) for reason, names in BAD_NAMES.items() for name in names],
    ids=ascii,
)
def test_names_that_are_rejected(put: Put, reason: str, name: str) -> None:
    problem = rejected(put(make_tar(make_pax(make_record("path", name)), make_member("a"))))

    assert (problem.code, problem.message.rpartition(": ")[2]) == ("archive-name", reason)


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_names_that_pass(put: Put, name: str) -> None:
    packed = make_tar(make_pax(make_record("path", name)), make_member("a"))

    assert scan(put(packed))[0].path == name


@pytest.mark.parametrize("name", [b"\xff", b"a/\xc3", b"\xed\xa0\x80"])
def test_names_that_are_not_utf8(put: Put, name: bytes) -> None:
    problem = rejected(put(make_tar(make_member(name))))

    assert problem.code == "archive-name"
    assert "UTF-8" in problem.message


def _pack(*names: str) -> bytes:
    """An archive of these names, as pax has them."""
    return make_tar(*(make_pax(make_record("path", name)) + make_member("x") for name in names))


def _pax(*records: bytes) -> bytes:
    return make_tar(make_pax(*records), make_member("a"))


REJECTED: dict[str, list[bytes]] = {
    "archive-name": [
        make_tar(make_member(b"a\0../b")),
        _pax(make_record("path", b"a\0b")),
        _pax(make_record("path", "")),
    ],
    "archive-collision": [
        _pack("a", "a"),
        _pack("A", "a"),
        _pack("d/ß", "d/ss"),
        _pack("d/ß", "d/SS"),
        _pack("\ufb01", "fi"),
        _pack("\u00e9", "e\u0301"),
        _pack("\u00c9", "e\u0301"),
        _pack("\u1fb4\u0301", "\u1fbb\u0301\u0345"),
        _pack("\u1fb4\u0307", "\u1f71\u0307\u0345"),
        _pack("d/a", "D/b"),
        _pack("d", "d/a"),
        _pack("d/a", "d"),
        _pack("d/a", "d/a/b"),
        _pack("./a", "a"),
        make_tar(make_folder("d"), make_folder("d/")),
        make_tar(make_folder("./"), make_folder("./")),
        make_tar(make_member("d"), make_folder("d")),
        make_tar(make_folder("d"), make_member("d")),
        make_tar(make_folder("d"), make_folder("D")),
        make_tar(make_member("D/a"), make_folder("d")),
    ],
    "archive-mode": [
        make_tar(make_header("a", mode=mode))
        for mode in (
            *(0o4755, 0o2755, 0o1777, 0o7000),
            *(b"", b"\x80\0\0\0\0\0\0\x01", b"-000644\0", b"0000648\0"),
        )
    ],
    "archive-size": [
        *(
            make_tar(make_header("a", size=size))
            for size in (b"\xff" * 12, b"\x80" + b"\0" * 10 + b"\1", b"", b"-0000000001\0")
        ),
        *(make_tar(make_header("a", size=size)) for size in (b"0x1\0", b"1 1\0", b"\0" * 12)),
        _pax(make_record("size", str(1 << 30))),
        _pax(make_record("size", "9" * 19)),
        make_tar(make_pax(make_record("size", "512")), make_member("a", b"x" * 1024)),
        # A reader that ignores pax would take the data for the next header.
        make_tar(
            make_pax(make_record("size", "1024")),
            make_header("a", size=0) + make_member("b", b"x" * 512),
        ),
        *(
            make_header("d/", flag=b"5", size=size) + bytes(BLOCK) + END
            for size in (1, 512, 1 << 32)
        ),
        make_tar(make_pax(make_record("size", "1")), make_folder("d")),
    ],
    "archive-pax": [
        _pax(
            make_record("GNU.sparse.realsize", str(1 << 40)), make_record("GNU.sparse.major", "1")
        ),
        _pax(make_record("GNU.sparse.name", "../x")),
        _pax(make_record("GNU.sparse.realsize", str(1 << 40))),
        _pax(make_record("GNU.sparse.map", "0,1")),
        _pax(make_record("Path", "a")),
        _pax(make_record("", "a")),
        _pax(make_record("linkpath", "/etc/passwd")),
        _pax(make_record("SCHILY.xattr.user.x", "1")),
        _pax(make_record("hdrcharset", "BINARY")),
        _pax(make_record("path", "a"), make_record("path", "b")),
        *(_pax(make_record("size", size)) for size in ("-1", "1e3", "٣", "9" * 5000, "")),
        *(_pax(record) for record in (b"5 a=b\n", b"06 a=b\n", b"999999 path=a\n", b"8 path=a\n")),
        *(_pax(record) for record in (b"2 ", b"3 \n", b"7 path\n\n", b"path=a\n")),
        _pax(b"9" * 5000 + b" a=b\n"),
        make_tar(make_pax(), make_pax(), make_member("a")),
    ],
    "archive-compressed": [
        *(gzip.compress(b"x"), b"PK\x03\x04" + bytes(600), b"\x28\xb5\x2f\xfd" + bytes(600))
    ],
    "archive-format": [
        make_tar(make_header("a", magic=bytes(8))),
        make_tar(make_header("a", magic=b"ustar  \0", prefix=b"12345")),
    ],
    "archive-checksum": [b"hello " * 200],
    "archive-cut-short": [b""],
}


@pytest.mark.parametrize(
    ("code", "data"),
    [
        pytest.param(code, data, id=f"{code} {number}")
        for code, archives in REJECTED.items()
        for number, data in enumerate(archives)
    ],
)
def test_archives_that_are_rejected(put: Put, code: str, data: bytes) -> None:
    assert rejected(put(data)).code == code


@pytest.mark.parametrize("size", [archive.MAX_PAX + 1, 1 << 30, 8**11 - 1])
def test_large_pax_headers_are_not_read(put: Put, size: int) -> None:
    tracemalloc.start()
    try:
        problem = rejected(put(make_header("x", flag=b"x", size=size) + bytes(1 << 20)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert problem.code == "archive-pax"
    assert peak < 3 << 20  # the file's own MiB is in this test


def test_gnu_long_names_are_rejected_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as packed:
        packed.addfile(tarfile.TarInfo("n" * 150))

    problem = rejected(path)

    assert problem == Problem(
        "archive-type",
        "the archive is rejected at member 1 (byte 0): the member is a GNU long name",
        None,
        (
            "expected  files and folders (typeflag 0, NUL or 5), and pax headers (x)",
            "obtained  typeflag 'L'",
            REPACK,
        ),
    )


GOOD = make_tar(
    make_folder("d/"),
    make_pax(make_record("path", "d/ü"), make_record("mtime", "1.5")),
    make_member("x", b"1" * 600),
    make_member("z"),
)


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(block=st.sampled_from([0, 1, 3, 6]), at=st.integers(0, BLOCK - 1), to=st.integers(0, 255))
def test_changed_byte_in_a_header_is_detected(put: Put, block: int, at: int, to: int) -> None:
    at += block * BLOCK
    damaged = GOOD[:at] + bytes([to]) + GOOD[at + 1 :]
    path = put(damaged)

    if damaged == GOOD:
        scan(path)
    else:
        assert rejected(path).code == "archive-checksum"


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_header_whatever_crashes_the_reader(put: Put, data: st.DataObject) -> None:
    block = bytearray(make_header("a", size=3))
    for _ in range(data.draw(st.integers(1, 6))):
        block[data.draw(st.integers(0, BLOCK - 1))] = data.draw(st.integers(0, 255))
    path = put(add_checksum(bytes(block)) + pad(b"abc") + END)

    assert all(m.offset + m.size <= path.stat().st_size for m in scan_or_reject(path))


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=60) | st.text("0123456789 =\npath", max_size=60).map(str.encode))
def test_no_pax_body_whatever_crashes_the_reader(put: Put, body: bytes) -> None:
    scan_or_reject(put(make_tar(make_pax(body), make_member("a"))))


@pytest.mark.parametrize("length", range(0, len(GOOD), BLOCK))
def test_cut_at_every_block(put: Put, length: int) -> None:
    assert rejected(put(GOOD[:length])).code in ("archive-cut-short", "archive-pax")


@pytest.mark.parametrize("length", range(1, len(GOOD), 331))
def test_cut_anywhere(put: Put, length: int) -> None:
    assert rejected(put(GOOD[:length])).code in ("archive-cut-short", "archive-pax")


@pytest.mark.parametrize(
    "tail",
    [
        b"\1",
        bytes(BLOCK) + b"\1",
        bytes(9 * BLOCK + 7) + b"x",
        make_member("hidden"),
        bytes(3 << 20) + b"x",
    ],
)
def test_data_after_the_end(put: Put, tail: bytes) -> None:
    assert rejected(put(GOOD + tail)).code == "archive-trailing"


def test_a_member_one_byte_past_the_end(put: Put) -> None:
    assert "reaches past the end" in rejected(put(make_header("a", size=1025) + END)).message
    assert scan(put(make_header("a", size=1024) + END + END))[0].size == 1024


@pytest.mark.process
def test_repack_command_works(tmp_path: Path) -> None:
    """The command in the advice makes an archive that is accepted, also from links."""
    program = shutil.which("tar")
    if not program or b"GNU" not in subprocess.check_output([program, "--version"]):
        pytest.skip("there is no GNU tar")
    made = tmp_path / "FOLDER"
    (made / "d").mkdir(parents=True)
    (made / "d" / ("n" * 150)).write_bytes(b"1")
    (made / "link").symlink_to("d/" + "n" * 150)
    (made / "hard").hardlink_to(made / "d" / ("n" * 150))

    subprocess.check_call([program, *REPACK.partition("  tar ")[2].split()], cwd=tmp_path)

    members = scan(tmp_path / "BUNDLE.tar")
    assert sorted(m.path for m in members) == ["d/" + "n" * 150, "hard", "link"]
    assert {m.size for m in members} == {1}


def test_one_block_of_zeros_is_no_end(put: Put) -> None:
    assert (
        rejected(put(make_member("a") + bytes(BLOCK) + make_member("b") + END)).code
        == "archive-trailing"
    )


# Limits

TWO = make_tar(make_member("a", b"1" * 10), make_member("b", b"2" * 20))
PLACES = {
    key: Location(Path("f.yaml"), line, 7)
    for line, key in enumerate(["", "files", "unpacked", "size"])
}


@pytest.mark.parametrize(
    ("limits", "code", "line"),
    [
        ({"files": 1}, "archive-files", 1),
        ({"files": 3}, "archive-files", 1),
        ({"files": 0}, "archive-files", 1),
        ({"unpacked": 29}, "archive-unpacked", 2),
        ({"unpacked": 31}, "archive-unpacked", 2),
        ({"size": len(TWO) - 1}, "archive-size", 3),
        ({"size": len(TWO) + 1}, "archive-size", 3),
    ],
)
def test_archive_must_match_the_lock_exactly(
    put: Put, limits: dict[str, int], code: str, line: int
) -> None:
    problem = rejected(put(TWO), Locked(sha256="", **limits, where=PLACES))

    assert (problem.code, problem.where) == (code, Location(Path("f.yaml"), line, 7))


def test_archive_that_matches_the_lock_is_accepted(put: Put) -> None:
    assert len(scan(put(TWO), Locked(sha256="", files=2, unpacked=30, size=len(TWO)))) == 2


def test_the_scan_stops_at_the_first_excess(put: Put) -> None:
    """What lies behind the excess is never looked at, or this would say another code."""
    packed = (
        make_member("a", b"1" * 10)
        + make_member("b", b"2" * 20)
        + make_header("c", checksum=b"12345678")
    )

    assert rejected(put(packed), Locked(sha256="", files=1)).code == "archive-files"
    assert rejected(put(packed), Locked(sha256="", unpacked=20)).code == "archive-unpacked"


def test_caps_apply_without_a_lock(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_FILES", 1)
    assert rejected(put(TWO)).code == "archive-files"
    monkeypatch.setattr(archive, "MAX_FILES", 2)
    monkeypatch.setattr(archive, "MAX_BYTES", 29)
    assert rejected(put(TWO)).code == "archive-size"  # no archive is smaller than its content
    monkeypatch.setattr(archive, "MAX_BYTES", len(TWO))
    assert len(scan(put(TWO))) == 2


def test_listed_folders_are_counted(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_names, "MAX_FOLDERS", 3)

    assert scan(put(make_tar(make_member("a/b/c/x"))))
    assert rejected(put(make_tar(make_member("a/b/c/d/x")))).code == "archive-files"


# Writing


@pytest.fixture
def out(tmp_path: Path) -> Path:
    made = tmp_path / "out"
    made.mkdir()
    return made


def test_rejected_archive_writes_nothing(put: Put, out: Path) -> None:
    with pytest.raises(IntegrityError):
        unpack(
            put(make_member("a", b"1") + make_header("b", flag=b"2", link=b"/etc") + END),
            out,
            UNLOCKED,
        )

    assert list(out.iterdir()) == []


def test_no_file_is_written_over(put: Put, out: Path) -> None:
    (out / "a").write_bytes(b"mine")

    with pytest.raises(FileExistsError):
        unpack(put(make_tar(make_member("a", b"1"))), out)
    assert (out / "a").read_bytes() == b"mine"


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_no_link_is_followed(put: Put, out: Path, tmp_path: Path) -> None:
    (out / "l").symlink_to(tmp_path / "outside")

    with pytest.raises(OSError, match=r".+"):
        unpack(put(make_tar(make_member("l", b"1"))), out)
    assert not (tmp_path / "outside").exists()


def test_modes_and_times_are_ignored(put: Put, out: Path) -> None:
    unpack(put(make_tar(make_member("a", b"1", mode=0o777))), out)

    assert not stat.S_IMODE((out / "a").stat().st_mode) & 0o111


def test_empty_folders_are_not_made(put: Put, out: Path) -> None:
    unpack(put(make_tar(make_folder("empty/"), make_member("d/a"))), out)

    assert [path.name for path in out.iterdir()] == ["d"]


def test_a_file_that_shrinks_while_it_is_read(
    put: Put, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(make_tar(make_member("a", b"1" * 2000)))
    real = archive._Scanner.run

    def run(self: archive._Scanner) -> list[Member]:
        members = real(self)
        os.truncate(path, 1000)
        return members

    monkeypatch.setattr(archive._Scanner, "run", run)
    with pytest.raises(IntegrityError) as caught:
        unpack(path, out)
    assert caught.value.problems[0].code == "archive-cut-short"


def test_no_descriptor_is_left_open(put: Put, out: Path) -> None:
    fds = Path("/proc/self/fd")
    if not fds.is_dir():
        pytest.skip("the system does not list open files")
    before = len(list(fds.iterdir()))

    unpack(put(make_tar(make_member("a/b/c/d", b"1"))), out)

    assert len(list(fds.iterdir())) == before


# Digest


def test_the_tree_digest_by_hand() -> None:
    one, two = (hashlib.sha256(data).hexdigest() for data in (b"1", b"22"))
    lines = f"{two}  2  Z\n{one}  1  a\n{one}  1  é\n"

    entries = [TreeFile("é", 1, one), TreeFile("a", 1, one), TreeFile("Z", 2, two)]

    assert compute_tree_digest(entries) == hashlib.sha256(lines.encode()).hexdigest()


def test_the_tree_digest_sorts_by_bytes_not_by_utf16_units() -> None:
    # U+FF5E sorts after U+1F600 in UTF-16, before it in UTF-8.
    entries = [TreeFile("\uff5e", 1, "0" * 64), TreeFile("\U0001f600", 1, "1" * 64)]

    target = f"{'0' * 64}  1  \uff5e\n{'1' * 64}  1  \U0001f600\n"
    assert compute_tree_digest(entries) == hashlib.sha256(target.encode()).hexdigest()


# Words


SPOKEN = {
    "a link": (make_tar(make_member("ok"), make_header("a/b", flag=b"2", link=b"../x")),
        Locked(sha256="", where=PLACES)),
    "a name that commands": (make_tar(make_member(b"\n::error::\x1b[31m##[x]")), UNLOCKED),
    "a file too many": (TWO, Locked(sha256="", files=1, where=PLACES)),
    "compressed": (gzip.compress(TWO), UNLOCKED),
    "two names that are one": (make_tar(make_member("d/ß"), make_member("d/SS")), UNLOCKED),
    "cut short": (TWO[:1300], UNLOCKED),
    "cut short in a member": (make_tar(make_header("a", size=5000)), UNLOCKED),
}  # fmt: skip


def test_messages(put: Put, golden: Callable[..., None]) -> None:
    text = ""
    for name, (data, locked) in SPOKEN.items():
        text += f"# {name}\n{rejected(put(data), locked)}\n"
    golden(text)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("plain ü 日本", "plain ü 日本"),
        ("a\tb\r\n\0\x7f\x85", r"a\x09b\x0d\x0a\x00\x7f\x85"),
        ("\u202e\u2028\ufeff\U000e0001", r"\u202e\u2028\ufeff\U000e0001"),
        ("::set-env::x ##[error]", r"\x3a\x3aset-env\x3a\x3ax \x23\x23[error]"),
        (":::", r"\x3a\x3a:"),
        (b"ok\xff", r"ok\xff"),
        ("\udc80\ud800", r"\x80\ud800"),
        ("a" * 201, "a" * 200 + "…"),
        (b"a" * 10_000, "a" * 200 + "…"),
    ],
)
def test_sanitize(text: str | bytes, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert sanitize(text) == target


@given(st.text() | st.binary())
def test_sanitized_text_is_one_harmless_line(text: str | bytes) -> None:
    with mock.patch.dict("os.environ", {"GITHUB_ACTIONS": "true"}):
        printed = sanitize(text)

    assert not {unicodedata.category(char) for char in printed} & UNPRINTABLE
    assert "::" not in printed
    assert "##[" not in printed


def test_memory_for_deep_names_is_bounded_by_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_names, "MAX_FOLDERS", 61)
    places = member_names.NameTree()
    places.reserve(("1", *("d" * 30), "f"), is_folder=False)

    with pytest.raises(ArchiveError, match="too many folders"):
        places.reserve(("2", *("d" * 30), "f"), is_folder=False)


def test_scanning_writes_nothing(tmp_path: Path, put: Put) -> None:
    scan(put(TWO))

    assert [item.name for item in tmp_path.iterdir()] == ["x.tar"]
