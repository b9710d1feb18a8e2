"""Small models of torch whose traces are the bundle `model-traces-v1`.

``pin trace`` draws every parameter and every floating-point input from PCG64, so nothing here is
random. Each model takes its target, too, and returns (output, loss); ``layers`` returns many
outputs, one for each operator that no other model has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - torch's documentation calls it so

Tensor = Any  # of torch, which has no types here
#: Settings at which every wrong way of an optimizer shows; dampening shows where momentum begins.
OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda parameters: torch.optim.SGD(
        parameters, lr=0.05, momentum=0.9, dampening=0.1, weight_decay=0.02
    ),
    "adamw": lambda parameters: torch.optim.AdamW(
        parameters, lr=0.01, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.05
    ),
    "adam": lambda parameters: torch.optim.Adam(
        parameters, lr=0.01, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.05
    ),
}


def take_loss(outputs: tuple[Tensor, Tensor]) -> Tensor:
    """Return the loss of a model that returns (output, loss)."""
    return outputs[1]


def _train(
    model: nn.Module, inputs: dict[str, Tensor], optimizers: Sequence[str] = ("sgd", "adamw")
) -> tuple[Any, ...]:
    return model, inputs, take_loss, {name: OPTIMIZERS[name] for name in optimizers}


class Mlp(nn.Module):
    """Linear, ReLU, Linear, Tanh, Linear; the mean of squared errors."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(6, 8), nn.Linear(8, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Take ``[4, 6]`` and ``[4, 3]``."""
        output = self.fc3(self.fc2(self.fc1(x).relu()).tanh())
        return output, F.mse_loss(output, target)


def mlp() -> tuple[Any, ...]:
    """Make a multilayer perceptron, which Adam trains, too."""
    inputs = {"x": torch.zeros(4, 6), "target": torch.zeros(4, 3)}
    return _train(Mlp(), inputs, [*OPTIMIZERS])


class Cnn(nn.Module):
    """Two convolutions, the second in groups and dilated, with BatchNorm and all poolings."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4, eps=1e-5)
        self.pool1 = nn.MaxPool2d(3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(4, 4, 3, stride=1, padding=2, dilation=2, groups=2)
        self.pool2 = nn.AvgPool2d(2, stride=1, padding=1)
        self.pool3 = nn.AdaptiveAvgPool2d(2)
        self.fc = nn.Linear(16, 3)

    def forward(self, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Take ``[2, 2, 8, 8]`` and classes ``[2]``."""
        hidden = self.pool1(F.leaky_relu(self.norm(self.conv1(x)), 0.05))
        hidden = self.pool3(self.pool2(self.conv2(hidden)))
        output = self.fc(hidden.flatten(1))
        return output, F.cross_entropy(output, target)


def cnn() -> tuple[Any, ...]:
    """Make a convolutional network; training uses the batch's statistics."""
    inputs = {"x": torch.zeros(2, 2, 8, 8), "target": torch.tensor([2, 0])}
    return _train(Cnn(), inputs)


class Encoder(nn.Module):
    """A block of a transformer encoder, post-norm, with two heads and GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.out = nn.Linear(8, 8)
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.fc1, self.fc2 = nn.Linear(8, 12), nn.Linear(12, 8)

    def forward(self, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Take ``[2, 5, 8]`` twice; heads are ``[2, 2, 5, 4]``."""
        heads = [one(x).view(2, 5, 2, 4).transpose(1, 2) for one in (self.q, self.k, self.v)]
        mixed = F.scaled_dot_product_attention(*heads).transpose(1, 2).reshape(2, 5, 8)
        x = self.norm1(x + self.out(mixed))
        output = self.norm2(x + self.fc2(F.gelu(self.fc1(x))))
        return output, F.smooth_l1_loss(output, target, beta=0.5)


def encoder() -> tuple[Any, ...]:
    """Make a block of a transformer encoder."""
    inputs = {"x": torch.zeros(2, 5, 8), "target": torch.zeros(2, 5, 8)}
    return _train(Encoder(), inputs)


