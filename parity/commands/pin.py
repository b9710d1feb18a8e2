"""``pin``: make bundles, byte for byte reproducible; needs the extra ``pin`` (torch)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from parity.errors import ConfigError, Problem
from parity.reports.console import RunConsole
from parity.verify import publish

_KIND_OPTIONS = {
    "serialize": {"size", "upstream_only", "pth", "gguf"},
    "tensors": {"folder", "more", "name"},
    "trace": {"model", "name", "level", "train", "seed", "stages", "max_size", "keep_parameters"},
}


@dataclass(frozen=True, kw_only=True)
class PinOptions:
    """The command line of ``pin``; an empty ``kind`` makes all embedded bundles."""

    kind: str
    out: Path  # Folder that gets ``<bundle id>.tar``
    size: str | None = None
    upstream_only: bool = False
    pth: Path | None = None
    gguf: Path | None = None
    folder: Path | None = None
    more: Sequence[Path] = ()
    name: str | None = None
    model: Sequence[str] = ()
    level: str | None = None
    train: int | None = None
    seed: int | None = None
    stages: Sequence[str] = ()
    max_size: int | None = None
    keep_parameters: bool = False

    @property
    def extra(self) -> dict[str, object]:
        """The given options that only one kind has."""
        names = (name for kind_names in _KIND_OPTIONS.values() for name in kind_names)
        values = {name: getattr(self, name) for name in names}
        return {name: one for name, one in values.items() if one or type(one) is int}


def pin(options: PinOptions, console: RunConsole) -> int:
    """Make the bundles and print each one's digest; return 0.

    Raises:
        ConfigError: Unknown kind, an option that the kind does not have, or a library missing.
        ReferenceSuspectError: Reading the bundle back gave other values than written.
    """
    from parity.lab.pins import EMBEDDED, find_pin, list_kinds

    _check_usage(options, list_kinds())
    publish.check_no_link(options.out)
    options.out.mkdir(parents=True, exist_ok=True)
    jobs = {options.kind: (options.kind, options.extra)} if options.kind else EMBEDDED
    for name, (kind, extra) in jobs.items():
        console.print_line(f"pinning {name}")
        more = {"report": console.print_line} if kind == "trace" else {}
        archive = find_pin(kind)(options.out, **extra, **more)
        with archive.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = f"{archive.stat().st_size:,} bytes"
        console.print_line(f"{archive.as_posix()}  {size}  sha256:{digest}")
    return 0


def _check_usage(options: PinOptions, kinds: list[str]) -> None:
    message = ""
    unknown = sorted(options.extra.keys() - _KIND_OPTIONS.get(options.kind, set()))
    if options.kind and options.kind not in kinds:
        message = f"unknown kind {options.kind!r}; known: {', '.join(kinds)}"
    elif unknown:
        description = f"the kind {options.kind!r}" if options.kind else "all embedded bundles"
        message = f"{', '.join(unknown)}: not an option of {description}"
    elif options.kind == "tensors" and "folder" not in options.extra:
        message = "`pin tensors PATH` packs a folder with its parity.json, or files; name one"
    elif options.kind == "trace" and not options.model:
        message = "`pin trace --model FILE.py:FUNCTION` traces a model; name its function"
    if message:
        raise ConfigError(Problem("usage", message))
