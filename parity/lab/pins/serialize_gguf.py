"""Make the gguf case: a GGUF file, and gguf-py's dequantised values.

A reference's header has the dimensions in GGUF's stored order, fastest first,
over row-major data, as upstream's bundle has it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parity.errors import ConfigError, Problem, ReferenceSuspectError
from parity.lab.libraries import import_library
from parity.lab.pins import random_blocks
from parity.lab.pins.packing import encode_json, write_reference
from parity.lab.pins.seeded_random import SeededRandom

#: Tensors in a sample of a large file, besides one of every type.
SAMPLE_SIZE = 12
MAX_ABS = 1e-4


class GgufTensorSpec(NamedTuple):
    """A tensor to make: its GGUF type by name, and its shape in row-major order."""

    name: str
    kind: str
    shape: tuple[int, ...]


#: Every type that the bundle should have; the first dimension is the number of rows.
SMALL_SPECS = (
    GgufTensorSpec("token_embd.weight", "Q8_0", (7, 96)),
    GgufTensorSpec("output_norm.weight", "F32", (96,)),
    GgufTensorSpec("rope.factors", "F32", (2, 3, 4, 5)),
    GgufTensorSpec("blk.0.attn_norm.weight", "F16", (3, 40)),
    GgufTensorSpec("blk.0.ffn_norm.weight", "BF16", (2, 3, 24)),
    GgufTensorSpec("blk.0.attn_q.weight", "Q4_0", (5, 96)),
    GgufTensorSpec("blk.0.attn_k.weight", "Q4_1", (3, 160)),
    GgufTensorSpec("blk.0.attn_v.weight", "Q5_0", (5, 64)),
    GgufTensorSpec("blk.0.attn_output.weight", "Q5_1", (3, 96)),
    GgufTensorSpec("blk.0.ffn_gate_exps.weight", "Q8_0", (2, 3, 64)),
    GgufTensorSpec("blk.1.attn_q.weight", "Q2_K", (4, 512)),
    GgufTensorSpec("blk.1.attn_k.weight", "Q3_K", (3, 768)),
    GgufTensorSpec("blk.1.attn_v.weight", "Q4_K", (5, 512)),
    GgufTensorSpec("blk.1.attn_output.weight", "Q5_K", (3, 1024)),
    GgufTensorSpec("blk.1.ffn_down.weight", "Q6_K", (7, 256)),
)


def write_gguf_case(
    folder: Path,
    checkpoint: str,
    *,
    specs: Sequence[GgufTensorSpec],
    seed: int,
    source: Path | None = None,
) -> None:
    """Make ``folder`` with the file ``checkpoint``, its references and its lists.

    The file is a copy of ``source``, else it has the tensors of ``specs``.

    Raises:
        ConfigError: gguf-py cannot read ``source``, or nothing in it.
        ReferenceSuspectError: gguf-py reads something else than was written.
    """
    (folder / "reference_dequant").mkdir(parents=True)
    path = folder / checkpoint
    if source:
        shutil.copyfile(source, path)
    else:
        _write_gguf(path, specs, seed)
    reader = _open_reader(path)
    if not source:
        _check_reload(reader, specs, seed)
    _write_case_files(folder, checkpoint, reader)


def _write_gguf(path: Path, specs: Sequence[GgufTensorSpec], seed: int) -> None:
    """Write a GGUF file tensor by tensor, so that only one is in memory at a time."""
    gguf = import_library("gguf")
    writer = gguf.GGUFWriter(path, "llama")
    for spec in specs:
        kind = gguf.GGMLQuantizationType[spec.kind]
        shape = gguf.quants.quant_shape_to_byte_shape(spec.shape, kind)
        writer.add_tensor_info(spec.name, shape, np.dtype(np.uint8), prod(shape), kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for spec in specs:
        writer.write_tensor_data(make_stored_bytes(spec, seed))
    writer.close()


def make_stored_bytes(spec: GgufTensorSpec, seed: int) -> NDArray[np.uint8]:
    """Make the bytes of a tensor as GGUF stores them, uint8 of one dimension."""
    random = SeededRandom(seed, spec.name)
    if spec.kind in random_blocks.BLOCK_LAYOUTS:
        count = prod(spec.shape) // random_blocks.BLOCK_LAYOUTS[spec.kind].elements
        return random_blocks.make_blocks(spec.kind, count, random).reshape(-1)
    return _FLOAT_DRAWS[spec.kind](random, spec.shape).view(np.uint8).reshape(-1)


_FLOAT_DRAWS: dict[str, Callable[..., NDArray[Any]]] = {
    "F32": lambda random, shape: random.draw_dyadic(*shape).astype("<f4"),
    "F16": lambda random, shape: random.draw_dyadic(*shape, largest=2047).astype("<f2"),
    "BF16": lambda random, shape: random.draw_bfloat16(*shape),
}


def _open_reader(path: Path) -> Any:
    gguf = import_library("gguf")
    try:
        reader = gguf.GGUFReader(path)
    except (ValueError, IndexError, KeyError, OverflowError, UnicodeDecodeError) as error:
        raise ConfigError(Problem("unreadable", f"gguf-py cannot read it: {error}")) from error
    if not any(_is_dequantizable(tensor) for tensor in reader.tensors):
        raise ConfigError(Problem("unreadable", "it has no tensor that gguf-py can dequantise"))
    return reader


def _check_reload(reader: Any, specs: Sequence[GgufTensorSpec], seed: int) -> None:
    """Check that gguf-py reads the tensors that were to be written."""
    for spec, tensor in zip(specs, reader.tensors, strict=True):
        expected = spec.name, spec.kind, spec.shape, make_stored_bytes(spec, seed).tobytes()
        shape = tuple(reversed(tensor.shape.tolist()))
        if expected != (tensor.name, tensor.tensor_type.name, shape, tensor.data.tobytes()):
            message = f"{spec.name} was written as {spec} and is read as something else"
            raise ReferenceSuspectError(Problem("reload-differs", message))


def _write_case_files(folder: Path, checkpoint: str, reader: Any) -> None:
    sampled = _choose_sample(reader.tensors)
    for tensor in sampled:
        write_reference(folder / "reference_dequant", tensor.name, _dequantize(tensor))
    names = [tensor.name for tensor in sampled]
    meta = {
        "name": "gguf",
        "checkpoint": checkpoint,
        "bounds": {"max_abs": MAX_ABS},
        "alignment": reader.alignment,
        "num_tensors": len(reader.tensors),
        "tensors": {tensor.name: _describe_tensor(tensor) for tensor in reader.tensors},
    }
    (folder / "sampled_tensor_names.json").write_bytes(encode_json(names))
    (folder / "meta.json").write_bytes(encode_json(meta))


def _dequantize(tensor: Any) -> NDArray[np.float32]:
    """Dequantise with gguf-py, f32, the shape reversed into GGUF's stored order."""
    dequantize = import_library("gguf").quants.dequantize
    values = np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), np.float32)
    stored_order = tensor.shape.tolist()
    if stored_order != list(reversed(values.shape)):
        message = f"{tensor.name}: stored dims {stored_order}, dequantised {values.shape}"
        raise ReferenceSuspectError(Problem("shape", message))
    return values.reshape(stored_order)


def _describe_tensor(tensor: Any) -> dict[str, Any]:
    first = int(tensor.data_offset)
    return {
        "type": tensor.tensor_type.name,
        "byte_range": [first, first + int(tensor.n_bytes)],
        "dims": tensor.shape.tolist(),
    }


def _choose_sample(tensors: Sequence[Any]) -> list[Any]:
    """Choose all of a small file; else evenly spaced ones, and the first of every type."""
    candidates = [tensor for tensor in tensors if _is_dequantizable(tensor)]
    if len(candidates) <= len(SMALL_SPECS):
        return candidates
    chosen = {len(candidates) * k // SAMPLE_SIZE for k in range(SAMPLE_SIZE)}
    kinds = [tensor.tensor_type for tensor in candidates]
    chosen |= {kinds.index(kind) for kind in kinds}
    return [candidates[index] for index in sorted(chosen)]


def _is_dequantizable(tensor: Any) -> bool:
    """Return whether gguf-py has a decoder for the type; it has none for integers, for instance."""
    try:
        import_library("gguf").quants.dequantize(tensor.data[:1], tensor.tensor_type)
    except NotImplementedError:  # gguf-py's own error for a type without a decoder
        return False
    return True
