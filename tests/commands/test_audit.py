"""The audit: it passes what the toolchain makes, and finds each thing that was doctored."""

from __future__ import annotations

import io
import json
import shutil
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.cli.parser import run
from parity.errors import ConfigError, ReferenceSuspectError
from parity.lab import audits, libraries
from parity.lab.array_files import encode_file
from parity.lab.audits import isolated, official_readers, unused_bytes
from parity.lab.audits import tensors as audit_of_tensors
from parity.lab.audits.__main__ import run_audit
from parity.lab.audits.compare_reference import MAX_FINDINGS, Provenance, make_error, make_result
from parity.lab.zoo.case import ExpectedTensor
from parity.lab.zoo.gguf_builder import GgufFile, TensorInfo
from parity.lockfile import Bundle, Dump
from parity.results import CaseResult, Finding
from parity.tensors.bin import encode_batch, encode_tensor, read_batch, read_tensor
from tests.support import traces
from tests.support.tensors import encode_safetensors, write_files
from tests.support.trees import encode_f32, encode_json, pack_files, write_tree

pytestmark = pytest.mark.torch

BUNDLES = Path(__file__).parents[1] / "bundles"
SERIALIZE, LOADER, PIPELINE = "serialize-parity-v1", "dataloader-batches-v1", "input-pipeline-v1"
SUITES = {SERIALIZE: "serialize", LOADER: "dataloader", PIPELINE: "pipeline"}


@pytest.fixture(scope="module", autouse=True)
def _libraries() -> None:
    """Imported before a test's guards stand: torch asks the system's linker on its way in."""
    import torch.utils.data  # noqa: F401, PLC0415 - loaded for its effect


@pytest.fixture
def unpacked(tmp_path: Path) -> Callable[[str], Path]:
    def unpack(name: str) -> Path:
        with tarfile.open(BUNDLES / f"{name}.tar") as tar:
            tar.extractall(tmp_path / name, filter="data")
        return tmp_path / name

    return unpack


#: Our own bundle has views of larger storages on purpose.
VIEWS = "bytes-unreferenced"


def audited(root: Path) -> dict[str, CaseResult]:
    found = {case.case: case for case in audits.audit(SUITES[root.name], root, root.name)}
    return {name: replace(case, findings=wrong(case)) for name, case in found.items()}


def wrong(case: CaseResult) -> tuple[Finding, ...]:
    return tuple(finding for finding in case.findings if finding.code != VIEWS)


def found(root: Path, case: str) -> tuple[Finding, ...]:
    """The findings of one case, the others being well."""
    results = audited(root)
    assert [name for name, result in results.items() if result.errors] in ([], [case])
    return results[case].findings


def edited(path: Path, change: Callable[[Any], Any]) -> None:
    """Change one single-tensor file."""
    path.write_bytes(encode_tensor(change(read_tensor(path).copy())))


def bumped(index: Any) -> Callable[[Any], Any]:
    def change(values: Any) -> Any:
        values[index] += 0.5
        return values

    return change


def meta_edited(path: Path, change: Callable[[Any], object]) -> None:
    meta = json.loads(path.read_bytes())
    change(meta)
    path.write_bytes(encode_json(meta))


@pytest.mark.parametrize(
    "name",
    [
        *(*SUITES, "serialize-upstream-v1", "checkpoint-zoo-v1", "model-traces-v1"),
        pytest.param("writer-parity-v1", marks=[pytest.mark.process, pytest.mark.slow]),
    ],
)
def test_our_own_bundles_pass(unpacked: Callable[[str], Path], name: str) -> None:
    suite = SUITES.get(name, "serialize" if "serialize" in name else "tensors")
    results = audits.audit(suite, unpacked(name), name)

    assert {found.code for case in results for found in case.findings} <= {
        VIEWS,
        "reference-underived",
    }
    assert {case.verdict for case in results} <= {"pass", "skipped"}
    assert sum(case.compared for case in results) > 400


def test_a_wrong_reference_of_a_stage_is_found_by_numpy(tmp_path: Path) -> None:
    tree = traces.write_bundle(tmp_path)
    assert audit_of_tensors.audit(tree, "traces", Provenance())[0].verdict == "pass"
    values = {name: one for name, one in traces.run_stages().items() if name != "turned"}
    values["fc/linear"][1, 2] += 0.01
    reference = tree / "forward" / "reference.safetensors"
    reference.write_bytes(encode_file(reference.name, values))

    (case,) = audit_of_tensors.audit(tree, "traces", Provenance())

    # The next stage is computed from the wrong one.
    assert [finding.tensor for finding in case.findings] == ["fc/linear", "gelu"]
    assert "computed by NumPy: max |Δ| 0.01, allowed" in case.findings[0].message


def test_stages_that_no_second_way_computes_are_counted(tmp_path: Path) -> None:
    rows = [{**one, "kind": ""} if one["name"] == "side" else one for one in traces.STAGES]
    tree = traces.write_bundle(tmp_path, stages=rows)
    (case,) = audit_of_tensors.audit(tree, "traces", Provenance())
    assert [(one.level, one.code) for one in case.findings] == [("notice", "reference-underived")]
    assert case.verdict == "pass"
    assert "1 of 5 stages are computed by nothing but the pin: side" in case.findings[0].message


def test_stage_whose_rounding_lets_zeros_pass_is_not_derived(tmp_path: Path) -> None:
    rows = [{**one, "rounding": 1e6} if one["name"] == "gelu" else one for one in traces.STAGES]
    tree = traces.write_bundle(tmp_path, stages=rows)
    (case,) = audit_of_tensors.audit(tree, "traces", Provenance())
    assert [(one.level, one.code) for one in case.findings] == [("notice", "reference-underived")]
    assert "1 of 5 stages are computed by nothing but the pin: gelu" in case.findings[0].message


