"""The source of an example is copied with the packages that it needs, and no others."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from parity.lockfile import Dump
from parity.port.cargo import sources
from parity.port.cargo.sources import copy_sources, find_subject
from parity.suites import find_suite
from parity.suites.base import Case
from parity.verify.standalone import StandaloneProgram

FILES = {
    "Cargo.toml": """[workspace]
members = [
    "a", "b",
    "other",
]
default-members = ["other"]

[workspace.dependencies]
b = {path = "b"}
candle-core = "0.9"
""",
    "Cargo.lock": """
[[package]]
name = "a"
version = "0.1.0"
[[package]]
name = "candle-core"
version = "0.9.1"
source = "registry"
[[package]]
name = "serde"
version = "1.0.0"
source = "registry"
""",
    "a/Cargo.toml": """[package]
name = "a"
[[example]]
name = "named"
[dependencies]
b = {workspace = true}
[dev-dependencies]
core = {workspace = true, package = "candle-core"}
""",
    "a/examples/dump.rs": "fn main() {}",
    "a/examples/named.rs": "fn main() {}",
    "a/examples/other.rs": "fn main() {}",
    "a/examples/helper.rs": "pub fn help() {}",
    "a/target/debug/x": "",
    "b/Cargo.toml": '[package]\nname = "b"\n[target."cfg(unix)".dependencies]\nc = {path = "c"}\n',
    "b/src/lib.rs": "",
    "b/c/Cargo.toml": '[package]\nname = "c"\n',
    "b/c/src/lib.rs": "",
    "other/Cargo.toml": '[package]\nname = "other"\n',
    "other/src/lib.rs": "",
}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "repo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "repo"


def test_a_package_is_copied_with_its_path_dependencies(repo: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert copy_sources(repo, repo / "a", repo, out, "dump") == out / "a"
    found = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert found == {
        *("Cargo.toml", "Cargo.lock", "a/Cargo.toml", "a/examples/dump.rs"),
        *("a/examples/named.rs", "a/examples/helper.rs"),
        *("b/Cargo.toml", "b/src/lib.rs", "b/c/Cargo.toml", "b/c/src/lib.rs"),
    }
    workspace = tomllib.loads((out / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
    assert workspace["members"] == ["a", "b", "b/c"]
    assert "default-members" not in workspace
    assert workspace["dependencies"]["b"] == {"path": "b"}


def test_sources_outside_of_the_workspace_or_too_large_are_not_copied(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert copy_sources(repo, repo / "b", repo / "b", tmp_path / "one", "dump") == tmp_path / "one"
    (repo / "b" / "Cargo.toml").write_text('[dependencies]\nx = {path = "../../x"}\n')
    assert copy_sources(repo, repo / "a", repo, tmp_path / "two", "dump") is None
    monkeypatch.setattr(sources, "_MAX_BYTES", 10)
    assert copy_sources(repo, repo / "other", repo, tmp_path / "three", "dump") is None
    assert not (tmp_path / "three").exists()


def test_a_module_of_another_folder_is_copied_unless_it_is_outside(
    repo: Path, tmp_path: Path
) -> None:
    example = '#[path = "../../shared/dump.rs"]\nmod dump;\nfn main() {}'
    (repo / "a" / "examples" / "dump.rs").write_text(example)
    (repo / "shared").mkdir()
    (repo / "shared" / "dump.rs").write_text("pub fn run() {}")
    assert copy_sources(repo, repo / "a", repo, tmp_path / "one", "dump") == tmp_path / "one" / "a"
    assert (tmp_path / "one" / "shared" / "dump.rs").read_text() == "pub fn run() {}"
    (repo / "a" / "Cargo.toml").write_text("[workspace]\n[package]\nname = 'a'\n")
    copied = copy_sources(repo, repo / "a", repo / "a", tmp_path / "two", "dump")
    assert copied == tmp_path / "two" / "a"
    assert (tmp_path / "two" / "shared" / "dump.rs").is_file()
    assert copy_sources(repo / "a", repo / "a", repo / "a", tmp_path / "three", "dump") is None


@pytest.mark.parametrize(
    ("subject", "found"),
    [(None, ["candle-core 0.9.1"]), ("serde", ["serde 1.0.0"]), ("none", [])],
)
def test_the_crates_under_test_are_named(subject: str | None, found: list[str], repo: Path) -> None:
    assert find_subject(repo / "a", repo, subject) == found


@pytest.mark.parametrize(
    ("library", "found"), [(True, ["a 0.1.0"]), (False, ["candle-core 0.9.1"])]
)
def test_a_package_with_a_library_is_the_port(
    library: bool, found: list[str], repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if library:
        (repo / "a" / "src").mkdir()
        (repo / "a" / "src" / "lib.rs").touch()
    dump = Dump(package="a", example="dump")
    monkeypatch.setattr(StandaloneProgram, "dump", property(lambda _: dump))
    program = StandaloneProgram(None, None, repo, "")  # type: ignore[arg-type]  # not used here
    assert program.find_crates() == found


def test_without_a_lock_of_cargo_no_crate_is_known(repo: Path) -> None:
    (repo / "Cargo.lock").unlink()
    assert find_subject(repo / "a", repo, None) == []


PREPARED = cast("Any", SimpleNamespace(suite=find_suite("dataloader")))


def test_no_arguments_are_not_those_of_the_suite(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Dump(crate="a@0.1.0", example="dump", args=())
    monkeypatch.setattr(StandaloneProgram, "dump", property(lambda _: own))
    program = StandaloneProgram(PREPARED, Case(id="c", folder=tmp_path), repo, "")
    assert program.copy(tmp_path / "out", tmp_path)[-1] == "built/bin/dump"


@pytest.mark.parametrize(
    ("dump", "commands"),
    [
        (
            Dump(package="a", example="dump"),
            [
                (
                    'cargo run --config \'target."cfg(all())".runner = ["env", "HOME=files"]\' '
                    "--manifest-path program/a/Cargo.toml --profile release --example dump -- case"
                )
            ],
        ),
        (
            Dump(crate="a@0.1.0", example="dump"),
            [
                (
                    "cargo install a --version 0.1.0 --locked --root built --profile release "
                    "--example dump"
                ),
                "env HOME=files built/bin/dump case",
            ],
        ),
        (Dump(command=("python", "a/b.py", "{case}")), ["env HOME=files python program/a/b.py c"]),
    ],
)
def test_variables_of_the_run_are_not_those_of_cargo(
    dump: Dump, commands: list[str], repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repo / "a" / "b.py").touch()
    own = replace(dump, args=("{fixture_dir}",), run_env={"HOME": "{files_dir}"})
    monkeypatch.setattr(StandaloneProgram, "dump", property(lambda _: own))
    program = StandaloneProgram(PREPARED, Case(id="c", folder=tmp_path), repo, "")
    assert program.copy(tmp_path / "out", tmp_path) == commands
