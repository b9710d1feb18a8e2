"""Derive every reference of a bundle again, with the libraries that made it.

One module a bundle kind. They share no code with ``pins``, so that a mistake made there is not
repeated here; only ``lab.readers`` and ``lab.libraries`` are used by both, and ``lab.op_zoo`` to
call torch's operators.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from parity.errors import ConfigError, Problem
from parity.lab import resolve_hook
from parity.lab.audits.compare_reference import Provenance
from parity.results import CaseResult
from parity.suites import find_suite
from parity.suites.base import Suite


def list_missing_libraries(suite: str) -> list[str]:
    """List the libraries that are not installed and that auditing a bundle of this suite needs."""
    return [name for name in _get_suite(suite).audit_libraries if find_spec(name) is None]


def audit(
    suite: str, tree: Path, bundle: str, manifest: Path | None = None
) -> tuple[CaseResult, ...]:
    """Derive the references of an unpacked bundle again; findings are of kind ``reference``.

    ``manifest`` is one beside the lockfile, for the suite `tensors`.

    Raises:
        ConfigError: ``missing-library``.
        ReferenceSuspectError: The bundle has no case that could be read.
    """
    record = _get_suite(suite)
    provenance = Provenance.read(tree, record.audit_libraries)
    cases: tuple[CaseResult, ...] = resolve_hook(record.audit)(
        tree, bundle, provenance, **({"manifest": manifest} if manifest else {})
    )
    return cases


def _get_suite(name: str) -> Suite:
    suite = find_suite(name)
    if suite is None:
        raise ConfigError(Problem("no-such-suite", f"unknown suite {name!r}"))
    return suite
