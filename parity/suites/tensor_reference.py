"""The named tensors that a port must produce for one case."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from parity.tensors.compare import select_bounds
from parity.tensors.dtypes import DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from parity.checkpoints import StorageLocation
    from parity.tensors.dtypes import DType
    from parity.tensors.stored import StoredTensor


@dataclass(frozen=True, kw_only=True)
class TensorReference:
    """The tensors that a port must produce for one case.

    Attributes:
        tensors: By name.
        tolerances: Apply to each of them.
        unreferenced: Names that a port may dump though no reference exists, with their dtype.
        complete: Anything beyond ``tensors`` and ``unreferenced`` is wrong, not merely unknown.
        shape_note: Stands beside a shape that differs, such as the order of its dimensions.
        widened: Names whose values were stored in another dtype and widened or dequantised,
            so that no NaN's payload is expected.
        stored_dtypes: The checkpoint's own dtype where the bundle states it, by name.
        blind: The bundle's reason for a tolerance that is blind, or ``""``.
        locate: Returns where tensors are in their checkpoint; empty where not recorded.
    """

    tensors: Mapping[str, StoredTensor]
    tolerances: Mapping[str, float]
    unreferenced: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True
    shape_note: str = ""
    widened: Collection[str] = ()
    stored_dtypes: Mapping[str, DType] = field(default_factory=dict)
    blind: str = ""
    locate: Callable[[], Mapping[str, StorageLocation]] = dict

    @cached_property
    def integers_only(self) -> bool:
        """Tell whether no tensor has floats, so that ``max_abs`` is meant for integers."""
        return all(tensor.dtype.kind in ("int", "bool") for tensor in self.tensors.values())

    def select_bounds(self, name: str) -> Mapping[str, float]:
        """Return the bounds that apply to one tensor."""
        dtype = self.tensors[name].dtype
        return select_bounds(dtype, self.tolerances, integers_only=self.integers_only)

    def is_dequantised(self, name: str) -> bool:
        """Tell whether the tensor's values were decoded from blocks of a quantised type."""
        if name in self.widened:
            return True
        location = self.locate().get(name)
        return location is not None and location.type_name not in DTYPES
