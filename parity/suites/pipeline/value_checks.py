"""Findings about features and labels that are not those of the id beside them.

A value that no item has is an edited value; values that are all there, at other rows,
went apart from the ids.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.items import checks
from parity.items.matching import UNKNOWN, match_rows
from parity.suites import diagnosis
from parity.suites.item_findings import report_each
from parity.suites.messages import EXAMPLES, format_number, report_error

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from parity.diagnose.cause import Cause
    from parity.items.checks import Ints, LabelDifference
    from parity.items.reference_pipeline import Dataset
    from parity.results import Finding
    from parity.suites.pipeline.runs import Run

    Numbers = NDArray[Any]

#: By column: the code of a value that is no other item's, and what its values are called.
_VALUE_CODES = {"x": "values", "y": "label"}
_COLUMN_NOUNS = {"x": ("feature", "features"), "y": ("label", "labels")}
_OTHER_COLUMNS = {"x": "ids and labels", "y": "ids and features"}


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownRows:
    """The slots of a run that hold an item of the data set.

    Attributes:
        slot: ``[k]`` places in the run.
        item: ``[k]`` indices into the data set.
        bound: Largest difference of a value, absolute.
    """

    run: Run
    dataset: Dataset
    slot: Ints
    item: Ints
    tolerance: float

    @property
    def batch(self) -> Ints:
        """``[k]``: which batch of the run each row stands in."""
        sizes = self.run.sizes
        return np.repeat(np.arange(len(sizes)), sizes)[self.slot]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each batch that has any."""
        return tuple(np.unique(self.batch, return_counts=True)[1].tolist())

    def read_expected(self, name: str) -> Numbers:
        """``[k]``: a column of the data set, at each row's item."""
        return np.asarray(getattr(self.dataset, name)[self.item])

    def read_obtained(self, name: str) -> Numbers:
        """``[k]``: a column as delivered."""
        return np.asarray(getattr(self.run, name)[self.slot])

    def is_close(self, name: str) -> NDArray[np.bool_]:
        """``[k]``: the row has the value of its item."""
        return checks.is_close(self.read_expected(name), self.read_obtained(name), self.tolerance)

    def select(self, keep: NDArray[np.bool_]) -> KnownRows:
        """Those of the rows where ``keep`` holds."""
        return KnownRows(
            run=self.run,
            dataset=self.dataset,
            slot=self.slot[keep],
            item=self.item[keep],
            tolerance=self.tolerance,
        )

    def describe(self, name: str, row: int) -> str:
        """What is wrong with a value, in words."""
        expected, obtained = self.read_expected(name)[row], self.read_obtained(name)[row]
        gap = abs(float(obtained) - float(expected))
        return (
            f"{self.run.format_position(self.slot[row])} (item {self.dataset.ids[self.item[row]]}) has {name} "
            f"{format_number(obtained)}, expected {format_number(expected)} (off by {gap:.3g}, bound {self.tolerance:g})"
        )


def check_values(rows: KnownRows) -> list[Finding]:
    """Findings about x and y of known items, told apart by what became of them."""
    moved = find_moved_rows(rows)
    rest = rows.select(moved == UNKNOWN)
    return [*_check_mislabelled(rows, moved), *_check_column("x", rest), *_check_column("y", rest)]


def measure_max_gap(rows: KnownRows) -> float:
    """Largest difference of x and y from those of the id beside them; 0 where none is known."""
    gaps = [
        np.abs(np.subtract(rows.read_obtained(name), rows.read_expected(name), dtype=np.float64))
        for name in _COLUMN_NOUNS
    ]
    return float(np.nanmax(np.concatenate(gaps), initial=0.0))


def find_moved_rows(rows: KnownRows) -> Ints:
    """For each row the item whose x and y it bears, where both are not its own; else UNKNOWN."""
    moved = np.full(len(rows.slot), UNKNOWN, np.int64)
    both = np.flatnonzero(~rows.is_close("x") & ~rows.is_close("y"))
    if len(both):
        table = np.column_stack((rows.dataset.x, rows.dataset.y))
        pairs = np.column_stack((rows.read_obtained("x")[both], rows.read_obtained("y")[both]))
        moved[both] = match_rows(table, pairs, rows.tolerance)
    return moved


