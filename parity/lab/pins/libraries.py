"""The libraries that references come from, imported late and with a helpful error.

torch, safetensors, gguf and onnx are needed by ``pin`` alone, and a machine that
only verifies does not have them. They are imported by name, inside the functions
that use them, so that no other verb pays for them.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import Any

from parity.errors import ConfigError, Problem


def import_library(name: str) -> Any:
    """The module ``name``, such as ``torch`` or ``safetensors.torch``.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise _make_missing_error(name) from error


def find_version(distribution: str) -> str:
    """Installed version, without the local part that names a build (``+cpu``, ``+cu132``).

    Raises:
        ConfigError: It is not installed.
    """
    try:
        return metadata.version(distribution).partition("+")[0]
    except metadata.PackageNotFoundError as error:
        raise _make_missing_error(distribution) from error


def _make_missing_error(name: str) -> ConfigError:
    message = f"pin needs {name}, which is not installed: pip install 'parity-action[pin]'"
    return ConfigError(Problem("missing-library", message))
