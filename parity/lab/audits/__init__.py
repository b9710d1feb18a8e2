"""Audits: every reference of a bundle derived once more, by those that made it.

One module a bundle kind. They share no code with ``pins``, so that a mistake made in
pinning is not made again here; only how a reader is asked (``readers``) is one room for both.
The upstream libraries are imported inside functions.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from parity.lab.audits.compare_reference import Provenance

if TYPE_CHECKING:
    from pathlib import Path

    from parity.results import CaseResult

#: Module and libraries of each suite.
_AUDITS = {
    "dataloader": ("parity.lab.audits.dataloader", ("torch",)),
    "pipeline": ("parity.lab.audits.pipeline", ("numpy",)),
    "serialize": ("parity.lab.audits.serialize", ("torch", "safetensors", "gguf")),
    "tensors": ("parity.lab.audits.tensors", ("torch", "safetensors", "gguf")),
}


def list_missing_libraries(suite: str) -> list[str]:
    """Libraries that auditing a bundle of this suite needs and that are not installed."""
    return [name for name in _AUDITS[suite][1] if find_spec(name) is None]


def audit(suite: str, tree: Path, bundle: str) -> tuple[CaseResult, ...]:
    """Derive the references of a bundle again; findings are of kind ``reference``.

    Args:
        suite: One of the lockfile's.
        tree: The unpacked bundle.
        bundle: Its id.

    Raises:
        ConfigError: ``missing-library``.
        ReferenceSuspectError: The bundle has no case that could be read.
    """
    module, libraries = _AUDITS[suite]
    provenance = Provenance.read(tree, libraries)
    cases: tuple[CaseResult, ...] = import_module(module).audit(tree, bundle, provenance)
    return cases
