"""``init``: write a first lockfile and workflow, or add a bundle to a lockfile."""

from __future__ import annotations

import json
import os
import re
import shlex
import tomllib
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from parity.errors import ConfigError, Location, Problem
from parity.github import display_path
from parity.lockfile import parse
from parity.lockfile.source_rules import find_source_problem, is_local
from parity.lockfile.write import rewrite
from parity.store import sources
from parity.text import format_count, sanitize
from parity.verify import publish
from parity.verify.options import Options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parity.lockfile import Bundle
    from parity.reports.console import RunConsole

#: Parts of an example's name that suggest a dump program.
_DUMP_HINTS = ("dump", "parity", "fixture", "golden")
_SKIPPED_FOLDERS = {"target", ".git", "node_modules", ".venv", ".nox"}
_MAX_FOLDERS = 20_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_ID = re.compile(r"[a-z0-9][a-z0-9._-]*")
#: Placeholders of the example entry: the bundle's address and its id.
_EXAMPLE_SOURCE, _EXAMPLE_ID = "https://example.org/my-bundle-v1.tar", "my-bundle-v1"
_SUITES = ("serialize", "dataloader", "pipeline")
_HEAD = """\
# The bundles this port is compared with. `parity bump` writes `locked:`; the rest is yours.
schema: 1
bundles:
"""


@dataclass(frozen=True, kw_only=True)
class InitOptions(Options):
    """The command line of ``init``; ``source`` is a bundle's archive as typed."""

    source: str | None = None


class Example(NamedTuple):
    """A cargo example and its package."""

    package: str
    name: str
    path: Path

    @property
    def is_dump_program(self) -> bool:
        """Whether its name suggests a dump program."""
        return any(word in self.name for word in _DUMP_HINTS)


def init(options: InitOptions, console: RunConsole) -> int:
    """Write the files that are missing; print what was written and the next steps.

    Raises:
        ConfigError: The bundle is in the lockfile already, the source is invalid, or a file
            to be written is a link or below one.
    """
    workflow = options.repo / ".github" / "workflows" / "parity.yml"
    if options.source is not None or not options.lockfile.exists():
        publish.check_no_link(options.lockfile, "lockfile-unwritable", options.repo)
    if not workflow.exists():
        publish.check_no_link(workflow, "init", options.repo)
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
        source = options.source or _EXAMPLE_SOURCE
        text = _HEAD + _format_bundle(_choose_bundle_id(source), source, chosen)
        note = "lists the bundles to verify and your port's dump program; `bump` locks it"
        _write_new_file(options.lockfile, text, note, console)
    text = files("parity.commands").joinpath("init_workflow.yml").read_text(encoding="utf-8")
    note = "runs on every push and pull request; it only needs `contents: read`"
    _write_new_file(workflow, text, note, console)
    _print_next_steps(options, chosen, console)
    return 0


def _print_examples(examples: list[Example], console: RunConsole) -> None:
    if not examples:
        console.print_line("found no cargo example")
        return
    packages = {example.package for example in examples}
    dump_programs = [example for example in examples if example.is_dump_program]
    found = f"{len(dump_programs)} named like a dump program:"
    if not dump_programs:
        found = "none named like a dump program"
    totals = (
        f"{format_count(len(examples), 'examples')} in {format_count(len(packages), 'packages')}"
    )
    console.print_line(f"found {totals}, {found}")
    for example in dump_programs:
        console.print_line(f"    {sanitize(example.package)}: {sanitize(example.path.as_posix())}")


def _print_next_steps(options: InitOptions, chosen: Example | None, console: RunConsole) -> None:
    repo = display_path(options.repo)
    option = "" if repo == "." else f" --repo {shlex.quote(repo)}"
    steps = [
        f"`parity bump{option}` downloads the bundle, shows its contents and locks its digest",
        f"`parity verify{option}` compares your port with it, as the workflow will",
    ]
    if chosen is None:
        steps.insert(
            0,
            "write a dump program (docs/dump-example.md of parity-action); name it under `dump`: "
            "`package` and `example`, or `command` if cargo does not build it",
        )
    if options.source is None:
        steps.insert(0, "set `source` to the bundle's address and `suite` to its kind")
    console.print_line("\nnext:")
    for number, step in enumerate(steps, 1):
        console.print_line(f"  {number}. {step}")


def _format_bundle(name: str, source: str, example: Example | None) -> str:
    """Return one entry; a comment marks what is unknown."""
    package, program = ("my-port", "my_dump  # the example that you will write")
    if example:
        package, program = example.package, example.name
    dump = f"    dump:\n      package: {package}\n      example: {program}\n"
    return "".join(_format_source(name, source)) + dump


def _format_source(name: str, source: str) -> tuple[str, str]:
    """Return the lines that name a bundle, and the one of its suite."""
    suite = next((suite for suite in _SUITES if suite in name), "tensors")
    comment = "# dataloader, serialize, pipeline or tensors"
    head = f"  {name}:\n    source: {json.dumps(source)}\n"
    return head, f"    suite: {suite}  {comment}\n"


