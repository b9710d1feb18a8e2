"""Faults of an input pipeline's port, each with the findings that it must raise, and no others.

The first fault of a code is the example that ``docs/pipeline.md`` shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.reference_pipeline import Dataset, fingerprint
from tests.support.pipeline import ID, LESSON, MASK, FreePipeline, X, Y, faithful

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.support.pipeline import Dumps, Written

    Change = Callable[[Written], object]

PADDING = (-1.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        code: Word of the finding that it is for.
        case: Where it shows.
        plant: Changes faithful dumps of all cases.
        codes: Of all findings of this level in ``case``; there are none elsewhere.
        also: Codes in other cases, where a fault concerns several.
        order: The option ``order``; under ``free`` the port has an order of its own.
    """

    code: str
    case: str
    plant: Callable[[Dumps], None]
    codes: tuple[str, ...]
    also: dict[str, list[str]]
    order: str = "exact"
    level: str = "error"

    def __str__(self) -> str:
        return f"{self.code}-{self.case}"


def _in(
    code: str,
    case: str,
    change: Change,
    *,
    codes: Sequence[str] = (),
    honest: bool = True,
    order: str = "exact",
    level: str = "error",
) -> Fault:
    """A fault in one case; ``honest``: the claims say what the batches then hold."""

    def plant(dumps: Dumps) -> None:
        change(dumps[case])
        if honest:
            dumps[case].honest()

    found = tuple(codes) or (code,)
    return Fault(code=code, case=case, plant=plant, codes=found, also={}, order=order, level=level)


def row(item: int, *, mask: float = 1.0) -> tuple[float, float, float, float]:
    """The slot of an item as it should be."""
    return (float(item), float(LESSON.x[item]), float(LESSON.y[item]), mask)


def put(**rows: tuple[float, float, float, float]) -> Change:
    """Whole slots written anew: ``put(s3=row(5))`` puts item 5 into slot 3."""
    return lambda w: w.set_rows({int(name[1:]): values for name, values in rows.items()})


def edit(which: int, slot: int, value: float) -> Change:
    """One value written anew."""

    def change(w: Written) -> None:
        column = w.column(which)
        column[slot] = value
        w.replace(which, column)

    return change


def rolled(*which: int, by: int = -1) -> Change:
    """Columns rolled against the others."""

    def change(w: Written) -> None:
        for column in which:
            w.replace(column, np.roll(w.column(column), by))

    return change


def swapped(first: int, second: int, *which: int) -> Change:
    """Columns swapped between two slots."""

    def change(w: Written) -> None:
        for name in which:
            column = w.column(name)
            column[[first, second]] = column[[second, first]]
            w.replace(name, column)

    return change


def sized(*sizes: int, more: Sequence[tuple[float, ...]] = (), rows: int | None = None) -> Change:
    """The same slots (the first ``rows`` of them, then ``more``) in other batches."""
    return lambda w: w.rebatch([*w.rows()[:rows], *more], sizes)


def claim(key: str, value: Any) -> Change:
    """Another value of one claim."""

    def change(w: Written) -> None:
        assert w.claims is not None
        w.claims[key] = value

    return change


def all_of(*changes: Change) -> Change:
    """Several changes in one dump."""
    return lambda w: [change(w) for change in changes]


def _numbered_from_zero(w: Written) -> None:
    w.batches = dict(enumerate(w.batches.values()))


def _lose_batch(w: Written) -> None:
    del w.batches[1]


def _tensors(*names: int) -> Change:
    def change(w: Written) -> None:
        w.batches[0] = [w.batches[0][name] for name in names]

    return change


def _columns_of_one(w: Written) -> None:
    w.batches[0] = [column[:, None] for column in w.batches[0]]


def _part_of(which: int, size: int) -> Change:
    def change(w: Written) -> None:
        w.batches[0][which] = w.batches[0][which][:size]

    return change


def _empty_batch(w: Written) -> None:
    w.batches[3] = [np.empty(0, np.float32)] * 4


def _nothing(w: Written, *, claims: bool = False) -> None:
    w.batches = {}
    if not claims:
        w.claims = None
        w.files["run.log"] = b"done"


#: Cases whose runs can be given faults of single rows, with their padded slots left alone.
RUNS = ("sequential", "keep", "drop", "pad", "keep-batch-3", "pad-batch-5", "drop-batch-5")
CUTS = ("keep-resume-1", "keep-resume-2", "pad-resume-1", "pad-resume-2")


