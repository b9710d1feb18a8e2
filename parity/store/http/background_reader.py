"""Run a transfer in a thread of its own, and watch its pace from outside.

A server can block a client in more ways than timeouts of a socket cover: a header sent byte
by byte, 1xx answers or trailers without end, a silent name server. So one thread talks, and
another, which has the clock, waits for its events.
"""

from __future__ import annotations

import queue
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parity.store.http import failures

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from parity.store.options import RetryPolicy

#: Pieces that the thread may be ahead; with one in use on each side, 1 MiB is lost at most.
_MAX_QUEUED = 2
PIECE = 1 << 18  # bytes
_GRACE = 1.0  # seconds for a thread whose connection was cut
_POLL = 0.1  # seconds


@dataclass(frozen=True)
class Redirected:
    """A redirect was followed: progress without a byte of the file."""


class _EndOfBody:
    """The end of the events."""


class BackgroundReader:
    """Runs ``events`` in a thread; ``cut`` must wake it, whatever it waits for."""

    def __init__(self, events: Generator[object], cut: Callable[[], None]) -> None:
        self._events = events
        self._cut = cut
        self._queue: queue.Queue[object] = queue.Queue(_MAX_QUEUED)
        self._closed = threading.Event()
        # A daemon: where it cannot be woken (a silent name server), it delays no exit.
        self._thread = threading.Thread(target=self._run, daemon=True, name="parity-fetch")
        self._thread.start()

    def _run(self) -> None:
        try:
            for event in self._events:
                if not self._put(event):
                    return
            self._put(_EndOfBody())
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
            self._put(error)
        finally:
            with suppress(Exception):
                self._events.close()

    def _put(self, event: object) -> bool:
        while not self._closed.is_set():
            with suppress(queue.Full):
                self._queue.put(event, timeout=_POLL)
                return True
        return False

    def get(self, timeout: float) -> object:
        """Return the thread's next event.

        Raises:
            queue.Empty: There was none for ``timeout`` seconds.
        """
        return self._queue.get(timeout=max(timeout, 0.0))

    def close(self) -> None:
        """Cut the connection and let the thread end."""
        self._closed.set()
        self._cut()
        self._thread.join(_GRACE)


def watch_events(
    reader: BackgroundReader, retry_policy: RetryPolicy, deadline: float | None
) -> Iterator[object]:
    """Yield the events of ``reader`` as long as they are fast enough.

    Only waiting counts: a slow disk, or hashing a prefix, is not a stall
    (mudler/LocalAI#11099).

    Raises:
        TransientError: Too few bytes over the window, or raised by the thread.
        FetchError: ``fetch-deadline``, or raised by the thread.
    """
    pace = _TransferPace(retry_policy)
    while True:
        event = _wait_for_event(
            reader, pace, retry_policy.compute_time_left(deadline), retry_policy.clock
        )
        if isinstance(event, BaseException):
            raise event
        if isinstance(event, _EndOfBody):
            return
        pace.count_event(event)
        yield event


def _wait_for_event(
    reader: BackgroundReader, pace: _TransferPace, left: float, clock: Callable[[], float]
) -> object:
    while True:
        if left <= 0:
            raise failures.make_deadline_error()
        start, allowed = clock(), min(left, pace.left)
        try:
            event = reader.get(allowed)
        except queue.Empty:
            pace.waited += allowed
            left -= allowed
            pace.check_pace()
        else:
            pace.waited += clock() - start
            return event


class _TransferPace:
    """Bytes over a window of waiting."""

    def __init__(self, retry_policy: RetryPolicy) -> None:
        self._retry_policy = retry_policy
        self.waited = 0.0
        self._received = 0

    @property
    def left(self) -> float:
        return max(self._retry_policy.window - self.waited, 0.0)

    def count_event(self, event: object) -> None:
        """Count the bytes of an event; any other event is progress, too."""
        if isinstance(event, bytes):
            self._received += len(event)
            self.check_pace()
        else:
            self.waited, self._received = 0.0, 0

    def check_pace(self) -> None:
        """At the end of a window, check for enough bytes; then begin another."""
        window, min_rate = self._retry_policy.window, self._retry_policy.min_rate
        if self.waited < window:
            return
        if self._received < min_rate * window:
            raise failures.make_stall_error(window, min_rate)
        self.waited, self._received = 0.0, 0
