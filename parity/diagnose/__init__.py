"""Why a tensor is wrong: cheap hypotheses in order, each proven on all of its elements.

A cause is named only where it explains every element, and what it explains is counted;
where none does, that is said, with the distribution of the error. It never decides a
verdict. Large tensors are mapped and looked at in parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.diagnose import (
    block_mistakes,
    constant_values,
    group_patterns,
    permutations,
    search,
    swapped_tensor,
)
from parity.diagnose.cause import CODES, Cause
from parity.diagnose.failing_tensor import FailingTensor

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CODES", "Cause", "FailingTensor", "diagnose"]

_HYPOTHESES: tuple[Callable[[FailingTensor], Cause | None], ...] = (
    constant_values.find_constant,
    block_mistakes.find_decoder_mistake,
    search.find_single_cause,
    constant_values.find_rounding,
    swapped_tensor.find_swapped_tensor,
    search.find_byte_shift,
    permutations.find_permutation,
    search.find_double_cause,
    group_patterns.find_group_pattern,
)


def diagnose(tensor: FailingTensor) -> Cause | None:
    """The first cause that holds for all elements; ``no-simple-cause`` where none does.

    Returns:
        None where nothing differs, or where a dump in f32 of complex numbers has no cause.
    """
    if tensor.expected_dtype.kind == "complex" and tensor.obtained_dtype != tensor.expected_dtype:
        # No number of the one is a number of the other; the checkpoint's bytes may tell.
        return search.find_byte_shift(tensor)
    if not tensor.count or not tensor.summary.differing:
        return None
    found = (test(tensor) for test in _HYPOTHESES)
    return next((cause for cause in found if cause is not None), None) or _describe_noise(tensor)


def _describe_noise(tensor: FailingTensor) -> Cause:
    summary = tensor.summary
    decades = [f"1e{power:+d}: {count:,}" for power, count in sorted(summary.decades.items())]
    lost = summary.differing - sum(summary.decades.values())
    if lost:
        decades.append(f"not finite: {lost:,}")
    evidence = (
        f"{summary.differing:,} of {tensor.count:,} elements differ; their errors by power of ten: "
        f"{', '.join(decades)}"
    )
    return Cause("no-simple-cause", "no simple cause fits", evidence)
