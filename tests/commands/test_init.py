"""``init``: a first lockfile and workflow, read back; nothing is ever overwritten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from parity.cli import parser as cli
from parity.errors import ConfigError
from parity.lockfile import load


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
    assert (bundle.dump.package, bundle.dump.example) == ("port-two", "tensor_dump")
    assert bundle.locked is None
    workflow = yaml.safe_load((repo / ".github/workflows/parity.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["parity"]["steps"]
    assert [step["uses"].split("@")[0] for step in steps] == [
        "actions/checkout",
        "org/parity-action",
    ]
    assert workflow["permissions"] == {}
    out = capsys.readouterr().out
    assert "found 3 examples in 2 packages, 1 fits the bundle by name:" in out
    assert "two/examples/tensor_dump.rs" in out
    assert "built" not in out
    assert "parity bump" in out


def test_a_repo_that_has_nothing_gets_advice_what_to_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["init", "--repo", str(tmp_path)]) == 0
    command = load(tmp_path / "fixtures.lock.yaml").bundles[0].dump.command
    assert command is not None
    assert command[:2] == ("python", "dump.py")
    out = capsys.readouterr().out
    assert "found no cargo package; the entry has a `command:` to fill in" in out
    assert "write a dump program" in out
    assert "or `command` if cargo does not build it" in out
    assert f"`parity verify --repo {tmp_path.as_posix()}`" in out


def test_nothing_is_overwritten(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.run(["init", "--repo", str(repo)])
    files = [repo / "fixtures.lock.yaml", repo / ".github/workflows/parity.yml"]
    for file in files:
        file.write_text(file.read_text() + "# mine\n", encoding="utf-8")
    before = [file.read_bytes() for file in files]
    capsys.readouterr()
    assert cli.run(["init", "--repo", str(repo)]) == 0
    assert [file.read_bytes() for file in files] == before
    assert capsys.readouterr().out.count("exists and is left unchanged") == 2


def test_a_package_whose_examples_are_no_dumps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "Cargo.toml").write_text('[package]\nname = "port"\n', encoding="utf-8")
    (tmp_path / "examples" / "hello.rs").touch()
    assert cli.run(["init", "--repo", str(tmp_path)]) == 0
    found, *_ = capsys.readouterr().out.splitlines()
    assert found == "found 1 example in 1 package, none named like a dump program:"
    dump = load(tmp_path / "fixtures.lock.yaml").bundles[0].dump
    assert (dump.package, dump.example) == ("port", "my_dump")


DUMPS = ["loader_dump", "onnx_dump", "pth_dump", "tensor_dump"]
PACKAGE = '[package]\nname = "io"\n'
#: Files of a repo, the bundle's name; the entry's package, example, `cwd` and features.
REPOS: dict[str, tuple[dict[str, str], str, tuple[object, ...]]] = {
    "a workspace in a folder": ({"rs/Cargo.toml": '[workspace]\nmembers = ["io"]\n',
        "rs/io/Cargo.toml": PACKAGE}, "onnx-v1", ("io", "onnx_dump", "rs", ())),
    "a crate in a folder": ({"io/Cargo.toml": PACKAGE}, "pth", ("io", "pth_dump", "io", ())),
    "the workspace of the root": ({"Cargo.toml": "[workspace]\n", "io/Cargo.toml": PACKAGE},
        "tiny-pth-v1", ("io", "pth_dump", ".", ())),
    "excluded from the workspace": ({"Cargo.toml": '[workspace]\nexclude = ["io"]\n',
        "io/Cargo.toml": PACKAGE}, "pth", ("io", "pth_dump", "io", ())),
    "features": (
        {
            "Cargo.toml": f'{PACKAGE}[[example]]\nname = "pth_dump"\nrequired-features = ["a"]\n',
            "examples/pth_dump.rs": "",
        },
        "pth",
        ("io", "pth_dump", ".", ("a",)),
    ),
    "a folder with an emoji": ({'📦 "it\'s"/io/Cargo.toml': PACKAGE}, "pth",
        ("io", "pth_dump", '📦 "it\'s"/io', ())),
    "manifests that cargo rejects": ({"Cargo.toml": PACKAGE,
        "a/Cargo.toml": '[package]\nname = "a"\n[[example]]\nname = "pth_dump"\npath = 3\n',
        "b/Cargo.toml": 'example = ["x"]\n[package]\nname = "b"\n',
        "c/Cargo.toml": '[workspace]\nexclude = 3\n[package]\nname = "c"\n'}, "pth", ("io",
        "pth_dump", ".", ())),
    "another path": (
        {
            "Cargo.toml": f'{PACKAGE}[[example]]\nname = "zoo_dump"\npath = "tools/zoo.rs"\n',
            "tools/zoo.rs": "",
        },
        "zoo-v1",
        ("io", "zoo_dump", ".", ()),
    ),
    "the bundle's kind": ({"Cargo.toml": PACKAGE}, "dataloader-v1", ("io", "loader_dump", ".", ())),
    "names that YAML reads otherwise": ({"Cargo.toml": '[package]\nname = "on"\n',
        "examples/1_dump.rs": ""}, "1", ("on", "1_dump", ".", ())),
}  # fmt: skip


@pytest.mark.parametrize(("files", "name", "expected"), REPOS.values(), ids=REPOS)
def test_the_example_that_fits_is_found_in_a_real_repo(
    files: dict[str, str], name: str, expected: tuple[object, ...], tmp_path: Path
) -> None:
    folder = next(name for name in files if "io/" in name or name == "Cargo.toml")
    folder = next((name for name in files if "io/Cargo" in name), folder)
    examples = {f"{folder.removesuffix('Cargo.toml')}examples/{one}.rs": "" for one in DUMPS}
    for path, text in {**examples, **files, f"{name}.tar": ""}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    assert cli.run(["init", "--repo", str(tmp_path), f"{name}.tar"]) == 0
    (bundle,) = load(tmp_path / "fixtures.lock.yaml").bundles
    dump = bundle.dump
    assert bundle.id == name
    assert (dump.package, dump.example, dump.cwd, tuple(dump.features)) == expected


def test_examples_that_fit_equally_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "Cargo.toml").write_text(PACKAGE, encoding="utf-8")
    for name in ("b_dump", "a_dump", "other"):
        (tmp_path / "examples" / f"{name}.rs").touch()
    assert cli.run(["init", "--repo", str(tmp_path)]) == 0
    assert "found 3 examples in 1 package, 2 fit the bundle by name:" in capsys.readouterr().out
    text = (tmp_path / "fixtures.lock.yaml").read_text(encoding="utf-8")
    assert "example: a_dump  # or: b_dump\n" in text


NAMES = {
    "https://example.org/a/dataloader-batches-v2.tar": ("dataloader-batches-v2", "dataloader"),
    "hf://org/serialize-parity-v1@main/bundle.tar": ("serialize-parity-v1", "serialize"),
    "https://example.org/x/bundle.tar?raw=1": ("x", "tensors"),
    "../bundles/My Tensors.tar": ("my-tensors", "tensors"),
}


@pytest.mark.parametrize("source", NAMES)
def test_a_bundle_is_named_after_its_address(source: str, repo: Path) -> None:
    name, suite = NAMES[source]
    if "://" not in source:
        (repo / source).parent.mkdir()
        (repo / source).touch()
    assert cli.run(["init", "--repo", str(repo), source]) == 0
    (bundle,) = load(repo / "fixtures.lock.yaml").bundles
    assert (bundle.id, bundle.suite, bundle.source) == (name, suite, source)


def test_a_next_bundle_is_added_at_the_end(repo: Path) -> None:
    cli.run(["init", "--repo", str(repo), "https://example.org/first-v1.tar"])
    before = (repo / "fixtures.lock.yaml").read_text(encoding="utf-8")
    assert cli.run(["init", "--repo", str(repo), "https://example.org/next-v1.tar"]) == 0
    after = (repo / "fixtures.lock.yaml").read_text(encoding="utf-8")
    assert after.startswith(before)
    assert [b.id for b in load(repo / "fixtures.lock.yaml").bundles] == ["first-v1", "next-v1"]
    with pytest.raises(ConfigError, match="already has a bundle 'next-v1'"):
        cli.run(["init", "--repo", str(repo), "https://example.org/next-v1.tar"])
    assert (repo / "fixtures.lock.yaml").read_text(encoding="utf-8") == after


LOCK = f'    locked:\n      sha256: "sha256:{"0" * 64}"\n'
MINE = "      args: [mine]\n"
#: What became of the example that `init` wrote; the ids after a bundle is named.
EXAMPLES = {
    "as it was": (lambda text: text, ["serialize-v1"]),
    "its dump is written": (lambda text: text + MINE, ["serialize-v1"]),
    "another beside it": (
        lambda text: text + text.partition("bundles:\n")[2].replace("my-bundle-v1", "other"),
        ["serialize-v1", "other"],
    ),
    "its suite is chosen": (
        lambda text: text.replace("suite: tensors", "suite: dataloader"),
        ["serialize-v1"],
    ),
    "its address is given": (
        lambda text: text.replace("example.org/", "example.net/"),
        ["my-bundle-v1", "serialize-v1"],
    ),
    "locked": (lambda text: text + LOCK, ["my-bundle-v1", "serialize-v1"]),
}


@pytest.mark.parametrize(("change", "ids"), EXAMPLES.values(), ids=EXAMPLES)
def test_a_bundle_takes_the_place_of_the_example_that_was_written_first(
    change: Callable[[str], str], ids: list[str], repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.run(["init", "--repo", str(repo)])
    path = repo / "fixtures.lock.yaml"
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    before = load(path).bundles[0].dump
    capsys.readouterr()
    url = "https://example.org/serialize-v1.tar"
    assert cli.run(["init", "--repo", str(repo), url]) == 0
    bundles = load(path).bundles
    assert [bundle.id for bundle in bundles] == ids
    named = next(bundle for bundle in bundles if bundle.id == "serialize-v1")
    chosen = "dataloader" in path.read_text(encoding="utf-8").partition("  #")[0]
    assert (named.source, named.suite) == (url, "dataloader" if chosen else "serialize")
    assert bundles[0].dump.args == before.args
    taken = "replaced the example by serialize-v1 in " in capsys.readouterr().out
    assert taken is (ids[0] == "serialize-v1")


def test_a_path_is_written_as_seen_from_the_lockfile(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Typed where the shell completes it, relative or absolute, or as the lockfile has it."""
    tar = repo.parent / "here" / "a b.tar"
    tar.parent.mkdir()
    tar.touch()
    monkeypatch.chdir(tar.parent)
    for typed in ("a b.tar", str(tar), "../here/a b.tar", "../repo/../here/a b.tar"):
        assert cli.run(["init", "--repo", "../repo", typed]) == 0
        lockfile = repo / "fixtures.lock.yaml"
        assert load(lockfile).bundles[0].source == "../here/a b.tar"
        lockfile.unlink()


