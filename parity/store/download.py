"""Download a bundle from the first of its sources that has the locked bytes."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Self

from parity.errors import FetchError, IntegrityError, ParityError, Problem, most_severe
from parity.lockfile import Bundle, Locked
from parity.lockfile.contents import MAX_BYTES
from parity.lockfile.source_rules import is_local
from parity.store import retries, sources, transport
from parity.store.disk import write_whole
from parity.store.integrity import HEAD_BYTES, ReceivedFile, check_received, guess_content
from parity.store.retries import FetchOptions, Progress, TransientError, retry
from parity.store.sources import Url
from parity.store.trees import CHUNK


def download(
    bundle: Bundle, folder: Path, target: Path, options: FetchOptions | None = None
) -> ReceivedFile:
    """Write the bundle's bytes to ``target``, and check them against its lock if it has one.

    Its source at the locked ``rev`` and its mirrors are tried in turn, until one has the right
    bytes; a path is relative to ``folder``, the lockfile's. The bytes that ``target`` has are
    resumed, if there is a lock to check them by.

    Raises:
        ConfigError: ``source-invalid``.
        FetchError: ``source-…``, ``http-…``, ``fetch-…``.
        IntegrityError: ``integrity-size``, then ``integrity-hash``.
        OSError: The target could not be written.
    """
    options = (options or FetchOptions()).limit_deadline()
    with HashingWriter(target, bundle.locked, options.progress) as writer:
        received = _BundleDownload(bundle, folder, writer, options).run()
        writer.sync()
    return received


class HashingWriter:
    """A growing file, and the first bytes of it for a diagnosis; entering it hashes what it has.

    ``count`` are the bytes in the file, ``peak`` the most that it ever had; ``resumed`` says that
    they are from more than one answer.
    """

    def __init__(self, target: Path, locked: Locked | None, progress: Progress | None) -> None:
        self._target, self._locked, self._progress = target, locked, progress
        self.expected_size = locked.size if locked else None
        self._max_bytes = MAX_BYTES if self.expected_size is None else self.expected_size
        self.peak = 0
        self._reset_state()

    def _reset_state(self) -> None:
        self.count, self.resumed = 0, False
        self._digest, self._head = hashlib.sha256(), b""

    @property
    def is_whole(self) -> bool:
        """The file has the locked hash."""
        return self._locked is not None and self._digest.hexdigest() == self._locked.sha256

    def __enter__(self) -> Self:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        fd = os.open(self._target, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)
        self._file: BinaryIO = open(fd, "r+b", buffering=0)  # noqa: PTH123 - closed by __exit__
        while chunk := self._file.read(CHUNK):
            self._record_piece(chunk)
        if self.count > self._max_bytes:
            self.reset()
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def reset(self) -> None:
        """Start over with an empty file."""
        self._file.seek(0)
        self._file.truncate()
        self._reset_state()

    def fill(self, chunks: Iterator[bytes], total: int | None) -> None:
        """Append all chunks, but at most one byte more than expected; ``total`` is for progress."""
        self.resumed = self.count > 0
        for chunk in chunks:
            piece = chunk[: self._max_bytes + 1 - self.count]
            write_whole(self._file.fileno(), piece)
            self._record_piece(piece)
            if self._progress is not None:
                expected = self.expected_size
                self._progress(self.count, total if expected is None else expected)
            if self.count > self._max_bytes:
                return

    def _record_piece(self, piece: bytes) -> None:
        self._digest.update(piece)
        self._head += piece[: HEAD_BYTES - len(self._head)]
        self.count += len(piece)
        self.peak = max(self.peak, self.count)

    def summarize(self, origin: str) -> ReceivedFile:
        """Return what was received; ``origin`` is printable."""
        has_more = self.count > self._max_bytes
        sha256 = self._digest.hexdigest()
        return ReceivedFile(self.count, sha256, self._head, origin, has_more=has_more)

    def sync(self) -> None:
        """Make the file survive a power cut."""
        os.fsync(self._file.fileno())


def add_bundle_name(error: ParityError, bundle: Bundle) -> ParityError:
    """Return the same error with the bundle's id and the place of its source."""
    where = bundle.where.get("source") or bundle.where.get("")
    problems = (
        replace(problem, message=f"{bundle.id}: {problem.message}", where=problem.where or where)
        for problem in error.problems
    )
    return type(error)(*problems)


