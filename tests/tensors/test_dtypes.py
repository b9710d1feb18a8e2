"""Element types: every code of the narrow floats, compared with torch where it knows them."""

from __future__ import annotations

import math
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from parity.tensors.dtypes import DTYPES, PACKED, view_bits
from tests.support.tensors import bf16, from_bits

# Imported here, since the guards of a test would stop torch on its way.
torch: Any = import_module("torch") if find_spec("torch") else None

ALL_8 = np.arange(256).astype("u1")
FLOATS_8 = ("F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F8_E8M0")
ALL_16 = np.arange(65536).astype("<u2")


def test_the_table_is_what_a_reader_may_rely_on() -> None:
    by_size = {
        8: {"F64", "I64", "U64", "C64"},
        4: {"F32", "I32", "U32"},
        2: {"F16", "BF16", "I16", "U16"},
        1: {*FLOATS_8, "I8", "U8", "BOOL"},
    }
    for size, names in by_size.items():
        assert {n for n, dtype in DTYPES.items() if dtype.storage.itemsize == size} == names
    assert all(dtype.storage.newbyteorder("<") == dtype.storage for dtype in DTYPES.values())
    exact = {name for name, dtype in DTYPES.items() if dtype.fits_f32}
    assert exact == {
        *("F32", "F16", "BF16", *FLOATS_8),
        *("I16", "I8", "U16", "U8", "BOOL"),
    }


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "codes", "torch_name"),
    [
        ("BF16", ALL_16, "bfloat16"),
        ("F16", ALL_16, "float16"),
        ("F8_E4M3", ALL_8, "float8_e4m3fn"),
        ("F8_E5M2", ALL_8, "float8_e5m2"),
        ("F8_E4M3FNUZ", ALL_8, "float8_e4m3fnuz"),
        ("F8_E5M2FNUZ", ALL_8, "float8_e5m2fnuz"),
        ("F8_E8M0", ALL_8, "float8_e8m0fnu"),
    ],
)
def test_every_code_is_torchs(name: str, codes: np.ndarray[Any, Any], torch_name: str) -> None:
    if torch is None:
        pytest.skip("torch is not installed")
    due = torch.from_numpy(codes.copy()).view(getattr(torch, torch_name)).to(torch.float64).numpy()
    dtype = DTYPES[name]
    values = dtype.decode(codes.view(dtype.storage))
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, due)
    np.testing.assert_array_equal(np.signbit(values[due == 0]), np.signbit(due[due == 0]))
    narrow = dtype.round_to_f32(codes.view(dtype.storage))
    assert narrow.dtype == np.dtype("<f4")
    np.testing.assert_array_equal(narrow, due)


def test_bfloat16_by_hand() -> None:
    """`803f20c04940` is [1, -2.5, 3.140625]; read as f16 it would be 1.875 and so on."""
    codes = np.frombuffer(bytes.fromhex("803f20c04940"), "<u2")
    assert DTYPES["BF16"].decode(codes).tolist() == [1.0, -2.5, 3.140625]
    assert bf16(1.0, -2.5, 3.140625).tolist() == codes.tolist()
    special = DTYPES["BF16"].decode(np.array([0x7F80, 0xFF80, 0x7FC0, 0x8000, 1], "<u2"))
    assert special.tolist()[:2] == [math.inf, -math.inf]
    assert math.isnan(special[2])
    assert math.copysign(1, special[3]) == -1
    assert special[4] == 2.0**-133


@pytest.mark.parametrize(
    ("name", "code", "value"),
    [
        ("F8_E4M3", 0x00, 0.0),
        ("F8_E4M3", 0x01, 2.0**-9),
        ("F8_E4M3", 0x07, 7 * 2.0**-9),
        ("F8_E4M3", 0x08, 2.0**-6),
        ("F8_E4M3", 0x38, 1.0),
        ("F8_E4M3", 0x7E, 448.0),
        ("F8_E4M3", 0xFE, -448.0),
        ("F8_E5M2", 0x01, 2.0**-16),
        ("F8_E5M2", 0x3C, 1.0),
        ("F8_E5M2", 0x7B, 57344.0),
        ("F8_E5M2", 0x7C, math.inf),
        ("F8_E5M2", 0xFC, -math.inf),
        ("F8_E4M3FNUZ", 0x7F, 240.0),
        ("F8_E5M2FNUZ", 0x40, 1.0),
        ("F8_E8M0", 0, 2.0**-127),
        ("F8_E8M0", 0xFE, 2.0**127),
    ],
)
def test_eight_bit_floats_by_hand(name: str, code: int, value: float) -> None:
    assert DTYPES[name].decode(np.array([code], "u1")).tolist() == [value]


