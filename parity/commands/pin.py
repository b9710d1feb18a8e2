"""``pin``: make bundles, byte for byte reproducible; needs the extra ``pin`` (torch)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parity.errors import ConfigError, Problem

if TYPE_CHECKING:
    from pathlib import Path

    from parity.reports.console import Teller


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
    from parity.pins import PINS  # noqa: PLC0415 - imports what makes references

    if options.kind and options.kind not in PINS:
        message = f"no kind {options.kind!r}; known: {', '.join(PINS)}"
        raise ConfigError(Problem("usage", message))
    if options.extra and options.kind != "serialize":
        message = f"{', '.join(options.extra)} are options of the kind 'serialize'"
        raise ConfigError(Problem("usage", message))
    options.out.mkdir(parents=True, exist_ok=True)
    for kind in [options.kind] if options.kind else PINS:
        teller.line(f"pinning {kind}")
        made = _made(kind, options)
        digest = hashlib.sha256(made.read_bytes()).hexdigest()
        teller.line(f"{made.as_posix()}  {made.stat().st_size:,} bytes  sha256:{digest}")
    return 0


def _made(kind: str, options: PinOptions) -> Path:
    from parity.pins import PINS  # noqa: PLC0415

    try:
        return PINS[kind](options.out, **options.extra)
    except ModuleNotFoundError as error:
        message = f"`pin` needs {error.name}; install the extra: pip install 'parity-action[pin]'"
        raise ConfigError(Problem("missing-library", message)) from None