@dataclass(frozen=True)
class _BundleDownload:
    """One bundle, downloaded from one of its sources."""

    bundle: Bundle
    folder: Path
    writer: HashingWriter
    options: FetchOptions

    def run(self) -> ReceivedFile:
        errors: list[tuple[str, ParityError]] = []
        for source in sources.list_candidates(self.bundle):
            if self.options.offline and not is_local(source):
                continue
            try:
                return self._transfer_and_check(self._choose_transfer(source))
            except (FetchError, IntegrityError) as error:
                errors.append((source, error))
            if errors[-1][1].problems[0].code == "fetch-deadline":
                break
            if not isinstance(errors[-1][1], FetchError):
                self.writer.reset()  # wrong bytes cannot be resumed
        raise _merge_errors(errors)

    def _choose_transfer(self, source: str) -> Callable[[], ReceivedFile]:
        """Return the function that transfers the bytes of one source, which must be valid."""
        if is_local(source):
            return lambda: self._copy_local(source)
        rev = self.bundle.locked.rev if self.bundle.locked else None
        try:
            url = sources.resolve(source, rev)
        except ParityError as error:
            raise add_bundle_name(error, self.bundle) from None
        return lambda: retry(lambda: self._request(url), self.options, lambda: self.writer.peak)

    def _transfer_and_check(
        self, transfer: Callable[[], ReceivedFile], *, is_repeated: bool = False
    ) -> ReceivedFile:
        """Transfer and check; where a resumed rest does not fit, start over once."""
        try:
            received = transfer()
        except ParityError as error:
            raise add_bundle_name(error, self.bundle) from None
        try:
            check_received(received, self.bundle.locked, self.bundle)
        except IntegrityError:
            if is_repeated or not self.writer.resumed:
                raise
            self.options.notify("the resumed bytes do not fit; downloading from the start")
            self.writer.reset()
            return self._transfer_and_check(transfer, is_repeated=True)
        return received

    def _copy_local(self, source: str) -> ReceivedFile:
        path, total = self.folder / source, None
        self.writer.reset()
        with suppress(OSError, ValueError):  # reported where it is read
            total = path.stat().st_size
        try:
            self.writer.fill(_read_local(path, source), total)
        except BaseException:
            with suppress(OSError):
                self.writer.reset()  # a local source need not be resumed
            raise
        return self.writer.summarize(sources.sanitize_source(source))

    def _request(self, url: Url) -> ReceivedFile:
        """Make one try, from the first address: signed ones expire."""
        if self.bundle.locked is None:
            self.writer.reset()
        printable = sources.sanitize_source(url.address)
        if self.writer.count and self.writer.is_whole:
            # All bytes are there; only the end of the answer was missing, now or in an earlier run.
            return self.writer.summarize(printable)
        start, size = self.writer.count, self.writer.expected_size
        with transport.open_url(url, self.options, start=start) as answer:
            is_fitting = not start or answer.is_continuation(start, size)
            if not is_fitting:
                self.writer.reset()
            if is_fitting or answer.status == transport.OK:
                return self._write_body(answer, printable)
        # The whole file, then: this cannot recur, since no bytes are left to resume.
        return self._request(url)

    def _write_body(self, answer: transport.Answer, printable: str) -> ReceivedFile:
        writer, length, redirects = self.writer, answer.length, answer.redirects
        writer.fill(answer.pieces, None if length is None else writer.count + length)
        notes = [f"{redirects} redirect{'s' if redirects > 1 else ''}"] if redirects else []
        notes += ["resumed"] if writer.resumed else []
        received = writer.summarize(f"{printable} ({', '.join(notes)})" if notes else printable)
        missing = (writer.expected_size or 0) - received.size
        if answer.has_known_end or missing <= 0:
            return received
        # The connection broke, unless the file is another one.
        guess = guess_content(received.head, received.size, writer.expected_size)
        if received.size and guess and "cut short" not in guess:
            return received
        obtained = retries.format_cut_short(received.size, missing)
        raise TransientError(retries.make_network_problem(obtained), last_result=received)


def _merge_errors(errors: list[tuple[str, ParityError]]) -> ParityError:
    """Return the first of the most severe errors, with a line for each other source."""
    worst = most_severe(error.kind for _, error in errors)
    main = next(error for _, error in errors if error.kind == worst)
    others = []
    for source, problem in ((one, error.problems[0]) for one, error in errors if error is not main):
        obtained = (line[9:].strip() for line in problem.details if line.startswith("obtained "))
        reason = next(obtained, "") or problem.message.partition(": ")[2]
        reason = f"({problem.code}: {reason})"
        others.append(f"also tried: {sources.sanitize_source(source)} {reason}")
    first, *more = main.problems
    *lines, last = first.details
    return type(main)(replace(first, details=(*lines, *others, last)), *more)


def _read_local(path: Path, source: str) -> Iterator[bytes]:
    """Yield the bytes of a path beside the lockfile, or above it.

    Raises:
        FetchError: ``source-missing``, ``source-not-a-file``, ``source-unreadable``.
    """
    reason: Exception | None = None
    try:
        # Before opening: a pipe would wait for its writer.
        if stat.S_ISREG(path.stat().st_mode):
            with path.open("rb") as file:
                while chunk := file.read(CHUNK):
                    yield chunk
            return
        code, message = "source-not-a-file", "the source is not a regular file"
    except FileNotFoundError as error:
        code, message, reason = "source-missing", "the source does not exist", error
    except (OSError, ValueError) as error:
        message = f"the source cannot be read: {getattr(error, 'strerror', None) or error}"
        code, reason = "source-unreadable", error
    details = (
        f"from      {sources.sanitize_source(source)}",
        "a path is relative to the lockfile's folder; check it, or fetch the file's repo in full",
    )
    raise FetchError(Problem(code, message, None, details)) from reason
