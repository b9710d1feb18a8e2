"""The libraries that only bundle authors need, imported late and with a helpful error.

A machine that only verifies has neither torch, safetensors, gguf nor onnx. They are imported by
name, inside the functions that use them, so that no other verb pays for them.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module, metadata
from typing import Any

from parity.errors import ConfigError, Problem


def import_library(name: str) -> Any:
    """Import the module ``name``, such as ``torch`` or ``safetensors.torch``.

    Raises:
        ConfigError: ``missing-library``.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise _make_missing_error(name) from error


@cache
def find_version(distribution: str) -> str | None:
    """Find the installed version without its build (``+cu132``); None where not installed."""
    try:
        return metadata.version(distribution).partition("+")[0]
    except metadata.PackageNotFoundError:
        return None


def require_version(distribution: str) -> str:
    """Return the same.

    Raises:
        ConfigError: ``missing-library``.
    """
    version = find_version(distribution)
    if version is None:
        raise _make_missing_error(distribution)
    return version


def _make_missing_error(name: str) -> ConfigError:
    message = (
        f"{name} is needed but not installed: pip install '.[pin]' in a clone of parity-action"
    )
    return ConfigError(Problem("missing-library", message))
