"""Checkpoints of torch that must be refused: what is wrong in the pickle and its storages."""

from __future__ import annotations

import struct

from parity.pins.zoo import pickles
from parity.pins.zoo.containers import one, right, six
from parity.pins.zoo.entry import Entry
from parity.pins.zoo.pickles import (
    REDUCE,
    archive,
    glob,
    integer,
    mapping,
    tensor,
    text,
    tup,
    whole,
)

_TORCH = "torch.load refuses, with and without weights_only"
_OPCODES = "CPython Lib/pickletools.py"
#: Levels that overflow a stack of 8 MiB in a reader that calls itself at each.
DEEP = 100_000
#: What the hostile pickle would leave behind.
MARKER = "zoo-marker"


def entries() -> list[Entry]:
    """The cases, in the order of the page."""
    return [
        *_opcodes(),
        *_lengths(),
        *_nesting(),
        *_globals(),
    ]


def case(
    name: str,
    content: bytes,
    why: str,
    rule: str = _TORCH,
    *,
    document: bool = False,
    hostile: bool = False,
) -> Entry:
    """A case to be refused."""
    return Entry(
        id=f"pth-n-{name}", content=content, why=why, rule=rule, document=document, hostile=hostile
    )


def _pickled(name: str, pickle: bytes) -> bytes:
    return archive(pickle, {"0": six(name)})


def _opcodes() -> list[Entry]:
    good = mapping(("w", tensor()))
    return [
        case(
            "unknown-opcode",
            _pickled("op", pickles.PROTO + b"y" + good + b"."),
            "0x79, which no protocol defines",
            _OPCODES,
            document=True,
        ),
        case(
            "memo-never-set",
            one("memo", mapping(("w", b"h\x63"))),
            "BINGET of a memo that was never set",
            _OPCODES,
        ),
        case("no-stop", _pickled("stop", pickles.PROTO + good), "a pickle without STOP", _OPCODES),
        case("empty-pickle", _pickled("empty", b""), "a data.pkl without a byte"),
        case(
            "cut-pickle", _pickled("cut", whole(good)[:60]), "a data.pkl cut short inside a tensor"
        ),
        case(
            "stack-underflow",
            _pickled("under", whole(b"K\x01\x87")),
            "TUPLE3 with one value on the stack",
            _OPCODES,
        ),
        case(
            "mark-never-set",
            _pickled("mark", whole(pickles.EMPTY_DICT + pickles.SETITEMS)),
            "SETITEMS without a MARK",
            _OPCODES,
        ),
        case(
            "setitem-on-int",
            _pickled("on int", whole(b"K\x01" + text("w") + tensor() + b"s")),
            "SETITEM on an integer",
            _OPCODES,
        ),
        case(
            "odd-setitems",
            _pickled("odd", whole(pickles.EMPTY_DICT + b"(" + text("w") + b"u")),
            "SETITEMS with a key and no value",
        ),
    ]


def _lengths() -> list[Entry]:
    head = pickles.PROTO + pickles.EMPTY_DICT + b"("

    def long(name: str, opcode: bytes, rest: bytes = b"w") -> bytes:
        return _pickled(name, head + opcode + rest)

    unpaired = pickles.EMPTY_DICT + b"(X\x02\x00\x00\x00\xff\xfe" + tensor() + b"u"
    return [
        case("string-2-31", long("s31", b"X\x00\x00\x00\x80"), "BINUNICODE that claims 2^31 bytes"),
        case(
            "string-2-63",
            long("s63", b"\x8d" + struct.pack("<Q", 2**63)),
            "BINUNICODE8 that claims 2^63 bytes",
        ),
        case(
            "bytes-2-60",
            long("b60", b"\x8e" + struct.pack("<Q", 2**60)),
            "BINBYTES8 that claims 2^60 bytes",
            f"{_OPCODES}: as many bytes follow",
            document=True,
        ),
        case(
            "frame-2-60", long("f60", b"\x95" + struct.pack("<Q", 2**60)), "a FRAME of 2^60 bytes"
        ),
        case("long4-negative", long("l4", b"\x8b\xff\xff\xff\xff"), "LONG4 of length -1", _OPCODES),
        case(
            "string-not-utf8",
            _pickled("utf", whole(unpaired)),
            "a name that is not UTF-8",
            f"{_OPCODES}: BINUNICODE is UTF-8",
        ),
    ]


def _nesting() -> list[Entry]:
    tuples = pickles.EMPTY_TUPLE + b"\x85" * DEEP
    lists = pickles.EMPTY_LIST * 30_000 + b"a" * 29_999
    dicts = b"}(K\x00" * 20_000 + b"}" + b"u" * 20_000
    rule = "the format sets no depth: refuse, or pass over it; no stack may overflow"
    return [
        Entry(
            id=f"pth-i-deep-{name}",
            content=one(name, mapping(("w", tensor()), ("deep", value))),
            why=why,
            rule=rule,
            values=right(name),
        )
        for name, value, why in [
            ("tuples", tuples, "100,000 tuples in each other, beside a tensor"),
            ("lists", lists, "30,000 lists in each other, beside a tensor"),
            ("dicts", dicts, "20,000 dicts in each other, beside a tensor"),
        ]
    ]


def _globals() -> list[Entry]:
    command = f"echo > {MARKER}"
    evil = glob("posix", "system") + tup(text(command)) + REDUCE
    code = f"open({MARKER!r}, 'w').close()"
    evaluated = glob("builtins", "exec") + tup(text(code)) + REDUCE
    stacked = text("os") + text("system") + b"\x93" + tup(text(command)) + REDUCE
    rule = "torch.load(weights_only=True) refuses; nothing may be executed"
    return [
        case(
            "global-system",
            one("evil", mapping(("w", evil))),
            "a global that runs a command: posix.system",
            rule,
            hostile=True,
        ),
        case(
            "global-exec",
            one("exec", mapping(("w", evaluated))),
            "a global that runs Python: builtins.exec",
            rule,
            hostile=True,
        ),
        case(
            "global-stacked",
            one("stacked", mapping(("w", stacked))),
            "os.system by STACK_GLOBAL",
            rule,
            hostile=True,
        ),
        case(
            "global-beside",
            one("beside", mapping(("w", tensor()), ("v", evil))),
            "a right tensor, then a command",
            rule,
            hostile=True,
        ),
        case(
            "global-absent",
            one("absent", mapping(("w", tensor(call=("torch._utils", "_rebuild_nothing"))))),
            "a rebuild function that torch does not have",
        ),
        case(
            "call-of-no-function",
            one("call", mapping(("w", integer(3) + tup() + REDUCE))),
            "REDUCE of an integer",
            _OPCODES,
        ),
    ]
