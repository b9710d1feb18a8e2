"""Make the pth and safetensors cases: a state dict saved, and the values that its library reads.

The .pth has the zip format; its legacy predecessor contains memory addresses and is never the
same twice. ``meta.json`` states where the bytes of every tensor are in the file, so that they
can be read without a zip and pickle reader.
"""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parity.errors import ConfigError, Problem, ReferenceSuspectError
from parity.lab.libraries import import_library
from parity.lab.pins.packing import encode_json, write_reference

State = Mapping[str, Any]  # Tensors of torch by name, in the order of the file


def write_pth_case(
    folder: Path, checkpoint: str, *, state: State, source: Path | None = None
) -> State:
    """Make ``folder`` with the file ``checkpoint``, its references and its lists.

    The file is a copy of ``source``, else it has the tensors of ``state``. Return the tensors as
    torch reads them back.

    Raises:
        ConfigError: ``source`` is not a state dict in a zip.
        ReferenceSuspectError: torch reads something else than was written.
    """
    folder.mkdir(parents=True)
    path = folder / checkpoint
    if source:
        shutil.copyfile(source, path)
    else:
        # A buffer has no name, while a path's stem would become part of every member's.
        buffer = io.BytesIO()
        import_library("torch").save(state, buffer)
        path.write_bytes(buffer.getbuffer())
    loaded = load_state(path)
    if not source:
        _check_reload(state, loaded)
        if list(state) != list(loaded):
            message = f"{list(state)} were saved, {list(loaded)} are loaded"
            raise ReferenceSuspectError(Problem("reload-differs", message))
    _write_case_files(folder, "pth", path, loaded, _describe_storages(path, loaded))
    return loaded


def write_safetensors_case(folder: Path, checkpoint: str, *, state: State) -> None:
    """Fill ``folder`` likewise with the float tensors of ``state``; upstream reads no others.

    Raises:
        ReferenceSuspectError: The library reads something else than was written.
    """
    folder.mkdir(parents=True)
    # Tensors of their own, in row-major order: the library rejects shared ones, and
    # its NumPy sibling once wrote strided ones in memory order.
    floats = {
        name: tensor.detach().clone(memory_format=import_library("torch").contiguous_format)
        for name, tensor in state.items()
        if tensor.is_floating_point()
    }
    path, library = folder / checkpoint, import_library("safetensors.torch")
    # One key at most: of two, the order in the file is random.
    library.save_file(floats, path, metadata={"format": "pt"})
    _check_reload(floats, library.load_file(path))
    _write_case_files(folder, "safetensors", path, floats, _describe_tensors(path, floats))


def load_state(path: Path) -> State:
    """Load the state dict of a .pth: tensors on the CPU, by name.

    Raises:
        ConfigError: It is something else, or has more than plain tensors.
    """
    torch = import_library("torch")
    if not zipfile.is_zipfile(path):
        message = f"{path.name} is not a zip; save it again with torch.save of torch 1.6 or newer"
        raise ConfigError(Problem("unreadable", message))
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        message = f"torch cannot load {path.name} with weights_only: {type(error).__name__}"
        raise ConfigError(Problem("unreadable", message)) from error
    entries = loaded.items() if isinstance(loaded, dict) else ()
    if not entries or not all(isinstance(name, str) and _is_dense(t) for name, t in entries):
        message = f"{path.name} is not a state dict, a mapping of names to dense tensors"
        raise ConfigError(Problem("unreadable", message))
    state: State = loaded
    return state


def _is_dense(value: Any) -> bool:
    """Return whether it is a tensor that shape, strides and offset describe."""
    torch = import_library("torch")
    is_plain = isinstance(value, torch.Tensor) and not (value.is_quantized or value.is_nested)
    return bool(is_plain and value.layout == torch.strided)


def _check_reload(expected: State, loaded: State) -> None:
    differing = [
        name
        for name in sorted(expected.keys() | loaded.keys())
        if name not in expected
        or name not in loaded
        or not is_same_tensor(expected[name], loaded[name])
    ]
    if differing:
        message = f"saved and loaded as something else: {', '.join(differing)}"
        raise ReferenceSuspectError(Problem("reload-differs", message))


