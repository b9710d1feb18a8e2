"""Collect the versions and machine facts that a report records."""

from __future__ import annotations

import os
import platform
import sys
from itertools import product
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
    # The metadata folder's name has the version; importlib.metadata is as slow as NumPy.
    for package, folder, kind in product(_PACKAGES, map(Path, sys.path), ("dist", "egg")):
        for path in folder.glob(f"{package}-*.{kind}-info"):
            version = path.name.removesuffix(f".{kind}-info").split("-")[1]
            environment.setdefault(package, version)
    return environment
