"""The content of a file that a port wrote: its tensors, and what could not be read."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.checkpoints.blocks import DECODERS
from parity.checkpoints.location import StorageLocation
from parity.tensors.dtypes import DTYPES, F32
from parity.tensors.private_map import map_file
from parity.tensors.stored import StoredTensor


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
