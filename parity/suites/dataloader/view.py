"""Lay a dump's features or labels beside the reference's, for ``parity show``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from parity.errors import DumpError, Problem
from parity.items.identity import identify_rows
from parity.items.matching import UNKNOWN
from parity.suites.base import TensorView
from parity.suites.dataloader import batch_folder
from parity.suites.dataloader.reference import read_reference
from parity.suites.views import build_unknown_error
from parity.tensors.dtypes import DTYPES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from parity.suites.base import Case, Dump


def build_view(case: Case, dump: Dump, tensor: str) -> TensorView:
    """Lay each delivered row beside the item that is expected there, or that it is."""
    if tensor not in ("features", "labels"):
        raise build_unknown_error(tensor, ("features", "labels"))
    reference = read_reference(case.detail)
    batches, _, found = batch_folder.read_folder(dump.folder, reference.shape)
    if batches is None:
        raise DumpError(Problem(found[0].code, found[0].message))
    ordered = case.detail.mode == "ORDER"
    dataset, expected_rows = reference.dataset, reference.expected
    candidates = np.arange(len(dataset)) if case.detail.mode == "SUBSET" else expected_rows
    identified = identify_rows(
        dataset, candidates, batches, case.tolerances["max_abs"], ordered=ordered
    )
    if ordered and len(expected_rows) == len(identified):
        rows, note = expected_rows, "each row beside the one expected there"
    else:
        rows, note = identified, "each row beside the item that it is"
    table: NDArray[Any] = dataset.features if tensor == "features" else dataset.labels
    known = rows != UNKNOWN
    expected = np.full((len(rows), *table.shape[1:]), np.nan, "<f4")
    expected[known] = table[rows[known]]
    obtained = batches.features if tensor == "features" else batches.labels

    def row(position: int) -> str:
        item = f"item {identified[position]}" if identified[position] != UNKNOWN else "unknown item"
        return f"{batches.locate(position)}, {item}"

    return TensorView(
        expected=expected, obtained=obtained, dtype=DTYPES["F32"], note=note, rows=row
    )
