"""Run `parity verify` on tiny bundles, with the lockfile that a test writes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parity.__main__ import run_command_line
from parity.lab.pins.packing import list_files, pack
from tests.support.batches import ORDER, SET, SUBSET, LoaderSpec, Run, write_case, write_run

CASES = {"ordered": ORDER, "mixed": SET, "part": SUBSET}


@dataclass
class Entry:
    """A bundle's entry in the lockfile; tests change it before a run."""

    source: str
    sha256: str
    locked: str = ""
    dump: str = "{package: p, example: e}"
    more: str = ""

    def format_yaml(self, name: str) -> str:
        return (
            f'  {name}:\n    source: "{self.source}"\n    suite: dataloader\n'
            f"    dump: {self.dump}\n{self.more}"
            f'    locked: {{sha256: "sha256:{self.sha256}"{self.locked}}}\n'
        )


@dataclass
class RunResult:
    """The result of a run: exit code, output, `report.json` if there is one."""

    code: int
    out: str
    err: str
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def verdicts(self) -> dict[str, str]:
        return {
            f"{bundle['id']}/{case['id']}": case["verdict"]
            for bundle in self.report["bundles"]
            for case in bundle["cases"]
        }

    def list_codes(self, where: str = "") -> list[str]:
        """List the codes of the findings of the run (""), of a bundle or of a case."""
        return [finding["code"] for finding in self.list_findings(where)]

    def list_findings(self, where: str = "") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [] if where else self.report["findings"]
        for bundle in self.report["bundles"]:
            found = found + (bundle["findings"] if where == bundle["id"] else [])
            for case in bundle["cases"]:
                found = found + (
                    case["findings"] if where == f"{bundle['id']}/{case['id']}" else []
                )
        return found


class Bench:
    """A folder with bundles, right dumps of them, and a lockfile."""

    def __init__(self, root: Path, capture: Any) -> None:
        self.root, self.capture = root, capture
        self.entries: dict[str, Entry] = {}
        self.dumps = root / "dumps"
        self.lockfile = root / "fixtures.lock.yaml"
        self.report = root / "report"

    def add_bundle(
        self, name: str, cases: Mapping[str, LoaderSpec] | None = None, **meta: Any
    ) -> Entry:
        """Pack a bundle of ``cases`` and write right dumps; ``meta`` changes all cases."""
        specs = CASES if cases is None else cases
        for case, spec in specs.items():
            write_case(self.root / "trees" / name / case, spec, **meta)
            self.write_dump(name, case, spec.make_run())
        return self.pack_bundle(name)

    def pack_bundle(self, name: str) -> Entry:
        """Pack the folder ``trees/<name>``."""
        tree = self.root / "trees" / name
        tree.mkdir(parents=True, exist_ok=True)
        tar = pack(list_files(tree), self.root / f"{name}.tar")
        entry = Entry(tar.name, hashlib.sha256(tar.read_bytes()).hexdigest())
        self.entries[name] = entry
        return entry

    def write_dump(self, name: str, case: str, batches: Run) -> Path:
        return write_run(self.dumps / name / case, batches)

    def write_lockfile(self) -> None:
        entries = "".join(entry.format_yaml(name) for name, entry in self.entries.items())
        self.lockfile.write_text(f"schema: 1\nbundles:\n{entries}", encoding="utf-8")

    def verify(self, *args: str, ready: bool = True) -> RunResult:
        """Run `parity verify`, with the written dumps unless ``ready`` is false."""
        self.write_lockfile()
        fixed = ["--repo", str(self.root), "--report-dir", str(self.report)]
        dumps = ["--dumps", str(self.dumps)] if ready else []
        code = run_command_line(["verify", *fixed, *dumps, *args])
        captured = self.capture.readouterr()
        path = self.report / "report.json"
        report = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return RunResult(code, captured.out, captured.err, report)
