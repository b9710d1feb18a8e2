"""The suite pipeline: planted faults raise exactly their findings, harmless variants none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.errors import ReferenceSuspectError
from parity.items.records import Dataset, compute_epoch_order
from parity.lab.pins import pipeline as pins
from parity.lab.reference_pipeline import Pipeline, build_lesson_dataset
from parity.loaders import (
    ExpectedRun,
    Run,
    audit_run,
    check_disjoint,
    check_other_order,
    check_repeated,
    check_resumed,
)
from parity.suites import find_suite
from parity.suites.base import Dump
from parity.suites.pipeline.suite import ARGS, SUITE
from tests.support import pipeline as port
from tests.support.pipeline import ID, MASK, Dumps, FreePipeline, PortDump, X, Y
from tests.support.pipeline_examples import (
    collect_examples,
    find_leakage,
    make_split_dumps,
    write_split,
)
from tests.support.pipeline_faults import FAULTS, Fault, edit_value, make_dumps, make_row

PAGE = Path(__file__).parents[2] / "docs" / "pipeline.md"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return port.write_bundle(tmp_path_factory.mktemp("bundle"))


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_planted_fault_raises_its_findings_and_no_others(
    fault: Fault, tree: Path, tmp_path: Path
) -> None:
    near = port.find_neighbours(fault.case) | set(fault.also)
    dumps = {name: written for name, written in make_dumps(fault).items() if name in near}
    found = port.verify_dumps(tree, dumps, tmp_path, order=fault.order)

    codes = port.list_codes(found, fault.level)
    if fault.level == "notice":
        only = {name: [code for code in each if code == fault.code] for name, each in codes.items()}
        codes = {name: each for name, each in only.items() if each}
    assert codes == {fault.case: list(fault.codes), **fault.also}


def _documented() -> dict[str, list[str]]:
    """Blocks of text under the heading of each code on the page."""
    parts = re.split(r"^#### `([a-z-]+)`$", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]
    return {
        code: re.findall(r"^```text\n(.*?)\n```$", text, re.DOTALL | re.MULTILINE)
        for code, text in zip(parts[::2], parts[1::2], strict=True)
    }


@pytest.mark.slow
def test_the_page_shows_each_finding_as_a_port_gets_it(tmp_path: Path) -> None:
    printed, page = collect_examples(tmp_path), _documented()

    assert set(page) == set(printed)
    for code, blocks in page.items():
        assert blocks
        assert [block for block in blocks if block not in printed[code]] == []


def test_the_page_says_of_each_finding_what_it_means() -> None:
    parts = re.split(r"^#### `([a-z-]+)`$", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]
    for code, text in zip(parts[::2], parts[1::2], strict=True):
        prose = re.sub(r"^```.*?^```$|^### [^\n]*$", "", text, flags=re.DOTALL | re.MULTILINE)
        assert len(prose.split()) > 8, code


def test_every_code_in_the_suite_s_source_is_on_the_page() -> None:
    folder = Path(__file__).parents[2] / "parity" / "suites"
    files = [*(folder / "pipeline").glob("*.py"), folder / "batch_findings.py"]
    source = "\n".join(path.read_text("utf-8") for path in files)
    makers = r"(?:report_error|report_each|report_examples|_report_unusable)"
    pattern = makers + r'\(\s*"([a-z-]+)"|code="([a-z-]+)"|: \("([a-z]+-[a-z-]+)", "'

    codes = {word for groups in re.findall(pattern, source) for word in groups if word}
    assert len(codes) > 25
    assert codes - {"too-large", "unreadable"} <= set(_documented())


def test_the_suite_is_registered_with_the_words_of_the_contract() -> None:
    assert find_suite("pipeline") is SUITE
    assert " ".join(ARGS) == (
        "--config {case} --seed {seed} --epoch {epoch} --start-batch {start_batch} "
        "--output-dir {output_dir} --rank {rank} --world {world} --workers {workers} "
        "--save-state {save_state} --stop-after {stop_after} --load-state {load_state}"
    )
    values = ["case", "seed", "epoch", "start_batch", "output_dir", "bundle_dir"]
    assert SUITE.list_args(values) == ARGS[:10]


def test_words_of_a_case_come_from_its_meta(tree: Path) -> None:
    words = {case.id: dict(case.placeholders) for case in SUITE.cases(tree, {})}

    assert words["keep-seed-18"] == {"seed": "18", "epoch": "0", "start_batch": "0"}
    assert words["keep-epoch-1"] == {"seed": "17", "epoch": "1", "start_batch": "0"}
    assert words["pad-resume-2"] == {"seed": "17", "epoch": "0", "start_batch": "2"}


def test_a_right_port_passes_every_case_with_all_values_compared(
    tree: Path, tmp_path: Path
) -> None:
    dumps = port.make_correct_dumps()
    found = port.verify_dumps(tree, dumps, tmp_path)

    assert port.list_codes(found) == port.list_codes(found, "warning") == {}
    case = next(case for case in SUITE.cases(tree, {}) if case.id == "pad")
    outcome = SUITE.verify(case, Dump(folder=tmp_path / "pad"), {"max_abs": 1e-6})
    assert (outcome.compared, outcome.margin) == (48, 0.0)
    assert outcome.measures == {"items": 11, "batches": 3, "max_abs": 0.0}


@pytest.mark.parametrize("kind", [FreePipeline, Pipeline])
def test_an_order_of_its_own_passes_where_order_is_free(
    kind: type[Pipeline], tree: Path, tmp_path: Path
) -> None:
    found = port.verify_dumps(tree, port.make_correct_dumps(kind), tmp_path, order="free")

    assert port.list_codes(found) == port.list_codes(found, "warning") == {}


def test_an_order_of_its_own_fails_where_order_is_exact(tree: Path, tmp_path: Path) -> None:
    found = port.verify_dumps(tree, port.make_correct_dumps(FreePipeline), tmp_path)

    codes = port.list_codes(found)
    right = {"sequential", "keep-resume-3", "pad-resume-3", "drop-batch-16"}
    assert {name for name in found if "claim" not in codes.get(name, [])} == (
        set(found) - right | {"sequential"}
    )
    assert {"order"} <= {code for each in codes.values() for code in each}
    assert codes["pad-resume-1"] == ["resume-order"]


def _all(change: Callable[[PortDump], object]) -> Callable[[Dumps], None]:
    return lambda dumps: [change(written) for written in dumps.values()].clear()


def _f32_mean(written: PortDump) -> None:
    assert written.claims is not None
    real = written.join_column(MASK) == 1
    if real.any():
        total = np.float32(0)
        for value in written.join_column(Y)[real]:
            total += value
        written.claims["masked_mean"] = float(total / np.float32(real.sum()))


def _divided_in_f32(written: PortDump) -> None:
    ids = written.join_column(ID)
    x = np.where(ids < 0, np.float32(0), ids * np.float32(0.1)).astype(np.float32)
    written.replace_column(X, x)
    assert written.claims is not None
    written.claims["fingerprint"] = "f" * 64


def _minus_zero(written: PortDump) -> None:
    padded = written.join_column(MASK) == 0
    for which in (X, Y):
        written.replace_column(
            which, np.where(padded, np.float32(-0.0), written.join_column(which))
        )


def _floats(written: PortDump) -> None:
    assert written.claims is not None
    for key, value in written.claims.items():
        if isinstance(value, list):
            written.claims[key] = [float(one) for one in value]
        elif isinstance(value, int):
            written.claims[key] = float(value)


HARMLESS: dict[str, Callable[[PortDump], object]] = {
    "further claims": lambda w: w.claims is not None and w.claims.update(speed=3, shuffle_seed=[]),
    "claims in another order": lambda w: setattr(
        w, "claims", dict(reversed((w.claims or {}).items()))
    ),
    "omitted ids unsorted": lambda w: w.claims and w.claims["omitted_ids"].reverse(),
    "a mean of f32 sums": _f32_mean,
    "padding of minus zero": _minus_zero,
    "whole numbers written as floats": _floats,
    "a fingerprint in capitals": lambda w: (
        w.claims and w.claims.update(fingerprint=w.claims["fingerprint"].upper())
    ),
    "what macOS keeps of files": lambda w: w.files.update({"._batch_0000.bin": b"x"}),
    "only the number of batches": lambda w: setattr(w, "claims", {"num_batches": len(w.batches)}),
}


@pytest.mark.parametrize("name", HARMLESS)
@pytest.mark.parametrize("order", ["exact", "free"])
def test_a_harmless_variant_raises_nothing(
    name: str, order: str, tree: Path, tmp_path: Path
) -> None:
    dumps = port.make_correct_dumps()
    _all(HARMLESS[name])(dumps)

    found = port.verify_dumps(tree, dumps, tmp_path, order=order)
    assert port.list_codes(found) == port.list_codes(found, "warning") == {}


def test_further_files_are_a_warning(tree: Path, tmp_path: Path) -> None:
    dumps = port.make_correct_dumps()
    _all(lambda w: w.files.update({"run.log": b"x", "batch_x.bin": b""}))(dumps)

    found = port.verify_dumps(tree, dumps, tmp_path)
    assert port.list_codes(found) == {}
    assert port.list_codes(found, "warning") == {name: ["file-unread"] for name in dumps}


def test_a_port_that_computes_in_f32_passes_but_for_a_fingerprint_that_is_nobody_s(
    tree: Path, tmp_path: Path
) -> None:
    dumps = port.make_correct_dumps()
    _all(_divided_in_f32)(dumps)

    found = port.verify_dumps(tree, dumps, tmp_path)
    full = {name for name, each in port.list_codes(found).items() if each == ["fingerprint"]}
    # Where all items came, or none, the digest can be compared with them.
    assert "keep" in full
    assert "drop" not in full
    assert {code for each in port.list_codes(found).values() for code in each} == {"fingerprint"}


def test_no_meta_json_is_only_a_notice_where_batches_are_expected(
    tree: Path, tmp_path: Path
) -> None:
    dumps = port.make_correct_dumps()
    for written in dumps.values():
        written.claims = None
        written.files["log"] = b"x"

    codes = port.list_codes(port.verify_dumps(tree, dumps, tmp_path))
    empty = ["drop-batch-16", "keep-resume-3", "pad-resume-3"]
    assert codes == {name: ["dump-empty"] for name in empty}


def test_a_missing_batch_count_of_zero_is_a_dump_error(tree: Path, tmp_path: Path) -> None:
    dumps = {"drop-batch-16": PortDump({}, None, {"log": b"x"})}

    unread, finding = port.verify_dumps(tree, dumps, tmp_path)["drop-batch-16"]
    assert (unread.level, unread.code) == ("warning", "file-unread")
    assert (finding.code, finding.kind) == ("dump-empty", "dump")


def test_the_bound_is_the_case_s_and_its_edge_is_inside(tree: Path, tmp_path: Path) -> None:
    dumps = port.make_correct_dumps()
    edit_value(X, 4, 2.0**-20)(dumps["keep"])  # 9.5e-7 where 0 is due
    dumps["keep"].write(tmp_path)
    case = next(case for case in SUITE.cases(tree, {}) if case.id == "keep")

    def codes(**bounds: float) -> list[str]:
        found = SUITE.verify(case, Dump(folder=tmp_path), bounds).findings
        return [finding.code for finding in found if finding.level == "error"]

    assert case.tolerances == {"max_abs": 1e-6}
    assert codes(max_abs=2.0**-20) == []
    assert codes(max_abs=2.0**-21) == ["values"]
    assert codes(exact=1.0) == ["values"]


def test_stdout_s_line_may_not_contradict_the_files(tree: Path, tmp_path: Path) -> None:
    port.make_correct_dumps()["keep"].write(tmp_path)
    case = next(case for case in SUITE.cases(tree, {}) if case.id == "keep")
    dump = Dump(folder=tmp_path, stdout_json={"num_batches": 4, "batch_sizes": [4, 4, 3]})

    found = SUITE.verify(case, dump, dict(case.tolerances)).findings
    (finding,) = found
    assert finding.message == "stdout states num_batches = 4, the files have 3"


@pytest.mark.parametrize("name", ["batch_0001.bin", "batch_0002.bin"])
@pytest.mark.parametrize(
    ("damage", "code"),
    [(lambda b: b[:-3], "truncated"), (lambda b: b + b"\0", "trailing-bytes")],
)
def test_a_broken_file_is_a_dump_error(
    name: str, damage: Callable[[bytes], bytes], code: str, tree: Path, tmp_path: Path
) -> None:
    written = port.make_correct_dumps()["keep"]
    written.write(tmp_path / "keep")
    written.files[name] = damage((tmp_path / "keep" / name).read_bytes())

    found = port.verify_dumps(tree, {"keep": written}, tmp_path)["keep"]
    assert [(f.code, f.kind, f.tensor) for f in found] == [(code, "dump", name)]


def test_a_file_far_too_large_is_not_read(tree: Path, tmp_path: Path) -> None:
    written = port.make_correct_dumps()["keep"]
    written.write(tmp_path / "keep")
    with (tmp_path / "keep" / "batch_0001.bin").open("r+b") as file:
        file.truncate(2**40)
    written.batches = {}

    assert port.list_codes(port.verify_dumps(tree, {"keep": written}, tmp_path)) == {
        "keep": ["too-large"]
    }


def test_claims_far_too_large_are_not_read(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parity.suites.pipeline.port_statements.MAX_JSON", 100)

    found = port.verify_dumps(tree, {"keep": port.make_correct_dumps()["keep"]}, tmp_path)
    assert port.list_codes(found) == {"keep": ["too-large"]}


def test_relations_to_cases_that_were_not_chosen_are_left_out(tree: Path, tmp_path: Path) -> None:
    dumps = {"keep-again": port.make_correct_dumps()["keep-again"]}

    assert port.verify_dumps(tree, dumps, tmp_path)["keep-again"] == []


def test_a_relation_to_a_case_that_has_no_dump_is_reported(tree: Path, tmp_path: Path) -> None:
    dumps = port.make_correct_dumps()
    cases = {case.id: case for case in SUITE.cases(tree, {})}
    dumps["keep-again"].write(tmp_path)
    assert SUITE.across is not None

    pairs = {"keep": (cases["keep"], None)}
    again = {"keep-again": (cases["keep-again"], Dump(folder=tmp_path))}
    (finding,) = SUITE.across(pairs | again)["keep-again"]
    assert (finding.level, finding.message) == (
        "notice",
        "not compared with keep (same_as), whose dump could not be read",
    )


def test_a_port_that_never_shuffles_anew_is_reported_of_seed_and_epoch(
    tree: Path, tmp_path: Path
) -> None:
    dumps = port.make_correct_dumps(FreePipeline)
    for name in ("keep-epoch-1", "keep-seed-18"):
        dumps[name].batches = dumps["keep"].batches
        dumps[name].correct_claims()

    codes = port.list_codes(port.verify_dumps(tree, dumps, tmp_path, order="free"))
    assert codes == {"keep-epoch-1": ["epoch-ignored"], "keep-seed-18": ["seed-ignored"]}


LARGE = "seed-1099511627794-epoch-65537"
#: Where no order is given: what is done to (seed, epoch, whether resumed), and who tells it.
LOST: dict[str, tuple[Callable[[int, int, bool], tuple[int, int]], dict[str, list[str]]]] = {
    "seed ignored from epoch 1 on": (lambda s, e, _: (17 if e else s, e),
        {"keep-seed-18-epoch-1": ["seed-ignored"], f"keep-{LARGE}": ["seed-ignored"]}),
    "a resumed run takes epoch 0": (lambda s, e, r: (s, 0 if r else e),
        {f"keep-{LARGE}-resume-1": ["resume-order"], f"keep-{LARGE}-resume-2": ["resume-order"],
        f"pad-{LARGE}-resume-1": ["resume-order"]}),
    "a resumed run takes seed 17": (lambda s, e, r: (17 if r else s, e),
        {f"keep-{LARGE}-resume-1": ["resume-order"], f"keep-{LARGE}-resume-2": ["resume-order"],
        f"pad-{LARGE}-resume-1": ["resume-order"]}),
    "epoch clipped": (lambda s, e, _: (s, min(e, 1)), {"keep-epoch-65537": ["epoch-ignored"]}),
    "one bit of the epoch": (lambda s, e, _: (s, e & 1), {"keep-epoch-65537": ["epoch-ignored"]}),
    "seed of 8 bits": (lambda s, e, _: (s % 256, e), {"keep-seed-1099511627794": ["seed-ignored"]}),
    "seed and epoch added up": (lambda s, e, _: (s + e, 0), {"keep-seed-18": ["order-shared"]}),
}  # fmt: skip


@pytest.mark.parametrize("name", LOST)
def test_a_port_that_loses_a_part_of_seed_or_epoch_is_reported_under_any_order(
    name: str, tree: Path, tmp_path: Path
) -> None:
    change, expected = LOST[name]
    dumps = {}
    for case in pins.CASES:
        seed, epoch = change(case.seed, case.epoch, case.start_batch > 0)
        dumps[case.name] = port.make_correct_dump(
            replace(case, seed=seed, epoch=epoch), FreePipeline
        )
        dumps[case.name].correct_claims()

    assert port.list_codes(port.verify_dumps(tree, dumps, tmp_path, order="free")) == expected


def test_disjoint_cases_may_share_no_item(tmp_path: Path) -> None:
    tree = write_split(tmp_path / "tree")
    assert (
        port.list_codes(
            port.verify_dumps(tree, make_split_dumps(), tmp_path / "right", order="free")
        )
        == {}
    )

    found = find_leakage(tmp_path / "wrong")
    assert port.list_codes(found) == {"valid": ["leakage"]}


def test_claims_that_were_right_before_the_fault_contradict_it(tree: Path, tmp_path: Path) -> None:
    dumps = port.make_correct_dumps()
    dumps["keep"].set_rows({5: make_row(9)})

    found = port.verify_dumps(tree, {"keep": dumps["keep"]}, tmp_path)["keep"]
    keys = [f.measures["key"] for f in found if f.code == "contradiction"]
    assert sorted(keys) == ["masked_mean", "omitted_ids", "order[0:11]"]


def test_places_are_those_of_the_files(tree: Path, tmp_path: Path) -> None:
    dumps = port.make_correct_dumps()
    dumps["keep-resume-2"].set_rows({1: make_row(2)})
    dumps["pad"].set_rows({1: (-1, 0, 0, 0), 5: make_row(9)})

    def messages(name: str) -> list[str]:
        found = port.verify_dumps(tree, {name: dumps[name]}, tmp_path)[name]
        return [f.message for f in found if f.code.startswith("item-")]

    assert messages("keep-resume-2") == [
        "item 2 was delivered again in batch 2 row 1, after batch 2 row 0",
        "item 5 was not delivered (expected in batch 2 row 1)",
    ]
    # The padded slot counts as a place, though it holds no item.
    assert messages("pad") == [
        "item 9 was delivered again in batch 1 row 1, after batch 0 row 0",
        "2 items were not delivered; first: item 7 was not delivered (expected in batch 1 row 1)",
    ]


def test_a_mask_that_is_inverted_is_named(tree: Path, tmp_path: Path) -> None:
    written = port.make_correct_dumps()["pad"]
    written.replace_column(MASK, 1 - written.join_column(MASK))
    written.correct_claims()

    found = port.verify_dumps(tree, {"pad": written}, tmp_path)["pad"]
    causes = [finding.cause for finding in found if finding.code == "item-masked"]
    assert causes == ["the mask is 0 at every item and 1 at every padded slot: it is inverted"]


IDS = {
    "places": (lambda ids: np.arange(len(ids)), "; the ids are their positions"),
    "one too large": (lambda ids: ids + 1, "; every id is 1 too large"),
    "sorted in each batch": (
        lambda ids: np.concatenate([np.sort(ids[:4]), np.sort(ids[4:8]), np.sort(ids[8:])]),
        "",
    ),
}


@pytest.mark.parametrize("name", IDS)
def test_ids_that_are_wrong_beside_items_in_the_expected_order_are_reported(
    name: str, tree: Path, tmp_path: Path
) -> None:
    change, pattern = IDS[name]
    written = port.make_correct_dumps()["keep"]
    written.replace_column(ID, change(written.join_column(ID)))
    written.correct_claims()

    found = port.verify_dumps(tree, {"keep": written}, tmp_path)["keep"]
    codes = {f.code for f in found if f.level == "error"}
    causes = {f.cause for f in found if f.code in ("order", "item-unknown", "item-missing")}
    assert "id-mislabelled" in codes
    expected = (
        "the ids are not those of the items, which are as expected: x and y of all 11 items "
        f"are in the expected order{pattern}"
    )
    assert causes == {expected}


def test_ids_beside_items_in_another_order_have_no_cause(tree: Path, tmp_path: Path) -> None:
    written = port.make_correct_dumps()["keep"]
    for which in (X, Y):
        written.replace_column(which, written.join_column(which)[::-1])
    written.replace_column(ID, np.arange(11))
    written.correct_claims()

    found = port.verify_dumps(tree, {"keep": written}, tmp_path)["keep"]
    assert [(f.code, f.cause) for f in found if f.level == "error"] == [
        ("order", None),
        ("id-mislabelled", None),
    ]


def test_batches_in_another_order_are_named_by_their_ids_where_a_value_is_another_items() -> None:
    ids, x, y = np.arange(8), np.arange(8, dtype=np.float32), np.arange(8, dtype=np.float32) / 4
    given = [4, 5, 6, 7, 0, 1, 3, 2]
    batches = [(ids[(at + 4) % 8 :][:4], x[given[at:]][:4], y[given[at:]][:4]) for at in (0, 4)]
    expected = ExpectedRun(
        dataset=Dataset(ids, x, y), batch_size=4, policy="keep", order=np.arange(8)
    )
    order, mislabelled = audit_run(Run.of(batches), expected)
    assert (order.code, mislabelled.code) == ("order", "id-mislabelled")
    assert str(order.cause) == (
        "batches 0 and 1 are exchanged: by their ids, the batches themselves are right, "
        "2 of 2 are elsewhere (0, 1)"
    )


FUNCTIONS = {
    "y negated": (Y, np.negative, "label", "every label has the opposite sign", True),
    "y + 1": (Y, lambda y: y + 1, "label", "1 is added to every label", False),
    "x mirrored": (X, lambda x: 1 - x, "values", "every feature is 1 minus the expected one", True),
    "x doubled": (X, lambda x: 2 * x, "values", "every feature is multiplied by 2", False),
    "x through f16": (X, lambda x: x.astype("f2"), "values", "the features went through float16",
        False),
    "x cut to bf16": (X, lambda x: (x.view("u4") & np.uint32(0xFFFF0000)).view("f4"), "values",
        "the features were cut to bfloat16", False),
    "y zero": (Y, np.zeros_like, "label", "every label is 0", False),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_simple_function_of_a_column_is_reported_before_a_shuffle(
    name: str, tree: Path, tmp_path: Path
) -> None:
    which, change, code, text, shuffled = FUNCTIONS[name]
    written = port.make_correct_dumps()["keep"]
    written.replace_column(which, change(written.join_column(which)))
    written.correct_claims()

    found = port.verify_dumps(tree, {"keep": written}, tmp_path)["keep"]
    (finding,) = (f for f in found if f.tensor in ("x", "y") and f.level == "error")
    assert finding.code == code
    assert str(finding.cause).startswith(f"{text}: ")
    assert ("a shuffle may give the same" in str(finding.cause)) is shuffled


@pytest.mark.parametrize("item", [0, 3])
def test_padding_with_an_item_is_no_contradiction_of_the_order(
    item: int, tree: Path, tmp_path: Path
) -> None:
    written = port.make_correct_dumps()["pad"]
    written.set_rows({11: make_row(item, mask=0)})

    assert port.list_codes(port.verify_dumps(tree, {"pad": written}, tmp_path)) == {
        "pad": ["padding-content"]
    }


def test_an_order_that_is_contradicted_far_on_shows_where(tree: Path, tmp_path: Path) -> None:
    written = port.make_correct_dumps()["keep"]
    written.set_rows({8: make_row(3), 10: make_row(2)})

    found = port.verify_dumps(tree, {"keep": written}, tmp_path)["keep"]
    (message,) = (f.message for f in found if f.code == "contradiction")
    assert message == (
        "meta.json states order[0:11] = [9, 10, 4, 1, 0 and 6 more], the batches have "
        "[9, 10, 4, 1, 0 and 6 more]; they differ first at position 8: 2 and 3"
    )


@pytest.mark.parametrize("case", ["keep", "pad"])
def test_a_mean_of_the_batches_means_is_named(case: str, tree: Path, tmp_path: Path) -> None:
    written = port.make_correct_dumps()[case]
    means = [batch[Y][batch[MASK] == 1].mean() for batch in written.batches.values()]
    assert written.claims is not None
    written.claims["masked_mean"] = float(np.mean(means))

    (finding,) = port.verify_dumps(tree, {case: written}, tmp_path)[case]
    assert finding.code == "contradiction"
    assert str(finding.cause).startswith("it is the mean of the batches' means")


def _meta(change: dict[str, Any]) -> Callable[[Path], object]:
    def damage(case: Path) -> None:
        path = case / "meta.json"
        meta = json.loads(path.read_text("utf-8")) | change
        path.write_text(json.dumps({key: v for key, v in meta.items() if v is not ...}))

    return damage


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a batch lost": (lambda case: (case / "batch_0001.bin").unlink(),
        "the reference's own batches: batch_0001.bin is missing, batch_0002.bin is there"),
    "all batches lost": (lambda case: [path.unlink() for path in case.glob("*.bin")],
        "the reference's own batches: 0 batches, expected 3"),
    "another order": (_meta({"order": [10, 9, 4, 1, 0, 7, 6, 8, 2, 5, 3]}), "2 of 11 items are at"),
    "no order": (_meta({"order": [0, 1]}), "order does not have each id of the data set once"),
    "another mean": (_meta({"masked_mean": 1.5}), "masked_mean = 1.5"),
    "another digest": (_meta({"fingerprint": "0" * 64}), "fingerprint"),
    "other sizes": (_meta({"batch_sizes": [4, 4, 4]}), "batch_sizes = [4, 4, 4]"),
    "other omitted ids": (_meta({"omitted_ids": [1]}), "omitted_ids = [1]"),
    "another policy": (_meta({"policy": "pad"}), "(policy pad); it was delivered as it is"),
    "an unknown policy": (_meta({"policy": "cut"}), "policy is 'cut'; known: keep, drop, pad"),
    "no batch size": (_meta({"batch_size": 0}), "batch_size is 0; it must be at least 1"),
    "no seed": (_meta({"seed": None}), "seed must be int, not None"),
    "ids twice": (_meta({"dataset": {"ids": [1, 1], "x": [0, 0], "y": [0, 0]}}),
        "dataset: ids must be unique, these are not: [1]"),
    "ids of text": (_meta({"dataset": {"ids": ["a"], "x": [0], "y": [0]}}), "dataset: "),
    "sizes of text": (_meta({"batch_sizes": ["4"]}), "batch_sizes must contain only int"),
    "a partner that is not there": (_meta({"same_as": "kept"}),
        "names the case 'kept', which the bundle lacks"),
    "a rank beyond its world": (_meta({"rank": 4, "world": 4}),
        "rank 4 of world 4; expected rank < world <= 65,536"),
    "a world of no rank": (_meta({"rank": 0, "world": 0}), "rank 0 of world 0; expected rank"),
    "a world too large": (_meta({"rank": 0, "world": 2**40}), "rank 0 of world 1,099,511,627,776"),
    "a rank without a world": (_meta({"rank": 0}), "rank 0 of world 1; expected rank < world"),
    "a world without a rank": (_meta({"world": 2}), "rank None of world 2; expected rank < world"),
    "a rank of text": (_meta({"rank": "0", "world": 2}), "rank must be int, not '0'"),
    "an unknown shortfall": (_meta({"rank": 0, "world": 2, "shortfall": "pad"}),
        "shortfall is 'pad'; known: fill, trim, uneven"),
    "fewer workers than none": (_meta({"workers": -1}), "workers is -1; it must be at least 0"),
    "an unknown expectation": (_meta({"expect": "fail"}), "expect is 'fail'; known: load, refuse"),
    "a state of a case that is not there": (_meta({"load_from": "kept"}),
        "names the case 'kept', which the bundle lacks"),
    "a state of a case that saves none": (_meta({"load_from": "drop"}),
        "the chain of load_from cannot be run: 'drop' has no stop_after, so it saves no state"),
    "a run that waits for itself": (_meta({"load_from": "keep", "stop_after": 1}),
        "the chain of load_from cannot be run: it has no end within 16 cases"),
    "a damage of no state": (_meta({"damage": "cut"}), "damage needs load_from, the case whose"),
    "an unknown damage": (_meta({"load_from": "keep", "damage": "burnt"}),
        "damage is 'burnt'; known: empty, cut, flip, foreign"),
    "draws of text": (_meta({"draws": "yes"}), "draws must be bool, not 'yes'"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_a_reference_that_contradicts_itself_is_suspect(name: str, tmp_path: Path) -> None:
    tree = port.write_bundle(tmp_path / "tree")
    damage, message = DAMAGE[name]
    damage(tree / "keep")

    with pytest.raises(ReferenceSuspectError, match=re.escape(message)) as caught:
        port.verify_dumps(tree, {"keep": port.make_correct_dumps()["keep"]}, tmp_path)
    assert str(caught.value).startswith("[reference-malformed] keep/meta.json: ")


def _run(pipeline: Pipeline, batch: int = 0) -> Run:
    cursor = pipeline.start(seed=17, epoch=0, batch=batch)
    return Run.of([b for b, _ in pipeline.run(cursor)], batch)


@pytest.mark.parametrize("policy", ["keep", "drop", "pad"])
@pytest.mark.parametrize("batch_size", [1, 2, 3, 4, 5, 10, 11, 12])
def test_runs_in_memory_are_audited_under_every_policy_and_resumed_at_every_cut(
    policy: Any, batch_size: int
) -> None:
    pipeline = Pipeline(dataset=build_lesson_dataset(), batch_size=batch_size, policy=policy)
    whole = _run(pipeline)
    for cut in range(len(whole.sizes) + 1):
        rest = _run(pipeline, cut)
        expected_run = ExpectedRun(
            dataset=pipeline.dataset,
            batch_size=batch_size,
            policy=policy,
            start_batch=cut,
            order=pipeline.compute_order(17, 0),
        )
        assert [f.code for f in audit_run(rest, expected_run) if f.level == "error"] == []
        assert check_resumed(whole, rest, "whole") == []
        if rest.ids and cut:
            assert [f.code for f in check_resumed(whole, _run(pipeline), "whole")] == []
            shifted = Run.of([b for b, _ in pipeline.run(pipeline.start(seed=17, epoch=1))], cut)
            assert check_resumed(whole, shifted, "whole") != []


@pytest.mark.parametrize("order", ["exact", "free"])
@pytest.mark.parametrize("case", ["keep-resume-1", "keep-resume-2", "pad-resume-1", "pad-resume-2"])
def test_a_run_that_resumes_at_another_place_is_a_wrong_start_and_no_padding(
    tree: Path, tmp_path: Path, case: str, order: str
) -> None:
    """Full batches from elsewhere have the sizes of another policy, and no masked slot."""
    cut, epoch = int(case[-1]), build_lesson_dataset().ids[compute_epoch_order(11, 17, 0)].tolist()
    for start in (start for start in range(11) if start != 4 * cut):
        dumps = port.make_correct_dumps()
        run = dumps[case]
        items = epoch[start : start + 4 * len(run.batches)]
        sizes = [len(items[first : first + 4]) for first in range(0, len(items), 4)]
        run.rebatch([make_row(item) for item in items], sizes, cut)
        run.correct_claims()
        partner = case.partition("-")[0]
        chosen = {name: dumps[name] for name in (partner, case)}
        found = port.verify_dumps(tree, chosen, tmp_path / str(start), order=order)[case]

        starts = [finding for finding in found if finding.code == "resume-start"]
        assert [finding.obtained for finding in starts] == [str(start)], (start, found)
        assert not [
            finding for finding in found if "was padded" in f"{finding.message}{finding.cause}"
        ]


def test_full_batches_of_items_alone_are_not_called_padded() -> None:
    dataset = build_lesson_dataset()
    ids = [*range(11), 0]
    batches = [(part, dataset.x[part], dataset.y[part]) for part in np.asarray(ids).reshape(3, 4)]
    expected = ExpectedRun(dataset=dataset, batch_size=4, policy="keep")
    found = audit_run(Run.of(batches), expected)
    assert [finding.code for finding in found][:2] == ["batch-size", "item-twice"]


def test_items_may_have_any_ids() -> None:
    ids = np.array([70, 3, 2**24, 11, 5])
    dataset = Dataset(ids, np.arange(5), np.arange(5))
    expected_run = ExpectedRun(
        dataset=dataset, batch_size=2, policy="keep", order=np.array([4, 2, 0, 1, 3])
    )
    rows = [4, 2, 0, 1, 1]
    columns = [(ids[rows], dataset.x[rows], dataset.y[rows])]
    run = Run.of([[column[start : start + 2] for column in columns[0]] for start in (0, 2, 4)])

    messages = [finding.message for finding in audit_run(run, expected_run)]
    assert messages == [
        "item 3 was delivered again in batch 2 row 0, after batch 1 row 1",
        "item 11 was not delivered (expected in batch 2 row 0)",
    ]


@pytest.mark.parametrize(
    ("rows", "where"), [((0, 1), "each within its batch"), ((0, 2), "across batches")]
)
def test_labels_that_moved_beside_equal_features_are_labels_that_moved(
    rows: tuple[int, int], where: str
) -> None:
    ids, x, y = np.arange(4), np.ones(4, np.float32), np.arange(4, dtype=np.float32)
    moved = y.copy()
    moved[list(rows)] = y[list(reversed(rows))]
    expected_run = ExpectedRun(
        dataset=Dataset(ids, x, y), batch_size=2, policy="keep", shuffled=False
    )

    (finding,) = audit_run(
        Run.of([(ids[:2], x[:2], moved[:2]), (ids[2:], x[2:], moved[2:])]), expected_run
    )
    assert finding.code == "labels-shuffled"
    assert where in str(finding.cause)


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (
            (3, 1, 4, 2, 5),
            (
                "every label is the one of the item 1 row later in its batch: labels are rolled "
                "against ids and features"
            ),
        ),
        (
            (0, 1, 0, 1, 0, 1),
            (
                "every label is the one of the item 1 row later: labels are rolled "
                "against ids and features; a roll within each batch (1 row later) gives "
                "the same labels, so which one it was is open; the labels repeat every "
                "2 rows, and the roll may be that much longer"
            ),
        ),
    ],
)
def test_a_roll_is_no_more_than_the_labels_prove(labels: tuple[int, ...], text: str) -> None:
    """Batches of two, in each of which the labels are exchanged; one more row stands alone."""
    count = len(labels)
    ids, x, y = np.arange(count), np.ones(count, np.float32), np.array(labels, np.float32)
    moved = y.copy()
    moved[: count // 2 * 2] = y[: count // 2 * 2].reshape(-1, 2)[:, ::-1].ravel()
    expected_run = ExpectedRun(
        dataset=Dataset(ids, x, y), batch_size=2, policy="keep", shuffled=False
    )
    parts = [slice(start, start + 2) for start in range(0, count, 2)]

    (finding,) = audit_run(Run.of([(ids[s], x[s], moved[s]) for s in parts]), expected_run)
    assert (finding.code, finding.cause) == ("labels-rolled", text)


def test_ids_that_f32_cannot_represent_are_distinguished_in_memory() -> None:
    ids = np.array([2**24, 2**24 + 1])
    dataset = Dataset(ids, np.zeros(2), np.zeros(2))
    expected_run = ExpectedRun(dataset=dataset, batch_size=2, policy="keep")

    assert audit_run(Run.of([(ids, np.zeros(2), np.zeros(2))]), expected_run) == []
    twice = Run.of([(ids[[0, 0]], np.zeros(2), np.zeros(2))])
    assert [f.code for f in audit_run(twice, expected_run)] == ["item-twice", "item-missing"]


def test_batches_of_columns_that_differ_in_length_are_an_error() -> None:
    with pytest.raises(ValueError, match="vectors of one length"):
        Run.of([(np.zeros(2), np.zeros(3), np.zeros(2))])


def test_runs_are_compared_to_the_byte() -> None:
    pipeline = Pipeline(dataset=build_lesson_dataset(), batch_size=4, policy="pad")
    one, other = _run(pipeline), _run(pipeline)
    assert check_repeated(one, other, "one") == []

    changed = Run.of([(b.ids, -b.x, b.y, b.mask) for b in _batches(pipeline)])
    assert [f.code for f in check_repeated(one, changed, "one")] == ["not-repeated"]
    assert [f.code for f in check_disjoint(one, other, "one")] == ["leakage"]


def test_runs_that_differ_in_sizes_masks_or_signs_alone_are_distinguished() -> None:
    ids, zeros, ones = np.arange(4), np.zeros(4, np.float32), np.ones(4, np.float32)
    one = Run.of([(ids, zeros, zeros, ones)])
    changes = {
        "sizes [2, 2] instead of [4]": [(ids[:2], *[zeros[:2]] * 2), (ids[2:], *[zeros[2:]] * 2)],
        "batch 0 row 0 has mask 0 instead of 1": [(ids, zeros, zeros, zeros)],
        "batch 0 row 0 has y -0 instead of 0": [(ids, zeros, -zeros, ones)],
    }

    for words, batches in changes.items():
        (finding,) = check_repeated(one, Run.of(batches), "one")
        assert words in finding.message


def test_orders_of_few_items_need_not_differ() -> None:
    def runs(count: int) -> Run:
        return Run.of([(np.arange(count), np.zeros(count), np.zeros(count))])

    assert check_other_order(runs(7), runs(7), "epoch-ignored", "same") == []
    assert len(check_other_order(runs(8), runs(8), "epoch-ignored", "same")) == 1


def _batches(pipeline: Pipeline) -> list[Any]:
    return [batch for batch, _ in pipeline.run(pipeline.start(seed=17, epoch=0))]
