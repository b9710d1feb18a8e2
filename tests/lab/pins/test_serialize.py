"""The serialize bundle: its files, what they hold, and what a decoder's fault would meet."""

from __future__ import annotations

import hashlib
import io
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.errors import ConfigError, ReferenceSuspectError
from parity.lab.libraries import import_library
from parity.lab.pins import (
    model_shapes,
    random_blocks,
    serialize,
    serialize_gguf,
    serialize_state,
    synthetic_state,
)
from parity.lab.pins.seeded_random import SeededRandom
from parity.tensors.bin import read_tensor
from tests.support.bundles import unpack

pytestmark = [pytest.mark.torch, pytest.mark.slow]

KINDS = [
    *("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"),
    *("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(serialize.pin(tmp_path_factory.mktemp("small")), tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tar = serialize.pin(tmp_path_factory.mktemp("upstream"), upstream_only=True)
    return unpack(tar, tmp_path_factory.mktemp("tree"))


def read_json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def records(tree: Path, folder: str) -> dict[str, dict[str, Any]]:
    tensors: dict[str, dict[str, Any]] = read_json(tree / folder / "meta.json")["tensors"]
    return tensors


def reference_names(folder: Path) -> set[str]:
    return {path.name.removesuffix(".bin") for path in folder.glob("*.bin")}


def loaded_pth(tree: Path, name: str = "synthetic.pth") -> dict[str, Any]:
    state: dict[str, Any] = import_library("torch").load(
        tree / "resnet18-pth" / name, weights_only=True
    )
    return state


# pth


def test_pth_has_every_dtype_and_layout(tree: Path) -> None:
    seen = records(tree, "resnet18-pth")
    dtypes = {record["dtype"] for record in seen.values()}
    assert dtypes == {"float32", "float16", "bfloat16", "float64", "int64"}
    by_storage: dict[str, set[tuple[Any, ...]]] = {}
    for record in seen.values():
        key = record["storage_offset"], *record["stride"]
        by_storage.setdefault(record["storage"], set()).add(key)
    assert max(len(views) for views in by_storage.values()) >= 3
    assert any(record["storage_offset"] for record in seen.values())
    strided = {name for name, tensor in loaded_pth(tree).items() if not tensor.is_contiguous()}
    assert len(strided) >= 8
    assert any(0 in record["stride"] for record in seen.values())
    assert seen["tied.weight"] == seen["fc.weight"]
    parameter = import_library("torch").nn.Parameter
    assert {isinstance(value, parameter) for value in loaded_pth(tree).values()} == {True, False}


def test_doubles_are_rounded_once_to_even(tree: Path) -> None:
    folder = tree / "resnet18-pth" / "reference_state_dict"
    ties = read_tensor(folder / "double.ties.bin").tolist()
    assert ties == [1, 1 + 2**-22, -(1 + 2**-22), 2, 0.5 + 2**-23]
    doubles = loaded_pth(tree)["double.weight"].numpy()
    assert (doubles != read_tensor(folder / "double.weight.bin")).any()


def test_counters_do_not_survive_f32(tree: Path) -> None:
    counter = loaded_pth(tree)["bn1.num_batches_tracked"].item()
    assert int(np.float32(counter)) != counter


def test_a_zip_has_no_trace_of_a_path(tmp_path: Path) -> None:
    state = synthetic_state.make_plain_state(1)
    serialize_state.write_pth_case(tmp_path / "one", "some name.pth", state=state)
    serialize_state.write_pth_case(tmp_path / "two", "x.pth", state=state)
    one = (tmp_path / "one" / "some name.pth").read_bytes()
    assert one == (tmp_path / "two" / "x.pth").read_bytes()


# safetensors


def test_safetensors_byte_ranges_cover_the_data_once(tree: Path) -> None:
    size = (tree / "safetensors-rt" / "synthetic.safetensors").stat().st_size
    ranges = sorted(record["byte_range"] for record in records(tree, "safetensors-rt").values())
    assert ranges[-1][1] == size
    assert all(before[1] == after[0] for before, after in pairwise(ranges))


def test_safetensors_metadata_has_one_key(tree: Path) -> None:
    content = (tree / "safetensors-rt" / "synthetic.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert header["__metadata__"] == {"format": "pt"}


# gguf


def test_gguf_has_every_type_and_samples_all(tree: Path) -> None:
    seen = records(tree, "gguf")
    assert {record["type"] for record in seen.values()} == set(KINDS)
    sampled = read_json(tree / "gguf" / "sampled_tensor_names.json")
    assert sampled == list(seen)
    assert reference_names(tree / "gguf" / "reference_dequant") == set(sampled)


@pytest.mark.parametrize("kind", random_blocks.BLOCK_LAYOUTS)
def test_block_scales_are_large_enough_to_see_a_fault(kind: str) -> None:
    made = random_blocks.make_blocks(kind, 50, SeededRandom(1, kind))
    for offset in random_blocks.BLOCK_LAYOUTS[kind].scale_offsets:
        scales = made[:, offset : offset + 2].copy().view("<f2")
        assert np.abs(scales).min() >= 0.1
        assert np.abs(scales).max() < 0.5
        assert len(np.unique(scales)) > 20
        assert 20 <= (scales < 0).sum() <= 30


@pytest.mark.parametrize("kind", random_blocks.BLOCK_LAYOUTS)
def test_every_byte_and_element_of_a_block_varies(tree: Path, kind: str) -> None:
    layout = random_blocks.BLOCK_LAYOUTS[kind]
    content = (tree / "gguf" / "synthetic.gguf").read_bytes()
    for name, record in records(tree, "gguf").items():
        if record["type"] == kind:
            raw = np.frombuffer(content[slice(*record["byte_range"])], np.uint8)
            made = raw.reshape(-1, layout.size)
            fixed = [column for column in range(layout.size) if len(np.unique(made[:, column])) < 2]
            # The high byte of a scale in [0.1, 0.5) has few values.
            assert set(fixed) <= {offset + 1 for offset in layout.scale_offsets}
            path = tree / "gguf" / "reference_dequant" / f"{name}.bin"
            elements = read_tensor(path).reshape(-1, layout.elements)
            assert (elements.max(axis=0) > elements.min(axis=0)).all()


@pytest.mark.parametrize("kind", ["Q4_K", "Q5_K"])
def test_sub_scales_differ_and_use_their_high_bits(kind: str) -> None:
    quants = import_library("gguf.quants")
    made = random_blocks.make_blocks(kind, 40, SeededRandom(1, kind))
    for part in quants.Q4_K.get_scale_min(made[:, 4:16]):
        assert all(len(set(row)) == 8 for row in part.reshape(-1, 8).tolist())
        assert part.min() >= 16
        assert part.max() >= 60


def _multiple_of(kind: str, sub_scales: np.ndarray[Any, Any], per: int) -> None:
    """Each sub-block of a decoded block is its sub-scale times small integers."""
    gguf = import_library("gguf")
    made = random_blocks.make_blocks(kind, len(sub_scales), SeededRandom(1, kind))
    values = gguf.quants.dequantize(made, gguf.GGMLQuantizationType[kind])
    (offset,) = random_blocks.BLOCK_LAYOUTS[kind].scale_offsets
    scales = made[:, offset : offset + 2].copy().view("<f2").astype(np.float64)
    parts = values.reshape(len(made), 16, per) / scales[..., None]
    codes = parts / sub_scales[..., None]
    assert (codes == np.round(codes)).all()
    assert np.abs(codes).max() <= 32


def test_sub_scales_of_q3_k_lie_where_gguf_py_reads_them() -> None:
    drawn = SeededRandom(1, "Q3_K")
    drawn.draw_bytes(30, 110)
    scales = drawn.draw_distinct(30, 16, np.delete(np.arange(64), 32)) - 32
    _multiple_of("Q3_K", scales, 16)


def test_sub_scales_of_q6_k_lie_where_gguf_py_reads_them() -> None:
    drawn = SeededRandom(1, "Q6_K")
    drawn.draw_bytes(30, 210)
    scales = drawn.draw_distinct(30, 16, np.delete(np.arange(-128, 128), 128))
    _multiple_of("Q6_K", scales, 16)


def test_dequantised_values_are_short_enough_to_be_exact(tree: Path) -> None:
    for name, record in records(tree, "gguf").items():
        values = read_tensor(tree / "gguf" / "reference_dequant" / f"{name}.bin") * 1024
        assert (values == np.round(values)).all(), record
        assert np.abs(values).max() < 2**24


# onnx


def test_weights_of_the_first_layer_do_not_fit_half_precision() -> None:
    """Else a model that holds them as f16 or bf16 would be right."""
    weight = serialize.draw_weights(serialize.SEED).weight1
    assert (weight.astype("<f2") != weight).any()
    assert (weight.view("<u4") & 0xFFFF).any()


# Upstream's content alone


def test_upstream_only_has_upstreams_names_and_nothing_beyond(upstream: Path) -> None:
    names = {path.name for path in upstream.rglob("*.*")}
    assert set(serialize.UPSTREAM_NAMES) <= names
    pth = records(upstream, "resnet18-pth").values()
    assert {record["dtype"] for record in pth} == {"float32"}
    assert {record["storage_offset"] for record in pth} == {0}
    state = loaded_pth(upstream, serialize.UPSTREAM_NAMES.pth)
    assert all(tensor.is_contiguous() for tensor in state.values())
    assert len({record["storage"] for record in pth}) == len(pth)
    gguf = {record["type"] for record in records(upstream, "gguf").values()}
    assert gguf == {"F32", "Q8_0"}


def test_full_size_has_the_published_names_and_shapes() -> None:
    shapes = dict(model_shapes.list_resnet18_shapes())
    assert len(shapes) == 122
    counters = [name for name in shapes if name.endswith("num_batches_tracked")]
    assert len(counters) == 20
    buffers = [name for name in shapes if "running_" in name]
    parameters = shapes.keys() - {*counters, *buffers}
    assert sum(int(np.prod(shapes[name])) for name in parameters) == 11_689_512
    specs = model_shapes.list_smollm2_specs()
    assert len({spec.name for spec in specs}) == 272
    assert sum(int(np.prod(spec.shape)) for spec in specs) == 134_515_008


def test_a_large_file_is_sampled_evenly_and_by_type(tmp_path: Path) -> None:
    specs = [serialize_gguf.GgufTensorSpec(f"t.{k:02d}", "F32", (2,)) for k in range(60)]
    specs.insert(7, serialize_gguf.GgufTensorSpec("odd", "Q4_0", (1, 32)))
    serialize_gguf.write_gguf_case(tmp_path / "gguf", "x.gguf", specs=specs, seed=1)
    sampled = read_json(tmp_path / "gguf" / "sampled_tensor_names.json")
    assert len(sampled) == 13
    assert {"odd", "t.00", "t.54"} <= set(sampled)
    assert len(records(tmp_path, "gguf")) == 61


# Real checkpoints


@pytest.mark.process  # the exported model is run, to see that no tolerance is blind
def test_given_checkpoints_are_taken_as_they_are(tree: Path, tmp_path: Path) -> None:
    pth, gguf = tmp_path / "resnet18-f37072fd.pth", tmp_path / "mine.gguf"
    pth.write_bytes((tree / "resnet18-pth" / "synthetic.pth").read_bytes())
    gguf.write_bytes((tree / "gguf" / "synthetic.gguf").read_bytes())
    made = unpack(serialize.pin(tmp_path / "out", pth=pth, gguf=gguf), tmp_path / "tree")
    assert (made / "resnet18-pth" / pth.name).read_bytes() == pth.read_bytes()
    assert (made / "gguf" / "mine.gguf").read_bytes() == gguf.read_bytes()
    for part in ("resnet18-pth/reference_state_dict", "gguf/reference_dequant"):
        for path in (tree / part).iterdir():
            assert path.read_bytes() == (made / part / path.name).read_bytes()
    upstream = read_json(made / "provenance.json")["upstream"]
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (pth, gguf)]
    assert upstream == [
        {"name": pth.name, "sha256": digests[0], "licence": "BSD-3-Clause"},
        {"name": gguf.name, "sha256": digests[1], "licence": "NOASSERTION"},
    ]


def saved(value: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    import_library("torch").save(value, buffer, **options)
    return buffer.getvalue()


class Foreign:
    """What a pickle must not be allowed to make."""


@pytest.mark.filterwarnings("ignore:.*Sparse")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: b"not a checkpoint", "is not a zip"),
        (lambda t: saved({"x": t.ones(2)}, _use_new_zipfile_serialization=False), "is not a zip"),
        (lambda t: saved({"x": t.ones(2)})[:-200], "is not a zip"),
        (lambda _: saved({"x": Foreign()}), "cannot load .* with weights_only"),
        (lambda _: saved({}), "is not a state dict"),
        (lambda t: saved(t.ones(2)), "is not a state dict"),
        (lambda t: saved([t.ones(2)]), "is not a state dict"),
        (lambda t: saved({"epoch": 3, "model": {"x": t.ones(2)}}), "is not a state dict"),
        (lambda t: saved({"x": t.ones(2, 3).to_sparse()}), "is not a state dict"),
    ],
)
def test_bad_checkpoints_are_refused(tmp_path: Path, make: Any, message: str) -> None:
    pth = tmp_path / "bad.pth"
    pth.write_bytes(make(import_library("torch")))
    with pytest.raises(ConfigError, match=message):
        serialize.pin(tmp_path / "out", pth=pth)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("name", ["../../escape", "/x", "nul", "a\nb"])