def is_same_tensor(left: Any, right: Any) -> bool:
    """Return whether two tensors have the same dtype, shape and bytes in logical order."""
    same_form = left.dtype == right.dtype and left.shape == right.shape
    return same_form and _encode_values(left) == _encode_values(right)


def _encode_values(tensor: Any) -> bytes:
    """Encode a tensor's values in row-major order, in its own dtype."""
    flat = tensor.detach().contiguous().reshape(-1)
    raw: bytes = flat.view(import_library("torch").uint8).numpy().tobytes()
    return raw


def _write_case_files(
    folder: Path, name: str, path: Path, state: State, records: dict[str, Any]
) -> None:
    """Write references in f32 (widened exactly, or rounded once), names, and `meta.json`."""
    (folder / "reference_state_dict").mkdir()
    for key, tensor in state.items():
        if tensor.is_floating_point():
            values = tensor.detach().to(import_library("torch").float32).contiguous().numpy()
            write_reference(folder / "reference_state_dict", key, values)
    meta = {
        "name": name,
        "checkpoint": path.name,
        "bounds": {"exact": True},
        "num_tensors": len(state),
        "tensors": records,
    }
    (folder / "keys.json").write_bytes(encode_json(list(state)))
    (folder / "meta.json").write_bytes(encode_json(meta))


def _check_bytes(path: Path, name: str, first: int, last: int, *, is_there: bool) -> list[int]:
    if not is_there:
        message = f"{name} is not at bytes {first} to {last} of {path.name}"
        raise ReferenceSuspectError(Problem("reload-differs", message))
    return [first, last]


def _describe_storages(path: Path, loaded: State) -> dict[str, dict[str, Any]]:
    """Describe each tensor: the byte range of its whole storage, strides in elements, and so on."""
    storages = _find_storages(path)
    content = path.read_bytes()
    records = {}
    for name, tensor in loaded.items():
        storage, first = storages[name]
        last = first + tensor.untyped_storage().nbytes()
        is_there = _is_stored_tensor(tensor, content[first:last])
        records[name] = {
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "storage": storage,
            "byte_range": _check_bytes(path, name, first, last, is_there=is_there),
            "shape": list(tensor.shape),
            "stride": list(tensor.stride()),
            "storage_offset": tensor.storage_offset(),
        }
    return records


def _find_storages(path: Path) -> dict[str, tuple[str, int]]:
    """Find each tensor's storage: its key, and its offset in the file.

    Loading fake tensors reads no data; torch then records where it would have been.
    """
    torch, fake = import_library("torch"), import_library("torch._subclasses.fake_tensor")
    with fake.FakeTensorMode(), zipfile.ZipFile(path) as archive:
        members = {member.header_offset: member.filename for member in archive.infolist()}
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    found = {}
    for name, tensor in loaded.items():
        offset = tensor.untyped_storage()._checkpoint_offset  # noqa: SLF001 - documented under torch.load
        before = max(start for start in members if start < offset)
        found[name] = members[before].rpartition("/")[2], offset
    return found


def _is_stored_tensor(tensor: Any, raw: bytes) -> bool:
    if not tensor.numel():
        return True
    storage = import_library("torch").frombuffer(bytearray(raw), dtype=tensor.dtype)
    view = storage.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return is_same_tensor(view, tensor)


def _describe_tensors(path: Path, floats: State) -> dict[str, dict[str, Any]]:
    """Describe each tensor: dtype and shape of the header, and the byte range in the file."""
    content = path.read_bytes()
    data = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:data])
    records = {}
    for name, tensor in floats.items():
        entry = header[name]
        first, last = (data + offset for offset in entry["data_offsets"])
        is_there = content[first:last] == _encode_values(tensor)
        places = {"byte_range": _check_bytes(path, name, first, last, is_there=is_there)}
        records[name] = {"dtype": entry["dtype"], "shape": entry["shape"], **places}
    return records
