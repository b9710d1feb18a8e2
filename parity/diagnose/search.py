"""Search for hypotheses that can be proven: one cause first, then two at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from parity.diagnose import block_mistakes, float_transforms, layouts, transforms
from parity.diagnose.cause import Cause
from parity.diagnose.failing_tensor import FailingTensor
from parity.diagnose.hypothesis import Evidence, Hypothesis, Layout, Source, Step
from parity.tensors import FormatError

#: Casts to narrower types, of which values that are short may fit more than one.
ROUNDING_CODES = ("rounded-f16", "rounded-f32", "rounded-bf16", "cut-bf16", "rounded-f64")
_MAX_SHIFT = 8  # Elements of a shift that is tried beside another cause
#: Bytes that must agree to prove where a tensor was read: fewer are found by chance.
_MIN_PROVING_BYTES = 8
MAX_OTHERS = 256  # Other tensors of the same size that a wrong one is compared with


def make_plain_source(tensor: FailingTensor) -> Source:
    """Return the reference's values as a source without a mistake."""
    return Source(tensor.expected_logical, tensor.convert_expected)


def find_single_cause(tensor: FailingTensor) -> Cause | None:
    """Find one cause that explains every element, else one that explains most."""
    found = choose_cause(prove_all(propose_single(tensor)))
    return found if found is None or found.code not in ROUNDING_CODES else _find_narrowing(tensor)


def _find_narrowing(tensor: FailingTensor) -> Cause:
    """Find the narrower type that the values went through; name all that fit equally."""
    proven = [
        (hypothesis, proof)
        for hypothesis in _propose_changed(tensor, make_plain_source(tensor))
        if hypothesis.transform.step.code in ROUNDING_CODES
        and (proof := hypothesis.prove()) is not None
    ]
    best = max(proof.exact for _, proof in proven)
    fitting = [(hypothesis, proof) for hypothesis, proof in proven if proof.exact == best]
    if len(fitting) == 1:
        return _make_cause(*fitting[0])
    changes = [hypothesis.transform.step for hypothesis, _ in fitting]
    bf16 = all(one.code.endswith("-bf16") for one in changes)
    how = ", or ".join(one.how for one in changes)
    return Cause(
        "rounded-bf16" if bf16 else "narrowed",
        ", or ".join(one.text for one in changes),
        f"{how}, {_format_count(*fitting[0])}",
    )


def _propose_changed(
    tensor: FailingTensor, source: Source, layout: Layout | None = None
) -> Iterator[Hypothesis]:
    """Yield a source in one layout, by default the plain one, with each transform."""
    plain = Hypothesis(tensor, source, layout or source.place_in(tensor))
    for change in transforms.propose_transforms(tensor.obtained_dtype, *plain.sample_pairs()):
        yield replace(plain, transform=change)


def propose_single(tensor: FailingTensor) -> Iterator[Hypothesis]:
    """Yield all hypotheses of one cause."""
    source, obtained, dtype = make_plain_source(tensor), tensor.obtained_flat, tensor.obtained_dtype
    for stored, layout in layouts.propose_orders(tensor):
        yield Hypothesis(tensor, stored, layout)
    for layout in layouts.propose_layouts(source.values, obtained):
        yield Hypothesis(tensor, source, layout)
    flat = Layout(source.values.reshape(-1), obtained)
    yield from _propose_changed(tensor, source, flat)
    for each, change in transforms.propose_wide_swaps(dtype, tensor.count):
        groups = source.values.reshape(-1, each)[:, ::-1]
        yield Hypothesis(tensor, source, Layout(groups, obtained.reshape(-1, each)), change)
    for wrong in layouts.propose_sources(tensor):
        yield Hypothesis(tensor, wrong, wrong.place_in(tensor))
    for change in float_transforms.propose_casts(dtype):
        yield Hypothesis(tensor, source, flat, change)


def propose_byte_shifts(tensor: FailingTensor) -> Iterator[Hypothesis]:
    """Yield the checkpoint read from other bytes (as other tensors are), or in another size."""
    for source, layout in layouts.propose_shifts(tensor):
        if layout.expected.nbytes >= _MIN_PROVING_BYTES:
            yield Hypothesis(tensor, source, layout)


def find_byte_shift(tensor: FailingTensor) -> Cause | None:
    """Find another byte that the checkpoint was read from, or another size of its elements."""
    return choose_cause(prove_all(propose_byte_shifts(tensor)))


def find_swapped_tensor(tensor: FailingTensor) -> Cause | None:
    """Find the other tensor of the bundle whose values the dump contains."""
    kind = tensor.count, tensor.expected_dtype
    others = ((name, other) for name, other in tensor.others().items() if name != tensor.name)
    alike = ((name, other) for name, other in others if (other.count, other.dtype) == kind)
    for name, other in islice(alike, MAX_OTHERS):
        try:
            values = tensor.maps.map_array(other)
        except (FormatError, OSError, ValueError):
            continue
        source = Source(values, tensor.convert_expected, Step("other-tensor", "", ""))
        if Hypothesis(tensor, source, source.place_in(tensor)).prove() is not None:
            count = "the one element is" if tensor.count == 1 else f"all {tensor.count:,} are"
            evidence = f"{count} equal to those of {name}"
            return Cause("other-tensor", f"these are the values of {name}", evidence)
    return None


