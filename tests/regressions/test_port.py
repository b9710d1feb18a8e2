"""Faults of public reports that the demo port can be fed: files that came only in part.

`docs/cases.md` says which case each test stands for, and where the reports are.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cargo, pytest.mark.slow]

HERE = Path(__file__).parents[1]
WORKSPACE = HERE / "ports" / "demo"
ZOO = HERE / "bundles" / "checkpoint-zoo-v1.tar"
#: Cases of the zoo that are right, by format; each ends with data.
WHOLE = {
    "pth": ("pth-y-zip", "pth-y-legacy", "pth-y-protocol-4", "pth-y-bfloat16"),
    "safetensors": ("safetensors-y-f32", "safetensors-y-bf16"),
    "gguf": ("gguf-y-f16", "gguf-y-q8-0", "gguf-y-three-tensors"),
}
CASES = [(kind, case) for kind, cases in WHOLE.items() for case in cases]
#: Bytes that are missing at the end; 22 are the record that ends a zip.
MISSING = (1, 2, 4, 8, 21, 22, 23, 64, 100)


@pytest.fixture(scope="session")
def example() -> Path:
    """The built program; debug, so that an overflow panics instead of wrapping."""
    words = ["--offline", "--quiet", "-p", "demo-serialize", "--example", "serialize_parity_dump"]
    subprocess.run(["cargo", "build", *words], cwd=WORKSPACE, check=True)
    target = WORKSPACE / os.environ.get("CARGO_TARGET_DIR", "target")
    suffix = ".exe" if sys.platform == "win32" else ""
    return target / "debug" / "examples" / f"serialize_parity_dump{suffix}"


@pytest.fixture
def dumped(example: Path, tmp_path: Path) -> Callable[[str, bytes], tuple[int, str, list[str]]]:
    """Exit code, words and dumped files of a run over one file."""
    numbers = iter(range(1_000))

    def run(kind: str, content: bytes) -> tuple[int, str, list[str]]:
        place = tmp_path / str(next(numbers))
        (place / "in").mkdir(parents=True)
        (place / "in" / f"x.{kind}").write_bytes(content)
        folders = ["--fixture-dir", str(place / "in"), "--output-dir", str(place / "out")]
        words = [str(example), "--target", kind, *folders]
        done = subprocess.run(words, capture_output=True, timeout=20, check=False)
        out = place / "out"
        left = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
        return done.returncode, done.stderr.decode(), left

    return run


def content(case: str) -> bytes:
    with tarfile.open(ZOO) as tar:
        (name,) = (n for n in tar.getnames() if n.startswith(f"{case}/") and n.count("/") == 1)
        file = tar.extractfile(name)
        assert file is not None
        return file.read()


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_truncated_file_is_rejected(
    kind: str, case: str, dumped: Callable[[str, bytes], tuple[int, str, list[str]]]
) -> None:
    """PTH-02, PTH-16, SFT-07, GGF-16: never zeros, never a part, never a panic.

    Siblings: each format and container, cut by one byte up to a hundred, to a half and to
    nothing.
    """
    whole = content(case)
    code, words, left = dumped(kind, whole)
    assert (code, bool(left)) == (0, True), words
    for kept in {*(len(whole) - by for by in MISSING), len(whole) // 2, 8, 1, 0}:
        code, words, left = dumped(kind, whole[: max(kept, 0)])
        if kind == "gguf" and code == 0:
            assert not any(whole[kept:]), "only the padding of the last tensor may be missing"
            continue
        assert (code, left) == (1, []), (kept, words)
        assert words.startswith("FAILED: ")


@pytest.mark.parametrize("front", [b"\0", b"\xef\xbb\xbf", b"HTTP/1.1 200 OK\r\n\r\n", bytes(64)])
@pytest.mark.parametrize(("kind", "case"), CASES[1:2] + CASES[4:5] + CASES[6:7])
def test_file_with_a_prefix_is_rejected(
    kind: str,
    case: str,
    front: bytes,
    dumped: Callable[[str, bytes], tuple[int, str, list[str]]],
) -> None:
    """FIX-10's kind: a byte order mark, a server's words, or zeros before the content."""
    code, words, left = dumped(kind, front + content(case))
    assert (code, left) == (1, []), words
