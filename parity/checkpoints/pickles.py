"""Read a pickle without running it: calls that it would make are returned as such.

By the standard library's unpickler in Python, whose memo a large index cannot make large.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from io import BytesIO
from typing import Any

#: The operations that a state dict needs; BYTEARRAY8, for one, allocates by a number in the file.
_OPCODES = """
    PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 LONG4
    FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE BINUNICODE8
    SHORT_BINUNICODE BINBYTES BINBYTES8 SHORT_BINBYTES PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET
    LONG_BINGET EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 APPEND APPENDS
    SETITEM SETITEMS GLOBAL STACK_GLOBAL REDUCE BUILD BINPERSID
"""
_MAPPINGS = ("collections.OrderedDict", "builtins.dict", "__builtin__.dict")


class _Mapping(dict[Any, Any]):
    def __setitem__(self, key: Any, value: Any) -> None:
        """Reject nested keys, whose hash or text may take forever or the whole stack."""
        parts = key if isinstance(key, tuple) else (key,)
        if any(isinstance(part, tuple | PickledCall) for part in parts):
            raise ValueError("a key of a mapping is nested")
        super().__setitem__(key, value)

    def __setstate__(self, _state: Any) -> None:
        """Leave out attributes, which change no tensor."""


@dataclass(frozen=True)
class Global:
    """A name in a module; nothing is imported."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"

    def __call__(self, *args: Any) -> Any:
        """Return the call, or an empty mapping."""
        is_empty = str(self) in _MAPPINGS and not args
        return _Mapping() if is_empty else PickledCall(self, args)

    def __setstate__(self, _state: Any) -> None:
        """Reject attributes, which would change the name."""
        raise ValueError(f"the pickle sets attributes of {self}, which no state dict does")


@dataclass(eq=False)
class PickledCall:
    """A call that unpickling would make; ``function`` is None for a persistent id."""

    function: Any
    args: tuple[Any, ...]

    def __str__(self) -> str:
        # Without the arguments, in which a tuple may be twice in another one, and so on.
        return f"what {self.function} returns"

    def __call__(self, *args: Any) -> PickledCall:
        """Return the call of what this one returns."""
        return PickledCall(self, args)

    def __setstate__(self, state: Any) -> None:
        """Become the call that sets a state, which may change a tensor."""
        self.args = (PickledCall(self.function, self.args), state)
        self.function = "BUILD"


_ACTIONS = pickle._Unpickler.dispatch  # noqa: SLF001 - the documented one is in C


class _Reader(pickle._Unpickler):  # noqa: SLF001 - as above
    dispatch = {  # noqa: RUF012 - as in the base
        **{code: _ACTIONS[code] for code in (getattr(pickle, o)[0] for o in _OPCODES.split())},
        pickle.NEWOBJ[0]: _ACTIONS[pickle.REDUCE[0]],
        # typeshed does not know the reader's `append`.
        pickle.EMPTY_DICT[0]: lambda reader: reader.append(_Mapping()),  # type: ignore[attr-defined]
    }

    def find_class(self, module: str, name: str) -> Any:
        return Global(module, name)

    def persistent_load(self, pid: Any) -> Any:
        return PickledCall(None, tuple(pid))


def read_pickle(data: bytes | BytesIO) -> Any:
    """Return the content of a pickle: mappings, lists, tuples, plain values and calls.

    A stream is read up to the pickle's end; it is in memory, since reading a file on disk allocates
    by a length that the pickle states.

    Raises:
        Exception: Damaged, or with an operation that these do not have; among others ValueError,
            LookupError, TypeError, AttributeError, EOFError and pickle.UnpicklingError.
    """
    try:
        stream = BytesIO(data) if isinstance(data, bytes) else data
        return _Reader(stream, encoding="latin-1").load()
    except KeyError as error:
        raise ValueError(f"the byte {error} is not an opcode of a state dict") from None
