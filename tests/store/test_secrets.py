"""Tokens, presigned queries and a proxy's password are never printed or sent elsewhere."""

from __future__ import annotations

import os
import pickle
import shutil
import socket
import ssl
import subprocess
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from parity.__main__ import run_command_line
from parity.errors import FetchError, ParityError
from parity.store import connections, disk, sources
from parity.store.download import download
from parity.store.retries import FetchOptions
from parity.store.sources import Secret, read_hub_token
from parity.store.store import Store
from tests.support import fault_server as s
from tests.support.bundles import write_lockfile
from tests.support.fault_server import ServedFile
from tests.support.fetching import DATA, OTHER_DATA, FakeClock, compute_sha256, make_bundle

TOKEN, QUERY, PASSWORD = "hf_canary1", "canary2", "canary3"
CANARIES = (TOKEN, QUERY, PASSWORD, "aGY6Y2FuYXJ5Mw")  # the last is hf:canary3 in base64


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


# The type


@pytest.mark.parametrize(
    "reported", [repr, str, "{}".format, "{!r}".format, lambda s: f"{[s]}", ascii]
)  # fmt: skip
def test_secret_is_not_printed(reported: Any) -> None:
    secret = Secret(TOKEN)

    assert "canary" not in reported(secret)
    assert "***" in reported(secret)
    assert secret.reveal() == TOKEN


def test_a_secret_is_not_pickled() -> None:
    raw = pickle.dumps(Secret(TOKEN))

    assert b"canary" not in raw
    assert pickle.loads(raw).reveal() == "***"  # noqa: S301 - made above


def test_an_address_does_not_show_its_query() -> None:
    assert "canary" not in repr(sources.Url(f"https://x.org/b?sig={QUERY}", Secret(TOKEN)))


def _make_pipe(path: Path) -> None:
    os.mkfifo(path)


def _make_folder(path: Path) -> None:
    path.mkdir()


def _make_endless_link(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _make_long_file(path: Path) -> None:
    path.write_bytes(b"hf_" + b"x" * 5000)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")
@pytest.mark.timeout(30)
@pytest.mark.parametrize("make", [_make_pipe, _make_folder, _make_endless_link, _make_long_file])
def test_token_file_that_is_none_is_not_waited_for(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "token")

    assert read_hub_token({"HF_TOKEN_PATH": str(tmp_path / "token")}) is None


@pytest.mark.parametrize(
    ("environ", "token"),
    [
        ({}, "of home"),
        ({"HF_TOKEN": "stated"}, "stated"),
        ({"HF_TOKEN": " "}, "of home"),
        ({"HF_HOME": "{tmp}/hf"}, "of hf"),
        ({"HF_TOKEN_PATH": "{tmp}/hf/other", "HF_HOME": "{tmp}/hf"}, "of other"),
        ({"HF_TOKEN_PATH": "{tmp}/nowhere"}, None),
        ({"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}, None),
        ({"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1", "HF_TOKEN": "stated"}, "stated"),
        ({"XDG_CACHE_HOME": "{tmp}/xdg"}, "of xdg"),
    ],
)
def test_places_of_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: Mapping[str, str], token: str | None
) -> None:
    files = {
        "home/.cache/huggingface/token": "of home",
        "hf/token": "of hf",
        "hf/other": "of other",
        "xdg/huggingface/token": "of xdg",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text.replace(' ', '_')}\n", encoding="utf-8")
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "home"))

    found = read_hub_token({name: value.format(tmp=tmp_path) for name, value in environ.items()})

    assert (found.reveal() if found else None) == (token.replace(" ", "_") if token else None)


# What is said


LOCKED = {"sha256": f"sha256:{compute_sha256(DATA)}", "size": len(DATA)}
TROUBLE: dict[str, Any] = {
    "401": s.make_status(401),
    "403": s.make_status(403),
    "429": s.make_status(429, "Retry-After: 999"),
    "503": s.make_status(503),
    "cut": s.make_ok(DATA[:9], length=len(DATA)),
    "reset": s.send_and_reset(b""),
    "wrong": s.make_ok(OTHER_DATA),
    "loop": s.make_redirect(f"?sig={QUERY}"),
    "bad-redirect": s.make_redirect(f"ftp://u:{QUERY}@x.org/?sig={QUERY}"),
    "worse-redirect": s.make_redirect(f"http://[{QUERY}?sig={QUERY}"),
    "odd-redirect": s.make_redirect(f"https://{'x' * 70}.org/?sig={QUERY}"),
    "garbage": s.send(f"{QUERY}\r\n\r\n".encode()),
    "bad-length": s.make_head(200, "Content-Length: 1", "Content-Length: 2"),
    "good": ServedFile(DATA, drops=[1000]),
}


