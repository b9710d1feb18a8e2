"""The suite `serialize`: bundles made by hand, each rule of its own word for word."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity import suites
from parity.bundle.tolerances import tighten
from parity.errors import ParityError, ReferenceSuspectError
from parity.suites.base import Case, Dump, DumpComparison
from parity.suites.serialize import suite
from parity.tensors.bin import encode_tensor
from tests.support.tensors import (
    encode_safetensors,
    f32,
    format_findings,
    from_bits,
    list_findings,
    name_dtypes,
    write_files,
)

W = np.arange(6, dtype="<f4").reshape(2, 3) / 4
STATE = {"fc.weight": W, "fc.bias": f32(0.5, -0.25)}
KEYS = [*STATE, "bn.num_batches_tracked"]
META = {
    "tensors": {
        "fc.weight": {"dtype": "float32"},
        "fc.bias": {"dtype": "float16"},
        "bn.num_batches_tracked": {"dtype": "int64"},
    }
}
GGUF = {"blk.0.w": W, "norm": f32(1.0, 2.0)}
GGUF_META = {
    "bounds": {"max_abs": 1e-4},
    "tensors": {"blk.0.w": {"type": "Q8_0"}, "norm": {"type": "F32"}, "blk.1.w": {"type": "Q4_K"}},
}
NOTE = (
    "notice",
    "not-compared",
    "1 tensor without a reference, not compared: bn.num_batches_tracked (1 int64)",
)
GGUF_NOTE = (
    "notice",
    "not-compared",
    "1 tensor without a reference, not compared: blk.1.w (1 Q4_K)",
)


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def bins(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{name}.bin": array for name, array in arrays.items()}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A bundle in upstream's layout, checkpoints empty: the suite never opens them."""
    root = tmp_path / "bundle"
    for folder, suffix in (("resnet18-pth", "pth"), ("safetensors-rt", "safetensors")):
        case = root / folder
        write_files(
            case, {f"a.{suffix}": b"x", "keys.json": as_json(KEYS), "meta.json": as_json(META)}
        )
        write_files(case / "reference_state_dict", bins(STATE))
    names = as_json(list(GGUF))
    content = {"m.gguf": b"x", "meta.json": as_json(GGUF_META), "sampled_tensor_names.json": names}
    write_files(root / "gguf", content)
    write_files(root / "gguf" / "reference_dequant", bins(GGUF))
    return root


def case_of(tree: Path, name: str) -> Case:
    return next(case for case in suite.read_cases(tree, {}) if case.id == name)


def verified(
    tree: Path, name: str, dump: Mapping[str, Any], bounds: dict[str, float] | None = None
) -> DumpComparison:
    case = case_of(tree, name)
    folder = tree.parent / "dump"
    shutil.rmtree(folder, ignore_errors=True)
    return suite.verify(
        case, Dump(folder=write_files(folder, dump)), bounds or dict(case.tolerances)
    )


def suspected(tree: Path, name: str = "pth") -> str:
    with pytest.raises(ReferenceSuspectError) as caught:
        verified(tree, name, bins(STATE if name == "pth" else GGUF))
    (problem,) = caught.value.problems
    assert problem.code in ("reference-malformed", "checkpoint-count", "no-cases")
    return problem.message


# --- cases ---------------------------------------------------------------------------------


def test_the_suite_is_registered() -> None:
    assert suites.find_suite("serialize") is suite.SUITE


def test_a_case_for_every_folder(tree: Path) -> None:
    found = suite.read_cases(tree, {})
    assert [(case.id, case.folder.name, dict(case.tolerances)) for case in found] == [
        ("pth", "resnet18-pth", {"exact": 1.0}),
        ("safetensors", "safetensors-rt", {"exact": 1.0}),
        ("gguf", "gguf", {"max_abs": 1e-4}),
    ]
    assert [case.placeholders for case in found] == [
        {"group": case.id, "checkpoint": str(case.folder / name)}
        for case, name in zip(found, ("a.pth", "a.safetensors", "m.gguf"), strict=True)
    ]


def test_upstreams_bundle_states_no_bounds(tree: Path) -> None:
    (tree / "gguf" / "meta.json").write_bytes(as_json({"tensors": [{"name": "norm"}]}))
    (tree / "resnet18-pth" / "meta.json").unlink()
    onnx = write_files(tree / "onnx-mlp", {"mlp_weights.bin": f32(1)})
    write_files(onnx, {"meta.json": as_json({"seed": 42})})
    bounds = {case.id: dict(case.tolerances) for case in suite.read_cases(tree, {})}
    assert bounds == {
        "pth": {"exact": 1.0},
        "safetensors": {"exact": 1.0},
        "gguf": {"max_abs": 1e-4},
        "onnx": {"max_abs": 1e-5, "cosine": 0.9999},
    }


