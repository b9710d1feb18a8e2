"""Faults of public reports about GGUF, each as a wrong dump with its siblings.

`docs/cases.md` says which case each test stands for, and where the reports are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parity.checkpoints import blocks
from parity.errors import ReferenceSuspectError
from parity.lab.zoo.gguf_builder import ARRAY, GgufFile, TensorInfo, encode_array, encode_pair
from parity.suites.base import Dump
from parity.suites.serialize import suite as serialize_suite
from parity.suites.tensors import suite as tensors_suite
from tests.support.blocks import SCALE_OFFSETS, make_random_blocks
from tests.support.tensors import bf16, f32, make_tensors_case, write_files
from tests.support.wrong import (
    EDGE,
    Tensor,
    find_cause,
    list_errors,
    verify_wrong_dump,
    write_bundle,
)

ROWS = 3


def quantised(kind: str, seed: int = 0) -> tuple[Tensor, NDArray[np.uint8]]:
    """A tensor of a block type, and its blocks."""
    raw = make_random_blocks(kind, 2 * ROWS, seed)
    dims = [2 * blocks.DECODERS[kind].elements, ROWS]
    due = blocks.decode(kind, raw).reshape(dims)
    return Tensor(due, raw.tobytes(), {"type": kind, "dims": dims}), raw


def misread(kind: str, name: str, folder: Path) -> tuple[str, str]:
    tensor, raw = quantised(kind)
    (wrong,) = (mistake for mistake in blocks.list_mistakes(kind) if mistake.name == name)
    return find_cause(folder, tensor, wrong.decoder(raw).reshape(tensor.expected.shape), "gguf")


KINDS_OF_MISTAKES = {
    "sub-scales (GGF-01)": ("sub-scale",),
    "order of codes (GGF-02)": ("nibbles", "codes-sequential", "codes-reversed"),
    "headers (GGF-04)": ("header", "scale-at-end", "scale-of", "scale-and-min"),
    "bits (GGF-05)": ("high-bits", "codes-unsigned", "codes-signed", "codes-raised", "min"),
}
MISTAKES = [
    (kind, mistake.name)
    for kind in SCALE_OFFSETS
    for mistake in blocks.list_mistakes(kind)
    if mistake.name.startswith(sum(KINDS_OF_MISTAKES.values(), ()))
]


@pytest.mark.parametrize(("kind", "name"), MISTAKES)
def test_decoder_that_unpacks_wrongly(kind: str, name: str, tmp_path: Path) -> None:
    """GGF-01, GGF-02, GGF-04, GGF-05: red under the suite's bound, and named.

    Siblings: each of these mistakes for each block type that ports decode, not Q3_K, Q2_K and
    Q4_1 alone: sub-scales without their high bits, codes in another order, headers of another
    length, fifth and sixth bits lost, minima ignored.
    """
    assert misread(kind, name, tmp_path) == ("values", f"block-{name}")


def test_every_kind_of_mistake_is_tested() -> None:
    for starts in KINDS_OF_MISTAKES.values():
        assert len({kind for kind, name in MISTAKES if name.startswith(starts)}) >= 4


@pytest.mark.parametrize("kind", SCALE_OFFSETS)
def test_decoder_without_recorded_blocks(kind: str, tmp_path: Path) -> None:
    """GGF-01 in upstream's bundle, which does not say where blocks lie: a factor a group."""
    tensor, _ = quantised(kind)
    group = 16 if kind in ("Q2_K", "Q3_K", "Q6_K") else 32
    flat = tensor.expected.reshape(-1, group)
    factors = np.resize(f32(0.5, 0.75, 2, 1.5, 3), (len(flat), 1))
    obtained = (flat * factors).reshape(tensor.expected.shape)
    assert find_cause(tmp_path, Tensor(tensor.expected), obtained, "gguf") == (
        "values",
        "factor-of-groups",
    )


