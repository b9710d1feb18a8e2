"""Run `parity verify` on a bundle that a manifest beside the lockfile, or in it, describes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from parity.__main__ import run_command_line
from parity.lab.pins.packing import list_files, pack
from tests.support.bench import RunResult
from tests.support.tensors import write_files

if TYPE_CHECKING:
    Files = Mapping[str, NDArray[Any] | bytes]

NAME = "checks.yaml"


class ManifestBench:
    """A folder with one bundle `b`, the manifest beside its lockfile, and dumps."""

    def __init__(self, root: Path, capture: Any, references: Files, dumps: Files) -> None:
        self.root, self.capture = root, capture
        self.references, self.dumps = references, dumps
        self.more, self.command, self.schema, self.own = "", '["x"]', 2, b""

    def verify(self, manifest: str, *args: str, ready: bool = True) -> RunResult:
        """Write all files, then run `parity verify`."""
        root = self.root
        tree = write_files(root / "tree", self.references)
        if self.own:
            (tree / "parity.json").write_bytes(self.own)
        tar = pack(list_files(tree), root / "b.tar")
        digest = hashlib.sha256(tar.read_bytes()).hexdigest()
        write_files(root / "dumps" / "b", self.dumps)
        (root / NAME).write_text(manifest, encoding="utf-8")
        key = f"    manifest: {NAME}\n" if manifest else ""
        (root / "fixtures.lock.yaml").write_text(
            f"schema: {self.schema}\nbundles:\n  b:\n    source: b.tar\n    suite: tensors\n"
            f"{key}    dump: {{command: {self.command}}}\n{self.more}"
            f'    locked: {{sha256: "sha256:{digest}"}}\n',
            encoding="utf-8",
        )
        fixed = ["--repo", str(root), "--report-dir", str(root / "report")]
        dumps = ["--dumps", str(root / "dumps")] if ready else []
        code = run_command_line(["verify", *fixed, *dumps, *args])
        captured = self.capture.readouterr()
        path = root / "report" / "report.json"
        report = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return RunResult(code, captured.out, captured.err, report)

    def check_codes(self, manifest: str, codes: list[str]) -> None:
        """Check the errors of case `c`, and that a run without them ends with 0."""
        ran = self.verify(manifest)
        errors = [one["code"] for one in ran.list_findings("b/c") if one["level"] == "error"]
        assert errors == codes, ran.out
        assert (ran.code == 0) == (not codes)

    def list_problems(self, manifest: str) -> list[tuple[int, int, str]]:
        """Return line, column and message of each error of a run that must end with 2."""
        ran = self.verify(manifest)
        assert ran.code == 2, ran.out + ran.err
        found = [one for one in ran.list_findings("b") if one["level"] == "error"]
        found += [
            one
            for case in ran.verdicts
            for one in ran.list_findings(case)
            if one["level"] == "error"
        ]
        return [(one["where"]["line"], one["where"]["column"], one["message"]) for one in found]
