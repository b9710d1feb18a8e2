"""The failure that the README shows is the one that a port with that fault really gets."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from parity.cli import parser as cli
from tests.action.grammar import commands

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.cargo
@pytest.mark.slow
def test_the_annotation_of_the_readme_is_real(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("tests/ports/demo", "tests/bundles"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("target"))
    shutil.copy(ROOT / "fixtures.lock.yaml", tmp_path)
    source = tmp_path / "tests/ports/demo/demo-serialize/src/gguf/blocks.rs"
    right = "codes[index % 16] >> (4 * (index / 16)) & 0x0f"
    text = source.read_text(encoding="utf-8")
    assert right in text
    wrong = "codes[index / 2] >> (4 * (index % 2)) & 0x0f"
    source.write_text(text.replace(right, wrong), encoding="utf-8")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))

    code = cli.run(["verify", "--repo", str(tmp_path), "--case", "serialize-parity-v1/gguf"])

    (error,) = commands(capsys.readouterr().out.splitlines())
    assert code == 1
    example = "tests/ports/demo/demo-serialize/examples/serialize_parity_dump.rs"
    assert error.properties["file"] == example
    quoted = re.findall(r"^Error: (.*?)^```", README, re.DOTALL | re.MULTILINE)[0]
    obtained = " ".join(f"{error.properties['title']} {error.data}".split())
    assert obtained.startswith(" ".join(quoted.split()))
