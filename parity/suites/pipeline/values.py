"""Findings about features and labels that are not those of the id beside them.

A value that no item has is an edited value; values that are all there, at other rows,
went apart from the ids.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from parity import items
from parity.matching import UNKNOWN, match
from parity.suites import diagnosed
from parity.suites.item_findings import each
from parity.suites.words import EXAMPLES, number, wrong

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from parity.diagnose.cause import Cause
    from parity.items import Ints, Labels
    from parity.reference_pipeline import Dataset
    from parity.results import Finding
    from parity.suites.pipeline.runs import Run

    Numbers = NDArray[Any]

#: By column: the code of a value that is no other item's, and what its values are called.
_SINGLE = {"x": "values", "y": "label"}
_WORDS = {"x": ("feature", "features"), "y": ("label", "labels")}
_OTHERS = {"x": "ids and labels", "y": "ids and features"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
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
    bound: float

    @property
    def batch(self) -> Ints:
        """``[k]``: which batch of the run each row stands in."""
        sizes = self.run.sizes
        return np.repeat(np.arange(len(sizes)), sizes)[self.slot]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each batch that has any."""
        return tuple(np.unique(self.batch, return_counts=True)[1].tolist())

    def due(self, name: str) -> Numbers:
        """``[k]``: a column of the data set, at each row's item."""
        return np.asarray(getattr(self.dataset, name)[self.item])

    def came(self, name: str) -> Numbers:
        """``[k]``: a column as delivered."""
        return np.asarray(getattr(self.run, name)[self.slot])

    def close(self, name: str) -> NDArray[np.bool_]:
        """``[k]``: the row has the value of its item."""
        return items.close(self.due(name), self.came(name), self.bound)

    def only(self, keep: NDArray[np.bool_]) -> Rows:
        """Those of the rows where ``keep`` holds."""
        return Rows(
            run=self.run,
            dataset=self.dataset,
            slot=self.slot[keep],
            item=self.item[keep],
            bound=self.bound,
        )

    def told(self, name: str, row: int) -> str:
        """What is wrong with a value, in words."""
        due, came = self.due(name)[row], self.came(name)[row]
        gap = abs(float(came) - float(due))
        return (
            f"{self.run.at(self.slot[row])} (item {self.dataset.ids[self.item[row]]}) has {name} "
            f"{number(came)}, expected {number(due)} (off by {gap:.3g}, bound {self.bound:g})"
        )


def value_findings(rows: Rows) -> list[Finding]:
    """Findings about x and y of known items, told apart by what became of them."""
    moved = of_other_items(rows)
    rest = rows.only(moved == UNKNOWN)
    return [*_mislabelled(rows, moved), *_column("x", rest), *_column("y", rest)]


def largest_gap(rows: Rows) -> float:
    """Largest difference of x and y from those of the id beside them; 0 where none is known."""
    gaps = [
        np.abs(np.subtract(rows.came(name), rows.due(name), dtype=np.float64)) for name in _WORDS
    ]
    return float(np.nanmax(np.concatenate(gaps), initial=0.0))


def of_other_items(rows: Rows) -> Ints:
    """For each row the item whose x and y it bears, where both are not its own; else UNKNOWN."""
    moved = np.full(len(rows.slot), UNKNOWN, np.int64)
    both = np.flatnonzero(~rows.close("x") & ~rows.close("y"))
    if len(both):
        table = np.column_stack((rows.dataset.x, rows.dataset.y))
        pairs = np.column_stack((rows.came("x")[both], rows.came("y")[both]))
        moved[both] = match(table, pairs, rows.bound)
    return moved


def _mislabelled(rows: Rows, moved: Ints) -> list[Finding]:
    found = np.flatnonzero(moved != UNKNOWN)
    ids = rows.dataset.ids
    return each(
        "id-mislabelled",
        found,
        lambda k: (
            f"{rows.run.at(rows.slot[found[k]])} bears id {ids[rows.item[found[k]]]}, but its x "
            f"and y are those of item {ids[moved[found[k]]]}"
        ),
        "rows bear the id of another item",
    )


def _column(name: str, rows: Rows) -> list[Finding]:
    came = rows.came(name)
    result = items.labels(rows.due(name), came, rows.bound)
    if result.permuted:
        result = items.labels(rows.due(name), came, rows.bound, sizes=rows.sizes)
    finite = np.isfinite(came[result.wrong])
    simple = _function(name, rows, result)
    code = _SINGLE[name] if simple else _code(name, result)
    parts = (("nan", result.wrong[~finite]), (code, result.wrong[finite]))
    cause = _cause(name, rows, result) if result.permuted and not simple else None
    found = [_finding(code, name, rows, wrongs, cause) for code, wrongs in parts if len(wrongs)]
    return [diagnosed.with_cause(finding, lambda: simple) for finding in found]


def _function(name: str, rows: Rows, result: Labels) -> Cause | None:
    """The simple function that every value went through; simpler than a shuffle is it, if both fit.

    A roll is as simple, and stays one.
    """
    if not len(result.wrong) or result.rolled or result.inside:
        return None
    from parity.diagnose import functions

    one, many = _WORDS[name]
    cause = functions.function(rows.due(name), rows.came(name), rows.bound, one, many)
    if cause is None or not result.permuted:
        return cause
    also = f"; the {many} are those of other rows as well, so that a shuffle may give the same"
    return replace(cause, evidence=cause.evidence + also)


def _code(name: str, result: Labels) -> str:
    if not result.permuted:
        return _SINGLE[name]
    return f"{_WORDS[name][1]}-{'rolled' if result.rolled or result.inside else 'shuffled'}"


def _finding(code: str, name: str, rows: Rows, wrongs: Ints, cause: str | None) -> Finding:
    lines = [rows.told(name, int(row)) for row in wrongs[:EXAMPLES]]
    count, first, many = len(wrongs), int(wrongs[0]), _WORDS[name][1]
    head = "" if count == 1 else f"{count:,} of {len(rows.slot):,} {many} are wrong; first: "
    return wrong(
        code,
        head + lines[0],
        tensor=name,
        index=(int(rows.slot[first]),),
        expected=number(rows.due(name)[first]),
        obtained=number(rows.came(name)[first]),
        cause=cause,
        measures={f"{many}_wrong": count, "bound": rows.bound},
        details=tuple(lines[1:]),
    )


def _cause(name: str, rows: Rows, result: Labels) -> str:
    """How a column that holds the right values went apart from the ids."""
    from parity.diagnose import rolls

    one, many = _WORDS[name]
    if by := result.rolled or result.inside:
        place = "" if result.rolled else " in its batch"
        return (
            f"every {one} is the one of the item {rolls.way(by)}{place}: "
            f"{many} are rolled against {_OTHERS[name]}{rolls.open_question(result, many)}"
        )
    due, came, batch = rows.due(name), rows.came(name), rows.batch
    by_due, by_came = np.lexsort((due, batch)), np.lexsort((came, batch))
    inside = items.close(due[by_due], came[by_came], rows.bound).all()
    where = "each within its batch" if inside else "across batches"
    return (
        f"the {many} are those of the run, at other rows, {where}: shuffled apart from "
        f"{_OTHERS[name]}"
    )
