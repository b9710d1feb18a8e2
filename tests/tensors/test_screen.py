"""Screened comparisons: the same verdicts and figures as exact arithmetic for all elements."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parity.tensors import screen
from parity.tensors.compare import compare, compare_arrays
from parity.tensors.dtypes import DTYPES, DType
from parity.tensors.elements import ElementComparison
from parity.tensors.measures import Measures
from parity.tensors.paired_reads import Chunk
from parity.tensors.stored import StoredTensor

#: More than a block, and more than a chunk.
SIZES = (1, 16, 1000, 40_000, 140_000)
FIGURES = ("max_abs", "max_share", "margin", "nonfinite", "payloads")
LIMIT = float(np.float32(1e-4))


def compare_both(
    folder: Path, expected: NDArray[Any], obtained: NDArray[Any], dtype: DType, bounds: Any
) -> tuple[Measures, Measures]:
    """Return the measures of files, which are screened, and those of arrays, which are not."""
    sides = []
    for name, values in (("expected", expected), ("obtained", obtained)):
        path = folder / name
        path.write_bytes(values.tobytes())
        sides.append(StoredTensor(path, 0, dtype, values.shape, ".npy"))
    return compare(*sides, bounds), compare_arrays(expected, obtained, dtype, bounds)


def draw_sides(draw: np.random.Generator, dtype: DType) -> tuple[NDArray[Any], NDArray[Any], float]:
    """Return two tensors that are off by about a tolerance, now and then with odd values."""
    size = int(draw.choice(SIZES))
    scale = 10.0 ** (draw.integers(-45, 38) if draw.random() < 0.2 else draw.integers(-3, 3))
    tolerance = float(scale * 10.0 ** draw.integers(-6, -1))
    expected = draw.standard_normal(size) * scale
    noise = draw.uniform(-tolerance, tolerance, size) * (draw.random(size) < draw.choice([0.01, 1]))
    kind = {"F64": "<f8", "F16": "<f2"}.get(dtype.name, "<f4")
    with np.errstate(all="ignore"):
        obtained = (expected.astype(kind) + noise).astype(kind)
        expected = expected.astype(kind)
    for value in (np.nan, np.inf, -np.inf, 0.0):
        for sides, chance in (((expected, obtained), 0.1), ((obtained,), 0.03)):
            if draw.random() < chance:
                at = draw.integers(0, size)
                for side in sides:
                    side[at] = value
    if dtype.name == "BF16":
        expected, obtained = (
            (side.view("<u4") >> 16).astype("<u2") for side in (expected, obtained)
        )
    return expected, obtained, tolerance


def draw_bounds(draw: np.random.Generator, tolerance: float) -> dict[str, float]:
    near = tolerance * float(draw.choice([1, 1.0000001, 0.99999999, 1.5, 10]))
    offered = {
        "max_abs": [near],
        "atol": [near, 0.0],
        "rtol": [0.0, 1e-6, 1e-3, 0.1, 1.0],
        "relative": [1e-3, 0.1, 1.0],
        "ulp": [0.0, 4.0, 1e6],
        "cosine": [0.99],
    }
    chosen = draw.choice(list(offered), int(draw.integers(1, 3)), replace=False)
    return {str(name): float(draw.choice(offered[name])) for name in chosen}


@pytest.mark.parametrize("name", ["F64", "F32", "F16", "BF16", "F8_E4M3"])
def test_figures_are_those_of_exact_arithmetic(name: str, tmp_path: Path) -> None:
    draw, dtype = np.random.default_rng(17), DTYPES[name]
    screened = 0
    for _ in range(60):
        if dtype.storage.itemsize == 1:
            expected, obtained = draw.integers(0, 256, (2, 1000)).astype("u1")
            tolerance = 1.0
        else:
            expected, obtained, tolerance = draw_sides(draw, dtype)
        bounds = draw_bounds(draw, tolerance)
        ours, exact = compare_both(tmp_path, expected, obtained, dtype, bounds)
        screened += ours.is_screened
        names = [*FIGURES, *(["max_relative"] if "relative" in bounds else [])]
        names += ["max_ulp"] if "ulp" in bounds else []
        if not ours.is_screened:
            names += ["bad", "max_relative", "max_ulp", "zeros", "lost", "histogram"]
        assert ours.passed == exact.passed, bounds
        np.testing.assert_equal(
            [getattr(ours, one) for one in names],
            [getattr(exact, one) for one in names],
            str(bounds),
        )
    assert screened > 5 or dtype.storage.itemsize == 1


def make_pair(**places: tuple[float, float]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return 40,000 elements that are off by 1e-6, but for some given ones."""
    expected = np.linspace(1, 2, 40_000, dtype="<f4")
    obtained = expected + np.float32(1e-6)
    for place, (left, right) in places.items():
        expected[int(place[1:])], obtained[int(place[1:])] = left, right
    return expected, obtained


