"""List faults of an input pipeline's port, each with exactly the findings that it must raise.

The first fault of a code is the example in ``docs/pipeline.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.items.records import Dataset, compute_fingerprint
from tests.support.pipeline import ID, LESSON, MASK, FreePipeline, X, Y, make_correct_dumps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.support.pipeline import Dumps, PortDump

    Change = Callable[[PortDump], object]

PADDING = (-1.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        code: Code of the finding that it is for.
        case: Case with the finding.
        plant: Changes right dumps of all cases.
        codes: Codes of all findings of this level in ``case``; other cases have none.
        also: Codes in other cases, if a fault affects several.
        order: The option ``order``; under ``free`` the port has its own order.
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


def _make_fault(
    code: str,
    case: str,
    change: Change,
    *,
    codes: Sequence[str] = (),
    honest: bool = True,
    order: str = "exact",
    level: str = "error",
) -> Fault:
    """Return a fault in one case; ``honest`` makes the claims agree with the changed batches."""

    def plant(dumps: Dumps) -> None:
        change(dumps[case])
        if honest:
            dumps[case].correct_claims()

    found = tuple(codes) or (code,)
    return Fault(code=code, case=case, plant=plant, codes=found, also={}, order=order, level=level)


def make_row(item: int, *, mask: float = 1.0) -> tuple[float, float, float, float]:
    """Return the right slot of an item."""
    return (float(item), float(LESSON.x[item]), float(LESSON.y[item]), mask)


def put_rows(**rows: tuple[float, float, float, float]) -> Change:
    """Replace whole slots: ``put_rows(s3=make_row(5))`` puts item 5 into slot 3."""
    return lambda w: w.set_rows({int(name[1:]): values for name, values in rows.items()})


def edit_value(which: int, slot: int, value: float) -> Change:
    """Replace one value."""

    def change(w: PortDump) -> None:
        column = w.join_column(which)
        column[slot] = value
        w.replace_column(which, column)

    return change


def roll_columns(*which: int, by: int = -1) -> Change:
    """Roll columns against the others."""

    def change(w: PortDump) -> None:
        for column in which:
            w.replace_column(column, np.roll(w.join_column(column), by))

    return change


def swap_slots(first: int, second: int, *which: int) -> Change:
    """Swap columns between two slots."""

    def change(w: PortDump) -> None:
        for name in which:
            column = w.join_column(name)
            column[[first, second]] = column[[second, first]]
            w.replace_column(name, column)

    return change


def resize_batches(
    *sizes: int, more: Sequence[tuple[float, ...]] = (), rows: int | None = None
) -> Change:
    """Put the same slots (the first ``rows`` of them, then ``more``) into other batches."""
    return lambda w: w.rebatch([*w.list_rows()[:rows], *more], sizes)


def set_claim(key: str, value: Any) -> Change:
    """Change one claim."""

    def change(w: PortDump) -> None:
        assert w.claims is not None
        w.claims[key] = value

    return change


def combine(*changes: Change) -> Change:
    """Make several changes in one dump."""
    return lambda w: [change(w) for change in changes]


def _number_from_zero(w: PortDump) -> None:
    w.batches = dict(enumerate(w.batches.values()))


def _lose_batch(w: PortDump) -> None:
    del w.batches[1]


def _keep_tensors(*names: int) -> Change:
    def change(w: PortDump) -> None:
        w.batches[0] = [w.batches[0][name] for name in names]

    return change


def _add_axis(w: PortDump) -> None:
    w.batches[0] = [column[:, None] for column in w.batches[0]]


def _truncate_column(which: int, size: int) -> Change:
    def change(w: PortDump) -> None:
        w.batches[0][which] = w.batches[0][which][:size]

    return change


def _add_empty_batch(w: PortDump) -> None:
    w.batches[3] = [np.empty(0, np.float32)] * 4


def _remove_batches(w: PortDump, *, claims: bool = False) -> None:
    w.batches = {}
    if not claims:
        w.claims = None
        w.files["run.log"] = b"done"


#: Cases whose runs can be given faults of single rows, with their padded slots left alone.
RUNS = ("sequential", "keep", "drop", "pad", "keep-batch-3", "pad-batch-5", "drop-batch-5")
CUTS = ("keep-resume-1", "keep-resume-2", "pad-resume-1", "pad-resume-2")


def _list_row_faults(case: str) -> Iterator[Fault]:
    """Yield faults of single rows, for any run of three items or more."""
    yield _make_fault("item-unknown", case, edit_value(ID, 1, 99))
    yield _make_fault("item-unknown", case, edit_value(ID, 1, 2.5))
    yield _make_fault("item-unknown", case, edit_value(ID, 0, np.nan))
    yield _make_fault("order", case, swap_slots(0, 2, ID, X, Y, MASK))
    yield _make_fault("label", case, edit_value(Y, 1, 0.55))
    yield _make_fault("values", case, edit_value(X, 1, 0.55))
    yield _make_fault("nan", case, edit_value(X, 0, np.nan))
    yield _make_fault("nan", case, edit_value(Y, 2, np.inf))
    yield _make_fault("labels-shuffled", case, swap_slots(0, 2, Y))
    yield _make_fault("features-shuffled", case, swap_slots(0, 2, X))
    yield _make_fault("id-mislabelled", case, swap_slots(0, 2, X, Y))
    yield _make_fault("mask-values", case, edit_value(MASK, 0, 0.5))
    yield _make_fault("item-masked", case, edit_value(MASK, 1, 0))


def _list_examples() -> Iterator[Fault]:
    yield _make_fault("batch-missing", "keep", _lose_batch, honest=False)
    yield _make_fault("tensor-count", "keep", _keep_tensors(ID, X, Y), honest=False)
    yield _make_fault("shape", "pad", _add_axis, honest=False)
    yield _make_fault("shape", "keep", _truncate_column(X, 3), honest=False)
    yield _make_fault("shape", "drop", _truncate_column(MASK, 3), honest=False)
    yield _make_fault("shape", "keep", _add_empty_batch, honest=False)
    yield _make_fault("batch-count", "keep", resize_batches(4, 7))
    yield _make_fault("batch-size", "keep", resize_batches(3, 4, 4))
    yield _make_fault("final-batch", "keep", resize_batches(4, 4, 4, more=[PADDING]))
    yield _make_fault("final-batch", "keep", resize_batches(4, 4, rows=8))
    yield _make_fault(
        "final-batch", "drop", resize_batches(4, 4, 3, more=[make_row(2), make_row(5), make_row(3)])
    )
    yield _make_fault(
        "final-batch",
        "drop",
        resize_batches(4, 4, 4, more=[make_row(2), make_row(5), make_row(3), PADDING]),
    )
    yield _make_fault("final-batch", "pad", resize_batches(4, 4, 3, rows=11))
    yield _make_fault("final-batch", "pad", resize_batches(4, 4, rows=8))
    yield _make_fault("final-batch", "keep-batch-16", resize_batches(rows=0))
    yield _make_fault(
        "final-batch", "drop-batch-16", resize_batches(11, more=[make_row(int(i)) for i in _ORDER])
    )
    yield from _list_mask_faults()
    yield _make_fault("item-twice", "pad", put_rows(s11=make_row(9)))
    both = ("item-twice", "item-missing")
    yield _make_fault("item-twice", "keep", put_rows(s5=make_row(9)), codes=both)
    yield _make_fault("item-twice", "drop", put_rows(s5=make_row(9)), order="free")
    strange = ("item-not-due", "item-missing")
    yield _make_fault("item-not-due", "drop", put_rows(s3=make_row(3)), codes=strange)
    yield _make_fault("item-missing", "pad", put_rows(s10=PADDING))
    for case in ("keep", *RUNS, *CUTS):
        yield from _list_row_faults(case)
    yield _make_fault("labels-rolled", "keep", roll_columns(Y))
    yield _make_fault("labels-rolled", "drop", roll_columns(Y, by=4))
    yield _make_fault(
        "labels-shuffled", "keep", lambda w: w.replace_column(Y, w.join_column(Y)[::-1])
    )
    yield _make_fault("features-rolled", "keep", roll_columns(X))
    yield _make_fault("features-rolled", "keep-resume-1", roll_columns(X, by=2))
    apart = ("features-rolled", "labels-rolled")
    yield _make_fault(
        "features-rolled", "keep", combine(roll_columns(X), roll_columns(Y, by=2)), codes=apart
    )
    yield _make_fault("id-mislabelled", "keep", roll_columns(X, Y))
    yield _make_fault("order", "keep", lambda w: w.rebatch(_move_batches(w), (4, 4, 3)))


_ORDER = [9, 10, 4, 1, 0, 7, 6, 8, 2, 5, 3]


def _move_batches(w: PortDump) -> list[tuple[float, ...]]:
    rows = w.list_rows()
    return [*rows[4:8], *rows[:4], *rows[8:]]


def _list_mask_faults() -> Iterator[Fault]:
    yield _make_fault(
        "mask-position",
        "pad",
        put_rows(s8=PADDING, s9=make_row(2), s10=make_row(5), s11=make_row(3)),
    )
    gone = ("mask-position", "item-missing")
    yield _make_fault("mask-position", "keep", put_rows(s5=PADDING), codes=gone)
    yield _make_fault("mask-position", "keep", put_rows(s10=PADDING), codes=gone)
    yield _make_fault("padding-content", "pad", edit_value(X, 11, 0.3))
    yield _make_fault("padding-content", "pad", edit_value(Y, 11, np.nan))
    yield _make_fault("padding-content", "pad", put_rows(s11=make_row(9, mask=0.0)))
    yield _make_fault("padding-content", "pad-batch-16", edit_value(ID, 13, -2))
    yield _make_fault("padding-counted", "pad", edit_value(MASK, 11, 1))
    # -2.2 / 12 where the eleven observations have the mean 0.
    all_slots = sum(make_row(i)[2] for i in [2, 5, 3]) / 4
    yield _make_fault(
        "padding-counted", "pad-resume-2", set_claim("masked_mean", all_slots), honest=False
    )
    inverted = ("padding-counted", "item-masked")
    flip: Change = lambda w: w.replace_column(MASK, 1 - w.join_column(MASK))  # noqa: E731 - used once, below
    yield _make_fault("item-masked", "keep", edit_value(MASK, 1, 0))
    yield _make_fault("item-masked", "pad", flip, codes=inverted)


def _list_resume_faults() -> Iterator[Fault]:
    yield _make_fault("resume-start", "keep-resume-1", _number_from_zero)
    yield _make_fault(
        "resume-start", "keep-resume-2", lambda w: w.rebatch(_make_all_rows(), (4, 4, 3))
    )
    for case in ("keep", "pad"):
        for cut in (1, 2, 3):
            yield _make_restart(case, cut)
            if cut < 3:
                yield _make_reordering(case, cut)
    yield _make_fault("resume-start", "keep-resume-2", make_batches_from(2, (3,), [6, 8, 2]))
    for case in ("keep", "pad"):
        for cut in (0, 1, 2):
            yield _make_fault(
                "resume-values",
                f"{case}-resume-{cut}",
                edit_value(X, 0, _compute_next_feature(cut)),
            )
    yield _make_free_resume()


def _make_all_rows() -> list[tuple[float, ...]]:
    return [make_row(item) for item in _ORDER]


def make_batches_from(first: int, sizes: Sequence[int], items: Sequence[int]) -> Change:
    """Put these items into batches from number ``first`` on."""
    return lambda w: w.rebatch([make_row(item) for item in items], sizes, first)


def _compute_next_feature(cut: int) -> float:
    """Return the next f32 after the feature of the first item after a cut."""
    return float(np.nextafter(LESSON.x[_ORDER[4 * cut]], np.float32(2)))


def _make_restart(case: str, cut: int) -> Fault:
    """Repeat the whole epoch, numbered as if it continued."""

    def plant(dumps: Dumps) -> None:
        whole = dumps[case]
        again = dumps[f"{case}-resume-{cut}"]
        again.batches = {number + cut: batch for number, batch in whole.batches.items()}
        again.correct_claims()

    name = f"{case}-resume-{cut}"
    return Fault(code="resume-start", case=name, plant=plant, codes=("resume-start",), also={})


def _make_reordering(case: str, cut: int) -> Fault:
    """Use another permutation after the restart, which includes the epoch's first items."""
    left = _ORDER[4 * cut :]
    items = [*left[1:], _ORDER[0]]

    def change(w: PortDump) -> None:
        sizes = [len(batch[ID]) for batch in w.batches.values()]
        padding = [PADDING] * (sum(sizes) - len(items))
        w.rebatch([*map(make_row, items), *padding], sizes, cut)

    return _make_fault("resume-order", f"{case}-resume-{cut}", change)


