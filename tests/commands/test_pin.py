"""`pin tensors`, and its bundles verified end to end by a port that is not written in Rust."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.__main__ import run_command_line
from parity.bundle import manifest
from tests.support.tensors import bf16, encode_safetensors, f32, write_files

ROOT = Path(__file__).parents[2]
WEIGHTS: dict[str, tuple[str, Any]] = {
    "count": ("I64", np.array([2**63 - 1, 2**24 + 1, -7])),
    "double": ("F64", np.array([0.1, 1e300, -1e-300])),
    "half": ("F16", np.array([[0.1, 65504], [-0.0, 6e-8]], "<f2")),
    "brain": ("BF16", bf16(1.0, -2.5, 3.140625)),
    "single": ("F32", np.arange(12, dtype="<f4").reshape(3, 4) / 8),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a person would pack: two cases, a checkpoint each, references in two formats."""
    root = tmp_path / "weights-v1"
    checkpoint = encode_safetensors(WEIGHTS)
    write_files(root / "own-dtype", {"model.safetensors": checkpoint})
    write_files(root / "own-dtype" / "reference", {"all.safetensors": checkpoint})
    write_files(root / "as-f32", {"model.safetensors": checkpoint})
    write_files(root / "as-f32" / "reference", {"single.npy": WEIGHTS["single"][1]})
    cases = {
        "own-dtype": {"checkpoint": "model.safetensors", "why": "each in its own dtype"},
        "as-f32": {"checkpoint": "model.safetensors", "bounds": {"ulp": 1}},
    }
    (root / "parity.json").write_text(json.dumps({"schema": 1, "cases": cases}), "utf-8")
    return root


def pin(folder: Path, out: Path, *more: str) -> int:
    return run_command_line(["pin", "tensors", str(folder), "--out", str(out), *more])


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


# --- the verb ------------------------------------------------------------------------------


