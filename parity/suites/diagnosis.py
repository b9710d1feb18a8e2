"""Add to findings the cause that their data prove; sought only where something is wrong.

A verdict never depends on it: a diagnosis that fails leaves the finding as it is.
``parity.diagnose`` is imported here, late, so that a run that passes never loads it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from parity.items.matching import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
    if finding.code == "not-verified":
        return finding

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
