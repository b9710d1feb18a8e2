"""Lay the rows of a loader's run beside the items of its data set."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.errors import DumpError, Problem
from parity.items.checks import format_position
from parity.items.identity import identify_rows
from parity.items.matching import UNKNOWN
from parity.lab.views.base import TensorView, build_unknown_error
from parity.suites.base import Case, Dump
from parity.suites.dataloader.suite import read_folder, read_reference
from parity.tensors.dtypes import DTYPES


def view(case: Case, dump: Dump, tensor: str) -> TensorView:
    """Lay each delivered row beside the item that is expected there, or that it is."""
    if tensor not in ("features", "labels"):
        raise build_unknown_error(tensor, ("features", "labels"))
    reference = read_reference(case.detail)
    batches, _, found = read_folder(dump.folder, reference.shape)
    if batches is None:
        raise DumpError(Problem(found[0].code, found[0].message))
    is_ordered = case.detail.mode == "ORDER"
    dataset, tolerance = reference.dataset, case.tolerances["max_abs"]
    identified = identify_rows(dataset, reference.expected, batches, tolerance, ordered=is_ordered)
    rows, note = identified, "each row beside the item that it is"
    if is_ordered and len(reference.expected) == len(identified):
        rows, note = reference.expected, "each row beside the one expected there"
    table: NDArray[Any] = getattr(dataset, tensor)
    known = rows != UNKNOWN
    expected = np.full((len(rows), *table.shape[1:]), np.nan, "<f4")
    expected[known] = table[rows[known]]

    def format_row(position: int) -> str:
        item = f"item {identified[position]}" if identified[position] != UNKNOWN else "unknown item"
        return f"{format_position(batches.sizes, position)}, {item}"

    return TensorView(
        expected=expected,
        obtained=getattr(batches, tensor),
        dtype=DTYPES["F32"],
        note=note,
        rows=format_row,
    )
