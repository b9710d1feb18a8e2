"""Changes between two trees; ``before`` and ``after`` are None where a thing is absent.

A ``note`` is the reason why something could not be compared.
"""

from __future__ import annotations

from dataclasses import dataclass

from parity.lockfile import Locked


@dataclass(frozen=True)
class TensorForm:
    """A tensor's dtype, as safetensors names it, and shape."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class TensorDrift:
    """One tensor that differs between the two sides."""

    name: str  # In its file; ``""`` for the only one of a file, ``#0`` for the first of a batch
    before: TensorForm | None
    after: TensorForm | None
    count: int = 0  # Elements that were compared; 0 where forms differ or one side is absent
    changed: int = 0  # Elements whose bits differ
    #: Largest difference of a pair of finite elements; None where it means nothing (bool, complex).
    max_abs: float | None = None
    max_ulp: int | None = None  # The same in steps of the dtype; None for all but floats
    lost: int = 0  # Pairs of which one is NaN or infinite and the other is not the same
    note: str = ""


@dataclass(frozen=True)
class KeyDrift:
    """One value of a JSON file, by its path (``tensors.fc.weight.dtype``), as short JSON text."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True, kw_only=True)
class FileDrift:
    """One file that was added, removed or changed: POSIX path in the tree, and sizes in bytes."""

    path: str
    before: int | None
    after: int | None
    tensors: tuple[TensorDrift, ...] = ()
    #: The first keys that changed, of a JSON file; ``more_keys`` counts the others.
    keys: tuple[KeyDrift, ...] = ()
    more_keys: int = 0
    note: str = ""

    @property
    def state(self) -> str:
        """``added``, ``removed`` or ``changed``."""
        return "added" if self.before is None else "removed" if self.after is None else "changed"


@dataclass(frozen=True)
class ItemMove:
    """An item of a loader's case, by number or id, and its positions."""

    item: int
    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class LoaderDrift:
    """Changes of the items that one case delivers."""

    case: str
    items: int = 0  # Delivered before
    moved: int = 0  # Number of items at another position; ``moves`` are the first of them
    moves: tuple[ItemMove, ...] = ()
    removed: tuple[int, ...] = ()
    added: tuple[int, ...] = ()
    unknown: int = 0  # Rows delivered after that are no item of the data set before
    #: Items of each batch, before and after, where they differ.
    batch_sizes: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class TreeDrift:
    """All differences between two trees; ``files`` are in the order of their paths."""

    files: tuple[FileDrift, ...]
    loaders: tuple[LoaderDrift, ...] = ()
    unchanged_files: int = 0


@dataclass(frozen=True, kw_only=True)
class BundleDrift:
    """Two states of one bundle."""

    bundle: str
    before: Locked | None
    after: Locked
    #: Differences in content; None where there is nothing to compare with.
    trees: TreeDrift | None = None
    missing: str = ""  # Reason why the content of before is no longer available, or ``""``

    @property
    def verdict(self) -> str:
        """``first``, ``same``, ``re-packed`` (other archive, equal content) or ``changed``."""
        if self.before is None:
            return "first"
        if self.before.sha256 == self.after.sha256:
            return "same"
        known = self.before.tree is not None and self.before.tree == self.after.tree
        equal = self.trees is not None and not self.trees.files
        return "re-packed" if known or equal else "changed"
