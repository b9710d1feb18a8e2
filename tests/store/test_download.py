"""Sources, checks and retries; downloads from a server that misbehaves."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import parity
from parity.errors import ConfigError, FetchError, IntegrityError, Location, ParityError, Problem
from parity.lockfile import Bundle, Dump, Locked
from parity.lockfile.source_rules import HUB_FORM
from parity.store import connections, retries, transport
from parity.store.download import download
from parity.store.integrity import ReceivedFile, check_received, guess_content
from parity.store.retries import FetchOptions, RetryPolicy, TransientError, read_wait, retry
from parity.store.sources import Secret, Url, is_same_origin, resolve, sanitize_source
from tests.support import fault_server as s
from tests.support.tar import make_member, make_tar

DATA = make_tar(make_member("a", b"1" * 3000))
SHA = hashlib.sha256(DATA).hexdigest()
SOURCE, SHA_AT, SIZE_AT = (Location(Path("fixtures.lock.yaml"), line, 15) for line in (5, 13, 14))
REV = "c0ffee" * 6 + "c0ff"


def bundle(source: str, **locked: Any) -> Bundle:
    known = {"sha256": SHA, "size": len(DATA), "where": {"sha256": SHA_AT, "size": SIZE_AT}}
    return Bundle(
        id="attn-small",
        source=source,
        suite="tensors",
        dump=Dump(),
        locked=Locked(**{**known, **locked}),
        where={"": SOURCE, "source": SOURCE},
    )


# Sources


@pytest.mark.parametrize(
    ("source", "rev", "endpoint", "address"),
    [
        ("hf://o/r@main/b.tar", None, None, "https://huggingface.co/o/r/resolve/main/b.tar"),
        ("hf://o/r@main/a/b", REV, None, f"https://huggingface.co/o/r/resolve/{REV}/a/b"),
        ("hf://datasets/o/r@v1/b", None, None, "https://huggingface.co/datasets/o/r/resolve/v1/b"),
        # An owner may be called so.
        ("hf://datasets/r@main/b", None, None, "https://huggingface.co/datasets/r/resolve/main/b"),
        (
            "hf://o/r@refs%2F1/b%20%3F",
            None,
            "",
            "https://huggingface.co/o/r/resolve/refs%2F1/b%20%3F",
        ),
        ("hf://o/r@main/b", None, "https://x.org/m/", "https://x.org/m/o/r/resolve/main/b"),
        ("hf://o/r@main/b", None, "http://localhost:8", "http://localhost:8/o/r/resolve/main/b"),
        ("https://x.org/b.tar?sig=1#part", REV, None, "https://x.org/b.tar?sig=1"),
        ("http://127.0.0.1:8000/b.tar", None, None, "http://127.0.0.1:8000/b.tar"),
        ("http://[::1]:8000/b.tar", None, None, "http://[::1]:8000/b.tar"),
        ("http://127.9.9.9/b.tar", None, None, "http://127.9.9.9/b.tar"),
    ],
)
def test_addresses(source: str, rev: str | None, endpoint: str | None, address: str) -> None:
    environ = {} if endpoint is None else {"HF_ENDPOINT": endpoint}

    assert resolve(source, rev, environ).address == address


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("hf://o/r/b.tar", f"the form is {HUB_FORM}"),
        ("hf://o@main/b.tar", f"the form is {HUB_FORM}"),
        ("hf://o/r@main", f"the form is {HUB_FORM}"),
        ("hf://o/r@main/", f"the form is {HUB_FORM}"),
        ("hf://models/o/r@main/b", f"the form is {HUB_FORM}"),
        ("ftp://x.org/b.tar", "only hf://, https:// and relative paths are allowed"),
        ("file:///etc/passwd", "only hf://, https:// and relative paths are allowed"),
        ("https:///b.tar", "it names no host"),
        ("https://u:p@x.org/b.tar", "it contains a user name or password"),
        ("https://x.org:99999/b.tar", "it is not a URL"),
        ("https://[x/b.tar", "it is not a URL"),
        ("http://x.org/b.tar", "plain http is allowed to this machine only; use https"),
        ("http://127.0.0.1.x.org/b", "plain http is allowed to this machine only; use https"),
        ("http://localhost.x.org/b", "plain http is allowed to this machine only; use https"),
        ("http://10.0.0.1/b.tar", "plain http is allowed to this machine only; use https"),
        ("http://0.0.0.0/b.tar", "plain http is allowed to this machine only; use https"),
        ("https://x.org/a b", "spaces and characters outside of ASCII must be percent-encoded"),
        ("https://x.org/ü", "spaces and characters outside of ASCII must be percent-encoded"),
    ],
)
def test_addresses_that_are_not_allowed(source: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(source, None, {})

    (problem,) = caught.value.problems
    assert (problem.code, problem.message) == (
        "source-invalid",
        f"the source cannot be used: {reason}",
    )


def test_an_endpoint_that_is_not_allowed() -> None:
    with pytest.raises(ConfigError, match="plain http"):
        resolve("hf://o/r@main/b", None, {"HF_ENDPOINT": "http://hub.example.org"})


def test_the_token_is_for_the_hub_alone() -> None:
    environ = {"HF_TOKEN": " hf_canary\n"}

    assert resolve("hf://o/r@main/b", None, environ).token.reveal() == "hf_canary"
    assert resolve("https://huggingface.co/b", None, environ).token is None
    assert "canary" not in repr(resolve("hf://o/r@main/b", None, environ))


@pytest.mark.parametrize("token", ["a\r\nX-Evil: 1", "tök"])
def test_invalid_token_is_rejected(token: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve("hf://o/r@main/b", None, {"HF_TOKEN": token})
    assert token not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "sought"),
    [
        ("https://u:secret@x.org:8/a/b?sig=secret#secret", "https://x.org:8/a/b"),
        ("https://[bad/a?sig=secret", "https://[bad/a"),
        ("https://x.org/a\x1b[31m::error::", r"https://x.org/a\x1b[31m\x3a\x3aerror\x3a\x3a"),
        ("hf://o/r@main/a", "hf://o/r@main/a"),
        ("hf://datasets/o/r@main/a?x", "hf://datasets/o/r@main/a"),
        ("../a\nb.tar", r"../a\x0ab.tar"),
    ],
)
def test_sanitized_source(source: str, sought: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")

    assert sanitize_source(source) == sought


# Verdicts


def received(data: bytes, **changed: Any) -> ReceivedFile:
    known: dict[str, Any] = {
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "head": data[:512],
        "origin": "https://x.org/b.tar (1 redirect)",
    }
    return ReceivedFile(**{**known, **changed})


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


@pytest.mark.parametrize(
    ("head", "sought"),
    [
        (b"", "it is empty"),
        (POINTER, "it is a Git LFS pointer"),
        (b"# xet version 0\n", "it is a Xet pointer"),
        (b"\n <!DOCTYPE html><title>Sign in", "it is an HTML page"),
        (b"\xef\xbb\xbf<html>", "it is an HTML page"),
        (b"<?xml version='1.0'?><Error><Code>NoSuchKey", "it is an XML answer"),
        (b'{"error":"Repository not found"}', "it is a JSON answer"),
        (b"\x1f\x8b\x08", "it is gzip data"),
        (b"PK\x03\x04", "it is a zip file"),
        (DATA[:512], "it begins like a tar archive: most likely cut short"),
        (b"{\0\0\0", ""),
        (b"something else", ""),
    ],
)
def test_diagnosis(head: bytes, sought: str) -> None:
    said = guess_content(head, len(head), len(DATA))

    assert said.startswith(sought)
    assert bool(said) == bool(sought)


def test_a_whole_tar_is_not_called_cut_short() -> None:
    assert guess_content(DATA[:512], len(DATA), len(DATA)) == ""


BOTH = {"sha256": SHA_AT, "size": SIZE_AT}
#: What is locked, and what came.
WRONG: dict[str, tuple[dict[str, Any], ReceivedFile]] = {
    "a pointer": ({"size": 48_240_640, "where": BOTH}, received(POINTER)),
    "a byte too many": ({"size": 1000, "where": {"sha256": SHA_AT}},
        received(b"x" * 1001, has_more=True)),
    "other bytes, no size": ({"size": None, "where": {"sha256": SHA_AT}}, received(b"x")),
    "too large": ({"size": None, "where": {"sha256": SHA_AT}},
        received(b"", size=8_589_934_593, has_more=True)),
}  # fmt: skip


def test_messages_about_wrong_bytes(golden: Callable[..., None]) -> None:
    text = ""
    for name, (locked, got) in WRONG.items():
        entry = bundle("https://x.org/b.tar", **locked)
        with pytest.raises(IntegrityError) as caught:
            check_received(got, entry.locked, entry)
        text += f"# {name}\n{caught.value}\n"
    golden(text)


def test_right_bytes_pass() -> None:
    entry = bundle("x")

    check_received(received(DATA), entry.locked, entry)
    check_received(received(b"anything"), None, entry)


# Retries


@dataclass
class Time:
    """A clock that only sleeping moves."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def make_retry_policy(self, **changed: Any) -> RetryPolicy:
        known = {"sleep": self.sleep, "chance": lambda: 1.0, "clock": lambda: self.now}
        return RetryPolicy(**{**known, **changed})

    def make_options(self, deadline: float | None = None) -> FetchOptions:
        return FetchOptions(retry_policy=self.make_retry_policy(), deadline=deadline)


