"""Faults of public reports about .pth, each as a wrong dump with its siblings.

`docs/cases.md` says which case each test stands for, and where the reports are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.tensors import bf16
from tests.support.wrong import (
    EDGE,
    Tensor,
    find_cause,
    list_errors,
    make_plain,
    make_strided,
    verify_wrong_dump,
)

DRAWS = np.random.default_rng(11)
S = (DRAWS.integers(-4000, 4000, 200) / 8).astype("<f4")
W = S[:24].reshape(4, 6)
HALVES = (DRAWS.integers(1, 2000, (4, 6)) / 8).astype("<f2")

# Shape, strides and offset of a view of a storage, and what a blind reader is said to do.
VIEWS: dict[str, tuple[Any, Any, int, str]] = {
    "transposed": ((3, 2), (1, 3), 0, "strides-ignored"),
    "transposed square": ((4, 4), (1, 4), 0, "strides-ignored"),
    "Fortran order (PTH-08)": ((3, 4), (1, 3), 0, "strides-ignored"),
    "three axes": ((2, 3, 4), (1, 8, 2), 0, "strides-ignored"),
    "channels last": ((2, 3, 4, 5), (60, 1, 15, 3), 0, "strides-ignored"),
    "columns": ((5, 3), (7, 1), 0, "strides-ignored"),
    "every second row": ((4, 3), (6, 1), 0, "strides-ignored"),
    "every third element": ((8,), (3,), 0, "strides-ignored"),
    "expanded": ((3, 4), (0, 1), 0, "strides-ignored"),
    "overlapping": ((5, 4), (2, 1), 0, "strides-ignored"),
    "transposed, at an offset": ((3, 5), (1, 3), 20, "offset-ignored+strides-ignored"),
    "rows, at an offset": ((3, 5), (5, 1), 20, "offset-ignored"),
    "one element, at an offset": ((1,), (1,), 9, "offset-ignored"),
}


@pytest.mark.parametrize(("shape", "stride", "offset", "cause"), VIEWS.values(), ids=VIEWS)
def test_view_read_as_its_storage(
    shape: Any, stride: Any, offset: int, cause: str, tmp_path: Path
) -> None:
    """PTH-01, PTH-08, PTH-14: a loader that ignores strides or offset; right shape, wrong values.

    Siblings: two to four axes, gaps, steps, stride 0, overlaps, an offset alone and beside
    strides, and the blind readers that heed one of both.
    """
    tensor = make_strided(S, shape, stride, offset)
    blind = S[: tensor.expected.size].reshape(shape)
    code, found = find_cause(tmp_path / "blind", tensor, blind)
    assert (code, found) == ("values", cause)
    if offset and "strides" in cause:
        half = S[offset:][: tensor.expected.size].reshape(shape)
        assert find_cause(tmp_path / "half", tensor, half) == ("values", "strides-ignored")


@pytest.mark.parametrize("axes", [(1, 0), (0, 2, 1), (2, 1, 0), (1, 2, 0), (3, 2, 1, 0)], ids=str)
def test_axes_are_named_without_recorded_strides(axes: tuple[int, ...], tmp_path: Path) -> None:
    """PTH-01 in upstream's bundles, which do not say how a tensor lies: values alone prove it."""
    shape = (2, 3, 4, 5)[: len(axes)]
    due = S[: np.prod(shape)].reshape(shape)
    # The storage holds the permuted tensor; read blindly it fills the right shape.
    blind = np.ascontiguousarray(due.transpose(axes)).reshape(shape)
    assert find_cause(tmp_path, Tensor(due), blind)[1] in {
        "transposed", "axes-permuted", "dims-reversed",
    }  # fmt: skip


CUBE = S[:144].reshape(2, 3, 2, 3, 4)
FAR: dict[str, tuple[Any, str]] = {
    "five axes reversed": (CUBE.T, "dims-reversed"),
    "two of five exchanged": (CUBE.swapaxes(1, 4), "transposed"),
    "rows backwards": (W[::-1], "reversed"),
    "columns backwards": (W[:, ::-1], "reversed"),
    "kernels flipped": (CUBE[..., ::-1, ::-1], "reversed"),
    "an axis in the middle backwards": (CUBE[:, :, ::-1], "reversed"),
    "rows backwards, signs lost": (abs(W[::-1]), "reversed+sign-lost"),
}


