"""Findings with the cause that their data prove; looked for only where something is wrong.

A verdict never depends on it: a diagnosis that fails leaves the finding as it is.
``parity.diagnose`` is imported here, late, so that a run that passes never loads it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from parity.matching import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from parity.codecs.stored import Stored
    from parity.diagnose.cause import Cause
    from parity.raw import Raw
    from parity.results import Finding
    from parity.suites.item_findings import Audit

#: Failing tensors of a case that are diagnosed; after so many the reader has seen enough.
MOST = 64


def with_cause(finding: Finding, find: Callable[[], Cause | None]) -> Finding:
    """``finding`` with the cause that ``find`` proves; its code is among the measures."""
    try:
        cause = find()
    except Exception:  # noqa: BLE001 - a hint that cannot be had must not cost the verdict
        return finding
    if cause is None:
        return finding
    measures = {**finding.measures, "cause_code": cause.code}
    return replace(finding, cause=str(cause), measures=measures)


def tensor(
    finding: Finding,
    expected: Stored,
    obtained: Stored,
    bounds: Mapping[str, float],
    *,
    raw: Callable[[], Mapping[str, Raw]],
    others: Mapping[str, Stored],
) -> Finding:
    """A finding about the values of a tensor.

    Args:
        finding: Names the tensor.
        expected: Its reference.
        obtained: Its dump.
        bounds: Those that it breaks.
        raw: Where the bundle's tensors lie in their checkpoint.
        others: The bundle's other references.
    """
    name = finding.tensor or ""

    def find() -> Cause | None:
        from parity.diagnose import Subject, diagnose

        record = raw().get(name)
        more = {"bounds": bounds, "raw": record, "others": lambda: others}
        return diagnose(Subject.of(name, expected, obtained, **more))

    return with_cause(finding, find)


def items(findings: Sequence[Finding], audit: Audit) -> list[Finding]:
    """Findings about who came and in which order, each with the cause of the whole run."""
    told = [finding for finding in findings if finding.level == "error"]
    if not told or (audit.came == UNKNOWN).any():
        return list(findings)

    def find() -> Cause | None:
        from parity.diagnose import loaders

        # Only a pipeline names its items, and only its orders are NumPy's.
        count = len(audit.table) if audit.names is not None else 0
        return loaders.delivery(
            loaders.Delivery(
                due=audit.due,
                came=audit.came,
                due_sizes=audit.due_sizes,
                sizes=audit.batches.sizes,
                ordered=audit.ordered,
                numpy=count,
                first=audit.first_batch,
                position=audit.position,
                key=audit.key,
            )
        )

    return [with_cause(finding, find) if finding in told else finding for finding in findings]


def features(finding: Finding, audit: Audit) -> Finding:
    """A finding about rows that are no item; an order that is owed says which each should be."""

    def find() -> Cause | None:
        from parity.diagnose import functions

        due, came = audit.table[audit.due], audit.batches.features
        if audit.ordered and len(due) == len(came):
            return functions.function(due, came, audit.bound, "feature value", "feature values")
        return functions.narrowed(due, came, "feature values")

    return with_cause(finding, find)


def labels(finding: Finding, audit: Audit, due_labels: NDArray[np.floating]) -> Finding:
    """A finding about labels that are not those of their items."""

    def find() -> Cause | None:
        from parity.diagnose import loaders

        known = audit.came != UNKNOWN
        came = audit.came[known]
        # Rows that are no item leave holes, over which only a roll of the rest can be seen.
        whole = bool(known.all())
        table, sizes = (due_labels, audit.batches.sizes) if whole else (due_labels[:0], ())
        return loaders.labels(due_labels[came], audit.batches.labels[known], table, came, sizes)

    return with_cause(finding, find)


def outputs(
    findings: Sequence[Finding],
    folder: Path,
    *,
    inputs: Mapping[str, Any],
    due: Mapping[str, Any],
    came: Mapping[str, Any],
    bound: float,
) -> list[Finding]:
    """Findings about the outputs of an exported model.

    Args:
        findings: All of the case.
        folder: The case's, with the MLP's weights.
        inputs: By name.
        due: Right outputs.
        came: Outputs of the model.
        bound: Largest difference, absolute.
    """

    def find() -> Cause | None:
        from parity.codecs.bin import read_tensors
        from parity.diagnose import forward

        weights = read_tensors(folder / "mlp_weights.bin", 4)
        return forward.forward(weights, inputs, due, came, bound)

    wrong = [finding for finding in findings if _about_outputs(finding)]
    return [with_cause(finding, find) if finding in wrong else finding for finding in findings]


def _about_outputs(finding: Finding) -> bool:
    return finding.level == "error" and (finding.tensor or "").startswith("onnx-vs-torch/")


def model(findings: Sequence[Finding], folder: Path, file: Path, inputs: Any) -> list[Finding]:
    """Findings about a model that cannot be loaded or run.

    Args:
        findings: All of the case.
        folder: The case's, with the MLP's weights.
        file: The exported model.
        inputs: What onnxruntime says of its inputs: name, type, shape.
    """

    def find() -> Cause | None:
        from parity.codecs.bin import read_tensors
        from parity.diagnose import forward

        arrays = read_tensors(folder / "mlp_weights.bin", 4)
        names = ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")
        weights = dict(zip(names, arrays, strict=True))
        return forward.unfilled(inputs or [], weights) or forward.misplaced(file, weights)

    odd = ("onnx-load", "onnx-run")
    return [with_cause(f, find) if f.code in odd else f for f in findings]
