"""Shapes and dtypes of a dump's tensors, checked before any value is."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.checkpoints import StorageLocation
from parity.checkpoints.gguf_header import find_stated_shape
from parity.results import Finding
from parity.suites.messages import format_name, report_error
from parity.suites.tensor_reference import TensorReference
from parity.tensors import FormatError
from parity.tensors.compare import compare
from parity.tensors.dtypes import DTYPES, DType
from parity.tensors.stored import StoredTensor
from parity.text import format_count, sanitize

#: Bytes of a tensor in its checkpoint up to which they are compared with a dump's elements.
_MAX_RAW_BYTES = 64 * 2**20
_RATIOS = {0.5: "half the elements", 0.25: "a quarter of the elements"}
_RATIOS |= {2.0: "twice the elements", 4.0: "four times the elements"}


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
    message = f"{format_name(name)} has the shape {given}, expected {right}{hint}{tail}"
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
    location, hint = reference.locate().get(name), ""
    try:
        if location is None and 0 < expected.nbytes <= _MAX_RAW_BYTES:
            hint = _recognise_values(expected, obtained)
        elif location is not None and 0 < location.stop - location.start <= _MAX_RAW_BYTES:
            stored = _read_raw_bytes(location, expected.count)
            hint = _recognise_bytes(stored, location.type_name, "the checkpoint's bytes", obtained)
    except (FormatError, OSError):
        return ""
    total = max(expected.count, 1)
    ratio = _RATIOS.get(obtained.count / total, f"{obtained.count:,} for {total:,} elements")
    if hint:
        return f"{hint}: {ratio}" if hint.endswith(obtained.dtype.name) else hint
    if not expected.count or ratio not in _RATIOS.values():
        return ""
    width = "narrower" if obtained.count < expected.count else "wider"
    return f"; {ratio}, as after reading a {width} dtype as {obtained.dtype.name}"


def _recognise_values(expected: StoredTensor, obtained: StoredTensor) -> str:
    """Return a clause where a dump's bytes are those of the expected values in some dtype."""
    values = expected.read_array()
    if hint := _recognise_bytes(values.tobytes(), expected.dtype.name, "the bytes", obtained):
        return hint
    if expected.dtype.kind != "float":
        return ""
    wide = expected.dtype.widen(values)
    for dtype in DTYPES.values():
        if dtype.kind != "float" or dtype.storage.itemsize == 1:
            continue
        with np.errstate(all="ignore"):
            encoded: NDArray[Any] = (wide.astype("<f4").view("<u4") >> 16).astype("<u2")
            if dtype.is_native:
                encoded = wide.astype(dtype.storage)
            is_exact = np.array_equal(dtype.decode(encoded), wide, equal_nan=True)
        hint = _recognise_bytes(encoded.tobytes(), dtype.name, "the bytes", obtained)
        if hint and is_exact:
            return hint
    return ""


def _recognise_bytes(stored: bytes, type_name: str, what: str, obtained: StoredTensor) -> str:
    """Return a clause where a dump's elements are single bytes, or whole bytes misread."""
    if obtained.count != len(stored) and obtained.nbytes != len(stored):
        return ""
    values = obtained.read_array().reshape(-1)
    signs = (np.frombuffer(stored, kind) for kind in (np.uint8, np.int8))
    if len(values) == len(stored) and any(np.array_equal(values, one) for one in signs):
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


def _describe_stated_shape(
    name: str, expected: StoredTensor, obtained: StoredTensor, reference: TensorReference
) -> str:
    """Explain a shape that a key of the checkpoint's metadata states in place of the header."""
    location = reference.locate().get(name)
    if location is None or location.path.suffix != ".gguf":
        return ""
    stated = find_stated_shape(location.path, name)
    if stated is None or obtained.shape not in (stated.value, stated.value[::-1]):
        return ""
    text = (
        f"; it is the one in the checkpoint's key {sanitize(stated.key)}, {list(stated.value)}, "
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


def report_dtype(
    name: str, dtype: DType, expected: StoredTensor, obtained: StoredTensor
) -> Finding:
    """Report a dtype that the dump's file states and that is not ``dtype``."""
    given = obtained.dtype.name
    message = f"{format_name(name)} is {given} in the {obtained.suffix} dump, expected "
    message += dtype.name + _describe_f32_port(dtype, obtained)
    if dtype == expected.dtype and obtained.nbytes == expected.nbytes <= _MAX_RAW_BYTES:
        with suppress(FormatError, OSError):
            message += _recognise_bytes(
                expected.read_array().tobytes(), dtype.name, "the bytes", obtained
            )
    return report_error("dtype", message, tensor=name, expected=dtype.name, obtained=given)


def _describe_f32_port(expected: DType, obtained: StoredTensor) -> str:
    """Say how a port that has float32 alone writes another dtype."""
    if expected.kind == "complex" and obtained.suffix == ".bin":
        suffixes = ".npy" if expected.name == "C128" else ".npy or .safetensors"
        return f"; write complex numbers to a {suffixes} file"
    if obtained.dtype.name != "F32" or obtained.suffix == ".bin" or expected.kind == "complex":
        return ""
    return (
        "; a port that has f32 alone writes a .bin file, whose values are compared with the "
        "reference's rounded to f32"
    )