def test_reference_of_a_trace_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    references = {**traces.run_stages(), "side": ExpectedTensor("F32", (1,), bytes(8))}
    tree = traces.write_bundle(tmp_path, references=references)
    (case,) = audit_of_tensors.audit(tree, "traces", Provenance())
    assert case.verdict == "error"
    assert "side" in case.findings[0].message


def test_a_trace_of_unknown_stages_is_skipped(tmp_path: Path) -> None:
    stages = [{"name": one["name"], "feeds": one["feeds"]} for one in traces.STAGES]
    tree = traces.write_bundle(tmp_path, stages=stages)
    (case,) = audit_of_tensors.audit(tree, "traces", Provenance())
    assert (case.verdict, case.reason) == (
        "skipped",
        "no stage of the trace can be computed by NumPy",
    )


# Checkpoints and references.

REFERENCES = {
    "pth": "resnet18-pth/reference_state_dict/fc.weight.bin",
    "safetensors": "safetensors-rt/reference_state_dict/fc.weight.bin",
    "gguf": "gguf/reference_dequant/token_embd.weight.bin",
}


@pytest.mark.parametrize("case", REFERENCES)
def test_a_changed_reference_is_found(unpacked: Callable[[str], Path], case: str) -> None:
    root = unpacked(SERIALIZE)
    edited(root / REFERENCES[case], bumped((1, 2)))

    (finding,) = found(root, case)

    assert (finding.code, finding.kind) == ("reference-drift", "reference")
    assert finding.tensor == Path(REFERENCES[case]).stem
    assert "1 of " in finding.message
    assert "max |Δ| 0.5" in finding.message
    assert finding.details[0].startswith("[1, 2]: derived ")


def test_drift_shows_the_versions_of_both(unpacked: Callable[[str], Path]) -> None:
    root = unpacked(SERIALIZE)
    meta_edited(root / "provenance.json", lambda meta: meta["versions"].update(torch="2.1.0"))
    edited(root / REFERENCES["pth"], bumped((0, 0)))

    (finding,) = found(root, "pth")

    here = libraries.find_version("torch")
    assert finding.details[-1] == f"made with torch 2.1.0; audited with torch {here}"


def test_a_bundle_without_provenance_says_so(tmp_path: Path) -> None:
    line = Provenance.read(tmp_path, ["numpy"]).format_versions("numpy", "absent")

    versions = f"numpy {np.__version__}, absent not installed"
    assert line == f"made with numpy not stated, absent not stated; audited with {versions}"


def test_a_signed_zero_in_a_reference_is_found(unpacked: Callable[[str], Path]) -> None:
    root = unpacked(SERIALIZE)
    path = root / "gguf/reference_dequant/token_embd.weight.bin"
    values = read_tensor(path)
    place = tuple(int(axis[0]) for axis in np.nonzero(values == 0))

    def change(values: Any) -> Any:
        values[place] = -values[place]
        return values

    edited(path, change)

    assert [finding.code for finding in found(root, "gguf")] == ["reference-drift"]


def resaved(root: Path, change: Callable[[Any], object], **how: Any) -> None:
    import torch  # noqa: PLC0415 - not in every environment

    path = root / "resnet18-pth/synthetic.pth"
    state = torch.load(path, weights_only=True)
    with torch.no_grad():
        change(state)
    torch.save(state, path, **how)


def test_a_changed_pth_is_found(unpacked: Callable[[str], Path]) -> None:
    root = unpacked(SERIALIZE)
    resaved(root, lambda state: state["conv1.weight"].view(-1)[3:4].add_(1.0))

    codes = {(finding.code, finding.tensor) for finding in found(root, "pth")}

    assert ("reference-drift", "conv1.weight") in codes
    assert {tensor for code, tensor in codes if code == "reference-drift"} == {"conv1.weight"}


def test_a_changed_safetensors_file_is_found(unpacked: Callable[[str], Path]) -> None:
    root = unpacked(SERIALIZE)
    path = root / "safetensors-rt/synthetic.safetensors"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)

    assert [finding.code for finding in found(root, "safetensors")] == ["reference-drift"]


def test_a_changed_gguf_is_found(unpacked: Callable[[str], Path]) -> None:
    root = unpacked(SERIALIZE)
    path = root / "gguf/synthetic.gguf"
    data = bytearray(path.read_bytes())
    data[-3] ^= 4  # two bytes of padding follow the last block
    path.write_bytes(data)

    assert [finding.code for finding in found(root, "gguf")] == ["reference-drift"]


@pytest.mark.parametrize("changed", [False, True])
def test_a_legacy_pth_is_audited_like_a_zip(unpacked: Callable[[str], Path], changed: bool) -> None:
    root = unpacked(SERIALIZE)
    meta_edited(root / "resnet18-pth/meta.json", lambda meta: meta.pop("tensors"))
    resaved(
        root,
        lambda state: state["fc.bias"].add_(1.0) if changed else None,
        _use_new_zipfile_serialization=False,
    )

    result = audited(root)["pth"]

    codes = [finding.code for finding in result.findings]
    assert (codes, result.compared) == (["reference-drift"] if changed else [], 993)


def test_a_reference_with_reversed_dimensions_is_found(unpacked: Callable[[str], Path]) -> None:
    root = unpacked(SERIALIZE)
    edited(root / REFERENCES["gguf"], lambda values: values.reshape(values.shape[::-1]))

    (finding,) = found(root, "gguf")

    assert finding.code == "reference-shape"
    assert finding.message == "the reference is F32 [7, 96], derived is float32 [96, 7]"
    assert finding.cause == "the dimensions are reversed"


