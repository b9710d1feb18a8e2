"""Options of a fetch: time limits, retries, and the functions to notify."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    #: Called with bytes so far, and bytes in all where known.
    Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Limits of retries and of stalls; seconds throughout.

    Attributes:
        max_tries: In a row without a new byte, the first included.
        max_wait: A server that asks for more is not asked again.
        total_time: For one fetch, all its tries and sources together.
        window, min_rate: Fewer bytes a second over a window are a stall.
        sleep, chance, clock, now: Replaced in tests; ``clock`` is monotonic, ``now`` the epoch's.
    """

    max_tries: int = 5
    max_wait: float = 60.0
    base_pause: float = 0.5
    max_pause: float = 30.0
    total_time: float = 900.0
    window: float = 30.0
    min_rate: float = 1024.0
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time

    def compute_pause(self, number: int, wait: float | None) -> float:
        """Return the seconds before try ``number + 1``: full jitter, but at least ``wait``."""
        jitter = self.chance() * min(self.max_pause, self.base_pause * 2.0 ** min(number, 30))
        return max(jitter, wait or 0.0)

    def compute_time_left(self, deadline: float | None) -> float:
        """Return the seconds until ``deadline``, infinite without one."""
        return float("inf") if deadline is None else deadline - self.clock()


def _ignore(_text: str) -> None:
    """Print nothing."""


@dataclass(frozen=True, kw_only=True)
class FetchOptions:
    """Time limits of a fetch, and the functions to notify.

    Attributes:
        deadline: By ``retry_policy.clock``; None where there is none yet.
        progress: Called after each piece of a download.
        notify: Called with a printable sentence that explains a wait.
        offline: Ask no server; a local source is still read.
    """

    deadline: float | None = None
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    progress: Progress | None = None
    notify: Callable[[str], None] = _ignore
    offline: bool = False

    def limit_deadline(self) -> FetchOptions:
        """Return the same with the end that every fetch has."""
        end = self.retry_policy.clock() + self.retry_policy.total_time
        return replace(self, deadline=end if self.deadline is None else min(end, self.deadline))
