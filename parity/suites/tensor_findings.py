"""Compare named tensors, for every suite that does so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from parity.bundle.tensor_rules import Check
from parity.checkpoints import StorageLocation
from parity.checkpoints.location import view_elements
from parity.results import Finding
from parity.suites import tensor_headers, tensor_names, tensor_notices, tolerance_findings
from parity.suites.base import DumpComparison
from parity.suites.bundle_files import report_unread_dump_files
from parity.suites.diagnosis import add_tensor_cause
from parity.suites.messages import format_name, report_error, report_unreadable
from parity.suites.tensor_reference import TensorReference
from parity.suites.tensor_values import (
    FindPair,
    allows_other_shapes,
    list_measures,
    report_branches,
    report_outcomes,
    report_values,
    run_measures,
)
from parity.tensors import FormatError
from parity.tensors.compare import compare, compare_arrays, compare_shared
from parity.tensors.dtypes import F32
from parity.tensors.folder import FolderContents
from parity.tensors.groups.base import Pair
from parity.tensors.measures import Measures
from parity.tensors.screen import MAX_SMALL
from parity.tensors.small import compare_small
from parity.tensors.stored import StoredTensor


def compare_tensors(reference: TensorReference, found: FolderContents) -> DumpComparison:
    """Compare the tensors of a dump with the reference's; report every one that fails."""
    more, renamed = tensor_names.check_names(reference, found)
    findings = [*_report_files(found), *more]
    results: dict[str, Measures] = {}

    pairs = {
        name: Pair(expected, found.tensors[other])
        for name, expected in reference.tensors.items()
        if (other := renamed.get(name, name)) in found.tensors
    }
    known = _compare_plain(reference, pairs)
    for name, pair in pairs.items():
        if name in known and known[name].passed and pair.expected.dtype.kind == "float":
            results[name] = known[name]
            continue
        if reference.find_cover(name):
            continue
        more, measures = _compare_pair(name, pair, reference, pairs.get, known)
        # A dump in f32 cannot have complex numbers, but may have a part of them.
        is_part = pair.obtained.suffix == ".bin" and pair.expected.dtype.kind == "complex"
        has_values = is_part and pair.expected.shape == pair.obtained.shape
        if (measures is not None or has_values) and not reference.is_trace:
            bounds, given = reference.select_bounds(name), reference.tensors
            more = [
                add_tensor_cause(one, *pair, bounds, locate=reference.locate, others=given)
                for one in more
            ]
        findings += more
        if measures is not None:
            results[name] = measures
    for name, pair in pairs.items():
        cover = reference.find_cover(name)
        if cover in results:
            results[name] = Measures(bounds={}, count=pair.expected.count)
        elif cover and cover not in pairs:
            message = (
                f"{format_name(name)} is compared by a measure of {cover}, which is missing from "
                "the dump"
            )
            findings.append(report_error("measure", message, tensor=name))
    pairs = {name: pair for name, pair in pairs.items() if name in results}
    findings += tensor_notices.collect_notices(reference, pairs, results)
    more, scales = tolerance_findings.check_tensors(reference, pairs, results)
    findings += more
    findings += report_unread_dump_files(
        found.unread, "tensors are read from .bin, .npy and .safetensors files"
    )
    return DumpComparison(
        findings=tuple(findings),
        measures=_summarize_measures(reference, results, scales),
        margin=max((one for m in results.values() if (one := m.margin) is not None), default=None),
        compared=sum(m.count for m in results.values()),
        tensors=tuple(reference.tensors),
    )


def _report_files(found: FolderContents) -> Iterator[Finding]:
    """Report files that cannot be read, and tensors that several files have."""
    for name, error in found.unreadable.items():
        # A `.bin` or `.npy` is one tensor, whose name ``known-failures`` may use.
        tensor = name if name.endswith(".safetensors") else name.rpartition(".")[0]
        yield replace(report_unreadable(name, error), tensor=tensor)
    for name in found.duplicates:
        message = f"more than one file of the dump has {format_name(name)}; write each tensor once"
        yield report_error("tensor-twice", message, tensor=name, kind="dump")


