"""A bundle's bytes, from the first of its sources that has them, held against the lock."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from parity.errors import FetchError, IntegrityError, ParityError, Problem, most_severe
from parity.store import local_source, sources
from parity.store.hashing_writer import HashingWriter
from parity.store.http import failures, statuses, transport
from parity.store.http.ranges import FileRequest, is_continuation
from parity.store.http.retries import TransientError, retry
from parity.store.integrity import ReceivedFile, check_received, guess_content
from parity.store.options import FetchOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from parity.lockfile import Bundle
    from parity.store.http.transport import Answer
    from parity.store.resume import PartialDownload
    from parity.store.sources import Url


def download(
    bundle: Bundle,
    folder: Path,
    target: Path,
    options: FetchOptions | None = None,
    partial: PartialDownload | None = None,
) -> ReceivedFile:
    """Write the bundle's bytes to ``target``, and hold them against its lock if it has one.

    Its sources are asked in turn, until one has the right bytes.

    Args:
        bundle: Its ``source`` is asked at the locked ``rev``, then its mirrors.
        folder: The lockfile's, which a path is relative to.
        target: A temporary file; what it holds is gone on with if it is a ``part``.
        terms: How long to try, and who is told.
        part: The claim that ``target`` belongs to. Without one, each try begins anew.

    Raises:
        ConfigError: ``source-invalid``.
        FetchError: ``source-…``, ``http-…``, ``fetch-…``.
        IntegrityError: ``integrity-size``, then ``integrity-hash``.
        OSError: The target could not be written.
    """
    options = (options or FetchOptions()).limit_deadline()
    with HashingWriter(target, bundle.locked, options.progress) as writer:
        if partial is None or partial.is_damaged(writer.count):
            writer.reset()
        received = _BundleDownload(bundle, folder, writer, options, partial).run()
        writer.sync()
    return received


def add_bundle_name(error: ParityError, bundle: Bundle) -> ParityError:
    """The same error, saying which bundle it is about and where its source stands."""
    where = bundle.where.get("source") or bundle.where.get("")
    problems = (
        replace(problem, message=f"{bundle.id}: {problem.message}", where=problem.where or where)
        for problem in error.problems
    )
    return type(error)(*problems)


@dataclass(frozen=True)
class _BundleDownload:
    """One bundle's way through its sources."""

    bundle: Bundle
    folder: Path
    writer: HashingWriter
    options: FetchOptions
    partial: PartialDownload | None

    def run(self) -> ReceivedFile:
        errors: list[tuple[str, ParityError]] = []
        for source in self._list_sources():
            try:
                return self._transfer_and_check(self._choose_transfer(source))
            except (FetchError, IntegrityError) as error:
                errors.append((source, error))
            if errors[-1][1].problems[0].code == "fetch-deadline":
                break
            if not isinstance(errors[-1][1], FetchError):
                self.writer.reset()  # wrong bytes are nothing to go on with
        raise _merge_errors(errors)

    def _list_sources(self) -> tuple[str, ...]:
        found = sources.list_candidates(self.bundle)
        return tuple(s for s in found if sources.is_local(s) or not self.options.offline)

    def _choose_transfer(self, source: str) -> Callable[[], ReceivedFile]:
        """How the bytes of one source are had.

        Raises:
            ConfigError: ``source-invalid``.
        """
        if sources.is_local(source):
            return lambda: self._copy_local(source)
        rev = self.bundle.locked.rev if self.bundle.locked else None
        try:
            url = sources.resolve(source, rev)
        except ParityError as error:
            raise add_bundle_name(error, self.bundle) from None
        return lambda: self._download_with_retries(url)

    def _transfer_and_check(self, transfer: Callable[[], ReceivedFile]) -> ReceivedFile:
        """What a source gave, once it is right; a rest that does not fit is no verdict."""
        received = self._run_transfer(transfer)
        try:
            check_received(received, self.bundle.locked, self.bundle)
        except IntegrityError:
            if not self.writer.resumed:
                raise
            self.options.notify("the rest did not fit what was there; fetching it from the start")
            self.writer.reset()
            received = self._run_transfer(transfer)
            check_received(received, self.bundle.locked, self.bundle)
        return received

    def _run_transfer(self, transfer: Callable[[], ReceivedFile]) -> ReceivedFile:
        try:
            return transfer()
        except ParityError as error:
            raise add_bundle_name(error, self.bundle) from None

    def _copy_local(self, source: str) -> ReceivedFile:
        self.writer.reset()
        try:
            with local_source.open_source(self.folder / source, source) as (chunks, size):
                self.writer.fill(chunks, size)
        except BaseException:
            with suppress(OSError):
                self.writer.reset()  # the source is at hand: nothing to go on with
            raise
        return self.writer.summarize(sources.sanitize_source(source))

    def _download_with_retries(self, url: Url) -> ReceivedFile:
        retry_policy, deadline = self.options.retry_policy, self.options.deadline
        return retry(
            lambda: self._request(url),
            retry_policy,
            deadline,
            count_reached=lambda: self.writer.peak,
            notify=self.options.notify,
        )

    def _request(self, url: Url) -> ReceivedFile:
        """One try, from the first address: presigned ones expire."""
        if self.partial is None:
            self.writer.reset()
        printable = sources.sanitize_source(url.address)
        if self.writer.count and self.writer.is_whole:
            # All came, now or in an earlier run, and only the end of the answer did not.
            return self.writer.summarize(printable)
        etag = self.partial.read_etag(printable) if self.partial else None
        request = FileRequest(self.writer.count, etag)
        with transport.open_url(
            url, self.options.retry_policy, self.options.deadline, request
        ) as answer:
            if self._accept_answer(answer, request):
                return self._write_body(answer, printable)
        # The whole file, then: this cannot come by again, since nothing is left to go on with.
        return self._request(url)

    def _accept_answer(self, answer: Answer, request: FileRequest) -> bool:
        """Whether ``answer`` can be appended, or else begins anew; the file is made ready."""
        if not request.start:
            return True
        size, content_range = self.writer.expected_size, answer.headers.get("Content-Range")
        is_partial = answer.status == statuses.PARTIAL
        if is_partial and is_continuation(content_range, request.start, size):
            return True
        self.writer.reset()
        return answer.status == statuses.OK

    def _write_body(self, answer: Answer, printable: str) -> ReceivedFile:
        writer, length = self.writer, answer.length
        if self.partial is not None:
            self.partial.write_note(printable, answer.headers.get("ETag"), writer.count)
        writer.fill(answer.pieces, None if length is None else writer.count + length)
        received = writer.summarize(
            _describe_origin(printable, answer.redirects, resumed=writer.resumed)
        )
        if not answer.has_known_end and _is_cut_short(received, writer.expected_size):
            obtained = failures.format_cut_short(
                received.size, (writer.expected_size or 0) - received.size
            )
            raise TransientError(failures.make_network_problem(obtained), last_result=received)
        return received


