"""Add to findings the cause that their data prove; sought only where something is wrong.

A verdict never depends on it: a diagnosis that fails leaves the finding as it is.
``parity.diagnose`` is imported here, late, so that a run that passes never loads it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from parity.items.matching import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from parity.checkpoints import StorageLocation
    from parity.diagnose.cause import Cause
    from parity.results import Finding
    from parity.suites.item_findings import LoaderAudit
    from parity.tensors.stored import StoredTensor


def add_cause(finding: Finding, find: Callable[[], Cause | None]) -> Finding:
    """Add the cause that ``find`` proves; its code is among the measures."""
    try:
        cause = find()
    except Exception:  # noqa: BLE001 - no verdict depends on a diagnosis
        return finding
    if cause is None:
        return finding
    measures = {**finding.measures, "cause_code": cause.code}
    return replace(finding, cause=str(cause), measures=measures)


def add_tensor_cause(
    finding: Finding,
    expected: StoredTensor,
    obtained: StoredTensor,
    tolerances: Mapping[str, float],
    *,
    locate: Callable[[], Mapping[str, StorageLocation]],
    others: Mapping[str, StoredTensor],
) -> Finding:
    """Add the cause to a finding about the values of a tensor, which it names.

    ``locate`` returns where the bundle's tensors, whose references are ``others``, are in their
    checkpoint.
    """
    name = finding.tensor or ""

    def find() -> Cause | None:
        from parity.diagnose import FailingTensor, diagnose

        location = locate().get(name)
        more = {"bounds": tolerances, "raw": location, "others": lambda: others}
        return diagnose(FailingTensor.of(name, expected, obtained, **more))

    return add_cause(finding, find)


def find_wrong_decoder(
    name: str, expected: StoredTensor, obtained: StoredTensor, location: StorageLocation
) -> Cause | None:
    """Find the known mistake of a quantised type's decoder that gives the dump bit by bit.

    Return None where no known mistake does, or the right decoder does so, too.
    """
    from parity.diagnose import FailingTensor, block_mistakes

    try:
        tensor = FailingTensor.of(
            name, expected, obtained, bounds={"exact": 1.0}, raw=location, others=dict
        )
        return block_mistakes.find_exact_mistake(tensor)
    except Exception:  # noqa: BLE001 - no verdict depends on a diagnosis
        return None


def add_delivery_cause(findings: Sequence[Finding], audit: LoaderAudit) -> list[Finding]:
    """Add the cause of the whole run to findings about delivered items and their order."""
    if (audit.obtained == UNKNOWN).any():
        return list(findings)

    def find() -> Cause | None:
        from parity.diagnose.loaders import causes

        return (causes.find_run_cause if audit.trusted else causes.find_batch_order)(audit)

    return [add_cause(one, find) if one.level == "error" else one for one in findings]


def add_feature_cause(finding: Finding, audit: LoaderAudit) -> Finding:
    """Add the cause to a finding about unknown rows; in an ordered case each has its item."""

    def find() -> Cause | None:
        from parity.diagnose.loaders import causes

        expected, obtained = audit.table[audit.expected], audit.batches.features
        if audit.ordered and len(expected) == len(obtained):
            return causes.find_value_function(
                expected, obtained, audit.tolerance, "feature value", "feature values"
            )
        return causes.find_row_rounding(expected, obtained, "feature values")

    return add_cause(finding, find)


def add_label_cause(
    finding: Finding, audit: LoaderAudit, expected_labels: NDArray[np.floating]
) -> Finding:
    """Add the cause to a finding about labels that are not those of their items."""

    def find() -> Cause | None:
        from parity.diagnose.loaders import causes

        known = audit.obtained != UNKNOWN
        obtained = audit.obtained[known]
        # Rows that are no item leave holes, over which only a roll of the rest can be seen.
        whole = bool(known.all())
        table = expected_labels if whole else expected_labels[:0]
        sizes = audit.batches.sizes if whole else ()
        return causes.find_label_cause(
            expected_labels[obtained], audit.batches.labels[known], table, obtained, sizes
        )

    return add_cause(finding, find)


def add_output_cause(
    findings: Sequence[Finding],
    folder: Path,
    *,
    inputs: Mapping[str, Any],
    expected: Mapping[str, Any],
    obtained: Mapping[str, Any],
    tolerance: float,
) -> list[Finding]:
    """Add the cause to those of a case's ``findings`` that are about outputs of its model.

    The case's ``folder`` has the MLP's weights; ``tolerance`` is absolute.
    """

    def find() -> Cause | None:
        from parity.diagnose import onnx_mlp

        weights = [*_read_weights(folder).values()]
        return onnx_mlp.find_mlp_mistake(weights, inputs, expected, obtained, tolerance)

    return [
        add_cause(finding, find)
        if finding.level == "error" and (finding.tensor or "").startswith("onnx-vs-torch/")
        else finding
        for finding in findings
    ]


def add_model_cause(
    findings: Sequence[Finding], folder: Path, file: Path, inputs: Any
) -> list[Finding]:
    """Add the cause to those of a case's ``findings`` about a model that does not load or run.

    ``inputs`` are those of the model ``file`` by onnxruntime: name, type, shape.
    """

    def find() -> Cause | None:
        from parity.diagnose import onnx_weights

        weights = _read_weights(folder)
        return onnx_weights.find_unfilled_inputs(
            inputs or [], weights
        ) or onnx_weights.find_misplaced_weights(file, weights)

    codes = ("onnx-load", "onnx-run")
    return [add_cause(f, find) if f.code in codes else f for f in findings]


def _read_weights(folder: Path) -> dict[str, NDArray[np.float32]]:
    from parity.tensors.bin import read_tensors

    names = ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")
    return dict(zip(names, read_tensors(folder / "mlp_weights.bin", 4), strict=True))
