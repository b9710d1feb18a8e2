"""Each fault of a server: the fetch survives it, or ends with a stated error."""

from __future__ import annotations

import gzip
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from parity.errors import FetchError, IntegrityError, ParityError, Problem
from parity.store import disk
from parity.store.store import FetchedBundle, Store
from tests.support import fault_server as s
from tests.support.fault_server import ServedFile
from tests.support.fetching import (
    DATA,
    FILES,
    NOISE,
    OTHER_DATA,
    SOURCE,
    FakeClock,
    compute_sha256,
    make_bundle,
    read_files,
)

if TYPE_CHECKING:
    Fetch = Callable[..., FetchedBundle]

pytestmark = pytest.mark.network

SIZE = len(DATA)
HALF = SIZE // 2
CUT = 131_072  # a multiple of the server's pieces, so that all of it arrives


@dataclass(frozen=True)
class Fault:
    """Answers to one address, and what is due.

    Attributes:
        ends: ``"ok"``, or the code of the error.
        ranges: ``Range`` of each request, where it is due.
        slept: Seconds between tries, where they are due.
        window: Seconds after which a slow transfer counts as stalled.
    """

    answers: Callable[[], list[Any]]
    ends: str = "ok"
    ranges: list[str] | None = None
    slept: list[float] | None = None
    window: float = 30.0


def cut(**changed: Any) -> Callable[[], list[Any]]:
    """A file whose first answer is dropped after ``CUT`` bytes."""
    return lambda: [ServedFile(DATA, drops=[CUT], **changed)]


def limited(*headers: str) -> Callable[[], list[Any]]:
    return lambda: [s.make_status(429, *headers), s.make_ok(DATA)]


stall = partial(Fault, window=0.5)
REST = f"bytes={CUT}-"
SHORT = s.make_ok(DATA[:CUT], length=SIZE)
LINE = b"X-Filler: 0123456789\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (SIZE, DATA)

