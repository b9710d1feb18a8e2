"""Audit a generic bundle: derive the references of cases with a checkpoint again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from parity.bundle.manifest import read_manifest
from parity.bundle.tensor_case import TensorCase
from parity.diagnose.stages.find import allow_rounding, fit_type, measure_distance
from parity.diagnose.stages.operators import find_operator
from parity.diagnose.stages.trace import Trace
from parity.diagnose.stages.values import GRADIENT, TraceError, Values
from parity.lab import op_zoo
from parity.lab.audits import official_readers, operators, unused_bytes
from parity.lab.audits.compare_reference import (
    CaseFindings,
    DerivedTensor,
    Provenance,
    UnderivableError,
    audit_case,
    compare_references,
    make_error,
    make_notice,
    make_skipped,
)
from parity.lab.audits.serialize import read_references
from parity.lab.audits.written import compare_written
from parity.results import CaseResult
from parity.suites.messages import format_list
from parity.suites.tensors import rules
from parity.suites.tensors.stage_causes import make_trace
from parity.tensors.dtypes import TORCH_DTYPES
from parity.tensors.stored import StoredTensor

Deriver = Callable[[Path, dict[str, StoredTensor]], dict[str, DerivedTensor]]


def audit(
    tree: Path, bundle: str, provenance: Provenance, manifest: Path | None = None
) -> tuple[CaseResult, ...]:
    """Audit the cases of `parity.json`, or of a manifest; skip those without a checkpoint.

    The cases of the op zoo are called; a trace's stages are computed by NumPy; the right files of
    a case that writes some are read by the libraries of their formats.

    Raises:
        ReferenceSuspectError, ConfigError: It is wrong.
    """
    return tuple(
        _audit_case(tree, bundle, case, provenance) for case in read_manifest(tree, manifest).cases
    )


def _audit_case(tree: Path, bundle: str, case: TensorCase, provenance: Provenance) -> CaseResult:
    if case.writes and case.expect != "refuse":
        return audit_case(bundle, case.id, partial(compare_written, tree, case, provenance))
    if provenance.bundle == op_zoo.BUNDLE:
        derive = partial(_compare_call, case, provenance)
        return audit_case(bundle, case.id, derive, verb="called")
    if case.stages and case.reference is not None:
        return audit_case(bundle, case.id, partial(_compare_stages, case), may_skip=True)
    if reason := _explain_skip(case):
        return make_skipped(bundle, case.id, reason)
    return audit_case(bundle, case.id, partial(_compare_case, case, provenance), may_skip=True)


def _explain_skip(case: TensorCase) -> str:
    if case.expect != "load" or case.reference is None:
        return f"a case that expects {case.expect}: nothing to derive"
    if case.checkpoint is None:
        return "the case has no checkpoint to derive from"
    suffix = case.checkpoint.suffix
    return "" if suffix in _DERIVERS else f"no audit reads {suffix!r} files"


def _compare_call(case: TensorCase, provenance: Provenance) -> CaseFindings:
    """Compare one call of an operator with torch, and where NumPy can compute it, with NumPy."""
    findings, compared = operators.compare_call(case, provenance)
    if case.stages and all(one.level != "error" for one in findings):
        with suppress(UnderivableError):
            found, _ = _compare_stages(case)
            findings += [one for one in found if one.level == "error"]
    return findings, compared


def _compare_stages(case: TensorCase) -> CaseFindings:
    """Compare the stages that NumPy can compute from the references of what feeds them."""
    findings, compared = [], 0
    references = rules.read_references(case)
    rest = dict(references)
    for name, error, limit in _measure_stages(make_trace(case, references, {})):
        compared += rest.pop(name).count
        if error > limit:
            message = (
                "the reference is not what its inputs and arguments give, computed by NumPy: "
                f"max |Δ| {error:.3g}, allowed {limit:.3g}"
            )
            findings.append(make_error("reference-drift", message, tensor=name))
    if not compared:
        raise UnderivableError("no stage of the trace can be computed by NumPy")
    if rest:
        count = f"{len(rest)} of {len(references)} stages are computed by nothing but the pin"
        findings.append(make_notice("reference-underived", f"{count}: {format_list([*rest])}"))
    return findings, compared


def _measure_stages(trace: Trace) -> Iterator[tuple[str, float, float]]:
    """Yield the stages that can be computed, each with its reference's error and its limit.

    A stage is computed in float64 from the references of what feeds it; one whose rounding is so
    large that zeros would pass is left out.
    """
    values = Values(trace, (trace.expected,))
    for name, stage in trace.stages.items():
        try:
            is_known = stage.kind != GRADIENT and find_operator(stage.kind)
            if (expected := trace.expected(name)) is None or not is_known:
                continue
            right = fit_type(values.compute(name), expected)
        except TraceError:
            continue
        limit = allow_rounding(stage.rounding, expected)
        if not expected.any() or measure_distance(np.zeros_like(expected), expected) > limit:
            yield name, measure_distance(right, expected), limit


def _compare_case(case: TensorCase, provenance: Provenance) -> CaseFindings:
    if case.checkpoint is None or case.reference is None:
        return [], 0
    derive, libraries = _DERIVERS[case.checkpoint.suffix]
    references = read_references(case.reference)
    derived = derive(case.checkpoint, references)
    # A tensor without a reference is allowed, since they may be a sample.
    extra = {
        name: f"the checkpoint has no {name!r}, but there is a reference of it"
        for name in references
        if name not in derived
    }
    findings = [make_error("reference-extra", text, tensor=name) for name, text in extra.items()]
    versions = provenance.format_versions(*libraries)
    differing, compared = compare_references(references, derived, versions)
    findings += differing
    if derive is _derive_torch:
        loaded = official_readers.load_torch(case.checkpoint)
        findings += unused_bytes.find_unreferenced(case.checkpoint, loaded)
    return findings, compared


def _derive_torch(path: Path, references: dict[str, StoredTensor]) -> dict[str, DerivedTensor]:
    return _convert_state(official_readers.load_torch_state(path), references)


def _derive_safetensors(
    path: Path, references: dict[str, StoredTensor]
) -> dict[str, DerivedTensor]:
    packed = {one.dtype.name for one in references.values() if one.dtype.packed}
    if packed:  # torch has no 6-bit floats, and counts two 4-bit ones as one element
        message = f"torch reads no {', '.join(sorted(packed))} from safetensors element by element"
        raise UnderivableError(message)
    return _convert_state(official_readers.load_safetensors_state(path), references)


def _derive_gguf(path: Path, references: dict[str, StoredTensor]) -> dict[str, DerivedTensor]:
    """Take elements without blocks as they are where the reference has the same type."""
    derived = {}
    for name, tensor in official_readers.load_gguf_tensors(path).items():
        if (reference := references.get(name)) is not None:
            is_same = tensor.tensor_type.name == reference.dtype.name
            as_is = reference.suffix != ".bin" and is_same
            storage = reference.dtype.storage.str if as_is else ""
            derived[name] = official_readers.derive_gguf(tensor, storage)
    return derived


def _convert_state(
    state: dict[str, Any], references: dict[str, StoredTensor]
) -> dict[str, DerivedTensor]:
    """Convert each tensor that has a reference: to its own dtype, or to f32 for a `.bin`."""
    return {
        name: _convert_tensor(tensor, references[name])
        for name, tensor in state.items()
        if name in references
    }


def _convert_tensor(tensor: Any, reference: StoredTensor) -> DerivedTensor:
    """Keep the tensor's own dtype, so that another one is found; f32 if no file has it."""
    name = str(tensor.dtype).removeprefix("torch.")
    dtype = TORCH_DTYPES.get(name)
    if reference.suffix == ".bin" or (tensor.is_floating_point() and dtype is None):
        return official_readers.derive_f32(tensor)
    if dtype is None:
        raise UnderivableError(f"no reference can have the dtype {name} of torch")
    return official_readers.derive_elements(tensor, dtype.storage.str)


_DERIVERS: dict[str, tuple[Deriver, tuple[str, ...]]] = {
    ".pth": (_derive_torch, ("torch",)),
    ".pt": (_derive_torch, ("torch",)),
    ".safetensors": (_derive_safetensors, ("safetensors", "torch")),
    ".gguf": (_derive_gguf, ("gguf",)),
}
