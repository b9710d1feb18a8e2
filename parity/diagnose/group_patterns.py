"""What became of each row, or of each run of neighbours: where values alone are known.

Of blocks is spoken only where the checkpoint says that there are some, or where nothing
is known of it.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from parity.checkpoints import blocks
from parity.diagnose import tensor_slices
from parity.diagnose.cause import Cause
from parity.tensors.dtypes import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from parity.diagnose.failing_tensor import FailingTensor
    from parity.diagnose.tensor_slices import SliceTest, TensorSlices

#: Elements of a block or of a part of one.
GROUP_SIZES = (16, 32, 64, 128, 256)
#: One of so many elements must have moved, or no order within groups is told.
_MIN_MOVED = 4

_NUMBERS = (
    (
        tensor_slices.check_factors,
        "factor-of-groups",
        "each {} is multiplied by a number of its own",
    ),
    (tensor_slices.check_addends, "addend-of-groups", "to each {} a number of its own is added"),
)
_ORDERS = (
    (
        tensor_slices.check_orders,
        "order-in-groups",
        "each {} holds the right values in another order",
    ),
)
#: What such a pattern of neighbours points at in blocks.
_BLOCK_CAUSES = {
    "factor-of-groups": "scales of blocks or their sub-scales are decoded wrongly",
    "addend-of-groups": "minima of blocks are ignored or decoded wrongly",
    "order-in-groups": "codes of a block are unpacked in another order",
}
_ZERO_POINT = "a wrong zero point is subtracted from the codes of blocks"


def find_group_pattern(tensor: FailingTensor) -> Cause | None:
    """The pattern that all slices of some sort bear out, if they differ among each other."""
    if tensor.obtained_dtype.kind != "float":
        return None
    kind = None if tensor.raw is None else tensor.raw.type_name
    axes, neighbours = tensor_slices.cut_axes(tensor), _list_groups(tensor)
    if kind is None:
        cuts = (*axes, *neighbours)
    else:
        # Rows of whole blocks say less of what went wrong than their blocks do.
        cuts = tuple(axes) if kind in DTYPES else (*neighbours, *axes)
    # What is in order within small groups is so within large ones.
    small = sorted(cuts, key=lambda cut: cut.size)
    tried = (*product(cuts, _NUMBERS), *product(small, _ORDERS))
    found = (_find_pattern(tensor, cut, *test) for cut, test in tried)
    return next((cause for cause in found if cause is not None), None)


def _list_groups(tensor: FailingTensor) -> Iterator[TensorSlices]:
    for size in GROUP_SIZES:
        if tensor.count % size == 0 and tensor.count >= 2 * size:
            yield tensor_slices.cut_groups(tensor, size)


def _find_pattern(
    tensor: FailingTensor,
    cut: TensorSlices,
    test: Callable[[Any, Any], SliceTest],
    code: str,
    text: str,
) -> Cause | None:
    changed, differing = tensor_slices.count_changed(cut, test), tensor.summary.differing
    # Two elements that changed places are in another order within some group, too.
    few = code == "order-in-groups" and _MIN_MOVED * differing < tensor.count
    if not changed or few:
        return None
    some = f", {changed:,} of them changed" if changed < cut.count else ""
    evidence = (
        f"so it is in all {cut.count:,} {cut.plural} of {cut.size:,} elements{some} "
        f"({differing:,} of {tensor.count:,} elements differ)"
    )
    return Cause(code, text.format(cut.noun) + _describe_block_cause(tensor, cut, code), evidence)


def _describe_block_cause(tensor: FailingTensor, cut: TensorSlices, code: str) -> str:
    """What it may be where neighbours are parts of blocks."""
    if cut.code:
        return ""
    decoder = None if tensor.raw is None else blocks.DECODERS.get(tensor.raw.type_name)
    no_minima = code == "addend-of-groups" and decoder is not None and decoder.mins is None
    return f", as where {_ZERO_POINT if no_minima else _BLOCK_CAUSES[code]}"
