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
        ReferenceSuspectError: What was written is not what is read back.
    """
    from parity.pins import EMBEDDED, PINS

    _hold_usage(options, list(PINS))
    options.out.mkdir(parents=True, exist_ok=True)
    jobs = {options.kind: (options.kind, options.extra)} if options.kind else EMBEDDED
    for name, (kind, extra) in jobs.items():
        teller.line(f"pinning {name}")
        made = PINS[kind](options.out, **extra)
        with made.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        teller.line(f"{made.as_posix()}  {made.stat().st_size:,} bytes  sha256:{digest}")
    return 0


def _hold_usage(options: PinOptions, kinds: list[str]) -> None:
    message = ""
    foreign = sorted(options.extra.keys() - _OPTIONS.get(options.kind, set()))
    if options.kind and options.kind not in kinds:
        message = f"no kind {options.kind!r}; known: {', '.join(kinds)}"
    elif foreign:
        what = f"the kind {options.kind!r}" if options.kind else "all embedded bundles"
        message = f"{', '.join(foreign)}: no option for {what}"
    elif options.kind == "tensors" and "folder" not in options.extra:
        message = "`pin tensors FOLDER` packs a folder with its parity.json; name the folder"
    if message:
        raise ConfigError(Problem("usage", message))
