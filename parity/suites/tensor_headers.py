"""Shapes and dtypes of a dump's tensors, checked before any value is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from parity.checkpoints.gguf_header import find_stated_shape
from parity.suites.messages import report_error
from parity.tensors import FormatError
from parity.tensors.compare import compare
from parity.tensors.dtypes import DTYPES
from parity.text import format_count, sanitize

if TYPE_CHECKING:
    from parity.checkpoints import StorageLocation
    from parity.results import Finding
    from parity.suites.tensor_reference import TensorReference
    from parity.tensors.dtypes import DType
    from parity.tensors.stored import StoredTensor

#: Bytes of a tensor in its checkpoint up to which they are compared with a dump's elements.
_MAX_RAW_BYTES = 64 * 2**20


def report_shape(
    name: str, expected: StoredTensor, obtained: StoredTensor, reference: TensorReference
) -> Finding:
    """Report a shape that is not the expected one, and what is proven of its cause."""
    right, given = list(expected.shape), list(obtained.shape)
    if len(right) > 1 and given == right[::-1]:
        hint = "; the dimensions are reversed"
    elif expected.count == obtained.count:
        hint = _describe_stated_shape(name, expected, obtained, reference)
        hint = hint or f"; both have {format_count(expected.count, 'elements')}"
    else:
        hint = _describe_raw_bytes(name, expected, obtained, reference)
    tail = f" ({reference.shape_note})" if reference.shape_note else ""
    message = f"{name} has the shape {given}, expected {right}{hint}{tail}"
    return report_error("shape", message, tensor=name, expected=str(right), obtained=str(given))


def _describe_raw_bytes(
    name: str, expected: StoredTensor, obtained: StoredTensor, reference: TensorReference
) -> str:
    """Explain another number of elements: the checkpoint's bytes were not decoded, or misread."""
    if expected.dtype.kind == "complex" and obtained.shape == (*expected.shape, 2):
        return (
            "; real and imaginary part are an axis of their own, as torch.view_as_real has them; "
            f"write them as {expected.dtype.name}"
        )
    location = reference.locate().get(name)
    size = expected.nbytes if location is None else location.stop - location.start
    hint = ""
    try:
        if 0 < size <= _MAX_RAW_BYTES and location is None:
            stored = expected.read_array().tobytes()
            hint = _recognise_bytes(stored, expected.dtype.name, "the bytes", obtained)
        elif 0 < size <= _MAX_RAW_BYTES and location is not None:
            stored = _read_raw_bytes(location, expected.count)
            hint = _recognise_bytes(stored, location.type_name, "the checkpoint's bytes", obtained)
    except (FormatError, OSError):
        return ""
    ratio = _format_ratio(obtained.count, max(expected.count, 1))
    if hint:
        return f"{hint}: {ratio}" if hint.endswith(obtained.dtype.name) else hint
    for factor in (2, 4) if obtained.count and expected.count else ():
        if expected.count == factor * obtained.count:
            return f"; {ratio}, as after reading a narrower dtype as {obtained.dtype.name}"
        if obtained.count == factor * expected.count:
            return f"; {ratio}, as after reading a wider dtype as {obtained.dtype.name}"
    return ""


def _recognise_bytes(stored: bytes, type_name: str, what: str, obtained: StoredTensor) -> str:
    """Return a clause where a dump's elements are single bytes, or whole bytes misread."""
    if obtained.count != len(stored) and obtained.nbytes != len(stored):
        return ""
    values = obtained.read_array().reshape(-1)
    if len(values) == len(stored) and np.array_equal(values, np.frombuffer(stored, np.uint8)):
        return f"; these are the raw bytes of {type_name}, which was not decoded"
    if values.tobytes() == stored:
        return f"; these are {what} of {type_name}, read as {obtained.dtype.name}"
    return ""


def _read_raw_bytes(location: StorageLocation, count: int) -> bytes:
    """Read a tensor's bytes in its checkpoint, in the order of the file."""
    start, size = location.start, location.stop - location.start
    if location.type_name in DTYPES:
        width = DTYPES[location.type_name].storage.itemsize
        start += location.storage_offset * width
        size = min(count * width, location.stop - start)
    with location.path.open("rb") as file:
        file.seek(start)
        return file.read(size)


def _format_ratio(obtained: int, expected: int) -> str:
    ratios = {0.5: "half the elements", 0.25: "a quarter of the elements"}
    ratios |= {2.0: "twice the elements", 4.0: "four times the elements"}
    return ratios.get(obtained / expected, f"{obtained:,} for {expected:,} elements")


def _describe_stated_shape(
    name: str, expected: StoredTensor, obtained: StoredTensor, reference: TensorReference
) -> str:
    """Explain a shape that a key of the checkpoint's metadata states in place of the header."""
    location = reference.locate().get(name)
    if location is None or location.path.suffix != ".gguf":
        return ""
    stated = find_stated_shape(location.path, name)
    if stated is None or obtained.shape not in (stated.shape, stated.shape[::-1]):
        return ""
    text = (
        f"; it is the one in the checkpoint's key {sanitize(stated.key)}, {list(stated.shape)}, "
        "where the header's is expected"
    )
    turned = replace(obtained, shape=expected.shape)
    try:
        measures = compare(expected, turned, reference.select_bounds(name))
    except FormatError:
        return text
    count = format_count(expected.count, "elements")
    if measures.passed:
        return f"{text}, and all {count} are right in their order"
    return f"{text}; {measures.bad:,} of {count} differ besides"


def report_dtype(name: str, expected: DType, obtained: StoredTensor) -> Finding:
    """Report a dtype that the dump's file states and that is not the expected one."""
    message = (
        f"{name} is {obtained.dtype.name} in the {obtained.suffix} dump, expected {expected.name}"
    )
    return report_error(
        "dtype", message, tensor=name, expected=expected.name, obtained=obtained.dtype.name
    )
