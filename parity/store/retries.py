"""Limits of a fetch, and a bounded number of tries for what may succeed later."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from parity.errors import FetchError, Problem

#: Called with bytes so far, and bytes in all where known.
Progress = Callable[[int, int | None], None]
T = TypeVar("T")

#: Statuses that may change by themselves; RFC 9110, 8470 and 6585.
TRANSIENT = frozenset({408, 425, 429, *range(500, 600)} - {501, 505})
_NOTICEABLE_PAUSE = 2.0  # seconds
# Items of a RateLimit field: draft-ietf-httpapi-ratelimit-headers, "RateLimit".
_REMAINING = re.compile(r"(?:^|[;,\s])(?:r|remaining)=(\d{1,12})\b")
_RESET = re.compile(r"(?:^|[;,\s])(?:t|reset)=(\d{1,12})\b")


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Limits of retries and of stalls; times in seconds."""

    max_tries: int = 5  # in a row without a new byte, the first included
    max_wait: float = 60.0  # a server that asks for more is not asked again
    base_pause: float = 0.5
    max_pause: float = 30.0
    total_time: float = 900.0  # for one fetch, all its tries and sources together
    window: float = 30.0  # with fewer than `min_rate` bytes a second, the transfer stalled
    min_rate: float = 1024.0
    # Replaced in tests:
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic

    def compute_pause(self, number: int, wait: float | None) -> float:
        """Return the seconds before try ``number + 1``: full jitter, but at least ``wait``."""
        jitter = self.chance() * min(self.max_pause, self.base_pause * 2.0 ** min(number, 30))
        return max(jitter, wait or 0.0)

    def compute_time_left(self, deadline: float | None) -> float:
        """Return the seconds until ``deadline``, infinite without one."""
        return float("inf") if deadline is None else deadline - self.clock()


@dataclass(frozen=True, kw_only=True)
class FetchOptions:
    """Time limits of a fetch, and the functions to notify.

    ``deadline`` is by ``retry_policy.clock``. ``notify`` is called with a printable sentence that
    explains a wait. ``offline`` asks no server; a local source is still read.
    """

    deadline: float | None = None
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    progress: Progress | None = None
    notify: Callable[[str], None] = lambda _: None
    offline: bool = False

    def limit_deadline(self) -> FetchOptions:
        """Return the same with the end that every fetch has."""
        end = self.retry_policy.clock() + self.retry_policy.total_time
        return replace(self, deadline=end if self.deadline is None else min(end, self.deadline))


class TransientError(Exception, Generic[T]):
    """A try failed in a way that may not last.

    ``wait`` has the seconds that the server asked for, ``last_result`` the result of the try,
    to be checked once no try is left.
    """

    def __init__(
        self, problem: Problem, wait: float | None = None, *, last_result: T | None = None
    ) -> None:
        super().__init__(problem.message)
        self.problem, self.wait, self.last_result = problem, wait, last_result


def retry(
    attempt: Callable[[], T], options: FetchOptions, count_reached: Callable[[], int] = lambda: 0
) -> T:
    """Return the result of the first ``attempt`` that raises no ``TransientError``.

    ``count_reached`` returns the most bytes that we ever had; more of them restart the count of
    tries. A person is notified of a noticeable wait.

    Raises:
        FetchError: The problem of the last try, once no try or no time is left.
    """
    policy = options.retry_policy
    total = number = best = 0
    while True:
        total, number = total + 1, number + 1
        try:
            return attempt()
        except TransientError as error:
            if count_reached() > best:
                number, best = 1, count_reached()
            pause = policy.compute_pause(number, error.wait)
            if (
                number >= policy.max_tries
                or (error.wait or 0.0) > policy.max_wait
                or pause >= policy.compute_time_left(options.deadline)
            ):
                if error.last_result is not None:
                    last: T = error.last_result
                    return last
                *lines, hint = error.problem.details
                tries = "after 1 try" if total == 1 else f"after {total} tries"
                details = (*lines, tries, hint)
                # Not from `error`, whose own cause may contain an address with a secret query.
                raise FetchError(replace(error.problem, details=details)) from None
            if pause >= _NOTICEABLE_PAUSE:
                options.notify(f"{error.problem.message}; trying again in {pause:.0f} s")
        policy.sleep(pause)


def read_wait(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait, by the longer of its two headers.

    They are ``Retry-After`` in either form (RFC 9110, 10.2.3) and ``RateLimit: "api";r=0;t=55``.
    """
    from urllib3 import Retry
    from urllib3.exceptions import InvalidHeader

    waits = []
    with suppress(InvalidHeader, ValueError, OverflowError):
        waits.append(float(Retry().parse_retry_after(headers.get("Retry-After", "")[:100])))
    limit = headers.get("RateLimit", "")
    remaining, reset = _REMAINING.search(limit), _RESET.search(limit)
    if remaining and reset and not int(remaining[1]):
        waits.append(float(reset[1]))
    return max(waits, default=None)