STEP = float(np.nextafter(np.float32(LIMIT), np.float32(1)))
#: Elements at an odd place, the bounds, and whether they pass.
PLACES: dict[str, tuple[tuple[float, float], Mapping[str, float], bool]] = {
    "at the limit": ((0.0, LIMIT), {"max_abs": LIMIT}, True),
    "a step beyond the limit": ((0.0, STEP), {"max_abs": LIMIT}, False),
    "beyond in float64 alone": ((1e-12, -LIMIT), {"max_abs": LIMIT}, False),
    "beyond max_abs, within atol": ((0.0, 2e-4), {"max_abs": 1e-4, "atol": 1e-3}, False),
    "beyond atol, within max_abs": ((0.0, 2e-4), {"max_abs": 1e-3, "atol": 1e-4}, False),
    "at atol and rtol": ((1.0, 1.5), {"atol": 0.25, "rtol": 0.25}, True),
    "beyond atol and rtol": ((1.0, 1.5 + 2**-23), {"atol": 0.25, "rtol": 0.25}, False),
    "NaN in the dump": ((1.0, np.nan), {"max_abs": 1.0}, False),
    "NaN in the reference": ((np.nan, 1.0), {"rtol": 0.25}, False),
    "NaN on both sides": ((np.nan, np.nan), {"max_abs": 1e-4}, True),
    "an infinity on both sides": ((np.inf, np.inf), {"atol": 1e-4, "rtol": 1e-3}, True),
    "infinities of two signs": ((np.inf, -np.inf), {"atol": 1e-4, "rtol": 0.25}, False),
    "an infinity, beside one step": ((3.4028235e38, np.inf), {"ulp": 100.0}, False),
    "an infinity in the reference": ((np.inf, 3.0), {"rtol": 0.1}, False),
    "a difference beyond float32": ((3e38, -3e38), {"max_abs": 2.0**99}, False),
    "subnormal, under a relative tolerance": ((1e-45, 3e-45), {"relative": 0.1}, False),
    "subnormal, within a relative tolerance": ((1.0e-40, 1.01e-40), {"relative": 0.1}, True),
    "zero beside subnormal": ((0.0, 1e-45), {"rtol": 0.1}, False),
    "NaN of two signs": ((np.nan, -np.nan), {"ulp": 1.0}, True),
    "exact beside another": ((1.0, 1.0), {"exact": 1.0, "max_abs": 1.0}, False),
    "zeros of two signs": ((0.0, -0.0), {"rtol": 0.1, "ulp": 100.0}, True),
    "two sides of zero": ((1e-45, -1e-45), {"ulp": 1.0}, False),
}  # fmt: skip


@pytest.mark.parametrize("at", ["i0", "i32768", "i39999"])
@pytest.mark.parametrize("place", PLACES)
def test_an_odd_element_is_decided_by_exact_arithmetic(place: str, at: str, tmp_path: Path) -> None:
    values, bounds, passes = PLACES[place]
    expected, obtained = make_pair(**{at: values})
    if "ulp" in bounds:
        obtained = np.nextafter(expected, expected + 1)
        obtained[int(at[1:])] = values[1]
    ours, exact = compare_both(tmp_path, expected, obtained, DTYPES["F32"], bounds)
    assert (ours.passed, ours.is_screened, exact.passed) == (passes, passes, passes)
    for figure in ("max_abs", "margin", "payloads"):
        assert getattr(ours, figure) == getattr(exact, figure)


@pytest.mark.parametrize("place", [35_000, 75_000])  # in the first block, and in a later chunk
def test_the_largest_error_is_exact_among_equal_ones_in_float32(place: int, tmp_path: Path) -> None:
    expected = np.zeros(80_000, "<f4")
    obtained = np.full(80_000, 1e-5, "<f4")
    expected[place] = -1e-13  # the same difference in float32
    ours, exact = compare_both(tmp_path, expected, obtained, DTYPES["F32"], {"max_abs": 1e-4})
    assert ours.is_screened
    assert ours.max_abs == exact.max_abs > float(np.float32(1e-5))


