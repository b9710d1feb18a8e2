"""Compare two tensors element by element; measures out, no messages.

``pass = all(error <= tolerance)``, never ``not any(error > tolerance)``, so that no NaN
passes. Exact means equal bits. Tensors are read in chunks, so that memory does not depend
on their size; equal chunks cost one comparison of bytes, and two threads share a large
tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import accumulate, groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.tensors import FormatError
from parity.tensors.dtypes import F32, DType, view_bits
from parity.tensors.elements import EXACT, ElementComparison
from parity.tensors.groups.base import Pair
from parity.tensors.measures import Measures
from parity.tensors.paired_reads import (
    MIN_SPLIT_BYTES,
    THREADS,
    Chunk,
    map_parts,
    read_chunks,
    split_ranges,
)
from parity.tensors.stored import StoredTensor

#: Bytes of a tensor below which its own cost in the interpreter, which threads cannot share, counts
_MIN_SHARED_BYTES = 128 << 10
_RUN_BYTES = 4 << 20  # Bytes of the tensors that a thread takes at a time


def select_bounds(
    dtype: DType, bounds: Mapping[str, float], *, integers_only: bool = False
) -> Mapping[str, float]:
    """Return the ``bounds`` of a case, by measure, that apply to a tensor of ``dtype``.

    They are meant for its floats and complex numbers. Integers and booleans are exact: no tolerance
    of an embedding makes another token id right. In a case of ``integers_only``, ``max_abs`` is
    meant for them.
    """
    if dtype.kind in ("float", "complex"):
        return bounds
    absolute = {name: bounds[name] for name in ("max_abs", "atol") if name in bounds}
    if dtype.kind == "int" and integers_only and absolute and not bounds.get("exact"):
        return absolute
    return EXACT


def compare(
    expected: StoredTensor,
    obtained: StoredTensor,
    bounds: Mapping[str, float],
    *,
    payloads: bool = True,
) -> Measures:
    """Compare two tensors of one shape under all ``bounds``; none means exact.

    Of a tensor that passes, only the figures that the bounds ask for may be measured
    (``is_screened``). Where the obtained one is float32 in a `.bin`, which states no dtype, an
    expected one of another dtype is rounded once to float32; otherwise the caller checks that the
    dtypes are equal. A NaN's payload counts under exact only with ``payloads``: not where the
    reference itself was widened or dequantised.

    Raises:
        FormatError: A file cannot be read.
        ValueError: The shapes differ, or the dtypes where they may not.
    """
    if expected.shape != obtained.shape or obtained.dtype not in (expected.dtype, F32):
        message = f"{expected.dtype.name} {expected.shape} / {obtained.dtype.name} {obtained.shape}"
        raise ValueError(message)

    # The sums of a cosine depend on the order of addition.
    parts = split_ranges(expected, 1 if "cosine" in bounds else THREADS)

    def compare_all(*, screened: bool) -> Measures:
        def compare_part(part: range) -> Measures:
            state = ElementComparison(
                expected.dtype,
                obtained.dtype,
                bounds,
                expected.shape,
                payloads=payloads,
                screened=screened,
            )
            with np.errstate(all="ignore"):
                for chunk in read_chunks(expected, obtained, part):
                    state.add(chunk)
                    if state.screen is not None and state.measures.bad:
                        break
                return state.finish()

        first, *later = map_parts(compare_part, parts)
        for one in later:
            first.add(one)
        return first

    # A tensor that fails is measured whole, since its report shows all figures.
    measures = compare_all(screened=True)
    if measures.is_screened and not measures.is_within:
        return compare_all(screened=False)
    return measures


def compare_shared(
    tasks: Mapping[str, tuple[Pair, Mapping[str, float], bool]],
) -> dict[str, Measures]:
    """Compare tensors of medium size on threads; those that cannot be read are left out.

    Small ones cost less on one thread, and threads share the elements of a large one.

    Args:
        tasks: Tensors, bounds and whether payloads count, by name, as ``compare`` has them.
    """
    sizes = {
        name: size
        for name, (pair, *_) in tasks.items()
        if _MIN_SHARED_BYTES <= (size := pair.expected.nbytes) < MIN_SPLIT_BYTES
    }
    ends = zip(sizes, accumulate(sizes.values()), strict=True)

    def compare_run(names: list[str]) -> dict[str, Measures]:
        found = {}
        for name in names:
            (expected, obtained), bounds, payloads = tasks[name]
            with suppress(FormatError):
                found[name] = compare(expected, obtained, bounds, payloads=payloads)
        return found

    runs = [[name for name, _ in run] for _, run in groupby(ends, lambda one: one[1] // _RUN_BYTES)]
    return {name: one for found in map_parts(compare_run, runs) for name, one in found.items()}


def compare_arrays(
    expected: NDArray[Any], obtained: NDArray[Any], dtype: DType, bounds: Mapping[str, float]
) -> Measures:
    """Compare two arrays in memory, of equal shape and of ``dtype``'s storage type."""
    state = ElementComparison(dtype, dtype, bounds, expected.shape)
    state.add(Chunk(0, expected.reshape(-1), obtained.reshape(-1)))
    return state.finish()


def find_violations(
    expected: NDArray[Any],
    obtained: NDArray[Any],
    dtype: DType,
    bounds: Mapping[str, float],
    *,
    payloads: bool = True,
) -> NDArray[np.bool_]:
    """Return which elements of two flat arrays break one of ``bounds``, as ``compare`` counts."""
    bad = np.zeros(len(expected), np.bool_)
    at = np.flatnonzero(view_bits(expected) != view_bits(obtained))
    if len(at):
        state = ElementComparison(dtype, dtype, bounds, expected.shape, payloads=payloads)
        bad[at] = state.measure(expected[at], obtained[at]).bad
    return bad
