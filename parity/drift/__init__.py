"""Two trees held against each other: what changed from one to the other, as data.

``reports/drift_words`` puts it into words. Nothing here raises on a file that cannot be
read: that is said in a ``note``. Files are compared in chunks; tensors are never held.
"""

from parity.drift.records import (
    BundleDrift,
    FileDrift,
    Form,
    KeyDrift,
    LoaderDrift,
    Move,
    TensorDrift,
    TreeDrift,
)
from parity.drift.trees import tree_drift

__all__ = [
    "BundleDrift",
    "FileDrift",
    "Form",
    "KeyDrift",
    "LoaderDrift",
    "Move",
    "TensorDrift",
    "TreeDrift",
    "tree_drift",
]
