"""Faults of a dump's files: missing, cut, grown, of another shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from parity.faults.fault import Fault, Planted, called

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from parity.codecs.stored import Stored


def overwrite(path: Path, offset: int, content: bytes) -> None:
    """Put bytes in place of those that lie at ``offset``."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def file_faults(tensors: Mapping[str, Stored]) -> Iterator[Fault]:
    """Faults of the dump's files, shown on the first one that is a file of its own."""
    own = [name for name, stored in tensors.items() if stored.path.suffix != ".safetensors"]
    if not own:
        return
    first = own[0]
    path = tensors[first].path.name
    last = tensors[own[-1]].path.name

    def plant(change: Callable[[Path], Any]) -> Callable[[Path], Planted]:
        def planted(folder: Path) -> Planted:
            change(folder)
            return Planted((path,))

        return planted

    def add(name: str, text: str, code: str, change: Callable[[Path], Any]) -> Fault:
        return Fault(name=name, text=text, names=called(code), plant=plant(change))

    yield add(
        "tensor-missing", "a tensor is left out", "tensor-missing", lambda d: (d / path).unlink()
    )
    yield add("dump-empty", "nothing is dumped", "tensor-missing", _emptied)
    yield add("truncated", "a file is cut short", "truncated", lambda d: _cut(d / path))
    yield add(
        "trailing-bytes", "bytes follow the data", "trailing-bytes", lambda d: _grown(d / path)
    )
    if len(own) > 1 and tensors[own[-1]].shape != tensors[first].shape:
        yield add(
            "file-of-another",
            "a file holds another tensor",
            "shape",
            lambda d: (d / path).write_bytes((d / last).read_bytes()),
        )
    shapes = [name for name in own if tensors[name].path.suffix == ".bin"]
    many = [n for n in shapes if tensors[n].shape != tensors[n].shape[::-1]]
    if many:
        turned = tensors[many[0]]
        yield add(
            "shape-reversed",
            "a shape is written in reverse",
            "shape",
            lambda d: _reversed(d / turned.path.name, turned.shape),
        )


def _emptied(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _grown(path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(4))


def _reversed(path: Path, shape: tuple[int, ...]) -> None:
    overwrite(path, 4, np.array(shape[::-1], "<u4").tobytes())
