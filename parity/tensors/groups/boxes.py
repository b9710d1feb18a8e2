"""The measure of detected objects: boxes matched by overlap, with what belongs to each box."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.tensors import FormatError
from parity.tensors.groups.base import Condition, Group, Measure, Outcome, Setting, read_side
from parity.tensors.stored import StoredTensor

#: Boxes of one side, at most: every one is compared with every one of the other side.
MAX_BOXES = 5000
_CORNERS = 4
_MASK = 0.5  # from which on a pixel is inside


def compute_boxes(group: Group, settings: Mapping[str, Any]) -> Outcome:
    """Match boxes by their overlap, the largest first; compare what belongs to matched ones."""
    (pair,) = group[""]
    expected, obtained = (_read_boxes(side) for side in pair)
    matches = _match_boxes(expected, obtained, settings["iou"])
    fewer, more = sorted((len(expected), len(obtained)))
    rate = len(matches) / len(expected) if len(expected) else 1.0
    conditions = [
        Condition("count_ratio", fewer / more if more else 1.0, ">=", settings["count_ratio"]),
        Condition("match_rate", rate, ">=", settings["match_rate"]),
    ]
    for name, (setting, sign, compute) in _MEMBERS.items():
        if name not in group:
            continue
        sides = [read_side(side) for side in group[name][0]]
        if any(
            side.shape[:1] != boxes.shape[:1]
            for side, boxes in zip(sides, (expected, obtained), strict=True)
        ):
            conditions.append(Condition(f"{name} beside each box", math.nan, "<=", 0))
            continue
        values = [compute(sides[0][left], sides[1][right]) for left, right in matches]
        # NaN stays NaN, which is within no limit.
        worst = (np.max if sign == "<=" else np.min)(values) if values else None
        if worst is not None:
            conditions.append(Condition(setting, float(worst), sign, settings[setting]))
    lost = set(range(len(expected))) - {left for left, _ in matches}
    return Outcome(tuple(conditions), (min(lost),) if lost else None)


def _read_boxes(tensor: StoredTensor) -> NDArray[np.float64]:
    if len(tensor.shape) != 2 or tensor.shape[1] != _CORNERS:  # noqa: PLR2004 - rows of boxes
        raise FormatError("shape", f"has the shape {list(tensor.shape)}, expected [N, {_CORNERS}]")
    if tensor.shape[0] > MAX_BOXES:
        raise FormatError("too-large", f"has {tensor.shape[0]:,} boxes; at most {MAX_BOXES:,}")
    return read_side(tensor).astype(np.float64)


def _match_boxes(
    expected: NDArray[np.float64], obtained: NDArray[np.float64], least: float
) -> list[tuple[int, int]]:
    """Pair boxes, each at most once, whose intersection over union is more than ``least``."""
    left, right = expected[:, None, :], obtained[None, :, :]  # overlaps are [n, m]
    with np.errstate(all="ignore"):
        corners = (
            np.maximum(left[..., :2], right[..., :2]),
            np.minimum(left[..., 2:], right[..., 2:]),
        )
        inside = np.clip(corners[1] - corners[0], 0, None).prod(axis=-1)
        areas = [(side[..., 2:] - side[..., :2]).prod(axis=-1) for side in (left, right)]
        iou = inside / (areas[0] + areas[1] - inside)
    overlap = np.where(np.isfinite(iou), iou, 0.0)
    pairs = np.argwhere(overlap > least)
    order = np.argsort(-overlap[tuple(pairs.T)], kind="stable")
    taken: tuple[set[int], set[int]] = (set(), set())
    matches = []
    for one, other in pairs[order].tolist():
        if one not in taken[0] and other not in taken[1]:
            taken[0].add(one)
            taken[1].add(other)
            matches.append((one, other))
    return matches


def _compute_gap(expected: NDArray[Any], obtained: NDArray[Any]) -> float:
    with np.errstate(all="ignore"):
        return float(np.abs(np.float64(obtained) - np.float64(expected)).max(initial=0.0))


def _compute_mask_iou(expected: NDArray[Any], obtained: NDArray[Any]) -> float:
    if expected.shape != obtained.shape:
        return math.nan
    left, right = expected > _MASK, obtained > _MASK
    union = int((left | right).sum())
    return int((left & right).sum()) / union if union else 1.0


def _compute_distance(expected: NDArray[Any], obtained: NDArray[Any]) -> float:
    """Return the largest distance of key points ``[k, 2]``, further columns left out."""
    if expected.shape != obtained.shape or not expected.ndim:
        return math.nan
    with np.errstate(all="ignore"):
        gaps = np.float64(obtained[..., :2]) - np.float64(expected[..., :2])
        return float(np.sqrt(np.square(gaps).sum(axis=-1)).max(initial=0.0))


_MEMBERS: dict[str, tuple[str, Any, Any]] = {
    "scores": ("score", "<=", _compute_gap),
    "labels": ("label", "<=", _compute_gap),
    "masks": ("mask_iou", ">=", _compute_mask_iou),
    "keypoints": ("pixels", "<=", _compute_distance),
}


def _check_boxes(tensor: StoredTensor, settings: Mapping[str, Any]) -> str:
    if len(tensor.shape) != 2 or tensor.shape[1] != _CORNERS:  # noqa: PLR2004 - rows of boxes
        return f"needs boxes [N, {_CORNERS}], not {list(tensor.shape)}"
    needed = [
        f"{limit} for {name}"
        for name, (limit, *_) in _MEMBERS.items()
        if settings[name] is not None and settings[limit] is None
    ]
    return f"needs {' and '.join(needed)}" if needed else ""


BOXES = Measure(
    name="boxes",
    text="detected objects: boxes `[N, 4]` of two corners, N of each side its own, matched by "
    "intersection over union, and what belongs to the matched ones",
    settings={
        "iou": Setting("a match has more than this intersection over union", most=1.0),
        "match_rate": Setting("smallest share of the expected boxes that have a match", most=1.0),
        "count_ratio": Setting("smallest ratio of the two numbers of boxes", most=1.0),
        "scores": Setting("tensor of the scores `[N]`", "tensor", optional=True),
        "score": Setting("largest difference of the scores of a match", optional=True),
        "labels": Setting("tensor of the labels `[N]`", "tensor", optional=True),
        "label": Setting("largest difference of the labels of a match", default=0.0),
        "masks": Setting("tensor of the masks `[N, …]`; inside above 0.5", "tensor", optional=True),
        "mask_iou": Setting("smallest overlap of the masks of a match", optional=True, most=1.0),
        "keypoints": Setting("tensor of the key points `[N, K, 2 or 3]`", "tensor", optional=True),
        "pixels": Setting("largest distance of the key points of a match", optional=True),
    },
    compute=compute_boxes,
    ndim=2,
    count=0,
    shapes_differ=True,
    check=_check_boxes,
)  # fmt: skip
