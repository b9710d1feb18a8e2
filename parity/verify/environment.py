"""Collect the versions and machine facts that a report records."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

from parity import __version__

_PACKAGES = ("numpy", "onnx", "onnxruntime")


def collect_environment() -> dict[str, str]:
    """Return the facts that a number may depend on: versions, machine, processors."""
    environment = {
        "parity": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "processors": str(os.cpu_count()),
    }
    for package in _PACKAGES:
        if version := _find_version(package):
            environment[package] = version
    return environment


def _find_version(package: str) -> str:
    """Read the version from the metadata folder's name; importlib.metadata is as slow as NumPy."""
    for folder in map(Path, sys.path):
        for kind in ("dist", "egg"):
            for path in folder.glob(f"{package}-*.{kind}-info"):
                return path.name.removesuffix(f".{kind}-info").split("-")[1]
    return ""