FAULTS = {
    # Resuming.
    "dropped, then the rest": Fault(cut(), ranges=["", REST]),
    "dropped three times, then the rest": Fault(lambda: [ServedFile(DATA, drops=[65_536] * 3)],
        ranges=["", "bytes=65536-", "bytes=131072-", "bytes=196608-"]),
    "dropped more often than there are tries": Fault(lambda: [ServedFile(DATA, drops=[32_768] * 9)],
        ranges=["", *(f"bytes={32_768 * n}-" for n in range(1, 10))]),
    "Range ignored": Fault(cut(ranges=False), ranges=["", REST]),
    "Content-Range with another start": Fault(cut(start=1), ranges=["", REST, ""]),
    "Content-Range with another total": Fault(cut(total=1), ranges=["", REST, ""]),
    "Content-Range without a total": Fault(cut(total=None), ranges=["", REST, ""]),
    "206 without Content-Range": Fault(lambda: [SHORT, s.make_head(206) + DATA[CUT:],
        s.make_ok(DATA)], ranges=["", REST, ""]),
    "416": Fault(cut(unsatisfiable=True), ranges=["", REST, ""]),
    "a rest that is wrong": Fault(cut(rests=OTHER_DATA), ranges=["", REST, ""]),
    "a beginning that is wrong": Fault(lambda: [s.make_ok(OTHER_DATA[:CUT], length=SIZE),
        ServedFile(DATA)], ranges=["", REST, ""]),
    "403 to the rest": Fault(lambda: [SHORT, s.make_status(403)], "http-forbidden", ["", REST]),
    # Bodies.
    "longer than Content-Length": Fault(lambda: [s.make_ok(DATA + b"more", length=SIZE)]),
    "longer than locked": Fault(lambda: [s.make_ok(DATA + b"1")], "integrity-size"),
    "shorter than Content-Length, always": Fault(lambda: [SHORT], "fetch-network"),
    "shorter than Content-Length, once": Fault(lambda: [SHORT, ServedFile(DATA)],
        ranges=["", REST]),
    "shorter than locked": Fault(lambda: [s.make_ok(DATA[:CUT])], "integrity-size", [""]),
    "chunked": Fault(lambda: [s.make_chunked(DATA[:5], DATA[5:])]),
    "chunked, without its end": Fault(lambda: [s.make_chunked(DATA[:CUT], end=False),
        ServedFile(DATA)], ranges=["", REST]),
    "chunked, with a broken length": Fault(lambda: [s.make_chunked(DATA[:CUT],
        end=False) + b"zz\r\n", ServedFile(DATA)]),
    "no length": Fault(lambda: [s.make_unsized(DATA)], ranges=[""]),
    "no length and short, once": Fault(lambda: [ServedFile(DATA, drops=[CUT], sized=False)],
        ranges=["", REST]),
    "no length and short, always": Fault(lambda: [s.make_unsized(DATA[:CUT])], "integrity-size",
        ["", REST, REST, REST, REST]),
    "no length, and a page about it": Fault(lambda: [s.make_unsized(b"<html>Sign in")],
        "integrity-size", [""]),
    "endless": Fault(lambda: [s.send_endlessly(s.make_unsized(DATA))], "integrity-size"),
    "other bytes of the right length": Fault(lambda: [s.make_ok(OTHER_DATA)], "integrity-hash",
        [""]),
    "labelled as gzip": Fault(lambda: [s.make_ok(DATA, "Content-Encoding: gzip")]),
    "packed with gzip": Fault(lambda: [s.make_ok(gzip.compress(DATA), "Content-Encoding: gzip")],
        "integrity-size"),
    "two lengths": Fault(lambda: [s.make_head(200, f"Content-Length: {SIZE}",
        "Content-Length: 7") + DATA], "fetch-network"),
    "a length that is no number": Fault(lambda: [s.make_head(200,
        f"Content-Length: {'9' * 5000}") + DATA, s.make_ok(DATA)]),
    "nothing": Fault(lambda: [s.send(b""), s.make_ok(DATA)]),
    "another protocol": Fault(lambda: [s.send(b"SSH-2.0-OpenSSH\r\n"), s.make_ok(DATA)]),
    "RST before the head": Fault(lambda: [s.send_and_reset(b""), s.make_ok(DATA)]),
    "RST in the body": Fault(lambda: [s.send_and_reset(SHORT), ServedFile(DATA)]),
    # Time.
    "silence before the head": stall(lambda: [s.send_and_wait(b"", 5), s.make_ok(DATA)]),
    "silence in the head": stall(lambda: [s.send_and_wait(b"HTTP/1.1 200 OK\r\n", 5),
        s.make_ok(DATA)]),
    "silence in the body": stall(lambda: [s.send_and_wait(SHORT, 5), ServedFile(DATA)],
        ranges=["", REST]),
    "silence, always": stall(lambda: [s.send_and_wait(b"", 5)], "fetch-stalled"),
    "a head that drips": stall(lambda: [s.send_slowly(s.make_ok(DATA)[:90], 0.05),
        s.make_ok(DATA)]),
    "a body that drips": stall(lambda: [s.send_slowly(s.make_ok(b"x" * 99, length=SIZE), 0.05),
        s.make_ok(DATA)]),
    "1xx without end": stall(lambda: [s.send_flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        s.make_ok(DATA)]),
    "headers without end": stall(lambda: [s.send_flood(b"HTTP/1.1 200 OK\r\n", LINE),
        s.make_ok(DATA)]),
    "headers of a 1xx without end": stall(lambda: [s.send_flood(b"HTTP/1.1 100 Continue\r\n", LINE),
        s.make_ok(DATA)]),
    "trailers without end": stall(lambda: [s.send_flood(CHUNKED + b"0\r\n", LINE)], ranges=[""]),
    "early hints": Fault(lambda: [b"HTTP/1.1 103 Early Hints\r\n\r\n" + s.make_ok(DATA)],
        "http-status"),
    # Statuses.
    "429 with seconds": Fault(limited("Retry-After: 20"), slept=[20.0]),
    "429 with a date": Fault(limited("Retry-After: Mon, 12 Jan 1970 13:46:50 GMT"), slept=[10.0]),
    "429 with a past date": Fault(limited("Retry-After: Mon, 12 Jan 1970 00:00:00 GMT"),
        slept=[0.0]),
    "429 with -1": Fault(limited("Retry-After: -1"), slept=[0.0]),
    "429 with 10^9": Fault(limited("Retry-After: 1000000000"), "http-rate-limited", slept=[]),
    "429 with nothing": Fault(limited(), slept=[0.0]),
    "429 with RateLimit": Fault(limited('RateLimit: "api";r=0;t=55'), slept=[55.0]),
    "429 with RateLimit, too long": Fault(limited('RateLimit: "api";r=0;t=300'),
        "http-rate-limited", slept=[]),
    "429 with both": Fault(limited("Retry-After: 5", "RateLimit: r=0;t=9"), slept=[9.0]),
    "429, always": Fault(lambda: [s.make_status(429)], "http-rate-limited", slept=[0.0] * 4),
    "503 twice": Fault(lambda: [s.make_status(503), s.make_status(503), s.make_ok(DATA)],
        slept=[0.0, 0.0]),
    "501": Fault(lambda: [s.make_status(501)], "http-server-error", slept=[]),
    "401": Fault(lambda: [s.make_status(401)], "http-unauthorized", slept=[]),
    "403 once": Fault(lambda: [s.make_status(403), s.make_ok(DATA)], "http-forbidden", slept=[]),
    "404": Fault(lambda: [s.make_status(404)], "http-not-found", slept=[]),
    "410": Fault(lambda: [s.make_status(410)], "http-gone", slept=[]),
    **{str(code): Fault(lambda code=code: [s.make_status(code), s.make_ok(DATA)],
        slept=[0.0]) for code in (408, 425, 500, 504)},
    **{str(code): Fault(lambda code=code: [s.make_status(code)], "http-status",
        slept=[]) for code in (204, 206, 304, 400, 416)},
    "505": Fault(lambda: [s.make_status(505)], "http-server-error", slept=[]),
    # Redirects.
    "a loop": Fault(lambda: [s.make_redirect("/b.tar")], "fetch-redirect", slept=[]),
    "to a file": Fault(lambda: [s.make_redirect("file:///etc/hostname")], "fetch-redirect",
        slept=[]),
    "to plain http": Fault(lambda: [s.make_redirect("http://example.org/b")], "fetch-redirect",
        slept=[]),
    "to nowhere": Fault(lambda: [s.make_status(302)], "http-status", slept=[]),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_000_000.0)  # what a date in Retry-After is after
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def time_() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, time_: FakeClock, request: pytest.FixtureRequest) -> Iterator[Store]:
    params = getattr(request.node, "callspec", SimpleNamespace(params={})).params
    window = FAULTS[params["name"]].window if "name" in params else 2.0
    made = Store(tmp_path / "store", retry_policy=time_.make_retry_policy(window=window))
    yield made
    disk.remove(made.root)


