"""A failing tensor: both sides mapped from their files, so that memory stays bounded."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.checkpoints import StorageLocation
from parity.diagnose.error_summary import ErrorSummary, sum_squared_errors
from parity.tensors.compare import find_violations
from parity.tensors.dtypes import DType, view_bits
from parity.tensors.elements import compute_allowed, resolve_close
from parity.tensors.stored import StoredTensor, load_content

MAX_PART = 1 << 18  # Elements that are read at a time
#: Elements of a dump that are converted at once, and the size up to which float32 has all integers.
_MAX_RESTORED = 1 << 22
_FIRST_INEXACT = 1 << 24
#: Share of the largest value up to which a bound can tell one hypothesis from another.
_MAX_TOLERANCE_SHARE = 2.0**-10


class MappedFiles:
    """Files mapped into memory, whose pages are given back after use."""

    def __init__(self) -> None:
        self._maps: dict[Path, mmap.mmap | bytes] = {}

    def map_bytes(self, path: Path) -> NDArray[np.uint8]:
        """Return a file's bytes, read where they are accessed."""
        if path not in self._maps:
            self._maps[path] = load_content(path)
        return np.frombuffer(self._maps[path], np.uint8)

    def map_array(self, stored: StoredTensor) -> NDArray[Any]:
        """Return a tensor of a file in its storage type and shape.

        Raises:
            FormatError: A file of packed or computed elements cannot be read.
            OSError: The file cannot be opened.
            ValueError: It became shorter than its header says.
        """
        if stored.dtype.packed or stored.fetch:
            return stored.read_array()
        there = self.map_bytes(stored.path)[stored.offset : stored.offset + stored.nbytes]
        return there.view(stored.dtype.storage).reshape(stored.shape)

    def release(self) -> None:
        """Give back the memory of large maps; they are read again where they are accessed."""
        for one in self._maps.values():
            if isinstance(one, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                one.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True, kw_only=True)
