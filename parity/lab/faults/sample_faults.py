"""The right dump of a case whose references are samples, and faults in it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from parity.bundle.tensor_case import TensorCase
from parity.lab.faults import Fault
from parity.lab.faults.tensor_faults import inject_everywhere
from parity.lab.zoo.case import ExpectedTensor
from parity.suites.tensors.stage_causes import make_trace
from parity.tensors.stored import Tensors

#: Added to an element, in units of the sample's largest one.
_OFF = 2.0


def complete_samples(detail: TensorCase, references: Tensors) -> dict[str, ExpectedTensor]:
    """Return what a port must dump: references, samples completed from the stages before them.

    Elements that cannot be computed are zeros.
    """
    trace = make_trace(detail, references, {})
    tensors = {}
    for name, stored in references.items():
        values, shape = stored.read_array(), stored.shape
        sample = detail.samples.get(name)
        if sample is not None and not sample.is_dumped:
            shape = sample.shape
            known = trace.expected(name) if name in trace.stages else None
            whole = np.zeros(shape, values.dtype)
            if known is not None and values.dtype == known.dtype:
                whole = np.array(known)
            whole.reshape(-1)[sample.indices] = values
            values = whole
        tensors[name] = ExpectedTensor(stored.dtype.name, shape, values.tobytes())
    return tensors


def list_sample_faults(detail: TensorCase, tensors: Tensors, folder: Path) -> Iterator[Fault]:
    """List a wrong element inside the sample of each tensor: the first, and the last one.

    In a trace the last stage alone is wrong, since those after the first that diverges are counted.
    ``tensors`` are those of the right dump in ``folder``.
    """
    chosen = {
        name: tensors[name]
        for name in detail.samples
        if name in tensors and tensors[name].dtype.is_native
    }
    if detail.stages:
        chosen = dict([*chosen.items()][-1:])
    for place, at in (("first", 0), ("last", -1)) if chosen else ():
        yield Fault(
            name=f"sample-{place}",
            text=f"the {place} element of each sample is wrong",
            codes=(),
            inject=partial(inject_everywhere, chosen, folder, partial(_change, detail, at)),
            per_tensor=True,
            why_unnamed="a single element has no cause",
        )


def _change(detail: TensorCase, at: int, name: str, array: Any) -> Any:
    sample = detail.samples[name]
    wrong = np.array(array).reshape(-1)
    place = at if sample.is_dumped else sample.indices[at]
    if wrong.dtype.kind == "b":
        wrong[place] = not wrong[place]
    else:
        size = np.abs(wrong, dtype=np.float64).max() if wrong.dtype.kind == "f" else 0
        wrong[place] += wrong.dtype.type(max(1, _OFF * size))
    return wrong.reshape(array.shape)