def _is_cut_short(received: ReceivedFile, size: int | None) -> bool:
    """Whether the end of a connection was no end of the file: not where it is something else."""
    if size is None or received.size >= size:
        return False
    guess = guess_content(received.head, received.size, size)
    return not received.size or not guess or "cut short" in guess


def _describe_origin(printable: str, redirects: int, *, resumed: bool) -> str:
    notes = [f"{redirects} redirect{'s' if redirects > 1 else ''}"] if redirects else []
    notes += ["resumed"] if resumed else []
    return f"{printable} ({', '.join(notes)})" if notes else printable


def _merge_errors(errors: list[tuple[str, ParityError]]) -> ParityError:
    """The gravest of the errors, the first of these, with a line for each other source."""
    worst = most_severe(error.kind for _, error in errors)
    main = next(error for _, error in errors if error.kind == worst)
    others = [_describe_attempt(source, error) for source, error in errors if error is not main]
    first, *more = main.problems
    *lines, last = first.details
    details = (*lines, *others, last)
    return type(main)(replace(first, details=details), *more)


def _describe_attempt(source: str, error: ParityError) -> str:
    problem: Problem = error.problems[0]
    obtained = next((line[4:].strip() for line in problem.details if line.startswith("got ")), "")
    reason = obtained or problem.message.partition(": ")[2]
    return f"also tried: {sources.sanitize_source(source)} ({problem.code}: {reason})"
