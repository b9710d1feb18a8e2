"""Faults in single stages of a trace: each known wrong way, and all later stages after it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from parity.bundle.case_parts import Stage
from parity.bundle.tensor_case import TensorCase
from parity.bundle.tensor_rules import Rule
from parity.diagnose.float_transforms import encode_bf16, round_through
from parity.diagnose.stages.find import fit_type, list_ways, measure_distance, read_ways
from parity.diagnose.stages.operators import find_operator
from parity.diagnose.stages.trace import Trace
from parity.diagnose.stages.values import TraceError, Values
from parity.lab.array_files import encode_file
from parity.lab.faults import Fault, InjectionResult
from parity.lab.zoo.case import ExpectedTensor
from parity.suites.tensors.stage_causes import make_trace
from parity.tensors.folder import list_tensors
from parity.tensors.stored import Tensors

Arrays = dict[str, Any]

#: Ways of every operator, which have one row together.
_GENERAL = ("stage-skipped", "stage-twice", *(way.code for way in read_ways()["*"]))
#: Ways that change last digits, which only data at the edges shows; others are planted anyway.
_FINE = ("digits-cancelled", "subnormals-lost")
_NO_TOLERANCE = 1e-30  # Of a stage that must be exact: less than any difference that counts
_TINY = float(np.finfo(np.float32).tiny)
#: Data that a way needs to be visible, by the name in ``ways.toml``: what they are, and where an
#: array of float64 or integers has them.
NEEDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "nan": ("NaN", np.isnan),
    "negative-zero": ("a negative zero", lambda one: (one == 0) & np.signbit(one)),
    "subnormal": ("a subnormal number", lambda one: (one != 0) & (np.abs(one) < _TINY)),
    "beyond-f32": (
        "a number that float32 rounds",
        lambda one: ~np.isnan(one) & (one != round_through(one, "f32")),
    ),
}


@dataclass(frozen=True)
class _Planted:
    """The output of a stage that goes a wrong way, and how visible that is."""

    stage: str
    values: Any
    size: float  # Largest difference; in units of the stage's tolerance where it has one
    needs: str = ""  # Data that the way needs, if no stage of the operator has it


def list_stage_faults(
    detail: TensorCase, references: Tensors, rules: Mapping[str, Rule]
) -> Iterator[Fault]:
    """List the wrong ways of a case's stages, each in the stage that shows it best.

    Args:
        detail: The case.
        references: By stage.
        rules: By stage, with its tolerance.
    """
    trace = make_trace(detail, references, {})
    narrow = {name for name, one in references.items() if one.dtype.name == "BF16"}
    rows: dict[tuple[str, str, str], _Planted] = {}
    for stage in detail.stages:
        for key, planted in list_planted(trace, stage, narrow):
            limit = find_atol(rules[stage.name]) if stage.name in rules else 1.0
            if key[0] in _FINE and planted.size < limit != _NO_TOLERANCE:
                continue
            if key not in rows or planted.size / limit > rows[key].size:
                rows[key] = replace(planted, size=planted.size / limit)
    for operator in {**{find_operator(stage.kind): 1 for stage in detail.stages}, "*": 1}:
        for way in read_ways().get(operator, ()):
            key = (way.code, operator.strip("*"), way.text)
            if key not in rows or rows[key].size == 0:
                rows[key] = _Planted("", None, 0.0, _find_lacking(trace, operator, way.needs))
    for key, one in rows.items():
        yield _make_fault(trace, key, one, narrow)


def list_planted(
    trace: Trace, stage: Stage, narrow: Collection[str] = ()
) -> Iterator[tuple[tuple[str, str, str], _Planted]]:
    """Yield the wrong ways of one stage; a stage that only moves elements has its own alone.

    Outputs of the stages in ``narrow`` are bfloat16.
    """
    right, operator = trace.expected(stage.name), find_operator(stage.kind)
    if not operator or (right is None and operator not in read_ways()):
        return
    values = Values(trace, (trace.expected,))
    if right is None:
        with suppress(TraceError):
            right = fit_type(values.compute(stage.name), np.zeros(0, np.float32))
        if right is None:
            return
    for code, text, wrong in list_ways(stage.kind, values.collect(stage)):
        if code not in _GENERAL or trace.expected(stage.name) is not None:
            with np.errstate(all="ignore"):
                planted = wrong.astype(right.dtype)
            planted = round_through(planted, "bf16") if stage.name in narrow else planted
            key = (code, "" if code in _GENERAL else operator, text)
            yield (
                key,
                _Planted(stage.name, planted, measure_seen(trace, stage.name, planted, right)),
            )


def measure_seen(trace: Trace, name: str, values: Any, right: Any) -> float:
    """Return the largest difference of a stage, of one that is stored by a sample in this."""
    sample = getattr(trace.expected, "samples", {}).get(name)
    if sample is not None and values.shape == right.shape:
        values, right = (one.reshape(-1)[sample.indices] for one in (values, right))
    return measure_distance(values, right)


def has_data(needs: str, values: Iterable[Any]) -> bool:
    """Return whether an array, or one of a list, has the data of one of ``NEEDS``."""
    lists = (one if isinstance(one, (list, tuple)) else [one] for one in values)
    arrays = (np.asarray(each) for one in lists for each in one)
    return any(NEEDS[needs][1](one).any() for one in arrays if one.dtype.kind in "fiu")


def _find_lacking(trace: Trace, operator: str, needs: str) -> str:
    """Return what no stage of an operator has, neither as input nor as output, of a way's needs.

    ``*`` stands for every operator; ``""`` if the way needs nothing, or if a stage has it.
    """
    values = Values(trace, (trace.expected,))
    for stage in trace.stages.values() if needs else ():
        if operator in ("*", find_operator(stage.kind)):
            with suppress(TraceError):
                if has_data(needs, (*values.collect(stage).values(), values.read(stage.name))):
                    return ""
    return NEEDS[needs][0] if needs else ""


def find_atol(rule: Rule) -> float:
    """Return the absolute tolerance of a stage, ``_NO_TOLERANCE`` where it has none."""
    return (
        max((check.bounds.get("atol", 0.0) for check in rule.checks or ()), default=0.0)
        or _NO_TOLERANCE
    )


def _make_fault(
    trace: Trace, key: tuple[str, str, str], one: _Planted, narrow: Collection[str]
) -> Fault:
    code, operator, text = key
    same = [way.text for way in read_ways().get(operator or "*", ()) if way.code == code]
    number = f"-{same.index(text) + 1}" if len(same) > 1 else ""
    return Fault(
        name=f"{code}{number}:{operator}".rstrip(":"),
        text=text,
        codes=(code,),
        inject=partial(_inject, trace, one, narrow),
        per_tensor=trace.expected(one.stage) is not None,
    )


def _inject(trace: Trace, one: _Planted, narrow: Collection[str], folder: Path) -> InjectionResult:
    """Write a dump whose stage goes the wrong way."""
    if not one.stage or one.size == 0:
        return InjectionResult(unchanged=(one.stage or "no stage",), needs=one.needs)
    values = recompute(trace, {one.stage: one.values})
    for name, right in list_tensors(folder).tensors.items():
        if name not in values:  # A sample that cannot be completed
            content = right.read_array().tobytes()
            values[name] = ExpectedTensor(right.dtype.name, right.shape, content)
    for path in [*folder.rglob("*")]:
        if path.is_file():
            path.unlink()
    for name in narrow:
        codes = encode_bf16(values[name])
        values[name] = ExpectedTensor("BF16", codes.shape, codes.tobytes())
    (folder / "stages.safetensors").write_bytes(encode_file("stages.safetensors", values))
    return InjectionResult(changed=(one.stage,))


def recompute(trace: Trace, wrong: Mapping[str, Any]) -> Arrays:
    """Return all stages of a trace, those that a wrong one feeds computed after it.

    One that cannot be computed, such as a gradient, keeps its reference.
    """
    affected: set[str] = set()
    result: Arrays = {}

    def read(name: str) -> Any:
        return result.get(name) if name in affected else trace.expected(name)

    for name, stage in trace.stages.items():
        right = trace.expected(name)
        if name in wrong or affected.intersection(stage.sources):
            affected.add(name)
        if right is None:
            continue
        result[name] = wrong.get(name, right)
        if name in affected and name not in wrong:
            with suppress(TraceError):
                result[name] = np.asarray(Values(trace, (read,), wrong).compute(name)).astype(
                    right.dtype
                )
    return result
