"""Let each format's own library read the files that a port must write, as a second witness.

The files are written from the references byte by byte. This project's readers must find nothing
wrong in them, and the library, in a process of its own, must read the references from them.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from parity.bundle.tensor_case import TensorCase
from parity.lab import readers, writers
from parity.lab.audits.compare_reference import (
    CaseFindings,
    DerivedTensor,
    Provenance,
    compare_names,
    compare_references,
    make_error,
)
from parity.results import Finding
from parity.suites.base import Dump
from parity.suites.tensors import suite
from parity.suites.tensors.rules import read_references
from parity.tensors.folder import list_tensors

#: The library of each format, as ``readers.LIBRARIES`` names it.
_READERS = {"gguf": "gguf-py", "npy": "numpy", "pth": "torch", "safetensors": "safetensors"}


class _Reading(NamedTuple):
    """The content of a file as a library read it."""

    reader: str
    result: readers.ReaderResult
    tensors: dict[str, DerivedTensor]


def compare_written(tree: Path, case: TensorCase, provenance: Provenance) -> CaseFindings:
    """Compare a case's references with what both readers find in the right files."""
    found, readings = _read_all(tree)
    findings, references = list(found[case.id]), read_references(case)
    derived: dict[str, DerivedTensor] = {}
    for name, (reader, result, tensors) in readings[case.id].items():
        derived |= tensors
        if result.outcome != "loaded" or result.reason:
            message = f"{reader} does not read the right {name}: {result.outcome} {result.reason}"
            findings.append(make_error("reference-suspect", message))
    source = " and ".join(sorted({one.reader for one in readings[case.id].values()}))
    findings += compare_names(references, derived, source)
    libraries = sorted({readers.LIBRARIES[one.reader] for one in readings[case.id].values()})
    more, compared = compare_references(references, derived, provenance.format_versions(*libraries))
    return findings + more, compared


@cache
def _read_all(tree: Path) -> tuple[dict[str, list[Finding]], dict[str, dict[str, _Reading]]]:
    """Write and read the right files of all cases of a bundle, with a process for each library.

    Return the findings of this project's readers, and what the libraries read, by case and file.
    """
    findings: defaultdict[str, list[Finding]] = defaultdict(list)
    readings: defaultdict[str, dict[str, _Reading]] = defaultdict(dict)
    with TemporaryDirectory(prefix="parity-") as scratch:
        files: defaultdict[str, dict[str, Path]] = defaultdict(dict)
        places: dict[str, tuple[str, str]] = {}
        for case in suite.read_cases(tree, {}):
            if not case.detail.writes or case.expect == "refuse":
                continue
            folder = Path(scratch, str(len(findings)))
            folder.mkdir()
            contents = writers.write_right(case.detail, folder)
            outcome = suite.verify(case, Dump(folder=folder), dict(case.tolerances))
            findings[case.id] = [
                make_error("reference-suspect", f"the right files have {one.code}: {one.message}")
                for one in outcome.findings
                if one.level != "notice" and not one.code.startswith("json")
            ]
            for name, content in contents.items():
                key = str(len(places))
                places[key] = case.id, name
                files[content.form][key] = folder / name
        for form, paths in files.items():
            out = Path(scratch, form)
            out.mkdir()
            for key, result in readers.read_files(_READERS[form], paths, out).items():
                found = list_tensors(out / key).tensors
                tensors = {
                    name: DerivedTensor.of(
                        one.read_array().reshape(one.shape[::-1] if form == "gguf" else one.shape)
                    )
                    for name, one in found.items()
                }
                case_id, name = places[key]
                readings[case_id][name] = _Reading(_READERS[form], result, tensors)
    return findings, readings