#: Bounds, ends of the reference's values, and whether no constant passes in place of them.
SPREAD: dict[str, tuple[Mapping[str, float], tuple[float, float], bool]] = {
    "far": ({"max_abs": 0.4}, (0, 1), True),
    "near": ({"max_abs": 0.5}, (0, 1), False),
    "two, one of them far": ({"atol": 0.5, "rtol": 0.5, "max_abs": 0.1}, (0, 1), True),
    "two, both near": ({"atol": 0.3, "rtol": 0.3}, (0, 1), False),
    "two, both near, below zero": ({"atol": 0.3, "rtol": 0.3}, (-1, 0), False),
    "steps": ({"ulp": 100.0, "max_abs": 2.0}, (0, 1), True),
    "steps of subnormal numbers": ({"ulp": 100.0}, (0, 99 * 2.0**-149), False),
}


@pytest.mark.parametrize("name", SPREAD)
def test_a_spread_reference_is_no_constant(name: str, tmp_path: Path) -> None:
    bounds, ends, expected = SPREAD[name]
    values = np.linspace(*ends, 100, dtype="<f4")
    obtained = values.copy()
    obtained[1] = np.nextafter(values[1], np.float32(1))
    ours, _ = compare_both(tmp_path, values, obtained, DTYPES["F32"], bounds)
    assert ours.is_screened
    assert ours.excludes_constants is expected


def test_small_tolerances_are_left_to_exact_arithmetic() -> None:
    dtype = DTYPES["F32"]
    for bounds in ({"max_abs": 0.0}, {"atol": 1e-38, "rtol": 0.1}, {"rtol": 0.9}, {"cosine": 0.9}):
        assert not screen.can_screen(dtype, bounds)
    assert not screen.can_screen(dtype, {"atol": 0.0, "rtol": 0.0, "ulp": 4.0})
    assert not screen.can_screen(DTYPES["C64"], {"max_abs": 1.0})
    assert screen.can_screen(dtype, {"atol": 0.0, "rtol": 1e-3})


#: Exponents of the values of a tensor, by kind.
EXPONENTS = {"subnormal": (-149, -120), "usual": (-12, 4), "huge": (100, 127), "any": (-149, 127)}
#: Share of a tolerance that an element uses: some units in the last place of float32 and of float64
#: from all of it, and some more.
STEPS = range(-8, 9)
SHARES = (0.0, 0.5, *(1 + step * 2.0**-power for power in (18, 24, 52) for step in STEPS))