@pytest.fixture
def server() -> Iterator[s.FaultServer]:
    with s.FaultServer({}) as running:
        yield running


@pytest.fixture
def fetch(store: Store, tmp_path: Path) -> Fetch:
    return lambda entry, **options: store.fetch_tree(entry, lockfile_dir=tmp_path, **options)


def problem_of(
    fetch: Fetch, *sources: str, kind: type[ParityError] = FetchError, **options: Any
) -> Problem:
    with pytest.raises(kind) as caught:
        fetch(make_bundle(*sources), **options)
    (problem,) = caught.value.problems
    return problem


def ends(fetch: Fetch, *sources: str) -> str:
    """``"ok"``, or the code of the error."""
    try:
        assert read_files(fetch(make_bundle(*sources)).path) == FILES
    except ParityError as error:
        return error.problems[0].code
    return "ok"


@pytest.mark.parametrize("name", FAULTS)
def test_faults(
    name: str, fetch: Fetch, server: s.FaultServer, store: Store, time_: FakeClock
) -> None:
    fault = FAULTS[name]
    server.add("/b.tar", *fault.answers())
    began = time.monotonic()

    ended = ends(fetch, f"{server.url}/b.tar")

    assert ended == fault.ends
    assert fault.ranges is None or server.list_ranges() == fault.ranges
    assert fault.slept is None or time_.sleeps == fault.slept
    assert time.monotonic() - began < 10
    blob = store.paths.locate_blob(compute_sha256(DATA))
    assert blob.exists() == (ended == "ok")
    left = {path.name for path in (store.root / "partial").iterdir()}
    assert left <= (set() if ended == "ok" else {f"{compute_sha256(DATA)}.part"})


# From one run to the next


