"""Compare references with what the official libraries derive again from the same checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity.bundle.layout import find_batch_files, read_json
from parity.errors import ReferenceSuspectError
from parity.lab.libraries import find_version
from parity.results import CaseResult, Finding, decide_verdict
from parity.tensors import FormatError
from parity.tensors.bin import locate_batch
from parity.tensors.compare import compare_arrays
from parity.tensors.measures import Measures
from parity.tensors.stored import StoredTensor

CaseFindings = tuple[list[Finding], int]  # Findings, and the number of elements compared

#: Findings of one case before the rest is only counted.
MAX_FINDINGS = 40
_EXACT = {"exact": 1.0}
_MAX_SAMPLES = 5


class DerivedTensor(NamedTuple):
    """A tensor that a library derives; loaded only where shape and dtype are the reference's.

    So memory is bounded by the reference's size, whatever a view in a checkpoint claims.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    load: Callable[[], NDArray[Any]]

    @classmethod
    def of(cls, values: NDArray[Any]) -> DerivedTensor:
        """Wrap an array that is in memory already."""
        return cls(values.shape, values.dtype, lambda: values)


class UnreadableError(Exception):
    """A library rejects a checkpoint; the message is fit for a finding."""


class UnderivableError(UnreadableError):
    """A checkpoint may be right, but its library does not support its kind."""


@dataclass(frozen=True)
class Provenance:
    """Versions of the libraries that made a bundle, as it states, and of those installed here.

    ``bundle`` is the id that it was made as, or ``""``.
    """

    made_with: Mapping[str, str] = field(default_factory=dict)
    installed: Mapping[str, str] = field(default_factory=dict)
    bundle: str = ""

    @classmethod
    def read(cls, tree: Path, libraries: Iterable[str]) -> Provenance:
        """Read `provenance.json`; an absent or damaged one states nothing."""
        try:
            stated = read_json(tree / "provenance.json")
        except ReferenceSuspectError:
            stated = {}
        made = stated["versions"] if isinstance(stated.get("versions"), dict) else {}
        here = {name: find_version(name) for name in libraries}
        return cls(
            {str(name): str(value) for name, value in made.items()},
            {name: value for name, value in here.items() if value is not None},
            str(stated.get("bundle", "")),
        )

    def format_versions(self, *libraries: str) -> str:
        """Return ``made with torch 2.13.0; audited with torch 2.15.0``."""
        made = [f"{name} {self.made_with.get(name, 'not stated')}" for name in libraries]
        here = [f"{name} {self.installed.get(name, 'not installed')}" for name in libraries]
        return f"made with {', '.join(made)}; audited with {', '.join(here)}"


def make_error(code: str, message: str, *, tensor: str | None = None, **more: Any) -> Finding:
    """Make an error about the bundle, not about a port."""
    fields = {"level": "error", "kind": "reference", **more}
    return Finding(code=code, message=message, tensor=tensor, **fields)


def make_notice(code: str, message: str, *, tensor: str | None = None, **more: Any) -> Finding:
    """Make a notice for the maintainer, which fails nothing."""
    return make_error(code, message, tensor=tensor, level="notice", **more)


def audit_case(
    bundle: str,
    case: str,
    derive: Callable[[], CaseFindings],
    *,
    verb: str = "",
    may_skip: bool = False,
) -> CaseResult:
    """Make the result of a case from the findings of ``derive``, or from what ends it.

    ``verb`` says what cannot be done where NumPy or torch rejects the case's own data, such as
    "delivered"; without it such an error is raised. ``may_skip`` skips the case where its library
    does not support the checkpoint's kind.
    """
    try:
        findings, compared = derive()
    except ReferenceSuspectError as error:
        findings, compared = [make_error(p.code, p.message) for p in error.problems], 0
    except UnreadableError as error:
        if may_skip and isinstance(error, UnderivableError):
            return make_skipped(bundle, case, str(error))
        findings, compared = [make_error("checkpoint-unreadable", str(error))], 0
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        if not verb:
            raise
        message = f"cannot be {verb}: {error}"
        findings, compared = [make_error("reference-malformed", message)], 0
    return make_result(bundle, case, findings, compared)


def make_result(bundle: str, case: str, findings: list[Finding], compared: int) -> CaseResult:
    """Make the result of a case; after ``MAX_FINDINGS`` the rest is counted."""
    kept = findings[:MAX_FINDINGS]
    if len(findings) > MAX_FINDINGS:
        kept.append(make_error("audit-more", f"and {len(findings) - MAX_FINDINGS:,} more"))
    return CaseResult(
        bundle=bundle,
        case=case,
        verdict=decide_verdict(findings),
        findings=tuple(kept),
        compared=compared,
    )


def make_skipped(bundle: str, case: str, reason: str) -> CaseResult:
    """Make the result of a case for which nothing can be derived."""
    return CaseResult(bundle=bundle, case=case, verdict="skipped", reason=reason)


