"""A suite of the registry alone: a port reads a list of numbers, and dumps their sum."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from parity.bundle.tolerances import Tolerances
from parity.lab.audits.compare_reference import Provenance, make_error, make_result
from parity.lab.faults import Fault, InjectionResult
from parity.lab.pins.packing import pack
from parity.lab.views.base import TensorView, view_tensor
from parity.results import CaseResult
from parity.suites.base import Case, Dump, DumpComparison, Suite
from parity.suites.messages import report_error
from parity.suites.tensor_reference import read_references
from parity.tensors.bin import encode_tensor, read_tensor
from parity.tensors.folder import list_tensors

NUMBERS = {"few": [1, 2, 3], "many": [*range(100)]}


def read_cases(tree: Path, _options: Mapping[str, Any]) -> tuple[Case, ...]:
    return tuple(
        Case(
            id=path.parent.name,
            folder=path.parent,
            placeholders={"checkpoint": str(path)},
            tolerances={"exact": 1.0},
        )
        for path in sorted(tree.glob("*/numbers.json"))
    )


def verify(case: Case, dump: Dump, _tolerances: Tolerances) -> DumpComparison:
    expected, obtained = (
        read_tensor(folder / "sum.bin") for folder in (find_reference(case), dump.folder)
    )
    found = ()
    if expected != obtained:
        found = (report_error("values", f"the sum is {obtained:g}", tensor="sum"),)
    return DumpComparison(findings=found, compared=1, tensors=("sum",))


def find_reference(case: Case) -> Path:
    return case.folder / "reference"


def view(case: Case, dump: Dump, tensor: str) -> TensorView:
    dumped = list_tensors(dump.folder)
    return view_tensor(case, dumped, tensor, read_references(find_reference(case)))


def pin(target_dir: Path) -> Path:
    files = {}
    for name, numbers in NUMBERS.items():
        files[f"{name}/numbers.json"] = json.dumps(numbers).encode()
        files[f"{name}/reference/sum.bin"] = encode_tensor(np.float32(sum(numbers)))
    return pack(files, target_dir / "toy-v1.tar")


def audit(tree: Path, bundle: str, _provenance: Provenance) -> tuple[CaseResult, ...]:
    results = []
    for case in read_cases(tree, {}):
        total = sum(json.loads((case.folder / "numbers.json").read_text()))
        is_right = read_tensor(find_reference(case) / "sum.bin") == total
        found = [] if is_right else [make_error("audit-values", f"the sum is {total}")]
        results.append(make_result(bundle, case.id, found, 1))
    return tuple(results)


def write_right_dump(case: Case, folder: Path) -> list[Fault]:
    shutil.copyfile(find_reference(case) / "sum.bin", folder / "sum.bin")
    return [Fault(name="all-zero", text="nothing is added", codes=("values",), inject=_clear)]


def _clear(folder: Path) -> InjectionResult:
    (folder / "sum.bin").write_bytes(encode_tensor(np.float32(0)))
    return InjectionResult(changed=("sum",))


SUITE = Suite(
    name="toy",
    args=("{checkpoint}", "{output_dir}"),
    cases=read_cases,
    verify=verify,
    list_files=lambda case: [find_reference(case) / "sum.bin", case.folder / "numbers.json"],
    reference_path=find_reference,
    pin=f"{__name__}:pin",
    audit=f"{__name__}:audit",
    audit_libraries=(),
    right_dump=f"{__name__}:write_right_dump",
    view=f"{__name__}:view",
)
