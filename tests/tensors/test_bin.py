"""The `.bin` readers: what was written is read back, and nothing else is read at all."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from parity.tensors import FormatError
from parity.tensors.bin import (
    MAX_NDIM,
    MAX_TENSORS,
    encode_batch,
    encode_tensor,
    read_batch,
    read_tensor,
)

SHAPES = hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4)
#: Any bits, so NaN with payloads, infinities, subnormals and both zeros too.
TENSORS = hnp.arrays(np.dtype("<u4"), SHAPES).map(lambda bits: bits.view("<f4"))
any_tmp_path = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def same_bits(one: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    return one.shape == other.shape and one.tobytes() == other.tobytes()


def refusal(read: Callable[[Path], object], path: Path) -> tuple[str, str]:
    with pytest.raises(FormatError) as caught:
        read(path)
    return caught.value.code, caught.value.message


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "t.bin"


class TestRoundTrips:
    @given(tensor=TENSORS)
    @any_tmp_path
    def test_a_tensor_comes_back_bit_for_bit(
        self, tensor: NDArray[np.float32], tmp_path: Path
    ) -> None:
        path = tmp_path / "t.bin"
        path.write_bytes(encode_tensor(tensor))
        assert same_bits(read_tensor(path), tensor)

    @given(tensors=st.lists(TENSORS, max_size=4))
    @any_tmp_path
    def test_a_batch_comes_back_in_its_order(
        self, tensors: list[NDArray[np.float32]], tmp_path: Path
    ) -> None:
        path = tmp_path / "b.bin"
        path.write_bytes(encode_batch(tensors))
        found = read_batch(path)
        assert len(found) == len(tensors)
        assert all(map(same_bits, found, tensors))

    @pytest.mark.parametrize(
        "view",
        [
            np.arange(6, dtype=np.float32).reshape(2, 3).T,
            np.arange(12, dtype=np.float32).reshape(3, 4)[::2, ::-1],
            np.broadcast_to(np.float32(7), (3, 2)),
            np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
            np.arange(6, dtype=">f4"),
        ],
        ids=["transposed", "sliced", "broadcast", "fortran", "big-endian"],
    )
    def test_strides_and_byte_order_are_not_written(
        self, view: NDArray[np.float32], file: Path
    ) -> None:
        file.write_bytes(encode_tensor(view))
        assert same_bits(read_tensor(file), np.array(view, "<f4", order="C"))

    def test_the_bytes_are_those_of_the_contract(self) -> None:
        features = np.array([[1.0, -2.5]], np.float32)
        labels = np.array([3.0], np.float32)
        assert encode_batch([features, labels]).hex(" ", 4) == (
            "02000000 02000000 01000000 02000000 0000803f 000020c0 01000000 01000000 00004040"
        )

    def test_a_scalar_has_no_dimension_and_one_value(self, file: Path) -> None:
        file.write_bytes(words(0) + struct.pack("<f", 1.5))
        assert read_tensor(file).shape == ()
        assert read_tensor(file) == 1.5

    def test_an_empty_tensor_has_no_data(self, file: Path) -> None:
        file.write_bytes(words(2, 0, 7))
        assert read_tensor(file).shape == (0, 7)

    def test_a_batch_may_be_empty(self, file: Path) -> None:
        file.write_bytes(words(0))
        assert read_batch(file) == []

    def test_most_dimensions_and_tensors_are_read(self, file: Path) -> None:
        file.write_bytes(words(MAX_NDIM, *[1] * MAX_NDIM) + bytes(4))
        assert read_tensor(file).shape == (1,) * MAX_NDIM
        file.write_bytes(words(MAX_TENSORS) + words(1, 0) * MAX_TENSORS)
        assert len(read_batch(file)) == MAX_TENSORS


BATCH = words(1, 2, 2, 3) + bytes(24)

#: What the file holds; how it is refused.
#: Batches that are refused; messages are golden.
REFUSED = {
    "empty": b"",
    "half a count": b"\1\0",
    "a tensor too few": words(2, 1, 1) + bytes(4),
    "two tensors too few": words(3, 1, 1) + bytes(4),
    "a count alone": words(2),
    "tensors without a count": words(2, 2, 1) + words(7, 7) + words(1, 2) + bytes(8),
    "no shape": words(1, 2, 3),
    "data cut": BATCH[:-1],
    "one byte more": BATCH + b"\n",
    "a kilobyte more": BATCH + bytes(1024),
    "one tensor more": BATCH + BATCH[4:],
    "tensors more": BATCH + 5 * (words(1, 1) + bytes(4)),
    "scalars more, which are zeros": BATCH + 2 * (words(0) + bytes(4)),
    "empty tensors more": BATCH + words(1, 0),
    "4 billion tensors": words(0xFFFFFFFF) + bytes(64),
    "a tensor too many": words(1025) + words(1, 0) * 1025,
    "4 billion dimensions": words(1, 0xFFFFFFFF) + bytes(64),
    "a dimension too many": words(1, 33) + bytes(4 * 33),
    "a product beyond 64 bits": words(1, 3, 2**31, 2**31, 16) + bytes(64),
    "a product that wraps to 0 in 64 bits": words(1, 2, 2**31, 2**31) + bytes(64),
    "bytes, not elements, beyond 63 bits": words(1, 3, 2**31, 2**30, 1) + bytes(64),
    "huge dimensions beside a zero": words(1, 4, 0, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
    "16 GiB that are not there": words(1, 1, 2**32 - 1) + bytes(8),
    "the second tensor cut": words(2, 1, 1) + bytes(4) + words(1, 5) + bytes(16),
}  # fmt: skip


class TestRefusals:
    def test_a_malformed_batch_says_what_and_where(
        self, golden: Callable[..., None], file: Path
    ) -> None:
        text = ""
        for name, data in REFUSED.items():
            file.write_bytes(data)
            text += "{}: [{}] {}\n".format(name, *refusal(read_batch, file))
        golden(text)

    def test_single_tensors_are_checked_alike(self, file: Path) -> None:
        file.write_bytes(b"")
        assert refusal(read_tensor, file) == (
            "truncated",
            "ends at byte 0, where the number of dimensions is expected",
        )
        file.write_bytes(words(1, 1) + bytes(5))
        assert refusal(read_tensor, file) == (
            "trailing-bytes",
            "1 byte follows the data that the header announces (file: 13 bytes)",
        )

    @pytest.mark.parametrize("end", range(len(BATCH)))
    def test_a_batch_cut_at_any_byte_is_truncated(self, end: int, file: Path) -> None:
        file.write_bytes(BATCH[:end])
        assert refusal(read_batch, file)[0] == "truncated"

    @given(data=st.binary(max_size=120))
    @any_tmp_path
    def test_any_bytes_are_read_or_refused(self, data: bytes, tmp_path: Path) -> None:
        path = tmp_path / "any.bin"
        path.write_bytes(data)
        try:
            found = read_batch(path)
        except FormatError:
            return
        assert encode_batch(found) == data

    def test_a_huge_zero_sized_tensor_is_what_it_says(self, file: Path) -> None:
        file.write_bytes(words(1, 2, 0, 0xFFFFFFFF))
        assert read_batch(file)[0].shape == (0, 0xFFFFFFFF)


class TestSize:
    def test_a_sparse_terabyte_is_not_read(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with file.open("wb") as sparse:
            sparse.write(words(1, 2, 2**19, 2**19))
            try:
                sparse.truncate(2**40 + 16)
            except OSError:
                pytest.skip("this file system holds no file of a terabyte")

        def allocated(*_args: object) -> None:
            pytest.fail("memory was asked for")

        monkeypatch.setattr(np, "fromfile", allocated)
        assert refusal(lambda path: read_batch(path, 2**20), file) == (
            "too-large",
            "has 1,099,511,627,792 bytes; at most 1,048,576 are read",
        )

    def test_a_file_of_just_that_size_is_read(self, file: Path) -> None:
        file.write_bytes(BATCH)
        assert len(read_batch(file, len(BATCH))) == 1
        assert refusal(lambda path: read_batch(path, len(BATCH) - 1), file)[0] == "too-large"

    def test_a_file_that_shrinks_while_it_is_read_is_truncated(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file.write_bytes(BATCH)
        monkeypatch.setattr(np, "fromfile", lambda *_args: np.zeros(5, np.float32))
        assert refusal(read_batch, file) == (
            "truncated",
            "shape [2, 3] needs 6 values at byte 16, only 5 were there when they were read",
        )


class TestUnreadable:
    def test_a_file_that_is_not_there(self, file: Path) -> None:
        assert refusal(read_batch, file) == (
            "unreadable",
            "cannot be read: No such file or directory",
        )

    def test_a_folder(self, tmp_path: Path) -> None:
        code, message = refusal(read_batch, tmp_path)
        assert code == "unreadable"
        assert re.fullmatch(r"cannot be read: \w.+", message)