@pytest.mark.parametrize("kind", ["Q4_0", "Q5_1", "Q8_0", "Q4_K", "Q6_K"])
@pytest.mark.parametrize("by", [-32, -8, -4, -2, -1, 1, 2, 3, 5, 8, 16, 32])
def test_blocks_read_at_another_byte(kind: str, by: int, tmp_path: Path) -> None:
    """GGF-10, GGF-11: metadata counted with the wrong size, so that all that follows is shifted.

    Siblings: by one to 32 bytes, both ways; 32 is also a wrong alignment.
    """
    tensor, raw = quantised(kind)
    content = (EDGE + raw.tobytes() + EDGE)[64 + by :][: raw.size]
    with np.errstate(all="ignore"):
        read = blocks.decode(kind, np.frombuffer(content, np.uint8).reshape(raw.shape))
    code, cause = find_cause(tmp_path, tensor, read.reshape(tensor.expected.shape), "gguf")
    assert code in ("values", "nan")
    assert cause == "shifted"


PLAIN: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {
    "F32": (f32(*range(1, 13)), f32(*range(1, 13))),
    "F16": ((values := np.arange(1, 13, dtype="<f2") / 7), values.astype("<f4")),
    "BF16": (bf16(*range(1, 13)), f32(*range(1, 13))),
}


@pytest.mark.parametrize("kind", PLAIN)
def test_missing_type(kind: str, tmp_path: Path) -> None:
    """GGF-16: no branch for F16. Siblings: each plain type; dropped, zero, or as another type."""
    stored, due = PLAIN[kind]
    tensor = Tensor(due.reshape(6, 2), stored.tobytes(), {"type": kind, "dims": [6, 2]})
    other, _ = quantised("Q8_0")
    both = {"w": tensor, "q": other}
    assert list_errors(
        verify_wrong_dump(tmp_path / "gone", "gguf", both, {"q": other.expected})
    ) == [("w", "tensor-missing", "")]
    zeros = np.zeros((6, 2), "<f4")
    assert list_errors(
        verify_wrong_dump(tmp_path / "zero", "gguf", both, {"q": other.expected, "w": zeros})
    ) == [("w", "values", "all-zero")]
    if kind != "F32":
        taken = stored.view("<f2").astype("<f4")
        if kind == "F16":
            taken = (stored.view("<u2").astype("<u4") << 16).view("<f4")
        found = find_cause(tmp_path / "other", tensor, taken.reshape(6, 2), "gguf")
        assert found == ("values", "other-dtype")


@pytest.mark.parametrize("kind", PLAIN)
def test_file_of_the_other_byte_order(kind: str, tmp_path: Path) -> None:
    """GGF-13: the magic does not tell the byte order. Siblings: elements of two and four bytes."""
    stored, due = PLAIN[kind]
    tensor = Tensor(due.reshape(6, 2), stored.tobytes(), {"type": kind, "dims": [6, 2]})
    swapped = stored.byteswap()
    with np.errstate(all="ignore"):
        obtained = (swapped.astype("<u4") << 16).view("<f4") if kind == "BF16" else swapped
    code, cause = find_cause(tmp_path, tensor, obtained.astype("<f4").reshape(6, 2), "gguf")
    assert (code in ("values", "nan"), cause) == (True, "byte-swapped")


SHAPES = [((4, 3), (3, 4)), ((2, 3, 4), (4, 3, 2)), ((12,), (2, 6)), ((6,), (2, 1, 1, 3))]


@pytest.mark.parametrize(("dims", "obtained"), SHAPES, ids=str)
def test_reversed_dimensions(
    dims: tuple[int, ...], obtained: tuple[int, ...], tmp_path: Path
) -> None:
    """GGF-07, GGF-08: a shape that differs, whose convention is told; nothing is reshaped.

    Siblings: two and three axes, and a flat tensor that metadata would give other axes.
    """
    due = np.arange(1, np.prod(dims) + 1, dtype="<f4")
    tensor = Tensor(due.reshape(dims), due.tobytes(), {"type": "F32", "dims": list(dims)})
    outcome = verify_wrong_dump(tmp_path, "gguf", {"w": tensor}, {"w": due.reshape(obtained)})
    assert list_errors(outcome) == [("w", "shape", "")]
    assert "GGUF's stored order, fastest dimension first" in outcome.findings[0].message


