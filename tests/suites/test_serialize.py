"""The suite `serialize`: bundles made by hand, each rule of its own word for word."""

from __future__ import annotations

import json
import math
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from parity import suites
from parity.bundle.tolerances import tighten
from parity.errors import ParityError, ReferenceSuspectError
from parity.suites.base import Dump
from parity.suites.serialize import suite
from parity.tensors.bin import encode_tensor
from tests.support.tensors import (
    encode_safetensors,
    f32,
    from_bits,
    list_findings,
    name_dtypes,
    write_files,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from parity.suites.base import Case, DumpComparison

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
NOTE = ("notice", "not-compared", "1 tensor without a reference, not compared: 1 int64")
GGUF_NOTE = ("notice", "not-compared", "1 tensor without a reference, not compared: 1 Q4_K")


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


def test_no_checkpoint_or_several(tree: Path) -> None:
    (tree / "gguf" / "m.gguf").unlink()
    assert suspected(tree) == "expected exactly one *.gguf in gguf, found none"
    write_files(tree / "gguf", {"m.gguf": b"", "another.gguf": b""})
    assert suspected(tree) == "expected exactly one *.gguf in gguf, found another.gguf, m.gguf"
    write_files(tree / "gguf", {f"{n}.gguf": b"" for n in range(5)})
    assert suspected(tree) == (
        "expected exactly one *.gguf in gguf, found 0.gguf, 1.gguf, 2.gguf, 3.gguf, 4.gguf "
        "and 2 more"
    )


STATED = [
    (["exact"], "gguf/meta.json: bounds must map measures to numbers, not ['exact']"),
    ({}, "gguf/meta.json: bounds: no tolerance is stated"),
    ({"max_ab": 1}, "gguf/meta.json: bounds: 'max_ab' is not a measure"),
    ({"max_abs": "1"}, "gguf/meta.json: bounds: max_abs is '1', which is not a tolerance"),
    ({"max_abs": math.nan}, "gguf/meta.json: bounds: max_abs is nan, which is not a tolerance"),
    ({"max_abs": math.inf}, "gguf/meta.json: bounds: max_abs is inf, which is not a tolerance"),
    ({"exact": False}, "gguf/meta.json: bounds: exact is False, which is not a tolerance"),
    ({"cosine": 0.9}, ("gguf/meta.json: bounds: cosine alone passes any scale; state another "
     "measure beside it")),
]  # fmt: skip


@pytest.mark.parametrize(("bounds", "message"), STATED)
def test_bounds_that_ask_nothing_are_suspect(bounds: Any, message: str, tree: Path) -> None:
    """An unknown measure would otherwise hold nothing, and every value pass."""
    (tree / "gguf" / "meta.json").write_bytes(as_json(GGUF_META | {"bounds": bounds}))
    assert suspected(tree) == message


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


@pytest.mark.parametrize("counter", [f32(0), np.array(0), np.array([1.5])], ids=str)
def test_a_counter_may_be_dumped_though_nothing_is_owed(counter: Any, tree: Path) -> None:
    """Some ports convert integers to floats; that is not wrong, and not compared."""
    suffix = "bin" if counter.dtype == np.float32 else "npy"
    dump = bins(STATE) | {f"bn.num_batches_tracked.{suffix}": counter}
    assert list_findings(verified(tree, "pth", dump)) == [NOTE]


def test_a_state_dict_is_complete(tree: Path) -> None:
    outcome = verified(tree, "pth", bins(STATE) | {"fc.extra.bin": W})
    text = "fc.extra is in the dump, the reference has no such tensor"
    assert list_findings(outcome) == [("error", "tensor-extra", text), NOTE]


def test_most_tensors_lost(tree: Path) -> None:
    """`_rebuild_parameter` ignored: 40 of 102 tensors were loaded."""
    outcome = verified(tree, "pth", {"fc.bias.bin": STATE["fc.bias"]})
    text = "fc.weight (F32 [2, 3]) is missing from the dump"
    assert list_findings(outcome) == [("error", "tensor-missing", text), NOTE]
    assert (outcome.measures["tensors"], outcome.measures["tensors_expected"]) == (1, 2)


def test_exact_is_exact(tree: Path) -> None:
    zero = STATE | {"fc.weight": np.where(W == 0, np.float32(-0.0), W)}
    assert list_findings(verified(tree, "pth", bins(zero))) == [
        ("error", "signed-zero",
         ("fc.weight: 1 of 6 elements differs, all in the sign of zero; worst at [0, 0]: "
         "expected 0, obtained -0 (off by 0, 0 ULP); bound: exact")),
        NOTE,
    ]  # fmt: skip
    step = W.copy()
    step[1, 2] = np.nextafter(step[1, 2], 9)
    assert list_findings(verified(tree, "pth", bins(STATE | {"fc.weight": step})))[0] == (
        "error",
        "values",
        (
            "fc.weight: 1 of 6 elements differs; worst at [1, 2]: expected 1.25, obtained "
            "1.2500001 (off by 1.19e-07, 1 ULP); bound: exact"
        ),
    )
    shaped = bins(STATE | {"fc.weight": W.reshape(3, 2)})
    assert list_findings(verified(tree, "pth", shaped))[0][1:] == (
        "shape",
        "fc.weight has the shape [3, 2], expected [2, 3]; the dimensions are reversed",
    )


def test_all_nan_is_red(tree: Path) -> None:
    """Today's scripts pass a dump of nothing but NaN as byte-exact."""
    dump = bins({name: np.full_like(array, math.nan) for name, array in STATE.items()})
    outcome = verified(tree, "pth", dump)
    assert [finding.code for finding in outcome.findings] == ["nan", "nan", "not-compared"]


def test_a_payload_is_owed_by_what_is_stored_as_f32_alone(tree: Path) -> None:
    nan, other = from_bits("<f4", 0x7FC00000, 0), from_bits("<f4", 0x7FC02000, 0)
    for name, codes in (("fc.weight", ["nan-payload"]), ("fc.bias", [])):
        write_files(tree / "resnet18-pth" / "reference_state_dict", bins(STATE | {name: nan}))
        found = verified(tree, "pth", bins(STATE | {name: other})).findings
        assert [finding.code for finding in found if finding.level == "error"] == codes


def test_trailing_bytes_are_red(tree: Path) -> None:
    dump = bins(STATE) | {"fc.weight.bin": encode_tensor(W) + b"\x00\x00"}
    ((level, code, message), note) = list_findings(verified(tree, "pth", dump))
    assert (level, code, note) == ("error", "trailing-bytes", NOTE)
    assert message == (
        "fc.weight.bin 2 bytes follow the data that the header announces (file: 38 bytes)"
    )


# --- keys.json -------------------------------------------------------------------------------

KEY_FILES = [
    (["fc.weight"], "resnet18-pth/keys.json: does not list fc.bias, which has a reference"),
    ([*KEYS, "fc.bias"], "resnet18-pth/keys.json: lists a name twice"),
    ({"fc.bias": 1}, "resnet18-pth/keys.json: must be a list of names"),
    ([*KEYS, 1], "resnet18-pth/keys.json: must be a list of names"),
    ([*KEYS, "gone.weight"], "resnet18-pth/keys.json: lists gone.weight without a reference"),
]


@pytest.mark.parametrize(("keys", "message"), KEY_FILES)
def test_keys_that_contradict_the_references(keys: Any, message: str, tree: Path) -> None:
    tensors = META["tensors"] | {"gone.weight": {"dtype": "float32"}}
    write_files(
        tree / "resnet18-pth",
        {"keys.json": as_json(keys), "meta.json": as_json({"tensors": tensors})},
    )
    assert suspected(tree) == message


def test_a_key_of_a_dtype_not_stated_is_counted(tree: Path) -> None:
    (tree / "resnet18-pth" / "meta.json").unlink()
    (_, _, message) = list_findings(verified(tree, "pth", bins(STATE)))[0]
    assert message == "1 tensor without a reference, not compared: 1 of a dtype not stated"


def test_no_keys(tree: Path) -> None:
    (tree / "resnet18-pth" / "keys.json").unlink()
    assert suspected(tree) == "resnet18-pth/keys.json: cannot be read: No such file or directory"


# --- references ------------------------------------------------------------------------------


def test_references_that_are_not_there(tree: Path) -> None:
    folder = tree / "resnet18-pth" / "reference_state_dict"
    shutil.rmtree(folder)
    assert suspected(tree) == "resnet18-pth/reference_state_dict: is missing"
    folder.mkdir()
    assert suspected(tree) == "resnet18-pth/reference_state_dict: contains no tensor"
    write_files(folder, {"fc.bias.bin": np.zeros((0,), "<f4")})
    assert suspected(tree) == "resnet18-pth/reference_state_dict: contains no element"


def test_references_that_cannot_be_read(tree: Path) -> None:
    folder = tree / "resnet18-pth" / "reference_state_dict"
    write_files(folder, {"fc.bias.bin": b"\x01\x00\x00\x00"})
    assert suspected(tree) == (
        "resnet18-pth/reference_state_dict: fc.bias.bin ends at byte 4, where dimension 0 is "
        "expected"
    )
    write_files(folder, {"fc.bias.bin": STATE["fc.bias"], "fc.bias.npy": STATE["fc.bias"]})
    assert suspected(tree) == (
        "resnet18-pth/reference_state_dict: the tensor 'fc.bias' is in two files"
    )


# --- gguf ------------------------------------------------------------------------------------


def test_dequantised_values_within_the_bound_pass(tree: Path) -> None:
    dump = bins({name: array + np.float32(5e-5) for name, array in GGUF.items()})
    outcome = verified(tree, "gguf", dump)
    assert list_findings(outcome) == [GGUF_NOTE]
    assert outcome.margin == pytest.approx(0.5, rel=0.01)


def test_dequantised_values_beyond_the_bound(tree: Path) -> None:
    dump = bins(GGUF | {"norm": f32(1.0, 2.25)})
    assert list_findings(verified(tree, "gguf", dump)) == [
        ("error", "values",
         ("norm: 1 of 2 elements differs; worst at [1]: expected 2, obtained 2.25 "
         "(off by 0.25, 1,048,576 ULP); bound: max_abs <= 0.0001")),
        GGUF_NOTE,
    ]  # fmt: skip


def test_dimensions_reversed_name_the_convention(tree: Path) -> None:
    """The reference carries GGUF's own order, so the port that reverses is the one that errs."""
    dump = bins(GGUF | {"blk.0.w": W.reshape(3, 2)})
    assert list_findings(verified(tree, "gguf", dump))[0] == (
        "error",
        "shape",
        (
            "blk.0.w has the shape [3, 2], expected [2, 3]; the dimensions are reversed "
            "(references have GGUF's stored order, fastest dimension first)"
        ),
    )


def test_samples_do_not_forbid_what_they_do_not_know(tree: Path) -> None:
    dump = bins(GGUF) | {"blk.1.w.bin": W, "blk.9.w.bin": W}
    text = "blk.9.w is in the dump, the reference has no such tensor"
    assert list_findings(verified(tree, "gguf", dump)) == [
        ("warning", "tensor-extra", text),
        GGUF_NOTE,
    ]


def test_sampled_names_are_the_references(tree: Path) -> None:
    path = tree / "gguf" / "sampled_tensor_names.json"
    for names, odd in ((["norm"], "blk.0.w"), ([*GGUF, "x"], "x"), (["y", "norm"], "blk.0.w, y")):
        path.write_bytes(as_json(names))
        assert suspected(tree, "gguf") == (
            f"gguf/sampled_tensor_names.json: names other tensors than reference_dequant has: {odd}"
        )


def test_a_dequantised_nan_owes_no_payload(tree: Path) -> None:
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
    due = np.arange(256, dtype="<f4") * np.float32(scale)
    off = np.where(np.arange(256) % 64 < 32, due, due * np.float32(0.75)).astype("<f4")
    write_files(tree / "gguf" / "reference_dequant", bins({"norm": due}))
    dump = bins(GGUF | {"norm": off})
    found = verified(tree, "gguf", dump).findings
    assert level in {finding.level for finding in found}
    for more in ({"relative": 1e-3}, {"ulp": 4}):
        tight, _ = tighten(case_of(tree, "gguf").tolerances, more)
        assert list_findings(verified(tree, "gguf", dump, tight))[0][:2] == ("error", "values")
        assert list_findings(verified(tree, "gguf", bins(GGUF | {"norm": due}), tight)) == [
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
