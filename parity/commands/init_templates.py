"""Texts written by ``init``."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parity.commands.init import Example

#: Placeholders of the example entry: the bundle's address and its id.
EXAMPLE_SOURCE = "https://example.org/my-bundle-v1.tar"
EXAMPLE_ID = "my-bundle-v1"

WORKFLOW = """\
name: parity
on: [push, pull_request]
permissions: {}
jobs:
  parity:
    runs-on: ubuntu-latest
    permissions:
      contents: read
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
        with:
          persist-credentials: false
      - uses: org/parity-action@v1
"""

_HEAD = """\
# The bundles this port is compared with. `parity bump` writes `locked:`; the rest is yours.
schema: 1
bundles:
"""

_SUITES = {"serialize": "serialize", "dataloader": "dataloader", "pipeline": "pipeline"}


def format_lockfile(name: str, source: str, example: Example | None) -> str:
    """Return a complete first lockfile."""
    return _HEAD + format_bundle(name, source, example)


def format_bundle(name: str, source: str, example: Example | None) -> str:
    """Return one entry; a comment marks what is unknown."""
    package = example.package if example else "my-port"
    program = example.name if example else "my_dump"
    todo = "" if example else "  # the example that you will write"
    lines = [
        *_format_source(name, source),
        "    dump:",
        f"      package: {package}",
        f"      example: {program}{todo}",
    ]
    return "\n".join([*lines, ""])


def _format_source(name: str, source: str) -> list[str]:
    suite = next((s for word, s in _SUITES.items() if word in name), "tensors")
    return [
        f"  {name}:",
        f"    source: {json.dumps(source)}",
        f"    suite: {suite}  # dataloader, serialize, pipeline or tensors",
    ]


def fill_example(text: str, name: str, source: str) -> str | None:
    """Put a name and a source into a lockfile's example entry; keep what was edited.

    Returns None if it has no such entry.
    """
    (*old, old_suite), (*new, new_suite) = (
        _format_source(EXAMPLE_ID, EXAMPLE_SOURCE),
        _format_source(name, source),
    )
    example, entry = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    if text.count(example) != 1:
        return None
    text = text.replace(f"{example}{old_suite}\n", f"{example}{new_suite}\n")
    return text.replace(example, entry)


def list_next_steps(has_example: bool, has_source: bool, repo: str) -> list[str]:
    """Return the user's next steps, in order, for the repo at the path ``repo``."""
    steps = []
    option = "" if repo == "." else f" --repo {shlex.quote(repo)}"
    if not has_source:
        steps.append("set `source` to the bundle's address and `suite` to its kind")
    if not has_example:
        steps.append(
            "write a dump program (docs/dump-example.md of parity-action); name it under `dump`: "
            "`package` and `example`, or `command` if cargo does not build it"
        )
    steps += [
        f"`parity bump{option}` downloads the bundle, shows its contents and locks its digest",
        f"`parity verify{option}` compares your port with it, as the workflow will",
    ]
    return ["", "next:", *(f"  {number}. {step}" for number, step in enumerate(steps, 1))]