@pytest.mark.parametrize("pair", [("bn1.bias", "bn1.weight"), ("fc.bias", "conv1.weight")])
def test_swapped_references_are_found(
    unpacked: Callable[[str], Path], pair: tuple[str, str]
) -> None:
    root = unpacked(SERIALIZE)
    one, two = (root / f"resnet18-pth/reference_state_dict/{name}.bin" for name in pair)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)

    causes = {finding.tensor: finding.cause for finding in found(root, "pth")}

    target = {name: f"it has the values of '{other}'" for name, other in (pair, pair[::-1])}
    assert causes == target


def test_swapped_checkpoints_are_found(unpacked: Callable[[str], Path]) -> None:
    root, other = unpacked(SERIALIZE), unpacked("serialize-upstream-v1")
    path = root / "gguf/synthetic.gguf"
    shutil.copy(other / "gguf/SmolLM2-135M-Instruct-Q8_0.gguf", path)

    assert {finding.code for finding in found(root, "gguf")} == {"keys-stale", "meta-stale"}


@pytest.mark.parametrize(
    ("path", "change", "message"),
    [
        ("resnet18-pth/keys.json", lambda keys: keys.append("gone"),
         "keys.json lists 'gone', which the checkpoint lacks"),
        ("resnet18-pth/keys.json", lambda keys: keys.remove("layer1.steps"),
         "keys.json does not list 'layer1.steps' of the checkpoint"),
        ("safetensors-rt/keys.json", lambda keys: keys.remove("fc.bias"),
         "keys.json does not list 'fc.bias' of the checkpoint"),
    ],
)  # fmt: skip
def test_a_stale_list_of_keys_is_found(
    unpacked: Callable[[str], Path], path: str, change: Callable[[Any], None], message: str
) -> None:
    root = unpacked(SERIALIZE)
    meta_edited(root / path, change)

    case = "pth" if path.startswith("resnet") else "safetensors"
    assert [(f.code, f.message) for f in found(root, case)] == [("keys-stale", message)]


def test_references_too_few_and_too_many_are_found(unpacked: Callable[[str], Path]) -> None:
    root = unpacked(SERIALIZE)
    folder = root / "resnet18-pth/reference_state_dict"
    (folder / "fc.bias.bin").rename(folder / "fc.bias2.bin")

    codes = [(finding.code, finding.tensor) for finding in found(root, "pth")]

    assert codes == [("reference-extra", "fc.bias2"), ("reference-missing", "fc.bias")]


@pytest.mark.parametrize(
    ("folder", "name", "key", "value"),
    [
        ("resnet18-pth", "fc.weight", "byte_range", [0, 160]),
        ("resnet18-pth", "views.rows", "storage_offset", 0),
        ("resnet18-pth", "views.permuted", "stride", [1, 2, 3]),
        ("safetensors-rt", "fc.weight", "dtype", "F64"),
        ("gguf", "blk.1.attn_q.weight", "type", "Q3_K"),
        ("gguf", "blk.1.attn_q.weight", "dims", [4, 512]),
    ],
)
def test_a_stale_record_of_a_tensor_is_found(
    unpacked: Callable[[str], Path], folder: str, name: str, key: str, value: Any
) -> None:
    root = unpacked(SERIALIZE)
    meta_edited(
        root / folder / "meta.json", lambda meta: meta["tensors"][name].update({key: value})
    )
    case = {"resnet18-pth": "pth", "safetensors-rt": "safetensors"}.get(folder, folder)

    (finding,) = found(root, case)

    assert (finding.code, finding.tensor) == ("meta-stale", name)
    assert key in finding.message


@pytest.mark.parametrize(
    ("case", "path", "reader"),
    [
        ("pth", "resnet18-pth/synthetic.pth", "torch"),
        ("safetensors", "safetensors-rt/synthetic.safetensors", "safetensors"),
        ("gguf", "gguf/synthetic.gguf", "gguf-py"),
    ],
)
@pytest.mark.parametrize(
    "data", [b"", bytes(64), b"<!doctype html>"], ids=["empty", "zeros", "html"]
)
def test_a_checkpoint_that_no_library_reads_is_found(
    unpacked: Callable[[str], Path], case: str, path: str, reader: str, data: bytes
) -> None:
    root = unpacked(SERIALIZE)
    (root / path).write_bytes(data)

    (finding,) = found(root, case)

    assert finding.code == "checkpoint-unreadable"
    assert finding.message.startswith(f"{reader} cannot read {Path(path).name}: ")


class Hostile:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("marker"),)


