"""Audit calls of operators: torch computes each again, and must reject what a port must reject."""

from __future__ import annotations

import json
from math import prod

from parity.bundle.tensor_case import TensorCase
from parity.bundle.tensor_rules import EXACT, resolve_rules
from parity.lab.array_files import read_arrays
from parity.lab.audits.compare_reference import (
    CaseFindings,
    Provenance,
    compare_names,
    make_error,
    make_notice,
)
from parity.lab.op_zoo.case import OpCase, read_operators
from parity.lab.op_zoo.compare import find_difference
from parity.lab.op_zoo.reference import REJECTIONS, compute_reference
from parity.suites.tensors.rules import read_references


def compare_call(case: TensorCase, provenance: Provenance) -> CaseFindings:
    """Compare a case with what the installed torch does.

    A result may differ by a tenth of its tolerance, or by a unit in the last place. What another
    version of torch does is a notice.

    Raises:
        ValueError: The words of the case name no call.
    """
    if case.words.get("op") not in read_operators() or "args" not in case.words:
        raise ValueError(f"words: {dict(case.words)} name no operator of the op zoo, or no args")
    versions = provenance.format_versions("torch")
    is_same = provenance.made_with.get("torch") == provenance.installed.get("torch")
    report = make_error if is_same else make_notice
    inputs = {name: one for path in case.inputs for name, one in read_arrays(path).items()}
    call = OpCase(
        op=case.words["op"],
        name=case.id,
        inputs=inputs,
        args=json.loads(case.words["args"]),
        why=case.why,
        rule=case.rule,
    )
    try:
        outputs = compute_reference(call)
    except Exception as error:  # noqa: BLE001 - torch raises errors of many types
        if case.expect == "refuse" and isinstance(error, REJECTIONS):
            return [], 0
        verb = "rejects" if isinstance(error, REJECTIONS) else "cannot make"
        message = f"torch {verb} the call: {type(error).__name__}: {error!s:.200}"
        return [report("reference-drift", message, details=(versions,))], 0
    if case.expect == "refuse":
        message = "torch accepts a call that must be rejected"
        return [report("reference-drift", message, details=(versions,))], 0
    references = read_arrays(case.reference) if case.reference else {}
    rules, _, _ = resolve_rules(case.rules, read_references(case), case.id)
    findings = compare_names(references, outputs, "torch")
    for name in (one for one in references if one in outputs):
        (check,) = rules[name].checks or EXACT
        if text := find_difference(references[name], outputs[name], check.bounds):
            message = f"torch gives {text}"
            findings.append(report("reference-drift", message, tensor=name, details=(versions,)))
    return findings, sum(prod(one.shape) for one in references.values())
