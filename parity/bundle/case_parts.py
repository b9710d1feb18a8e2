"""Read parts of a case: a model's stages, and which elements of large tensors its reference has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.bundle.manifest_reader import Item
from parity.bundle.tolerances import MAX_TOLERANCE, format_value
from parity.tensors import FormatError
from parity.tensors.npy import locate_tensor

#: Stages of one case; a trace of a large model has some thousands.
MAX_STAGES = 20_000
_KEYS = ("name", "kind", "module", "arguments", "feeds", "rounding")


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One step of a model."""

    name: str  # Of the stage, and of the tensor that is its output
    #: An ATen call (``aten.add.Tensor``) or a module's type (``LayerNorm``); ``""`` where nobody
    #: can compute it
    kind: str = ""
    module: str = ""  # Path of the module that it belongs to
    arguments: Mapping[str, Any] = field(default_factory=dict)  # Numbers, texts and lists, by name
    #: Names of earlier stages, inputs and parameters, by argument; several for a list
    feeds: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    #: Largest error that computing this stage in its dtype makes; 0 if unknown
    rounding: float = 0.0

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of all that feeds the stage, in order."""
        feeds = ((feed,) if isinstance(feed, str) else feed for feed in self.feeds.values())
        return tuple(chain.from_iterable(feeds))


def read_stages(item: Item) -> tuple[Stage, ...]:
    """Read the stages of a case; a stage may be fed only by earlier ones, inputs and parameters.

    A feed that is none of the case's stages is an input or a parameter; which of them exist is
    checked where their files are read. A later stage as a feed is an error, so that there is no
    cycle.
    """
    case = item.what.removeprefix("stages of ")
    if not isinstance(item.value, list) or not 0 < len(item.value) <= MAX_STAGES:
        item.add_problem(f"{item.what} must be a list of 1 to {MAX_STAGES:,} stages")
        return ()
    stages = tuple(
        _read_stage(item.enter(at, what=f"stage {at} of {case}")) for at in range(len(item.value))
    )
    positions: dict[str, int] = {}
    for at, stage in enumerate(stages):
        if positions.setdefault(stage.name, at) != at:
            item.add_problem(f"{case} has two stages {format_value(stage.name)}", at)
    for at, stage in enumerate(stages):
        for feed in stage.sources:
            if positions.get(feed, -1) >= at:
                name = f"stage {format_value(stage.name)} of {case}"
                message = f"{name} is fed by {format_value(feed)}, which does not come before it"
                item.add_problem(message, at)
    return stages


def _read_stage(item: Item) -> Stage:
    entry = item.read_object(_KEYS)
    item = item if item.value is entry else replace(item, value=entry)
    # A trace has thousands: an `Item` is made only of what is there and may be wrong.
    texts: dict[str, Any] = {
        key: item.enter(key).read_text() for key in ("name", "kind", "module") if key in entry
    }
    if not texts.get("name"):
        item.add_problem(f"{item.what} has no name")
    rounding = entry.get("rounding", 0.0)
    is_number = isinstance(rounding, (int, float)) and not isinstance(rounding, bool)
    if not is_number or not 0 <= rounding <= MAX_TOLERANCE:
        item.enter("rounding").reject("a number of at least 0")
        rounding = 0.0
    feeds = entry.get("feeds", {})
    if not isinstance(feeds, dict) or not all(isinstance(feed, str) for feed in feeds.values()):
        named = item.enter("feeds").enter_all()
        feeds = {
            name: feed.value if isinstance(feed.value, str) else feed.read_texts()
            for name, feed in named
        }
    arguments = item.enter("arguments").read_object() if "arguments" in entry else {}
    fields = {"name": "", **texts, "arguments": arguments, "feeds": feeds}
    return Stage(**fields, rounding=float(rounding))


MAX_SAMPLE = 2**20  # Elements of one sample
_MAX_COUNT, _MAX_RANK = 2**48, 64  # Elements and dimensions of a tensor; NumPy has 64 at most


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The elements of a tensor that its reference has."""

    shape: tuple[int, ...]  # Of the tensor
    path: Path  # File of the indices
    indices: NDArray[np.int64] = field(compare=False)  # Flat, ascending
    is_dumped: bool = False  # A port writes these elements alone, not the tensor


def read_samples(item: Item, folder: Path) -> dict[str, Sample]:
    """Read the samples of a case, by the tensor's name."""
    files: dict[Path, Any] = {}
    found: dict[str, Sample] = {}
    for name, one in item.enter_all():
        entry = replace(one, value=one.read_object(("shape", "indices", "dump")))
        shape = entry.value.get("shape")
        is_shape = isinstance(shape, list) and all(type(size) is int and size > 0 for size in shape)
        if not is_shape or len(shape) > _MAX_RANK or prod(shape) > _MAX_COUNT:
            entry.enter("shape").reject("the sizes of the whole tensor")
            continue
        dump = entry.enter("dump", "whole")
        if dump.value not in ("whole", "sample"):
            dump.reject("whole or sample")
        place = entry.enter("indices")
        path = place.read_path(folder)
        if path is None:
            continue
        if path not in files:
            files[path] = _read_indices(path)
        if problem := files[path] if isinstance(files[path], str) else _check(files[path], shape):
            place.add_problem(f"{place.what}: {format_value(place.value)} {problem}")
            continue
        is_dumped = dump.value == "sample"
        found[name] = Sample(
            shape=tuple(shape), path=path, indices=files[path], is_dumped=is_dumped
        )
    return found


def _read_indices(path: Path) -> NDArray[np.int64] | str:
    """Return the indices of a file, or why they cannot be read."""
    try:
        stored = locate_tensor(path)
        if stored.dtype.kind != "int" or len(stored.shape) != 1:
            return "must have whole numbers, in one dimension"
        if not 0 < stored.count <= MAX_SAMPLE:
            return f"has {stored.count:,} indices, 1 to {MAX_SAMPLE:,} are read"
        values = stored.read_array()
    except FormatError as error:
        return error.message
    # One beyond int64 would become negative.
    indices: NDArray[np.int64] = np.minimum(values, np.iinfo(np.int64).max).astype(np.int64)
    return indices


def _check(indices: NDArray[np.int64], shape: list[int]) -> str:
    """Return which index is not one of the tensor's, or not above the one before it, or ``""``."""
    if (wrong := np.flatnonzero((indices < 0) | (indices >= prod(shape)))).size:
        at, reason = int(wrong[0]), f"outside of the {prod(shape):,} elements of {shape}"
    elif (wrong := np.flatnonzero(np.diff(indices) <= 0)).size:
        at, reason = int(wrong[0]) + 1, "not above the one before it"
    else:
        return ""
    return f"has at [{at}] the index {int(indices[at]):,}, which is {reason}"
