"""The reference pipeline: recorded values, every policy, every cut, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parity.items.records import (
    POLICIES,
    Dataset,
    Policy,
    compute_epoch_order,
    compute_fingerprint,
    compute_masked_mean,
)
from parity.lab.reference_pipeline import Batch, Cursor, Pipeline, build_lesson_dataset

RECORDED_DIGEST = "1a81451a8fb32a1bf0ad6307ea19198153ab1603b37174c76c4d498e343e6892"
ORDER_17_0 = [9, 10, 4, 1, 0, 7, 6, 8, 2, 5, 3]
ORDER_17_1 = [4, 0, 5, 10, 6, 2, 1, 9, 7, 3, 8]


def dataset(n: int) -> Dataset:
    """Ids that are not their own indices, so that mixing the two up shows."""
    ids = np.arange(n, dtype=np.int64) * 3 + 100
    return Dataset(ids, (ids / 7).astype(np.float32), (ids * 2 - 1).astype(np.float32))


def pipeline(batch_size: int = 4, policy: Policy = "keep", n: int = 11) -> Pipeline:
    return Pipeline(dataset=dataset(n), batch_size=batch_size, policy=policy)


def batches(pipe: Pipeline, seed: int = 17, epoch: int = 0, batch: int = 0) -> list[Batch]:
    return [got for got, _ in pipe.run(pipe.start(seed=seed, epoch=epoch, batch=batch))]


def real_ids(got: list[Batch]) -> list[int]:
    return [int(i) for batch in got for i in batch.ids[batch.mask]]


def same(one: list[Batch], two: list[Batch]) -> bool:
    columns = zip(sum(one, ()), sum(two, ()), strict=True)
    return len(one) == len(two) and all(a.tobytes() == b.tobytes() for a, b in columns)


# What the lesson recorded


def test_digest_is_the_recorded_one() -> None:
    assert compute_fingerprint(build_lesson_dataset()) == RECORDED_DIGEST


@pytest.mark.parametrize(("epoch", "order"), [(0, ORDER_17_0), (1, ORDER_17_1)])
def test_orders_are_the_recorded_ones(epoch: int, order: list[int]) -> None:
    assert compute_epoch_order(11, 17, epoch).tolist() == order


def test_omitted_ids_are_the_recorded_ones() -> None:
    pipe = Pipeline(dataset=build_lesson_dataset(), batch_size=4, policy="drop")
    assert pipe.find_omitted_ids(17, 0) == [2, 3, 5]


@pytest.mark.parametrize(
    ("policy", "sizes"), [("keep", [4, 4, 3]), ("drop", [4, 4]), ("pad", [4, 4, 4])]
)
def test_sizes_are_the_recorded_ones(policy: Policy, sizes: list[int]) -> None:
    assert [len(batch.ids) for batch in batches(pipeline(policy=policy))] == sizes


# Dataset and fingerprint


def test_a_copy_keeps_the_fingerprint() -> None:
    data = dataset(11)
    assert compute_fingerprint(
        Dataset(data.ids.copy(), data.x.copy(), data.y.copy())
    ) == compute_fingerprint(data)


@pytest.mark.parametrize("column", ["x", "y"])
def test_an_edited_value_changes_the_fingerprint(column: str) -> None:
    data = dataset(11)
    edited = getattr(data, column).copy()
    edited[10] = np.nextafter(edited[10], np.float32(0))
    assert compute_fingerprint(replace(data, **{column: edited})) != compute_fingerprint(data)


def test_reordered_records_change_the_fingerprint() -> None:
    data = dataset(11)
    turned = Dataset(data.ids[::-1], data.x[::-1], data.y[::-1])
    assert compute_fingerprint(turned) != compute_fingerprint(data)
    swapped = Dataset(data.ids, data.y, data.x)
    assert compute_fingerprint(swapped) != compute_fingerprint(data)


def test_strides_do_not_change_the_fingerprint() -> None:
    data = dataset(11)
    wide = np.stack([data.x, data.y], axis=1)
    assert compute_fingerprint(Dataset(data.ids, wide[:, 0], wide[:, 1])) == compute_fingerprint(
        data
    )


def test_ids_are_covered_where_requested() -> None:
    data = dataset(11)
    renamed = replace(data, ids=data.ids + 1)
    assert compute_fingerprint(renamed) == compute_fingerprint(data)
    assert compute_fingerprint(renamed, ["ids"]) != compute_fingerprint(data, ["ids"])


def test_a_dataset_is_a_copy_that_nobody_can_edit() -> None:
    x = np.zeros(2, np.float32)
    data = Dataset(np.array([1, 2]), x, x)
    x[0] = 5
    assert data.x[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        data.x[0] = 1


@pytest.mark.parametrize(
    ("ids", "x", "message"),
    [
        ([1, 2, 1, 2, 3], [0.0] * 5, r"ids must be unique, these are not: \[1, 2\]"),
        ([1, 2], [0.0] * 3, r"vectors of one length, obtained shapes .*'ids': \(2,\)"),
        ([[1], [2]], [[0.0], [0.0]], "vectors of one length"),
        ([1, -1], [0.0] * 2, r"must not be negative \(-1 marks padding\): \[-1\]"),
    ],
)
def test_bad_datasets_are_refused(ids: list[int], x: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Dataset(np.array(ids), np.array(x), np.array(x))


def test_labels_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'y': \(1,\)"):
        Dataset(np.array([1, 2]), np.zeros(2), np.zeros(1))


def test_ids_that_are_no_integers_are_refused() -> None:
    with pytest.raises(TypeError, match="Cannot cast"):
        Dataset(np.array([1.5]), np.zeros(1), np.zeros(1))


# Order


def test_order_is_pure() -> None:
    first = compute_epoch_order(1000, 3, 5).tolist()
    compute_epoch_order(1000, 3, 6)
    np.random.default_rng(3).random()
    assert compute_epoch_order(1000, 3, 5).tolist() == first
    assert sorted(first) == list(range(1000))


@pytest.mark.parametrize(("seed", "epoch"), [(17, 1), (18, 0), (0, 17)])
def test_another_seed_or_epoch_is_another_order(seed: int, epoch: int) -> None:
    assert compute_epoch_order(11, seed, epoch).tolist() != ORDER_17_0


def test_big_seeds_meet_where_the_docstring_says() -> None:
    one, two = compute_epoch_order(50, 5 + 2**32, 7), compute_epoch_order(50, 5, 1 + 7 * 2**32)
    assert one.tolist() == two.tolist()


@pytest.mark.parametrize("n", [0, 1])
def test_tiny_orders(n: int) -> None:
    assert compute_epoch_order(n, 1, 2).tolist() == list(range(n))


@pytest.mark.parametrize(
    ("n", "seed", "epoch", "name"), [(-1, 0, 0, "n"), (1, -1, 0, "seed"), (1, 0, -1, "epoch")]
)
def test_negative_parameters_are_refused(n: int, seed: int, epoch: int, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must not be negative, obtained -1"):
        compute_epoch_order(n, seed, epoch)


# Batches


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("batch_size", [1, 3, 4, 5, 10, 11, 12, 16])
def test_every_record_is_delivered_once_or_named_as_omitted(
    policy: Policy, batch_size: int
) -> None:
    pipe = pipeline(batch_size, policy)
    seen = real_ids(batches(pipe))
    omitted = pipe.find_omitted_ids(17, 0)
    assert sorted(seen + omitted) == pipe.dataset.ids.tolist()
    assert seen == pipe.dataset.ids[pipe.compute_order(17, 0)].tolist()[: len(seen)]
    assert len(omitted) == (11 % batch_size if policy == "drop" else 0)


def test_ids_features_and_labels_stay_together() -> None:
    for batch in batches(pipeline()):
        assert batch.x.tobytes() == (batch.ids / 7).astype(np.float32).tobytes()
        assert batch.y.tolist() == (batch.ids * 2 - 1).tolist()


def test_a_padded_slot_is_nobody() -> None:
    last = batches(pipeline(batch_size=16, policy="pad"))[-1]
    assert last.mask.tolist() == [True] * 11 + [False] * 5
    assert last.ids[11:].tolist() == [-1] * 5
    assert not last.x[11:].any()
    assert not last.y[11:].any()
    assert [column.dtype.name for column in last] == ["int64", "float32", "float32", "bool"]


def test_a_full_last_batch_needs_no_policy() -> None:
    one, two, three = (batches(pipeline(11, policy)) for policy in POLICIES)
    assert same(one, two)
    assert same(one, three)


def test_unshuffled_epochs_have_the_datasets_order() -> None:
    pipe = Pipeline(dataset=dataset(11), batch_size=4, shuffle=False)
    assert real_ids(batches(pipe, epoch=3)) == pipe.dataset.ids.tolist()


@pytest.mark.parametrize("policy", POLICIES)
def test_an_empty_dataset_has_no_batches(policy: Policy) -> None:
    assert batches(pipeline(policy=policy, n=0)) == []


@pytest.mark.parametrize("batch_size", [0, -4])
def test_a_batch_size_that_is_not_positive_is_refused(batch_size: int) -> None:
    with pytest.raises(ValueError, match=f"batch_size must be positive, obtained {batch_size}"):
        pipeline(batch_size)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="one of keep, drop, pad, obtained 'repeat'"):
        pipeline(policy="repeat")  # type: ignore[arg-type]


# Masked mean


def test_padding_does_not_move_the_mean() -> None:
    kept, padded = batches(pipeline())[-1], batches(pipeline(policy="pad"))[-1]
    mean = compute_masked_mean(padded.y, padded.mask)
    assert mean == compute_masked_mean(kept.y, kept.mask) == kept.y.astype(np.float64).mean()
    assert mean != padded.y.mean()


def test_no_observation_has_no_mean() -> None:
    assert compute_masked_mean(np.zeros(3), np.zeros(3, np.bool_)) is None
    assert compute_masked_mean(np.zeros(0), np.zeros(0, np.bool_)) is None


def test_the_sum_is_exact() -> None:
    values = np.array([1e30, 1.0, -1e30, 1.0], np.float64)
    assert compute_masked_mean(values, np.ones(4, np.bool_)) == 0.5


def test_a_mask_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a mask each, obtained \(3,\) and \(2,\)"):
        compute_masked_mean(np.zeros(3), np.ones(2, np.bool_))


# Cursor


@given(
    n=st.integers(0, 20),
    batch_size=st.integers(1, 22),
    policy=st.sampled_from(POLICIES),
    seed=st.integers(0, 2**64),
)
def test_going_on_from_every_cursor_equals_the_uninterrupted_run(
    n: int, batch_size: int, policy: Policy, seed: int
) -> None:
    pipe = pipeline(batch_size, policy, n)
    start = pipe.start(seed=seed, epoch=0)
    whole = list(pipe.run(start))
    cursors = [start, *(cursor for _, cursor in whole)]
    for cut, cursor in enumerate(cursors):
        rest = [batch for batch, _ in pipe.run(cursor)]
        assert same(rest, [batch for batch, _ in whole[cut:]])
        assert same(rest, batches(pipe, seed, 0, cut))


def test_a_cursor_counts_records() -> None:
    pipe = pipeline()
    positions = [cursor.position for _, cursor in pipe.run(pipe.start(seed=17, epoch=0))]
    assert positions == [4, 8, 11]


def cursor_of(pipe: Pipeline, **changed: int) -> Cursor:
    return replace(pipe.start(seed=17, epoch=0, batch=1), **changed)  # type: ignore[arg-type]


def test_another_dataset_is_refused_before_the_first_batch() -> None:
    cursor = cursor_of(pipeline())
    data = dataset(11)
    for other in (
        dataset(12),
        replace(data, ids=data.ids + 1),
        replace(data, y=data.x),
        Dataset(data.ids[::-1], data.x[::-1], data.y[::-1]),
    ):
        with pytest.raises(ValueError, match="the cursor has another fingerprint"):
            Pipeline(dataset=other, batch_size=4).run(cursor)


def test_another_batch_size_is_refused() -> None:
    with pytest.raises(ValueError, match="has another batch_size: expected 5, obtained 4"):
        pipeline(5).run(cursor_of(pipeline(4)))


@pytest.mark.parametrize("position", [-4, 3, 10, 12])
def test_a_position_where_no_batch_begins_is_refused(position: int) -> None:
    pipe = pipeline()
    with pytest.raises(ValueError, match=f"no batch of 4 begins at record {position} of 11"):
        pipe.run(cursor_of(pipe, position=position))
