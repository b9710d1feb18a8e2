"""One bundle audited in a process of its own, bounded in time."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import parity
from parity import audits, process
from parity.errors import ConfigError, Problem, ReferenceSuspectError
from parity.reports import wording
from parity.results import CaseResult, Finding
from parity.safetext import safe

if TYPE_CHECKING:
    from parity.commands.references import Column
    from parity.fixtures.store import Fetched
    from parity.lockfile import Bundle
    from parity.reports.console import Teller

#: Seconds for one bundle; a file that makes a reader loop ends here.
SECONDS = 1800.0
_LONGEST = 8 * 2**20


def cases_of(bundle: Bundle, tree: Path) -> tuple[CaseResult, ...]:
    """The audited cases of an unpacked bundle.

    Raises:
        ConfigError: ``missing-library``.
        ReferenceSuspectError: No case could be read; or ``audit-crashed``: a library crashed
            or did not end on what is in the bundle.
    """
    words = [sys.executable, "-m", "parity.audits", bundle.suite, str(tree), bundle.id]
    home = Path(parity.__file__).parent.parent
    env = process.environment({"PYTHONPATH": str(home), "PYTHONWARNINGS": "ignore"})
    ended = process.run(words, cwd=home, env=env, timeout=SECONDS, stdout_limit=_LONGEST)
    found = _parsed(ended.stdout) if ended.exit_code == 0 else None
    if found is None:
        raise _crashed(bundle, ended)
    if "kind" in found:
        kind = ConfigError if found["kind"] == "config" else ReferenceSuspectError
        raise kind(*(Problem(code, text) for code, text in found["problems"]))
    return tuple(_case(bundle.id, case) for case in found["cases"])


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return None
    return found


def _case(bundle: str, case: dict[str, Any]) -> CaseResult:
    findings = tuple(
        Finding(**{**found, "details": tuple(found["details"])}) for found in case.pop("findings")
    )
    return CaseResult(bundle=bundle, findings=findings, **case)


def _crashed(bundle: Bundle, ended: process.Completed) -> ReferenceSuspectError:
    end = "did not end in time" if ended.timed_out else f"ended with {_end(ended)}"
    said = ended.stderr.strip().splitlines()[-3:]
    message = f"{bundle.id}: the audit {end}; a library cannot cope with what the bundle holds"
    details = tuple(safe(line) for line in said)
    return ReferenceSuspectError(Problem("audit-crashed", message, bundle.where.get(""), details))


def _end(ended: process.Completed) -> str:
    return ended.signal or f"exit code {ended.exit_code}"


def tell_column(bundle: Bundle, column: Column, teller: Teller) -> bool:
    """Say what a reference reader made of its cases; whether that is as it should be."""
    teller.bundle(bundle.id, column.summary)
    for case in column.bad:
        teller.case(case)
    for finding in (*column.drift, *(found for case in column.bad for found in case.errors)):
        for line in wording.finding_lines(finding):
            teller.line(f"    {line}")
    return not column.drift and not column.bad


def tell(cases: tuple[CaseResult, ...], teller: Teller) -> bool:
    """Say what an audit found; whether all of it is well."""
    for case in cases:
        teller.case(case)
        for finding in case.findings:
            for line in wording.finding_lines(finding):
                teller.line(f"    {line}")
    return not any(case.errors for case in cases)


def audited(bundle: Bundle, fetched: Fetched, teller: Teller, *, accept: bool) -> None:
    """Audit a bundle that is about to be locked, if the libraries for it are here.

    Raises:
        ReferenceSuspectError: ``audit-failed``, unless ``accept``; ``audit-crashed``.
    """
    if lacking := audits.missing(bundle.suite):
        text = f"not audited: {', '.join(lacking)} not installed here; nox -s audit does it"
        teller.bundle(bundle.id, text)
        return
    teller.bundle(bundle.id, "audit of the references:")
    well = tell(cases_of(bundle, fetched.path), teller)
    if well:
        return
    if accept:
        teller.bundle(bundle.id, "the audit failed; locked all the same (--accept-audit)")
        return
    message = f"{bundle.id}: the audit found references that are not what they should be"
    hint = "nothing was written; mend the bundle, or lock it as it is with --accept-audit"
    raise ReferenceSuspectError(Problem("audit-failed", message, bundle.where.get(""), (hint,)))