def test_a_bundle_without_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ReferenceSuspectError) as caught:
        suite.read_cases(tmp_path, {})
    assert caught.value.problems[0].message == (
        "the bundle has no case; known folders are resnet18-pth, safetensors-rt, gguf, onnx-mlp"
    )


def test_the_checkpoint_is_found_by_its_suffix_alone(tree: Path) -> None:
    """The card and the script that pins it name different files."""
    (tree / "resnet18-pth" / "a.pth").rename(tree / "resnet18-pth" / "resnet18-5c106cde.pth")
    assert case_of(tree, "pth").placeholders["checkpoint"].endswith("resnet18-5c106cde.pth")
    (tree / "resnet18-pth" / "b.pth").mkdir()
    assert case_of(tree, "pth").placeholders["checkpoint"].endswith("resnet18-5c106cde.pth")


STATED: list[Any] = [
    ["exact"],
    {},
    {"max_ab": 1},
    {"max_abs": "1"},
    {"max_abs": math.nan},
    {"max_abs": math.inf},
    {"exact": False},
    {"cosine": 0.9},
]
PTH, REFERENCES = "resnet18-pth", "resnet18-pth/reference_state_dict"
GONE = as_json({"tensors": META["tensors"] | {"gone.weight": {"dtype": "float32"}}})
#: Files that are changed, or removed where None; an unknown measure would check nothing.
SUSPECT: dict[str, dict[str, Any]] = {
    "no checkpoint": {"gguf/m.gguf": None},
    "two checkpoints": {"gguf/another.gguf": b""},
    "many checkpoints": {f"gguf/{number}.gguf": b"" for number in range(6)},
    **{
        f"bounds {bounds}": {"gguf/meta.json": as_json(GGUF_META | {"bounds": bounds})}
        for bounds in STATED
    },
    "a key lost": {f"{PTH}/keys.json": as_json(["fc.weight"])},
    "a key twice": {f"{PTH}/keys.json": as_json([*KEYS, "fc.bias"])},
    "keys as a mapping": {f"{PTH}/keys.json": as_json({"fc.bias": 1})},
    "a number as key": {f"{PTH}/keys.json": as_json([*KEYS, 1])},
    "a key without a reference": {
        f"{PTH}/keys.json": as_json([*KEYS, "gone.weight"]),
        f"{PTH}/meta.json": GONE,
    },
    "no keys": {f"{PTH}/keys.json": None},
    "no references": {REFERENCES: None},
    "no reference": {f"{REFERENCES}/fc.weight.bin": None, f"{REFERENCES}/fc.bias.bin": None},
    "no element": {
        f"{REFERENCES}/fc.weight.bin": None,
        f"{REFERENCES}/fc.bias.bin": np.zeros((0,), "<f4"),
    },
    "a reference cut short": {f"{REFERENCES}/fc.bias.bin": b"\x01\x00\x00\x00"},
    "a reference twice": {f"{REFERENCES}/fc.bias.npy": STATE["fc.bias"]},
    "a sampled name lost": {"gguf/sampled_tensor_names.json": as_json(["norm"])},
    "a sampled name too many": {"gguf/sampled_tensor_names.json": as_json([*GGUF, "x"])},
    "other sampled names": {"gguf/sampled_tensor_names.json": as_json(["y", "norm"])},
}


def test_each_bundle_that_contradicts_itself_is_suspect(
    golden: Callable[..., None], tree: Path
) -> None:
    text = ""
    for name, changes in SUSPECT.items():
        copy = shutil.copytree(tree, tree.parent / "copies" / str(len(text)))
        for place in (place for place, content in changes.items() if content is None):
            path = copy / place
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        write_files(copy, {place: data for place, data in changes.items() if data is not None})
        message = suspected(copy, "gguf" if next(iter(changes)).startswith("gguf") else "pth")
        text += f"# {name}\n{message}\n"
    golden(text)


# --- pth and safetensors ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pth", "safetensors"])
def test_the_same_bytes_pass(name: str, tree: Path) -> None:
    outcome = verified(tree, name, bins(STATE))
    assert list_findings(outcome) == [NOTE]
    assert (outcome.compared, outcome.margin, outcome.tensors) == (
        *(8, None),
        ("fc.bias", "fc.weight"),
    )


