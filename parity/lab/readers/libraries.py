"""The reference readers themselves: each reads a file, and makes its tensors on request.

A tensor is safetensors' name of its dtype, its shape and its bytes, row-major. Files of unknown
origin are read in the child process alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from parity.tensors import FormatError
from parity.tensors.dtypes import NUMPY_DTYPES, TORCH_DTYPES

Tensor = tuple[str, tuple[int, ...], bytes]
Tensors = dict[str, Tensor]
#: Reads a file, or raises what the library raises; its tensors are made later.
ReadFunction = Callable[[Path], Callable[[], Tensors]]

_MAX_DEPTH = 64  # Dicts in each other beyond which no tensor is looked for
#: Types of GGUF that are the data itself.
_UNQUANTISED = ("F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64")


def make_torch_reader(*, weights_only: bool) -> ReadFunction:
    """Make ``torch.load``."""
    import torch

    def read(path: Path) -> Callable[[], Tensors]:
        loaded = torch.load(path, map_location="cpu", weights_only=weights_only)
        return lambda: {
            name: encode_torch_tensor(tensor) for name, tensor in _walk_tensors(loaded, "", ())
        }

    return read


def _walk_tensors(value: Any, path: str, parents: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    """Walk the tensors of nested dicts, their keys joined by dots; cycles end."""
    import torch

    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, dict) and id(value) not in parents and len(parents) < _MAX_DEPTH:
        for key, item in value.items():
            name = f"{path}.{key}" if path else str(key)
            yield from _walk_tensors(item, name, (*parents, id(value)))
    elif isinstance(value, list | tuple) and any(isinstance(one, torch.Tensor) for one in value):
        raise TypeError(f"{path} lists tensors, which have no name")


def encode_torch_tensor(tensor: Any) -> Tensor:
    """Encode a tensor of any layout: dtype, shape, bytes."""
    import torch

    if tensor.is_nested:
        tensor = torch.nested.to_padded_tensor(tensor, 0.0)
    elif tensor.is_quantized:
        tensor = tensor.dequantize()
    elif tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    raw = tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
    dtype = TORCH_DTYPES[str(tensor.dtype).removeprefix("torch.")]
    return dtype.name, tuple(tensor.shape), raw


def make_safetensors_reader() -> ReadFunction:
    """Make the reader of the format's own library, without a framework around it."""
    import safetensors

    def read(path: Path) -> Callable[[], Tensors]:
        found = safetensors.deserialize(path.read_bytes())
        return lambda: {
            name: (entry["dtype"], tuple(entry["shape"]), bytes(entry["data"]))
            for name, entry in found
        }

    return read


def make_gguf_reader() -> ReadFunction:
    """Make gguf-py: the reader, then the decoder of each tensor that has one."""
    import gguf

    def read(path: Path) -> Callable[[], Tensors]:
        reader = gguf.GGUFReader(path)
        decoded = [(tensor, _decode_tensor(tensor, gguf)) for tensor in reader.tensors]

        def encode() -> Tensors:
            tensors = {tensor.name: _encode_gguf_tensor(tensor, data) for tensor, data in decoded}
            reader.data._mmap.close()  # noqa: SLF001 - else Windows cannot remove the file
            return tensors

        return encode

    return read


def make_numpy_reader() -> ReadFunction:
    """Make ``numpy.load`` of one array, which is named after its file."""

    def read(path: Path) -> Callable[[], Tensors]:
        array = np.load(path, allow_pickle=False)
        dtype = NUMPY_DTYPES[array.dtype.str[1:]].name
        return lambda: {path.stem: (dtype, array.shape, array.tobytes())}

    return read


def _decode_tensor(tensor: Any, gguf: Any) -> Any:
    """Decode the values of a tensor; None where gguf-py has no decoder for its type."""
    try:
        return gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    except NotImplementedError:  # gguf-py's own error for a type without a decoder
        return None


def _encode_gguf_tensor(tensor: Any, values: Any) -> Tensor:
    """Encode a tensor in GGUF's stored order of dimensions, as upstream's references are."""
    kind = tensor.tensor_type.name
    shape = tuple(int(dim) for dim in tensor.shape)
    if kind not in _UNQUANTISED:
        # Which NaN results from a product depends on the processor.
        values = np.where(np.isnan(values), np.nan, values)
        return "F32", shape, values.astype("<f4").tobytes()
    data = tensor.data
    little = data.astype(data.dtype.newbyteorder("<"))  # a big-endian file's data is not
    return kind, shape, little.tobytes()


def make_own_reader() -> ReadFunction:
    """Make this project's strict reader of written files.

    A file or a tensor of a form that it does not read has an error that begins with
    ``FormatError: not-verified``.
    """
    from parity.checkpoints.written import read_written

    def read(path: Path) -> Callable[[], Tensors]:
        form = path.suffix[1:]
        try:
            written = read_written(path, form)
        except FormatError as error:
            raise FormatError(error.code, f"{error.code}: {error.message}") from error
        for name, reason in written.unread.items():
            raise FormatError("not-verified", f"not-verified: {name} {reason}")
        step = -1 if form == "gguf" else 1  # gguf-py has the stored order of dimensions
        return lambda: {
            name: (one.dtype.name, one.shape[::step], one.read_array().tobytes())
            for name, one in written.tensors.items()
        }

    return read


READERS: dict[str, Callable[[], ReadFunction]] = {
    "torch": lambda: make_torch_reader(weights_only=True),
    "torch-full": lambda: make_torch_reader(weights_only=False),
    "safetensors": make_safetensors_reader,
    "gguf-py": make_gguf_reader,
    "numpy": make_numpy_reader,
    "parity": make_own_reader,
}
