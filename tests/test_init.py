"""``init``: a first lockfile and workflow, read back; nothing is ever overwritten."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from parity import cli
from parity.errors import ConfigError
from parity.lockfile import load

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A cargo workspace of two packages, one of which has an example that dumps."""
    files = {
        "Cargo.toml": '[workspace]\nmembers = ["one", "two"]\n',
        "one/Cargo.toml": '[package]\nname = "port-one"\n',
        "one/examples/hello.rs": "",
        "two/Cargo.toml": '[package]\nname = "port-two"\n',
        "two/examples/tensor_dump.rs": "",
        "two/examples/folder_parity/main.rs": "",
        "target/x/Cargo.toml": '[package]\nname = "built"\n',
        "target/x/examples/a_dump.rs": "",
        "broken/Cargo.toml": "[package\n",
    }
    for name, text in files.items():
        path = tmp_path / "repo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "repo"


def test_a_first_lockfile_and_workflow_are_written_and_explained(
    repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["init", "--repo", str(repo)]) == 0
    (bundle,) = load(repo / "fixtures.lock.yaml").bundles
    assert (bundle.dump.package, bundle.dump.example) == ("port-two", "folder_parity")
    assert bundle.locked is None
    workflow = yaml.safe_load((repo / ".github/workflows/parity.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["parity"]["steps"]
    assert [step["uses"].split("@")[0] for step in steps] == [
        "actions/checkout",
        "org/parity-action",
    ]
    assert workflow["permissions"] == {}
    out = capsys.readouterr().out
    assert "found 3 examples in 2 packages, 2 of them by name a dump:" in out
    assert "two/examples/tensor_dump.rs" in out
    assert "built" not in out
    assert "parity bump" in out


def test_a_repo_that_has_nothing_is_told_what_to_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["init", "--repo", str(tmp_path)]) == 0
    assert load(tmp_path / "fixtures.lock.yaml").bundles[0].dump.example == "my_dump"
    out = capsys.readouterr().out
    assert "found no example of a cargo package" in out
    assert "write a dump example" in out


def test_nothing_is_overwritten(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.run(["init", "--repo", str(repo)])
    files = [repo / "fixtures.lock.yaml", repo / ".github/workflows/parity.yml"]
    for file in files:
        file.write_text(file.read_text() + "# mine\n", encoding="utf-8")
    before = [file.read_bytes() for file in files]
    capsys.readouterr()
    assert cli.run(["init", "--repo", str(repo)]) == 0
    assert [file.read_bytes() for file in files] == before
    assert capsys.readouterr().out.count("is there and stays as it is") == 2


NAMES = {
    "https://example.org/a/dataloader-batches-v2.tar": ("dataloader-batches-v2", "dataloader"),
    "hf://org/serialize-parity-v1@main/bundle.tar": ("serialize-parity-v1", "serialize"),
    "https://example.org/x/bundle.tar?raw=1": ("x", "tensors"),
    "../bundles/My Tensors.tar": ("my-tensors", "tensors"),
}


@pytest.mark.parametrize("source", NAMES)
def test_a_bundle_is_named_after_its_address(source: str, repo: Path) -> None:
    name, suite = NAMES[source]
    assert cli.run(["init", "--repo", str(repo), source]) == 0
    (bundle,) = load(repo / "fixtures.lock.yaml").bundles
    assert (bundle.id, bundle.suite, bundle.source) == (name, suite, source)


def test_a_next_bundle_is_added_at_the_end(repo: Path) -> None:
    cli.run(["init", "--repo", str(repo)])
    before = (repo / "fixtures.lock.yaml").read_text(encoding="utf-8")
    assert cli.run(["init", "--repo", str(repo), "https://example.org/next-v1.tar"]) == 0
    after = (repo / "fixtures.lock.yaml").read_text(encoding="utf-8")
    assert after.startswith(before)
    assert [b.id for b in load(repo / "fixtures.lock.yaml").bundles] == ["my-bundle-v1", "next-v1"]
    with pytest.raises(ConfigError, match="has a bundle 'next-v1' already"):
        cli.run(["init", "--repo", str(repo), "https://example.org/next-v1.tar"])
    assert (repo / "fixtures.lock.yaml").read_text(encoding="utf-8") == after


def test_a_lockfile_that_goes_on_after_its_bundles_is_left_alone(repo: Path) -> None:
    cli.run(["init", "--repo", str(repo)])
    path = repo / "fixtures.lock.yaml"
    path.write_text(path.read_text() + "x-more:\n  a: 1\n", encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(ConfigError):
        cli.run(["init", "--repo", str(repo), "https://example.org/next-v1.tar"])
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "source", ['https://example.org/"x".tar', "a\nb", "https://e.org/x: y.tar", "../my #1.tar"]
)
def test_an_address_cannot_write_more_than_itself(source: str, repo: Path) -> None:
    cli.run(["init", "--repo", str(repo), source])
    told = yaml.safe_load((repo / "fixtures.lock.yaml").read_text(encoding="utf-8"))
    assert [bundle["source"] for bundle in told["bundles"].values()] == [source]
