"""Read the tables of ``names.toml``: operators and arguments in ATen, torch.nn and NumPy."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

NAMES: dict[str, Any] = tomllib.loads(
    files("parity.diagnose.stages").joinpath("names.toml").read_text(encoding="utf-8")
)