@pytest.mark.parametrize("carrier", ["npy", "safetensors"])
def test_a_dump_may_come_in_another_format(carrier: str, tree: Path) -> None:
    dump: dict[str, Any] = {f"{name}.npy": array for name, array in STATE.items()}
    if carrier == "safetensors":
        dump = {"state.safetensors": encode_safetensors(name_dtypes(STATE))}
    assert list_findings(verified(tree, "pth", dump)) == [NOTE]


BIAS = STATE["fc.bias"]
#: dtype that the checkpoint has, the tensor of the dump, the errors.
TYPED: dict[str, tuple[str, Any, list[str]]] = {
    "half precision as it is stored": ("float16", BIAS.astype("<f2"), []),
    "half precision, widened": ("float16", BIAS, []),
    "another value in half precision": ("float16", (BIAS + 1).astype("<f2"), ["values"]),
    "doubles as they are stored": ("float64", BIAS.astype("<f8"), []),
    "doubles narrowed": ("float64", BIAS, ["dtype"]),
    "single precision, narrowed": ("float32", BIAS.astype("<f2"), ["dtype"]),
    "single precision, widened": ("float32", BIAS.astype("<f8"), ["dtype"]),
}


@pytest.mark.parametrize("carrier", ["npy", "safetensors"])
@pytest.mark.parametrize(("stored", "bias", "codes"), TYPED.values(), ids=TYPED)
def test_a_typed_dump_has_the_checkpoints_own_dtype(
    stored: str, bias: Any, codes: list[str], carrier: str, tree: Path
) -> None:
    """A file that states its dtype may be as the checkpoint has it, or as the reference has it."""
    tensors = META["tensors"] | {"fc.bias": {"dtype": stored, "shape": [2]}}
    for name, folder in (("pth", "resnet18-pth"), ("safetensors", "safetensors-rt")):
        (tree / folder / "meta.json").write_bytes(as_json({"tensors": tensors}))
        arrays = STATE | {"fc.bias": bias}
        dump: dict[str, Any] = {f"{key}.npy": array for key, array in arrays.items()}
        if carrier == "safetensors":
            dump = {"state.safetensors": encode_safetensors(name_dtypes(arrays))}
        found = verified(tree, name, dump).findings
        assert [f.code for f in found if f.level == "error"] == codes


@pytest.mark.parametrize("counter", [f32(0), np.array(0), np.array([1.5])], ids=str)
def test_a_counter_may_be_dumped_though_nothing_is_expected(counter: Any, tree: Path) -> None:
    """Some ports convert integers to floats; that is not wrong, and not compared."""
    suffix = "bin" if counter.dtype == np.float32 else "npy"
    dump = bins(STATE) | {f"bn.num_batches_tracked.{suffix}": counter}
    assert list_findings(verified(tree, "pth", dump)) == [NOTE]


ZERO = STATE | {"fc.weight": np.where(W == 0, np.float32(-0.0), W)}
STEP = STATE | {"fc.weight": np.where(W == 1.25, np.nextafter(np.float32(1.25), 9), W)}
#: Case, dump.
WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "a tensor too many": ("pth", bins(STATE) | {"fc.extra.bin": W}),
    "most tensors lost, `_rebuild_parameter` ignored": ("pth", bins({"fc.bias": STATE["fc.bias"]})),
    "a sign of zero": ("pth", bins(ZERO)),
    "one step": ("pth", bins(STEP)),
    "another shape": ("pth", bins(STATE | {"fc.weight": W.reshape(3, 2)})),
    "nothing but NaN": ("pth", bins({name: array * math.nan for name, array in STATE.items()})),
    "bytes at the end": ("pth", bins(STATE) | {"fc.weight.bin": encode_tensor(W) + b"\x00\x00"}),
    "beyond the bound": ("gguf", bins(GGUF | {"norm": f32(1.0, 2.25)})),
    "dimensions reversed": ("gguf", bins(GGUF | {"blk.0.w": W.reshape(3, 2)})),
    "not among the samples": ("gguf", bins(GGUF) | {"blk.1.w.bin": W, "blk.9.w.bin": W}),
}


def test_each_wrong_dump_is_reported_in_these_words(
    golden: Callable[..., None], tree: Path
) -> None:
    text = ""
    for name, (case, dump) in WRONG.items():
        outcome = verified(tree, case, dump)
        counts = f"{outcome.measures['tensors']} of {outcome.measures['tensors_expected']}"
        text += f"# {name}: {counts} tensors\n{format_findings(outcome)}"
    golden(text)