def _compare_plain(reference: TensorReference, pairs: Mapping[str, Pair]) -> dict[str, Measures]:
    """Compare tensors that have bounds alone; many small ones at once, others on threads.

    Return the measures of those that are neither too large, nor small ones that may fail.
    """
    groups: defaultdict[Any, dict[str, Pair]] = defaultdict(dict)
    tasks: dict[str, tuple[Pair, Mapping[str, float], bool]] = {}
    for name, pair in pairs.items():
        expected, obtained = pair
        dtype = expected.dtype
        if dtype is not obtained.dtype or expected.shape != obtained.shape:
            continue
        if reference.stored_dtypes.get(name, dtype) is dtype and not reference.find_cover(name):
            first, *others = reference.select_checks(name)
            if not others and not first.measures:
                if expected.count <= MAX_SMALL:
                    groups[dtype.name, *first.bounds.items()][name] = pair
                else:
                    tasks[name] = (pair, first.bounds, name not in reference.widened)
    found = compare_shared(tasks)
    for (_, *bounds), members in groups.items():
        found |= compare_small(members, dict(bounds))
    return found


def _compare_pair(
    name: str,
    pair: Pair,
    reference: TensorReference,
    find_pair: FindPair,
    known: Mapping[str, Measures],
) -> tuple[list[Finding], Measures | None]:
    (expected, obtained), checks = pair, reference.select_checks(name)
    if expected.shape != obtained.shape and not any(map(allows_other_shapes, checks)):
        return [tensor_headers.report_shape(name, expected, obtained, reference)], None
    as_f32 = obtained.suffix == ".bin" and expected.dtype.kind != "complex"
    stored = reference.stored_dtypes.get(name, expected.dtype)
    typed_as_stored = obtained.dtype == stored and stored != expected.dtype and not as_f32
    is_narrowed = stored.width > obtained.dtype.width and not as_f32
    if (obtained.dtype != expected.dtype or is_narrowed) and not (as_f32 or typed_as_stored):
        return [tensor_headers.report_dtype(name, stored, expected, obtained)], None
    failed: list[list[Finding]] = []
    first: Measures | None = None
    try:
        carrier = tensor_notices.check_carrier(name, expected, obtained)
        for number, check in enumerate(checks, 1):
            found, measures = _compare_check(
                name,
                pair,
                check,
                reference,
                find_pair,
                known=known.get(name),
                typed_as_stored=typed_as_stored,
            )
            if not found:
                if measures is not None:
                    measures.branch = number if len(checks) > 1 else 0
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
    known: Measures | None,
    typed_as_stored: bool,
) -> tuple[list[Finding], Measures | None]:
    """Compare a tensor under one check; no findings mean that it passes."""
    expected, obtained = pair
    if expected.shape != obtained.shape and not allows_other_shapes(check, obtained):
        return [tensor_headers.report_shape(name, expected, obtained, reference)], None
    if check.measures and not check.bounds:
        measures = Measures(bounds={}, count=expected.count)
    else:
        location = reference.locate().get(name) if typed_as_stored else None
        if typed_as_stored:
            measures = _compare_stored(expected, obtained, check.bounds, location)
        elif known is not None:
            measures = known
        else:
            payloads = name not in reference.widened
            measures = compare(expected, obtained, check.bounds, payloads=payloads)
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


def _summarize_measures(
    reference: TensorReference,
    results: Mapping[str, Measures],
    scales: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    return {
        "tensors": len(results),
        "tensors_expected": len(reference.tensors),
        "max_abs": max((m.max_abs for m in results.values()), default=0.0),
        # None where a tensor passes, and its tolerance does not ask for them.
        "max_ulp": None
        if any(m.is_screened and "ulp" not in m.bounds for m in results.values())
        else max((m.max_ulp for m in results.values()), default=0),
        "signed_zeros": None
        if any(m.is_screened for m in results.values())
        else sum(m.zeros for m in results.values()),
        "per_tensor": {
            name: {
                "dtype": reference.tensors[name].dtype.name,
                **list_measures(m),
                **scales.get(name, {}),
            }
            for name, m in results.items()
        },
    }
