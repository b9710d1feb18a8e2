"""Two trees held against each other: what changed from one to the other, as data.

``reports/drift_words`` puts it into words. Nothing here raises on a file that cannot be
read: that is said in a ``note``. Files are compared in chunks; tensors are never held.
"""

from parity.drift.changes import (
    BundleDrift,
    FileDrift,
    ItemMove,
    KeyDrift,
    LoaderDrift,
    TensorDrift,
    TensorForm,
    TreeDrift,
)
from parity.drift.trees import compare_trees

__all__ = [
    "BundleDrift",
    "FileDrift",
    "ItemMove",
    "KeyDrift",
    "LoaderDrift",
    "TensorDrift",
    "TensorForm",
    "TreeDrift",
    "compare_trees",
]
