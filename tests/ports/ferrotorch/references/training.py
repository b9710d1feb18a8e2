"""Row 8: five epochs of a small network, with live gradients."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from .seeded import draw

# The example has these in its source.
SIZES = (64, 32, 16, 8)
ITEMS, BATCH, EPOCHS = 100, 4, 5


def make() -> dict[str, Any]:
    """Return data, initial state, the state after each epoch, and the mean losses."""
    x, y = draw("x", ITEMS, SIZES[0]), draw("y", ITEMS, SIZES[-1])
    layers = {
        f"fc{number + 1}": torch.nn.Linear(SIZES[number], SIZES[number + 1]) for number in range(3)
    }
    model = torch.nn.ModuleDict(layers)
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.copy_(draw(name, *value.shape, scale=0.1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    files: dict[str, Any] = {
        "training/X_full.bin": [x],
        "training/y_full.bin": [y],
        "training/initial_state.safetensors": copy_state(model),
        "training/epoch_0_state.safetensors": copy_state(model),
    }
    losses = []
    for epoch in range(1, EPOCHS + 1):
        total = 0.0
        for start in range(0, ITEMS, BATCH):
            optimizer.zero_grad()
            hidden = F.relu(model["fc1"](x[start : start + BATCH]))
            loss = F.mse_loss(
                model["fc3"](F.relu(model["fc2"](hidden))), y[start : start + BATCH]
            )
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(total / (ITEMS // BATCH))
        files[f"training/epoch_{epoch}_state.safetensors"] = copy_state(model)
    files["training/stdout.json"] = {
        "epochs": EPOCHS,
        "batch_size": BATCH,
        "n_samples": ITEMS,
        "n_batches_per_epoch": ITEMS // BATCH,
        "epoch_losses": losses,
    }
    return files


def copy_state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Copy the parameters of ``model`` by name."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
