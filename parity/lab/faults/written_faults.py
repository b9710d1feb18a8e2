"""Faults of files that a port writes: in the tensors, and in the bytes of each format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from parity.bundle.tensor_case import TensorCase
from parity.lab.faults import Fault, make_file_fault
from parity.lab.faults.value_faults import VALUE_FAULTS
from parity.lab.faults.written_flat import NPY, SAFETENSORS, Break, Row
from parity.lab.faults.written_packed import GGUF, PTH
from parity.lab.writers import WrittenContent
from parity.lab.zoo.case import ExpectedTensor
from parity.tensors.dtypes import DTYPES

#: From a tensor to a wrong one; None where the fault does not apply.
Change = Callable[[ExpectedTensor], ExpectedTensor | None]


def list_written_faults(
    detail: TensorCase, contents: Mapping[str, WrittenContent]
) -> Iterator[Fault]:
    """List the faults of the first and of the last file of a case that apply to them."""
    first, *_, last = [*contents.items()] * 2
    for name, content in dict((first, last)).items():
        right, place = content.build(), "" if name == first[0] else ":last"
        for kind, row in {**_SHARED, **_FORMS[content.form]}.items():
            if row.code == "metadata-changed" and not detail.metadata:
                continue
            wrong = row.make(content, right)
            if wrong is not None and wrong != right:
                change = partial(Path.write_bytes, data=wrong)
                fault = f"{content.form}:{kind}{place}"
                yield make_file_fault(fault, row.text, row.code, change, name, warns=row.warns)
        for kind, text, code, change_file in _FOLDERS:
            yield make_file_fault(f"{content.form}:{kind}{place}", text, code, change_file, name)
    if first != last and any(name.endswith(".index.json") for name in detail.documents):
        exchange = partial(_exchange_files, other=last[0])
        fault, text = f"{first[1].form}:exchanged", "two shards have each other's tensors"
        yield make_file_fault(fault, text, "json-value", exchange, first[0])
    for copy, original in detail.writes.items():
        if original in contents:
            change = partial(Path.write_bytes, data=contents[original].build() + b"\0")
            fault, text = (
                f"{contents[original].form}:written-otherwise",
                "a file that is written again has other bytes",
            )
            yield make_file_fault(fault, text, "bytes-differ", change, copy)


def _exchange_files(path: Path, other: str) -> None:
    content, place = path.read_bytes(), path.with_name(other)
    path.write_bytes(place.read_bytes())
    place.write_bytes(content)


def _replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


_FOLDERS: tuple[tuple[str, str, str, Callable[[Path], Any]], ...] = (
    ("not-written", "the file is not written", "file-missing", Path.unlink),
    ("folder", "a folder has the file's name", "file-missing", _replace_by_folder),
    ("empty", "the file is empty", "truncated bad-header", lambda path: path.write_bytes(b"")),
)


def _change_tensors(change: Change, content: WrittenContent, _right: bytes) -> bytes | None:
    """Change every tensor that a change applies to."""
    changed = {name: change(one) for name, one in content.tensors.items() if one.dtype in DTYPES}
    wrong = {name: one for name, one in changed.items() if one is not None}
    if not wrong:
        return None
    try:
        return content._replace(tensors={**content.tensors, **wrong}).build()
    except KeyError:  # a dtype that the format does not have
        return None


def _change_values(change: Callable[[Any], Any], *dtypes: str) -> Break:
    """Change the elements of every tensor, or of those of some dtypes."""

    def make(one: ExpectedTensor) -> ExpectedTensor | None:
        if dtypes and one.dtype not in dtypes:
            return None
        wrong = change(np.frombuffer(one.raw, DTYPES[one.dtype].storage).reshape(one.shape))
        return None if wrong is None else one._replace(raw=np.ascontiguousarray(wrong).tobytes())

    return partial(_change_tensors, make)


def _narrow(one: ExpectedTensor) -> ExpectedTensor | None:
    if one.dtype != "F32":
        return None
    with np.errstate(over="ignore"):
        return ExpectedTensor(
            "F16", one.shape, np.frombuffer(one.raw, "<f4").astype("<f2").tobytes()
        )


#: Another dtype of the same width, for each.
_TWINS = {"F32": "I32", "F16": "I16", "BF16": "F16", "F64": "I64", "I8": "U8", "U8": "I8",
          "I16": "F16", "I32": "F32", "I64": "F64", "U16": "I16", "U32": "I32", "U64": "I64",
          "BOOL": "U8", "F8_E4M3": "F8_E5M2", "F8_E5M2": "F8_E4M3"}  # fmt: skip


def _retag(one: ExpectedTensor) -> ExpectedTensor | None:
    return one._replace(dtype=_TWINS[one.dtype]) if one.dtype in _TWINS else None


def _drop(content: WrittenContent, _right: bytes) -> bytes | None:
    names = [*content.tensors][:-1]
    kept = {name: content.tensors[name] for name in names}
    return content._replace(tensors=kept).build() if names and content.form != "npy" else None


def _add(content: WrittenContent, _right: bytes) -> bytes | None:
    if content.form == "npy":
        return None
    first = next(iter(content.tensors.values()))
    return content._replace(tensors={**content.tensors, "extra": first}).build()


def _rename(content: WrittenContent, _right: bytes) -> bytes | None:
    if content.form == "npy":
        return None
    renamed = {f"model.{name}": one for name, one in content.tensors.items()}
    return content._replace(tensors=renamed).build()


def _exchange(content: WrittenContent, _right: bytes) -> bytes | None:
    """Give two tensors of one size each other's data."""
    items = [*content.tensors.items()]
    for name, one in items:
        for other, two in items:
            if name != other and (one.dtype, len(one.raw)) == (two.dtype, len(two.raw)):
                swapped = {name: one._replace(raw=two.raw), other: two._replace(raw=one.raw)}
                return content._replace(tensors={**content.tensors, **swapped}).build()
    return None


