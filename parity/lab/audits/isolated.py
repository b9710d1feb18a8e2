"""Audit one bundle in a subprocess, bounded in time and memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import parity
from parity.errors import ConfigError, Problem, ReferenceSuspectError
from parity.lab import audits
from parity.lab.zoo.reader_results import ReaderResults
from parity.lockfile import Bundle
from parity.lockfile.parse import SUITES
from parity.port import process
from parity.reports import phrases
from parity.reports.console import RunConsole
from parity.results import CaseResult, Finding
from parity.store.store import FetchedBundle
from parity.text import sanitize

TIMEOUT_SECONDS = 1800.0  # Seconds for one bundle, in case a file makes a reader loop
#: Bytes that the audit of one bundle may allocate.
MEMORY_BYTES = 16 * 2**30
_MAX_OUTPUT = 8 * 2**20


def audit_in_subprocess(
    bundle: Bundle, tree: Path, manifest: Path | None = None
) -> tuple[CaseResult, ...]:
    """Return the audited cases of an unpacked bundle; ``manifest`` is beside the lockfile.

    Raises:
        ConfigError: ``missing-library``.
        ReferenceSuspectError: No case could be read; or ``audit-crashed``: a library crashed
            or did not end on the bundle's files.
    """
    suite = f"{bundle.suite}={SUITES[bundle.suite]}"
    args = [sys.executable, "-m", "parity.lab.audits", suite, str(tree), bundle.id]
    args += [str(manifest)] if manifest else []
    package_parent = Path(parity.__file__).parent.parent
    env = process.build_environment({"PYTHONPATH": str(package_parent), "PYTHONWARNINGS": "ignore"})
    completed = process.run(
        args,
        cwd=package_parent,
        env=env,
        timeout=TIMEOUT_SECONDS,
        stdout_limit=_MAX_OUTPUT,
        memory=MEMORY_BYTES,
    )
    try:
        output: dict[str, Any] = json.loads(completed.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        output = {}
    if not output or completed.exit_code != 0:
        raise _build_crash_error(bundle, completed)
    if "kind" in output:
        kind = ConfigError if output["kind"] == "config" else ReferenceSuspectError
        raise kind(*(Problem(code, text) for code, text in output["problems"]))
    return tuple(_build_case(bundle.id, case) for case in output["cases"])


def _build_case(bundle: str, case: dict[str, Any]) -> CaseResult:
    findings = tuple(
        Finding(**{**found, "details": tuple(found["details"])}) for found in case.pop("findings")
    )
    return CaseResult(bundle=bundle, findings=findings, **case)


def _build_crash_error(bundle: Bundle, completed: process.ProcessResult) -> ReferenceSuspectError:
    code = completed.signal or f"exit code {completed.exit_code}"
    end = "did not end in time" if completed.timed_out else f"ended with {code}"
    last_lines = completed.stderr.strip().splitlines()[-3:]
    message = f"{bundle.id}: the audit {end}; a library fails on one of the bundle's files"
    details = tuple(sanitize(line) for line in last_lines)
    return ReferenceSuspectError(Problem("audit-crashed", message, bundle.where.get(""), details))


def print_reader(bundle: Bundle, reader: ReaderResults, console: RunConsole) -> bool:
    """Print a reference reader's results; return whether they are as expected."""
    console.print_bundle(bundle.id, reader.summary)
    for case in reader.unexpected:
        console.print_case(case)
    errors = [error for case in reader.unexpected for error in case.errors]
    _print_findings([*reader.drift, *errors], console)
    return not reader.drift and not reader.unexpected


def print_cases(cases: tuple[CaseResult, ...], console: RunConsole) -> bool:
    """Print the results of an audit; return whether all are good."""
    for case in cases:
        console.print_case(case)
        _print_findings(case.findings, console)
    return not any(case.errors for case in cases)


def _print_findings(findings: Iterable[Finding], console: RunConsole) -> None:
    for finding in findings:
        for line in phrases.format_finding(finding):
            console.print_line(f"    {line}")


def audit_before_lock(
    bundle: Bundle,
    fetched: FetchedBundle,
    console: RunConsole,
    *,
    accept: bool,
    manifest: Path | None = None,
) -> None:
    """Audit a bundle before it is locked, if the libraries for it are installed.

    Raises:
        ReferenceSuspectError: ``audit-failed``, unless ``accept``; ``audit-crashed``.
    """
    if missing := audits.list_missing_libraries(bundle.suite):
        text = (
            f"not audited: {', '.join(missing)} not installed: "
            "pip install '.[pin]' in a clone of parity-action"
        )
        console.print_bundle(bundle.id, text)
        return
    console.print_bundle(bundle.id, "audit of the references:")
    is_ok = print_cases(audit_in_subprocess(bundle, fetched.path, manifest), console)
    if is_ok:
        return
    if accept:
        console.print_bundle(bundle.id, "the audit failed; locked anyway (--accept-audit)")
        return
    message = f"{bundle.id}: the audit found wrong references"
    hint = "nothing was written; fix the bundle, or lock it anyway with --accept-audit"
    raise ReferenceSuspectError(Problem("audit-failed", message, bundle.where.get(""), (hint,)))
