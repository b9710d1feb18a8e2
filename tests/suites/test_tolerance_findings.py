"""Bounds that are nearly used up, and bounds that are blind to a wrong decoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from parity.checkpoints import blocks
from parity.suites.tolerance_findings import (
    NEAR_SHARE,
    ROUNDING,
    check_blind_bound,
    check_near_bound,
    measure_block_error,
)
from parity.tensors.bin import encode_tensor, locate_tensor
from parity.tensors.stored import StoredTensor
from tests.support.blocks import make_random_blocks

QUANTISED = [kind for kind in blocks.DECODERS if kind.startswith("Q")]


def pair(
    folder: Path, expected: NDArray[np.float32], obtained: NDArray[np.float32]
) -> tuple[StoredTensor, StoredTensor]:
    for name, values in (("due", expected), ("came", obtained)):
        (folder / f"{name}.bin").write_bytes(encode_tensor(values))
    return locate_tensor(folder / "due.bin"), locate_tensor(folder / "came.bin")


def test_what_uses_more_than_four_fifths_of_a_bound_is_a_notice() -> None:
    (finding,) = check_near_bound({"a": 0.93, "b": 0.81, "c": NEAR_SHARE, "d": None})

    assert (finding.level, finding.code, finding.tensor) == ("notice", "near-bound", "a")
    assert finding.message == (
        "2 tensors of 4 use more than 80% of the tolerance, most of it a with 93.0%: a, b"
    )
    assert check_near_bound({"c": NEAR_SHARE, "d": None}) == check_near_bound({}) == []


@pytest.mark.parametrize("kind", QUANTISED)
def test_every_wrong_decoder_shows_beside_its_block_and_no_rounding_does(
    kind: str, tmp_path: Path
) -> None:
    """What the rule rests on, however small the block scales are."""
    raw = make_random_blocks(kind, 16)
    right = blocks.decode(kind, raw)
    for wrong in blocks.list_mistakes(kind):
        if not np.isfinite(wrong.decoder(raw)).all():
            continue  # which every bound catches
        expected, obtained = (array * np.float32(1e-7) for array in (right, wrong.decoder(raw)))
        assert measure_block_error(*pair(tmp_path, expected, obtained))[0] > 8 * ROUNDING, (
            wrong.name
        )
    wide = right.astype("<f4").view("<u4")
    bf16 = ((wide + 0x7FFF + (wide >> 16 & 1)) & 0xFFFF0000).astype("<u4").view("<f4")
    for rounded in (bf16, right.astype("<f2").astype("<f4"), np.nextafter(right, np.float32(9))):
        assert measure_block_error(*pair(tmp_path, right, rounded))[0] <= ROUNDING


def test_a_wrong_decoder_that_passes_the_bound_is_a_warning(tmp_path: Path) -> None:
    """GGF-01's kind: a Q4_K whose block scale is about 1e-7 passes with any decoder."""
    raw = make_random_blocks("Q4_K", 2)
    raw[:, :4] = np.array([1e-7, 1e-7], "<f2").view(np.uint8)
    (wrong,) = (m for m in blocks.list_mistakes("Q4_K") if m.name == "sub-scales-4-bit")
    expected, obtained = blocks.decode("Q4_K", raw), wrong.decoder(raw)
    assert 0 < np.abs(expected - obtained).max() < 1e-4
    both = pair(tmp_path, expected, obtained)
    (finding,), measures = check_blind_bound("w", *both, {"max_abs": 1e-4})

    assert (finding.level, finding.code, finding.tensor) == ("warning", "blind-bound", "w")
    assert finding.message.startswith(
        "w passes max_abs <= 0.0001 only because its values are small (at most "
    )
    assert finding.message.endswith("state `relative` or `ulp` in `bounds` to decide it")
    assert measures["block_error"] > 0.2
    assert measures["nmse"] > 0.01
    for stated in ({"relative": 1e-6}, {"ulp": 2.0}):
        assert check_blind_bound("w", *both, {"max_abs": 1e-4, **stated})[0] == []


def test_a_rounding_is_no_reason_to_warn(tmp_path: Path) -> None:
    expected = (np.arange(1, 65, dtype="<f4") * 1e-5).astype("<f4")
    both = pair(tmp_path, expected, expected.astype("<f2").astype("<f4"))

    assert check_blind_bound("w", *both, {"max_abs": 1e-4})[0] == []


def test_values_where_the_block_is_zero_are_beyond_any_rounding(tmp_path: Path) -> None:
    expected = np.zeros(64, "<f4")
    error = measure_block_error(*pair(tmp_path, expected, expected + np.float32(1e-6)))

    assert error == (np.inf, np.inf, 0.0)
    assert measure_block_error(*pair(tmp_path, expected, expected))[0] == 0.0


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_element_that_is_not_finite_hides_no_other(value: float, tmp_path: Path) -> None:
    """Two blocks: one is off by half of its only value, beside which the other one is odd."""
    expected = np.zeros(64, "<f4")
    expected[[0, 1, 32]] = 1e-6, value, value
    obtained = expected.copy()
    obtained[0] *= np.float32(1.5)

    error = measure_block_error(*pair(tmp_path, expected, obtained))
    assert error == pytest.approx((0.5, 0.25, 1e-6))