def test_nothing_in_a_checkpoint_runs(
    unpacked: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root = unpacked(SERIALIZE)
    resaved(root, lambda state: state.update(evil=Hostile()))

    (finding,) = found(root, "pth")

    assert finding.code == "checkpoint-unreadable"
    assert not (tmp_path / "marker").exists()


def test_two_checkpoints_in_one_folder_are_refused(unpacked: Callable[[str], Path]) -> None:
    root = unpacked(SERIALIZE)
    (root / "gguf/other.gguf").write_bytes(b"")

    (finding,) = found(root, "gguf")

    assert finding.code == "checkpoint-count"
    assert finding.message == "expected exactly one *.gguf in gguf, found 2"


def stored(values: int = 1000) -> Any:
    import torch  # noqa: PLC0415 - not in every environment

    return torch.arange(values, dtype=torch.float32)


#: What is saved; bytes that no tensor refers to.
STORAGES: dict[str, tuple[Callable[[Any], Any], int]] = {
    "a small view (PTH-14)": (lambda s: {"w": s[:2]}, 3992),
    "the whole": (lambda s: {"w": s}, 0),
    "its clone": (lambda s: {"w": s[:2].clone()}, 0),
    "views that cover it": (lambda s: {"w": s[:600], "v": s[400:]}, 0),
    "views with a gap": (lambda s: {"w": s[:400], "v": s[600:]}, 800),
    "every second": (lambda s: {"w": s[1::2]}, 2000),
    "turned": (lambda s: {"w": s.reshape(20, 50).t()}, 0),
    "a column": (lambda s: {"w": s.reshape(20, 50)[:, 3]}, 3920),
    "one element, expanded": (lambda s: {"w": s[:1].expand(50)}, 3996),
    "nothing of it": (lambda s: {"w": s[:0], "v": s[:1].clone()}, 4000),
    "of another width": (lambda s: {"w": s.double()[:3], "v": s.bool()[:3]}, 7976 + 997),
    "nested": (lambda s: {"a": {"w": s[:2]}}, 3992),
    "the rest in a list": (lambda s: {"w": s[:2], "more": [s[2:]]}, 0),
}


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(("made", "unseen"), STORAGES.values(), ids=STORAGES)
def test_bytes_that_no_tensor_refers_to_are_reported(
    made: Callable[[Any], Any], unseen: int, zipped: bool, tmp_path: Path
) -> None:
    import torch  # noqa: PLC0415 - not in every environment

    state = made(stored())
    path = tmp_path / "x.pth"
    torch.save(state, path, _use_new_zipfile_serialization=zipped)
    found = unused_bytes.find_unreferenced(path, official_readers.load_torch(path))
    reported = [f"x.pth has {unseen:,} bytes that no tensor refers to: "] * bool(unseen)
    assert [finding.message.partition("to: ")[0] + "to: " for finding in found] == reported
    assert {(one.level, one.code) for one in found} <= {("notice", VIEWS)}


def test_a_view_is_reported_with_its_storage_and_passes(tmp_path: Path) -> None:
    import torch  # noqa: PLC0415 - not in every environment

    root, path = tmp_path / "bundle", tmp_path / "bundle" / "case" / "x.pth"
    write_files(root / "case" / "reference", {f"{n}.bin": np.array([0, 1], "<f4") for n in "vw"})
    torch.save({"v": stored(10)[:2], "w": stored()[:2]}, path)
    cases = {"case": {"checkpoint": "x.pth"}}
    write_files(root, {"parity.json": json.dumps({"schema": 1, "cases": cases}).encode()})
    (case,) = audits.audit("tensors", root, "bundle")
    (finding,) = case.findings
    assert case.verdict == "pass"
    assert finding.message == (
        "x.pth has 4,024 bytes that no tensor refers to: 3,992 of the 4,000 in the storage of "
        "w, and some of 1 more"
    )


@pytest.mark.parametrize("wrong", [0.0, 1.0])
@pytest.mark.parametrize("kind", ["gguf", "safetensors"])
def test_a_checkpoint_in_several_files_is_read_in_all_of_them(
    kind: str, wrong: float, tmp_path: Path
) -> None:
    root = tmp_path / "bundle"
    due = {name: np.full(2, ord(name), "<f4") for name in "ab"}
    for number, (name, values) in enumerate(due.items(), 1):
        info = TensorInfo(name=name, dims=(2,), kind=0, data=values.tobytes())
        content = GgufFile(tensors=(info,)).build()
        if kind == "safetensors":
            content = encode_safetensors({name: ("F32", values)})
        write_files(root / "case", {f"x-{number:05}-of-00002.{kind}": content})
    due["b"][1] += wrong
    write_files(
        root / "case" / "reference", {f"{name}.bin": values for name, values in due.items()}
    )
    cases = {"case": {"checkpoint": f"x-00001-of-00002.{kind}"}}
    write_files(root, {"parity.json": json.dumps({"schema": 1, "cases": cases}).encode()})
    (case,) = audits.audit("tensors", root, "bundle")
    drift = [("b", "reference-drift")] if wrong else []
    assert [(f.tensor, f.code) for f in case.findings] == drift
    assert case.compared == 4


def test_a_reference_that_cannot_be_read_is_found(unpacked: Callable[[str], Path]) -> None:
    root = unpacked(SERIALIZE)
    (root / REFERENCES["pth"]).write_bytes(b"\1\0\0")

    assert [finding.code for finding in found(root, "pth")] == ["reference-malformed"]


# The MLP.


def test_a_changed_output_is_found_by_every_witness(unpacked: Callable[[str], Path]) -> None:
    root = unpacked(SERIALIZE)
    edited(root / "onnx-mlp/torch_forward_ones.bin", bumped((0, 1)))

    reported = [(finding.code, finding.message) for finding in found(root, "onnx")]

    text = "the reference differs from what {} computes, max |Δ| 0.5"
    witnesses = ("torch", "NumPy in f64", "onnxruntime")
    assert reported == [("reference-drift", text.format(name)) for name in witnesses]


def test_changed_weights_are_found(unpacked: Callable[[str], Path]) -> None:
    root = unpacked(SERIALIZE)
    path = root / "onnx-mlp/mlp_weights.bin"
    path.write_bytes(path.read_bytes()[:-4] + np.float32(9).tobytes())

    assert {finding.code for finding in found(root, "onnx")} == {"reference-drift"}


def test_a_rounding_of_another_processor_is_a_notice(unpacked: Callable[[str], Path]) -> None:
    root = unpacked(SERIALIZE)
    edited(
        root / "onnx-mlp/torch_forward_ones.bin",
        lambda y: np.nextafter(y, np.float32(np.inf)),
    )

    results = audited(root)["onnx"]

    assert {(f.level, f.code) for f in results.findings} == {("notice", "reference-rounding")}
    assert results.verdict == "pass"


def test_nan_in_an_output_is_drift(unpacked: Callable[[str], Path]) -> None:
    root = unpacked(SERIALIZE)
    edited(root / "onnx-mlp/torch_forward_ones.bin", lambda y: y * np.float32(np.nan))

    assert {finding.code for finding in found(root, "onnx")} == {"reference-drift"}


@pytest.mark.parametrize(
    ("path", "data", "message"),
    [
        ("mlp_weights.bin", encode_f32([1.0]),
         "mlp_weights.bin has tensors of [1] dimensions, expected [2, 1, 2, 1]"),
        ("mlp_weights.bin", b"\0",
         "mlp_weights.bin ends at byte 1, where the number of dimensions is expected"),
        ("input_ones.bin", encode_f32([[1.0, 2.0]]),
         "input and weights of shapes [[1, 2], [8, 4], [8], [2, 8], [2]] do not make an MLP"),
        ("input_ones.bin", None, "input_ones.bin cannot be read: No such file or directory"),
    ],
)  # fmt: skip
def test_an_mlp_that_cannot_be_run_is_found(
    unpacked: Callable[[str], Path], path: str, data: bytes | None, message: str
) -> None:
    root = unpacked(SERIALIZE)
    place = root / "onnx-mlp" / path
    if data is None:
        place.unlink()
    else:
        place.write_bytes(data)

    reported = [(finding.code, finding.message) for finding in found(root, "onnx")]

    assert reported == [("checkpoint-unreadable", message)]


def test_an_input_without_an_output_is_found(unpacked: Callable[[str], Path]) -> None:
    root = unpacked(SERIALIZE)
    (root / "onnx-mlp/torch_forward_ones.bin").unlink()

    assert [finding.code for finding in found(root, "onnx")] == ["reference-missing"]


# Loaders.


def batch_edited(path: Path, change: Callable[[list[Any]], object]) -> None:
    tensors = [values.copy() for values in read_batch(path)]
    change(tensors)
    path.write_bytes(encode_batch(tensors))


def test_a_changed_batch_is_found(unpacked: Callable[[str], Path]) -> None:
    root = unpacked(LOADER)
    batch_edited(root / "shuffled_seeded/batch_0001.bin", lambda t: t[0].__setitem__((0, 0), 9.0))

    (finding,) = found(root, "shuffled_seeded")

    assert (finding.code, finding.tensor) == ("reference-drift", "batch_0001 #0")


def test_another_seed_is_found(unpacked: Callable[[str], Path]) -> None:
    root = unpacked(LOADER)
    meta_edited(root / "shuffled_seeded/meta.json", lambda meta: meta.update(seed=43))

    codes = {finding.code for finding in found(root, "shuffled_seeded")}

    assert codes == {"reference-drift", "meta-stale"}


def test_swapped_batches_are_found(unpacked: Callable[[str], Path]) -> None:
    root = unpacked(LOADER)
    one, two = (root / f"sequential/batch_000{number}.bin" for number in (0, 1))
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)

    assert {finding.code for finding in found(root, "sequential")} == {"reference-drift"}


