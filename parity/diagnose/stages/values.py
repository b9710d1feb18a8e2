"""Compute stages of a trace from what the port dumped, else from the reference.

A stage that only moves elements, or that nobody dumped, is computed from what feeds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.diagnose.stages.operators import ERRORS, compute, find_operator

if TYPE_CHECKING:
    from parity.bundle.case_parts import Sample, Stage
    from parity.diagnose.stages.trace import Trace

Reader = Callable[[str], Any]  # Returns the array of a name, None where there is none

#: Kind of a stage that nothing here computes: its right value is its own reference.
GRADIENT = "gradient"
#: Elements that take as long as a call.
_CALL = 2**13
_MAX_COMPLETED = 32  # Completed references that are kept


class TraceError(Exception):
    """A stage or what feeds it cannot be read or computed; the message says which and why."""


@dataclass
class Work:
    """Elements that a search may still compute stages from; a call counts as `_CALL` of them."""

    left: float = float("inf")

    def spend(self, arguments: Mapping[str, Any]) -> None:
        """Count one call.

        Raises:
            TraceError: Nothing is left.
        """
        arrays = (one for one in arguments.values() if isinstance(one, np.ndarray))
        self.left -= _CALL + sum(one.size for one in arrays)
        if self.left < 0:
            raise TraceError("the search for a cause would compute too much")


class Values:
    """Values of a trace's stages: read, or computed from their feeds, each once."""

    def __init__(
        self,
        trace: Trace,
        readers: tuple[Reader, ...],
        known: Mapping[str, Any] | None = None,
        work: Work | None = None,
    ) -> None:
        self._trace, self._readers, self.known = trace, (*readers, trace.given), dict(known or {})
        self._work = work or Work()

    def collect(self, stage: Stage) -> dict[str, Any]:
        """Return the arguments of a stage, with the values that feed it.

        Those of a gradient are its reference, and the gradient of the step before.
        """
        is_gradient = stage.kind == GRADIENT
        fed = {
            argument: self.read(feed) if isinstance(feed, str) else [self.read(one) for one in feed]
            for argument, feed in stage.feeds.items()
            if not is_gradient or argument == "earlier"
        }
        given = {"input": self._trace.expected(stage.name)} if is_gradient else {}
        return {**stage.arguments, **given, **fed}

    def read(self, name: str) -> Any:
        """Return a value: as it is known, as it can be read, or computed.

        Raises:
            TraceError: It is not there, or cannot be computed.
        """
        if name not in self.known:
            read = (array for reader in self._readers if (array := reader(name)) is not None)
            array = next(read, None)
            if array is None:
                self.known[name] = self.compute(name)
            else:
                self.known[name] = array.astype(np.float64) if array.dtype.kind == "f" else array
        return self.known[name]

    def compute(self, name: str) -> Any:
        """Compute a stage from its feeds; errors as for ``read``."""
        stage = self._trace.stages.get(name)
        if stage is None:
            raise TraceError(f"{name} is neither a stage nor an input or a parameter of the bundle")
        if not stage.kind:
            raise TraceError(f"{name} feeds it and was not dumped")
        if not find_operator(stage.kind):
            message = (
                f"{name} ({stage.kind}) feeds it, was not dumped, and is not among the operators "
                "that are computed"
            )
            raise TraceError(message)
        try:
            arguments = self.collect(stage)
            self._work.spend(arguments)
            return compute(stage.kind, arguments)
        except (*ERRORS, RecursionError) as error:
            message = f"{name} ({stage.kind}) feeds it and cannot be computed: {error}"
            raise TraceError(message) from None


@dataclass
class Completer:
    """Reads references; one that is a sample is computed from what feeds it, but for the sample."""

    read: Reader
    samples: Mapping[str, Sample]
    shape: Callable[[str], tuple[int, ...] | None]  # Of what can be read
    trace: Trace | None = None
    _completed: dict[str, Any] = field(default_factory=dict)

    def __call__(self, name: str) -> Any:
        """Return the whole array of a name, None where it is not there or cannot be computed."""
        stages: Mapping[str, Stage] = self.trace.stages if self.trace else {}
        if self.trace is None or name not in self.samples or name not in stages:
            return self.read(name)
        needed, waiting = set[str](), [name]
        while waiting:
            one = waiting.pop()
            if one in needed or one in self._completed or one not in stages:
                continue
            if one in self.samples or self.shape(one) is None:
                needed.add(one)
                waiting += stages[one].sources
        # In the order of execution, so that no call waits for a long chain of others.
        for one in (each for each in stages if each in needed and each in self.samples):
            while len(self._completed) >= _MAX_COMPLETED:
                del self._completed[next(iter(self._completed))]
            self._completed[one] = self._complete(one, self.trace)
        return self._completed[name]

    def _complete(self, name: str, trace: Trace) -> Any:
        sample, values = self.samples[name], self.read(name)
        try:
            whole = np.asarray(Values(trace, (self,)).compute(name))
        except TraceError:
            return None
        if values is None or whole.shape != sample.shape:
            return None
        whole = whole.astype(values.dtype).reshape(-1)
        whole[sample.indices] = values
        return whole.reshape(sample.shape)