@pytest.mark.network
def test_no_secret_is_printed_or_sent_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """All that is printed, written to the store, or asked of another origin."""
    store = Store(tmp_path / "store", retry_policy=FakeClock().make_retry_policy())
    monkeypatch.setattr(Store, "from_environment", lambda: store)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("https_proxy", f"http://hf:{PASSWORD}@127.0.0.1:9")
    said, codes = "", []
    with s.FaultServer({"/cdn": [ServedFile(DATA)]}) as other, s.FaultServer({}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        to_other = {"elsewhere": s.make_redirect(f"{other.url}/cdn?sig={QUERY}")}
        for name, answer in {**TROUBLE, **to_other}.items():
            server.add(f"/{name}", answer)
            server.add(f"/o/r/resolve/main/{name}", answer)
            for source in (f"{server.url}/{name}?sig={QUERY}", f"hf://o/r@main/{name}"):
                path = write_lockfile(tmp_path, {f"b-{name}": {"source": source, "locked": LOCKED}})
                codes.append(run_command_line(["fetch", "--lockfile", str(path)]))
                codes.append(run_command_line(["fetch", "--offline", "--lockfile", str(path)]))
                said += "".join(capfd.readouterr())
        path = write_lockfile(
            tmp_path,
            {"proxied": {"source": f"https://example.org/b?sig={QUERY}", "locked": LOCKED}},
        )
        codes.append(run_command_line(["fetch", "--lockfile", str(path)]))
        said += "".join(capfd.readouterr())
        assert not [canary for canary in CANARIES if canary in said]
        # The presigned query is the other origin's own; nothing else may get there.
        requested = "".join(other.requests)
        assert not [canary for canary in (TOKEN, PASSWORD) if canary in requested]
    assert set(codes) == {0, 3, 4}
    stored = b"".join(p.read_bytes() for p in store.root.rglob("*") if p.is_file())
    assert not [canary for canary in CANARIES if canary.encode() in stored]
    disk.remove(store.root)


@pytest.mark.network
@pytest.mark.parametrize("name", [name for name in TROUBLE if name != "good"])
def test_no_secret_in_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with s.FaultServer({f"/o/r/resolve/main/{name}": [TROUBLE[name]]}) as server:
        server.add("/b", s.make_redirect(f"/o/r/resolve/main/{name}?sig={QUERY}"))
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        for source in ("hf://o/r@main/" + name, f"{server.url}/b?sig={QUERY}"):
            with pytest.raises(ParityError) as caught:
                download(
                    make_bundle(source),
                    tmp_path,
                    tmp_path / "t",
                    FetchOptions(retry_policy=FakeClock().make_retry_policy()),
                )
            text = "".join(traceback.format_exception(caught.value))
            assert not [canary for canary in CANARIES if canary in text]


# Proxies


@pytest.fixture
def tls(tmp_path: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's certificate for localhost, signed by itself, and its file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=DNS:localhost,DNS:bundles.example"]  # fmt: skip
    subprocess.run([openssl, *words], check=True, capture_output=True, timeout=30)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context, cert


def tunnel(port: int) -> Any:
    """A proxy's answer to CONNECT: carry bytes both ways, to ``port`` of this machine."""

    def carry(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
        with socket.create_connection(("127.0.0.1", port), timeout=5) as far:
            back = s.threading.Thread(target=_pour, args=(far, connection), daemon=True)
            back.start()
            _pour(connection, far)
            back.join(5)

    return carry


def _pour(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65_536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)


def fetched(source: str, folder: Path) -> bytes:
    target = folder / "target"
    # With the window of real fetches: a handshake may take long on a busy machine.
    options = FetchOptions(retry_policy=FakeClock().make_retry_policy(window=30.0))
    download(make_bundle(source), folder, target, options)
    return target.read_bytes()


@pytest.mark.network
@pytest.mark.process
def test_proxy_gets_a_connect_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: tuple[ssl.SSLContext, Path]
) -> None:
    context, cert = tls
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    with (
        s.FaultServer({"/b.tar": [s.make_ok(DATA)]}, tls=context) as server,
        s.FaultServer({"bundles.example:443": [tunnel(server.port)]}) as proxy,
    ):
        monkeypatch.setenv("https_proxy", f"http://hf:{PASSWORD}@127.0.0.1:{proxy.port}")

        assert fetched("https://bundles.example/b.tar", tmp_path) == DATA
        (requested,) = proxy.requests
        assert requested.startswith("CONNECT bundles.example:443 HTTP/1.")
        assert s.find_header(requested, "proxy-authorization").startswith("Basic aGY6Y2FuYXJ5Mw")
        # The password is the proxy's alone.
        assert "proxy-authorization" not in server.requests[0].lower()


@pytest.mark.network
@pytest.mark.parametrize("variable", ["https_proxy", "HTTPS_PROXY", "ALL_PROXY"])
def test_proxy_that_rejects_is_not_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    with s.FaultServer({"bundles.example:443": [s.make_status(407)]}) as proxy:
        monkeypatch.setenv(variable, f"http://hf:{PASSWORD}@127.0.0.1:{proxy.port}")

        with pytest.raises(FetchError) as caught:
            fetched("https://bundles.example/b.tar", tmp_path)
        assert len(proxy.requests) == 1  # and is not asked again
    (problem,) = caught.value.problems
    assert problem.code == "fetch-proxy"
    assert problem.details[0] == "obtained  HTTP status 407 from the proxy"


@pytest.mark.network
@pytest.mark.process
def test_no_proxy_is_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: tuple[ssl.SSLContext, Path]
) -> None:
    context, cert = tls
    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda _, *more, **rest: real("127.0.0.1", *more, **rest)
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    with (
        s.FaultServer({"/b.tar": [s.make_ok(DATA)]}, tls=context) as server,
        s.FaultServer({}) as proxy,
    ):
        monkeypatch.setenv("https_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "localhost,.example")

        assert fetched(f"https://bundles.example:{server.port}/b.tar", tmp_path) == DATA
        assert proxy.requests == []


@pytest.mark.network
def test_loopback_uses_no_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s.FaultServer({"/b.tar": [s.make_ok(DATA)]}) as server, s.FaultServer({}) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("all_proxy", proxy.url)

        assert fetched(f"{server.url}/b.tar", tmp_path) == DATA
        assert proxy.requests == []


@pytest.mark.network
@pytest.mark.parametrize("login", ["hf:canary3", "h%66:c%61nary3"])
def test_a_proxys_login_is_decoded_and_leaves_the_address(
    monkeypatch: pytest.MonkeyPatch, login: str
) -> None:
    monkeypatch.setenv("https_proxy", f"http://{login}@p.example:3128")

    manager: Any = connections.make_manager("https://x.org/b")

    assert manager.proxy.url == "http://p.example:3128"
    assert manager.proxy_headers == {"proxy-authorization": "Basic aGY6Y2FuYXJ5Mw=="}


# TLS


@pytest.mark.network
@pytest.mark.process
def test_untrusted_certificate_fails(
    tmp_path: Path, tls: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    context, cert = tls
    with s.FaultServer({"/b.tar": [s.make_ok(DATA)]}, host="localhost", tls=context) as server:
        with pytest.raises(FetchError) as caught:
            fetched(f"{server.url}/b.tar?sig={QUERY}", tmp_path)
        assert server.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        assert fetched(f"{server.url}/b.tar", tmp_path) == DATA
    (problem,) = caught.value.problems
    assert problem.code == "fetch-tls"
    assert "canary" not in str(problem)


@pytest.mark.network
@pytest.mark.process
def test_https_never_becomes_http(
    tmp_path: Path, tls: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    context, cert = tls
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    with (
        s.FaultServer({"/b.tar": [s.make_ok(DATA)]}) as plain,
        s.FaultServer(
            {"/b.tar": [s.make_redirect(f"{plain.url}/b.tar")]}, "localhost", context
        ) as server,
    ):
        with pytest.raises(FetchError) as caught:
            fetched(f"{server.url}/b.tar", tmp_path)
        assert plain.requests == []
    assert caught.value.problems[0].code == "fetch-redirect"


@pytest.mark.network
def test_a_handshake_that_hangs(tmp_path: Path) -> None:
    """Such as with a server that knows no TLS, and waits for the end of a request."""
    terms = FetchOptions(retry_policy=FakeClock().make_retry_policy(max_tries=1))
    with s.FaultServer({}, host="localhost") as server:
        entry = make_bundle(f"{server.url.replace('http:', 'https:')}/b.tar")
        with pytest.raises(FetchError) as caught:
            download(entry, tmp_path, tmp_path / "target", terms)
    assert caught.value.problems[0].code == "fetch-stalled"
