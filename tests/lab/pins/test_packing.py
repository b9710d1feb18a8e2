"""The packer: constant bytes, names that unpack everywhere, nothing half written."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from parity.errors import ConfigError
from parity.lab import libraries
from parity.lab.pins import packing

FILES = {
    "b/two.bin": b"22",
    "a.json": b"{}",
    "b/empty": b"",
    "B-é/☃.bin": b"x" * 513,
    f"{'deep/' * 20}{'n' * 90}.bin": b"prefix and name",
    f"{'p' * 120}.bin": b"only pax holds this name",
}


def packed(tmp_path: Path, files: dict[str, bytes]) -> bytes:
    return packing.pack(dict(files), tmp_path / "out" / "bundle.tar").read_bytes()


def test_what_goes_in_comes_out_through_tarfile(tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(packed(tmp_path, FILES))) as tar:
        read = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    assert read == FILES


def test_bytes_are_the_recorded_ones(tmp_path: Path) -> None:
    digest = hashlib.sha256(packed(tmp_path, FILES)).hexdigest()
    assert digest == "4e92ecfaf32b86c5528f579d31d12ba40438c969b2ef94556f7346c9b7e33783"


def test_the_order_of_the_mapping_does_not_count(tmp_path: Path) -> None:
    backwards = dict(reversed(FILES.items()))
    assert packed(tmp_path, backwards) == packed(tmp_path, FILES)


def test_members_are_sorted_by_their_bytes(tmp_path: Path) -> None:
    # U+FF21 sorts before U+1F40D in UTF-8, after it in UTF-16.
    odd = {"\U0001f40d": b"", "\uff21": b"", "Z": b""}
    with tarfile.open(fileobj=io.BytesIO(packed(tmp_path, odd))) as tar:
        assert tar.getnames() == ["Z", "\uff21", "\U0001f40d"]


def test_owner_time_and_mode_are_constants(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x")
    source.chmod(0o700)
    os.utime(source, (1e9, 1e9))
    packing.pack({"x": source}, tmp_path / "x.tar")
    with tarfile.open(tmp_path / "x.tar") as tar:
        member = tar.getmember("x")
    seen = (member.uid, member.gid, member.uname, member.gname, member.mtime, member.mode)
    assert seen == (0, 0, "", "", 0, 0o644)


def test_a_file_on_disk_packs_like_its_bytes(tmp_path: Path) -> None:
    content = bytes(range(256)) * 5000
    (tmp_path / "source").write_bytes(content)
    from_disk = packing.pack({"x": tmp_path / "source"}, tmp_path / "1.tar")
    from_memory = packing.pack({"x": content}, tmp_path / "2.tar")
    assert from_disk.read_bytes() == from_memory.read_bytes()


def test_two_zero_blocks_end_it_and_no_record_is_filled(tmp_path: Path) -> None:
    content = packed(tmp_path, {"x": b"1"})
    assert len(content) == 4 * packing.BLOCK_SIZE
    assert content[-2 * packing.BLOCK_SIZE :] == bytes(2 * packing.BLOCK_SIZE)


def test_pax_is_used_only_where_ustar_cannot_contain_the_name(tmp_path: Path) -> None:
    compared = [name for name in FILES if name.isascii() and not name.startswith("ppp")]
    assert b"PaxHeader" not in packed(tmp_path, dict.fromkeys(compared, b""))
    for name in FILES.keys() - compared:
        assert packed(tmp_path, {name: b""})[156:157] == b"x"


@pytest.mark.parametrize("length", [*range(98, 104), 253, 254, 255])
def test_every_length_of_name_survives(tmp_path: Path, length: int) -> None:
    name = "n" * length
    with tarfile.open(fileobj=io.BytesIO(packed(tmp_path, {name: b"1"}))) as tar:
        assert tar.getnames() == [name]


def test_a_pax_record_counts_its_own_digits() -> None:
    for length in range(80, 120):
        record = packing._build_pax_record("path", "n" * length)
        assert int(record.split(b" ")[0]) == len(record)


def test_nothing_is_left_behind_when_it_fails(tmp_path: Path) -> None:
    target = tmp_path / "bundle.tar"
    target.write_bytes(b"the earlier one")
    with pytest.raises(FileNotFoundError):
        packing.pack({"x": tmp_path / "absent"}, target)
    assert [path.name for path in tmp_path.iterdir()] == ["bundle.tar"]
    assert target.read_bytes() == b"the earlier one"


def test_a_file_that_changes_meanwhile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"12345")

    def shortening(file: io.BufferedReader, tar: io.BufferedWriter, _: int) -> None:
        tar.write(file.read(3))

    monkeypatch.setattr(packing.shutil, "copyfileobj", shortening)
    with pytest.raises(ConfigError, match="'x' changed while it was packed: from 5 to 3 bytes"):
        packing.pack({"x": source}, tmp_path / "x.tar")


def test_a_file_too_large_for_the_format_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "MAX_MEMBER_BYTES", 4)
    with pytest.raises(ConfigError, match="'x' has 5 bytes; a ustar member has at most 4"):
        packing.pack({"x": b"12345"}, tmp_path / "x.tar")


@pytest.mark.parametrize(
    ("name", "why"),
    [("./a", "begins with"), ("a/../b", "is empty, '.' or '..'"), ("a\ud800b", "not UTF-8")],
)
def test_a_name_that_does_not_unpack_everywhere_is_refused(
    tmp_path: Path, name: str, why: str
) -> None:
    """By the rules of the store, which its own tests hold: `tests/store/test_archive.py`."""
    with pytest.raises(ConfigError) as caught:
        packing.pack({"fine": b"", name: b""}, tmp_path / "x.tar")
    (problem,) = caught.value.problems
    assert problem.code == "unsafe-name"
    assert why in problem.message
    assert not (tmp_path / "x.tar").exists()


def test_every_name_at_fault_is_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        packing.check_member_names(["a.", "nul", "A", "a"])
    assert len(caught.value.problems) == 3


def test_our_own_extractor_takes_it(tmp_path: Path) -> None:
    archive = pytest.importorskip("parity.store.archive", exc_type=ImportError)
    tar = packing.pack(dict(FILES), tmp_path / "bundle.tar")
    (tmp_path / "tree").mkdir()
    archive.unpack(tar, tmp_path / "tree")
    tree = packing.list_files(tmp_path / "tree")
    assert {name: path.read_bytes() for name, path in tree.items()} == FILES


def test_files_under_names_every_file(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_bytes(b"1")
    (tmp_path / "d").write_bytes(b"2")
    assert packing.list_files(tmp_path) == {
        "a/b/c": tmp_path / "a" / "b" / "c",
        "d": tmp_path / "d",
    }


def test_json_is_strict_and_keeps_its_order() -> None:
    value = {"b": [1, {"x": 2}], "a": {"é": 0.1, "z": {"y": None}}, "e": {}}
    text = packing.encode_json(value).decode()
    assert json.loads(text) == value
    assert text == (
        '{\n "b": [1, {"x": 2}],\n "a": {\n  "é": 0.1,\n  "z": {"y": null}\n },\n "e": {}\n}\n'
    )
    with pytest.raises(ValueError, match="not JSON compliant"):
        packing.encode_json({"x": float("nan")})


def test_provenance_names_versions_without_their_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries.metadata, "version", lambda _: "2.15.0+cu132")
    upstream = [{"name": "x.pth", "sha256": "0" * 64, "licence": "BSD-3-Clause"}]
    raw = packing.encode_provenance(
        "some-v1", libraries=["torch"], seeds={"w": 7}, upstream=upstream
    )
    assert json.loads(raw) == {
        "schema": 1,
        "bundle": "some-v1",
        "versions": {"torch": "2.15.0"},
        "seeds": {"w": 7},
        "upstream": upstream,
        "licence": "MIT",
    }


def test_a_library_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match="no_such_library is needed but not installed"):
        libraries.import_library("no_such_library")
    with pytest.raises(ConfigError, match="no-such-distribution is needed"):
        libraries.require_version("no-such-distribution")
