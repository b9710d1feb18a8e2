"""Tools for makers of bundles: pins, audits, faults, the zoo, reference readers, scoreboard."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Import ``BundleWriter`` when it is used; most tools here do without."""
    if name == "BundleWriter":
        return import_module("parity.lab.bundle_writer").BundleWriter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def resolve_hook(path: str) -> Any:
    """Import the function ``module:name`` that a suite's record names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