@pytest.mark.parametrize("status", [304, 400, 405, 412, 416, 417, 501])
def test_server_that_rejects_a_range_is_requested_once_without(
    fetch: Fetch, server: s.FaultServer, status: int
) -> None:
    """Some servers and proxies answer an error to any ``Range``."""
    server.add("/b", ServedFile(DATA, drops=[1000]), s.make_status(status), ServedFile(DATA))

    assert read_files(fetch(make_bundle(f"{server.url}/b")).path) == FILES
    assert server.list_ranges() == ["", "bytes=1000-", ""]


@pytest.mark.parametrize("status", [304, 400, 412])
def test_server_that_rejects_every_request_is_not_retried_forever(
    fetch: Fetch, server: s.FaultServer, status: int
) -> None:
    server.add("/b", ServedFile(DATA, drops=[1000]), s.make_status(status))

    with pytest.raises(FetchError):
        fetch(make_bundle(f"{server.url}/b"))
    assert server.list_ranges() == ["", "bytes=1000-", ""]


def test_next_run_resumes(fetch: Fetch, server: s.FaultServer) -> None:
    file = ServedFile(DATA, drops=[CUT, 0, 0, 0, 0])
    server.add("/b.tar", file)

    assert ends(fetch, f"{server.url}/b.tar") == "fetch-network"
    assert ends(fetch, f"{server.url}/b.tar") == "ok"
    assert server.list_ranges() == ["", *[REST] * 5]
    assert sum(file.sent) == SIZE  # not a byte twice


def test_next_run_resumes_at_a_mirror(fetch: Fetch, server: s.FaultServer) -> None:
    server.add("/b.tar", ServedFile(DATA, drops=[CUT, *[0] * 4]), s.make_status(404))
    mirror = ServedFile(DATA)
    server.add(f"/{compute_sha256(DATA)}.tar", mirror)

    got = fetch(make_bundle(f"{server.url}/b.tar", server.url + "/{sha256}.tar"))

    assert read_files(got.path) == FILES
    assert mirror.sent == [SIZE - CUT]
    assert s.find_header(server.requests[-1], "range") == REST


def test_a_file_that_changed_between_runs(fetch: Fetch, server: s.FaultServer) -> None:
    server.add("/b.tar", ServedFile(OTHER_DATA, drops=[CUT, 0, 0, 0, 0]))
    assert ends(fetch, f"{server.url}/b.tar") == "fetch-network"
    file = ServedFile(DATA)
    server.add("/b.tar", file)

    assert ends(fetch, f"{server.url}/b.tar") == "ok"
    assert file.sent == [SIZE - CUT, SIZE]  # the rest did not fit


def test_complete_part_needs_no_request(fetch: Fetch, server: s.FaultServer, store: Store) -> None:
    (store.paths.make_folder("partial") / f"{compute_sha256(DATA)}.part").write_bytes(DATA)

    assert ends(fetch, f"{server.url}/b.tar") == "ok"
    assert server.requests == []


@pytest.mark.parametrize(
    "content", [DATA + b"1", OTHER_DATA[:HALF], OTHER_DATA, b"", b"x" * 3 * SIZE]
)
def test_part_of_any_content_is_replaced(
    fetch: Fetch, server: s.FaultServer, store: Store, content: bytes
) -> None:
    (store.paths.make_folder("partial") / f"{compute_sha256(DATA)}.part").write_bytes(content)
    server.add("/b.tar", ServedFile(DATA))

    assert ends(fetch, f"{server.url}/b.tar") == "ok"


def test_wrong_bytes_are_not_resumed(fetch: Fetch, server: s.FaultServer, store: Store) -> None:
    server.add("/b.tar", s.make_ok(OTHER_DATA))

    assert ends(fetch, f"{server.url}/b.tar") == "integrity-hash"
    assert not list((store.root / "partial").iterdir())


def test_warm_store_makes_no_request(fetch: Fetch, server: s.FaultServer) -> None:
    server.add("/b.tar", s.make_ok(DATA))
    entry = make_bundle(f"{server.url}/b.tar", f"{server.url}/mirror")

    assert [fetch(entry, rehash=True).cached for _ in range(3)] == [False, True, True]
    assert len(server.requests) == 1


# Mirrors


