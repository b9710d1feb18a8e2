"""JUnit XML, for readers of test reports; the subset that all of them understand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from junitparser import Attr, Error, Failure, IntAttr, JUnitXml, Skipped, TestCase, TestSuite

from parity import runner
from parity.reports import wording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parity.errors import Where
    from parity.results import BundleResult, CaseResult, Finding, Report


class _Case(TestCase):  # type: ignore[misc]  # junitparser ships no types
    """A case with the place that reporters annotate; they guess where it is absent."""

    file = Attr()
    line = IntAttr()


def text(report: Report) -> str:
    """The whole report; a suite a bundle, and one for what concerns no bundle."""
    xml = JUnitXml("parity")
    if any(finding.level == "error" for finding in report.findings):
        xml.add_testsuite(_suite("parity", [_loose("parity", report.findings)]))
    for bundle in report.bundles:
        xml.add_testsuite(_suite(bundle.bundle, _cases(bundle)))
    xml.update_statistics()
    return str(xml.tostring().decode("utf-8"))


def _suite(name: str, cases: Sequence[_Case]) -> TestSuite:
    suite = TestSuite(wording.shown(name))
    suite.add_testcases(cases)
    return suite


def _cases(bundle: BundleResult) -> list[_Case]:
    cases = [_case(case) for case in bundle.cases]
    if any(finding.level == "error" for finding in bundle.findings):
        cases.append(_loose(bundle.bundle, bundle.findings))
    return cases


def _case(result: CaseResult) -> _Case:
    case = _Case(wording.shown(result.case), wording.shown(result.bundle))
    case.time = round(sum(result.seconds.values()), 6)
    first = next(iter(result.errors), None)
    _place(case, (first.where if first else None) or result.source)
    if result.errors:
        case.result = [_outcome(result.errors, result.command)]
    elif result.verdict in ("known-failure", "skipped"):
        case.result = [Skipped(wording.shown(f"{result.verdict}: {result.reason}"))]
    return case


def _loose(name: str, findings: Sequence[Finding]) -> _Case:
    """Errors that concern no single case, as one case of their own."""
    errors = [finding for finding in findings if finding.level == "error"]
    case = _Case("(as a whole)", wording.shown(name))
    case.time = 0.0
    _place(case, errors[0].where)
    case.result = [_outcome(errors, "")]
    return case


def _place(case: _Case, where: Where | None) -> None:
    inside = runner.in_workspace(where.path) if where else None
    if where and inside:
        case.file, case.line = wording.shown(inside), where.line or 1


def _outcome(errors: Sequence[Finding], command: str) -> Failure | Error:
    """A failure where the port is wrong, an error where nothing can be said about it."""
    first = errors[0]
    kind = Failure if all(error.kind == "mismatch" for error in errors) else Error
    found = kind(wording.shown(first.message), first.code)
    lines = [line for error in errors for line in wording.finding_lines(error)]
    lines += [f"repeat: {wording.shown(command)}"] if command else []
    found.text = "\n".join(lines)
    return found
