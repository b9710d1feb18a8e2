"""Read a file that a port wrote, strictly: no tensor is passed over without a word.

A form that is allowed but not read here has the code ``not-verified``. Rules that readers
tolerate are returned with the document that states each.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from parity.checkpoints import gguf_header
from parity.checkpoints.gguf_header import BY_CODE
from parity.checkpoints.written_pth import WrittenFile, format_error, read_pth
from parity.tensors import FormatError, npy, safetensors
from parity.tensors.dtypes import DTYPES

#: Bytes of a header beyond which a .npy is of version 2.0, and of a key of GGUF, at most
_LONG = 2**16 - 1
_TYPED = re.compile(r"(u?int\d+|float\d+|bool|string|array)(\[\])* ")
_MAX_NAME, _MAX_DIMS, _VERSION = 64, 4, 3


def read_written(path: Path, form: str) -> WrittenFile:
    """Read a file of a format: ``gguf``, ``npy``, ``pth`` or ``safetensors``.

    Raises:
        FormatError: It breaks a rule that readers insist on, or cannot be read.
    """
    if not path.is_file():
        raise FormatError("unreadable", "is not a regular file")
    try:
        return _READERS[form](path)
    except OSError as error:
        raise FormatError("unreadable", f"cannot be read: {error.strerror}") from error


def _read_npy(path: Path) -> WrittenFile:
    try:
        tensor = npy.locate_tensor(path, reads_columns=True)
    except FormatError as error:
        is_unread = error.code == "dtype-unsupported"
        raise FormatError("not-verified" if is_unread else error.code, error.message) from error
    with path.open("rb") as file:
        head = file.read(tensor.offset)
    keys = re.findall(rb"descr|fortran_order|shape", head)
    rules = {
        "does not fill up 64 bytes": len(head) % 64 > 0,
        "does not end with a newline": not head.endswith(b"\n"),
        "has its keys in another than the alphabetic order": keys != sorted(keys),
        "is of version 2.0 without a need": head[6] > 1 and len(head) < _LONG,
    }
    broken = [
        f"its header {rule} (numpy.lib.format, version 1.0)"
        for rule, is_broken in rules.items()
        if is_broken
    ]
    return WrittenFile({path.stem: tensor}, broken=broken)


def _read_safetensors(path: Path) -> WrittenFile:
    tensors = safetensors.locate_tensors(path)
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        padding = file.read(length).rpartition(b"}")[2]
    broken = []
    if padding.strip(b" "):
        broken.append(
            "its header is padded with other bytes than 0x20 (safetensors README, Format)"
        )
    odd = [name for name, one in tensors.items() if one.count and one.offset * 8 % one.dtype.width]
    if length % 8 or odd:
        broken.append(
            "8 does not divide its header's length, or an element's size its tensor's place "
            "(safetensors/src/tensor.rs, prepare: Force alignment to 8 bytes)"
        )
    return WrittenFile(dict(tensors), {}, safetensors.read_metadata(path), broken=broken)


def _read_gguf(path: Path) -> WrittenFile:
    try:
        header, size = gguf_header.parse_start(path, gguf_header.read_header)
    except gguf_header.PARSE_ERRORS as error:
        message = f"is not a little-endian GGUF file of version 2 or 3: {format_error(error)}"
        raise FormatError("bad-header", message) from error
    _check_names(one.key for one in header.values)
    _check_names(info.name for info in header.infos)
    written = WrittenFile(metadata={one.key: _format_value(one) for one in header.values})
    stated = [one.kind for one in header.values if one.key == "general.alignment"]
    if stated not in ([], ["uint32"]) or header.alignment.bit_count() != 1:
        raise FormatError("bad-header", "general.alignment must be a power of two as uint32")
    spans = []
    for info in header.infos:
        location, block = gguf_header.locate_tensor(path, info), BY_CODE.get(info.type_code)
        row = (*info.dims, 1)[0]
        if location is None or block is None or row % block.elements:
            written.unread[info.name] = (
                f"has the type {info.type_code}, which is unknown"
                if block is None
                else f"has rows of {row:,}, no whole blocks of {block.name}"
            )
        elif (info.start - header.start) % header.alignment:
            what = f"no multiple of {header.alignment} (ggml docs/gguf.md, gguf_tensor_info_t)"
            at = info.start - header.start
            raise FormatError("bad-header", f"{info.name} begins at data byte {at:,}, {what}")
        elif location.stop > max(size, location.start):
            message = f"{info.name} needs the bytes to {location.stop:,}, the file has {size:,}"
            raise FormatError("truncated", message)
        else:
            spans.append((location.start, location.stop, info.name))
            written.add(info.name, location)
    written.broken = [*_check_gguf_rules(header, written), *_check_spans(path, header, spans, size)]
    return written


def _check_names(names: Iterator[str]) -> None:
    """Reject a name that is there twice, and one that is not text."""
    for name, count in Counter(names).items():
        if count > 1 or "\ufffd" in name:
            what = "is in the header twice" if count > 1 else "is not UTF-8"
            raise FormatError("bad-header", f"{name!r:.200} {what}")


def _format_value(one: gguf_header.Value) -> str:
    """Format a value of GGUF's metadata: text as it is, all else as its type and JSON.

    So is a text that would be taken for one of these.
    """
    if one.kind == "string" and not _TYPED.match(str(one.value)):
        return str(one.value)
    return f"{one.kind} {json.dumps(one.value, ensure_ascii=False)}"


def _check_gguf_rules(header: gguf_header.Header, written: WrittenFile) -> Iterator[str]:
    keys = {one.key for one in header.values}
    is_quantised = any(kind not in DTYPES for kind in written.types.values())
    required = ["general.architecture", *["general.quantization_version"] * is_quantised]
    broken = [f"the key {key} is missing" for key in required if key not in keys]
    if header.version != _VERSION:
        broken.append(f"its version is {header.version}, which must be {_VERSION}")
    if header.alignment % 8:
        broken.append(f"general.alignment is {header.alignment}, no multiple of 8")
    broken += [
        f"the key {key!r:.80} is not ASCII in lower_snake_case"
        for key in keys
        if not key.isascii() or key != key.lower() or len(key) > _LONG
    ]
    broken += [
        f"{info.name:.80} has more than 64 bytes in its name, or more than 4 dimensions"
        for info in header.infos
        if len(info.name.encode()) > _MAX_NAME or len(info.dims) > _MAX_DIMS
    ]
    yield from (f"{one} (ggml docs/gguf.md)" for one in broken)


def _check_spans(
    path: Path, header: gguf_header.Header, spans: list[tuple[int, int, str]], size: int
) -> Iterator[str]:
    """Yield gaps beyond padding with zeros, and data in another order than the header's.

    Raises:
        FormatError: Tensors share bytes.
    """
    at = header.end
    if spans != sorted(spans):
        yield "its data are in another order than the header's (ggml src/gguf.cpp rejects that)"
    with path.open("rb") as file:
        for start, stop, name in [*sorted(spans), (size, size, "the end")]:
            if start < at and stop > start:
                raise FormatError("bad-header", f"{name} shares bytes with the tensor before it")
            file.seek(at)
            if start - at >= header.alignment or file.read(max(start - at, 0)).strip(b"\0"):
                what = f"{start - at:,} bytes before {name} are more than padding with zeros"
                yield f"{what} (ggml docs/gguf.md, tensor_data)"
            at = max(at, stop)


_READERS: dict[str, Callable[[Path], WrittenFile]] = {
    "gguf": _read_gguf,
    "npy": _read_npy,
    "pth": read_pth,
    "safetensors": _read_safetensors,
}