def test_next_source_is_used_after_wrong_bytes(fetch: Fetch, server: s.FaultServer) -> None:
    server.add("/b.tar", s.make_ok(OTHER_DATA))
    server.add(f"/by/{compute_sha256(DATA)}", s.make_ok(DATA))

    assert ends(fetch, f"{server.url}/b.tar", server.url + "/by/{sha256}") == "ok"
    assert server.list_paths() == ["/b.tar", f"/by/{compute_sha256(DATA)}"]


@pytest.mark.parametrize(
    "fault",
    [s.make_status(404), s.make_status(401), b"", s.make_ok(b""), s.make_redirect("ftp://x")],
)
def test_next_source_is_used_after_any_error(
    fetch: Fetch, server: s.FaultServer, fault: bytes
) -> None:
    server.add("/b.tar", fault)
    server.add("/mirror", s.make_ok(DATA))

    assert ends(fetch, f"{server.url}/b.tar", f"{server.url}/mirror") == "ok"


def test_all_sources_are_reported(fetch: Fetch, server: s.FaultServer) -> None:
    url = server.url
    server.add("/b.tar", s.make_status(404))
    server.add("/wrong", s.make_ok(OTHER_DATA))

    problem = problem_of(
        fetch, f"{url}/b.tar", f"{url}/wrong?sig=x", f"{url}/gone", kind=IntegrityError
    )

    # Wrong bytes are graver than an address that leads nowhere.
    assert problem.code == "integrity-hash"
    assert problem.details == (
        f"expected  sha256:{compute_sha256(DATA)}  {SIZE:,} bytes",
        f"obtained  sha256:{compute_sha256(OTHER_DATA)}  {SIZE:,} bytes",
        f"from      {url}/wrong",
        "nothing was unpacked",
        f"also tried: {url}/b.tar (http-not-found: HTTP status 404)",
        f"also tried: {url}/gone (http-not-found: HTTP status 404)",
        "if the new bundle is intended:  parity bump small",
    )


def test_mirrors_are_not_used_offline(fetch: Fetch, server: s.FaultServer) -> None:
    problem = problem_of(fetch, f"{server.url}/b.tar?sig=x", f"{server.url}/m", offline=True)

    assert problem.code == "offline-miss"
    assert problem.details[1:3] == (f"from      {server.url}/b.tar", f"from      {server.url}/m")
    assert server.requests == []


def test_a_local_source_may_have_mirrors(fetch: Fetch, server: s.FaultServer) -> None:
    server.add("/m", s.make_ok(DATA))

    assert ends(fetch, "missing.tar", f"{server.url}/m") == "ok"


# Time


def test_one_deadline_covers_all_sources(fetch: Fetch, server: s.FaultServer, store: Store) -> None:
    """Bytes keep coming and each try gets further, and yet it ends; what came is kept."""
    server.add("/b.tar", s.send_slowly(DATA, 0.005, s.make_head(200, f"Content-Length: {SIZE}")))
    server.add("/m", s.make_ok(DATA))
    began = time.monotonic()

    problem = problem_of(
        fetch, f"{server.url}/b.tar", f"{server.url}/m", deadline=time.monotonic() + 2
    )

    assert (problem.code, problem.where) == ("fetch-deadline", SOURCE)
    assert time.monotonic() - began < 6
    assert {*server.list_paths()} == {"/b.tar"}
    assert (store.root / "partial" / f"{compute_sha256(DATA)}.part").stat().st_size > 0


def test_fetch_has_a_total_time(tmp_path: Path, server: s.FaultServer, time_: FakeClock) -> None:
    server.add("/b.tar", s.send_and_wait(b"", 5))
    store = Store(
        tmp_path / "store", retry_policy=time_.make_retry_policy(total_time=0.3, window=30.0)
    )

    with pytest.raises(FetchError) as caught:
        store.fetch_tree(make_bundle(f"{server.url}/b.tar"), lockfile_dir=tmp_path)
    assert caught.value.problems[0].code == "fetch-deadline"


def test_silent_name_server_ends_at_the_deadline(
    fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    silence = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: silence.wait(8) and [])
    began = time.monotonic()

    problem = problem_of(fetch, "https://example.org/b.tar", deadline=time.monotonic() + 0.4)

    silence.set()
    assert problem.code == "fetch-deadline"
    assert time.monotonic() - began < 4


