"""Reject a bundle of which a dump of zeros or of one constant would pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from parity.errors import Problem, ReferenceSuspectError
from parity.lab import resolve_hook
from parity.lab.pins import packing
from parity.results import Finding
from parity.suites.base import Case, Dump, Suite
from parity.suites.tensor_reference import TensorReference, read_references
from parity.suites.tolerance_findings import find_blindness, report_blindness


def pack_checked(files: Mapping[str, bytes], target: Path, suite: Suite) -> Path:
    """Pack ``files``, by member name, as ``packing.pack`` does, if no tolerance is blind.

    Raises:
        ReferenceSuspectError: As ``check_tolerances``.
    """
    with TemporaryDirectory(prefix="parity-") as folder:
        packing.write_files(Path(folder), files)
        check_tolerances(Path(folder), suite)
    return packing.pack(files, target)


def check_tolerances(tree: Path, suite: Suite) -> None:
    """Check that no tolerance of an unpacked bundle is blind.

    Raises:
        ReferenceSuspectError: ``blind-bound``: zeros or a constant would pass in a case.
    """
    for case in suite.cases(tree, {}):
        place = suite.reference_path(case)
        found = _check_dump(case, suite) if place is None else _check_references(case, place)
        for finding in found:
            if (finding.code, finding.level) == ("blind-bound", "warning"):
                message = f"case {case.id!r}: {finding.message}"
                raise ReferenceSuspectError(Problem("blind-bound", message))


def _check_references(case: Case, place: Path) -> Iterable[Finding]:
    tensors = read_references(place)
    reference = TensorReference(tensors=tensors, tolerances=case.tolerances)
    reasons = {
        name: find_blindness(tensor, reference.select_checks(name), tensors.__getitem__)
        for name, tensor in tensors.items()
    }
    return report_blindness({name: reason for name, reason in reasons.items() if reason})


def _check_dump(case: Case, suite: Suite) -> Iterable[Finding]:
    """Compare the right dump of a case, which shows a tolerance that is blind."""
    with TemporaryDirectory(prefix="parity-") as folder:
        if resolve_hook(suite.right_dump)(case, Path(folder)) is None:
            return ()
        return suite.verify(case, Dump(folder=Path(folder)), dict(case.tolerances)).findings