def test_a_payload_is_expected_by_what_is_stored_as_f32_alone(tree: Path) -> None:
    nan, other = from_bits("<f4", 0x7FC00000, 0), from_bits("<f4", 0x7FC02000, 0)
    for name, codes in (("fc.weight", ["nan-payload"]), ("fc.bias", [])):
        write_files(tree / "resnet18-pth" / "reference_state_dict", bins(STATE | {name: nan}))
        found = verified(tree, "pth", bins(STATE | {name: other})).findings
        assert [finding.code for finding in found if finding.level == "error"] == codes


# --- keys.json -------------------------------------------------------------------------------


def test_a_key_of_a_dtype_not_stated_is_counted(tree: Path) -> None:
    (tree / "resnet18-pth" / "meta.json").unlink()
    (_, _, message) = list_findings(verified(tree, "pth", bins(STATE)))[0]
    assert message.endswith("compared: bn.num_batches_tracked (1 of a dtype not stated)")


# --- gguf ------------------------------------------------------------------------------------


def test_dequantised_values_within_the_bound_pass(tree: Path) -> None:
    dump = bins({name: array + np.float32(5e-5) for name, array in GGUF.items()})
    outcome = verified(tree, "gguf", dump)
    assert list_findings(outcome) == [GGUF_NOTE]
    assert outcome.margin == pytest.approx(0.5, rel=0.01)


def test_a_dequantised_nan_needs_no_payload(tree: Path) -> None:
    nan = from_bits("<f4", 0x7FC00000, 0x3F800000)
    write_files(tree / "gguf" / "reference_dequant", bins({"norm": nan}))
    dump = bins(GGUF | {"norm": from_bits("<f4", 0xFFC00001, 0x3F800000)})
    for bounds in ({"max_abs": 1e-4}, {"exact": 1.0}):
        assert list_findings(verified(tree, "gguf", dump, bounds)) == [GGUF_NOTE]


def test_the_lockfile_tightens_what_the_bundle_states(tree: Path) -> None:
    case = case_of(tree, "gguf")
    dump = bins({name: array + np.float32(5e-5) for name, array in GGUF.items()})
    tight, refused = tighten(case.tolerances, {"max_abs": 1e-5})
    assert refused == []
    assert [f.code for f in verified(tree, "gguf", dump, tight).findings][:2] == ["values"] * 2
    exact, _ = tighten(case.tolerances, {"exact": 1.0})
    assert [f.code for f in verified(tree, "gguf", dump, exact).findings][:2] == ["values"] * 2
    _, refused = tighten(case.tolerances, {"max_abs": 1e-3})
    assert refused == ["max_abs 0.001 is looser than 0.0001"]


@pytest.mark.parametrize(("scale", "level"), [(1.0, "error"), (2.0**-23, "warning")])
def test_a_small_block_scale_blinds_the_bound(scale: float, level: str, tree: Path) -> None:
    """A decoder that misreads sub-scales: the bound decides, relative or ulp would see it (R6)."""
    expected = np.arange(256, dtype="<f4") * np.float32(scale)
    off = np.where(np.arange(256) % 64 < 32, expected, expected * np.float32(0.75)).astype("<f4")
    write_files(tree / "gguf" / "reference_dequant", bins({"norm": expected}))
    dump = bins(GGUF | {"norm": off})
    found = verified(tree, "gguf", dump).findings
    assert level in {finding.level for finding in found}
    for more in ({"relative": 1e-3}, {"ulp": 4}):
        tight, _ = tighten(case_of(tree, "gguf").tolerances, more)
        assert list_findings(verified(tree, "gguf", dump, tight))[0][:2] == ("error", "values")
        assert list_findings(verified(tree, "gguf", bins(GGUF | {"norm": expected}), tight)) == [
            GGUF_NOTE
        ]


MISTAKES = {
    "resnet18-pth/keys.json": b"[",
    "resnet18-pth/meta.json": b"[]",
    "gguf/meta.json": b"\xff",
    "gguf/sampled_tensor_names.json": b"{}",
}


@pytest.mark.parametrize("place", MISTAKES)
@pytest.mark.parametrize("content", [None, b"", b"[" * 100_000, b"{}{}", b'"\xff"', b"1", b"null"])
def test_no_file_of_a_bundle_is_a_crash(place: str, content: bytes | None, tree: Path) -> None:
    (tree / place).write_bytes(MISTAKES[place] if content is None else content)
    name = "pth" if place.startswith("resnet18") else "gguf"
    with pytest.raises(ParityError) as caught:
        verified(tree, name, {"x.bin": W})
    assert caught.value.exit_code == 7