def test_a_folder_is_packed_and_its_digest_reported(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pin(folder, tmp_path / "out") == 0
    made = tmp_path / "out" / "weights-v1.tar"
    raw = made.read_bytes()
    assert capsys.readouterr().out.splitlines() == [
        "pinning tensors",
        f"{made.as_posix()}  {len(raw):,} bytes  sha256:{hashlib.sha256(raw).hexdigest()}",
    ]
    with tarfile.open(made) as tar:
        assert tar.getnames() == [
            "as-f32/model.safetensors",
            "as-f32/reference/single.npy",
            "own-dtype/model.safetensors",
            "own-dtype/reference/all.safetensors",
            "parity.json",
        ]


def test_each_file_or_folder_of_the_command_line_is_a_case(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.npy", "b.npy", "c.1", "c.2")]
    for folder in files[2:]:
        folder.mkdir()
    for file in (*files[:2], *(folder / "x.npy" for folder in files[2:])):
        np.save(file, np.ones(3, "<f4"))
    out = tmp_path / "out"
    words = ["pin", "tensors", *map(str, files), "--name", "ops-v1", "--out", str(out)]
    assert run_command_line(words) == 0
    with tarfile.open(out / "ops-v1.tar") as tar:
        folders = {name.partition("/")[0] for name in tar.getnames()}
    assert folders == {"a", "b", "c.1", "c.2", "parity.json"}


def test_the_same_folder_makes_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "weights-v1"
    shutil.copytree(folder, copy)
    for path in copy.rglob("*"):
        path.touch()
    assert (pin(folder, tmp_path / "1"), pin(copy, tmp_path / "2")) == (0, 0)
    one, other = (tmp_path / out / "weights-v1.tar" for out in "12")
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.process
def test_torch_is_not_needed(folder: Path, tmp_path: Path) -> None:
    """A port's maintainers pack what another framework wrote."""
    words = ["pin", "tensors", str(folder), "--out", str(tmp_path)]
    script = f"""
        import sys
        from parity.__main__ import run_command_line
        assert run_command_line({words!r}) == 0
        assert not {{"torch", "safetensors", "gguf", "onnx"}} & sys.modules.keys()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, cwd=ROOT)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tensors"],
         "`pin tensors PATH` packs a folder with its parity.json, or files; name one"),
        (["tensors", "/nowhere"],
         "/nowhere is not a folder; `pin tensors` packs a folder, or files"),
        (["serialize", "x"], "folder: not an option of the kind 'serialize'"),
        (["tensors", "x", "--size", "full"], "size: not an option of the kind 'tensors'"),
        (["tensor", "x"], "unknown kind 'tensor'; known: "),
    ],
)  # fmt: skip
def test_a_command_line_that_cannot_be_meant(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["pin", *words, "--out", str(tmp_path)]) == 2
    (line,) = said(capsys)
    assert line.startswith(f"error[usage] {message}")
    assert list(tmp_path.iterdir()) == []


def test_the_bundle_must_not_contain_itself(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for out in (folder, folder / "out"):
        assert pin(folder, out) == 2
        assert said(capsys) == [
            (
                f"error[usage] --out is inside {folder.as_posix()}, so that the next bundle would "
                "contain this one"
            )
        ]


REFERENCES: dict[str, tuple[Mapping[str, Any], list[str]]] = {
    "none": ({}, ["as-f32/reference: contains no tensor"]),
    "not one element": ({"a.npy": np.zeros((2, 0))}, ["as-f32/reference: contains no element"]),
    "twice": ({"a.npy": f32(1), "a.bin": f32(1)}, [
        "as-f32/reference: the tensor 'a' is in two files"]),
    "broken": ({"a.bin": b"", "b.safetensors": b"{}"}, [(
        "as-f32/reference: a.bin ends at byte 0, where the number of dimensions is expected; "
        "b.safetensors header claims 32,123 bytes, the file has 2")]),
    "column-major": ({"a.npy": np.asfortranarray(np.ones((2, 2)))}, [
        "as-f32/reference: a.npy is in column-major (Fortran) order; write it in row-major order"]),
    "objects": ({"a.npy": b"\x93NUMPY\x01\x00\x0a\x00{'descr':1"}, [
        "as-f32/reference: a.npy is not a .npy file"]),
}  # fmt: skip


@pytest.mark.parametrize(("reference", "messages"), REFERENCES.values(), ids=REFERENCES)
def test_nothing_is_packed_that_verify_would_reject(
    reference: Mapping[str, Any],
    messages: list[str],
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.rmtree(folder / "as-f32" / "reference")
    write_files(folder / "as-f32" / "reference", reference)
    assert pin(folder, tmp_path / "out") == 7
    lines = said(capsys)
    assert len(lines) == len(messages)
    for line, message in zip(lines, messages, strict=True):
        assert line.startswith(f"error[reference-malformed] {message}")
    assert not list((tmp_path / "out").glob("*"))


def test_a_manifest_that_is_wrong(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = folder / "parity.json"
    place.write_text('{"schema": 1, "cases": {"own-dtype": {"bound": 1}, "x": {}}}', "utf-8")
    assert pin(folder, tmp_path / "out") == 7
    head = "error[reference-malformed] parity.json: "
    places, messages = zip(*(line.split(f": {head}") for line in said(capsys)), strict=True)
    assert places == tuple(f"{place.as_posix()}:1:{column}" for column in (39, 52, 52))
    assert list(messages) == [
        f"case 'own-dtype' has no key 'bound'; known: {', '.join(manifest._KEYS)}",
        "case 'x' has no folder of that name",
        "the default reference of case 'x' is 'reference', which the bundle does not have",
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="such a file cannot be made there")
def test_names_that_do_not_unpack_everywhere(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """docker-library/official-images#13608: a colon; and a device of Windows."""
    write_files(folder / "as-f32" / "reference", {"a:b.bin": f32(1), "aux.bin": f32(1)})
    assert pin(folder, tmp_path / "out") == 2
    lines = [line for line in said(capsys) if "error[" in line]
    for name, line in zip(("a:b.bin", "aux.bin"), lines, strict=True):
        head = f"error[unsafe-name] 'as-f32/reference/{name}' cannot be a member of a bundle: "
        assert line.startswith(head)
    assert not list((tmp_path / "out").glob("*"))


# --- a port in NumPy -------------------------------------------------------------------------

#: Reads the checkpoint with a reader of its own and dumps every tensor in its own dtype.
PORT = """
import json
import sys
from pathlib import Path

import numpy as np

CODES = {"I64": "<i8", "F64": "<f8", "F16": "<f2", "BF16": "<u2", "F32": "<f4"}


def read(path):
    raw = Path(path).read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    for name, entry in json.loads(raw[8:start]).items():
        begin, end = (start + offset for offset in entry["data_offsets"])
        flat = np.frombuffer(raw[begin:end], CODES[entry["dtype"]])
        yield name, entry, flat.reshape(entry["shape"])


case, checkpoint, out = sys.argv[1:]
for name, entry, array in read(checkpoint):
    FAULT
    if case == "as-f32":
        if name == "single":
            header = np.array([array.ndim, *array.shape], "<u4").tobytes()
            Path(out, "single.bin").write_bytes(header + array.astype("<f4").tobytes())
    elif entry["dtype"] == "BF16":
        head = {name: entry | {"data_offsets": [0, array.nbytes]}}
        text = json.dumps(head).encode()
        content = len(text).to_bytes(8, "little") + text + array.tobytes()
        Path(out, name + ".safetensors").write_bytes(content)
    else:
        np.save(Path(out, name + ".npy"), array)
"""


@pytest.fixture
def repo(folder: Path, tmp_path: Path) -> Path:
    """A repo under test: the port's script, its lockfile, and the bundle beside it."""
    root = tmp_path / "port"
    root.mkdir()
    assert pin(folder, root) == 0
    lock(root)
    return root


def lock(root: Path, more: str = "") -> None:
    sha256 = hashlib.sha256((root / "weights-v1.tar").read_bytes()).hexdigest()
    program = json.dumps(Path(sys.executable).as_posix())
    text = f"""\
schema: 1
bundles:
  weights-v1:
    source: weights-v1.tar
    suite: tensors
    dump:
      command: [{program}, dump.py, "{{case}}", "{{checkpoint}}", "{{output_dir}}"]
{more}    locked:
      sha256: "sha256:{sha256}"
"""
    (root / "fixtures.lock.yaml").write_text(text, "utf-8")


def verify(root: Path, fault: str = "pass", *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and report of a run on the port with a fault planted into it."""
    (root / "dump.py").write_text(PORT.replace("FAULT", fault), "utf-8")
    code = run_command_line(
        ["verify", "--repo", str(root), "--report-dir", str(root / "report"), *words]
    )
    report = json.loads((root / "report" / "report.json").read_text("utf-8"))
    return code, {case["id"]: case for case in report["bundles"][0]["cases"]}


@pytest.mark.process
def test_a_port_in_numpy_passes_in_every_dtype(repo: Path) -> None:
    code, cases = verify(repo)
    assert (code, {name: case["verdict"] for name, case in cases.items()}) == (
        0,
        {"own-dtype": "pass", "as-f32": "pass"},
    )
    assert (cases["own-dtype"]["compared"], cases["own-dtype"]["findings"]) == (25, [])
    dtypes = {n: m["dtype"] for n, m in cases["own-dtype"]["measures"]["per_tensor"].items()}
    assert dtypes == {name: dtype for name, (dtype, _) in WEIGHTS.items()}
    assert cases["as-f32"]["margin"] == 0.0


FAULTS = {
    "an integer through f64": (
        "if name == 'count': array = array.astype('<f8').astype('<f4').astype('<i8')",
        "values", "count: 2 of 3 elements differ",
    ),
    "a double through f32": (
        "if name == 'double': array = array.astype('<f4').astype('<f8')",
        "nan", "double: 3 of 3 elements differ (1 NaN or infinite in the dump, 0 in the reference)",
    ),
    "a half as a float": (
        "if name == 'half': array = array.astype('<f4')",
        "dtype", "half is F32 in the .npy dump, expected F16",
    ),
    "the sign of zero lost": (
        "if name == 'half': array = array + np.float16(0)",
        "signed-zero", "half: 1 of 4 elements differs, all in the sign of zero",
    ),
    "bf16 read as f16": (
        ("if name == 'brain': array = (array.view('<f2').astype('<f4').view('<u4') >> 16)"
        ".astype('<u2')"),
        "values", "brain: 3 of 3 elements differ",
    ),
    "a tensor forgotten": (
        "if name == 'single' and case != 'as-f32': continue",
        "tensor-missing", "single (F32 [3, 4]) is missing from the dump",
    ),
    "Fortran order": (
        "if name == 'single' and case != 'as-f32': array = np.asfortranarray(array)",
        "bad-header", "single.npy is in column-major (Fortran) order; write it in row-major order",
    ),
    "big-endian": (
        "if name == 'single' and case != 'as-f32': array = array.astype('>f4')",
        "dtype-unsupported", "single.npy has the dtype '>f4'; known are little-endian ",
    ),
    "transposed": (
        "if name == 'single' and case != 'as-f32': array = array.T.copy()",
        "shape", "single has the shape [4, 3], expected [3, 4]; the dimensions are reversed",
    ),
}  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize(("fault", "code", "message"), FAULTS.values(), ids=FAULTS)
def test_a_port_in_numpy_is_red_when_it_is_wrong(
    fault: str, code: str, message: str, repo: Path
) -> None:
    unreadable = code in ("bad-header", "dtype-unsupported")
    exit_code, cases = verify(repo, fault)
    assert exit_code == (5 if unreadable else 1)
    assert cases["as-f32"]["verdict"] == "pass"
    assert cases["own-dtype"]["verdict"] == ("error" if unreadable else "fail")
    (finding,) = cases["own-dtype"]["findings"]
    assert finding["code"] == code
    assert finding["message"].startswith(message)


@pytest.mark.process
def test_the_lockfile_tightens_a_bound(repo: Path) -> None:
    fault = "if case == 'as-f32': array = np.nextafter(array.astype('<f4'), np.float32(9))"
    assert verify(repo, fault)[0] == 0
    lock(repo, "    bounds: {as-f32: {exact: true}}\n")
    code, cases = verify(repo, fault)
    assert (code, cases["as-f32"]["verdict"]) == (1, "fail")
    assert cases["as-f32"]["findings"][0]["message"].endswith("bound: exact")
    lock(repo, "    bounds: {as-f32: {ulp: 2}}\n")
    words = ["verify", "--repo", str(repo)]
    assert run_command_line(words) == 2


@pytest.mark.process
def test_a_known_failure_names_a_code_or_a_tensor(repo: Path) -> None:
    fault = "if name == 'half': array = array + np.float16(0)"
    for pattern in ("own-dtype:signed-zero", "own-dtype/half"):
        lock(repo, f"    known-failures: {{'{pattern}': 'zeros: #1'}}\n")
        code, cases = verify(repo, fault)
        assert (code, cases["own-dtype"]["verdict"]) == (0, "known-failure")
        assert verify(repo)[0] == 1  # it no longer fails
        assert verify(repo, "if name == 'half': array = array * 2")[0] == (
            0 if "/" in pattern else 1
        )
    # A tensor whose file cannot be read is that tensor's failure, too.
    assert verify(repo, "if name == 'half': array = array.astype('>f2')")[0] == 0


# --- the demo port, by both shapes of dump examples --------------------------------------------

ONE = """\
      example: serialize_parity_dump
      args: ["--target", "{case}", "--fixture-dir", "{fixture_dir}", "--output-dir", "{output_dir}"]
"""
FOUR = """\
      example: "serialize_{case}_dump"
      args: ["--fixture-dir", "{fixture_dir}", "--output-dir", "{output_dir}"]
      cases: {onnx: {example: serialize_onnx_export_dump}}
"""


@pytest.mark.cargo
@pytest.mark.slow
@pytest.mark.parametrize("dump", [ONE, FOUR], ids=["one", "four"])
def test_one_example_or_four(dump: str, tmp_path: Path) -> None:
    bundle = ROOT / "tests" / "bundles" / "serialize-parity-v1.tar"
    shutil.copy(bundle, tmp_path)
    sha256 = hashlib.sha256(bundle.read_bytes()).hexdigest()
    text = f"""\
schema: 1
bundles:
  serialize-parity-v1:
    source: serialize-parity-v1.tar
    suite: serialize
    dump:
      package: demo-serialize
      cwd: tests/ports/demo
{dump}    locked:
      sha256: "sha256:{sha256}"
"""
    place = tmp_path / "fixtures.lock.yaml"
    place.write_text(text, "utf-8")
    words = ["--repo", str(ROOT), "--lockfile", str(place), "--report-dir", str(tmp_path / "r")]
    assert run_command_line(["verify", *words]) == 0
    report = json.loads((tmp_path / "r" / "report.json").read_text("utf-8"))
    (bundle_result,) = report["bundles"]
    assert {case["id"]: case["verdict"] for case in bundle_result["cases"]} == dict.fromkeys(
        ("pth", "safetensors", "gguf", "onnx"), "pass"
    )
