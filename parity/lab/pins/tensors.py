"""Pack a folder of references with its `parity.json` as a bundle for the suite `tensors`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from parity.bundle import manifest
from parity.bundle.tensor_case import TensorCase
from parity.bundle.tensor_rules import resolve_rules
from parity.errors import ConfigError, Problem, ReferenceSuspectError
from parity.lab.pins import packing
from parity.suites.bundle_files import find_unread
from parity.suites.tensor_reference import TensorReference
from parity.suites.tensors import suite
from parity.suites.tensors.rules import read_references
from parity.suites.tolerance_findings import find_blindness, report_blindness

#: Names of arrays that a port reads: `inputs/x`, and as joined from nested dicts `inputs.x`.
_INPUT = re.compile(r"inputs?[./]")


def pin(target_dir: Path, *, folder: Path, more: Sequence[Path] = (), name: str = "") -> Path:
    """Pack a folder with its `parity.json`, or arrays (``read_arrays``), each path as a case.

    The bundle's ``name`` is by default the folder's, or the first file's without its suffix.

    Raises:
        ConfigError, ReferenceSuspectError: As ``pack_folder``, ``BundleWriter`` and
            ``read_arrays``.
    """
    if not more and ((folder / "parity.json").exists() or not folder.exists()):
        return pack_folder(target_dir, folder, name)
    from parity.lab.array_files import read_arrays
    from parity.lab.bundle_writer import BundleWriter

    writer = BundleWriter(name or folder.stem.lower(), tolerance="close")
    for path in (folder, *more):
        arrays = read_arrays(path)
        inputs = {_INPUT.sub("", key): one for key, one in arrays.items() if _INPUT.match(key)}
        outputs = {key: one for key, one in arrays.items() if not _INPUT.match(key)}
        if nested := next((key for key in outputs if "/inputs/" in key), ""):
            message = (
                f"{path.as_posix()} has inputs in a subfolder ({nested}); name each case's folder"
            )
            raise ConfigError(Problem("usage", message))
        writer.add_case(path.name if path.is_dir() else path.stem, outputs, inputs)
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
    cases = manifest.read_manifest(folder).cases
    found = suite.read_cases(folder, {})
    for case in cases:
        _check_tolerances(case)
    if unread := find_unread(folder, suite.SUITE, found):
        message = f"{unread[0].message}; name them in `parity.json` as inputs, or remove them"
        raise ReferenceSuspectError(Problem("file-unread", message))
    name = name or folder.resolve().name
    return packing.pack(packing.list_files(folder), target_dir / f"{name}.tar")


def _check_tolerances(case: TensorCase) -> None:
    """Reject references that cannot be read, and tolerances that are blind or mean nothing."""
    if case.reference is None:
        return
    tensors = read_references(case)
    rules, _, _ = resolve_rules(case.rules, tensors, case.id)
    reference = TensorReference(
        tensors=tensors, tolerances=case.tolerances, rules=rules, blind=case.blind
    )
    blind: dict[str, str] = {}
    for name, tensor in tensors.items():
        if rules[name].ignore or rules[name].covered_by:
            continue
        checks = reference.select_checks(name)
        if tensor.dtype.kind == "complex" and any("ulp" in check.bounds for check in checks):
            message = (
                f"case {case.id!r}: `ulp` is not defined for complex numbers, such as {name!r}; "
                "state max_abs or relative"
            )
            raise ReferenceSuspectError(Problem("reference-malformed", message))
        reason = find_blindness(tensor, checks, tensors.__getitem__)
        if reason and not reference.find_blind_reason(name):
            blind[name] = reason
    if blind:
        message = (
            f"case {case.id!r}: {report_blindness(blind)[0].message}, or `blind` with a reason"
        )
        raise ReferenceSuspectError(Problem("blind-bound", message))
