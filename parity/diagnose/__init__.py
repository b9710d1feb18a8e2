"""Find why a tensor is wrong: cheap hypotheses in order, each proven on all of its elements.

A cause is named only where the data prove it, with the number of elements that it explains;
one that explains every element comes before one that explains most. Where none fits, the
distribution of the errors is reported. A diagnosis never decides a verdict. Large tensors
are mapped and read in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from itertools import chain

from parity.diagnose import block_mistakes, error_summary, search, slice_patterns
from parity.diagnose.cause import Cause
from parity.diagnose.failing_tensor import FailingTensor

__all__ = ["Cause", "FailingTensor", "diagnose", "name_no_alternatives"]

#: One cause each; those that explain most are outdone by a later one that explains all.
_SINGLE: tuple[Callable[[FailingTensor], Cause | None], ...] = (
    error_summary.find_constant,
    block_mistakes.find_decoder_mistake,
    search.find_single_cause,
    error_summary.find_rounding,
    search.find_swapped_tensor,
    search.find_byte_shift,
    slice_patterns.find_permutation,
)
_LAST: tuple[Callable[[FailingTensor], Cause | None], ...] = (
    search.find_double_cause,
    slice_patterns.find_group_pattern,
)
#: Elements of a tensor that several causes may fit by chance.
_TINY = 8
_MAX_ALTERNATIVES = 3
_names_alternatives = ContextVar("_names_alternatives", default=True)
#: Codes of one cause by several names.
_ALIKE = ((*search.ROUNDING_CODES, "narrowed"), ("sign-flipped", "factor"))


@contextmanager
def name_no_alternatives() -> Iterator[None]:
    """Skip the search for further causes of tiny tensors, where only a cause's code is needed."""
    token = _names_alternatives.set(False)
    try:
        yield
    finally:
        _names_alternatives.reset(token)


def diagnose(tensor: FailingTensor) -> Cause | None:
    """Find the first cause that explains every element, else one that explains most.

    Returns:
        ``no-simple-cause`` where none fits; None where nothing differs, or where a dump in
        float32 of complex numbers has no cause.
    """
    if tensor.expected_dtype.kind == "complex" and tensor.obtained_dtype != tensor.expected_dtype:
        # Their numbers cannot be compared; the checkpoint's bytes may still explain the dump.
        return search.find_byte_shift(tensor)
    if tensor.count and not tensor.summary.differing and "cosine" in tensor.bounds:
        tensor = replace(tensor, bounds={"exact": 1.0})
    if not tensor.count or not tensor.summary.differing:
        return None
    cause = search.choose_cause(_list_causes(tensor, _SINGLE))
    if cause is None:
        return next(_list_causes(tensor, _LAST), None) or _describe_noise(tensor)
    is_certain = not cause.complete or tensor.count > _TINY or cause.code == "zero-sign-lost"
    return (
        _add_alternatives(tensor, cause) if not is_certain and _names_alternatives.get() else cause
    )


def _list_causes(
    tensor: FailingTensor, finders: Iterable[Callable[[FailingTensor], Cause | None]]
) -> Iterator[Cause]:
    return (cause for find in finders if (cause := find(tensor)) is not None)


def _add_alternatives(tensor: FailingTensor, first: Cause) -> Cause:
    """Name all causes that fit a tensor of few elements, which cannot separate them."""
    fitting = {first.code: first}
    alike = next((codes for codes in _ALIKE if first.code in codes), ())
    alone = block_mistakes.find_decoder_mistake, search.find_swapped_tensor
    proposed = chain(search.propose_byte_shifts(tensor), search.propose_single(tensor))
    for cause in chain(_list_causes(tensor, alone), search.prove_all(proposed)):
        if cause.complete and cause.evidence.endswith("equal") and cause.code not in alike:
            fitting.setdefault(cause.code, cause)
        if len(fitting) == _MAX_ALTERNATIVES:
            break
    if len(fitting) == 1:
        return first
    text = f"{len(fitting)} causes fit its {tensor.count:,} elements"
    return Cause(first.code, text, "; or ".join(map(str, fitting.values())))


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