def _check_mislabelled(rows: KnownRows, moved: Ints) -> list[Finding]:
    found = np.flatnonzero(moved != UNKNOWN)
    ids = rows.dataset.ids
    return report_each(
        "id-mislabelled",
        found,
        lambda k: (
            f"{rows.run.format_position(rows.slot[found[k]])} bears id {ids[rows.item[found[k]]]}, but its x "
            f"and y are those of item {ids[moved[found[k]]]}"
        ),
        "rows bear the id of another item",
    )


def _check_column(name: str, rows: KnownRows) -> list[Finding]:
    obtained = rows.read_obtained(name)
    result = checks.compare_labels(rows.read_expected(name), obtained, rows.tolerance)
    if result.permuted:
        result = checks.compare_labels(
            rows.read_expected(name), obtained, rows.tolerance, sizes=rows.sizes
        )
    finite = np.isfinite(obtained[result.wrong])
    function = _find_function(name, rows, result)
    code = _VALUE_CODES[name] if function else _choose_code(name, result)
    parts = (("nan", result.wrong[~finite]), (code, result.wrong[finite]))
    cause = _describe_cause(name, rows, result) if result.permuted and not function else None
    found = [
        _build_finding(code, name, rows, wrongs, cause) for code, wrongs in parts if len(wrongs)
    ]
    return [diagnosis.add_cause(finding, lambda: function) for finding in found]


def _find_function(name: str, rows: KnownRows, result: LabelDifference) -> Cause | None:
    """The simple function that every value went through; simpler than a shuffle is it, if both fit.

    A roll is as simple, and stays one.
    """
    if not len(result.wrong) or result.shift or result.batch_shift:
        return None
    from parity.diagnose import value_functions

    one, many = _COLUMN_NOUNS[name]
    cause = value_functions.find_value_function(
        rows.read_expected(name), rows.read_obtained(name), rows.tolerance, one, many
    )
    if cause is None or not result.permuted:
        return cause
    note = f"; the {many} are those of other rows as well, so that a shuffle may give the same"
    return replace(cause, evidence=cause.evidence + note)


def _choose_code(name: str, result: LabelDifference) -> str:
    if not result.permuted:
        return _VALUE_CODES[name]
    return (
        f"{_COLUMN_NOUNS[name][1]}-{'rolled' if result.shift or result.batch_shift else 'shuffled'}"
    )


def _build_finding(
    code: str, name: str, rows: KnownRows, wrong_rows: Ints, cause: str | None
) -> Finding:
    lines = [rows.describe(name, int(row)) for row in wrong_rows[:EXAMPLES]]
    count, first, many = len(wrong_rows), int(wrong_rows[0]), _COLUMN_NOUNS[name][1]
    head = "" if count == 1 else f"{count:,} of {len(rows.slot):,} {many} are wrong; first: "
    return report_error(
        code,
        head + lines[0],
        tensor=name,
        index=(int(rows.slot[first]),),
        expected=format_number(rows.read_expected(name)[first]),
        obtained=format_number(rows.read_obtained(name)[first]),
        cause=cause,
        measures={f"{many}_wrong": count, "bound": rows.tolerance},
        details=tuple(lines[1:]),
    )


def _describe_cause(name: str, rows: KnownRows, result: LabelDifference) -> str:
    """How a column that holds the right values went apart from the ids."""
    from parity.diagnose import label_rolls

    one, many = _COLUMN_NOUNS[name]
    if shift := result.shift or result.batch_shift:
        place = "" if result.shift else " in its batch"
        return (
            f"every {one} is the one of the item {label_rolls.format_roll(shift)}{place}: "
            f"{many} are rolled against {_OTHER_COLUMNS[name]}{label_rolls.describe_ambiguity(result, many)}"
        )
    expected, obtained, batch = rows.read_expected(name), rows.read_obtained(name), rows.batch
    expected_order, obtained_order = np.lexsort((expected, batch)), np.lexsort((obtained, batch))
    inside = checks.is_close(
        expected[expected_order], obtained[obtained_order], rows.tolerance
    ).all()
    where = "each within its batch" if inside else "across batches"
    return (
        f"the {many} are those of the run, at other rows, {where}: shuffled apart from "
        f"{_OTHER_COLUMNS[name]}"
    )
