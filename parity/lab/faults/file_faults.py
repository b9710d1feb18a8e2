"""Faults of a dump's files: missing, cut, grown, of another shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from parity.lab.faults.fault import Fault, InjectionResult, collect_codes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from parity.tensors.stored import StoredTensor


def overwrite(path: Path, offset: int, content: bytes) -> None:
    """Put bytes in place of those that lie at ``offset``."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def list_file_faults(tensors: Mapping[str, StoredTensor]) -> Iterator[Fault]:
    """Faults of the dump's files, shown on the first one that is a file of its own."""
    own = [name for name, stored in tensors.items() if stored.path.suffix != ".safetensors"]
    if not own:
        return
    first = own[0]
    path = tensors[first].path.name
    last = tensors[own[-1]].path.name

    def plant(change: Callable[[Path], Any]) -> Callable[[Path], InjectionResult]:
        def planted(folder: Path) -> InjectionResult:
            change(folder)
            return InjectionResult((path,))

        return planted

    def add(name: str, text: str, code: str, change: Callable[[Path], Any]) -> Fault:
        return Fault(name=name, text=text, codes=collect_codes(code), inject=plant(change))

    yield add(
        "tensor-missing", "a tensor is left out", "tensor-missing", lambda d: (d / path).unlink()
    )
    yield add("dump-empty", "nothing is dumped", "tensor-missing", _delete_all)
    yield add("truncated", "a file is cut short", "truncated", lambda d: _truncate(d / path))
    yield add(
        "trailing-bytes",
        "bytes follow the data",
        "trailing-bytes",
        lambda d: _append_bytes(d / path),
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
        asymmetric = tensors[many[0]]
        yield add(
            "shape-reversed",
            "a shape is written in reverse",
            "shape",
            lambda d: _reverse_shape(d / asymmetric.path.name, asymmetric.shape),
        )


def _delete_all(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _append_bytes(path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(4))


def _reverse_shape(path: Path, shape: tuple[int, ...]) -> None:
    overwrite(path, 4, np.array(shape[::-1], "<u4").tobytes())
