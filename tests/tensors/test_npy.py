"""`.npy` headers: read by NumPy's parser, bounded by us, and never a pickle."""

from __future__ import annotations

import errno
import io
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from parity.tensors import FormatError, npy
from tests.support.tensors import SAFETENSORS_NAMES

MAGIC = b"\x93NUMPY"


def saved(array: NDArray[Any], **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def made(header: str | bytes, data: bytes = b"", *, version: tuple[int, int] = (1, 0)) -> bytes:
    raw = header.encode("latin1") if isinstance(header, str) else header
    length = struct.pack("<H" if version == (1, 0) else "<I", len(raw))
    return MAGIC + bytes(version) + length + raw + data


def literal(descr: str = "'<f4'", fortran: str = "False", shape: str = "(2,)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


def refused(tmp_path: Path, content: bytes) -> FormatError:
    path = tmp_path / "t.npy"
    path.write_bytes(content)
    with pytest.raises(FormatError) as caught:
        npy.locate_tensor(path)
    return caught.value


def test_a_disk_that_fails_is_no_fault_of_the_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_file: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(np.lib.format, "read_magic", failing)
    error = refused(tmp_path, saved(np.zeros(2)))
    assert (error.code, str(error)) == ("unreadable", "cannot be read: Input/output error")


@pytest.mark.parametrize("code", sorted(SAFETENSORS_NAMES))
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (4, 0, 2), (1, 1, 1, 2)])
def test_every_dtype_and_shape_is_read(code: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    array = np.arange(np.prod(shape)).astype(code).reshape(shape)
    path = tmp_path / "t.npy"
    path.write_bytes(saved(array))
    found = npy.locate_tensor(path)
    assert (found.dtype.name, found.shape, found.suffix) == (SAFETENSORS_NAMES[code], shape, ".npy")
    assert found.read_array().tobytes() == array.tobytes()


@pytest.mark.parametrize(("code", "name"), [("<c8", "C64"), ("<c16", "C128")])
def test_complex_numbers_are_read_as_such(code: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "t.npy"
    path.write_bytes(saved(np.array([1 + 2j], code)))
    assert npy.locate_tensor(path).dtype.name == name


def test_the_second_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.npy"
    path.write_bytes(made(literal(), np.ones(2, "<f4").tobytes(), version=(2, 0)))
    assert npy.locate_tensor(path).read_array().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1), (0, 3), (7,)])
def test_an_order_that_makes_no_difference_is_accepted(
    shape: tuple[int, ...], tmp_path: Path
) -> None:
    count = int(np.prod(shape))
    path = tmp_path / "t.npy"
    data = np.arange(count, dtype="<f4").tobytes()
    path.write_bytes(made(literal(fortran="True", shape=str(shape)), data))
    assert npy.locate_tensor(path).read_array().reshape(-1).tolist() == list(range(count))


#: Files that are refused; messages are golden.
REFUSED = {
    "nothing": b"",
    "a magic cut": MAGIC,
    "another file": b"PK\x03\x04abcdef",
    "version 3": made(literal(), version=(3, 0)),
    "version 9": made(literal(), version=(9, 9)),
    "a sum as shape": made(literal(shape="(1 + 1,)")),
    "data cut": made(literal(), bytes(7)),
    "data too long": made(literal(), bytes(9)),
    "two arrays": saved(np.ones(1, "<f4")) * 2,
    "column-major": saved(np.asfortranarray(np.ones((2, 3), "<f4"))),
    "big-endian": saved(np.ones(2, ">f4")),
    "big-endian integers": saved(np.ones(2, ">i8")),
    "objects": saved(np.array([{}], object), allow_pickle=True),
    "a structure": saved(np.zeros(2, [("a", "<f4"), ("b", "<i4")])),
    "text": saved(np.array(["ab"])),
    "dates": saved(np.array(["2020-01-01"], "M8[D]")),
    "long double": made(literal("'<f16'"), bytes(32)),
    "long double complex": made(literal("'<c32'"), bytes(32)),
    "bfloat16 of ml_dtypes": made(literal("'<V2'"), bytes(4)),
    "a negative length": made(literal(shape="(-2,)")),
    "two negative lengths": made(literal(shape="(-1, -2)"), bytes(8)),
    "a truth for a length": made(literal(shape="(True, 2)"), bytes(8)),
    "a length of 4,000 digits": made(literal(shape=f"(0x{'f' * 4000},)")),
    "a huge length": made(literal(shape=f"({2**63},)")),
    "an overflow beside 0": made(literal(shape=f"(0, {2**40}, {2**40})")),
    "33 dimensions": made(literal(shape=f"({'1,' * 33})"), bytes(4)),
    "more than there is": made(literal(shape=f"({2**40},)"), bytes(8)),
}  # fmt: skip


