"""Faults of a dump's files: missing, truncated, extended, of another shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from parity.lab.faults import Fault, InjectionResult
from parity.tensors.stored import StoredTensor


def overwrite(path: Path, offset: int, content: bytes) -> None:
    """Replace the bytes at ``offset``."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def truncate(path: Path) -> None:
    """Remove the last byte."""
    path.write_bytes(path.read_bytes()[:-1])


def append_bytes(path: Path) -> None:
    """Add four zero bytes."""
    path.write_bytes(path.read_bytes() + bytes(4))


def list_file_faults(tensors: Mapping[str, StoredTensor], root: Path) -> Iterator[Fault]:
    """List faults of the dump's files, shown on the first tensor with a file of its own."""
    paths = {
        name: stored.path.relative_to(root)
        for name, stored in tensors.items()
        if stored.path.suffix != ".safetensors"
    }
    if not paths:
        return
    (first, path), (last, other) = next(iter(paths.items())), next(reversed(paths.items()))

    def make_fault(name: str, text: str, code: str, change: Callable[[Path], Any]) -> Fault:
        inject = partial(_inject, change, path.as_posix())
        return Fault(name=name, text=text, codes=(code,), inject=inject)

    text = "a tensor is left out"
    yield make_fault("tensor-missing", text, "tensor-missing", lambda d: (d / path).unlink())
    yield make_fault("dump-empty", "nothing is dumped", "tensor-missing", _delete_all)
    yield make_fault("truncated", "a file is truncated", "truncated", lambda d: truncate(d / path))
    text = "bytes follow the data"
    yield make_fault("trailing-bytes", text, "trailing-bytes", lambda d: append_bytes(d / path))
    if other != path and tensors[last].shape != tensors[first].shape:
        yield make_fault(
            "file-of-another",
            "a file contains another tensor",
            "shape",
            lambda d: (d / path).write_bytes((d / other).read_bytes()),
        )
    shapes = {at: tensors[name].shape for name, at in paths.items() if at.suffix == ".bin"}
    if many := [at for at, shape in shapes.items() if shape != shape[::-1]]:
        raw = np.array(shapes[many[0]][::-1], "<u4").tobytes()
        yield make_fault(
            "shape-reversed",
            "a shape is written in reverse",
            "shape",
            lambda d: overwrite(d / many[0], 4, raw),
        )


def _inject(change: Callable[[Path], Any], part: str, folder: Path) -> InjectionResult:
    change(folder)
    return InjectionResult((part,))


def _delete_all(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            path.unlink()
