"""Pack a bundle: the same files give the same bytes, on every system.

The headers are written here and not by ``tarfile``, whose choice of fields for
a name has changed between Python versions; a digest in a lockfile must not
depend on that. Format: POSIX.1-2001, "pax Interchange Format" (ustar headers;
an extended header only before a name that does not fit ustar). Members are
regular files in the order of their UTF-8 names: folders follow from the names,
and times, owners and modes are constants. The archive ends with the two zero
blocks that the format asks for; tape records of 10 KiB are not filled up,
since no reader of files needs them.
"""

from __future__ import annotations

import json
import secrets
import shutil
import struct
from typing import TYPE_CHECKING, Any, BinaryIO

from parity.errors import ConfigError, Problem
from parity.lab.libraries import require_version
from parity.store.member_names import ArchiveError, NameTree, split_name
from parity.tensors.bin import encode_tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    #: Content of a member: its bytes, or a file to copy them from.
    MemberContent = bytes | Path

BLOCK_SIZE = 512
#: Largest size that ustar's eleven octal digits can state.
MAX_MEMBER_BYTES = 8**11 - 1
_NAME, _PREFIX = 100, 155
_MODE, _ID, _TIME = b"0000644\0", b"0000000\0", b"00000000000\0"
_REGULAR, _EXTENDED = b"0", b"x"


