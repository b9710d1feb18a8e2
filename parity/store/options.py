"""On which terms a bundle is fetched."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from parity.store.http.retries import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

    from parity.store.hashing_writer import Progress


def _ignore(_text: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, kw_only=True)
class FetchOptions:
    """How long to try, and who is told.

    Attributes:
        deadline: By ``patience.clock``; None where there is none yet.
        patience: How failures are retried.
        progress: Told after each piece of a download.
        tell: Told, in a sentence fit to print, why nothing seems to happen.
        offline: Ask no server; a local source is still read.
    """

    deadline: float | None = None
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    progress: Progress | None = None
    notify: Callable[[str], None] = _ignore
    offline: bool = False

    def limit_deadline(self) -> FetchOptions:
        """The same, with the end that one fetch has in any case."""
        end = self.retry_policy.clock() + self.retry_policy.total_time
        return replace(self, deadline=end if self.deadline is None else min(end, self.deadline))