@pytest.mark.parametrize(("obtained", "cause"), FAR.values(), ids=FAR)
def test_permuted_axes(obtained: NDArray[Any], cause: str, tmp_path: Path) -> None:
    """PTH-08's kind: reversed dimensions of many axes, and axes that run backwards."""
    due = W if obtained.ndim == 2 else CUBE
    blind = np.ascontiguousarray(obtained).reshape(due.shape)
    assert find_cause(tmp_path, Tensor(due), blind) == ("values", cause)


CUT: dict[str, tuple[Any, str]] = {
    "half": (slice(12, None), "zero-tail"),
    "but for the first": (slice(1, None), "zero-tail"),
    "the last four": (slice(20, None), "zero-tail"),
    "a block in the middle": (slice(6, 14), "zero-block"),
    "the first half": (slice(0, 12), "zero-block"),
    "everything": (slice(None), "all-zero"),
}


@pytest.mark.parametrize(("where", "cause"), CUT.values(), ids=CUT)
def test_zeros_after_a_failed_read(where: slice, cause: str, tmp_path: Path) -> None:
    """PTH-02: a short read that is not noticed. Siblings: where, and how much is missing."""
    obtained = W.copy()
    obtained.reshape(-1)[where] = 0
    assert find_cause(tmp_path, make_plain(W), obtained) == ("values", cause)


def test_expected_zeros_are_not_a_short_read(tmp_path: Path) -> None:
    """PTH-02: a tail that is zero on both sides hints at nothing."""
    due = W.copy()
    due.reshape(-1)[12:] = 0
    obtained = due.copy()
    obtained[0, 0] += 1
    assert find_cause(tmp_path, make_plain(due), obtained) == ("values", "no-simple-cause")


@pytest.mark.parametrize("elements", [-5, -2, -1, 1, 2, 3])
@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "not recorded"])
def test_data_shifted_by_elements(elements: int, recorded: bool, tmp_path: Path) -> None:
    """PTH-04: a count of 8 bytes before each storage read as two elements, and its like.

    Siblings: forwards and back; in bundles that record where a tensor lies, what comes in is
    the file's own; in the others anything.
    """
    obtained = _around(W)[16 - elements :][: W.size].reshape(W.shape)
    assert find_cause(tmp_path, make_plain(W) if recorded else Tensor(W), obtained) == (
        "values",
        "shifted",
    )


def _around(array: NDArray[Any]) -> NDArray[Any]:
    return np.frombuffer(EDGE + array.tobytes() + EDGE, "<f4")


@pytest.mark.parametrize("by", [-8, -7, -6, -4, -3, -2, -1, 1, 2, 3, 4, 6, 7, 8])
@pytest.mark.parametrize("kind", ["pth", "safetensors"])
def test_data_shifted_by_bytes(by: int, kind: str, tmp_path: Path) -> None:
    """SFT-08: the payload begins where it was rounded to. Siblings: by up to 8 bytes, both ways."""
    raw = _around(W).tobytes()[64 + by :][: W.nbytes]
    obtained = np.frombuffer(raw, "<f4").reshape(W.shape)
    assert find_cause(tmp_path, make_plain(W), obtained, kind) == ("values", "shifted")


STORED: dict[str, Tensor] = {
    "float16": make_plain(HALVES, "float16"),
    "bfloat16": make_plain(bf16(*range(1, 25)).reshape(4, 6), "bfloat16"),
    "float32": make_plain(W),
    "float64": make_plain(W.astype("<f8") / 3, "float64"),
    "int32": make_plain((np.arange(3, 27) * 7654321).astype("<i4").reshape(4, 6), "int32"),
    "int16": make_plain((np.arange(3, 27) * 1001 - 9000).astype("<i2").reshape(4, 6), "int16"),
}


@pytest.mark.parametrize("name", STORED)
def test_swapped_bytes(name: str, tmp_path: Path) -> None:
    """PTH-13, SFT-11: big-endian data, or a host's order, taken for little-endian.

    Siblings: elements of 2, 4 and 8 bytes, floats and integers, swapped as they are stored.
    """
    tensor = STORED[name]
    code = {"bfloat16": "<u2"}.get(name, f"<{name[0]}{int(name[-2:]) // 8}")
    swapped = np.frombuffer(tensor.stored, code).byteswap().reshape(4, 6)
    with np.errstate(all="ignore"):
        obtained = (swapped.astype("<u4") << 16).view("<f4") if name == "bfloat16" else swapped
        code, cause = find_cause(tmp_path, tensor, obtained)
    assert code in ("values", "nan")
    assert cause == "byte-swapped"