def test_a_whole_data_set_that_was_changed_is_found_by_its_formula(
    unpacked: Callable[[str], Path],
) -> None:
    root = unpacked(LOADER)

    def shifted(rows: Any) -> Any:
        return [[value + 1.0 for value in row] for row in rows]

    def change(meta: Any) -> None:
        for key in ("full_dataset_features", "item_features"):
            meta[key] = shifted(meta[key])

    folder = root / "sequential"
    meta_edited(folder / "meta.json", change)
    for path in folder.glob("batch_*.bin"):
        batch_edited(path, lambda t: t[0].__iadd__(np.float32(1.0)))

    messages = [finding.message for finding in found(root, "sequential")]

    assert messages[0] == (
        "the data set in sequential/meta.json is not the one of dataloader-batches-v1"
    )


def test_a_stale_copy_in_the_meta_data_is_found(unpacked: Callable[[str], Path]) -> None:
    root = unpacked(LOADER)
    meta_edited(root / "sequential/meta.json", lambda meta: meta.update(item_labels=[0] * 10))

    assert [finding.message for finding in found(root, "sequential")] == [
        "item_labels in sequential/meta.json is not what torch delivers"
    ]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda meta: meta.update(batch_size=0), "reference-malformed"),
        (lambda meta: meta.update(full_dataset_features=[[1], [2, 3]]), "reference-malformed"),
        (lambda meta: meta.pop("full_dataset_labels"), "reference-malformed"),
        (lambda meta: meta.pop("equality_mode"), "reference-malformed"),
        (lambda meta: meta.update(full_dataset_labels=["a"] * 10), "reference-malformed"),
    ],
)
def test_meta_data_that_no_loader_can_use_is_found(
    unpacked: Callable[[str], Path], change: Callable[[Any], object], code: str
) -> None:
    root = unpacked(LOADER)
    meta_edited(root / "sequential/meta.json", change)

    assert [finding.code for finding in found(root, "sequential")] == [code]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda folder: (folder / "batch_0002.bin").unlink(), "reference-missing"),
        (lambda folder: (folder / "batch_0009.bin").write_bytes(b""), "reference-extra"),
        (lambda folder: (folder / "batch_0001.bin").write_bytes(b"\1\0"), "truncated"),
        (
            lambda folder: (folder / "batch_0001.bin").write_bytes(encode_batch([])),
            "reference-shape",
        ),
    ],
)
@pytest.mark.parametrize("name", [LOADER, PIPELINE])
def test_batch_files_that_are_not_those_due_are_found(
    unpacked: Callable[[str], Path], name: str, change: Callable[[Path], object], code: str
) -> None:
    root = unpacked(name)
    change(root / "sequential")

    assert [finding.code for finding in found(root, "sequential")] == [code]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("order", [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 9]),
        ("omitted_ids", [3]),
        ("fingerprint", "0" * 64),
        ("masked_mean", 0.25),
        ("batch_sizes", [4, 4, 4]),
    ],
)
def test_stale_facts_of_a_pipeline_are_found(
    unpacked: Callable[[str], Path], key: str, value: Any
) -> None:
    root = unpacked(PIPELINE)
    meta_edited(root / "keep/meta.json", lambda meta: meta.update({key: value}))

    (finding,) = found(root, "keep")

    assert finding.code == "meta-stale"
    assert finding.message.startswith(f"{key} in keep/meta.json is ")


