"""A run that finds differences in every suite loads neither torch nor the rooms of authors."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: By bundle: its cases, and where their references are.
CASES = {
    "dataloader-batches-v1": {"sequential": "sequential", "shuffled_seeded": "shuffled_seeded"},
    "serialize-parity-v1": {
        "pth": "resnet18-pth/reference_state_dict",
        "gguf": "gguf/reference_dequant",
    },
    "input-pipeline-v1": {"keep": "keep", "sequential": "sequential"},
    "checkpoint-zoo-v1": {
        name: f"{name}/reference"
        for name in ("gguf-y-q4-0", "pth-y-transposed", "safetensors-y-f16")
    },
}
_HEADER = 40  # bytes; a file with fewer may have no number to change
SCRIPT = """
import sys
from parity.__main__ import run_command_line
code = run_command_line(sys.argv[1:])
roots = ("torch", "safetensors", "gguf", "parity.lab")
print(code, [name for name in sys.modules if name.startswith(roots)], file=sys.stderr)
"""


def write_wrong_dumps(folder: Path) -> None:
    """Copy references as dumps, each file with its last number changed."""
    for bundle, cases in CASES.items():
        with tarfile.open(ROOT / "tests" / "bundles" / f"{bundle}.tar") as tar:
            for member in tar.getmembers():
                path = Path(member.name)
                for case, place in cases.items():
                    file = tar.extractfile(member)
                    if path.parent.as_posix() != place or file is None or path.suffix == ".json":
                        continue
                    data = bytearray(file.read())
                    if len(data) > _HEADER:
                        data[-1] ^= 0x55
                    target = folder / bundle / case / path.name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(data)


@pytest.mark.process
def test_failing_run_loads_neither_torch_nor_lab(tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    write_wrong_dumps(dumps)
    cases = [f"{bundle}/{case}" for bundle, names in CASES.items() for case in names]
    args = ["verify", "-v", "--dumps", str(dumps), *(f"--case={case}" for case in cases)]

    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, *args], capture_output=True, text=True, cwd=ROOT, check=False
    )

    for case in cases:
        assert f"FAIL  {case}" in ended.stdout, ended.stdout + ended.stderr
    assert ended.stderr.splitlines()[-1] == "1 []", ended.stderr
