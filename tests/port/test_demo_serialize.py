"""The demo port's readers beyond the zoo's cases, compared with torch and gguf."""

from __future__ import annotations

import collections
import io
import json
import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

gguf = pytest.importorskip("gguf")
torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")

pytestmark = [pytest.mark.cargo, pytest.mark.torch, pytest.mark.slow]

WORKSPACE = Path(__file__).parents[1] / "ports" / "demo"
SUFFIX = ".exe" if sys.platform == "win32" else ""
EXAMPLES = {
    "pth": "serialize_pth_dump",
    "safetensors": "serialize_safetensors_dump",
    "gguf": "serialize_gguf_dump",
    "onnx": "serialize_onnx_export_dump",
}


class Outcome(NamedTuple):
    code: int
    message: str
    tensors: dict[str, np.ndarray]


@pytest.fixture(scope="session")
def examples() -> Path:
    """Where the built examples lie; debug, so that an overflow panics instead of wrapping."""
    command = ["cargo", "build", "--offline", "--quiet", "-p", "demo-serialize", "--examples"]
    subprocess.run(command, cwd=WORKSPACE, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", str(WORKSPACE / "target"))
    return WORKSPACE / target / "debug" / "examples"


@pytest.fixture
def dump(examples: Path, tmp_path: Path) -> Callable[..., Outcome]:
    """Write ``files`` into a fixture folder, run the dump, read what it wrote."""
    numbers = iter(range(1_000_000))

    def run(target: str, files: Mapping[str, bytes], *, own: bool = False) -> Outcome:
        folder = tmp_path / str(next(numbers))
        (folder / "in").mkdir(parents=True)
        for name, data in files.items():
            (folder / "in" / name).write_bytes(data)
        words = [] if own else ["--target", target]
        example = EXAMPLES[target] if own else "serialize_parity_dump"
        folders = ["--fixture-dir", str(folder / "in"), "--output-dir", str(folder / "out")]
        done = subprocess.run(
            [str(examples / (example + SUFFIX)), *words, *folders],
            capture_output=True,
            timeout=20,
            check=False,
        )
        return Outcome(done.returncode, done.stderr.decode(), read_folder(folder / "out"))

    return run


def read_folder(folder: Path) -> dict[str, np.ndarray]:
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return {path.stem: read_bin(path.read_bytes()) for path in paths if path.suffix == ".bin"}


def read_bin(data: bytes) -> np.ndarray:
    (ndim,) = struct.unpack_from("<I", data)
    shape = struct.unpack_from(f"<{ndim}I", data, 4)
    return np.frombuffer(data, "<f4", offset=4 + 4 * ndim).reshape(shape)


def write_bin(array: np.ndarray) -> bytes:
    return struct.pack(f"<I{array.ndim}I", array.ndim, *array.shape) + array.astype("<f4").tobytes()


def assert_same(obtained: np.ndarray, expected: np.ndarray) -> None:
    """Bit for bit, but for the payload of a NaN, which nobody promises when widening."""
    assert obtained.shape == expected.shape
    nan = np.isnan(expected)
    assert (np.isnan(obtained) == nan).all()
    bits = [np.ascontiguousarray(array)[~nan].view(np.uint32) for array in (obtained, expected)]
    assert (bits[0] == bits[1]).all()


def assert_refused(outcome: Outcome, *words: str) -> None:
    assert outcome.code == 1
    assert outcome.message.startswith("FAILED: ")
    assert not outcome.tensors
    for word in words:
        assert word in outcome.message


# .pth


BLOCK = torch.arange(24.0).reshape(2, 3, 4)
SPECIAL = torch.tensor([-0.0, torch.inf, -torch.inf, torch.nan, 1e-45, 1e-40, 1.5, 0.1])
HALVES = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
BYTES = torch.arange(256, dtype=torch.uint8)
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SMALL = [
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool]
WIDE_UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
WHOLE = torch.tensor([0, 1, 100])


#: What the zoo has no case for.
CHECKPOINTS: dict[str, dict[Any, Any]] = {
    "empty-with-offset": {"w": torch.empty(0, 5)[:, 3:]},
    "optimizer": {"state": {0: {"m": BLOCK}}, "param_groups": [{"params": [0]}]},
    "integers": {"w": BLOCK, "a": 255, "b": 65535, "c": -1, "d": 2**40, "e": 2**70, "f": -(2**40)},
    "floats": {str(dtype): SPECIAL.to(dtype) for dtype in FLOATS},
    "every-half": {"f16": HALVES.clone().view(torch.float16), "b": HALVES.view(torch.bfloat16)},
    "every-byte": {str(dtype): BYTES.clone().view(dtype) for dtype in SMALL},
    "whole-numbers": {str(d): WHOLE.to(d) for d in INTEGERS + WIDE_UNSIGNED},
    "harmless": {"w": BLOCK, "size": torch.Size([2]), "on": torch.device("cpu"), "t": torch.half},
}
REFUSED: dict[str, tuple[Any, str]] = {
    "complex": ({"w": torch.ones(1, dtype=torch.complex64)}, "complex"),
    "sparse": ({"w": torch.ones(1).to_sparse()}, "sparse"),
    "negated": ({"w": torch._neg_view(torch.ones(2))}, "negated"),
    "module": (torch.nn.Linear(1, 1), "Linear"),
    "bare": (BLOCK, "no names"),
    "long-name": ({"x" * 300: BLOCK}, "200 bytes"),
    "slash": ({"a/b": BLOCK}, "file system"),
    "device": ({"aux": BLOCK}, "Windows"),
    "twins": ({"a": {"b": BLOCK}, "a.b": BLOCK}, "a.b"),
    "storage": ({"w": BLOCK.untyped_storage()}, "storage"),
}
CONTAINERS: dict[str, dict[str, Any]] = {
    **{f"zip-{protocol}": {"pickle_protocol": protocol} for protocol in (2, 3, 4, 5)},
    "legacy": {"_use_new_zipfile_serialization": False},
}


def saved(value: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


def flattened(value: Mapping[Any, Any], prefix: str = "") -> dict[str, np.ndarray]:
    """Tensors by their path of keys, rounded once to f32."""
    found: dict[str, np.ndarray] = {}
    for key, item in value.items():
        if isinstance(item, torch.Tensor):
            found[f"{prefix}{key}"] = item.detach().to(torch.float32).numpy()
        elif isinstance(item, dict):
            found |= flattened(item, f"{prefix}{key}.")
    return found


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_pth_equals_what_torch_saved(
    name: str, container: str, dump: Callable[..., Outcome]
) -> None:
    value = CHECKPOINTS[name]

    outcome = dump("pth", {"x.pth": saved(value, **CONTAINERS[container])})

    assert outcome.code == 0, outcome.message
    expected = flattened(value)
    assert outcome.tensors.keys() == expected.keys()
    for key, array in expected.items():
        assert_same(outcome.tensors[key], array)


@pytest.mark.parametrize("container", ["zip-2", "legacy"])
@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_unsupported_pth_is_rejected_by_name(
    name: str, container: str, dump: Callable[..., Outcome]
) -> None:
    value, word = REFUSED[name]

    outcome = dump("pth", {"x.pth": saved(value, **CONTAINERS[container])})

    assert_refused(outcome, word)


# GGUF


DECODED = [
    "F32",
    "F16",
    "BF16",
    "Q4_0",
    "Q4_1",
    "Q5_0",
    "Q5_1",
    "Q8_0",
    "Q2_K",
    "Q3_K",
    "Q4_K",
    "Q5_K",
    "Q6_K",
    "TQ1_0",
    "TQ2_0",
    "MXFP4",
    "NVFP4",
    "IQ4_NL",
    "IQ4_XS",
]
PLAIN = {"I8": "<i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "F64": "<f8"}
SIZED_ONLY = ["Q8_1", "Q8_K", "IQ2_XXS", "IQ1_M", "Q1_0"]


def gguf_file(path: Path, tensors: Mapping[str, tuple[np.ndarray, Any]], alignment: int) -> bytes:
    writer = gguf.GGUFWriter(path, "demo")
    writer.add_custom_alignment(alignment)
    writer.add_array("numbers", [1, 2, 3])
    writer.add_array("words", ["a", "bc"])
    writer.add_bool("flag", val=True)
    for name, (raw, kind) in tensors.items():
        writer.add_tensor(name, raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def random_blocks(name: str, rows: int = 3, blocks: int = 40) -> tuple[np.ndarray, Any]:
    """Random bytes: zero, subnormal, infinite and NaN scales are among them."""
    kind = gguf.GGMLQuantizationType[name]
    size = gguf.GGML_QUANT_SIZES[kind][1]
    seed = np.random.default_rng(kind.value)
    return seed.integers(0, 256, (rows, blocks * size), dtype=np.uint8), kind


@pytest.mark.parametrize("name", [*DECODED, *PLAIN])
def test_gguf_dequantizes_as_gguf_py_does(
    name: str, dump: Callable[..., Outcome], tmp_path: Path
) -> None:
    raw, kind = random_blocks(name)
    with np.errstate(all="ignore"):
        if name in PLAIN:
            expected = raw.view(PLAIN[name]).astype(np.float32)
        else:
            expected = gguf.quants.dequantize(raw, kind)

    outcome = dump("gguf", {"x.gguf": gguf_file(tmp_path / "f", {"w": (raw, kind)}, 32)})

    assert outcome.code == 0, outcome.message
    # The header is in GGUF's order, fastest first; the data is as it is stored.
    assert outcome.tensors["w"].shape == expected.shape[::-1]
    assert_same(outcome.tensors["w"].reshape(expected.shape), expected)


@pytest.mark.parametrize("name", SIZED_ONLY)
def test_gguf_types_without_a_decoder_are_rejected_only_on_request(
    name: str, dump: Callable[..., Outcome], tmp_path: Path
) -> None:
    one = np.ones(3, np.float32), gguf.GGMLQuantizationType.F32
    data = gguf_file(tmp_path / "f", {"odd": random_blocks(name), "w": one}, 16)

    assert_refused(dump("gguf", {"x.gguf": data}), name)
    sampled = {"x.gguf": data, "sampled_tensor_names.json": b'["w"]'}
    assert dump("gguf", sampled).tensors.keys() == {"w"}


@pytest.mark.parametrize("sample", ["[1]", "{}", '["w", ', '["v"]'])
def test_unknown_gguf_samples_are_rejected(
    sample: str, dump: Callable[..., Outcome], tmp_path: Path
) -> None:
    one = np.ones(3, np.float32), gguf.GGMLQuantizationType.F32
    data = gguf_file(tmp_path / "f", {"w": one}, 32)

    assert_refused(dump("gguf", {"x.gguf": data, "sampled_tensor_names.json": sample.encode()}))


# ONNX


def mlp_files() -> tuple[list[np.ndarray], dict[str, np.ndarray], dict[str, bytes]]:
    seed = np.random.default_rng(7)
    shapes = ((8, 4), (8,), (2, 8), (2,))
    weights = [seed.integers(-64, 65, shape).astype(np.float32) / 64 for shape in shapes]
    random_input = seed.integers(-64, 65, (1, 4)).astype(np.float32) / 64
    inputs = {
        "zeros": np.zeros((1, 4), np.float32),
        "ones": np.ones((1, 4), np.float32),
        "random": random_input,
    }
    files = {f"input_{name}.bin": write_bin(array) for name, array in inputs.items()}
    files["mlp_weights.bin"] = b"".join(write_bin(weight) for weight in weights)
    return weights, inputs, files


@pytest.mark.parametrize("broken", ["mlp_weights.bin", "input_ones.bin"])
def test_onnx_inputs_of_another_shape_are_rejected(
    broken: str, dump: Callable[..., Outcome]
) -> None:
    _, _, files = mlp_files()
    files[broken] = write_bin(np.ones((1, 3), np.float32))

    assert_refused(dump("onnx", files), broken)


# What all have in common


def valid_files(folder: Path) -> dict[str, list[bytes]]:
    ordered = collections.OrderedDict(w=BLOCK[0].t(), v=BLOCK[0, 1], h=BLOCK.half())
    tensors = {"w": BLOCK, "h": BLOCK.half(), "n": torch.tensor(3)}
    kinds = gguf.GGMLQuantizationType
    blocks = np.arange(68, dtype=np.uint8).reshape(2, 34)
    quantized = {"q": (blocks, kinds.Q8_0), "w": (np.ones((2, 3), np.float32), kinds.F32)}
    legacy = CONTAINERS["legacy"]
    return {
        "pth": [saved(ordered), saved(ordered, pickle_protocol=4), saved(ordered, **legacy)],
        "safetensors": [safetensors_torch.save(tensors, metadata={"a": "b"})],
        "gguf": [gguf_file(folder / "valid", quantized, 16)],
    }


def damaged(data: bytes, dice: random.Random) -> bytes:
    """Cut short, or with a few bytes changed."""
    if dice.random() < 0.25:
        return data[: dice.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 4))):
        at = dice.randrange(len(changed))
        flipped = changed[at] ^ 1 << dice.randrange(8)
        changed[at] = dice.choice((flipped, 0x00, 0x7F, 0x80, 0xFF))
    return bytes(changed)


@pytest.mark.parametrize("target", ["pth", "safetensors", "gguf"])
def test_damaged_files_are_read_or_rejected(
    target: str, dump: Callable[..., Outcome], tmp_path: Path
) -> None:
    dice = random.Random(target)  # noqa: S311 - a reproducible choice, not a secret
    valid = valid_files(tmp_path)[target]
    for _ in range(300):
        outcome = dump(target, {f"x.{target}": damaged(dice.choice(valid), dice)})

        assert outcome.code in {0, 1}
        assert "panicked" not in outcome.message
        if outcome.code == 1:
            assert_refused(outcome)


@pytest.mark.parametrize("target", ["pth", "safetensors", "gguf"])
def test_each_target_has_an_example_of_its_own(
    target: str, dump: Callable[..., Outcome], tmp_path: Path
) -> None:
    files = {f"x.{target}": valid_files(tmp_path)[target][0]}

    own, common = dump(target, files, own=True), dump(target, files)

    assert own.code == common.code == 0
    assert own.tensors.keys() == common.tensors.keys() != set()


@pytest.mark.parametrize(
    ("files", "words"),
    [({}, ["no *.gguf"]), ({"a.gguf": b"", "b.gguf": b""}, ["a.gguf", "b.gguf"])],
)
def test_there_must_be_one_checkpoint(
    files: dict[str, bytes], words: list[str], dump: Callable[..., Outcome]
) -> None:
    assert_refused(dump("gguf", files), *words)


@pytest.mark.parametrize(
    "words", [[], ["--target", "zip"], ["--target", "pth", "--fixture-dir"], ["--help"]]
)
def test_wrong_arguments_exit_with_2(words: list[str], examples: Path) -> None:
    example = str(examples / ("serialize_parity_dump" + SUFFIX))
    done = subprocess.run([example, *words], capture_output=True, check=False)

    assert done.returncode == 2
    assert b"usage: --target" in done.stderr


def test_the_names_of_a_sample_are_json(dump: Callable[..., Outcome], tmp_path: Path) -> None:
    one = np.ones(3, np.float32), gguf.GGMLQuantizationType.F32
    data = gguf_file(tmp_path / "f", {"größe": one, "v": one}, 64)

    sample = json.dumps(["größe"]).encode()
    outcome = dump("gguf", {"x.gguf": data, "sampled_tensor_names.json": sample})

    assert outcome.tensors.keys() == {"größe"}