def pack(files: Mapping[str, MemberContent], target: Path) -> Path:
    """Write ``files``, by member name, as a tar at ``target``, which appears whole or not at all.

    Files on disk are streamed, so that memory does not grow with the bundle. The target's folder
    is made, an earlier file is replaced. Return ``target``.

    Raises:
        ConfigError: A name could not be unpacked on every system, or a file
            is too large for the format.
    """
    check_member_names(files)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as tar:  # follows no link
            for name in sorted(files, key=str.encode):
                _write_member(tar, name, files[name])
            tar.write(bytes(2 * BLOCK_SIZE))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write ``files``, by member name, into ``folder``, with the folders that they need."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def list_files(folder: Path) -> dict[str, Path]:
    """List all files under ``folder`` by their member name."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path for path in paths}


def check_member_names(names: Iterable[str]) -> None:
    """Reject names that could not be unpacked on every system, by the extractor's own rules.

    Raises:
        ConfigError: ``unsafe-name``, with every such name and why.
    """
    places = NameTree()
    rejected = [
        (name, reason) for name in sorted(names) if (reason := _find_name_problem(name, places))
    ]
    problems = [
        Problem("unsafe-name", f"{name!a} cannot be a member of a bundle: {reason}")
        for name, reason in rejected
    ]
    if problems:
        raise ConfigError(*problems)


def _find_name_problem(name: str, places: NameTree) -> str:
    """Find why ``name`` is rejected; else record its path and return ``""``."""
    try:
        # Other packers write a leading "./"; ours does not.
        if name.startswith("./"):
            return "it begins with './'"
        places.reserve(
            split_name(name.encode("utf-8", "surrogatepass"), is_folder=False), is_folder=False
        )
    except ArchiveError as refusal:
        return f"{refusal.reason}: expected {refusal.expected}, obtained {refusal.obtained}"
    return ""


def write_reference(folder: Path, name: str, values: NDArray[np.float32]) -> None:
    """Write ``values``, of any shape and strides, to ``<name>.bin`` in an existing folder.

    Raises:
        ConfigError: The name cannot be a file name; nothing is written then.
    """
    check_member_names([f"{name}.bin"])
    path = folder / f"{name}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_tensor(values))


def encode_json(value: Any, separators: tuple[str, str] | None = None) -> bytes:
    """Encode ``value`` as readable JSON: UTF-8, keys in the order given.

    The members of the outer mapping, and of mappings in it, have a line each; all else is
    compact, with spaces unless ``separators`` have none.

    Raises:
        ValueError: A number is not finite, which JSON cannot express.
    """
    return f"{_format_value(value, 2, separators)}\n".encode()


def _format_value(value: Any, depth: int, separators: tuple[str, str] | None) -> str:
    if depth == 0 or not isinstance(value, dict) or not value:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=separators)
    margin = " " * (3 - depth)
    members = (
        f"{margin}{json.dumps(key, ensure_ascii=False)}: "
        f"{_format_value(one, depth - 1, separators)}"
        for key, one in value.items()
    )
    return "{\n" + ",\n".join(members) + f"\n{margin[1:]}}}"


def encode_provenance(
    bundle: str,
    *,
    libraries: Sequence[str],
    seeds: Mapping[str, int],
    upstream: Sequence[Mapping[str, str]] = (),
) -> bytes:
    """Encode ``provenance.json``: the origin of the content, never where it was packed.

    ``libraries`` are those whose behaviour decides the bundle's bytes, ``seeds`` are by their use,
    ``upstream`` are foreign files, each with name, sha256 and licence.
    """
    versions = {name: require_version(name) for name in libraries}
    record = {
        "schema": 1,
        "bundle": bundle,
        "versions": versions,
        "seeds": dict(seeds),
        "upstream": [dict(file) for file in upstream],
        "licence": "MIT",
    }
    return encode_json(record)


def _write_member(tar: BinaryIO, name: str, source: MemberContent) -> None:
    size = len(source) if isinstance(source, bytes) else source.stat().st_size
    if size > MAX_MEMBER_BYTES:
        message = f"{name!r} has {size:,} bytes; a ustar member has at most {MAX_MEMBER_BYTES:,}"
        raise ConfigError(Problem("too-large", message))
    tar.writelines(_build_headers(name, size))
    start = tar.tell()
    if isinstance(source, bytes):
        tar.write(source)
    else:
        with source.open("rb") as file:
            shutil.copyfileobj(file, tar, 1 << 20)
    if (written := tar.tell() - start) != size:
        message = f"{name!r} changed while it was packed: from {size:,} to {written:,} bytes"
        raise ConfigError(Problem("changed-on-disk", message))
    tar.write(_make_padding(size))


def _build_headers(name: str, size: int) -> Iterator[bytes]:
    split = _split_name(name)
    if split is None:
        record = _build_pax_record("path", name)
        yield _build_header(b"././@PaxHeader", b"", len(record), _EXTENDED)
        yield record + _make_padding(len(record))
        # Readers that do not know pax see a shortened name here.
        split = name.encode("ascii", "replace")[:_NAME], b""
    yield _build_header(*split, size, _REGULAR)


def _split_name(name: str) -> tuple[bytes, bytes] | None:
    """Split ``name`` into ustar's fields (name, prefix); None where it does not fit."""
    if not name.isascii():
        # ustar does not say which encoding a name is in; pax does.
        return None
    raw = name.encode()
    if len(raw) <= _NAME:
        return raw, b""
    cut = raw.rfind(b"/", 0, _PREFIX + 1)
    if cut < 1 or len(raw) - cut - 1 > _NAME:
        return None
    return raw[cut + 1 :], raw[:cut]


def _build_header(name: bytes, prefix: bytes, size: int, kind: bytes) -> bytes:
    def with_checksum(checksum: bytes) -> bytes:
        return struct.pack(
            "100s8s8s8s12s12s8s1s100s6s2s32s32s8s8s155s12x",
            *(name, _MODE, _ID, _ID, b"%011o\0" % size, _TIME, checksum, kind),
            *(b"", b"ustar\0", b"00", b"", b"", _ID, _ID, prefix),
        )

    # The checksum is computed with spaces in its own field.
    return with_checksum(b"%06o\0 " % sum(with_checksum(b" " * 8)))


def _build_pax_record(key: str, value: str) -> bytes:
    r"""Build ``<length> <key>=<value>\n``, where the length counts its own digits."""
    body = f" {key}={value}\n".encode()
    length = len(body)
    while length != (longer := len(body) + len(str(length))):
        length = longer
    return str(length).encode() + body


def _make_padding(size: int) -> bytes:
    return bytes(-size % BLOCK_SIZE)