def test_a_changed_pipeline_is_found(unpacked: Callable[[str], Path]) -> None:
    root = unpacked(PIPELINE)
    batch_edited(root / "pad/batch_0002.bin", lambda t: t[3].__setitem__(3, 1.0))

    (finding,) = found(root, "pad")

    assert (finding.code, finding.tensor) == ("reference-drift", "batch_0002 #3")


@pytest.mark.parametrize("change", [{"ids": [1, 1]}, {"ids": ["a"]}])
def test_a_data_set_that_is_none_is_found(
    unpacked: Callable[[str], Path], change: dict[str, Any]
) -> None:
    root = unpacked(PIPELINE)
    meta_edited(root / "keep/meta.json", lambda meta: meta["dataset"].update(change))

    assert [finding.code for finding in found(root, "keep")] == ["reference-malformed"]


# Tensors of one's own.


def own(tmp_path: Path, cases: dict[str, Any], files: dict[str, bytes]) -> dict[str, CaseResult]:
    manifest = {"parity.json": encode_json({"schema": 1, "cases": cases})}
    root = write_tree(tmp_path / "own-v1", manifest | files)
    return {case.case: case for case in audits.audit("tensors", root, "own-v1")}


def saved(**tensors: Any) -> bytes:
    import torch  # noqa: PLC0415 - not in every environment
    from safetensors.torch import save  # noqa: PLC0415 - not in every environment

    return bytes(save({name: torch.as_tensor(value) for name, value in tensors.items()}))


def pickled(state: Any) -> bytes:
    import torch  # noqa: PLC0415 - not in every environment

    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def test_own_references_are_derived_in_their_own_dtype(tmp_path: Path) -> None:
    import torch  # noqa: PLC0415 - not in every environment

    half = torch.tensor([1.0, 2.0], dtype=torch.bfloat16)
    count = torch.tensor([[1], [2**40]])
    files = {
        "a/m.pth": pickled({"model": {"half": half, "count": count, "other": half}, "epoch": 3}),
        "a/ref.safetensors": saved(**{"model.half": half, "model.count": count}),
    }
    cases = {"a": {"checkpoint": "m.pth", "reference": "ref.safetensors"}}

    result = own(tmp_path, cases, files)["a"]

    assert (result.findings, result.compared) == ((), 4)


def test_a_pickle_that_weights_only_does_not_read_is_skipped(tmp_path: Path) -> None:
    import torch  # noqa: PLC0415 - not in every environment

    buffer = io.BytesIO()
    torch.save({"x": torch.tensor([1.0])}, buffer, pickle_protocol=4)
    files = {"a/m.pth": buffer.getvalue(), "a/reference/x.bin": encode_f32([1.0])}

    result = own(tmp_path, {"a": {"checkpoint": "m.pth"}}, files)["a"]

    reason = "torch reads no pickle of protocol 4 with weights_only"
    assert (result.verdict, result.reason) == ("skipped", reason)


def test_floats_that_share_bytes_are_not_derived(tmp_path: Path) -> None:
    """torch has no 6-bit floats, and counts a byte of two 4-bit ones as one element."""
    content = encode_safetensors({"x": ("F4", np.arange(8).astype("u1").reshape(2, 4))})
    files = {"a/m.safetensors": content, "a/r.safetensors": content}
    cases = {"a": {"checkpoint": "m.safetensors", "reference": "r.safetensors"}}

    result = own(tmp_path, cases, files)["a"]

    reason = "torch reads no F4 from safetensors element by element"
    assert (result.verdict, result.reason) == ("skipped", reason)


def test_a_type_that_no_reference_can_have_is_compared_as_f32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch  # noqa: PLC0415 - not in every environment

    monkeypatch.delitem(audit_of_tensors.TORCH_DTYPES, "float8_e8m0fnu")  # as if it had no name yet
    values = torch.tensor([0.5, 4.0])
    files = {
        "a/m.pth": pickled({"x": values.to(torch.float8_e8m0fnu)}),
        "a/r.safetensors": saved(x=values),
    }
    cases = {"a": {"checkpoint": "m.pth", "reference": "r.safetensors"}}

    result = own(tmp_path, cases, files)["a"]

    assert (result.findings, result.compared) == ((), 2)