def find_double_cause(tensor: FailingTensor) -> Cause | None:
    """Find two causes that explain every element together, and neither of them alone."""
    return choose_cause(prove_all(_propose_double(tensor))) or _find_zero_tail(tensor)


def _propose_double(tensor: FailingTensor) -> Iterator[Hypothesis]:
    source, obtained = make_plain_source(tensor), tensor.obtained_flat
    for layout in layouts.propose_layouts(source.values, obtained, _MAX_SHIFT):
        yield from _propose_changed(tensor, source, layout)
    # A strided view of a large storage would have to be copied to be rearranged.
    if tensor.count <= block_mistakes.MAX_WHOLE:
        for wrong in (*layouts.propose_sources(tensor), *block_mistakes.propose_sources(tensor)):
            for layout in layouts.propose_layouts(wrong.values, obtained, _MAX_SHIFT):
                yield Hypothesis(tensor, wrong, layout)
            yield from _propose_changed(tensor, wrong)
    for stored, layout in layouts.propose_orders(tensor):
        yield from _propose_changed(tensor, stored, layout)


def _find_zero_tail(tensor: FailingTensor) -> Cause | None:
    """Find a cause of the elements before a tail of zeros."""
    summary, start = tensor.summary, tensor.summary.zero_from
    # The elements before the zeros must differ, or the tail is all there is.
    if not (1 < start < tensor.count and summary.last >= start > summary.first):
        return None
    for whole in propose_single(tensor):
        hypothesis = replace(whole, stop=start)
        if hypothesis.uncovered or (proof := hypothesis.prove()) is None:
            continue
        one = hypothesis.steps[0]
        evidence = (
            f"{one.how} the first {start:,} of {tensor.count:,} elements are "
            f"{_format_equality(hypothesis, proof)}, the other {tensor.count - start:,} are 0"
        )
        text = f"two causes at once: {one.text}, and only zeros from element {start:,} on"
        return Cause(f"{one.code}+zero-tail", text, evidence)
    return None


def prove_all(hypotheses: Iterable[Hypothesis]) -> Iterator[Cause]:
    """Yield the causes that the proven ones of ``hypotheses`` state."""
    for hypothesis in hypotheses:
        if hypothesis.steps and (proof := hypothesis.prove()) is not None:
            yield _make_cause(hypothesis, proof)


def choose_cause(causes: Iterable[Cause]) -> Cause | None:
    """Return the first cause that explains every element, else the first one."""
    partial = None
    for cause in causes:
        if cause.complete:
            return cause
        partial = partial or cause
    return partial


def _make_cause(hypothesis: Hypothesis, proof: Evidence) -> Cause:
    steps = [
        (step.code == "shifted" and _find_roll(hypothesis, step)) or step
        for step in hypothesis.steps
    ]
    code = "+".join(step.code for step in steps)
    text = "two causes at once: " * ("+" in code) + ", and ".join(step.text for step in steps)
    how = " and ".join(step.how for step in steps)
    counted, complete = _format_count(hypothesis, proof), not proof.uncovered
    if "rolled" in code:
        equality, complete = _format_equality(hypothesis, proof), True
        counted = f"all {hypothesis.tensor.count:,} elements are {equality}"
    return Cause(code, text, f"{how} {counted}", complete=complete)


def _find_roll(hypothesis: Hypothesis, step: Step) -> Step | None:
    """Find a roll, where the elements that a shift pushes out come in at the other end."""
    tensor, edge = hypothesis.tensor, hypothesis.uncovered
    if not edge or hypothesis.transform.step.code:
        return None
    expected, obtained = tensor.expected_logical.reshape(-1), tensor.obtained_flat
    right = "right" in step.text.split(" by ")[0]
    out, into = (slice(-edge, None), slice(edge)) if right else (slice(edge), slice(-edge, None))
    lost = tensor.convert_expected(np.array(expected[out]))
    if not tensor.compare(lost, np.array(obtained[into]))[0].all():
        return None
    way = f"{'right' if right else 'left'} by {edge:,} element{'s' * (edge != 1)}"
    text = f"the values are rolled {way}: those that fall out come in at the other end"
    return Step("rolled", text, f"after rolling the reference {way}")


def _format_count(hypothesis: Hypothesis, proof: Evidence) -> str:
    equal = _format_equality(hypothesis, proof)
    if not proof.uncovered:
        count = "the one element is" if proof.count == 1 else f"all {proof.count:,} elements are"
        return f"{count} {equal}"
    return (
        f"{proof.count:,} of {hypothesis.tensor.count:,} elements are {equal}; the other "
        f"{proof.uncovered:,} come from beyond the tensor"
    )


def _format_equality(hypothesis: Hypothesis, proof: Evidence) -> str:
    if proof.exact:
        return "bit-equal"
    if not hypothesis.tensor.tolerances and not hypothesis.transform.ulps:
        return "equal but for the sign of zeros"
    return "equal but for a rounding or the tolerance"