class Decoder(nn.Module):
    """A block of a decoder: RMSNorm, rotary embedding, 4 query heads on 2, SiLU gate, causal."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 8)
        self.norm1, self.norm2 = nn.RMSNorm(8, eps=1e-6), nn.RMSNorm(8, eps=1e-6)
        self.q = nn.Linear(8, 16, bias=False)
        self.k, self.v = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)
        self.out = nn.Linear(16, 8, bias=False)
        self.gate, self.up = nn.Linear(8, 12, bias=False), nn.Linear(8, 12, bias=False)
        self.down, self.head = nn.Linear(12, 8, bias=False), nn.Linear(8, 7, bias=False)
        self.rotary = RotaryEmbedding()

    def forward(self, tokens: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Take indices ``[2, 5]`` twice; a target of -100 does not count."""
        x = self.embed(tokens)
        normed = self.norm1(x)
        q, k, v = (
            one(normed).view(2, 5, -1, 4).transpose(1, 2) for one in (self.q, self.k, self.v)
        )
        mixed = F.scaled_dot_product_attention(
            self.rotary(q), self.rotary(k), v, is_causal=True, enable_gqa=True
        )
        x = x + self.out(mixed.transpose(1, 2).reshape(2, 5, 16))
        normed = self.norm2(x)
        x = x + self.down(F.silu(self.gate(normed)) * self.up(normed))
        output = self.head(x)
        return output, F.cross_entropy(output.view(10, 7), target.view(10))


class RotaryEmbedding(nn.Module):
    """Rotate pairs of ``[…, length, width]`` by position times ``base ** (-2i / width)``."""

    def __init__(
        self, base: float = 10000.0, *, interleaved: bool = False, offset: int = 0
    ) -> None:
        super().__init__()
        self.base, self.interleaved, self.offset = base, interleaved, offset

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - as our own operator names it
        """Pairs are neighbours if ``interleaved``, else the two halves of the width."""
        length, width = input.shape[-2:]
        powers = torch.arange(0, width, 2, dtype=input.dtype) / -width
        places = torch.arange(self.offset, self.offset + length, dtype=input.dtype)
        angles = torch.outer(places, self.base**powers)
        cosine, sine = angles.cos(), angles.sin()
        if self.interleaved:
            one, two = input[..., ::2], input[..., 1::2]
            return torch.stack([one * cosine - two * sine, one * sine + two * cosine], -1).flatten(
                -2
            )
        one, two = input.chunk(2, -1)
        return torch.cat([one * cosine - two * sine, one * sine + two * cosine], -1)


def decoder() -> tuple[Any, ...]:
    """Make a block of a decoder with grouped queries."""
    tokens = torch.tensor([[1, 4, 2, 6, 0], [3, 3, 5, 1, 2]])
    target = torch.tensor([[4, 2, 6, 0, -100], [3, 5, 1, 2, 6]])
    return _train(Decoder(), {"tokens": tokens, "target": target})


class Lstm(nn.Module):
    """An LSTM from a state of zeros, and a Linear on its outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True)
        self.fc = nn.Linear(4, 2)

    def forward(self, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Take ``[2, 5, 3]`` and ``[2, 5, 2]``."""
        output = self.fc(self.lstm(x)[0])
        return output, F.l1_loss(output, target)


def lstm() -> tuple[Any, ...]:
    """Make an LSTM."""
    inputs = {"x": torch.zeros(2, 5, 3), "target": torch.zeros(2, 5, 2)}
    return _train(Lstm(), inputs)


class Bag(nn.Module):
    """Means of embeddings in bags, and a loss with class weights and label smoothing."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.EmbeddingBag(9, 4, mode="mean", padding_idx=2)
        self.fc = nn.Linear(4, 3)
        self.register_buffer("class_weight", torch.ones(3))

    def forward(self, tokens: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Take indices ``[4, 3]``, of which 2 is padding, and classes ``[4]``, -100 for none."""
        output = self.fc(self.embed(tokens))
        return output, F.cross_entropy(
            output, target, weight=self.class_weight, label_smoothing=0.1
        )


def bag() -> tuple[Any, ...]:
    """Make a classifier of bags of words."""
    tokens = torch.tensor([[1, 4, 2], [8, 2, 2], [5, 6, 7], [3, 0, 1]])
    target = torch.tensor([0, 2, -100, 1])
    return _train(Bag(), {"tokens": tokens, "target": target})


