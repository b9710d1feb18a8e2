"""The views and storages of a zip that ``torch.save`` wrote.

A storage is a member of the archive, a tensor a view of one: dtype, offset, sizes, strides.
Only little-endian storages that are stored as they are lie in the file as such.
"""

from __future__ import annotations

import struct
import zipfile
from typing import TYPE_CHECKING, Any

from parity.checkpoints.location import StorageLocation, apply_stride, convert_torch_dtype
from parity.checkpoints.pickle_reader import PickledCall, read_pickle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    Span = tuple[int, int]

_LOCAL_HEADER = 30
#: Bytes of a pickle that is looked at; weights are not in it.
_MAX_PICKLE_BYTES = 2**23
_MAX_DEPTH = 8
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
_PARSE_ERRORS = (
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    struct.error,
    OverflowError,
    RecursionError,
)


def locate_tensors(path: Path) -> dict[str, StorageLocation]:
    """Where the tensors lie, by name; those that are no plain view of a storage are left out."""
    try:
        with zipfile.ZipFile(path) as archive:
            if len(set(archive.namelist())) < len(archive.namelist()):
                return {}  # which of two members is meant, nobody says
            prefix = _find_prefix(archive)
            if _read_member(archive, f"{prefix}byteorder", b"little") != b"little":
                return {}
            root = read_pickle(_read_member(archive, f"{prefix}data.pkl"))
            spans = locate_members(archive, path)
        locations = {
            name: _locate(path, rebuilt, prefix, spans)
            for name, rebuilt in _walk_tensors(root, "", 0)
        }
    except (
        OSError,
        zipfile.BadZipFile,
        NotImplementedError,
        RuntimeError,
        EOFError,
        *_PARSE_ERRORS,
    ):
        return {}
    return {name: location for name, location in locations.items() if location is not None}


def _find_prefix(archive: zipfile.ZipFile) -> str:
    """What stands before the names of an archive's members; torch names it after the file."""
    name = next((name for name in archive.namelist() if name.endswith("data.pkl")), "")
    return name.removesuffix("data.pkl")


def _read_member(archive: zipfile.ZipFile, name: str, default: bytes = b"") -> bytes:
    if name not in archive.namelist():
        return default
    with archive.open(name) as member:
        return member.read(_MAX_PICKLE_BYTES)


def locate_members(archive: zipfile.ZipFile, path: Path) -> dict[str, Span]:
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


def _walk_tensors(value: Any, name: str, depth: int) -> Iterator[tuple[str, PickledCall]]:
    """All that is rebuilt below a mapping; names of nested ones join with a dot."""
    if isinstance(value, PickledCall) and str(value.function) == _PARAMETER:
        yield from _walk_tensors(value.args[0], name, depth)
    elif isinstance(value, PickledCall):
        yield name, value
    elif isinstance(value, dict) and depth < _MAX_DEPTH:
        for key, item in value.items():
            yield from _walk_tensors(item, f"{name}.{key}" if name else str(key), depth + 1)


def _locate(
    path: Path, rebuilt: PickledCall, prefix: str, spans: Mapping[str, Span]
) -> StorageLocation | None:
    try:
        return _parse_view(path, rebuilt, prefix, spans)
    except _PARSE_ERRORS:
        return None


def _parse_view(
    path: Path, rebuilt: PickledCall, prefix: str, spans: Mapping[str, Span]
) -> StorageLocation | None:
    """The view that a call rebuilds: storage, offset, sizes, strides, and in v3 its dtype."""
    call, (storage, offset, sizes, strides, *more) = str(rebuilt.function), rebuilt.args
    if call not in (_V2, _V3):
        return None
    _, class_, key, *_ = storage.args
    kind = convert_torch_dtype(more[2].name) if call == _V3 else _STORAGES.get(class_.name)
    span = spans.get(f"{prefix}data/{key}")
    numbers = (offset, *sizes, *strides)
    if kind is None or span is None or not all(type(n) is int and n >= 0 for n in numbers):
        return None
    first, last = span
    if last > path.stat().st_size:
        return None
    location = StorageLocation(
        path=path, start=first, stop=last, type_name=kind, shape=tuple(sizes), storage_offset=offset
    )
    return apply_stride(location, tuple(strides))
