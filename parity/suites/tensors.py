"""The generic suite: named tensors of any dtype, for ports that look like nothing else.

A bundle's `parity.json` says which cases there are; a case has references and
bounds, and the port dumps each tensor as `.bin`, `.npy`, or all as `.safetensors`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parity import manifest
from parity.codecs.files import tensors_in
from parity.errors import ConfigError, Problem
from parity.layout import suspect
from parity.suites.base import Case, Dump, Outcome, Suite
from parity.suites.tensor_findings import Reference, hold
from parity.suites.words import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from parity.bounds import Bounds
    from parity.manifest import TensorCase

ARGS = ("--target", "{case}", "--fixture-dir", "{fixture_dir}", "--output-dir", "{output_dir}")


def cases(tree: Path, _options: Mapping[str, Any]) -> tuple[Case, ...]:
    """The cases of a generic bundle.

    Raises:
        ReferenceSuspectError: `parity.json` is wrong, or names what the bundle does not hold.
        ConfigError: A case expects what this version cannot judge.
    """
    entries = manifest.load(tree)
    if odd := [entry.id for entry in entries if entry.expect != "load"]:
        message = f"case {odd[0]!r} expects a refusal, which this version does not judge yet"
        raise ConfigError(Problem("expect-unsupported", message))
    return tuple(_case(entry) for entry in entries)


def _case(entry: TensorCase) -> Case:
    words = {"group": entry.group or entry.id}
    if entry.checkpoint is not None:
        words["checkpoint"] = str(entry.checkpoint)
    return Case(id=entry.id, folder=entry.folder, words=words, bounds=entry.bounds, detail=entry)


def verify(case: Case, dump: Dump, bounds: Bounds) -> Outcome:
    """Hold the tensors of a dump against the case's references.

    Raises:
        ReferenceSuspectError: A reference cannot be read, or there is none.
    """
    place: Path = case.detail.reference
    found = tensors_in(place)
    if faults := found.faults():
        raise suspect(place, "; ".join(faults[:EXAMPLES]))
    return hold(Reference(tensors=found.tensors, bounds=bounds), tensors_in(dump.folder))


SUITE = Suite(name="tensors", args=ARGS, cases=cases, verify=verify)
