"""A strict reader of safetensors headers; the data is read where it lies.

``[u64 header length][JSON header][data]``. Rules, from the format's description:
the header is at most 100 MB and begins with ``{``; keys are not repeated;
``__metadata__`` maps strings to strings; data offsets are contiguous from 0 to
the file's end without holes, whatever the order of the keys.
"""

from __future__ import annotations

import json
import os
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

from parity.codecs import FormatError
from parity.codecs.dtypes import DTYPES
from parity.codecs.stored import Stored

if TYPE_CHECKING:
    from pathlib import Path

#: The format's own limit. What we read is bounded by the file's size as well.
MAX_HEADER = 100_000_000
MAX_NDIM = 32
_LENGTH = 8


def stored(path: Path) -> dict[str, Stored]:
    """The tensors of a file by name.

    Raises:
        FormatError: The file is not a safetensors file that holds to the rules.
    """
    header, start, size = _header(path)
    header.pop("__metadata__", None)
    tensors = {name: _tensor(path, name, entry, start) for name, entry in header.items()}
    _hold_contiguous(tensors, start, size)
    return tensors


def _header(path: Path) -> tuple[dict[str, Any], int, int]:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            raw = file.read(_LENGTH)
            length = int.from_bytes(raw, "little")
            if len(raw) < _LENGTH or length > size - _LENGTH:
                _bad("truncated", f"header claims {length:,} bytes, the file has {size:,}")
            if length > MAX_HEADER:
                _bad("bad-header", f"header claims {length:,} bytes; at most {MAX_HEADER:,}")
            text = file.read(length)
    except OSError as error:
        _bad("unreadable", f"cannot be read: {error.strerror}")
    return _parsed(text), _LENGTH + length, size


def _parsed(text: bytes) -> dict[str, Any]:
    if not text.startswith(b"{"):
        _bad("bad-header", f"header begins with {text[:8]!r}, not with a brace")
    try:
        header = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_float=_no_float,
            parse_constant=_no_float,
        )
    except (ValueError, RecursionError) as error:
        _bad("bad-header", f"header is not JSON: {error}")
    if not isinstance(header, dict):
        _bad("bad-header", "header is no JSON object")
    metadata = header.get("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        _bad("bad-header", "__metadata__ must map strings to strings")
    return header


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for name, value in pairs:
        if name in entries:
            _bad("bad-header", f"the key {name!r} stands in the header twice")
        entries[name] = value
    return entries


def _no_float(text: str) -> NoReturn:
    _bad("bad-header", f"header holds {text}, where only whole numbers may stand")


def _tensor(path: Path, name: str, entry: Any, start: int) -> Stored:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        _bad("bad-header", f"tensor {name!r} needs dtype, shape and data_offsets, no more")
    dtype = DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if dtype is None:
        _bad("bad-header", f"tensor {name!r} has the unknown dtype {entry['dtype']!r}")
    shape, offsets = _whole(name, entry, "shape"), _whole(name, entry, "data_offsets")
    if len(shape) > MAX_NDIM:
        _bad("bad-header", f"tensor {name!r} has {len(shape)} dimensions; at most {MAX_NDIM}")
    if len(offsets) != 2 or offsets[0] > offsets[1]:  # noqa: PLR2004 - begin and end
        _bad("bad-header", f"tensor {name!r} has the data_offsets {list(offsets)}")
    wanted = prod(shape) * dtype.storage.itemsize
    if offsets[1] - offsets[0] != wanted:
        _bad(
            "bad-header",
            f"tensor {name!r} of {dtype.name} {list(shape)} needs {wanted:,} bytes, its "
            f"data_offsets hold {offsets[1] - offsets[0]:,}",
        )
    return Stored(path, start + offsets[0], dtype, shape, path.suffix)


def _whole(name: str, entry: dict[str, Any], key: str) -> tuple[int, ...]:
    values = entry[key]
    if not isinstance(values, list) or not all(_is_u64(value) for value in values):
        _bad("bad-header", f"{key} of tensor {name!r} must be whole numbers, not {values!r:.80}")
    return tuple(values)


def _is_u64(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _hold_contiguous(tensors: dict[str, Stored], start: int, size: int) -> None:
    at = start
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].offset, item[1].nbytes)):
        if tensor.offset != at:
            what = "overlaps the one before" if tensor.offset < at else "leaves a hole before it"
            _bad("bad-header", f"tensor {name!r} at data byte {tensor.offset - start:,} {what}")
        at = tensor.offset + tensor.nbytes
    if at > size:
        _bad("truncated", f"data needs {at:,} bytes, the file has {size:,}")
    if at < size:
        _bad("trailing-bytes", f"{size - at:,} bytes follow the last tensor")


def _bad(code: str, message: str) -> NoReturn:
    raise FormatError(code, message)
