"""Changes of an array's values, as faults of ports make them; None where one does not apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[Any]

#: Elements from which on a quarter of them is a run of two.
_FEWEST_FOR_RUN = 8
#: Axes that are exchanged, not rotated or reversed.
_MATRIX = 2


def _change_flat(array: Array, change: Callable[[Array], Array | None]) -> Array | None:
    changed = change(array.reshape(-1).copy())
    return None if changed is None else changed.reshape(array.shape)


def zero_tail(array: Array) -> Array | None:
    """Set the second half to zero."""

    def change(flat: Array) -> Array | None:
        flat[len(flat) // 2 :] = 0
        return flat if len(flat) > 1 else None

    return _change_flat(array, change)


def zero_block(array: Array) -> Array | None:
    """Set the second quarter to zero."""

    def change(flat: Array) -> Array | None:
        flat[len(flat) // 4 : len(flat) // 2] = 0
        return flat if len(flat) >= _FEWEST_FOR_RUN else None

    return _change_flat(array, change)


def fill_with_first(array: Array) -> Array | None:
    """Fill the array with its first value."""
    return np.full_like(array, array.reshape(-1)[0]) if array.size > 1 else None


def _permute_axes(array: Array, order: tuple[int, ...]) -> Array:
    return np.ascontiguousarray(array.transpose(order)).reshape(array.shape)


def transpose(array: Array) -> Array | None:
    """Exchange the last two axes."""
    rank = array.ndim
    return _permute_axes(array, (*range(rank - 2), rank - 1, rank - 2)) if rank > 1 else None


def rotate_axes(array: Array) -> Array | None:
    """Move the first axis to the end."""
    rank = array.ndim
    return _permute_axes(array, (*range(1, rank), 0)) if rank > _MATRIX else None


def reverse_axes(array: Array) -> Array | None:
    """Reverse the order of more than two axes."""
    rank = array.ndim
    return _permute_axes(array, tuple(reversed(range(rank)))) if rank > _MATRIX else None


def shift_by_header(array: Array) -> Array | None:
    """Put an eight-byte header's bytes before the data."""

    def change(flat: Array) -> Array | None:
        if len(flat) <= _FEWEST_FOR_RUN // 2:
            return None
        header = np.array([len(flat), 0], "<u4").view(np.uint8)
        head = np.resize(header, 2 * flat.itemsize).view(flat.dtype)
        return np.concatenate([head, flat[:-2]])

    return _change_flat(array, change)


def roll(array: Array) -> Array | None:
    """Roll the elements by one."""
    return _change_flat(array, lambda flat: np.roll(flat, 1)) if array.size > _MATRIX else None


def reverse(array: Array) -> Array | None:
    """Reverse the elements."""
    return _change_flat(array, lambda flat: flat[::-1]) if array.size > 1 else None


def make_byte_swap(group: int) -> Callable[[Array], Array | None]:
    """Make a swap of bytes in groups of ``group``."""

    def make(array: Array) -> Array | None:
        if group > array.itemsize:
            return None
        words: Array = np.ascontiguousarray(array).view(f"<u{group}")
        return words.byteswap().view(array.dtype)

    return make


def restrict_to_floats(change: Callable[[Array], Array]) -> Callable[[Array], Array | None]:
    """``change`` for float types that NumPy knows."""

    def make(array: Array) -> Array | None:
        if array.dtype.kind != "f":
            return None
        with np.errstate(all="ignore"):
            wrong: Array = change(array).astype(array.dtype)
        return wrong

    return make


def round_to_bf16(array: Array) -> Array:
    """Round to bfloat16, ties to even."""
    code = array.astype("<f4").view("<u4")
    even = (code >> np.uint32(16)) & np.uint32(1)
    return ((code + np.uint32(0x7FFF) + even) & np.uint32(0xFFFF0000)).view("<f4")


def truncate_to_bf16(array: Array) -> Array:
    """Truncate to bfloat16."""
    return (array.astype("<f4").view("<u4") & np.uint32(0xFFFF0000)).view("<f4")


def view_as_integers(array: Array) -> Array:
    """Take the bits for integers."""
    return np.ascontiguousarray(array).view(f"<i{array.itemsize}")


def change_one(index: int, value: Callable[[Any], Any]) -> Callable[[Array], Array | None]:
    """Make a change of the value at a flat ``index``."""

    def change(array: Array) -> Array:
        flat = array.reshape(-1).copy()
        flat[index] = value(flat[index])
        return flat.reshape(array.shape)

    return lambda array: restrict_to_floats(change)(array) if array.size else None


def add_noise(array: Array) -> Array:
    """Add noise of about one per cent."""
    random = np.random.default_rng(0)
    return array + random.uniform(0.5, 1.0, array.shape) * (np.abs(array) * 0.01 + 0.01)


def drop_zero_sign(array: Array) -> Array:
    """Make -0.0 positive."""
    positive: Array = array + array.dtype.type(0)
    return positive


def flush_subnormals(array: Array) -> Array:
    """Make subnormal numbers zero."""
    return np.where(np.abs(array) < np.finfo(array.dtype).tiny, 0, array)


def cast_through(code: str) -> Callable[[Array], Array]:
    """Make a cast to the NumPy type ``code``."""
    return lambda array: array.astype(code)


def add_one(array: Array) -> Array:
    """Add one to every integer."""
    with np.errstate(over="ignore"):
        wrong: Array = array + array.dtype.type(1)
    return wrong


def add_one_to_first(array: Array) -> Array:
    """Add one to the first integer."""
    wrong = array.copy()
    wrong.reshape(-1)[:1] = add_one(wrong.reshape(-1)[:1])
    return wrong


def round_to_f32(array: Array) -> Array:
    """Convert integers to float32 and back."""
    with np.errstate(invalid="ignore"):
        wrong: Array = array.astype("<f4").astype(array.dtype)
    return wrong


def _view_complex(array: Array) -> Array:
    """View complex numbers as pairs of floats, whatever type they are stored in."""
    pairs: Array = np.ascontiguousarray(array).reshape(-1).view(f"<f{array.itemsize // 2}")
    return pairs.reshape(-1, 2).copy()


def conjugate(array: Array) -> Array:
    """Negate every imaginary part."""
    pairs = _view_complex(array)
    pairs[:, 1] *= -1
    return pairs.view(array.dtype).reshape(array.shape)


def exchange_parts(array: Array) -> Array:
    """Exchange real and imaginary parts."""
    pairs = np.ascontiguousarray(_view_complex(array)[:, ::-1])
    return pairs.view(array.dtype).reshape(array.shape)
