"""Names and shapes of two models as published, for bundles of real size.

Sources: torchvision's ``resnet18`` (122 entries of its state dict), and
SmolLM2-135M-Instruct as converted to GGUF by llama.cpp (272 tensors).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from parity.lab.libraries import import_library
from parity.lab.pins.seeded_random import SeededRandom
from parity.lab.pins.serialize_gguf import GgufTensorSpec

NamedShapes = Iterator[tuple[str, tuple[int, ...]]]

_WIDTHS = (64, 128, 256, 512)
_NUM_LAYERS, _EMBEDDING, _KEY_WIDTH, _FEED_FORWARD, _VOCABULARY = 30, 576, 192, 1536, 49152
COUNTER_NAME = "num_batches_tracked"
_BUFFERS = ("running_mean", "running_var", COUNTER_NAME)


def make_resnet18_state(seed: int, *, counters: bool) -> OrderedDict[str, Any]:
    """Make a state dict with resnet18's names and shapes: f32, and int64 with ``counters``.

    The published checkpoint of upstream's bundle has none (102 tensors); a module's own
    state dict has twenty.
    """
    state: OrderedDict[str, Any] = OrderedDict()
    for name, shape in list_resnet18_shapes():
        if counters or not name.endswith(COUNTER_NAME):
            state[name] = _make_tensor(name, shape, seed)
    return state


def _make_tensor(name: str, shape: tuple[int, ...], seed: int) -> Any:
    torch = import_library("torch")
    random = SeededRandom(seed, name)
    if name.endswith(COUNTER_NAME):
        return torch.tensor(int(random.draw_integers(1, 2**20)), dtype=torch.int64)
    values = torch.from_numpy(random.draw_dyadic(*shape))
    return values if name.endswith(_BUFFERS) else torch.nn.Parameter(values)


def list_resnet18_shapes() -> NamedShapes:
    """Yield names and shapes in the order of the state dict."""
    yield "conv1.weight", (64, 3, 7, 7)
    yield from _list_batch_norm("bn1", 64)
    width_before = 64
    for layer, width in enumerate(_WIDTHS, 1):
        yield from _list_basic_block(f"layer{layer}.0", width_before, width)
        yield from _list_basic_block(f"layer{layer}.1", width, width)
        width_before = width
    yield "fc.weight", (1000, 512)
    yield "fc.bias", (1000,)


def _list_basic_block(name: str, width_before: int, width: int) -> NamedShapes:
    yield f"{name}.conv1.weight", (width, width_before, 3, 3)
    yield from _list_batch_norm(f"{name}.bn1", width)
    yield f"{name}.conv2.weight", (width, width, 3, 3)
    yield from _list_batch_norm(f"{name}.bn2", width)
    if width_before != width:
        yield f"{name}.downsample.0.weight", (width, width_before, 1, 1)
        yield from _list_batch_norm(f"{name}.downsample.1", width)


def _list_batch_norm(name: str, width: int) -> NamedShapes:
    for part in ("weight", "bias", "running_mean", "running_var"):
        yield f"{name}.{part}", (width,)
    yield f"{name}.{COUNTER_NAME}", ()


def list_smollm2_specs() -> list[GgufTensorSpec]:
    """List SmolLM2-135M's tensors in Q8_0, its norms in F32."""
    layers = [
        spec for layer in range(_NUM_LAYERS) for spec in _list_transformer_block(f"blk.{layer}")
    ]
    embedding = GgufTensorSpec("token_embd.weight", "Q8_0", (_VOCABULARY, _EMBEDDING))
    return [embedding, *layers, GgufTensorSpec("output_norm.weight", "F32", (_EMBEDDING,))]


def _list_transformer_block(name: str) -> list[GgufTensorSpec]:
    matrices = {
        "attn_q": (_EMBEDDING, _EMBEDDING),
        "attn_k": (_KEY_WIDTH, _EMBEDDING),
        "attn_v": (_KEY_WIDTH, _EMBEDDING),
        "attn_output": (_EMBEDDING, _EMBEDDING),
        "ffn_gate": (_FEED_FORWARD, _EMBEDDING),
        "ffn_up": (_FEED_FORWARD, _EMBEDDING),
        "ffn_down": (_EMBEDDING, _FEED_FORWARD),
    }
    norms = [
        GgufTensorSpec(f"{name}.{norm}.weight", "F32", (_EMBEDDING,))
        for norm in ("attn_norm", "ffn_norm")
    ]
    return norms + [
        GgufTensorSpec(f"{name}.{part}.weight", "Q8_0", dims) for part, dims in matrices.items()
    ]
