"""``init``: write a first lockfile and workflow, or add a bundle to a lockfile."""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import yaml

from parity.errors import ConfigError, Location, Problem
from parity.github import display_path
from parity.lockfile import Bundle, parse
from parity.lockfile.parse import ID
from parity.lockfile.source_rules import find_source_problem, is_local
from parity.lockfile.write import rewrite
from parity.port.cargo.manifests import Example, Package, list_packages
from parity.reports.console import RunConsole
from parity.store import sources
from parity.text import format_count, format_path, sanitize
from parity.verify import publish
from parity.verify.options import Options, declare

#: Parts of an example's name that suggest a dump program.
_DUMP_HINTS = ("dump", "parity", "fixture", "golden")
#: Words that say nothing about a bundle's content.
_COMMON_WORDS = {"parity", "bundle", "my", "v1", "v2", "v3", "data", "the"}
#: Placeholders of the example entry: the bundle's address and its id.
_EXAMPLE_SOURCE, _EXAMPLE_ID = "https://example.org/my-bundle-v1.tar", "my-bundle-v1"
#: Suites by the words of bundles and examples that are of this kind.
_SUITES = {
    "serialize": ("serialize", "serialise", "checkpoint"),
    "dataloader": ("dataloader", "loader"),
    "pipeline": ("pipeline",),
}
_COMMAND = '["python", "dump.py", "{case}", "{fixture_dir}", "{output_dir}"]'
_MAX_LISTED, _NO_NAMES = 8, ("bundle", "main", "master", "resolve", "blob")
_HEAD = """\
# The bundles this port is compared with. `parity bump` writes `locked:`; the rest is yours.
schema: 1
bundles:
"""


@dataclass(frozen=True, kw_only=True)
class InitOptions(Options):
    """The command line of ``init``; ``source`` is a bundle's archive as typed."""

    source: str | None = declare("PATH-OR-URL", "path or URL of an archive", None, nargs="?")


class _Choice(NamedTuple):
    """The packages of a repo, and the examples that fit a bundle best, all equally."""

    packages: list[Package]
    examples: list[Example]


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
    source = options.source or _EXAMPLE_SOURCE
    name = _choose_bundle_id(source)
    choice = _choose_examples(options.repo, name)
    _print_examples(choice, console)
    if options.lockfile.exists():
        _add_bundle(options, name, choice, console)
    else:
        text = _HEAD + _format_bundle(name, source, choice)
        parse(options.lockfile, text.encode())
        note = "lists the bundles to verify and your port's dump program; `bump` locks it"
        _write_new_file(options.lockfile, text, note, console)
    text = files("parity.commands").joinpath("init_workflow.yml").read_text(encoding="utf-8")
    note = "runs on every push and pull request; it only needs `contents: read`"
    _write_new_file(workflow, text, note, console)
    _print_next_steps(options, choice, console)
    return 0


def _choose_examples(repo: Path, name: str) -> _Choice:
    """Find the examples that fit a bundle by the words of its id, its kind and their names."""
    packages = list_packages(repo)
    suite = _choose_suite(name)
    words = set(re.split(r"[._-]+", name)) - _COMMON_WORDS
    scores = {
        example: _score_example(example, words, suite)
        for package in packages
        for example in package.examples
    }
    best = max(scores.values(), default=0)
    return _Choice(packages, [one for one, score in scores.items() if score == best > 0])


def _score_example(example: Example, words: set[str], suite: str) -> int:
    """Return how well an example fits; 0 if its name does not suggest a dump program."""
    if not any(hint in example.name for hint in _DUMP_HINTS):
        return 0
    parts = set(re.split(r"[_-]+", f"{example.name}_{example.package}"))
    kinds = _SUITES.get(suite, ("tensor", "tensors"))
    return 1 + 4 * len(parts & words) + 2 * any(kind in example.name for kind in kinds)


def _choose_suite(name: str) -> str:
    suites = (suite for suite, words in _SUITES.items() if any(word in name for word in words))
    return next(suites, "tensors")


def _print_examples(choice: _Choice, console: RunConsole) -> None:
    if not choice.packages:
        console.print_line("found no cargo package; the entry has a `command:` to fill in")
        return
    examples = [example for package in choice.packages for example in package.examples]
    totals = f"{format_count(len(examples), 'examples')} in "
    totals += format_count(len({example.package for example in examples}), "packages")
    if not examples:
        totals = f"no example in {format_count(len(choice.packages), 'packages')}"
    best = "none named like a dump program:" if examples else ""
    listed = choice.examples or examples
    if choice.examples:
        fit = "fits" if len(listed) == 1 else "fit"
        best = f"{len(listed)} {fit} the bundle by name:"
    console.print_line(f"found {totals}, {best}" if best else f"found {totals}")
    for example in listed[:_MAX_LISTED]:
        path = sanitize(format_path(example.path))
        console.print_line(f"    {sanitize(example.package)}: {path}")
    if len(listed) > _MAX_LISTED:
        console.print_line(f"    and {len(listed) - _MAX_LISTED:,} more")


def _print_next_steps(options: InitOptions, choice: _Choice, console: RunConsole) -> None:
    repo = display_path(options.repo)
    option = "" if repo == "." else f" --repo {shlex.quote(repo)}"
    steps = []
    if options.source is None:
        steps.append("set `source` to the bundle's address and `suite` to its kind")
    if not choice.examples:
        steps.append(
            "write a dump program (docs/dump-example.md of parity-action); name it under `dump`: "
            "`package` and `example`, or `command` if cargo does not build it"
        )
    steps += [
        f"`parity bump{option}` downloads the bundle, shows its contents and locks its digest",
        f"`parity verify{option}` compares your port with it, as the workflow will",
    ]
    console.print_line("\nnext:")
    for number, step in enumerate(steps, 1):
        console.print_line(f"  {number}. {step}")


