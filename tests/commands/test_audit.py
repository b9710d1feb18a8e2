"""The audit: it passes what the toolchain makes, and finds each thing that was doctored."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
from collections.abc import Callable
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
from tests.support.bundles import lock_bundle, read_member, unpack
from tests.support.tensors import encode_safetensors, write_files
from tests.support.trees import encode_f32, encode_json, pack_files, write_tree

pytestmark = pytest.mark.torch

SERIALIZE, LOADER, PIPELINE = "serialize-parity-v1", "dataloader-batches-v1", "input-pipeline-v1"
SUITES = {SERIALIZE: "serialize", LOADER: "dataloader", PIPELINE: "pipeline"}


@pytest.fixture(scope="module", autouse=True)
def _libraries() -> None:
    """Imported before a test's guards stand: torch asks the system's linker on its way in."""
    import torch.utils.data  # noqa: F401, PLC0415 - loaded for its effect


@pytest.fixture
def unpacked(tmp_path: Path) -> Callable[[str], Path]:
    def unpack_named(name: str) -> Path:
        return unpack(name, tmp_path / name)

    return unpack_named


#: Our own bundle has views of larger storages on purpose.
VIEWS = "bytes-unreferenced"


def find_errors(root: Path, case: str) -> tuple[CaseResult, tuple[Finding, ...]]:
    """Audit a bundle whose other cases are right; views of larger storages are left out."""
    results = {one.case: one for one in audits.audit(SUITES[root.name], root, root.name)}
    assert [name for name, result in results.items() if result.errors] in ([], [case])
    return results[case], tuple(one for one in results[case].findings if one.code != VIEWS)


def format_result(result: CaseResult, findings: tuple[Finding, ...]) -> str:
    """Format verdict and findings; a library's own words and versions are left out."""
    text = f": {result.verdict}, {result.compared} compared\n"
    for one in sorted(findings, key=lambda one: (one.code, str(one.tensor))):
        message = re.sub(r"(cannot read \S+|cannot be \w+): .*", r"\1: ...", one.message)
        text += f"  {one.level}[{one.code}/{one.kind}] {one.tensor}: {message}\n"
        text += f"    {one.cause}\n" if one.cause else ""
        text += "".join(f"    | {line}\n" for line in one.details if "audited with" not in line)
    return text


def edit(path: str, change: Callable[[Any], Any]) -> Callable[[Path], object]:
    """Return a change of one single-tensor file."""
    return lambda root: (root / path).write_bytes(
        encode_tensor(change(read_tensor(root / path).copy()))
    )


def bump(*index: Any) -> Callable[[Any], Any]:
    def change(values: Any) -> Any:
        values[index] += 0.5
        return values

    return change


def edit_json(path: str, change: Callable[[Any], object]) -> Callable[[Path], object]:
    def edit_file(root: Path) -> None:
        value = json.loads((root / path).read_bytes())
        change(value)
        (root / path).write_bytes(encode_json(value))

    return edit_file


def edit_batch(path: str, change: Callable[[list[Any]], object]) -> Callable[[Path], object]:
    def edit_file(root: Path) -> None:
        tensors = [values.copy() for values in read_batch(root / path)]
        change(tensors)
        (root / path).write_bytes(encode_batch(tensors))

    return edit_file


def write(path: str, content: bytes | None) -> Callable[[Path], object]:
    return lambda root: (
        (root / path).unlink() if content is None else (root / path).write_bytes(content)
    )


def flip(path: str, at: int, bits: int) -> Callable[[Path], object]:
    def flip_bits(root: Path) -> None:
        data = bytearray((root / path).read_bytes())
        data[at] ^= bits
        (root / path).write_bytes(data)

    return flip_bits


def swap(one: str, two: str) -> Callable[[Path], object]:
    def swap_files(root: Path) -> None:
        first, second = (root / one).read_bytes(), (root / two).read_bytes()
        (root / one).write_bytes(second)
        (root / two).write_bytes(first)

    return swap_files


