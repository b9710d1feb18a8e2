"""``prove``: inject known faults into copies of the references and check that each is caught.

It shows a maintainer what a bundle detects. A fault counts as caught if every
tensor that it changed is found wrong; a warning counts only for a fault that states so, and a
fault that changes nothing is void.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from parity.commands.fetch import handle_each
from parity.commands.options import BundleOptions
from parity.commands.selection import choose_bundles
from parity.diagnose import name_no_alternatives
from parity.errors import ErrorKind, ParityError
from parity.lab import resolve_hook
from parity.lab.faults import Fault, InjectionResult
from parity.lab.faults.report import Detection, MutationReport, print_report
from parity.lockfile import Bundle
from parity.reports.console import RunConsole
from parity.results import Finding
from parity.suites.base import Case, Dump
from parity.verify.options import VerifyOptions
from parity.verify.prepare import PreparationError, PreparedBundle, prepare_bundle


@dataclass(frozen=True, kw_only=True)
class ProveOptions(BundleOptions, VerifyOptions):
    """The command line of ``prove``; all else has the defaults of ``verify``."""


def prove(options: ProveOptions, console: RunConsole) -> int:
    """Prove the chosen bundles; return the exit code.

    Raises:
        ConfigError: The lockfile is invalid, or has no such id.
    """

    def prove_bundle(bundle: Bundle) -> ErrorKind | None:
        prepared = prepare_bundle(bundle, options, console, None)
        if isinstance(prepared, PreparationError):
            raise prepared.error
        report = inject_faults(prepared)
        print_report(report, console.print_line)
        return "reference" if report.missed or not report.injected else None

    return handle_each(choose_bundles(options)[1], prove_bundle)


def inject_faults(prepared: PreparedBundle) -> MutationReport:
    """Inject all faults into all cases of a bundle.

    Raises:
        ParityError: A reference cannot be read, or a library is missing.
    """
    report = MutationReport(prepared.bundle.id)
    with tempfile.TemporaryDirectory(prefix="parity-") as folder, name_no_alternatives():
        others = _write_all(prepared, Path(folder)) if prepared.suite.across else {}
        for case in prepared.all_cases:
            with tempfile.TemporaryDirectory(prefix="parity-") as scratch:
                _inject_into_case(prepared, case, Path(scratch), report, others)
    return report


def _write_all(prepared: PreparedBundle, folder: Path) -> dict[str, tuple[Case, Dump | None]]:
    """Write the right dumps of all cases, with which a wrong one is compared."""
    dumps = {}
    for case in prepared.all_cases:
        place = folder / case.id
        place.mkdir(parents=True)
        resolve_hook(prepared.suite.right_dump)(case, place)
        dumps[case.id] = (case, None if case.expect == "refuse" else Dump(folder=place))
    return dumps


def _inject_into_case(
    prepared: PreparedBundle,
    case: Case,
    scratch: Path,
    report: MutationReport,
    others: dict[str, tuple[Case, Dump | None]],
) -> None:
    right_folder = scratch / "right"
    right_folder.mkdir()
    faults = resolve_hook(prepared.suite.right_dump)(case, right_folder)
    if faults is None:
        report.skipped[case.id] = "since the case expects no dump"
        return
    if errors := _find_port_errors(prepared, case, right_folder):
        report.skipped[case.id] = f"since its own references fail ({errors[0].message})"
        return
    report.cases.append(case.id)
    for fault in faults:
        wrong_folder = scratch / "wrong"
        shutil.copytree(right_folder, wrong_folder)
        injection = fault.inject(wrong_folder)
        if fault.why_allowed:
            report.allowed[fault.name] = fault.why_allowed
        else:
            report.record_fault(fault)
            levels = ("error", "warning") if fault.warns else ("error",)
            errors = []
            if injection.changed:
                errors = _find_port_errors(prepared, case, wrong_folder, levels)
            is_named = not fault.codes or _collect_codes(errors).intersection(fault.codes)
            if others and injection.changed and not (errors and is_named):
                errors += _compare_across(prepared, case, wrong_folder, others)
            if injection.changed or injection.unchanged:
                detection = _build_detection(fault, injection, errors)
                report.detections.setdefault(fault.name, {})[case.id] = detection
        shutil.rmtree(wrong_folder)


def _find_port_errors(
    prepared: PreparedBundle, case: Case, folder: Path, levels: Collection[str] = ("error",)
) -> list[Finding]:
    """Return the suite's errors that are the port's fault."""
    try:
        outcome = prepared.suite.verify(case, Dump(folder=folder), prepared.bounds[case.id])
    except ParityError as error:
        return [Finding.from_problem(p, error.kind) for p in error.problems if error.kind == "dump"]
    return [f for f in outcome.findings if f.level in levels and f.kind in ("mismatch", "dump")]


def _compare_across(
    prepared: PreparedBundle,
    case: Case,
    folder: Path,
    others: dict[str, tuple[Case, Dump | None]],
) -> list[Finding]:
    """Return the errors that a dump has beside the right dumps of all other cases."""
    across = prepared.suite.across
    if across is None:
        return []
    found = across({**others, case.id: (case, Dump(folder=folder))})
    return [one for findings in found.values() for one in findings if one.level == "error"]


def _build_detection(fault: Fault, injection: InjectionResult, errors: list[Finding]) -> Detection:
    errors_by_part = {
        name: [e for e in errors if e.tensor == name] if fault.per_tensor else errors
        for name in injection.changed
    }
    codes = {name: _collect_codes(found) for name, found in errors_by_part.items()}
    named = tuple(name for name, found in codes.items() if found.intersection(fault.codes))
    others = (found for name, found in codes.items() if name not in named)
    return Detection(
        changed=injection.changed,
        void=injection.unchanged,
        missed=tuple(name for name, matching in errors_by_part.items() if not matching),
        named=named,
        other_codes=tuple(sorted(set().union(*others))),
        needs=injection.needs,
    )


def _collect_codes(findings: Iterable[Finding]) -> set[str]:
    """Return the codes of findings and of their proven causes."""
    all_findings = list(findings)
    causes = {str(f.measures["cause_code"]) for f in all_findings if "cause_code" in f.measures}
    together = {code for f in all_findings for code in f.measures.get("cause_codes", ())}
    return {f.code for f in all_findings} | causes | together
