"""Pickles and archives as torch writes them, put together piece by piece so that one can be wrong.

Sources: the pickles of ``torch.save`` read with ``pickletools.dis``; ``Lib/pickletools.py`` of
CPython for the opcodes; PKWARE's APPNOTE for zip.
"""

from __future__ import annotations

import io
import struct
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PROTO, STOP = b"\x80\x02", b"."
MARK, TUPLE, REDUCE, PERSID = b"(", b"t", b"R", b"Q"
EMPTY_DICT, SETITEMS, SETITEM = b"}", b"u", b"s"
EMPTY_TUPLE, EMPTY_LIST, FALSE, NONE = b")", b"]", b"\x89", b"N"
PREFIX = "archive"
_BYTE, _SHORT, _INT = 2**8, 2**16, 2**31


def push_text(value: str) -> bytes:
    """BINUNICODE."""
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def push_int(value: int) -> bytes:
    """The shortest opcode that holds ``value``: BININT1, BININT2, BININT or LONG1."""
    if 0 <= value < _BYTE:
        return b"K" + struct.pack("<B", value)
    if 0 <= value < _SHORT:
        return b"M" + struct.pack("<H", value)
    return b"J" + struct.pack("<i", value) if -_INT <= value < _INT else push_long1(value)


def push_long1(value: int) -> bytes:
    """LONG1, whatever the size."""
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def push_global(module: str, name: str) -> bytes:
    """GLOBAL."""
    return f"c{module}\n{name}\n".encode()


def push_tuple(*items: bytes) -> bytes:
    """MARK, the items, TUPLE."""
    return MARK + b"".join(items) + TUPLE


def push_ints(values: Iterable[int]) -> bytes:
    """A tuple of integers."""
    return push_tuple(*map(push_int, values))


ORDERED_DICT = push_global("collections", "OrderedDict") + EMPTY_TUPLE + REDUCE


def push_storage(key: str = "0", length: int = 6, kind: str = "FloatStorage") -> bytes:
    """A storage by its persistent id."""
    parts = (
        push_text("storage"),
        push_global("torch", kind),
        push_text(key),
        push_text("cpu"),
        push_int(length),
    )
    return push_tuple(*parts) + PERSID


def push_tensor(
    on: bytes | None = None,
    *,
    offset: bytes | None = None,
    size: Iterable[int] = (2, 3),
    stride: Iterable[int] = (3, 1),
    call: tuple[str, str] = ("torch._utils", "_rebuild_tensor_v2"),
) -> bytes:
    """A view of a storage; by default [2, 3] over six elements."""
    view = (offset or push_int(0), push_ints(size), push_ints(stride))
    return (
        push_global(*call) + push_tuple(on or push_storage(), *view, FALSE, ORDERED_DICT) + REDUCE
    )


def push_dict(*pairs: tuple[str, bytes]) -> bytes:
    """A dict with text for keys."""
    members = b"".join(push_text(key) + value for key, value in pairs)
    return EMPTY_DICT + MARK + members + SETITEMS


def build_pickle(value: bytes) -> bytes:
    """A pickle of protocol 2 that holds ``value``."""
    return PROTO + value + STOP


def build_archive(
    pickle: bytes,
    storages: Mapping[str, bytes],
    *,
    records: Mapping[str, bytes | None] | None = None,
) -> bytes:
    """A zip with stored members and fixed times, as torch lays it out.

    Args:
        pickle: `data.pkl`.
        storages: Raw storages by key.
        records: Further members below the prefix; None takes one away.
    """
    members: dict[str, bytes | None] = {"data.pkl": pickle, "byteorder": b"little"}
    members |= {f"data/{key}": raw for key, raw in storages.items()}
    members |= {"version": b"3\n", **(records or {})}
    named = {f"{PREFIX}/{name}": raw for name, raw in members.items() if raw is not None}
    return build_zip(named.items())


def build_zip(
    members: Iterable[tuple[str, bytes]], *, method: int = zipfile.ZIP_STORED, comment: bytes = b""
) -> bytes:
    """A zip of ``members`` in their order; a name may come twice."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, raw in members:
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = method
            info.create_system = 0  # else the maker's own system is recorded
            if name not in file.NameToInfo:
                file.writestr(info, raw)
            else:
                _write_duplicate(file, info, raw)
        file.comment = comment
    return buffer.getvalue()


def _write_duplicate(file: zipfile.ZipFile, info: zipfile.ZipInfo, raw: bytes) -> None:
    """Write a member whose name is taken; the library would warn of it."""
    known = file.NameToInfo.pop(info.filename)
    file.writestr(info, raw)
    file.NameToInfo[info.filename] = known


MAGIC = push_long1(0x1950A86A20F9469CFC6C)
SYSTEM = EMPTY_DICT + MARK + push_text("protocol_version") + push_int(1001)
SYSTEM += push_text("little_endian") + b"\x88" + push_text("type_sizes")
SYSTEM += push_dict(("short", push_int(2)), ("int", push_int(4)), ("long", push_int(4))) + SETITEMS


def push_legacy_storage(key: str, length: int, kind: str = "FloatStorage") -> bytes:
    """A storage of the legacy stream: its id ends with the view, which is None."""
    parts = (
        push_text("storage"),
        push_global("torch", kind),
        push_text(key),
        push_text("cpu"),
        push_int(length),
        NONE,
    )
    return push_tuple(*parts) + PERSID


def build_legacy(
    value: bytes,
    storages: Mapping[str, tuple[int, bytes]],
    *,
    magic: bytes = MAGIC,
    version: int = 1001,
    keys: Iterable[str] | None = None,
) -> bytes:
    """The container that torch wrote before 1.6: five pickles, then the storages.

    Args:
        value: The checkpoint, a pickle's inside.
        storages: By key the count of elements that stands before it, and its bytes.
        magic: The first pickle's value.
        version: The second's.
        keys: The last's, by default those of ``storages``.
    """
    listed = sorted(storages if keys is None else keys)
    names = EMPTY_LIST + MARK + b"".join(map(push_text, listed)) + b"e"
    pickles = [magic, push_int(version), SYSTEM, value, names]
    data = [struct.pack("<q", count) + raw for _, (count, raw) in sorted(storages.items())]
    return b"".join([build_pickle(pickle) for pickle in pickles] + data)
