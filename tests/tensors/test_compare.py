"""Two tensors compared with each other: the probes that every comparator gets partly wrong."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import FrozenInstanceError, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from parity.tensors import FormatError
from parity.tensors import paired_reads as module
from parity.tensors.compare import compare, compare_arrays, compare_shared, select_bounds
from parity.tensors.dtypes import DTYPES, PACKED, view_bits
from parity.tensors.groups.base import Pair
from parity.tensors.measures import MAX_SAMPLES, CosineAccumulator, Measures, Sample
from tests.support.tensors import bf16, f32, from_bits, store_bin, store_npy, store_tensor

NAN, INF = math.nan, math.inf
EXACT = {"exact": 1.0}
F32_MAX = float(np.finfo(np.float32).max)


def compared(
    expected: NDArray[Any], obtained: NDArray[Any], bounds: dict[str, float], dtype: str = "F32"
) -> Measures:
    selected = select_bounds(DTYPES[dtype], bounds)
    return compare_arrays(expected, obtained, DTYPES[dtype], selected)


# What must fail: expected, obtained, bounds, then (bad, lost, zeros, payloads) as counted.
RED = {
    "NaN for a number": ([1.0], [NAN], {"max_abs": 1e-5}, (1, 1, 0, 0)),
    "a number for NaN": ([NAN], [1.0], {"max_abs": 1e-5}, (1, 1, 0, 0)),
    "NaN for 0, relative": ([0.0], [NAN], {"relative": 1.0}, (1, 1, 0, 0)),
    "NaN for inf": ([INF], [NAN], {"max_abs": 1e30}, (1, 1, 0, 0)),
    "3 for inf, relative": ([INF], [3.0], {"relative": 0.1}, (1, 1, 0, 0)),
    "3 for -inf": ([-INF], [3.0], {"max_abs": 1e30}, (1, 1, 0, 0)),
    "inf for a number, relative": ([3.0], [INF], {"relative": 1e30}, (1, 1, 0, 0)),
    "-inf for inf": ([INF], [-INF], {"max_abs": 1e30}, (1, 1, 0, 0)),
    "inf for -inf, ULP": ([-INF], [INF], {"ulp": 2.0**33}, (1, 1, 0, 0)),
    "inf right, another wrong": ([INF, 1.0], [INF, 2.0], {"max_abs": 0.5}, (1, 0, 0, 0)),
    "inf for the largest, ULP": ([F32_MAX], [INF], {"ulp": 4}, (1, 1, 0, 0)),
    "the largest for inf, ULP": ([INF], [F32_MAX], {"ulp": 4}, (1, 1, 0, 0)),
    "-0 for 0, exact": ([0.0], [-0.0], EXACT, (1, 0, 1, 0)),
    "0 for -0, exact": ([-0.0], [0.0], EXACT, (1, 0, 1, 0)),
    "a bound of 0": ([1.0], [1.0 + 2**-23], {"max_abs": 0.0}, (1, 0, 0, 0)),
    "a bound of 0, small": ([0.0], [5e-8], {"max_abs": 0.0}, (1, 0, 0, 0)),
    "a bound of 0 ULP": ([1.0], [1.0 + 2**-23], {"ulp": 0.0}, (1, 0, 0, 0)),
    "a relative bound of 0": ([1.0], [1.0 + 2**-23], {"relative": 0.0}, (1, 0, 0, 0)),
    "3e-9 for 1e-9, ULP": ([1e-9], [3e-9], {"ulp": 4}, (1, 0, 0, 0)),
    "3e-9 for 1e-9, relative": ([1e-9], [3e-9], {"relative": 1e-5}, (1, 0, 0, 0)),
    "one of two bounds": ([1e-9], [3e-9], {"max_abs": 1e-5, "relative": 1e-5}, (1, 0, 0, 0)),
    "the first of two bounds": ([1e-9], [3e-9], {"relative": 1e-5, "max_abs": 1e-5}, (1, 0, 0, 0)),
    "the first, beside a share": (
        [100.0],
        [101.0],
        {"max_abs": 0.5, "relative": 0.1},
        (1, 0, 0, 0),
    ),
    "the first, beside ULP": ([100.0], [101.0], {"max_abs": 0.5, "ulp": 1e9}, (1, 0, 0, 0)),
    "the other of two bounds": ([100.0], [101.0], {"relative": 0.1, "max_abs": 0.5}, (1, 0, 0, 0)),
    "NaN under cosine alone": ([1.0, 1.0], [1.0, NAN], {"cosine": 0.5}, (1, 1, 0, 0)),
    "nothing asked": ([1.0], [2.0], {}, (1, 0, 0, 0)),
    "exact beside another": ([1.0], [2.0], {"exact": 1.0, "max_abs": 9.0}, (1, 0, 0, 0)),
    "exact left out by its value": ([1.0], [2.0], {"exact": 0.0}, (1, 0, 0, 0)),
}
# What must pass: the same, and the counts that a report still tells.
GREEN = {
    "NaN where NaN is due": ([NAN, 1.0], [NAN, 1.0], {"max_abs": 1e-5}, (0, 0, 0, 0)),
    "NaN where NaN is due, exact": ([NAN], [NAN], EXACT, (0, 0, 0, 0)),
    "another NaN under a bound": ([NAN], [-NAN], {"max_abs": 0.0}, (0, 0, 0, 1)),
    "infinities": ([INF, -INF], [INF, -INF], {"relative": 0.0}, (0, 0, 0, 0)),
    "both zero": ([0.0, 0.0], [0.0, 0.0], {"max_abs": 1e-5, "cosine": 0.9999}, (0, 0, 0, 0)),
    "both zero, cosine alone": ([0.0, 0.0], [0.0, 0.0], {"cosine": 0.9999}, (0, 0, 0, 0)),
    "-0 for 0 under a bound": ([0.0], [-0.0], {"max_abs": 0.0}, (0, 0, 1, 0)),
    "-0 for 0 under 0 ULP": ([0.0], [-0.0], {"ulp": 0.0}, (0, 0, 1, 0)),
    "-0 for 0, relative": ([0.0], [-0.0], {"relative": 0.0}, (0, 0, 1, 0)),
    "just the bound": ([1.0], [1.5], {"max_abs": 0.5}, (0, 0, 0, 0)),
    "just the ULP": ([1.0], [1.0 + 2**-22], {"ulp": 2}, (0, 0, 0, 0)),
    "just the share": ([4.0], [5.0], {"relative": 0.25}, (0, 0, 0, 0)),
    "just the share below zero": ([-4.0], [-5.0], {"relative": 0.25}, (0, 0, 0, 0)),
    "equal at 1e38": ([1e38], [1e38], {"max_abs": 1e-5, "cosine": 1.0}, (0, 0, 0, 0)),
    "NaN on both sides, cosine": ([NAN, 1.0], [NAN, 1.0], {"cosine": 0.99}, (0, 0, 0, 0)),
    "inf on both sides, cosine": ([INF, 1.0], [INF, 1.0], {"cosine": 0.99}, (0, 0, 0, 0)),
}


def counts(found: Measures) -> tuple[int, int, int, int]:
    return found.bad, found.lost, found.zeros, found.payloads


@pytest.mark.parametrize(("expected", "obtained", "bounds", "due"), RED.values(), ids=RED)
def test_that_a_probe_fails(
    expected: list[float], obtained: list[float], bounds: dict[str, float], due: tuple[int, ...]
) -> None:
    found = compared(f32(*expected), f32(*obtained), bounds)
    assert not found.passed
    assert counts(found) == due


@pytest.mark.parametrize(("expected", "obtained", "bounds", "due"), GREEN.values(), ids=GREEN)
def test_that_a_probe_passes(
    expected: list[float], obtained: list[float], bounds: dict[str, float], due: tuple[int, ...]
) -> None:
    found = compared(f32(*expected), f32(*obtained), bounds)
    assert found.passed
    assert counts(found) == due


def test_one_wrong_of_a_million_is_found() -> None:
    """Its NMSE is 1e-7, so that whoever asks for a mean passes it."""
    expected = np.ones(10**6, "<f4")
    obtained = expected.copy()
    obtained[777_777] += np.float32(0.3)
    found = compared(expected, obtained, {"max_abs": 1e-4, "cosine": 0.9999})
    assert (found.passed, found.bad, found.count) == (False, 1, 10**6)
    assert found.worst is not None
    assert (found.worst.index, found.worst.expected, found.worst.obtained) == (
        777_777,
        1.0,
        float(np.float32(1.3)),
    )
    assert found.cosine == pytest.approx(1.0, abs=1e-6)


def test_a_shape_is_never_broadcast_or_flattened(tmp_path: Path) -> None:
    pairs = [((2, 3), (3, 2)), ((), (1,)), ((1,), (4,)), ((2, 1), (1, 2)), ((4,), (2, 2))]
    for left, right in pairs:
        sides = [store_npy(tmp_path, np.zeros(shape, "<f4")) for shape in (left, right)]
        with pytest.raises(ValueError, match="F32"):
            compare(*sides, EXACT)


def test_a_dtype_is_never_converted_but_to_f32(tmp_path: Path) -> None:
    single, double, half = (
        store_tensor(tmp_path, np.ones(2, code)) for code in ("<f4", "<f8", "<f2")
    )
    for pair in ((single, double), (double, half), (half, double)):
        with pytest.raises(ValueError, match=r"F\d\d \(2,\) / F\d\d \(2,\)"):
            compare(*pair, EXACT)


# --- NaN, everywhere ---------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [12, 4000])
@pytest.mark.parametrize("at", [0, 2, 3, 5, 6, 9])
@pytest.mark.parametrize("bound", ["max_abs", "relative", "ulp", "exact", "cosine"])
def test_nan_at_any_place_on_either_side(
    bound: str, at: int, chunk: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """First, last, and on both sides of a border between chunks of 3."""
    monkeypatch.setattr(module, "CHUNK_BYTES", chunk)
    bounds = {bound: 0.5 if bound == "cosine" else 1.0}
    whole = np.arange(1, 11, dtype="<f4")
    broken = whole.copy()
    broken[at] = NAN
    good, bad = store_tensor(tmp_path, whole), store_tensor(tmp_path, broken)
    for expected, obtained, specials in ((good, bad, (0, 1)), (bad, good, (1, 0))):
        found = compare(expected, obtained, bounds)
        assert (found.passed, found.bad, found.lost, found.nonfinite) == (False, 1, 1, specials)
        assert found.worst is not None
        assert (found.worst.index, math.isnan(found.worst.error), found.worst.ulp) == (
            at,
            True,
            None,
        )
    found = compare(bad, bad, bounds)
    assert (found.passed, found.bad, found.lost, found.nonfinite) == (True, 0, 0, (0, 0))


@given(
    values=st.lists(st.floats(width=32), min_size=1, max_size=40),
    places=st.sets(st.integers(0, 39), min_size=1),
    bound=st.sampled_from(["exact", "max_abs", "relative", "ulp", "cosine"]),
)
def test_no_nan_passes_that_the_reference_lacks(
    values: list[float], places: set[int], bound: str
) -> None:
    expected = f32(*(0.0 if math.isnan(value) else value for value in values))
    obtained = expected.copy()
    wrong = {place % len(values) for place in places}
    obtained[list(wrong)] = NAN
    found = compared(expected, obtained, {bound: 1.0})
    assert not found.passed
    assert (found.bad, found.lost) == (len(wrong), len(wrong))


PAYLOADS = [
    ("F64", from_bits("<f8", 0x7FF8000000000000, 0), from_bits("<f8", 0x7FF8000000000001, 0)),
    ("F32", from_bits("<f4", 0x7FC00000, 0), from_bits("<f4", 0xFFC00000, 0)),
    ("F16", from_bits("<f2", 0x7E00, 0), from_bits("<f2", 0x7E01, 0)),
    ("BF16", np.array([0x7FC0, 0], "<u2"), np.array([0x7FC1, 0], "<u2")),
    ("F8_E5M2", np.array([0x7D, 0], "u1"), np.array([0x7E, 0], "u1")),
    ("F8_E4M3", np.array([0x7F, 0], "u1"), np.array([0xFF, 0], "u1")),
]


@pytest.mark.parametrize(("dtype", "left", "right"), PAYLOADS, ids=[p[0] for p in PAYLOADS])
def test_a_payload_counts_under_exact_alone(
    dtype: str, left: NDArray[Any], right: NDArray[Any]
) -> None:
    found = compared(left, right, EXACT, dtype)
    assert (found.passed, counts(found), found.nonfinite) == (False, (1, 0, 0, 1), (1, 1))
    for bounds in ({"max_abs": 0.0}, {"ulp": 0.0}, {"relative": 0.0}):
        found = compared(left, right, bounds, dtype)
        assert (found.passed, counts(found)) == (True, (0, 0, 0, 1))


def test_a_payload_is_not_expected_where_the_reference_was_widened(tmp_path: Path) -> None:
    expected = store_bin(tmp_path, from_bits("<f4", 0x7FC00000, 0x3F800000))
    obtained = store_bin(tmp_path, from_bits("<f4", 0x7FA00001, 0x3F800000))
    assert not compare(expected, obtained, EXACT).passed
    assert compare(expected, obtained, EXACT, payloads=False).passed
    missing = store_bin(tmp_path, f32(1.0, 1.0))
    assert not compare(expected, missing, EXACT, payloads=False).passed


# --- ULP -----------------------------------------------------------------------------------

FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


@pytest.mark.parametrize("name", FLOATS)
@given(data=st.data())
def test_a_step_is_numpys_nextafter(name: str, data: st.DataObject) -> None:
    code = np.dtype(FLOATS[name])
    width: Any = 8 * code.itemsize
    start = data.draw(st.floats(width=width, allow_nan=False, allow_infinity=False))
    steps = data.draw(st.integers(1, 5))
    here = there = np.array([start], code)
    with np.errstate(all="ignore"):
        for _ in range(steps):
            there = np.nextafter(there, np.array([-INF], code))
    if not np.isfinite(there[0]):
        return
    found = compared(here, there, {"ulp": float(steps)}, name)
    again = compared(here, there, {"ulp": steps - 0.5}, name)
    assert (found.max_ulp, found.passed, again.passed) == (steps, True, False)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("value", [1.0, 1.5, -2.0, 0.1, 1000.0, 6e-5, 60000.0])
def test_a_step_is_numpys_spacing(name: str, value: float) -> None:
    here = np.array([value], FLOATS[name])
    there = here - np.spacing(np.abs(here))
    found = compared(here, there, {"ulp": 1.0}, name)
    assert found.max_ulp in (1, 2)  # two where the step crosses a power of two downwards
    assert found.max_abs == float(np.spacing(np.abs(here))[0])


@pytest.mark.parametrize("code", [0, 1, 0x7F, 0x80, 0x3F80, 0x4049, 0x7F7E, 0x8000, 0x8001, 0xC020])
def test_a_step_of_bfloat16_is_one_code(code: int) -> None:
    here, there = np.array([code], "<u2"), np.array([code + 1], "<u2")
    found = compared(here, there, {"ulp": 1.0}, "BF16")
    assert (found.max_ulp, found.passed) == (1, True)
    wide = [float(np.array([c << 16], "<u4").view("<f4")[0]) for c in (code, code + 1)]
    assert found.max_abs == abs(wide[0] - wide[1])


def test_steps_pass_through_zero() -> None:
    tiny = np.float32(1e-45)
    assert compared(f32(tiny), f32(-tiny), {"ulp": 2.0}).passed
    assert not compared(f32(tiny), f32(-tiny), {"ulp": 1.0}).passed
    assert compared(f32(-0.0), f32(tiny), {"ulp": 1.0}).passed
    found = compared(f32(-F32_MAX), f32(F32_MAX), {"ulp": 1.0})
    assert found.max_ulp == 2 * 0x7F7FFFFF
    double = float(np.finfo(np.float64).max)
    far = compared(np.array([-double]), np.array([double]), {"max_abs": 1.0}, "F64")
    assert far.max_ulp == 2 * 0x7FEFFFFFFFFFFFFF


def test_an_error_beyond_float64_is_infinite_not_unseen() -> None:
    double = float(np.finfo(np.float64).max)
    found = compared(np.array([-double]), np.array([double]), {"max_abs": 1e300}, "F64")
    assert (found.passed, found.max_abs, found.lost, found.margin) == (False, INF, 0, INF)


# --- integers ------------------------------------------------------------------------------

INTEGERS = [
    ("I64", -(2**63), 2**63 - 1, 2.0**64),
    ("I64", 2**24 + 1, 2**24, 1.0),
    ("I64", 2**53 + 1, 0, 2.0**53 + 2),  # rounded up, never down
    ("U64", 0, 2**64 - 1, 2.0**64),
    ("U64", 0, 2**63, 2.0**63),
    ("U64", 2**63 + 1, 0, 2.0**63 + 2**11),  # rounded up, never down
    ("U64", 2**64 - 1, 2**64 - 2, 1.0),
    ("I32", -(2**31), 2**31 - 1, 2.0**32 - 1),
    ("U32", 0, 2**32 - 1, 2.0**32 - 1),
    ("I16", -(2**15), 2**15 - 1, 2.0**16 - 1),
    ("U16", 1, 0, 1.0),
    ("I8", -128, 127, 255.0),
    ("U8", 0, 255, 255.0),
    ("BOOL", 0, 1, 1.0),
]


@pytest.mark.parametrize(("name", "left", "right", "error"), INTEGERS)
def test_integers_do_not_wrap_or_round_down(name: str, left: int, right: int, error: float) -> None:
    storage = DTYPES[name].storage
    for sides in ((left, right), (right, left)):
        expected, obtained = (np.array([side], storage) for side in sides)
        found = compared(expected, obtained, EXACT, name)
        assert (found.passed, found.bad, found.max_abs, found.max_ulp) == (False, 1, error, 0)
        for bounds in ({"max_abs": error}, {"ulp": error}, {"relative": 9.0}, {"cosine": -1.0}):
            found = compared(expected, obtained, bounds, name)
            assert (found.passed, found.bounds) == (False, {"exact": 1.0})


def test_max_abs_applies_to_integers_in_a_case_of_integers_only(tmp_path: Path) -> None:
    ids = store_npy(tmp_path / "a.npy", np.array([1, 2**53 + 1], "<i8"))
    off = store_npy(tmp_path / "b.npy", np.array([2, 2**53], "<i8"))
    bounds = {"max_abs": 1.0, "ulp": 0.0, "cosine": 1.0}
    select = partial(select_bounds, DTYPES["I64"], integers_only=True)
    found = compare(ids, off, select(bounds))
    assert (found.passed, found.bounds, found.margin) == (True, {"max_abs": 1.0}, 1.0)
    for wrong in ({"max_abs": 0.5}, {"ulp": 4.0}, {"max_abs": 9.0, "exact": 1.0}):
        assert not compare(ids, off, select(wrong)).passed
    assert select_bounds(DTYPES["I64"], bounds) == EXACT


def test_booleans_are_exact_even_among_integers() -> None:
    assert select_bounds(DTYPES["BOOL"], {"max_abs": 1.0}, integers_only=True) == EXACT
    assert select_bounds(PACKED["F4"], {"ulp": 1.0}) == {"ulp": 1.0}


@pytest.mark.parametrize(("code", "dtype"), [("<c8", "C64"), ("<c16", "C128")])
def test_complex_numbers_are_compared_by_the_distance_between_them(code: str, dtype: str) -> None:
    expected = np.array([3 + 4j, 1e-30 + 0j, 2 + 2j], code)
    obtained = expected + np.array([0.3 + 0.4j, 0, 0], code)
    found = compared(expected, obtained, {"max_abs": 0.51}, dtype)
    assert (found.passed, found.bad, found.max_abs) == (True, 0, pytest.approx(0.5))
    assert found.max_relative == pytest.approx(0.1)
    assert compared(expected, obtained, {"relative": 0.11}, dtype).passed
    assert compared(expected, obtained, {"max_abs": 0.49}, dtype).bad == 1
    assert compared(expected, obtained, {"relative": 0.09}, dtype).bad == 1
    found = compared(expected, obtained, EXACT, dtype)
    assert (found.bad, found.worst and found.worst.expected) == (1, 3 + 4j)
    assert (
        compared(expected, expected * expected.dtype.type(1j), {"cosine": 0.5}, dtype).cosine == 0.0
    )
    assert compared(expected, expected, {"cosine": 1.0}, dtype).cosine == 1.0


@pytest.mark.parametrize("dtype", ["C64", "C128"])
def test_ulp_of_complex_numbers_is_requested_of_each_part(dtype: str) -> None:
    one: Any = DTYPES[dtype].storage.type(1).real
    code, two = DTYPES[dtype].storage, one + one
    expected = np.array([1 + 1j], code)
    real, both = (
        np.array([np.nextafter(one, two) + 1j * im], code)
        for im in (one, np.nextafter(one, one - one))
    )
    assert compared(expected, real, {"ulp": 1.0}, dtype).passed
    assert compared(expected, both, {"ulp": 1.0}, dtype).max_ulp == 1
    assert not compared(expected, both, {"ulp": 0.0}, dtype).passed


@pytest.mark.parametrize(
    ("left", "right", "passes"),
    [
        (complex(math.nan, 1), complex(math.nan, 1), True),
        (complex(math.nan, 1), complex(math.nan, 1.25), True),
        (complex(math.nan, 1), complex(math.nan, 2), False),
        (complex(math.nan, 1), complex(1, math.nan), False),
        (complex(math.inf, 1), complex(math.inf, 1.25), True),
        (complex(math.inf, 1), complex(-math.inf, 1), False),
        (complex(1, math.inf), complex(1, 3e38), False),
        (complex(0.0, 1), complex(-0.0, 1), True),
        (complex(1, 1), complex(1, math.nan), False),
    ],
)
def test_parts_that_are_not_finite(left: complex, right: complex, *, passes: bool) -> None:
    expected, obtained = np.array([left], "<c8"), np.array([right], "<c8")
    found = compared(expected, obtained, {"max_abs": 0.5}, "C64")
    assert found.passed is passes
    assert compared(obtained, obtained, EXACT, "C64").passed


def test_a_payload_and_a_sign_of_zero_in_one_part_of_a_complex_number() -> None:
    one = from_bits("<f4", 0x7FC00000, 0).view("<c8")
    other = from_bits("<f4", 0x7FC00001, 0x80000000).view("<c8")
    payload = from_bits("<f4", 0x7FC00001, 0).view("<c8")
    found = compared(one, payload, EXACT, "C64")
    assert (found.bad, found.payloads, found.zeros) == (1, 1, 0)
    found = compared(one, other, EXACT, "C64")
    assert (found.bad, found.payloads, found.zeros) == (1, 0, 0)
    found = compared(np.array([0 + 1j], "<c8"), np.array([complex(-0.0, 1)], "<c8"), EXACT, "C64")
    assert (found.bad, found.zeros, found.lost) == (1, 1, 0)


def test_an_exponent_alone_has_no_sign_to_step_over() -> None:
    left, right = np.array([0x7F, 0x7F], "u1"), np.array([0x7F, 0x81], "u1")
    found = compared(left, right, {"ulp": 2.0}, "F8_E8M0")
    assert (found.passed, found.max_ulp, found.max_abs) == (True, 2, 3.0)
    assert not compared(left, right, {"ulp": 1.0}, "F8_E8M0").passed


# --- the direction (R5) --------------------------------------------------------------------


def test_a_cosine_is_checked_beside_the_other_tolerances() -> None:
    expected, obtained = f32(1.0, 0.0), f32(1.0, 1.0)
    found = compared(expected, obtained, {"max_abs": 1.0, "cosine": 0.9})
    assert (found.bad, found.passed, found.worst) == (0, False, None)  # one norm is above it
    found = compared(f32(0.5, 0.0), f32(0.0, 0.5), {"max_abs": 0.6, "cosine": 0.9})
    assert (found.passed, found.cosine) == (True, None)  # neither is
    found = compared(expected, obtained, {"max_abs": 1.0 - 1e-7, "cosine": 0.9})
    assert not found.passed
    found = compared(f32(9.0, 0.0), f32(9.0, 1.0), {"max_abs": 1.0, "cosine": 0.9999})
    assert (found.bad, found.passed, found.cosine) == (0, False, pytest.approx(9 / 82**0.5))
    assert compared(f32(9.0, 0.0), f32(9.0, 1.0), {"max_abs": 1.0, "cosine": 0.99}).passed


def test_a_lost_tensor_fails_its_cosine_however_small_its_elements() -> None:
    """Each element is within max_abs, the norm of all of them is not."""
    small = np.full(64, 0.5, "<f4")
    found = compared(small, np.zeros_like(small), {"max_abs": 1.0, "cosine": 0.9})
    assert (found.bad, found.cosine, found.passed) == (0, 0.0, False)
    assert not compared(np.zeros_like(small), small, {"max_abs": 1.0, "cosine": 0.9}).passed


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1e-30, 1.0, 1e30, 1e300])
def test_a_cosine_knows_no_size(size: float) -> None:
    expected, obtained = np.array([3.0, 4.0]) * size, np.array([4.0, 3.0]) * size
    assert compared(expected, expected, {"cosine": 1.0}, "F64").passed
    assert compared(expected, obtained, {"cosine": 1.0}, "F64").cosine == pytest.approx(0.96)
    assert compared(expected, -expected, {"cosine": 0.5}, "F64").cosine == -1.0


def test_a_cosine_beside_zero_is_none_or_nothing() -> None:
    assert compared(f32(0.0), f32(1.0), {"cosine": 0.5}).cosine == 0.0
    assert compared(f32(1.0), f32(0.0), {"cosine": 0.5}).cosine == 0.0
    assert compared(f32(0.0), f32(-1.0), {"cosine": 0.5}).cosine == 0.0
    assert compared(f32(-1.0), f32(0.0), {"cosine": 0.5}).cosine == 0.0
    assert compared(f32(0.0), f32(1e-6), {"max_abs": 1e-5, "cosine": 0.5}).cosine is None
    assert compared(f32(0.0), f32(1e-6), {"max_abs": 1e-5, "cosine": 0.5}).passed
    assert compared(f32(1.0), f32(1.0), EXACT).cosine is None


def test_a_direction_takes_chunks_of_any_sizes() -> None:
    direction = CosineAccumulator()
    for chunk in ([0.0], [1e-200, 2e-200], [1e200], [0.0], [-1e200]):
        direction.add(np.array(chunk), np.array(chunk))
        assert direction.compute_cosine(0.0) == 1.0
    assert direction.compute_cosine(1e308) is None
    assert direction.compute_cosine(1e100) == 1.0
    assert CosineAccumulator().compute_cosine(1.0) == 1.0  # two zero norms


def test_small_values_after_zeros_have_a_direction() -> None:
    direction = CosineAccumulator()
    for left, right in ((0.0, 0.0), (1e-200, -1e-200)):
        direction.add(np.array([left]), np.array([right]))
    assert direction.compute_cosine(0.0) == -1.0


def test_an_all_zero_output_breaks_a_cosine_however_many_its_elements() -> None:
    values = np.full(4, 3.0, "<f4")
    assert compared(values, values * 0, {"max_abs": 3.0, "cosine": 0.5}).cosine == 0.0
    assert compared(values, values, {"max_abs": 5.9, "cosine": 0.5}).cosine == 1.0
    assert compared(values, values, {"max_abs": 6.0, "cosine": 0.5}).cosine is None


def test_a_norm_is_above_the_least_or_means_nothing() -> None:
    direction = CosineAccumulator()
    direction.add(np.array([2.0]), np.array([2.0]))
    assert [direction.compute_cosine(least) for least in (1.5, 2.0, 2.5)] == [1.0, None, None]
    far = np.full(2, 1.7e308)
    direction.add(far, far)
    assert direction.compute_cosine(1.7e308) == 1.0  # the norm is beyond float64


# --- properties ----------------------------------------------------------------------------

any_bits = st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=30)
bounds_of = st.sampled_from(
    [
        *({m: b} for m in ("max_abs", "relative", "ulp") for b in (0, 1.0)),
        EXACT,
        {"max_abs": 1e-4, "cosine": 0.9999},
    ]
)
halves = st.sampled_from(["F16", "BF16", "I16", "U16"])


def sixteen(codes: list[int], name: str) -> NDArray[Any]:
    return np.array(codes, "<u2").view(DTYPES[name].storage)


@given(codes=any_bits, bounds=bounds_of, name=halves)
def test_that_a_tensor_equals_itself(codes: list[int], bounds: dict[str, float], name: str) -> None:
    array = sixteen(codes, name)
    found = compared(array, array.copy(), bounds, name)
    assert (found.passed, found.bad) == (True, 0)
    assert (found.max_abs, found.max_relative, found.max_ulp) == (0.0, 0.0, 0)


@given(left=any_bits, right=any_bits, name=halves)
def test_that_exact_means_the_same_bytes_both_ways(
    left: list[int], right: list[int], name: str
) -> None:
    count = min(len(left), len(right))
    one, other = sixteen(left[:count], name), sixteen(right[:count], name)
    equal = one.tobytes() == other.tobytes()
    assert compared(one, other, EXACT, name).passed is equal
    assert compared(other, one, EXACT, name).passed is equal
    assert compared(one, other, EXACT, name).bad == sum(
        a != b for a, b in zip(left, right, strict=False)
    )


@given(
    left=any_bits,
    right=any_bits,
    name=halves,
    measure=st.sampled_from(["max_abs", "relative", "ulp"]),
    limits=st.tuples(st.floats(0, 1e5), st.floats(0, 1e5)),
)
def test_that_a_wider_bound_never_fails_more(
    left: list[int], right: list[int], name: str, measure: str, limits: tuple[float, float]
) -> None:
    count = min(len(left), len(right))
    one, other = sixteen(left[:count], name), sixteen(right[:count], name)
    tight, wide = (compared(one, other, {measure: bound}, name) for bound in sorted(limits))
    assert wide.bad <= tight.bad
    assert tight.passed <= wide.passed


@given(left=any_bits, right=any_bits, name=st.sampled_from(["F16", "BF16"]))
def test_that_the_measures_are_what_a_loop_finds(
    left: list[int], right: list[int], name: str
) -> None:
    count = min(len(left), len(right))
    one, other = sixteen(left[:count], name), sixteen(right[:count], name)
    found = compared(one, other, {"max_abs": 0.5}, name)
    pairs = list(zip(*(DTYPES[name].decode(side).tolist() for side in (one, other)), strict=True))
    errors = [abs(a - b) for a, b in pairs if math.isfinite(a) and math.isfinite(b)]
    assert found.max_abs == max(errors, default=0.0)
    wrong = [
        index
        for index, (a, b) in enumerate(pairs)
        if not (a == b or abs(a - b) <= 0.5 or (math.isnan(a) and math.isnan(b)))
    ]
    assert found.bad == len(wrong)
    assert [sample.index for sample in found.samples] == wrong[:MAX_SAMPLES]
    apart = [
        values
        for values, *codes in zip(pairs, view_bits(one), view_bits(other), strict=True)
        if codes[0] != codes[1]
    ]
    assert found.nonfinite == tuple(
        sum(not math.isfinite(pair[side]) for pair in apart) for side in (0, 1)
    )


def test_the_map_shows_where_bad_elements_lie() -> None:
    left = np.zeros((2, 3, 100), np.float32)
    right = left.copy()
    right[1, 2, 99] = right[0, 0, :4] = 1
    drawn = compare_arrays(left, right, DTYPES["F32"], {"max_abs": 0.5}).bad_map
    assert (len(drawn), len(drawn[0])) == (6, 32)
    assert (drawn[0][:3], drawn[5][31], sum(map(sum, drawn))) == ([4, 0, 0], 1, 5)


def test_a_cell_of_the_map_is_of_whole_rows_and_columns() -> None:
    left = np.zeros((100, 3), np.float32)
    for row, column in ((53, 0), (53, 1), (53, 2)):
        right = left.copy()
        right[row, column] = 1
        assert compared(left, right, {"max_abs": 0.5}).bad_cells == {(16, column): 1}


@pytest.mark.parametrize(
    ("shape", "grid"),
    [
        ((), (1, 1)),
        ((0,), (1, 0)),
        ((3, 0), (3, 0)),
        ((0, 3), (0, 3)),
        ((1,), (1, 1)),
        ((2**3, 1), (8, 1)),
        ((100, 33), (32, 32)),
    ],
)
def test_a_map_of_a_degenerate_shape_is_none_or_whole(
    shape: tuple[int, ...], grid: tuple[int, int]
) -> None:
    left = np.zeros(shape, np.float32)
    found = compare_arrays(left, left + 1, DTYPES["F32"], {})
    assert found.grid == grid
    assert sum(map(sum, found.bad_map)) == found.bad == left.size


def test_the_histogram_counts_decades() -> None:
    expected = np.zeros(6)
    obtained = np.array([0.0, 1e-7, 0.05, 0.099, 5.0, 1000.0])
    found = compared(expected, obtained, {"max_abs": 1.0}, "F64")
    assert dict(found.histogram) == {-7: 1, -2: 2, 0: 1, 3: 1}


def test_the_worst_is_the_furthest_and_what_is_not_finite_comes_first() -> None:
    found = compared(f32(1, 1, 1, 1), f32(2, 5, 3, 1), EXACT)
    assert found.worst is not None
    assert (found.worst.index, found.worst.error, found.worst.ulp) == (1, 4.0, 18874368)
    assert [sample.index for sample in found.samples] == [0, 1, 2]
    found = compared(f32(1, 1, 1, 1), f32(1e30, INF, 3, NAN), EXACT)
    assert found.worst is not None
    assert (found.worst.index, found.worst.obtained) == (1, INF)


@pytest.mark.parametrize(
    ("expected", "obtained", "share"),
    [
        ([4.0, 8.0], [5.0, 9.0], 0.25),
        ([-4.0], [-5.0], 0.25),
        ([0.0], [-0.0], 0.0),
        ([0.0, 2.0], [-0.0, 3.0], 0.5),
        ([0.0, 2.0], [1.0, 3.0], INF),
        ([INF, 2.0], [3.0, 2.5], 0.25),
    ],
)
def test_the_relative_error_is_to_the_expected(
    expected: list[float], obtained: list[float], share: float
) -> None:
    assert compared(f32(*expected), f32(*obtained), EXACT).max_relative == share


@pytest.mark.parametrize(
    "bounds", [{}, {"exact": 0.0}, {"exact": 1.0, "max_abs": 9.0, "cosine": 0.5}], ids=str
)
def test_exact_stands_alone(bounds: dict[str, float]) -> None:
    found = compared(f32(1.0), f32(2.0), bounds)
    assert (found.bounds, found.margin, found.cosine) == (EXACT, None, None)


def test_the_margin_is_the_largest_share_of_a_bound() -> None:
    found = compared(f32(1.0), f32(1.25), {"max_abs": 1.0, "relative": 0.5})
    assert found.margin == 0.5
    assert compared(f32(1.0), f32(1.0 + 2**-22), {"ulp": 4.0, "max_abs": 1.0}).margin == 0.5
    assert compared(f32(1.0), f32(1.0), {"max_abs": 0.0}).margin is None
    assert compared(f32(1.0), f32(1.0), EXACT).margin is None


def test_five_bad_elements_are_kept() -> None:
    first = compared(np.zeros(7, "<f4"), np.ones(7, "<f4"), EXACT).samples
    assert [sample.index for sample in first] == [0, 1, 2, 3, 4]
    for field in fields(Sample):
        with pytest.raises(FrozenInstanceError):
            setattr(first[0], field.name, None)


def test_without_a_shape_there_is_no_map() -> None:
    assert Measures({}).grid == (0, 0)


# --- files, chunks, narrowing --------------------------------------------------------------


def plain(found: Measures) -> str:
    """All but the cosine, whose last bits depend on where chunks end."""
    values = {name: value for name, value in vars(found).items() if name != "cosine"}
    return repr(values | {"histogram": sorted(found.histogram.items())})


@pytest.mark.parametrize("chunk", [8, 16, 56, 2**19])
@pytest.mark.parametrize("bounds", [EXACT, {"max_abs": 0.1, "cosine": 0.5}, {"ulp": 3}], ids=str)
@pytest.mark.parametrize("name", ["F64", "F32", "F16", "BF16", "F8_E4M3", "I64", "U8", "BOOL"])
def test_measures_do_not_depend_on_chunks(
    name: str,
    bounds: dict[str, float],
    chunk: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", chunk)
    generator = np.random.default_rng(7)
    storage = DTYPES[name].storage
    left = generator.integers(0, 256, 23 * storage.itemsize, "u1").view(storage)
    right = left.copy()
    right[[0, 6, 7, 13, 14, 22]] = left[[1, 7, 6, 14, 13, 21]]
    sides = [store_tensor(tmp_path, side, name) for side in (left, right)]
    found = compare(*sides, select_bounds(DTYPES[name], bounds))
    whole = compared(left, right, bounds, name)
    assert plain(found) == plain(whole)
    assert found.cosine == (whole.cosine if whole.cosine is None else pytest.approx(whole.cosine))


def test_zeros_and_payloads_are_counted_over_all_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", 8)
    left = np.tile(f32(0.0, NAN), 3)
    found = compare(store_tensor(tmp_path, left), store_tensor(tmp_path, -left), {"max_abs": 0.0})
    assert counts(found) == (0, 0, 3, 3)


def test_a_large_tensor_is_not_kept_in_memory(tmp_path: Path) -> None:
    """64 MB a side, right and wrong, within a few MB."""
    expected = np.arange(16 * 2**20, dtype="<f4")
    sides = [
        store_tensor(tmp_path, expected),
        store_tensor(tmp_path, expected),
        store_tensor(tmp_path, expected + 1),
    ]
    del expected
    for obtained, most in ((sides[1], 6), (sides[2], 16)):
        tracemalloc.start()
        compare(sides[0], obtained, {"max_abs": 1e-5, "cosine": 0.9999})
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < most * 2**20


NARROWED = {
    "F64": np.array([0.1, 1e300, -1e-300, 2**24 + 1, -0.0]),
    "F16": np.array([0.1, 65504, 6e-8, -0.0], "<f2"),
    "I64": np.array([2**24 + 1, -(2**63), 2**63 - 1, 0], "<i8"),
    "U64": np.array([2**64 - 1, 1], "<u8"),
    "BOOL": np.array([True, False]),
    "U8": np.array([0, 255], "u1"),
}


@pytest.mark.parametrize("name", NARROWED)
def test_a_bin_dump_is_compared_with_the_reference_rounded_once(name: str, tmp_path: Path) -> None:
    expected = NARROWED[name]
    with np.errstate(over="ignore"):
        rounded = expected.astype("<f4")
    reference = store_tensor(tmp_path, expected)
    assert compare(reference, store_bin(tmp_path, rounded), EXACT).passed
    for place in range(len(rounded)):
        off = view_bits(rounded).copy()
        off[place] ^= 1
        found = compare(reference, store_bin(tmp_path, off.view("<f4")), EXACT)
        assert (found.passed, found.bad) == (False, 1)


def test_a_bin_dump_of_bf16_is_its_widening(tmp_path: Path) -> None:
    reference = store_tensor(tmp_path, bf16(1.0, -2.5, 3.140625), "BF16")
    assert compare(reference, store_bin(tmp_path, f32(1.0, -2.5, 3.140625)), EXACT).passed
    as_f16 = f32(1.875, -2.0625, 2.1425781)
    assert compare(reference, store_bin(tmp_path, as_f16), EXACT).bad == 3


@pytest.mark.parametrize("chunk", [8, 524_288])
def test_floats_that_share_bytes_are_compared_one_by_one(
    chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", chunk)
    codes = np.arange(24).astype("u1")
    other = codes.copy()
    other[[5, 17]] = [37, 18]
    left, right = (store_tensor(tmp_path, side, "F6_E3M2") for side in (codes, other))
    assert compare(left, left, EXACT).passed
    found = compare(left, right, EXACT)
    assert [(one.index, one.expected, one.obtained) for one in found.samples] == [
        (5, 0.3125, -0.3125),
        (17, 2.5, 3.0),
    ]
    assert found.max_ulp == 10, "the sign is the sixth bit"
    wide = np.array(PACKED["F6_E3M2"].decode(codes), "<f4")
    assert compare(left, store_bin(tmp_path, wide), EXACT).passed
    wide[7] = -wide[7]
    assert compare(left, store_bin(tmp_path, wide), EXACT).bad == 1


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("F64", [0x7FF0000000000001, 0xFFF8000000000123]),  # signalling, and a payload
        ("F16", [0x7C01, 0xFE01]),
        ("BF16", [0x7F81, 0xFFC1]),
        ("F8_E5M2", [0x7D, 0xFF]),
    ],
)
def test_a_narrowed_nan_expects_no_payload(name: str, codes: list[int], tmp_path: Path) -> None:
    storage = DTYPES[name].storage
    reference = store_tensor(tmp_path, np.array(codes, f"<u{storage.itemsize}").view(storage), name)
    for obtained in (f32(NAN, NAN), from_bits("<f4", 0xFFFFFFFF, 0x7F800001)):
        assert compare(reference, store_bin(tmp_path, obtained), EXACT).passed
    found = compare(reference, store_bin(tmp_path, f32(NAN, INF)), EXACT)
    assert (found.passed, found.lost) == (False, 1)


def test_an_empty_tensor_compares_nothing(tmp_path: Path) -> None:
    empty = store_tensor(tmp_path, np.zeros((0, 3), "<f4"))
    found = compare(empty, empty, EXACT)
    assert (found.passed, found.count, found.worst) == (True, 0, None)


def test_a_file_that_shrinks_is_an_error(tmp_path: Path) -> None:
    sides = [store_tensor(tmp_path, np.ones(100, "<f4")) for _ in range(2)]
    sides[1].path.write_bytes(sides[1].path.read_bytes()[:-1])
    with pytest.raises(FormatError, match="became shorter while it was read") as caught:
        compare(*sides, EXACT)
    assert caught.value.code == "truncated"


@pytest.fixture
def early_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of a MiB are shared by threads already."""
    monkeypatch.setattr(module, "MIN_SPLIT_BYTES", 1 << 20)