class Mixer(nn.Module):
    """Modules that export takes apart; a branch on data makes export reject the model."""

    def __init__(self) -> None:
        super().__init__()
        self.rotary = RotaryEmbedding(1000.0, interleaved=True, offset=1)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Take ``[2, 5, 8]`` and ``[5, 5]``, which is added to the scores."""
        x = self.rotary(x if x.sum() < 1e9 else -x)  # noqa: PLR2004 - it is always below
        return self.norm(self.attention(x, x, x, attn_mask=mask, need_weights=False)[0])


def mixer() -> tuple[Any, ...]:
    """Make a model that only hooks can trace."""
    return Mixer(), {"x": torch.zeros(2, 5, 8), "mask": torch.zeros(5, 5)}


class Layers(nn.Module):
    """Operators that no other model has, each an output of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.group, self.instance = nn.GroupNorm(2, 4), nn.InstanceNorm2d(4)
        self.up = nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1)
        self.gru = nn.GRU(4, 3)
        self.embed = nn.Embedding(6, 4, padding_idx=1)
        self.register_buffer("class_weight", torch.ones(4))

    def forward(self, image: Tensor, table: Tensor, indices: Tensor, labels: Tensor) -> Any:
        """Take ``[2, 4, 5, 5]``, ``[3, 4, 4]``, indices ``[4, 4]`` below 4, and classes ``[3]``."""
        row, other, large = table[0], table[1], table[-1] * 400
        statistics = row[0] / 5, self.class_weight * 0.5
        logs, summed = F.log_softmax(table[:, 0], 1), {"reduction": "sum"}
        return [
            *(self.group(image / 10), self.instance(image / 10), self.up(image)),
            F.rms_norm(row / 100, [4], self.class_weight, eps=1e-5),
            F.batch_norm(image / 10, *statistics, training=True, momentum=0.0, eps=1e-3),
            *(F.group_norm(image / 10, 2, eps=1e-4), F.layer_norm(row / 100, [4], eps=1e-4)),
            *(F.elu(row, 0.5), F.selu(row), F.softplus(other, beta=2.0, threshold=1.0)),
            *(F.elu(row / 1e4), F.selu(row / 1e4), F.softplus(row / 10 - 14)),
            torch.ops.aten.elu(row, 0.5, 1.5),
            *(F.hardswish(row), torch.sigmoid(row), F.gelu(row, approximate="tanh")),
            *(table.softmax(1), F.log_softmax(table, 1), torch.relu(other * 20)),
            *(large.softmax(0), F.log_softmax(large, 0)),
            F.interpolate(image, scale_factor=1.4, mode="nearest"),
            F.interpolate(image, size=(7, 8), mode="bilinear"),
            F.interpolate(image, size=(7, 8), mode="bilinear", align_corners=True),
            F.interpolate(image, size=(7, 8), mode="bicubic"),
            F.avg_pool2d(image, 3, stride=2, padding=1, count_include_pad=False),
            F.avg_pool2d(image, 2, ceil_mode=True),
            *(self.gru(table)[0], self.embed(indices)),
            F.embedding_bag(indices, row, mode="sum", per_sample_weights=table[2]),
            *(table.mean(1), other.mean(0), table.sum(1), other.sum(0)),
            *(table.var(1), row.var(1, correction=0), table.std(1), row.std(1, correction=0)),
            *(torch.round(indices / 2), torch.cat([row, table[2]]), table.permute(1, 2, 0) * 2),
            *(row.var(0), row.std(0), torch.round(row, decimals=1), torch.cat([row, other], 1)),
            *(torch.div(row, other, rounding_mode="floor"), row / row[0], row * row[0]),
            *(torch.arange(0, 1, 0.1), torch.addmm(row[0], row, other, beta=2, alpha=3)),
            *(torch.addmm(row[0], row, other), torch.matmul(row, table[2]), row - other),
            torch.sub(row, table[2], alpha=2) + torch.add(row, other, alpha=3),
            F.scaled_dot_product_attention(table, row, table * 2, table[2] * 3, scale=0.3),
            *(one(row, other, **summed) for one in (F.mse_loss, F.l1_loss, F.smooth_l1_loss)),
            F.binary_cross_entropy_with_logits(row, other.sigmoid(), pos_weight=table[2][0]),
            F.binary_cross_entropy_with_logits(row, other.sigmoid(), **summed),
            F.cross_entropy(table[:, 0], labels, **summed),
            *(F.nll_loss(logs, labels, self.class_weight), F.nll_loss(logs, labels, **summed)),
        ]


def layers() -> tuple[Any, ...]:
    """Make a collection of operators, at sizes and settings at which their wrong ways show."""
    return Layers(), {
        "image": torch.zeros(2, 4, 5, 5),
        "table": torch.zeros(3, 4, 4),
        "indices": torch.tensor([[3, 1, 0, 2], [1, 1, 3, 0], [2, 0, 1, 3], [3, 3, 2, 1]]),
        "labels": torch.tensor([3, -100, 1]),
    }
