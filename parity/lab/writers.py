"""Write files of tensors in each format byte by byte, rightly, so that a fault can be put in."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from parity.bundle.tensor_case import FORMATS, TensorCase
from parity.checkpoints import locate_tensors
from parity.checkpoints.gguf_header import BY_NAME
from parity.lab.array_files import to_array
from parity.lab.zoo import gguf_builder, pth_builder
from parity.lab.zoo.case import ExpectedTensor
from parity.lab.zoo.safetensors_builder import build_file
from parity.suites.tensors.rules import read_references
from parity.tensors.dtypes import DTYPES
from parity.tensors.safetensors import read_metadata

Tensors = Mapping[str, ExpectedTensor]  # With their rows and columns in logical order
#: torch's classes of storages; dtypes without one have torch's own name in the pickle.
STORAGES = {
    "F64": "Double", "F32": "Float", "F16": "Half", "BF16": "BFloat16", "I64": "Long",
    "I32": "Int", "I16": "Short", "I8": "Char", "U8": "Byte", "BOOL": "Bool", "C64": "ComplexFloat",
}  # fmt: skip


def build_safetensors(tensors: Tensors, metadata: Mapping[str, str]) -> bytes:
    """Build a file; larger elements come first, so that each is at a multiple of its size."""

    def measure_element(one: ExpectedTensor) -> int:
        return DTYPES[one.dtype].storage.itemsize

    ordered = sorted(tensors.items(), key=lambda item: -measure_element(item[1]))
    return build_file(dict(ordered), metadata or None)


def build_npy(tensors: Tensors, **changes: Any) -> bytes:
    """Build the file of the first tensor; ``changes`` are of the header's entries."""
    tensor = next(iter(tensors.values()))
    buffer = io.BytesIO()
    head = np.lib.format.header_data_from_array_1_0(to_array(tensor)) | changes
    np.lib.format.write_array_header_1_0(buffer, head)
    return buffer.getvalue() + tensor.raw


def list_infos(tensors: Tensors) -> list[gguf_builder.TensorInfo]:
    """List GGUF's infos, with dimensions in the stored order."""
    return [
        gguf_builder.TensorInfo(
            name=name, dims=one.shape[::-1], kind=BY_NAME[one.dtype].code, data=one.raw
        )
        for name, one in tensors.items()
    ]


def build_gguf(
    tensors: Iterable[gguf_builder.TensorInfo], metadata: Mapping[str, str], **fields: Any
) -> bytes:
    """Build a file; a value of the metadata is text, or ``TYPE JSON`` such as ``uint32 7``."""
    alignment = int(metadata.get("general.alignment", "uint32 32").removeprefix("uint32 "))
    order = fields.get("order", "<")
    pairs = tuple(_encode_pair(key, text, order) for key, text in metadata.items())
    settings = {"metadata": pairs, "alignment": alignment, **fields}
    return gguf_builder.GgufFile(tensors=tuple(tensors), **settings).build()


def _encode_pair(key: str, text: str, order: str) -> bytes:
    kind, _, rest = text.partition(" ")
    inner = kind.removesuffix("[]")
    if inner not in (*gguf_builder.SCALARS, "string") or not rest:
        payload = gguf_builder.encode_string(text, order)
        return gguf_builder.encode_pair(key, gguf_builder.STRING, payload, order)
    value = json.loads(rest)
    code = gguf_builder.STRING if inner == "string" else gguf_builder.SCALARS[inner][0]
    items = [_encode_value(inner, one, order) for one in (value if inner != kind else [value])]
    if inner == kind:
        return gguf_builder.encode_pair(key, code, items[0], order)
    return gguf_builder.encode_array_pair(code, len(items), b"".join(items), key)


def _encode_value(kind: str, value: Any, order: str) -> bytes:
    if kind == "string":
        return gguf_builder.encode_string(value, order)
    return struct.pack(order + gguf_builder.SCALARS[kind][1], value)


