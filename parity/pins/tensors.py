"""Packs a folder of references with its `parity.json` as a bundle for the suite `tensors`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity import manifest
from parity.codecs.files import tensors_in
from parity.errors import ConfigError, Problem, ReferenceSuspectError
from parity.pins import packing

if TYPE_CHECKING:
    from pathlib import Path

    from parity.manifest import TensorCase


def pin(target_dir: Path, *, folder: Path) -> Path:
    """Pack ``folder`` as ``<its name>.tar`` in ``target_dir``; returns the tar's path.

    Every reference is read first, so that nothing is packed that `verify` would refuse.

    Raises:
        ConfigError: ``folder`` is no folder.
        ReferenceSuspectError: `parity.json` is wrong, or a reference cannot be read.
    """
    if not folder.is_dir():
        message = f"{folder.as_posix()} is no folder; `pin tensors FOLDER` packs one"
        raise ConfigError(Problem("usage", message))
    for case in manifest.load(folder):
        _hold_reference(case)
    name = folder.resolve().name
    return packing.pack(packing.files_under(folder), target_dir / f"{name}.tar")


def _hold_reference(case: TensorCase) -> None:
    if case.reference is None:
        return
    found = tensors_in(case.reference)
    broken = [f"{name} {error.message}" for name, error in found.broken.items()]
    broken += [f"the tensor {name!r} stands twice" for name in found.twice]
    if not (found.tensors or broken):
        broken = ["holds no tensor"]
    if broken:
        raise ReferenceSuspectError(
            *(Problem("reference-malformed", f"case {case.id!r}: {text}") for text in broken)
        )