def save_again(change: Callable[[Any], object], **options: Any) -> Callable[[Path], object]:
    def save_file(root: Path) -> None:
        import torch  # noqa: PLC0415 - not in every environment

        path = root / "resnet18-pth/synthetic.pth"
        state = torch.load(path, weights_only=True)
        with torch.no_grad():
            change(state)
        torch.save(state, path, **options)

    return save_file


def save_as_legacy(change: Callable[[Any], object]) -> Callable[[Path], object]:
    def save_file(root: Path) -> None:
        edit_json("resnet18-pth/meta.json", lambda meta: meta.pop("tensors"))(root)
        save_again(change, _use_new_zipfile_serialization=False)(root)

    return save_file


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


REFERENCES = {
    "pth": "resnet18-pth/reference_state_dict/fc.weight.bin",
    "safetensors": "safetensors-rt/reference_state_dict/fc.weight.bin",
    "gguf": "gguf/reference_dequant/token_embd.weight.bin",
}
CHECKPOINTS = {
    "pth": "resnet18-pth/synthetic.pth",
    "safetensors": "safetensors-rt/synthetic.safetensors",
    "gguf": "gguf/synthetic.gguf",
}
UNREADABLE = {"empty": b"", "zeros": bytes(64), "html": b"<!doctype html>"}
PARAMETERS = "resnet18-pth/reference_state_dict"
ONES = "onnx-mlp/torch_forward_ones.bin"
Change = Callable[[Path], object]


def flip_sign_of_zero(values: Any) -> Any:
    values[tuple(int(axis[0]) for axis in np.nonzero(values == 0))] *= -1
    return values


def take_upstreams_gguf(root: Path) -> None:
    content = read_member("serialize-upstream-v1", "gguf/SmolLM2-135M-Instruct-Q8_0.gguf")
    (root / "gguf/synthetic.gguf").write_bytes(content)


def set_record(folder: str, name: str, **values: Any) -> Change:
    return edit_json(f"{folder}/meta.json", lambda meta: meta["tensors"][name].update(values))


def shift_data_set(root: Path) -> None:
    """Change data set, copies and batches alike, so that only the formula shows it."""

    def change(meta: Any) -> None:
        for key in ("full_dataset_features", "item_features"):
            meta[key] = [[value + 1.0 for value in row] for row in meta[key]]

    edit_json("sequential/meta.json", change)(root)
    for path in root.glob("sequential/batch_*.bin"):
        edit_batch(f"sequential/{path.name}", lambda t: t[0].__iadd__(np.float32(1.0)))(root)


def set_meta(path: str, **values: Any) -> Change:
    return edit_json(f"{path}/meta.json", lambda meta: meta.update(values))


def drop_meta(key: str) -> Change:
    return edit_json("sequential/meta.json", lambda meta: meta.pop(key))


