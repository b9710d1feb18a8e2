"""A pickle walked without running anything in it: calls are kept as what they are.

Source of the opcodes: ``Lib/pickletools.py`` of CPython, which also reads them here.
"""

from __future__ import annotations

import pickletools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Global:
    """A name in a module; nothing is imported."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True, eq=False)
class Made:
    """What a call would make; of a persistent id ``call`` is None."""

    call: Any
    args: tuple[Any, ...]


class _Mark:
    """Where a run of arguments begins."""


_MAPPINGS = ("collections.OrderedDict", "builtins.dict", "__builtin__.dict")
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "MARK": _Mark}
_EMPTY: dict[str, Callable[[], Any]] = {
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
}
_SHORT = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
#: Opcodes that push their argument, without the width that their names end with.
_PUSHED = (
    *("INT", "BININT", "LONG", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "UNICODE", "BINUNICODE", "BINBYTES"),
)
_SILENT = ("PROTO", "FRAME", "STOP")


def unpickled(data: bytes) -> Any:
    """What a pickle holds: mappings, lists, tuples, plain values and calls.

    Raises:
        ValueError, KeyError, IndexError, TypeError, AttributeError: It is none, or has what a
            state dict has no need of.
    """
    machine = _Machine()
    for opcode, arg, _ in pickletools.genops(data):
        machine.step(opcode.name, arg)
    return machine.stack.pop()


class _Machine:
    """The stack and the memo."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def step(self, name: str, arg: Any) -> None:
        if name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            self.stack.append(_EMPTY[name]())
        elif name in _SHORT:
            self.stack.append(tuple(self.last(_SHORT[name])))
        elif name.removeprefix("SHORT_").rstrip("0123456789") in _PUSHED:
            self.stack.append(arg)
        elif name.endswith("PUT") or name == "MEMOIZE":
            self.memo[len(self.memo) if arg is None else int(arg)] = self.stack[-1]
        elif name.endswith("GET"):
            self.stack.append(self.memo[int(arg)])
        elif name not in _SILENT:
            _ACTS[name](self, arg)

    def last(self, count: int) -> list[Any]:
        found = self.stack[-count:]
        if len(found) < count:
            raise IndexError(count)
        del self.stack[-count:]
        return found

    def marked(self) -> list[Any]:
        """What was pushed since the last mark, which goes with it."""
        at = len(self.stack) - 1
        while self.stack[at] is not _Mark:
            at -= 1
        found = self.stack[at + 1 :]
        del self.stack[at:]
        return found

    def name(self, arg: str | None) -> None:
        parts = self.last(2) if arg is None else arg.split(" ")
        self.stack.append(Global(*parts))

    def call(self, _arg: Any) -> None:
        call, args = self.last(2)
        empty = str(call) in _MAPPINGS and not args
        self.stack.append({} if empty else Made(call, tuple(args)))

    def persistent(self, _arg: Any) -> None:
        self.stack.append(Made(None, tuple(self.stack.pop())))

    def group(self, _arg: Any) -> None:
        self.stack.append(tuple(self.marked()))

    def extend(self, items: list[Any]) -> None:
        self.stack[-1].extend(items)

    def put(self, items: list[Any]) -> None:
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))


_ACTS: dict[str, Callable[[_Machine, Any], Any]] = {
    "GLOBAL": _Machine.name,
    "STACK_GLOBAL": _Machine.name,
    "REDUCE": _Machine.call,
    "NEWOBJ": _Machine.call,
    # State, such as a module's _metadata, changes no tensor.
    "BUILD": lambda machine, _: machine.stack.pop(),
    "BINPERSID": _Machine.persistent,
    "TUPLE": _Machine.group,
    "APPEND": lambda machine, _: machine.extend(machine.last(1)),
    "APPENDS": lambda machine, _: machine.extend(machine.marked()),
    "SETITEM": lambda machine, _: machine.put(machine.last(2)),
    "SETITEMS": lambda machine, _: machine.put(machine.marked()),
}