@pytest.mark.parametrize("value", [2.0, 3.0])
def test_gguf_elements_without_blocks_are_compared_as_stored(tmp_path: Path, value: float) -> None:
    import gguf  # noqa: PLC0415 - not in every environment

    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("h", np.array([[1, 2]], np.float16))
    writer.add_tensor("i", np.array([1, 2], np.int32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    files = {
        "a/m.gguf": path.read_bytes(),
        "a/r.safetensors": saved(
            h=np.array([[1], [value]], np.float16), i=np.array([1, 2], np.int32)
        ),
    }
    cases = {"a": {"checkpoint": "m.gguf", "reference": "r.safetensors"}}

    result = own(tmp_path, cases, files)["a"]

    target = [] if value == 2.0 else [("reference-drift", "h")]
    assert [(finding.code, finding.tensor) for finding in result.findings] == target
    assert result.compared == 4


def test_tensors_that_are_not_dense_are_passed_over() -> None:
    import torch  # noqa: PLC0415 - not in every environment

    dense = torch.tensor([1.0, 0.0])
    state: dict[str, Any] = {}

    official_readers._collect({"a": {"x": dense, "s": dense.to_sparse()}, "n": 3}, "", 8, state)

    assert list(state) == ["a.x"]


def test_own_references_that_differ_are_found(tmp_path: Path) -> None:
    import torch  # noqa: PLC0415 - not in every environment

    files = {
        "a/m.safetensors": saved(x=torch.tensor([1.0, 2.0]), y=torch.tensor([3], dtype=torch.int8)),
        "a/reference/x.bin": encode_f32([1.0, 2.5]),
        "a/reference/y.bin": encode_f32([3.0]),
        "a/reference/z.bin": encode_f32([3.0]),
    }

    result = own(tmp_path, {"a": {"checkpoint": "m.safetensors"}}, files)["a"]

    reported = [(finding.code, finding.tensor) for finding in result.findings]
    assert reported == [("reference-extra", "z"), ("reference-drift", "x")]


def test_another_dtype_than_the_checkpoints_is_found(tmp_path: Path) -> None:
    import torch  # noqa: PLC0415 - not in every environment

    files = {
        "a/m.safetensors": saved(x=torch.tensor([1.0], dtype=torch.float16)),
        "a/r.safetensors": saved(x=torch.tensor([1.0])),
    }
    cases = {"a": {"checkpoint": "m.safetensors", "reference": "r.safetensors"}}

    (finding,) = own(tmp_path, cases, files)["a"].findings

    assert finding.message == "the reference is F32 [1], derived is float16 [1]"


def test_cases_without_anything_to_derive_from_are_skipped(tmp_path: Path) -> None:
    files = {f"{name}/reference/x.bin": encode_f32([1.0]) for name in ("a", "b")}
    files["b/m.onnx"] = b"x"

    results = own(tmp_path, {"a": {}, "b": {"checkpoint": "m.onnx"}}, files)

    assert {name: (case.verdict, case.reason) for name, case in results.items()} == {
        "a": ("skipped", "the case has no checkpoint to derive from"),
        "b": ("skipped", "no audit reads '.onnx' files"),
    }


def test_own_checkpoints_that_cannot_be_read_are_found(tmp_path: Path) -> None:
    files = {
        "a/m.pth": b"?",
        "a/reference/x.bin": encode_f32([1.0]),
        "b/m.pth": pickled({"epoch": 3}),
        "b/reference/x.bin": encode_f32([1.0]),
        "c/m.gguf": b"",
        "c/reference/x.bin": b"?",
    }
    cases = {name: {"checkpoint": f"m.{'gguf' if name == 'c' else 'pth'}"} for name in "abc"}

    results = own(tmp_path, cases, files)

    assert {name: case.findings[0].code for name, case in results.items()} == {
        "a": "checkpoint-unreadable",
        "b": "checkpoint-unreadable",
        "c": "reference-malformed",
    }


# The rest.


def test_many_findings_are_cut_with_a_count() -> None:
    result = make_result(
        "b", "c", [make_error("reference-drift", str(n)) for n in range(MAX_FINDINGS + 3)], 0
    )

    assert len(result.findings) == MAX_FINDINGS + 1
    assert result.findings[-1].message == "and 3 more"


def test_a_view_of_huge_logical_size_is_not_materialised(tmp_path: Path) -> None:
    """Four bytes that claim 2**48 elements, by strides of zero or of one."""
    torch = pytest.importorskip("torch")
    base = torch.arange(2**12, dtype=torch.float32)
    huge = torch.zeros(1).expand(2**24, 2**24)
    overlapping = base.as_strided((2**11, 2**11, 2**11), (1, 0, 1))
    for number, view in enumerate((huge, overlapping)):
        root = tmp_path / str(number)
        (root / "a" / "reference").mkdir(parents=True)
        torch.save({"w": view}, root / "a" / "m.pth")
        (root / "a" / "reference" / "w.bin").write_bytes(encode_tensor(np.zeros((4, 4), "<f4")))
        (root / "parity.json").write_text(
            json.dumps({"schema": 1, "cases": {"a": {"checkpoint": "m.pth"}}})
        )
        (case,) = audits.audit("tensors", root, "bundle")
        assert [(f.code, f.tensor) for f in case.errors] == [("reference-shape", "w")]


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setattr(audits, "find_spec", lambda name: None if name == "gguf" else name)

    with pytest.raises(ConfigError, match="safetensors is needed but not installed"):
        libraries.import_library("safetensors")
    assert audits.list_missing_libraries("serialize") == ["gguf"]
    assert libraries.find_version("no-such-thing") is None


def test_the_child_reports_cases_and_errors_in_json(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "none", {"a": b""})

    assert run_audit("serialize", root, "none", None) == {
        "kind": "reference",
        "problems": [("no-cases", "the bundle has no case")],
    }


def entry(suite: str = "serialize") -> Bundle:
    return Bundle(id="b", source="b.tar", suite=suite, dump=Dump())


@pytest.mark.process
def test_the_child_gives_back_what_the_audit_found(unpacked: Callable[[str], Path]) -> None:
    root = unpacked(SERIALIZE)
    edited(root / REFERENCES["pth"], bumped((0, 0)))
    bundle = Bundle(id=SERIALIZE, source="b.tar", suite="serialize", dump=Dump())

    cases = isolated.audit_in_subprocess(bundle, root)

    assert list(cases) == list(audits.audit("serialize", root, SERIALIZE))


@pytest.mark.process
def test_an_error_of_the_child_is_raised_here(tmp_path: Path) -> None:
    with pytest.raises(ReferenceSuspectError, match="no-cases"):
        isolated.audit_in_subprocess(entry(), tmp_path)


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
@pytest.mark.parametrize(
    ("script", "target"),
    [
        ("kill -SEGV $$", "b: the audit ended with SIGSEGV"),
        ("echo no >&2; exit 3", "b: the audit ended with exit code 3"),
        ("echo not json", "b: the audit ended with exit code 0"),
        ("sleep 60", "b: the audit did not end in time"),
    ],
)
def test_a_library_that_crashes_or_hangs_takes_only_the_child_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, target: str
) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(isolated, "TIMEOUT_SECONDS", 1.0)

    with pytest.raises(ReferenceSuspectError) as caught:
        isolated.audit_in_subprocess(entry(), tmp_path)

    (problem,) = caught.value.problems
    assert problem.code == "audit-crashed"
    assert problem.message.startswith(target)


LOCK = """\
schema: 1
bundles:
  own-v1:
    source: own-v1.tar
    suite: tensors
    dump: {{command: [p]}}
    locked: {{sha256: "sha256:{}"}}
"""


@pytest.mark.process
@pytest.mark.parametrize("value", [2.0, 2.5])
def test_the_verb_ends_with_7_where_a_reference_drifted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: float
) -> None:
    import hashlib  # noqa: PLC0415 - not in every environment

    files = {
        "parity.json": encode_json({"schema": 1, "cases": {"a": {"checkpoint": "m.safetensors"}}}),
        "a/m.safetensors": saved(x=np.array([1.0, 2.0], np.float32)),
        "a/reference/x.bin": encode_f32([1.0, value]),
    }
    made = pack_files(tmp_path / "own-v1.tar", files)
    digest = hashlib.sha256(made.read_bytes()).hexdigest()
    (tmp_path / "fixtures.lock.yaml").write_text(LOCK.format(digest))

    code = run(["audit", "--repo", str(tmp_path), "own-v1"])

    reported = capsys.readouterr().out
    assert code == (0 if value == 2.0 else 7)
    assert reported.endswith(f"audited 1 cases, 2 values: {0 if value == 2.0 else 1} with drift\n")
    if value != 2.0:
        line = "error[reference-drift] the reference differs from the tensor derived again"
        assert f"    {line}, 1 of 2 elements, max |Δ| 0.5, max" in reported
        assert "      | [1]: derived 2.0, reference 2.5\n" in reported


