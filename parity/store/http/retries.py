"""Try again, for a bounded time, what may succeed later."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Generic, TypeVar

from parity.errors import FetchError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from parity.store.options import RetryPolicy

T = TypeVar("T")

_NOTICEABLE_PAUSE = 2.0  # seconds

#: Statuses that may change by themselves; RFC 9110, 8470 and 6585.
TRANSIENT = frozenset({408, 425, 429, *range(500, 600)} - {501, 505})

# Items of a RateLimit field: draft-ietf-httpapi-ratelimit-headers, "RateLimit".
_REMAINING = re.compile(r"(?:^|[;,\s])(?:r|remaining)=(\d{1,12})\b")
_RESET = re.compile(r"(?:^|[;,\s])(?:t|reset)=(\d{1,12})\b")


class TransientError(Exception, Generic[T]):
    """A try failed in a way that may not last.

    Attributes:
        problem: The failure.
        wait: Seconds that the server asked for.
        last_result: The result of the try, to be checked once no try is left.
    """

    def __init__(
        self, problem: Problem, wait: float | None = None, *, last_result: T | None = None
    ) -> None:
        super().__init__(problem.message)
        self.problem = problem
        self.wait = wait
        self.last_result = last_result


def retry(
    attempt: Callable[[], T],
    retry_policy: RetryPolicy,
    deadline: float | None,
    *,
    count_reached: Callable[[], int] = lambda: 0,
    notify: Callable[[str], None] = lambda _: None,
) -> T:
    """Return the result of the first try that succeeds.

    Args:
        attempt: One try; raises ``TransientError`` for what may succeed later.
        retry_policy: How often and how long.
        deadline: By ``retry_policy.clock``.
        count_reached: Returns the most bytes that we ever had; more of them restart the count.
        notify: Called with a sentence about a wait that a person would notice.

    Raises:
        FetchError: The problem of the last try, once no try or no time is left.
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
    # Not from `error`, whose own cause may contain an address with a secret query.
    raise FetchError(Problem(problem.code, problem.message, problem.where, details)) from None


def read_wait(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that a server asks to wait, by the longer of its two headers."""
    stated = (
        parse_retry_after(headers.get("Retry-After"), now),
        parse_rate_limit(headers.get("RateLimit")),
    )
    return max((wait for wait in stated if wait is not None), default=None)


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Return the seconds of a ``Retry-After``, in either form, or None (RFC 9110, 10.2.3)."""
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
    """Return the seconds until a ``RateLimit: "api";r=0;t=55`` allows a request, or None."""
    remaining, reset = (part.search(value or "") for part in (_REMAINING, _RESET))
    if remaining is None or reset is None or int(remaining[1]):
        return None
    return float(reset[1])
