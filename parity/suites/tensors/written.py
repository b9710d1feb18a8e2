"""The files that a port must write: their tensors are a dump's, and all else is checked here."""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from parity import checkpoints
from parity.bundle.tensor_case import FORMATS, TensorCase
from parity.checkpoints.location import read_stored_types
from parity.checkpoints.written import read_written
from parity.checkpoints.written_pth import WrittenFile
from parity.results import Finding
from parity.suites.bundle_files import report_unread_dump_files
from parity.suites.messages import format_list, format_name, report_error
from parity.tensors import FormatError
from parity.tensors.dtypes import DTYPES
from parity.tensors.folder import FolderContents, is_companion, list_tensors, walk_files
from parity.tensors.json_values import read_json
from parity.tensors.safetensors import read_metadata
from parity.tensors.stored import Tensors
from parity.text import format_count

Files = Mapping[str, WrittenFile]


def read_dump(detail: TensorCase, folder: Path) -> FolderContents:
    """Read the tensors of a dump; those of the files that the case names, where it names some."""
    return read_files(detail, folder)[0]


def read_files(detail: TensorCase, folder: Path) -> tuple[FolderContents, Files]:
    """Read the tensors of a dump, and the files that the case names as far as they can be read."""
    if not detail.writes:
        return list_tensors(folder, detail.layout), {}
    contents, files = FolderContents(), {}
    for name, form in detail.writes.items():
        path = folder / name
        if form not in FORMATS or not path.is_file():
            continue
        try:
            file = read_written(path, form)
        except FormatError as error:
            contents.unreadable[name] = error
            continue
        files[name], tensors = file, file.tensors
        if form == "npy":
            tensors = {name.removesuffix(path.suffix): one for one in file.tensors.values()}
        contents.duplicates += [one for one in tensors if one in contents.tensors]
        contents.tensors |= tensors
        contents.lost |= file.unread.keys()
    return contents, files


def check_files(
    detail: TensorCase, folder: Path, files: Files, references: Tensors
) -> list[Finding]:
    """Check what the comparison of tensors does not see: each file, its types, and its metadata."""
    known = {*detail.writes, *detail.documents, *detail.texts, "stdout.json"}
    found = dict(walk_files(folder))
    unread = [name for name in found if name not in known and not is_companion(found[name])]
    advice = "of a case with `writes`, only the files that it names are read"
    findings = [*_check_presence(detail, folder), *report_unread_dump_files(unread, advice)]
    for name, file in files.items():
        for tensor, why in file.unread.items():
            if not detail.rules.resolve(tensor, None)[0].ignore:
                message = f"{format_name(tensor)} in {name} was not verified: it {why}"
                findings.append(report_error("not-verified", message, tensor=tensor))
        for rule in file.broken:
            message = f"{name}: {rule}"
            findings.append(Finding(level="warning", code="format-rule", message=message))
    findings += _check_indexes(detail, folder, files)
    return [*findings, *_check_types(detail, files, references), *_check_metadata(detail, files)]


def _check_presence(detail: TensorCase, folder: Path) -> Iterator[Finding]:
    for name, form in detail.writes.items():
        path, other = folder / name, folder / form
        if not path.is_file():
            is_other = os.path.lexists(path)
            message = f"the port did not write {name}{' as a regular file' if is_other else ''}"
            yield report_error("file-missing", message, tensor=name)
        elif form not in detail.writes or not other.is_file():
            continue
        elif not filecmp.cmp(path, other, shallow=False):
            message = f"{name} differs from {form}, which must have the same bytes"
            yield report_error("bytes-differ", message, tensor=name)


def _check_indexes(detail: TensorCase, folder: Path, files: Files) -> Iterator[Finding]:
    """Compare an index of shards with the files; its text is compared as any document's.

    A file that cannot be read is reported elsewhere, not for each of its tensors.
    """
    places = {
        tensor: name
        for name, file in files.items()
        if detail.writes[name] in ("safetensors", "pth")
        for tensor in (*file.tensors, *file.unread)
    }
    unreadable = detail.writes.keys() - files.keys()
    for document in detail.documents:
        stated: Any = {}
        if document.endswith(".index.json"):
            with suppress(FormatError, TypeError, KeyError):
                stated = read_json(folder / document)["weight_map"]
        above = document.rpartition("/")[0]
        for tensor, name in stated.items() if isinstance(stated, dict) else ():
            right, place = f"{above}/{name}".removeprefix("/"), places.get(tensor, "no file")
            if place != right and (tensor in places or right not in unreadable):
                message = f"{document} says that {tensor:.80} is in {name!r:.80}; it is in {place}"
                yield report_error("json-value", message, tensor=tensor)


def _check_types(detail: TensorCase, files: Files, references: Tensors) -> Iterator[Finding]:
    """Compare GGUF's types of blocks with the checkpoint's, or `meta.json`'s; not plain types."""
    expected = {name: one.dtype.name for name, one in references.items()}
    if detail.checkpoint is not None and detail.checkpoint.suffix == ".gguf":
        located = checkpoints.locate_tensors(detail.folder, detail.checkpoint)
        expected |= {name: one.type_name for name, one in located.items()}
    expected |= read_stored_types(detail.folder)
    for name, file in files.items():
        for tensor, kind in file.types.items():
            right = expected.get(tensor, kind)
            if kind != right and not {kind, right} <= DTYPES.keys():
                message = f"{format_name(tensor)} is {kind} in {name}, expected {right}"
                yield report_error("dtype", message, tensor=tensor, expected=right, obtained=kind)


def _check_metadata(detail: TensorCase, files: Files) -> Iterator[Finding]:
    """Report stated metadata, or that of the reference's `.safetensors`, that a file lacks."""
    expected = dict(detail.metadata) if isinstance(detail.metadata, Mapping) else {}
    if detail.metadata is True and detail.reference is not None:
        for _, path in walk_files(detail.reference):
            expected |= read_metadata(path) if path.suffix == ".safetensors" else {}
    if detail.metadata and not expected:
        yield report_error("metadata-changed", "metadata is stated, and the reference has none")
    for name, file in files.items() if detail.metadata else ():
        own = {key: f"is {text!r:.60}" for key, text in file.metadata.items()}
        lost = [
            f"{key} {own.get(key, 'is missing')}, expected {text!r:.60}"
            for key, text in expected.items()
            if file.metadata.get(key) != text
        ]
        if lost:
            message = (
                f"{name} lacks or changes {format_count(len(lost), 'entries', 'entry')} of the "
                f"metadata: {format_list(lost)}"
            )
            yield report_error("metadata-changed", message, tensor=name)
