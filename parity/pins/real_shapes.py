"""Names and shapes of two models as published, for bundles of real size.

Sources: torchvision's ``resnet18`` (122 entries of its state dict), and
SmolLM2-135M-Instruct as converted to GGUF by llama.cpp (272 tensors).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from parity.pins.draws import Draws
from parity.pins.serialize_gguf import Spec
from parity.pins.toolchain import library

if TYPE_CHECKING:
    from collections.abc import Iterator

    Shaped = Iterator[tuple[str, tuple[int, ...]]]

_WIDTHS = (64, 128, 256, 512)
_LAYERS, _EMBED, _KEYS, _FEED, _WORDS = 30, 576, 192, 1536, 49152
COUNTER = "num_batches_tracked"
_BUFFERS = ("running_mean", "running_var", COUNTER)


def resnet18_state(seed: int, *, counters: bool) -> OrderedDict[str, Any]:
    """A state dict with resnet18's names and shapes: f32, and int64 ``counters`` if asked for.

    The published checkpoint of upstream's bundle has none (102 tensors); a module's own
    state dict has twenty.
    """
    state: OrderedDict[str, Any] = OrderedDict()
    for name, shape in resnet18_shapes():
        if counters or not name.endswith(COUNTER):
            state[name] = _entry(name, shape, seed)
    return state


def _entry(name: str, shape: tuple[int, ...], seed: int) -> Any:
    torch = library("torch")
    draws = Draws(seed, name)
    if name.endswith(COUNTER):
        return torch.tensor(int(draws.integers(1, 2**20)), dtype=torch.int64)
    values = torch.from_numpy(draws.dyadic(*shape))
    return values if name.endswith(_BUFFERS) else torch.nn.Parameter(values)


def resnet18_shapes() -> Shaped:
    """Names and shapes in the order of the state dict."""
    yield "conv1.weight", (64, 3, 7, 7)
    yield from _batch_norm("bn1", 64)
    before = 64
    for layer, width in enumerate(_WIDTHS, 1):
        yield from _basic_block(f"layer{layer}.0", before, width)
        yield from _basic_block(f"layer{layer}.1", width, width)
        before = width
    yield "fc.weight", (1000, 512)
    yield "fc.bias", (1000,)


def _basic_block(name: str, before: int, width: int) -> Shaped:
    yield f"{name}.conv1.weight", (width, before, 3, 3)
    yield from _batch_norm(f"{name}.bn1", width)
    yield f"{name}.conv2.weight", (width, width, 3, 3)
    yield from _batch_norm(f"{name}.bn2", width)
    if before != width:
        yield f"{name}.downsample.0.weight", (width, before, 1, 1)
        yield from _batch_norm(f"{name}.downsample.1", width)


def _batch_norm(name: str, width: int) -> Shaped:
    for part in ("weight", "bias", "running_mean", "running_var"):
        yield f"{name}.{part}", (width,)
    yield f"{name}.{COUNTER}", ()


def smollm2_specs() -> list[Spec]:
    """SmolLM2-135M's tensors in Q8_0, its norms in F32."""
    layers = [spec for layer in range(_LAYERS) for spec in _block(f"blk.{layer}")]
    embedding = Spec("token_embd.weight", "Q8_0", (_WORDS, _EMBED))
    return [embedding, *layers, Spec("output_norm.weight", "F32", (_EMBED,))]


def _block(name: str) -> list[Spec]:
    matrices = {
        "attn_q": (_EMBED, _EMBED),
        "attn_k": (_KEYS, _EMBED),
        "attn_v": (_KEYS, _EMBED),
        "attn_output": (_EMBED, _EMBED),
        "ffn_gate": (_FEED, _EMBED),
        "ffn_up": (_FEED, _EMBED),
        "ffn_down": (_EMBED, _FEED),
    }
    norms = [Spec(f"{name}.{norm}.weight", "F32", (_EMBED,)) for norm in ("attn_norm", "ffn_norm")]
    return norms + [Spec(f"{name}.{part}.weight", "Q8_0", dims) for part, dims in matrices.items()]
