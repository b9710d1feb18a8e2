"""Apply the rules of a manifest to a case's reference and to a dump."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from parity.bundle.layout import make_suspect_error
from parity.bundle.tensor_case import JsonRule, TensorCase
from parity.bundle.tensor_rules import EXACT, Check, Rule, describe_unmatched, resolve_rules
from parity.bundle.tolerances import Tolerances
from parity.errors import Problem
from parity.results import Finding
from parity.suites.base import Case, Compared
from parity.suites.messages import EXAMPLES, format_list, report_error
from parity.suites.tensor_reference import TensorReference
from parity.suites.tensors import documents
from parity.suites.tensors.stage_causes import find_unknown_feed
from parity.suites.tensors.written import read_dump
from parity.tensors.folder import FolderContents, list_named, list_tensors
from parity.tensors.stored import StoredTensor, Tensors
from parity.text import format_count


def list_references(detail: TensorCase) -> FolderContents:
    """List the files of a case's reference, as far as they can be read."""
    if detail.reference is None:
        return FolderContents()
    if detail.layout:
        return list_named(detail.reference, detail.layout)
    return list_tensors(detail.reference)


def read_references(detail: TensorCase) -> dict[str, StoredTensor]:
    """Read the tensors of a case's reference, with dimensions as a port must dump them.

    Raises:
        ReferenceSuspectError: They cannot be read or are missing.
    """
    place = detail.reference
    if place is None:
        raise make_suspect_error(detail.folder, "has no reference")
    found = list_references(detail)
    # An operator may give an empty tensor; else nothing of its values would be compared.
    may_be_empty = detail.has_expectation if found.tensors else detail.documents or detail.texts
    if problems := found.list_problems(may_be_empty=bool(may_be_empty)):
        raise make_suspect_error(place, "; ".join(problems[:EXAMPLES]))
    for name in detail.outputs:  # else nothing would have to be produced
        if name not in found.tensors:
            raise make_suspect_error(place, f"has no reference for the output {name!r}")
    if unknown := find_unknown_feed(detail):
        raise make_suspect_error(detail.folder, unknown)
    for name, sample in detail.samples.items():
        shape = found.tensors[name].shape if name in found.tensors else None
        if shape != sample.indices.shape:
            obtained = "is missing" if shape is None else f"has the shape {list(shape)}"
            message = f"{name!r}, a sample of {len(sample.indices):,} elements, {obtained}"
            raise make_suspect_error(place, message)
    if not detail.is_transposed:
        return found.tensors
    return {name: replace(one, shape=one.shape[::-1]) for name, one in found.tensors.items()}


def find_rule_problems(cases: Sequence[TensorCase]) -> list[Problem]:
    """Return the problems of all cases' rules: contradictions, and those that match nothing.

    Raises:
        ReferenceSuspectError: A reference that a rule is for cannot be read.
    """
    problems: list[Problem] = []
    unmatched: dict[str, TensorCase] = {}
    matched: set[str] = set()
    for case in cases:
        rules = case.rules
        unreadable = list_references(case).unreadable if case.layout else {}
        for name, error in unreadable.items():
            message = f"case {case.id!r}: {name} of the reference {error.message}"
            place = ("cases", case.id, "reference", name)
            problems.append(Problem("manifest", message, rules.locate(place)))
        if unreadable or not rules.has_own:
            continue
        names = {} if case.reference is None else read_references(case)
        has_outputs = bool(case.documents or case.texts)
        resolved, found, here = resolve_rules(rules, names, case.id, has_outputs=has_outputs)
        problems += found
        for name in case.outputs:
            if resolved[name].ignore:
                message = f"case {case.id!r}: {name!r} is an output of the model and is ignored"
                problems.append(rules.make_problem(message, resolved[name]))
        matched |= here
        unmatched |= dict.fromkeys(rules.shared, case)
    for case in cases:
        problems += documents.find_problems(case)
    for name, case in unmatched.items():
        rule = {**case.rules.tensors, **case.rules.dtypes}[name]
        if name not in matched and not rule.ignore and not rule.like:
            problems.append(case.rules.make_problem(describe_unmatched(name, "", ()), rule))
    return problems


@dataclass(frozen=True, kw_only=True)
class AppliedRules:
    """A case's reference and dump as the rules leave them."""

    #: What is expected: of the reference, or of the dump itself (``like``)
    tensors: Tensors
    rules: Mapping[str, Rule]  # By name of the tensor
    found: FolderContents  # The dump without ignored tensors
    findings: tuple[Finding, ...] = ()
    unreferenced: Mapping[str, str]