@pytest.mark.parametrize("size", [2, 8])
def test_bytes_swapped_in_wrong_groups(size: int, tmp_path: Path) -> None:
    """PTH-13: four-byte elements swapped in twos or eights."""
    obtained = W.view(f"<u{size}").byteswap().view("<f4")
    assert find_cause(tmp_path, make_plain(W), obtained)[1] == "byte-swapped"


OTHER = [
    ("float16", "bfloat16"), ("bfloat16", "float16"), ("float16", "<i2"), ("bfloat16", "<u2"),
    ("float32", "<i4"), ("float64", "<i8"), ("int16", "<f2"), ("int32", "<f4"),
]  # fmt: skip


@pytest.mark.parametrize(("stored", "read"), OTHER)
def test_bytes_read_as_another_dtype(stored: str, read: str, tmp_path: Path) -> None:
    """PTH-10, PTH-17, SFT-10: a dtype that is guessed, not read. Siblings: each of one width."""
    tensor = STORED[stored]
    raw = np.frombuffer(tensor.stored, {"bfloat16": "<u2", "float16": "<f2"}.get(read, read))
    wide = (raw.astype("<u4") << 16).view("<f4") if read == "bfloat16" else raw
    code, cause = find_cause(tmp_path, tensor, wide.reshape(4, 6))
    assert code in ("values", "nan")
    assert cause in ("other-dtype", "bits-as-integers")


def test_halves_read_as_floats(tmp_path: Path) -> None:
    """PTH-10 as reported: two f16 make one f32, of another shape, or filled from what follows."""
    due = make_plain(np.array([1.0, 2.0], "<f2"), "float16")
    one = np.frombuffer(due.stored, "<f4")
    assert find_cause(tmp_path / "short", due, one) == ("shape", "")
    more = make_plain(HALVES, "float16")
    obtained = np.frombuffer(more.stored + bytes(range(48)), "<f4").reshape(4, 6)
    assert find_cause(tmp_path / "filled", more, obtained) == ("values", "other-dtype")


NARROWED = {
    "rounded-f16": lambda a: a.astype("<f2").astype("<f4"),
    "cut-bf16": lambda a: (a.view("<u4") & 0xFFFF0000).view("<f4"),
    "rounded-bf16": lambda a: (_to_even(a.view("<u4")) & 0xFFFF0000).view("<f4"),
}


def _to_even(code: NDArray[Any]) -> NDArray[Any]:
    return code + 0x7FFF + (code >> 16 & 1)


@pytest.mark.parametrize("cause", NARROWED)
def test_values_rounded_through_a_narrower_dtype(cause: str, tmp_path: Path) -> None:
    """PTH-17's kind: bf16 or f16 on the way. Siblings: rounded, and cut without rounding."""
    due = (DRAWS.normal(size=(4, 6))).astype("<f4")
    assert find_cause(tmp_path, make_plain(due), NARROWED[cause](due)) == ("values", cause)


@pytest.mark.parametrize(
    "shape", [(200,), (24, 1), (1, 24), (6, 4), (2, 12), (4, 7), (4, 5), (), (4, 6, 1)], ids=str
)
def test_wrong_shape_is_never_compared(shape: tuple[int, ...], tmp_path: Path) -> None:
    """PTH-14: the storage's length for the shape. Siblings: flat, other axes, one axis more."""
    assert find_cause(tmp_path, make_plain(W), np.resize(S, shape)) == ("shape", "")


def test_exchanged_names(tmp_path: Path) -> None:
    """PTH-04, SFT-13: a tensor with the bytes of its neighbour. Siblings: both ways, and one."""
    due = {"a": make_plain(W), "b": make_plain(W[::-1] * 3)}
    swapped = verify_wrong_dump(
        tmp_path / "both", "pth", due, {"a": due["b"].expected, "b": due["a"].expected}
    )
    assert list_errors(swapped) == [
        ("a", "values", "other-tensor"),
        ("b", "values", "other-tensor"),
    ]
    once = verify_wrong_dump(
        tmp_path / "one", "pth", due, {"a": due["a"].expected, "b": due["a"].expected}
    )
    assert list_errors(once) == [("b", "values", "other-tensor")]