def failing(times: int, wait: float | None = None) -> Any:
    left = [times]

    def attempt() -> str:
        if not left[0]:
            return "done"
        left[0] -= 1
        raise TransientError(
            Problem("fetch-network", "failed", None, ("got  x", "try again")), wait
        )

    return attempt


def test_waits_grow_with_full_jitter() -> None:
    time = Time()

    assert retry(failing(4), time.make_options()) == "done"
    assert time.slept == [1.0, 2.0, 4.0, 8.0]
    assert [RetryPolicy(chance=lambda: 0.25).compute_pause(n, None) for n in (1, 2, 9)] == [
        0.25,
        0.5,
        7.5,
    ]


def test_tries_are_bounded_and_counted() -> None:
    with pytest.raises(FetchError) as caught:
        retry(failing(5), Time().make_options())

    assert caught.value.problems == (
        Problem("fetch-network", "failed", None, ("got  x", "after 5 tries", "try again")),
    )


@pytest.mark.parametrize(
    ("wait", "deadline", "slept"),
    [
        (7.0, None, [7.0, 7.0]),
        (60.0, None, [60.0, 60.0]),
        (60.5, None, []),
        (5.0, 4.0, []),
        (0.0, 2.0, [1.0]),
    ],
)
def test_wait_that_a_server_asks_for(
    wait: float, deadline: float | None, slept: list[float]
) -> None:
    time = Time()
    if len(slept) == 2:
        assert retry(failing(2, wait), time.make_options(deadline)) == "done"
    else:
        with pytest.raises(FetchError):
            retry(failing(2, wait), time.make_options(deadline))
    assert time.slept == slept


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("120", 120.0),
        (" 7 ", 7.0),
        ("1000000000", 21_600.0),  # six hours are too long, too
        ("9" * 5000, 21_600.0),
        ("-1", None),
        ("1.5", None),
        ("٣", None),
        ("soon", None),
        ("Mon, 12 Jan 1970 13:46:50 GMT", 10.0),
        ("Mon, 12 Jan 1970 13:46:30 GMT", 0.0),
        ("Mon, 12 Jan 1970 00:00:00 GMT", 0.0),
    ],
)
@pytest.mark.network  # urllib3 asks for IPv6 when it is imported
def test_both_forms_of_retry_after(
    monkeypatch: pytest.MonkeyPatch, value: str | None, seconds: float | None
) -> None:
    monkeypatch.setattr("time.time", lambda: 1_000_000.0)

    assert read_wait({} if value is None else {"Retry-After": value}) == seconds


