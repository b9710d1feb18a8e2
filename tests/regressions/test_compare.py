"""Faults of public reports about tools that compare, each with its siblings.

`docs/cases.md` says which case each test stands for, and where the reports are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parity.tensors.compare import compare_arrays
from parity.tensors.dtypes import DTYPES
from tests.support.tensors import f32, list_findings, verify_dump
from tests.support.wrong import Tensor, find_cause, list_errors, make_plain, verify_wrong_dump

NAN, INF = float("nan"), float("inf")
BOUNDS: list[dict[str, Any]] = [
    {"exact": True},
    {"max_abs": 1e300},
    {"relative": 1e300},
    {"ulp": 2**40},
    {"max_abs": 1e300, "cosine": -1.0},
    {"max_abs": 1.0, "relative": 1.0, "ulp": 4},
]
SPECIAL: dict[str, tuple[float, float]] = {
    "NaN for a number": (1.0, NAN),
    "a number for NaN": (NAN, 1.0),
    "NaN for zero (CMP-02)": (0.0, NAN),
    "zero for NaN": (NAN, 0.0),
    "infinite for a number": (1.0, INF),
    "a number for infinite": (INF, 3.0),
    "the largest for infinite": (INF, float(np.finfo("<f4").max)),
    "infinities of both signs": (-INF, INF),
    "NaN for infinite": (INF, NAN),
    "infinite for NaN": (NAN, -INF),
}


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize(("due", "obtained"), SPECIAL.values(), ids=SPECIAL)
@pytest.mark.parametrize("code", ["<f2", "<f4", "<f8"])
def test_nan_and_infinity_never_pass(
    bounds: dict[str, Any], due: float, obtained: float, code: str
) -> None:
    """CMP-01, CMP-02: no bound, however wide, lets one through; it is counted, never replaced.

    Siblings: NaN and infinities on each side and of both signs, each bound, each width, in the
    first, a middle and the last place.
    """
    obtained = min(obtained, float(np.finfo(code).max)) if np.isfinite(obtained) else obtained
    for place in (0, 2, 4):
        right, wrong = np.arange(1, 6, dtype=code), np.arange(1, 6, dtype=code)
        right[place], wrong[place] = due, obtained
        found = compare_arrays(right, wrong, DTYPES[f"F{8 * right.itemsize}"], bounds)
        assert not found.passed
        assert found.bad == 1
        assert found.nonfinite == (int(not np.isfinite(due)), int(not np.isfinite(obtained)))
        assert found.worst is not None
        assert found.worst.index == place


def test_all_nan_counts_every_element(tmp_path: Path) -> None:
    """CMP-01, CMP-02: a dump of nothing but NaN, with the numbers of both sides."""
    outcome = verify_wrong_dump(tmp_path, "pth", {"w": make_plain(f32(0, 1))}, {"w": f32(NAN, NAN)})
    assert list_errors(outcome)[0][:2] == ("w", "nan")
    assert "2 NaN or infinite in the dump, 0 in the reference" in outcome.findings[0].message


FLIPS: list[tuple[dict[str, Any], dict[str, Any], NDArray[Any], NDArray[Any]]] = [
    ({"max_abs": 1e-4}, {"max_abs": 1e-3}, f32(1), f32(1.0005)),
    ({"max_abs": 0}, {"max_abs": 2e-7}, f32(1), f32(1 + 2**-23)),
    ({"max_abs": 0}, {"max_abs": 6e-8}, f32(0), f32(5e-8)),
    ({"relative": 1e-4}, {"relative": 1e-3}, f32(100), f32(100.05)),
    ({"relative": 0}, {"relative": 1e-6}, f32(3), f32(np.nextafter(np.float32(3), 4))),
    ({"ulp": 0}, {"ulp": 1}, f32(3), f32(np.nextafter(np.float32(3), 4))),
    ({"ulp": 3}, {"ulp": 4}, f32(1), f32(1 + 4 * 2**-23)),
    ({"max_abs": 9, "cosine": 0.9999}, {"max_abs": 9, "cosine": 0.5}, f32(9, 9, 9), f32(9, 9, 15)),
    ({"exact": True}, {"max_abs": 0}, f32(0), f32(-0.0)),
    ({"max_abs": 0}, {"max_abs": 1}, np.array([2**24 + 1]), np.array([2**24])),
    ({"max_abs": 0}, {"max_abs": 1}, np.array([2**53 + 1]), np.array([2**53])),
]


@pytest.mark.parametrize(
    ("tight", "loose", "due", "obtained"), FLIPS, ids=lambda one: str(one)[:40]
)
def test_each_tolerance_changes_the_verdict(
    tight: dict[str, Any],
    loose: dict[str, Any],
    due: NDArray[Any],
    obtained: NDArray[Any],
    tmp_path: Path,
) -> None:
    """CMP-04: no option without an effect; zero is a bound, and the bound that held is printed."""
    red = list_findings(verify_dump(tmp_path, {"w.npy": due}, {"w.npy": obtained}, bounds=tight))
    assert [level for level, _, _ in red] == ["error"]
    green = list_findings(verify_dump(tmp_path, {"w.npy": due}, {"w.npy": obtained}, bounds=loose))
    assert not [one for one in green if one[0] == "error"]
    if "values" in red[0]:
        assert "bound: " in red[0][2]


ZEROS = {
    "one": (f32(0.0), f32(-0.0)),
    "the other way": (f32(-0.0), f32(0.0)),
    "among others": (f32(1, -0.0, 2), f32(1, 0.0, 2)),
    "all": (f32(*[0.0] * 9), f32(*[-0.0] * 9)),
}


@pytest.mark.parametrize(("due", "obtained"), ZEROS.values(), ids=ZEROS)
@pytest.mark.parametrize("code", ["<f2", "<f4", "<f8"])
def test_signs_of_zeros(due: Any, obtained: Any, code: str, tmp_path: Path) -> None:
    """CMP-05: under exact a failure of its own code, under any bound none, but counted."""
    due, obtained = due.astype(code), obtained.astype(code)
    exact = list_findings(verify_dump(tmp_path, {"w.npy": due}, {"w.npy": obtained}))
    assert [one[:2] for one in exact] == [("error", "signed-zero")]
    for bounds in ({"max_abs": 0}, {"ulp": 0}, {"relative": 0}):
        outcome = verify_dump(tmp_path, {"w.npy": due}, {"w.npy": obtained}, bounds=bounds)
        assert not [one for one in list_findings(outcome) if one[0] == "error"]


@pytest.mark.parametrize("wrong", ["a", "b", "c"])
def test_one_wrong_tensor_of_several_fails(wrong: str, tmp_path: Path) -> None:
    """CMP-07: one wrong tensor is enough, wherever it stands; and every wrong one is told."""
    due = {name: make_plain(f32(1, 2, at)) for at, name in enumerate("abc", 3)}
    obtained = {name: one.expected for name, one in due.items()}
    assert list_errors(
        verify_wrong_dump(tmp_path / "one", "pth", due, obtained | {wrong: f32(0, 0, 0)})
    ) == [(wrong, "values", "all-zero")]
    nothing = {name: f32(0, 0, 0) for name in due}
    assert len(list_errors(verify_wrong_dump(tmp_path / "all", "pth", due, nothing))) == 3


EVEN = np.array([[2, 7, 1], [7, 3, 9], [1, 9, 5]], "<f4")
NO_HINT = {
    "a symmetric square": EVEN,
    "a constant": np.full((3, 3), 2, "<f4"),
    "rows that are alike": np.tile(f32(1, 2, 3), (3, 1)).T @ np.eye(3, dtype="<f4") * 0 + 4,
    "zeros": np.zeros((3, 3), "<f4"),
}


@pytest.mark.parametrize("due", NO_HINT.values(), ids=NO_HINT)
def test_no_cause_without_proof(due: NDArray[Any], tmp_path: Path) -> None:
    """CMP-07: what a transposition would leave as it is must not be called transposed."""
    obtained = due.copy()
    obtained[0, 1] += 0.5
    obtained[2, 2] -= 0.25
    code, cause = find_cause(tmp_path, Tensor(due), obtained)
    assert (code, cause) == ("values", "no-simple-cause")


def test_empty_dump_fails(tmp_path: Path) -> None:
    """CMP-08: an empty dump, one of other names, and one whose files cannot be read."""
    due = {"w": make_plain(f32(1, 2))}
    assert list_errors(verify_wrong_dump(tmp_path / "none", "pth", due, {})) == [
        ("w", "tensor-missing", "")
    ]
    other = verify_wrong_dump(tmp_path / "other", "pth", due, {"v": f32(1, 2)})
    assert {code for _, code, _ in list_errors(other)} == {"tensor-missing", "tensor-extra"}
    assert other.compared == 0
    broken = verify_wrong_dump(tmp_path / "broken", "pth", due, {"w.bin": b""})
    assert [code for _, code, _ in list_errors(broken)] == ["truncated"]
    text = verify_wrong_dump(tmp_path / "text", "pth", due, {"w.txt": b"1 2"})
    assert [code for _, code, _ in list_errors(text)] == ["tensor-missing"]


POINTERS = {
    "a pointer of Git LFS": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
    "a page": b"<!DOCTYPE html><html></html>",
    "an answer in JSON": b'{"error": "not found"}',
    "conflict marks": b"<<<<<<< HEAD\n1\n=======\n2\n>>>>>>> b\n",
    "zeros": bytes(64),
    "a byte": b"\1",
    "a zip": b"PK\3\4" + bytes(40),
}


@pytest.mark.parametrize("suffix", ["bin", "npy", "safetensors"])
@pytest.mark.parametrize("content", POINTERS.values(), ids=POINTERS)
def test_folder_or_text_instead_of_a_tensor(content: bytes, suffix: str, tmp_path: Path) -> None:
    """FIX-10: a pointer, a page or a message where a dump should be; siblings by format."""
    outcome = verify_wrong_dump(
        tmp_path, "pth", {"w": make_plain(f32(1, 2))}, {f"w.{suffix}": content}
    )
    found = list_errors(outcome)
    assert [code for _, code, _ in found][:1] in (
        ["bad-header"], ["truncated"], ["trailing-bytes"],
    )  # fmt: skip
    assert outcome.compared == 0
