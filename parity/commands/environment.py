"""Versions and machine facts that a report records."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

from parity import __version__

_PACKAGES = ("numpy", "onnx", "onnxruntime")


def facts() -> dict[str, str]:
    """What a number may depend on: versions, machine, processors."""
    found = {
        "parity": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "processors": str(os.cpu_count()),
    }
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
