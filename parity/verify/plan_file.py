"""The file of a plan: the jobs of a matrix, and what their reports must agree with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parity.known_failures import match_glob
from parity.reports.json_reader import load_json

_JOB_KEYS = ("name", "bundles", "cases")
_BUNDLE_KEYS = ("suite", "digest", "tree", "manifest")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A plan that was read."""

    cases: list[str]  # `bundle/case`, or `bundle/*` for a bundle that was not available
    lock_sha256: str = ""  # of the lockfile; empty if the plan does not state it
    version: str = ""  # of parity; empty if the plan does not state it
    #: By id, the bundle's suite and digests, as far as known.
    bundles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def has_bundle(self, bundle: str) -> bool:
        """Return whether a case of the bundle is planned."""
        return any(name.partition("/")[0] == bundle for name in self.cases)

    def has_case(self, case: str) -> bool:
        """Return whether ``bundle/case`` is planned."""
        return any(match_glob(name, case) for name in self.cases)


def read_plan(path: Path) -> Plan:
    """Read a plan that ``parity plan --out`` wrote.

    Raises:
        ValueError: It is not a plan.
        OSError: The file cannot be read.
    """
    value = load_json(path)
    try:
        jobs = [{key: _check_text(job[key]) for key in _JOB_KEYS} for job in value["include"]]
        bundles = {
            name: {key: _check_text({"manifest": "", **one}[key]) for key in _BUNDLE_KEYS}
            for name, one in value.get("bundles", {}).items()
        }
        return Plan(
            cases=[case for job in jobs for case in job["cases"].splitlines()],
            lock_sha256=_check_text(value.get("lock_sha256", "")),
            version=_check_text(value.get("version", "")),
            bundles=bundles,
        )
    except (KeyError, TypeError, AttributeError) as error:
        message = f"is not a plan: {error!r:.200}"
        raise ValueError(message) from error


def _check_text(value: Any) -> str:
    if type(value) is not str:
        message = f"expected a text, obtained {value!r:.80}"
        raise TypeError(message)
    return value