def apply_rules(detail: TensorCase, references: Tensors, dumped: FolderContents) -> AppliedRules:
    """Apply the rules of a case to its reference and to a dump."""
    if not detail.rules.has_own:
        return AppliedRules(tensors=references, rules={}, found=dumped, unreferenced={})
    rules, _, matched = resolve_rules(detail.rules, references, detail.id)
    default = detail.rules.default.checks or EXACT
    ignored = {name: rule.ignore for name, rule in rules.items() if rule.ignore}
    for name in [*dumped.tensors, *dumped.lost]:
        if name not in rules and (reason := detail.rules.resolve(name, None)[0].ignore):
            ignored[name] = reason
            matched |= {name, *detail.rules.match_globs(name)}
    tensors = {name: one for name, one in references.items() if name not in ignored}
    findings = [
        documents.report_needless(detail, name, rule.place)
        for name, rule in detail.rules.tensors.items()
        if rule.ignore and not rule.optional and name not in matched | detail.rules.shared
    ]
    if ignored:
        reasons = [f"{name}: {reason}" for name, reason in ignored.items()]
        message = f"{format_count(len(ignored), 'tensors')} ignored: {format_list(reasons)}"
        findings.insert(0, Finding(level="notice", code="ignored", message=message))
    unreferenced: dict[str, str] = {}
    for name, target in detail.rules.find_likes().items():
        rules[name] = detail.rules.resolve(name, None)[0]
        expected = dumped.tensors.get(target)
        if expected is not None:
            tensors[name] = expected.whole or expected
            continue
        if name in dumped.tensors:
            unreferenced[name] = dumped.tensors[name].dtype.name
        if not rules[name].optional or name in dumped.tensors:
            message = f"{name} is compared with {target}, which is missing from the dump"
            findings.append(report_error("tensor-missing", message, tensor=name))
    if not any(check.measures for check in default) and len(default) == 1:
        # The caller has tightened the default by the lockfile's tolerances.
        rules = {
            name: replace(rule, checks=None) if rule.checks is default else rule
            for name, rule in rules.items()
        }
    return AppliedRules(
        tensors=tensors,
        rules=rules,
        # Without broken files of ignored tensors alone.
        found=replace(
            dumped,
            tensors={name: one for name, one in dumped.tensors.items() if name not in ignored},
            unreadable={
                path: error
                for path, error in dumped.unreadable.items()
                if path.rpartition(".")[0] not in ignored
            },
            duplicates=[name for name in dumped.duplicates if name not in ignored],
        ),
        findings=tuple(findings),
        unreferenced=unreferenced,
    )


def list_rules(case: Case, tolerances: Tolerances) -> dict[str, Rule]:
    """Return how each tensor, text and part of JSON is compared, with the lockfile's tolerances.

    Raises:
        ReferenceSuspectError: A reference cannot be read.
    """
    detail: TensorCase = case.detail
    tensors = read_references(detail) if detail.reference else {}
    rules = dict(apply_rules(detail, tensors, FolderContents()).rules)
    likes = {
        name: tensors[one] for name, one in detail.rules.find_likes().items() if one in tensors
    }
    reference = TensorReference(
        tensors={**tensors, **likes},
        tolerances=tolerances,
        rules=rules,
        requested=case.requested,
        blind=detail.blind,
    )
    free = {stage.name for stage in detail.stages}.difference(detail.outputs)
    for name in reference.tensors:
        rule = rules.get(name, detail.rules.default)
        rules[name] = replace(
            rule,
            checks=reference.select_checks(name),
            blind=reference.find_blind_reason(name),
            optional=rule.optional or name in free,
        )
    entries = detail.metadata.items() if isinstance(detail.metadata, Mapping) else ()
    names = [f"__metadata__ {key}={value!r}" for key, value in entries]
    rules |= dict.fromkeys(names or ["__metadata__"] * bool(detail.metadata), Rule(checks=EXACT))
    for source, stated in detail.documents.items():
        stated_or_exact = {"": JsonRule(dict(EXACT[0].bounds)), **stated}
        for pointer, one in documents.tighten_rules(stated_or_exact, case.requested).items():
            parts = {"partition": {"with": [*one.parts[1:]]}} if one.parts else {}
            check = Check(bounds=one.bounds or {}, measures=parts)
            rules[f"{source}#{pointer}"] = Rule(checks=(check,), ignore=one.reason)
    return {**rules, **dict.fromkeys((*detail.texts, *detail.writes), Rule(checks=EXACT))}


def report_unused_defaults(compared: Compared) -> dict[str, tuple[Finding, ...]]:
    """Report `ignore` entries of `defaults` that no reference and no dump of any case needs."""
    cases = {name: (case.detail, dump) for name, (case, dump) in compared.items() if dump}
    first, (detail, _) = next(iter(cases.items()), ("", (None, None)))
    if detail is None or len(cases) < detail.rules.sharers:
        return {}
    entries = {
        name: rule
        for case, _ in cases.values()
        for name, rule in case.rules.tensors.items()
        if name in case.rules.shared and rule.ignore and not rule.optional
    }
    for case, dump in cases.values() if entries else ():
        dumped = read_dump(case, dump.folder)
        for tensor in {*list_references(case).tensors, *dumped.tensors, *dumped.lost}:
            for name in (tensor, *case.rules.match_globs(tensor)):
                entries.pop(name, None)
    findings = [
        documents.report_needless(detail, name, rule.place) for name, rule in entries.items()
    ]
    return {first: tuple(findings)} if findings else {}
