"""What comparing named tensors found; shared by every suite that compares tensors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.codecs import FormatError
from parity.codecs.dtypes import F32
from parity.compare import compare
from parity.suites import bound_findings, diagnosed, tensor_forms
from parity.suites.base import Outcome
from parity.suites.tensor_remarks import remarks
from parity.suites.words import counted, number, table, unreadable, wrong

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from parity.codecs.dtypes import DType
    from parity.codecs.files import Found
    from parity.codecs.stored import Stored
    from parity.measures import Measures, Sample
    from parity.raw import Raw
    from parity.results import Finding


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The tensors that a case owes.

    Attributes:
        tensors: By name.
        bounds: Hold for each of them.
        others: Names that a port may dump though no reference exists, with their dtype.
        complete: Anything beyond ``tensors`` and ``others`` is wrong, not merely unknown.
        shape_note: Said beside a shape that differs, such as the order of its dimensions.
        widened: Names whose values were stored in another dtype and widened or dequantised,
            so that no NaN's payload is owed.
        raw: Where tensors lie in their checkpoint, for diagnosis; empty where not recorded.
    """

    tensors: Mapping[str, Stored]
    bounds: Mapping[str, float]
    others: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True
    shape_note: str = ""
    widened: Collection[str] = ()
    raw: Callable[[], Mapping[str, Raw]] = dict


def hold(reference: Reference, found: Found) -> Outcome:
    """Hold the tensors of a dump against those that are owed; every failing one is told."""
    findings = [_broken(name, error) for name, error in found.broken.items()]
    findings += [tensor_forms.twice(name) for name in found.twice]
    findings += tensor_forms.names(reference, found)
    results: dict[str, Measures] = {}
    for name, expected in reference.tensors.items():
        obtained = found.tensors.get(name)
        if obtained is not None:
            more, measures = _pair(name, expected, obtained, reference)
            if more and (measures is not None or _of_other_dtype(expected, obtained)):
                more = _diagnosed(more, expected, obtained, reference)
            findings += more
            if measures is not None:
                results[name] = measures
    findings += remarks(reference, found, results)
    more, scales = bound_findings.of_tensors(reference, found, results)
    return Outcome(
        findings=(*findings, *more),
        measures=_measures(reference, results, scales),
        margin=max((m.margin for m in results.values() if m.margin is not None), default=None),
        compared=sum(m.count for m in results.values()),
        tensors=tuple(reference.tensors),
    )


def _broken(name: str, error: FormatError) -> Finding:
    """A `.bin` or `.npy` is one tensor, and bears its name for ``known-failures``."""
    stem, _, suffix = name.rpartition(".")
    return replace(unreadable(name, error), tensor=name if suffix == "safetensors" else stem)


def _of_other_dtype(expected: Stored, obtained: Stored) -> bool:
    """A dump in f32 of what f32 cannot hold: complex numbers, all of them there."""
    as_f32 = obtained.carrier == ".bin" and expected.dtype.kind == "opaque"
    return as_f32 and expected.shape == obtained.shape


def _diagnosed(
    findings: list[Finding], expected: Stored, obtained: Stored, reference: Reference
) -> list[Finding]:
    return [
        diagnosed.tensor(
            finding,
            expected,
            obtained,
            reference.bounds,
            raw=reference.raw,
            others=reference.tensors,
        )
        for finding in findings
    ]


def _pair(
    name: str, expected: Stored, obtained: Stored, reference: Reference
) -> tuple[list[Finding], Measures | None]:
    if expected.shape != obtained.shape:
        return [tensor_forms.shape(name, expected, obtained, reference)], None
    seen_as_f32 = obtained.carrier == ".bin" and expected.dtype.kind != "opaque"
    if obtained.dtype != expected.dtype and not seen_as_f32:
        return [tensor_forms.dtype(name, expected, obtained)], None
    payloads = name not in reference.widened
    try:
        measures = compare(expected, obtained, reference.bounds, payloads=payloads)
    except FormatError as error:
        return [unreadable(name, error)], None
    if measures.passed:
        return [], measures
    seen = F32 if obtained.carrier == ".bin" else expected.dtype
    return [values_finding(name, measures, expected.shape, seen)], measures


