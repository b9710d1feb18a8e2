"""Faults of public reports about safetensors, each as a wrong dump with its siblings.

`docs/cases.md` says which case each test stands for, and where the reports are.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parity.tensors import FormatError, npy, safetensors
from tests.support.tensors import add_header, bf16, encode_safetensors, f32
from tests.support.wrong import Tensor, find_cause, list_errors, make_plain, verify_wrong_dump

S = (np.random.default_rng(11).integers(-4000, 4000, 24) / 8).astype("<f4")
W = S.reshape(4, 6)

MEMORY = {
    "column-major": np.asfortranarray(np.arange(1, 7, dtype="<f4").reshape(2, 3)),
    "column-major, three axes": np.asfortranarray(S.reshape(2, 3, 4)),
    "axes swapped": S.reshape(2, 3, 4).swapaxes(1, 2),
}


@pytest.mark.parametrize("name", MEMORY)
def test_writer_that_ignores_strides(name: str, tmp_path: Path) -> None:
    """SFT-01, SFT-02: shape right, values scrambled. Siblings: column-major, axes swapped."""
    array = MEMORY[name]
    in_memory = np.ndarray(array.size, "<f4", array.ravel("K").tobytes()).reshape(array.shape)
    code, cause = find_cause(tmp_path, Tensor(np.ascontiguousarray(array)), in_memory)
    assert code == "values"
    assert cause in {"transposed", "dims-reversed", "axes-permuted"}


@pytest.mark.parametrize("columns", [(1, 3), (0, 2), (2, 4)], ids=str)
def test_writer_that_copies_from_the_first_element(
    columns: tuple[int, int], tmp_path: Path
) -> None:
    """SFT-01: a slice of columns, whose bytes were copied without its gaps; it is red."""
    array = np.arange(12, dtype="<f4").reshape(3, 4)
    due = np.ascontiguousarray(array[:, slice(*columns)])
    obtained = array.reshape(-1)[columns[0] :][: due.size].reshape(due.shape)
    assert find_cause(tmp_path, Tensor(due), obtained)[0] == "values"


def test_column_major_reference_is_rejected(tmp_path: Path) -> None:
    """SFT-01: where arrays are given as .npy, their order is stated, and refused."""
    np.save(tmp_path / "w.npy", np.asfortranarray(W))
    with pytest.raises(FormatError) as caught:
        npy.locate_tensor(tmp_path / "w.npy")
    assert "column-major" in caught.value.message


F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
TWO = f32(1, 2).tobytes()
WRITTEN: dict[str, tuple[bytes, str]] = {
    "a number in the metadata (SFT-04)": (
        add_header({"__metadata__": {"step": 3}, "w": F32}, TWO), "__metadata__ must map strings"),
    "a list in the metadata": (
        add_header({"__metadata__": {"a": []}, "w": F32}, TWO), "__metadata__ must map strings"),
    "no metadata but null": (
        add_header({"__metadata__": None, "w": F32}, TWO), "__metadata__ must map strings"),
    "a header of 100 MB (SFT-07)": (
        (100_000_001).to_bytes(8, "little") + b"{}", "100,000,001 bytes"),
    "a header longer than the file": ((90).to_bytes(8, "little") + b"{}", "claims 90 bytes"),
    "a pointer of Git LFS (FIX-10)": (
        b"version https://git-lfs.github.com/spec/v1\noid", "version "),
    "a page in place of the file": (b"<!DOCTYPE html><html>", "<!DOCTYP"),
    "shared bytes (SFT-13)": (add_header({"k": F32, "v": F32}, TWO), "overlaps the one before"),
    "bytes shared in part": (
        add_header({"k": F32, "v": {**F32, "data_offsets": [4, 12]}}, TWO + TWO[:4]),
        "overlaps the one before"),
    "a hole": (
        add_header({"w": {**F32, "data_offsets": [4, 12]}}, TWO + TWO[:4]), "leaves a hole"),
    "a shape of a million": (
        add_header({"w": {**F32, "shape": [1000, 1000]}}, TWO), "needs 4,000,000 bytes"),
    "a byte at the end": (add_header({"w": F32}, TWO + b"\0"), "1 byte follows"),
    "a byte too few": (add_header({"w": F32}, TWO[:-1]), "data needs 77 bytes"),
    "an end before its begin": (add_header({"w": {**F32, "data_offsets": [8, 0]}}, TWO), "[8, 0]"),
    "a shape that overflows": (
        add_header({"w": {**F32, "shape": [2**32, 2**32]}}, TWO), "overflows"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "words"), WRITTEN.values(), ids=WRITTEN)
def test_invalid_safetensors_is_rejected(content: bytes, words: str, tmp_path: Path) -> None:
    """SFT-04, SFT-07, SFT-13 on a port's writer: the dump itself is no safetensors file."""
    outcome = verify_wrong_dump(
        tmp_path, "safetensors", {"w": make_plain(f32(1, 2))}, {"d.safetensors": content}
    )
    ((name, code, _),) = list_errors(outcome)
    assert name == "d.safetensors"
    assert code in ("bad-header", "truncated", "trailing-bytes")
    assert words in outcome.findings[0].message


