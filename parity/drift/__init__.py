"""Compare two states of a bundle: the changes, as data.

``reports/drift_text`` formats them. A file that cannot be read raises nothing: a ``note`` says
so. Files are compared in chunks, never loaded whole.
"""

from parity.drift.changes import BundleDrift
from parity.drift.trees import compare_trees

__all__ = ["BundleDrift", "compare_trees"]