def _of_rows(case: str) -> Iterator[Fault]:
    """Faults of single rows, for any run of three items or more."""
    yield _in("item-unknown", case, edit(ID, 1, 99))
    yield _in("item-unknown", case, edit(ID, 1, 2.5))
    yield _in("item-unknown", case, edit(ID, 0, np.nan))
    yield _in("order", case, swapped(0, 2, ID, X, Y, MASK))
    yield _in("label", case, edit(Y, 1, 0.55))
    yield _in("values", case, edit(X, 1, 0.55))
    yield _in("nan", case, edit(X, 0, np.nan))
    yield _in("nan", case, edit(Y, 2, np.inf))
    yield _in("labels-shuffled", case, swapped(0, 2, Y))
    yield _in("features-shuffled", case, swapped(0, 2, X))
    yield _in("id-mislabelled", case, swapped(0, 2, X, Y))
    yield _in("mask-values", case, edit(MASK, 0, 0.5))
    yield _in("item-masked", case, edit(MASK, 1, 0))


def _examples() -> Iterator[Fault]:
    yield _in("batch-missing", "keep", _lose_batch, honest=False)
    yield _in("tensor-count", "keep", _tensors(ID, X, Y), honest=False)
    yield _in("shape", "pad", _columns_of_one, honest=False)
    yield _in("shape", "keep", _part_of(X, 3), honest=False)
    yield _in("shape", "drop", _part_of(MASK, 3), honest=False)
    yield _in("shape", "keep", _empty_batch, honest=False)
    yield _in("batch-count", "keep", sized(4, 7))
    yield _in("batch-size", "keep", sized(3, 4, 4))
    yield _in("final-batch", "keep", sized(4, 4, 4, more=[PADDING]))
    yield _in("final-batch", "keep", sized(4, 4, rows=8))
    yield _in("final-batch", "drop", sized(4, 4, 3, more=[row(2), row(5), row(3)]))
    yield _in("final-batch", "drop", sized(4, 4, 4, more=[row(2), row(5), row(3), PADDING]))
    yield _in("final-batch", "pad", sized(4, 4, 3, rows=11))
    yield _in("final-batch", "pad", sized(4, 4, rows=8))
    yield _in("final-batch", "keep-batch-16", sized(rows=0))
    yield _in("final-batch", "drop-batch-16", sized(11, more=[row(int(i)) for i in _ORDER]))
    yield from _masks()
    yield _in("item-twice", "pad", put(s11=row(9)))
    both = ("item-twice", "item-missing")
    yield _in("item-twice", "keep", put(s5=row(9)), codes=both)
    yield _in("item-twice", "drop", put(s5=row(9)), order="free")
    strange = ("item-not-due", "item-missing")
    yield _in("item-not-due", "drop", put(s3=row(3)), codes=strange)
    yield _in("item-missing", "pad", put(s10=PADDING))
    for case in ("keep", *RUNS, *CUTS):
        yield from _of_rows(case)
    yield _in("labels-rolled", "keep", rolled(Y))
    yield _in("labels-rolled", "drop", rolled(Y, by=4))
    yield _in("labels-shuffled", "keep", lambda w: w.replace(Y, w.column(Y)[::-1]))
    yield _in("features-rolled", "keep", rolled(X))
    yield _in("features-rolled", "keep-resume-1", rolled(X, by=2))
    apart = ("features-rolled", "labels-rolled")
    yield _in("features-rolled", "keep", all_of(rolled(X), rolled(Y, by=2)), codes=apart)
    yield _in("id-mislabelled", "keep", rolled(X, Y))
    yield _in("order", "keep", lambda w: w.rebatch(_batches_moved(w), (4, 4, 3)))


_ORDER = [9, 10, 4, 1, 0, 7, 6, 8, 2, 5, 3]


def _batches_moved(w: Written) -> list[tuple[float, ...]]:
    rows = w.rows()
    return [*rows[4:8], *rows[:4], *rows[8:]]


