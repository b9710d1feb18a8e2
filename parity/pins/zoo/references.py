"""The right values of a checkpoint, by the reference reader of its format."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.codecs.dtypes import DTYPES, PACKED
from parity.errors import Problem, ReferenceSuspectError
from parity.pins.serialize_pth import raw_bytes
from parity.pins.toolchain import library
from parity.pins.zoo.entry import Value, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from parity.pins.zoo.entry import Entry

#: torch's names of the dtypes that safetensors names otherwise.
_TORCH = {
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
_PLAIN = {
    "F32": "F32",
    "F16": "F16",
    "BF16": "BF16",
    "F64": "F64",
    "I8": "I8",
    "I16": "I16",
    "I32": "I32",
    "I64": "I64",
}


def values_of(entry: Entry) -> dict[str, Value]:
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


def _pth(content: bytes) -> dict[str, Value]:
    torch = library("torch")
    with warnings.catch_warnings(), TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # of protocols beyond 2, and of beta layouts
        path = Path(folder) / "x.pth"  # the tar container is read from files only
        path.write_bytes(content)
        # Every object in it was made here, and protocols beyond 2 need the full reader.
        loaded = torch.load(path, map_location="cpu", weights_only=False)
        return {name: _dense(tensor) for name, tensor in _flat("", loaded)}


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(f"{path}.{key}" if path else str(key), item)
    elif isinstance(value, library("torch").Tensor):
        yield path, value


def _dense(tensor: Any) -> Value:
    torch = library("torch")
    if tensor.is_nested:
        tensor = torch.nested.to_padded_tensor(tensor, 0.0)
    elif tensor.is_quantized:
        tensor = tensor.dequantize()
    elif tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.resolve_conj().resolve_neg()
    name = str(tensor.dtype).removeprefix("torch.")
    return Value(_TORCH[name], tuple(tensor.shape), raw_bytes(tensor))


def _safetensors(content: bytes) -> dict[str, Value]:
    found = {}
    for name, entry in library("safetensors").deserialize(content):
        found[name] = Value(entry["dtype"], tuple(entry["shape"]), bytes(entry["data"]))
    return found


def _gguf(content: bytes) -> dict[str, Value]:
    gguf = library("gguf")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.gguf"
        path.write_bytes(content)
        reader = gguf.GGUFReader(path)
        found = {tensor.name: _dequantised(tensor, gguf) for tensor in reader.tensors}
        reader.data._mmap.close()  # noqa: SLF001 - else the folder cannot go on Windows
    return found


def _dequantised(tensor: Any, gguf: Any) -> Value:
    """In GGUF's stored order of dimensions, as upstream's references are."""
    kind = tensor.tensor_type.name
    dims = tuple(int(dim) for dim in tensor.shape)
    if kind in _PLAIN:
        data = np.array(tensor.data, copy=True)
        if data.dtype.byteorder == ">":
            data = data.astype(data.dtype.newbyteorder("<"))
        return Value(_PLAIN[kind], dims, data.tobytes())
    with np.errstate(all="ignore"):
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype("<f4")
    # Which NaN comes out of a product is up to the processor.
    values = np.where(np.isnan(values), np.float32(np.nan), values)
    return value_of(values.reshape(dims), "F32")


_READERS = {"pth": _pth, "safetensors": _safetensors, "gguf": _gguf}


def reference_file(values: Mapping[str, Value]) -> bytes:
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
    _hold(content, values)
    return content


def _hold(content: bytes, values: Mapping[str, Value]) -> None:
    read = {
        name: Value(entry["dtype"], tuple(entry["shape"]), bytes(entry["data"]))
        for name, entry in library("safetensors").deserialize(content)
    }
    if read != dict(values):
        message = f"{', '.join(sorted(values))[:80]}: written as something else"
        raise ReferenceSuspectError(Problem("reload-differs", message))
