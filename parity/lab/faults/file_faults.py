"""Faults of a dump's files: missing, truncated, extended, of another shape."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from parity.lab.faults import Fault, make_fault, make_file_fault
from parity.tensors.stored import Tensors


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


def list_file_faults(tensors: Tensors, root: Path) -> Iterator[Fault]:
    """List faults of the dump's files, shown on the first tensor with a file of its own."""
    paths = {
        name: stored.path.relative_to(root)
        for name, stored in tensors.items()
        if stored.path.suffix != ".safetensors"
    }
    if not paths:
        return
    (first, path), (last, other) = next(iter(paths.items())), next(reversed(paths.items()))
    part = path.as_posix()
    make = partial(make_file_fault, file=part)
    yield make("tensor-missing", "a tensor is left out", "tensor-missing", Path.unlink)
    yield make_fault("dump-empty", "nothing is dumped", "tensor-missing", _delete_all, part)
    yield make("truncated", "a file is truncated", "truncated", truncate)
    yield make("trailing-bytes", "bytes follow the data", "trailing-bytes", append_bytes)
    if other != path and tensors[last].shape != tensors[first].shape:
        text = "a file contains another tensor"
        yield make_fault(
            "file-of-another", text, "shape", lambda d: shutil.copyfile(d / other, d / path), part
        )
    shapes = {at: tensors[name].shape for name, at in paths.items() if at.suffix == ".bin"}
    if many := [at for at, shape in shapes.items() if shape != shape[::-1]]:
        raw, text = (
            np.array(shapes[many[0]][::-1], "<u4").tobytes(),
            "a shape is written in reverse",
        )
        yield make_file_fault(
            "shape-reversed", text, "shape", lambda p: overwrite(p, 4, raw), many[0].as_posix()
        )


def _delete_all(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            path.unlink()
