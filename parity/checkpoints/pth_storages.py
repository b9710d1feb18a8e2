"""Locate the tensors in a zip that ``torch.save`` wrote.

A storage is a member of the archive, a tensor a view of one: dtype, offset, sizes, strides.
Only little-endian storages that are not compressed are located.
"""

from __future__ import annotations

import pickletools
import struct
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parity.checkpoints.location import StorageLocation, apply_stride
from parity.tensors.dtypes import TORCH_DTYPES

Span = tuple[int, int]


@dataclass(frozen=True)
class Global:
    """A name in a module; nothing is imported."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True, eq=False)
class PickledCall:
    """A call that unpickling would make; ``function`` is None for a persistent id."""

    function: Any
    args: tuple[Any, ...]


class _Mark:
    """Begin of a run of arguments."""


_MAPPINGS = ("collections.OrderedDict", "builtins.dict", "__builtin__.dict")
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "MARK": _Mark}
_EMPTY: dict[str, type[Any]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_SHORT_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
#: Opcodes that push their argument, without the width that their names end with.
_PUSHED = (
    *("INT", "BININT", "LONG", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "UNICODE", "BINUNICODE", "BINBYTES"),
)
_IGNORED = ("PROTO", "FRAME", "STOP")


def read_pickle(data: bytes) -> Any:
    """Return the content of a pickle: mappings, lists, tuples, plain values and calls.

    Raises:
        ValueError, KeyError, IndexError, TypeError, AttributeError: Damaged, or with opcodes
            that a state dict does not need.
    """
    machine = _PickleMachine()
    for opcode, arg, _ in pickletools.genops(data):
        machine.step(opcode.name, arg)
    return machine.stack.pop()


class _PickleMachine:
    """The stack and the memo."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def step(self, name: str, arg: Any) -> None:
        if name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            self.stack.append(_EMPTY[name]())
        elif name in _SHORT_TUPLES:
            self.stack.append(tuple(self.pop_last(_SHORT_TUPLES[name])))
        elif name.removeprefix("SHORT_").rstrip("0123456789") in _PUSHED:
            self.stack.append(arg)
        elif name.endswith("PUT") or name == "MEMOIZE":
            self.memo[len(self.memo) if arg is None else int(arg)] = self.stack[-1]
        elif name.endswith("GET"):
            self.stack.append(self.memo[int(arg)])
        elif name not in _IGNORED:
            _ACTIONS[name](self, arg)

    def pop_last(self, count: int) -> list[Any]:
        found = self.stack[-count:]
        if len(found) < count:
            raise IndexError(count)
        del self.stack[-count:]
        return found

    def pop_marked(self) -> list[Any]:
        """Pop everything since the last mark, and the mark."""
        at = len(self.stack) - 1
        while self.stack[at] is not _Mark:
            at -= 1
        found = self.stack[at + 1 :]
        del self.stack[at:]
        return found

    def push_global(self, arg: str | None) -> None:
        parts = self.pop_last(2) if arg is None else arg.split(" ")
        self.stack.append(Global(*parts))

    def push_call(self, _arg: Any) -> None:
        call, args = self.pop_last(2)
        empty = str(call) in _MAPPINGS and not args
        self.stack.append({} if empty else PickledCall(call, tuple(args)))

    def update(self, items: list[Any]) -> None:
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))


_ACTIONS: dict[str, Callable[[_PickleMachine, Any], Any]] = {
    **dict.fromkeys(("GLOBAL", "STACK_GLOBAL"), _PickleMachine.push_global),
    **dict.fromkeys(("REDUCE", "NEWOBJ"), _PickleMachine.push_call),
    # State, such as a module's _metadata, changes no tensor.
    "BUILD": lambda machine, _: machine.stack.pop(),
    "BINPERSID": lambda m, _: m.stack.append(PickledCall(None, tuple(m.stack.pop()))),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.pop_marked())),
    "APPEND": lambda m, _: (items := m.pop_last(1), m.stack[-1].extend(items)),
    "APPENDS": lambda m, _: (items := m.pop_marked(), m.stack[-1].extend(items)),
    "SETITEM": lambda machine, _: machine.update(machine.pop_last(2)),
    "SETITEMS": lambda machine, _: machine.update(machine.pop_marked()),
}


