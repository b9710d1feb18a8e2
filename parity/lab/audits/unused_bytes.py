"""Find bytes of a .pth that none of its tensors refers to.

``torch.save`` writes the whole storage of a view (pytorch#40157): useless size, and perhaps
unintended content. A port reads such a file correctly, so it is a notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from parity.lab.audits.compare_reference import make_notice
from parity.lab.libraries import import_library
from parity.results import Finding

_MAX_DEPTH = 32


def find_unreferenced(path: Path, loaded: Any) -> list[Finding]:
    """Report bytes of a file that are in no tensor of ``loaded``, all that torch reads of it."""
    storages: dict[int, list[tuple[str, Any]]] = {}
    for name, tensor in _walk_tensors(loaded, "", 0):
        storages.setdefault(tensor.untyped_storage().data_ptr(), []).append((name, tensor))
    hidden = {}
    for views in storages.values():
        size = views[0][1].untyped_storage().nbytes()
        if unused := size - _count_referenced(size, (tensor for _, tensor in views)):
            hidden[views[0][0]] = (unused, size)
    if not hidden:
        return []
    total = sum(unused for unused, _ in hidden.values())
    name, (unused, size) = max(hidden.items(), key=lambda item: item[1])
    detail = f"{unused:,} of the {size:,} in the storage of {name or 'its tensor'}"
    more = f", and some of {len(hidden) - 1:,} more" if len(hidden) > 1 else ""
    message = f"{path.name} has {total:,} bytes that no tensor refers to: {detail}{more}"
    return [make_notice("bytes-unreferenced", message, tensor=name or None)]


def _walk_tensors(value: Any, name: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield every tensor with a storage, however deep in mappings and lists, with its name."""
    torch = import_library("torch")
    if isinstance(value, torch.Tensor):
        if value.layout == torch.strided and not value.is_nested:
            yield name, value
        return
    pairs: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, (list, tuple)):
        pairs = enumerate(value)
    for key, item in pairs if depth < _MAX_DEPTH else ():
        yield from _walk_tensors(item, f"{name}.{key}" if name else str(key), depth + 1)


def _count_referenced(size: int, tensors: Iterable[Any]) -> int:
    """Count the bytes of a storage that are in an element of any of its tensors.

    A view that repeats elements may claim any size, so repeated axes count once, and a view
    that still has more elements than the storage counts as all bytes up to its last.
    """
    mask = np.zeros(size, np.bool_)
    for tensor in tensors:
        item = tensor.element_size()
        if not tensor.numel():
            continue
        if tensor.numel() * item == size and tensor.is_contiguous():
            return size
        axes = [pair for pair in zip(tensor.shape, tensor.stride(), strict=True) if pair[1]]
        first = tensor.storage_offset() * item
        if prod(length for length, _ in axes) * item > size:
            last = first + item * (1 + sum((length - 1) * step for length, step in axes))
            mask[first:last] = True
            continue
        shape = (*(length for length, _ in axes), item)
        steps = (*(step * item for _, step in axes), 1)
        view = np.lib.stride_tricks.as_strided(mask[first:], shape, steps)
        view[...] = True
    return int(mask.sum())
