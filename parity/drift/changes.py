"""Changes between two trees; ``before`` and ``after`` are None where a thing is absent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parity.items.checks import BatchPosition
    from parity.lockfile import Locked


@dataclass(frozen=True)
class TensorForm:
    """A tensor's dtype, as safetensors names it, and shape."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class TensorDrift:
    """One tensor that differs between the two sides.

    Attributes:
        name: In its file; ``""`` for the only one of a file, ``#0`` for the first of a batch.
        count: Elements that were compared; 0 where forms differ or one side is absent.
        changed: Elements whose bits differ.
        max_abs: Largest difference of a pair of finite elements; None where differences mean
            nothing (nothing compared, bool, complex).
        max_ulp: The same in steps of the dtype; None for all but floats.
        lost: Pairs of which one is NaN or infinite and the other is not the same.
        note: Reason why it could not be compared.
    """

    name: str
    before: TensorForm | None
    after: TensorForm | None
    count: int = 0
    changed: int = 0
    max_abs: float | None = None
    max_ulp: int | None = None
    lost: int = 0
    note: str = ""


@dataclass(frozen=True)
class KeyDrift:
    """One value of a JSON file, by its path (``tensors.fc.weight.dtype``), as short JSON text."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True, kw_only=True)
class FileDrift:
    """One file that was added, removed or changed.

    Attributes:
        path: Posix, relative to the tree.
        before, after: Its bytes.
        tensors: Tensors in it that changed.
        keys: The first that changed, of a JSON file; ``more_keys`` counts the others.
        note: Reason why its content could not be compared.
    """

    path: str
    before: int | None
    after: int | None
    tensors: tuple[TensorDrift, ...] = ()
    keys: tuple[KeyDrift, ...] = ()
    more_keys: int = 0
    note: str = ""

    @property
    def state(self) -> str:
        """``added``, ``removed`` or ``changed``."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"


@dataclass(frozen=True)
class ItemMove:
    """An item of a loader's case, by number or id, and its positions."""

    item: int
    before: BatchPosition
    after: BatchPosition


@dataclass(frozen=True, kw_only=True)
class LoaderDrift:
    """Changes of the items that one case delivers.

    Attributes:
        items: Delivered before.
        moved: Number of items at another position; ``moves`` are the first of them.
        removed, added: Items delivered only before, only after.
        unknown: Rows delivered after that are no item of the data set before.
        batch_sizes: Items of each batch, before and after, where they differ.
        note: Reason why items could not be followed.
    """

    case: str
    items: int = 0
    moved: int = 0
    moves: tuple[ItemMove, ...] = ()
    removed: tuple[int, ...] = ()
    added: tuple[int, ...] = ()
    unknown: int = 0
    batch_sizes: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class TreeDrift:
    """All differences between two trees.

    Attributes:
        files: In the order of their paths.
        loaders: Cases whose items changed.
        unchanged_files: Number of files that are the same.
    """

    files: tuple[FileDrift, ...]
    loaders: tuple[LoaderDrift, ...] = ()
    unchanged_files: int = 0


@dataclass(frozen=True, kw_only=True)
class BundleDrift:
    """Two states of one bundle.

    Attributes:
        before: Its lock before; None where it had none.
        after: Its lock now.
        trees: Differences in content; None where there is nothing to compare with.
        missing: Reason why the content of before is no longer available, or ``""``.
    """

    bundle: str
    before: Locked | None
    after: Locked
    trees: TreeDrift | None = None
    missing: str = ""

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
