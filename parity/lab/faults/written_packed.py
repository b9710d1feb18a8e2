"""Faults in the bytes of a GGUF file and a .pth that a port writes."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from parity.checkpoints.gguf_header import BY_CODE
from parity.lab import writers
from parity.lab.faults.written_flat import Break, Row, append_bytes
from parity.lab.writers import WrittenContent
from parity.lab.zoo import pth_builder
from parity.lab.zoo.gguf_builder import TensorInfo


def _break_gguf(change: Callable[[list[TensorInfo]], Any], **fields: Any) -> Break:
    """Change the infos of a GGUF, or fields of the file."""

    def make(content: WrittenContent, _right: bytes) -> bytes | None:
        infos = writers.list_infos(content.tensors)
        infos = change(infos)
        return writers.build_gguf(infos, content.metadata, **fields) if infos else None

    return make


def _change_last(infos: list[TensorInfo], **changes: Any) -> list[TensorInfo]:
    return [*infos[:-1], replace(infos[-1], **changes)]


def _leave_gap(infos: list[TensorInfo]) -> list[TensorInfo]:
    return [replace(infos[0], offset=256), *infos[1:]]


def _state_alignment(size: int, content: WrittenContent, _right: bytes) -> bytes:
    """State another alignment than the data have."""
    metadata = {**content.metadata, "general.alignment": f"uint32 {size}"}
    return writers.build_gguf(writers.list_infos(content.tensors), metadata, alignment=32)


def _reverse_data(content: WrittenContent, _right: bytes) -> bytes | None:
    infos = writers.list_infos(content.tensors)
    if sum(bool(info.data) for info in infos) < 2:  # noqa: PLR2004 - nothing to exchange
        return None
    order = tuple(reversed(range(len(infos))))
    return writers.build_gguf(infos, content.metadata, data_order=order)


def _fill_padding(content: WrittenContent, _right: bytes) -> bytes:
    infos = writers.list_infos(content.tensors)
    return writers.build_gguf(infos, content.metadata, padding=b"\xff")


def _lose_architecture(content: WrittenContent, _right: bytes) -> bytes | None:
    kept = {key: text for key, text in content.metadata.items() if key != "general.architecture"}
    return content._replace(metadata=kept).build() if content.metadata else None


def _write_as_text(content: WrittenContent, _right: bytes) -> bytes | None:
    """Write all metadata as text, which has the type's name where the reference has it."""
    texts = {key: f"string {json.dumps(text)}" for key, text in content.metadata.items()}
    texts |= {key: text for key, text in content.metadata.items() if key == "general.alignment"}
    return content._replace(metadata=texts).build() if content.metadata else None


def _spoil_bool(content: WrittenContent, right: bytes) -> bytes | None:
    """Store a bool, whose type is 7, as 2."""
    is_there = "bool true" in content.metadata.values()
    return right.replace(b"\7\0\0\0\1", b"\7\0\0\0\2", 1) if is_there else None


def _begin_at_four(infos: list[TensorInfo]) -> list[TensorInfo] | None:
    return [replace(infos[0], offset=4), *infos[1:]] if infos[0].data else None


def _point_beyond(infos: list[TensorInfo]) -> list[TensorInfo] | None:
    return _change_last(infos, offset=2**20, data=b"") if infos[-1].data else None


def _overlap(infos: list[TensorInfo]) -> list[TensorInfo] | None:
    if len(infos) < 2 or not (infos[0].data and infos[-1].data):  # noqa: PLR2004 - two share bytes
        return None
    return _change_last(infos, offset=0)


