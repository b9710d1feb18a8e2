"""Measures of whole tensors, as plug-ins of one shape: settings in, numbers and a verdict out."""

from __future__ import annotations

from parity.tensors.groups import boxes, ranking, sets, vectors
from parity.tensors.groups.base import Measure

#: Every measure by its key in a manifest.
MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        *(ranking.ARGMAX, ranking.TOPK),
        *(vectors.RELATIVE_NORM, vectors.COSINE_COLUMNS, vectors.MOMENTS),
        *(sets.SET, sets.PARTITION, boxes.BOXES),
    )
}
