"""The views and storages of a zip that ``torch.save`` wrote.

A storage is a member of the archive, a tensor a view of one: dtype, offset, sizes, strides.
Only little-endian storages that are stored as they are lie in the file as such.
"""

from __future__ import annotations

import struct
import zipfile
from typing import TYPE_CHECKING, Any

from parity.raw.pickled import Made, unpickled
from parity.raw.record import Raw, kind_of, with_stride

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    Span = tuple[int, int]

_LOCAL_HEADER = 30
#: Bytes of a pickle that is looked at; weights are not in it.
_MOST = 2**23
_DEEPEST = 8
#: By the name of torch's storage class.
_STORAGES = {
    "DoubleStorage": "F64",
    "FloatStorage": "F32",
    "HalfStorage": "F16",
    "BFloat16Storage": "BF16",
    "LongStorage": "I64",
    "IntStorage": "I32",
    "ShortStorage": "I16",
    "CharStorage": "I8",
    "ByteStorage": "U8",
    "BoolStorage": "BOOL",
    "ComplexFloatStorage": "C64",
}
_V2, _V3 = "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor_v3"
_PARAMETER = "torch._utils._rebuild_parameter"
_ODD = (
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    struct.error,
    OverflowError,
    RecursionError,
)


def looked(path: Path) -> dict[str, Raw]:
    """Where the tensors lie, by name; those that are no plain view of a storage are left out."""
    try:
        with zipfile.ZipFile(path) as archive:
            if len(set(archive.namelist())) < len(archive.namelist()):
                return {}  # which of two members is meant, nobody says
            prefix = _prefix(archive)
            if _read(archive, f"{prefix}byteorder", b"little") != b"little":
                return {}
            root = unpickled(_read(archive, f"{prefix}data.pkl"))
            spans = members(archive, path)
        raws = {name: _raw(path, made, prefix, spans) for name, made in _tensors(root, "", 0)}
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, *_ODD):
        return {}
    return {name: raw for name, raw in raws.items() if raw is not None}


def _prefix(archive: zipfile.ZipFile) -> str:
    """What stands before the names of an archive's members; torch names it after the file."""
    name = next((name for name in archive.namelist() if name.endswith("data.pkl")), "")
    return name.removesuffix("data.pkl")


def _read(archive: zipfile.ZipFile, name: str, default: bytes = b"") -> bytes:
    if name not in archive.namelist():
        return default
    with archive.open(name) as member:
        return member.read(_MOST)


def members(archive: zipfile.ZipFile, path: Path) -> dict[str, Span]:
    """First byte and end of the members that are stored as they are, by name."""
    found = {}
    with path.open("rb") as file:
        for member in archive.infolist():
            if member.compress_type == zipfile.ZIP_STORED:
                file.seek(member.header_offset + 26)
                first = member.header_offset + _LOCAL_HEADER
                first += sum(struct.unpack("<HH", file.read(4)))
                found[member.filename] = (first, first + member.file_size)
    return found


def _tensors(value: Any, name: str, depth: int) -> Iterator[tuple[str, Made]]:
    """All that is rebuilt below a mapping; names of nested ones join with a dot."""
    if isinstance(value, Made) and str(value.call) == _PARAMETER:
        yield from _tensors(value.args[0], name, depth)
    elif isinstance(value, Made):
        yield name, value
    elif isinstance(value, dict) and depth < _DEEPEST:
        for key, item in value.items():
            yield from _tensors(item, f"{name}.{key}" if name else str(key), depth + 1)


def _raw(path: Path, made: Made, prefix: str, spans: Mapping[str, Span]) -> Raw | None:
    try:
        return _view(path, made, prefix, spans)
    except _ODD:
        return None


def _view(path: Path, made: Made, prefix: str, spans: Mapping[str, Span]) -> Raw | None:
    """The view that a call rebuilds: storage, offset, sizes, strides, and in v3 its dtype."""
    call, (storage, offset, sizes, strides, *more) = str(made.call), made.args
    if call not in (_V2, _V3):
        return None
    _, class_, key, *_ = storage.args
    kind = kind_of(more[2].name) if call == _V3 else _STORAGES.get(class_.name)
    span = spans.get(f"{prefix}data/{key}")
    numbers = (offset, *sizes, *strides)
    if kind is None or span is None or not all(type(n) is int and n >= 0 for n in numbers):
        return None
    first, last = span
    if last > path.stat().st_size:
        return None
    raw = Raw(path=path, first=first, last=last, kind=kind, shape=tuple(sizes), offset=offset)
    return with_stride(raw, tuple(strides))
