"""Why a loader's items are wrong: hypotheses about whole runs, each proven on every item.

Items are numbers, as ``parity.items`` has them. A hypothesis holds where it predicts the
whole delivered run, or all that was repeated or is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity import items
from parity.diagnose import functions, members, orders, rolls
from parity.diagnose.cause import Cause
from parity.diagnose.deliveries import Delivery

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from parity.diagnose.deliveries import Ints

    Floats = NDArray[np.floating]

__all__ = ["Delivery", "delivery", "labels"]


def delivery(run: Delivery) -> Cause | None:
    """The first cause that the whole run bears out."""
    if not len(run.came):
        return None
    return members.members(run) or orders.orders(run)


def labels(
    due: Floats, came: Floats, table: Floats, delivered: Ints, sizes: tuple[int, ...] = ()
) -> Cause | None:
    """Why labels do not belong to the items that they came with.

    Args:
        due: ``(n,)`` labels of the delivered items.
        came: ``(n,)`` labels as delivered.
        table: ``(m,)`` labels of all items in the data set's own order.
        delivered: ``(n,)`` the delivered items.
        sizes: Items of each batch, where all of them are known.
    """
    found = items.labels(due, came, sizes=sizes)
    if (cause := rolls.cause(found, len(due))) is not None:
        return cause
    if not len(found.wrong):
        return None
    ascending = bool((np.diff(delivered) > 0).all())
    if not ascending and np.array_equal(table[: len(came)], came):
        text = "features were shuffled and labels were not"
        evidence = f"all {len(came):,} labels stand in the data set's own order"
        return Cause("labels-unshuffled", text, evidence)
    return functions.function(due, came, 0.0, "label", "labels") or functions.classes(due, came)
