"""Causes of wrong loaders and exported models, planted by hand and named word for word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from parity.codes import list_codes
from parity.diagnose import onnx_mlp
from parity.diagnose.loaders import causes
from parity.items.records import compute_epoch_order
from parity.lab.faults.onnx_faults import OnnxExport
from tests.diagnose.test_diagnose import format_causes

DUE = np.array([8, 0, 9, 1, 4, 5, 6, 3, 2, 7])
SIZES = (4, 4, 2)


def cause(received: Any, sizes: tuple[int, ...] = SIZES, due: Any = DUE, **more: Any) -> Any:
    fields = {"expected_sizes": SIZES, **more}
    run = causes.LoaderRun(
        expected=np.asarray(due), obtained=np.asarray(received), obtained_sizes=sizes, **fields
    )
    return causes.find_run_cause(run)


#: By name: delivered items, their batches, and the cause's code; messages are golden.
RUNS: dict[str, tuple[Any, tuple[int, ...], str]] = {
    "each worker delivers everything (DLD-04)": (np.concatenate([DUE, DUE]), SIZES + SIZES,
        "every-item-again"),
    "last batch dropped": (DUE[:8], (4, 4), "last-batch-dropped"),
    "last batch padded (DLD-01)": (np.concatenate([DUE, DUE[:2]]), (4, 4, 4), "last-batch-padded"),
    "last batch padded with its last item": (np.concatenate([DUE, DUE[-1:], DUE[-1:]]), (4, 4, 4),
        "last-batch-padded"),
    "a worker again": (np.concatenate([DUE, DUE[1::2]]), (4, 4, 4, 3), "shard-repeated"),
    "a batch again": (np.concatenate([DUE, DUE[4:8]]), (4, 4, 4, 2), "batch-repeated"),
    "a batch in another's place": (np.concatenate([DUE[:4], DUE[:4], DUE[8:]]), SIZES,
        "batch-repeated"),
    "a batch lost": (np.concatenate([DUE[:4], DUE[8:]]), (4, 2), "batch-lost"),
    "the first two skipped": (DUE[2:], (4, 4), "head-skipped"),
    "the last left out": (DUE[:9], (4, 4, 1), "tail-lost"),
    "reversed": (DUE[::-1], SIZES, "order-reversed"),
    "each batch reversed": (np.concatenate([DUE[3::-1], DUE[7:3:-1], DUE[:7:-1]]), SIZES,
        "order-in-batches"),
    "shuffled within two batches": (DUE[[1, 2, 3, 0, 4, 6, 5, 7, 8, 9]], SIZES, "order-in-batches"),
    "a worker that delivers nothing": (DUE[::2], (4, 1), "shard-missing"),
    "never shuffled": (np.arange(10), SIZES, "never-shuffled"),
    "two batches exchanged (DLD-05)": (np.concatenate([DUE[4:8], DUE[:4], DUE[8:]]), SIZES,
        "batches-swapped"),
}  # fmt: skip


def test_planted_causes_of_runs_are_named_in_these_words(golden: Callable[..., None]) -> None:
    found = {name: cause(received, sizes) for name, (received, sizes, _) in RUNS.items()}
    assert {name: one.code for name, one in found.items()} == {n: row[2] for n, row in RUNS.items()}
    assert {one.code for one in found.values()} <= set(list_codes("causes"))
    golden(format_causes(found))


@pytest.mark.parametrize("name", [name for name in RUNS if name != "never shuffled"])
def test_one_item_more_takes_the_name_of_a_run_away(name: str) -> None:
    received, sizes, code = RUNS[name]
    received = received.copy()
    received[0] = 77
    found = cause(received, sizes)

    assert found is None or found.code != code


def test_a_resumed_run_that_is_sorted_was_shuffled_all_the_same() -> None:
    """An unshuffled run would go on at its place in the data set, with other items."""
    rest = {"due": DUE[4:], "expected_sizes": (4, 2), "position": 4}

    assert str(cause(np.sort(DUE[4:]), (4, 2), **rest)) == (
        "the items are in ascending order: all 6 items are the expected ones, sorted"
    )
    assert cause(np.arange(4, 10), (4, 2), **rest).code == "never-shuffled"


#: What came of 0 to 9 in order, its sizes: few items that fit a worker's share by chance.
CHANCE = {
    "half of the items twice": ([0, 1, 2, 3, 4] * 2, SIZES),
    "every fifth item missing": ([0, 2, 3, 4, 5, 7, 8, 9], (4, 4)),
    "two neighbours missing": ([0, 1, 4, 5, 6, 7, 8, 9], (4, 4)),
    "two neighbours twice": ([0, 1, 2, 3, 2, 3, 4, 5, 6, 7, 8, 9], (4, 4, 4)),
    "every third item missing": ([0, 2, 3, 5, 6, 8, 9], (4, 3)),
    "two items exchanged": ([1, 0, 2, 3, 4, 5, 6, 7, 8, 9], SIZES),
}


@pytest.mark.parametrize("name", CHANCE)
def test_what_fits_by_chance_is_no_cause(name: str) -> None:
    received, sizes = CHANCE[name]

    assert cause(received, sizes, due=np.arange(10)) is None
    found = cause(received, sizes, due=np.arange(10), ordered=False)
    assert found is None or found.code == "last-batch-dropped"


def test_a_part_of_a_long_run_is_the_share_of_a_worker() -> None:
    due, sizes = np.arange(100), (4,) * 25
    received = np.delete(due, slice(25, 50))

    assert str(cause(received, (4,) * 18 + (3,), due=due, expected_sizes=sizes)) == (
        "the items of one worker are missing: a run of 1/4 of the items of the run (shard 1), 25 "
        "in all, are missing"
    )


def test_a_last_batch_that_was_to_be_dropped() -> None:
    found = cause(DUE, SIZES, due=DUE[:8], expected_sizes=(4, 4))

    assert str(found) == (
        "the last batch, which is not full and must be dropped, was delivered: "
        "all 8 expected items were delivered, and 2 after them"
    )


#: What came, its sizes, what was due, its sizes, whether in order: near misses of a last batch.
NO_LAST = {
    "dropped, but an item is another's": ([*DUE[:7], 77], (4, 4), DUE, SIZES, False),
    "dropped, but an item came twice": ([*DUE[:7], DUE[0]], (4, 4), DUE, SIZES, False),
    "kept, but two are exchanged": ([DUE[1], DUE[0], *DUE[2:]], SIZES, DUE[:8], (4, 4), True),
    "kept, but an item came twice": ([*DUE[:9], DUE[0]], SIZES, DUE[:8], (4, 4), True),
    "padded, but with strangers": ([*DUE, 77, 78], (4, 4, 4), DUE, SIZES, True),
}


@pytest.mark.parametrize(
    ("received", "sizes", "due", "expected_sizes", "ordered"), NO_LAST.values(), ids=NO_LAST
)
def test_a_last_batch_is_no_cause_where_the_rest_is_not_right(
    *, received: Any, sizes: Any, due: Any, expected_sizes: Any, ordered: bool
) -> None:
    found = cause(received, sizes, due=due, expected_sizes=expected_sizes, ordered=ordered)
    assert found is None or not found.code.startswith("last-batch")


@pytest.mark.parametrize("received", [DUE, DUE[:0]])
def test_a_run_that_is_right_or_empty_has_no_cause(received: Any) -> None:
    assert cause(received, SIZES if len(received) else ()) is None


def test_where_no_order_is_expected_no_order_is_a_cause() -> None:
    assert cause(np.arange(10), ordered=False) is None
    assert cause(DUE[::-1][:8], (4, 4), ordered=False).code == "last-batch-dropped"


def test_the_order_of_another_epoch_is_reported() -> None:
    due, received = compute_epoch_order(10, 17, 0), compute_epoch_order(10, 17, 3)

    assert str(cause(received, due=due, epoch_items=10)) == (
        "this is the order of seed 17, epoch 3: all 10 items are in that order"
    )
    assert cause(received, due=due) is None, "torch's orders are not NumPy's"
    assert cause(due[:8], (4, 4), due=due, epoch_items=10).code == "last-batch-dropped"


KEYS = {
    (0, 17): "seed and epoch are exchanged",
    (17, 5): "epochs are counted from another number",
    (17, 1): "the epoch is a flag",
}


@pytest.mark.parametrize("key", KEYS)
def test_what_became_of_seed_and_epoch_is_said(key: tuple[int, int]) -> None:
    own = (17, 6) if key == (17, 5) else ((17, 7) if key == (17, 1) else (17, 0))
    due, received = compute_epoch_order(11, *own), compute_epoch_order(11, *key)
    more = {"expected_sizes": (4, 4, 3), "epoch_items": 11, "seed_epoch": own}

    assert str(cause(received, (4, 4, 3), due=due, **more)) == (
        f"this is the order of seed {key[0]}, epoch {key[1]}: all 11 items are in that order, as "
        f"where {KEYS[key]}"
    )
    # Of the last three items one order in a thousand says the same.
    rest = more | {"expected_sizes": (3,), "position": 8}
    assert cause(received[8:], (3,), due=due[8:], **rest) is None


def test_an_order_that_was_inverted_is_reported() -> None:
    due = compute_epoch_order(11, 17, 0)
    more = {"expected_sizes": (4, 4, 3), "epoch_items": 11, "seed_epoch": (17, 0)}

    assert str(cause(np.argsort(due), (4, 4, 3), due=due, **more)) == (
        "the order is the inverse of the expected one: all 11 places have the "
        "position of their item in the expected order"
    )


LABELS = np.array([0, 3, 3, 2, 3, 6, 4, 4, 6, 3], float)


def test_labels_rolled_against_features() -> None:
    due = LABELS[DUE]
    for by, words in ((1, "1 row earlier"), (-2, "2 rows later")):
        found = causes.find_label_cause(due, np.roll(due, by), LABELS, DUE)
        rows = words.rsplit(" ", 1)[0]
        assert str(found) == (
            f"labels are rolled by {rows} against features: all 10 labels are those of the item "
            f"{words}"
        )


#: Due labels, those that came, sizes of batches.
DOUBTS = {
    "within each batch": ((3, 1, 4, 2, 7), (1, 4, 3, 7, 2), (3, 2)),
    "either": ((0, 1, 2, 0), (1, 2, 0, 0), (3, 1)),
    "periodic": ((0, 1, 2, 0, 1, 2), (2, 0, 1, 2, 0, 1), (4, 2)),
    "either, periodic": ((0, 1, 2, 0, 1, 2), (2, 0, 1, 2, 0, 1), (3, 3)),
}  # fmt: skip


def test_no_more_is_said_of_a_roll_than_the_labels_prove(golden: Callable[..., None]) -> None:
    found = {}
    for name, (labels, obtained, sizes) in DOUBTS.items():
        due = np.array(labels, float)
        received = np.array(obtained, float)
        found[name] = causes.find_label_cause(due, received, due, np.arange(len(due)), sizes)
    assert {one and one.code for one in found.values()} == {"labels-rolled"}
    golden(format_causes(found))


def test_labels_that_were_not_shuffled_with_their_features() -> None:
    assert str(causes.find_label_cause(LABELS[DUE], LABELS, LABELS, DUE)) == (
        "features were shuffled and labels were not: all 10 labels are in the data set's own order"
    )


CLASSES = np.arange(10) % 3.0
#: Labels that came, and the code of their cause.
MAPPED = {
    "exchanged": (np.array([1.0, 0.0, 2.0])[CLASSES.astype(int)], "classes-mapped"),
    "the next class, around": ((CLASSES + 1) % 3, "classes-mapped"),
    "off by one": (CLASSES + 1, "addend"),
    "zero": (CLASSES * 0, "all-equal"),
}  # fmt: skip


def test_labels_that_are_a_function_of_the_due_ones(golden: Callable[..., None]) -> None:
    found = {}
    for name, (received, _) in MAPPED.items():
        found[name] = causes.find_label_cause(CLASSES, received, CLASSES, np.arange(10))
        received[4] += 5
        assert causes.find_label_cause(CLASSES, received, CLASSES, np.arange(10)) is None
    assert {name: one and one.code for name, one in found.items()} == {
        name: code for name, (_, code) in MAPPED.items()
    }
    golden(format_causes(found))


def test_labels_whose_bits_are_whole_numbers_are_no_multiples() -> None:
    due = np.arange(6, dtype="<f4")
    assert causes.find_label_cause(due, due.astype("<i4").view("<f4"), due, np.arange(6)) is None


def test_few_labels_are_no_function() -> None:
    due = np.array([0.0, 1, 2, 3])
    assert causes.find_label_cause(due, np.array([5.0, 0, 9, 4]), due, np.arange(4)) is None


def test_labels_that_are_equal_or_merely_wrong_have_no_cause() -> None:
    ones = np.ones(4)
    assert causes.find_label_cause(ones, ones * 2, ones, np.arange(4)) is None
    assert causes.find_label_cause(LABELS, LABELS, LABELS, np.arange(10)) is None
    assert causes.find_label_cause(np.array([1.0]), np.array([2.0]), ones, np.arange(1)) is None


# --- exported models ------------------------------------------------------------------------

_DRAWS = np.random.default_rng(5)
WEIGHTS = [
    (_DRAWS.integers(-64, 64, shape) / 64).astype("<f4") for shape in ((8, 4), (8,), (2, 8), (2,))
]
INPUTS = {
    "zeros": np.zeros((1, 4), "<f4"),
    "random": (_DRAWS.integers(-64, 64, (1, 4)) / 64).astype("<f4"),
}


def name_weights(arrays: Any) -> dict[str, Any]:
    return dict(zip(onnx_mlp.NAMES, arrays, strict=True))


def right(x: Any) -> Any:
    one, bias1, two, bias2 = WEIGHTS
    return (np.maximum(x @ one.T + bias1, 0) @ two.T + bias2).astype("<f4")


def forward_cause(wrong: Any) -> Any:
    due = {name: right(x) for name, x in INPUTS.items()}
    received = {name: np.asarray(wrong(x, *WEIGHTS), "<f4") for name, x in INPUTS.items()}
    return onnx_mlp.find_mlp_mistake(name_weights(WEIGHTS), INPUTS, due, received, 1e-5)


def relu(x: Any) -> Any:
    return np.maximum(x, 0)


EXPORTS: dict[str, tuple[Any, str, str]] = {
    "transB of fc1": (lambda x, w, b, v, c: relu(x @ w.reshape(4, 8) + b) @ v.T + c,
        "onnx-trans-b", "the Gemm of fc1 takes its weight without transposing it (transB)"),
    "transB of fc2": (lambda x, w, b, v, c: relu(x @ w.T + b) @ v.reshape(8, 2) + c,
        "onnx-trans-b", "the Gemm of fc2 takes its weight without transposing it (transB)"),
    "bias of fc1": (lambda x, w, b, v, c: relu(x @ w.T) @ v.T + c + 0 * b[0], "onnx-bias",
        "fc1 has no bias"),
    "bias of fc2": (lambda x, w, b, v, c: relu(x @ w.T + b) @ v.T + 0 * c, "onnx-bias",
        "fc2 has no bias"),
    "no activation": (lambda x, w, b, v, c: (x @ w.T + b) @ v.T + c, "onnx-activation",
        "the ReLU between the layers is missing"),
    "another activation": (lambda x, w, b, v, c: np.tanh(x @ w.T + b) @ v.T + c, "onnx-activation",
        "tanh replaces the ReLU"),
    "a leaky activation": (lambda x, w, b, v, c: np.where((h := x @ w.T + b) > 0, h,
        0.01 * h) @ v.T + c, "onnx-activation", "a leaky ReLU replaces the ReLU"),
    "SiLU": (lambda x, w, b, v, c: ((h := x @ w.T + b) / (1 + np.exp(-h))) @ v.T + c,
        "onnx-activation", "SiLU replaces the ReLU"),
    "GELU": (
        lambda x, w, b, v, c: ((h := x @ w.T + b) * np.vectorize(NormalDist().cdf)(h)) @ v.T + c,
        "onnx-activation",
        "GELU replaces the ReLU",
    ),
    "a weight of zeros": (lambda x, w, b, v, c: relu(x @ (0 * w).T + b) @ v.T + c,
        "onnx-byte-order", "the weight of fc1 is stored big-endian, or is all zero"),
    "one activation more": (lambda x, w, b, v, c: relu(relu(x @ w.T + b) @ v.T + c),
        "onnx-activation", "a ReLU follows the last layer"),
    "a softmax over the batch": (
        lambda x, w, b, v, c: np.exp(y := relu(x @ w.T + b) @ v.T + c) / np.exp(y).sum(axis=0),
        "onnx-activation",
        "a softmax over the batch, which has one item, follows the last layer",
    ),
    "SELU": (lambda x, w, b, v, c: (1.0507009873554805 * np.where((h := x @ w.T + b) > 0, h,
        1.6732632423543772 * np.expm1(h)) @ v.T + c), "onnx-activation", "SELU replaces the ReLU"),
    "big-endian weights": (lambda x, w, b, v, c: relu(x @ w.byteswap().T + b) @ v.T + c,
        "onnx-byte-order", "the weight of fc1 is stored big-endian, or is all zero"),
    "no bias at all": (lambda x, w, b, v, c: relu(x @ w.T) @ v.T + 0 * (b[0] + c),
        "onnx-bias+onnx-bias", "two causes at once: fc1 has no bias, and fc2 has no bias"),
    "two of one layer": (lambda x, w, b, v, c: relu(x @ w.reshape(4, 8)) @ v.T + c + 0 * b[0],
        "onnx-trans-b+onnx-bias", ("two causes at once: the Gemm of fc1 takes its weight without "
        "transposing it (transB), and fc1 has no bias")),
}  # fmt: skip


@pytest.mark.parametrize(("wrong", "code", "text"), EXPORTS.values(), ids=EXPORTS)
def test_a_mistake_of_an_exporter_is_named(wrong: Any, code: str, text: str) -> None:
    with np.errstate(all="ignore"):
        found = forward_cause(wrong)

    assert (code, text) == (found.code, found.text)
    assert found.evidence == (
        "computed in that way, all outputs on 2 inputs (zeros, random) are the obtained ones"
    )


def test_a_weight_of_zeros_that_is_no_swapped_one() -> None:
    weights = [WEIGHTS[0], WEIGHTS[1], WEIGHTS[2] + np.float32(1e-4), WEIGHTS[3]]
    due = {
        name: relu(x @ weights[0].T + weights[1]) @ weights[2].T + weights[3]
        for name, x in INPUTS.items()
    }
    received = {name: (0 * due[name] + weights[3]).astype("<f4") for name in INPUTS}
    found = onnx_mlp.find_mlp_mistake(name_weights(weights), INPUTS, due, received, 1e-5)
    assert found is not None
    assert (found.code, found.text) == ("onnx-weight-zero", "the weight of fc2 is all zero")


def test_outputs_that_no_mistake_gives_have_no_cause() -> None:
    assert forward_cause(lambda x, *_: right(x) + np.float32(0.01)) is None
    assert forward_cause(lambda x, *_: right(x)) is None, "right outputs show no mistake"
    assert forward_cause(lambda x, *_: right(x).reshape(2)) is None


def test_weights_of_one_size_that_are_exchanged() -> None:
    one, bias1, _, _ = WEIGHTS
    two, bias2 = (_DRAWS.integers(-64, 64, shape).astype("<f4") / 64 for shape in ((4, 8), (4,)))
    due, received = (
        {name: relu(x @ w.T + bias1) @ v.T + bias2 for name, x in INPUTS.items()}
        for w, v in ((one, two), (two.reshape(8, 4), one.reshape(4, 8)))
    )
    weights = name_weights([one, bias1, two, bias2])
    found = onnx_mlp.find_mlp_mistake(weights, INPUTS, due, received, 1e-5)
    assert found is not None
    assert (found.code, found.text) == (
        "onnx-swapped",
        "the weights of fc1 and fc2 are exchanged",
    )


def test_weights_under_another_field(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    weights = name_weights(WEIGHTS)
    path = tmp_path / "mlp.onnx"
    OnnxExport(tuple(WEIGHTS), is_misplaced=True).write(path)
    found = onnx_mlp.find_misplaced_weights(path, weights)
    assert found is not None
    assert found.evidence.startswith("4 of 4 lie in the file byte for byte: fc1.weight under field")
    OnnxExport(tuple(WEIGHTS)).write(path)
    assert onnx_mlp.find_misplaced_weights(path, weights) is None


def test_weights_that_are_inputs() -> None:
    weights = name_weights(WEIGHTS)
    requested: list[Any] = [("x", "f", [1, 4]), ("w", "f", [8, 4])]
    assert str(onnx_mlp.find_unfilled_inputs(requested, weights)) == (
        "weights are inputs of the graph and have no initialiser: onnxruntime asks for 2 inputs, "
        "among them w [8, 4] like fc1.weight"
    )
    assert onnx_mlp.find_unfilled_inputs(requested[:1], weights) is None
    assert onnx_mlp.find_unfilled_inputs([*requested[:1], ("mask", "f", [1, 1])], weights) is None


def test_a_mistake_that_these_weights_cannot_show_is_not_named() -> None:
    """A bias of zeros is missed by nobody."""
    weights = [*WEIGHTS[:3], np.zeros(2, "<f4")]
    one, bias1, two, bias2 = weights
    due = {name: relu(x @ one.T + bias1) @ two.T + bias2 for name, x in INPUTS.items()}

    assert onnx_mlp.find_mlp_mistake(name_weights(weights), INPUTS, due, due, 1e-5) is None