# Local sources


def get(source: str, folder: Path, **changed: Any) -> tuple[ReceivedFile, bytes]:
    target = folder / "target"
    entry = changed.pop("entry", None) or bundle(source)
    return download(entry, folder, target, FetchOptions(**changed)), target.read_bytes()


def problem_of(source: str, folder: Path, kind: type[ParityError], **changed: Any) -> Problem:
    with pytest.raises(kind) as caught:
        get(source, folder, **changed)
    (problem,) = caught.value.problems
    return problem


def test_a_path_beside_or_above_the_lockfile(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.tar").write_bytes(DATA)
    reported: list[tuple[int, int | None]] = []

    got, data = get("../b.tar", tmp_path / "sub", progress=lambda *now: reported.append(now))

    assert (got.size, got.sha256, data) == (len(DATA), SHA, DATA)
    assert got.origin == "../b.tar"
    assert reported == [(len(DATA), len(DATA))]


def test_large_file_is_read_to_the_expected_size(tmp_path: Path) -> None:
    with (tmp_path / "b.tar").open("wb") as file:
        file.truncate(1 << 34)  # sparse

    reported: list[int] = []

    problem = problem_of(
        "b.tar", tmp_path, IntegrityError, progress=lambda n, _: reported.append(n)
    )

    assert problem.code == "integrity-size"
    assert reported == [len(DATA) + 1]
    assert (tmp_path / "target").stat().st_size == 0


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("gone.tar", "source-missing"),
        (".", "source-not-a-file"),
        ("a\0b", "source-unreadable"),
        pytest.param("x" * 300, "source-unreadable", id="too-long"),
    ],
)
def test_local_sources_that_are_no_file(tmp_path: Path, source: str, code: str) -> None:
    problem = problem_of(source, tmp_path, FetchError)

    assert (problem.code, problem.where) == (code, SOURCE)
    assert problem.message.startswith("attn-small: the source")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")