def test_reversed_dimensions_of_a_square(tmp_path: Path) -> None:
    """GGF-07: a square tensor has one shape either way, but its values are told."""
    due = np.arange(1, 17, dtype="<f4").reshape(4, 4)
    tensor = Tensor(due, due.tobytes(), {"type": "F32", "dims": [4, 4]})
    assert find_cause(tmp_path, tensor, due.T, "gguf") == ("values", "transposed")


@pytest.mark.parametrize("lost", [("a",), ("b", "c"), ("a", "b", "c")], ids=str)
def test_unread_shard(lost: tuple[str, ...], tmp_path: Path) -> None:
    """GGF-14 in a dump: every tensor of the other shard is told, not the first alone."""
    due = {name: Tensor(f32(at, 1)) for at, name in enumerate("abc")}
    obtained = {name: one.expected for name, one in due.items() if name not in lost}
    obtained = obtained or {"unknown": f32(1)}
    found = list_errors(verify_wrong_dump(tmp_path, "gguf", due, obtained))
    assert found == [(name, "tensor-missing", "") for name in lost]


KEY = "comfy.gguf.orig_shape.w"
FLAT = "; both have 6 elements"
STATED = (
    f"; it is the one in the checkpoint's key {KEY}, [2, 1, 1, 3], where the header's is expected"
)
#: Shape and first value of the dump; what is said beside the two shapes.
SHAPED: dict[str, tuple[tuple[int, ...], float, str]] = {
    "as the key has it": ((2, 1, 1, 3), 1,
        f"{STATED}, and all 6 elements are right in their order"),
    "the other way round": ((3, 1, 1, 2), 1,
        f"{STATED}, and all 6 elements are right in their order"),
    "with a wrong value": ((2, 1, 1, 3), 9, f"{STATED}; 1 of 6 elements differ besides"),
    "as no key has it": ((2, 3), 1, FLAT),
    "of another size": ((2, 1, 1, 4), 1, ""),
}  # fmt: skip


@pytest.mark.parametrize(("shape", "first", "hint"), SHAPED.values(), ids=SHAPED)
def test_shape_only_in_the_metadata(
    shape: tuple[int, ...], first: float, hint: str, tmp_path: Path
) -> None:
    """GGF-08: the dump has the shape of a key; the finding says so, and reshapes nothing."""
    due = np.arange(1, 7, dtype="<f4")
    obtained = np.resize(due, shape)
    obtained.flat[0] = first
    key = encode_pair(KEY, ARRAY, encode_array(5, 4, np.array([2, 1, 1, 3], "<i4").tobytes()))
    info = TensorInfo(name="w", dims=(6,), kind=0, data=due.tobytes())
    file = GgufFile(tensors=(info,), metadata=(key,)).build()
    case = make_tensors_case(tmp_path, {"w.npy": due, "../x.gguf": file}, checkpoint="x.gguf")
    dump = Dump(folder=write_files(tmp_path / "dump", {"w.bin": obtained}))
    (finding,) = tensors_suite.verify(case, dump, case.tolerances).findings
    note = " (references have GGUF's stored order, fastest dimension first)"
    assert finding.message == f"w has the shape {list(shape)}, expected [6]{hint}{note}"
    assert (finding.code, finding.level) == ("shape", "error")


def parts_of(names: str, count: int = 2) -> dict[str, bytes]:
    """GGUF files that share the tensors ``names`` out, each of one value."""
    files = {}
    for number in range(count):
        infos = tuple(
            TensorInfo(name=name, dims=(1,), kind=0, data=f32(ord(name)).tobytes())
            for name in names[number::count]
        )
        files[f"a-{number + 1:05}-of-{count:05}.gguf"] = GgufFile(tensors=infos).build()
    return files


