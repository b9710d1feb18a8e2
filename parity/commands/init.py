"""``init``: a first lockfile and workflow after a look at the repo, or one bundle more."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from parity.commands import init_templates
from parity.commands.init_source import resolve_source
from parity.errors import ConfigError, Location, Problem
from parity.text import format_count, sanitize
from parity.verify.options import Options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parity.lockfile import Bundle
    from parity.reports.console import RunConsole

#: Words in an example's name that make it look like one that dumps.
_DUMP_HINTS = ("dump", "parity", "fixture", "golden")
_SKIPPED_FOLDERS = {"target", ".git", "node_modules", ".venv", ".nox"}
_MAX_FOLDERS = 20_000
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
    def is_dump_program(self) -> bool:
        """Whether its name sounds like a program that dumps."""
        return any(word in self.name for word in _DUMP_HINTS)


def init(options: InitOptions, console: RunConsole) -> int:
    """Write what is missing, and say what was written and what comes next.

    Raises:
        ConfigError: There is nothing to write without overwriting, or no such bundle.
    """
    if options.source is not None:
        source = resolve_source(options.source, options.lockfile.parent)
        options = replace(options, source=source)
    examples = sorted(
        _find_examples(options.repo), key=lambda e: (not e.is_dump_program, e.package, e.name)
    )
    _print_examples(examples, console)
    chosen = examples[0] if examples and examples[0].is_dump_program else None
    if options.lockfile.exists():
        _add_bundle(options, chosen, console)
    else:
        name = _choose_bundle_id(options.source or init_templates.EXAMPLE_SOURCE)
        text = init_templates.format_lockfile(
            name, options.source or init_templates.EXAMPLE_SOURCE, chosen
        )
        _write_new_file(options.lockfile, text, console)
        console.print_line("    what to verify, and how your port makes its side; `bump` locks it")
    _write_workflow(options, console)
    for line in init_templates.list_next_steps(chosen is not None, options.source is not None):
        console.print_line(line)
    return 0


def _print_examples(examples: list[Example], console: RunConsole) -> None:
    if not examples:
        console.print_line("found no example of a cargo package")
        return
    packages = {example.package for example in examples}
    dump_programs = [example for example in examples if example.is_dump_program]
    totals = f"found {format_count(len(examples), 'examples')} in {format_count(len(packages), 'packages')}"
    dump_count = (
        f"{len(dump_programs)} of them by name a dump:"
        if dump_programs
        else "none of them by name a dump"
    )
    console.print_line(f"{totals}, {dump_count}")
    for example in dump_programs:
        console.print_line(f"    {sanitize(example.package)}: {sanitize(example.path.as_posix())}")


def _find_examples(repo: Path) -> Iterator[Example]:
    """The examples of all packages below ``repo``; cargo itself is not asked."""
    for manifest in _find_manifests(repo):
        package = _read_package_name(manifest)
        if package is None:
            continue
        folder = manifest.parent / "examples"
        files = [*folder.glob("*.rs"), *folder.glob("*/main.rs")]
        for file in sorted(files):
            name = file.parent.name if file.name == "main.rs" else file.stem
            if _NAME.fullmatch(name):
                yield Example(package, name, file.relative_to(repo))


def _find_manifests(repo: Path) -> Iterator[Path]:
    # Not Path.walk, which is new in Python 3.12.
    for _, (folder, folders, files) in zip(range(_MAX_FOLDERS), os.walk(repo), strict=False):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS)
        if "Cargo.toml" in files:
            yield Path(folder) / "Cargo.toml"


def _read_package_name(manifest: Path) -> str | None:
    try:
        name = tomllib.loads(manifest.read_text(encoding="utf-8"))["package"]["name"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return name if isinstance(name, str) and _NAME.fullmatch(name) else None


def _choose_bundle_id(source: str) -> str:
    """The last part of the address that says something: ``…/dataloader-v1/bundle.tar``."""
    path = re.split(r"[?#]", source.partition("://")[2] or source)[0]
    words = [word for word in re.split(r"[/@]", path) if word]
    for word in reversed(words):
        name = re.sub(r"[^a-z0-9._-]+", "-", word.lower().removesuffix(".tar")).strip("-._")
        if _ID.fullmatch(name) and name not in ("bundle", "main", "master", "resolve", "blob"):
            return name
    return init_templates.EXAMPLE_ID


def _write_new_file(path: Path, text: str, console: RunConsole) -> None:
    """Write a file that is not there; never over one that is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)
    console.print_line(f"wrote {sanitize(path.as_posix())}")


def _add_bundle(options: InitOptions, chosen: Example | None, console: RunConsole) -> None:
    """One bundle more in a lockfile that is there: in the example's place, else at the end."""
    path = options.lockfile
    if options.source is None:
        console.print_line(f"{sanitize(path.as_posix())} is there and stays as it is")
        return
    name, text = _choose_bundle_id(options.source), path.read_text(encoding="utf-8")
    before = _parse_bundles(path, text)
    if name in before and before[name].source != init_templates.EXAMPLE_SOURCE:
        message = f"the lockfile has a bundle {name!r} already; `parity bump {name}` locks it anew"
        raise ConfigError(Problem("init", message, Location(path)))
    example = before.get(init_templates.EXAMPLE_ID)
    is_replaceable = example is not None and example.locked is None
    new_text = init_templates.fill_example(text, name, options.source) if is_replaceable else None
    summary = f"put {sanitize(name)} in the place of the example in"
    if new_text is None:
        new_text = (
            text.rstrip("\n") + "\n" + init_templates.format_bundle(name, options.source, chosen)
        )
        summary = f"added {sanitize(name)} to"
    after = _parse_bundles(path, new_text).get(name)
    if after is None or after.source != options.source:
        message = "the lockfile does not end with its bundles, so none can be added at its end"
        raise ConfigError(Problem("init", message, Location(path)))
    path.write_text(new_text, encoding="utf-8", newline="\n")
    console.print_line(f"{summary} {sanitize(path.as_posix())}")


def _parse_bundles(path: Path, text: str) -> dict[str, Bundle]:
    """The bundles of a lockfile, by id."""
    from parity.lockfile import parse

    return {bundle.id: bundle for bundle in parse(path, text.encode()).bundles}


def _write_workflow(options: InitOptions, console: RunConsole) -> None:
    path = options.repo / ".github" / "workflows" / "parity.yml"
    if path.exists():
        console.print_line(f"{sanitize(path.as_posix())} is there and stays as it is")
        return
    _write_new_file(path, init_templates.WORKFLOW, console)
    console.print_line(
        "    runs on every push and pull request, with no rights but to read the code"
    )
