"""Find the causes of stages of a model, and put them in words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from parity.bundle.layout import list_parts
from parity.tensors.folder import FolderContents, list_tensors
from parity.text import format_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from parity.bundle.tensor_case import TensorCase
    from parity.diagnose.stages.find import StageCause
    from parity.diagnose.stages.trace import Trace
    from parity.results import Finding
    from parity.tensors.stored import StoredTensor, Tensors

    FindCause = Callable[[str, list[str]], StageCause]

_MAX_TRIED = 12  # Wrong ways that a finding lists


def add_cause(finding: Finding, cause: StageCause) -> Finding:
    """Add what was found out about the stage itself; a verdict never depends on it."""
    if text := format_cause(cause):
        codes = [code for code, _ in cause.ways]
        measures = {**finding.measures, "cause_code": codes[0], "cause_codes": codes}
        return replace(finding, cause=text, measures=measures)
    if cause.tried:
        tried = [text for text, _ in cause.tried]
        details = [f"tried: {'; '.join(tried[:_MAX_TRIED])}"]
        if (rest := len(tried) - _MAX_TRIED) > 0:
            details.append(f"and {rest:,} more; see parity show --why")
        text = f"none of the {len(tried)} known wrong ways gives its output"
        if cause.missed:
            ends = " to ".join(dict.fromkeys((cause.missed[0], cause.missed[-1])))
            count = format_count(len(cause.missed), "stages")
            text += f"; {count} not reached by the search: {ends}"
        return replace(finding, message=f"{finding.message}; {text}", details=tuple(details))
    reason = cause.reason or "no known wrong way changes its output"
    return replace(finding, message=f"{finding.message}; no cause: {reason}")


def format_cause(cause: StageCause) -> str:
    """Return the ways that fit, with their evidence; ``""`` without one."""
    if not cause.ways:
        return ""
    texts = "; or ".join(text for _, text in cause.ways)
    return (
        f"{texts}: computed in this way, the largest difference is {format_distance(cause.left)} "
        f"instead of {format_distance(cause.difference)}"
    )


def format_distance(value: float, digits: int = 2) -> str:
    """Return a number that `measure_distance` gives: for the least, what it stands for."""
    from parity.diagnose.stages.find import LEAST

    return "the sign of a zero" if 0 < value <= LEAST else f"{value:.{digits}g}"


def make_cause_finder(detail: TensorCase, expected: Tensors, obtained: Tensors) -> FindCause:
    """Make a function that computes one stage in all ways, and those before it that are unseen.

    Nothing is read before it is called.
    """

    def find(name: str, unseen: list[str]) -> StageCause:
        from parity.diagnose.stages.find import StageCause

        try:
            return make_trace(detail, expected, obtained).find_cause(name, unseen)
        except Exception as error:  # noqa: BLE001 - no verdict depends on a diagnosis
            return StageCause(reason=f"it could not be computed: {error}")

    return find


def make_trace(detail: TensorCase, expected: Tensors, obtained: Tensors) -> Trace:
    """Return the stages of a case, with ways to read their data; nothing is read before.

    A stage without a reference is not read from a dump that rounds it to a narrower float.
    """
    from parity.diagnose.stages.trace import Trace
    from parity.diagnose.stages.values import Completer

    floats = [one.dtype.width for one in expected.values() if one.dtype.kind == "float"]
    width = max(floats, default=0)
    samples = {name for name, sample in detail.samples.items() if sample.is_dumped}
    obtained = {
        name: one.whole or one
        for name, one in obtained.items()
        if name not in samples
        and (name in expected or one.dtype.kind != "float" or one.dtype.width >= width)
    }
    # One that has the shape of the whole tensor, since that of the dump differs, is a sample, too.
    expected = dict(expected)
    for name, sample in detail.samples.items():
        if name in expected:
            expected[name] = replace(expected[name], shape=sample.indices.shape, fetch=None)
    given = read_given(detail)
    shapes = {name: one.shape for name, one in {**given, **expected, **obtained}.items()}
    shapes |= {name: one.shape for name, one in detail.samples.items()}
    references = Completer(_make_reader(expected), detail.samples, shapes.get)
    references.trace = Trace(
        stages={stage.name: stage for stage in detail.stages},
        expected=references,
        obtained=_make_reader(obtained),
        given=_make_reader(given),
        shape=shapes.get,
    )
    return references.trace


def read_given(detail: TensorCase) -> dict[str, StoredTensor]:
    """List the inputs and parameters of a case: its input files and its checkpoint's tensors."""
    return {name: one for each in _list_given(detail) for name, one in each.tensors.items()}


def _list_given(detail: TensorCase) -> list[FolderContents]:
    """List the tensors of each input and of the checkpoint's files; other formats are unread."""
    places = [*detail.inputs, *(list_parts(detail.checkpoint) if detail.checkpoint else ())]
    return [
        list_tensors(place)
        if place.suffix in (".safetensors", ".npy") or place.is_dir()
        else FolderContents(unread=[place.name])
        for place in places
    ]


def find_unknown_feed(detail: TensorCase) -> str:
    """Return which stage of a case is fed by what is not there; ``""`` for none.

    Inputs and parameters are known where all files of them can be read here.
    """
    feeds = {feed: stage.name for stage in detail.stages[::-1] for feed in stage.sources}
    given = feeds.keys() - {stage.name for stage in detail.stages}
    contents = _list_given(detail) if given else []
    if any(one.unread or one.unreadable for one in contents):
        return ""
    unknown = sorted(given.difference(*(one.tensors for one in contents)))
    if not unknown:
        return ""
    stage, feed = feeds[unknown[0]], unknown[0]
    return (
        f"has the stage {stage!r}, fed by {feed!r}, which is not a stage, an input or a parameter"
    )


def _make_reader(tensors: Tensors) -> Callable[[str], NDArray[Any] | None]:
    from parity.diagnose.stages.base import MAX_ELEMENTS
    from parity.diagnose.stages.values import TraceError

    def read(name: str) -> NDArray[Any] | None:
        if (tensor := tensors.get(name)) is None:
            return None
        if tensor.count > MAX_ELEMENTS:
            limit = f"at most {MAX_ELEMENTS:,} are computed for a cause"
            raise TraceError(f"{name} has {tensor.count:,} elements, and {limit}")
        array = tensor.dtype.widen(tensor.read_array())
        return array.astype(bool) if tensor.dtype.kind == "bool" else array

    return read
