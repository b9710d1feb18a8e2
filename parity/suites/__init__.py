"""Bundle kinds, one folder each, whose module ``suite`` has the record ``SUITE``."""

from __future__ import annotations

from importlib import import_module

from parity.lockfile.parse import SUITES
from parity.suites.base import Suite


def find_suite(name: str) -> Suite | None:
    """Import and return the suite of this name; None for an unknown one."""
    return import_module(SUITES[name]).SUITE if name in SUITES else None
