"""Seeded values that are the same on every machine."""

from __future__ import annotations

import zlib

import numpy as np
import torch


def draw(name: str, *shape: int, scale: float = 1.0) -> torch.Tensor:
    """Draw standard normal f32 values, whose seed is ``name`` and ``shape``."""
    rng = np.random.Generator(np.random.Philox(zlib.crc32(f"{name}{shape}".encode())))
    return torch.from_numpy(scale * rng.standard_normal(shape)).float()


def fill(module: torch.nn.Module, scale: float = 0.1) -> torch.nn.Module:
    """Give every parameter of ``module`` seeded values; norms keep ones in their weights."""
    with torch.no_grad():
        for name, value in module.named_parameters():
            is_norm = value.ndim == 1 and name.endswith("weight")
            value.copy_(draw(name, *value.shape, scale=scale) + float(is_norm))
    return module.eval()
