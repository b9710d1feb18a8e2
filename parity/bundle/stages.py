"""Read the stages of a case: the steps of a model in the order of execution, and their feeds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from parity.bundle.document import Place
from parity.bundle.manifest_reader import ManifestReader
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
        return tuple(_flatten(self.feeds.values()))


def _flatten(feeds: Collection[str | tuple[str, ...]]) -> Iterator[str]:
    for feed in feeds:
        yield from (feed,) if isinstance(feed, str) else feed


def read_stages(reader: ManifestReader, value: Any, what: str, place: Place) -> tuple[Stage, ...]:
    """Read the stages of a case; a stage may be fed only by earlier ones, inputs and parameters.

    A feed that is none of the case's stages is an input or a parameter; which of them exist is
    checked where their files are read. A later stage as a feed is an error, so that there is no
    cycle.
    """
    if not isinstance(value, list) or not value or len(value) > MAX_STAGES:
        message = f"stages of {what} must be a list of 1 to {MAX_STAGES:,} stages"
        reader.add_problem(message, place)
        return ()
    stages = tuple(
        _read_stage(reader, entry, f"stage {at} of {what}", (*place, at))
        for at, entry in enumerate(value)
    )
    positions: dict[str, int] = {}
    for at, stage in enumerate(stages):
        if positions.setdefault(stage.name, at) != at:
            reader.add_problem(f"{what} has two stages {format_value(stage.name)}", (*place, at))
    for at, stage in enumerate(stages):
        for feed in stage.sources:
            if positions.get(feed, -1) >= at:
                message = (
                    f"stage {format_value(stage.name)} of {what} is fed by {format_value(feed)}, "
                    "which does not come before it"
                )
                reader.add_problem(message, (*place, at))
    return stages


def _read_stage(reader: ManifestReader, value: Any, what: str, place: Place) -> Stage:
    entry = reader.read_object(value, what, _KEYS, place)
    name = reader.read_text(entry, "name", what, place)
    if not name:
        reader.add_problem(f"{what} has no name", place)
    rounding = entry.get("rounding", 0.0)
    is_number = isinstance(rounding, (int, float)) and not isinstance(rounding, bool)
    if not is_number or not 0 <= rounding <= MAX_TOLERANCE:
        message = f"rounding of {what} must be a number of at least 0, not {format_value(rounding)}"
        reader.add_problem(message, (*place, "rounding"))
        rounding = 0.0
    arguments = entry.get("arguments", {})
    return Stage(
        name=name,
        kind=reader.read_text(entry, "kind", what, place),
        module=reader.read_text(entry, "module", what, place),
        arguments=reader.read_object(
            arguments, f"arguments of {what}", None, (*place, "arguments")
        ),
        feeds=_read_feeds(reader, entry.get("feeds", {}), f"feeds of {what}", (*place, "feeds")),
        rounding=float(rounding),
    )


def _read_feeds(
    reader: ManifestReader, value: Any, what: str, place: Place
) -> dict[str, str | tuple[str, ...]]:
    feeds: dict[str, str | tuple[str, ...]] = {}
    for name, feed in reader.read_object(value, what, None, place).items():
        here = (*place, name)
        if isinstance(feed, str):
            feeds[name] = feed
        else:
            feeds[name] = reader.read_texts(feed, f"{format_value(name)} of {what}", here)
    return feeds
