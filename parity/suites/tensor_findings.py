"""Compare named tensors, for every suite that does so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.checkpoints.location import view_elements
from parity.suites import (
    diagnosis,
    tensor_headers,
    tensor_names,
    tensor_notices,
    tolerance_findings,
)
from parity.suites.base import DumpComparison
from parity.suites.bundle_files import report_unread_dump_files
from parity.suites.messages import format_name, format_number, report_error, report_unreadable
from parity.suites.tensor_checks import (
    allows_other_shapes,
    list_outcome,
    make_empty_measures,
    report_branches,
    report_outcomes,
    report_uncovered,
    run_measures,
)
from parity.tensors import FormatError
from parity.tensors.compare import compare, compare_arrays
from parity.tensors.dtypes import F32
from parity.tensors.groups.base import Pair
from parity.text import align_columns, format_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parity.bundle.tensor_rules import Check
    from parity.checkpoints import StorageLocation
    from parity.results import Finding
    from parity.suites.tensor_checks import FindPair
    from parity.suites.tensor_reference import TensorReference
    from parity.tensors.dtypes import DType
    from parity.tensors.folder import FolderContents
    from parity.tensors.measures import Measures, Sample
    from parity.tensors.stored import StoredTensor


def compare_tensors(reference: TensorReference, found: FolderContents) -> DumpComparison:
    """Compare the tensors of a dump with the reference's; report every one that fails."""
    findings = [_report_broken(name, error) for name, error in found.unreadable.items()]
    findings += [tensor_names.report_duplicate(name) for name in found.duplicates]
    more, renamed = tensor_names.check_names(reference, found)
    findings += more
    results: dict[str, Measures] = {}

    def find_pair(name: str) -> Pair | None:
        obtained = found.tensors.get(renamed.get(name, name))
        return None if obtained is None else Pair(reference.tensors[name], obtained)

    for name, expected in reference.tensors.items():
        obtained = found.tensors.get(renamed.get(name, name))
        if obtained is not None and not reference.find_cover(name):
            more, measures = _compare_pair(name, expected, obtained, reference, find_pair)
            # A dump in f32 cannot have complex numbers, but may have a part of them.
            is_part = obtained.suffix == ".bin" and expected.dtype.kind == "complex"
            if measures is not None or (is_part and expected.shape == obtained.shape):
                more = _add_causes(more, name, expected, obtained, reference)
            findings += more
            if measures is not None:
                results[name] = measures
    for name in reference.tensors:
        cover = reference.find_cover(name)
        if cover and find_pair(name) is not None:
            if cover in results:
                results[name] = make_empty_measures(reference.tensors[name].count)
            elif find_pair(cover) is None:
                findings.append(report_uncovered(name, cover))
    pairs = {
        name: (reference.tensors[name], found.tensors[renamed.get(name, name)]) for name in results
    }
    findings += tensor_notices.collect_notices(reference, pairs, results)
    more, scales = tolerance_findings.check_tensors(reference, pairs, results)
    findings += more
    findings += report_unread_dump_files(
        found.unread, "tensors are read from .bin, .npy and .safetensors files"
    )
    return DumpComparison(
        findings=tuple(findings),
        measures=_summarize_measures(reference, results, scales),
        margin=max((m.margin for m in results.values() if m.margin is not None), default=None),
        compared=sum(m.count for m in results.values()),
        tensors=tuple(reference.tensors),
    )


def _report_broken(name: str, error: FormatError) -> Finding:
    """Report a file; a `.bin` or `.npy` is one tensor, whose name ``known-failures`` may use."""
    stem, _, suffix = name.rpartition(".")
    return replace(report_unreadable(name, error), tensor=name if suffix == "safetensors" else stem)


def _add_causes(
    findings: list[Finding],
    name: str,
    expected: StoredTensor,
    obtained: StoredTensor,
    reference: TensorReference,
) -> list[Finding]:
    return [
        finding
        if finding.code == "not-verified"
        else diagnosis.add_tensor_cause(
            finding,
            expected,
            obtained,
            reference.select_bounds(name),
            locate=reference.locate,
            others=reference.tensors,
        )
        for finding in findings
    ]


