"""Report values that break a tolerance, and list what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from parity.suites.messages import format_name, format_number, report_error
from parity.suites.tensor_checks import list_outcome
from parity.text import align_columns, format_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parity.results import Finding
    from parity.tensors.dtypes import DType
    from parity.tensors.measures import Measures, Sample


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
    expected, obtained = (format_value(v, dtype) for v in (worst.expected, worst.obtained))
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


def format_value(value: Any, dtype: DType) -> str:
    """Return the shortest decimal that reads back as the same value of ``dtype``."""
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
            format_value(sample.expected, dtype),
            format_value(sample.obtained, dtype),
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
        "margin": measures.margin,
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
    elif measures.is_screened:
        asked = {"max_relative": "relative", "max_ulp": "ulp"}
        by_element |= {"signed_zeros": None, "histogram": None}
        by_element |= {name: None for name, bound in asked.items() if bound not in measures.bounds}
    return {**by_element, "bounds": dict(measures.bounds), **more}
