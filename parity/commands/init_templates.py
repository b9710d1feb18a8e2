"""The texts that ``init`` writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parity.commands.init import Example

#: Stands for an address that only the user knows, and for the bundle's name.
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
# What this port is held against. `parity bump` writes under `locked:`; the rest is yours.
schema: 1
bundles:
"""

_SUITES = {"serialize": "serialize", "dataloader": "dataloader", "pipeline": "pipeline"}


def format_lockfile(name: str, source: str, example: Example | None) -> str:
    """A whole first lockfile."""
    return _HEAD + format_bundle(name, source, example)


def format_bundle(name: str, source: str, example: Example | None) -> str:
    """One entry; what could not be found out is marked with a comment."""
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
    """A lockfile whose example entry is given a name and a source; what was edited stays.

    None where it has no such entry.
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


def list_next_steps(has_example: bool, has_source: bool) -> list[str]:
    """What the user does next, in order."""
    steps = []
    if not has_source:
        steps.append("put the bundle's address into `source`, and its kind into `suite`")
    if not has_example:
        steps.append("write a dump example (docs/dump-example.md), and name it under `dump`")
    steps += [
        "`parity bump` fetches the bundle, shows what is in it, and locks its digest",
        "`parity verify` holds your port against it, here, as the workflow will",
    ]
    return ["", "next:", *(f"  {number}. {step}" for number, step in enumerate(steps, 1))]
