"""A port's batches against the reference's: what is a fault and in which words, and what is none.

Every table reads: the case, what the port does to the run that is due, what is said.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parity.errors import ReferenceSuspectError
from parity.suites import find_suite
from parity.suites.base import Dump, DumpComparison, Suite
from tests.support.batches import (
    ORDER,
    SET,
    SHUFFLED,
    SUBSET,
    LoaderSpec,
    Row,
    Run,
    compute_label,
    encode_batch,
    encode_tensor,
    make_row,
    make_run,
    split_order,
    write_case,
    write_run,
)

NAN, INF = float("nan"), float("inf")
ORDER_DROP = LoaderSpec("ORDER", drop_last=True)
SET_DROP = LoaderSpec("SET", SHUFFLED, drop_last=True)


def the_suite() -> Suite:
    found = find_suite("dataloader")
    assert found is not None
    return found


def verify_run(
    tmp_path: Path,
    spec: LoaderSpec,
    dump: Run,
    line: Mapping[str, Any] | None = None,
    bound: float = 1e-6,
    **meta: Any,
) -> DumpComparison:
    """Compare ``dump`` with the case ``spec``."""
    write_case(tmp_path / "bundle" / "c", spec, **meta)
    write_run(tmp_path / "dump", dump)
    return verify_folder(tmp_path, line, bound)


def verify_folder(
    tmp_path: Path, line: Mapping[str, Any] | None = None, bound: float = 1e-6
) -> DumpComparison:
    (case,) = the_suite().cases(tmp_path / "bundle", {})
    return the_suite().verify(
        case, Dump(folder=tmp_path / "dump", stdout_json=line), {"max_abs": bound}
    )


def list_lines(outcome: DumpComparison) -> list[str]:
    """The findings as a reader sees them, without their causes."""
    lines = []
    for finding in outcome.findings:
        kind = "" if finding.kind == "mismatch" else f"/{finding.kind}"
        lines.append(f"{finding.level}[{finding.code}{kind}] {finding.message}")
        lines += [f"| {detail}" for detail in finding.details]
    return lines


# What ports do.


def rows_of(batches: Run) -> list[Row]:
    return [row for rows in batches for row in rows]


def put(where: tuple[int, int], item: int) -> Callable[[Run], None]:
    """Another item where one is due."""
    number, place = where

    def fault(batches: Run) -> None:
        batches[number][place] = make_row(item)

    return fault


def value(where: tuple[int, int], column: int, new: float) -> Callable[[Run], None]:
    number, place = where

    def fault(batches: Run) -> None:
        batches[number][place].features[column] = new

    return fault


def every_value(change: Callable[[float], float]) -> Callable[[Run], None]:
    def fault(batches: Run) -> None:
        for each in rows_of(batches):
            each.features = [change(old) for old in each.features]

    return fault


def label(where: tuple[int, int], new: float) -> Callable[[Run], None]:
    number, place = where

    def fault(batches: Run) -> None:
        batches[number][place].label = new

    return fault


def every_label(change: Callable[[float], float]) -> Callable[[Run], None]:
    def fault(batches: Run) -> None:
        for each in rows_of(batches):
            each.label = change(each.label)

    return fault


def roll_labels(by: int) -> Callable[[Run], None]:
    """Each row gets the label of the row ``by`` places later."""

    def fault(batches: Run) -> None:
        rows = rows_of(batches)
        old = [each.label for each in rows]
        for place, each in enumerate(rows):
            each.label = old[(place + by) % len(rows)]

    return fault


def lose_last_row(batches: Run) -> None:
    batches[-1].pop()


def lose_last_batch(batches: Run) -> None:
    batches.pop()


def lose_first_batch(batches: Run) -> None:
    del batches[0]


def one_batch_more(batches: Run) -> None:
    batches.append([make_row(0)])


def swap_batches(batches: Run) -> None:
    batches[0], batches[1] = batches[1], batches[0]


def swap_rows(batches: Run) -> None:
    batches[0][1], batches[1][2] = batches[1][2], batches[0][1]


def move_first_row_behind_five(batches: Run) -> None:
    rows = rows_of(batches)
    rows.insert(5, rows.pop(0))
    rebatch(batches, rows, [len(part) for part in batches])


def rebatch(batches: Run, rows: list[Row], sizes: list[int]) -> None:
    ends = np.cumsum(sizes)
    batches[:] = [rows[end - size : end] for end, size in zip(ends, sizes, strict=True)]


def all_in_one_batch(batches: Run) -> None:
    batches[:] = [rows_of(batches)]


def batches_of_one(batches: Run) -> None:
    batches[:] = [[each] for each in rows_of(batches)]


def last_row_one_batch_earlier(batches: Run) -> None:
    batches[-2].append(batches[-1].pop(0))


def pad_with_the_first_items(batches: Run) -> None:
    batches[-1] += deepcopy(batches[0][:2])


def pad_with_zeros(batches: Run) -> None:
    batches[-1] += [Row([0.0] * 4, 0.0), Row([0.0] * 4, 0.0)]


def each_of_two_workers_yields_everything(batches: Run) -> None:
    batches[:] = [part for part in batches for _ in range(2)]


def everything_twice(batches: Run) -> None:
    batches += deepcopy(batches)


def reverse_rows(batches: Run) -> None:
    rebatch(batches, rows_of(batches)[::-1], [len(part) for part in batches])


def next_ulp(value: float) -> float:
    return float(np.nextafter(np.float32(value), np.float32(np.inf)))


#: The case, what the port does, what is said of it.
FAULTS: dict[str, tuple[LoaderSpec, Callable[[Run], object]]] = {
    "an item twice in another's place": (ORDER, put((1, 0), 2)),
    "an item twice in another's place, in any order": (SET, put((1, 0), 2)),
    "an item twice, of a part": (SUBSET, put((1, 0), 1)),
    "an item missing": (ORDER, lose_last_row),
    "an item missing, in any order": (SET, lose_last_row),
    "an item missing, of a part": (SUBSET, lose_last_row),
    "an item of those that are dropped": (ORDER_DROP, put((1, 3), 9)),
    "an item of those that are dropped, in any order": (SET_DROP, put((1, 3), 7)),
    "two batches swapped": (ORDER, swap_batches),
    "two rows swapped": (ORDER, swap_rows),
    "one row moved": (ORDER, move_first_row_behind_five),
    "another order where one is owed": (ORDER, reverse_rows),
    "labels one row ahead": (ORDER, roll_labels(1)),
    "labels one row behind, in any order": (SET, roll_labels(-1)),
    "labels two rows ahead, of a part": (SUBSET, roll_labels(2)),
    "a label of 1.9": (ORDER, label((1, 1), 1.9)),
    "a label a hair beside": (SET, label((0, 3), 4.0000005)),
    "a label of another class": (SUBSET, label((0, 3), 6.0)),
    "a label of NaN": (ORDER, label((1, 1), NAN)),
    "all labels NaN": (SET, every_label(lambda _: NAN)),
    "labels counted from one": (SUBSET, every_label(lambda old: old + 1)),
    "all features NaN": (ORDER, every_value(lambda _: NAN)),
    "all features NaN, in any order": (SET, every_value(lambda _: NAN)),
    "one feature NaN": (ORDER, value((1, 2), 3, NAN)),
    "one feature NaN, in the first place": (SET, value((0, 0), 0, NAN)),
    "one feature NaN, in the last place": (SUBSET, value((1, 3), 3, NAN)),
    "one feature infinite": (ORDER, value((1, 2), 3, -INF)),
    "a value off by 2e-6": (ORDER, value((0, 0), 1, 1.000002)),
    "a value off by 2e-6, in any order": (SET, value((0, 1), 1, 1.000002)),
    "a value off by 2e-6, of a part": (SUBSET, value((0, 1), 1, 1.000002)),
    "all features zero": (ORDER, every_value(lambda _: 0.0)),
    "features in half precision": (SET, every_value(lambda old: float(np.float16(old + 0.1)))),
    "a value of another item's size": (ORDER, value((2, 1), 0, 3e38)),
    "one batch too many": (ORDER, one_batch_more),
    "one batch too many, of a part": (SUBSET, one_batch_more),
    "the last batch dropped": (ORDER, lose_last_batch),
    "the last batch dropped, in any order": (SET, lose_last_batch),
    "the last batch dropped, of a part": (SUBSET, lose_last_batch),
    "the first batch dropped": (ORDER, lose_first_batch),
    "the last batch padded with items": (ORDER, pad_with_the_first_items),
    "the last batch padded with items, in any order": (SET, pad_with_the_first_items),
    "the last batch padded with zeros": (SET, pad_with_zeros),
    "all in one batch": (ORDER, all_in_one_batch),
    "batches of one": (SET, batches_of_one),
    "a row in the batch before": (ORDER, last_row_one_batch_earlier),
    "each worker yields everything": (ORDER, each_of_two_workers_yields_everything),
    "each worker yields everything, in any order": (SET, each_of_two_workers_yields_everything),
    "everything twice, of a part": (SUBSET, everything_twice),
}


def format_sections(sections: Mapping[str, Sequence[str]]) -> str:
    """One document of a golden file: a heading for each input, and its lines."""
    return "\n".join(f"# {name}\n" + "".join(f"{x}\n" for x in sections[name]) for name in sections)


def test_each_fault_is_reported_in_these_words(golden: Callable[..., None], tmp_path: Path) -> None:
    found = {}
    for position, (name, (spec, fault)) in enumerate(FAULTS.items()):
        dump = spec.make_run()
        fault(dump)
        found[name] = list_lines(verify_run(tmp_path / str(position), spec, dump))
    assert all(found.values())
    golden(format_sections(found))


#: What a cause names, where the data prove one.
CAUSES: dict[str, tuple[LoaderSpec, Callable[[Run], object], list[str]]] = {
    "two batches swapped": (ORDER, swap_batches, ["batches"]),
    "labels one row ahead": (ORDER, roll_labels(1), ["1 row", "later"]),
    "labels two rows behind": (SET, roll_labels(-2), ["2 rows", "earlier"]),
    "each worker yields everything": (ORDER, each_of_two_workers_yields_everything, ["2 workers"]),
    "the last batch padded with items": (SET, pad_with_the_first_items, ["last batch"]),
}


@pytest.mark.parametrize(("spec", "fault", "words"), CAUSES.values(), ids=CAUSES)
def test_a_fault_that_the_data_prove_has_its_cause(
    spec: LoaderSpec, fault: Callable[[Run], object], words: list[str], tmp_path: Path
) -> None:
    dump = spec.make_run()
    fault(dump)
    causes = " ".join(f.cause for f in verify_run(tmp_path, spec, dump).findings if f.cause)
    assert [word for word in words if word not in causes] == []


#: The case, a dump of it that is right.
HARMLESS: dict[str, tuple[LoaderSpec, Callable[[Run], object]]] = {
    "the reference's own run": (ORDER, lambda _: None),
    "the reference's own run, in any order": (SET, lambda _: None),
    "the reference's own run, of a part": (SUBSET, lambda _: None),
    "one ULP beside": (ORDER, value((0, 0), 1, next_ulp(1.0))),
    "one ULP beside, in any order": (SET, value((0, 1), 1, next_ulp(1.0))),
    "off by the bound, as f32 has it": (ORDER, value((0, 0), 0, 1e-6)),
    "zeros of the other sign": (SET, value((0, 1), 0, -0.0)),
    "labels of zero of the other sign": (ORDER, every_label(lambda old: old or -0.0)),
    "another shuffle": (SET, reverse_rows),
    "another shuffle, batches swapped": (SET, swap_batches),
    "another shuffle, of a part": (SUBSET, reverse_rows),
    "other items of the whole": (SUBSET, put((0, 0), 7)),
}


@pytest.mark.parametrize(("spec", "variant"), HARMLESS.values(), ids=HARMLESS)
def test_a_right_dump_has_no_finding(
    spec: LoaderSpec, variant: Callable[[Run], object], tmp_path: Path
) -> None:
    dump = spec.make_run()
    variant(dump)
    outcome = verify_run(tmp_path, spec, dump)
    # A bound that is nearly used up is told, and is no finding against the port.
    assert [line for line in list_lines(outcome) if "[near-bound]" not in line] == []
    assert outcome.compared == 5 * sum(map(len, dump))
    assert outcome.tensors == ("features", "labels")


class TestMeasures:
    def test_the_largest_difference_and_its_share_of_the_bound(self, tmp_path: Path) -> None:
        dump = ORDER.make_run()
        value((0, 0), 1, 1 + 2**-22)(dump)
        outcome = verify_run(tmp_path, ORDER, dump)
        assert outcome.measures == {"items": 10, "batches": 3, "max_abs": 2**-22}
        assert outcome.margin == 2**-22 / 1e-6

    def test_none_where_a_row_is_no_item(self, tmp_path: Path) -> None:
        dump = ORDER.make_run()
        every_value(lambda _: NAN)(dump)
        outcome = verify_run(tmp_path, ORDER, dump)
        assert outcome.measures == {"items": 10, "batches": 3}
        assert outcome.margin is None

    def test_a_bound_of_zero_has_no_share(self, tmp_path: Path) -> None:
        assert verify_run(tmp_path, ORDER, ORDER.make_run(), bound=0.0).margin is None

    def test_a_tighter_bound_is_kept(self, tmp_path: Path) -> None:
        dump = SET.make_run()
        value((0, 1), 1, next_ulp(1.0))(dump)
        assert list_lines(verify_run(tmp_path, SET, dump, bound=1e-7)) == [
            (
                "error[item-unknown] batch 0 row 1 is not an item of the data set; the closest is "
                "item 0: feature 1 is 1.0000001, expected 1 (off by 1.19e-07); bound 1e-07"
            )
        ]

    def test_exact_is_a_bound_of_zero(self, tmp_path: Path) -> None:
        dump = ORDER.make_run()
        value((0, 0), 1, next_ulp(1.0))(dump)
        write_case(tmp_path / "bundle" / "c", ORDER)
        write_run(tmp_path / "dump", dump)
        (case,) = the_suite().cases(tmp_path / "bundle", {})
        outcome = the_suite().verify(case, Dump(folder=tmp_path / "dump"), {"exact": 1.0})
        assert [finding.code for finding in outcome.findings] == ["values"]


class TestUnshuffled:
    WORDS = (
        "{}[not-shuffled] the case (seed 42) shuffles, but all {} items are in the data set's "
        "own order; a shuffle does so with probability {}: check that shuffling is switched on"
    )

    @pytest.mark.parametrize(
        ("spec", "count", "chance"), [(SET, 10, "2.8e-07"), (SUBSET, 8, "5.5e-07")]
    )
    def test_the_data_set_s_order_is_an_error_where_its_chance_is_below_a_millionth(
        self, spec: LoaderSpec, count: int, chance: str, tmp_path: Path
    ) -> None:
        dump = split_order(range(10), 4, drop_last=spec.drop_last)
        assert list_lines(verify_run(tmp_path, spec, dump)) == [
            self.WORDS.format("error", count, chance)
        ]

    @pytest.mark.parametrize(
        ("items", "chance"),
        [([0, 2, 3, 4, 5, 6, 7, 8, 9], "2.8e-06"), (range(7), "1.7e-06"), (range(6), "6.6e-06")],
    )
    def test_the_data_set_s_order_is_a_warning_above(
        self, items: Sequence[int], chance: str, tmp_path: Path
    ) -> None:
        count = len(items)
        spec = LoaderSpec("SUBSET", SHUFFLED, batch_size=count, drop_last=True)
        assert list_lines(verify_run(tmp_path, spec, split_order(items, count))) == [
            self.WORDS.format("warning", count, chance)
        ]

    def test_not_where_an_order_is_expected(self, tmp_path: Path) -> None:
        assert list_lines(verify_run(tmp_path, ORDER, ORDER.make_run())) == []

    def test_not_where_a_row_is_no_item(self, tmp_path: Path) -> None:
        dump = split_order(range(10), 4)
        value((0, 0), 0, NAN)(dump)
        assert [f.code for f in verify_run(tmp_path, SET, dump).findings] == ["nan"]

    def test_not_where_the_reference_s_order_is_all_that_is_known(self, tmp_path: Path) -> None:
        """Without the whole data set, its order is not known either."""
        without = {"full_dataset_features": None, "full_dataset_labels": None}
        assert list_lines(verify_run(tmp_path, SET, SET.make_run(), **without)) == []

    def test_not_for_items_that_are_all_alike(self, tmp_path: Path) -> None:
        alike = {"full_dataset_features": [[1.0] * 4] * 10, "full_dataset_labels": [0] * 10}
        dump = SET.make_run()
        every_value(lambda _: 1.0)(dump)
        every_label(lambda _: 0.0)(dump)
        write_case(tmp_path / "bundle" / "c", SET, **alike)
        write_run(tmp_path / "bundle" / "c", dump)
        write_run(tmp_path / "dump", dump)
        assert list_lines(verify_folder(tmp_path)) == []


class TestItemsThatAreClose:
    """Equal features under several labels: no fault of the port, and no choice for it."""

    META: Mapping[str, Any] = {"full_dataset_features": [[1.0] * 4] * 10}

    def prepared(self, tmp_path: Path, spec: LoaderSpec, dump: Run) -> list[str]:
        reference = spec.make_run()
        for batches in (reference, dump):
            every_value(lambda _: 1.0)(batches)
        write_case(tmp_path / "bundle" / "c", spec, **self.META)
        write_run(tmp_path / "bundle" / "c", reference)
        write_run(tmp_path / "dump", dump)
        return list_lines(verify_folder(tmp_path))

    @pytest.mark.parametrize("spec", [ORDER, SET, SUBSET])
    def test_labels_distinguish_them(self, spec: LoaderSpec, tmp_path: Path) -> None:
        assert self.prepared(tmp_path, spec, spec.make_run()) == []

    def test_labels_are_still_compared(self, tmp_path: Path) -> None:
        dump = SET.make_run()
        label((0, 0), 6.0)(dump)
        assert self.prepared(tmp_path, SET, dump) == [
            "error[label] batch 0 row 0 (item 8) has label 6, expected 4"
        ]


def raw(*tensors: bytes) -> bytes:
    return struct.pack("<I", len(tensors)) + b"".join(tensors)


FEATURES, LABELS = encode_tensor(np.zeros((4, 4))), encode_tensor(np.zeros(4))

#: Bytes of batch_0001.bin; what is said.
FILES: dict[str, bytes] = {
    "labels as a column": raw(FEATURES, encode_tensor(np.zeros((4, 1)))),
    "features of another width": raw(encode_tensor(np.zeros((4, 5))), LABELS),
    "features flattened": raw(encode_tensor(np.zeros(16)), LABELS),
    "features in another shape of the same size": raw(encode_tensor(np.zeros((4, 2, 2))), LABELS),
    "features transposed": raw(encode_tensor(np.zeros((4, 3))), encode_tensor(np.zeros(3))),
    "fewer labels than rows": raw(FEATURES, encode_tensor(np.zeros(3))),
    "scalars": raw(encode_tensor(0.0), encode_tensor(0.0)),
    "no row": raw(encode_tensor(np.zeros((0, 4))), encode_tensor(np.zeros(0))),
    "features alone": raw(FEATURES),
    "features alone, two announced": struct.pack("<I", 2) + raw(FEATURES)[4:],
    "both, one announced": struct.pack("<I", 1) + raw(FEATURES, LABELS)[4:],
    "both, none announced": raw(FEATURES, LABELS)[4:],
    "a third tensor": raw(FEATURES, LABELS, LABELS),
    "no tensor": raw(),
    "an empty file": b"",
    "a file cut short": raw(FEATURES, LABELS)[:-2],
    "a byte too many": raw(FEATURES, LABELS) + b"\n",
    "4 billion dimensions": raw(struct.pack("<I", 0xFFFFFFFF) + bytes(64), LABELS),
    "a shape that overflows": raw(struct.pack("<4I", 3, 2**31, 2**31, 16), LABELS),
    "a megabyte more than the data set": raw(FEATURES, LABELS) + bytes(2**21),
}


def test_each_invalid_batch_file_has_one_finding(
    golden: Callable[..., None], tmp_path: Path
) -> None:
    found = {}
    for position, (name, data) in enumerate(FILES.items()):
        folder = tmp_path / str(position)
        write_case(folder / "bundle" / "c", ORDER)
        write_run(folder / "dump", ORDER.make_run())
        (folder / "dump" / "batch_0001.bin").write_bytes(data)
        outcome = verify_folder(folder)
        found[name] = list_lines(outcome)
        assert (len(outcome.findings), outcome.compared) == (1, 0), name
    golden(format_sections(found))


def rename(names: Mapping[str, str]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for old, new in names.items():
            (folder / old).rename(folder / new)

    return change


def add(*names: str, data: bytes = b"x") -> Callable[[Path], None]:
    """Write further files; a name that ends in a slash is a folder."""

    def change(folder: Path) -> None:
        for name in names:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).mkdir() if name.endswith("/") else (folder / name).write_bytes(data)

    return change


#: What is done to the folder of a right dump.
FOLDERS: dict[str, Callable[[Path], object]] = {
    "a batch missing in the middle": lambda folder: (folder / "batch_0001.bin").unlink(),
    "batches counted from one": rename({"batch_0000.bin": "batch_0003.bin"}),
    "names of another kind": rename({f"batch_{n:04}.bin": f"batch{n}.bin" for n in range(3)}),
    "files of other kinds": add(
        *("meta.json", "batch_0000.bin.tmp", "README", ".DS_Store", "._batch_0000.bin"),
        "more/batch_0003.bin",
    ),
    "one batch more, with a digit": add("batch_3.bin"),
    "one batch more, with five digits": add("batch_00003.bin"),
    "a folder, and too many digits": add("batch_0003.bin/", "batch_1234567890.bin"),
    "many near names": add(*(f"batch-{number}.bin" for number in range(8))),
    "two files without content": add("batch_0000.bin", "batch_0002.bin", data=b""),
}


def test_each_folder_is_reported_in_these_words(
    golden: Callable[..., None], tmp_path: Path
) -> None:
    found = {}
    for position, (name, change) in enumerate(FOLDERS.items()):
        folder = tmp_path / str(position)
        write_case(folder / "bundle" / "c", ORDER)
        change(write_run(folder / "dump", ORDER.make_run()))
        outcome = verify_folder(folder)
        found[name] = [*list_lines(outcome), f"{outcome.compared} values compared"]
    golden(format_sections(found))


#: The JSON line on stdout; what is said.
LINES: dict[str, tuple[dict[str, Any] | None, list[str]]] = {
    "none": (None, []),
    "an empty one": ({}, []),
    "about other things": ({"elapsed": 3, "num_items": "many"}, []),
    "the truth": ({"num_batches": 3, "batch_sizes": [4, 4, 2]}, []),
    "null": ({"num_batches": None, "batch_sizes": None}, []),
    "another count": ({"num_batches": 2},
        ["error[contradiction] stdout states num_batches = 2, the files have 3"]),
    "other sizes": ({"num_batches": 3, "batch_sizes": [4, 4, 4]},
        ["error[contradiction] stdout states batch_sizes = [4, 4, 4], the files have [4, 4, 2]"]),
    "words": ({"num_batches": "three"},
        ["error[contradiction] stdout states num_batches = 'three', the files have 3"]),
}  # fmt: skip


@pytest.mark.parametrize(("line", "words"), LINES.values(), ids=LINES)
def test_what_the_port_says_may_not_contradict_what_it_wrote(
    line: dict[str, Any] | None, words: list[str], tmp_path: Path
) -> None:
    assert list_lines(verify_run(tmp_path, ORDER, ORDER.make_run(), line)) == words


class TestNothingDue:
    """Three items in batches of four, the last one dropped: zero batches are right."""

    META: Mapping[str, Any] = {
        "full_dataset_features": [[1.0, 2.0]] * 3,
        "full_dataset_labels": [0, 1, 2],
        "batch_sizes": [],
        "num_batches": 0,
    }

    def prepared(self, tmp_path: Path) -> Path:
        write_case(tmp_path / "bundle" / "c", LoaderSpec("ORDER", (), drop_last=True), **self.META)
        (tmp_path / "dump").mkdir()
        return tmp_path

    def test_the_port_must_say_so(self, tmp_path: Path) -> None:
        assert list_lines(verify_folder(self.prepared(tmp_path), {"num_batches": 0})) == []

    def test_a_batch_under_a_near_right_name_is_not_nothing(self, tmp_path: Path) -> None:
        (self.prepared(tmp_path) / "dump" / "batch_0.bin").touch()
        (found,) = list_lines(verify_folder(tmp_path, {"num_batches": 0}))
        assert found.startswith("error[batch-name] batch_0.bin is misnamed: ")

    @pytest.mark.parametrize("line", [None, {}, {"num_batches": 1}])
    def test_an_empty_folder_alone_proves_nothing(
        self, line: dict[str, Any] | None, tmp_path: Path
    ) -> None:
        assert list_lines(verify_folder(self.prepared(tmp_path), line)) == [
            (
                "error[dump-empty/dump] no batch is expected and none was written, but an empty "
                'folder proves nothing; expected "num_batches": 0 in the JSON line on stdout'
            )
        ]

    def test_a_batch_is_one_too_many(self, tmp_path: Path) -> None:
        self.prepared(tmp_path)
        write_run(tmp_path / "dump", [[Row([1.0, 2.0], 0.0)]])
        assert list_lines(verify_folder(tmp_path)) == [
            "error[batch-count] 1 batch, expected 0 (sizes [1], expected [])",
            (
                "error[item-not-due] item 0 was delivered in batch 0 row 0, but the reference does "
                "not have it"
            ),
        ]


#: The case, what is changed in its meta.json, how the reference is suspect.
SUSPECT: dict[str, tuple[LoaderSpec, dict[str, Any]]] = {
    "sizes that no file has": (ORDER, {"batch_size": 5, "batch_sizes": [5, 5], "num_batches": 2}),
    "a count that the sizes belie": (ORDER, {"num_batches": 4}),
    "an expected count that the sizes belie": (ORDER, {"expected_num_batches": "3"}),
    "sizes that the parameters belie": (ORDER, {"batch_sizes": [4, 4], "num_batches": 2}),
    "a last batch that should be dropped": (ORDER, {"drop_last": True}),
    "no size at all": (ORDER, {"batch_size": 0}),
    "sizes of zero": (ORDER, {"batch_sizes": [4, 4, 2, 0]}),
    "sizes in words": (ORDER, {"batch_sizes": "4, 4, 2"}),
    "no sizes": (ORDER, {"batch_sizes": None}),
    "a mode of its own": (ORDER, {"equality_mode": "SORTED"}),
    "no mode": (ORDER, {"equality_mode": None}),
    "a seed in words": (SET, {"seed": "42"}),
    "a seed of true": (SET, {"seed": True}),
    "a part of nothing": (SUBSET, {"full_dataset_features": None}),
    "another data set": (ORDER, {"full_dataset_features": [[0.0] * 4] * 10}),
    "other labels": (SET, {"full_dataset_labels": [1] * 10}),
    "a data set of another width": (ORDER, {"full_dataset_features": [[0.0] * 5] * 10}),
    "fewer labels than items": (ORDER, {"full_dataset_labels": [0] * 9}),
    "an empty data set": (ORDER, {"full_dataset_features": [], "full_dataset_labels": []}),
    "a ragged data set": (ORDER, {"full_dataset_features": [[0.0] * 4] * 9 + [[0.0] * 3]}),
    "a data set with a gap": (ORDER, {"full_dataset_features": [[None, 0, 0, 0]] * 10}),
    "a data set of words": (ORDER, {"full_dataset_features": [["0", "1", "2", "3"]] * 10}),
    "labels of true and false": (ORDER, {"full_dataset_labels": [True, False] * 5}),
    "a label beyond f32": (ORDER, {"full_dataset_labels": [*range(9), 16777217]}),
    "a label of NaN": (ORDER, {"full_dataset_labels": [NAN] * 10}),
}


def test_each_reference_that_contradicts_itself_is_suspect(
    golden: Callable[..., None], tmp_path: Path
) -> None:
    """Then not even the reference itself passes as a dump."""
    found = {}
    for position, (name, (spec, meta)) in enumerate(SUSPECT.items()):
        with pytest.raises(ReferenceSuspectError) as caught:
            verify_run(tmp_path / str(position), spec, spec.make_run(), **meta)
        (problem,) = caught.value.problems
        assert problem.code == "reference-malformed", name
        found[name] = [problem.message]
    golden(format_sections(found))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such pipes, and links need a right")
def test_a_pipe_or_a_link_to_nowhere_with_a_batch_s_name(tmp_path: Path) -> None:
    write_case(tmp_path / "bundle" / "c", ORDER)
    folder = write_run(tmp_path / "dump", ORDER.make_run())
    os.mkfifo(folder / "batch_0003.bin")
    (folder / "batch_0004.bin").symlink_to("nowhere")
    first, second = list_lines(verify_folder(tmp_path))
    assert "batch_0003.bin is a named pipe; it was not compared" in first
    assert second == "| batch_0004.bin is a broken link"


def write_spoiled_labels(case: Path) -> None:
    without = {"full_dataset_features": None, "full_dataset_labels": None}
    spoiled = ORDER.make_run()
    label((0, 0), NAN)(spoiled)
    write_run(write_case(case, ORDER, **without), spoiled)


#: What is done to the folder of a right case.
SPOILED: dict[str, Callable[[Path], object]] = {
    "no meta.json": lambda case: (case / "meta.json").unlink(),
    "no JSON": lambda case: (case / "meta.json").write_text("{'batch_size': 4}"),
    "a list": lambda case: (case / "meta.json").write_text("[1]"),
    "a batch missing": lambda case: (case / "batch_0001.bin").unlink(),
    "a batch cut short": lambda case: (case / "batch_0001.bin").write_bytes(
        encode_batch([make_row(4)])[:-1]
    ),
    "an item twice": lambda case: write_run(case, make_run([0, 1, 2, 3], [4, 5, 6, 3], [8, 9])),
    "a label of NaN without the data set": write_spoiled_labels,
}


def test_each_spoiled_reference_is_suspect(golden: Callable[..., None], tmp_path: Path) -> None:
    found = {}
    for position, (name, change) in enumerate(SPOILED.items()):
        folder = tmp_path / str(position)
        change(write_case(folder / "bundle" / "c", ORDER))
        write_run(folder / "dump", ORDER.make_run())
        with pytest.raises(ReferenceSuspectError) as caught:
            verify_folder(folder)
        (problem,) = caught.value.problems
        found[name] = [f"[{problem.code}] {problem.message}"]
    golden(format_sections(found))


class TestWithoutTheDataSet:
    """ORDER and SET need no more than the batches themselves."""

    WITHOUT: Mapping[str, Any] = {"full_dataset_features": None, "full_dataset_labels": None}

    @pytest.mark.parametrize("spec", [ORDER, SET])
    def test_the_reference_itself_passes(self, spec: LoaderSpec, tmp_path: Path) -> None:
        assert list_lines(verify_run(tmp_path, spec, spec.make_run(), **self.WITHOUT)) == []

    def test_items_have_the_number_of_their_place(self, tmp_path: Path) -> None:
        dump = SET.make_run()
        put((0, 0), 0)(dump)
        assert list_lines(verify_run(tmp_path, SET, dump, **self.WITHOUT)) == [
            "error[item-twice] item 1 was delivered again in batch 0 row 1, after batch 0 row 0",
            "error[item-missing] item 0 was not delivered",
        ]


class TestNotFiniteOnBothSides:
    """A data set with gaps, as tables have them: NaN is owed where the reference has it."""

    def verify_folder(self, tmp_path: Path, fault: Callable[[Run], object]) -> list[str]:
        reference = ORDER.make_run()
        value((0, 2), 1, NAN)(reference)
        value((1, 2), 0, INF)(reference)
        write_case(
            tmp_path / "bundle" / "c",
            ORDER,
            full_dataset_features=[each.features for each in rows_of(reference)],
        )
        write_run(tmp_path / "bundle" / "c", reference)
        fault(reference)
        write_run(tmp_path / "dump", reference)
        return list_lines(verify_folder(tmp_path))

    def test_the_same_gaps_pass(self, tmp_path: Path) -> None:
        assert self.verify_folder(tmp_path, lambda _: None) == []

    def test_a_filled_gap_is_no_item(self, tmp_path: Path) -> None:
        assert self.verify_folder(tmp_path, value((0, 2), 1, 0.0)) == [
            (
                "error[values] batch 0 row 2 is not item 2, which is expected there: feature 1 is "
                "0, expected nan (off by inf); bound 1e-06"
            )
        ]

    def test_an_infinity_of_the_other_sign_is_no_item(self, tmp_path: Path) -> None:
        assert self.verify_folder(tmp_path, value((1, 2), 0, -INF)) == [
            (
                "error[nan] 1 feature value of 40 is NaN or infinite where the reference is not, "
                "in 1 row; first: batch 1 row 2 feature 0 is -inf"
            )
        ]


class TestCases:
    def test_names_words_and_bounds(self, tmp_path: Path) -> None:
        write_case(tmp_path / "b", SET, seed=7)
        write_case(tmp_path / "a", ORDER)
        (tmp_path / "not-a-case").mkdir()
        first, second = the_suite().cases(tmp_path, {})
        assert (first.id, first.placeholders, first.tolerances) == (
            "a",
            {"seed": "42"},
            {"max_abs": 1e-6},
        )
        assert (second.id, second.placeholders) == ("b", {"seed": "7"})

    def test_the_upstream_command_line_is_the_default(self) -> None:
        assert the_suite().args == (
            "--config",
            "{case}",
            "--seed",
            "{seed}",
            "--output-dir",
            "{output_dir}",
        )

    def test_meta_json_larger_than_memory_should_contain_is_not_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_case(tmp_path / "c", ORDER)
        monkeypatch.setattr("parity.bundle.layout.MAX_JSON", 100)
        with pytest.raises(ReferenceSuspectError, match=r"c/meta\.json: larger than 100 bytes"):
            the_suite().cases(tmp_path, {})


@pytest.mark.parametrize(
    ("by_batch", "labels", "code", "words"),
    [
        (False, compute_label, "labels-rolled", "by 1 row against features: all"),
        (True, compute_label, "labels-rolled", "by 1 row within each batch against features"),
        (True, lambda i: i % 3, "labels-rolled", "over the whole run or within each batch"),
        (False, lambda i: i % 3, "labels-rolled", "over the whole run or within each batch"),
    ],
)
def test_a_roll_is_no_more_than_the_labels_prove(
    by_batch: bool, labels: Callable[[int], float], code: str, words: str, tmp_path: Path
) -> None:
    """Labels that repeat with the batches show no border of a batch."""
    spec = LoaderSpec("ORDER", batch_size=3)
    table = [int(labels(item)) for item in range(10)]
    expected = [
        [Row(one.features, table[int(one.features[0] / 10)]) for one in b] for b in spec.make_run()
    ]
    write_run(write_case(tmp_path / "bundle" / "c", spec, full_dataset_labels=table), expected)
    dump = deepcopy(expected)
    for part in [[rows] for rows in dump] if by_batch else [dump]:
        roll_labels(1)(part)
    write_run(tmp_path / "dump", dump)
    (finding,) = verify_folder(tmp_path).findings
    assert finding.code == code
    assert words in str(finding.cause)


def test_the_helper_writes_what_torch_s_bundle_contains(tmp_path: Path) -> None:
    """Keys and files of a case, as `parity pin dataloader` writes them."""
    write_case(tmp_path, SET)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "batch_0000.bin",
        "batch_0001.bin",
        "batch_0002.bin",
        "meta.json",
    ]
    assert json.loads((tmp_path / "meta.json").read_text())["batch_sizes"] == [4, 4, 2]


PARTS = (range(4), range(4, 8), range(8, 10))
TENTHS = [[item + column / 10 for column in range(4)] for item in range(10)]
CHANGES: dict[str, tuple[Callable[[NDArray[Any]], NDArray[Any]], str]] = {
    "doubled": (lambda x: 2 * x,
        "every feature value is multiplied by 2: this is true of all 40 feature values"),
    "shifted": (lambda x: x + np.float32(0.25),
        "0.25 is added to every feature value: this is true of all 40 feature values"),
    "half": (lambda x: x.astype("<f2"),
        "the feature values went through float16: this is true of all 40 feature values"),
    "one of them": (lambda x: x + 0.03 * np.eye(10, 4), "None"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_features_that_all_went_through_one_function(name: str, tmp_path: Path) -> None:
    change, text = CHANGES[name]
    made = change(np.array(TENTHS, "<f4")).tolist()
    dump = [[Row(made[item], compute_label(item)) for item in part] for part in PARTS]
    write_case(tmp_path / "bundle" / "c", ORDER, full_dataset_features=TENTHS)
    right = [[Row(TENTHS[item], compute_label(item)) for item in part] for part in PARTS]
    write_run(tmp_path / "bundle" / "c", right)
    write_run(tmp_path / "dump", dump)

    (finding,) = (f for f in verify_folder(tmp_path).findings if f.code == "values")
    assert str(finding.cause) == text


def test_features_through_float16_in_any_order(tmp_path: Path) -> None:
    rounded = np.array(TENTHS, "<f2").tolist()
    write_case(tmp_path / "bundle" / "c", SET, full_dataset_features=TENTHS)
    right = [[Row(TENTHS[item], compute_label(item)) for item in part] for part in PARTS]
    write_run(tmp_path / "bundle" / "c", right)
    write_run(
        tmp_path / "dump",
        [[Row(rounded[item], compute_label(item)) for item in p] for p in PARTS[::-1]],
    )

    (finding,) = (f for f in verify_folder(tmp_path).findings if f.code == "item-unknown")
    assert str(finding.cause) == (
        "the feature values went through float16: all 10 rows are rows of the data set, so rounded"
    )