def _format_bundle(name: str, source: str, choice: _Choice) -> str:
    """Return one entry; a comment marks what is unknown."""
    lines = [*_format_source(name, source), "    dump:\n"]
    if not choice.packages:
        lines.append(f"      command: {_COMMAND}  # the program that you will write\n")
        return "".join(lines)
    package = choice.packages[0]
    example = Example(package.name, "my_dump", Path(), package.cwd)
    comment = "  # the example that you will write"
    if choice.examples:
        example, *others = choice.examples
        names = ", ".join(dict.fromkeys(other.name for other in others[:_MAX_LISTED]))
        comment = f"  # or: {names}" if others else ""
    lines.append(f"      package: {_quote(example.package)}\n")
    lines.append(f"      example: {_quote(example.name)}{comment}\n")
    if example.features:
        lines.append(f"      features: {json.dumps(example.features)}\n")
    if example.cwd != Path():
        lines.append(f"      cwd: {_write_text(example.cwd.as_posix())}\n")
    return "".join(lines)


def _write_text(text: str) -> str:
    """Return ``text`` in quotes; YAML cannot read the two parts of an emoji that JSON escapes."""
    return json.dumps(text, ensure_ascii=max(text, default="") <= "\uffff")


def _quote(text: str) -> str:
    """Quote a word that YAML would read as another type."""
    return text if yaml.safe_load(text) == text else _write_text(text)


def _format_source(name: str, source: str) -> tuple[str, str]:
    """Return the lines that name a bundle, and the one of its suite."""
    comment = "# dataloader, serialize, pipeline or tensors"
    head = f"  {_quote(name)}:\n    source: {_write_text(source)}\n"
    return head, f"    suite: {_choose_suite(name)}  {comment}\n"


def _fill_example(text: str, name: str, source: str) -> str | None:
    """Put a name and a source into a lockfile's example entry; return None if it has none."""
    example, old_suite = _format_source(_EXAMPLE_ID, _EXAMPLE_SOURCE)
    entry, new_suite = _format_source(name, source)
    if text.count(example) != 1:
        return None
    return text.replace(example + old_suite, example + new_suite).replace(example, entry)


def _choose_bundle_id(source: str) -> str:
    """Return the last meaningful part of an address such as ``…/dataloader-v1/bundle.tar``."""
    path = re.split(r"[?#]", source.partition("://")[2] or source)[0]
    words = [word for word in re.split(r"[/@]", path) if word]
    for word in reversed(words):
        name = re.sub(r"[^a-z0-9._-]+", "-", word.lower().removesuffix(".tar")).strip("-._")[:100]
        if re.fullmatch(ID, name) and name not in _NO_NAMES:
            return name
    return _EXAMPLE_ID


def _write_new_file(path: Path, text: str, note: str, console: RunConsole) -> None:
    """Write a new file; never overwrite one."""
    name = sanitize(format_path(path))
    if path.exists():
        console.print_line(f"{name} exists and is left unchanged")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)
    console.print_line(f"wrote {name}\n    {note}")


def _add_bundle(options: InitOptions, name: str, choice: _Choice, console: RunConsole) -> None:
    """Add a bundle to an existing lockfile: in place of the example entry, else at the end."""
    path = options.lockfile
    if options.source is None:
        console.print_line(f"{sanitize(format_path(path))} exists and is left unchanged")
        return
    old = path.read_bytes()
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
        end = _format_bundle(name, options.source, choice)
        new_text = text.rstrip("\n") + "\n" + end
        summary = f"added {sanitize(name)} to"
    after = _parse_bundles(path, new_text).get(name)
    if after is None or after.source != options.source:
        message = "a bundle can only be appended if `bundles` is the lockfile's last key"
        raise ConfigError(Problem("init", message, Location(path)))
    rewrite(path, old, new_text.encode())
    console.print_line(f"{summary} {sanitize(format_path(path))}")


def _parse_bundles(path: Path, text: str) -> dict[str, Bundle]:
    """Return the bundles of a lockfile, by id."""
    return {bundle.id: bundle for bundle in parse(path, text.encode()).bundles}


def resolve_source(typed: str, folder: Path) -> str:
    """Return an address unchanged; a path, typed as seen from here or ``folder``, relative to it.

    Raises:
        ConfigError: ``init``: an address that a lockfile must not have, or no file.
    """
    source, reason = _resolve_path(typed, folder) if is_local(typed) else (typed, "")
    if reason := reason or find_source_problem(source):
        hint = "nothing was written; give a path to a tar file, https://… or hf://…"
        message = f"{sources.sanitize_source(typed)!r}: {reason}"
        raise ConfigError(Problem("init", message, None, (hint,)))
    return source


def _resolve_path(typed: str, folder: Path) -> tuple[str, str]:
    """Return a file's path relative to ``folder``, and why there is none."""
    candidates = [Path(typed).absolute(), (folder / typed).absolute()]
    # Unlike Path's methods, these return False for invalid names.
    for path in filter(os.path.isfile, candidates):
        try:
            return Path(os.path.relpath(path, folder.absolute())).as_posix(), ""
        except ValueError:  # two drives of Windows
            return "", "it is on another drive than the lockfile"
    if any(map(os.path.isdir, candidates)):
        return "", "that is a folder; pack it as a tar file"
    searched = (sources.sanitize_source(os.path.normpath(path)) for path in candidates)
    return "", f"no such file: {' or '.join(dict.fromkeys(searched))}"
