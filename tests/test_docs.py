"""Links of the documentation lead somewhere, and the tests it names exist."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity.__main__ import run_command_line
from parity.bundle.document import read_yaml
from parity.bundle.manifest import read_manifest
from parity.bundle.manifest_reader import Item
from parity.errors import ConfigError
from parity.lab.pins.packing import list_files, pack
from parity.lockfile import parse
from parity.tensors.groups import MEASURES
from tests.support.manifests import ManifestBench
from tests.support.tensors import write_files

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def list_anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of headings."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_have_targets(page: Path) -> None:
    text = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("https:", "http:")):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in list_anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_tests_and_modules_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`(?:tests/)?((?:\w+/)*test_\w+\.py)", text):
        assert (ROOT / "tests" / name).is_file(), name
    for name in re.findall(r"`(parity/[\w/]+(?:\.\w+)?/?)`", text):
        assert "NAME" in name or (ROOT / name).exists(), name
    for name in set(re.findall(r"`(parity(?:\.\w+)+)`", text)) - {"parity.json", "parity.yml"}:
        place = ROOT / name.replace(".", "/")
        assert place.is_dir() or place.with_suffix(".py").is_file(), name


def test_index_lists_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert {name for name in pages if f"({name})" not in index} == set()


@pytest.mark.parametrize("file", sorted(ROOT.glob("tests/**/*.golden")), ids=lambda file: file.name)
def test_golden_file_has_a_test(file: Path) -> None:
    module = file.parent.with_suffix(".py")

    functions = re.findall(r"def (test_\w+)", module.read_text(encoding="utf-8"))
    assert any(file.name.partition("test_")[2].startswith(one[5:]) for one in functions)


def _list_yaml(page: str) -> list[str]:
    """The page's examples in YAML, and in JSON, which is YAML."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"^```(?:yaml|json)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_examples_of_measures_are_valid_and_complete(tmp_path: Path) -> None:
    blocks = [one for one in _list_yaml("tensors.md") if "\n  measures:" in one or "any_of" in one]
    path = tmp_path / "rules.yaml"
    named: set[str] = set()
    for block in (one for one in blocks if not one.startswith("schema")):
        path.write_text(block, encoding="utf-8")
        document = read_yaml(path, "manifest")
        item = Item(document, "manifest", document.value, "tensors")
        rules = item.read_rules()
        assert item.problems == []
        checks = [check for rule in rules.values() for check in rule.checks or ()]
        named |= {name for check in checks for name in check.measures}
    assert named == set(MEASURES)


_FLAT = np.random.default_rng(0).standard_normal(400).astype("<f4")
_TABLE, _ROWS = _FLAT.reshape(20, 20), _FLAT.reshape(100, 4)
_BOXES = np.arange(40, dtype="<f4").reshape(10, 4) * 10 + np.array([0, 0, 9, 9], "<f4")
_ONES = np.ones((10, 2, 2), "<f4")
#: By tensor: what is expected, what passes under the page's example, and what does not.
_MEASURED: dict[str, tuple[Any, Any, Any]] = {
    "logits": (_ROWS, _ROWS * 2, -_ROWS),
    "last_logits": (_TABLE, np.vstack([-_TABLE[:-1], _TABLE[-1:]]), -_TABLE),
    "hidden": (_FLAT, _FLAT * np.float32(1.0005), _FLAT * np.float32(1.01)),
    "components": (_TABLE, -_TABLE, _TABLE * 2),
    "samples": (_FLAT, _FLAT[::-1].copy(), _FLAT + 1),
    "sampled_ids": (np.arange(9), np.arange(9)[::-1].copy(), np.arange(9) + 1),
    "fold_0": (np.array([0, 1]), np.array([2, 5]), np.array([0, 9])),
    "fold_1": (np.array([2, 3]), np.array([1, 4]), np.array([2, 3])),
    "fold_2": (np.array([4, 5]), np.array([0, 3]), np.array([4, 5])),
    "img_boxes": (_BOXES, _BOXES[:9], _BOXES + 5),
    "img_scores": (_FLAT[:10], _FLAT[:9] + np.float32(0.01), _FLAT[:10]),
    "img_masks": (_ONES, _ONES[:9], _ONES),
    "img_keypoints": (_ONES, _ONES[:9] * 3, _ONES),
    "mask_logits": (_ROWS, _ROWS * 2, -_ROWS),
}