def test_pipe_as_source_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "b.tar")

    assert problem_of("b.tar", tmp_path, FetchError).code == "source-not-a-file"


def test_a_bad_source_points_at_its_line(tmp_path: Path) -> None:
    problem = problem_of("ftp://x.org/b", tmp_path, ConfigError)

    assert (problem.code, problem.where) == ("source-invalid", SOURCE)
    assert problem.message.startswith("attn-small: ")


# Transport

network = pytest.mark.network


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[s.FaultServer]:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    with s.FaultServer({}) as running:
        yield running


@pytest.fixture
def time_() -> Time:
    return Time()


@network
def test_request(server: s.FaultServer, tmp_path: Path) -> None:
    server.add("/b.tar", s.make_ok(DATA))

    got, data = get(f"{server.url}/b.tar?sig=secret", tmp_path)

    assert (data, got.sha256) == (DATA, SHA)
    assert got.origin == f"{server.url}/b.tar"
    head = server.requests[0].lower()
    assert head.startswith("get /b.tar?sig=secret http/1.1\r\n")
    assert "accept-encoding: identity\r\n" in head
    assert f"user-agent: parity-action/{parity.__version__}\r\n" in head
    assert "authorization" not in head


@network
def test_progress_is_reported(server: s.FaultServer, tmp_path: Path) -> None:
    server.add("/b", s.make_chunked(DATA[:100], DATA[100:]))
    reported: list[tuple[int, int | None]] = []

    get(f"{server.url}/b", tmp_path, progress=lambda *now: reported.append(now))

    assert reported[-1] == (len(DATA), len(DATA))
    assert reported == sorted(reported)


@network
def test_server_that_asks_for_a_long_wait_is_skipped(
    server: s.FaultServer, tmp_path: Path, time_: Time
) -> None:
    server.add("/b", s.make_status(429, "Retry-After: 61"))

    problem = problem_of(
        f"{server.url}/b", tmp_path, FetchError, retry_policy=time_.make_retry_policy()
    )

    assert problem == Problem(
        "http-rate-limited",
        "attn-small: too many requests from this address",
        SOURCE,
        (
            "obtained  HTTP status 429",
            f"from      {server.url}/b",
            "after 1 try",
            "try again later, or set a token: CI machines share their addresses",
        ),
    )
    assert time_.slept == []


@network
def test_answer_that_is_always_cut_fails(
    server: s.FaultServer, tmp_path: Path, time_: Time
) -> None:
    server.add("/b", s.make_ok(DATA[:1000], length=len(DATA)))

    problem = problem_of(
        f"{server.url}/b?sig=x", tmp_path, FetchError, retry_policy=time_.make_retry_policy()
    )

    assert problem == Problem(
        "fetch-network",
        "attn-small: the connection failed",
        SOURCE,
        (
            "obtained  cut short: 1,000 bytes, 3,608 more expected",
            "after 5 tries",
            "check the network, then try again",
        ),
    )


@network
@pytest.mark.parametrize(
    "answer",
    [
        s.send(s.make_ok(DATA + b"1")),
        s.send_endlessly(s.make_unsized(DATA)),
        s.send(s.make_chunked(DATA, b"1")),
    ],
)
def test_one_byte_too_many_ends_the_download(
    server: s.FaultServer, tmp_path: Path, answer: s.Answer
) -> None:
    server.add("/b", answer)

    reported: list[int] = []
    source = f"{server.url}/b"

    problem = problem_of(source, tmp_path, IntegrityError, progress=lambda n, _: reported.append(n))

    assert problem.code == "integrity-size"
    assert f"obtained  more than {len(DATA):,} bytes; the rest was not read" in problem.details
    assert reported[-1] == len(DATA) + 1
    assert (tmp_path / "target").stat().st_size == 0


