"""The audits of ids alone: one long run, several epochs, several ranks, in memory or in files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.errors import DumpError
from parity.loaders import (
    Run,
    audit_draws,
    audit_epochs,
    audit_ids,
    audit_ranks,
    check_resumed,
    read_ranks,
)
from parity.results import Finding

RANDOM = np.random.default_rng(1).permutation(1000)
OTHER = np.random.default_rng(2).permutation(1000)


def list_codes(found: Sequence[Finding]) -> list[str]:
    return [finding.code for finding in found]


@pytest.mark.parametrize(
    ("ids", "dataset", "codes"),
    [
        (RANDOM, 1000, []),
        (RANDOM * 3 + 1, np.arange(1000) * 3 + 1, []),
        (RANDOM[:900], 1000, ["rank-missing"]),
        ([*RANDOM, RANDOM[0]], 1000, ["rank-overlap"]),
        (RANDOM + 1, 1000, ["item-unknown", "rank-missing"]),
        ([*RANDOM[1:], -5], 1000, ["item-unknown", "rank-missing"]),
        ([*RANDOM, -1, -1], 1000, []),  # padded slots
        (np.arange(1000), 1000, ["not-shuffled"]),
        (np.arange(1000)[::-1], 1000, ["weak-shuffle"]),
        (OTHER, OTHER, ["not-shuffled"]),  # the data set's own order need not ascend
        ([0], 1, []),
    ],
)
def test_one_run_by_its_ids(ids: Any, dataset: Any, codes: list[str]) -> None:
    assert list_codes(audit_ids(np.asarray(ids, np.int64), dataset)) == codes


@pytest.mark.parametrize(("n", "level"), [(1000, "error"), (10, "error"), (9, "warning")])
def test_the_own_order_is_an_error_where_it_is_improbable(n: int, level: str) -> None:
    (found,) = audit_ids(np.arange(n), np.int64(n))
    assert (found.level, found.code) == (level, "not-shuffled")


def test_a_run_that_need_not_be_shuffled_may_be_in_order() -> None:
    assert audit_ids(np.arange(1000), 1000, shuffled=False) == []


@pytest.mark.parametrize("ids", [np.zeros((2, 2), int), np.array([0.0, 1.0]), ["a"]])
def test_ids_are_integers(ids: Any) -> None:
    with pytest.raises(ValueError, match="ids must be a vector of integers, obtained"):
        audit_ids(ids, 2)


def test_an_unknown_id_is_named_with_its_rank_and_position() -> None:
    first, second = [0, 9, 2, 8], [1, 3, 7, 4]
    found = audit_ranks([first, second], 6, shuffled=False)
    assert [finding.code for finding in found] == ["item-unknown", "rank-missing"]
    assert found[0].message.startswith("3 rows are not items of the data set; first: rank 0 ")
    assert [found[0].message.split(": ")[1], *found[0].details] == [
        "rank 0 position 1 has id 9, which the data set does not have",
        "rank 0 position 3 has id 8, which the data set does not have",
        "rank 1 position 2 has id 7, which the data set does not have",
    ]


def test_an_item_that_is_always_delivered_is_named_a_few_times() -> None:
    (found, _) = audit_ranks([[0] * 1000, [0] * 1000], 2, shuffled=False)
    assert found.message.startswith("item 0 was delivered 2,000 times, expected at most 1: rank 0 ")
    assert found.message.endswith(" and 1,995 more")


def test_what_cannot_be_audited_is_rejected() -> None:
    with pytest.raises(ValueError, match="the ids of the data set must be unique"):
        audit_ids([1, 2], [1, 1])
    with pytest.raises(ValueError, match="there must be a rank"):
        audit_ranks([], 2)


@pytest.mark.parametrize(
    ("orders", "codes"),
    [
        ({(0, 0): RANDOM, (0, 1): OTHER}, []),
        ({(0, 0): RANDOM, (0, 1): RANDOM}, ["epoch-ignored"]),
        ({(0, 0): RANDOM, (1, 0): RANDOM}, ["seed-ignored"]),
        ({(0, 1): RANDOM, (1, 0): RANDOM}, ["order-shared"]),
        ({(0, 0): RANDOM, (0, 1): OTHER, (0, 2): np.roll(RANDOM, 5)}, ["orders-alike"]),
        ({(0, 0): RANDOM, (0, 1): RANDOM[::-1]}, ["orders-alike"]),
        ({(0, 0): RANDOM[:7], (0, 1): RANDOM[:7]}, []),  # likely enough by chance
    ],
)
def test_epochs_and_seeds(orders: Mapping[tuple[int, int], Any], codes: list[str]) -> None:
    assert list_codes(audit_epochs(orders)) == codes


def test_orders_that_are_alike_are_named() -> None:
    (found,) = audit_epochs({(7, 0): RANDOM, (7, 1): np.roll(RANDOM, 5)})
    assert found.message == (
        "compared with the order of seed 7, epoch 0, the order of seed 7, epoch 1, of 1,000 items "
        "is rotated by 995; a shuffle does so with probability below 1e-300"
    )


def deal(order: Any, world: int) -> list[Any]:
    return [order[rank::world] for rank in range(world)]


FILLED = np.concatenate((RANDOM, RANDOM[:4]))
RANKS = {
    "divides": (deal(RANDOM, 8), "fill", []),
    "filled up": (deal(FILLED[:1002], 3), "fill", []),
    "cut": (deal(RANDOM[:999], 3), "trim", []),
    "not filled up": (deal(RANDOM, 3), "fill", ["rank-batches"]),
    "uneven": (deal(RANDOM, 3), "uneven", []),
    "all deliver everything": ([RANDOM, RANDOM], "fill", ["rank-overlap"]),
    "each shuffles by a seed of its own": ([RANDOM[::2], OTHER[::2]], "fill",
        ["rank-overlap", "rank-missing"]),
    "never shuffled": (deal(np.arange(1000), 4), "fill", ["not-shuffled"]),
    "never shuffled, filled up": (deal([*range(1000), 0, 1], 3), "fill", ["not-shuffled"]),
    "each has one part, in order": (np.split(np.arange(1000), 4), "fill", ["weak-shuffle"]),
    "each shuffles one part": ([RANDOM[RANDOM < 500], RANDOM[RANDOM >= 500]], "fill",
        ["weak-shuffle"]),
    "windows of 50": (
        deal(
            np.concatenate([part[OTHER[OTHER < 50]] for part in np.split(np.arange(1000), 20)]), 4
        ),
        "fill",
        ["weak-shuffle"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RANKS)
def test_ranks(case: str) -> None:
    ranks, shortfall, codes = RANKS[case]
    assert list_codes(audit_ranks(ranks, 1000, shortfall=shortfall)) == codes  # type: ignore[arg-type]


def test_files_of_ranks_are_read_with_progress(tmp_path: Path) -> None:
    for rank, ids in enumerate(deal(RANDOM.astype(np.int32), 11)):
        np.save(tmp_path / f"ids_rank_{rank}.npy", ids)
    (tmp_path / "ids_rank_01.npy").write_bytes(b"another name")
    steps: list[str] = []

    ranks = read_ranks(tmp_path, steps.append)
    assert [*ranks] == [f"rank {rank}" for rank in range(11)]
    assert {ids.dtype for ids in ranks.values()} == {np.dtype(np.int64)}
    assert audit_ranks(ranks, 1000, shortfall="uneven", progress=steps.append) == []
    assert [*steps[:1], *steps[10:]] == [
        "read ids_rank_0.npy of 11",
        "read ids_rank_10.npy of 11",
        "count the items of 11 ranks",
        "measure the shuffle",
    ]


def write_header(path: Path, shape: str) -> None:
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda _path: None, "ids_rank_1.npy is missing, or is not a file"),
        (lambda path: path.mkdir(), "ids_rank_1.npy is missing, or is not a file"),
        (
            lambda path: np.save(path, np.zeros((2, 2), int)),
            "contains I64 [2, 2]; expected I64 [n]",
        ),
        (lambda path: np.save(path, np.zeros(2)), "contains F64 [2]; expected I64 [n]"),
        (lambda path: write_header(path, "(10**12,)"), "is not a .npy file"),
        (lambda path: write_header(path, "(1000000000000,)"), "needs 8,000,000,000,000 bytes"),
    ],
)
def test_a_file_that_is_no_vector_of_ids_is_rejected(
    tmp_path: Path, write: Any, message: str
) -> None:
    for rank in (0, 2):
        np.save(tmp_path / f"ids_rank_{rank}.npy", np.arange(3))
    write(tmp_path / "ids_rank_1.npy")

    with pytest.raises(DumpError) as caught:
        read_ranks(tmp_path)
    assert message in str(caught.value)


def test_a_sparse_file_is_not_read_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "ids_rank_0.npy"
    write_header(path, f"({2**40},)")
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + 2**43)

    with pytest.raises(DumpError, match="all ranks may have 1,073,741,824 bytes"):
        read_ranks(tmp_path)


def test_an_empty_folder_is_missing_its_first_rank(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match=r"ids_rank_0\.npy is missing"):
        read_ranks(tmp_path)


PAGE = Path(__file__).parents[1] / "docs" / "pipeline.md"


def list_blocks(language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )


def fill_buffer(seed: int, epoch: int, rank: int = 0, world: int = 1, start_batch: int = 0) -> Any:
    """Shuffle with a buffer of 100 items."""
    generator = np.random.default_rng([seed, epoch])
    buffer, order = list(range(100)), []
    for item in range(100, 1100):
        order.append(buffer.pop(int(generator.integers(len(buffer)))))
        buffer += [item] if item < 1000 else []
    return np.array_split(order[rank::world], 10)[start_batch:]


def test_the_page_s_first_example_accepts_its_loader_and_reports_a_weak_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = list_blocks("python")[0]

    exec(code, {})  # noqa: S102 - the page's own code
    assert capsys.readouterr().out == ""
    definition = re.compile(r"^def load.*?\n\n\n", re.DOTALL | re.MULTILINE)
    weak = definition.sub("", code)
    assert weak != code
    exec(weak, {"load": fill_buffer})  # noqa: S102 - as above
    printed = capsys.readouterr().out
    assert next(block for block in list_blocks("text") if "of 1,000 items" in block) in printed


def lose_last(seed: int, epoch: int, rank: int = 0, world: int = 1, start_batch: int = 0) -> Any:
    """Lose the last item, and repeat a batch after a restart."""
    order = np.random.default_rng([seed, epoch]).permutation(1000)
    order = order[order != 999] if world == 1 else order  # one process alone
    return np.array_split(order[rank::world], 10)[max(0, start_batch - 1) :]


def draw_alike(ids: Any, *_key: int) -> Any:
    """Draw from a copy of one generator."""
    return np.random.default_rng(0).random(len(ids))


def test_the_page_s_first_example_reports_three_faults(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = re.sub(r"^def .*?\n\n\n", "", list_blocks("python")[0], flags=re.DOTALL | re.MULTILINE)
    exec(code, {"load": lose_last, "draw": draw_alike})  # noqa: S102 - the page's own code
    printed = capsys.readouterr().out
    expected = next(block for block in list_blocks("text") if "draws-shared" in block)
    assert set(printed.splitlines()) == set(expected.splitlines())


def test_the_page_s_second_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    ids, y = np.arange(11), np.zeros(11, np.float32)
    x = ids.astype(np.float32)
    order = np.random.default_rng(0).permutation(11)
    batches = [(ids[part], x[part], y[part]) for part in np.split(order, (4, 8))]
    names = {"ids": ids, "x": x, "y": y, "batches": batches, "batches_after_restart": batches[2:]}

    exec(list_blocks("python")[1], names)  # noqa: S102 - as above
    assert capsys.readouterr().out == ""
    exec(list_blocks("python")[1], names | {"batches_after_restart": batches[1:]})  # noqa: S102
    assert capsys.readouterr().out.startswith("resume-start ")


def test_the_page_s_third_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ids").mkdir()
    for rank, part in enumerate(deal(RANDOM, 4)):
        np.save(Path("ids", f"ids_rank_{rank}.npy"), part)

    exec(list_blocks("python")[2].replace("10_000_000", "1000"), {})  # noqa: S102 - as above
    assert capsys.readouterr().out.splitlines()[-1] == "measure the shuffle"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: audit_ids(np.array([0, 2**64 - 1], np.uint64), 2), "at most 2^63 - 1, obtained"),
        (lambda: audit_ids([], -5), "vector of integers"),
        (lambda: audit_ids([0, 1], [-1, 0, 1]), "unique, and not negative"),
        (lambda: audit_ranks([[0]], 1, shortfall="fil"), "a shortfall of fill, trim, uneven"),
        (lambda: audit_epochs({}), "two orders at least"),
        (lambda: audit_epochs({(0, 0): RANDOM}), "two orders at least"),
        (
            lambda: audit_epochs({(0, 0): RANDOM, (0, 1): RANDOM + 10**6}),
            "order of seed 0, epoch 0 has no item in common with any other",
        ),
        (
            lambda: audit_epochs({(0, 0): RANDOM, (0, 1): OTHER, (0, 2): RANDOM + 10**6}),
            "order of seed 0, epoch 2 has no item in common with any other",
        ),
        (lambda: audit_ids([], 0), "the data set has no items"),
        (lambda: audit_ids([], []), "the data set has no items"),
        (lambda: audit_draws({}), "no run has a draw"),
        (lambda: audit_draws({"a": ([], [])}), "no run has a draw"),
        (lambda: audit_draws({"a": ([0], [1]), "b": ([0], [1.0])}), "one kind, obtained float64"),
    ],
)
def test_input_that_would_be_accepted_for_nothing_is_rejected(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        call()


@pytest.mark.parametrize("kept", [slice(None, -1), slice(1, None), slice(None, None, 2)])
def test_lost_items_do_not_hide_that_two_epochs_have_one_order(kept: slice) -> None:
    found = audit_epochs({(0, 0): RANDOM, (0, 1): RANDOM[kept]})
    assert list_codes(found) == ["epoch-ignored"]


@pytest.mark.parametrize("first", [0, 3])
def test_a_restart_must_be_in_the_uninterrupted_run(first: int) -> None:
    whole = Run.of([[2, 4], [3, 1]], first_batch=first)
    for cut in (first - 1, first + 3):
        (found,) = check_resumed(whole, Run.of([], first_batch=cut), "the epoch")
        assert found.code == "resume-start"


def fix_last(order: np.ndarray, item: int) -> np.ndarray:
    """Exchange an item with the last one, as a generator does whose first number is fixed."""
    order = order.copy()
    place = int(np.flatnonzero(order == item)[0])
    order[[place, -1]] = order[[-1, place]]
    return order


@pytest.mark.parametrize(
    ("keys", "item", "codes"),
    [
        ([(seed, 0) for seed in range(5)], 3, ["orders-alike"]),  # a billionth
        ([(0, epoch) for epoch in range(5)], 3, ["orders-alike"]),
        ([(seed, 0) for seed in range(4)], 3, []),  # a millionth
        ([(seed, seed) for seed in range(5)], 3, []),  # each a seed and an epoch of its own
        ([(seed, 0) for seed in range(5)], None, []),
    ],
)
def test_orders_do_not_share_a_place(keys: Any, item: int | None, codes: list[str]) -> None:
    orders = {key: np.random.default_rng([9, *key]).permutation(1000) for key in keys}
    if item is not None:
        orders = {key: fix_last(order, item) for key, order in orders.items()}
    found = audit_epochs(orders)
    assert list_codes(found) == codes
    for one in found:
        text = "have item 3 at position 999; shuffles do so with probability 1e-09"
        assert one.message.endswith(text)


@pytest.mark.parametrize(
    ("runs", "codes"),
    [
        ({"worker 0": ([0, 1], [0.5, 0.25]), "worker 1": ([2, 3], [0.75, 0.125])}, []),
        ({"worker 0": ([0, 1], [0.5, 0.25]), "worker 1": ([2, 3], [0.5, 0.25])}, ["draws-shared"]),
        ({"once": ([0, 1], [0.5, 0.25]), "again": ([1, 0], [0.5, 0.25])}, None),
        ({"once": ([0, 1], [0.5, 0.25]), "again": ([0, 1], [0.5, 0.75])}, ["draws-changed"]),
        ({"padded": ([0, -1, -1], [0.5, 0, 0])}, []),
        ({"seeds": ([0, 1, 2], [2**62, 2**62 + 1, 2**62 + 2]), "none": ([], [])}, []),
        ({"seeds": ([0, 1], [2**62, 2**62])}, ["draws-shared"]),
    ],
)
def test_draws_belong_to_items(runs: Any, codes: list[str] | None) -> None:
    expected = ["draws-shared", "draws-changed"] if codes is None else codes
    assert list_codes(audit_draws(runs)) == expected


@pytest.mark.parametrize("draws", [[0.5], [0.5, np.nan], [0.5, np.inf], [[0.5, 0.5]]])
def test_each_item_has_a_finite_draw(draws: Any) -> None:
    with pytest.raises(ValueError, match="the draws of worker 0 must have one finite number"):
        audit_draws({"worker 0": ([0, 1], draws)})


@pytest.mark.parametrize(
    ("rest", "codes"),
    [
        ([[3, 1], [0]], []),
        ([np.array([3, 1]), np.array([0])], []),
        ([[2, 4], [3, 1], [0]], ["resume-start"]),  # a batch again
        ([[0]], ["resume-start"]),  # a batch too few
        ([[1, 3], [0]], ["resume-order"]),
    ],
)
def test_a_run_is_resumed_by_ids_alone(rest: Any, codes: list[str]) -> None:
    whole = Run.of([[2, 4], [3, 1], [0]])
    assert list_codes(check_resumed(whole, Run.of(rest, first_batch=1), "the epoch")) == codes
