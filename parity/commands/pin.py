"""``pin``: make bundles, byte for byte reproducible; needs the extra ``pin`` (torch)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parity.errors import ConfigError, Problem

if TYPE_CHECKING:
    from pathlib import Path

    from parity.reports.console import Teller


_OPTIONS = {"serialize": {"size", "upstream_only", "pth", "gguf"}, "tensors": {"folder"}}


@dataclass(frozen=True, kw_only=True)
class PinOptions:
    """The command line of ``pin``; ``kind`` empty makes all embedded bundles.

    Attributes:
        out: Folder that gets ``<bundle id>.tar``.
        extra: Options of the kind's own, only those that were typed.
    """

    kind: str
    out: Path
    extra: dict[str, object]


def pin(options: PinOptions, teller: Teller) -> int:
    """Make the bundles asked for and print each one's digest; returns 0.

    Raises:
        ConfigError: Unknown kind, an option that the kind does not have, or a library missing.
    """
    from parity.pins import EMBEDDED, PINS  # noqa: PLC0415 - only this verb makes bundles

    if options.kind and options.kind not in PINS:
        message = f"no kind {options.kind!r}; known: {', '.join(PINS)}"
        raise ConfigError(Problem("usage", message))
    foreign = options.extra.keys() - _OPTIONS.get(options.kind, set())
    if foreign:
        message = (
            f"{', '.join(sorted(foreign))} is no option of the kind {options.kind or 'left out'!r}"
        )
        raise ConfigError(Problem("usage", message))
    if options.kind == "tensors" and "folder" not in options.extra:
        message = "`pin tensors FOLDER` packs a folder with its parity.json; name the folder"
        raise ConfigError(Problem("usage", message))
    options.out.mkdir(parents=True, exist_ok=True)
    for kind in [options.kind] if options.kind else EMBEDDED:
        teller.line(f"pinning {kind}")
        made = PINS[kind](options.out, **options.extra)
        with made.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        teller.line(f"{made.as_posix()}  {made.stat().st_size:,} bytes  sha256:{digest}")
    return 0
