"""Pack a folder of references with its `parity.json` as a bundle for the suite `tensors`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from parity.bundle import manifest
from parity.errors import ConfigError, Problem, ReferenceSuspectError
from parity.lab.pins import packing
from parity.suites.bundle_files import find_unread
from parity.suites.tensor_reference import TensorReference
from parity.suites.tensors import suite
from parity.suites.tolerance_findings import find_blindness, report_blindness
from parity.tensors.folder import list_tensors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from parity.bundle.manifest import TensorCase
    from parity.tensors.stored import StoredTensor


#: Names of arrays that a port reads: `inputs/x`, and as joined from nested dicts `inputs.x`.
_INPUT = re.compile(r"inputs?[./]")


def pin(target_dir: Path, *, folder: Path, more: Sequence[Path] = (), name: str = "") -> Path:
    """Pack a folder with its `parity.json`, or files of arrays, each as a case.

    Args:
        target_dir: Receives ``NAME.tar``.
        folder: A folder, or a file that ``array_files.read_arrays`` reads.
        more: Further files, if that is one.
        name: Of the bundle; by default the folder's, or the first file's without its suffix.

    Raises:
        ConfigError, ReferenceSuspectError: As ``pack_folder``, ``BundleWriter`` and
            ``read_arrays``.
    """
    if not (more or folder.is_file()):
        return pack_folder(target_dir, folder, name)
    from parity.lab.array_files import read_arrays
    from parity.lab.bundle_writer import BundleWriter

    writer = BundleWriter(name or folder.stem.lower(), tolerance="close")
    for path in (folder, *more):
        arrays = read_arrays(path)
        inputs = {_INPUT.sub("", key): one for key, one in arrays.items() if _INPUT.match(key)}
        outputs = {key: one for key, one in arrays.items() if not _INPUT.match(key)}
        writer.add_case(path.stem, outputs, inputs)
    return writer.write(target_dir)


def pack_folder(target_dir: Path, folder: Path, name: str = "") -> Path:
    """Pack ``folder`` as ``<its name>.tar`` in ``target_dir``; returns the tar's path.

    Every reference is read first, so that nothing is packed that `verify` would reject, and
    every file must be one that a case reads, or describe the bundle.

    Raises:
        ConfigError: ``folder`` is not a folder, contains ``target_dir``, or has a name that could
            not be unpacked everywhere.
        ReferenceSuspectError: `parity.json` is wrong, a reference cannot be read, a tolerance is
            blind without a stated reason, or no case reads a file.
    """
    if not folder.is_dir():
        message = f"{folder.as_posix()} is not a folder; `pin tensors` packs a folder, or files"
        raise ConfigError(Problem("usage", message))
    if target_dir.resolve().is_relative_to(folder.resolve()):
        message = (
            f"--out is inside {folder.as_posix()}, so that the next bundle would contain this one"
        )
        raise ConfigError(Problem("usage", message))
    cases = manifest.load(folder)
    for case in cases:
        _check_reference(case)
    if unread := find_unread(folder, suite.SUITE, suite.read_cases(folder, {})):
        message = f"{unread[0].message}; name them in `parity.json` as inputs, or remove them"
        raise ReferenceSuspectError(Problem("file-unread", message))
    name = name or folder.resolve().name
    return packing.pack(packing.list_files(folder), target_dir / f"{name}.tar")


def _check_reference(case: TensorCase) -> None:
    if case.reference is None:
        return
    contents = list_tensors(case.reference)
    if problems := contents.list_problems():
        raise ReferenceSuspectError(
            *(Problem("reference-malformed", f"case {case.id!r}: {text}") for text in problems)
        )
    _check_tolerances(case, contents.tensors)


def _check_tolerances(case: TensorCase, tensors: Mapping[str, StoredTensor]) -> None:
    """Reject tolerances that cannot see a wrong dump, or that mean nothing for a dtype."""
    reference = TensorReference(tensors=tensors, tolerances=case.tolerances)
    complex_names = [name for name, one in tensors.items() if one.dtype.kind == "complex"]
    if complex_names and "ulp" in case.tolerances:
        message = (
            f"case {case.id!r}: `ulp` is not defined for complex numbers, such as "
            f"{complex_names[0]!r}; state max_abs or relative"
        )
        raise ReferenceSuspectError(Problem("reference-malformed", message))
    blind = {
        name: reason
        for name, tensor in tensors.items()
        if not (tolerances := reference.select_bounds(name)).get("exact")
        and (reason := find_blindness(tensor, tolerances))
    }
    if blind and not case.blind:
        message = (
            f"case {case.id!r}: {report_blindness(blind)[0].message}, or `blind` with a reason"
        )
        raise ReferenceSuspectError(Problem("blind-bound", message))