RIGHT = {
    "no metadata (SFT-05)": add_header({"w": F32}, TWO),
    "empty metadata": add_header({"__metadata__": {}, "w": F32}, TWO),
    "metadata last": add_header({"w": F32, "__metadata__": {"a": "b"}}, TWO),
    **{
        f"{pad} blanks after the header (SFT-08)": encode_safetensors(
            {"w": ("F32", f32(1, 2))}, padding=pad
        )
        for pad in range(9)
    },
}


@pytest.mark.parametrize("content", RIGHT.values(), ids=RIGHT)
def test_valid_safetensors_is_accepted(content: bytes, tmp_path: Path) -> None:
    """SFT-05, SFT-08: metadata are optional, and data may begin at any byte."""
    outcome = verify_wrong_dump(
        tmp_path, "safetensors", {"w": make_plain(f32(1, 2))}, {"d.safetensors": content}
    )
    assert list_errors(outcome) == []


def test_keys_in_any_order(tmp_path: Path) -> None:
    """SFT-13: `z` before `a` is right, in the header and in the data."""
    z, a = ({**F32, "data_offsets": [at, at + 8]} for at in (0, 8))
    for header in ({"z": z, "a": a}, {"a": a, "z": z}):
        path = tmp_path / "x.safetensors"
        path.write_bytes(add_header(header, TWO + f32(3, 4).tobytes()))
        found = safetensors.locate_tensors(path)
        assert found["a"].read_array().tolist() == [3.0, 4.0]
        assert found["z"].read_array().tolist() == [1.0, 2.0]


def test_bf16_is_compared_as_bf16(tmp_path: Path) -> None:
    """SFT-10: `803f20c0` is [1, -2.5]; a dump may have the checkpoint's own dtype, or float32."""
    due = make_plain(bf16(1.0, -2.5), "bfloat16")
    assert due.stored.hex() == "803f20c0"
    as_bf16 = encode_safetensors({"w": ("BF16", bf16(1.0, -2.5))})
    as_f16 = encode_safetensors({"w": ("F16", bf16(1.0, -2.5).view("<f2"))})
    assert list_errors(
        verify_wrong_dump(tmp_path / "a", "safetensors", {"w": due}, {"d.safetensors": as_f16})
    ) == [("w", "dtype", "")]
    outcome = verify_wrong_dump(
        tmp_path / "b", "safetensors", {"w": due}, {"d.safetensors": as_bf16}
    )
    assert list_errors(outcome) == []
    assert (
        list_errors(
            verify_wrong_dump(tmp_path / "c", "safetensors", {"w": due}, {"w": f32(1.0, -2.5)})
        )
        == []
    )
    path = tmp_path / "x.safetensors"
    path.write_bytes(as_bf16)
    found = safetensors.locate_tensors(path)["w"]
    assert found.dtype.decode(found.read_array()).tolist() == [1.0, -2.5]
