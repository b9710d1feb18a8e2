"""Each fault of a server, and what becomes of a fetch: survived, or which error."""

from __future__ import annotations

import gzip
import os
import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from parity.errors import FetchError, IntegrityError, ParityError, Problem
from parity.fixtures import disk
from parity.fixtures.store import Store
from tests.support import fault_server as s
from tests.support.fault_server import File
from tests.support.fetching import DATA, FILES, NOISE, OTHER, SOURCE, Time, bundle, files_of, sha

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from parity.fixtures.store import Fetched

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
    """

    answers: Callable[[], list[Any]]
    ends: str = "ok"
    ranges: list[str] | None = None
    slept: list[float] | None = None


def cut(**changed: Any) -> Callable[[], list[Any]]:
    """A file whose first answer is dropped after ``CUT`` bytes."""
    return lambda: [File(DATA, drops=[CUT], **changed)]


def limited(*headers: str) -> Callable[[], list[Any]]:
    return lambda: [s.status(429, *headers), s.ok(DATA)]


REST = f"bytes={CUT}-"
SHORT = s.ok(DATA[:CUT], length=SIZE)
LINE = b"X-Filler: 0123456789\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (SIZE, DATA)

FAULTS = {
    # Resuming.
    "dropped, then the rest": Fault(cut(), ranges=["", REST]),
    "dropped three times, then the rest": Fault(
        lambda: [File(DATA, drops=[65_536] * 3)],
        ranges=["", "bytes=65536-", "bytes=131072-", "bytes=196608-"],
    ),
    "dropped more often than there are tries": Fault(
        lambda: [File(DATA, drops=[32_768] * 9)],
        ranges=["", *(f"bytes={32_768 * n}-" for n in range(1, 10))],
    ),
    "Range ignored": Fault(cut(ranges=False), ranges=["", REST]),
    "weak ETag": Fault(cut(etag='W/"v1"'), ranges=["", REST]),
    "no ETag": Fault(cut(etag=""), ranges=["", REST]),
    "ETag changed meanwhile": Fault(
        lambda: [File(DATA, drops=[CUT]), File(DATA, etag='"v2"')], ranges=["", REST]
    ),
    "Content-Range with another start": Fault(cut(start=1), ranges=["", REST, ""]),
    "Content-Range with another total": Fault(cut(total=1), ranges=["", REST, ""]),
    "Content-Range without a total": Fault(cut(total=None), ranges=["", REST, ""]),
    "206 without Content-Range": Fault(
        lambda: [SHORT, s.message(206) + DATA[CUT:], s.ok(DATA)], ranges=["", REST, ""]
    ),
    "416": Fault(cut(unsatisfiable=True), ranges=["", REST, ""]),
    "a rest that is wrong": Fault(cut(rests=OTHER), ranges=["", REST, ""]),
    "a beginning that is wrong": Fault(
        lambda: [s.ok(OTHER[:CUT], length=SIZE), File(DATA)], ranges=["", REST, ""]
    ),
    "403 to the rest": Fault(lambda: [SHORT, s.status(403)], "http-forbidden", ["", REST]),
    # Bodies.
    "longer than Content-Length": Fault(lambda: [s.ok(DATA + b"more", length=SIZE)]),
    "longer than locked": Fault(lambda: [s.ok(DATA + b"1")], "integrity-size"),
    "shorter than Content-Length, always": Fault(lambda: [SHORT], "fetch-network"),
    "shorter than Content-Length, once": Fault(lambda: [SHORT, File(DATA)], ranges=["", REST]),
    "shorter than locked": Fault(lambda: [s.ok(DATA[:CUT])], "integrity-size", [""]),
    "chunked": Fault(lambda: [s.chunked(DATA[:5], DATA[5:])]),
    "chunked, without its end": Fault(
        lambda: [s.chunked(DATA[:CUT], end=False), File(DATA)], ranges=["", REST]
    ),
    "chunked, with a broken length": Fault(
        lambda: [s.chunked(DATA[:CUT], end=False) + b"zz\r\n", File(DATA)]
    ),
    "no length": Fault(lambda: [s.unsized(DATA)], ranges=[""]),
    "no length and short, once": Fault(
        lambda: [File(DATA, drops=[CUT], sized=False)], ranges=["", REST]
    ),
    "no length and short, always": Fault(
        lambda: [s.unsized(DATA[:CUT])], "integrity-size", ["", REST, REST, REST, REST]
    ),
    "no length, and a page about it": Fault(
        lambda: [s.unsized(b"<html>Sign in")], "integrity-size", [""]
    ),
    "endless": Fault(lambda: [s.endless(s.unsized(DATA))], "integrity-size"),
    "other bytes of the right length": Fault(lambda: [s.ok(OTHER)], "integrity-hash", [""]),
    "labelled as gzip": Fault(lambda: [s.ok(DATA, "Content-Encoding: gzip")]),
    "packed with gzip": Fault(
        lambda: [s.ok(gzip.compress(DATA), "Content-Encoding: gzip")], "integrity-size"
    ),
    "two lengths": Fault(
        lambda: [s.message(200, f"Content-Length: {SIZE}", "Content-Length: 7") + DATA],
        "fetch-network",
    ),
    "a length that is no number": Fault(
        lambda: [s.message(200, f"Content-Length: {'9' * 5000}") + DATA, s.ok(DATA)]
    ),
    "nothing": Fault(lambda: [s.say(b""), s.ok(DATA)]),
    "another protocol": Fault(lambda: [s.say(b"SSH-2.0-OpenSSH\r\n"), s.ok(DATA)]),
    "RST before the head": Fault(lambda: [s.reset(b""), s.ok(DATA)]),
    "RST in the body": Fault(lambda: [s.reset(SHORT), File(DATA)]),
    # Time.
    "silence before the head": Fault(lambda: [s.silent(b"", 5), s.ok(DATA)]),
    "silence in the head": Fault(lambda: [s.silent(b"HTTP/1.1 200 OK\r\n", 5), s.ok(DATA)]),
    "silence in the body": Fault(lambda: [s.silent(SHORT, 5), File(DATA)], ranges=["", REST]),
    "silence, always": Fault(lambda: [s.silent(b"", 5)], "fetch-stalled"),
    "a head that drips": Fault(lambda: [s.drip(s.ok(DATA)[:90], 0.05), s.ok(DATA)]),
    "a body that drips": Fault(lambda: [s.drip(s.ok(b"x" * 99, length=SIZE), 0.05), s.ok(DATA)]),
    "1xx without end": Fault(lambda: [s.flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), s.ok(DATA)]),
    "headers without end": Fault(lambda: [s.flood(b"HTTP/1.1 200 OK\r\n", LINE), s.ok(DATA)]),
    "headers of a 1xx without end": Fault(
        lambda: [s.flood(b"HTTP/1.1 100 Continue\r\n", LINE), s.ok(DATA)]
    ),
    "trailers without end": Fault(lambda: [s.flood(CHUNKED + b"0\r\n", LINE)], ranges=[""]),
    "early hints": Fault(lambda: [b"HTTP/1.1 103 Early Hints\r\n\r\n" + s.ok(DATA)], "http-status"),
    # Statuses.
    "429 with seconds": Fault(limited("Retry-After: 20"), slept=[20.0]),
    "429 with a date": Fault(limited("Retry-After: Mon, 12 Jan 1970 13:46:50 GMT"), slept=[10.0]),
    "429 with a past date": Fault(
        limited("Retry-After: Mon, 12 Jan 1970 00:00:00 GMT"), slept=[0.0]
    ),
    "429 with -1": Fault(limited("Retry-After: -1"), slept=[0.0]),
    "429 with 10^9": Fault(limited("Retry-After: 1000000000"), "http-rate-limited", slept=[]),
    "429 with nothing": Fault(limited(), slept=[0.0]),
    "429 with RateLimit": Fault(limited('RateLimit: "api";r=0;t=55'), slept=[55.0]),
    "429 with RateLimit, too long": Fault(
        limited('RateLimit: "api";r=0;t=300'), "http-rate-limited", slept=[]
    ),
    "429 with both": Fault(limited("Retry-After: 5", "RateLimit: r=0;t=9"), slept=[9.0]),
    "429, always": Fault(lambda: [s.status(429)], "http-rate-limited", slept=[0.0] * 4),
    "503 twice": Fault(lambda: [s.status(503), s.status(503), s.ok(DATA)], slept=[0.0, 0.0]),
    "501": Fault(lambda: [s.status(501)], "http-server-error", slept=[]),
    "401": Fault(lambda: [s.status(401)], "http-unauthorized", slept=[]),
    "403 once": Fault(lambda: [s.status(403), s.ok(DATA)], "http-forbidden", slept=[]),
    "404": Fault(lambda: [s.status(404)], "http-not-found", slept=[]),
    "410": Fault(lambda: [s.status(410)], "http-gone", slept=[]),
    # Redirects.
    "a loop": Fault(lambda: [s.moved("/b.tar")], "fetch-redirect", slept=[]),
    "to a file": Fault(lambda: [s.moved("file:///etc/hostname")], "fetch-redirect", slept=[]),
    "to plain http": Fault(lambda: [s.moved("http://example.org/b")], "fetch-redirect", slept=[]),
    "to nowhere": Fault(lambda: [s.status(302)], "http-status", slept=[]),
}


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def time_() -> Time:
    return Time()


@pytest.fixture
def store(tmp_path: Path, time_: Time) -> Iterator[Store]:
    made = Store(tmp_path / "store", patience=time_.patience())
    yield made
    disk.remove(made.root)


@pytest.fixture
def server() -> Iterator[s.Server]:
    with s.Server({}) as running:
        yield running


@pytest.fixture
def fetch(store: Store, tmp_path: Path) -> Callable[..., Fetched]:
    return lambda entry, **options: store.tree(entry, lockfile_dir=tmp_path, **options)


def problem_of(
    fetch: Callable[..., Fetched],
    *sources: str,
    kind: type[ParityError] = FetchError,
    **options: Any,
) -> Problem:
    with pytest.raises(kind) as caught:
        fetch(bundle(*sources), **options)
    (problem,) = caught.value.problems
    return problem


def ends(fetch: Callable[..., Fetched], *sources: str) -> str:
    """``"ok"``, or the code of the error."""
    try:
        assert files_of(fetch(bundle(*sources)).path) == FILES
    except ParityError as error:
        return error.problems[0].code
    return "ok"


@pytest.mark.parametrize("name", FAULTS)
def test_faults(
    name: str, fetch: Callable[..., Fetched], server: s.Server, store: Store, time_: Time
) -> None:
    fault = FAULTS[name]
    server.add("/b.tar", *fault.answers())
    began = time.monotonic()

    ended = ends(fetch, f"{server.url}/b.tar")

    assert ended == fault.ends
    assert fault.ranges is None or server.ranges() == fault.ranges
    assert fault.slept is None or time_.slept == fault.slept
    assert time.monotonic() - began < 10
    blob = store.shelves.blob(sha(DATA))
    assert blob.exists() == (ended == "ok")
    left = {path.name for path in (store.root / "partial").iterdir()}
    kept = set() if ended == "ok" else {f"{sha(DATA)}.part", f"{sha(DATA)}.part.json"}
    assert left <= kept


def test_a_rest_is_asked_for_with_a_strong_validator_only(
    fetch: Callable[..., Fetched], server: s.Server, store: Store
) -> None:
    sent = {}
    for etag in ('"v1"', 'W/"v1"', "", 'v1"\x01'):
        server.requests.clear()
        server.add("/b.tar", File(DATA, etag=etag, drops=[CUT, 0, 0, 0, 0]))
        with pytest.raises(FetchError):
            fetch(bundle(f"{server.url}/b.tar"))
        sent[etag] = {s.header(head, "if-range") for head in server.requests[1:]}
        for path in store.root.glob("partial/*"):
            path.unlink()

    assert sent == {'"v1"': {'"v1"'}, 'W/"v1"': {""}, "": {""}, 'v1"\x01': {""}}


# From one run to the next


def test_the_next_run_goes_on(fetch: Callable[..., Fetched], server: s.Server) -> None:
    file = File(DATA, drops=[CUT, 0, 0, 0, 0])
    server.add("/b.tar", file)

    assert ends(fetch, f"{server.url}/b.tar") == "fetch-network"
    assert ends(fetch, f"{server.url}/b.tar") == "ok"
    assert server.ranges() == ["", *[REST] * 5]
    assert sum(file.sent) == SIZE  # not a byte twice


def test_the_next_run_goes_on_at_a_mirror(fetch: Callable[..., Fetched], server: s.Server) -> None:
    server.add("/b.tar", File(DATA, drops=[CUT, *[0] * 4]), s.status(404))
    mirror = File(DATA, etag='"of the mirror"')
    server.add(f"/{sha(DATA)}.tar", mirror)

    got = fetch(bundle(f"{server.url}/b.tar", server.url + "/{sha256}.tar"))

    assert files_of(got.path) == FILES
    assert mirror.sent == [SIZE - CUT]
    last = server.requests[-1]
    # The validator is the source's: the mirror would not know it.
    assert (s.header(last, "range"), s.header(last, "if-range")) == (REST, "")


def test_an_etag_that_changed_between_runs(fetch: Callable[..., Fetched], server: s.Server) -> None:
    server.add("/b.tar", File(DATA, drops=[CUT, 0, 0, 0, 0]))
    assert ends(fetch, f"{server.url}/b.tar") == "fetch-network"
    other = File(DATA, etag='"v2"')
    server.add("/b.tar", other)

    assert ends(fetch, f"{server.url}/b.tar") == "ok"
    assert other.sent == [SIZE]
    assert s.header(server.requests[-1], "if-range") == '"v1"'


def test_a_part_that_is_whole_asks_nobody(
    fetch: Callable[..., Fetched], server: s.Server, store: Store
) -> None:
    (store.shelves.folder("partial") / f"{sha(DATA)}.part").write_bytes(DATA)

    assert ends(fetch, f"{server.url}/b.tar") == "ok"
    assert server.requests == []


@pytest.mark.parametrize("content", [DATA + b"1", OTHER[:HALF], OTHER, b"", b"x" * 3 * SIZE])
def test_a_part_of_anything(
    fetch: Callable[..., Fetched], server: s.Server, store: Store, content: bytes
) -> None:
    (store.shelves.folder("partial") / f"{sha(DATA)}.part").write_bytes(content)
    server.add("/b.tar", File(DATA))

    assert ends(fetch, f"{server.url}/b.tar") == "ok"


def test_wrong_bytes_are_not_gone_on_with(
    fetch: Callable[..., Fetched], server: s.Server, store: Store
) -> None:
    server.add("/b.tar", s.ok(OTHER))

    assert ends(fetch, f"{server.url}/b.tar") == "integrity-hash"
    assert not list((store.root / "partial").iterdir())


def test_a_warm_store_asks_nobody(fetch: Callable[..., Fetched], server: s.Server) -> None:
    server.add("/b.tar", s.ok(DATA))
    entry = bundle(f"{server.url}/b.tar", f"{server.url}/mirror")

    assert [fetch(entry, verify=True).cached for _ in range(3)] == [False, True, True]
    assert len(server.requests) == 1


# Mirrors


def test_the_next_source_after_wrong_bytes(fetch: Callable[..., Fetched], server: s.Server) -> None:
    server.add("/b.tar", s.ok(OTHER))
    server.add(f"/by/{sha(DATA)}", s.ok(DATA))

    assert ends(fetch, f"{server.url}/b.tar", server.url + "/by/{sha256}") == "ok"
    assert server.paths() == ["/b.tar", f"/by/{sha(DATA)}"]


@pytest.mark.parametrize(
    "fault", [s.status(404), s.status(401), b"", s.ok(b""), s.moved("ftp://x")]
)
def test_the_next_source_after_any_trouble(
    fetch: Callable[..., Fetched], server: s.Server, fault: bytes
) -> None:
    server.add("/b.tar", fault)
    server.add("/mirror", s.ok(DATA))

    assert ends(fetch, f"{server.url}/b.tar", f"{server.url}/mirror") == "ok"


def test_all_sources_are_told_of(fetch: Callable[..., Fetched], server: s.Server) -> None:
    url = server.url
    server.add("/b.tar", s.status(404))
    server.add("/wrong", s.ok(OTHER))

    problem = problem_of(
        fetch, f"{url}/b.tar", f"{url}/wrong?sig=x", f"{url}/gone", kind=IntegrityError
    )

    # Wrong bytes are graver than an address that leads nowhere.
    assert problem.code == "integrity-hash"
    assert problem.details == (
        f"wanted  sha256:{sha(DATA)}  {SIZE:,} bytes",
        f"got     sha256:{sha(OTHER)}  {SIZE:,} bytes",
        f"from    {url}/wrong",
        "nothing was unpacked",
        f"also tried: {url}/b.tar (http-not-found: HTTP status 404)",
        f"also tried: {url}/gone (http-not-found: HTTP status 404)",
        "if the new bundle is intended:  parity bump small",
    )


def test_no_mirror_is_asked_offline(fetch: Callable[..., Fetched], server: s.Server) -> None:
    problem = problem_of(fetch, f"{server.url}/b.tar?sig=x", f"{server.url}/m", offline=True)

    assert problem.code == "offline-miss"
    assert problem.details[1:3] == (f"from    {server.url}/b.tar", f"from    {server.url}/m")
    assert server.requests == []


def test_a_local_source_may_have_mirrors(fetch: Callable[..., Fetched], server: s.Server) -> None:
    server.add("/m", s.ok(DATA))

    assert ends(fetch, "missing.tar", f"{server.url}/m") == "ok"


# Time


def test_one_deadline_over_everything(
    fetch: Callable[..., Fetched], server: s.Server, store: Store
) -> None:
    """Bytes keep coming and each try gets further, and yet it ends; what came is kept."""
    server.add("/b.tar", s.drip(s.message(200, f"Content-Length: {SIZE}") + DATA, 0.001))
    server.add("/m", s.ok(DATA))
    began = time.monotonic()

    problem = problem_of(
        fetch, f"{server.url}/b.tar", f"{server.url}/m", deadline=time.monotonic() + 0.4
    )

    assert (problem.code, problem.where) == ("fetch-deadline", SOURCE)
    assert time.monotonic() - began < 3
    assert server.paths() == ["/b.tar"]
    assert (store.root / "partial" / f"{sha(DATA)}.part").stat().st_size > 0


def test_a_fetch_has_an_end_of_its_own(tmp_path: Path, server: s.Server, time_: Time) -> None:
    server.add("/b.tar", s.silent(b"", 5))
    store = Store(tmp_path / "store", patience=time_.patience(whole=0.3, window=30.0))

    with pytest.raises(FetchError) as caught:
        store.tree(bundle(f"{server.url}/b.tar"), lockfile_dir=tmp_path)
    assert caught.value.problems[0].code == "fetch-deadline"


def test_a_name_server_that_is_silent(
    fetch: Callable[..., Fetched], monkeypatch: pytest.MonkeyPatch
) -> None:
    silence = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: silence.wait(8) and [])
    began = time.monotonic()

    problem = problem_of(fetch, "https://example.org/b.tar", deadline=time.monotonic() + 0.4)

    silence.set()
    assert problem.code == "fetch-deadline"
    assert time.monotonic() - began < 4


def test_a_name_that_is_unknown(
    fetch: Callable[..., Fetched], monkeypatch: pytest.MonkeyPatch, time_: Time
) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)

    problem = problem_of(fetch, "https://example.invalid/b.tar?sig=canary")

    assert problem.code == "fetch-network"
    assert len(time_.slept) == 4
    assert "canary" not in str(problem)


def test_no_thread_is_left_behind(fetch: Callable[..., Fetched], server: s.Server) -> None:
    for fault in (s.silent(b"", 5), s.flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), s.ok(DATA)):
        server.add("/b.tar", fault, s.status(404))
        ends(fetch, f"{server.url}/b.tar")

    ends_at = time.monotonic() + 2
    while time.monotonic() < ends_at and any(
        t.name == "parity-fetch" for t in threading.enumerate()
    ):
        time.sleep(0.05)
    assert not [t for t in threading.enumerate() if t.name == "parity-fetch"]


def test_waits_are_told(store: Store, tmp_path: Path, server: s.Server) -> None:
    server.add("/b.tar", s.status(429, "Retry-After: 20"), s.ok(DATA))
    told: list[str] = []

    store.tree(bundle(f"{server.url}/b.tar"), lockfile_dir=tmp_path, tell=told.append)

    assert told == ["the server is asked too often from this address; trying again in 20 s"]


# Redirects


def test_an_address_that_expires_is_asked_for_anew(
    fetch: Callable[..., Fetched], server: s.Server
) -> None:
    """A presigned address: good once, then forbidden."""
    with s.Server({"/cdn": [s.ok(DATA[:CUT], length=SIZE), s.status(403), File(DATA)]}) as other:
        server.add("/b.tar", s.moved(f"{other.url}/cdn?sig=x"))

        assert ends(fetch, f"{server.url}/b.tar") == "ok"
        assert server.paths() == ["/b.tar"] * 3
        assert other.ranges() == ["", REST, REST]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_nothing_secret_goes_to_another_origin(
    fetch: Callable[..., Fetched], server: s.Server, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """Another port, or another name for the same machine, is another origin."""
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("HF_TOKEN", "hf_canary")
    with s.Server({"/cdn": [s.ok(DATA)]}) as other:
        target = other.url.replace("127.0.0.1", host)
        server.add("/datasets/o/r/resolve/main/b.tar", s.moved("/here"))
        server.add("/here", s.moved(f"{target}/cdn"))

        assert ends(fetch, "hf://datasets/o/r@main/b.tar") == "ok"
        assert [s.header(head, "authorization") for head in server.requests] == [
            "Bearer hf_canary"
        ] * 2
        assert "canary" not in "".join(other.requests)


ABSENT = "the Hub does not give it out: the repo is private, gated or absent"


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
def test_what_the_hub_means(
    fetch: Callable[..., Fetched],
    server: s.Server,
    monkeypatch: pytest.MonkeyPatch,
    *,
    code: int,
    said: str,
    message: str,
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    server.add("/o/r/resolve/main/b.tar", s.status(code, f"X-Error-Code: {said}"))

    assert problem_of(fetch, "hf://o/r@main/b.tar").message == f"small: {message}"


def test_the_locked_commit_is_asked_for(
    fetch: Callable[..., Fetched], server: s.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    rev = "c0ffee" * 6 + "c0ff"
    server.add(f"/o/r/resolve/{rev}/b.tar", s.ok(DATA))

    assert files_of(fetch(bundle("hf://o/r@main/b.tar", rev=rev)).path) == FILES


def test_the_bytes_are_noise() -> None:
    """Else a resume at a wrong place could go unseen."""
    words = [NOISE[at : at + 8] for at in range(0, len(NOISE), 8)]
    assert len(set(words)) == len(words)