def _halve_rows(infos: list[TensorInfo]) -> list[TensorInfo] | None:
    elements = BY_CODE[infos[-1].kind].elements
    if elements == 1:
        return None
    half = elements // 2
    return _change_last(infos, dims=(half, prod(infos[-1].dims) // half))


# fmt: off
GGUF: dict[str, Row] = {
    "duplicate": Row("a name is in the header twice", "bad-header",
                     _break_gguf(lambda infos: [*infos, infos[0]])),
    "unaligned": Row("data are not aligned", "bad-header", _break_gguf(_begin_at_four)),
    "beyond": Row("an offset is beyond the file", "truncated", _break_gguf(_point_beyond)),
    "overlap": Row("two tensors share bytes", "bad-header", _break_gguf(_overlap)),
    "big-endian": Row("all numbers are big-endian", "bad-header",
                      _break_gguf(lambda infos: infos, order=">")),
    "version": Row("the version is 1", "bad-header", _break_gguf(lambda infos: infos, version=1)),
    "count": Row("the number of tensors is too large", "bad-header",
                 _break_gguf(lambda infos: infos, tensor_count=2**40)),
    "unknown-type": Row("a type is unknown", "not-verified",
                        _break_gguf(lambda infos: _change_last(infos, kind=99))),
    "alignment": Row("another alignment is stated than applied", "bad-header",
                     partial(_state_alignment, 128)),
    "metadata-as-text": Row("metadata of all types are text", "metadata-changed", _write_as_text),
    "alignment-0": Row("the alignment is 0", "bad-header", partial(_state_alignment, 0)),
    "bool": Row("a bool is 2", "bad-header", _spoil_bool),
    "rows": Row("a row is half a block", "not-verified", _break_gguf(_halve_rows)),
    "gap": Row("unused bytes are before the data", "format-rule", _break_gguf(_leave_gap),
               warns=True),
    "order": Row("data are in another order than the header", "format-rule", _reverse_data,
                 warns=True),
    "padding": Row("padding is not zero", "format-rule", _fill_padding, warns=True),
    "trailing": Row("bytes follow the data", "format-rule", append_bytes, warns=True),
    "architecture": Row("general.architecture is missing", "format-rule", _lose_architecture,
                        warns=True),
}
# fmt: on


def _break_members(change: Callable[[dict[str, bytes]], Any], **settings: Any) -> Break:
    """Change the members of a .pth, or how they are packed."""

    def make(content: WrittenContent, _right: bytes) -> bytes | None:
        members = writers.list_members(content.tensors, content.metadata)
        changed = change(members)
        found = members if changed is None else changed
        return writers.build_zip(found.items() if isinstance(found, dict) else found, **settings)

    return make


def _break_views(**changes: Any) -> Break:
    def make(content: WrittenContent, _right: bytes) -> bytes | None:
        try:
            members = writers.list_members(content.tensors, content.metadata, **changes)
        except TypeError:
            return None
        return writers.build_zip(members.items())

    return make


def _reverse_strides(content: WrittenContent, _right: bytes) -> bytes | None:
    tensors = content.tensors
    wide = {
        name: one for name, one in tensors.items() if len(one.shape) > 1 and len(set(one.shape)) > 1
    }
    if not wide or any(0 in one.shape for one in tensors.values()):
        return None
    views, members = [], writers.list_members(tensors, content.metadata)
    for number, (name, one) in enumerate(tensors.items()):
        strides = [int(np.prod(one.shape[:axis])) for axis in range(len(one.shape))]
        views.append((name, writers.push_view(str(number), one, stride=strides)))
    members["archive/data.pkl"] = pth_builder.build_pickle(pth_builder.push_dict(*views))
    return writers.build_zip(members.items())


def _spoil_checksum(_content: WrittenContent, right: bytes) -> bytes | None:
    """Change a byte of a storage, which the checksums in both headers then contradict."""
    with zipfile.ZipFile(io.BytesIO(right)) as archive:
        for info in archive.infolist():
            if "/data/" in info.filename and info.file_size:
                name_length, extra = struct.unpack_from("<HH", right, info.header_offset + 26)
                at = info.header_offset + 30 + name_length + extra
                return right[:at] + bytes([right[at] ^ 1]) + right[at + 1 :]
    return None


def _leave_out(suffix: str) -> Break:
    def change(members: dict[str, bytes]) -> dict[str, bytes]:
        return {name: raw for name, raw in members.items() if not name.endswith(suffix)}

    return _break_members(change)


def _set_member(name: str, raw: bytes) -> Break:
    return _break_members(lambda members: members | {f"archive/{name}": raw})


def _replace_in_pickle(old: bytes, new: bytes) -> Break:
    name = "archive/data.pkl"
    return _break_members(lambda members: members | {name: members[name].replace(old, new)})


def _miscount(_content: WrittenContent, right: bytes) -> bytes:
    """Let the end of a zip's directory state another number of members."""
    return right[:-12] + struct.pack("<H", 99) + right[-10:]


_HOOKS = pth_builder.ORDERED_DICT + b"t"  # The last argument of a view, and the end of its tuple
_NEGATED = pth_builder.ORDERED_DICT + pth_builder.push_dict(("neg", b"\x88")) + b"t"
_STORAGE, _MEMORY = pth_builder.push_text("storage"), pth_builder.push_text("memory")
# fmt: off
PTH: dict[str, Row] = {
    "storage-offset": Row("views begin one element further on", "not-verified",
                          _break_views(offset=1)),
    "storage-length": Row("storages are said to be longer", "not-verified",
                          _break_views(length=10**6)),
    "strides": Row("strides are those of columns", "transposed axes-permuted dims-reversed",
                   _reverse_strides),
    "duplicate": Row("a member is in the archive twice", "bad-header",
                     _break_members(lambda members: [*members.items(), [*members.items()][-1]])),
    "no-storage": Row("a storage is not written", "not-verified", _leave_out("/data/0")),
    "no-version": Row("the member version is missing", "bad-header", _leave_out("version")),
    "big-endian": Row("byteorder is big", "not-verified", _set_member("byteorder", b"big")),
    "compressed": Row("members are compressed", "not-verified",
                      _break_members(lambda _: None, method=zipfile.ZIP_DEFLATED)),
    "checksum": Row("a checksum is wrong", "bad-header", _spoil_checksum),
    "count": Row("the number of members is wrong", "bad-header", _miscount),
    "version": Row("the version is 11", "bad-header", _set_member("version", b"11\n")),
    "no-number": Row("the version is a word", "bad-header", _set_member("version", b"new\n")),
    "two-folders": Row("a member is in another folder", "bad-header",
                       _break_members(lambda members: members | {"other/data/0": b""})),
    "negated": Row("views are said to be negated", "not-verified",
                   _replace_in_pickle(_HOOKS, _NEGATED)),
    "state": Row("a view has a state", "not-verified",
                 _replace_in_pickle(_HOOKS + b"R", _HOOKS + b"R)b")),
    "arguments": Row("a view has too few arguments", "not-verified",
                     _replace_in_pickle(_HOOKS, b"t")),
    "eight-arguments": Row("a view has more arguments than torch takes", "not-verified",
                           _replace_in_pickle(_HOOKS, _HOOKS[:-1] + b"NNt")),
    "requires-grad": Row("requires_grad of a view is a number", "not-verified",
                         _replace_in_pickle(b"\x89" + _HOOKS, b"K\0" + _HOOKS)),
    "alignment": Row("the record .storage_alignment is a word", "bad-header",
                     _set_member(".storage_alignment", b"wide")),
    "serialization-id": Row("the record serialization_id is not text", "bad-header",
                            _set_member(".data/serialization_id", b"\xff")),
    "tag": Row("a storage is said to be something else", "not-verified",
               _replace_in_pickle(_STORAGE, _MEMORY)),
    "unknown-call": Row("the pickle calls what is not read", "not-verified",
                        _replace_in_pickle(b"_rebuild_tensor_v", b"_rebuild_sparse_v")),
    "protocol": Row("the pickle is of protocol 4", "format-rule",
                    _replace_in_pickle(b"\x80\x02", b"\x80\x04"), warns=True),
    "unaligned": Row("storages are not aligned", "format-rule",
                     _break_members(lambda _: None, alignment=1), warns=True),
    "unused": Row("a storage is of no tensor", "format-rule", _set_member("data/999", b"abcd"),
                  warns=True),
    "trailing": Row("bytes follow the archive", "format-rule", append_bytes, warns=True),
    "no-byteorder": Row("the member byteorder is missing", "format-rule", _leave_out("byteorder"),
                        warns=True),
}
# fmt: on
