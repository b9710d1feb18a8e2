"""A repo that uses the action, with one folder for each thing that can become of a run."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import subprocess
import tarfile
from pathlib import Path

from parity.lab.pins.tensors import pin

HERE = "org/parity-action"
STUBBED = {
    "actions/setup-python": "setup-python",
    "actions/cache": "cache",
    "actions/upload-artifact": "upload-artifact",
    "actions/download-artifact": "download-artifact",
}
#: What a port and its files may say; none of it may be obeyed.
INJECTED = (
    "::error::pwned by a port",
    "  ::warning file=a,line=1::pwned by an indented line",
    "see ##[error]pwned in the middle",
    "##[add-matcher]/tmp/pwned.json",
    "::set-output name=conclusion::success",
    "::add-path::/pwned",
    "::stop-commands::pwned",
    "\x1b[31m::error::pwned in red",
    "a\r::error::pwned behind a carriage return",
    "::add-mask::e",
)
DUMP = """\
import os, struct, sys
def write(name, values):
    with open(os.path.join(sys.argv[1], name), "wb") as file:
        file.write(struct.pack(f"<2I{len(values)}f", 1, len(values), *values))
"""
#: What a dump does, in Python, after DUMP; the reference of ``w`` is 0, 1, 2, 3.
BODIES = {
    "green": 'write("w.bin", [0, 1, 2, 3])',
    "mismatch": 'write("w.bin", [0, 1, 2.5, 3])',
    "nan": 'write("w.bin", [0, float("nan"), 2, 3])',
    "wrong-hash": 'write("w.bin", [0, 1, 2, 3])',
    "hostile": 'write("w.bin", [0, 1, 2, 3])',
    "injection": (
        'write("w.bin", [0, 1, 2, 3]); write("x\\n::error::pwned by a name.bin", [1])\n'
        f"for line in {INJECTED!r}: print(line); print(line, file=sys.stderr)\n"
        "sys.exit(3)"
    ),
    "names": 'write("w.bin", [0, 1, 2, 3]); write("x\\n::error::pwned by a name.bin", [1])',
}
LIB = """\
pub fn work() {
    let parts: Vec<u32> = Vec::new();
    if parts.is_empty() {
        panic!("no parts, 100% of them");
    }
}
"""
EXAMPLES = {
    "rustc": 'fn main() {\n    let n: u32 = "words";\n}\n',
    "panic": "fn main() {\n    port::work();\n}\n",
}


def build(repo: Path, *, git: bool = True) -> None:
    """Write the whole repo, as a git checkout."""
    for name, body in BODIES.items():
        folder = repo / name
        folder.mkdir(parents=True)
        (folder / "dump.py").write_text(DUMP + body + "\n", encoding="utf-8")
        command = ["python3", "dump.py", "{output_dir}"]
        _bundle(folder, {"command": command}, cases=("case",))
    for name, example in EXAMPLES.items():
        _crate(repo / name, example)
        _bundle(repo / name, {"package": "port", "example": "dump_case"}, cases=("case",))
    _spoil(repo)
    _sharded(repo)
    if git:
        commit(repo)


def commit(repo: Path) -> None:
    """Make ``repo`` a git checkout of all that lies in it."""
    words = ["git", "-C", str(repo), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for verb in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*words, *verb], check=True)


def _bundle(folder: Path, dump: dict[str, object], cases: tuple[str, ...]) -> None:
    tree = folder / "tree" / "things-v1"
    for case in cases:
        reference = tree / case / "reference"
        reference.mkdir(parents=True)
        (reference / "w.bin").write_bytes(struct.pack("<2I4f", 1, 4, 0, 1, 2, 3))
    # A bundle of its own where its bytes will be spoilt, which no cache may make whole.
    why = folder.name if folder.name == "wrong-hash" else "a test"
    reported = {case: {"why": why, "bounds": {"max_abs": 0.001}} for case in cases}
    (tree / "parity.json").write_text(
        json.dumps({"schema": 1, "cases": reported}), encoding="utf-8"
    )
    _lock(folder, pin(folder, folder=tree), dump)


def repin(folder: Path, values: tuple[float, ...]) -> None:
    """Another reference in the bundle of a folder, locked anew."""
    tree = folder / "tree" / "things-v1"
    (tree / "case/reference/w.bin").write_bytes(struct.pack("<2I4f", 1, 4, *values))
    lock = json.loads((folder / "fixtures.lock.yaml").read_text(encoding="utf-8"))
    _lock(folder, pin(folder, folder=tree), lock["bundles"]["things-v1"]["dump"])


def _lock(folder: Path, tar: Path, dump: dict[str, object]) -> None:
    digest = hashlib.sha256(tar.read_bytes()).hexdigest()
    entry = {"source": tar.name, "suite": "tensors", "dump": dump}
    entry["locked"] = {"sha256": f"sha256:{digest}"}
    # One key a line, so that places in the file mean something.
    text = json.dumps({"schema": 1, "bundles": {"things-v1": entry}}, indent=2)
    (folder / "fixtures.lock.yaml").write_text(text + "\n", encoding="utf-8")


def _crate(folder: Path, example: str) -> None:
    manifest = '[package]\nname = "port"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n'
    files = {"Cargo.toml": manifest, "src/lib.rs": LIB, "examples/dump_case.rs": example}
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _spoil(repo: Path) -> None:
    """A bundle that is not the locked one, and one whose archive climbs out of its folder."""
    with (repo / "wrong-hash" / "things-v1.tar").open("r+b") as file:
        file.seek(600)
        file.write(b"?")
    folder = repo / "hostile"
    with tarfile.open(folder / "things-v1.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        member = tarfile.TarInfo("../../pwned")
        member.size = 4
        tar.addfile(member, io.BytesIO(b"pwnd"))
    _lock(folder, folder / "things-v1.tar", {"command": ["python3", "dump.py", "{output_dir}"]})


def _sharded(repo: Path) -> None:
    """Cases of several builds: their own commands, one of which dumps what is wrong."""
    folder = repo / "sharded"
    folder.mkdir()
    body = 'write("w.bin", [0, 1, 2, 3 if sys.argv[2] == "right" else 4])\n'
    (folder / "dump.py").write_text(DUMP + body, encoding="utf-8")
    right = ["python3", "dump.py", "{output_dir}", "right"]
    wrong = ["python3", "dump.py", "{output_dir}", "wrong"]
    dump = {"command": right, "cases": {"b": {"command": wrong}}}
    _bundle(folder, dump, cases=("a", "b", "c"))
