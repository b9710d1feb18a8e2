"""The report as JUnit XML, limited to the subset that all readers support."""

from __future__ import annotations

from collections.abc import Sequence

from junitparser import Attr, Error, Failure, IntAttr, JUnitXml, Skipped, TestCase, TestSuite

from parity import github
from parity.errors import Location
from parity.reports import phrases
from parity.results import CaseResult, Finding, Report
from parity.text import sanitize_message


class _Case(TestCase):  # type: ignore[misc]  # junitparser ships no types
    """A case with the location that reporters annotate."""

    file = Attr()
    line = IntAttr()


def format_junit(report: Report) -> str:
    """Return the report: one suite for each bundle, and one for errors of the run."""
    xml = JUnitXml("parity")
    if cases := _build_general_cases("parity", report.findings):
        xml.add_testsuite(_build_suite("parity", cases))
    for bundle in report.bundles:
        cases = [*map(_build_case, bundle.cases)]
        cases += _build_general_cases(bundle.bundle, bundle.findings)
        xml.add_testsuite(_build_suite(bundle.bundle, cases))
    xml.update_statistics()
    return str(xml.tostring().decode("utf-8"))


def _build_suite(name: str, cases: Sequence[_Case]) -> TestSuite:
    suite = TestSuite(sanitize_message(name))
    suite.add_testcases(cases)
    return suite


def _build_case(result: CaseResult) -> _Case:
    case = _Case(sanitize_message(result.case), sanitize_message(result.bundle))
    case.time = round(sum(result.seconds.values()), 6)
    first = next(iter(result.errors), None)
    _set_location(case, (first.where if first else None) or result.source)
    if result.errors:
        case.result = [_build_result(result.errors, result.command)]
    if seen := phrases.describe_seen([result]):
        case.system_out = seen
    if not result.errors and result.verdict in ("known-failure", "skipped"):
        case.result = [Skipped(sanitize_message(f"{result.verdict}: {result.reason}"))]
    return case


def _build_general_cases(name: str, findings: Sequence[Finding]) -> list[_Case]:
    """Return errors of no single case as one case."""
    errors = [finding for finding in findings if finding.level == "error"]
    if not errors:
        return []
    case = _Case("(as a whole)", sanitize_message(name))
    case.time = 0.0
    _set_location(case, errors[0].where)
    case.result = [_build_result(errors, "")]
    return [case]


def _set_location(case: _Case, where: Location | None) -> None:
    inside = github.find_workspace_path(where.path) if where else None
    if where and inside:
        case.file, case.line = sanitize_message(inside), where.line or 1


def _build_result(errors: Sequence[Finding], command: str) -> Failure | Error:
    """Return a failure if the port is wrong, an error if the comparison could not run."""
    first = errors[0]
    kind = Failure if all(error.kind == "mismatch" for error in errors) else Error
    found = kind(sanitize_message(first.message), first.code)
    lines = [line for error in errors for line in phrases.format_finding(error)]
    lines += [f"repeat: {sanitize_message(command)}"] if command else []
    found.text = "\n".join(lines)
    return found
