"""Compute stages of a trace from what the port dumped, else from the reference.

A stage that only moves elements, or that nobody dumped, is computed from what feeds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from parity.bundle.stages import Stage
from parity.diagnose.stages.find import Stage as StageData
from parity.diagnose.stages.find import (
    StageCause,
    allow_rounding,
    find_limit,
    find_stage_cause,
    is_explained,
    list_ways,
    measure_distance,
    read_ways,
)
from parity.diagnose.stages.operators import compute, find_operator

Reader = Callable[[str], Any]  # Returns the array of a name, None where there is none

Array = Any  # of NumPy; a number has no axes

#: Unseen stages before one that diverges, in each of which a wrong way is looked for.
_MAX_HIDDEN = 12
#: Stages, inputs and parameters that are tried in the place of each one that feeds a stage.
_MAX_OTHERS = 12
#: How many of either kind are read for it.
_MAX_READ = 32
_ERRORS = (LookupError, ArithmeticError, TypeError, ValueError)


class TraceError(Exception):
    """A stage or what feeds it cannot be read or computed; the message says which and why."""


@dataclass(frozen=True, kw_only=True)
class Trace:
    """The stages of a case, with ways to read their data.

    Attributes:
        stages: By name, in the order of execution.
        expected, obtained, given: Return the array of a reference, of the dump, and of an input
            or parameter; None where there is none.
    """

    stages: Mapping[str, Stage]
    expected: Reader
    obtained: Reader
    given: Reader

    def find_cause(self, name: str, unseen: Sequence[str] = ()) -> StageCause:
        """Find the wrong way in which the port computed one stage, or an unseen one before it.

        Args:
            name: A stage that was dumped.
            unseen: Stages that feed it, were not compared, and may be at fault instead.
        """
        try:
            obtained = self.obtained(name)
            if obtained is None:
                return StageCause(reason="it was not dumped")
            cause = self._find_own_cause(name, obtained)
            tried = list(cause.tried)
            known = [one for one in unseen if find_operator(self.stages[one].kind) in read_ways()]
            for hidden in known[:_MAX_HIDDEN] if not cause.ways else ():
                found = self._find_hidden_ways(name, hidden, obtained, tried)
                # Another unseen stage may fit as well, and is then named beside the first.
                best = cause if cause.ways and cause.left <= found.left else found
                cause = replace(best, ways=cause.ways + found.ways) if found.ways else cause
            if cause.tried and not cause.ways:
                found = self._find_other_feeds(name, obtained, tried)
                cause = found if found.ways else cause
        except TraceError as error:
            return StageCause(reason=str(error))
        return replace(cause, tried=tuple(tried))

    def measure_references(self) -> Iterator[tuple[str, float, float]]:
        """Yield the stages that can be computed, each with its reference's error and its limit.

        A stage is computed in float64 from the references of what feeds it.
        """
        values = Values(self, (self.expected,))
        for name, stage in self.stages.items():
            try:
                if (expected := self.expected(name)) is None or not find_operator(stage.kind):
                    continue
                right = np.asarray(values.compute(name))
            except TraceError:
                continue
            data = StageData(
                kind=stage.kind,
                arguments={},
                expected=expected,
                obtained=right,
                rounding=stage.rounding,
            )
            yield name, measure_distance(right, expected), allow_rounding(data)

    def _find_own_cause(self, name: str, obtained: Array) -> StageCause:
        stage, expected = self.stages[name], self.expected(name)
        by_port = Values(self, (self.obtained, self.expected)).collect(stage)
        by_reference = Values(self, (self.expected,)).collect(stage)
        return find_stage_cause(
            StageData(
                kind=stage.kind,
                arguments=by_port,
                expected=expected,
                obtained=obtained,
                rounding=stage.rounding,
                expected_arguments=by_reference,
            )
        )

    def _find_hidden_ways(
        self, name: str, hidden: str, obtained: Array, tried: list[tuple[str, float]]
    ) -> StageCause:
        """Compute an unseen stage in each wrong way, and from it the one that was seen."""
        seen = (lambda each: None if each in (name, hidden) else self.obtained(each),)
        right = Values(self, seen).compute(name)
        arguments = Values(self, (self.obtained, self.expected)).collect(self.stages[hidden])
        difference = measure_distance(right, obtained)
        limit = find_limit(difference, self.stages[name].rounding, right)
        ways, best = [], np.inf
        for code, text, values in list_ways(self.stages[hidden].kind, arguments):
            try:
                output = Values(self, seen, {hidden: values}).compute(name)
            except TraceError:
                continue
            left = measure_distance(output, obtained)
            tried.append((f"{hidden}: {text}", left))
            if is_explained(left, difference, limit):
                ways.append((code, f"{hidden}: {text}"))
                best = min(best, left)
        return StageCause(tuple(ways), best, difference, limit=limit)

    def _find_other_feeds(
        self, name: str, obtained: Array, tried: list[tuple[str, float]]
    ) -> StageCause:
        """Compute a stage from others than those that feed it: stages, inputs, parameters."""
        stage, values = self.stages[name], Values(self, (self.obtained, self.expected))
        arguments = values.collect(stage)
        right = np.asarray(compute(stage.kind, arguments))
        difference = measure_distance(right, obtained)
        limit = find_limit(difference, stage.rounding, right)
        names, ways, best = self._list_names(name), [], np.inf
        for argument, feed in stage.feeds.items():
            for other in _list_alike(names, feed, arguments[argument], values):
                try:
                    output = compute(stage.kind, {**arguments, argument: values.read(other)})
                except _ERRORS:
                    continue
                left = measure_distance(np.asarray(output), obtained)
                tried.append((text := f"{other} is fed, not {feed}", left))
                if is_explained(left, difference, limit):
                    ways.append(("feed-other", text))
                    best = min(best, left)
        return StageCause(tuple(ways), best, difference, limit=limit)

    def _list_names(self, name: str) -> list[str]:
        """Return the stages before one, then inputs and parameters, the nearest ones first."""
        names = [*self.stages]
        place = names.index(name)
        nearest = sorted(range(len(names)), key=lambda at: abs(at - place))
        given = [feed for at in nearest for feed in self.stages[names[at]].sources]
        return [
            *names[:place][::-1],
            *dict.fromkeys(one for one in given if one not in self.stages),
        ]


def _list_alike(names: list[str], feed: Any, fed: Array, values: Values) -> list[str]:
    """Return the first names whose values differ from those of ``fed``, but have its shape."""
    alike: list[str] = []
    for other in names if isinstance(feed, str) and isinstance(fed, np.ndarray) else ():
        try:
            array = values.read(other)
        except TraceError:
            continue
        is_alike = isinstance(array, np.ndarray) and array.shape == fed.shape
        if is_alike and not np.array_equal(array, fed):
            alike.append(other)
        if len(alike) == _MAX_OTHERS:
            break
    return alike


class Values:
    """Values of a trace's stages: read, or computed from their feeds, each once."""

    def __init__(
        self, trace: Trace, readers: tuple[Reader, ...], known: Mapping[str, Any] | None = None
    ) -> None:
        self._trace, self._readers, self._known = trace, (*readers, trace.given), dict(known or {})

    def collect(self, stage: Stage) -> dict[str, Any]:
        """Return the arguments of a stage, with the values that feed it."""
        fed = {
            argument: self.read(feed) if isinstance(feed, str) else [self.read(one) for one in feed]
            for argument, feed in stage.feeds.items()
        }
        return {**stage.arguments, **fed}

    def read(self, name: str) -> Any:
        """Return a value: as it is known, as it can be read, or computed.

        Raises:
            TraceError: It is not there, or cannot be computed.
        """
        if name not in self._known:
            read = (array for reader in self._readers if (array := reader(name)) is not None)
            array = next(read, None)
            if array is None:
                self._known[name] = self.compute(name)
            else:
                self._known[name] = array.astype(np.float64) if array.dtype.kind == "f" else array
        return self._known[name]

    def compute(self, name: str) -> Any:
        """Compute a stage from its feeds; errors as for ``read``."""
        stage = self._trace.stages.get(name)
        if stage is None:
            raise TraceError(f"{name} is neither a stage nor an input or a parameter of the bundle")
        if not stage.kind:
            raise TraceError(f"{name} feeds it and was not dumped")
        try:
            return compute(stage.kind, self.collect(stage))
        except (*_ERRORS, RecursionError) as error:
            message = f"{name} ({stage.kind}) feeds it and cannot be computed: {error}"
            raise TraceError(message) from None