def _compare_pair(
    name: str,
    expected: StoredTensor,
    obtained: StoredTensor,
    reference: TensorReference,
    find_pair: FindPair,
) -> tuple[list[Finding], Measures | None]:
    checks = reference.select_checks(name)
    if expected.shape != obtained.shape and not any(map(allows_other_shapes, checks)):
        return [tensor_headers.report_shape(name, expected, obtained, reference)], None
    as_f32 = obtained.suffix == ".bin" and expected.dtype.kind != "complex"
    stored = reference.stored_dtypes.get(name, expected.dtype)
    typed_as_stored = obtained.dtype == stored and stored != expected.dtype and not as_f32
    is_narrowed = stored.width > obtained.dtype.width and not as_f32
    if (obtained.dtype != expected.dtype or is_narrowed) and not (as_f32 or typed_as_stored):
        return [tensor_headers.report_dtype(name, stored, obtained)], None
    failed: list[list[Finding]] = []
    first: Measures | None = None
    try:
        carrier = tensor_notices.check_carrier(name, expected, obtained)
        for number, check in enumerate(checks, 1):
            found, measures = _compare_check(
                name,
                Pair(expected, obtained),
                check,
                reference,
                find_pair,
                typed_as_stored=typed_as_stored,
            )
            if measures is not None:
                measures.branch = number if len(checks) > 1 else 0
            if not found:
                return carrier, measures
            first = first or measures
            failed.append(found)
    except FormatError as error:
        return [report_unreadable(name, error)], None
    findings = failed[0] if len(checks) == 1 else [report_branches(name, failed)]
    return [*findings, *carrier], first


def _compare_check(
    name: str,
    pair: Pair,
    check: Check,
    reference: TensorReference,
    find_pair: FindPair,
    *,
    typed_as_stored: bool,
) -> tuple[list[Finding], Measures | None]:
    """Compare a tensor under one check; no findings mean that it passes."""
    expected, obtained = pair
    if expected.shape != obtained.shape and not allows_other_shapes(check):
        return [tensor_headers.report_shape(name, expected, obtained, reference)], None
    measures = make_empty_measures(expected.count)
    if check.bounds or not check.measures:
        location = reference.locate().get(name) if typed_as_stored else None
        measures = (
            _compare_stored(expected, obtained, check.bounds, location)
            if typed_as_stored
            else compare(expected, obtained, check.bounds, payloads=name not in reference.widened)
        )
    outcomes = run_measures(check, pair, find_pair)
    if isinstance(outcomes, str):
        message = (
            f"{format_name(name)} cannot be compared, since {outcomes} is missing from the dump"
        )
        return [report_error("measure", message, tensor=name)], None
    measures.outcomes = outcomes
    if expected.dtype.kind in ("int", "bool"):
        measures.drop_ulps()
    dtype = F32 if obtained.suffix == ".bin" else obtained.dtype
    values = () if measures.is_within else (report_values(name, measures, expected.shape, dtype),)
    return [*values, *report_outcomes(name, measures, check, expected.shape)], measures


def _compare_stored(
    expected: StoredTensor,
    obtained: StoredTensor,
    bounds: Mapping[str, float],
    location: StorageLocation | None,
) -> Measures:
    """Compare a dump in the checkpoint's own dtype, of which the reference is a conversion.

    The checkpoint's own values decide if the reference was made from them.
    """
    own = None if location is None else view_elements(location, obtained.dtype)
    right, given = expected.read_array(), obtained.read_array()
    if own is not None and own.shape == expected.shape:
        converted = obtained.dtype.round_to_f32(own)
        if converted.tobytes() == right.tobytes():
            return compare_arrays(own, given, obtained.dtype, bounds)
    return compare_arrays(right, obtained.dtype.round_to_f32(given), expected.dtype, bounds)