def test_a_tensors_name_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    pth = tmp_path / "bad.pth"
    pth.write_bytes(saved({name: import_library("torch").ones(2)}))
    with pytest.raises(ConfigError, match="cannot be a member of a bundle"):
        serialize.pin(tmp_path / "out", pth=pth)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["bad.pth", "out"]


def test_bad_gguf_files_are_refused(tree: Path, tmp_path: Path) -> None:
    gguf = tmp_path / "bad.gguf"
    whole = (tree / "gguf" / "synthetic.gguf").read_bytes()
    for content in (b"", b"GGUF", whole[:100], whole[:-64], b"x" * 200):
        gguf.write_bytes(content)
        with pytest.raises(ConfigError, match="gguf-py cannot read it"):
            serialize.pin(tmp_path / "out", gguf=gguf)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_gguf_file_of_integers_alone_is_refused(tmp_path: Path) -> None:
    writer = import_library("gguf").GGUFWriter(tmp_path / "ints.gguf", "llama")
    writer.add_tensor("x", np.arange(4, dtype=np.int32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ConfigError, match="has no tensor that gguf-py can dequantise"):
        serialize.pin(tmp_path / "out", gguf=tmp_path / "ints.gguf")


def test_files_that_are_not_there_are_all_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        serialize.pin(tmp_path, pth=tmp_path / "a.pth", gguf=tmp_path / "b.gguf")
    assert [problem.code for problem in caught.value.problems] == ["not-found", "not-found"]


# A library that does not read back what it wrote


def test_a_pth_that_reads_back_otherwise_is_not_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = import_library("torch")
    monkeypatch.setattr(serialize_state, "load_state", lambda _: {"x": torch.zeros(2)})
    with pytest.raises(ReferenceSuspectError, match="saved and loaded as something else: x"):
        serialize_state.write_pth_case(tmp_path / "pth", "x.pth", state={"x": torch.ones(2)})


def test_a_place_where_the_tensor_does_not_lie_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = serialize_state._find_storages

    def shifted(path: Path) -> dict[str, tuple[str, int]]:
        return {name: (key, first + 4) for name, (key, first) in places(path).items()}

    monkeypatch.setattr(serialize_state, "_find_storages", shifted)
    state = {"x": import_library("torch").arange(1.0, 5.0)}
    with pytest.raises(ReferenceSuspectError, match=r"x is not at bytes \d+ to \d+ of x.pth"):
        serialize_state.write_pth_case(tmp_path / "pth", "x.pth", state=state)


def test_a_safetensors_file_that_reads_back_otherwise_is_not_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = import_library("torch")
    module = import_library("safetensors.torch")
    save = module.save_file

    def scrambling(tensors: dict[str, Any], path: Path, metadata: Any) -> None:
        save({name: tensor.flip(0) for name, tensor in tensors.items()}, path, metadata)

    monkeypatch.setattr(module, "save_file", scrambling)
    state = {"x": torch.arange(4.0)}
    with pytest.raises(ReferenceSuspectError, match="saved and loaded as something else: x"):
        serialize_state.write_safetensors_case(tmp_path / "st", "x.safetensors", state=state)


def test_a_gguf_file_that_reads_back_otherwise_is_not_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    stored = serialize_gguf.make_stored_bytes

    def changing(spec: serialize_gguf.GgufTensorSpec, seed: int) -> Any:
        calls.append(seed)
        return stored(spec, len(calls))

    monkeypatch.setattr(serialize_gguf, "make_stored_bytes", changing)
    specs = [serialize_gguf.GgufTensorSpec("x", "F32", (2, 3))]
    with pytest.raises(ReferenceSuspectError, match=r"x was written as .* read as something else"):
        serialize_gguf.write_gguf_case(tmp_path / "gguf", "x.gguf", specs=specs, seed=1)


def test_a_forward_pass_that_is_not_exact_is_not_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serialize, "compute_exact_forward", lambda *_: [[0.1, 0.2]])
    with pytest.raises(ReferenceSuspectError, match="torch computes"):
        serialize.write_onnx_case(tmp_path / "onnx", seed=1)


# Draws


def test_draws_are_the_recorded_ones() -> None:
    assert SeededRandom(1, "x").draw_integers(-5, 5, 6).tolist() == [-1, -1, -2, 4, 4, 0]
    assert SeededRandom(1, "x").draw_bytes(5).tolist() == [95, 127, 236, 123, 77]
    assert SeededRandom(1, "x").draw_dyadic(2).tolist() == [116.109375, 24.65625]


def test_draws_of_other_names_and_seeds_differ() -> None:
    drawn = {
        SeededRandom(seed, name).draw_bytes(8).tobytes() for seed in (1, 2) for name in ("x", "y")
    }
    assert len(drawn) == 4


def test_draws_keep_to_their_range() -> None:
    values = SeededRandom(1, "range").draw_integers(-3, 3, 1000)
    assert set(values.tolist()) == set(range(-3, 4))
    floats = SeededRandom(1, "range").draw_dyadic(1000, largest=64)
    assert np.abs(floats).max() <= 1
    assert ((floats * 64) == np.round(floats * 64)).all()
