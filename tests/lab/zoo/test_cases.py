"""The zoo: every kind has its cases, every reference is as upstream reads it, none is twice."""

from __future__ import annotations

import json
import re
import tarfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.bundle import manifest
from parity.bundle.tensor_case import TensorCase
from parity.checkpoints import blocks
from parity.errors import ReferenceSuspectError
from parity.lab import zoo
from parity.lab.zoo.case import ZooCase
from parity.tensors import safetensors
from parity.tensors.stored import StoredTensor

BUNDLE = Path(__file__).parents[2] / "bundles" / "checkpoint-zoo-v1.tar"


def each(prefix: str, words: str) -> str:
    return " ".join(f"{prefix}{word}" for word in words.split())


#: Every kind of file that the zoo must contain, and its cases.
KINDS = {
    # pth, to be loaded
    "zip container": "pth-y-zip",
    "legacy container": "pth-y-legacy pth-y-legacy-views pth-y-legacy-dtypes",
    "protocols 2 to 5": "pth-y-zip pth-y-protocol-3 pth-y-protocol-4 pth-y-protocol-5",
    "dict": "pth-y-zip",
    "OrderedDict": "pth-y-ordered-dict",
    "a module's state dict": "pth-y-module",
    "Parameter": "pth-y-parameter",
    "nested": "pth-y-nested pth-y-nested-views",
    "every call that rebuilds a tensor": "pth-y-rebuild-tensor pth-y-zip pth-y-uint16 "
    "pth-y-parameter pth-y-parameter-with-state pth-y-tensor-with-state pth-y-uint16-with-state",
    "more than 256 entries": "pth-y-many-entries",
    "transposed": "pth-y-transposed",
    "permuted": "pth-y-permuted",
    "channels_last": "pth-y-channels-last",
    "column slice": "pth-y-columns",
    "row slice": "pth-y-rows",
    "stepped": "pth-y-stepped",
    "expanded": "pth-y-expanded",
    "storage offset": "pth-y-offset pth-y-large-offset",
    "two tensors on one storage": "pth-y-shared-storage pth-y-tied",
    "scalar, empty, one-element dims": "pth-y-scalar pth-y-empty pth-y-ones",
    "f16, bf16, f64": "pth-y-float16 pth-y-bfloat16 pth-y-float64",
    "bool, every int": "pth-y-bool pth-y-int8 pth-y-int16 pth-y-int32 pth-y-int64 pth-y-uint8 "
    "pth-y-uint16 pth-y-uint32 pth-y-uint64",
    "complex64": "pth-y-complex64",
    "float8": "pth-y-float8-e4m3fn pth-y-float8-e5m2 pth-y-float8-e8m0fnu",
    "special values": "pth-y-minus-zero pth-y-infinities pth-y-nan-payload pth-y-subnormals",
    "names": "pth-y-name-dots pth-y-name-slash pth-y-name-spaces pth-y-name-unicode "
    "pth-y-name-long pth-y-name-case-twins",
    "integers of each opcode": "pth-y-binint pth-y-binint1 pth-y-binint2 pth-y-long1",
    "sparse, quantized, nested": "pth-i-sparse-coo pth-i-quantized pth-i-nested-tensor",
    # safetensors, to be loaded
    "every dtype": each(
        "safetensors-y-",
        "bool u8 i8 f8-e5m2 f8-e4m3 f8-e8m0 f8-e4m3fnuz f8-e5m2fnuz i16 u16 f16 bf16 "
        "i32 u32 f32 c64 f64 i64 u64",
    )
    + " safetensors-i-f4 safetensors-i-f6-e2m3 safetensors-i-f6-e3m2",
    "__metadata__": "safetensors-y-metadata safetensors-y-no-metadata",
    "header padded and not": "safetensors-y-padded safetensors-y-no-metadata",
    "listed in another order": "safetensors-y-other-order",
    "scalar, empty": "safetensors-y-scalar safetensors-y-empty",
    "Unicode and escaped names": "safetensors-y-name-unicode safetensors-y-name-escaped",
    "misaligned data": "safetensors-y-misaligned",
    # gguf, to be loaded
    "every type": each(
        "gguf-y-",
        "f32 f16 bf16 f64 i8 i16 i32 i64 q4-0 q4-1 q5-0 q5-1 q8-0 q2-k q3-k q4-k q5-k "
        "q6-k iq1-s iq1-m iq2-xxs iq2-xs iq2-s iq3-xxs iq3-s iq4-nl iq4-xs tq1-0 tq2-0 "
        "mxfp4 nvfp4",
    ),
    "one to four dimensions": "gguf-y-one-dim gguf-y-f32 gguf-y-three-dims gguf-y-four-dims",
    "alignment": "gguf-y-alignment-8 gguf-y-alignment-16 gguf-y-alignment-64",
    "v2 and v3": "gguf-y-version-2 gguf-y-three-tensors",
    "metadata of every type": each(
        "gguf-y-meta-",
        "uint8 int8 uint16 int16 uint32 int32 float32 bool string array-bool uint64 "
        "int64 float64 array-of-arrays",
    ),
    "another order, gaps": "gguf-y-other-order gguf-y-gap",
    "Unicode names": "gguf-y-name-unicode",
    "block scales": " ".join(
        f"gguf-y-{kind}-scale-{scale}"
        for kind in ("q4-0", "q5-1", "q8-0", "q4-k", "q6-k")
        for scale in ("zero", "subnormal", "infinite", "nan")
    ),
    "big-endian and v1": "gguf-i-big-endian gguf-i-version-1",
    # to be rejected
    "2^31": "pth-n-storage-2-31 safetensors-n-length-2-31 gguf-n-tensors-2-31 gguf-n-dim-2-31",
    "2^60": "pth-n-storage-2-60 safetensors-n-length-2-60 gguf-n-array-2-60 gguf-n-pairs-2-60",
    "2^63": "pth-n-storage-2-63 safetensors-n-length-2-63 gguf-n-tensors-2-63 gguf-n-offset-2-63",
    "a view far larger than its storage": "pth-n-expanded-huge",
    "zero": "pth-n-storage-zero safetensors-n-length-0 gguf-n-alignment-0",
    "negative": "pth-n-storage-negative safetensors-n-offsets-negative gguf-n-dim-minus-3",
    "overlapping": "safetensors-n-overlap safetensors-n-alias gguf-i-shared-data",
    "past the end": "pth-n-size-past-end safetensors-n-offsets-past-end gguf-n-offset-past-end",
    "misaligned": "gguf-n-offset-misaligned",
    "products that overflow": "pth-n-size-product safetensors-n-product-2-64 gguf-n-product-2-64",
    "shape against byte length": "safetensors-n-length-short safetensors-n-length-long",
    "truncation": "pth-n-cut-half pth-n-cut-pickle pth-n-cut-directory pth-n-storage-cut "
    "safetensors-n-cut-header safetensors-n-cut-data gguf-n-cut-counts gguf-n-cut-metadata "
    "gguf-n-cut-info gguf-n-cut-data",
    "versions unknown": "pth-n-version-newer pth-n-legacy-version gguf-n-version-4",
    "alignment 0 and no power of two": "gguf-n-alignment-0 gguf-n-alignment-3 gguf-n-alignment-24",
    "deep nesting": "gguf-n-array-deep safetensors-n-json-deep-arrays "
    "safetensors-n-json-deep-objects pth-i-deep-tuples pth-i-deep-lists pth-i-deep-dicts",
    "duplicate names": "gguf-n-name-twice gguf-n-key-twice safetensors-n-json-duplicate-name",
    "JSON that is no object": "safetensors-n-json-array safetensors-n-json-string",
    "JSON with duplicate keys": "safetensors-n-json-duplicate-field",
    "floats or negatives as offsets": "safetensors-n-offsets-float safetensors-n-offsets-negative",
    "holes and trailing data": "safetensors-n-hole safetensors-n-trailing-data",
    "unknown opcode": "pth-n-unknown-opcode",
    "memo never set": "pth-n-memo-never-set",
    "a global that is no rebuild": "pth-n-global-system pth-n-global-exec pth-n-global-stacked",
    "persistent id of another shape": "pth-n-pid-short pth-n-pid-tag pth-n-pid-class",
    "storage missing": "pth-n-storage-missing",
    "storage shorter than declared": "pth-n-storage-cut",
    "offset and stride out of range": "pth-n-offset-past-end pth-n-stride-past-end",
    "negative sizes": "pth-n-size-negative",
    "member twice": "pth-i-member-twice pth-i-pickle-twice",
    "deflated bomb": "pth-n-bomb-storage pth-n-bomb-pickle",
    "encrypted": "pth-n-encrypted",
    "absolute path": "pth-n-absolute-path",
    "no data.pkl": "pth-n-no-data-pkl",
    "not the format": "pth-n-not-the-format gguf-n-not-the-format safetensors-n-lfs-pointer",
    "empty file": "pth-n-empty-file safetensors-n-empty-file gguf-n-empty-file",
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoo")
    with tarfile.open(BUNDLE) as tar:
        tar.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def cases(tree: Path) -> dict[str, TensorCase]:
    return {case.id: case for case in manifest.load(tree)}


def of(cases: dict[str, TensorCase], group: str, *expect: str) -> list[TensorCase]:
    return [case for case in cases.values() if case.group == group and case.expect in expect]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_its_cases(kind: str, cases: dict[str, TensorCase]) -> None:
    assert [name for name in KINDS[kind].split() if name not in cases] == []


def test_it_is_large_enough_and_small_enough(cases: dict[str, TensorCase]) -> None:
    assert len(cases) >= 150
    assert sum(case.expect == "refuse" for case in cases.values()) >= 40
    assert BUNDLE.stat().st_size < 3_000_000


def test_each_case_states_why_and_its_rule(cases: dict[str, TensorCase]) -> None:
    for case in cases.values():
        assert case.has_expectation, case.id
        assert case.id.startswith(f"{case.group}-")
        assert {"y": "load", "n": "refuse", "i": "either"}[case.id.split("-")[1]] == case.expect
        for text in (case.why, case.rule):
            assert 3 < len(text) < 160, case.id
            assert text == text.strip()
            assert "\n" not in text
        assert (case.reference is None) == (case.expect == "refuse")


def test_the_rows_are_the_cases_of_the_bundle(cases: dict[str, TensorCase]) -> None:
    rows = [(row.id, row.group, row.expect, row.why, row.rule) for row in zoo.CASES]
    assert rows == [(c.id, c.group, c.expect, c.why, c.rule) for c in cases.values()]


def test_no_two_cases_are_alike(cases: dict[str, TensorCase]) -> None:
    texts = [(case.group, case.expect, case.why) for case in cases.values()]
    assert len(set(texts)) == len(texts)
    contents = [
        case.checkpoint.read_bytes() for case in cases.values() if case.checkpoint is not None
    ]
    filled = [content for content in contents if content]
    assert len(set(filled)) == len(filled)
    assert len(contents) - len(filled) == 3  # the empty file of each format


#: Cases that gguf-py loads although ggml or its document forbids them.
DISPUTED = {"gguf-i-five-dims", "gguf-i-shared-data", "gguf-i-not-padded"}


def test_the_outcomes_of_the_readers_are_recorded(tree: Path, cases: dict[str, TensorCase]) -> None:
    record = json.loads((tree / "readers.json").read_text(encoding="utf-8"))
    assert record["versions"].keys() == {"torch", "safetensors", "gguf", "numpy"}
    assert record["cases"].keys() == cases.keys()
    hostile = {name for name in cases if name.startswith("pth-n-global-") and "absent" not in name}
    for name, outcomes in record["cases"].items():
        readers = {
            "pth": {"torch", "torch-full"},
            "safetensors": {"safetensors"},
            "gguf": {"gguf-py"},
        }
        expected = readers[cases[name].group] - ({"torch-full"} if name in hostile else set())
        assert outcomes.keys() == expected, name
        assert set(outcomes.values()) <= {"loaded", "refused", "crashed", "limit"}
        assert cases[name].expect != "load" or "loaded" in outcomes.values(), name
    assert {name for name in record["against"] if cases[name].expect == "either"} == DISPUTED


#: Cases to be rejected although a reference reader loads them, or does not survive them.
BY_DOCUMENT = {
    "safetensors-n-json-space-first",
    "safetensors-n-json-duplicate-name",
    "gguf-n-bool-2",
    "gguf-n-name-65",
    "gguf-n-offset-misaligned",
    "gguf-n-offset-minus-32",
    "gguf-n-array-2-31",
    "pth-n-bytes-2-60",
    "pth-n-expanded-huge",
}


def test_each_rejection_has_a_reader_or_a_document(
    tree: Path, cases: dict[str, TensorCase]
) -> None:
    outcomes = json.loads((tree / "readers.json").read_text(encoding="utf-8"))["cases"]
    by_document = {
        name
        for name, case in cases.items()
        if case.expect == "refuse" and set(outcomes[name].values()) != {"refused"}
    }
    assert by_document == BY_DOCUMENT
    for name in by_document:
        assert re.search("README|docs/|Lib/", cases[name].rule), name


# --- the references are as upstream reads them --------------------------------------------------


def read_reference(case: TensorCase) -> dict[str, StoredTensor]:
    assert case.reference is not None
    return safetensors.locate_tensors(case.reference)


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.process  # importing torch asks the system for its name
def test_torch_reads_the_values_of_the_references(cases: dict[str, TensorCase]) -> None:
    torch = pytest.importorskip("torch")
    load_file = pytest.importorskip("safetensors.torch").load_file
    for case in of(cases, "pth", "load"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = dict(flat("", torch.load(case.checkpoint, weights_only=False)))
        expected = load_file(case.reference)
        assert loaded.keys() == expected.keys(), case.id
        for name, tensor in loaded.items():
            computed = case.tolerances != {"exact": 1.0}
            obtained = tensor.detach().float() if computed else tensor.detach()
            assert (obtained.dtype, obtained.shape) == (
                expected[name].dtype,
                expected[name].shape,
            ), case.id
            left, right = (
                one.contiguous().reshape(-1).view(torch.uint8) for one in (obtained, expected[name])
            )
            assert torch.equal(left, right), case.id


def flat(path: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        pairs = [flat(f"{path}.{key}" if path else str(key), item) for key, item in value.items()]
        return [pair for found in pairs for pair in found]
    return [(path, value)] if hasattr(value, "storage_offset") else []


@pytest.mark.torch
def test_safetensors_reads_the_values_of_the_references(
    cases: dict[str, TensorCase],
) -> None:
    library = pytest.importorskip("safetensors")
    for case in of(cases, "safetensors", "load"):
        assert case.checkpoint is not None
        expected = read_reference(case)
        read = dict(library.deserialize(case.checkpoint.read_bytes()))
        assert read.keys() == expected.keys(), case.id
        for name, entry in read.items():
            assert tuple(entry["shape"]) == expected[name].shape
            if case.tolerances == {"exact": 1.0}:
                assert entry["dtype"] == expected[name].dtype.name
                assert bytes(entry["data"]) == expected[name].read_array().tobytes(), case.id


@pytest.mark.torch
def test_safetensors_reads_floats_narrower_than_a_byte(cases: dict[str, TensorCase]) -> None:
    library = pytest.importorskip("safetensors")
    for dtype in ("F4", "F6_E2M3", "F6_E3M2"):
        case = cases[f"safetensors-i-{dtype.lower().replace('_', '-')}"]
        assert case.checkpoint is not None
        assert case.reference is not None
        ((name, entry),) = library.deserialize(case.checkpoint.read_bytes())
        expected = read_reference(case)[name]
        raw = case.reference.read_bytes()[expected.offset : expected.offset + expected.nbytes]
        assert (entry["dtype"], tuple(entry["shape"])) == (expected.dtype.name, expected.shape)
        assert bytes(entry["data"]) == raw


@pytest.mark.torch
def test_gguf_py_reads_the_values_of_the_references(cases: dict[str, TensorCase]) -> None:
    gguf = pytest.importorskip("gguf")
    for case in of(cases, "gguf", "load"):
        expected = read_reference(case)
        tensors = gguf.GGUFReader(case.checkpoint).tensors
        assert {tensor.name for tensor in tensors} == expected.keys(), case.id
        for tensor in tensors:
            reference = expected[tensor.name]
            assert tuple(tensor.shape) == reference.shape, case.id
            obtained = tensor.data
            if case.tolerances != {"exact": 1.0}:
                with np.errstate(all="ignore"):
                    obtained = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            assert same(np.asarray(obtained), reference), case.id


def same(obtained: np.ndarray, expected: StoredTensor) -> bool:
    array = expected.read_array()
    if array.dtype == np.float32:
        return np.array_equal(obtained.reshape(-1), array.reshape(-1), equal_nan=True)
    return obtained.tobytes() == array.tobytes()


# --- no wrong decoder finds the right values ----------------------------------------------------

QUANTS = [kind for kind in blocks.DECODERS if kind not in ("F32", "F16", "BF16")]


@pytest.mark.torch
@pytest.mark.parametrize("kind", QUANTS)
def test_a_wrong_decoder_gives_other_values(kind: str, cases: dict[str, TensorCase]) -> None:
    gguf = pytest.importorskip("gguf")
    case = cases[f"gguf-y-{kind.lower().replace('_', '-')}"]
    (tensor,) = gguf.GGUFReader(case.checkpoint).tensors
    right = blocks.DECODERS[kind]
    raw = tensor.data.reshape(-1, right.size)
    expected = read_reference(case)["w"].read_array().reshape(-1)
    assert np.array_equal(right(raw).reshape(-1), expected)
    wrong = blocks.list_mistakes(kind)
    assert wrong
    for one in wrong:
        with np.errstate(all="ignore"):
            obtained = one.decoder(raw).reshape(-1)
        assert not np.array_equal(obtained, expected, equal_nan=True), one.name


@pytest.mark.parametrize("group", ["pth", "safetensors", "gguf"])
def test_values_are_not_all_alike(group: str, cases: dict[str, TensorCase]) -> None:
    """A broken reader would find all zeros, or all of one value, by chance."""
    for case in of(cases, group, "load", "either"):
        for name, tensor in read_reference(case).items():
            values = tensor.read_array().reshape(-1)
            if len(values) > 3 and "specials" not in case.id:
                assert len(np.unique(values.view("u1"))) > 1, (case.id, name)


# --- pinning -----------------------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.process
class TestPin:
    def test_a_reader_that_loads_what_it_must_reject_is_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        good = next(case for case in zoo.CASES if case.id == "safetensors-y-scalar")
        wrong = ZooCase("safetensors-n-lie", good.build, "why", "rule")
        monkeypatch.setattr(zoo, "CASES", [wrong])
        with pytest.raises(ReferenceSuspectError, match="must be rejected by every reader"):
            zoo.pin(tmp_path)

    def test_a_case_that_no_reader_loads_is_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wrong = ZooCase("safetensors-y-lie", lambda: b"", "why", "rule", expected={})
        monkeypatch.setattr(zoo, "CASES", [wrong])
        with pytest.raises(ReferenceSuspectError, match="must be loaded, but no reader loads it"):
            zoo.pin(tmp_path)