class FailingTensor:
    """A tensor that differs from its reference: both sides in their storage types, of one count.

    Where the dtypes differ, the expected values are rounded to float32.
    """

    name: str
    expected: NDArray[Any]
    obtained: NDArray[Any]
    expected_dtype: DType
    obtained_dtype: DType
    bounds: Mapping[str, float] = field(default_factory=lambda: {"exact": 1.0})
    raw: StorageLocation | None = None  # Its location in the checkpoint, if known
    #: The bundle's other tensors by name, loaded only where nothing else fits.
    others: Callable[[], Mapping[str, StoredTensor]] = dict
    maps: MappedFiles = field(default_factory=MappedFiles)

    @classmethod
    def of(
        cls, name: str, expected: StoredTensor, obtained: StoredTensor, **more: Any
    ) -> FailingTensor:
        """Make one from two tensors in files; ``more`` are the other fields."""
        maps = MappedFiles()
        right, given, dtype = maps.map_array(expected), maps.map_array(obtained), obtained.dtype
        if obtained.suffix == ".bin" and expected.dtype.kind in ("int", "bool"):
            restored = _restore_integers(right, given)
            if restored is not None:
                given, dtype = restored, expected.dtype
        sides: dict[str, Any] = {"expected": right, "obtained": given, "obtained_dtype": dtype}
        return cls(name=name, expected_dtype=expected.dtype, maps=maps, **sides, **more)

    @cached_property
    def expected_logical(self) -> NDArray[Any]:
        """The expected values in their logical shape; GGUF's references have it reversed."""
        shape = self.expected.shape if self.raw is None else self.raw.shape
        fits = prod(shape) == self.expected.size
        return self.expected.reshape(shape if fits else self.expected.shape)

    @cached_property
    def obtained_flat(self) -> NDArray[Any]:
        """The obtained values, flat."""
        return self.obtained.reshape(-1)

    @property
    def count(self) -> int:
        """Number of elements."""
        return int(self.obtained_flat.size)

    @cached_property
    def tolerances(self) -> Mapping[str, float]:
        """The bounds of single elements; none where only equal bits are correct."""
        found = resolve_close(self.bounds, self.expected_dtype, self.obtained_dtype)
        names = ("max_abs", "relative", "ulp", "atol", "rtol")
        stated = {name: found[name] for name in names if name in found}
        return stated if any(stated.values()) else {}

    def convert_expected(self, chunk: NDArray[Any]) -> NDArray[Any]:
        """Return expected values as a correct dump contains them."""
        if self.obtained_dtype == self.expected_dtype:
            return chunk
        return self.expected_dtype.round_to_f32(chunk)

    def compare(
        self, predicted: NDArray[Any], obtained: NDArray[Any], ulps: float = 0.0, slack: float = 0.0
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which elements a hypothesis predicts, and which bit by bit (NaN is NaN).

        A zero of either sign counts as predicted: kernels and tables differ in that. ``ulps`` and
        ``slack`` are errors that the hypothesis leaves open, in units of the last place and
        absolute.
        """
        predicted, obtained = np.ascontiguousarray(predicted), np.ascontiguousarray(obtained)
        same = view_bits(predicted) == view_bits(obtained)
        if same.all() or self.obtained_dtype.kind in ("int", "bool"):
            return same, same
        left, right = self.obtained_dtype.decode(predicted), self.obtained_dtype.decode(obtained)
        is_same_nan = np.isnan(left) & np.isnan(right)
        if np.iscomplexobj(left):  # in the same parts, the others equal
            for one, other in ((left.real, right.real), (left.imag, right.imag)):
                is_same_nan &= (one == other) | (np.isnan(one) & np.isnan(other))
        same |= is_same_nan
        if not (self.tolerances or ulps or slack):
            return same | (left == right), same
        with np.errstate(all="ignore"):
            size, gap = np.abs(left), np.abs(left - right)
            # A bound is blind where values are small beside it: anything would agree.
            top = size[np.isfinite(size)].max(initial=0.0)
            bounds, dtype = self.tolerances or {"max_abs": 0.0}, self.obtained_dtype
            allowed = compute_allowed(size, bounds, dtype)
            tolerance = np.minimum(allowed, top * _MAX_TOLERANCE_SHARE)
            tolerance = np.maximum(tolerance, ulps * dtype.epsilon * size + slack)
            return same | (gap <= tolerance), same

    def sum_errors(self, predicted: NDArray[Any], obtained: NDArray[Any]) -> float:
        """Return the sum of the squared errors of a hypothesis."""
        decode = self.obtained_dtype.decode
        return sum_squared_errors(decode(predicted), decode(obtained))

    def find_violations(self, expected: NDArray[Any], obtained: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which elements break a bound, as the verdict counts them."""
        is_stored = self.raw is None or self.raw.type_name == self.expected_dtype.name
        return find_violations(
            expected.reshape(-1),
            obtained.reshape(-1),
            self.obtained_dtype,
            self.bounds,
            payloads=is_stored and self.obtained_dtype == self.expected_dtype,
        ).reshape(expected.shape)

    @cached_property
    def summary(self) -> ErrorSummary:
        """A summary of all differences."""
        found, flat = ErrorSummary(), self.expected.reshape(-1)
        for start in range(0, self.count, MAX_PART):
            part = slice(start, start + MAX_PART)
            expected = self.convert_expected(np.array(flat[part]))  # as a correct dump has them
            found.add(self, start, expected, np.array(self.obtained_flat[part]))
            self.maps.release()
        return found


def _restore_integers(right: NDArray[Any], given: NDArray[Any]) -> NDArray[Any] | None:
    """Return a dump's float32 as the reference's integers; None if rounded, foreign or too many."""
    if not 0 < given.size <= _MAX_RESTORED:
        return None
    limits = np.iinfo(right.dtype)
    low, high = max(limits.min, -_FIRST_INEXACT), min(limits.max, _FIRST_INEXACT)
    if right.min() < low or right.max() > high:
        return None
    with np.errstate(invalid="ignore"):
        fits = bool(((given >= low) & (given <= high) & (given == np.rint(given))).all())
    return given.astype(right.dtype) if fits else None