def push_view(key: str, one: ExpectedTensor, **changes: Any) -> bytes:
    """Encode a row-major tensor on the storage ``key``; ``changes`` are of its view."""
    count = len(one.raw) // DTYPES[one.dtype].storage.itemsize
    strides = [int(np.prod(one.shape[axis + 1 :])) for axis in range(len(one.shape))]
    view = {"offset": 0, "size": one.shape, "stride": strides, "length": count, **changes}
    if one.dtype in STORAGES:
        storage = pth_builder.push_storage(key, view["length"], f"{STORAGES[one.dtype]}Storage")
        return pth_builder.push_tensor(
            storage, offset=view["offset"], size=view["size"], stride=view["stride"]
        )
    kind = pth_builder.push_global("torch.storage", "UntypedStorage")
    parts = (kind, *map(pth_builder.push_text, (key, "cpu")), pth_builder.push_int(len(one.raw)))
    storage = pth_builder.push_tuple(pth_builder.push_text("storage"), *parts) + pth_builder.PERSID
    ints = (pth_builder.push_ints(view["size"]), pth_builder.push_ints(view["stride"]))
    own = pth_builder.push_global("torch", DTYPES[one.dtype].torch)
    first = pth_builder.push_int(view["offset"])
    end = (pth_builder.FALSE, pth_builder.ORDERED_DICT, own)
    call = pth_builder.push_global("torch._utils", "_rebuild_tensor_v3")
    return call + pth_builder.push_tuple(storage, first, *ints, *end) + pth_builder.REDUCE


def list_members(tensors: Tensors, metadata: Mapping[str, str], **changes: Any) -> dict[str, bytes]:
    """List the members of a .pth; ``changes`` are of each tensor's view."""
    texts = [(key, pth_builder.push_text(text)) for key, text in metadata.items()]
    views = [
        (name, push_view(str(number), one, **changes))
        for number, (name, one) in enumerate(tensors.items())
    ]
    members = {"data.pkl": pth_builder.build_pickle(pth_builder.push_dict(*texts, *views))}
    members["byteorder"] = b"little"
    members |= {f"data/{number}": one.raw for number, one in enumerate(tensors.values())}
    return {f"archive/{name}": raw for name, raw in {**members, "version": b"3\n"}.items()}


def build_zip(
    members: Iterable[tuple[str, bytes]], alignment: int = 64, method: int = zipfile.ZIP_STORED
) -> bytes:
    """Build a zip whose members begin at multiples of ``alignment``, as torch pads them."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, raw in members:
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type, info.create_system = method, 0
            padding = -(buffer.tell() + 34 + len(name)) % alignment
            info.extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
            file.NameToInfo.pop(name, None)  # else the library warns of a duplicate
            file.writestr(info, raw)
    return buffer.getvalue()


def build_written(form: str, tensors: Tensors, metadata: Mapping[str, str]) -> bytes:
    """Build the right file of a format; a .npy has one tensor and no metadata."""
    if form == "gguf":
        return build_gguf(list_infos(tensors), metadata)
    if form == "pth":
        return build_zip(list_members(tensors, metadata).items())
    return build_npy(tensors) if form == "npy" else build_safetensors(tensors, metadata)


class WrittenContent(NamedTuple):
    """The content that a case's file must have; GGUF's blocks are as in the checkpoint."""

    form: str
    tensors: Tensors
    metadata: Mapping[str, str]

    def build(self) -> bytes:
        """Build the right file."""
        return build_written(*self)


def list_contents(detail: TensorCase) -> dict[str, WrittenContent]:
    """List the files that a case's port must write, by name; shards have as many tensors each.

    Raises:
        ReferenceSuspectError: The references cannot be read.
    """
    references = read_references(detail)
    tensors = {
        name: ExpectedTensor(one.dtype.name, one.shape, one.read_array().tobytes())
        for name, one in references.items()
    }
    if detail.checkpoint is not None and detail.checkpoint.suffix == ".gguf":
        content = detail.checkpoint.read_bytes()
        located = locate_tensors(detail.folder, detail.checkpoint)
        tensors = {
            name: ExpectedTensor(one.type_name, one.shape, content[one.start : one.stop])
            for name, one in located.items()
        }
    metadata: dict[str, str] = {}
    for path in {one.path for one in references.values()}:
        metadata |= read_metadata(path) if path.suffix == ".safetensors" else {}
    forms = {name: form for name, form in detail.writes.items() if form in FORMATS}
    share = -(-len(tensors) // len(forms))
    found = {}
    for number, (name, form) in enumerate(forms.items()):
        own = dict(islice(tensors.items(), number * share, (number + 1) * share))
        if form == "npy":
            own = {name.removesuffix(".npy"): tensors[name.removesuffix(".npy")]}
        stated = {"general.architecture": "test", **metadata} if form == "gguf" else metadata
        found[name] = WrittenContent(form, own, stated)
    return found


def write_right(detail: TensorCase, folder: Path) -> dict[str, WrittenContent]:
    """Write what a port must write; return the contents by file.

    Raises:
        ReferenceSuspectError: The references cannot be read.
    """
    contents = list_contents(detail)
    files = {name: content.build() for name, content in contents.items()}
    files |= {name: files[form] for name, form in detail.writes.items() if form in files}
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return contents
