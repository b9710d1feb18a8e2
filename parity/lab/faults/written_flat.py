"""Faults in the bytes of a .safetensors and a .npy that a port writes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from parity.lab import writers
from parity.lab.writers import WrittenContent
from parity.lab.zoo.safetensors_builder import build_parts, build_safetensors, format_header
from parity.tensors.dtypes import DTYPES

#: From a right content and its bytes to wrong bytes; None where the fault does not apply.
Break = Callable[[WrittenContent, bytes], bytes | None]


class Row(NamedTuple):
    """A fault of bytes: the port's mistake, the finding that names it, and what makes it."""

    text: str
    code: str
    make: Break
    warns: bool = False


def _break_header(change: Callable[[dict[str, Any]], Any]) -> Break:
    """Change the header of a .safetensors, whose data stay."""

    def make(content: WrittenContent, _right: bytes) -> bytes | None:
        header, data = build_parts(content.tensors)
        if change(header) is None:
            return None
        text = format_header(header)
        return build_safetensors(text + " " * (-len(text.encode()) % 8), data)

    return make


def _move_offsets(by: int, header: dict[str, Any]) -> bool:
    for entry in header.values():
        entry["data_offsets"] = [at + by for at in entry["data_offsets"]]
    return True


def _repeat_name(content: WrittenContent, _right: bytes) -> bytes:
    header, data = build_parts(content.tensors)
    text = format_header(header)
    name, entry = next(iter(header.items()))
    return build_safetensors(text[:-1] + "," + format_header({name: entry})[1:], data)


def _pad_header(padding: str, content: WrittenContent, _right: bytes) -> bytes:
    header, data = build_parts(content.tensors)
    text = format_header(header)
    text += " " * (-len(text.encode()) % 8)
    return build_safetensors(text + padding, data)


def _leave_hole(content: WrittenContent, _right: bytes) -> bytes:
    header, data = build_parts(content.tensors)
    _move_offsets(8, header)
    return build_safetensors(header, bytes(8) + data)


def append_bytes(content: WrittenContent, right: bytes) -> bytes:
    """Add bytes, more than GGUF's padding."""
    return right + bytes(64 if content.form == "gguf" else 4)


def _count_length(_content: WrittenContent, right: bytes) -> bytes:
    (length,) = struct.unpack("<Q", right[:8])
    return struct.pack("<Q", length + 8) + right[8:]


# fmt: off
SAFETENSORS: dict[str, Row] = {
    "offsets": Row("offsets count from the file", "bad-header",
                   _break_header(partial(_move_offsets, 8))),
    "hole": Row("unused bytes are before the data", "bad-header", _leave_hole),
    "trailing": Row("bytes follow the data", "trailing-bytes", append_bytes),
    "duplicate": Row("a name is in the header twice", "bad-header", _repeat_name),
    "big-endian-length": Row("the header's length is big-endian", "bad-header",
                             lambda _, right: right[7::-1] + right[8:]),
    "length": Row("the header's length counts its own bytes", "bad-header",
                  _count_length),
    "unaligned": Row("the header is not padded", "format-rule", partial(_pad_header, " "),
                     warns=True),
    "padding": Row("the header is padded with newlines", "format-rule",
                   partial(_pad_header, "\n" * 8), warns=True),
}
# fmt: on


def _rewrite_npy(change: Callable[[str], str], *, pads: bool = True) -> Break:
    """Change the text of a .npy's header."""

    def make(_content: WrittenContent, right: bytes) -> bytes | None:
        length = struct.unpack("<H", right[8:10])[0]
        text = change(right[10 : 10 + length].decode("latin-1").rstrip())
        if pads:
            text += " " * (-(len(text) + 11) % 64)
            text += "\n"
        return (
            right[:8] + struct.pack("<H", len(text)) + text.encode("latin-1") + right[10 + length :]
        )

    return make


def _state_columns(content: WrittenContent, _right: bytes) -> bytes | None:
    one = next(iter(content.tensors.values()))
    array = np.frombuffer(one.raw, DTYPES[one.dtype].storage).reshape(one.shape)
    is_same = array.tobytes(order="F") == one.raw
    return None if is_same else writers.build_npy({"": one}, fortran_order=True)


def _move_first_key(text: str) -> str:
    """Return the header's dictionary with its first entry last."""
    first, _, rest = text.strip("{} ").partition(", ")
    return f"{{{rest.rstrip(', ')}, {first}, }}"


# fmt: off
NPY: dict[str, Row] = {
    "trailing": Row("bytes follow the data", "trailing-bytes", append_bytes),
    "descr-big-endian": Row("the header says big-endian", "not-verified",
                            _rewrite_npy(lambda text: text.replace("'<", "'>"))),
    "fortran": Row("the header says that rows are columns", "values", _state_columns),
    "version": Row("the version is 3.0", "bad-header",
                   lambda _, right: right[:6] + b"\3" + right[7:]),
    "unaligned": Row("the header is not padded to 64 bytes", "format-rule",
                     _rewrite_npy(lambda text: text + "\n", pads=False), warns=True),
    "no-newline": Row("the header does not end with a newline", "format-rule",
                      _rewrite_npy(lambda text: text + " " * (-(len(text) + 10) % 64), pads=False),
                      warns=True),
    "key-order": Row("the keys are not sorted", "format-rule", _rewrite_npy(_move_first_key),
                     warns=True),
}
# fmt: on
