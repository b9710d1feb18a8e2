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

from parity.bundle import manifest
from parity.errors import Problem, ReferenceSuspectError
from parity.lab import readers
from parity.lab.pins import packing
from parity.lab.pins.libraries import find_version
from parity.lab.zoo import (
    accept_gguf,
    accept_gguf_headers,
    accept_pth,
    accept_pth_containers,
    accept_pth_dtypes,
    accept_pth_opcodes,
    accept_safetensors,
    reject_gguf,
    reject_gguf_infos,
    reject_pth,
    reject_pth_containers,
    reject_pth_storages,
    reject_safetensors,
    reject_safetensors_offsets,
)
from parity.lab.zoo.case import SEED, ZooCase
from parity.lab.zoo.expected_values import build_reference_file, read_expected_values
from parity.tensors.folder import list_tensors

if TYPE_CHECKING:
    from collections.abc import Mapping

BUNDLE = "checkpoint-zoo-v1"
REFERENCE = "reference/expected.safetensors"
_LIBRARIES = ("torch", "safetensors", "gguf", "numpy")
_MODULES = (
    *(accept_pth, accept_pth_dtypes, accept_pth_containers, accept_pth_opcodes),
    *(reject_pth, reject_pth_storages, reject_pth_containers),
    *(accept_safetensors, reject_safetensors, reject_safetensors_offsets),
    *(accept_gguf, accept_gguf_headers, reject_gguf, reject_gguf_infos),
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
    cases = build_cases()
    outcomes = _run_readers(cases)
    _check_cases(cases, outcomes)
    files = {
        "parity.json": packing.encode_json({"schema": 1, "cases": {}}),
        "provenance.json": packing.encode_provenance(
            BUNDLE, libraries=_LIBRARIES, seeds={"tensors": SEED}
        ),
        "readers.json": packing.encode_json(_build_record(cases, outcomes)),
    }
    described = {}
    for entry in cases:
        described[entry.id], case_files = _describe_case(entry)
        files |= case_files
    files["parity.json"] = packing.encode_json({"schema": 1, "cases": described})
    with TemporaryDirectory() as scratch:
        _check_bundle(Path(scratch), files)
    return packing.pack(files, target_dir / f"{BUNDLE}.tar")


def build_cases() -> list[ZooCase]:
    """All cases, in the order of the page."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sparse, quantised and nested tensors are "in beta"
        return [entry for module in _MODULES for entry in module.entries()]


def _check_bundle(folder: Path, files: Mapping[str, bytes]) -> None:
    """Read the bundle as ``verify`` will: nothing is packed that it would call suspect."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    faults = [
        Problem("reference-malformed", f"{case.id}: {text}")
        for case in manifest.load(folder)
        if case.reference is not None
        for text in list_tensors(case.reference).list_problems()
    ]
    if faults:
        raise ReferenceSuspectError(*faults)


def _describe_case(entry: ZooCase) -> tuple[dict[str, Any], dict[str, bytes]]:
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
        files[f"{entry.id}/{REFERENCE}"] = build_reference_file(read_expected_values(entry))
        described |= {"reference": REFERENCE, "bounds": dict(entry.bounds)}
    elif entry.names:
        described["names"] = list(entry.names)
    return described, files


def _run_readers(cases: list[ZooCase]) -> dict[str, dict[str, str]]:
    """By case what each reference reader says."""
    outcomes: dict[str, dict[str, str]] = {entry.id: {} for entry in cases}
    with TemporaryDirectory() as folder:
        for entry in cases:
            Path(folder, entry.id).write_bytes(entry.content)
        for group, names in readers.READERS.items():
            for reader in names:
                # The full reader of torch would execute what a hostile pickle names.
                safe = reader != "torch-full"
                ids = [e.id for e in cases if e.group == group and (safe or not e.hostile)]
                files = {name: Path(folder, name) for name in ids}
                for case, answer in readers.read_files(reader, files).items():
                    outcomes[case][reader] = answer.outcome
        leftovers = {path.name for path in Path(folder).iterdir()} - outcomes.keys()
    if leftovers:
        message = f"a reference reader left {', '.join(sorted(leftovers))} behind"
        raise ReferenceSuspectError(Problem("reference-suspect", message))
    return outcomes


def _build_record(
    cases: list[ZooCase], outcomes: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    return {
        "versions": {name: find_version(name) for name in _LIBRARIES},
        "limits": {"seconds": readers.SECONDS, "bytes": readers.BYTES},
        "against": [entry.id for entry in cases if entry.against],
        "cases": {case: dict(found) for case, found in outcomes.items()},
    }


def _check_cases(cases: list[ZooCase], outcomes: Mapping[str, Mapping[str, str]]) -> None:
    ids = [entry.id for entry in cases]
    contents = [entry.content for entry in cases]
    faults = [f"{name} stands twice" for name in set(ids) if ids.count(name) > 1]
    faults += [
        f"{entry.id} is a file that stands twice"
        for entry in cases
        if contents.count(entry.content) > 1 and entry.content
    ]
    faults += [
        f"{entry.id} must be refused by a reader's word, and {reader} says {outcome}"
        for entry in cases
        if entry.expect == "refuse" and not entry.document
        for reader, outcome in outcomes[entry.id].items()
        if outcome != "refused"
    ]
    faults += [
        f"{entry.id} must be loaded, and no reader does"
        for entry in cases
        if entry.expect == "load" and "loaded" not in outcomes[entry.id].values()
    ]
    if faults:
        raise ReferenceSuspectError(*(Problem("reference-suspect", text) for text in faults))
