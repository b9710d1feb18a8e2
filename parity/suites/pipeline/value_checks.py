"""Report features and labels that are not those of their id.

A value that no item has was changed; values that are all there, at other rows, were separated
from the ids.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.diagnose.cause import Cause
from parity.items import checks
from parity.items.checks import Ints, LabelDifference
from parity.items.matching import UNKNOWN, match_rows
from parity.items.records import Dataset
from parity.results import Finding
from parity.suites import diagnosis
from parity.suites.messages import EXAMPLES, format_number, report_each, report_examples
from parity.suites.pipeline.runs import ExpectedRun, Run, SlotKinds

Numbers = NDArray[Any]

#: By column: the code of a value that no item has, and the nouns for its values.
_VALUE_CODES = {"x": "values", "y": "label"}
_COLUMN_NOUNS = {"x": ("feature", "features"), "y": ("label", "labels")}
_OTHER_COLUMNS = {"x": "ids and labels", "y": "ids and features"}


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownRows:
    """Slots of a run that have an item of the data set."""

    run: Run
    dataset: Dataset
    slot: Ints  # ``[k]`` slots of the run
    item: Ints  # ``[k]`` indices into the data set
    tolerance: float  # Largest difference of a value, absolute

    @classmethod
    def of(cls, run: Run, slots: SlotKinds, dataset: Dataset, tolerance: float) -> KnownRows:
        """Select the slots that are not padding and have an item of ``dataset``."""
        rows = np.flatnonzero(slots.real & (slots.item != UNKNOWN))
        return cls(run=run, dataset=dataset, slot=rows, item=slots.item[rows], tolerance=tolerance)

    @property
    def batch(self) -> Ints:
        """``[k]``: batch of each row."""
        return np.repeat(np.arange(len(self.run.sizes)), self.run.sizes)[self.slot]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each batch that has any."""
        return tuple(np.unique(self.batch, return_counts=True)[1].tolist())

    def read_expected(self, name: str) -> Numbers:
        """Return ``[k]``: a column of the data set, at each row's item."""
        return np.asarray(getattr(self.dataset, name)[self.item])

    def read_obtained(self, name: str) -> Numbers:
        """Return ``[k]``: a column as delivered."""
        return np.asarray(getattr(self.run, name)[self.slot])

    def is_close(self, name: str) -> NDArray[np.bool_]:
        """Return ``[k]``: the row has the value of its item."""
        return checks.is_close(self.read_expected(name), self.read_obtained(name), self.tolerance)

    def select(self, keep: NDArray[np.bool_]) -> KnownRows:
        """Select the rows where ``keep`` is true."""
        return replace(self, slot=self.slot[keep], item=self.item[keep])

    def describe(self, name: str, row: int) -> str:
        """Describe a wrong value."""
        expected, obtained = self.read_expected(name)[row], self.read_obtained(name)[row]
        gap = abs(float(obtained) - float(expected))
        return (
            f"{self.run.format_position(self.slot[row])} (item "
            f"{self.dataset.ids[self.item[row]]}) has {name} {format_number(obtained)}, expected "
            f"{format_number(expected)} (off by {gap:.3g}, bound {self.tolerance:g})"
        )


def check_values(rows: KnownRows) -> list[Finding]:
    """Report wrong x and y of known items, by what happened to them."""
    moved, ids = find_moved_rows(rows), rows.dataset.ids
    rest = rows.select(moved == UNKNOWN)
    mislabelled = report_each(
        "id-mislabelled",
        np.flatnonzero(moved != UNKNOWN),
        lambda row: (
            f"{rows.run.format_position(rows.slot[row])} has id {ids[rows.item[row]]}, but its x "
            f"and y are those of item {ids[moved[row]]}"
        ),
        "rows have the id of another item",
    )
    return [*mislabelled, *_check_column("x", rest), *_check_column("y", rest)]


def measure_max_gap(rows: KnownRows) -> float:
    """Return the largest difference of x and y from those of their id; 0 for no rows."""
    gaps = [
        np.abs(np.subtract(rows.read_obtained(name), rows.read_expected(name), dtype=np.float64))
        for name in _COLUMN_NOUNS
    ]
    return float(np.nanmax(np.concatenate(gaps), initial=0.0))


def find_moved_rows(rows: KnownRows) -> Ints:
    """Return each row's other item that has its x and y, where neither is its own; or UNKNOWN."""
    moved = np.full(len(rows.slot), UNKNOWN, np.int64)
    both = np.flatnonzero(~rows.is_close("x") & ~rows.is_close("y"))
    if len(both):
        table = np.column_stack((rows.dataset.x, rows.dataset.y))
        pairs = np.column_stack((rows.read_obtained("x")[both], rows.read_obtained("y")[both]))
        moved[both] = match_rows(table, pairs, rows.tolerance)
    return moved


