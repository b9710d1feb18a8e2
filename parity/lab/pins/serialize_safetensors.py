"""Make the safetensors case: the float tensors of the pth case, saved by the library."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from parity.errors import Problem, ReferenceSuspectError
from parity.lab.libraries import import_library
from parity.lab.pins.packing import encode_json, write_reference
from parity.lab.pins.serialize_pth import convert_to_f32, encode_values, is_same_tensor

if TYPE_CHECKING:
    from pathlib import Path

    from parity.lab.pins.serialize_pth import State


def write_safetensors_case(folder: Path, checkpoint: str, *, state: State) -> None:
    """Fill ``folder`` with the file ``checkpoint``, its references and its lists.

    Args:
        folder: The case's folder; made here.
        checkpoint: File name of the safetensors file.
        state: Tensors by name; only floats are written, since upstream's readers reject
            others.

    Raises:
        ReferenceSuspectError: The library reads something else than was written.
    """
    (folder / "reference_state_dict").mkdir(parents=True)
    # Tensors of their own, in row-major order: the library rejects shared ones, and
    # its NumPy sibling once wrote strided ones in memory order.
    floats = {
        name: tensor.detach().clone(memory_format=import_library("torch").contiguous_format)
        for name, tensor in state.items()
        if tensor.is_floating_point()
    }
    path = folder / checkpoint
    # One key at most: of two, the order in the file is random.
    import_library("safetensors.torch").save_file(floats, path, metadata={"format": "pt"})
    _check_reload(floats, path)
    _write_case_files(folder, path, floats)


def _check_reload(expected: State, path: Path) -> None:
    loaded = import_library("safetensors.torch").load_file(path)
    differing = [
        name
        for name in expected.keys() | loaded.keys()
        if name not in loaded
        or name not in expected
        or not is_same_tensor(expected[name], loaded[name])
    ]
    if differing:
        message = f"saved and loaded as something else: {', '.join(sorted(differing))}"
        raise ReferenceSuspectError(Problem("reload-differs", message))


def _write_case_files(folder: Path, path: Path, floats: State) -> None:
    for name, tensor in floats.items():
        write_reference(folder / "reference_state_dict", name, convert_to_f32(tensor))
    meta = {
        "name": "safetensors",
        "checkpoint": path.name,
        "bounds": {"exact": True},
        "num_tensors": len(floats),
        "tensors": _describe_tensors(path, floats),
    }
    (folder / "keys.json").write_bytes(encode_json(list(floats)))
    (folder / "meta.json").write_bytes(encode_json(meta))


def _describe_tensors(path: Path, floats: State) -> dict[str, dict[str, Any]]:
    """Describe each tensor: dtype and shape of the header, and the byte range in the file."""
    content = path.read_bytes()
    data = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:data])
    records = {}
    for name, tensor in floats.items():
        first, last = (data + offset for offset in header[name]["data_offsets"])
        if content[first:last] != encode_values(tensor):
            message = f"{name} is not at bytes {first} to {last} of {path.name}"
            raise ReferenceSuspectError(Problem("reload-differs", message))
        description = {key: header[name][key] for key in ("dtype", "shape")}
        records[name] = {**description, "byte_range": [first, last]}
    return records
