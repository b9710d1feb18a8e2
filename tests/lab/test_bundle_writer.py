"""Bundles written from arrays, and what their manifests say of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.bundle.manifest import read_manifest
from parity.errors import ConfigError, ReferenceSuspectError
from parity.lab import BundleWriter
from parity.lab.bundle_writer import suggest_tolerance
from parity.tensors.folder import list_tensors
from tests.support.bundles import unpack


def test_a_case_in_five_lines(tmp_path: Path) -> None:
    x = np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 6)
    bundle = BundleWriter("ops-v1")
    bundle.add_case("exp", lambda x: np.exp(2 * x), {"x": x})
    archive = bundle.write(tmp_path / "out")

    assert archive == tmp_path / "out" / "ops-v1.tar"
    tree = unpack(archive, tmp_path / "tree")
    (case,) = read_manifest(tree).cases
    assert [path.relative_to(tree).as_posix() for path in case.inputs] == ["exp/inputs/x.npy"]
    assert np.array_equal(np.load(case.inputs[0]), x)
    assert case.reference is not None
    found = list_tensors(case.reference).tensors
    assert np.array_equal(found["out"].read_array(), np.exp(2 * x))
    (check,) = case.rules.tensors["out"].checks or ()
    assert 1e-6 < check.bounds["atol"] < 1e-2


@pytest.mark.torch
@pytest.mark.process  # torch asks for the processor
def test_torch_tensors_and_modules_keep_their_dtypes(tmp_path: Path) -> None:
    import torch  # noqa: PLC0415 - slow, and the other tests do without

    bundle = BundleWriter("torch-v1", tolerance="close")
    torch.manual_seed(0)  # of some weights the f32 run has no error
    layer = torch.nn.Linear(3, 2)
    bundle.add_case("linear", layer, {"input": torch.ones(4, 3)})
    weights = {"w": torch.tensor([1.5, -2], dtype=torch.bfloat16), "n": torch.tensor([7])}
    bundle.add_case("state/brain", weights, why="a dtype that NumPy has not", exact=True)
    tree = unpack(bundle.write(tmp_path), tmp_path / "tree")

    linear, state = read_manifest(tree).cases
    assert layer.weight.dtype == torch.float32  # the f64 run is a copy's
    assert "atol" in (linear.rules.tensors["out"].checks or ())[0].bounds
    assert state.id == "state/brain"
    assert state.reference is not None
    dtypes = {name: one.dtype.name for name, one in list_tensors(state.reference).tensors.items()}
    assert dtypes == {"n": "I64", "w": "BF16"}


HALF = np.array([1.0, 2.0], np.float32)
SUGGESTIONS: dict[str, tuple[Any, Any, Any]] = {
    "equal": (HALF, HALF.astype("f8"), "exact"),
    "integers": (np.array([3]), np.array([4]), "exact"),
    "booleans": (np.array([True]), np.array([False]), "exact"),
    "rounded up to 1": (HALF, np.add(HALF, [0, 0.2e-6]), {"atol": 1e-6}),
    "rounded up to 2": (HALF, np.add(HALF, [0, 0.3e-6]), {"atol": 2e-6}),
    "rounded up to 5": (HALF, np.add(HALF, [0.6e-6, 0]), {"atol": 5e-6}),
    "rounded up to 10": (HALF, np.add(HALF, [1.4e-6, 0]), {"atol": 1e-5}),
    "infinities are left out": (
        np.array([np.inf, 1.0], "f4"), [np.inf, 1 + 0.2e-6], {"atol": 1e-6}),
}  # fmt: skip


@pytest.mark.parametrize(("value", "wide", "suggested"), SUGGESTIONS.values(), ids=SUGGESTIONS)
def test_the_suggested_tolerance(value: Any, wide: Any, suggested: Any) -> None:
    assert suggest_tolerance(value, np.asarray(wide)) == suggested


def test_files_of_any_layout_are_packed_without_a_manifest(tmp_path: Path) -> None:
    bundle = BundleWriter("upstream-v1")
    bundle.add_file("a/params.bin", [np.zeros((2, 3), "f4"), np.ones(4, "f4")])
    bundle.add_file("a/edges.bin", np.array([[1, 2]]))
    bundle.add_file("a/meta.json", {"lr": 0.1})
    bundle.add_file("a/read.me", b"any bytes")
    tree = unpack(bundle.pack(tmp_path), tmp_path / "tree")

    params = (tree / "a/params.bin").read_bytes()
    assert np.frombuffer(params[:20], "<u4").tolist() == [2, 2, 2, 3, 0]
    assert len(params) == 4 + 12 + 24 + 8 + 16
    assert (tree / "a/edges.bin").read_bytes()[12:] == np.array([1, 2]).tobytes()
    assert json.loads((tree / "a/meta.json").read_text()) == {"lr": 0.1}
    assert (tree / "a/read.me").read_bytes() == b"any bytes"


def add_twice(bundle: BundleWriter) -> None:
    for _ in range(2):
        bundle.add_case("a", {"x": HALF})


MISTAKES: dict[str, tuple[Any, str]] = {
    "a case twice": (add_twice, "the case 'a' is added twice"),
    "a file twice": (
        lambda bundle: [bundle.add_file("a.json", value) for value in (1, 1, 2)],
        "has two files 'a.json'",
    ),
    "objects": (lambda bundle: bundle.add_case("a", {"x": np.array([None])}), "dtype object"),
    "a suffix without a format": (lambda bundle: bundle.add_file("a.txt", HALF), "a.txt: bytes"),
    "a bundle's id": (lambda _: BundleWriter("My bundle"), "'My bundle' cannot be a bundle's id"),
}


@pytest.mark.parametrize(("make", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_named(make: Any, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        make(BundleWriter("x-v1"))
    assert message in str(raised.value)


def test_a_blind_tolerance_is_not_written(tmp_path: Path) -> None:
    bundle = BundleWriter("blind-v1")
    bundle.add_case("a", {"x": HALF}, tolerance={"max_abs": 5.0})
    with pytest.raises(ReferenceSuspectError, match="zeros would pass"):
        bundle.write(tmp_path)
