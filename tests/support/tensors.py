"""Make tensors, files and bundles for tests with NumPy and the standard library alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.suites.base import Case, Dump, DumpComparison
from parity.suites.tensors import suite
from parity.tensors import bin as bin_codec
from parity.tensors import npy, safetensors
from parity.tensors.dtypes import PACKED
from parity.tensors.stored import StoredTensor

#: safetensors' names of NumPy's types.
SAFETENSORS_NAMES = {
    "<f8": "F64",
    "<f4": "F32",
    "<f2": "F16",
    "|b1": "BOOL",
    **{
        f"{'|' if size == 1 else '<'}{sign}{size}": f"{sign.upper()}{8 * size}"
        for sign in "iu"
        for size in (1, 2, 4, 8)
    },
}


def f32(*values: float, shape: tuple[int, ...] | None = None) -> NDArray[np.float32]:
    """Return values as float32, flat or in a shape."""
    flat = np.array(values, "<f4")
    return flat if shape is None else flat.reshape(shape)


def bf16(*values: float) -> NDArray[np.uint16]:
    """Return the bits of values that bfloat16 represents exactly."""
    wide = np.array(values, "<f4").view("<u4")
    return (wide >> 16).astype("<u2")


def from_bits(code: str, *bits: int) -> NDArray[Any]:
    """Return floats of the NumPy type ``code`` from their bits."""
    return np.array(bits, f"<u{np.dtype(code).itemsize}").view(code)


def encode_safetensors(
    tensors: Mapping[str, tuple[str, NDArray[Any]]], *, padding: int = 0, metadata: Any = None
) -> bytes:
    """Return a `.safetensors` file; each tensor comes with its dtype's name."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    data = b""
    for name, (dtype, array) in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        if dtype in PACKED:
            raw = pack_codes(array.reshape(-1).tolist(), PACKED[dtype].width)
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": offsets}
        data += raw
    return add_header(json.dumps(header, ensure_ascii=False).encode() + b" " * padding, data)


def pack_codes(codes: list[int], width: int) -> bytes:
    """Pack codes of ``width`` bits one after another, the first in the lowest bits."""
    whole = sum(code << width * place for place, code in enumerate(codes))
    return whole.to_bytes(len(codes) * width // 8, "little")


def add_header(header: bytes | str | dict[str, Any], data: bytes = b"") -> bytes:
    """Return the bytes of a `.safetensors` file with a header of any content."""
    if isinstance(header, dict):
        header = json.dumps(header)
    raw = header.encode() if isinstance(header, str) else header
    return len(raw).to_bytes(8, "little") + raw + data


def name_dtypes(arrays: Mapping[str, NDArray[Any]]) -> dict[str, tuple[str, NDArray[Any]]]:
    """Return arrays with the names of their dtypes."""
    return {name: (SAFETENSORS_NAMES[array.dtype.str], array) for name, array in arrays.items()}


def store_tensor(folder: Path, array: NDArray[Any], dtype: str | None = None) -> StoredTensor:
    """Write ``array`` to a `.safetensors` file in ``folder``; return it as a stored tensor."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{len(list(folder.iterdir()))}.safetensors"
    name = dtype or SAFETENSORS_NAMES[array.dtype.str]
    path.write_bytes(encode_safetensors({"t": (name, array)}))
    return safetensors.locate_tensors(path)["t"]


def store_bin(folder: Path, array: NDArray[Any]) -> StoredTensor:
    """Write ``array`` to a `.bin` file in ``folder``; return it as a stored tensor."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{len(list(folder.iterdir()))}.bin"
    path.write_bytes(bin_codec.encode_tensor(array))
    return bin_codec.locate_tensor(path)


def store_npy(folder: Path, array: NDArray[Any]) -> StoredTensor:
    """Write ``array`` to a `.npy` file in ``folder``; return it as a stored tensor."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{len(list(folder.iterdir()))}.npy"
    np.save(path, array, allow_pickle=False)
    return npy.locate_tensor(path)


def write_files(folder: Path, arrays: Mapping[str, NDArray[Any] | bytes]) -> Path:
    """Write files, in subfolders too: bytes as they are, arrays by suffix (`.bin`, `.npy`)."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in arrays.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif name.endswith(".npy"):
            with path.open("wb") as file:
                np.save(file, content, allow_pickle=False)
        else:
            path.write_bytes(bin_codec.encode_tensor(content))
    return folder


def make_tensors_case(
    root: Path, reference: Mapping[str, NDArray[Any] | bytes], **entry: Any
) -> Case:
    """Make a generic bundle in ``root``; return its one case."""
    write_files(root / "a" / "reference", reference)
    content = {"schema": 1, "cases": {"a": entry}}
    (root / "parity.json").write_text(json.dumps(content), "utf-8")
    (case,) = suite.read_cases(root, {})
    return case


def verify_dump(
    folder: Path,
    reference: Mapping[str, NDArray[Any] | bytes],
    dump: Mapping[str, NDArray[Any] | bytes],
    **entry: Any,
) -> DumpComparison:
    """Compare a dump with a reference by the suite `tensors`."""
    number = len(list(folder.iterdir()))
    case = make_tensors_case(folder / f"{number}-bundle", reference, **entry)
    dumped = Dump(folder=write_files(folder / f"{number}-dump", dump))
    return suite.verify(case, dumped, dict(case.tolerances))


def list_findings(outcome: DumpComparison) -> list[tuple[str, str, str]]:
    """List level, code and message of each finding."""
    return [(found.level, found.code, found.message) for found in outcome.findings]


def format_findings(outcome: DumpComparison) -> str:
    """Format all of the findings but their causes and measures, a line each, for golden files."""
    text = ""
    for found in outcome.findings:
        place = f"{found.tensor} {list(found.index or ())} {found.expected} / {found.obtained}"
        text += f"{found.level}[{found.code}/{found.kind}] {place}: {found.message}\n"
        text += "".join(f"| {line}\n" for line in found.details)
    return text
