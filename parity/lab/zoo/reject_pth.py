"""Checkpoints of torch that a reader must reject: faults in the pickle, its storages and views."""

from __future__ import annotations

import struct

from parity.lab.zoo.case import make_rows
from parity.lab.zoo.pth_builder import (
    EMPTY_DICT,
    EMPTY_LIST,
    EMPTY_TUPLE,
    FALSE,
    MARK,
    NONE,
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
_LEVELS = 100_000  # Levels that overflow a stack of 8 MiB in a reader that calls itself at each
MARKER = "zoo-marker"  # The file that a hostile pickle would write


def _archive(name: str, pickle: bytes) -> bytes:
    return build_archive(pickle, {"0": draw_storage(name)})


def _build_w(name: str, value: bytes) -> bytes:
    return build_checkpoint(name, push_dict(("w", value)))


def _claim(name: str, opcode: bytes, length: int | None = None) -> bytes:
    """Build a dict whose first key is an opcode of ``length`` bytes, and has one."""
    claimed = opcode if length is None else opcode + struct.pack("<Q", length)
    return _archive(name, PROTO + EMPTY_DICT + MARK + claimed + b"w")


no = make_rows("pth-n", _TORCH)
may = make_rows("pth-i", _DEPTH)
# fmt: off
_OPCODE_CASES = [
    no("unknown-opcode", "0x79, which no protocol defines",
        lambda: _archive("op", PROTO + b"y" + push_w() + STOP), _OPCODES, by_document=True),
    no("memo-never-set", "BINGET of a memo that was never set", lambda: _build_w("memo", b"h\x63"),
        _OPCODES),
    no("no-stop", "a pickle without STOP", lambda: _archive("stop", PROTO + push_w()), _OPCODES),
    no("empty-pickle", "a data.pkl without a byte", lambda: _archive("empty", b"")),
    no("cut-pickle", "a data.pkl cut short inside a tensor",
        lambda: _archive("cut", build_pickle(push_w())[:60])),
    no("stack-underflow", "TUPLE3 with one value on the stack",
        lambda: build_checkpoint("under", b"K\x01\x87"), _OPCODES),
    no("mark-never-set", "SETITEMS without a MARK",
        lambda: build_checkpoint("mark", EMPTY_DICT + SETITEMS), _OPCODES),
    no("setitem-on-int", "SETITEM on an integer",
        lambda: build_checkpoint("on int", push_int(1) + push_text("w") + push_tensor() + SETITEM),
        _OPCODES),
    no("odd-setitems", "SETITEMS with a key and no value",
        lambda: build_checkpoint("odd", EMPTY_DICT + MARK + push_text("w") + SETITEMS)),
    no("string-2-31", "BINUNICODE that claims 2^31 bytes",
        lambda: _claim("s31", b"X\x00\x00\x00\x80")),
    no("string-2-63", "BINUNICODE8 that claims 2^63 bytes", lambda: _claim("s63", b"\x8d", 2**63)),
    no("bytes-2-60", "BINBYTES8 that claims 2^60 bytes", lambda: _claim("b60", b"\x8e", 2**60),
        f"{_OPCODES}: as many bytes follow", by_document=True),
    no("frame-2-60", "a FRAME of 2^60 bytes", lambda: _claim("f60", b"\x95", 2**60)),
    no("long4-negative", "LONG4 of length -1", lambda: _claim("l4", b"\x8b\xff\xff\xff\xff"),
        _OPCODES),
    no("string-not-utf8", "a name that is not UTF-8",
        lambda: build_checkpoint(
            "utf", EMPTY_DICT + MARK + b"X\x02\0\0\0\xff\xfe" + push_tensor() + SETITEMS),
        f"{_OPCODES}: BINUNICODE is UTF-8"),
]
# fmt: on


def _nest(name: str, value: bytes) -> bytes:
    return build_checkpoint(name, push_dict(("w", push_tensor()), ("deep", value)))


# fmt: off
_NESTING = [
    may("deep-tuples", "100,000 tuples in each other, beside a tensor",
        lambda: _nest("tuples", EMPTY_TUPLE + b"\x85" * _LEVELS), expected=expect_w("tuples")),
    may("deep-lists", "30,000 lists in each other, beside a tensor",
        lambda: _nest("lists", EMPTY_LIST * 30_000 + b"a" * 29_999), expected=expect_w("lists")),
    may("deep-dicts", "20,000 dicts in each other, beside a tensor",
        lambda: _nest("dicts", b"}(K\x00" * 20_000 + b"}" + b"u" * 20_000),
        expected=expect_w("dicts")),
]
# fmt: on

_COMMAND = push_tuple(push_text(f"echo > {MARKER}")) + REDUCE
_SYSTEM = push_global("posix", "system") + _COMMAND
_CODE = push_tuple(push_text(f"open({MARKER!r}, 'w').close()")) + REDUCE
_EXEC = push_global("builtins", "exec") + _CODE
_STACKED = push_text("os") + push_text("system") + b"\x93" + _COMMAND
# fmt: off
_GLOBALS = [
    no("global-system", "a global that runs a command: posix.system",
        lambda: _build_w("evil", _SYSTEM), _EXECUTED, hostile=True),
    no("global-exec", "a global that runs Python: builtins.exec", lambda: _build_w("exec", _EXEC),
        _EXECUTED, hostile=True),
    no("global-stacked", "os.system by STACK_GLOBAL", lambda: _build_w("stacked", _STACKED),
        _EXECUTED, hostile=True),
    no("global-beside", "a right tensor, then a command",
        lambda: build_checkpoint("beside", push_dict(("w", push_tensor()), ("v", _SYSTEM))),
        _EXECUTED, hostile=True),
    no("global-absent", "a rebuild function that torch does not have",
        lambda: build_view("absent", call=("torch._utils", "_rebuild_nothing"))),
    no("call-of-no-function", "REDUCE of an integer",
        lambda: _build_w("call", push_int(3) + push_tuple() + REDUCE), _OPCODES),
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
    return _build_w(name, call)


_VIEW = push_storage(), push_int(0), push_ints([2, 3]), push_ints([3, 1])
_PARAMETER = push_global("torch._utils", "_rebuild_parameter")


def _build_text_sizes() -> bytes:
    sizes = push_tuple(push_text("2"), push_text("3"))
    return _rebuild("words", *_VIEW[:2], sizes, _VIEW[3], FALSE, ORDERED_DICT)


# fmt: off
_STORAGES = [
    no("pid-short", "a persistent id of three parts, not five",
        lambda: _identify("short id", _STORAGE, _FLOATS, _ZERO)),
    no("pid-long", "a persistent id of six parts, not five",
        lambda: _identify("long id", _STORAGE, _FLOATS, _ZERO, _CPU, push_int(6), NONE)),
    no("pid-tag", "a persistent id that does not name a storage",
        lambda: _identify("tag", push_text("module"), _FLOATS, _ZERO, _CPU, push_int(6))),
    no("pid-class", "a persistent id whose class is not a storage's",
        lambda: _identify("class", _STORAGE, _ORDERED, _ZERO, _CPU, push_int(6))),
    no("pid-text", "a persistent id that is text",
        lambda: build_checkpoint("text id", push_w(push_text("storage 0") + PERSID))),
    no("pid-tuple", "a storage's tuple that is not made a persistent id",
        lambda: build_checkpoint("plain id", push_w(
            push_tuple(_STORAGE, _FLOATS, _ZERO, _CPU, push_int(6))))),
    no("storage-unknown", "a storage class that torch does not have",
        lambda: build_checkpoint("kind", push_w(push_storage(kind="QuarterStorage")))),
    no("storage-missing", "a storage that is not in the archive", lambda: _store("missing", 6, 0)),
    no("storage-cut", "a storage shorter than its declared length: 16 of 24 bytes",
        lambda: _store("cut storage", 6, 16)),
    no("storage-2-31", "a storage of 2^31 declared elements in 24 bytes",
        lambda: _store("s231", 2**31)),
    no("storage-2-60", "a storage of 2^60 declared elements, whose bytes still fit 63 bits",
        lambda: _store("s260", 2**60)),
    no("storage-2-63", "a storage of 2^63 declared elements, more than an int64 can count",
        lambda: _store("s263", 2**63)),
    no("storage-negative", "a storage of a negative length", lambda: _store("negative", -6)),
    no("storage-zero", "a storage declared empty under a tensor of six", lambda: _store("zero", 0)),
    no("storage-length-text", "a storage's length as text",
        lambda: _identify("length", _STORAGE, _FLOATS, _ZERO, _CPU, push_text("6"))),
]
_VIEWS = [
    no("size-past-end", "nine elements on a storage of six",
        lambda: build_view("past", size=[3, 3])),
    no("offset-past-end", "an offset that leaves one element for six",
        lambda: build_view("offset", 5)),
    no("offset-negative", "a negative offset", lambda: build_view("minus", -1)),
    no("offset-2-63", "an offset that overflows when the view is added",
        lambda: build_view("o63", 2**63 - 1)),
    no("stride-past-end", "a stride that reaches past the storage",
        lambda: build_view("stride", stride=[4, 1])),
    no("stride-negative", "negative strides", lambda: build_view("backward", 5, stride=[-3, -1])),
    no("stride-2-62", "a stride whose product wraps around",
        lambda: build_view("wrap", size=[3, 2], stride=[2**62, 1])),
    no("size-negative", "a negative size", lambda: build_view("below", size=[-2, 3])),
    no("size-2-31", "2^31 elements on a storage of six",
        lambda: build_view("s31v", size=[2**31, 1], stride=[1, 1])),
    no("size-product", "sizes whose product is 2^64, zero in 64 bits",
        lambda: build_view("prod", size=[2**32, 2**32], stride=[2**32, 1])),
    no("expanded-huge", "an expanded view of 2^60 elements on one",
        lambda: build_view("huge", size=[2**30, 2**30], stride=[0, 0]), _SIZE, by_document=True),
    no("stride-count", "two sizes and one stride", lambda: build_view("count", stride=[1])),
    no("too-few-arguments", "a tensor rebuilt from a storage and an offset alone",
        lambda: _rebuild("few", push_storage(), push_int(0))),
    no("size-text", "sizes that are text", _build_text_sizes),
    no("size-24-gib", "2^31-1 rows of three f32, 24 GiB, on a storage of six",
        lambda: build_view("24 GiB", size=[2**31 - 1, 3])),
    no("arguments-5", "a tensor rebuilt from five arguments, without the hooks",
        lambda: _rebuild("five", *_VIEW, FALSE)),
    no("arguments-8", "a tensor rebuilt from eight arguments, one more than the function takes",
        lambda: _rebuild("eight", *_VIEW, FALSE, ORDERED_DICT, NONE, NONE)),
    no("requires-grad-text", "a requires_grad that is text, not a bool",
        lambda: _rebuild("grad", *_VIEW, push_text("no"), ORDERED_DICT)),
    no("parameter-alone", "a parameter rebuilt from its tensor alone, one argument of three",
        lambda: _build_w("alone", _PARAMETER + push_tuple(push_tensor()) + REDUCE)),
]
# fmt: on
CASES = [*_OPCODE_CASES, *_NESTING, *_GLOBALS, *_STORAGES, *_VIEWS]
