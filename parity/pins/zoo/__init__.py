"""Pin of the zoo: a hundred and more tiny checkpoints, one feature each.

A case is a folder with one checkpoint and its reference; `parity.json` says what each is and
what is owed of a port, `readers.json` what each reference reader said to it. Expected values
come from torch, safetensors, gguf-py and NumPy alone.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from parity import manifest, readers
from parity.codecs.files import tensors_in
from parity.errors import Problem, ReferenceSuspectError
from parity.pins import packing
from parity.pins.toolchain import version_of
from parity.pins.zoo import (
    containers,
    gguf,
    gguf_headers,
    negative_containers,
    negative_gguf,
    negative_gguf_infos,
    negative_offsets,
    negative_pth,
    negative_safetensors,
    negative_storages,
    opcodes,
    pth,
    pth_dtypes,
    safetensors,
)
from parity.pins.zoo.entry import SEED, Entry
from parity.pins.zoo.references import reference_file, values_of

if TYPE_CHECKING:
    from collections.abc import Mapping

BUNDLE = "checkpoint-zoo-v1"
REFERENCE = "reference/expected.safetensors"
_LIBRARIES = ("torch", "safetensors", "gguf", "numpy")
_MODULES = (
    *(pth, pth_dtypes, containers, opcodes),
    *(negative_pth, negative_storages, negative_containers),
    *(safetensors, negative_safetensors, negative_offsets),
    *(gguf, gguf_headers, negative_gguf, negative_gguf_infos),
)


def pin(target_dir: Path) -> Path:
    """Write ``checkpoint-zoo-v1.tar`` into ``target_dir``; there are no options.

    Returns:
        Path of the tar.

    Raises:
        ConfigError: A library is missing.
        ReferenceSuspectError: A reader does not read what it must, or reads what is to be
            refused without a document's sentence against it.
    """
    cases = entries()
    said = _asked(cases)
    _hold(cases, said)
    files = {
        "parity.json": packing.json_bytes({"schema": 1, "cases": {}}),
        "provenance.json": packing.provenance(
            BUNDLE, libraries=_LIBRARIES, seeds={"tensors": SEED}
        ),
        "readers.json": packing.json_bytes(_record(cases, said)),
    }
    described = {}
    for entry in cases:
        described[entry.id], more = _case(entry)
        files |= more
    files["parity.json"] = packing.json_bytes({"schema": 1, "cases": described})
    with TemporaryDirectory() as scratch:
        _hold_together(Path(scratch), files)
    return packing.pack(files, target_dir / f"{BUNDLE}.tar")


def entries() -> list[Entry]:
    """All cases, in the order of the page."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sparse, quantised and nested tensors are "in beta"
        return [entry for module in _MODULES for entry in module.entries()]


def _hold_together(folder: Path, files: Mapping[str, bytes]) -> None:
    """Read the bundle as ``verify`` will: nothing is packed that it would call suspect."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    faults = [
        Problem("reference-malformed", f"{case.id}: {text}")
        for case in manifest.load(folder)
        if case.reference is not None
        for text in tensors_in(case.reference).faults()
    ]
    if faults:
        raise ReferenceSuspectError(*faults)


def _case(entry: Entry) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The case as `parity.json` has it, and its files."""
    checkpoint = f"checkpoint.{entry.group}"
    files = {f"{entry.id}/{checkpoint}": entry.content}
    described: dict[str, Any] = {
        "group": entry.group,
        "expect": entry.expect,
        "why": entry.why,
        "rule": entry.rule,
        "checkpoint": checkpoint,
    }
    if entry.expect != "refuse":
        files[f"{entry.id}/{REFERENCE}"] = reference_file(values_of(entry))
        described |= {"reference": REFERENCE, "bounds": dict(entry.bounds)}
    elif entry.names:
        described["names"] = list(entry.names)
    return described, files


def _asked(cases: list[Entry]) -> dict[str, dict[str, str]]:
    """By case what each reference reader says."""
    said: dict[str, dict[str, str]] = {entry.id: {} for entry in cases}
    with TemporaryDirectory() as folder:
        for entry in cases:
            Path(folder, entry.id).write_bytes(entry.content)
        for group, names in readers.READERS.items():
            for reader in names:
                # The full reader of torch would execute what a hostile pickle names.
                safe = reader != "torch-full"
                ids = [e.id for e in cases if e.group == group and (safe or not e.hostile)]
                files = {name: Path(folder, name) for name in ids}
                for case, answer in readers.ask(reader, files).items():
                    said[case][reader] = answer.said
        left = {path.name for path in Path(folder).iterdir()} - said.keys()
    if left:
        message = f"a reference reader left {', '.join(sorted(left))} behind"
        raise ReferenceSuspectError(Problem("reference-suspect", message))
    return said


def _record(cases: list[Entry], said: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    return {
        "versions": {name: version_of(name) for name in _LIBRARIES},
        "limits": {"seconds": readers.SECONDS, "bytes": readers.BYTES},
        "against": [entry.id for entry in cases if entry.against],
        "cases": {case: dict(words) for case, words in said.items()},
    }


def _hold(cases: list[Entry], said: Mapping[str, Mapping[str, str]]) -> None:
    ids = [entry.id for entry in cases]
    contents = [entry.content for entry in cases]
    faults = [f"{name} stands twice" for name in set(ids) if ids.count(name) > 1]
    faults += [
        f"{entry.id} is a file that stands twice"
        for entry in cases
        if contents.count(entry.content) > 1 and entry.content
    ]
    faults += [
        f"{entry.id} must be refused by a reader's word, and {reader} says {word}"
        for entry in cases
        if entry.expect == "refuse" and not entry.document
        for reader, word in said[entry.id].items()
        if word != "refused"
    ]
    faults += [
        f"{entry.id} must be loaded, and no reader does"
        for entry in cases
        if entry.expect == "load" and "loaded" not in said[entry.id].values()
    ]
    if faults:
        raise ReferenceSuspectError(*(Problem("reference-suspect", text) for text in faults))
