"""Make the op zoo: some thousand calls of operators at their edges, and the right results.

A case is one call. Its row in the data files has operator, inputs, arguments and what a port must
do; torch computes the reference, NumPy a second time what torch is believed by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parity.diagnose.stages.find import allow_rounding, fit_type, measure_distance
from parity.diagnose.stages.operators import ERRORS, compute
from parity.errors import Problem, ReferenceSuspectError
from parity.lab.array_files import to_array
from parity.lab.bundle_writer import BundleWriter
from parity.lab.libraries import import_library, require_version
from parity.lab.op_zoo.arrays import SEED
from parity.lab.op_zoo.case import OpCase, read_cases
from parity.lab.op_zoo.compare import find_difference, round_like
from parity.lab.op_zoo.reference import REJECTIONS, compute_reference
from parity.lab.op_zoo.witness import compute_witness, name_stage, read_arguments
from parity.lab.pins.trace_stage import measure_drift
from parity.lab.zoo.case import ExpectedTensor
from parity.tensors.dtypes import DTYPES

BUNDLE = "op-zoo-v1"
_INPUTS, _REFERENCE = "inputs.safetensors", "expected.safetensors"
_LIBRARIES = ("torch", "numpy", "mpmath")
#: torch's relative tolerance by dtype, without the absolute one that hides small numbers.
_RELATIVE = {"F16": 1e-3, "BF16": 1.6e-2, "F32": 1.3e-6, "F64": 1e-7}


def pin(target_dir: Path) -> Path:
    """Write ``op-zoo-v1.tar`` into ``target_dir``; return its path. There are no options.

    Raises:
        ConfigError: A library is missing.
        ReferenceSuspectError: torch and its witness disagree, torch accepts what must be
            rejected, or two cases are one.
    """
    cases = read_cases()
    faults = list(_find_repeats(cases))
    writer = BundleWriter(BUNDLE, tolerance="close")
    if not faults:
        faults = [text for case in cases for text in _add_case(writer, case)]
    if faults:
        raise ReferenceSuspectError(*(Problem("reference-suspect", text) for text in faults))
    writer.add_file("provenance.json", _describe_provenance())
    return writer.write(target_dir)


def _find_repeats(cases: Sequence[OpCase]) -> Iterator[str]:
    """Find cases of one id, and cases that are one call."""
    ids = Counter(case.id.casefold() for case in cases)
    calls = [(*case.words.values(), tuple(case.inputs.items())) for case in cases]
    counts = Counter(calls)
    for case, call in zip(cases, calls, strict=True):
        if ids[case.id.casefold()] > 1:
            yield f"{case.id} is the id of {ids[case.id.casefold()]} cases"
        if counts[call] > 1:
            yield f"{case.id}: another case is the same call"


def _add_case(writer: BundleWriter, case: OpCase) -> list[str]:
    """Add a case to the bundle; return what is wrong with it."""
    entry: dict[str, Any] = {
        "group": case.op,
        "expect": case.expect,
        "why": case.why,
        "rule": case.rule,
        "words": case.words,
    }
    if case.inputs:
        writer.add_file(f"{case.id}/{_INPUTS}", case.inputs)
        entry["inputs"] = [_INPUTS]
    try:
        outputs = compute_reference(case)
    except Exception as error:  # noqa: BLE001 - torch raises errors of many types
        if case.expect != "refuse" or not isinstance(error, REJECTIONS):
            return [f"{case.id}: torch rejects it: {type(error).__name__}: {error}"]
        folder = {} if case.inputs else {"folder": "."}
        writer.manifest["cases"][case.id] = entry | folder
        return []
    if case.expect == "refuse":
        return [f"{case.id}: torch accepts it"]
    rules = {name: find_tolerance(case.tolerance, one) for name, one in outputs.items()}
    try:
        is_float = any(to_array(one).dtype.kind == "f" for one in outputs.values())
        witnessed = compute_witness(case, is_float=is_float)
    except (*ERRORS, NotImplementedError) as error:
        return [f"{case.id}: no witness: {type(error).__name__}: {error}"]
    faults = [
        f"{case.id}: the witness of {name} has {text}"
        for name, one in outputs.items()
        if (text := find_difference(one, round_like(witnessed[name], one), rules[name]))
    ]
    if faults:
        return faults
    if stages := _describe_stages(case, outputs, witnessed):
        entry |= {"stages": stages, "outputs": list(outputs)}
    entry |= _state_tolerances(rules)
    writer.add_case(case.id, outputs, reference=_REFERENCE)
    writer.manifest["cases"][case.id] |= entry
    return []


#: A rounding that is as good as 0, which a manifest cannot state: it says that none is known.
_NO_ROUNDING = 5e-324
_LARGE = 1000.0  # Values from which on a stage's are compared relative to them


def find_tolerance(kind: str, output: ExpectedTensor) -> Mapping[str, Any]:
    """Return the tolerance of an output; a NaN may have any payload, even where all is exact."""
    array = to_array(output)
    if array.dtype.kind != "f":
        return {"exact": True}
    if kind == "exact":
        return {"ulp": 0} if np.isnan(array).any() else {"exact": True}
    if kind == "relative":
        return {"relative": _RELATIVE[output.dtype]}
    return {"close": True} if kind == "close" else {"ulp": int(kind.removeprefix("ulp"))}


def _state_tolerances(rules: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the keys of a case that state its tolerances; `close` is the manifest's default."""
    stated = [one for one in rules.values() if one != {"close": True}]
    if not stated:
        return {}
    if all(one == stated[0] for one in rules.values()):
        return {"tolerance": stated[0]}
    return {"tensors": {name: {"tolerance": one} for name, one in rules.items()}}


