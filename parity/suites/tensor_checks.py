"""Compare one tensor under its conditions: tolerances, measures, and the branches of `any_of`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from parity.suites.messages import format_name, format_number, report_error
from parity.tensors.groups.registry import MEASURES
from parity.tensors.measures import Measures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parity.bundle.tensor_rules import Check
    from parity.results import Finding
    from parity.tensors.groups.base import Condition, Outcome, Pair
    from parity.tensors.stored import StoredTensor

    FindPair = Callable[[str], Pair | None]


def allows_other_shapes(check: Check) -> bool:
    """Return whether the two sides may have different shapes."""
    return (
        bool(check.measures)
        and not check.bounds
        and all(MEASURES[name].shapes_differ for name in check.measures)
    )


def allows_shape(check: Check, obtained: StoredTensor) -> bool:
    """Return whether a dump's shape, which is not the reference's, suits all measures."""
    return allows_other_shapes(check) and not any(
        MEASURES[name].find_tensor_problem(obtained, settings)
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


def make_empty_measures(count: int) -> Measures:
    """Return the measures of a tensor that no tolerance of its elements compares."""
    return Measures(bounds={}, count=count)


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
    broken = [one for one in outcome.conditions if not one.passed]
    text = ", ".join(map(_describe_condition, broken))
    place = "" if outcome.place is None else f" (at {list(outcome.place)})"
    return f"{name}: {text}{place}"


def _describe_condition(condition: Condition) -> str:
    bound = "at least" if condition.sign == ">=" else "at most"
    value = f"{condition.value:.6g}"
    return f"{condition.name} is {value}, expected {bound} {format_number(condition.limit)}"


def list_outcome(outcome: Outcome) -> dict[str, Any]:
    """List the numbers of a measure as a report has them."""
    return {one.name: one.value for one in outcome.conditions}


def report_uncovered(name: str, cover: str) -> Finding:
    """Report a tensor that is compared with another one, which is missing."""
    message = (
        f"{format_name(name)} is compared by a measure of {cover}, which is missing from the dump"
    )
    return report_error("measure", message, tensor=name)


def report_branches(name: str, failed: Sequence[list[Finding]]) -> Finding:
    """Report a tensor that no branch of `any_of` accepts; the first one's numbers stand for it."""
    texts = [
        f"({number}) "
        + "; ".join(one.message.removeprefix(f"{format_name(name)}: ") for one in found)
        for number, found in enumerate(failed, 1)
    ]
    message = f"{format_name(name)}: no branch of any_of passes: {' '.join(texts)}"
    return replace(failed[0][0], code="any-of", message=message)
