"""Make the zoo: some hundred tiny checkpoints, one feature each, and the right values of each.

A case is a folder with one checkpoint and its reference; `parity.json` says what each is and
what a port must do with it, `readers.json` what each reference reader did. Expected values come
from torch, safetensors, gguf-py and NumPy alone.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from parity.bundle import manifest
from parity.errors import Problem, ReferenceSuspectError
from parity.lab import readers
from parity.lab.libraries import import_library, require_version
from parity.lab.pins import packing
from parity.lab.readers.libraries import READERS
from parity.lab.zoo import (
    accept_gguf,
    accept_pth,
    accept_pth_archives,
    accept_pth_dtypes,
    accept_safetensors,
    reject_gguf,
    reject_pth,
    reject_pth_archives,
    reject_safetensors,
)
from parity.lab.zoo.case import SEED, ExpectedTensor, ZooCase
from parity.lab.zoo.safetensors_builder import build_file
from parity.tensors.dtypes import DTYPES, PACKED
from parity.tensors.folder import list_tensors

Outcomes = Mapping[str, Mapping[str, str]]  # By case, the outcome of each reference reader

BUNDLE = "checkpoint-zoo-v1"
REFERENCE = "reference/expected.safetensors"
#: The reader of each format. The full one of torch: every object was made here, and protocols
#: beyond 2 need it.
_FULL_READERS = {"pth": "torch-full", "safetensors": "safetensors", "gguf": "gguf-py"}
_LIBRARIES = ("torch", "safetensors", "gguf", "numpy")
#: All cases, in the order of the page.
CASES: list[ZooCase] = [
    *(*accept_pth.CASES, *accept_pth_dtypes.CASES, *accept_pth_archives.CASES),
    *(*reject_pth.CASES, *reject_pth_archives.CASES),
    *(*accept_safetensors.CASES, *reject_safetensors.CASES),
    *(*accept_gguf.CASES, *reject_gguf.CASES),
]


def pin(target_dir: Path) -> Path:
    """Write ``checkpoint-zoo-v1.tar`` into ``target_dir``; return its path. There are no options.

    Raises:
        ConfigError: A library is missing.
        ReferenceSuspectError: A reader rejects what it must load, or loads what it must reject
            although no document's sentence overrules it.
    """
    outcomes = _run_readers(CASES)
    if faults := list(_find_faults(CASES, outcomes)):
        raise ReferenceSuspectError(*(Problem("reference-suspect", text) for text in faults))
    cases = [(case, *_describe_case(case)) for case in CASES]
    described = {case.id: description for case, description, _ in cases}
    files = {
        "parity.json": packing.encode_json({"schema": 1, "cases": described}),
        "provenance.json": packing.encode_provenance(
            BUNDLE, libraries=_LIBRARIES, seeds={"tensors": SEED}
        ),
        "readers.json": packing.encode_json(_build_record(CASES, outcomes)),
    }
    for _, _, case_files in cases:
        files |= case_files
    with TemporaryDirectory() as folder:
        _check_bundle(Path(folder), files)
    return packing.pack(files, target_dir / f"{BUNDLE}.tar")


def _check_bundle(folder: Path, files: Mapping[str, bytes]) -> None:
    """Read the bundle as ``verify`` will, so that nothing suspect is packed."""
    packing.write_files(folder, files)
    faults = [
        Problem("reference-malformed", f"{case.id}: {text}")
        for case in manifest.read_manifest(folder).cases
        if case.reference is not None
        for text in list_tensors(case.reference).list_problems()
    ]
    if faults:
        raise ReferenceSuspectError(*faults)


def _describe_case(case: ZooCase) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Describe a case as `parity.json` does, and build its files."""
    checkpoint = f"checkpoint.{case.group}"
    files = {f"{case.id}/{checkpoint}": case.content}
    description: dict[str, Any] = {
        "group": case.group,
        "expect": case.expect,
        "why": case.why,
        "rule": case.rule,
        "checkpoint": checkpoint,
    }
    if case.expect != "refuse":
        files[f"{case.id}/{REFERENCE}"] = build_reference(read_expected(case))
        description |= {"reference": REFERENCE, "bounds": dict(case.bounds)}
    elif case.names:
        description["names"] = list(case.names)
    return description, files


