"""The named tensors that a port must produce for one case, and their places in a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path

from parity import checkpoints
from parity.bundle.layout import make_suspect_error
from parity.bundle.tensor_rules import EXACT, Check, Rule
from parity.bundle.tolerances import tighten
from parity.checkpoints import StorageLocation
from parity.suites.base import Case
from parity.suites.messages import EXAMPLES
from parity.tensors.compare import select_bounds
from parity.tensors.dtypes import DTYPES, DType
from parity.tensors.folder import list_tensors
from parity.tensors.groups import MEASURES
from parity.tensors.stored import StoredTensor, Tensors


@dataclass(frozen=True, kw_only=True)
class TensorReference:
    """The tensors that a port must produce for one case."""

    tensors: Tensors
    tolerances: Mapping[str, float]  # Apply to each of them
    #: Names that a port may dump though no reference exists, with their dtype.
    unreferenced: Mapping[str, str] = field(default_factory=dict)
    #: Anything beyond ``tensors`` and ``unreferenced`` is wrong, not merely unknown.
    complete: bool = True
    shape_note: str = ""  # Stands beside a shape that differs, such as the order of its dimensions
    #: Names whose values were widened or dequantised, so that no NaN's payload is expected.
    widened: Collection[str] = ()
    #: The checkpoint's own dtype where the bundle states it, by name.
    stored_dtypes: Mapping[str, DType] = field(default_factory=dict)
    blind: str = ""  # The bundle's reason for a tolerance that is blind, or ``""``
    #: The manifest's, by tensor; they decide instead of ``tolerances``.
    rules: Mapping[str, Rule] = field(default_factory=dict)
    #: The lockfile's tolerances, which every rule is tightened by.
    requested: Mapping[str, float] = field(default_factory=dict)
    #: Entries that a dump's `__metadata__` must have: stated ones, or the reference's (True).
    metadata: bool | Mapping[str, str] | None = None
    is_trace: bool = False  # The caller finds the causes, of those that diverge first alone
    #: Returns where tensors are in their checkpoint; empty where not recorded.
    locate: Callable[[], Mapping[str, StorageLocation]] = dict

    @cached_property
    def integers_only(self) -> bool:
        """Return whether no tensor has floats, so that ``max_abs`` is meant for integers."""
        return all(tensor.dtype.kind in ("int", "bool") for tensor in self.tensors.values())

    @cached_property
    def _checks(self) -> dict[tuple[str, str], tuple[Check, ...]]:
        """Results of `select_checks`, by tensor, or by dtype of those without a rule."""
        return {}

    def select_checks(self, name: str) -> tuple[Check, ...]:
        """Return the conditions of one tensor, one of which must be met."""
        rule, dtype = self.rules.get(name), self.tensors[name].dtype
        checks: tuple[Check, ...] = (Check(bounds=self.tolerances),)
        if rule is None or rule.checks is None:
            key, rule = ("", dtype.name), None
        else:
            key, checks = (name, dtype.name), rule.checks
        if key not in self._checks:
            self._checks[key] = tuple(self._select(one, name, rule) for one in checks)
        return self._checks[key]

    def _select(self, check: Check, name: str, rule: Rule | None) -> Check:
        """Tighten tolerances, and leave out those that are not meant for the tensor's dtype."""
        dtype = self.tensors[name].dtype
        if rule is not None:
            check = replace(check, bounds=tighten(check.bounds, self.requested, dtype)[0])
        if rule is not None and rule.names_dtype:
            return check
        integers_only = self.integers_only and (rule is None or rule.origin != "glob")
        # A measure that is for booleans too compares bits.
        loosens = any("bool" not in MEASURES[one].kinds for one in check.measures)
        if dtype.kind in ("int", "bool") and loosens and not integers_only:
            return EXACT[0]
        if not check.bounds:
            return check
        bounds = select_bounds(dtype, check.bounds, integers_only=integers_only)
        return replace(check, bounds=bounds)

    def select_bounds(self, name: str) -> Mapping[str, float]:
        """Return the bounds that apply to one tensor; those of the first branch of several."""
        return self.select_checks(name)[0].bounds

    def find_cover(self, name: str) -> str:
        """Return the tensor whose measure compares this one, ``""`` for none."""
        return self.rules[name].covered_by if name in self.rules else ""

    def is_optional(self, name: str) -> bool:
        """Return whether a port may leave a tensor out."""
        return name in self.rules and bool(self.rules[name].optional)

    def find_blind_reason(self, name: str) -> str:
        """Return why a tensor's tolerance may be blind, or ``""``."""
        return ((self.rules[name].blind if name in self.rules else "") or self.blind).strip()

    def is_dequantised(self, name: str) -> bool:
        """Return whether the tensor's values were decoded from blocks of a quantised type."""
        if name in self.widened:
            return True
        location = self.locate().get(name)
        return location is not None and location.type_name not in DTYPES


def read_references(place: Path) -> dict[str, StoredTensor]:
    """Read the tensors of a case's references.

    Raises:
        ReferenceSuspectError: They cannot be read or are missing.
    """
    if not place.exists():
        raise make_suspect_error(place, "is missing")
    found = list_tensors(place)
    if problems := found.list_problems():
        raise make_suspect_error(place, "; ".join(problems[:EXAMPLES]))
    return found.tensors


def build_locator(case: Case) -> Callable[[], Mapping[str, StorageLocation]]:
    """Make a function that locates tensors in the checkpoint; its header is read at most once."""
    checkpoint = case.placeholders.get("checkpoint")
    if checkpoint is None:
        return dict
    return cache(lambda: checkpoints.locate_tensors(case.folder, Path(checkpoint)))
