"""Add to findings the cause that their data prove; sought only where something is wrong.

A verdict never depends on it: a diagnosis that fails leaves the finding as it is.
``parity.diagnose`` is imported here, late, so that a run that passes never loads it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from parity.checkpoints import StorageLocation
    from parity.diagnose.cause import Cause
    from parity.results import Finding
    from parity.tensors.stored import StoredTensor, Tensors


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
    others: Tensors,
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
    """Find a decoder's known mistake that gives the dump bit by bit, as the right one does not."""
    from parity.diagnose import FailingTensor, block_mistakes

    try:
        tensor = FailingTensor.of(
            name, expected, obtained, bounds={"exact": 1.0}, raw=location, others=dict
        )
        return block_mistakes.find_exact_mistake(tensor)
    except Exception:  # noqa: BLE001 - no verdict depends on a diagnosis
        return None


def add_loader_cause(finding: Finding, name: str, *arguments: Any) -> Finding:
    """Add the cause that a function of ``diagnose.loaders.causes`` finds to an error."""

    def find() -> Cause | None:
        from parity.diagnose.loaders import causes

        found: Cause | None = getattr(causes, name)(*arguments)
        return found

    return add_cause(finding, find) if finding.level == "error" else finding