def _lose_metadata(content: WrittenContent, _right: bytes) -> bytes | None:
    kept = {key: one for key, one in content.metadata.items() if key == "general.alignment"}
    return None if content.form == "npy" else _rebuild(content, kept)


def _change_metadata(content: WrittenContent, _right: bytes) -> bytes | None:
    """Change every text; values of other types are `TYPE JSON`."""
    changed = {
        key: text if " " in text and content.form == "gguf" else f"{text}0"
        for key, text in content.metadata.items()
    }
    return None if content.form == "npy" else _rebuild(content, changed)


def _rebuild(content: WrittenContent, metadata: Mapping[str, str]) -> bytes | None:
    return content._replace(metadata=metadata).build() if content.metadata else None


def _cut_data(content: WrittenContent, right: bytes) -> bytes | None:
    """Cut the last byte of data, before the padding, or of a zip's directory."""
    if content.form == "gguf":
        data = [one.raw for one in content.tensors.values() if one.raw]
        alignment = content.metadata.get("general.alignment", "32").removeprefix("uint32 ")
        return right[: len(right) - (-len(data[-1]) % int(alignment)) - 1]
    return right[:-1]


# fmt: off
_SHARED: dict[str, Row] = {
    "tensor-missing": Row("the last tensor is left out", "tensor-missing", _drop),
    "tensor-extra": Row("a tensor is written that is not asked for", "tensor-extra", _add),
    "renamed": Row("names have a prefix", "tensor-renamed", _rename),
    "other-tensor": Row("two tensors have each other's data", "other-tensor", _exchange),
    "metadata-lost": Row("metadata are not written", "metadata-changed", _lose_metadata),
    "metadata-changed": Row("metadata have other text", "metadata-changed", _change_metadata),
    "dims-reversed": Row("dimensions are written in reverse", "shape",
                         partial(_change_tensors, lambda one: one._replace(shape=one.shape[::-1]))),
    "transposed": Row("data are written column by column", "transposed dims-reversed",
                      _change_values(lambda array: array.T.reshape(array.shape))),
    "rounded": Row("f32 is rounded to f16", "rounded-f16",
                   _change_values(VALUE_FAULTS["rounded-f16"].change, "F32")),
    "narrowed": Row("f32 is written as f16", "dtype", partial(_change_tensors, _narrow)),
    "dtype-tag": Row("the header has another dtype of the same size", "dtype",
                     partial(_change_tensors, _retag)),
    "byte-order": Row("data are big-endian", "byte-swapped nan",
                      _change_values(lambda array: array.byteswap())),
    "offset": Row("data begin one element further on", "rolled reversed",
                  _change_values(lambda array: np.roll(array, -1))),
    "zeros": Row("data are not written, and zero", "all-zero", _change_values(np.zeros_like)),
    "truncated": Row("the last byte is missing", "truncated bad-header", _cut_data),
}
# fmt: on

_FORMS = {"safetensors": SAFETENSORS, "npy": NPY, "gguf": GGUF, "pth": PTH}
