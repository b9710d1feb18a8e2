"""``pin``: make bundles, byte for byte reproducible; needs the extra ``pin`` (torch)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from parity.commands.options import parse_size
from parity.errors import ConfigError, Problem
from parity.reports.console import RunConsole
from parity.verify import publish
from parity.verify.options import declare, declare_flag, declare_list

_KIND_OPTIONS = {
    "serialize": {"size", "upstream_only", "pth", "gguf"},
    "tensors": {"folder", "more", "name"},
    "trace": {
        *("model", "name", "level", "train", "seed", "stages"),
        *("sample", "max_size", "keep_parameters"),
    },
}


@dataclass(frozen=True, kw_only=True)
class PinOptions:
    """The command line of ``pin``; an empty ``kind`` makes all embedded bundles."""

    kind: str = declare("KIND", "kind of bundle (default: all embedded ones)", "", nargs="?")
    folder: Path | None = declare(
        "PATH",
        "tensors only: a folder, or a file of arrays (.npz, .npy, .safetensors, .pt, .json)",
        None,
        nargs="?",
    )
    more: Sequence[Path] = declare(
        "FILE", "tensors only: further files, each a case", (), nargs="*"
    )
    name: str | None = declare(
        "--name", "tensors and trace: id of the bundle (default: the first one's name)", None
    )
    out: Path = declare("--out DIR", "output folder (tests/bundles)", default="tests/bundles")
    size: str | None = declare("--size", "serialize only", None, choices=("small", "full"))
    upstream_only: bool = declare_flag(
        "--upstream-only", "serialize only: the cases of upstream's bundle"
    )
    pth: Path | None = declare("--pth FILE", "serialize only: a real checkpoint", None)
    gguf: Path | None = declare("--gguf FILE", "serialize only: a real checkpoint", None)
    model: Sequence[str] = declare_list(
        "--model FILE.py:FUNCTION",
        "trace only: a function that returns a model and its inputs; the file is run",
    )
    level: str | None = declare(
        "--level",
        "trace only: a stage for each ATen call or each module (op)",
        None,
        choices=("op", "module"),
    )
    train: int | None = declare(
        "--train STEPS", "trace only: steps of training to trace, too", None
    )
    seed: int | None = declare("--seed S", "trace only: of the parameters and inputs (0)", None)
    stages: Sequence[str] = declare_list(
        "--stages GLOB", "trace only: store only the stages that match, and the outputs"
    )
    sample: int | None = declare(
        "--sample COUNT",
        "trace only: store so many elements of each larger output, gradient and state (all)",
        None,
    )
    max_size: int | None = declare(
        "--max-size S",
        "trace only: limit of the bundle's files, in bytes or as 2G (64 MiB)",
        None,
        type=parse_size,
    )
    keep_parameters: bool = declare_flag(
        "--keep-parameters", "trace only: leave the parameters as the function made them"
    )

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
