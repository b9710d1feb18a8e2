"""Locate the tensors of a safetensors file; a strict reader of its header.

``[u64 header length][JSON header][data]``. Rules, from the format's description:
the header is at most 100 MB and begins with ``{``; keys are not repeated;
``__metadata__`` maps strings to strings; data offsets are contiguous from 0 to
the file's end without holes, whatever the order of the keys.
"""

from __future__ import annotations

import json
import os
from math import prod
from pathlib import Path
from typing import Any, NoReturn

from parity.tensors import FormatError
from parity.tensors.dtypes import DTYPES, PACKED
from parity.tensors.stored import StoredTensor

#: The format's own limit. What we read is bounded by the file's size as well.
MAX_HEADER = 100_000_000
MAX_NDIM = 32
_LENGTH_BYTES = 8
_LIMIT = 2**63
#: The format's types; of complex numbers it has those of two f32 alone.
_DTYPES = {name: dtype for name, dtype in (DTYPES | PACKED).items() if name != "C128"}


def locate_tensors(path: Path) -> dict[str, StoredTensor]:
    """Return the tensors of a file by name.

    Raises:
        FormatError: The file breaks a rule of the format.
    """
    text, start, size = _read_header(path)
    try:
        header = _parse_header(text)
        header.pop("__metadata__", None)
        tensors = {name: _parse_entry(path, name, entry, start) for name, entry in header.items()}
    except RecursionError:
        _fail("bad-header", "header is nested too deeply")
    _check_contiguous(tensors, start, size)
    return tensors


def read_metadata(path: Path) -> dict[str, str]:
    """Read ``__metadata__`` of a file's header; empty where it has none.

    Raises:
        FormatError: The file has no valid header.
    """
    try:
        metadata: dict[str, str] = _parse_header(_read_header(path)[0]).get("__metadata__", {})
    except RecursionError:
        _fail("bad-header", "header is nested too deeply")
    return metadata


def _read_header(path: Path) -> tuple[bytes, int, int]:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            raw = file.read(_LENGTH_BYTES)
            length = int.from_bytes(raw, "little")
            if length > MAX_HEADER:
                # An HTML page, or the pointer that Git LFS leaves, begins with such a number.
                what = f"begins with {raw!r}, which claims a header of {length:,} bytes"
                _fail("bad-header", f"{what}; at most {MAX_HEADER:,}")
            if len(raw) < _LENGTH_BYTES or length > size - _LENGTH_BYTES:
                _fail("truncated", f"header claims {length:,} bytes, the file has {size:,}")
            text = file.read(length)
    except OSError as error:
        _fail("unreadable", f"cannot be read: {error.strerror}")
    return text, _LENGTH_BYTES + length, size


def _parse_header(text: bytes) -> dict[str, Any]:
    if not text.startswith(b"{"):
        _fail("bad-header", f"header begins with {text[:8]!r}, not with a brace")
    try:
        # JSON that begins with a brace is an object.
        header: dict[str, Any] = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_reject_duplicates,
            parse_int=_parse_integer,
            parse_float=_reject_float,
            parse_constant=_reject_float,
        )
    except ValueError as error:
        _fail("bad-header", f"header is not JSON: {error}")
    metadata = header.get("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        _fail("bad-header", "__metadata__ must map strings to strings")
    return header


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for name, value in pairs:
        if name in entries:
            _fail("bad-header", f"the key {name!r:.200} is in the header twice")
        entries[name] = value
        if not (_is_text(name) and (_is_text(value) or not isinstance(value, str))):
            _fail("bad-header", f"the entry {name!r:.200} contains half of a surrogate pair")
    return entries


def _is_text(value: object) -> bool:
    """Return whether it is a string of whole characters; JSON can spell halves of them."""
    try:
        return isinstance(value, str) and bool(value.encode() or True)
    except UnicodeEncodeError:
        return False


def _parse_integer(text: str) -> int:
    if text.startswith("-") or len(text) > len(str(_LIMIT)) or int(text) >= _LIMIT:
        _fail("bad-header", f"header contains the number {text:.40}; known are 0 to 2**63 - 1")
    return int(text)


def _reject_float(text: str) -> NoReturn:
    _fail("bad-header", f"header contains {text:.40}, where only whole numbers are allowed")


def _parse_entry(path: Path, name: str, entry: Any, start: int) -> StoredTensor:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        _fail("bad-header", f"tensor {name!r:.200} needs dtype, shape and data_offsets, no more")
    value = entry["dtype"]
    dtype = _DTYPES.get(value) if isinstance(value, str) else None
    if dtype is None:
        _fail("bad-header", f"tensor {name!r:.200} has the unknown dtype {value!r:.80}")
    shape, offsets = (_read_integers(name, entry, key) for key in ("shape", "data_offsets"))
    if len(shape) > MAX_NDIM:
        _fail("bad-header", f"tensor {name!r:.200} has {len(shape)} dimensions; at most {MAX_NDIM}")
    if prod(filter(None, shape)) * dtype.width // 8 >= _LIMIT:
        _fail("bad-header", f"shape {list(shape)} of tensor {name!r:.200} overflows 63 bits")
    if len(offsets) != 2 or offsets[0] > offsets[1]:  # noqa: PLR2004 - begin and end
        _fail("bad-header", f"tensor {name!r:.200} has the data_offsets {list(offsets)!r:.80}")
    what = f"tensor {name!r:.200} of {dtype.name} {list(shape)}"
    needed, rest = divmod(prod(shape) * dtype.width, 8)
    if rest:
        _fail("bad-header", f"{what} does not fill its last byte")
    if (span := offsets[1] - offsets[0]) != needed:
        _fail("bad-header", f"{what} needs {needed:,} bytes, its data_offsets span {span:,}")
    return StoredTensor(path, start + offsets[0], dtype, shape, path.suffix)


def _read_integers(name: str, entry: dict[str, Any], key: str) -> tuple[int, ...]:
    values = entry[key]
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        what = f"{key} of tensor {name!r:.200}"
        _fail("bad-header", f"{what} must be a list of whole numbers, not {values!r:.80}")
    return tuple(values)


def _check_contiguous(tensors: dict[str, StoredTensor], start: int, size: int) -> None:
    at = start
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].offset, item[1].nbytes)):
        if tensor.offset != at:
            what = "overlaps the one before" if tensor.offset < at else "leaves a hole before it"
            at_byte = f"at data byte {tensor.offset - start:,}"
            _fail("bad-header", f"tensor {name!r:.200} {at_byte} {what}")
        at = tensor.offset + tensor.nbytes
    if at > size:
        _fail("truncated", f"data needs {at:,} bytes, the file has {size:,}")
    if at < size:
        follow = "1 byte follows" if size - at == 1 else f"{size - at:,} bytes follow"
        _fail("trailing-bytes", f"{follow} the last tensor")


def _fail(code: str, message: str) -> NoReturn:
    raise FormatError(code, message)
