"""Why a loader's items are wrong: hypotheses about whole runs, each proven on every item.

Items are numbers, as ``parity.items.checks`` has them. A hypothesis holds where it predicts the
whole delivered run, or all that was repeated or is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.diagnose import label_rolls, loader_membership, loader_orders, value_functions
from parity.diagnose.cause import Cause
from parity.diagnose.loader_run import LoaderRun
from parity.items import checks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from parity.diagnose.loader_run import Ints

    Floats = NDArray[np.floating]

__all__ = ["LoaderRun", "find_label_cause", "find_run_cause"]


def find_run_cause(run: LoaderRun) -> Cause | None:
    """The first cause that the whole run bears out."""
    if not len(run.obtained):
        return None
    return loader_membership.find_membership_cause(run) or loader_orders.find_order_cause(run)


def find_label_cause(
    expected: Floats, obtained: Floats, table: Floats, delivered: Ints, sizes: tuple[int, ...] = ()
) -> Cause | None:
    """Why labels do not belong to the items that they came with.

    Args:
        due: ``(n,)`` labels of the delivered items.
        came: ``(n,)`` labels as delivered.
        table: ``(m,)`` labels of all items in the data set's own order.
        delivered: ``(n,)`` the delivered items.
        sizes: Items of each batch, where all of them are known.
    """
    found = checks.compare_labels(expected, obtained, sizes=sizes)
    if (cause := label_rolls.find_roll(found, len(expected))) is not None:
        return cause
    if not len(found.wrong):
        return None
    ascending = bool((np.diff(delivered) > 0).all())
    if not ascending and np.array_equal(table[: len(obtained)], obtained):
        text = "features were shuffled and labels were not"
        evidence = f"all {len(obtained):,} labels stand in the data set's own order"
        return Cause("labels-unshuffled", text, evidence)
    return value_functions.find_value_function(
        expected, obtained, 0.0, "label", "labels"
    ) or value_functions.find_class_mapping(expected, obtained)
