"""Arrays of torch, NumPy and plain lists; read from, and encoded as, the files that people have."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

import numpy as np

from parity.errors import ConfigError, Problem
from parity.lab.libraries import import_library
from parity.lab.pins.packing import encode_json
from parity.lab.readers.libraries import READERS, encode_torch_tensor
from parity.lab.zoo.case import ExpectedTensor
from parity.lab.zoo.safetensors_builder import build_file
from parity.tensors.dtypes import DTYPES, NUMPY_DTYPES
from parity.tensors.folder import walk_files
from parity.tensors.safetensors import locate_tensors
from parity.tensors.stored import StoredTensor

#: Suffixes of files that torch writes.
_TORCH = (".pt", ".pth", ".ckpt", ".bin")


def read_arrays(path: Path) -> dict[str, ExpectedTensor]:
    """Read the arrays of a file by name; of a `.npy`, the name is the file's.

    Of a folder all files are read, and a subfolder is before the names in it (`inputs/x`). A `.pt`
    is read with ``weights_only``, and the keys of nested dicts are joined by dots. A `.json` is an
    object of numbers and nested lists of numbers, read as f64, i64 or booleans.

    Raises:
        ConfigError: ``usage``: the file cannot be read, contains no array, or one of a dtype that
            is not compared; ``missing-library``.
    """
    suffix = path.suffix.lower()
    try:
        if path.is_dir():
            return _read_folder(path)
        if suffix in (".npy", ".npz"):
            loaded = np.load(path, allow_pickle=False)
            arrays = {path.stem: loaded} if suffix == ".npy" else dict(loaded)
        elif suffix == ".json":
            arrays = dict(_walk_objects(json.loads(path.read_bytes()), ""))
        elif suffix == ".safetensors":
            found = locate_tensors(path).items()
            return {
                name: ExpectedTensor(one.dtype.name, one.shape, _read(one)) for name, one in found
            }
        elif suffix in _TORCH:
            import_library("torch")
            arrays = READERS["torch"]()(path)()
            return {name: ExpectedTensor(*tensor) for name, tensor in arrays.items()}
        else:
            _fail(
                path, f"known are .npy, .npz, .safetensors, .json, {', '.join(_TORCH)}, and folders"
            )
        return {name: to_tensor(value) for name, value in arrays.items()}
    except ConfigError:
        raise
    except Exception as error:  # noqa: BLE001 - each library has its own for a broken file
        _fail(path, f"{type(error).__name__}: {error}", error)


def _read_folder(path: Path) -> dict[str, ExpectedTensor]:
    found: dict[str, ExpectedTensor] = {}
    for name, file in walk_files(path):
        folder = name.removesuffix(file.name)
        for key, tensor in read_arrays(file).items():
            if found.setdefault(folder + key, tensor) is not tensor:
                _fail(path, f"the tensor {folder + key!r} is in two files")
    return found


def _read(tensor: StoredTensor) -> bytes:
    with tensor.path.open("rb") as file:
        file.seek(tensor.offset)
        return file.read(tensor.nbytes)


def _walk_objects(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Walk the values of nested objects, their keys joined by dots as torch's are."""
    if not isinstance(value, dict):
        yield prefix or "values", value
        return
    for key, item in value.items():
        yield from _walk_objects(item, f"{prefix}.{key}" if prefix else key)


def _fail(path: Path, reason: str, cause: Exception | None = None) -> NoReturn:
    message = f"{path.as_posix()} cannot be read as arrays: {reason:.300}"
    raise ConfigError(Problem("usage", message)) from cause


def to_tensor(value: Any) -> ExpectedTensor:
    """Return dtype, shape and bytes of a torch tensor, a NumPy array, or nested lists.

    Raises:
        ConfigError: ``usage``: it is of a dtype that is not compared, such as objects.
    """
    if isinstance(value, ExpectedTensor):
        return value
    if type(value).__module__.partition(".")[0] == "torch":
        return ExpectedTensor(*encode_torch_tensor(value))
    array = np.asarray(value)
    dtype = NUMPY_DTYPES.get(array.dtype.str[1:])
    if dtype is None:
        message = f"an array of the dtype {array.dtype} is not compared; convert it first"
        raise ConfigError(Problem("usage", message))
    raw = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    return ExpectedTensor(dtype.name, array.shape, raw)


def to_array(value: Any) -> Any:
    """Return ``value`` as a NumPy array; floats without a NumPy type become f32."""
    dtype, shape, raw = to_tensor(value)
    stored = np.frombuffer(raw, DTYPES[dtype].storage).reshape(shape)
    return stored.astype(np.bool_) if dtype == "BOOL" else DTYPES[dtype].widen(stored)


def encode_file(path: str, value: Any) -> bytes:
    """Encode ``value``, or take the bytes that it is, for a file by its suffix.

    `.bin` is ferrotorch's layout: an array, or a list of arrays with its count before it; `.npy`
    is an array, `.safetensors` arrays by name, `.json` any JSON value.

    Raises:
        ConfigError: ``usage``: the suffix is another, or the dtype is not compared.
    """
    if isinstance(value, bytes):
        return value
    suffix = PurePosixPath(path).suffix
    if suffix == ".json":
        return encode_json(value)
    if suffix == ".safetensors":
        return build_file({name: to_tensor(value[name]) for name in sorted(value)})
    if suffix == ".npy":
        return _encode_npy(to_array(value))
    if suffix == ".bin":
        if isinstance(value, (list, tuple)):
            return len(value).to_bytes(4, "little") + b"".join(map(_encode_bin, value))
        return _encode_bin(value)
    message = f"{path}: bytes are needed for a file that is none of .bin, .npy, .safetensors, .json"
    raise ConfigError(Problem("usage", message))


def _encode_npy(array: Any) -> bytes:
    import io

    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(array), version=(1, 0))
    return file.getvalue()


def _encode_bin(value: Any) -> bytes:
    """Encode shape and data; integers stay as wide as they are."""
    array = to_array(value)
    if array.dtype.kind == "f":
        array = array.astype("<f4")
    header = np.array([array.ndim, *array.shape], "<u4").tobytes()
    return header + np.ascontiguousarray(array).tobytes()


def widen(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same values with every float as wide as f64."""
    return {name: _widen_one(value) for name, value in values.items()}


def _widen_one(value: Any) -> Any:
    if type(value).__module__.partition(".")[0] == "torch":
        return value.double() if value.is_floating_point() else value
    array = np.asarray(value)
    return array.astype(np.float64) if array.dtype.kind == "f" else array
