"""The gguf case: a GGUF file, and what gguf-py dequantises from it.

A reference's header holds the dimensions in GGUF's stored order, fastest first,
over row-major data, as upstream's bundle has it.
"""

from __future__ import annotations

import shutil
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from parity.errors import ConfigError, Problem, ReferenceSuspectError
from parity.pins import kquants
from parity.pins.draws import Draws
from parity.pins.packing import json_bytes
from parity.pins.references import write_reference
from parity.pins.toolchain import library

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

#: Tensors that a sample of a large file has, beside one of every type.
SAMPLES = 12
MAX_ABS = 1e-4


class Spec(NamedTuple):
    """A tensor to be made: its GGUF type by name, and its shape in row-major order."""

    name: str
    kind: str
    shape: tuple[int, ...]


#: Every type that the bundle is to hold; the first dimension is the number of rows.
SMALL = (
    Spec("token_embd.weight", "Q8_0", (7, 96)),
    Spec("output_norm.weight", "F32", (96,)),
    Spec("rope.factors", "F32", (2, 3, 4, 5)),
    Spec("blk.0.attn_norm.weight", "F16", (3, 40)),
    Spec("blk.0.ffn_norm.weight", "BF16", (2, 3, 24)),
    Spec("blk.0.attn_q.weight", "Q4_0", (5, 96)),
    Spec("blk.0.attn_k.weight", "Q4_1", (3, 160)),
    Spec("blk.0.attn_v.weight", "Q5_0", (5, 64)),
    Spec("blk.0.attn_output.weight", "Q5_1", (3, 96)),
    Spec("blk.0.ffn_gate_exps.weight", "Q8_0", (2, 3, 64)),
    Spec("blk.1.attn_q.weight", "Q2_K", (4, 512)),
    Spec("blk.1.attn_k.weight", "Q3_K", (3, 768)),
    Spec("blk.1.attn_v.weight", "Q4_K", (5, 512)),
    Spec("blk.1.attn_output.weight", "Q5_K", (3, 1024)),
    Spec("blk.1.ffn_down.weight", "Q6_K", (7, 256)),
)


def write(
    folder: Path, checkpoint: str, *, specs: Sequence[Spec], seed: int, source: Path | None = None
) -> None:
    """Fill ``folder`` with the file ``checkpoint``, its references and its lists.

    Args:
        folder: The case's folder; made here.
        checkpoint: File name of the GGUF file.
        specs: Tensors to make where there is no ``source``.
        seed: What they are drawn from.
        source: A GGUF file to take as it is.

    Raises:
        ConfigError: gguf-py cannot read ``source``, or nothing in it.
        ReferenceSuspectError: What was written is not what gguf-py reads.
    """
    (folder / "reference_dequant").mkdir(parents=True)
    path = folder / checkpoint
    if source:
        shutil.copyfile(source, path)
    else:
        _make(path, specs, seed)
    reader = _reader(path)
    if not source:
        _check(reader, specs, seed)
    _describe(folder, checkpoint, reader)


