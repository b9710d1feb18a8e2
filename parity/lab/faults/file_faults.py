"""Faults of a dump's files: missing, truncated, extended, of another shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from parity.lab.faults import Fault, InjectionResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from parity.tensors.stored import StoredTensor


def overwrite(path: Path, offset: int, content: bytes) -> None:
    """Replace the bytes at ``offset``."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def list_file_faults(tensors: Mapping[str, StoredTensor], root: Path) -> Iterator[Fault]:
    """List faults of the dump's files, shown on the first tensor with a file of its own."""
    own = [name for name, stored in tensors.items() if stored.path.suffix != ".safetensors"]
    if not own:
        return
    first = own[0]
    path = tensors[first].path.relative_to(root)
    last = tensors[own[-1]].path.relative_to(root)

    def make_injector(change: Callable[[Path], Any]) -> Callable[[Path], InjectionResult]:
        def inject(folder: Path) -> InjectionResult:
            change(folder)
            return InjectionResult((path.as_posix(),))

        return inject

    def make_fault(name: str, text: str, code: str, change: Callable[[Path], Any]) -> Fault:
        return Fault(name=name, text=text, codes=(code,), inject=make_injector(change))

    yield make_fault(
        "tensor-missing", "a tensor is left out", "tensor-missing", lambda d: (d / path).unlink()
    )
    yield make_fault("dump-empty", "nothing is dumped", "tensor-missing", _delete_all)
    yield make_fault("truncated", "a file is truncated", "truncated", lambda d: _truncate(d / path))
    yield make_fault(
        "trailing-bytes",
        "bytes follow the data",
        "trailing-bytes",
        lambda d: _append_bytes(d / path),
    )
    if len(own) > 1 and tensors[own[-1]].shape != tensors[first].shape:
        yield make_fault(
            "file-of-another",
            "a file contains another tensor",
            "shape",
            lambda d: (d / path).write_bytes((d / last).read_bytes()),
        )
    shapes = [name for name in own if tensors[name].path.suffix == ".bin"]
    many = [n for n in shapes if tensors[n].shape != tensors[n].shape[::-1]]
    if many:
        asymmetric = tensors[many[0]]
        yield make_fault(
            "shape-reversed",
            "a shape is written in reverse",
            "shape",
            lambda d: _reverse_shape(d / asymmetric.path.relative_to(root), asymmetric.shape),
        )


def _delete_all(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            path.unlink()


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _append_bytes(path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(4))


def _reverse_shape(path: Path, shape: tuple[int, ...]) -> None:
    overwrite(path, 4, np.array(shape[::-1], "<u4").tobytes())
