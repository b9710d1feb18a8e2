"""Checkpoints of torch that a reader must reject: faults in the pickle, its storages and views."""

from __future__ import annotations

import struct

from parity.lab.zoo.case import ZooCase
from parity.lab.zoo.pth_builder import (
    EMPTY_DICT,
    EMPTY_LIST,
    EMPTY_TUPLE,
    FALSE,
    MARK,
    ORDERED_DICT,
    PERSID,
    PROTO,
    REDUCE,
    SETITEM,
    SETITEMS,
    STOP,
    build_archive,
    build_checkpoint,
    build_pickle,
    build_view,
    draw_storage,
    expect_w,
    push_dict,
    push_global,
    push_int,
    push_ints,
    push_storage,
    push_tensor,
    push_text,
    push_tuple,
    push_w,
)

_TORCH = "torch.load rejects it, with and without weights_only"
_OPCODES = "CPython Lib/pickletools.py"
_EXECUTED = "torch.load(weights_only=True) rejects it; nothing may be executed"
_SIZE = "the size of its dump: 2^62 bytes; CPython Lib/pickletools.py sets no limit"
_DEPTH = "the format limits no depth: reject it, or ignore the value; no stack may overflow"
#: Levels that overflow a stack of 8 MiB in a reader that calls itself at each.
_LEVELS = 100_000
#: The file that a hostile pickle would write.
MARKER = "zoo-marker"


def _archive(name: str, pickle: bytes) -> bytes:
    return build_archive(pickle, {"0": draw_storage(name)})


def _claim(name: str, opcode: bytes, length: int | None = None) -> bytes:
    """Build a dict whose first key is an opcode of ``length`` bytes, and has one."""
    claimed = opcode if length is None else opcode + struct.pack("<Q", length)
    return _archive(name, PROTO + EMPTY_DICT + MARK + claimed + b"w")


# fmt: off
_OPCODE_CASES = [
    ZooCase("pth-n-unknown-opcode", lambda: _archive("op", PROTO + b"y" + push_w() + STOP),
            "0x79, which no protocol defines", _OPCODES, by_document=True),
    ZooCase("pth-n-memo-never-set",
            lambda: build_checkpoint("memo", push_dict(("w", b"h\x63"))),
            "BINGET of a memo that was never set", _OPCODES),
    ZooCase("pth-n-no-stop", lambda: _archive("stop", PROTO + push_w()),
            "a pickle without STOP", _OPCODES),
    ZooCase("pth-n-empty-pickle", lambda: _archive("empty", b""),
            "a data.pkl without a byte", _TORCH),
    ZooCase("pth-n-cut-pickle", lambda: _archive("cut", build_pickle(push_w())[:60]),
            "a data.pkl cut short inside a tensor", _TORCH),
    ZooCase("pth-n-stack-underflow", lambda: _archive("under", build_pickle(b"K\x01\x87")),
            "TUPLE3 with one value on the stack", _OPCODES),
    ZooCase("pth-n-mark-never-set", lambda: _archive("mark", build_pickle(EMPTY_DICT + SETITEMS)),
            "SETITEMS without a MARK", _OPCODES),
    ZooCase("pth-n-setitem-on-int", lambda: _archive(
                "on int", build_pickle(push_int(1) + push_text("w") + push_tensor() + SETITEM)),
            "SETITEM on an integer", _OPCODES),
    ZooCase("pth-n-odd-setitems", lambda: _archive(
                "odd", build_pickle(EMPTY_DICT + MARK + push_text("w") + SETITEMS)),
            "SETITEMS with a key and no value", _TORCH),
    ZooCase("pth-n-string-2-31", lambda: _claim("s31", b"X\x00\x00\x00\x80"),
            "BINUNICODE that claims 2^31 bytes", _TORCH),
    ZooCase("pth-n-string-2-63", lambda: _claim("s63", b"\x8d", 2**63),
            "BINUNICODE8 that claims 2^63 bytes", _TORCH),
    ZooCase("pth-n-bytes-2-60", lambda: _claim("b60", b"\x8e", 2**60),
            "BINBYTES8 that claims 2^60 bytes", f"{_OPCODES}: as many bytes follow",
            by_document=True),
    ZooCase("pth-n-frame-2-60", lambda: _claim("f60", b"\x95", 2**60),
            "a FRAME of 2^60 bytes", _TORCH),
    ZooCase("pth-n-long4-negative", lambda: _claim("l4", b"\x8b\xff\xff\xff\xff"),
            "LONG4 of length -1", _OPCODES),
    ZooCase("pth-n-string-not-utf8", lambda: _archive("utf", build_pickle(
                EMPTY_DICT + MARK + b"X\x02\x00\x00\x00\xff\xfe" + push_tensor() + SETITEMS)),
            "a name that is not UTF-8", f"{_OPCODES}: BINUNICODE is UTF-8"),
]
# fmt: on