def draw_near_limit(
    draw: np.random.Generator, dtype: DType, bounds: Mapping[str, float]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return 1,100 elements within the bounds, of which a few are at their limit or odd."""
    size = 1100
    low, high = EXPONENTS[str(draw.choice(list(EXPONENTS)))]
    with np.errstate(all="ignore"):
        if dtype.kind == "int":
            expected = draw.integers(-100, 100, size).astype("f8")
        else:
            expected = np.ldexp(draw.uniform(-1, 1, size), draw.integers(low, high, size))
        expected *= draw.random(size) > draw.choice([0.0, 0.5])
        most = np.minimum(
            bounds.get("max_abs", np.inf),
            bounds.get("atol", 0.0) + bounds.get("rtol", 0.0) * np.abs(expected)
            if {"atol", "rtol"} & bounds.keys()
            else np.inf,
        )
        most = np.minimum(most, bounds.get("relative", np.inf) * np.abs(expected))
        share = draw.uniform(-0.9, 0.9, size)
        at = draw.integers(0, size, 2)
        share[at] = draw.choice(SHARES, 2) * draw.choice([-1, 1], 2)
        sides = [convert(one, dtype) for one in (expected, expected)]
        # From the value as the dtype has it, so that the limit is met to the last place.
        given = dtype.decode(sides[0]).astype("f8") + share * np.where(np.isfinite(most), most, 0)
        sides[1] = convert(given, dtype)
        for side, chance in ((0, 0.1), (1, 0.15)):
            if dtype.kind == "float" and draw.random() < chance:
                value = np.array([draw.choice([np.nan, np.inf, -np.inf])])
                sides[side][at[0]] = convert(value, dtype)[0]
    return sides[0], sides[1]


def convert(values: NDArray[np.float64], dtype: DType) -> NDArray[Any]:
    if dtype.name == "BF16":
        return (values.astype("<f4").view("<u4") >> 16).astype("<u2")
    return values.astype(dtype.storage)


BOUNDS: dict[str, tuple[Mapping[str, float], ...]] = {
    "max_abs": ({"max_abs": LIMIT}, {"max_abs": 1e-4}, {"max_abs": 3.0}, {"max_abs": 2.0**-90}),
    "atol": ({"atol": 1e-5}, {"atol": 0.25}, {"atol": 2.0**-100}),
    "rtol": ({"rtol": 1e-3}, {"rtol": 0.1}, {"rtol": 0.5}, {"relative": 0.1}),
    "both": ({"atol": 1e-5, "rtol": 1.3e-6}, {"atol": 2.0**-100, "rtol": 0.1}),
    "three": ({"max_abs": 1e-3, "atol": 1e-5, "rtol": 0.1}, {"relative": 0.1, "rtol": 0.05}),
}


@pytest.mark.parametrize("kind", BOUNDS)
@pytest.mark.parametrize("name", ["F64", "F32", "F16", "BF16", "I32", "U8", "I64"])
def test_the_verdict_at_a_limit_is_that_of_exact_arithmetic(name: str, kind: str) -> None:
    draw, dtype = np.random.default_rng(23), DTYPES[name]
    passed = 0
    for number in range(120):
        bounds = BOUNDS[kind][number % len(BOUNDS[kind])]
        expected, obtained = draw_near_limit(draw, dtype, bounds)
        state = ElementComparison(dtype, dtype, bounds, expected.shape, screened=True)
        with np.errstate(all="ignore"):
            state.add(Chunk(0, expected, obtained))
            ours = state.finish()
        exact = compare_arrays(expected, obtained, dtype, bounds)
        assert ours.passed == exact.passed, (number, bounds)
        passed += exact.passed
        figures = ("max_abs", "max_share", "margin") if exact.passed else ()
        for figure in figures:
            assert getattr(ours, figure) == getattr(exact, figure), (number, bounds, figure)
    assert 0 < passed < 120 or dtype.kind == "int"


STEPS_AT_LIMIT = (*range(-4, 5), 16)
#: Pairs of values of which each one in turn is in a tensor that is otherwise within its tolerance;
#: a number alone is so many units in the last place from the limit.
ODD = (
    *[(np.nan, 1.0), (1.0, np.nan), (np.nan, np.nan), (np.inf, np.inf), (-np.inf, -np.inf)],
    *[(np.inf, -np.inf), (np.inf, 1.0), (1.0, -np.inf), (0.0, -0.0), (1e-45, -1e-45)],
    *[(1e-45, 0.0), (3e38, -3e38), (1e-12, -LIMIT), (-1e-12, LIMIT)],
    *STEPS_AT_LIMIT,
)  # fmt: skip
#: Bytes of two chunks that differ, and elements that are screened at once.
TWO_CHUNKS, FEW = 16_384, 1536
LENGTHS = {
    size: sorted({0, 1, *(edge + by for edge in (FEW, 8192 // size) for by in (-1, 0, 1))})
    for size in (1, 2, 4, 8)
}


def decide_naively(left: NDArray[Any], right: NDArray[Any], limit: float) -> tuple[bool, float]:
    """Return whether all numbers are within a limit, and the largest finite error."""
    left, right = left.astype("f8"), right.astype("f8")
    error = np.where((left == right) | np.isnan(left) & np.isnan(right), 0.0, np.abs(left - right))
    return bool((error <= limit).all()), float(error[np.isfinite(error)].max(initial=0.0))


@pytest.mark.parametrize("measure", ["max_abs", "atol"])
@pytest.mark.parametrize("name", ["F64", "F32", "F16", "BF16", "I32", "U8"])
def test_each_length_and_odd_pair_is_decided_as_one_by_one(
    name: str, measure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parity.tensors.paired_reads.CHUNK_BYTES", TWO_CHUNKS)
    monkeypatch.setattr(screen, "BLOCK", FEW)
    draw, dtype = np.random.default_rng(5), DTYPES[name]
    limit = LIMIT if dtype.kind == "float" else 3.0
    odd = ODD if dtype.kind == "float" else STEPS_AT_LIMIT
    passed = 0
    for length in LENGTHS[dtype.storage.itemsize]:
        values = draw.integers(0, 9, length) / 8 if dtype.kind == "float" else np.full(length, 50)
        for pair in odd if length else odd[:1]:
            sides = [values.astype("f8"), values + draw.uniform(-0.6, 0.6, length) * limit]
            at = int(draw.choice([0, length // 2, max(0, length - 1)]))
            with np.errstate(all="ignore"):
                if not isinstance(pair, int):
                    pair_given = pair
                elif dtype.kind == "float":
                    kind = "<f8" if name == "F64" else "<f4"
                    base = np.array(limit, kind).view(kind.replace("f", "i"))
                    pair_given = 0.0, float((base + pair).view(kind))
                else:
                    pair_given = 50.0, 53.0 + pair
                if length:
                    sides[0][at], sides[1][at] = pair_given
                expected, obtained = (convert(side, dtype) for side in sides)
                decoded = [dtype.decode(side) for side in (expected, obtained)]
                passes, largest = decide_naively(*decoded, limit)
            ours, _ = compare_both(tmp_path, expected, obtained, dtype, {measure: limit})
            assert (ours.passed, ours.max_abs) == (passes, largest), (length, at, pair)
            passed += passes
    assert passed
