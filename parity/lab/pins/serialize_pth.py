"""Make the pth case: a checkpoint by ``torch.save``, and the values that ``torch.load`` reads.

The file has the zip format; its legacy predecessor contains memory addresses and is
never the same twice. ``meta.json`` states where the storage of every tensor is in the
file, so that raw bytes can be read without a zip and pickle reader.
"""

from __future__ import annotations

import io
import shutil
import zipfile
from typing import TYPE_CHECKING, Any

from parity.errors import ConfigError, Problem, ReferenceSuspectError
from parity.lab.libraries import import_library
from parity.lab.pins.packing import encode_json, write_reference

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    #: Tensors of torch by name, in the order of the file.
    State = Mapping[str, Any]


def write_pth_case(
    folder: Path, checkpoint: str, *, state: State, source: Path | None = None
) -> State:
    """Fill ``folder`` with the file ``checkpoint``, its references and its lists.

    Args:
        folder: The case's folder; made here.
        checkpoint: File name of the checkpoint.
        state: Tensors to save where there is no ``source``.
        source: A checkpoint to copy.

    Returns:
        The tensors as torch reads them back.

    Raises:
        ConfigError: ``source`` is not a state dict in a zip.
        ReferenceSuspectError: torch reads something else than was written.
    """
    (folder / "reference_state_dict").mkdir(parents=True)
    path = folder / checkpoint
    if source:
        shutil.copyfile(source, path)
    else:
        _save(state, path)
    loaded = load_state(path)
    if not source:
        _check_reload(state, loaded)
    _write_case_files(folder, path, loaded)
    return loaded


def _save(state: State, path: Path) -> None:
    # A buffer has no name, while a path's stem would become part of every member's.
    buffer = io.BytesIO()
    import_library("torch").save(state, buffer)
    path.write_bytes(buffer.getbuffer())


def load_state(path: Path) -> State:
    """Load the state dict of a checkpoint: tensors on the CPU, by name.

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
    """Tell whether it is a tensor that shape, strides and offset describe."""
    torch = import_library("torch")
    if not isinstance(value, torch.Tensor) or value.is_quantized or value.is_nested:
        return False
    dense: bool = value.layout == torch.strided
    return dense


def _check_reload(expected: State, loaded: State) -> None:
    for name, tensor in expected.items():
        if name not in loaded or not is_same_tensor(tensor, loaded[name]):
            message = f"{name} was saved and is loaded as something else"
            raise ReferenceSuspectError(Problem("reload-differs", message))
    if list(expected) != list(loaded):
        message = f"{list(expected)} were saved, {list(loaded)} are loaded"
        raise ReferenceSuspectError(Problem("reload-differs", message))


def is_same_tensor(left: Any, right: Any) -> bool:
    """Tell whether two tensors have the same dtype, shape and bytes in logical order."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    return encode_values(left) == encode_values(right)


def encode_values(tensor: Any) -> bytes:
    """Encode a tensor's values in row-major order, in its own dtype."""
    torch = import_library("torch")
    flat = tensor.detach().contiguous().reshape(-1)
    raw: bytes = flat.view(torch.uint8).numpy().tobytes()
    return raw


def convert_to_f32(tensor: Any) -> Any:
    """Convert a float tensor to f32: widened exactly, or rounded once."""
    return tensor.detach().to(import_library("torch").float32).contiguous().numpy()


def _write_case_files(folder: Path, path: Path, loaded: State) -> None:
    for name, tensor in loaded.items():
        if tensor.is_floating_point():
            write_reference(folder / "reference_state_dict", name, convert_to_f32(tensor))
    meta = {
        "name": "pth",
        "checkpoint": path.name,
        "bounds": {"exact": True},
        "num_tensors": len(loaded),
        "tensors": _describe_tensors(path, loaded),
    }
    (folder / "keys.json").write_bytes(encode_json(list(loaded)))
    (folder / "meta.json").write_bytes(encode_json(meta))


def _describe_tensors(path: Path, loaded: State) -> dict[str, dict[str, Any]]:
    """Describe each tensor: the byte range of its whole storage, strides in elements, and so on."""
    storages = _find_storages(path)
    content = path.read_bytes()
    records = {}
    for name, tensor in loaded.items():
        storage, first = storages[name]
        last = first + tensor.untyped_storage().nbytes()
        if not _is_stored_tensor(tensor, content[first:last]):
            message = f"{name} is not at bytes {first} to {last} of {path.name}"
            raise ReferenceSuspectError(Problem("reload-differs", message))
        records[name] = {
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "storage": storage,
            "byte_range": [first, last],
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
        members = sorted(archive.infolist(), key=lambda member: member.header_offset)
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    offsets = {name: t.untyped_storage()._checkpoint_offset for name, t in loaded.items()}  # noqa: SLF001 - documented under torch.load
    return {name: (_find_storage_key(offset, members), offset) for name, offset in offsets.items()}


def _find_storage_key(offset: int, members: list[zipfile.ZipInfo]) -> str:
    before = [member for member in members if member.header_offset < offset]
    return before[-1].filename.rpartition("/")[2]


def _is_stored_tensor(tensor: Any, raw: bytes) -> bool:
    if not tensor.numel():
        return True
    storage = import_library("torch").frombuffer(bytearray(raw), dtype=tensor.dtype)
    view = storage.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return is_same_tensor(view, tensor)