def test_unknown_host_fails(
    fetch: Fetch, monkeypatch: pytest.MonkeyPatch, time_: FakeClock
) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)

    problem = problem_of(fetch, "https://example.invalid/b.tar?sig=canary")

    assert problem.code == "fetch-network"
    assert len(time_.sleeps) == 4
    assert "canary" not in str(problem)


def test_no_thread_is_left_behind(fetch: Fetch, server: s.FaultServer) -> None:
    for fault in (
        s.send_and_wait(b"", 5),
        s.send_flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        s.make_ok(DATA),
    ):
        server.add("/b.tar", fault, s.make_status(404))
        ends(fetch, f"{server.url}/b.tar")

    ends_at = time.monotonic() + 2
    while time.monotonic() < ends_at and any(
        t.name == "parity-fetch" for t in threading.enumerate()
    ):
        time.sleep(0.05)
    assert not [t for t in threading.enumerate() if t.name == "parity-fetch"]


def test_waits_are_reported(store: Store, tmp_path: Path, server: s.FaultServer) -> None:
    server.add("/b.tar", s.make_status(429, "Retry-After: 20"), s.make_ok(DATA))
    reported: list[str] = []

    store.fetch_tree(
        make_bundle(f"{server.url}/b.tar"), lockfile_dir=tmp_path, notify=reported.append
    )

    assert reported == ["too many requests from this address; trying again in 20 s"]


# Redirects


def test_an_address_that_expires_is_requested_anew(fetch: Fetch, server: s.FaultServer) -> None:
    """A presigned address: good once, then forbidden."""
    with s.FaultServer(
        {"/cdn": [s.make_ok(DATA[:CUT], length=SIZE), s.make_status(403), ServedFile(DATA)]}
    ) as other:
        server.add("/b.tar", s.make_redirect(f"{other.url}/cdn?sig=x"))

        assert ends(fetch, f"{server.url}/b.tar") == "ok"
        assert server.list_paths() == ["/b.tar"] * 3
        assert other.list_ranges() == ["", REST, REST]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_nothing_secret_goes_to_another_origin(
    fetch: Fetch, server: s.FaultServer, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """Another port, or another name for the same machine, is another origin."""
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("HF_TOKEN", "hf_canary")
    with s.FaultServer({"/cdn": [s.make_ok(DATA)]}) as other:
        target = other.url.replace("127.0.0.1", host)
        server.add("/datasets/o/r/resolve/main/b.tar", s.make_redirect("/here"))
        server.add("/here", s.make_redirect(f"{target}/cdn"))

        assert ends(fetch, "hf://datasets/o/r@main/b.tar") == "ok"
        assert [s.find_header(head, "authorization") for head in server.requests] == [
            "Bearer hf_canary"
        ] * 2
        assert "canary" not in "".join(other.requests)


ABSENT = "the Hub denies access: the repo is private, gated or missing"


@pytest.mark.parametrize(
    ("code", "said", "message"),
    [
        (401, "", ABSENT),
        (403, "", ABSENT),
        (404, "", ABSENT),
        (401, "RepoNotFound", ABSENT),
        (404, "EntryNotFound", "the repo has no such file"),
        (404, "RevisionNotFound", "the repo has no such ref or commit"),
        (403, "GatedRepo", "the repo is gated"),
        (410, "", "the file was removed for good"),
    ],
)
def test_messages_about_the_hub(
    fetch: Fetch,
    server: s.FaultServer,
    monkeypatch: pytest.MonkeyPatch,
    *,
    code: int,
    said: str,
    message: str,
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    server.add("/o/r/resolve/main/b.tar", s.make_status(code, f"X-Error-Code: {said}"))

    assert problem_of(fetch, "hf://o/r@main/b.tar").message == f"small: {message}"


def test_locked_commit_is_requested(
    fetch: Fetch, server: s.FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    rev = "c0ffee" * 6 + "c0ff"
    server.add(f"/o/r/resolve/{rev}/b.tar", s.make_ok(DATA))

    assert read_files(fetch(make_bundle("hf://o/r@main/b.tar", rev=rev)).path) == FILES


def test_noise_differs_everywhere() -> None:
    """Else a resume at a wrong place could go unseen."""
    words = [NOISE[at : at + 8] for at in range(0, len(NOISE), 8)]
    assert len(set(words)) == len(words)