def _check_column(name: str, rows: KnownRows) -> list[Finding]:
    expected, obtained = rows.read_expected(name), rows.read_obtained(name)
    result = checks.compare_labels(expected, obtained, rows.tolerance)
    if result.permuted:
        result = checks.compare_labels(expected, obtained, rows.tolerance, sizes=rows.sizes)
    function = _find_function(name, rows, result)
    is_moved = result.permuted and not function
    code, cause = _describe_move(name, rows, result) if is_moved else (_VALUE_CODES[name], None)
    is_finite = np.isfinite(obtained[result.wrong])
    found, many = [], _COLUMN_NOUNS[name][1]
    for kind, wrong in (("nan", result.wrong[~is_finite]), (code, result.wrong[is_finite])):
        if len(wrong):
            first = int(wrong[0])
            finding = report_examples(
                kind,
                [rows.describe(name, row) for row in wrong[:EXAMPLES].tolist()],
                len(wrong),
                f"of {len(rows.slot):,} {many} are wrong",
                tensor=name,
                index=(int(rows.slot[first]),),
                expected=format_number(expected[first]),
                obtained=format_number(obtained[first]),
                cause=cause,
                measures={f"{many}_wrong": len(wrong), "bound": rows.tolerance},
            )
            found.append(diagnosis.add_cause(finding, lambda: function))
    return found


def _find_function(name: str, rows: KnownRows, result: LabelDifference) -> Cause | None:
    """Find the simple function that every value went through; only a roll is as simple."""
    if not len(result.wrong) or result.shift or result.batch_shift:
        return None
    from parity.diagnose.loaders import causes

    one, many = _COLUMN_NOUNS[name]
    cause = causes.find_value_function(
        rows.read_expected(name), rows.read_obtained(name), rows.tolerance, one, many
    )
    if cause is None or not result.permuted:
        return cause
    note = f"; the {many} are those of other rows as well, so that a shuffle may give the same"
    return replace(cause, evidence=cause.evidence + note)


def _describe_move(name: str, rows: KnownRows, result: LabelDifference) -> tuple[str, str]:
    """Return code and cause of a column with the right values at other ids."""
    from parity.diagnose.loaders import causes

    one, many = _COLUMN_NOUNS[name]
    if shift := result.shift or result.batch_shift:
        place = "" if result.shift else " in its batch"
        return f"{many}-rolled", (
            f"every {one} is the one of the item {causes.format_roll(shift)}{place}: "
            f"{many} are rolled against {_OTHER_COLUMNS[name]}"
            f"{causes.describe_ambiguity(result, many)}"
        )
    columns = rows.read_expected(name), rows.read_obtained(name)
    expected, obtained = (column[np.lexsort((column, rows.batch))] for column in columns)
    is_inside = checks.is_close(expected, obtained, rows.tolerance).all()
    return f"{many}-shuffled", (
        f"the {many} are those of the run, at other rows, "
        f"{'each within its batch' if is_inside else 'across batches'}: shuffled apart from "
        f"{_OTHER_COLUMNS[name]}"
    )


def add_wrong_ids_cause(
    findings: list[Finding], run: Run, rows: Ints, expected: ExpectedRun, tolerance: float
) -> list[Finding]:
    """Add to findings on membership and order of ids the cause that x and y of ``rows`` show."""

    def find() -> Cause | None:
        from parity.diagnose.cause import Cause

        indices, data = expected.indices, expected.dataset
        if indices is None or len(indices) != len(rows):
            return None
        for right, given in ((data.x, run.x), (data.y, run.y)):
            if not checks.is_close(right[indices], given[rows], tolerance).all():
                return None
        text = "the ids are not those of the items, which are as expected"
        evidence = f"x and y of all {len(rows):,} items are in the expected order"
        return Cause("ids-wrong", text, evidence + _describe_id_pattern(run.id[rows], expected))

    return [diagnosis.add_cause(finding, find) for finding in findings]


def _describe_id_pattern(ids: Numbers, expected: ExpectedRun) -> str:
    """Describe the ids by a rule, as the end of a sentence; empty if there is none."""
    place = np.arange(len(ids))
    if np.array_equal(ids, place) or np.array_equal(ids, place + expected.position):
        return "; the ids are their positions"
    off = np.unique(ids - expected.dataset.ids[expected.indices])
    if len(off) == 1:
        return f"; every id is {abs(off[0]):g} too {'large' if off[0] > 0 else 'small'}"
    return ""