BATCH_FILES: dict[str, tuple[str, Change]] = {
    "a batch is missing": ("sequential", write("sequential/batch_0002.bin", None)),
    "a batch is extra": ("sequential", write("sequential/batch_0009.bin", b"")),
    "a batch is cut": ("sequential", write("sequential/batch_0001.bin", b"\1\0")),
    "a batch is empty": ("sequential", write("sequential/batch_0001.bin", encode_batch([]))),
}
#: By bundle and what is changed: the case that shows it, and the change of the unpacked bundle.
CHANGES: dict[str, dict[str, tuple[str, Change]]] = {
    SERIALIZE: {
        **{
            f"a reference of {case}": (case, edit(path, bump(1, 2)))
            for case, path in REFERENCES.items()
        },
        "the sign of a zero": ("gguf", edit(REFERENCES["gguf"], flip_sign_of_zero)),
        "the .pth": ("pth", save_again(lambda s: s["conv1.weight"].view(-1)[3:4].add_(1.0))),
        "the .safetensors": ("safetensors", flip(CHECKPOINTS["safetensors"], -3, 1)),
        # Two bytes of padding follow the last block.
        "the .gguf": ("gguf", flip(CHECKPOINTS["gguf"], -3, 4)),
        "the form of the .pth": ("pth", save_as_legacy(lambda _: None)),
        "a legacy .pth": ("pth", save_as_legacy(lambda state: state["fc.bias"].add_(1.0))),
        "dimensions are reversed": (
            "gguf",
            edit(REFERENCES["gguf"], lambda values: values.reshape(values.shape[::-1])),
        ),
        "references of one shape are swapped": (
            "pth",
            swap(f"{PARAMETERS}/bn1.bias.bin", f"{PARAMETERS}/bn1.weight.bin"),
        ),
        "references of two shapes are swapped": (
            "pth",
            swap(f"{PARAMETERS}/fc.bias.bin", f"{PARAMETERS}/conv1.weight.bin"),
        ),
        "another checkpoint": ("gguf", take_upstreams_gguf),
        "a key too much": (
            "pth",
            edit_json("resnet18-pth/keys.json", lambda keys: keys.append("gone")),
        ),
        "a key too few": (
            "pth",
            edit_json("resnet18-pth/keys.json", lambda keys: keys.remove("layer1.steps")),
        ),
        "a key of floats too few": (
            "safetensors",
            edit_json("safetensors-rt/keys.json", lambda keys: keys.remove("fc.bias")),
        ),
        "a reference is renamed": (
            "pth",
            lambda root: (root / PARAMETERS / "fc.bias.bin").rename(
                root / PARAMETERS / "fc.bias2.bin"
            ),
        ),
        "a record's range": ("pth", set_record("resnet18-pth", "fc.weight", byte_range=[0, 160])),
        "a record's offset": ("pth", set_record("resnet18-pth", "views.rows", storage_offset=0)),
        "a record's strides": (
            "pth",
            set_record("resnet18-pth", "views.permuted", stride=[1, 2, 3]),
        ),
        "a record's dtype": (
            "safetensors",
            set_record("safetensors-rt", "fc.weight", dtype="F64"),
        ),
        "a record's type": ("gguf", set_record("gguf", "blk.1.attn_q.weight", type="Q3_K")),
        "a record's dims": ("gguf", set_record("gguf", "blk.1.attn_q.weight", dims=[4, 512])),
        **{
            f"a {case} that is {kind}": (case, write(path, content))
            for case, path in CHECKPOINTS.items()
            for kind, content in UNREADABLE.items()
        },
        "two checkpoints": ("gguf", write("gguf/other.gguf", b"")),
        "a reference that is cut": ("pth", write(REFERENCES["pth"], b"\1\0\0")),
        "an output": ("onnx", edit(ONES, bump(0, 1))),
        "an output is NaN": ("onnx", edit(ONES, lambda y: y * np.float32(np.nan))),
        "another processor's rounding": (
            "onnx",
            edit(ONES, lambda y: np.nextafter(y, np.float32(np.inf))),
        ),
        "the weights": ("onnx", flip("onnx-mlp/mlp_weights.bin", -1, 1)),
        "weights of one tensor": ("onnx", write("onnx-mlp/mlp_weights.bin", encode_f32([1.0]))),
        "weights are cut": ("onnx", write("onnx-mlp/mlp_weights.bin", b"\0")),
        "an input of another width": (
            "onnx",
            write("onnx-mlp/input_ones.bin", encode_f32([[1.0, 2.0]])),
        ),
        "no input": ("onnx", write("onnx-mlp/input_ones.bin", None)),
        "no output": ("onnx", write(ONES, None)),
    },
    LOADER: {
        "an element": (
            "shuffled_seeded",
            edit_batch("shuffled_seeded/batch_0001.bin", lambda t: t[0].__setitem__((0, 0), 9.0)),
        ),
        "the seed": ("shuffled_seeded", set_meta("shuffled_seeded", seed=43)),
        "batches are swapped": (
            "sequential",
            swap("sequential/batch_0000.bin", "sequential/batch_0001.bin"),
        ),
        "the whole data set": ("sequential", shift_data_set),
        "a copy": ("sequential", set_meta("sequential", item_labels=[0] * 10)),
        "no batch size": ("sequential", set_meta("sequential", batch_size=0)),
        "a ragged data set": (
            "sequential",
            set_meta("sequential", full_dataset_features=[[1], [2, 3]]),
        ),
        "labels of text": ("sequential", set_meta("sequential", full_dataset_labels=["a"] * 10)),
        "no labels": ("sequential", drop_meta("full_dataset_labels")),
        "no mode": ("sequential", drop_meta("equality_mode")),
        **BATCH_FILES,
    },
    PIPELINE: {
        "the mask": (
            "pad",
            edit_batch("pad/batch_0002.bin", lambda t: t[3].__setitem__(3, 1.0)),
        ),
        "the order": ("keep", set_meta("keep", order=[0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 9])),
        "omitted ids": ("keep", set_meta("keep", omitted_ids=[3])),
        "the fingerprint": ("keep", set_meta("keep", fingerprint="0" * 64)),
        "the mean": ("keep", set_meta("keep", masked_mean=0.25)),
        "batch sizes": ("keep", set_meta("keep", batch_sizes=[4, 4, 4])),
        **{
            f"ids are {ids}": (
                "keep",
                edit_json("keep/meta.json", lambda meta, ids=ids: meta["dataset"].update(ids=ids)),
            )
            for ids in ([1, 1], ["a"])
        },
        **BATCH_FILES,
    },
}  # fmt: skip


