"""Compare the JSON and text outputs of a case with their references."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from parity.bundle.document import Place
from parity.bundle.tensor_case import JsonRule, TensorCase
from parity.bundle.tolerances import JSON_TOLERANCES, tighten
from parity.errors import Problem
from parity.results import Finding
from parity.suites.base import Dump
from parity.suites.messages import format_list, report_error, report_unreadable
from parity.suites.tolerance_findings import check_arrays
from parity.tensors import FormatError
from parity.tensors.dtypes import DTYPES
from parity.tensors.elements import resolve_close
from parity.tensors.json_values import (
    EXACT,
    Comparison,
    Difference,
    DocumentComparison,
    check_depth,
    compare_documents,
    is_plain_list,
    list_parts,
    read_bytes,
    read_json,
)
from parity.text import format_count

_MAX_SHOWN = 60


def find_problems(case: TensorCase) -> Iterator[Problem]:
    """Yield references that cannot be read, and pointers that match nothing in them."""
    for source, rules in case.documents.items():
        what = f"case {case.id!r}: the reference of {source!r}"
        place = ("cases", case.id, "json", source)
        try:
            reference = read_json(case.find_document(source))
        except FormatError as error:
            yield Problem("manifest", f"{what} {error.message}", case.rules.locate(place))
            continue
        compared = _compare(reference, reference, rules)
        for rule, problem in _list_unmatched(dict(list_parts(reference)), rules, compared):
            yield Problem("manifest", f"{what} {problem}", case.rules.locate(rule.place))
        if not compared.count:
            message = f"{what} has no value that is compared"
            yield Problem("manifest", message, case.rules.locate(place))
    for at, name in enumerate(case.texts):
        try:
            problem = "is empty" if _read_lines(case.find_document(name)) == [""] else ""
        except FormatError as error:
            problem = error.message
        if problem:
            message = f"case {case.id!r}: the reference of {name!r} {problem}"
            yield Problem("manifest", message, case.rules.locate(("cases", case.id, "text", at)))


def _list_unmatched(
    values: Mapping[str, Any], rules: Mapping[str, JsonRule], compared: DocumentComparison
) -> Iterator[tuple[JsonRule, str]]:
    """Yield rules that are for nothing, and lists that are none; ``values`` are by pointer."""
    for pointer, rule in rules.items():
        for part in rule.parts or (pointer,):
            if rule.bounds is not None and part not in values:
                yield rule, f"has no {part!r}"
            elif rule.parts and not is_plain_list(values[part]):
                yield rule, f"has no list of numbers or text at {part!r}"
            elif rule.bounds and part not in compared.rules and values[part] not in ({}, []):
                yield rule, f"has no value at {part!r} that this rule is for; others decide"


def compare_outputs(
    case: TensorCase, dump: Dump, requested: Mapping[str, float] | None = None
) -> tuple[list[Finding], int, float | None]:
    """Compare the JSON and text outputs of a dump; ``requested`` are the lockfile's tolerances.

    Return the findings, the number of values and lines that were compared, and the largest used
    share of a tolerance.
    """
    findings: list[Finding] = []
    count = 0
    shares: list[float] = []
    for source, stated in case.documents.items():
        rules = tighten_rules(stated, requested or {})
        try:
            expected = read_json(case.find_document(source))
            obtained = _read_output(source, dump)
        except FormatError as error:
            findings.append(report_unreadable(source, error))
            continue
        except FileNotFoundError:
            findings.append(_report_missing(source))
            continue
        compared = _compare(expected, obtained, rules)
        findings += _report(source, compared, rules)
        findings += _report_needless(case, source, expected, obtained)
        reasons = [
            f"{source}#{pointer}: {one.reason}" for pointer, one in rules.items() if one.reason
        ]
        if reasons:
            message = f"{format_count(len(reasons), 'values')} ignored: {format_list(reasons)}"
            findings.append(Finding(level="notice", code="ignored", message=message))
        count += compared.count
        shares += [one.share for one in compared.rules.values() if one.share is not None]
    for name in case.texts:
        more, lines = _compare_text(name, case.find_document(name), dump.folder / name)
        findings, count = findings + more, count + lines
    return findings, count, max(shares, default=None)


def tighten_rules(
    rules: Mapping[str, JsonRule], requested: Mapping[str, float]
) -> dict[str, JsonRule]:
    """Tighten a document's rules by the lockfile's tolerances for numbers; `close` is float64's."""
    limits = resolve_close(requested, DTYPES["F64"])
    limits = {name: value for name, value in limits.items() if name in JSON_TOLERANCES}
    return {
        pointer: rule._replace(bounds=tighten(rule.bounds, limits)[0]) if rule.bounds else rule
        for pointer, rule in rules.items()
    }


def _report_needless(
    case: TensorCase, source: str, expected: Any, obtained: Any
) -> Iterator[Finding]:
    """Report `ignore` entries that neither the reference nor the dump needs."""
    rules = case.documents[source]
    entries = {one: rule for one, rule in rules.items() if rule.reason and not rule.is_optional}
    for part, _ in chain(list_parts(expected), list_parts(obtained)) if entries else ():
        entries.pop(part, None)
    for pointer, rule in entries.items():
        yield report_needless(case, f"{source}#{pointer}", rule.place, "value")


