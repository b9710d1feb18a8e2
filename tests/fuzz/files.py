"""Targets that read files from outside: tensors and archives."""

from __future__ import annotations

import contextlib
import io
import tarfile
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from parity.errors import IntegrityError
from parity.store.archive import scan, unpack
from parity.tensors import FormatError, npy, safetensors
from parity.tensors import bin as bin_codec
from parity.tensors.stored import StoredTensor
from tests.support.tar import BLOCK, END, add_checksum, make_folder, make_header, make_member, pad
from tests.support.tensors import add_header, encode_safetensors, name_dtypes

LONGEST = 2000


def refusal(read: Callable[[], object], *errors: type[Exception]) -> object:
    """What ``read`` returns, None where it refuses; its message must be fit to be shown."""
    try:
        return read()
    except errors as error:
        for text in getattr(error, "problems", None) or [getattr(error, "message", error)]:
            printed = str(getattr(text, "message", text))
            assert 0 < len(printed) < LONGEST, f"{len(printed)} letters: {printed:.200}"
            printed.encode()
        return None


def bin_files(data: bytes, place: Path) -> None:
    """What is read as a tensor or a batch is written again as the same bytes."""
    path = place / "w.bin"
    path.write_bytes(data)
    whole = refusal(lambda: bin_codec.read_tensor(path), FormatError)
    lazily = refusal(lambda: bin_codec.locate_tensor(path), FormatError)
    assert (whole is None) == (lazily is None)
    if whole is not None:
        assert bin_codec.encode_tensor(whole) == data
        assert lazily.read_array().tobytes() == whole.tobytes()
    batch = refusal(lambda: bin_codec.read_batch(path, 1 << 20), FormatError)
    places = refusal(lambda: bin_codec.locate_batch(path), FormatError)
    assert (batch is None) == (places is None)
    if batch is not None:
        assert bin_codec.encode_batch(batch) == data
    refusal(lambda: bin_codec.locate_batch(path, counted=False), FormatError)


def npy_files(data: bytes, place: Path) -> None:
    """What is read is what NumPy reads, to the file's last byte."""
    path = place / "w.npy"
    path.write_bytes(data)
    found = refusal(lambda: npy.locate_tensor(path), FormatError)
    if found is not None:
        assert found.offset + found.nbytes == len(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers as Python 2 wrote them
            due = np.load(io.BytesIO(data), allow_pickle=False)
        assert found.shape == due.shape
        assert found.read_array().tobytes() == np.ascontiguousarray(due).tobytes()


def safetensors_files(data: bytes, place: Path) -> None:
    """What is read covers the file's data, each byte once."""
    path = place / "w.safetensors"
    path.write_bytes(data)
    found: dict[str, StoredTensor] | None = refusal(
        lambda: safetensors.locate_tensors(path), FormatError
    )
    if found is None:
        return
    covered = sum(tensor.nbytes for tensor in found.values())
    assert 8 + int.from_bytes(data[:8], "little") + covered == len(data)
    for tensor in found.values():
        end = tensor.offset + tensor.nbytes
        assert tensor.read_array().tobytes() == data[tensor.offset : end]


def archives(data: bytes, place: Path) -> None:
    """What is accepted lies in the file, below one folder, and is what `tarfile` finds."""
    data = _checked(data[1:]) if data[:1] == b"+" else data
    path = place / "b.tar"
    path.write_bytes(data)
    members = refusal(lambda: scan(path), IntegrityError)
    if members is None:
        return
    assert all(one.offset + one.size <= len(data) for one in members)
    with tempfile.TemporaryDirectory(dir=place) as target:
        unpack(path, Path(target))
        below = {p.relative_to(target).as_posix() for p in Path(target).rglob("*") if p.is_file()}
        assert below == {one.path for one in members}
    # It ends quietly at fields that mean nothing here, such as an owner's number.
    with contextlib.suppress(tarfile.ReadError), tarfile.open(path) as tar:
        seen = {info.name.removeprefix("./"): info.size for info in tar if info.isreg()}
        assert seen.items() <= {one.path: one.size for one in members}.items()


def _checked(data: bytes) -> bytes:
    """With right checksums, so that mutations get behind them."""
    blocks = [data[at : at + BLOCK].ljust(BLOCK, b"\0") for at in range(0, len(data), BLOCK)]
    return b"".join(add_checksum(one) if one[257:262] == b"ustar" else one for one in blocks)


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _pax(body: bytes) -> bytes:
    return make_member("x", body, flag=b"x") + make_member("a", b"1")


ROWS = np.arange(6, dtype="<f4").reshape(2, 3)
BINS = [
    bin_codec.encode_tensor(ROWS),
    bin_codec.encode_tensor(ROWS[:0]),
    bin_codec.encode_batch([ROWS, ROWS[0]]),
    bytes(4),
    b"\xff" * 12,
    (32).to_bytes(4, "little") + b"\0\0\1\0" * 32,
]
ARRAYS = [ROWS, ROWS.T, np.arange(3), np.array(True), ROWS.astype(">f8")]
NPYS = [*(_npy(array) for array in ARRAYS), _npy(ROWS) + b"1", _npy(ROWS)[:-1]]
PAIR = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
SAFETENSORS = [
    encode_safetensors(
        name_dtypes({"w": ROWS, "v": ROWS[0]}), metadata={"format": "pt"}, padding=3
    ),
    add_header("{}"),
    add_header(dict.fromkeys("kv", PAIR), bytes(8)),
    add_header({"k": PAIR, "v": {**PAIR, "data_offsets": [4, 12]}}, bytes(12)),
    add_header({"k": PAIR}, bytes(9)),
    add_header({"w": {"dtype": "BF16", "shape": [0, 2**31], "data_offsets": [0, 0]}}),
    (100_000_001).to_bytes(8, "little") + b"{}",
    add_header("[" * 3000),
]
TARS = [
    b"+" + make_folder("d/") + make_member("d/a", b"12") + make_member("b", bytes(600)) + END,
    b"+" + _pax(b"13 path=d/long\n"[:13] + b"\n") + END,
    b"+" + _pax(b"11 size=10\n") + END,
    b"+" + make_member("a", b"1", magic=b"ustar  \0") + END,
    make_member("../a", b"1") + END,
    b"+" + make_member("a", b"1") + make_member("A", b"2") + END,
    b"+" + make_header("a", size=5000) + pad(b"12") + END,
    b"+" + make_member("a", b"1", flag=b"2", link=b"/etc/x") + END,
]
