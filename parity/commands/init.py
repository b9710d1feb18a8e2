"""``init``: a first lockfile and workflow after a look at the repo, or one bundle more."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from parity.commands import drafts
from parity.commands.options import Options
from parity.commands.origins import as_source
from parity.errors import ConfigError, Problem, Where
from parity.safetext import counted, safe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parity.lockfile import Bundle
    from parity.reports.console import Teller

#: Words in an example's name that make it look like one that dumps.
_DUMPING = ("dump", "parity", "fixture", "golden")
_SKIPPED = {"target", ".git", "node_modules", ".venv", ".nox"}
_MOST_FOLDERS = 20_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_ID = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True, kw_only=True)
class InitOptions(Options):
    """The command line of ``init``.

    Attributes:
        source: Where a bundle is to be had, as it was typed; None for an example to fill in.
    """

    source: str | None = None


class Example(NamedTuple):
    """A cargo example, and the package that it belongs to."""

    package: str
    name: str
    path: Path

    @property
    def dumps(self) -> bool:
        """Whether its name sounds like a program that dumps."""
        return any(word in self.name for word in _DUMPING)


def init(options: InitOptions, teller: Teller) -> int:
    """Write what is missing, and say what was written and what comes next.

    Raises:
        ConfigError: There is nothing to write without overwriting, or no such bundle.
    """
    if options.source is not None:
        source = as_source(options.source, options.lockfile.parent)
        options = replace(options, source=source)
    examples = sorted(_examples(options.repo), key=lambda e: (not e.dumps, e.package, e.name))
    _tell_found(examples, teller)
    chosen = examples[0] if examples and examples[0].dumps else None
    if options.lockfile.exists():
        _add(options, chosen, teller)
    else:
        name = _bundle_name(options.source or drafts.SOURCE)
        text = drafts.lockfile(name, options.source or drafts.SOURCE, chosen)
        _write(options.lockfile, text, teller)
        teller.line("    what to verify, and how your port makes its side; `bump` locks it")
    _workflow(options, teller)
    for line in drafts.next_steps(chosen is not None, options.source is not None):
        teller.line(line)
    return 0


def _tell_found(examples: list[Example], teller: Teller) -> None:
    if not examples:
        teller.line("found no example of a cargo package")
        return
    packages = {example.package for example in examples}
    dumping = [example for example in examples if example.dumps]
    told = f"found {counted(len(examples), 'examples')} in {counted(len(packages), 'packages')}"
    many = f"{len(dumping)} of them by name a dump:" if dumping else "none of them by name a dump"
    teller.line(f"{told}, {many}")
    for example in dumping:
        teller.line(f"    {safe(example.package)}: {safe(example.path.as_posix())}")


def _examples(repo: Path) -> Iterator[Example]:
    """The examples of all packages below ``repo``; cargo itself is not asked."""
    for manifest in _manifests(repo):
        package = _package(manifest)
        if package is None:
            continue
        folder = manifest.parent / "examples"
        files = [*folder.glob("*.rs"), *folder.glob("*/main.rs")]
        for file in sorted(files):
            name = file.parent.name if file.name == "main.rs" else file.stem
            if _NAME.fullmatch(name):
                yield Example(package, name, file.relative_to(repo))


def _manifests(repo: Path) -> Iterator[Path]:
    # Not Path.walk, which is new in Python 3.12.
    for _, (folder, folders, files) in zip(range(_MOST_FOLDERS), os.walk(repo), strict=False):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        if "Cargo.toml" in files:
            yield Path(folder) / "Cargo.toml"


def _package(manifest: Path) -> str | None:
    try:
        name = tomllib.loads(manifest.read_text(encoding="utf-8"))["package"]["name"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return name if isinstance(name, str) and _NAME.fullmatch(name) else None


def _bundle_name(source: str) -> str:
    """The last part of the address that says something: ``…/dataloader-v1/bundle.tar``."""
    path = re.split(r"[?#]", source.partition("://")[2] or source)[0]
    words = [word for word in re.split(r"[/@]", path) if word]
    for word in reversed(words):
        name = re.sub(r"[^a-z0-9._-]+", "-", word.lower().removesuffix(".tar")).strip("-._")
        if _ID.fullmatch(name) and name not in ("bundle", "main", "master", "resolve", "blob"):
            return name
    return drafts.NAME


def _write(path: Path, text: str, teller: Teller) -> None:
    """Write a file that is not there; never over one that is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)
    teller.line(f"wrote {safe(path.as_posix())}")


def _add(options: InitOptions, chosen: Example | None, teller: Teller) -> None:
    """One bundle more in a lockfile that is there: in the example's place, else at the end."""
    path = options.lockfile
    if options.source is None:
        teller.line(f"{safe(path.as_posix())} is there and stays as it is")
        return
    name, text = _bundle_name(options.source), path.read_text(encoding="utf-8")
    before = _bundles(path, text)
    if name in before and before[name].source != drafts.SOURCE:
        message = f"the lockfile has a bundle {name!r} already; `parity bump {name}` locks it anew"
        raise ConfigError(Problem("init", message, Where(path)))
    example = before.get(drafts.NAME)
    fits = example is not None and example.locked is None
    whole = drafts.filled(text, name, options.source) if fits else None
    told = f"put {safe(name)} in the place of the example in"
    if whole is None:
        whole = text.rstrip("\n") + "\n" + drafts.bundle(name, options.source, chosen)
        told = f"added {safe(name)} to"
    after = _bundles(path, whole).get(name)
    if after is None or after.source != options.source:
        message = "the lockfile does not end with its bundles, so none can be added at its end"
        raise ConfigError(Problem("init", message, Where(path)))
    path.write_text(whole, encoding="utf-8", newline="\n")
    teller.line(f"{told} {safe(path.as_posix())}")


def _bundles(path: Path, text: str) -> dict[str, Bundle]:
    """The bundles of a lockfile, by id."""
    from parity.lockfile import parse

    return {bundle.id: bundle for bundle in parse(path, text.encode()).bundles}


def _workflow(options: InitOptions, teller: Teller) -> None:
    path = options.repo / ".github" / "workflows" / "parity.yml"
    if path.exists():
        teller.line(f"{safe(path.as_posix())} is there and stays as it is")
        return
    _write(path, drafts.WORKFLOW, teller)
    teller.line("    runs on every push and pull request, with no rights but to read the code")
