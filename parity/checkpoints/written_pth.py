"""The content of a file that a port wrote; read a .pth strictly: zip, pickle, and all in it."""

from __future__ import annotations

import json
import os
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.checkpoints import pth_storages
from parity.checkpoints.blocks import DECODERS
from parity.checkpoints.location import StorageLocation
from parity.checkpoints.pickles import PickledCall
from parity.tensors import FormatError
from parity.tensors.dtypes import DTYPES, F32
from parity.tensors.stored import StoredTensor, map_file


@dataclass
class WrittenFile:
    """The content of a file; rows and columns are in their logical order."""

    tensors: dict[str, StoredTensor] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)  # GGUF's type of each tensor
    metadata: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)  # Tensors that are not read, and why
    broken: list[str] = field(default_factory=list)  # Rules, each with its document

    def add(self, name: str, location: StorageLocation) -> None:
        """Add a tensor; one of a type without a decoder is not read."""
        self.types[name] = location.type_name
        tensor = _make_tensor(location)
        if tensor is None:
            self.unread[name] = f"has the type {location.type_name}, which has no decoder here"
        else:
            self.tensors[name] = tensor


def _make_tensor(location: StorageLocation) -> StoredTensor | None:
    """Return a tensor that reads a view, or decodes blocks; None where there is no decoder."""
    kind, path, shape = location.type_name, location.path, location.shape
    if kind in DTYPES:
        dtype = DTYPES[kind]
        start = location.start + location.storage_offset * dtype.storage.itemsize
        is_plain = location.stride in (None, location.row_major)
        fetch = None if is_plain else partial(_read_view, location)
        return StoredTensor(path, start, dtype, shape, path.suffix, fetch=fetch)
    if kind not in DECODERS:
        return None
    fetch = partial(_decode_blocks, location)
    return StoredTensor(path, location.start, F32, shape, path.suffix, fetch=fetch)


def _read_view(location: StorageLocation, start: int, stop: int) -> NDArray[Any]:
    content = map_file(location.path)[location.start : location.stop]
    view = location.view(content.view(DTYPES[location.type_name].storage))
    if view is None:
        raise ValueError("it became shorter")
    return view.flat[start:stop]


def _decode_blocks(location: StorageLocation, start: int, stop: int) -> NDArray[Any]:
    decoder = DECODERS[location.type_name]
    first, last = start // decoder.elements, -(-stop // decoder.elements)
    with location.path.open("rb") as file:
        file.seek(location.start + first * decoder.size)
        raw = np.frombuffer(file.read((last - first) * decoder.size), np.uint8)
    values = decoder(raw.reshape(last - first, decoder.size)).ravel()
    return values[start - first * decoder.elements :][: stop - start]


def format_error(error: Exception) -> str:
    """Format the reason of an error, however long."""
    return f"{str(error) or type(error).__name__:.200s}"


_LEGACY = b"\x80\2\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # torch.serialization.MAGIC_NUMBER, pickled
_END_RECORD = 22  # Bytes of a zip's last record
_ZIP64_COUNT = 2**16 - 1  # Members, as a zip of 64 bits states them there
_MAX_TEXT = 2**23  # Characters of the JSON of all that is not a tensor or text
_MAX_VERSION = 10  # kMaxSupportedFileFormatVersion in torch's caffe2/serialize/versions.h


def read_pth(path: Path) -> WrittenFile:
    """Read a zip that ``torch.save`` could have written.

    Raises:
        FormatError: torch rejects it; or ``not-verified``: it is of a form that is not read here.
        OSError: As the system says.
    """
    try:
        archive = pth_storages.read_archive(path)
        written = WrittenFile(broken=[*_check_archive(path, archive)])
    except (LookupError, NotImplementedError, TypeError, AttributeError, RecursionError) as error:
        message = f"is of a form that is not read here: {format_error(error)}"
        raise FormatError("not-verified", message) from error
    except pth_storages.PARSE_ERRORS as error:
        with path.open("rb") as file:
            is_legacy = file.read(len(_LEGACY)) == _LEGACY
        form = "in the form before torch 1.6" if is_legacy else "not a zip as torch.save writes it"
        code = "not-verified" if is_legacy else "bad-header"
        raise FormatError(code, f"is {form}: {format_error(error)}") from error
    used, room = set(), _MAX_TEXT
    for keys, leaf in archive.leaves:
        name = ".".join(keys)
        if name in written.tensors or name in written.metadata:
            written.unread[name] = "is there twice, once under nested keys"
        elif isinstance(leaf, str):
            written.metadata[name] = leaf
        elif leaf != {} and not isinstance(leaf, PickledCall):
            written.metadata[name] = _format_plain(leaf, room)
            room -= len(written.metadata[name])
        elif leaf != {}:
            try:
                location = _locate_view(archive, leaf)
            except pth_storages.PARSE_ERRORS as error:
                written.unread[name] = f"is not a tensor that is read here: {format_error(error)}"
            else:
                used.add(location.start)
                written.add(name, location)
    # What is not read may use any member.
    written.broken += [
        f"no tensor uses {member} (torch.save writes no such member)"
        for member, (start, _) in archive.spans.items()
        if not written.unread and member.startswith(f"{archive.prefix}data/") and start not in used
    ]
    return written


