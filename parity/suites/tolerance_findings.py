"""What a passing comparison says of its bound: nearly used up, or blind to what it lets pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.results import Finding
from parity.suites.messages import format_count, format_list
from parity.tensors.paired_reads import read_chunks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from parity.suites.tensor_findings import TensorReference
    from parity.tensors.folder import FolderContents
    from parity.tensors.measures import Measures
    from parity.tensors.stored import StoredTensor

#: Share of a bound beyond which its use is worth a notice.
NEAR_SHARE = 0.8
#: Error beside the largest value of a block that no rounding reaches, not even to bfloat16,
#: and every wrong decoder of a GGUF type does (held by a test over all of them).
ROUNDING = 2.0**-8
#: Elements of the smallest blocks; a larger block consists of such.
_BLOCK_SIZE = 32


def check_tensors(
    reference: TensorReference, found: FolderContents, results: Mapping[str, Measures]
) -> tuple[list[Finding], dict[str, dict[str, Any]]]:
    """What passing tensors say of their bound.

    Returns:
        Findings, and by tensor the scale-aware measures of those that were dequantised and
        are not right to the last bit.
    """
    passing = {name: m for name, m in results.items() if m.passed}
    findings = check_near_bound({name: m.margin for name, m in passing.items()})
    measures = {}
    for name, result in passing.items():
        if result.max_abs > 0 and name in reference.widened and "max_abs" in reference.tolerances:
            pair = reference.tensors[name], found.tensors[name]
            more, measures[name] = check_blind_bound(name, *pair, reference.tolerances)
            findings += more
    return findings, measures


def check_near_bound(margins: Mapping[str, float | None]) -> list[Finding]:
    """The notice for what passes with more than ``NEAR_SHARE`` of its bound used.

    Args:
        margins: Share of the bound that was used, by the tensor's name; only those that pass.
    """
    close = {
        name: share for name, share in margins.items() if share is not None and share > NEAR_SHARE
    }
    if not close:
        return []
    worst = max(close, key=lambda name: close[name])
    message = (
        f"{format_count(len(close), 'tensor')} of {len(margins):,} use more than {NEAR_SHARE:.0%} of the "
        f"bound, most of it {worst} with {close[worst]:.1%}: {format_list(close)}"
    )
    measures = {"near_bound": dict(close)}
    return [
        Finding(level="notice", code="near-bound", message=message, tensor=worst, measures=measures)
    ]


@dataclass(frozen=True)
class BlockError:
    """Errors beside the size of the values around them.

    Attributes:
        worst: Largest error over the largest value of its block of 32.
        nmse: Sum of squared errors over sum of squared values.
        largest: Largest value of the tensor.
    """

    worst: float
    nmse: float
    largest: float


def measure_block_error(expected: StoredTensor, obtained: StoredTensor) -> BlockError:
    """The scale-aware measure of two float tensors of one shape, read a part at a time."""
    worst = largest = squares = errors = 0.0
    for chunk in read_chunks(expected, obtained, range(expected.count)):
        expected_values = expected.dtype.decode(chunk.expected)
        gap = np.abs(obtained.dtype.decode(chunk.obtained) - expected_values)
        worst = max(worst, _measure_blocks(gap, np.abs(expected_values)))
        largest = max(largest, float(np.abs(expected_values).max(initial=0.0)))
        squares, errors = (
            squares + float(expected_values @ expected_values),
            errors + float(gap @ gap),
        )
    with np.errstate(all="ignore"):
        nmse = float(np.float64(errors) / squares) if errors else 0.0
    return BlockError(worst, nmse, largest)


def _measure_blocks(gap: NDArray[np.float64], size: NDArray[np.float64]) -> float:
    pad = -len(gap) % _BLOCK_SIZE
    gaps, sizes = (np.pad(part, (0, pad)).reshape(-1, _BLOCK_SIZE) for part in (gap, size))
    top, error = sizes.max(axis=1), gaps.max(axis=1)
    with np.errstate(all="ignore"):
        return float(np.where(error == 0, 0.0, error / top).max(initial=0.0))


def check_blind_bound(
    name: str, expected: StoredTensor, obtained: StoredTensor, tolerances: Mapping[str, float]
) -> tuple[list[Finding], dict[str, Any]]:
    """The warning for a tensor that passes a bound which cannot see a wrong decoder there.

    A tensor that is right to the last bit needs none; nor does one whose bounds state
    ``relative`` or ``ulp``, which are asked with the others.

    Returns:
        The findings, and the measures ``measure_block_error`` and ``nmse``.
    """
    error = measure_block_error(expected, obtained)
    measures = {"block_error": error.worst, "nmse": error.nmse}
    if "relative" in tolerances or "ulp" in tolerances or not error.worst > ROUNDING:
        return [], measures
    message = (
        f"{name} passes max_abs <= {tolerances['max_abs']:g} only because its values are small (at "
        f"most {error.largest:.3g}): it is off by {error.worst:.2g} of the largest value of a "
        f"block (nmse {error.nmse:.2g}), which a wrong decoder does and a rounding does not; "
        "state `relative` or `ulp` in `bounds` to decide it"
    )
    finding = Finding(
        level="warning", code="blind-bound", message=message, tensor=name, measures=measures
    )
    return [finding], measures
