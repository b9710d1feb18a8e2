"""Find the wrong way in which a stage of a trace, or an unseen one before it, was computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from parity.bundle.case_parts import Stage
from parity.diagnose.stages.base import Array
from parity.diagnose.stages.find import Stage as StageData
from parity.diagnose.stages.find import (
    StageCause,
    find_limit,
    find_stage_cause,
    is_explained,
    list_ways,
    measure_distance,
    read_ways,
    round_large,
)
from parity.diagnose.stages.operators import ERRORS, compute, find_operator
from parity.diagnose.stages.values import GRADIENT, Reader, TraceError, Values, Work

#: Elements that are computed to find a wrong way in unseen stages, which is about a second.
_MAX_WORK = 2**26
#: Stages, inputs and parameters that are tried in the place of each one that feeds a stage.
_MAX_OTHERS = 12


@dataclass(frozen=True, kw_only=True)
class Trace:
    """The stages of a case, with ways to read their data."""

    stages: Mapping[str, Stage]  # By name, in the order of execution
    expected: Reader  # Of references; each reader returns None where there is no array
    obtained: Reader  # Of the dump
    given: Reader  # Of inputs and parameters
    #: Returns the shape of an array that can be read, as one of the three has it
    shape: Callable[[str], tuple[int, ...] | None]

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
            if self.stages[name].kind == GRADIENT:
                return cause
            tried = list(cause.tried)
            if not cause.ways and (moved := self._find_moved_ways(unseen)):
                return moved
            if not cause.ways:
                found, missed = self._find_unseen_ways(name, unseen, obtained, tried)
                cause = found or replace(cause, missed=missed)
            if cause.tried and not cause.ways:
                other = self._find_other_feeds(name, obtained, tried)
                cause = other if other.ways else cause
        except TraceError as error:
            return StageCause(reason=str(error))
        return replace(cause, tried=tuple(tried))

    def _find_own_cause(self, name: str, obtained: Array) -> StageCause:
        stage, expected = self.stages[name], self.expected(name)
        if expected is None:
            raise TraceError("its reference is a sample, and the rest of it cannot be computed")
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

    def _find_moved_ways(self, unseen: Sequence[str]) -> StageCause | None:
        """Find a dumped stage without a reference that is not what other dumped ones give."""
        for name in unseen:
            dumped, stage = self.obtained(name), self.stages[name]
            if dumped is None or not self._is_fed_by_dump(stage):
                continue
            values = Values(self, (self.obtained,))
            try:
                right = np.asarray(values.compute(name))
            except TraceError:
                continue
            difference = measure_distance(right, dumped)
            if difference <= find_limit(0.0, 0.0, right):
                continue
            limit, ways, tried = find_limit(difference, 0.0, right), [], []
            for code, text, output in list_ways(stage.kind, values.collect(stage)):
                left = measure_distance(output, dumped)
                if is_explained(left, difference, limit):
                    ways.append((code, f"{name}: {text}"))
                    tried.append((f"{name}: {text}", left))
            reason = f"{name} was dumped with other values than {', '.join(stage.sources)} gives"
            best = min((left for _, left in tried), default=np.inf)
            return StageCause(tuple(ways), best, difference, tuple(tried), limit, reason)
        return None

    def _is_fed_by_dump(self, stage: Stage) -> bool:
        """Return whether all that feeds a stage was dumped, or moves elements of what was."""
        return all(
            feed not in self.stages
            or self.obtained(feed) is not None
            or (self.expected(feed) is None and self._is_fed_by_dump(self.stages[feed]))
            for feed in stage.sources
        )

    def _find_unseen_ways(
        self, name: str, unseen: Sequence[str], obtained: Array, tried: list[tuple[str, float]]
    ) -> tuple[StageCause | None, tuple[str, ...]]:
        """Look for a wrong way in each unseen stage, then for one in all stages of an operator.

        The nearest to the seen one, from which least is computed, come first; the second result
        are those that were not reached.

        Raises:
            TraceError: Nothing could be computed.
        """
        operators = {one: find_operator(self.stages[one].kind) for one in (*unseen, name)}
        chosen = [one for one in self.stages if operators.get(one) in read_ways()]
        known = [[one] for one in reversed(chosen) if one != name]
        ways = read_ways()
        alike = [[one for one in chosen if operators[one] == each] for each in ways]
        alike = [each for each in alike if len(each) > 1]
        alike.sort(key=lambda each: len(ways[operators[each[0]]]) / len(each))
        rounding = max(self.stages[one].rounding for one in (*unseen, name))
        errors: list[TraceError] = []
        causes: list[StageCause] = []
        missed: tuple[str, ...] = ()
        for groups in (known, alike):
            work = Work(_MAX_WORK)
            for group in groups:
                try:
                    if work.left >= 0:
                        cause = self._find_hidden_ways(name, group, obtained, tried, work, rounding)
                        causes.append(cause)
                except TraceError as error:
                    errors.append(error)
                if work.left < 0 and len(group) == 1:
                    missed = (*group, *missed)
            # Another unseen stage may fit as well, and is then named beside the first.
            if fitting := sorted((one for one in causes if one.ways), key=lambda one: one.left):
                found = tuple(way for cause in causes for way in cause.ways)
                return replace(fitting[0], ways=found), ()
        if errors and not causes and work.left >= 0:
            raise errors[0]
        return None, missed

    def _find_hidden_ways(
        self,
        name: str,
        hidden: Sequence[str],
        obtained: Array,
        tried: list[tuple[str, float]],
        work: Work,
        rounding: float,
    ) -> StageCause:
        """Compute unseen stages in each wrong way, all in the same, and from them the seen one.

        Unseen stages that they do not feed are the reference's. A way may leave what ``rounding``,
        the largest of a stage between, makes up, but no more than a hundredth of the difference.
        """
        later = self._list_later(hidden[0])

        def read(each: str) -> Any:
            if each in (name, *hidden):
                return None
            array = self.obtained(each)
            return self.expected(each) if array is None and each not in later else array

        right = Values(self, (read,), work=work).compute(name)
        first, *rest = (self.stages[one] for one in hidden)
        arguments = Values(self, (self.obtained, self.expected)).collect(first)
        difference = measure_distance(right, obtained)
        limit = find_limit(difference, self.stages[name].rounding, right)
        if limit:
            limit = max(limit, min(find_limit(0.0, rounding, right), difference / 100))
        places = first.name + (f" and {len(rest)} more of its kind" if rest else "")
        ways, best = [], np.inf
        dtype = getattr(self.expected(first.name), "dtype", np.float64)
        for code, text, values in list_ways(first.kind, arguments):
            if work.left < 0 or (rest and code.startswith("stage-")):
                break  # Nobody skips all stages of an operator, or applies them twice
            wrongly = Values(self, (read,), {first.name: round_large(values, dtype)}, work)
            try:
                for stage in rest:
                    for _, _, same in list_ways(stage.kind, wrongly.collect(stage), text):
                        wrongly.known[stage.name] = same
                left = measure_distance(wrongly.read(name), obtained)
            except TraceError:
                continue
            tried.append((f"{places}: {text}", left))
            if is_explained(left, difference, limit):
                ways.append((code, f"{places}: {text}"))
                best = min(best, left)
        return StageCause(tuple(ways), best, difference, limit=limit)

    def _list_later(self, first: str) -> set[str]:
        """Return the stages that one feeds, directly or through others."""
        later = {first}
        for name, stage in self.stages.items():
            if not later.isdisjoint(stage.sources):
                later.add(name)
        return later

    def _find_other_feeds(
        self, name: str, obtained: Array, tried: list[tuple[str, float]]
    ) -> StageCause:
        """Compute a stage from others than those that feed it: stages, inputs, parameters."""
        stage, values = self.stages[name], Values(self, (self.obtained, self.expected))
        arguments = values.collect(stage)
        right = np.asarray(compute(stage.kind, arguments))
        difference = measure_distance(right, obtained)
        limit = find_limit(difference, stage.rounding, right)
        ways, best = [], np.inf
        for text, fed in self._list_other_feeds(stage, arguments, values):
            try:
                output = compute(stage.kind, {**arguments, **fed})
            except ERRORS:
                continue
            left = measure_distance(np.asarray(output), obtained)
            tried.append((text, left))
            if is_explained(left, difference, limit):
                ways.append(("feed-other", text))
                best = min(best, left)
        return StageCause(tuple(ways), best, difference, limit=limit)

    def _list_other_feeds(
        self, stage: Stage, arguments: Mapping[str, Any], values: Values
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield other feeds of a stage with their values: one, or all parameters of another."""
        names, others = self._list_names(stage.name), self.stages.values()
        for argument, feed in stage.feeds.items():
            for other in self._list_alike(names, feed, arguments[argument], values):
                yield f"{other} is fed, not {feed}", {argument: values.read(other)}
        alike = (one for one in others if one.kind == stage.kind and one.name != stage.name)
        for one in islice(alike, _MAX_OTHERS):
            own = {name: feed for name, feed in one.feeds.items() if feed not in self.stages}
            if len(own) > 1:
                fed = values.collect(replace(one, feeds=own))
                yield f"the parameters of {one.name} are used", {name: fed[name] for name in own}

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

    def _list_alike(self, names: list[str], feed: Any, fed: Array, values: Values) -> list[str]:
        """Return the first names whose values differ from those of ``fed``, but have its shape."""
        alike: list[str] = []
        for other in names if isinstance(feed, str) and isinstance(fed, np.ndarray) else ():
            if len(alike) == _MAX_OTHERS:
                break
            if self.shape(other) not in (None, fed.shape):
                continue
            try:
                array = values.read(other)
            except TraceError:
                continue
            is_alike = isinstance(array, np.ndarray) and array.shape == fed.shape
            if is_alike and measure_distance(array, fed) > 0:
                alike.append(other)
        return alike
