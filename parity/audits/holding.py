"""A reference held against what was derived again: findings out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.audits.toolchain import version_of
from parity.codecs import FormatError
from parity.compare import compare_arrays
from parity.errors import ReferenceSuspectError
from parity.layout import read_json
from parity.results import CaseResult, Finding, verdict_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from parity.codecs.stored import Stored
    from parity.measures import Measures

    Derived = Mapping[str, NDArray[Any]]

#: Findings of one case before the rest is only counted.
MOST = 40
_EXACT = {"exact": 1.0}
_SHOWN = 5


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
        here = {name: version_of(name) for name in libraries}
        return cls(
            {str(name): str(value) for name, value in made.items()},
            {name: value for name, value in here.items() if value is not None},
        )

    def line(self, *libraries: str) -> str:
        """``made with torch 2.13.0; audited with torch 2.15.0``."""
        made = [f"{name} {self.made_with.get(name, 'not stated')}" for name in libraries]
        here = [f"{name} {self.installed.get(name, 'not installed')}" for name in libraries]
        return f"made with {', '.join(made)}; audited with {', '.join(here)}"


def suspect(code: str, message: str, *, tensor: str | None = None, **more: Any) -> Finding:
    """An error about the bundle, not about a port."""
    return Finding(
        level="error", kind="reference", code=code, message=message, tensor=tensor, **more
    )


def notice(code: str, message: str, *, tensor: str | None = None, **more: Any) -> Finding:
    """Something that a maintainer should know and that fails nothing."""
    return Finding(
        level="notice", kind="reference", code=code, message=message, tensor=tensor, **more
    )


def judged(bundle: str, case: str, findings: list[Finding], compared: int) -> CaseResult:
    """The result of a case; many findings are cut with a count."""
    kept = findings[:MOST]
    if len(findings) > MOST:
        kept.append(suspect("audit-more", f"and {len(findings) - MOST:,} more"))
    return CaseResult(
        bundle=bundle,
        case=case,
        verdict=verdict_of(findings),
        findings=tuple(kept),
        compared=compared,
    )


def skipped(bundle: str, case: str, reason: str) -> CaseResult:
    """A case that nothing can be derived for."""
    return CaseResult(bundle=bundle, case=case, verdict="skipped", reason=reason)


def hold_names(references: Iterable[str], derived: Iterable[str], what: str) -> list[Finding]:
    """References without a tensor in the checkpoint, and tensors without a reference."""
    have, want = set(references), set(derived)
    found = [
        suspect("reference-extra", f"a reference of {name!r}, which {what} does not hold",
                tensor=name)
        for name in sorted(have - want)
    ]  # fmt: skip
    return found + [
        suspect("reference-missing", f"{what} holds {name!r}, which has no reference", tensor=name)
        for name in sorted(want - have)
    ]


def hold(
    references: Mapping[str, Stored], derived: Derived, versions: str
) -> tuple[list[Finding], int]:
    """Hold each reference that was derived again against it, bit by bit.

    NaN beside NaN is equal: its payload is nobody's promise where a type was widened.

    Returns:
        Findings, and the number of elements compared.
    """
    found, compared = [], 0
    for name, values in derived.items():
        if name not in references:
            continue
        try:
            finding = _hold(name, references[name], values, derived, versions)
        except FormatError as error:
            finding = suspect(error.code, f"the reference {error.message}", tensor=name)
        compared += values.size
        found += [finding] if finding else []
    return found, compared


def _hold(
    name: str, reference: Stored, values: NDArray[Any], derived: Derived, versions: str
) -> Finding | None:
    if reference.shape != values.shape or reference.dtype.storage != values.dtype:
        return _other_form(name, reference, values, derived, versions)
    stored = reference.array()
    found = compare_arrays(np.ascontiguousarray(values), stored, reference.dtype, _EXACT)
    bad = found.bad - found.payloads
    if bad <= 0:
        return None
    return suspect(
        "reference-drift",
        f"the reference differs from what is derived from the checkpoint, {_measures(found, bad)}",
        tensor=name,
        cause=_twin(name, stored, derived),
        details=(*_samples(found, values.shape), versions),
    )


def _measures(found: Measures, bad: int) -> str:
    text = f"{bad:,} of {found.count:,} elements, max |Δ| {found.max_abs:.3g}"
    return f"{text}, max {found.max_ulp:,} ULP" if found.max_ulp else text


def _samples(found: Measures, shape: tuple[int, ...]) -> list[str]:
    lines = []
    for sample in found.first[:_SHOWN]:
        at = [int(index) for index in np.unravel_index(sample.index, shape)] if shape else []
        lines.append(f"{at}: derived {sample.expected}, reference {sample.obtained}")
    return lines


def _other_form(
    name: str, reference: Stored, values: NDArray[Any], derived: Derived, versions: str
) -> Finding:
    cause = _twin(name, reference.array(), derived)
    same_bytes = reference.nbytes == values.nbytes
    if cause is None and same_bytes and reference.shape == values.shape[::-1]:
        cause = "its dimensions stand in the reverse order"
    message = (
        f"the reference is {reference.dtype.name} {list(reference.shape)}, derived is "
        f"{values.dtype.name} {list(values.shape)}"
    )
    return suspect("reference-shape", message, tensor=name, cause=cause, details=(versions,))


def _twin(name: str, stored: NDArray[Any], derived: Derived) -> str | None:
    """Another tensor that the reference holds the values of: two were swapped."""
    for other, values in derived.items():
        same = values.shape == stored.shape and values.dtype == stored.dtype
        if other != name and same and values.tobytes() == stored.tobytes():
            return f"it holds the values of {other!r}"
    return None