def compare_names(references: Iterable[str], derived: Iterable[str], source: str) -> list[Finding]:
    """Report references that ``source`` does not have, and tensors without a reference."""
    referenced, expected = set(references), set(derived)
    findings = [
        make_error("reference-extra", f"{source} has no {name!r}, but there is a reference of it",
                   tensor=name)
        for name in sorted(referenced - expected)
    ]  # fmt: skip
    return findings + [
        make_error("reference-missing", f"{source} has {name!r}, but no reference", tensor=name)
        for name in sorted(expected - referenced)
    ]


def compare_references(
    references: Mapping[str, StoredTensor], derived: Mapping[str, DerivedTensor], versions: str
) -> CaseFindings:
    """Compare each reference that was derived again, bit by bit.

    NaN beside NaN is equal: no payload is promised where a type was widened.
    """
    findings, compared = [], 0
    for name, tensor in derived.items():
        if name not in references:
            continue
        reference = references[name]
        try:
            if (reference.shape, reference.dtype.storage) != (tensor.shape, tensor.dtype):
                findings.append(_report_other_form(name, reference, derived, versions))
                continue
            finding = _compare_values(name, reference, derived, versions)
        except FormatError as error:
            finding = make_error(error.code, f"the reference {error.message}", tensor=name)
        compared += reference.count
        findings += [finding] if finding else []
    return findings, compared


def _compare_values(
    name: str, reference: StoredTensor, derived: Mapping[str, DerivedTensor], versions: str
) -> Finding | None:
    stored, values = reference.read_array(), np.ascontiguousarray(derived[name].load())
    measures = compare_arrays(values, stored, reference.dtype, _EXACT)
    bad = measures.bad - measures.payloads
    if bad <= 0:
        return None
    return make_error(
        "reference-drift",
        f"the reference differs from the tensor derived again, {_format_measures(measures, bad)}",
        tensor=name,
        cause=_find_swapped_tensor(name, stored, derived),
        details=(*_format_samples(measures, values.shape), versions),
    )


def _format_measures(measures: Measures, bad: int) -> str:
    text = f"{bad:,} of {measures.count:,} elements, max |Δ| {measures.max_abs:.3g}"
    return f"{text}, max {measures.max_ulp:,} ULP" if measures.max_ulp else text


def _format_samples(measures: Measures, shape: tuple[int, ...]) -> list[str]:
    lines = []
    for sample in measures.samples[:_MAX_SAMPLES]:
        at = [int(index) for index in np.unravel_index(sample.index, shape)] if shape else []
        lines.append(f"{at}: derived {sample.expected}, reference {sample.obtained}")
    return lines


def _report_other_form(
    name: str, reference: StoredTensor, derived: Mapping[str, DerivedTensor], versions: str
) -> Finding:
    """Report another shape or dtype; the derived tensor is not loaded."""
    tensor = derived[name]
    cause = _find_swapped_tensor(name, reference.read_array(), derived)
    same_dtype = reference.dtype.storage == tensor.dtype
    if cause is None and same_dtype and reference.shape == tensor.shape[::-1]:
        cause = "the dimensions are reversed"
    message = (
        f"the reference is {reference.dtype.name} {list(reference.shape)}, derived is "
        f"{tensor.dtype.name} {list(tensor.shape)}"
    )
    return make_error("reference-shape", message, tensor=name, cause=cause, details=(versions,))


def _find_swapped_tensor(
    name: str, stored: NDArray[Any], derived: Mapping[str, DerivedTensor]
) -> str | None:
    """Find another tensor whose values the reference has: two were swapped."""
    content = stored.tobytes()
    for other, tensor in derived.items():
        is_alike = (tensor.shape, tensor.dtype) == (stored.shape, stored.dtype)
        if other != name and is_alike and tensor.load().tobytes() == content:
            return f"it has the values of {other!r}"
    return None


def compare_batches(
    folder: Path, derived: Mapping[int, Sequence[NDArray[Any]]], versions: str
) -> CaseFindings:
    """Compare the `batch_NNNN.bin` of ``folder`` with the batches derived again, by number."""
    files = find_batch_files(folder)
    findings, compared = [], 0
    for number in sorted(files.keys() | derived.keys()):
        if number not in derived:
            message = f"{files[number].name} is a batch that is not delivered"
            findings.append(make_error("reference-extra", message))
        elif number not in files:
            message = f"batch {number} is delivered, but has no file"
            findings.append(make_error("reference-missing", message))
        else:
            differing, count = _compare_batch(files[number], derived[number], versions)
            findings, compared = findings + differing, compared + count
    return findings, compared


def _compare_batch(path: Path, expected: Sequence[NDArray[Any]], versions: str) -> CaseFindings:
    try:
        tensors = locate_batch(path)
    except FormatError as error:
        return [make_error(error.code, f"{path.name} {error.message}")], 0
    if len(tensors) != len(expected):
        message = f"{path.name} has {len(tensors)} tensors, expected {len(expected)}"
        return [make_error("reference-shape", message)], 0
    names = [f"{path.stem} #{number}" for number in range(len(expected))]
    references = dict(zip(names, tensors, strict=True))
    derived = dict(zip(names, map(DerivedTensor.of, expected), strict=True))
    return compare_references(references, derived, versions)