def test_examples_of_measures_decide_as_the_page_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = [one for one in _list_yaml("tensors.md") if "\n  measures:" in one or "any_of" in one]
    rules = "".join(one for one in blocks if not one.startswith("schema")).replace("\n", "\n      ")
    manifest = f"schema: 2\ncases:\n  c:\n    tensors:\n      {rules}\n"
    references = {f"c/reference/{name}.npy": one for name, (one, *_) in _MEASURED.items()}
    sides = [{f"c/{name}.npy": one[at] for name, one in _MEASURED.items()} for at in (0, 1, 2)]
    runs = [ManifestBench(tmp_path, capsys, references, one).verify(manifest) for one in sides]
    assert [ran.code for ran in runs] == [0, 0, 1], runs[1].out
    wrong = {one["tensor"] for one in runs[2].list_findings("b/c") if one["level"] == "error"}
    members = {"fold_1", "fold_2", "img_scores", "img_masks", "img_keypoints"}
    assert wrong == _MEASURED.keys() - members, runs[2].out


def test_manifests_of_the_page_on_tensors_are_valid(tmp_path: Path) -> None:
    found = [
        one for one in _list_yaml("tensors.md") if re.search(r'^ *"?schema"?: 2', one, re.MULTILINE)
    ]
    manifests = [one for one in found if re.search(r'^ *"?cases"?: *[{]?$', one, re.MULTILINE)]
    assert len(manifests) == 3
    for text in manifests:
        path = tmp_path / "m.yaml"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError) as caught:
            read_manifest(tmp_path, path)
        assert {
            "does not have" in one.message or "has no folder" in one.message
            for one in caught.value.problems
        } == {True}
    for text in (one for one in found if one not in manifests):
        assert parse(tmp_path / "fixtures.lock.yaml", text.encode()).bundles


def _list_sides(diff: str) -> tuple[str, str]:
    """The text before and after a diff."""
    lines = [line for line in diff.splitlines(keepends=True) if line]
    before, after = ([line[1:] for line in lines if line[0] in f" {mark}"] for mark in "-+")
    return "".join(before), "".join(after)


def test_upgrade_to_schema_2_works_as_the_page_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs" / "tensors.md").read_text(encoding="utf-8")
    manifest, lockfile = re.findall(r"^```diff\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    files = {"out.npy": np.ones(3, "<f4"), "ids.npy": np.arange(3)}
    tensors = {f"attention/{name}": value for name, value in files.items()}
    write_files(tmp_path / "dumps" / "my-tensors-v1", tensors)
    references = {f"attention/reference/{name}": value for name, value in files.items()}
    tree = write_files(tmp_path / "tree", references)
    for own, lock in product(_list_sides(manifest), _list_sides(lockfile)):
        (tree / "parity.json").write_text(own)
        tar = pack(list_files(tree), tmp_path / "my-tensors-v1.tar")
        digest = hashlib.sha256(tar.read_bytes()).hexdigest()
        locked = f'    locked: {{sha256: "sha256:{digest}"}}\n'
        (tmp_path / "fixtures.lock.yaml").write_text(lock + locked)
        args = ["--repo", str(tmp_path), "--report-dir", str(tmp_path / "report")]
        code = run_command_line(["verify", *args, "--dumps", str(tmp_path / "dumps")])
        assert code == 0, capsys.readouterr()


@pytest.mark.slow
@pytest.mark.process
def test_first_verdict_of_a_python_port_by_the_page_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "tensors.md").read_text(encoding="utf-8")
    section = page.partition("## From arrays that you have")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    save, dump, write = (text for kind, text in blocks if kind == "python")
    (lock,) = (text for kind, text in blocks if kind == "yaml")
    commands = [line for kind, text in blocks if kind == "sh" for line in text.splitlines()]
    exec(save, {"np": np, "torch": torch, "x": np.linspace(-3, 3, 24, dtype="<f4")})  # noqa: S102 - of our own page
    port = "import numpy as np\ndef softplus(x): return np.log1p(np.exp(x))\n"
    (tmp_path / "my_port.py").write_text(port)
    (tmp_path / "dump.py").write_text(dump)
    assert lock.count('".venv/bin/python"') == 1
    python = json.dumps(sys.executable)
    (tmp_path / "fixtures.lock.yaml").write_text(lock.replace('".venv/bin/python"', python))
    assert [line.split()[:2] for line in commands] == [
        ["parity", "pin"], ["parity", "bump"], ["parity", "verify"]
    ]  # fmt: skip
    for line in commands:
        assert run_command_line(line.split()[1:]) == 0, capsys.readouterr()
    assert capsys.readouterr().out.endswith("1 case: 1 pass (exit 0)\n")
    packed = (tmp_path / "bundles" / "ops-v1.tar").read_bytes()
    exec(write, {"torch": torch, "x": torch.ones(3), "w": np.ones(3, "<f4"), "n": np.arange(2)})  # noqa: S102 - of our own page
    assert (tmp_path / "bundles" / "ops-v1.tar").read_bytes() != packed
