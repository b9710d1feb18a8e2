"""A reference held against what was derived again: findings out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.bundle.layout import read_json
from parity.errors import ReferenceSuspectError
from parity.lab.audits.libraries import find_version
from parity.results import CaseResult, Finding, decide_verdict
from parity.tensors import FormatError
from parity.tensors.compare import compare_arrays

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from parity.tensors.measures import Measures
    from parity.tensors.stored import StoredTensor

    Derived = Mapping[str, NDArray[Any]]

#: Findings of one case before the rest is only counted.
MAX_FINDINGS = 40
_EXACT = {"exact": 1.0}
_MAX_SAMPLES = 5


@dataclass(frozen=True)
class Provenance:
    """What a bundle says made it, and what is installed here, by distribution."""

    made_with: Mapping[str, str] = field(default_factory=dict)
    installed: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, tree: Path, libraries: Iterable[str]) -> Provenance:
        """From `provenance.json`; an absent or damaged one says nothing."""
        try:
            stated = read_json(tree / "provenance.json").get("versions")
        except ReferenceSuspectError:
            stated = None
        made = stated if isinstance(stated, dict) else {}
        here = {name: find_version(name) for name in libraries}
        return cls(
            {str(name): str(value) for name, value in made.items()},
            {name: value for name, value in here.items() if value is not None},
        )

    def format_versions(self, *libraries: str) -> str:
        """``made with torch 2.13.0; audited with torch 2.15.0``."""
        made = [f"{name} {self.made_with.get(name, 'not stated')}" for name in libraries]
        here = [f"{name} {self.installed.get(name, 'not installed')}" for name in libraries]
        return f"made with {', '.join(made)}; audited with {', '.join(here)}"


def make_error(code: str, message: str, *, tensor: str | None = None, **more: Any) -> Finding:
    """An error about the bundle, not about a port."""
    return Finding(
        level="error", kind="reference", code=code, message=message, tensor=tensor, **more
    )


def make_notice(code: str, message: str, *, tensor: str | None = None, **more: Any) -> Finding:
    """Something that a maintainer should know and that fails nothing."""
    return Finding(
        level="notice", kind="reference", code=code, message=message, tensor=tensor, **more
    )


def make_result(bundle: str, case: str, findings: list[Finding], compared: int) -> CaseResult:
    """The result of a case; many findings are cut with a count."""
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
    """A case that nothing can be derived for."""
    return CaseResult(bundle=bundle, case=case, verdict="skipped", reason=reason)


def compare_names(references: Iterable[str], derived: Iterable[str], what: str) -> list[Finding]:
    """References without a tensor in the checkpoint, and tensors without a reference."""
    referenced, expected = set(references), set(derived)
    findings = [
        make_error("reference-extra", f"a reference of {name!r}, which {what} does not hold",
                tensor=name)
        for name in sorted(referenced - expected)
    ]  # fmt: skip
    return findings + [
        make_error(
            "reference-missing", f"{what} holds {name!r}, which has no reference", tensor=name
        )
        for name in sorted(expected - referenced)
    ]


def compare_references(
    references: Mapping[str, StoredTensor], derived: Derived, versions: str
) -> tuple[list[Finding], int]:
    """Hold each reference that was derived again against it, bit by bit.

    NaN beside NaN is equal: its payload is nobody's promise where a type was widened.

    Returns:
        Findings, and the number of elements compared.
    """
    findings, compared = [], 0
    for name, values in derived.items():
        if name not in references:
            continue
        try:
            finding = _compare_reference(name, references[name], values, derived, versions)
        except FormatError as error:
            finding = make_error(error.code, f"the reference {error.message}", tensor=name)
        compared += values.size
        findings += [finding] if finding else []
    return findings, compared


def _compare_reference(
    name: str, reference: StoredTensor, values: NDArray[Any], derived: Derived, versions: str
) -> Finding | None:
    if reference.shape != values.shape or reference.dtype.storage != values.dtype:
        return _describe_other_form(name, reference, values, derived, versions)
    stored = reference.read_array()
    measures = compare_arrays(np.ascontiguousarray(values), stored, reference.dtype, _EXACT)
    bad = measures.bad - measures.payloads
    if bad <= 0:
        return None
    return make_error(
        "reference-drift",
        f"the reference differs from what is derived from the checkpoint, {_format_measures(measures, bad)}",
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


def _describe_other_form(
    name: str, reference: StoredTensor, values: NDArray[Any], derived: Derived, versions: str
) -> Finding:
    cause = _find_swapped_tensor(name, reference.read_array(), derived)
    same_bytes = reference.nbytes == values.nbytes
    if cause is None and same_bytes and reference.shape == values.shape[::-1]:
        cause = "its dimensions stand in the reverse order"
    message = (
        f"the reference is {reference.dtype.name} {list(reference.shape)}, derived is "
        f"{values.dtype.name} {list(values.shape)}"
    )
    return make_error("reference-shape", message, tensor=name, cause=cause, details=(versions,))


def _find_swapped_tensor(name: str, stored: NDArray[Any], derived: Derived) -> str | None:
    """Another tensor that the reference holds the values of: two were swapped."""
    for other, values in derived.items():
        is_alike = values.shape == stored.shape and values.dtype == stored.dtype
        if other != name and is_alike and values.tobytes() == stored.tobytes():
            return f"it holds the values of {other!r}"
    return None