def _make(path: Path, specs: Sequence[Spec], seed: int) -> None:
    """Write a GGUF file tensor by tensor, so that one of them is in memory at a time."""
    gguf = library("gguf")
    writer = gguf.GGUFWriter(path, "llama")
    for spec in specs:
        kind = gguf.GGMLQuantizationType[spec.kind]
        shape = gguf.quants.quant_shape_to_byte_shape(spec.shape, kind)
        writer.add_tensor_info(spec.name, shape, np.dtype(np.uint8), prod(shape), kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for spec in specs:
        writer.write_tensor_data(stored(spec, seed))
    writer.close()


def stored(spec: Spec, seed: int) -> NDArray[np.uint8]:
    """The bytes of a tensor as GGUF stores them, uint8 of one dimension."""
    draws = Draws(seed, spec.name)
    if spec.kind in kquants.LAYOUTS:
        count = prod(spec.shape) // kquants.LAYOUTS[spec.kind].elements
        return kquants.blocks(spec.kind, count, draws).reshape(-1)
    return _STORED_FLOATS[spec.kind](draws, spec.shape).view(np.uint8).reshape(-1)


def _as_f32(draws: Draws, shape: Iterable[int]) -> NDArray[Any]:
    return draws.dyadic(*shape).astype("<f4")


def _as_f16(draws: Draws, shape: Iterable[int]) -> NDArray[Any]:
    return draws.dyadic(*shape, most=2047).astype("<f2")


def _as_bf16(draws: Draws, shape: Iterable[int]) -> NDArray[Any]:
    # Eight bits of mantissa: the lower half of the f32 is zero, nothing is rounded away.
    exact = draws.dyadic(*shape, most=255).astype("<f4")
    return (exact.view("<u4") >> 16).astype("<u2")


_STORED_FLOATS = {"F32": _as_f32, "F16": _as_f16, "BF16": _as_bf16}


def _reader(path: Path) -> Any:
    gguf = library("gguf")
    try:
        reader = gguf.GGUFReader(path)
    except (ValueError, IndexError, KeyError, OverflowError, UnicodeDecodeError) as error:
        message = f"gguf-py cannot read it: {error}"
        raise ConfigError(Problem("unreadable", message)) from error
    if not any(_dequantizable(tensor) for tensor in reader.tensors):
        message = "it holds no tensor that gguf-py can dequantise"
        raise ConfigError(Problem("unreadable", message))
    return reader


def _check(reader: Any, specs: Sequence[Spec], seed: int) -> None:
    """Hold the written file against what was meant to be written, by gguf-py's reading."""
    for spec, tensor in zip(specs, reader.tensors, strict=True):
        meant = spec.name, spec.kind, spec.shape, stored(spec, seed).tobytes()
        shape = tuple(reversed(tensor.shape.tolist()))
        if meant != (tensor.name, tensor.tensor_type.name, shape, tensor.data.tobytes()):
            message = f"{spec.name} was written as {spec} and is read as something else"
            raise ReferenceSuspectError(Problem("reload-differs", message))


def _describe(folder: Path, checkpoint: str, reader: Any) -> None:
    sampled = _sample(reader.tensors)
    for tensor in sampled:
        write_reference(folder / "reference_dequant", tensor.name, _reference(tensor))
    names = [tensor.name for tensor in sampled]
    meta = {
        "name": "gguf",
        "checkpoint": checkpoint,
        "bounds": {"max_abs": MAX_ABS},
        "alignment": reader.alignment,
        "num_tensors": len(reader.tensors),
        "tensors": {tensor.name: _record(tensor) for tensor in reader.tensors},
    }
    (folder / "sampled_tensor_names.json").write_bytes(json_bytes(names))
    (folder / "meta.json").write_bytes(json_bytes(meta))


def _reference(tensor: Any) -> NDArray[np.float32]:
    """What gguf-py dequantises, f32, its shape reversed into GGUF's stored order."""
    dequantize = library("gguf").quants.dequantize
    values = np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), np.float32)
    stored_order = tensor.shape.tolist()
    if stored_order != list(reversed(values.shape)):
        message = f"{tensor.name}: stored dims {stored_order}, dequantised {values.shape}"
        raise ReferenceSuspectError(Problem("shape", message))
    return values.reshape(stored_order)


def _record(tensor: Any) -> dict[str, Any]:
    first = int(tensor.data_offset)
    return {
        "type": tensor.tensor_type.name,
        "byte_range": [first, first + int(tensor.n_bytes)],
        "dims": tensor.shape.tolist(),
    }


def _sample(tensors: Sequence[Any]) -> list[Any]:
    """All of a small file; else evenly spaced ones, and the first of every type."""
    able = [tensor for tensor in tensors if _dequantizable(tensor)]
    if len(able) <= len(SMALL):
        return able
    chosen = {len(able) * k // SAMPLES for k in range(SAMPLES)}
    kinds = [tensor.tensor_type for tensor in able]
    chosen |= {kinds.index(kind) for kind in kinds}
    return [able[index] for index in sorted(chosen)]


def _dequantizable(tensor: Any) -> bool:
    """Whether gguf-py knows the type; it has no decoder for integers, for instance."""
    try:
        library("gguf").quants.dequantize(tensor.data[:1], tensor.tensor_type)
    except NotImplementedError:
        return False
    return True
