"""Read checkpoints with the official library of their format: tensors by name."""

from __future__ import annotations

import warnings
import zipfile
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.bundle.layout import list_parts
from parity.lab.audits.compare_reference import DerivedTensor, UnderivableError, UnreadableError
from parity.lab.libraries import import_library

State = dict[str, Any]

_MAX_DEPTH = 8
_MAX_PROTOCOL = 3  # The highest pickle protocol that torch reads with ``weights_only``


def load_torch_state(path: Path) -> State:
    """Load the tensors of a .pth of either container, by name; nested names join with a dot.

    Raises:
        UnreadableError: torch rejects it, or it contains no tensor.
        UnderivableError: As ``load_torch``.
    """
    loaded = load_torch(path)
    state: State = {}
    _collect(loaded, "", _MAX_DEPTH, state)
    if not state:
        message = f"torch reads {type(loaded).__name__} from {path.name}, no tensors by name"
        raise UnreadableError(message)
    return state


def load_torch(path: Path) -> Any:
    """Load all of a .pth, always with ``weights_only``: nothing in the file may run.

    Raises:
        UnreadableError: torch rejects it.
        UnderivableError: Its pickle is of a protocol that ``weights_only`` does not read.
    """
    torch = import_library("torch")
    try:
        with warnings.catch_warnings():  # of old protocols and types of storage
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        if (protocol := _read_protocol(path)) > _MAX_PROTOCOL:
            message = f"torch reads no pickle of protocol {protocol} with weights_only"
            raise UnderivableError(message) from error
        raise UnreadableError(_format_error("torch", path, error)) from error


def _read_protocol(path: Path) -> int:
    """Read the protocol of a zip's pickle; 0 where it is unknown."""
    try:
        with zipfile.ZipFile(path) as members:
            name = next(name for name in members.namelist() if name.endswith("data.pkl"))
            with members.open(name) as pickle:
                head = pickle.read(2)
    except (OSError, ValueError, StopIteration, NotImplementedError, zipfile.BadZipFile):
        return 0
    return head[1] if len(head) > 1 and head[:1] == b"\x80" else 0


def _collect(value: Any, name: str, depth: int, state: State) -> None:
    torch = import_library("torch")
    if isinstance(value, torch.Tensor):
        if value.layout == torch.strided and not (value.is_quantized or value.is_nested):
            state[name] = value.detach()
    elif isinstance(value, dict) and depth:
        for key, item in value.items():
            _collect(item, f"{name}.{key}" if name else str(key), depth - 1, state)


def load_safetensors_state(path: Path) -> State:
    """Load the tensors of a safetensors file, or of all its parts, by name.

    Raises:
        UnreadableError: The library rejects it.
    """
    state: State = {}
    for part in list_parts(path):
        try:
            state |= import_library("safetensors.torch").load_file(part)
        except Exception as error:
            raise UnreadableError(_format_error("safetensors", part, error)) from error
    return state


def load_gguf_tensors(path: Path) -> dict[str, Any]:
    """Load gguf-py's tensors of a file, or of all its parts, by name.

    Raises:
        UnreadableError: gguf-py does not read it.
    """
    tensors: dict[str, Any] = {}
    for part in list_parts(path):
        try:
            reader = import_library("gguf").GGUFReader(part)
            tensors |= {tensor.name: tensor for tensor in reader.tensors}
        except Exception as error:
            raise UnreadableError(_format_error("gguf-py", part, error)) from error
    return tensors


def dequantize(tensor: Any) -> NDArray[np.float32]:
    """Decode a GGUF tensor to f32, in the shape of GGUF's header (fastest first).

    Raises:
        UnreadableError: gguf-py has no decoder for its type, or contradicts the header.
    """
    try:
        with np.errstate(all="ignore"):  # scales may be NaN or infinite
            flat = import_library("gguf").quants.dequantize(tensor.data, tensor.tensor_type)
        values = np.ascontiguousarray(flat, "<f4").reshape(tensor.shape.tolist())
    except (NotImplementedError, ValueError) as error:
        message = f"gguf-py cannot decode {tensor.name!r}: {type(error).__name__} {error}"
        raise UnreadableError(message) from error
    return values


def read_gguf_elements(tensor: Any, storage: str) -> NDArray[Any]:
    """Read a GGUF tensor that has no blocks, as NumPy type ``storage``.

    Raises:
        UnreadableError: Its data has another length.
    """
    dims = tensor.shape.tolist()
    flat = np.frombuffer(tensor.data.tobytes(), storage)
    if len(flat) != prod(dims):
        raise UnreadableError(f"{tensor.name!r} of {dims} has {len(flat):,} elements")
    return flat.reshape(dims)


def derive_gguf(tensor: Any, storage: str = "") -> DerivedTensor:
    """Describe a GGUF tensor: dequantised to f32, or its elements as NumPy type ``storage``."""
    shape, dtype = tuple(tensor.shape.tolist()), np.dtype(storage or "<f4")
    if storage:
        return DerivedTensor(shape, dtype, lambda: read_gguf_elements(tensor, storage))
    return DerivedTensor(shape, dtype, lambda: dequantize(tensor))


def derive_f32(tensor: Any) -> DerivedTensor:
    """Describe a torch tensor as f32 in row-major order: widened exactly, or rounded once."""

    def load() -> NDArray[np.float32]:
        array: NDArray[np.float32] = tensor.to(import_library("torch").float32).contiguous().numpy()
        return array

    return DerivedTensor(tuple(tensor.shape), np.dtype("<f4"), load)


def select_floats(state: State) -> dict[str, DerivedTensor]:
    """Select the float tensors of a state, as f32."""
    return {name: derive_f32(value) for name, value in state.items() if value.is_floating_point()}


def _format_error(reader: str, path: Path, error: Exception) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{reader} cannot read {path.name}: {type(error).__name__}: {first}"


def derive_elements(tensor: Any, storage: str) -> DerivedTensor:
    """Describe a torch tensor's own bits in row-major order, as NumPy type ``storage``."""

    def load() -> NDArray[Any]:
        flat = tensor.contiguous().reshape(-1).view(import_library("torch").uint8)
        array: NDArray[Any] = flat.numpy().view(storage).reshape(tuple(tensor.shape))
        return array

    return DerivedTensor(tuple(tensor.shape), np.dtype(storage), load)