@network
def test_silent_server_ends_at_the_deadline(server: s.FaultServer, tmp_path: Path) -> None:
    server.add("/b", lambda _: time.sleep(3))
    start = time.monotonic()

    problem = problem_of(f"{server.url}/b", tmp_path, FetchError, deadline=start + 0.5)

    assert problem.code in ("fetch-deadline", "fetch-network")
    assert time.monotonic() - start < 2


@network
def test_refused_connection_is_retried(tmp_path: Path, time_: Time) -> None:
    with s.FaultServer({}) as running:
        url = running.url

    problem = problem_of(f"{url}/b", tmp_path, FetchError, retry_policy=time_.make_retry_policy())

    assert problem.code == "fetch-network"
    assert problem.details[0].startswith("obtained  NewConnectionError")
    assert len(time_.slept) == 4


# Redirects


@network
@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_are_followed(server: s.FaultServer, tmp_path: Path, code: int) -> None:
    server.add("/b", s.make_redirect("/c/d?sig=secret", code))
    server.add("/c/d", s.make_redirect("e", code))
    server.add("/c/e", s.make_ok(DATA))

    got, _ = get(f"{server.url}/b", tmp_path)

    assert got.origin == f"{server.url}/b (2 redirects)"


@network
@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("file:///etc/passwd", "to file:///etc/passwd: only hf://, https:// and relative"),
        ("http://example.invalid/b?x=1", "to http://example.invalid/b: plain http"),
        ("ftp://127.0.0.1/b", "to ftp://127.0.0.1/b: only hf://"),
        ("https://u:p@127.0.0.1/b", "to https://127.0.0.1/b: it contains a user"),
        ("http://[", "to no address: only hf://"),
    ],
)
def test_redirects_that_are_rejected(
    server: s.FaultServer, tmp_path: Path, target: str, reason: str
) -> None:
    server.add("/b", s.make_redirect(target))

    problem = problem_of(f"{server.url}/b", tmp_path, FetchError)

    assert problem.code == "fetch-redirect"
    assert problem.message.startswith(f"attn-small: a redirect is rejected: {reason}")
    assert len(server.requests) == 1


@network
def test_a_loop_ends_after_ten(server: s.FaultServer, tmp_path: Path) -> None:
    server.add("/b", s.make_redirect("/b"))

    problem = problem_of(f"{server.url}/b", tmp_path, FetchError)

    assert "more than 10 in a row" in problem.message
    assert len(server.requests) == 11


@network
def test_ten_redirects_are_allowed(server: s.FaultServer, tmp_path: Path) -> None:
    server.add("/b", *[s.make_redirect("/b")] * 10, s.make_ok(DATA))

    assert get(f"{server.url}/b", tmp_path)[0].origin.endswith("(10 redirects)")


@network
def test_each_try_starts_at_the_first_address(
    server: s.FaultServer, tmp_path: Path, time_: Time
) -> None:
    """A presigned address may have expired by then."""
    server.add("/b", s.make_redirect("/once"), s.make_redirect("/again"))
    server.add("/once", s.make_status(503))
    server.add("/again", s.make_ok(DATA))

    get(f"{server.url}/b", tmp_path, retry_policy=time_.make_retry_policy())

    assert [head.split(" ")[1] for head in server.requests] == ["/b", "/once", "/b", "/again"]


# Credentials


