"""Tensors where they lie: read from any index on, whole or in pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import numpy as np
import pytest

from parity.tensors import FormatError
from parity.tensors.dtypes import DTYPES
from parity.tensors.stored import StoredTensor
from tests.support.tensors import store_bin, store_npy, store_tensor


def raw(path: Path, content: bytes, shape: tuple[int, ...], dtype: str = "U8") -> StoredTensor:
    path.write_bytes(content)
    return StoredTensor(path, 0, DTYPES[dtype], shape, ".raw")


def test_counts_follow_from_the_shape(tmp_path: Path) -> None:
    for shape, count in (((), 1), ((0,), 0), ((2, 3), 6), ((5, 0, 7), 0)):
        tensor = StoredTensor(tmp_path, 0, DTYPES["F16"], shape, ".raw")
        assert (tensor.count, tensor.nbytes) == (count, 2 * count)


@pytest.mark.parametrize("maker", [store_tensor, store_bin, store_npy])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 4), (2, 0, 3), (1, 2, 3, 4)])
def test_the_whole_is_what_was_written(
    maker: object, shape: tuple[int, ...], tmp_path: Path
) -> None:
    array = np.arange(np.prod(shape), dtype="<f4").reshape(shape) + np.float32(0.5)
    found = maker(tmp_path, array).read_array()  # type: ignore[operator]
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()


def test_a_piece_is_read_from_any_index(tmp_path: Path) -> None:
    array = np.arange(100, dtype="<i4").reshape(4, 25)
    tensor = store_tensor(tmp_path, array)
    with tensor.open() as reader:
        for start, length in ((0, 100), (99, 1), (24, 3), (50, 0), (7, 93)):
            into = np.empty(length, "<i4")
            reader.read(start, into)
            assert into.tolist() == list(range(start, start + length))


@pytest.mark.parametrize(("dtype", "codes"), [("F4", 16), ("F6_E2M3", 64), ("F6_E3M2", 64)])
def test_what_shares_bytes_is_read_from_any_index(dtype: str, codes: int, tmp_path: Path) -> None:
    array = (np.arange(96).reshape(4, 24) * 7 % codes).astype("u1")
    tensor = store_tensor(tmp_path, array, dtype)
    assert (tensor.shape, tensor.nbytes) == ((4, 24), 48 if dtype == "F4" else 72)
    assert tensor.read_array().tolist() == array.tolist()
    flat = array.reshape(-1).tolist()
    with tensor.open() as reader:
        for start in range(9):
            for length in range(10):
                into = np.empty(length, "u1")
                reader.read(start, into)
                assert into.tolist() == flat[start : start + length]


@pytest.mark.parametrize("left", [0, 1, 5, 11])
def test_a_shorter_file_is_an_error_not_zeros(left: int, tmp_path: Path) -> None:
    """tracel-ai/burn#5412: a short read was taken for zeros."""
    tensor = raw(tmp_path / "x", bytes(range(12)), (12,))
    (tmp_path / "x").write_bytes(bytes(range(left)))
    with pytest.raises(FormatError, match="became shorter while it was read") as caught:
        tensor.read_array()
    assert caught.value.code == "truncated"


def test_a_file_that_is_gone_is_unreadable(tmp_path: Path) -> None:
    tensor = raw(tmp_path / "x", b"a", (1,))
    (tmp_path / "x").unlink()
    with pytest.raises(FormatError, match="cannot be read: No such file or directory") as caught:
        tensor.read_array()
    assert caught.value.code == "unreadable"


def test_short_reads_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system may hand out fewer bytes than were asked for."""
    tensor = raw(tmp_path / "x", bytes(range(200)), (200,))

    class Slow:
        def __init__(self, path: Path) -> None:
            self.file = open(path, "rb", buffering=0)  # noqa: PTH123, SIM115 - closed by its reader

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def seek(self, at: int) -> None:
            self.file.seek(at)

        def readinto(self, view: memoryview) -> int:
            return self.file.readinto(view[:7])

    monkeypatch.setattr(type(tmp_path), "open", lambda self, *_a, **_k: Slow(self))
    assert tensor.read_array().tolist() == list(range(200))