def _format_plain(leaf: Any, room: int) -> str:
    """Format numbers, None, and lists of them, in at most ``room`` characters.

    Raises:
        FormatError: ``not-verified``: it is anything else, such as a list of tensors, or longer.
    """
    pieces: list[str] = []
    try:
        # A list or a text may be in another many times, and so on.
        for piece in json.JSONEncoder().iterencode(leaf):
            pieces.append(piece)
            room -= len(piece)
            if room < 0:
                break
    except (TypeError, ValueError, RecursionError):
        room = -1
    if room < 0:
        message = f"has a {type(leaf).__name__} whose content is not read here"
        raise FormatError("not-verified", message)
    return "".join(pieces)


def _locate_view(archive: pth_storages.Archive, leaf: PickledCall) -> StorageLocation:
    """Locate a tensor, whose storage must have as many bytes as the pickle says.

    Raises:
        One of ``PARSE_ERRORS``: It is not read.
    """
    location = pth_storages.locate_view(archive, leaf)
    if location is None:
        raise ValueError(f"{leaf.function}, or a view beyond its storage")
    tag, class_, key, _, count = leaf.args[0].args
    counts, grad = pth_storages.ARGUMENTS[str(leaf.function)], leaf.args[4:5]
    if tag != "storage" or len(leaf.args) not in counts or not all(type(n) is bool for n in grad):
        raise ValueError(f"{leaf.function} of other arguments than torch.save writes")
    if any(leaf.args[counts.start :]):
        raise ValueError("metadata of a view, such as that it is negated or conjugated")
    width = DTYPES[location.type_name].storage.itemsize if class_.name != "UntypedStorage" else 1
    if count * width != location.stop - location.start:
        raise ValueError(f"storage {key} has {location.stop - location.start:,} bytes")
    return location


def _check_archive(path: Path, archive: pth_storages.Archive) -> Iterator[str]:
    """Yield tolerated rules of the archive that are broken.

    Raises:
        ValueError, LookupError, zipfile.BadZipFile: torch rejects it, or it is not read.
    """
    with zipfile.ZipFile(path) as members:
        infos, names = members.infolist(), members.namelist()
        if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
            raise LookupError("a member is compressed")
        if sum(info.file_size for info in infos) > path.stat().st_size:
            raise ValueError("members share bytes, or are beyond the file")
        if (bad := members.testzip()) is not None:
            raise ValueError(f"the checksum of {bad} is wrong")
        folder = f"{names[0].partition('/')[0]}/"
        is_one = all(name.startswith(folder) for name in names)
        if archive.prefix != folder or not is_one or f"{folder}version" not in names:
            raise ValueError("its members are not in one folder with data.pkl and version")
        for record, parse in _RECORDS.items():
            if f"{folder}{record}" in names:
                parse(members.read(f"{folder}{record}"))
        if f"{archive.prefix}byteorder" not in names:
            yield "the member byteorder is missing (torch.save writes it since 2.1)"
        yield from _check_ends(path, infos)
    if any(start % 64 for name, (start, _) in archive.spans.items() if "/data/" in name):
        doc = "torch's caffe2/serialize/inline_container.h, kFieldAlignment"
        yield f"storages begin at bytes that 64 does not divide ({doc})"
    if archive.pickle[:2] != b"\x80\2":
        yield "its pickle is not of protocol 2 (torch/_weights_only_unpickler.py expects it)"


def _parse_version(text: bytes) -> int:
    version = text.strip()
    if not version.isdigit() or not 1 <= int(version) <= _MAX_VERSION:
        raise ValueError(f"torch does not read the version {version!r:.40}")
    return int(version)


#: How torch reads further members, of which only the version must be there.
_RECORDS: dict[str, Callable[[bytes], Any]] = {
    "version": _parse_version,
    ".storage_alignment": int,
    ".data/serialization_id": bytes.decode,
}


def _check_ends(path: Path, infos: list[zipfile.ZipInfo]) -> Iterator[str]:
    with path.open("rb") as file:
        file.seek(-_END_RECORD, os.SEEK_END)
        mark, count = struct.unpack("<4s6xH10x", file.read())
    if infos[0].header_offset or mark != b"PK\5\6":
        yield "bytes are before or after the archive (PKWARE APPNOTE, 4.3.1)"
    elif count not in (len(infos), _ZIP64_COUNT):
        raise ValueError(f"its directory has {len(infos):,} members, and says {count:,}")
