"""A bundle that does not describe itself, from arrays to a verdict, by the verbs alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from parity.__main__ import run_command_line
from parity.lab import BundleWriter

PORT = "import shutil, sys; shutil.copy(sys.argv[1] + '/final.bin', sys.argv[2] + '/out.bin')"


@pytest.mark.process
@pytest.mark.torch
@pytest.mark.slow
def test_a_bundle_without_a_description_is_locked_audited_and_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PARITY_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    bundle = BundleWriter("upstream-v1")
    bundle.add_file("fixtures/a/final.bin", [np.ones((2, 3), "f4"), np.arange(3, dtype="f4")])
    bundle.pack(tmp_path)
    case = {"folder": "fixtures/a", "reference": {"final.bin": ["weight", "bias"]}}
    manifest = {"schema": 2, "cases": {"Step/A": case}}
    Path("cases.json").write_text(json.dumps(manifest), "utf-8")
    command = json.dumps([sys.executable, "-c", PORT, "{fixture_dir}", "{output_dir}"])
    Path("fixtures.lock.yaml").write_text(
        "schema: 2\nbundles:\n  upstream-v1:\n    source: upstream-v1.tar\n    suite: tensors\n"
        f"    manifest: cases.json\n    dump: {{command: {command}}}\n",
        "utf-8",
    )
    run: Callable[..., int] = run_command_line
    assert [run([verb]) for verb in ("bump", "verify", "audit")] == [0, 0, 0]
    assert "Step/A  the case has no checkpoint to derive from" in capsys.readouterr().out
    assert run(["reproduce", "upstream-v1/Step/A", "--out", "out"]) == 0
    again, first = (Path("out") / name / "out.bin" for name in ("obtained-again", "obtained"))
    if sys.platform != "win32":
        subprocess.run(["sh", "out/run.sh"], check=True)
        assert again.read_bytes() == first.read_bytes()


@pytest.mark.process
def test_arrays_of_a_file_are_a_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The way of the documentation: an `.npz` with inputs and references."""
    monkeypatch.setenv("PARITY_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    x = np.linspace(-2, 2, 20, dtype=np.float32)
    np.savez("softplus.npz", **{"inputs/x": x, "out": np.log1p(np.exp(x))})
    assert (
        run_command_line(["pin", "tensors", "softplus.npz", "--name", "ops-v1", "--out", "."]) == 0
    )
    port = "x = np.load(a + '/inputs/x.npy'); np.save(b + '/out.npy', FORMULA)"
    for formula, code in (("np.logaddexp(x, 0 * x)", 0), ("np.maximum(x, 0)", 1)):
        script = f"import sys; import numpy as np; a, b = sys.argv[1:]; {port}"
        words = [sys.executable, "-c", script.replace("FORMULA", formula)]
        command = json.dumps([*words, "{fixture_dir}", "{output_dir}"])
        Path("fixtures.lock.yaml").write_text(
            "schema: 1\nbundles:\n  ops-v1:\n    source: ops-v1.tar\n    suite: tensors\n"
            f"    dump: {{command: {command}}}\n",
            "utf-8",
        )
        assert run_command_line(["bump", "--accept-audit"]) == 0
        capsys.readouterr()
        assert run_command_line(["verify"]) == code