#: OCP Microscaling, table 5: the values of E2M1.
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def test_four_bit_floats_are_those_of_the_table() -> None:
    values = PACKED["F4"].decode(np.arange(16).astype("u1"))
    assert values.tolist() == [*E2M1, *(-value for value in E2M1)]
    assert np.signbit(values).tolist() == [False] * 8 + [True] * 8


@pytest.mark.parametrize(
    ("name", "code", "value"),
    [
        ("F6_E2M3", 0x01, 0.125),
        ("F6_E2M3", 0x07, 0.875),
        ("F6_E2M3", 0x08, 1.0),
        ("F6_E2M3", 0x1F, 7.5),
        ("F6_E2M3", 0x3F, -7.5),
        ("F6_E3M2", 0x01, 0.0625),
        ("F6_E3M2", 0x03, 0.1875),
        ("F6_E3M2", 0x04, 0.25),
        ("F6_E3M2", 0x1F, 28.0),
        ("F6_E3M2", 0x24, -0.25),
    ],
)
def test_six_bit_floats_by_hand(name: str, code: int, value: float) -> None:
    """OCP Microscaling, tables 3 and 4: the least, the greatest, where subnormals end."""
    dtype = PACKED[name]
    assert dtype.decode(np.array([code], "u1")).tolist() == [value]
    assert np.isfinite(dtype.decode(np.arange(64).astype("u1"))).all()
    assert (dtype.width, dtype.fits_f32) == (6, True)


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("F8_E4M3", {0x7F, 0xFF}),
        ("F8_E5M2", {0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF}),
        ("F8_E4M3FNUZ", {0x80}),
        ("F8_E5M2FNUZ", {0x80}),
        ("F8_E8M0", {0xFF}),
    ],
)
def test_the_codes_that_are_no_number(name: str, codes: set[int]) -> None:
    assert set(np.flatnonzero(np.isnan(DTYPES[name].decode(ALL_8))).tolist()) == codes


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_bits_are_the_bytes(name: str) -> None:
    storage = DTYPES[name].storage
    raw = bytes(range(48))
    chunk = np.frombuffer(raw, storage)
    assert view_bits(chunk).tobytes() == raw
    # NumPy has no unsigned integer of 16 bytes; a void of this width has only its bytes.
    assert view_bits(chunk).dtype.kind == ("V" if storage.itemsize == 16 else "u")
    assert np.shares_memory(view_bits(chunk), chunk)


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_values_warn_of_nothing(name: str) -> None:
    """Signalling NaN, overflow and the like are values, not events."""
    storage = DTYPES[name].storage
    for chunk in (from_bits("<f8", 0x7FF0000000000001, 2**63 - 1), np.full(2, 2**64 - 1, "<u8")):
        DTYPES[name].decode(chunk.view(storage))
        DTYPES[name].round_to_f32(chunk.view(storage))


def test_integers_keep_all_their_digits() -> None:
    largest = np.array([2**63 - 1, -(2**63)], "<i8")
    assert DTYPES["I64"].decode(largest).tolist() == [2**63 - 1, -(2**63)]
    assert DTYPES["I64"].round_to_f32(np.array([2**24 + 1, 2**24 + 3], "<i8")).tolist() == [
        2.0**24,
        2.0**24 + 4,
    ]


def test_doubles_are_rounded_once_to_even() -> None:
    halfway = np.array([1 + 2.0**-24, 1 + 3 * 2.0**-24, 1e300, -1e-300])
    assert DTYPES["F64"].round_to_f32(halfway).tolist() == [1.0, 1 + 2.0**-22, math.inf, -0.0]