def _describe_stages(
    case: OpCase, outputs: Mapping[str, ExpectedTensor], witnessed: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the stages of a case: its views, then one for each output.

    None where ``parity.diagnose`` does not compute an output as torch does.
    """
    arrays, args = read_arguments(case)
    floats = {name for name, one in arrays.items() if one.dtype.kind == "f"}
    arrays |= {name: arrays[name].astype(np.float64) for name in floats}  # As a cause has them
    bound = case.bind({name: name for name in case.inputs})
    views = {name: f"{name}.view" for name in case.args.get("views", {})}
    fed = {
        key: views.get(name, name) if isinstance(name, str) else name for key, name in bound.items()
    }
    stages = [
        {"name": views[name], **_describe_view(name, view)}
        for name, view in case.args.get("views", {}).items()
    ]
    known = 0
    for at, (name, one) in enumerate(outputs.items()):
        output = {"output": at} if len(outputs) > 1 else {}
        kind, given = name_stage(case.op, {**case.bind(arrays), **args})
        given |= output
        _, feeds = name_stage(case.op, dict(fed))
        expected = to_array(one)
        rounding = _find_rounding(case, one, np.asarray(witnessed[name], np.float64))
        stage: dict[str, Any] = {"name": name, "feeds": feeds}
        try:
            found = fit_type(compute(kind, given), expected)
            if np.isfinite(rounding) and measure_distance(found, expected) <= allow_rounding(
                rounding, expected
            ):
                arguments = {key: value for key, value in given.items() if key not in feeds}
                stage |= {"kind": kind, "arguments": _spell(arguments), "rounding": rounding}
                known += 1
        except ERRORS:
            pass
        stages.append({key: value for key, value in stage.items() if value})
    return stages if known else []


def _find_rounding(case: OpCase, output: ExpectedTensor, witnessed: Any) -> float:
    """Return the rounding of an output: none where it is exact, else at least one of its dtype."""
    array = to_array(output)
    finite = np.isfinite(array) & np.isfinite(witnessed)
    rounding, _ = measure_drift(array[finite], witnessed[finite])
    if case.tolerance == "exact":
        return rounding or _NO_ROUNDING
    sizes = np.abs(array[finite])
    plain = sizes[sizes < _LARGE] if (sizes < _LARGE).any() else sizes
    return max(rounding, DTYPES[output.dtype].epsilon / 2 * float(plain.max(initial=0.0)))


def _describe_view(name: str, view: Mapping[str, list[int]]) -> dict[str, Any]:
    [(kind, numbers)] = view.items()
    names = _VIEWS[kind]
    arguments = {"shape": numbers} if kind == "expand" else dict(zip(names, numbers, strict=True))
    call = "slice" if kind == "step" else kind
    return {"kind": f"aten.{call}", "arguments": arguments, "feeds": {"input": name}}


_VIEWS = {
    "transpose": ("dim0", "dim1"),
    "step": ("dim", "step"),
    "narrow": ("dim", "start", "length"),
    "expand": (),
}


def _spell(value: Any) -> Any:
    """Spell infinities and NaN as texts, as JSON needs them."""
    if isinstance(value, dict):
        return {key: _spell(one) for key, one in value.items()}
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def _describe_provenance() -> dict[str, Any]:
    torch = import_library("torch")
    return {
        "schema": 1,
        "bundle": BUNDLE,
        "versions": {name: require_version(name) for name in _LIBRARIES},
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "seeds": {"inputs": SEED},
        "licence": "MIT",
    }
