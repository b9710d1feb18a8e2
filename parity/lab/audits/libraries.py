"""The libraries that references are derived with, imported late."""

from __future__ import annotations

from importlib import import_module, metadata
from typing import Any

from parity.errors import ConfigError, Problem


def import_library(name: str) -> Any:
    """The module ``name``, such as ``torch`` or ``safetensors.torch``.

    Raises:
        ConfigError: ``missing-library``.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        message = f"audit needs {name}, which is not installed: pip install 'parity-action[pin]'"
        raise ConfigError(Problem("missing-library", message)) from error


def find_version(distribution: str) -> str | None:
    """Installed version without the part that names a build, None where it is not installed."""
    try:
        return metadata.version(distribution).partition("+")[0]
    except metadata.PackageNotFoundError:
        return None
