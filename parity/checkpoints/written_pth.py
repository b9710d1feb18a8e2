"""Read a .pth that a port wrote, strictly: its zip, its pickle, and all that is in it."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parity.checkpoints import pth_storages
from parity.checkpoints.location import StorageLocation
from parity.checkpoints.pickles import PickledCall
from parity.checkpoints.written_file import WrittenFile, format_error
from parity.tensors import FormatError
from parity.tensors.dtypes import DTYPES

_END_RECORD = 22  # Bytes of a zip's last record


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
        message = f"is not a zip as torch.save writes it: {format_error(error)}"
        raise FormatError("bad-header", message) from error
    used = set()
    for keys, leaf in archive.leaves:
        name = ".".join(keys)
        if name in written.tensors or name in written.metadata:
            written.unread[name] = "is there twice, once under nested keys"
        elif leaf != {} and not isinstance(leaf, PickledCall):
            written.metadata[name] = leaf if isinstance(leaf, str) else _format_plain(leaf)
        elif leaf != {}:
            try:
                location = _locate_view(archive, leaf)
            except pth_storages.PARSE_ERRORS as error:
                written.unread[name] = f"is not a tensor that is read here: {format_error(error)}"
            else:
                used.add(location.start)
                written.add(name, location)
    written.broken += [
        f"no tensor uses {member} (torch.save writes no such member)"
        for member, (start, _) in archive.spans.items()
        if member.startswith(f"{archive.prefix}data/") and start not in used
    ]
    return written


def _format_plain(leaf: Any) -> str:
    """Format numbers, None, and lists of them.

    Raises:
        FormatError: ``not-verified``: it is anything else, such as a list of tensors.
    """
    try:
        return json.dumps(leaf)
    except (TypeError, ValueError, RecursionError) as error:
        message = f"has a {type(leaf).__name__} whose content is not read here"
        raise FormatError("not-verified", message) from error


def _locate_view(archive: pth_storages.Archive, leaf: PickledCall) -> StorageLocation:
    """Locate a tensor, whose storage must have as many bytes as the pickle says.

    Raises:
        One of ``PARSE_ERRORS``: It is not read.
    """
    location = pth_storages.locate_view(archive, leaf)
    if location is None:
        raise ValueError(f"{leaf.function}, or a view beyond its storage")
    _, class_, key, _, count, *_ = leaf.args[0].args
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
        if not names[0].startswith(archive.prefix) or f"{archive.prefix}version" not in names:
            raise ValueError("the first member's folder has no data.pkl and version")
        if f"{archive.prefix}byteorder" not in names:
            yield "the member byteorder is missing (torch.save writes it since 2.1)"
        with path.open("rb") as file:
            file.seek(-_END_RECORD, os.SEEK_END)
            is_last = file.read(4) == b"PK\5\6"
        if infos[0].header_offset or not is_last:
            yield "bytes are before or after the archive (PKWARE APPNOTE, 4.3.1)"
    if any(start % 64 for name, (start, _) in archive.spans.items() if "/data/" in name):
        doc = "torch's caffe2/serialize/inline_container.h, kFieldAlignment"
        yield f"storages begin at bytes that 64 does not divide ({doc})"
    if archive.pickle[:2] != b"\x80\2":
        yield "its pickle is not of protocol 2 (torch/_weights_only_unpickler.py expects it)"
