"""Make a small state dict with everything that a .pth reader meets in practice."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import numpy as np

from parity.lab.libraries import import_library
from parity.lab.pins.seeded_random import SeededRandom

#: Beyond 2**24: an int64 counter that went through f32 becomes another number.
COUNTER_VALUE = 2**24 + 1
_PARAMETERS = {
    "conv1.weight": (6, 3, 3, 2),
    "bn1.weight": (6,),
    "bn1.bias": (6,),
    "layer1.conv.weight": (5, 6, 2, 3),
    "layer1.conv.bias": (5,),
    "fc.weight": (4, 10),
    "fc.bias": (4,),
}
_BUFFERS = {"bn1.running_mean": (6,), "bn1.running_var": (6,), "layer1.table": (2, 3, 7)}


def make_plain_state(seed: int) -> OrderedDict[str, Any]:
    """Make contiguous f32 parameters and buffers, as upstream's bundle has them.

    No counters: ferrotorch 0.6.2 rejects a .pth that has an int64 tensor, and the
    checkpoint of upstream's bundle has none.
    """
    torch = import_library("torch")
    state: OrderedDict[str, Any] = OrderedDict()
    for name, shape in _PARAMETERS.items():
        state[name] = torch.nn.Parameter(_draw_tensor(seed, name, shape))
    for name, shape in _BUFFERS.items():
        state[name] = _draw_tensor(seed, name, shape)
    return state


def make_rich_state(seed: int) -> OrderedDict[str, Any]:
    """Add counters, further dtypes, strides, offsets and shared storages to the plain state."""
    torch = import_library("torch")
    state = make_plain_state(seed)
    state["bn1.num_batches_tracked"] = torch.tensor(COUNTER_VALUE, dtype=torch.int64)
    state["layer1.steps"] = torch.tensor([-1, COUNTER_VALUE, 2**40 + 3], dtype=torch.int64)
    state.update(_make_views(seed))
    state.update(_make_shared(seed))
    state.update(_make_other_dtypes(seed))
    # Another name for the very same parameter, as tied embeddings have it.
    state["tied.weight"] = state["fc.weight"]
    return state


def _draw_tensor(seed: int, name: str, shape: Iterable[int]) -> Any:
    return import_library("torch").from_numpy(SeededRandom(seed, name).draw_dyadic(*shape))


def _make_views(seed: int) -> dict[str, Any]:
    """Make tensors whose elements are not in row-major order, or have gaps."""
    torch = import_library("torch")
    base = _draw_tensor(seed, "views", (8, 9))
    images = _draw_tensor(seed, "images", (2, 3, 4, 5))
    return {
        "views.scalar": _draw_tensor(seed, "scalar", ()),
        "views.transposed": torch.nn.Parameter(_draw_tensor(seed, "transposed", (5, 7)).t()),
        "views.permuted": _draw_tensor(seed, "permuted", (2, 3, 4)).permute(2, 0, 1),
        "views.channels_last": images.contiguous(memory_format=torch.channels_last),
        "views.rows": base[2:5],
        "views.columns": base[:, 3:7],
        "views.stepped": base[1::3, ::2],
        "views.expanded": _draw_tensor(seed, "expanded", (1, 6)).expand(4, 6),
    }


def _make_shared(seed: int) -> dict[str, Any]:
    """Make three tensors on one storage of 60 elements, two of them from within."""
    flat = _draw_tensor(seed, "shared", (60,))
    return {
        "shared.whole": flat.view(5, 12),
        "shared.head": flat[7:27].view(4, 5),
        "shared.tail": flat[31:].view(29)[:24].view(6, 4).t(),
    }


def _make_other_dtypes(seed: int) -> dict[str, Any]:
    torch = import_library("torch")
    half = torch.from_numpy(SeededRandom(seed, "half").draw_dyadic(4, 7, largest=2047)).half()
    brain = torch.from_numpy(
        SeededRandom(seed, "bfloat16").draw_dyadic(3, 8, largest=255)
    ).bfloat16()
    double = torch.from_numpy(_draw_doubles(seed, 6, 5))
    return {
        "half.weight": torch.nn.Parameter(half),
        "half.rows": half[1:3],
        "half.transposed": half.t(),
        "bfloat16.weight": torch.nn.Parameter(brain),
        "bfloat16.columns": brain[:, 2:5],
        "double.weight": double,
        "double.transposed": double.t(),
        "double.ties": torch.from_numpy(_TIES),
    }


def _draw_doubles(seed: int, *shape: int) -> Any:
    """Draw f64 with bits that f32 does not have, so that rounding and truncating differ."""
    random = SeededRandom(seed, "double")
    return (
        random.draw_dyadic(*shape).astype(np.float64)
        + random.draw_integers(1, 2**20, *shape) / 2.0**40
    )


#: Half way between two neighbours in f32; the even one is right, up as often as down.
_TIES = np.array([1 + 2**-24, 1 + 3 * 2**-24, -(1 + 5 * 2**-24), 2 + 2**-23, 0.5 + 3 * 2**-25])