def _run_readers(cases: list[ZooCase]) -> Outcomes:
    """Give each case to the reference readers of its format."""
    outcomes: dict[str, dict[str, str]] = {case.id: {} for case in cases}
    with TemporaryDirectory() as folder:
        for case in cases:
            Path(folder, case.id).write_bytes(case.content)
        for group, names in readers.READERS.items():
            for reader in names:
                # The full reader of torch would execute what a hostile pickle names.
                is_safe = reader != "torch-full"
                ids = [case.id for case in cases if case.group == group]
                hostile = {case.id for case in cases if case.hostile and not is_safe}
                files = {name: Path(folder, name) for name in ids if name not in hostile}
                for name, result in readers.read_files(reader, files).items():
                    outcomes[name][reader] = result.outcome
        leftovers = {path.name for path in Path(folder).iterdir()} - outcomes.keys()
    if leftovers:
        message = f"a reference reader wrote {', '.join(sorted(leftovers))}"
        raise ReferenceSuspectError(Problem("reference-suspect", message))
    return outcomes


def _build_record(cases: list[ZooCase], outcomes: Outcomes) -> dict[str, Any]:
    return {
        "versions": {name: require_version(name) for name in _LIBRARIES},
        "limits": {"seconds": readers.SECONDS, "bytes": readers.BYTES},
        "against": [case.id for case in cases if case.disputed],
        "cases": outcomes,
    }


def _find_faults(cases: list[ZooCase], outcomes: Outcomes) -> Iterator[str]:
    """Find cases that are not unique, or that a reader treats as it must not."""
    for name, count in Counter(case.id for case in cases).items():
        if count > 1:
            yield f"{name} is the id of {count} cases"
    counts = Counter(case.content for case in cases if case.content)
    for case in cases:
        if counts[case.content] > 1:
            yield f"{case.id}: {counts[case.content]} cases have this file"
        found = outcomes[case.id]
        if case.expect == "refuse" and not case.by_document:
            for reader, outcome in found.items():
                if outcome != "refused":
                    yield f"{case.id} must be rejected by every reader; {reader}: {outcome}"
        if case.expect == "load" and "loaded" not in found.values():
            yield f"{case.id} must be loaded, but no reader loads it"


def read_expected(case: ZooCase) -> dict[str, ExpectedTensor]:
    """Read the right tensors of ``case``, unless it states them.

    Raises:
        ReferenceSuspectError: Its reference reader does not read it, or finds no tensor.
    """
    if case.expected is not None:
        return dict(case.expected)
    with warnings.catch_warnings(), TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # of protocols beyond 2, and of beta layouts
        path = Path(folder, f"x.{case.group}")
        path.write_bytes(case.content)
        try:
            tensors = READERS[_FULL_READERS[case.group]]()(path)()
        except Exception as error:
            message = f"{case.id}: {type(error).__name__}: {error}"
            raise ReferenceSuspectError(Problem("reload-differs", message)) from error
    if not tensors:
        raise ReferenceSuspectError(Problem("reload-differs", f"{case.id} contains no tensor"))
    return {name: ExpectedTensor(*tensor) for name, tensor in tensors.items()}


def build_reference(tensors: Mapping[str, ExpectedTensor]) -> bytes:
    """Build a `.safetensors` file, aligned, its tensors in order of their names.

    Raises:
        ReferenceSuspectError: The library does not read back what was written.
    """
    for name, tensor in tensors.items():
        if tensor.dtype not in DTYPES and tensor.dtype not in PACKED:
            message = f"{name!r} has the unknown dtype {tensor.dtype}"
            raise ReferenceSuspectError(Problem("reload-differs", message))
    content = build_file(dict(sorted(tensors.items())))
    found = {
        name: ExpectedTensor(entry["dtype"], tuple(entry["shape"]), bytes(entry["data"]))
        for name, entry in import_library("safetensors").deserialize(content)
    }
    if found != dict(tensors):
        message = f"{', '.join(sorted(tensors))[:80]}: not read back as written"
        raise ReferenceSuspectError(Problem("reload-differs", message))
    return content