def _make_free_resume() -> Fault:
    """Let a resumed run draw its own order, which only the uninterrupted run shows."""

    def plant(dumps: Dumps) -> None:
        w = dumps["keep-resume-1"]
        rows = w.list_rows()
        w.rebatch([rows[1], rows[0], *rows[2:]], (4, 3), 1)
        w.correct_claims()

    codes = ("resume-order",)
    return Fault(
        code="resume-order", case="keep-resume-1", plant=plant, codes=codes, also={}, order="free"
    )


def _list_relation_faults() -> Iterator[Fault]:
    yield _make_fault(
        "not-repeated", "keep-again", edit_value(X, 4, float(np.nextafter(np.float32(0), 1)))
    )
    yield _make_copy("not-repeated", "keep-again", "keep-seed-18")
    yield _make_copy("epoch-ignored", "keep-epoch-1", "keep")
    yield _make_copy("seed-ignored", "keep-seed-18", "keep")
    yield _make_copy("order-shared", "keep-seed-18", "keep-epoch-1")
    yield _make_fault("not-shuffled", "keep-batch-3", _deliver(range(11)), order="free")
    weak: dict[str, Any] = {"order": "free", "level": "warning"}
    yield _make_fault("weak-shuffle", "keep-batch-3", _deliver(np.roll(range(11), 3)), **weak)
    yield _make_fault("weak-shuffle", "keep-batch-3", _deliver(range(10, -1, -1)), **weak)
    # The order of its partner `keep`, continued from another place.
    turned = np.roll(
        FreePipeline(dataset=LESSON, batch_size=4, policy="keep").compute_order(17, 0), -2
    )
    yield _make_fault("orders-alike", "keep-epoch-1", _deliver(turned, (4, 4, 3)), **weak)


