"""The generic suite: named tensors of any dtype, for ports that look like nothing else.

A bundle's `parity.json` says which cases there are; a case has references and
bounds, and the port dumps each tensor as `.bin`, `.npy`, or all as `.safetensors`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from parity import manifest, raw
from parity.codecs.files import tensors_in
from parity.layout import suspect
from parity.results import Finding
from parity.suites.base import Case, Dump, Outcome, Suite
from parity.suites.filenames import portable
from parity.suites.tensor_findings import Reference, hold
from parity.suites.words import EXAMPLES, counted, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from parity.bounds import Bounds
    from parity.codecs.files import Found
    from parity.codecs.stored import Stored
    from parity.manifest import TensorCase
    from parity.raw import Raw

ARGS = ("--target", "{case}", "--fixture-dir", "{fixture_dir}", "--output-dir", "{output_dir}")
_STORED_ORDER = "references carry GGUF's stored order, fastest dimension first"
_LOGICAL_ORDER = "gguf-dims: logical, slowest dimension first"


def cases(tree: Path, options: Mapping[str, Any]) -> tuple[Case, ...]:
    """The cases of a generic bundle.

    Raises:
        ReferenceSuspectError: `parity.json` is wrong, or names what the bundle does not hold.
    """
    logical = options.get("gguf-dims") == "logical"
    return tuple(_case(entry, turned=logical and _is_gguf(entry)) for entry in manifest.load(tree))


def _is_gguf(entry: TensorCase) -> bool:
    return entry.checkpoint is not None and entry.checkpoint.suffix == ".gguf"


def _case(entry: TensorCase, *, turned: bool) -> Case:
    words = {"group": entry.group or entry.id}
    if entry.checkpoint is not None:
        words["checkpoint"] = str(entry.checkpoint)
    return Case(
        id=entry.id,
        folder=entry.folder,
        words=words,
        bounds=entry.bounds,
        detail=replace(entry, turned=turned),
        expect=entry.expect if entry.stated else "",
        why=entry.why,
    )


def verify(case: Case, dump: Dump, bounds: Bounds) -> Outcome:
    """Hold the tensors of a dump against the case's references.

    Raises:
        ReferenceSuspectError: A reference cannot be read, or there is none.
    """
    detail: TensorCase = case.detail
    found, dumped = references(detail), tensors_in(dump.folder)
    left_out = _unfit(found, dumped) if case.expect else []
    owed = {name: tensor for name, tensor in found.items() if name not in left_out}
    note = ""
    if _is_gguf(detail):
        note = _LOGICAL_ORDER if detail.turned else _STORED_ORDER
    reference = Reference(tensors=owed, bounds=bounds, shape_note=note, raw=_raw(detail))
    outcome = hold(reference, dumped)
    if not left_out:
        return outcome
    return replace(outcome, findings=(*outcome.findings, _no_file_name(left_out)))


def _raw(detail: TensorCase) -> Callable[[], Mapping[str, Raw]]:
    """Where the tensors lie in the checkpoint; looked at once, and only if it is asked for."""
    checkpoint = detail.checkpoint
    return dict if checkpoint is None else cache(lambda: raw.records(detail.folder, checkpoint))


def references(detail: TensorCase) -> dict[str, Stored]:
    """The tensors that a case owes, their dimensions as the port is to dump them.

    Raises:
        ReferenceSuspectError: They cannot be read, or there are none.
    """
    place = detail.reference
    if place is None:
        raise suspect(detail.folder, "has no reference")
    found = tensors_in(place)
    if faults := found.faults():
        raise suspect(place, "; ".join(faults[:EXAMPLES]))
    if not detail.turned:
        return found.tensors
    return {name: replace(one, shape=one.shape[::-1]) for name, one in found.tensors.items()}


def _unfit(owed: Mapping[str, Stored], dumped: Found) -> list[str]:
    """Names that a port which writes a file a tensor cannot dump, and has not dumped."""
    if any(tensor.carrier == ".safetensors" for tensor in dumped.tensors.values()):
        return []
    return [name for name in owed if name not in dumped.tensors and not portable(name)]


def _no_file_name(names: list[str]) -> Finding:
    message = (
        f"{counted(len(names), 'tensor')} whose name is no portable file name, so that no .bin "
        f"can bear it: {listed(f'{name!r:.80}' for name in names)}"
    )
    return Finding(level="notice", code="not-a-file-name", message=message)


def names_complaint(value: Any) -> str:
    """Why ``checkpoint-names`` cannot be ``value``; empty where it can."""
    if not isinstance(value, dict) or not value:
        return "it must map a suffix, such as .pth, to the name that the port's example opens"
    for suffix, name in value.items():
        if not isinstance(name, str) or not portable(name):
            return f"{name!r:.80} is no portable file name"
        if not suffix.startswith(".") or not portable(suffix[1:]):
            return f"{suffix!r:.80} is no suffix such as .pth"
    return ""


SUITE = Suite(
    name="tensors",
    args=ARGS,
    cases=cases,
    verify=verify,
    options={"gguf-dims": ("stored", "logical"), "checkpoint-names": names_complaint},
)
