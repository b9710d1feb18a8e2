"""The generic suite: named tensors of any dtype, for ports that look like nothing else.

A bundle's `parity.json` lists its cases; a case has references and tolerances, and the
port dumps each tensor as `.bin`, `.npy`, or all as `.safetensors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from parity.bundle import manifest
from parity.bundle.layout import list_parts
from parity.bundle.reader_record import read_record
from parity.bundle.tensor_case import FORMATS, TensorCase
from parity.bundle.tensor_rules import Rule
from parity.bundle.tolerances import JSON_TOLERANCES, Tolerances
from parity.checkpoints.location import read_stored_dtypes
from parity.results import Finding
from parity.suites.base import Case, Dump, DumpComparison, Suite
from parity.suites.bundle_files import is_file_name, is_portable, list_files_below
from parity.suites.messages import format_list
from parity.suites.tensor_findings import compare_tensors
from parity.suites.tensor_reference import TensorReference, build_locator
from parity.suites.tensors import documents
from parity.suites.tensors.rules import (
    apply_rules,
    find_rule_problems,
    list_references,
    list_rules,
    read_references,
    report_unused_defaults,
)
from parity.suites.tensors.stages import judge_stages
from parity.suites.tensors.written import check_files, read_files
from parity.tensors.folder import FolderContents
from parity.tensors.stored import StoredTensor, Tensors
from parity.text import format_count

#: Written beside a ``.gguf`` that a port's example opens by another name.
NAMES_FILE = "sampled_tensor_names.json"
ARGS = ("--target", "{case}", "--fixture-dir", "{fixture_dir}", "--output-dir", "{output_dir}")
_STORED_ORDER = "references have GGUF's stored order, fastest dimension first"
_LOGICAL_ORDER = "gguf-dims: logical, slowest dimension first"


def read_cases(tree: Path, options: Mapping[str, Any]) -> tuple[Case, ...]:
    """Read the cases of a generic bundle.

    Raises:
        ReferenceSuspectError, ConfigError: The manifest is wrong, or names files or tensors that
            the bundle lacks.
    """
    logical = options.get("gguf-dims") == "logical"
    read = manifest.read_manifest(tree, options.get("manifest"))
    details = [replace(entry, is_transposed=logical and _is_gguf(entry)) for entry in read.cases]
    if problems := find_rule_problems(details):
        raise read.error(*problems)
    readers = read_record(tree).outcomes
    return tuple(_build_case(entry, readers.get(entry.id, {})) for entry in details)


def _is_gguf(entry: TensorCase) -> bool:
    return entry.checkpoint is not None and entry.checkpoint.suffix == ".gguf"


def _build_case(entry: TensorCase, readers: Mapping[str, str]) -> Case:
    placeholders = {"group": entry.group or entry.id}
    placeholders |= {f"words.{name}": word for name, word in entry.words.items()}
    if entry.checkpoint is not None:
        placeholders["checkpoint"] = str(entry.checkpoint)
    has_no_tensor = bool(entry.documents) and not list_references(entry).tensors
    return Case(
        id=entry.id,
        folder=entry.folder,
        placeholders=placeholders,
        tolerances=entry.tolerances,
        others=_list_tolerances(entry),
        measures=(*JSON_TOLERANCES, "close") if has_no_tensor else (),
        detail=entry,
        may_be_empty="stdout" in entry.documents,
        expect=entry.expect if entry.has_expectation else "",
        why=entry.why,
        rule=entry.rule,
        readers=readers,
    )


def _list_tolerances(entry: TensorCase) -> list[Mapping[str, float]]:
    """List the tolerances of single tensors and of JSON, which a lockfile may tighten, too."""
    rules = (*entry.rules.tensors.values(), *entry.rules.dtypes.values())
    found = [check.bounds for rule in rules for check in rule.checks or ()]
    numbers = [rule.bounds for one in entry.documents.values() for rule in one.values()]
    # `ulp` and `cosine` are for tensors: any is looser.
    found += [{"ulp": -1.0, "cosine": 2.0, **bounds} for bounds in numbers if bounds]
    return [bounds for bounds in found if bounds]


def verify(case: Case, dump: Dump, tolerances: Tolerances) -> DumpComparison:
    """Compare the tensors of a dump with the case's references.

    Raises:
        ReferenceSuspectError: A reference cannot be read or is missing.
    """
    detail: TensorCase = case.detail
    contents, files = read_files(detail, dump.folder)
    found, contents = take_samples(detail, read_references(detail), contents)
    in_files = check_files(detail, dump.folder, files, found) if detail.writes else []
    applied = apply_rules(detail, found, contents)
    found, dumped = dict(applied.tensors), applied.found
    undumpable = _find_undumpable(found, dumped) if case.expect and not detail.writes else []
    expected = {name: tensor for name, tensor in found.items() if name not in undumpable}
    note = ""
    if _is_gguf(detail):
        note = _LOGICAL_ORDER if detail.is_transposed else _STORED_ORDER
    # Stages without a reference are not compared.
    names = {stage.name for stage in detail.stages} & dumped.tensors.keys() - found.keys()
    unstored = {name: dumped.tensors[name].dtype.name for name in sorted(names)}
    reference = TensorReference(
        tensors=expected,
        tolerances=tolerances,
        shape_note=note,
        stored_dtypes=read_stored_dtypes(detail.folder),
        blind=detail.blind,
        rules=_let_stages_be_missing(detail, applied.rules, expected),
        requested=case.requested,
        metadata=None if detail.writes else detail.metadata,
        unreferenced={**applied.unreferenced, **unstored},
        is_trace=bool(detail.stages),
        locate=build_locator(case),
    )
    read = [*detail.documents, *detail.texts, *(["stdout.json"] if detail.documents else [])]
    dumped.unread = [name for name in dumped.unread if name not in read]
    if len(files) < sum(form in FORMATS for form in detail.writes.values()):
        dumped.lost |= found.keys()  # the file itself is reported
    outcome = compare_tensors(reference, dumped)
    if detail.stages:
        outcome = judge_stages(detail, outcome, found, dumped.tensors)
    outcome = _report_samples(detail, outcome)
    more = [*applied.findings, *([_report_undumpable(undumpable)] if undumpable else [])]
    found_in_outputs, count, share = documents.compare_outputs(detail, dump, case.requested)
    margins = [one for one in (outcome.margin, share) if one is not None]
    parts = [f"{name}#{part}" for name, rules in detail.documents.items() for part in rules]
    return replace(
        outcome,
        findings=(*in_files, *outcome.findings, *more, *found_in_outputs),
        compared=outcome.compared + count,
        margin=max(margins, default=None),
        tensors=(*outcome.tensors, *detail.documents, *parts, *detail.texts, *detail.writes),
    )


def take_samples(
    detail: TensorCase, references: Tensors, dumped: FolderContents
) -> tuple[dict[str, StoredTensor], FolderContents]:
    """Return references and a dump with the sampled elements alone of each tensor of ``samples``.

    A dumped tensor that has not the shape which the manifest states is left as it is. Its
    reference gets that shape for the report; it cannot be read. Tensors that may be missing ones
    under other names are sampled, too.
    """
    expected, obtained = dict(references), dict(dumped.tensors)
    named = {*references, *(stage.name for stage in detail.stages), *detail.rules.find_likes()}
    others = [name for name in obtained if name not in named]
    for name, sample in detail.samples.items():
        whole = replace(expected[name], shape=sample.shape, fetch=_reject_reading)
        if sample.is_dumped:
            continue
        if name in obtained and obtained[name].shape != sample.shape:
            expected[name] = whole
            continue
        if name not in obtained:
            expected[name] = replace(expected[name], whole=whole)
        for one in [name] if name in obtained else others:
            if obtained[one].shape == sample.shape:
                obtained[one] = obtained[one].take(sample.indices)
    return expected, replace(dumped, tensors=obtained)


def _reject_reading(_start: int, _stop: int) -> None:
    raise ValueError("the reference has a sample of the elements alone")


def _report_samples(detail: TensorCase, outcome: DumpComparison) -> DumpComparison:
    """Add to findings of sampled tensors which element is meant, and report what was compared."""
    findings = [_name_element(detail, finding) for finding in outcome.findings]
    compared = outcome.measures.get("per_tensor", {})
    samples = {name: one for name, one in detail.samples.items() if name in compared}
    if not samples:
        return replace(outcome, findings=tuple(findings))
    texts = [
        f"{name}: a sample of {len(one.indices):,} of {prod(one.shape):,} elements"
        for name, one in samples.items()
    ]
    size = sum(len(one.indices) for one in samples.values())
    count = sum(prod(one.shape) for one in samples.values())
    message = (
        f"{format_count(len(texts), 'tensors')} compared by samples, in all {size:,} of {count:,} "
        f"elements: {format_list(texts)}"
    )
    return replace(
        outcome,
        findings=(*findings, Finding(level="notice", code="sampled", message=message)),
        measures={**outcome.measures, "sampled": size, "sampled_of": count},
    )


def _name_element(detail: TensorCase, finding: Finding) -> Finding:
    sample = detail.samples.get(finding.tensor or "")
    if sample is None or not finding.index or finding.index[0] >= len(sample.indices):
        return finding
    place = np.unravel_index(int(sample.indices[finding.index[0]]), sample.shape)
    text = f"[{finding.index[0]}] of the sample is {[*map(int, place)]} of the tensor"
    return replace(finding, details=(*finding.details, text))


def _let_stages_be_missing(
    detail: TensorCase, rules: Mapping[str, Rule], expected: Tensors
) -> dict[str, Rule]:
    """Return the rules with all stages optional but the model's outputs, which no rule excuses."""
    changed = {
        stage.name: replace(
            rules.get(stage.name, Rule()), optional=stage.name not in detail.outputs
        )
        for stage in detail.stages
        if stage.name in expected
    }
    return {**rules, **changed}