def _nest(name: str, value: bytes) -> bytes:
    return build_checkpoint(name, push_dict(("w", push_tensor()), ("deep", value)))


# fmt: off
_NESTING = [
    ZooCase("pth-i-deep-tuples", lambda: _nest("tuples", EMPTY_TUPLE + b"\x85" * _LEVELS),
            "100,000 tuples in each other, beside a tensor", _DEPTH, expected=expect_w("tuples")),
    ZooCase("pth-i-deep-lists", lambda: _nest("lists", EMPTY_LIST * 30_000 + b"a" * 29_999),
            "30,000 lists in each other, beside a tensor", _DEPTH, expected=expect_w("lists")),
    ZooCase("pth-i-deep-dicts",
            lambda: _nest("dicts", b"}(K\x00" * 20_000 + b"}" + b"u" * 20_000),
            "20,000 dicts in each other, beside a tensor", _DEPTH, expected=expect_w("dicts")),
]
# fmt: on

_COMMAND = push_tuple(push_text(f"echo > {MARKER}")) + REDUCE
_SYSTEM = push_global("posix", "system") + _COMMAND
_CODE = push_tuple(push_text(f"open({MARKER!r}, 'w').close()")) + REDUCE
_EXEC = push_global("builtins", "exec") + _CODE
_STACKED = push_text("os") + push_text("system") + b"\x93" + _COMMAND
# fmt: off
_GLOBALS = [
    ZooCase("pth-n-global-system", lambda: build_checkpoint("evil", push_dict(("w", _SYSTEM))),
            "a global that runs a command: posix.system", _EXECUTED, hostile=True),
    ZooCase("pth-n-global-exec", lambda: build_checkpoint("exec", push_dict(("w", _EXEC))),
            "a global that runs Python: builtins.exec", _EXECUTED, hostile=True),
    ZooCase("pth-n-global-stacked", lambda: build_checkpoint("stacked", push_dict(("w", _STACKED))),
            "os.system by STACK_GLOBAL", _EXECUTED, hostile=True),
    ZooCase("pth-n-global-beside",
            lambda: build_checkpoint("beside", push_dict(("w", push_tensor()), ("v", _SYSTEM))),
            "a right tensor, then a command", _EXECUTED, hostile=True),
    ZooCase("pth-n-global-absent",
            lambda: build_view("absent", call=("torch._utils", "_rebuild_nothing")),
            "a rebuild function that torch does not have", _TORCH),
    ZooCase("pth-n-call-of-no-function",
            lambda: build_checkpoint("call", push_dict(("w", push_int(3) + push_tuple() + REDUCE))),
            "REDUCE of an integer", _OPCODES),
]
# fmt: on

_STORAGE, _ZERO, _CPU = map(push_text, ("storage", "0", "cpu"))
_FLOATS, _ORDERED = push_global("torch", "FloatStorage"), push_global("collections", "OrderedDict")


def _identify(name: str, *parts: bytes) -> bytes:
    """Build a tensor on a storage whose persistent id has these parts."""
    return build_checkpoint(name, push_w(push_tuple(*parts) + PERSID))


def _store(name: str, length: int, size: int = 24) -> bytes:
    """Build a tensor on a storage of ``length`` declared elements and ``size`` bytes, if any."""
    pickle = build_pickle(push_w(push_storage("0", length)))
    return build_archive(pickle, {"0": draw_storage(name)[:size]} if size else {})


def _rebuild(name: str, *arguments: bytes) -> bytes:
    """Build a tensor by other arguments."""
    call = push_global("torch._utils", "_rebuild_tensor_v2") + push_tuple(*arguments) + REDUCE
    return build_checkpoint(name, push_dict(("w", call)))


def _build_text_sizes() -> bytes:
    sizes = push_tuple(push_text("2"), push_text("3"))
    view = push_storage(), push_int(0), sizes, push_ints([3, 1])
    return _rebuild("words", *view, FALSE, ORDERED_DICT)


