"""Checkpoints of torch that must be refused: what is wrong in the pickle and its storages."""

from __future__ import annotations

import struct

from parity.lab.zoo import pth_builder
from parity.lab.zoo.accept_pth_containers import one, right, six
from parity.lab.zoo.case import ZooCase
from parity.lab.zoo.pth_builder import (
    REDUCE,
    build_archive,
    build_pickle,
    push_dict,
    push_global,
    push_int,
    push_tensor,
    push_text,
    push_tuple,
)

_TORCH = "torch.load refuses, with and without weights_only"
_OPCODES = "CPython Lib/pickletools.py"
#: Levels that overflow a stack of 8 MiB in a reader that calls itself at each.
DEEP = 100_000
#: What the hostile pickle would leave behind.
MARKER = "zoo-marker"


def entries() -> list[ZooCase]:
    """The cases, in the order of the page."""
    return [
        *_opcodes(),
        *_lengths(),
        *_nesting(),
        *_globals(),
    ]


def make_case(
    name: str,
    content: bytes,
    why: str,
    rule: str = _TORCH,
    *,
    document: bool = False,
    hostile: bool = False,
) -> ZooCase:
    """A case to be refused."""
    return ZooCase(
        id=f"pth-n-{name}", content=content, why=why, rule=rule, document=document, hostile=hostile
    )


def _pickled(name: str, pickle: bytes) -> bytes:
    return build_archive(pickle, {"0": six(name)})


def _opcodes() -> list[ZooCase]:
    good = push_dict(("w", push_tensor()))
    return [
        make_case(
            "unknown-opcode",
            _pickled("op", pth_builder.PROTO + b"y" + good + b"."),
            "0x79, which no protocol defines",
            _OPCODES,
            document=True,
        ),
        make_case(
            "memo-never-set",
            one("memo", push_dict(("w", b"h\x63"))),
            "BINGET of a memo that was never set",
            _OPCODES,
        ),
        make_case(
            "no-stop", _pickled("stop", pth_builder.PROTO + good), "a pickle without STOP", _OPCODES
        ),
        make_case("empty-pickle", _pickled("empty", b""), "a data.pkl without a byte"),
        make_case(
            "cut-pickle",
            _pickled("cut", build_pickle(good)[:60]),
            "a data.pkl cut short inside a tensor",
        ),
        make_case(
            "stack-underflow",
            _pickled("under", build_pickle(b"K\x01\x87")),
            "TUPLE3 with one value on the stack",
            _OPCODES,
        ),
        make_case(
            "mark-never-set",
            _pickled("mark", build_pickle(pth_builder.EMPTY_DICT + pth_builder.SETITEMS)),
            "SETITEMS without a MARK",
            _OPCODES,
        ),
        make_case(
            "setitem-on-int",
            _pickled("on int", build_pickle(b"K\x01" + push_text("w") + push_tensor() + b"s")),
            "SETITEM on an integer",
            _OPCODES,
        ),
        make_case(
            "odd-setitems",
            _pickled("odd", build_pickle(pth_builder.EMPTY_DICT + b"(" + push_text("w") + b"u")),
            "SETITEMS with a key and no value",
        ),
    ]


def _lengths() -> list[ZooCase]:
    head = pth_builder.PROTO + pth_builder.EMPTY_DICT + b"("

    def long(name: str, opcode: bytes, rest: bytes = b"w") -> bytes:
        return _pickled(name, head + opcode + rest)

    unpaired = pth_builder.EMPTY_DICT + b"(X\x02\x00\x00\x00\xff\xfe" + push_tensor() + b"u"
    return [
        make_case(
            "string-2-31", long("s31", b"X\x00\x00\x00\x80"), "BINUNICODE that claims 2^31 bytes"
        ),
        make_case(
            "string-2-63",
            long("s63", b"\x8d" + struct.pack("<Q", 2**63)),
            "BINUNICODE8 that claims 2^63 bytes",
        ),
        make_case(
            "bytes-2-60",
            long("b60", b"\x8e" + struct.pack("<Q", 2**60)),
            "BINBYTES8 that claims 2^60 bytes",
            f"{_OPCODES}: as many bytes follow",
            document=True,
        ),
        make_case(
            "frame-2-60", long("f60", b"\x95" + struct.pack("<Q", 2**60)), "a FRAME of 2^60 bytes"
        ),
        make_case(
            "long4-negative", long("l4", b"\x8b\xff\xff\xff\xff"), "LONG4 of length -1", _OPCODES
        ),
        make_case(
            "string-not-utf8",
            _pickled("utf", build_pickle(unpaired)),
            "a name that is not UTF-8",
            f"{_OPCODES}: BINUNICODE is UTF-8",
        ),
    ]


def _nesting() -> list[ZooCase]:
    tuples = pth_builder.EMPTY_TUPLE + b"\x85" * DEEP
    lists = pth_builder.EMPTY_LIST * 30_000 + b"a" * 29_999
    dicts = b"}(K\x00" * 20_000 + b"}" + b"u" * 20_000
    rule = "the format sets no depth: refuse, or pass over it; no stack may overflow"
    return [
        ZooCase(
            id=f"pth-i-deep-{name}",
            content=one(name, push_dict(("w", push_tensor()), ("deep", value))),
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


def _globals() -> list[ZooCase]:
    command = f"echo > {MARKER}"
    evil = push_global("posix", "system") + push_tuple(push_text(command)) + REDUCE
    code = f"open({MARKER!r}, 'w').close()"
    evaluated = push_global("builtins", "exec") + push_tuple(push_text(code)) + REDUCE
    stacked = (
        push_text("os") + push_text("system") + b"\x93" + push_tuple(push_text(command)) + REDUCE
    )
    rule = "torch.load(weights_only=True) refuses; nothing may be executed"
    return [
        make_case(
            "global-system",
            one("evil", push_dict(("w", evil))),
            "a global that runs a command: posix.system",
            rule,
            hostile=True,
        ),
        make_case(
            "global-exec",
            one("exec", push_dict(("w", evaluated))),
            "a global that runs Python: builtins.exec",
            rule,
            hostile=True,
        ),
        make_case(
            "global-stacked",
            one("stacked", push_dict(("w", stacked))),
            "os.system by STACK_GLOBAL",
            rule,
            hostile=True,
        ),
        make_case(
            "global-beside",
            one("beside", push_dict(("w", push_tensor()), ("v", evil))),
            "a right tensor, then a command",
            rule,
            hostile=True,
        ),
        make_case(
            "global-absent",
            one("absent", push_dict(("w", push_tensor(call=("torch._utils", "_rebuild_nothing"))))),
            "a rebuild function that torch does not have",
        ),
        make_case(
            "call-of-no-function",
            one("call", push_dict(("w", push_int(3) + push_tuple() + REDUCE))),
            "REDUCE of an integer",
            _OPCODES,
        ),
    ]
