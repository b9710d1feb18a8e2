"""Targets that hold values against each other: the comparator, diagnosis, block decoders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from parity.checkpoints import blocks
from parity.codes import list_codes
from parity.diagnose import FailingTensor, diagnose
from parity.tensors.compare import compare
from parity.tensors.dtypes import DTYPES
from parity.tensors.stored import StoredTensor
from tests.fuzz.files import LONGEST

NAMES = tuple(DTYPES)
BOUNDS: tuple[dict[str, float], ...] = (
    {"exact": 1.0},
    {"max_abs": 1e-4},
    {"relative": 1e-3},
    {"ulp": 4.0},
    {"max_abs": 0.0, "cosine": 0.9999},
)
MOST = 96


def comparisons(data: bytes, place: Path) -> None:
    """Two tensors of any bits: reflexive, symmetric, monotone, and no NaN passes."""
    if len(data) < 4:
        return
    due, obtained = _pair(data, place)
    bounds = BOUNDS[data[1] % len(BOUNDS)]
    for side in (due, obtained):
        assert compare(side, side, {"exact": 1.0}).passed
    exact = compare(due, obtained, {"exact": 1.0})
    assert exact.passed == compare(obtained, due, {"exact": 1.0}).passed
    assert exact.passed == (due.read_array().tobytes() == obtained.read_array().tobytes())
    judged = compare(due, obtained, bounds)
    assert judged.passed or not exact.passed or "cosine" in bounds
    _check_monotone(due, obtained, bounds)
    _check_nan(due, obtained, judged.passed)


def _pair(data: bytes, place: Path) -> tuple[StoredTensor, StoredTensor]:
    """Two tensors of one dtype and shape that a file holds, one after the other."""
    dtype = DTYPES[NAMES[data[0] % len(NAMES)]]
    path = place / "pair.bin"
    path.write_bytes(data[3:])
    count = min(MOST, (len(data) - 3) // 2 // dtype.storage.itemsize)
    columns = 1 + data[2] % 8
    shape = (count // columns, columns)
    left = StoredTensor(path, 0, dtype, shape, ".safetensors")
    return left, StoredTensor(path, left.nbytes, dtype, shape, ".safetensors")


def _check_monotone(due: StoredTensor, obtained: StoredTensor, bounds: dict[str, float]) -> None:
    name, bound = next(iter(bounds.items()))
    if name != "exact" and len(bounds) == 1:
        tight, loose = (compare(due, obtained, {name: x}) for x in (bound, bound * 100))
        assert loose.bad <= tight.bad


def _check_nan(due: StoredTensor, obtained: StoredTensor, passed: bool) -> None:
    if due.dtype.kind == "float" and passed:
        nans = [np.isnan(due.dtype.decode(side.read_array())) for side in (due, obtained)]
        assert (nans[0] == nans[1]).all()


def diagnoses(data: bytes, place: Path) -> None:
    """Whatever differs has a cause of a known code, or none; nothing is written to the sides."""
    if len(data) < 4:
        return
    due, obtained = _pair(data, place)
    if not due.count:
        return
    cause = diagnose(FailingTensor.of("w", due, obtained, bounds=BOUNDS[data[1] % len(BOUNDS)]))
    for code in cause.code.split("+") if cause else ():
        assert code in list_codes("causes") or code.startswith("block-"), code
    assert cause is None or 0 < len(str(cause)) < LONGEST


def decoders(data: bytes, _place: Path) -> None:
    """Blocks of any bytes decode, rightly and wrongly, each to a row of its own."""
    kind = tuple(blocks.DECODERS)[data[0] % len(blocks.DECODERS) if data else 0]
    size = blocks.DECODERS[kind].size
    whole = (len(data) - 1) // size
    if whole < 1:
        return
    raw: Any = np.frombuffer(data, np.uint8, whole * size, 1).reshape(whole, size)
    right = blocks.decode(kind, raw)
    for mistake in blocks.list_mistakes(kind):
        assert mistake.decoder(raw).shape == right.shape


def _pairs(bound: int, code: str, *sides: list[float]) -> bytes:
    body = b"".join(np.array(side, np.dtype(code)).tobytes() for side in sides)
    name = {"<f4": "F32", "<f2": "F16", "<i8": "I64", "<f8": "F64"}[code]
    return bytes([NAMES.index(name), bound, 2]) + body


ORDERED = [float(n) for n in range(12)]
HUGE = [1e308, -1e308, 1.5, 5e-324]
PAIRS = [
    *(_pairs(bound, "<f8", HUGE, [-1e308, 1e308, *HUGE[2:]]) for bound in range(5)),
    _pairs(1, "<f8", HUGE[::-1], [1e308, 1e300, -1e308, 7.0]),
    *(_pairs(bound, "<f4", ORDERED, [*ORDERED[:5], np.nan, *ORDERED[6:]]) for bound in range(5)),
    *(_pairs(bound, "<f4", [np.inf, 1.0], [-np.inf, 1.0]) for bound in range(5)),
    _pairs(0, "<f4", ORDERED, ORDERED[::-1]),
    _pairs(1, "<f4", ORDERED, [*ORDERED[:5], np.nan, *[0.0] * 6]),
    _pairs(2, "<f2", ORDERED, [2 * one for one in ORDERED]),
    _pairs(3, "<f8", [0.0, -0.0, np.inf], [-0.0, 0.0, -np.inf]),
    _pairs(4, "<i8", [2**53, -(2**63), 7], [2**52, 2**62, 7]),
]
BLOCKS = [bytes([n]) + bytes(range(256)) * 2 for n in range(len(blocks.DECODERS))]
