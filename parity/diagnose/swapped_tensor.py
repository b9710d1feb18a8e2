"""Another tensor of the bundle in this one's place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.diagnose.cause import Cause
from parity.diagnose.hypothesis import Hypothesis, Layout, Source, Transform
from parity.diagnose.layouts import make_plain_layout
from parity.tensors import FormatError

if TYPE_CHECKING:
    from parity.diagnose.failing_tensor import FailingTensor
    from parity.tensors.stored import StoredTensor


def find_swapped_tensor(tensor: FailingTensor) -> Cause | None:
    """The other tensor whose values the dump holds, if there is one."""
    for name, other in tensor.others().items():
        if (
            name == tensor.name
            or other.count != tensor.count
            or other.dtype != tensor.expected_dtype
        ):
            continue
        try:
            hypothesis = _make_hypothesis(tensor, name, other)
        except (FormatError, OSError, ValueError):
            continue
        if hypothesis.prove() is not None:
            count = "the one element is" if tensor.count == 1 else f"all {tensor.count:,} are"
            evidence = f"{count} equal to those of {name}"
            return Cause("other-tensor", f"these are the values of {name}", evidence)
    return None


def _make_hypothesis(tensor: FailingTensor, name: str, other: StoredTensor) -> Hypothesis:
    values = tensor.maps.map_array(other)
    source = Source(code="other-tensor", text=name, values=values, convert=tensor.convert_expected)
    layout: Layout = make_plain_layout(values, tensor.obtained_flat)
    return Hypothesis(tensor, source, layout, Transform())
