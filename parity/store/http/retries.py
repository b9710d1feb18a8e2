"""Trying again, for a bounded time, what may pass by itself."""

from __future__ import annotations

import random
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from parity.errors import FetchError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

_NOTICEABLE_PAUSE = 2.0  # seconds

#: Statuses of a server that may pass; RFC 9110, 8470 and 6585.
TRANSIENT = frozenset({408, 425, 429, *range(500, 600)} - {501, 505})

# Items of a RateLimit field: draft-ietf-httpapi-ratelimit-headers, "RateLimit".
_REMAINING = re.compile(r"(?:^|[;,\s])(?:r|remaining)=(\d{1,12})\b")
_RESET = re.compile(r"(?:^|[;,\s])(?:t|reset)=(\d{1,12})\b")


class TransientError(Exception, Generic[T]):
    """A try failed in a way that may pass.

    Attributes:
        problem: What failed.
        wait: What the server asked for, in seconds.
        last: What the try came to, where that is to be judged once no try is left.
    """

    def __init__(
        self, problem: Problem, wait: float | None = None, *, last_result: T | None = None
    ) -> None:
        super().__init__(problem.message)
        self.problem = problem
        self.wait = wait
        self.last_result = last_result


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How often and how long to try; seconds throughout.

    Attributes:
        tries: In a row without a new byte, the first included.
        longest: A server that asks for more is not asked again.
        whole: For one fetch, all its tries and sources together.
        window, slowest: Fewer bytes a second over a window are a stall.
        sleep, chance, clock, now: Injected by tests; ``clock`` is monotonic, ``now`` the epoch's.
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
        """Seconds before try ``number + 1``: full jitter, but never less than was asked for."""
        jitter = self.chance() * min(self.max_pause, self.base_pause * 2.0 ** min(number, 30))
        return max(jitter, wait or 0.0)

    def compute_time_left(self, deadline: float | None) -> float:
        """Seconds until ``deadline``, infinite without one."""
        return float("inf") if deadline is None else deadline - self.clock()


def retry(
    attempt: Callable[[], T],
    retry_policy: RetryPolicy,
    deadline: float | None,
    *,
    count_reached: Callable[[], int] = lambda: 0,
    notify: Callable[[str], None] = lambda _: None,
) -> T:
    """The result of the first try that succeeds.

    Args:
        attempt: One try; raises ``TransientError`` for what may pass.
        patience: How often and how long.
        deadline: By ``patience.clock``.
        reached: The most bytes that were ever had; a try that had more starts the count anew.
        tell: Told of a wait that a person would notice.

    Raises:
        FetchError: The problem of the last try, once tries or time are used up.
    """
    total = number = best = 0
    while True:
        total, number = total + 1, number + 1
        try:
            return attempt()
        except TransientError as error:
            if count_reached() > best:
                number, best = 1, count_reached()
            pause = retry_policy.compute_pause(number, error.wait)
            too_long = (error.wait or 0.0) > retry_policy.max_wait
            if (
                number >= retry_policy.max_tries
                or too_long
                or pause >= retry_policy.compute_time_left(deadline)
            ):
                result: T = _finish(error, total)
                return result
            if pause >= _NOTICEABLE_PAUSE:
                notify(f"{error.problem.message}; trying again in {pause:.0f} s")
        retry_policy.sleep(pause)


def _finish(error: TransientError[T], tries: int) -> T:
    result: T | None = error.last_result
    if result is not None:
        return result
    problem = error.problem
    *lines, hint = problem.details
    count = "1 try" if tries == 1 else f"{tries} tries"
    details = (*lines, f"after {count}", hint)
    # Not from `passing`, whose own cause may hold an address with a secret query.
    raise FetchError(Problem(problem.code, problem.message, problem.where, details)) from None


def read_wait(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that a server asks to be left alone, by the longer of its two headers."""
    stated = (
        parse_retry_after(headers.get("Retry-After"), now),
        parse_rate_limit(headers.get("RateLimit")),
    )
    return max((wait for wait in stated if wait is not None), default=None)


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Seconds that a ``Retry-After`` asks for, in either form, or None (RFC 9110, 10.2.3)."""
    import email.utils

    if value is None:
        return None
    if value.strip().isdecimal() and value.isascii():
        return float(value.strip()[:12])
    try:
        then = email.utils.parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, then - now)


def parse_rate_limit(value: str | None) -> float | None:
    """Seconds until a ``RateLimit: "api";r=0;t=55`` lets one in again, or None."""
    remaining, reset = (part.search(value or "") for part in (_REMAINING, _RESET))
    if remaining is None or reset is None or int(remaining[1]):
        return None
    return float(reset[1])
