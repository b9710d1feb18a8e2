"""Many small tensors at once: the figures of each alone, and others left to exact arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from parity.tensors.bin import encode_tensor, locate_tensor
from parity.tensors.compare import compare
from parity.tensors.dtypes import DTYPES
from parity.tensors.groups.base import Pair
from parity.tensors.small import compare_small
from parity.tensors.stored import StoredTensor

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from parity.tensors.dtypes import DType

FIGURES = ("count", "bounds", "max_abs", "max_share", "margin", "is_screened", "bad")
BOUNDS: tuple[Mapping[str, float], ...] = (
    {"max_abs": 1e-3},
    {"atol": 1e-3},
    {"atol": 1e-2, "max_abs": 1e-3},
    {"atol": 1e-4, "rtol": 1e-3},
    {"relative": 0.01, "max_abs": 1.0},
    {"ulp": 40.0},
    {"close": 1.0},
)


def write_pairs(
    folder: Path, sides: Mapping[str, tuple[NDArray[Any], NDArray[Any]]], dtype: DType
) -> dict[str, Pair]:
    """Write all tensors of each side to one file, as a `.safetensors` has them."""
    pairs: dict[str, list[StoredTensor]] = {name: [] for name in sides}
    for number, side in enumerate(("expected", "obtained")):
        content, path = b"", folder / side
        for name, arrays in sides.items():
            array = arrays[number]
            pairs[name].append(StoredTensor(path, len(content), dtype, array.shape, ".npy"))
            content += array.tobytes()
        path.write_bytes(content)
    return {name: Pair(*both) for name, both in pairs.items()}


@pytest.mark.parametrize("bounds", BOUNDS, ids=" ".join)
@pytest.mark.parametrize("name", ["F64", "F32", "F16", "BF16"])
def test_figures_are_those_of_each_tensor_alone(
    name: str, bounds: Mapping[str, float], tmp_path: Path
) -> None:
    draw, dtype = np.random.default_rng(3), DTYPES[name]
    sides = {}
    for number in range(200):
        values = np.atleast_1d(draw.standard_normal(draw.integers(1, 300))).astype("<f4")
        near = values * (1 + draw.uniform(-1, 1, len(values)) * 10.0 ** draw.integers(-17, -2))
        if draw.random() < 0.2:
            values[0] = draw.choice([np.nan, np.inf, -np.inf, 0.0])
            near[0] = draw.choice([values[0], 0.0, -0.0])
        kind = "<f4" if name == "BF16" else dtype.storage
        both = [side.astype(kind) for side in (values, near)]
        if name == "BF16":
            both = [(side.view("<u4") >> 16).astype("<u2") for side in both]
        sides[f"t{number}"] = both[0], both[1]
    pairs = write_pairs(tmp_path, sides, dtype)
    found = compare_small(pairs, bounds)
    names = [*FIGURES, *(one for one in ("relative", "ulp") if one in bounds)]
    names = [{"relative": "max_relative", "ulp": "max_ulp"}.get(one, one) for one in names]
    assert 10 < len(found) < 200
    for key, pair in pairs.items():
        alone = compare(*pair, bounds)
        assert alone.passed or key not in found
        if key in found:
            ours = found[key]
            assert [getattr(ours, one) for one in names] == [getattr(alone, one) for one in names]
            assert ours.excludes_constants or not alone.excludes_constants


#: Expected and obtained elements, and whether the comparison of all decides them.
KINDS: dict[str, tuple[list[float], list[float], bool]] = {
    "within": ([1.0, 2.0], [1.0, 2.0625], True),
    "equal": ([1.0, 2.0], [1.0, 2.0], True),
    "at the limit": ([1.0, 2.0], [1.0, 2.125], False),
    "beyond": ([1.0, 2.0], [1.0, 2.5], False),
    "NaN in the dump": ([1.0, 2.0], [np.nan, 2.0], False),
    "NaN in both": ([np.nan, 2.0], [np.nan, 2.0], False),
    "infinite in both": ([np.inf, 2.0], [np.inf, 2.0], False),
    "no elements": ([], [], False),
    "not small": ([1.0] * 1025, [1.0] * 1025, False),
}


def test_others_are_left_to_exact_arithmetic(tmp_path: Path) -> None:
    arrays = {name: tuple(np.array(s, "<f4") for s in both[:2]) for name, both in KINDS.items()}
    pairs = write_pairs(tmp_path, arrays, DTYPES["F32"])
    assert [*compare_small(pairs, {"max_abs": 0.125})] == [n for n, one in KINDS.items() if one[2]]
    for more in ({"exact": 1.0}, {"cosine": 0.9}):
        assert compare_small(pairs, {"max_abs": 0.125, **more}) == {}
    for bounds in ({}, {"exact": 1.0}, {"max_abs": 0.0}):
        assert compare_small(pairs, bounds) == {}


@pytest.mark.parametrize("value", [0.0, -3e38])  # the last byte of one is 0, of the other 255
@pytest.mark.parametrize("size", [0, 4, 7])
def test_files_that_cannot_be_read_are_left_to_exact_arithmetic(
    size: int, value: float, tmp_path: Path
) -> None:
    pairs, values = {}, np.full(100, value, "<f4")
    for name in "abc":
        paths = [tmp_path / f"{name}{side}.bin" for side in "01"]
        for path in paths:
            path.write_bytes(encode_tensor(values))  # more than a header's read
        pairs[name] = Pair(*map(locate_tensor, paths))
    (tmp_path / "a1.bin").unlink()
    (tmp_path / "b1.bin").write_bytes((tmp_path / "b0.bin").read_bytes()[: 400 + size])
    assert [*compare_small(pairs, {"max_abs": 1e-4})] == ["c"]


def test_small_data_are_read_with_the_header(tmp_path: Path) -> None:
    values = np.arange(20, dtype="<f4")
    for count, is_kept in ((0, True), (1, True), (20, True), (100, False)):
        path = tmp_path / f"{count}.bin"
        path.write_bytes(encode_tensor(np.resize(values, count)))
        stored = locate_tensor(path)
        assert stored.data == (stored.read_array().tobytes() if is_kept else None)
