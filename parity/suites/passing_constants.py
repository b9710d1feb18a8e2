"""Find the constants that a tolerance lets pass in place of every element of a tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.tensors.dtypes import DType
from parity.tensors.elements import compute_allowed

_FEWEST_FOR_CONSTANT = 8  # elements
_ELEMENTWISE = ("max_abs", "relative", "ulp", "atol", "rtol")
#: Factors that turn a direction of the complex plane to the right.
_DIRECTIONS = np.exp(-2j * np.pi * np.arange(32) / 32)
#: Steps towards the best constant, which then is off by about a hundredth of the tolerance.
_STEPS = 500


@dataclass
class PassingConstants:
    """The constants that would pass in place of all elements seen so far, as an interval."""

    dtype: DType
    tolerances: Mapping[str, float]
    low: float = -np.inf
    high: float = np.inf
    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    smallest: float = np.inf
    largest: float = -np.inf
    is_free: bool = False  # no tolerance limits the elements
    #: Complex elements farthest out in each direction, and the errors allowed for them.
    outer: tuple[NDArray[np.complex128], NDArray[np.float64]] | None = None

    def add(self, chunk: NDArray[Any]) -> None:
        """Narrow the interval by a chunk of the expected elements."""
        numbers = self.dtype.decode(chunk)
        numbers = numbers[np.isfinite(numbers)]  # the others must be as they are
        if not len(numbers):
            return
        is_complex = self.dtype.kind == "complex"
        values = np.abs(numbers) if is_complex else numbers.astype(np.float64)
        allowed = self._compute_allowed(values)
        if is_complex:
            self._add_outer(numbers, allowed)
        self.low = max(self.low, float((values - allowed).max()))
        self.high = min(self.high, float((values + allowed).min()))
        self.count += len(values)
        with np.errstate(over="ignore"):
            self.total += float(values.sum())
            self.squares += float((values * values).sum())
        self.smallest = min(self.smallest, float(values.min()))
        self.largest = max(self.largest, float(values.max()))

    def _add_outer(self, numbers: NDArray[np.complex128], allowed: NDArray[np.float64]) -> None:
        if self.outer is not None:
            before, errors = self.outer
            numbers, allowed = np.concatenate([before, numbers]), np.concatenate([errors, allowed])
        chosen = [int(((numbers * turn).real - allowed).argmax()) for turn in _DIRECTIONS]
        self.outer = numbers[chosen], allowed[chosen]

    def _compute_allowed(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the largest error allowed for each element, under all tolerances."""
        if set(_ELEMENTWISE) & self.tolerances.keys():
            return compute_allowed(np.abs(values), self.tolerances, self.dtype)
        is_free = self.is_free or "cosine" in self.tolerances
        return np.full(len(values), np.inf if is_free else 0.0)

    def list_passing(self) -> Iterator[tuple[complex, str]]:
        """Yield the constants that would pass, zero first, each with a description.

        A complex one, other than zero, is the best there is, and may not pass.
        """
        if not self.count or not self.low <= self.high:
            return
        if self.is_free and self.smallest == self.largest:
            other = self.largest + 1
            yield (
                other,
                f"a constant {other:.3g} would pass (the values are all {self.largest:.3g})",
            )
        least = max(self.tolerances.get(name, 0.0) for name in ("max_abs", "atol"))
        excused = not self.tolerances.get("cosine") or np.sqrt(self.squares) <= least
        if self.low <= 0 <= self.high and self.squares and excused:
            yield 0.0, f"zeros would pass (the values are at most {self._find_size():.3g})"
        if self.count < _FEWEST_FOR_CONSTANT:
            return
        if self.outer is not None and (self.outer[0] != self.outer[0][0]).any():
            best = _find_center(*self.outer)
            sizes = f"the values are at most {self._find_size():.3g} from 0"
            yield best, f"a constant {best:.3g} would pass ({sizes})"
        if self.outer is not None or self.smallest == self.largest:
            return
        bounds = f"{self.smallest:.3g} to {self.largest:.3g}"
        for middle in ((self.smallest + self.largest) / 2, self.total / self.count):
            constant = min(max(middle, self.low), self.high)
            direction = self.total * np.sign(constant)
            cosine = self.tolerances.get("cosine", -1.0)
            smallest = cosine * np.sqrt(self.count * self.squares)
            if np.isfinite(constant) and direction >= smallest:
                yield constant, f"a constant {constant:.3g} would pass (the values are {bounds})"

    def _find_size(self) -> float:
        return max(abs(self.smallest), abs(self.largest))


def _find_center(numbers: NDArray[np.complex128], allowed: NDArray[np.float64]) -> complex:
    """Find the number whose distance from each of ``numbers`` exceeds its error least.

    Each step goes to the worst one, by less and less (Badoiu and Clarkson, 2003).
    """
    center, best, least = complex(numbers.mean()), 0j, np.inf
    for step in range(2, _STEPS):
        excess = np.abs(numbers - center) - allowed
        worst = int(excess.argmax())
        if excess[worst] < least:
            best, least = center, float(excess[worst])
        center += complex(numbers[worst] - center) / step
    return best