def report_needless(case: TensorCase, name: str, place: Place, what: str = "tensor") -> Finding:
    """Report an `ignore` entry that neither the reference nor the dump needs."""
    message = (
        f"{name!r} is ignored, but neither the reference nor the dump has such a {what}; "
        "remove the entry, or state `optional: true` where only some ports write it"
    )
    where = case.rules.locate(place)
    return report_error("names-nothing", message, kind="config", where=where)


def _compare(expected: Any, obtained: Any, rules: Mapping[str, JsonRule]) -> DocumentComparison:
    bounds = {pointer: rule.bounds for pointer, rule in rules.items()}
    partitions = [rule.parts for rule in rules.values() if rule.parts]
    return compare_documents(expected, obtained, bounds, partitions)


def _read_output(source: str, dump: Dump) -> Any:
    """Read a document of a dump; dumps that are there already have the line as `stdout.json`."""
    if source == "stdout" and dump.stdout_json is not None:
        check_depth(dump.stdout_json)
        return dump.stdout_json
    path = dump.folder / ("stdout.json" if source == "stdout" else source)
    if not path.is_file():
        raise FileNotFoundError(path)
    return read_json(path)


def _report_missing(source: str) -> Finding:
    what = "its last line of JSON on stdout" if source == "stdout" else f"the file {source}"
    return report_error("json-missing", f"the port did not write {what}", tensor=source)


def _report(
    source: str, compared: DocumentComparison, rules: Mapping[str, JsonRule]
) -> Iterator[Finding]:
    extra = compared.extra
    if source == "stdout":  # a port may print more than it is asked for
        extra = [pointer for pointer in extra if pointer.count("/") > 1]
        more = [pointer for pointer in compared.extra if pointer not in extra]
        if more:
            message = (
                f"{format_count(len(more), 'values')} of stdout not compared: {format_list(more)}"
            )
            yield Finding(level="notice", code="not-compared", message=message)
    for code, pointers, text in (
        ("json-missing", compared.missing, "missing from the dump"),
        ("json-extra", extra, "in the dump, and not in the reference"),
    ):
        if pointers:
            verb = "is" if len(pointers) == 1 else "are"
            message = (
                f"{source}: {format_count(len(pointers), 'values')} {verb} {text}: "
                f"{format_list(pointers)}"
            )
            yield report_error(code, message, tensor=f"{source}#{pointers[0]}")
    for pointer, one in compared.rules.items():
        stated = rules[pointer].bounds if pointer in rules else None
        bounds = EXACT if stated is None else stated
        if one.worst is not None:
            yield _report_difference(f"{source}#{pointer}", one, one.worst, bounds)
        elif one.numbers:
            numbers = {f"{source}#{pointer}": np.array(one.numbers)}
            yield from check_arrays(numbers, bounds)


def _report_difference(
    name: str, one: Comparison, worst: Difference, bounds: Mapping[str, float]
) -> Finding:
    expected, obtained = _format(worst.expected), _format(worst.obtained)
    off = f" (off by {worst.error:.3g})" if math.isfinite(worst.error) else ""
    limits = (
        "exact" if bounds.get("exact") else ", ".join(f"{k} <= {v:g}" for k, v in bounds.items())
    ) or "the same items in any order"
    message = (
        f"{name}: {one.bad:,} of {format_count(one.count, 'values')} "
        f"{'differs' if one.bad == 1 else 'differ'}; worst at {worst.pointer or 'the top'}: "
        f"expected {expected}, obtained {obtained}{off}; bound: {limits}"
    )
    measures = {"count": one.count, "bad": one.bad, "pointer": worst.pointer}
    return report_error(
        "json-value", message, tensor=name, expected=expected, obtained=obtained, measures=measures
    )


def _format(value: Any) -> str:
    if isinstance(value, dict):
        return f"an object of {format_count(len(value), 'members')}"
    if isinstance(value, list):
        return f"a list of {format_count(len(value), 'items')}"
    text = json.dumps(value, ensure_ascii=False) if type(value) is not int else f"{value!r:.60}"
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def _compare_text(name: str, reference: Path, path: Path) -> tuple[list[Finding], int]:
    """Compare a file of text; a line ends in LF, with or without a CR."""
    expected = _read_lines(reference)
    if not path.is_file():
        return [_report_missing(name)], 0
    try:
        obtained = _read_lines(path)
    except FormatError as error:
        return [report_unreadable(name, error)], 0
    pairs = zip(expected, obtained, strict=False)
    at = next((at for at, (one, other) in enumerate(pairs) if one != other), None)
    if at is None and len(expected) == len(obtained):
        return [], len(expected)
    at = min(len(expected), len(obtained)) if at is None else at
    lines = [_format(side[at]) if at < len(side) else "no line" for side in (expected, obtained)]
    message = f"{name} differs from line {at + 1} on: expected {lines[0]}, obtained {lines[1]}"
    return [report_error("text", message, tensor=name, index=(at,))], len(expected)


def _read_lines(path: Path) -> list[str]:
    try:
        return read_bytes(path).decode().replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError:
        raise FormatError("bad-header", "is not UTF-8") from None
