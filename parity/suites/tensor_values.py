"""Report values that break a tolerance, measures and branches of `any_of` that do not pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from parity.bundle.tensor_rules import Check
from parity.results import Finding
from parity.suites.messages import format_name, format_number, report_error
from parity.tensors.dtypes import DType
from parity.tensors.groups import MEASURES
from parity.tensors.groups.base import Outcome, Pair
from parity.tensors.measures import Measures, Sample
from parity.tensors.stored import StoredTensor
from parity.text import align_columns, format_count

FindPair = Callable[[str], Pair | None]


def report_values(name: str, measures: Measures, shape: tuple[int, ...], dtype: DType) -> Finding:
    """Report values that break a bound, with counts, worst and first elements."""
    worst = measures.worst
    if worst is None:
        message = (
            f"{format_name(name)}: the cosine between the two is {format_number(measures.cosine)}, "
            f"expected at least {measures.bounds['cosine']:g} ({measures.count:,} elements)"
        )
        return report_error("cosine", message, tensor=name, measures=list_measures(measures))
    code, kind = _choose_code(measures)
    index = _unravel_index(worst, shape)
    expected, obtained = (format_value(v, dtype) for v in (worst.expected, worst.obtained))
    sample = f"expected {expected}, obtained {obtained}"
    if error := _format_error(worst.error):
        steps = "" if worst.ulp is None else f", {worst.ulp:,} ULP"
        sample += f" (off by {error}{steps})"
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
        return "nan", f" ({obtained:,} NaN or infinite in the dump, {expected:,} in the reference)"
    if measures.bounds.get("exact") and measures.bad == measures.zeros:
        return "signed-zero", ", all in the sign of zero"
    if measures.bounds.get("exact") and measures.bad == measures.payloads:
        return "nan-payload", ", all in the payload of a NaN"
    return "values", ""


def format_value(value: Any, dtype: DType) -> str:
    """Return the shortest decimal that reads back as the same value of ``dtype``."""
    if dtype.kind == "complex":
        return str(dtype.storage.type(value))
    narrow = {"F32": np.float32, "F16": np.float16}.get(dtype.name)
    return format_number(value if narrow is None else narrow(value))


def _format_error(error: float) -> str:
    """Format a distance, which may be beyond all floats; ``""`` beside a NaN or an infinity."""
    if np.isnan(error):
        return ""
    return "more than 1.8e+308" if np.isinf(error) else f"{error:.3g}"


def _unravel_index(sample: Sample, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(axis) for axis in np.unravel_index(sample.index, shape))


def _format_first(measures: Measures, shape: tuple[int, ...], dtype: DType) -> tuple[str, ...]:
    if measures.bad <= 1:
        return ()
    rows = [("index", "expected", "obtained", "off by")]
    rows += [
        (
            str(list(_unravel_index(sample, shape))),
            format_value(sample.expected, dtype),
            format_value(sample.obtained, dtype),
            _format_error(sample.error),
        )
        for sample in measures.samples
    ]
    rest = measures.bad - len(measures.samples)
    return (*align_columns(rows), *((f"and {rest:,} more",) if rest else ()))


def format_bounds(tolerances: Mapping[str, float]) -> str:
    """Format the tolerances."""
    if tolerances.get("exact"):
        return "bound: exact"
    return "bound: " + ", ".join(
        f"{name} {'>=' if name == 'cosine' else '<='} {value:g}"
        for name, value in tolerances.items()
    )


def list_measures(measures: Measures) -> dict[str, Any]:
    """List the measures as a report has them; null where no tolerance asks for the elements."""
    found: dict[str, Any] = {name: list_outcome(one) for name, one in measures.outcomes.items()}
    more: dict[str, Any] = {"measures": found} if found else {}
    more |= {"branch": measures.branch} if measures.branch else {}
    bounds, is_whole = measures.bounds, not measures.is_screened
    decades = {str(decade): count for decade, count in sorted(measures.histogram.items())}
    by_element: dict[str, Any] = {
        "count": measures.count,
        "bad": measures.bad,
        "max_abs": measures.max_abs,
        "margin": measures.margin,
        "max_relative": measures.max_relative if is_whole or "relative" in bounds else None,
        "max_ulp": measures.max_ulp if is_whole or "ulp" in bounds else None,
        "not_finite_expected": measures.nonfinite[0],
        "not_finite_obtained": measures.nonfinite[1],
        "signed_zeros": measures.zeros if is_whole else None,
        "cosine": measures.cosine,
        "histogram": decades if is_whole else None,
        "bounds": dict(bounds),
        **more,
    }
    if not bounds:
        kept = {"count": measures.count, "histogram": {}, "bounds": {}, **more}
        return {**dict.fromkeys(by_element), **kept}
    return by_element


def allows_other_shapes(check: Check, obtained: StoredTensor | None = None) -> bool:
    """Return whether the two sides may have different shapes; that of ``obtained``, if given."""
    return bool(check.measures and not check.bounds) and all(
        MEASURES[name].shapes_differ
        and not (obtained and MEASURES[name].find_tensor_problem(obtained, settings))
        for name, settings in check.measures.items()
    )


def run_measures(check: Check, pair: Pair, find_pair: FindPair) -> dict[str, Outcome] | str:
    """Return the outcomes of a check's measures; the name of a member that is missing instead.

    Raises:
        FormatError: A tensor cannot be read by a measure.
    """
    outcomes = {}
    for name, settings in check.measures.items():
        group = {"": [pair]}
        for key, names in check.list_members().items():
            members = [find_pair(one) for one in names] if key in MEASURES[name].settings else []
            for one, member in zip(names, members, strict=False):
                if member is None:
                    return one
            if members:
                group[key] = [member for member in members if member is not None]
        outcomes[name] = MEASURES[name].compute(group, settings)
    return outcomes


def report_outcomes(
    name: str, measures: Measures, check: Check, shape: Sequence[int]
) -> list[Finding]:
    """Report the measures that do not pass, each with its numbers and the first wrong place."""
    return [
        report_error(
            "measure",
            f"{format_name(name)}: {describe_outcome(key, outcome)}",
            tensor=name,
            index=outcome.place,
            measures={"measure": key, **list_outcome(outcome), "shape": list(shape)},
        )
        for key, outcome in measures.outcomes.items()
        if not outcome.passed and key in check.measures
    ]


def describe_outcome(name: str, outcome: Outcome) -> str:
    """Describe the conditions of a measure that fail."""
    if not outcome.conditions:
        return f"{name} compared nothing, since there is nothing to compare"
    text = ", ".join(
        f"{one.name} is {one.value:.6g}, expected {'at least' if one.sign == '>=' else 'at most'} "
        f"{format_number(one.limit)}"
        for one in outcome.conditions
        if not one.passed
    )
    place = "" if outcome.place is None else f" (at {list(outcome.place)})"
    return f"{name}: {text}{place}"


def list_outcome(outcome: Outcome) -> dict[str, Any]:
    """List the numbers of a measure as a report has them."""
    return {one.name: one.value for one in outcome.conditions}


def report_branches(name: str, failed: Sequence[list[Finding]]) -> Finding:
    """Report a tensor that no branch of `any_of` accepts; the first one's numbers stand for it."""
    texts = [
        f"({number}) "
        + "; ".join(one.message.removeprefix(f"{format_name(name)}: ") for one in found)
        for number, found in enumerate(failed, 1)
    ]
    message = f"{format_name(name)}: no branch of any_of passes: {' '.join(texts)}"
    return replace(failed[0][0], code="any-of", message=message)
