"""Row 5: ten steps of torch's optimizers with frozen gradients."""

from __future__ import annotations

from typing import Any

import torch

from .seeded import draw

STEPS = 10
SHAPES = {
    "layer0.weight": (6, 8),
    "layer0.bias": (6,),
    "layer1.weight": (4, 6),
    "layer1.bias": (4,),
    "layer2.weight": (2, 4),
    "layer2.bias": (2,),
}
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd_plain": ("SGD", {"lr": 1e-2}),
    "sgd_momentum": ("SGD", {"lr": 1e-2, "momentum": 0.9}),
    "sgd_nesterov": ("SGD", {"lr": 1e-2, "momentum": 0.9, "nesterov": True}),
    "adam_default": ("Adam", {"lr": 1e-3}),
    "adam_explicit": ("Adam", {"lr": 1e-3, "betas": [0.9, 0.999], "eps": 1e-8}),
    "adamw_decoupled": ("AdamW", {"lr": 1e-3, "weight_decay": 1e-2}),
    "rmsprop_default": ("RMSprop", {"lr": 1e-3}),
    "rmsprop_momentum": ("RMSprop", {"lr": 1e-3, "momentum": 0.9, "alpha": 0.99}),
    "adagrad_default": ("Adagrad", {"lr": 1e-2}),
    "adagrad_explicit": ("Adagrad", {"lr": 1e-2, "lr_decay": 0.1, "eps": 1e-10}),
}


def make() -> dict[str, Any]:
    """Return start, gradients of each step and end of every configuration."""
    files: dict[str, Any] = {}
    for name, (kind, config) in CONFIGS.items():
        values = [draw(key, *shape).requires_grad_() for key, shape in SHAPES.items()]
        files[f"{name}/initial_params.bin"] = [value.detach().clone() for value in values]
        optimizer = getattr(torch.optim, kind)(values, **config)
        for step in range(STEPS):
            for key, value in zip(SHAPES, values, strict=True):
                value.grad = draw(f"{key} {step}", *value.shape)
            files[f"{name}/gradients_step_{step}.bin"] = [value.grad for value in values]
            optimizer.step()
        files[f"{name}/final_params.bin"] = values
        files[f"{name}/meta.json"] = {"name": name, "optimizer": kind, "config": config}
    return files
