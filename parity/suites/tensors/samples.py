"""Compare large tensors of a dump by the sample of their elements that the reference has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from parity.bundle.tensor_case import TensorCase
from parity.results import Finding
from parity.suites.base import DumpComparison
from parity.suites.messages import format_list
from parity.tensors.folder import FolderContents
from parity.tensors.stored import StoredTensor
from parity.text import format_count


def take_samples(
    detail: TensorCase, references: Mapping[str, StoredTensor], dumped: FolderContents
) -> tuple[dict[str, StoredTensor], FolderContents]:
    """Return references and a dump with the sampled elements alone of each tensor of ``samples``.

    A dumped tensor that has not the shape which the manifest states is left as it is. Its
    reference gets that shape for the report; it cannot be read. Tensors that may be missing ones
    under other names are sampled, too.
    """
    expected, obtained = dict(references), dict(dumped.tensors)
    named = {*references, *(stage.name for stage in detail.stages)}
    others = [name for name in obtained if name not in named]
    for name, sample in detail.samples.items():
        whole = replace(expected[name], shape=sample.shape, fetch=_reject_reading)
        if sample.is_dumped:
            continue
        if name in obtained and obtained[name].shape != sample.shape:
            expected[name] = whole
            continue
        if name not in obtained:
            expected[name] = replace(expected[name], whole=whole)
        for one in [name] if name in obtained else others:
            if obtained[one].shape == sample.shape:
                obtained[one] = obtained[one].take(sample.indices)
    return expected, replace(dumped, tensors=obtained)


def _reject_reading(_start: int, _stop: int) -> None:
    raise ValueError("the reference has a sample of the elements alone")


def report_samples(detail: TensorCase, outcome: DumpComparison) -> DumpComparison:
    """Add to findings of sampled tensors which element is meant, and report what was compared."""
    findings = [_name_element(detail, finding) for finding in outcome.findings]
    compared = outcome.measures.get("per_tensor", {})
    samples = {name: one for name, one in detail.samples.items() if name in compared}
    if not samples:
        return replace(outcome, findings=tuple(findings))
    texts = [
        f"{name}: a sample of {len(one.indices):,} of {prod(one.shape):,} elements"
        for name, one in samples.items()
    ]
    size = sum(len(one.indices) for one in samples.values())
    count = sum(prod(one.shape) for one in samples.values())
    message = (
        f"{format_count(len(texts), 'tensors')} compared by samples, in all {size:,} of {count:,} "
        f"elements: {format_list(texts)}"
    )
    return replace(
        outcome,
        findings=(*findings, Finding(level="notice", code="sampled", message=message)),
        measures={**outcome.measures, "sampled": size, "sampled_of": count},
    )


def _name_element(detail: TensorCase, finding: Finding) -> Finding:
    sample = detail.samples.get(finding.tensor or "")
    if sample is None or not finding.index or finding.index[0] >= len(sample.indices):
        return finding
    place = np.unravel_index(int(sample.indices[finding.index[0]]), sample.shape)
    text = f"[{finding.index[0]}] of the sample is {[*map(int, place)]} of the tensor"
    return replace(finding, details=(*finding.details, text))