@network
@pytest.mark.parametrize("code", [401, 403, 404])
def test_the_hub_hints_at_the_token(
    server: s.FaultServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("HF_TOKEN", "hf_canary")
    server.add("/o/r/resolve/main/b", s.make_status(code))

    problem = problem_of("hf://o/r@main/b", tmp_path, FetchError)

    assert "HF_TOKEN" in problem.details[-1]
    assert "canary" not in str(problem)


@pytest.mark.parametrize(
    ("code", "word"),
    [
        (401, "http-unauthorized"),
        (403, "http-forbidden"),
        (404, "http-not-found"),
        (410, "http-gone"),
        (429, "http-rate-limited"),
        (500, "http-server-error"),
        (503, "http-server-error"),
        (418, "http-status"),
        (206, "http-status"),
    ],
)
def test_messages_about_statuses(code: int, word: str) -> None:
    problem = retries.make_status_problem(code, "https://x.org/b")

    assert problem.code == word
    assert problem.details[:2] == (f"obtained  HTTP status {code}", "from      https://x.org/b")
    assert len(problem.details) == 3


# Proxies


@network
@pytest.mark.parametrize(
    ("proxy", "no_proxy", "address", "used"),
    [
        ("http://p.example:3128", "", "https://x.org/b", "p.example"),
        ("http://u:p@p.example:3128", "", "https://x.org/b", "p.example"),
        ("http://p.example:3128", "x.org", "https://x.org/b", None),
        ("http://p.example:3128", "", "http://127.0.0.1/b", None),
        ("", "", "https://x.org/b", None),
    ],
)
def test_proxies(
    monkeypatch: pytest.MonkeyPatch, proxy: str, no_proxy: str, address: str, used: str | None
) -> None:
    monkeypatch.setattr(
        "urllib.request.getproxies", lambda: {"https": proxy, "http": proxy} if proxy else {}
    )
    monkeypatch.setattr("urllib.request.proxy_bypass", lambda host: host == no_proxy)

    pool = connections.make_manager(address)

    assert (pool.proxy.host if pool.proxy else None) == used


@network
def test_a_proxy_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("urllib.request.getproxies", lambda: {"https": "socks5://u:secret@p:1"})
    monkeypatch.setattr("urllib.request.proxy_bypass", lambda _: False)

    with pytest.raises(FetchError) as caught:
        connections.make_manager("https://x.org/b")
    assert caught.value.problems[0].code == "fetch-proxy"
    assert "secret" not in str(caught.value)


@network
@pytest.mark.parametrize(
    "proxy",
    [
        "http://u:secret@[::1",
        "http://u:secret@p.example:99999",
        "http://u:secret@p.example:port",
        "http://u:secret@",
        "http://",
        "http://u:secret@p.example:8_0",
        "http://\u0661:secret@p.example:\u0663",
        "http://u:secret@p example:80",
        "http://u:s\u20accret@p.example:80",
        "http://u:secret@..:80",
        "://secret",
    ],
)
def test_proxy_that_cannot_be_parsed(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setattr("urllib.request.getproxies", lambda: {"https": proxy})
    monkeypatch.setattr("urllib.request.proxy_bypass", lambda _: False)

    with pytest.raises(FetchError) as caught:
        connections.make_manager("https://x.org/b")
    assert caught.value.problems[0].code == "fetch-proxy"
    assert "secret" not in str(caught.value)


@pytest.mark.network
def test_fetch_through_a_proxy_that_cannot_be_parsed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One error at once: it is no failure of the network that may pass."""
    monkeypatch.setattr("urllib.request.getproxies", lambda: {"https": "http://[::1"})
    monkeypatch.setattr("urllib.request.proxy_bypass", lambda _: False)
    time_ = Time()

    problem = problem_of(
        "https://x.org/b", tmp_path, FetchError, retry_policy=time_.make_retry_policy()
    )

    assert (problem.code, time_.slept) == ("fetch-proxy", [])


@pytest.mark.parametrize(
    ("address", "same"),
    [
        ("https://X.org:443/b?c", True),
        ("http://x.org/a", False),
        ("https://x.org:444/a", False),
        ("https://y.org/a", False),
        ("https://x.org.y/a", False),
        ("https://[x.org/a", False),
    ],
)
def test_origins(address: str, same: bool) -> None:
    assert is_same_origin("https://x.org/a", address) == same


def test_retry_policy_defaults() -> None:
    """The numbers that the documentation states."""
    assert (RetryPolicy().max_tries, RetryPolicy().max_wait, RetryPolicy().max_pause) == (
        5,
        60.0,
        30.0,
    )
    assert (transport.CONNECT_TIMEOUT, transport.READ_TIMEOUT, transport.MAX_REDIRECTS) == (
        10.0,
        30.0,
        10,
    )
    assert not retries.TRANSIENT & {501, 505, 404}


def test_url_does_not_print_its_token() -> None:
    assert "canary" not in f"{Url('https://x.org', Secret('canary'))!r}"
