"""Read a pickle without running it: calls that it would make are returned as such."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


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
    import pickletools

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

    def push_state(self, state: Any) -> None:
        """Keep a state of a call, which may change a tensor; that of a mapping changes none."""
        if isinstance(self.stack[-1], PickledCall):
            self.stack[-1] = PickledCall("BUILD", (self.stack[-1], state))

    def update(self, items: list[Any]) -> None:
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))


_ACTIONS: dict[str, Callable[[_PickleMachine, Any], Any]] = {
    **dict.fromkeys(("GLOBAL", "STACK_GLOBAL"), _PickleMachine.push_global),
    **dict.fromkeys(("REDUCE", "NEWOBJ"), _PickleMachine.push_call),
    "BUILD": lambda machine, _: machine.push_state(machine.stack.pop()),
    "BINPERSID": lambda m, _: m.stack.append(PickledCall(None, tuple(m.stack.pop()))),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.pop_marked())),
    "APPEND": lambda m, _: (items := m.pop_last(1), m.stack[-1].extend(items)),
    "APPENDS": lambda m, _: (items := m.pop_marked(), m.stack[-1].extend(items)),
    "SETITEM": lambda machine, _: machine.update(machine.pop_last(2)),
    "SETITEMS": lambda machine, _: machine.update(machine.pop_marked()),
}
