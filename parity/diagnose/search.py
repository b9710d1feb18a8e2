"""The search for claims that hold: one cause first, then two at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.diagnose import block_mistakes, layouts, misread_storage, transforms
from parity.diagnose.cause import Cause
from parity.diagnose.constant_values import find_tail_start
from parity.diagnose.hypothesis import Evidence, Hypothesis, Layout, Source, Step, Transform

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parity.diagnose.failing_tensor import FailingTensor

#: Roundings to another float, of which values that are short may fit more than one.
_ROUNDING_CODES = ("rounded-f16", "rounded-f32", "rounded-bf16", "cut-bf16")
#: Elements by which a shift may go that comes with another cause.
_MAX_SHIFT = 8
#: Bytes of a tensor that must agree to prove where they were read: fewer are found by chance.
_MIN_PROVING_BYTES = 8


def make_plain_source(tensor: FailingTensor) -> Source:
    """The reference as it is."""
    return Source(values=tensor.expected_logical, convert=tensor.convert_expected)


def find_single_cause(tensor: FailingTensor) -> Cause | None:
    """One cause that explains every element."""
    found = _prove_first(propose_single(tensor))
    return found if found is None or found.code not in _ROUNDING_CODES else _find_narrowing(tensor)


def _find_narrowing(tensor: FailingTensor) -> Cause:
    """The narrower float that the values went through; where more fit equally, all are said."""
    unchanged = Hypothesis(
        tensor,
        make_plain_source(tensor),
        layouts.make_plain_layout(tensor.expected_logical, tensor.obtained_flat),
        Transform(),
    )
    hypotheses = [
        Hypothesis(tensor, unchanged.source, unchanged.layout, transform)
        for transform in transforms.propose_transforms(
            tensor.obtained_dtype, *unchanged.sample_pairs()
        )
        if transform.code in _ROUNDING_CODES
    ]
    proven = [
        (hypothesis, proof)
        for hypothesis in hypotheses
        if (proof := hypothesis.prove()) is not None
    ]
    best = max(proof.exact for _, proof in proven)
    fitting = [(hypothesis, proof) for hypothesis, proof in proven if proof.exact == best]
    if len(fitting) == 1:
        return _make_cause(*fitting[0])
    transform = [hypothesis.transform for hypothesis, _ in fitting]
    bf16 = all(one.code.endswith("-bf16") for one in transform)
    how = ", or ".join(one.how for one in transform)
    return Cause(
        "rounded-bf16" if bf16 else "narrowed",
        ", or ".join(one.text for one in transform),
        f"{how}, {_format_count(*fitting[0])}",
    )


def propose_single(tensor: FailingTensor, stop: int | None = None) -> Iterator[Hypothesis]:
    """All claims of one cause; ``stop`` has them speak only of the elements before it."""
    source, target, plain = make_plain_source(tensor), tensor.obtained_flat, Transform()

    def hypothesis(of: Source, layout: Layout, transform: Transform = plain) -> Hypothesis:
        return Hypothesis(tensor, of, layout, transform, stop)

    dtype = misread_storage.find_stored_dtype(tensor)
    if dtype is not None:
        stored_source = Source(
            values=source.values, convert=misread_storage.make_conversion(tensor, dtype)
        )
        yield from (
            hypothesis(stored_source, layout) for layout in misread_storage.propose_orders(tensor)
        )
    yield from (
        hypothesis(source, layout) for layout in layouts.propose_layouts(source.values, target)
    )
    unchanged = hypothesis(source, layouts.make_plain_layout(source.values, target))
    for transform in transforms.propose_transforms(
        tensor.obtained_dtype, *unchanged.sample_pairs()
    ):
        yield hypothesis(source, unchanged.layout, transform)
    for each, transform in transforms.propose_wide_swaps(tensor.obtained_dtype, tensor.count):
        yield hypothesis(source, layouts.reverse_groups(source.values, target, each), transform)
    for wrong in misread_storage.propose_sources(tensor):
        yield hypothesis(wrong, _make_shaped_layout(tensor, wrong))


def find_byte_shift(tensor: FailingTensor) -> Cause | None:
    """The checkpoint read from another byte on, or as elements of another size.

    Asked for after other tensors, since one of those lies at every distance.
    """
    hypotheses = (
        Hypothesis(
            tensor,
            Source(
                values=tensor.expected_logical,
                convert=misread_storage.make_conversion(tensor, dtype),
            ),
            layout,
            Transform(),
        )
        for dtype, layout in misread_storage.propose_shifts(tensor)
        if layout.expected.nbytes >= _MIN_PROVING_BYTES
    )
    return _prove_first(hypotheses)


def _make_shaped_layout(tensor: FailingTensor, source: Source) -> Layout:
    return Layout(
        expected=source.values, obtained=tensor.obtained_flat.reshape(source.values.shape)
    )


def find_double_cause(tensor: FailingTensor) -> Cause | None:
    """Two causes that explain every element together, and none of them alone."""
    return _prove_first(_propose_double(tensor)) or _find_zero_tail(tensor)


def _propose_double(tensor: FailingTensor) -> Iterator[Hypothesis]:
    source, target = make_plain_source(tensor), tensor.obtained_flat
    for layout in layouts.propose_layouts(source.values, target, _MAX_SHIFT):
        guess = Hypothesis(tensor, source, layout, Transform())
        for transform in transforms.propose_transforms(
            tensor.obtained_dtype, *guess.sample_pairs()
        ):
            yield Hypothesis(tensor, source, layout, transform)
    for wrong in (
        *misread_storage.propose_sources(tensor),
        *block_mistakes.propose_sources(tensor),
    ):
        if tensor.count > block_mistakes.MAX_WHOLE:
            # A strided view of a large storage would have to be copied to be rearranged.
            break
        for layout in layouts.propose_layouts(wrong.values, target, _MAX_SHIFT):
            yield Hypothesis(tensor, wrong, layout, Transform())
        unchanged = Hypothesis(tensor, wrong, _make_shaped_layout(tensor, wrong), Transform())
        for transform in transforms.propose_transforms(
            tensor.obtained_dtype, *unchanged.sample_pairs()
        ):
            yield Hypothesis(tensor, wrong, unchanged.layout, transform)
    dtype = misread_storage.find_stored_dtype(tensor)
    if dtype is not None:
        stored_source = Source(
            values=source.values, convert=misread_storage.make_conversion(tensor, dtype)
        )
        for layout in misread_storage.propose_orders(tensor):
            guess = Hypothesis(tensor, stored_source, layout, Transform())
            for transform in transforms.propose_transforms(
                tensor.obtained_dtype, *guess.sample_pairs()
            ):
                yield Hypothesis(tensor, stored_source, layout, transform)


def _find_zero_tail(tensor: FailingTensor) -> Cause | None:
    """A tail of zeros after elements that have another cause."""
    start = find_tail_start(tensor)
    if start is None:
        return None
    for hypothesis in propose_single(tensor, start):
        # What comes before the zeros must differ, or the tail is all there is.
        if hypothesis.uncovered or tensor.summary.first >= start:
            continue
        proof = hypothesis.prove()
        if proof is not None:
            one = hypothesis.steps[0]
            evidence = (
                f"{one.how} the first {start:,} of {tensor.count:,} elements are "
                f"{_format_equality(proof)}, the other {tensor.count - start:,} are 0"
            )
            text = f"two causes at once: {one.text}, and only zeros from element {start:,} on"
            return Cause(f"{one.code}+zero-tail", text, evidence)
    return None


def _prove_first(hypotheses: Iterator[Hypothesis]) -> Cause | None:
    for hypothesis in hypotheses:
        if hypothesis.steps and (proof := hypothesis.prove()) is not None:
            return _make_cause(hypothesis, proof)
    return None


def _make_cause(hypothesis: Hypothesis, proof: Evidence) -> Cause:
    steps = [
        _convert_to_roll(hypothesis, step) if step.code == "shifted" else step
        for step in hypothesis.steps
    ]
    code = "+".join(step.code for step in steps)
    text = ", and ".join(step.text for step in steps)
    how = " and ".join(step.how for step in steps)
    head = "two causes at once: " if "+" in code else ""
    counted = (
        _format_count(hypothesis, proof)
        if "rolled" not in code
        else _format_whole(hypothesis, proof)
    )
    return Cause(code, head + text, f"{how} {counted}")


def _convert_to_roll(hypothesis: Hypothesis, step: Step) -> Step:
    """A shift whose elements that fall out come in at the other end is a roll."""
    tensor, edge = hypothesis.tensor, hypothesis.uncovered
    if not edge or hypothesis.transform.code:
        return step
    flat = tensor.expected_logical.reshape(-1)
    right_way = hypothesis.layout.obtained.size and "right" in step.text.split(" by ")[0]
    ends = (
        (flat[-edge:], tensor.obtained_flat[:edge])
        if right_way
        else (flat[:edge], tensor.obtained_flat[-edge:])
    )
    good, _ = tensor.compare(tensor.convert_expected(np.array(ends[0])), np.array(ends[1]))
    if not good.all():
        return step
    way = f"{'right' if right_way else 'left'} by {edge:,} element{'s' * (edge != 1)}"
    text = f"the values are rolled {way}: those that fall out come in at the other end"
    return Step(code="rolled", text=text, how=f"after rolling the reference {way}")


def _format_whole(hypothesis: Hypothesis, proof: Evidence) -> str:
    return f"all {hypothesis.tensor.count:,} elements are {_format_equality(proof)}"


def _format_count(hypothesis: Hypothesis, proof: Evidence) -> str:
    if not proof.uncovered:
        what = "the one element is" if proof.count == 1 else f"all {proof.count:,} elements are"
        return f"{what} {_format_equality(proof)}"
    return (
        f"{proof.count:,} of {hypothesis.tensor.count:,} elements are {_format_equality(proof)}; the other "
        f"{proof.uncovered:,} come from beyond the tensor"
    )


def _format_equality(proof: Evidence) -> str:
    return "bit-equal" if proof.exact else "equal but for a rounding or the bound"