@pytest.mark.usefixtures("early_threads")
@pytest.mark.parametrize("bounds", [EXACT, {"max_abs": 1.0}, {"max_abs": 2.0, "cosine": 0.5}])
@pytest.mark.parametrize("count", [524_288, 600_001])
def test_a_large_tensor_is_shared_by_threads_without_a_trace(
    count: int, bounds: dict[str, float], tmp_path: Path
) -> None:
    """Differences on both sides of every border, the worst and the special in the later half."""
    left = np.arange(count, dtype="<f4")
    right = left.copy()
    at = [0, 1, 131_071, 131_072, 262_143, 262_144, count - 1]
    right[at] += np.float32([1, 2, 3, 4, 5, 5, 1])
    left[[5, count - 2]] = right[[5, count - 2]] = NAN
    right[count - 3] = -np.inf
    found = compare(store_tensor(tmp_path, left), store_tensor(tmp_path, right), bounds)
    whole = compared(left, right, bounds)
    assert plain(found) == plain(whole)
    assert found.nonfinite == (0, 1)
    assert (found.cosine is None) == ("cosine" not in bounds)


@pytest.mark.usefixtures("early_threads")
def test_a_direction_is_that_of_the_whole_tensor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So no thread takes a part of it; without one, two threads share the tensor."""
    taken = []

    def shared(task: Any, parts: list[range]) -> list[Any]:
        taken.append(len(parts))
        return [task(part) for part in parts]

    monkeypatch.setattr("parity.tensors.compare.map_parts", shared)
    left = np.ones(400_000, "<f4")
    right = np.repeat(f32(1.0, -1.0), 200_000)
    sides = store_tensor(tmp_path, left), store_tensor(tmp_path, right)
    assert compare(*sides, {"cosine": 0.5}).cosine == 0.0
    assert compare(*sides, {"max_abs": 0.5}).bad == 200_000
    assert taken == [1, 2, 2]  # by the screen, and whole since it fails


def test_tensors_of_medium_size_are_compared_on_threads_as_each_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In runs of two; the first is small, the second large, and one cannot be read."""
    monkeypatch.setattr("parity.tensors.compare._RUN_BYTES", 400_000)
    monkeypatch.setattr("parity.tensors.compare.MIN_SPLIT_BYTES", 300_000)
    counts = [10, 90_000, *[50_000] * 9]
    draw, tasks, runs = np.random.default_rng(2), {}, []
    for number, count in enumerate(counts):
        left = draw.standard_normal(count).astype("<f4")
        right = left + np.float32(number / 10)
        right[number] = NAN if number == 5 else right[number]
        pair = Pair(store_tensor(tmp_path, left), store_tensor(tmp_path, right))
        tasks[f"t{number}"] = (pair, EXACT if number % 2 else {"max_abs": 0.75}, True)
    tasks["t7"][0].obtained.path.unlink()

    def map_parts(task: Any, parts: list[list[str]]) -> list[Any]:
        runs.append(len(parts))
        return module.map_parts(task, parts)

    monkeypatch.setattr("parity.tensors.compare.map_parts", map_parts)
    found = compare_shared(tasks)
    assert max(runs) > 2
    assert list(found) == [f"t{number}" for number in range(2, 11) if number != 7]
    for name, measures in found.items():
        pair, bounds, _ = tasks[name]
        assert plain(measures) == plain(compare(*pair, bounds))


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_error_on_a_thread_ends_the_comparison(error: type[BaseException]) -> None:
    taken: list[int] = []

    def fail(part: int) -> None:
        taken.append(part)
        raise error

    with pytest.raises(error):
        module.map_parts(fail, range(1000))
    assert len(taken) < 1000