def report_values(name: str, measures: Measures, shape: tuple[int, ...], dtype: DType) -> Finding:
    """The finding for values that break a bound, with counts, worst and first elements."""
    worst = measures.worst
    if worst is None:
        message = (
            f"{format_name(name)}: the cosine between the two is {format_number(measures.cosine)}, "
            f"expected at least {measures.bounds['cosine']:g} ({measures.count:,} elements)"
        )
        return report_error("cosine", message, tensor=name, measures=list_measures(measures))
    code, kind = _choose_code(measures)
    index = _unravel_index(worst, shape)
    expected, obtained = (_format_value(v, dtype) for v in (worst.expected, worst.obtained))
    sample = f"expected {expected}, obtained {obtained}"
    if np.isfinite(worst.error):
        steps = "" if worst.ulp is None else f", {worst.ulp:,} ULP"
        sample += f" (off by {worst.error:.3g}{steps})"
    message = (
        f"{format_name(name)}: {measures.bad:,} of {format_count(measures.count, 'elements')} "
        f"{'differs' if measures.bad == 1 else 'differ'}{kind}; worst at {list(index)}: {sample}; "
        f"{format_bounds(measures.bounds)}"
    )
    return report_error(
        code,
        message,
        tensor=name,
        index=index,
        expected=expected,
        obtained=obtained,
        measures={
            **list_measures(measures),
            "map": measures.bad_map,
            "map_error": [[float(f"{e:.3g}") for e in row] for row in measures.error_map],
            "points": [list(point) for point in measures.points],
        },
        details=_format_first(measures, shape, dtype),
    )


def _choose_code(measures: Measures) -> tuple[str, str]:
    """Choose the code, and a phrase for the kind of difference where there is one."""
    if measures.lost:
        expected, obtained = measures.nonfinite
        text = f" ({obtained:,} NaN or infinite in the dump, {expected:,} in the reference)"
        return "nan", text
    if measures.bounds.get("exact") and measures.bad == measures.zeros:
        return "signed-zero", ", all in the sign of zero"
    if measures.bounds.get("exact") and measures.bad == measures.payloads:
        return "nan-payload", ", all in the payload of a NaN"
    return "values", ""


def _format_value(value: Any, dtype: DType) -> str:
    if dtype.kind == "complex":
        return str(dtype.storage.type(value))
    narrow = {"F32": np.float32, "F16": np.float16}.get(dtype.name)
    return format_number(value if narrow is None else narrow(value))


def _unravel_index(sample: Sample, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(axis) for axis in np.unravel_index(sample.index, shape))


def _format_first(measures: Measures, shape: tuple[int, ...], dtype: DType) -> tuple[str, ...]:
    if measures.bad <= 1:
        return ()
    rows = [("index", "expected", "obtained", "off by")]
    rows += [
        (
            str(list(_unravel_index(sample, shape))),
            _format_value(sample.expected, dtype),
            _format_value(sample.obtained, dtype),
            f"{sample.error:.3g}" if np.isfinite(sample.error) else "",
        )
        for sample in measures.samples
    ]
    rest = measures.bad - len(measures.samples)
    return (*align_columns(rows), *((f"and {rest:,} more",) if rest else ()))


def format_bounds(tolerances: Mapping[str, float]) -> str:
    """Format the tolerances."""
    if tolerances.get("exact"):
        return "bound: exact"
    signs = {name: ">=" if name == "cosine" else "<=" for name in tolerances}
    return "bound: " + ", ".join(
        f"{name} {signs[name]} {value:g}" for name, value in tolerances.items()
    )


def list_measures(measures: Measures) -> dict[str, Any]:
    """List the measures as a report has them; null where no tolerance asks for the elements."""
    found: dict[str, Any] = {name: list_outcome(one) for name, one in measures.outcomes.items()}
    more: dict[str, Any] = {"measures": found} if found else {}
    more |= {"branch": measures.branch} if measures.branch else {}
    by_element: dict[str, Any] = {
        "count": measures.count,
        "bad": measures.bad,
        "max_abs": measures.max_abs,
        "max_relative": measures.max_relative,
        "max_ulp": measures.max_ulp,
        "not_finite_expected": measures.nonfinite[0],
        "not_finite_obtained": measures.nonfinite[1],
        "signed_zeros": measures.zeros,
        "cosine": measures.cosine,
        "histogram": {str(decade): n for decade, n in sorted(measures.histogram.items())},
    }
    if not measures.bounds:
        by_element = {**dict.fromkeys(by_element), "count": measures.count, "histogram": {}}
    return {**by_element, "bounds": dict(measures.bounds), **more}


def _summarize_measures(
    reference: TensorReference,
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
                **list_measures(m),
                **scales.get(name, {}),
            }
            for name, m in results.items()
        },
    }
