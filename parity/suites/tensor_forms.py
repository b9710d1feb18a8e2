"""Names, shapes and dtypes of a dump's tensors, held before any value is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from parity.codecs import FormatError
from parity.compare import compare
from parity.raw.gguf_keys import stated_shape
from parity.results import Finding
from parity.safetext import safe
from parity.suites.words import counted, wrong

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from parity.codecs.files import Found
    from parity.codecs.stored import Stored
    from parity.raw import Raw
    from parity.suites.tensor_findings import Reference


def names(reference: Reference, found: Found) -> list[Finding]:
    """Tensors that are missing, and those that nobody asked for."""
    broken = {name.rsplit(".", 1)[0] for name in found.broken}
    many_broken = any(name.endswith(".safetensors") for name in found.broken)
    missing = [name for name in reference.tensors if name not in found.tensors]
    told = [] if many_broken else [name for name in missing if name not in broken]
    records = reference.raw() if told else {}
    records = {name: record for name, record in records.items() if name in reference.tensors}
    findings = []
    for name in told:
        stored = reference.tensors[name]
        what = f"{stored.dtype.name} {list(stored.shape)}"
        message = f"{name} ({what}) is missing from the dump{_part(name, missing, records)}"
        findings.append(wrong("tensor-missing", message, tensor=name))
    for name in found.tensors:
        if name not in reference.tensors and name not in reference.others:
            message = f"{name} is in the dump, the reference has no such tensor"
            level: Any = "error" if reference.complete else "warning"
            findings.append(Finding(level=level, code="tensor-extra", tensor=name, message=message))
    return findings


def _part(name: str, missing: Collection[str], records: Mapping[str, Raw]) -> str:
    """Where the checkpoint is in several files: the one that holds a tensor which is missing."""
    if name not in records or len({record.path for record in records.values()}) == 1:
        return ""
    path = records[name].path
    inside = [other for other, record in records.items() if record.path == path]
    whole = all(other in missing for other in inside)
    none = f", of whose {counted(len(inside), 'tensor')} none came" if whole else ""
    return f"; it lies in {safe(path.name)}{none}"


def twice(name: str) -> Finding:
    """A tensor in more than one file of the dump."""
    message = f"{name} stands in more than one file of the dump; which one is meant?"
    return wrong("tensor-twice", message, tensor=name, kind="dump")


def shape(name: str, expected: Stored, obtained: Stored, reference: Reference) -> Finding:
    """A shape that is another; what is proven of how it came about stands beside it."""
    due, came = list(expected.shape), list(obtained.shape)
    hint = ""
    if len(due) > 1 and came == due[::-1]:
        hint = "; the dimensions are reversed"
    elif expected.count == obtained.count:
        hint = _stated(name, expected, obtained, reference)
        hint = hint or f"; both hold {counted(expected.count, 'element')}"
    tail = f" ({reference.shape_note})" if reference.shape_note else ""
    message = f"{name} has the shape {came}, expected {due}{hint}{tail}"
    return wrong("shape", message, tensor=name, expected=str(due), obtained=str(came))


def _stated(name: str, expected: Stored, obtained: Stored, reference: Reference) -> str:
    """That the dump has the shape which a key of the checkpoint's metadata states."""
    record = reference.raw().get(name)
    if record is None or record.path.suffix != ".gguf":
        return ""
    stated = stated_shape(record.path, name)
    if stated is None or obtained.shape not in (stated.shape, stated.shape[::-1]):
        return ""
    text = (
        f"; it is that of the checkpoint's key {safe(stated.key)}, {list(stated.shape)}, where the "
        "header's is owed"
    )
    return text + _elements(expected, obtained, reference)


def _elements(expected: Stored, obtained: Stored, reference: Reference) -> str:
    """Whether the elements, one after the other, are the reference's."""
    try:
        measures = compare(expected, replace(obtained, shape=expected.shape), reference.bounds)
    except FormatError:
        return ""
    if measures.passed:
        return f", and all {counted(expected.count, 'element')} are right in their order"
    return f"; {measures.bad:,} of {counted(expected.count, 'element')} differ besides"


def dtype(name: str, expected: Stored, obtained: Stored) -> Finding:
    """A dtype that the dump's carrier states, and that is another."""
    due, came = expected.dtype.name, obtained.dtype.name
    message = f"{name} is {came} in the {obtained.carrier} dump, expected {due}"
    return wrong("dtype", message, tensor=name, expected=due, obtained=came)