_LOCAL_HEADER = 30
#: Bytes of a pickle that are read; weights are not in it.
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
    "ComplexDoubleStorage": "C128",
}
_V1, _V2, _V3 = (f"torch._utils._rebuild_tensor{suffix}" for suffix in ("", "_v2", "_v3"))
#: Calls that wrap a tensor, which is their first argument.
_WRAPPERS = ("torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state")
#: Calls that make a subclass; their first arguments are the inner function, the class, and
#: the function's arguments.
_SUBCLASSES = ("torch._tensor._rebuild_from_type", "torch._tensor._rebuild_from_type_v2")
_PARSE_ERRORS = (
    *(ValueError, LookupError, TypeError, AttributeError, struct.error),
    *(OverflowError, RecursionError),
)


def locate_tensors(path: Path) -> dict[str, StorageLocation]:
    """Locate the tensors of a file by name; only plain views of a storage are returned.

    A tensor of a nested mapping is returned under its full name, ``model.fc.weight``, and
    also under the shorter ones that no other tensor has, ``fc.weight``: a reference leaves
    out the key that the state dict is under.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if len(set(archive.namelist())) < len(archive.namelist()):
                return {}  # either of two members may be the right one
            # Torch names the prefix of the members after the file.
            pickles = (name for name in archive.namelist() if name.endswith("data.pkl"))
            prefix = next(pickles, "").removesuffix("data.pkl")
            if _read_member(archive, f"{prefix}byteorder", b"little") != b"little":
                return {}
            root = read_pickle(_read_member(archive, f"{prefix}data.pkl"))
            spans = locate_members(archive, path)
        calls = list(_walk_tensors(root, ()))
    except (OSError, zipfile.BadZipFile, RuntimeError, EOFError, *_PARSE_ERRORS):
        return {}
    names = Counter(name for keys, _ in calls for name in _list_names(keys))
    located: dict[str, StorageLocation] = {}
    for keys, call in calls:
        location = None
        with suppress(*_PARSE_ERRORS):
            location = _locate(path, call, prefix, spans)
        if location is not None:
            full, *shorter = _list_names(keys)
            located |= dict.fromkeys([full, *(n for n in shorter if names[n] == 1)], location)
    return located


def _list_names(keys: tuple[str, ...]) -> list[str]:
    """List the names of nested keys: joined by dots, then without the outermost ones."""
    return list(dict.fromkeys(".".join(keys[start:]) for start in range(len(keys))))


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


def _walk_tensors(
    value: Any, keys: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], PickledCall]]:
    """Yield each call that rebuilds a tensor, with its keys in nested mappings."""
    if isinstance(value, PickledCall):
        name = str(value.function)
        if name in _WRAPPERS:
            yield from _walk_tensors(value.args[0], keys)
        elif name in _SUBCLASSES:
            function, _, args = value.args[:3]
            yield from _walk_tensors(PickledCall(function, tuple(args)), keys)
        elif keys:
            yield keys, value
    elif isinstance(value, dict) and len(keys) < _MAX_DEPTH:
        for key, item in value.items():
            yield from _walk_tensors(item, (*keys, str(key)))


def _locate(
    path: Path, rebuilt: PickledCall, prefix: str, spans: Mapping[str, Span]
) -> StorageLocation | None:
    """Return the view that a call rebuilds: storage, offset, sizes, strides, and in v3 a dtype.

    Raises:
        One of ``_PARSE_ERRORS``: The call has other arguments.
    """
    call, (storage, offset, sizes, strides, *more) = str(rebuilt.function), rebuilt.args
    if call not in (_V1, _V2, _V3):
        return None
    _, class_, key, *_ = storage.args
    kind = TORCH_DTYPES[more[2].name].name if call == _V3 else _STORAGES.get(class_.name)
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