@pytest.mark.parametrize("bundle", CHANGES)
def test_each_change_is_found(
    unpacked: Callable[[str], Path], golden: Callable[..., None], bundle: str
) -> None:
    text = ""
    for name, (case, change) in CHANGES[bundle].items():
        root = unpacked(bundle)
        change(root)
        text += f"{name}{format_result(*find_errors(root, case))}"
        shutil.rmtree(root)
    golden(text)


def test_drift_shows_the_versions_of_both(unpacked: Callable[[str], Path]) -> None:
    root = unpacked(SERIALIZE)
    edit_json("provenance.json", lambda meta: meta["versions"].update(torch="2.1.0"))(root)
    edit(REFERENCES["pth"], bump(0, 0))(root)

    (finding,) = find_errors(root, "pth")[1]

    here = libraries.find_version("torch")
    assert finding.details[-1] == f"made with torch 2.1.0; audited with torch {here}"


def test_a_bundle_without_provenance_says_so(tmp_path: Path) -> None:
    line = Provenance.read(tmp_path, ["numpy"]).format_versions("numpy", "absent")

    versions = f"numpy {np.__version__}, absent not installed"
    assert line == f"made with numpy not stated, absent not stated; audited with {versions}"


class Hostile:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("marker"),)


def test_nothing_in_a_checkpoint_runs(
    unpacked: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root = unpacked(SERIALIZE)
    save_again(lambda state: state.update(evil=Hostile()))(root)

    (finding,) = find_errors(root, "pth")[1]

    assert finding.code == "checkpoint-unreadable"
    assert not (tmp_path / "marker").exists()


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


# Tensors of one's own.


def own(tmp_path: Path, cases: dict[str, Any], files: dict[str, bytes]) -> dict[str, CaseResult]:
    manifest = {"parity.json": encode_json({"schema": 1, "cases": cases})}
    root = write_tree(tmp_path / "own-v1", manifest | files)
    return {case.case: case for case in audits.audit("tensors", root, "own-v1")}


def saved(**tensors: Any) -> bytes:
    import torch  # noqa: PLC0415 - not in every environment
    from safetensors.torch import save  # noqa: PLC0415 - not in every environment

    return bytes(save({name: torch.as_tensor(value) for name, value in tensors.items()}))


def pickled(state: Any, **options: Any) -> bytes:
    import torch  # noqa: PLC0415 - not in every environment

    buffer = io.BytesIO()
    torch.save(state, buffer, **options)
    return buffer.getvalue()


def make_tensor(values: Any, dtype: str = "float32") -> Any:
    import torch  # noqa: PLC0415 - not in every environment

    return torch.tensor(values, dtype=getattr(torch, dtype))


def make_nested() -> dict[str, bytes]:
    half, count = make_tensor([1.0, 2.0], "bfloat16"), make_tensor([[1], [2**40]], "int64")
    state = {"model": {"half": half, "count": count, "other": half}, "epoch": 3}
    kept = saved(**{"model.half": half, "model.count": count})
    return {"m.pth": pickled(state), "r.safetensors": kept}


ONE = {"reference/x.bin": encode_f32([1.0])}
REFERENCE = {"reference": "r.safetensors"}
#: By what a bundle of one's own has: keys of its case beside the checkpoint, and its files.
OWN: dict[str, tuple[dict[str, Any], Callable[[], dict[str, bytes]]]] = {
    "the dtypes of the checkpoint": (REFERENCE, make_nested),
    "a pickle that weights_only does not read": (
        {}, lambda: {"m.pth": pickled({"x": make_tensor([1.0])}, pickle_protocol=4), **ONE}),
    # torch has no 6-bit floats, and counts a byte of two 4-bit ones as one element.
    "floats that share bytes": (
        REFERENCE,
        lambda: dict.fromkeys(
            ["m.safetensors", "r.safetensors"],
            encode_safetensors({"x": ("F4", np.arange(8).astype("u1").reshape(2, 4))}))),
    "other values, and a tensor too much": (
        {},
        lambda: {
            "m.safetensors": saved(x=make_tensor([1.0, 2.0]), y=make_tensor([3], "int8")),
            "reference/x.bin": encode_f32([1.0, 2.5]),
            "reference/y.bin": encode_f32([3.0]),
            "reference/z.bin": encode_f32([3.0])}),
    "another dtype": (
        REFERENCE,
        lambda: {
            "m.safetensors": saved(x=make_tensor([1.0], "float16")),
            "r.safetensors": saved(x=make_tensor([1.0]))}),
    "no checkpoint": ({}, lambda: ONE),
    "a checkpoint that no audit reads": ({}, lambda: {"m.onnx": b"x", **ONE}),
    "no checkpoint in the file": ({}, lambda: {"m.pth": b"?", **ONE}),
    "no tensor in the checkpoint": ({}, lambda: {"m.pth": pickled({"epoch": 3}), **ONE}),
    "an unreadable reference": ({}, lambda: {"m.gguf": b"", "reference/x.bin": b"?"}),
}  # fmt: skip


def test_references_of_ones_own(tmp_path: Path, golden: Callable[..., None]) -> None:
    text = ""
    for number, (name, (entry, make)) in enumerate(OWN.items()):
        files = make()
        checkpoint = [("checkpoint", path) for path in files if path.startswith("m.")]
        files = {f"a/{path}": content for path, content in files.items()}
        result = own(tmp_path / str(number), {"a": {**entry, **dict(checkpoint)}}, files)["a"]
        text += f"{name}{format_result(result, result.findings)}"
        text += f"  {result.reason}\n" if result.reason else ""
    golden(text)


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
    edit(REFERENCES["pth"], bump(0, 0))(root)
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
    files = {
        "parity.json": encode_json({"schema": 1, "cases": {"a": {"checkpoint": "m.safetensors"}}}),
        "a/m.safetensors": saved(x=np.array([1.0, 2.0], np.float32)),
        "a/reference/x.bin": encode_f32([1.0, value]),
    }
    made = pack_files(tmp_path / "own-v1.tar", files)
    lock_bundle(tmp_path, made, "tensors")

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
    lock_bundle(folder, made, "tensors")


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