def test_each_file_is_refused_in_these_words(golden: Callable[..., None], tmp_path: Path) -> None:
    errors = {name: refused(tmp_path, content) for name, content in REFUSED.items()}
    golden("".join(f"{name}: [{one.code}] {one.message}\n" for name, one in errors.items()))


HOSTILE = [
    made(b""),
    made("{}\n"),
    made("[]\n"),
    made("1\n"),
    made("{'descr': '<f4'}\n"),
    made(literal(shape="[2]"), bytes(8)),
    made(literal(shape="2"), bytes(8)),
    made(literal(shape="(2.0,)"), bytes(8)),
    made(literal(shape="('2',)"), bytes(8)),
    made(literal(fortran="0"), bytes(8)),
    made(literal("'nonsense'"), bytes(8)),
    made(literal("None"), bytes(8)),
    made(literal("[('a', '<f4'), ('a', '<f4')]"), bytes(8)),
    made(literal("{'names': ['a'], 'formats': ['O']}"), bytes(8)),
    made(literal()[:-1] + ", 'more': 1}\n", bytes(8)),
    made("__import__('os').system('true')\n"),
    made("{'descr': (lambda: 1)(), 'fortran_order': False, 'shape': (2,)}\n"),
    made("(" * 5000 + ")" * 4990 + "\n"),
    made("-" * 9000 + "1\n"),
    made("{'descr': '\\d', 'fortran_order': False, 'shape': (2,)}\n"),
    made("{'a\n"),
    made("'''\n"),
    made("  {\n  'descr'\n\t: 1}\n"),
    made(literal() + "\\"),
    made("\x00\x00\n"),
    made("\xff\xfe\n"),
    made(literal() + " " * 10_000, bytes(8)),
    made(b"{}" + b" " * 70_000, version=(2, 0)),
    MAGIC + b"\x01\x00\xff\xff{}",
    MAGIC + b"\x02\x00\xff\xff\xff\xff{}",
    MAGIC + b"\x01\x00",
    MAGIC + b"\x01\x00\x05",
    pickle.dumps([1, 2, 3]),
]


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_header_is_refused(content: bytes, tmp_path: Path) -> None:
    assert refused(tmp_path, content).code in ("bad-header", "dtype-unsupported")


def test_python_2_headers_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.npy"
    path.write_bytes(made(literal(shape="(2L,)"), bytes(8)))
    assert npy.locate_tensor(path).shape == (2,)


def test_a_pickle_is_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: object, **__: object) -> None:
        raise AssertionError

    content = saved(np.array([{"a": 1}], object), allow_pickle=True)
    monkeypatch.setattr(pickle, "load", opened)
    monkeypatch.setattr(pickle, "loads", opened)
    assert refused(tmp_path, content).code == "dtype-unsupported"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot be read: No such file or directory") as caught:
        npy.locate_tensor(tmp_path / "t.npy")
    assert caught.value.code == "unreadable"


WHOLE = saved(np.arange(6, dtype="<f4").reshape(2, 3))


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edits=st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=6),
    end=st.none() | st.integers(0, len(WHOLE)),
)
def test_mutated_bytes_are_refused_or_read_as_numpy_reads_them(
    edits: list[tuple[int, int]], end: int | None, tmp_path: Path
) -> None:
    content = bytearray(WHOLE)
    for at, byte in edits:
        content[at] = byte
    path = tmp_path / "t.npy"
    path.write_bytes(content[:end])
    try:
        found = npy.locate_tensor(path).read_array()
    except FormatError:
        return
    due = np.load(path, allow_pickle=False)
    assert (found.shape, found.dtype.itemsize) == (due.shape, due.dtype.itemsize)
    assert found.tobytes() == due.tobytes()
