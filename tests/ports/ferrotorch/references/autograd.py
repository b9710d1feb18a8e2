"""Row 1: operators of ferrotorch-core, forward and backward, against torch.autograd."""

from __future__ import annotations

from math import sqrt
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from .seeded import draw


def make() -> dict[str, Any]:
    """Return inputs, outputs and gradients of each ``fixtures/OP/CONFIG``."""
    files: dict[str, Any] = {}
    for (op, config), (inputs, forward) in list_ops().items():
        leaves = {name: value.clone().requires_grad_() for name, value in inputs.items()}
        fixed = {name: leaves[name].detach() for name in ("target", "indices") if name in leaves}
        out = forward(**{**leaves, **fixed})
        out.sum().backward()
        folder = f"fixtures/{op}/{config}"
        files |= {f"{folder}/inputs/{name}.bin": value for name, value in inputs.items()}
        files[f"{folder}/forward_out.bin"] = out
        files |= {
            f"{folder}/grads/{name}.bin": leaf.grad
            for name, leaf in leaves.items()
            if name not in fixed
        }
    return files


def list_ops() -> dict[tuple[str, str], tuple[dict[str, torch.Tensor], Any]]:
    """List inputs and torch function by operator and configuration."""
    x = draw("x", 4, 8)
    cube = draw("cube", 3, 5, 7)
    a, b = draw("a", 4, 5), draw("b", 4, 5)
    away_from_zero = b.abs() + 0.1
    unary = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}
    unary |= {"sigmoid": torch.sigmoid, "tanh": torch.tanh}
    binary = {"add": torch.add, "mul": torch.mul, "sub": torch.sub}
    q, k, v = (draw(name, 2, 3, 4) for name in "qkv")
    parts = {"a": draw("a", 2, 3), "b": draw("b", 4, 3), "c": draw("c", 1, 3)}
    return {
        **{(name, "4x8"): ({"x": x}, lambda x, op=op: op(x)) for name, op in unary.items()},
        **{
            (name, "4x5_same"): ({"a": a, "b": b}, lambda a, b, op=op: op(a, b))
            for name, op in binary.items()
        },
        ("div", "4x5_same"): ({"a": a, "b": away_from_zero}, lambda a, b: a / b),
        ("matmul_2d", "8x16_16x4"): (
            {"a": draw("a", 8, 16), "b": draw("b", 16, 4)},
            lambda a, b: a @ b,
        ),
        ("bmm", "3x4x5_3x5x6"): ({"a": draw("a", 3, 4, 5), "b": draw("b", 3, 5, 6)}, lambda a, b: a @ b),
        ("linear", "4x6_out3_bias"): (
            {"input": draw("input", 4, 6), "weight": draw("weight", 3, 6), "bias": draw("bias", 3)},
            F.linear,
        ),
        # The sum of a softmax is constant, and its gradient zero; so it is weighted.
        ("softmax", "4x8_lastdim"): (
            {"x": x, "target": draw("target", 4, 8)},
            lambda x, target: F.softmax(x, -1) * target,
        ),
        ("log_softmax", "4x8_lastdim"): ({"x": x}, lambda x: F.log_softmax(x, -1)),
        ("sum_dim", "3x5x7_dim1_nokeep"): ({"x": cube}, lambda x: x.sum(1)),
        ("sum_dim", "3x5x7_dim2_keep"): ({"x": cube}, lambda x: x.sum(2, keepdim=True)),
        ("mean_dim", "3x5x7_dim1_nokeep"): ({"x": cube}, lambda x: x.mean(1)),
        ("log", "4x5_positive"): ({"x": away_from_zero}, lambda x: x.log()),
        ("exp", "4x5"): ({"x": a / 2}, lambda x: x.exp()),
        ("pow", "4x5_positive_2p5"): ({"x": away_from_zero}, lambda x: x**2.5),
        ("reshape", "2x3x4_to_6x4"): ({"x": draw("x", 2, 3, 4)}, lambda x: x.reshape(6, 4)),
        ("transpose", "4x6_swap01"): ({"x": draw("x", 4, 6)}, lambda x: x.T.contiguous()),
        ("cat", "axis0_2_4_1_x3"): (parts, lambda a, b, c: torch.cat([a, b, c])),
        # A repeated index adds up two gradients.
        ("embedding", "vocab10_emb4_idx_2_5_2_7"): (
            {"weight": draw("weight", 10, 4), "indices": torch.tensor([2.0, 5, 2, 7])},
            lambda weight, indices: F.embedding(indices.long(), weight),
        ),
        ("attention", "B2_T3_d4_unmasked"): (
            {"q": q, "k": k, "v": v},
            lambda q, k, v: F.softmax(q @ k.mT / sqrt(4), -1) @ v,
        ),
    }
