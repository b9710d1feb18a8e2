"""GGUF files that a reader must take: every type, and every freedom of the header."""

from __future__ import annotations

from typing import Any

import numpy as np

from parity.lab.zoo import gguf_blocks
from parity.lab.zoo.case import EQUAL, ZooCase, draw_dyadic, make_random
from parity.lab.zoo.gguf_builder import GgufFile, TensorInfo

_DOC = "ggml docs/gguf.md"
_F32 = 0


def entries() -> list[ZooCase]:
    """The cases, in the order of the page."""
    return [
        *_plain(),
        *_quants(),
        *_scales(),
        *_shapes(),
    ]


def f32(name: str, *dims: int, seed: str = "") -> TensorInfo:
    """A tensor of short dyadic numbers; ``dims`` fastest first."""
    return TensorInfo(
        name=name, dims=dims, kind=_F32, data=draw_dyadic(f"gguf {seed or name}", *dims).tobytes()
    )


def make_case(
    name: str, content: bytes | GgufFile, why: str, rule: str = _DOC, **more: Any
) -> ZooCase:
    """A case whose id begins with ``gguf-``; positive, unless ``letter`` says otherwise."""
    letter = more.pop("letter", "y")
    raw = content.build() if isinstance(content, GgufFile) else content
    return ZooCase(id=f"gguf-{letter}-{name}", content=raw, why=why, rule=rule, **more)


def quantised(name: str, kind: str, rows: int, in_row: int = 1) -> TensorInfo:
    """A tensor of ``rows`` rows of ``in_row`` blocks."""
    elements, _ = gguf_blocks.find_block_size(kind)
    dims = (in_row * elements, rows)
    data = gguf_blocks.build_blocks(kind, rows * in_row, f"{name} {kind}")
    return TensorInfo(name=name, dims=dims, kind=gguf_blocks.find_type_code(kind), data=data)


def _plain() -> list[ZooCase]:
    """Types whose elements stand alone; rows of seven, since nothing binds their length."""
    low = make_random("gguf f64").draw_integers(1, 2**20, 21) / 2.0**40
    brain = (
        make_random("gguf bf16").draw_dyadic(21, largest=255).astype("<f4").view("<u4") >> 16
    ).astype("<u2")
    made = {
        "F32": draw_dyadic("gguf f32", 21).astype("<f4"),
        "F16": draw_dyadic("gguf f16", 21, most=2047).astype("<f2"),
        "BF16": brain,
        "F64": draw_dyadic("gguf f64", 21).astype("<f8") + low,
        **{
            f"I{bits}": make_random(f"gguf i{bits}").draw_bytes(21 * bits // 8)
            for bits in (8, 16, 32, 64)
        },
    }
    found = []
    for kind, data in made.items():
        info = TensorInfo(
            name="w", dims=(7, 3), kind=gguf_blocks.find_type_code(kind), data=data.tobytes()
        )
        why = f"the type {kind}, in rows of seven"
        found.append(make_case(kind.lower(), GgufFile(tensors=(info,)), why, f"{_DOC}: ggml_type"))
    return found


def _quants() -> list[ZooCase]:
    found = []
    for kind in gguf_blocks.QUANTS:
        in_row, rows = (3, 5) if gguf_blocks.find_block_size(kind)[0] < 256 else (1, 3)
        info = quantised("w", kind, rows, in_row)
        why = f"{kind}: {rows} rows of {in_row} blocks of {gguf_blocks.find_block_size(kind)[0]}"
        rule = "ggml-common.h, as gguf-py dequantises it"
        found.append(
            make_case(
                kind.lower().replace("_", "-"),
                GgufFile(tensors=(info,)),
                why,
                rule,
                bounds=dict(EQUAL),
            )
        )
    return found


def _scales() -> list[ZooCase]:
    """Block scales that a decoder may treat apart: four kinds, in types old and new."""
    halves = {"zero": 0x0000, "subnormal": 0x0155, "infinite": 0x7C00, "nan": 0x7E01}
    found = []
    for kind, at in {"Q4_0": 0, "Q5_1": 0, "Q8_0": 0, "Q4_K": 0, "Q6_K": 208}.items():
        for word, half in halves.items():
            info = quantised("w", kind, 2)
            raw = np.frombuffer(info.data, np.uint8).reshape(2, -1).copy()
            raw[0, at : at + 2] = np.array([half], "<u2").view(np.uint8)
            changed = TensorInfo(name="w", dims=info.dims, kind=info.kind, data=raw.tobytes())
            name = f"{kind.lower().replace('_', '-')}-scale-{word}"
            why = f"{kind}: a block whose scale is {word}, before one whose scale is a number"
            found.append(
                make_case(
                    name,
                    GgufFile(tensors=(changed,)),
                    why,
                    "IEEE 754: binary16",
                    bounds=dict(EQUAL),
                )
            )
    return found


def _shapes() -> list[ZooCase]:
    made = {
        "one-dim": (f32("w", 11, seed="one"), "one dimension"),
        "three-dims": (f32("w", 5, 2, 3, seed="three"), "three dimensions, fastest first"),
        "four-dims": (
            f32("w", 3, 1, 4, 2, seed="four"),
            "four dimensions, one of them of one element",
        ),
        "ones": (f32("w", 1, 1, 1, 1, seed="ones"), "four dimensions of one element"),
    }
    found = [
        make_case(name, GgufFile(tensors=(info,)), why, f"{_DOC}: n_dimensions")
        for name, (info, why) in made.items()
    ]
    deep = quantised("w", "Q5_0", 6)
    cube = TensorInfo(name="w", dims=(32, 2, 3), kind=deep.kind, data=deep.data)
    return [
        *found,
        make_case(
            "three-dims-quantised",
            GgufFile(tensors=(cube,)),
            "three dimensions of a quantised type",
            bounds=dict(EQUAL),
        ),
    ]
