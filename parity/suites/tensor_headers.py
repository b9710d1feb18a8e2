"""Names, shapes and dtypes of a dump's tensors, held before any value is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from parity.checkpoints.gguf_metadata import find_stated_shape
from parity.results import Finding
from parity.suites.messages import format_count, report_error
from parity.tensors import FormatError
from parity.tensors.compare import compare
from parity.text import sanitize

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from parity.checkpoints import StorageLocation
    from parity.suites.tensor_findings import TensorReference
    from parity.tensors.folder import FolderContents
    from parity.tensors.stored import StoredTensor


def check_names(reference: TensorReference, found: FolderContents) -> list[Finding]:
    """Tensors that are missing, and those that nobody asked for."""
    broken = {name.rsplit(".", 1)[0] for name in found.unreadable}
    many_broken = any(name.endswith(".safetensors") for name in found.unreadable)
    missing = [name for name in reference.tensors if name not in found.tensors]
    reported = [] if many_broken else [name for name in missing if name not in broken]
    locations = reference.locate() if reported else {}
    locations = {
        name: location for name, location in locations.items() if name in reference.tensors
    }
    findings = []
    for name in reported:
        stored = reference.tensors[name]
        description = f"{stored.dtype.name} {list(stored.shape)}"
        message = f"{name} ({description}) is missing from the dump{_describe_part(name, missing, locations)}"
        findings.append(report_error("tensor-missing", message, tensor=name))
    for name in found.tensors:
        if name not in reference.tensors and name not in reference.unreferenced:
            message = f"{name} is in the dump, the reference has no such tensor"
            level: Any = "error" if reference.complete else "warning"
            findings.append(Finding(level=level, code="tensor-extra", tensor=name, message=message))
    return findings


def _describe_part(
    name: str, missing: Collection[str], locations: Mapping[str, StorageLocation]
) -> str:
    """Where the checkpoint is in several files: the one that holds a tensor which is missing."""
    if name not in locations or len({location.path for location in locations.values()}) == 1:
        return ""
    path = locations[name].path
    inside = [other for other, location in locations.items() if location.path == path]
    whole = all(other in missing for other in inside)
    none = f", of whose {format_count(len(inside), 'tensor')} none came" if whole else ""
    return f"; it lies in {sanitize(path.name)}{none}"


def report_duplicate(name: str) -> Finding:
    """A tensor in more than one file of the dump."""
    message = f"{name} stands in more than one file of the dump; which one is meant?"
    return report_error("tensor-twice", message, tensor=name, kind="dump")


def report_shape(
    name: str, expected: StoredTensor, obtained: StoredTensor, reference: TensorReference
) -> Finding:
    """A shape that is another; what is proven of how it came about stands beside it."""
    expected_shape, obtained_shape = list(expected.shape), list(obtained.shape)
    hint = ""
    if len(expected_shape) > 1 and obtained_shape == expected_shape[::-1]:
        hint = "; the dimensions are reversed"
    elif expected.count == obtained.count:
        hint = _describe_stated_shape(name, expected, obtained, reference)
        hint = hint or f"; both hold {format_count(expected.count, 'element')}"
    tail = f" ({reference.shape_note})" if reference.shape_note else ""
    message = f"{name} has the shape {obtained_shape}, expected {expected_shape}{hint}{tail}"
    return report_error(
        "shape", message, tensor=name, expected=str(expected_shape), obtained=str(obtained_shape)
    )


def _describe_stated_shape(
    name: str, expected: StoredTensor, obtained: StoredTensor, reference: TensorReference
) -> str:
    """That the dump has the shape which a key of the checkpoint's metadata states."""
    location = reference.locate().get(name)
    if location is None or location.path.suffix != ".gguf":
        return ""
    stated = find_stated_shape(location.path, name)
    if stated is None or obtained.shape not in (stated.shape, stated.shape[::-1]):
        return ""
    text = (
        f"; it is that of the checkpoint's key {sanitize(stated.key)}, {list(stated.shape)}, where the "
        "header's is owed"
    )
    return text + _describe_elements(expected, obtained, reference)


def _describe_elements(
    expected: StoredTensor, obtained: StoredTensor, reference: TensorReference
) -> str:
    """Whether the elements, one after the other, are the reference's."""
    try:
        measures = compare(
            expected,
            replace(obtained, shape=expected.shape),
            reference.tolerances,
            integers_only=reference.integers_only,
        )
    except FormatError:
        return ""
    if measures.passed:
        return f", and all {format_count(expected.count, 'element')} are right in their order"
    return f"; {measures.bad:,} of {format_count(expected.count, 'element')} differ besides"


def report_dtype(name: str, expected: StoredTensor, obtained: StoredTensor) -> Finding:
    """A dtype that the dump's carrier states, and that is another."""
    expected_dtype, obtained_dtype = expected.dtype.name, obtained.dtype.name
    message = f"{name} is {obtained_dtype} in the {obtained.suffix} dump, expected {expected_dtype}"
    return report_error(
        "dtype", message, tensor=name, expected=expected_dtype, obtained=obtained_dtype
    )
