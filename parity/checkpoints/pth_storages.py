"""Locate the tensors in a file that ``torch.save`` wrote.

A storage is a member of the archive, a tensor a view of one: dtype, offset, sizes, strides.
Before torch 1.6 the file was no archive: the storages follow their pickle.
Only little-endian storages that are not compressed are located.
"""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from parity.checkpoints.location import StorageLocation, apply_stride
from parity.checkpoints.pickles import PickledCall, read_pickle
from parity.tensors.dtypes import DTYPES, TORCH_DTYPES

Span = tuple[int, int]


_LOCAL_HEADER = 30
#: Bytes of a pickle that are read; weights are not in it.
_MAX_PICKLE_BYTES = 2**23
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_MAX_DEPTH = 8
_MAX_PARTS = 32  # Of a name that are left out one by one
_CONTAINERS = (dict, list, tuple)
_MAX_LEAVES = 2**18  # A mapping may be in another many times, and so on
#: By the name of torch's storage class.
_KINDS = "Double Float Half BFloat16 Long Int Short Char Byte Bool ComplexFloat ComplexDouble"
_DTYPES = "F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL C64 C128"
_STORAGES = {
    f"{kind}Storage": name for kind, name in zip(_KINDS.split(), _DTYPES.split(), strict=True)
}
_V1, _V2, _V3 = (f"torch._utils._rebuild_tensor{suffix}" for suffix in ("", "_v2", "_v3"))
ARGUMENTS = {_V1: range(4, 5), _V2: range(6, 8), _V3: range(7, 9)}  # The last is metadata
#: Calls that wrap a tensor, which is their first argument, and how many they have.
_WRAPPERS = {"torch._utils._rebuild_parameter": 3, "torch._utils._rebuild_parameter_with_state": 4}
#: Calls that make a subclass; their first arguments are the inner function, the class, and
#: the function's arguments.
_SUBCLASSES = ("torch._tensor._rebuild_from_type", "torch._tensor._rebuild_from_type_v2")
PARSE_ERRORS = (
    *(ValueError, LookupError, TypeError, AttributeError, struct.error),
    *(OverflowError, RecursionError, RuntimeError, EOFError),
    *(zipfile.BadZipFile, pickle.UnpicklingError),
)


class Archive(NamedTuple):
    """A zip that ``torch.save`` wrote; ``leaves`` are what is in nested mappings, with its keys."""

    path: Path
    prefix: str  # Of all members, as torch names them after the file
    pickle: bytes
    leaves: list[tuple[tuple[str, ...], Any]]
    spans: Mapping[str, Span]


def read_archive(path: Path) -> Archive:
    """Read the pickle of an archive.

    Raises:
        OSError, or one of ``PARSE_ERRORS``: It is damaged, or of a form that is not read.
    """
    with zipfile.ZipFile(path) as archive:
        if len(set(archive.namelist())) < len(archive.namelist()):
            raise ValueError("two members have one name")  # either may be the right one
        pickles = (name for name in archive.namelist() if name.endswith("data.pkl"))
        prefix = next(pickles, "").removesuffix("data.pkl")
        if _read_member(archive, f"{prefix}byteorder", b"little") != b"little":
            raise LookupError("the member byteorder is not little")
        pickle = _read_member(archive, f"{prefix}data.pkl")
        spans = locate_members(archive, path)
    leaves = [*islice(_walk_leaves(read_pickle(pickle), ()), _MAX_LEAVES)]
    if len(leaves) == _MAX_LEAVES:
        raise LookupError(f"the pickle has {_MAX_LEAVES:,} values or more")
    return Archive(path, prefix, pickle, leaves, spans)


def _read_legacy(path: Path) -> Archive:
    """Read the form before torch 1.6: five pickles, the last with the keys of the storages behind.

    Raises:
        OSError, or one of ``PARSE_ERRORS``: It is damaged, or of another form.
    """
    with path.open("rb") as file:
        stream = io.BytesIO(file.read(_MAX_PICKLE_BYTES))
        magic, _, _, value, keys = (read_pickle(stream) for _ in range(5))
        if magic != _LEGACY_MAGIC:
            raise ValueError("the first pickle is another one")
        if not all(isinstance(key, str) for key in keys):
            raise TypeError("a storage's key is not text")
        leaves = [*islice(_walk_leaves(value, (), _CONTAINERS), _MAX_LEAVES)]
        names, spans, end = {}, {}, stream.tell()
        for _, one in leaves:
            if isinstance(one, PickledCall) and str(one.function) in (_V1, _V2):
                _, class_, key, *_ = one.args[0].args
                if isinstance(key, str):
                    names[key] = _STORAGES[class_.name]
        for key in keys:
            file.seek(end)
            size = int.from_bytes(file.read(8), "little") * DTYPES[names[key]].storage.itemsize
            spans[f"data/{key}"] = (end + 8, end + 8 + size)
            end += 8 + size
    return Archive(path, "", b"", leaves, spans)


