"""Builders of pickles and archives as torch writes them, piece by piece, so that one can be wrong.

Sources: pickles of ``torch.save`` read with ``pickletools.dis``; ``Lib/pickletools.py`` of CPython
for the opcodes; PKWARE's APPNOTE for zip. The tensor ``w`` of most cases has the shape [2, 3].
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any

from parity.lab.zoo.case import ExpectedTensor, draw_dyadic, make_expected

PROTO, STOP = b"\x80\x02", b"."
MARK, TUPLE, REDUCE, PERSID = b"(", b"t", b"R", b"Q"
EMPTY_DICT, SETITEMS, SETITEM = b"}", b"u", b"s"
EMPTY_TUPLE, EMPTY_LIST, APPENDS, FALSE, NONE = b")", b"]", b"e", b"\x89", b"N"
_BYTE, _SHORT, _INT = 2**8, 2**16, 2**31


def push_text(value: str) -> bytes:
    """Encode BINUNICODE."""
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def push_int(value: int) -> bytes:
    """Encode the shortest opcode that fits ``value``: BININT1, BININT2, BININT or LONG1."""
    if 0 <= value < _BYTE:
        return b"K" + struct.pack("<B", value)
    if 0 <= value < _SHORT:
        return b"M" + struct.pack("<H", value)
    return b"J" + struct.pack("<i", value) if -_INT <= value < _INT else push_long1(value)


def push_long1(value: int) -> bytes:
    """Encode LONG1, also for a value that a shorter opcode fits."""
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def push_global(module: str, name: str) -> bytes:
    """Encode GLOBAL."""
    return f"c{module}\n{name}\n".encode()


def push_tuple(*items: bytes) -> bytes:
    """Encode MARK, the items, TUPLE."""
    return MARK + b"".join(items) + TUPLE


def push_ints(values: Iterable[int]) -> bytes:
    """Encode a tuple of integers."""
    return push_tuple(*map(push_int, values))


ORDERED_DICT = push_global("collections", "OrderedDict") + EMPTY_TUPLE + REDUCE


def push_storage(key: str = "0", length: int = 6, kind: str = "FloatStorage") -> bytes:
    """Encode a storage by its persistent id."""
    kind_and_place = push_global("torch", kind), push_text(key), push_text("cpu")
    return push_tuple(push_text("storage"), *kind_and_place, push_int(length)) + PERSID


def push_tensor(
    on: bytes | None = None,
    *,
    offset: int | bytes = 0,
    size: Iterable[int] = (2, 3),
    stride: Iterable[int] = (3, 1),
    call: tuple[str, str] = ("torch._utils", "_rebuild_tensor_v2"),
) -> bytes:
    """Encode a view of a storage; by default [2, 3] over six elements."""
    first = offset if isinstance(offset, bytes) else push_int(offset)
    view = (on or push_storage(), first, push_ints(size), push_ints(stride))
    return push_global(*call) + push_tuple(*view, FALSE, ORDERED_DICT) + REDUCE


def push_dict(*pairs: tuple[str, bytes]) -> bytes:
    """Encode a dict with text for keys."""
    members = b"".join(push_text(key) + value for key, value in pairs)
    return EMPTY_DICT + MARK + members + SETITEMS


def push_w(on: bytes | None = None, **view: Any) -> bytes:
    """Encode a dict with the tensor ``w``."""
    return push_dict(("w", push_tensor(on, **view)))


def build_pickle(value: bytes) -> bytes:
    """Build a pickle of protocol 2 that contains ``value``."""
    return PROTO + value + STOP


def draw_storage(name: str) -> bytes:
    """Draw the bytes of six f32."""
    return draw_dyadic(name, 6).tobytes()


def expect_w(name: str) -> Mapping[str, ExpectedTensor]:
    """Expect the tensor ``w`` on ``draw_storage(name)``."""
    return {"w": make_expected(draw_dyadic(name, 6).reshape(2, 3), "F32")}


def build_archive(
    pickle: bytes,
    storages: Mapping[str, bytes],
    records: Mapping[str, bytes | None] | None = None,
) -> bytes:
    """Build a zip with stored members and fixed times, as torch does.

    ``pickle`` is `data.pkl`, ``storages`` are by key, ``records`` are further members below the
    prefix; None removes one.
    """
    members: dict[str, bytes | None] = {"data.pkl": pickle, "byteorder": b"little"}
    members |= {f"data/{key}": raw for key, raw in storages.items()}
    members |= {"version": b"3\n", **(records or {})}
    named = {f"archive/{name}": raw for name, raw in members.items() if raw is not None}
    return build_zip(named.items())


def build_checkpoint(
    name: str, value: bytes | None = None, records: Mapping[str, bytes | None] | None = None
) -> bytes:
    """Build an archive with one storage drawn for ``name``; its pickle contains ``value``."""
    pickle = build_pickle(push_w() if value is None else value)
    return build_archive(pickle, {"0": draw_storage(name)}, records)


def build_view(name: str, offset: int | bytes = 0, **view: Any) -> bytes:
    """Build an archive whose tensor ``w`` is another view of its storage."""
    return build_checkpoint(name, push_w(offset=offset, **view))


def build_zip(
    members: Iterable[tuple[str, bytes]],
    method: int = zipfile.ZIP_STORED,
    *,
    comment: bytes = b"",
    zip64: bool = False,
) -> bytes:
    """Build a zip of ``members`` in their order; a name may occur twice."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, raw in members:
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = method
            info.create_system = 0  # else the writer's own system is recorded
            first = file.NameToInfo.pop(name, None)  # else the library warns of a duplicate
            with file.open(info, "w", force_zip64=zip64) as target:
                target.write(raw)
            if first:
                file.NameToInfo[name] = first
        file.comment = comment
    return buffer.getvalue()


MAGIC = push_long1(0x1950A86A20F9469CFC6C)
SYSTEM = EMPTY_DICT + MARK + push_text("protocol_version") + push_int(1001)
SYSTEM += push_text("little_endian") + b"\x88" + push_text("type_sizes")
SYSTEM += push_dict(("short", push_int(2)), ("int", push_int(4)), ("long", push_int(4))) + SETITEMS


def push_legacy_storage(key: str = "0", length: int = 6, kind: str = "FloatStorage") -> bytes:
    """Encode a storage of the legacy stream: its id ends with the view, which is None."""
    kind_and_place = push_global("torch", kind), push_text(key), push_text("cpu")
    return push_tuple(push_text("storage"), *kind_and_place, push_int(length), NONE) + PERSID


def build_legacy(
    value: bytes,
    storages: Mapping[str, tuple[int, bytes]],
    *,
    magic: bytes = MAGIC,
    version: int = 1001,
    keys: Iterable[str] | None = None,
) -> bytes:
    """Build the container that torch wrote before 1.6: five pickles, then the storages.

    ``value`` is the checkpoint, without the pickle around it; ``storages`` have by key the count
    of elements written before each, and its bytes; ``magic``, ``version`` and ``keys`` are the
    values of the first, second and last pickle.
    """
    listed = sorted(storages if keys is None else keys)
    names = EMPTY_LIST + MARK + b"".join(map(push_text, listed)) + APPENDS
    pickles = [magic, push_int(version), SYSTEM, value, names]
    data = [struct.pack("<q", count) + raw for _, (count, raw) in sorted(storages.items())]
    return b"".join([build_pickle(pickle) for pickle in pickles] + data)