LOST = {
    "the whole second part": (
        "bd",
        "; it is in a-00002-of-00002.gguf, and all 2 tensors of it are missing",
    ),
    "one of the second part": ("d", "; it is in a-00002-of-00002.gguf"),
    "one of each": ("ab", "; it is in a-0000{}-of-00002.gguf"),
}


@pytest.mark.parametrize("suite", [serialize_suite, tensors_suite])
@pytest.mark.parametrize(("lost", "hint"), LOST.values(), ids=LOST)
def test_part_with_the_missing_tensor_is_named(
    suite: Any, lost: str, hint: str, tmp_path: Path
) -> None:
    """GGF-14: each tensor that is missing is told with the file that it lies in."""
    due = {f"{name}.bin": f32(ord(name)) for name in "abcd"}
    root, files = tmp_path / "bundle", parts_of("abcd")
    if suite is serialize_suite:
        write_files(root / "gguf", files | {"sampled_tensor_names.json": b'["a", "b", "c", "d"]'})
        write_files(root / "gguf" / "reference_dequant", due)
        (case,) = serialize_suite.read_cases(root, {})
        assert case.placeholders["checkpoint"].endswith("a-00001-of-00002.gguf")
    else:
        placed = {f"../{name}": content for name, content in files.items()}
        case = make_tensors_case(root, due | placed, checkpoint=min(files))
    dump = {name: array for name, array in due.items() if name[0] not in lost}
    outcome = suite.verify(case, Dump(folder=write_files(tmp_path / "d", dump)), case.tolerances)
    assert [f.message for f in outcome.findings if f.level == "error"] == [
        f"{name} (F32 [1]) is missing from the dump{hint.format(1 + 'abcd'.index(name) % 2)}"
        for name in lost
    ]


@pytest.mark.parametrize("shards", [2, 3])
def test_checkpoint_in_several_files(shards: int, tmp_path: Path) -> None:
    """GGF-14 in a bundle: all parts are one checkpoint, and one that is absent is named."""
    root = write_bundle(tmp_path, "gguf", {"w": Tensor(f32(1, 2))})
    (root / "gguf" / "x.gguf").unlink()
    names = [f"a-{n:05}-of-{shards:05}.gguf" for n in range(1, shards + 1)]
    for name in names:
        (root / "gguf" / name).write_bytes(b"GGUF")
    (case,) = serialize_suite.read_cases(root, {})
    assert case.placeholders["checkpoint"] == str(root / "gguf" / names[0])
    for name in names:
        (root / "gguf" / name).unlink()
        with pytest.raises(ReferenceSuspectError) as caught:
            serialize_suite.read_cases(root, {})
        (problem,) = caught.value.problems
        assert problem.code == "checkpoint-count"
        assert problem.message == f"gguf lacks {name}, of {shards} parts of a checkpoint"
        (root / "gguf" / name).write_bytes(b"GGUF")
    (root / "gguf" / "b.gguf").write_bytes(b"GGUF")
    with pytest.raises(ReferenceSuspectError, match="expected exactly one"):
        serialize_suite.read_cases(root, {})


@pytest.mark.parametrize("expect", ["load", "refuse"])
def test_generic_checkpoint_with_a_missing_part(expect: str, tmp_path: Path) -> None:
    """GGF-14: a port can load only what is there; to be refused, a part may well be absent."""
    files = {f"../{name}": content for name, content in parts_of("ab").items()}
    del files["../a-00002-of-00002.gguf"]
    entry = {"checkpoint": "a-00001-of-00002.gguf", "expect": expect}
    if expect == "refuse":
        assert make_tensors_case(tmp_path, files | {"a.bin": f32(1)}, **entry).expect == "refuse"
        return
    with pytest.raises(ReferenceSuspectError, match=r"lacks its part 'a-00002-of-00002\.gguf'"):
        make_tensors_case(tmp_path, files | {"a.bin": f32(1)}, **entry)