@pytest.mark.usefixtures("early_threads")
@pytest.mark.parametrize("values", [(0.0, 0.0), (0.25, 0.5), (0.5, 0.25), (NAN, -INF), (INF, 9.0)])
def test_what_either_thread_saw_counts(values: tuple[float, float], tmp_path: Path) -> None:
    left = np.zeros(400_000, "<f4")
    right = left.copy()
    right[[10, 399_990]] = values
    right[[20, 399_980]] = left[[20, 399_980]] = NAN
    for sides in ((left, right), (right, left)):
        found = compare(*(store_tensor(tmp_path, side) for side in sides), {"max_abs": 1.0})
        whole = compared(*sides, {"max_abs": 1.0})
        if found.is_screened:  # a tensor that passes has no other figures
            assert (found.max_abs, found.bad, found.count) == (whole.max_abs, 0, whole.count)
        else:
            assert plain(found) == plain(whole)


@pytest.mark.usefixtures("early_threads")
def test_the_worst_of_two_threads_is_the_first_of_those_that_are_equally_far(
    tmp_path: Path,
) -> None:
    left = np.zeros(400_000, "<f4")
    right = left.copy()
    right[[10, 399_990]] = 1
    found = compare(store_tensor(tmp_path, left), store_tensor(tmp_path, right), {"max_abs": 0.5})
    assert found.worst is not None
    assert found.worst.index == 10
    assert [sample.index for sample in found.samples] == [10, 399_990]


