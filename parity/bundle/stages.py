"""Read the stages of a case: the steps of a model in the order of execution, and their feeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from parity.bundle.manifest_reader import Item
from parity.bundle.tolerances import MAX_TOLERANCE, format_value

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