def _fill_example(text: str, name: str, source: str) -> str | None:
    """Put a name and a source into a lockfile's example entry; keep what was edited.

    Returns None if it has no such entry.
    """
    example, old_suite = _format_source(_EXAMPLE_ID, _EXAMPLE_SOURCE)
    entry, new_suite = _format_source(name, source)
    if text.count(example) != 1:
        return None
    return text.replace(example + old_suite, example + new_suite).replace(example, entry)


def _find_examples(repo: Path) -> Iterator[Example]:
    """Yield the examples of all packages below ``repo``, without running cargo."""
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
    # Path.walk needs Python 3.12.
    for _, (folder, folders, names) in zip(range(_MAX_FOLDERS), os.walk(repo), strict=False):
        folders[:] = sorted(each for each in folders if each not in _SKIPPED_FOLDERS)
        if "Cargo.toml" in names:
            yield Path(folder) / "Cargo.toml"


def _read_package_name(manifest: Path) -> str | None:
    try:
        name = tomllib.loads(manifest.read_text(encoding="utf-8"))["package"]["name"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return name if isinstance(name, str) and _NAME.fullmatch(name) else None


def _choose_bundle_id(source: str) -> str:
    """Return the last meaningful part of an address such as ``…/dataloader-v1/bundle.tar``."""
    path = re.split(r"[?#]", source.partition("://")[2] or source)[0]
    words = [word for word in re.split(r"[/@]", path) if word]
    for word in reversed(words):
        name = re.sub(r"[^a-z0-9._-]+", "-", word.lower().removesuffix(".tar")).strip("-._")
        if _ID.fullmatch(name) and name not in ("bundle", "main", "master", "resolve", "blob"):
            return name
    return _EXAMPLE_ID


def _write_new_file(path: Path, text: str, note: str, console: RunConsole) -> None:
    """Write a new file; never overwrite one."""
    name = sanitize(path.as_posix())
    if path.exists():
        console.print_line(f"{name} exists and is left unchanged")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)
    console.print_line(f"wrote {name}\n    {note}")


def _add_bundle(options: InitOptions, chosen: Example | None, console: RunConsole) -> None:
    """Add a bundle to an existing lockfile: in place of the example entry, else at the end."""
    path = options.lockfile
    if options.source is None:
        console.print_line(f"{sanitize(path.as_posix())} exists and is left unchanged")
        return
    name, old = _choose_bundle_id(options.source), path.read_bytes()
    text = old.decode().replace("\r\n", "\n")
    before = _parse_bundles(path, text)
    if name in before and before[name].source != _EXAMPLE_SOURCE:
        message = (
            f"the lockfile already has a bundle {name!r}; `parity bump {name}` updates its lock"
        )
        raise ConfigError(Problem("init", message, Location(path)))
    example = before.get(_EXAMPLE_ID)
    is_replaceable = example is not None and example.locked is None
    new_text = _fill_example(text, name, options.source) if is_replaceable else None
    summary = f"replaced the example by {sanitize(name)} in"
    if new_text is None:
        end = _format_bundle(name, options.source, chosen)
        new_text = text.rstrip("\n") + "\n" + end
        summary = f"added {sanitize(name)} to"
    after = _parse_bundles(path, new_text).get(name)
    if after is None or after.source != options.source:
        message = "a bundle can only be appended if `bundles` is the lockfile's last key"
        raise ConfigError(Problem("init", message, Location(path)))
    rewrite(path, old, new_text.encode())
    console.print_line(f"{summary} {sanitize(path.as_posix())}")


def _parse_bundles(path: Path, text: str) -> dict[str, Bundle]:
    """Return the bundles of a lockfile, by id."""
    return {bundle.id: bundle for bundle in parse(path, text.encode()).bundles}


def resolve_source(typed: str, folder: Path) -> str:
    """Return an address unchanged, and a path relative to ``folder``.

    Args:
        typed: An address, or a path relative to the working folder, else to ``folder``.
        folder: The lockfile's folder.

    Raises:
        ConfigError: ``init``: an address that a lockfile must not have, or no file.
    """
    source = _resolve_path(typed, folder) if is_local(typed) else typed
    if url_problem := find_source_problem(source):
        raise _build_error(typed, url_problem)
    return source


def _resolve_path(typed: str, folder: Path) -> str:
    candidates = [Path(typed).absolute(), (folder / typed).absolute()]
    found = next((path for path in candidates if _is_file(path)), None)
    if found is not None:
        return _make_relative(folder, found, typed)
    if any(map(_is_folder, candidates)):
        raise _build_error(typed, "that is a folder; pack it as a tar file")
    searched = " or ".join(
        dict.fromkeys(sources.sanitize_source(os.path.normpath(p)) for p in candidates)
    )
    raise _build_error(typed, f"no such file: {searched}")


def _make_relative(folder: Path, path: Path, typed: str) -> str:
    try:
        return Path(os.path.relpath(path, folder.absolute())).as_posix()
    except ValueError:  # two drives of Windows
        raise _build_error(typed, "it is on another drive than the lockfile") from None


# Unlike Path's methods, these return False for invalid names.
def _is_file(path: Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112


def _build_error(typed: str, reason: str) -> ConfigError:
    hint = "nothing was written; give a path to a tar file, https://… or hf://…"
    return ConfigError(
        Problem("init", f"{sources.sanitize_source(typed)!r}: {reason}", None, (hint,))
    )
