"""Packs a folder of references with its `parity.json` as a bundle for the suite `tensors`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.bundle import manifest
from parity.errors import ConfigError, Problem, ReferenceSuspectError
from parity.lab.pins import packing
from parity.tensors.folder import list_tensors

if TYPE_CHECKING:
    from pathlib import Path

    from parity.bundle.manifest import TensorCase


def pin(target_dir: Path, *, folder: Path) -> Path:
    """Pack ``folder`` as ``<its name>.tar`` in ``target_dir``; returns the tar's path.

    Every reference is read first, so that nothing is packed that `verify` would refuse.

    Raises:
        ConfigError: ``folder`` is no folder, holds ``target_dir``, or a name in it could not
            be unpacked everywhere.
        ReferenceSuspectError: `parity.json` is wrong, or a reference cannot be read.
    """
    if not folder.is_dir():
        message = f"{folder.as_posix()} is no folder; `pin tensors FOLDER` packs one"
        raise ConfigError(Problem("usage", message))
    if target_dir.resolve().is_relative_to(folder.resolve()):
        message = f"--out lies in {folder.as_posix()}, and the bundle would hold itself next time"
        raise ConfigError(Problem("usage", message))
    for case in manifest.load(folder):
        _check_reference(case)
    name = folder.resolve().name
    return packing.pack(packing.list_files(folder), target_dir / f"{name}.tar")


def _check_reference(case: TensorCase) -> None:
    if case.reference is None:
        return
    if problems := list_tensors(case.reference).list_problems():
        raise ReferenceSuspectError(
            *(Problem("reference-malformed", f"case {case.id!r}: {text}") for text in problems)
        )
