"""GGUF files that a reader must take: every type, and every freedom of the header."""

from __future__ import annotations

from typing import Any

import numpy as np

from parity.pins.zoo import blocks
from parity.pins.zoo.entry import EQUAL, Entry, draws, dyadic
from parity.pins.zoo.headers import Gguf, Info

_DOC = "ggml docs/gguf.md"
_F32 = 0


def entries() -> list[Entry]:
    """The cases, in the order of the page."""
    return [
        *_plain(),
        *_quants(),
        *_scales(),
        *_shapes(),
    ]


def f32(name: str, *dims: int, seed: str = "") -> Info:
    """A tensor of short dyadic numbers; ``dims`` fastest first."""
    return Info(
        name=name, dims=dims, kind=_F32, data=dyadic(f"gguf {seed or name}", *dims).tobytes()
    )


def case(name: str, content: bytes | Gguf, why: str, rule: str = _DOC, **more: Any) -> Entry:
    """A case whose id begins with ``gguf-``; positive, unless ``letter`` says otherwise."""
    letter = more.pop("letter", "y")
    raw = content.build() if isinstance(content, Gguf) else content
    return Entry(id=f"gguf-{letter}-{name}", content=raw, why=why, rule=rule, **more)


def quantised(name: str, kind: str, rows: int, in_row: int = 1) -> Info:
    """A tensor of ``rows`` rows of ``in_row`` blocks."""
    elements, _ = blocks.size_of(kind)
    dims = (in_row * elements, rows)
    data = blocks.made(kind, rows * in_row, f"{name} {kind}")
    return Info(name=name, dims=dims, kind=blocks.code_of(kind), data=data)


def _plain() -> list[Entry]:
    """Types whose elements stand alone; rows of seven, since nothing binds their length."""
    low = draws("gguf f64").integers(1, 2**20, 21) / 2.0**40
    brain = (draws("gguf bf16").dyadic(21, most=255).astype("<f4").view("<u4") >> 16).astype("<u2")
    made = {
        "F32": dyadic("gguf f32", 21).astype("<f4"),
        "F16": dyadic("gguf f16", 21, most=2047).astype("<f2"),
        "BF16": brain,
        "F64": dyadic("gguf f64", 21).astype("<f8") + low,
        **{f"I{bits}": draws(f"gguf i{bits}").octets(21 * bits // 8) for bits in (8, 16, 32, 64)},
    }
    found = []
    for kind, data in made.items():
        info = Info(name="w", dims=(7, 3), kind=blocks.code_of(kind), data=data.tobytes())
        why = f"the type {kind}, in rows of seven"
        found.append(case(kind.lower(), Gguf(tensors=(info,)), why, f"{_DOC}: ggml_type"))
    return found


def _quants() -> list[Entry]:
    found = []
    for kind in blocks.QUANTS:
        in_row, rows = (3, 5) if blocks.size_of(kind)[0] < 256 else (1, 3)  # noqa: PLR2004 - a K-quant
        info = quantised("w", kind, rows, in_row)
        why = f"{kind}: {rows} rows of {in_row} blocks of {blocks.size_of(kind)[0]}"
        rule = "ggml-common.h, as gguf-py dequantises it"
        found.append(
            case(
                kind.lower().replace("_", "-"), Gguf(tensors=(info,)), why, rule, bounds=dict(EQUAL)
            )
        )
    return found


def _scales() -> list[Entry]:
    """Block scales that a decoder may treat apart: four kinds, in types old and new."""
    halves = {"zero": 0x0000, "subnormal": 0x0155, "infinite": 0x7C00, "nan": 0x7E01}
    found = []
    for kind, at in {"Q4_0": 0, "Q5_1": 0, "Q8_0": 0, "Q4_K": 0, "Q6_K": 208}.items():
        for word, half in halves.items():
            info = quantised("w", kind, 2)
            raw = np.frombuffer(info.data, np.uint8).reshape(2, -1).copy()
            raw[0, at : at + 2] = np.array([half], "<u2").view(np.uint8)
            changed = Info(name="w", dims=info.dims, kind=info.kind, data=raw.tobytes())
            name = f"{kind.lower().replace('_', '-')}-scale-{word}"
            why = f"{kind}: a block whose scale is {word}, before one whose scale is a number"
            found.append(
                case(name, Gguf(tensors=(changed,)), why, "IEEE 754: binary16", bounds=dict(EQUAL))
            )
    return found


def _shapes() -> list[Entry]:
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
        case(name, Gguf(tensors=(info,)), why, f"{_DOC}: n_dimensions")
        for name, (info, why) in made.items()
    ]
    deep = quantised("w", "Q5_0", 6)
    cube = Info(name="w", dims=(32, 2, 3), kind=deep.kind, data=deep.data)
    return [
        *found,
        case(
            "three-dims-quantised",
            Gguf(tensors=(cube,)),
            "three dimensions of a quantised type",
            bounds=dict(EQUAL),
        ),
    ]