@pytest.mark.process
def test_one_bundles_error_does_not_stop_the_verb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fixtures.lock.yaml").write_text(LOCK.format("0" * 64))

    code = run(["audit", "--repo", str(tmp_path)])

    captured = capsys.readouterr()
    assert code == 3
    assert "error[source-missing]" in captured.err
    assert captured.out == "audited 0 cases, 0 values: 0 with drift\n"


def zoo_repo(folder: Path, said: str) -> None:
    """A repo with one case to load and one that may be refused, which its reader is said to."""
    import hashlib  # noqa: PLC0415 - not in every environment

    good = saved(x=np.array([1.0, 2.0], np.float32))
    cases = {
        "a": {"expect": "load", "checkpoint": "m.safetensors", "rule": "R"},
        "b": {"expect": "refuse", "checkpoint": "m.safetensors", "rule": "R"},
    }
    recorded = {"a": {"safetensors": "loaded"}, "b": {"safetensors": said}}
    files = {
        "parity.json": encode_json({"schema": 1, "cases": cases}),
        "readers.json": encode_json({"versions": {"safetensors": "0.1.0"}, "cases": recorded}),
        "a/m.safetensors": good,
        "a/reference/x.bin": encode_f32([1.0, 2.0]),
        "b/m.safetensors": good[:-1],
    }
    made = pack_files(folder / "own-v1.tar", files)
    digest = hashlib.sha256(made.read_bytes()).hexdigest()
    (folder / "fixtures.lock.yaml").write_text(LOCK.format(digest))


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize(("said", "code"), [("refused", 0), ("loaded", 7)])
def test_the_verb_asks_the_readers_and_reports_what_they_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], said: str, code: int
) -> None:
    zoo_repo(tmp_path, said)
    out = tmp_path / "out"

    assert run(["audit", "--repo", str(tmp_path), "--report-dir", str(out)]) == code

    reported = capsys.readouterr().out
    assert " over 2 cases: 1 right, 1 refused\n" in reported
    assert ("error[reader-drift] safetensors " in reported) == bool(code)
    report = json.loads((out / "safetensors" / "report.json").read_bytes())
    assert report["exit_code"] == code
    (bundle,) = report["bundles"]
    assert [case["outcome"] for case in bundle["cases"]] == ["right", "refused"]
    command = f" -m parity audit --repo {tmp_path.as_posix()} own-v1"
    assert {case["command"].endswith(command) for case in bundle["cases"]} == {True}
    assert [one["code"] for one in bundle["findings"]] == ["reader-drift"] * bool(code)
