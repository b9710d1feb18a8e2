"""A bundle to fetch, and a time that only sleeping moves."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parity.errors import Where
from parity.fixtures.http.retries import Patience
from parity.lockfile import Bundle, Dump, Locked
from tests.support.tar import member, tar

#: 400 KB that differ everywhere, so that bytes at a wrong place are wrong bytes.
NOISE = hashlib.shake_256(b"noise").digest(400_000)
FILES = {"a": NOISE, "d/b": b"22"}
DATA = tar(*(member(path, data) for path, data in FILES.items()))
OTHER = tar(member("a", NOISE[::-1]), member("d/b", b"22"))
LINES = {key: Where(Path("f.lock.yaml"), line, 15) for line, key in enumerate(
    ["sha256", "size", "files", "unpacked", "tree"], start=10)}  # fmt: skip
SOURCE = Where(Path("f.lock.yaml"), 4, 11)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def bundle(source: str, *mirrors: str, name: str = "small", **locked: Any) -> Bundle:
    known = {"sha256": sha(DATA), "size": len(DATA), "files": 2, "where": LINES}
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
class Time:
    """Sleeps take no time and are written down; silence is noticed after half a second."""

    slept: list[float] = field(default_factory=list)

    def patience(self, **changed: Any) -> Patience:
        known = {"sleep": self.slept.append, "chance": lambda: 0.0, "window": 0.5}
        return Patience(**{**known, "now": lambda: 1_000_000.0, **changed})


def files_of(made: Path) -> dict[str, bytes]:
    return {
        path.relative_to(made).as_posix(): path.read_bytes()
        for path in made.rglob("*")
        if path.is_file()
    }
