"""Lay the slots of a pipeline's run beside the reference's."""

from __future__ import annotations

import numpy as np

from parity.errors import DumpError, Problem
from parity.lab.views.base import TensorView, build_unknown_error
from parity.suites.base import Case, Dump
from parity.suites.pipeline.runs import COLUMNS, read_run
from parity.tensors.dtypes import DTYPES


def view(case: Case, dump: Dump, tensor: str) -> TensorView:
    """Lay each delivered slot beside the reference's slot of the same position."""
    if tensor not in COLUMNS:
        raise build_unknown_error(tensor, COLUMNS)
    meta, expected = case.detail
    runs = []
    for folder in (meta.folder, dump.folder):
        run, found = read_run(folder, expected)
        if run is None or not run.sizes:
            message = found[0].message if found else "the folder has no batch"
            raise DumpError(Problem("batch-missing", message))
        runs.append(run)
    columns = [np.asarray(getattr(run, tensor), "<f4") for run in runs]
    return TensorView(
        expected=columns[0],
        obtained=columns[1],
        dtype=DTYPES["F32"],
        note="each row beside the reference's row of the same position",
        rows=runs[1].format_position,
    )