def values_finding(name: str, measures: Measures, shape: tuple[int, ...], dtype: DType) -> Finding:
    """The finding for values that break a bound, with counts, worst and first elements."""
    if measures.worst is None:
        return _direction(name, measures)
    worst = measures.worst
    index = _index(worst, shape)
    message = (
        f"{name}: {measures.bad:,} of {counted(measures.count, 'element')} "
        f"{'differs' if measures.bad == 1 else 'differ'}{_what(measures)}; "
        f"worst at {list(index)}: {_sides(worst, dtype)}; {bound_text(measures.bounds)}"
    )
    return wrong(
        _code(measures),
        message,
        tensor=name,
        index=index,
        expected=_shown(worst.expected, dtype),
        obtained=_shown(worst.obtained, dtype),
        measures={**numbers(measures), "map": measures.drawn},
        details=_first(measures, shape, dtype),
    )


def _direction(name: str, measures: Measures) -> Finding:
    message = (
        f"{name}: the cosine between the two is {number(measures.cosine)}, expected at least "
        f"{measures.bounds['cosine']:g} ({measures.count:,} elements)"
    )
    return wrong("cosine", message, tensor=name, measures=numbers(measures))


def _code(measures: Measures) -> str:
    if measures.lost:
        return "nan"
    return _bits_only(measures) or "values"


def _bits_only(measures: Measures) -> str:
    """Under exact, the word for differences that no number shows."""
    if not measures.bounds.get("exact"):
        return ""
    if measures.bad == measures.zeros:
        return "signed-zero"
    return "nan-payload" if measures.bad == measures.payloads else ""


def _what(measures: Measures) -> str:
    """What kind of difference it is, where there is a word for it."""
    expected, obtained = measures.specials
    if measures.lost:
        return f" ({obtained:,} NaN or infinite in the dump, {expected:,} in the reference)"
    return {
        "signed-zero": ", all in the sign of zero",
        "nan-payload": ", all in the payload of a NaN",
    }.get(_bits_only(measures), "")


def _sides(sample: Sample, dtype: DType) -> str:
    text = f"expected {_shown(sample.expected, dtype)}, obtained {_shown(sample.obtained, dtype)}"
    if not np.isfinite(sample.error):
        return text
    steps = "" if sample.ulp is None else f", {sample.ulp:,} ULP"
    return f"{text} (off by {sample.error:.3g}{steps})"


def _shown(value: Any, dtype: DType) -> str:
    if dtype.name == "C64":
        return str(value.view("<c8"))
    narrow = {"F32": np.float32, "F16": np.float16}.get(dtype.name)
    return number(value if narrow is None else narrow(value))


def _index(sample: Sample, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(axis) for axis in np.unravel_index(sample.index, shape))


def _first(measures: Measures, shape: tuple[int, ...], dtype: DType) -> tuple[str, ...]:
    if measures.bad <= 1:
        return ()
    rows = [("index", "expected", "obtained", "off by")]
    rows += [
        (
            str(list(_index(sample, shape))),
            _shown(sample.expected, dtype),
            _shown(sample.obtained, dtype),
            f"{sample.error:.3g}" if np.isfinite(sample.error) else "",
        )
        for sample in measures.first
    ]
    rest = measures.bad - len(measures.first)
    return table(rows) + ((f"and {rest:,} more",) if rest else ())


def bound_text(bounds: Mapping[str, float]) -> str:
    """The bounds that were asked, in words."""
    if bounds.get("exact"):
        return "bound: exact"
    signs = {name: ">=" if name == "cosine" else "<=" for name in bounds}
    return "bound: " + ", ".join(
        f"{name} {signs[name]} {value:g}" for name, value in bounds.items()
    )


def numbers(measures: Measures) -> dict[str, Any]:
    """The measures as a report carries them."""
    return {
        "count": measures.count,
        "bad": measures.bad,
        "max_abs": measures.max_abs,
        "max_relative": measures.max_relative,
        "max_ulp": measures.max_ulp,
        "not_finite_expected": measures.specials[0],
        "not_finite_obtained": measures.specials[1],
        "signed_zeros": measures.zeros,
        "cosine": measures.cosine,
        "histogram": {str(decade): n for decade, n in sorted(measures.histogram.items())},
        "bounds": dict(measures.bounds),
    }


def _measures(
    reference: Reference,
    results: Mapping[str, Measures],
    scales: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    return {
        "tensors": len(results),
        "tensors_expected": len(reference.tensors),
        "max_abs": max((m.max_abs for m in results.values()), default=0.0),
        "max_ulp": max((m.max_ulp for m in results.values()), default=0),
        "signed_zeros": sum(m.zeros for m in results.values()),
        "per_tensor": {
            name: {
                "dtype": reference.tensors[name].dtype.name,
                **numbers(m),
                **scales.get(name, {}),
            }
            for name, m in results.items()
        },
    }