NO_BUNDLES = {
    "no-such.tar": "no such file: ",
    "two/examples": "that is a folder; pack it as a tar file",
    "": "that is a folder; pack it as a tar file",
    "x" * 5000: "no such file: ",
    "a\nb": "no such file: ",
    "ftp://example.org/x.tar": "only hf://, https:// and relative paths are allowed",
    "hf://org/x/bundle.tar": "the form is hf://[datasets/]owner/repo@ref/path",
    "https://e.org/x: y.tar": "spaces and characters outside of ASCII must be percent-encoded",
    "https://me:pw@e.org/y.tar": "it contains a user name or password",
}


@pytest.mark.parametrize("source", NO_BUNDLES, ids=[f"{name:.30}" for name in NO_BUNDLES])
@pytest.mark.parametrize("first", [True, False])
def test_what_is_no_bundle_is_refused_before_anything_is_written(
    source: str, first: bool, repo: Path
) -> None:
    if not first:
        cli.run(["init", "--repo", str(repo)])
    before = {path: path.read_bytes() for path in repo.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError) as caught:
        cli.run(["init", "--repo", str(repo), source])
    (problem,) = caught.value.problems
    assert NO_BUNDLES[source] in problem.message
    assert (problem.code, "pw" in str(problem)) == ("init", False)
    assert {path: path.read_bytes() for path in repo.rglob("*") if path.is_file()} == before


def test_a_lockfile_that_goes_on_after_its_bundles_is_left_alone(repo: Path) -> None:
    cli.run(["init", "--repo", str(repo), "https://example.org/first-v1.tar"])
    path = repo / "fixtures.lock.yaml"
    path.write_text(path.read_text() + "x-more:\n  a: 1\n", encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(ConfigError):
        cli.run(["init", "--repo", str(repo), "https://example.org/next-v1.tar"])
    assert path.read_bytes() == before


@pytest.mark.parametrize("source", ['https://example.org/"x".tar', "../my #1.tar"])
def test_an_address_cannot_write_more_than_itself(source: str, repo: Path) -> None:
    if "://" not in source:
        (repo / source).touch()
    cli.run(["init", "--repo", str(repo), source])
    reported = yaml.safe_load((repo / "fixtures.lock.yaml").read_text(encoding="utf-8"))
    assert [bundle["source"] for bundle in reported["bundles"].values()] == [source]
