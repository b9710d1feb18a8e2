"""Verify wrong dumps of the suite `serialize`: findings of a tensor, and their causes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.suites.base import Dump, DumpComparison
from parity.suites.serialize import suite
from parity.tensors.bin import encode_tensor
from tests.support.tensors import write_files

FOLDERS = {
    "pth": ("resnet18-pth", "reference_state_dict"),
    "safetensors": ("safetensors-rt", "reference_state_dict"),
    "gguf": ("gguf", "reference_dequant"),
}


@dataclass(frozen=True)
class Tensor:
    """A tensor and its record.

    Attributes:
        expected: Values of the reference, as float32.
        stored: Its bytes in the checkpoint; empty if the bundle does not say.
        record: Its record in `meta.json`, without the range of these bytes.
    """

    expected: NDArray[Any]
    stored: bytes = b""
    record: Mapping[str, Any] = field(default_factory=dict)


def make_plain(array: NDArray[Any], dtype: str = "float32") -> Tensor:
    """Return a contiguous tensor as the checkpoint stores it; bfloat16 comes as its bits."""
    record = {"dtype": dtype, "shape": list(array.shape)}
    wide = array.astype("<u4") << 16 if dtype == "bfloat16" else array
    expected = wide.view("<f4") if dtype == "bfloat16" else wide.astype("<f4")
    return Tensor(expected, array.tobytes(), record)


def make_strided(storage: NDArray[Any], shape: Any, stride: Any, offset: int = 0) -> Tensor:
    """Return a view of a storage, as in a .pth."""
    steps = [step * storage.itemsize for step in stride]
    view = np.lib.stride_tricks.as_strided(storage[offset:], shape, steps)
    record = {"dtype": "float32", "shape": list(shape), "stride": list(stride)}
    return Tensor(view.astype("<f4"), storage.tobytes(), {**record, "storage_offset": offset})


#: Bytes before the first tensor of a checkpoint and after its last.
EDGE = np.random.default_rng(5).integers(1, 255, 64, np.uint8).tobytes()


def make_checkpoint(tensors: Mapping[str, Tensor]) -> tuple[bytes, dict[str, Any]]:
    """Return a file of the tensors' bytes, one after the other, and the range of each."""
    content, records = EDGE, {}
    for name, tensor in tensors.items():
        span = [len(content), len(content) + len(tensor.stored)]
        content += tensor.stored
        records[name] = {**tensor.record, **({"byte_range": span} if tensor.stored else {})}
    return content + EDGE, records


def write_bundle(folder: Path, kind: str, tensors: Mapping[str, Tensor], **meta: Any) -> Path:
    """Write a bundle with one case of a kind."""
    root = folder / "bundle"
    case, references = FOLDERS[kind]
    content, records = make_checkpoint(tensors)
    files = {f"x.{kind}": content, "meta.json": json.dumps({"tensors": records, **meta}).encode()}
    names = json.dumps(list(tensors)).encode()
    files["sampled_tensor_names.json" if kind == "gguf" else "keys.json"] = names
    write_files(root / case, files)
    write_files(
        root / case / references,
        {f"{n}.bin": encode_tensor(t.expected) for n, t in tensors.items()},
    )
    return root


def verify_wrong_dump(
    folder: Path, kind: str, tensors: Mapping[str, Tensor], obtained: Mapping[str, Any], **meta: Any
) -> DumpComparison:
    """Verify a dump: arrays by name, or files by name if they have a suffix."""
    (case,) = suite.read_cases(write_bundle(folder, kind, tensors, **meta), {})
    files = {name if "." in name else f"{name}.bin": content for name, content in obtained.items()}
    return suite.verify(
        case, Dump(folder=write_files(folder / "dump", files)), dict(case.tolerances)
    )


def list_errors(outcome: DumpComparison) -> list[tuple[str | None, str, str]]:
    """List tensor, code and cause's code of each error."""
    errors = [one for one in outcome.findings if one.level == "error"]
    return [(one.tensor, one.code, str(one.measures.get("cause_code", ""))) for one in errors]


def find_cause(folder: Path, tensor: Tensor, obtained: Any, kind: str = "pth") -> tuple[str, str]:
    """Return code and cause of the one error of a wrong dump of one tensor."""
    with np.errstate(all="ignore"):
        dumped = np.ascontiguousarray(obtained).astype("<f4")
    ((name, code, cause),) = list_errors(
        verify_wrong_dump(folder, kind, {"w": tensor}, {"w": dumped})
    )
    assert name == "w"
    assert (
        list_errors(
            verify_wrong_dump(folder / "right", kind, {"w": tensor}, {"w": tensor.expected})
        )
        == []
    )
    return code, cause