@pytest.mark.usefixtures("early_threads")
def test_a_file_that_ends_in_the_later_half_ends_the_comparison(tmp_path: Path) -> None:
    left = store_tensor(tmp_path, np.zeros(400_000, "<f4"))
    right = store_tensor(tmp_path, np.zeros(400_000, "<f4"))
    with right.path.open("r+b") as file:
        file.truncate(right.offset + right.nbytes - 1)
    with pytest.raises(FormatError, match="became shorter"):
        compare(left, right, EXACT)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 2, 2, 2), (1,) * 17])
def test_data_is_read_to_where_it_lies_modulo_64(shape: tuple[int, ...], tmp_path: Path) -> None:
    """Else a copy that lands a few bytes further into its page takes five times as long."""
    sides = (
        store_bin(tmp_path, np.ones(shape, "<f4")),
        store_tensor(tmp_path, np.ones(shape, "<f4")),
    )
    for chunk in module.read_chunks(*sides, range(sides[0].count)):
        for side, array in zip(sides, (chunk.expected, chunk.obtained), strict=True):
            assert (array.ctypes.data - side.offset) % 64 == 0


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 2, 2, 2), (1,) * 17])
def test_equal_chunks_are_known_to_be_equal_wherever_they_lie(
    shape: tuple[int, ...], tmp_path: Path
) -> None:
    """Else nothing is wrong but slow; differing ones must never be known to be equal."""
    data = np.arange(1, math.prod(shape) + 1, dtype="<f4").reshape(shape)
    sides = store_bin(tmp_path, data), store_tensor(tmp_path, data)
    other = data.copy()
    other.flat[-1] += 1
    for _ in range(2):
        assert [chunk.equal for chunk in module.read_chunks(*sides, range(data.size))] == [True]
        differ = module.read_chunks(sides[0], store_tensor(tmp_path, other), range(data.size))
        assert [chunk.equal for chunk in differ] == [False]


#: Elements of float32, which come 131,072 to a chunk, and parts at most -> where parts begin.
PARTS = {
    "none": (0, 2, [0]),
    "less than is worth a thread": (262_143, 2, [0]),
    "two chunks": (262_144, 2, [0, 131_072]),
    "two chunks for one thread": (262_144, 1, [0]),
    "two chunks and a rest": (262_145, 2, [0, 262_144]),
    "five chunks, the last short": (600_001, 2, [0, 393_216]),
    "five chunks for three": (600_001, 3, [0, 262_144, 524_288]),
}


@pytest.mark.usefixtures("early_threads")
@pytest.mark.parametrize(("count", "most", "starts"), PARTS.values(), ids=PARTS)
def test_parts_are_of_whole_chunks(
    count: int, most: int, starts: list[int], tmp_path: Path
) -> None:
    found = module.split_ranges(store_tensor(tmp_path, np.zeros(count, "<f4")), most)
    assert found == [range(*ends) for ends in zip(starts, [*starts[1:], count], strict=True)]


def test_a_bound_of_zero_beside_an_infinity_warns_of_nothing() -> None:
    found = compared(f32(np.inf), f32(0.0), {"relative": 0.0})
    assert (found.bad, found.lost) == (1, 1)
