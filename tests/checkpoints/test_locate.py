"""Where tensors lie in their checkpoints: what the headers say, compared with the references."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from parity.bundle import manifest
from parity.bundle.tensor_case import TensorCase
from parity.checkpoints import StorageLocation, blocks, locate_tensors
from parity.checkpoints.pth_storages import read_pickle
from parity.tensors.dtypes import DTYPES
from parity.tensors.folder import list_tensors
from parity.tensors.stored import StoredTensor
from tests.support.bundles import unpack

#: Cases of the zoo with a reference whose tensors lie in no plain way in their file, and why.
NOT_PLAIN = {
    "pth-y-no-checksums": "the member's checksum is not that of its bytes",
    "pth-i-sparse-coo": "no view of a storage",
    "pth-i-sparse-csr": "no view of a storage",
    "pth-i-quantized": "no view of a storage",
    "pth-i-nested-tensor": "no view of a storage",
    "pth-i-tar": "no zip",
    "pth-y-big-endian": "not little-endian",
    "pth-i-byteorder-newline": "not plainly little-endian",
    "pth-i-deflated": "not stored as it is",
    "pth-i-member-twice": "two members of one name",
    "pth-i-pickle-twice": "two members of one name",
    "safetensors-i-f4": "a type of less than a byte",
    "safetensors-i-f6-e2m3": "a type of less than a byte",
    "safetensors-i-f6-e3m2": "a type of less than a byte",
    "safetensors-i-entry-array": "an entry that is no object",
    "gguf-i-big-endian": "not little-endian",
    "gguf-i-version-1": "another layout",
}

#: Views that are turned on reading; what lies there is what they were before.
TURNED = {"pth-i-negated-view": np.negative, "pth-i-conjugated-view": np.conj}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, TensorCase]:
    tree = unpack("checkpoint-zoo-v1", tmp_path_factory.mktemp("zoo"))
    return {
        case.id: case for case in manifest.read_manifest(tree).cases if case.reference is not None
    }


def searched(case: TensorCase) -> Mapping[str, StorageLocation]:
    assert case.checkpoint is not None
    return locate_tensors(case.folder, case.checkpoint)


def expected(case: TensorCase) -> Mapping[str, StoredTensor]:
    assert case.reference is not None
    return list_tensors(case.reference).tensors


def lying(raw: StorageLocation) -> NDArray[Any] | None:
    """What lies there, rightly read; None of types with a codebook."""
    data = np.frombuffer(raw.path.read_bytes()[raw.start : raw.stop], np.uint8)
    if raw.type_name in blocks.DECODERS and raw.type_name not in DTYPES:
        return blocks.decode(raw.type_name, data.reshape(-1, blocks.DECODERS[raw.type_name].size))
    if raw.type_name not in DTYPES:
        return None
    size = DTYPES[raw.type_name].storage.itemsize
    flat = data[: len(data) // size * size].view(DTYPES[raw.type_name].storage)
    if raw.stride is None:
        return flat
    steps = [step * size for step in raw.stride]
    return np.lib.stride_tricks.as_strided(flat[raw.storage_offset :], raw.shape, steps)


def test_what_lies_there_is_what_the_references_say(zoo: Mapping[str, TensorCase]) -> None:
    """They are read by torch, safetensors and gguf-py; all tensors of all cases are found."""
    seen, gone = 0, set()
    for case in zoo.values():
        found = searched(case)
        for name, stored in expected(case).items():
            if name not in found:
                gone.add(case.id)
                continue
            raw, due = found[name], stored.read_array()
            values = lying(raw)
            if values is not None:
                if stored.dtype.name != raw.type_name and raw.type_name in DTYPES:
                    values = DTYPES[raw.type_name].round_to_f32(values)
                if case.id in TURNED:
                    due = TURNED[case.id](due)
                np.testing.assert_array_equal(values.reshape(-1), due.reshape(-1), case.id)
            seen += 1
    assert gone == NOT_PLAIN.keys()
    assert seen > 500


def test_shapes_are_logical_and_strides_count_elements(zoo: Mapping[str, TensorCase]) -> None:
    (turned,) = searched(zoo["pth-y-transposed"]).values()
    assert (turned.shape, turned.stride, turned.type_name) == ((7, 5), (1, 7), "F32")
    (blocked,) = searched(zoo["gguf-y-q5-0"]).values()
    assert (blocked.shape, blocked.stride, blocked.type_name) == ((5, 96), None, "Q5_0")
    assert blocked.stop - blocked.start == 15 * 22


def test_a_record_in_meta_json_is_believed_first(zoo: Mapping[str, TensorCase]) -> None:
    case = zoo["gguf-y-q5-0"]
    meta = case.folder / "meta.json"
    meta.write_text('{"tensors": {"v": {"type": "Q4_0", "byte_range": [0, 18], "dims": [32]}}}')
    try:
        assert [(name, raw.type_name) for name, raw in searched(case).items()] == [("v", "Q4_0")]
    finally:
        meta.unlink()


KINDS = ("gguf-y-q5-0", "safetensors-y-f32", "pth-y-transposed")


@given(st.sampled_from(KINDS), st.data())
def test_no_file_breaks_the_look(
    zoo: Mapping[str, TensorCase],
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    data: st.DataObject,
) -> None:
    source = zoo[kind].checkpoint
    assert source is not None
    path = tmp_path_factory.mktemp("x") / source.name
    whole = bytearray(source.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    size = path.stat().st_size
    assert all(
        0 <= raw.start <= raw.stop <= size for raw in locate_tensors(path.parent, path).values()
    )


def test_no_case_of_the_zoo_breaks_the_look(tmp_path: Path) -> None:
    """Those that must be refused are made to bring readers down."""
    unpack("checkpoint-zoo-v1", tmp_path)
    for path in tmp_path.glob("*/checkpoint.*"):
        size = path.stat().st_size
        found = locate_tensors(path.parent, path)
        assert all(0 <= raw.start <= raw.stop <= size for raw in found.values()), path


def test_no_such_file_and_no_such_format(tmp_path: Path) -> None:
    for name in ("c.pth", "c.gguf", "c.safetensors", "c.onnx", "c"):
        assert locate_tensors(tmp_path, tmp_path / name) == {}


def gguf(dims: tuple[int, ...], kind: int, alignment: int, length: int) -> bytes:
    head = struct.pack("<4sIQQ", b"GGUF", 3, 1, 1)
    head += struct.pack("<Q", 17) + b"general.alignment" + struct.pack("<II", 4, alignment)
    head += struct.pack("<QcI", 1, b"w", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
    head += struct.pack("<IQ", kind, 0)
    return head + bytes(-len(head) % alignment) + bytes(length)


@pytest.mark.parametrize(
    ("dims", "kind", "length", "shape"),
    [
        ((32, 3), 2, 54, (3, 32)),
        ((), 0, 4, ()),
        ((32, 3), 2, 53, None),  # beyond the file
        ((33, 1), 2, 99, None),  # no whole block
        ((32, 3), 99, 999, None),  # a type that is not known
        ((1,) * 33, 0, 4, None),  # too many dimensions
    ],
)
def test_infos_of_gguf(
    dims: tuple[int, ...], kind: int, length: int, shape: tuple[int, ...] | None, tmp_path: Path
) -> None:
    path = tmp_path / "c.gguf"
    for alignment in (8, 32, 64):
        path.write_bytes(gguf(dims, kind, alignment, length))
        found = locate_tensors(tmp_path, path)
        assert [raw.shape for raw in found.values()] == ([] if shape is None else [shape])
        if shape is not None:
            assert found["w"].start == path.stat().st_size - length
            assert found["w"].stop == path.stat().st_size


class _Called:
    def __reduce__(self) -> Any:
        return print, ("never",)


def test_nothing_in_a_pickle_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for protocol in range(2, 6):
        found = read_pickle(
            pickle.dumps({"a": _Called(), "b": [1, (2, "x"), None, True]}, protocol)
        )
        assert (str(found["a"].function), found["a"].args) == ("builtins.print", ("never",)) or (
            str(found["a"].function) == "__builtin__.print"
        )
        assert found["b"] == [1, (2, "x"), None, True]
    assert capsys.readouterr().out == ""


HOSTILE = {
    "a bytearray of 2^62 bytes": b"\x80\x05\x96" + (2**62).to_bytes(8, "little") + b"x.",
    "bytes of 2^62 bytes": b"\x80\x05\x8e" + (2**62).to_bytes(8, "little") + b"x.",
    "a string of 2^62 bytes": b"\x80\x05\x8d" + (2**62).to_bytes(8, "little") + b"x.",
    "an int of 2^31 bytes": b"\x80\x05\x8b" + (2**31 - 1).to_bytes(4, "little") + b"x.",
    "another name for a global": b"\x80\x02cos\nsystem\n}U\4nameU\6getcwdsb.",
    "a call by INST": b"(ios\ngetcwd\n.",
    "a call by OBJ": b"\x80\x02(cos\ngetcwd\no.",
    "an extension": b"\x80\x02\x82\1.",
    "a persistent id in text": b"Pstorage\n.",
    "a set": pickle.dumps({1}),
    "a key whose hash takes the whole stack": b"\x80\x02})" + b"\x85" * 2**20 + b"K\1s.",
    "a key whose hash takes forever": b"\x80\x02K\1q\0}(" + b"h\0h\0\x86q\0" * 64 + b"K\1u.",
    "a key with a call in a tuple": b"\x80\x02}cos\ngetcwd\n)R\x85K\1s.",
    "no end": b"\x80\x02}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pickle_is_rejected(name: str) -> None:
    with pytest.raises((ValueError, EOFError, pickle.UnpicklingError)):
        read_pickle(HOSTILE[name])


def test_a_call_is_printed_without_its_arguments() -> None:
    doubled = b"\x80\x02K\1" + b"q\0h\0\x86" * 64
    assert str(read_pickle(doubled + b"cos\ngetcwd\nh\0\x85R.")) == "what os.getcwd returns"


def test_a_memo_of_a_large_index_is_small() -> None:
    assert read_pickle(b"\x80\x02}r" + (2**32 - 1).to_bytes(4, "little") + b".") == {}


def test_a_pickle_of_what_no_state_dict_needs_is_none(tmp_path: Path) -> None:
    path = tmp_path / "c.pth"
    number_as_id, list_as_key = b"\x80\x02}X\1\0\0\0wK\1Qs.", b"\x80\x02}]K\1s."
    rebuilt = b"ctorch._tensor\n_rebuild_from_type_v2\n"
    no_arguments = b"\x80\x02}X\1\0\0\0w](" + rebuilt + b")Res."
    within_itself = b"\x80\x02}X\1\0\0\0w](" + rebuilt * 2 + b"N]q\1(" + rebuilt + b"Nh\1e\x87Res."
    odd = (
        *(pickle.dumps({"w": {1, 2}}), pickle.dumps({}) + b"x", number_as_id, list_as_key),
        *(no_arguments, within_itself),
    )
    for content in (b"", b"\x80\x02", *odd):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("archive/data.pkl", content)
        path.write_bytes(buffer.getvalue())
        assert locate_tensors(tmp_path, path) == {}