def _deliver(items: Sequence[int], sizes: Sequence[int] = (3, 3, 3, 2)) -> Change:
    return lambda w: w.rebatch([make_row(int(item)) for item in items], sizes)


def _make_copy(code: str, case: str, source: str) -> Fault:
    """Let one case of a port with its own order copy another case."""

    def plant(dumps: Dumps) -> None:
        dumps[case].batches = dumps[source].batches
        dumps[case].correct_claims()

    return Fault(code=code, case=case, plant=plant, codes=(code,), also={}, order="free")


def _list_claim_faults() -> Iterator[Fault]:
    wrong_claims = {
        "masked_mean": ("keep", 0.125),
        "num_batches": ("keep", 4),
        "batch_sizes": ("pad", [4, 4, 3]),
        "omitted_ids": ("drop", []),
        "order": ("keep", list(range(11))),
    }
    for key, (case, value) in wrong_claims.items():
        yield _make_fault("contradiction", case, set_claim(key, value), honest=False)
    yield _make_fault("contradiction", "drop-batch-16", set_claim("num_batches", 1), honest=False)
    yield _make_fault("contradiction", "keep-batch-5", set_claim("masked_mean", None), honest=False)
    yield _make_fault(
        "contradiction", "keep", set_claim("batch_sizes", [4.5, 4.0, 3.0]), honest=False
    )
    yield _make_fault("contradiction", "keep", set_claim("order", "9 10 4"), honest=False)
    yield _make_fault("contradiction", "keep-resume-1", set_claim("omitted_ids", [9]), honest=False)
    unseen = [*_ORDER[:8], 3, 5, 2]
    yield _make_fault("claim", "keep", set_claim("seed", 42), honest=False)
    yield _make_fault("claim", "pad-batch-3", set_claim("policy", "keep"), honest=False)
    yield _make_fault("claim", "drop", set_claim("order", unseen), honest=False)
    yield _make_fault("claim", "keep-resume-3", set_claim("order", unseen), honest=False)
    yield _make_fault("fingerprint", "keep", set_claim("fingerprint", "0" * 64), honest=False)
    yield _make_fault("fingerprint", "drop-batch-16", set_claim("fingerprint", None), honest=False)
    yield _make_fault(
        "not-json", "keep", lambda w: w.files.update({"meta.json": b"{"}), honest=False
    )
    yield _make_fault(
        "not-json", "keep", lambda w: w.files.update({"meta.json": b"[]"}), honest=False
    )
    yield _make_fault("dump-empty", "drop-batch-16", _remove_batches, honest=False)
    yield _make_fault("dump-empty", "pad-resume-3", _remove_batches, honest=False)
    yield _make_fault("batch-missing", "keep", _remove_batches, honest=False)
    yield _make_fault(
        "batch-missing", "pad", lambda w: _remove_batches(w, claims=True), honest=False
    )
    stray = {"batch_3.bin": b"x"}
    yield _make_fault("batch-name", "keep", lambda w: w.files.update(stray), honest=False)
    empty = ("batch-name", "dump-empty")
    lost = combine(_remove_batches, lambda w: w.files.update(stray))
    yield _make_fault("batch-name", "drop-batch-16", lost, codes=empty, honest=False)


