"""The right values of a checkpoint, by the reference reader of its format."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.errors import Problem, ReferenceSuspectError
from parity.lab.pins.libraries import import_library
from parity.lab.pins.serialize_pth import encode_values
from parity.lab.zoo.case import ExpectedTensor, make_expected
from parity.tensors.dtypes import DTYPES, PACKED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from parity.lab.zoo.case import ZooCase

#: torch's names of the dtypes that safetensors names otherwise.
_TORCH_DTYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
    "complex64": "C64",
    "bool": "BOOL",
    **{
        f"{sign}int{bits}": f"{sign or 'i'}{bits}".upper()
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
}
#: Types of GGUF that are the data itself.
_UNQUANTISED = {
    "F32": "F32",
    "F16": "F16",
    "BF16": "BF16",
    "F64": "F64",
    "I8": "I8",
    "I16": "I16",
    "I32": "I32",
    "I64": "I64",
}


def read_expected_values(entry: ZooCase) -> dict[str, ExpectedTensor]:
    """What is right for ``entry``.

    Raises:
        ReferenceSuspectError: Its reference reader does not read it, or finds no tensor.
    """
    if entry.values is not None:
        return dict(entry.values)
    try:
        found = _READERS[entry.group](entry.content)
    except Exception as error:
        message = f"{entry.id}: {type(error).__name__}: {error}"
        raise ReferenceSuspectError(Problem("reload-differs", message)) from error
    if not found:
        raise ReferenceSuspectError(Problem("reload-differs", f"{entry.id} holds no tensor"))
    return found


def _read_pth(content: bytes) -> dict[str, ExpectedTensor]:
    torch = import_library("torch")
    with warnings.catch_warnings(), TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # of protocols beyond 2, and of beta layouts
        path = Path(folder) / "x.pth"  # the tar container is read from files only
        path.write_bytes(content)
        # Every object in it was made here, and protocols beyond 2 need the full reader.
        loaded = torch.load(path, map_location="cpu", weights_only=False)
        return {name: _encode_torch_tensor(tensor) for name, tensor in _walk_tensors("", loaded)}


def _walk_tensors(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _walk_tensors(f"{path}.{key}" if path else str(key), item)
    elif isinstance(value, import_library("torch").Tensor):
        yield path, value


def _encode_torch_tensor(tensor: Any) -> ExpectedTensor:
    torch = import_library("torch")
    if tensor.is_nested:
        tensor = torch.nested.to_padded_tensor(tensor, 0.0)
    elif tensor.is_quantized:
        tensor = tensor.dequantize()
    elif tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.resolve_conj().resolve_neg()
    name = str(tensor.dtype).removeprefix("torch.")
    return ExpectedTensor(_TORCH_DTYPES[name], tuple(tensor.shape), encode_values(tensor))


def _read_safetensors(content: bytes) -> dict[str, ExpectedTensor]:
    found = {}
    for name, entry in import_library("safetensors").deserialize(content):
        found[name] = ExpectedTensor(entry["dtype"], tuple(entry["shape"]), bytes(entry["data"]))
    return found


def _read_gguf(content: bytes) -> dict[str, ExpectedTensor]:
    gguf = import_library("gguf")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.gguf"
        path.write_bytes(content)
        reader = gguf.GGUFReader(path)
        found = {tensor.name: _decode_gguf_tensor(tensor, gguf) for tensor in reader.tensors}
        reader.data._mmap.close()
    return found


def _decode_gguf_tensor(tensor: Any, gguf: Any) -> ExpectedTensor:
    """In GGUF's stored order of dimensions, as upstream's references are."""
    kind = tensor.tensor_type.name
    dims = tuple(int(dim) for dim in tensor.shape)
    if kind in _UNQUANTISED:
        data = np.array(tensor.data, copy=True)
        if data.dtype.byteorder == ">":
            data = data.astype(data.dtype.newbyteorder("<"))
        return ExpectedTensor(_UNQUANTISED[kind], dims, data.tobytes())
    with np.errstate(all="ignore"):
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype("<f4")
    # Which NaN comes out of a product is up to the processor.
    values = np.where(np.isnan(values), np.float32(np.nan), values)
    return make_expected(values.reshape(dims), "F32")


_READERS = {"pth": _read_pth, "safetensors": _read_safetensors, "gguf": _read_gguf}


def build_reference_file(values: Mapping[str, ExpectedTensor]) -> bytes:
    """``values`` as a `.safetensors` file, aligned, its tensors in order of their names.

    Raises:
        ReferenceSuspectError: The library does not read it back as what was written.
    """
    header: dict[str, Any] = {}
    data = b""
    for name in sorted(values):
        dtype, shape, raw = values[name]
        if dtype not in DTYPES and dtype not in PACKED:
            raise ReferenceSuspectError(Problem("reload-differs", f"{name!r} is of {dtype}"))
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets}
        data += raw
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    content = len(text).to_bytes(8, "little") + text + data
    _check_reads_back(content, values)
    return content


def _check_reads_back(content: bytes, values: Mapping[str, ExpectedTensor]) -> None:
    read = {
        name: ExpectedTensor(entry["dtype"], tuple(entry["shape"]), bytes(entry["data"]))
        for name, entry in import_library("safetensors").deserialize(content)
    }
    if read != dict(values):
        message = f"{', '.join(sorted(values))[:80]}: written as something else"
        raise ReferenceSuspectError(Problem("reload-differs", message))
