"""A failing tensor as diagnosis looks at it: both sides where they lie, mapped, never held."""

from __future__ import annotations

import mmap
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.codecs.dtypes import bits
from parity.diagnose.overview import Overview

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from parity.codecs.dtypes import DType
    from parity.codecs.stored import Stored
    from parity.raw import Raw

#: Elements that are looked at in one go.
PART = 1 << 18
#: Share of the largest value up to which a bound tells a claim from another.
_TELLING = 2.0**-10
#: Maps larger than this are told to forget the pages that were read.
_LARGE = 64 * 2**20


class Maps:
    """Files mapped into memory, whose pages are given back as one goes on."""

    def __init__(self) -> None:
        self._maps: dict[Path, mmap.mmap] = {}

    def bytes_of(self, path: Path) -> NDArray[np.uint8]:
        """A file's bytes, read where they are touched."""
        if path not in self._maps:
            with path.open("rb") as file:
                self._maps[path] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(self._maps[path], np.uint8)

    def array(self, stored: Stored) -> NDArray[Any]:
        """A tensor of a file in its storage type and shape.

        Raises:
            FormatError: A file of packed elements cannot be read.
            OSError: The file cannot be opened.
            ValueError: It became shorter than its header says.
        """
        if stored.dtype.packed:
            return stored.array()
        there = self.bytes_of(stored.path)[stored.offset : stored.offset + stored.nbytes]
        return there.view(stored.dtype.storage).reshape(stored.shape)

    def forget(self) -> None:
        """Give back the memory of large maps; they are read again where they are touched."""
        for one in self._maps.values():
            if len(one) > _LARGE and hasattr(mmap, "MADV_DONTNEED"):
                one.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True, kw_only=True)
class Subject:
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
    dtype: DType
    seen: DType
    bounds: Mapping[str, float] = field(default_factory=lambda: {"exact": 1.0})
    raw: Raw | None = None
    others: Callable[[], Mapping[str, Stored]] = dict
    maps: Maps = field(default_factory=Maps)

    @classmethod
    def of(cls, name: str, expected: Stored, obtained: Stored, **more: Any) -> Subject:
        """The subject of two tensors in files; ``more`` are the fields that they do not state."""
        maps = Maps()
        return cls(
            name=name,
            expected=maps.array(expected),
            obtained=maps.array(obtained),
            dtype=expected.dtype,
            seen=obtained.dtype,
            maps=maps,
            **more,
        )

    @cached_property
    def source(self) -> NDArray[Any]:
        """The expected values in their logical shape; GGUF's references state it reversed."""
        shape = self.expected.shape if self.raw is None else self.raw.shape
        fits = prod(shape) == self.expected.size
        return self.expected.reshape(shape if fits else self.expected.shape)

    @cached_property
    def target(self) -> NDArray[Any]:
        """The obtained values, flat."""
        return self.obtained.reshape(-1)

    @property
    def count(self) -> int:
        """Elements."""
        return int(self.target.size)

    @property
    def exact(self) -> bool:
        """Whether only equal bits are right."""
        return not any(self.bounds.get(name) for name in ("max_abs", "relative", "ulp"))

    def turned(self, chunk: NDArray[Any]) -> NDArray[Any]:
        """Expected values as a dump that is right has them."""
        return chunk if self.seen == self.dtype else self.dtype.as_f32(chunk)

    def agree(
        self,
        claimed: NDArray[Any],
        obtained: NDArray[Any],
        ulps: float = 0.0,
        slack: float = 0.0,
        *,
        claim: bool = True,
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which elements agree, and which of them do to the last bit (NaN is NaN).

        Args:
            claimed: What a hypothesis predicts, of ``seen``'s storage.
            obtained: What came.
            ulps: Units in the last place that the hypothesis itself leaves open.
            slack: The same as an absolute error.
            claim: A hypothesis is tried; else the bounds alone are asked.
        """
        claimed, obtained = np.ascontiguousarray(claimed), np.ascontiguousarray(obtained)
        same = bits(claimed) == bits(obtained)
        if same.all() or self.seen.kind != "float":
            return same, same
        left, right = self.seen.values(claimed), self.seen.values(obtained)
        same |= np.isnan(left) & np.isnan(right)
        with np.errstate(all="ignore"):
            size = np.abs(left)
            gap = np.abs(left - right)
            # A bound is blind where values are small beside it, and then any claim would hold.
            top = size[np.isfinite(size)].max(initial=0.0)
            room = np.minimum(self.room(size), top * _TELLING) if claim else self.room(size)
            room = np.maximum(room, ulps * self.unit * size + slack)
            # What is computed may come out as a zero of either sign.
            return same | ((gap <= room) & ((room > 0) | (ulps > 0))), same

    @property
    def unit(self) -> float:
        """Distance of 1.0 to the next number of the dump's type."""
        digits = {"F64": 52, "F16": 10, "BF16": 7}.get(self.seen.name, 23)
        return float(2.0**-digits)

    def room(self, size: NDArray[np.float64]) -> NDArray[np.float64]:
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

    def parts(self) -> Iterator[tuple[int, NDArray[Any], NDArray[Any]]]:
        """Runs of elements: index of the first, expected as a right dump has them, obtained."""
        flat = self.expected.reshape(-1)
        for start in range(0, self.count, PART):
            stop = start + PART
            yield start, self.turned(np.array(flat[start:stop])), np.array(self.target[start:stop])
            self.maps.forget()

    @cached_property
    def overview(self) -> Overview:
        """What one look at all elements shows."""
        found = Overview()
        for start, expected, obtained in self.parts():
            found.add(self, start, expected, obtained)
        return found
