"""Lay a column of a dump beside the reference's, slot by slot, for ``parity show``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.errors import DumpError, Problem
from parity.suites.base import TensorView
from parity.suites.pipeline.run_reader import read_run
from parity.suites.pipeline.runs import COLUMNS
from parity.suites.views import build_unknown_error
from parity.tensors.dtypes import DTYPES

if TYPE_CHECKING:
    from parity.suites.base import Case, Dump


def build_view(case: Case, dump: Dump, tensor: str) -> TensorView:
    """Lay each delivered slot beside the reference's slot of the same position."""
    if tensor not in COLUMNS:
        raise build_unknown_error(tensor, COLUMNS)
    meta, expected_run = case.detail.meta, case.detail.expected
    runs = []
    for folder in (meta.folder, dump.folder):
        run, found = read_run(folder, meta.start_batch, len(expected_run.sizes))
        if run is None or not run.sizes:
            message = found[0].message if found else "the folder has no batch"
            raise DumpError(Problem("batch-missing", message))
        runs.append(run)
    expected, obtained = (np.asarray(getattr(run, tensor), "<f4") for run in runs)
    note = "each row beside the reference's row of the same position"
    return TensorView(
        expected=expected,
        obtained=obtained,
        dtype=DTYPES["F32"],
        note=note,
        rows=runs[1].format_position,
    )