# fmt: off
_STORAGES = [
    ZooCase("pth-n-pid-short", lambda: _identify("short id", _STORAGE, _FLOATS, _ZERO),
            "a persistent id of three parts, not five", _TORCH),
    ZooCase("pth-n-pid-tag",
            lambda: _identify("tag", push_text("module"), _FLOATS, _ZERO, _CPU, push_int(6)),
            "a persistent id that does not name a storage", _TORCH),
    ZooCase("pth-n-pid-class",
            lambda: _identify("class", _STORAGE, _ORDERED, _ZERO, _CPU, push_int(6)),
            "a persistent id whose class is not a storage's", _TORCH),
    ZooCase("pth-n-pid-text",
            lambda: build_checkpoint("text id", push_w(push_text("storage 0") + PERSID)),
            "a persistent id that is text", _TORCH),
    ZooCase("pth-n-storage-unknown",
            lambda: build_checkpoint("kind", push_w(push_storage(kind="QuarterStorage"))),
            "a storage class that torch does not have", _TORCH),
    ZooCase("pth-n-storage-missing", lambda: _store("missing", 6, 0),
            "a storage that is not in the archive", _TORCH),
    ZooCase("pth-n-storage-cut", lambda: _store("cut storage", 6, 16),
            "a storage shorter than its declared length: 16 of 24 bytes", _TORCH),
    ZooCase("pth-n-storage-2-31", lambda: _store("s231", 2**31),
            "a storage of 2^31 declared elements in 24 bytes", _TORCH),
    ZooCase("pth-n-storage-2-60", lambda: _store("s260", 2**60),
            "a storage of 2^60 declared elements, whose bytes still fit 63 bits", _TORCH),
    ZooCase("pth-n-storage-2-63", lambda: _store("s263", 2**63),
            "a storage of 2^63 declared elements, more than an int64 can count", _TORCH),
    ZooCase("pth-n-storage-negative", lambda: _store("negative", -6),
            "a storage of a negative length", _TORCH),
    ZooCase("pth-n-storage-zero", lambda: _store("zero", 0),
            "a storage declared empty under a tensor of six", _TORCH),
    ZooCase("pth-n-storage-length-text",
            lambda: _identify("length", _STORAGE, _FLOATS, _ZERO, _CPU, push_text("6")),
            "a storage's length as text", _TORCH),
]
_VIEWS = [
    ZooCase("pth-n-size-past-end", lambda: build_view("past", size=[3, 3]),
            "nine elements on a storage of six", _TORCH),
    ZooCase("pth-n-offset-past-end", lambda: build_view("offset", 5),
            "an offset that leaves one element for six", _TORCH),
    ZooCase("pth-n-offset-negative", lambda: build_view("minus", -1),
            "a negative offset", _TORCH),
    ZooCase("pth-n-offset-2-63", lambda: build_view("o63", 2**63 - 1),
            "an offset that overflows when the view is added", _TORCH),
    ZooCase("pth-n-stride-past-end", lambda: build_view("stride", stride=[4, 1]),
            "a stride that reaches past the storage", _TORCH),
    ZooCase("pth-n-stride-negative", lambda: build_view("backward", 5, stride=[-3, -1]),
            "negative strides", _TORCH),
    ZooCase("pth-n-stride-2-62", lambda: build_view("wrap", size=[3, 2], stride=[2**62, 1]),
            "a stride whose product wraps around", _TORCH),
    ZooCase("pth-n-size-negative", lambda: build_view("below", size=[-2, 3]),
            "a negative size", _TORCH),
    ZooCase("pth-n-size-2-31", lambda: build_view("s31v", size=[2**31, 1], stride=[1, 1]),
            "2^31 elements on a storage of six", _TORCH),
    ZooCase("pth-n-size-product",
            lambda: build_view("prod", size=[2**32, 2**32], stride=[2**32, 1]),
            "sizes whose product is 2^64, zero in 64 bits", _TORCH),
    ZooCase("pth-n-expanded-huge",
            lambda: build_view("huge", size=[2**30, 2**30], stride=[0, 0]),
            "an expanded view of 2^60 elements on one", _SIZE, by_document=True),
    ZooCase("pth-n-stride-count", lambda: build_view("count", stride=[1]),
            "two sizes and one stride", _TORCH),
    ZooCase("pth-n-too-few-arguments", lambda: _rebuild("few", push_storage(), push_int(0)),
            "a tensor rebuilt from a storage and an offset alone", _TORCH),
    ZooCase("pth-n-size-text", _build_text_sizes,
            "sizes that are text", _TORCH),
]
# fmt: on
CASES = [*_OPCODE_CASES, *_NESTING, *_GLOBALS, *_STORAGES, *_VIEWS]
