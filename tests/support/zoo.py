"""Make small bundles whose cases state what they expect, and run ports in Python over them."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from parity.commands.verify import verify
from parity.lab.pins import packing
from parity.reports.console import RunConsole
from parity.verify.options import VerifyOptions
from tests.support.tensors import encode_safetensors, name_dtypes

W = np.arange(6, dtype="<f4").reshape(2, 3)
#: Beginning of every hand-made port: `out` is the output folder, `case` the case's id.
HEAD = """
import json, os, sys, time
from pathlib import Path
case, fixtures, checkpoint, out = sys.argv[1], *map(Path, sys.argv[2:])
def dump(name, shape, *values):
    import struct
    words = struct.pack(f"<{1 + len(shape)}I{len(values)}f", len(shape), *shape, *values)
    (out / f"{name}.bin").write_bytes(words)
def right(name="w"):
    dump(name, (2, 3), 0, 1, 2, 3, 4, 5)
def refuse(why="this is not for me"):
    print("FAILED:", why, file=sys.stderr)
    sys.exit(1)
"""


def make_reference(**arrays: Any) -> bytes:
    """Return a reference file; by default of the tensor `w`."""
    return encode_safetensors(name_dtypes(arrays or {"w": W}))


def pack_bundle(
    folder: Path,
    cases: Mapping[str, Mapping[str, Any]],
    references: Mapping[str, bytes] | None = None,
    files: Mapping[str, bytes] | None = None,
) -> Path:
    """Pack a bundle: each case has a checkpoint, and a reference unless it must be rejected."""
    files = dict(files or {})
    described = {}
    for name, entry in cases.items():
        values = {"group": "gguf", "checkpoint": "c.gguf", **entry}
        files[f"{name}/c.gguf"] = name.encode()
        if values.get("expect") != "refuse":
            files[f"{name}/reference/r.safetensors"] = (references or {}).get(
                name, make_reference()
            )
            values["reference"] = "reference/r.safetensors"
        described[name] = values
    files["parity.json"] = packing.encode_json({"schema": 1, "cases": described})
    return packing.pack(files, folder / "zoo.tar")


class ZooRun:
    """A run of ``verify`` over a small zoo, with its cases by id."""

    def __init__(self, code: int, report: Any) -> None:
        self.code = code
        self.report = report
        self.cases: dict[str, Any] = {case["id"]: case for case in report["bundles"][0]["cases"]}

    def list_outcomes(self) -> dict[str, tuple[str | None, str]]:
        return {name: (case["outcome"], case["verdict"]) for name, case in self.cases.items()}

    def list_findings(self, case: str) -> list[tuple[str, str]]:
        return [(finding["level"], finding["code"]) for finding in self.cases[case]["findings"]]


def run_port(
    folder: Path,
    tar: Path,
    port: str | list[str],
    *,
    options: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    known: Mapping[str, str] | None = None,
    dumps: Path | None = None,
    timeout: float | None = None,
    globs: tuple[str, ...] = (),
    repeat: int = 1,
    jobs: int | None = None,
    deadline: float | None = None,
    claims: tuple[str, ...] = (),
    all_cases: bool = False,
    suite: str = "tensors",
) -> ZooRun:
    """Verify ``port``, the body of a Python script or a command line, over ``tar``."""
    script = folder / "port.py"
    args = port
    if isinstance(port, str):
        script.write_text(HEAD + port, encoding="utf-8")
        placeholders = ["{case}", "{fixture_dir}", "{checkpoint}", "{output_dir}"]
        args = [sys.executable, "-I", "-S", str(script), *placeholders]
    entry = {
        "source": tar.name,
        "suite": suite,
        "dump": {
            "command": list(args),
            **({"timeout": timeout} if timeout else {}),
            "env": dict(env or {}),
        },
        "options": dict(options or {}),
        "known-failures": dict(known or {}),
        "locked": {"sha256": f"sha256:{_compute_digest(tar)}"},
        **({"cases": list(claims)} if claims else {}),
    }
    lock = folder / "fixtures.lock.yaml"
    lock.write_text(json.dumps({"schema": 2, "bundles": {"zoo": entry}}), encoding="utf-8")
    found = VerifyOptions(
        repo=folder,
        lockfile=lock,
        cases=globs,
        dumps=dumps,
        report_dir=folder / "report",
        report_formats=("json",),
        repeat=repeat,
        jobs=jobs,
        deadline=deadline,
        all_cases=all_cases,
    )
    code = verify(found, RunConsole())
    return ZooRun(code, json.loads((folder / "report" / "report.json").read_text(encoding="utf-8")))


def _compute_digest(tar: Path) -> str:
    return hashlib.sha256(tar.read_bytes()).hexdigest()