def _masks() -> Iterator[Fault]:
    yield _in("mask-position", "pad", put(s8=PADDING, s9=row(2), s10=row(5), s11=row(3)))
    gone = ("mask-position", "item-missing")
    yield _in("mask-position", "keep", put(s5=PADDING), codes=gone)
    yield _in("mask-position", "keep", put(s10=PADDING), codes=gone)
    yield _in("padding-content", "pad", edit(X, 11, 0.3))
    yield _in("padding-content", "pad", edit(Y, 11, np.nan))
    yield _in("padding-content", "pad", put(s11=row(9, mask=0.0)))
    yield _in("padding-content", "pad-batch-16", edit(ID, 13, -2))
    yield _in("padding-counted", "pad", edit(MASK, 11, 1))
    # -2.2 / 12 where the eleven observations have the mean 0.
    all_slots = sum(row(i)[2] for i in [2, 5, 3]) / 4
    yield _in("padding-counted", "pad-resume-2", claim("masked_mean", all_slots), honest=False)
    inverted = ("padding-counted", "item-masked")
    flip: Change = lambda w: w.replace(MASK, 1 - w.column(MASK))  # noqa: E731
    yield _in("item-masked", "keep", edit(MASK, 1, 0))
    yield _in("item-masked", "pad", flip, codes=inverted)


def _resumes() -> Iterator[Fault]:
    yield _in("resume-start", "keep-resume-1", _numbered_from_zero)
    yield _in("resume-start", "keep-resume-2", lambda w: w.rebatch(_rows_of_all(), (4, 4, 3)))
    for case in ("keep", "pad"):
        for cut in (1, 2, 3):
            yield _restarted(case, cut)
            if cut < 3:
                yield _reordered(case, cut)
    yield _in("resume-start", "keep-resume-2", sized_from(2, (3,), [6, 8, 2]))
    for case in ("keep", "pad"):
        for cut in (0, 1, 2):
            yield _in("resume-values", f"{case}-resume-{cut}", edit(X, 0, _ulp(cut)))
    yield _free_resume()


def _rows_of_all() -> list[tuple[float, ...]]:
    return [row(item) for item in _ORDER]


def sized_from(first: int, sizes: Sequence[int], items: Sequence[int]) -> Change:
    """Batches from number ``first`` on, of these items."""
    return lambda w: w.rebatch([row(item) for item in items], sizes, first)


def _ulp(cut: int) -> float:
    """The next f32 after the feature of the first item after a cut."""
    return float(np.nextafter(LESSON.x[_ORDER[4 * cut]], np.float32(2)))


def _restarted(case: str, cut: int) -> Fault:
    """The whole epoch once more, numbered as if it went on."""

    def plant(dumps: Dumps) -> None:
        whole = dumps[case]
        again = dumps[f"{case}-resume-{cut}"]
        again.batches = {number + cut: batch for number, batch in whole.batches.items()}
        again.honest()

    name = f"{case}-resume-{cut}"
    return Fault(code="resume-start", case=name, plant=plant, codes=("resume-start",), also={})


def _reordered(case: str, cut: int) -> Fault:
    """Another permutation after the restart: the first items of the epoch take part in it."""
    left = _ORDER[4 * cut :]
    items = [*left[1:], _ORDER[0]]

    def change(w: Written) -> None:
        sizes = [len(batch[ID]) for batch in w.batches.values()]
        padding = [PADDING] * (sum(sizes) - len(items))
        w.rebatch([*map(row, items), *padding], sizes, cut)

    return _in("resume-order", f"{case}-resume-{cut}", change)


def _free_resume() -> Fault:
    """A resumed run draws its own order; only the uninterrupted run shows that."""

    def plant(dumps: Dumps) -> None:
        w = dumps["keep-resume-1"]
        rows = w.rows()
        w.rebatch([rows[1], rows[0], *rows[2:]], (4, 3), 1)
        w.honest()

    codes = ("resume-order",)
    return Fault(
        code="resume-order", case="keep-resume-1", plant=plant, codes=codes, also={}, order="free"
    )


def _together() -> Iterator[Fault]:
    yield _in("not-repeated", "keep-again", edit(X, 4, float(np.nextafter(np.float32(0), 1))))
    yield _copied("not-repeated", "keep-again", "keep-seed-18")
    yield _copied("epoch-ignored", "keep-epoch-1", "keep")
    yield _copied("seed-ignored", "keep-seed-18", "keep")
    yield _copied("order-shared", "keep-seed-18", "keep-epoch-1")
    yield _in("not-shuffled", "keep-batch-3", _in_order, order="free", level="warning")


def _in_order(w: Written) -> None:
    w.rebatch([row(item) for item in range(11)], (3, 3, 3, 2))