def locate_tensors(path: Path) -> dict[str, StorageLocation]:
    """Locate the tensors of a file by name; only plain views of a storage are returned.

    A tensor of a nested mapping is returned under its full name, ``model.fc.weight``, and
    also under the shorter ones that no other tensor has, ``fc.weight``: a reference leaves
    out the key that the state dict is under.
    """
    try:
        archive = read_archive(path) if zipfile.is_zipfile(path) else _read_legacy(path)
        walks = (_walk_leaves(leaf, keys, _CONTAINERS) for keys, leaf in archive.leaves)
        leaves = [*islice(chain.from_iterable(walks), _MAX_LEAVES)]
    except (OSError, *PARSE_ERRORS):
        return {}
    calls = [(keys, one) for keys, one in leaves if isinstance(one, PickledCall) and keys]
    names = Counter(name for keys, _ in calls for name in _list_names(keys))
    located: dict[str, StorageLocation] = {}
    for keys, call in calls:
        location = None
        with suppress(*PARSE_ERRORS):
            location = locate_view(archive, call)
        if location is not None:
            full, *shorter = _list_names(keys)
            located |= dict.fromkeys([full, *(n for n in shorter if names[n] == 1)], location)
    return located


def _list_names(keys: tuple[str, ...]) -> list[str]:
    """List the names of nested keys: joined by dots, then without their first parts."""
    parts = ".".join(keys).split(".", _MAX_PARTS)
    return [".".join(parts[start:]) for start in range(len(parts))]


def _read_member(archive: zipfile.ZipFile, name: str, default: bytes = b"") -> bytes:
    if name not in archive.namelist():
        return default
    with archive.open(name) as member:
        return member.read(_MAX_PICKLE_BYTES)


def locate_members(archive: zipfile.ZipFile, path: Path) -> dict[str, Span]:
    """Return first byte and end of the members that are not compressed, by name."""
    found = {}
    with path.open("rb") as file:
        for member in archive.infolist():
            if member.compress_type == zipfile.ZIP_STORED:
                file.seek(member.header_offset + 26)
                first = member.header_offset + _LOCAL_HEADER
                first += sum(struct.unpack("<HH", file.read(4)))
                found[member.filename] = (first, first + member.file_size)
    return found


def _walk_leaves(
    value: Any, keys: tuple[str, ...], containers: Any = dict
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield calls that rebuild tensors and all other values, with their keys in containers."""
    is_call = isinstance(value, PickledCall)
    if is_call and _is_wrapper(value):
        yield from _walk_leaves(value.args[0], keys)
    elif is_call and str(value.function) in _SUBCLASSES:
        function, _, args = value.args[:3]
        yield from _walk_leaves(PickledCall(function, tuple(args)), keys)
    elif isinstance(value, containers) and value and len(keys) < _MAX_DEPTH:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _walk_leaves(item, (*keys, str(key)), containers)
    else:
        yield keys, value


def _is_wrapper(call: PickledCall) -> bool:
    """Return whether a call is that of a parameter, with as many arguments as it takes."""
    is_whole = len(call.args) == _WRAPPERS.get(str(call.function))
    return is_whole and type(call.args[1]) is bool and isinstance(call.args[-1], dict | tuple)


def locate_view(archive: Archive, rebuilt: PickledCall) -> StorageLocation | None:
    """Return the view that a call rebuilds: storage, offset, sizes, strides, and in v3 a dtype.

    Raises:
        One of ``PARSE_ERRORS``: The call has other arguments.
    """
    call, (storage, offset, sizes, strides, *more) = str(rebuilt.function), rebuilt.args
    if call not in ARGUMENTS:
        return None
    _, class_, key, *_ = storage.args
    if not isinstance(key, str):
        return None
    kind = TORCH_DTYPES[more[2].name].name if call == _V3 else _STORAGES.get(class_.name)
    span = archive.spans.get(f"{archive.prefix}data/{key}")
    numbers = (offset, *sizes, *strides)
    if kind is None or span is None or not all(type(n) is int and n >= 0 for n in numbers):
        return None
    first, last = span
    if last > archive.path.stat().st_size:
        return None
    location = StorageLocation(
        path=archive.path,
        start=first,
        stop=last,
        type_name=kind,
        shape=tuple(sizes),
        storage_offset=offset,
    )
    return apply_stride(location, tuple(strides))
