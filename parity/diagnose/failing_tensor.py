"""A failing tensor as diagnosis looks at it: both sides where they lie, mapped, never held."""

from __future__ import annotations

import mmap
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.diagnose.error_summary import ErrorSummary
from parity.tensors.dtypes import view_bits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from parity.checkpoints import StorageLocation
    from parity.tensors.dtypes import DType
    from parity.tensors.stored import StoredTensor

#: Elements that are looked at in one go.
MAX_PART = 1 << 18
#: Share of the largest value up to which a bound tells a claim from another.
_MAX_TOLERANCE_SHARE = 2.0**-10
#: Maps larger than this are told to forget the pages that were read.
_LARGE_MAP = 64 * 2**20


class MappedFiles:
    """Files mapped into memory, whose pages are given back as one goes on."""

    def __init__(self) -> None:
        self._maps: dict[Path, mmap.mmap] = {}

    def map_bytes(self, path: Path) -> NDArray[np.uint8]:
        """A file's bytes, read where they are touched."""
        if path not in self._maps:
            with path.open("rb") as file:
                self._maps[path] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(self._maps[path], np.uint8)

    def map_array(self, stored: StoredTensor) -> NDArray[Any]:
        """A tensor of a file in its storage type and shape.

        Raises:
            FormatError: A file of packed elements cannot be read.
            OSError: The file cannot be opened.
            ValueError: It became shorter than its header says.
        """
        if stored.dtype.packed:
            return stored.read_array()
        there = self.map_bytes(stored.path)[stored.offset : stored.offset + stored.nbytes]
        return there.view(stored.dtype.storage).reshape(stored.shape)

    def release(self) -> None:
        """Give back the memory of large maps; they are read again where they are touched."""
        for one in self._maps.values():
            if len(one) > _LARGE_MAP and hasattr(mmap, "MADV_DONTNEED"):
                one.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True, kw_only=True)
class FailingTensor:
    """A tensor that failed.

    Attributes:
        name: The tensor's.
        expected, obtained: Arrays of one count of elements, each of its storage type.
        dtype: Of ``expected``.
        seen: Of ``obtained``; where it is another one, the expected is rounded to it.
        bounds: Those that were broken.
        raw: Where it lies in its checkpoint, if the bundle says so.
        others: The bundle's other tensors by name, asked for only where nothing else fits.
        maps: Those that the arrays lie in.
    """

    name: str
    expected: NDArray[Any]
    obtained: NDArray[Any]
    expected_dtype: DType
    obtained_dtype: DType
    bounds: Mapping[str, float] = field(default_factory=lambda: {"exact": 1.0})
    raw: StorageLocation | None = None
    others: Callable[[], Mapping[str, StoredTensor]] = dict
    maps: MappedFiles = field(default_factory=MappedFiles)

    @classmethod
    def of(
        cls, name: str, expected: StoredTensor, obtained: StoredTensor, **more: Any
    ) -> FailingTensor:
        """The subject of two tensors in files; ``more`` are the fields that they do not state."""
        maps = MappedFiles()
        return cls(
            name=name,
            expected=maps.map_array(expected),
            obtained=maps.map_array(obtained),
            expected_dtype=expected.dtype,
            obtained_dtype=obtained.dtype,
            maps=maps,
            **more,
        )

    @cached_property
    def expected_logical(self) -> NDArray[Any]:
        """The expected values in their logical shape; GGUF's references state it reversed."""
        shape = self.expected.shape if self.raw is None else self.raw.shape
        fits = prod(shape) == self.expected.size
        return self.expected.reshape(shape if fits else self.expected.shape)

    @cached_property
    def obtained_flat(self) -> NDArray[Any]:
        """The obtained values, flat."""
        return self.obtained.reshape(-1)

    @property
    def count(self) -> int:
        """Elements."""
        return int(self.obtained_flat.size)

    @property
    def exact(self) -> bool:
        """Whether only equal bits are right."""
        return not any(self.bounds.get(name) for name in ("max_abs", "relative", "ulp"))

    def convert_expected(self, chunk: NDArray[Any]) -> NDArray[Any]:
        """Expected values as a dump that is right has them."""
        return (
            chunk
            if self.obtained_dtype == self.expected_dtype
            else self.expected_dtype.round_to_f32(chunk)
        )

    def compare(
        self,
        predicted: NDArray[Any],
        obtained: NDArray[Any],
        ulps: float = 0.0,
        slack: float = 0.0,
        *,
        is_hypothesis: bool = True,
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which elements agree, and which of them do to the last bit (NaN is NaN).

        Args:
            claimed: What a hypothesis predicts, of ``seen``'s storage.
            obtained: What came.
            ulps: Units in the last place that the hypothesis itself leaves open.
            slack: The same as an absolute error.
            claim: A hypothesis is tried; else the bounds alone are asked.
        """
        predicted, obtained = np.ascontiguousarray(predicted), np.ascontiguousarray(obtained)
        same = view_bits(predicted) == view_bits(obtained)
        if same.all() or self.obtained_dtype.kind != "float":
            return same, same
        left, right = self.obtained_dtype.decode(predicted), self.obtained_dtype.decode(obtained)
        same |= np.isnan(left) & np.isnan(right)
        with np.errstate(all="ignore"):
            size = np.abs(left)
            gap = np.abs(left - right)
            # A bound is blind where values are small beside it, and then any claim would hold.
            top = size[np.isfinite(size)].max(initial=0.0)
            tolerance = (
                np.minimum(self.compute_tolerance(size), top * _MAX_TOLERANCE_SHARE)
                if is_hypothesis
                else self.compute_tolerance(size)
            )
            tolerance = np.maximum(tolerance, ulps * self.unit * size + slack)
            # What is computed may come out as a zero of either sign.
            return same | ((gap <= tolerance) & ((tolerance > 0) | (ulps > 0))), same

    @property
    def unit(self) -> float:
        """Distance of 1.0 to the next number of the dump's type."""
        digits = {"F64": 52, "F16": 10, "BF16": 7}.get(self.obtained_dtype.name, 23)
        return float(2.0**-digits)

    def compute_tolerance(self, size: NDArray[np.float64]) -> NDArray[np.float64]:
        """The largest error that the bounds allow for values of this ``size``; 0 under exact."""
        if self.exact:
            return np.zeros_like(size)
        found = [np.full_like(size, np.inf)]
        if "max_abs" in self.bounds:
            found.append(np.full_like(size, self.bounds["max_abs"]))
        if "relative" in self.bounds:
            found.append(self.bounds["relative"] * size)
        if "ulp" in self.bounds:
            found.append(self.bounds["ulp"] * self.unit * size)
        least: NDArray[np.float64] = np.minimum.reduce(found)
        return least

    def read_parts(self) -> Iterator[tuple[int, NDArray[Any], NDArray[Any]]]:
        """Runs of elements: index of the first, expected as a right dump has them, obtained."""
        flat = self.expected.reshape(-1)
        for start in range(0, self.count, MAX_PART):
            stop = start + MAX_PART
            yield (
                start,
                self.convert_expected(np.array(flat[start:stop])),
                np.array(self.obtained_flat[start:stop]),
            )
            self.maps.release()

    @cached_property
    def summary(self) -> ErrorSummary:
        """What one look at all elements shows."""
        found = ErrorSummary()
        for start, expected, obtained in self.read_parts():
            found.add(self, start, expected, obtained)
        return found