def _copied(code: str, case: str, source: str) -> Fault:
    """A port with an order of its own, which one case takes from another."""

    def plant(dumps: Dumps) -> None:
        dumps[case].batches = dumps[source].batches
        dumps[case].honest()

    return Fault(code=code, case=case, plant=plant, codes=(code,), also={}, order="free")


def _claims() -> Iterator[Fault]:
    lies = {
        "masked_mean": ("keep", 0.125),
        "num_batches": ("keep", 4),
        "batch_sizes": ("pad", [4, 4, 3]),
        "omitted_ids": ("drop", []),
        "order": ("keep", list(range(11))),
    }
    for key, (case, value) in lies.items():
        yield _in("contradiction", case, claim(key, value), honest=False)
    yield _in("contradiction", "drop-batch-16", claim("num_batches", 1), honest=False)
    yield _in("contradiction", "keep-batch-5", claim("masked_mean", None), honest=False)
    yield _in("contradiction", "keep", claim("batch_sizes", [4.5, 4.0, 3.0]), honest=False)
    yield _in("contradiction", "keep", claim("order", "9 10 4"), honest=False)
    yield _in("contradiction", "keep-resume-1", claim("omitted_ids", [9]), honest=False)
    unseen = [*_ORDER[:8], 3, 5, 2]
    yield _in("claim", "keep", claim("seed", 42), honest=False)
    yield _in("claim", "pad-batch-3", claim("policy", "keep"), honest=False)
    yield _in("claim", "drop", claim("order", unseen), honest=False)
    yield _in("claim", "keep-resume-3", claim("order", unseen), honest=False)
    yield _in("fingerprint", "keep", claim("fingerprint", "0" * 64), honest=False)
    yield _in("fingerprint", "drop-batch-16", claim("fingerprint", None), honest=False)
    yield _in("not-json", "keep", lambda w: w.files.update({"meta.json": b"{"}), honest=False)
    yield _in("not-json", "keep", lambda w: w.files.update({"meta.json": b"[]"}), honest=False)
    yield _in("dump-empty", "drop-batch-16", _nothing, honest=False)
    yield _in("dump-empty", "pad-resume-3", _nothing, honest=False)
    yield _in("batch-missing", "keep", _nothing, honest=False)
    yield _in("batch-missing", "pad", lambda w: _nothing(w, claims=True), honest=False)
    stray = {"batch_3.bin": b"x"}
    yield _in("batch-name", "keep", lambda w: w.files.update(stray), honest=False)
    empty = ("batch-name", "dump-empty")
    lost = all_of(_nothing, lambda w: w.files.update(stray))
    yield _in("batch-name", "drop-batch-16", lost, codes=empty, honest=False)


def _notices() -> Iterator[Fault]:
    dropped = {f"drop-batch-{size}": ["omitted"] for size in (3, 5, 16)}
    yield _notice("omitted", "drop", lambda _: None, dropped)
    yield _notice("claims-missing", "keep", lambda w: setattr(w, "claims", None))
    yield _notice("fingerprint", "keep", _own_data_set)
    partners = ["keep-epoch-1", "keep-seed-18", *(f"keep-resume-{cut}" for cut in range(4))]
    skipped = {name: ["relation-skipped"] for name in partners}
    yield _notice("relation-skipped", "keep-again", lambda _: None, skipped, wrong="keep")


def _notice(
    code: str, case: str, change: Change, also: dict[str, list[str]] | None = None, wrong: str = ""
) -> Fault:
    """Something worth knowing; ``wrong`` is a case that is given a fault."""

    def plant(dumps: Dumps) -> None:
        change(dumps[case])
        if wrong:
            edit(Y, 0, 9.0)(dumps[wrong])

    return Fault(code=code, case=case, plant=plant, codes=(code,), also=also or {}, level="notice")


def _own_data_set(w: Written) -> None:
    """A port that divides in f32, one ULP off, and digests what it has."""
    ids = np.arange(11)
    x = np.nextafter(LESSON.x, np.float32(2))
    w.replace(X, x[w.column(ID).astype(int)])
    assert w.claims is not None
    w.claims["fingerprint"] = fingerprint(Dataset(ids, x, LESSON.y))


FAULTS = (
    *_examples(),
    *_resumes(),
    *_together(),
    *_claims(),
    *_notices(),
)


def dumps_of(fault: Fault) -> Dumps:
    """Dumps of all cases with the fault in them."""
    dumps = faithful(FreePipeline) if fault.order == "free" else faithful()
    fault.plant(dumps)
    return dumps