def _find_undumpable(expected: Tensors, dumped: FolderContents) -> list[str]:
    """List missing names that a port which writes one file per tensor cannot dump."""
    if any(tensor.suffix == ".safetensors" for tensor in dumped.tensors.values()):
        return []
    return [name for name in expected if name not in dumped.tensors and not is_portable(name)]


def _report_undumpable(names: list[str]) -> Finding:
    message = (
        f"{format_count(len(names), 'tensors')} whose name cannot be a file name on every system, "
        f"and so not that of a .bin: {format_list(f'{name!r:.80}' for name in names)}"
    )
    return Finding(level="notice", code="not-a-file-name", message=message)


def find_names_problem(value: Any) -> str:
    """Return why ``checkpoint-names`` cannot be ``value``, or ``""``."""
    if not isinstance(value, dict) or not value:
        return "it must map a suffix, such as .pth, to the name that the port's example opens"
    for suffix, name in value.items():
        if not isinstance(name, str) or not is_file_name(name) or name.lower() == NAMES_FILE:
            return f"{name!r:.80} is not a portable file name"
        if not suffix.startswith(".") or not is_file_name(suffix[1:]):
            return f"{suffix!r:.80} is not a suffix such as .pth"
    return ""


def list_files(case: Case) -> list[Path]:
    """List the files of a case: its checkpoint with all parts, references, and inputs."""
    detail: TensorCase = case.detail
    references = list_references(detail).tensors.values() if detail.reference else ()
    parts = list_parts(detail.checkpoint) if detail.checkpoint else ()
    inputs = (
        path for place in (detail.checkpoint, *detail.inputs) for path in list_files_below(place)
    )
    outputs = [detail.find_document(name) for name in (*detail.documents, *detail.texts)]
    samples = {sample.path for sample in detail.samples.values()}
    return [*{tensor.path for tensor in references}, *parts, *inputs, *outputs, *samples]


SUITE = Suite(
    name="tensors",
    args=ARGS,
    cases=read_cases,
    verify=verify,
    list_files=list_files,
    has_manifest=True,
    list_rules=list_rules,
    across=report_unused_defaults,
    reference_path=lambda case: case.detail.reference,
    pin="parity.lab.pins.tensors:pin",
    audit="parity.lab.audits.tensors:audit",
    audit_libraries=("torch", "safetensors", "gguf"),
    right_dump="parity.lab.faults.inject:write_tensors_dump",
    view="parity.lab.views.tensors:view",
    options={"gguf-dims": ("stored", "logical"), "checkpoint-names": find_names_problem},
)