def _list_notices() -> Iterator[Fault]:
    dropped = {f"drop-batch-{size}": ["omitted"] for size in (3, 5, 16)}
    yield _make_notice("omitted", "drop", lambda _: None, dropped)
    yield _make_notice("claims-missing", "keep", lambda w: setattr(w, "claims", None))
    yield _make_notice("fingerprint", "keep", _use_own_data_set)
    partners = ["keep-epoch-1", "keep-seed-18", *(f"keep-resume-{cut}" for cut in range(4))]
    skipped = {name: ["relation-skipped"] for name in partners}
    yield _make_notice("relation-skipped", "keep-again", lambda _: None, skipped, wrong="keep")


def _make_notice(
    code: str, case: str, change: Change, also: dict[str, list[str]] | None = None, wrong: str = ""
) -> Fault:
    """Return a change that gives a notice; the case ``wrong`` gets a fault."""

    def plant(dumps: Dumps) -> None:
        change(dumps[case])
        if wrong:
            edit_value(Y, 0, 9.0)(dumps[wrong])

    return Fault(code=code, case=case, plant=plant, codes=(code,), also=also or {}, level="notice")


def _use_own_data_set(w: PortDump) -> None:
    """Divide in f32, one ULP off, and digest that data."""
    ids = np.arange(11)
    x = np.nextafter(LESSON.x, np.float32(2))
    w.replace_column(X, x[w.join_column(ID).astype(int)])
    assert w.claims is not None
    w.claims["fingerprint"] = compute_fingerprint(Dataset(ids, x, LESSON.y))


FAULTS = (
    *_list_examples(),
    *_list_resume_faults(),
    *_list_relation_faults(),
    *_list_claim_faults(),
    *_list_notices(),
)


def make_dumps(fault: Fault) -> Dumps:
    """Return the dumps of all cases with the fault in them."""
    dumps = make_correct_dumps(FreePipeline) if fault.order == "free" else make_correct_dumps()
    fault.plant(dumps)
    return dumps
