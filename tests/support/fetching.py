"""Make a bundle to fetch, and a clock that only sleeping moves."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parity.errors import Location
from parity.lockfile import Bundle, Dump, Locked
from parity.store.retries import RetryPolicy
from tests.support.tar import make_member, make_tar

#: 400 KB that differ everywhere, so that bytes at a wrong place are wrong bytes.
NOISE = hashlib.shake_256(b"noise").digest(400_000)
FILES = {"a": NOISE, "d/b": b"22"}
DATA = make_tar(*(make_member(path, data) for path, data in FILES.items()))
OTHER_DATA = make_tar(make_member("a", NOISE[::-1]), make_member("d/b", b"22"))
LINES = {key: Location(Path("f.lock.yaml"), line, 15) for line, key in enumerate(
    ["sha256", "size", "files", "unpacked", "tree"], start=10)}  # fmt: skip
SOURCE = Location(Path("f.lock.yaml"), 4, 11)


def compute_sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def make_bundle(source: str, *mirrors: str, name: str = "small", **locked: Any) -> Bundle:
    known = {"sha256": compute_sha256(DATA), "size": len(DATA), "files": 2, "where": LINES}
    return Bundle(
        id=name,
        source=source,
        mirrors=mirrors,
        suite="tensors",
        dump=Dump(),
        locked=Locked(**{**known, **locked}),
        where={"": SOURCE, "source": SOURCE},
    )


@dataclass
class FakeClock:
    """A clock whose sleeps take no time and are recorded; silence counts after half a second."""

    sleeps: list[float] = field(default_factory=list)

    def make_retry_policy(self, **changed: Any) -> RetryPolicy:
        known = {"sleep": self.sleeps.append, "chance": lambda: 0.0, "window": 0.5}
        return RetryPolicy(**{**known, **changed})


def read_files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
