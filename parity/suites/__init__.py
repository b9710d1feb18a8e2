"""Bundle kinds, one module each, registered here by name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parity.suites.base import Suite

_MODULES = {
    "dataloader": "parity.suites.dataloader.suite",
    "pipeline": "parity.suites.pipeline",
    "serialize": "parity.suites.serialize.suite",
    "tensors": "parity.suites.tensors.suite",
}


def find_suite(name: str) -> Suite | None:
    """The suite of this name, its module imported only now; None for an unknown one."""
    module = _MODULES.get(name)
    return None if module is None else import_module(module).SUITE
