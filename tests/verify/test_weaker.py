"""Every way in which an entry of the lockfile, or its manifest, may check less is named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from parity.lockfile import parse
from parity.suites import find_suite
from parity.verify.prepare import read_cases
from parity.verify.weaker import list_weaker
from tests.support.tensors import write_files

FLOATS, IDS = np.arange(12, dtype="<f4") + 1, np.arange(12)
DOCUMENT = json.dumps({"losses": [0.5, 0.25], "ids": [3, 17], "n": {"a": 1}}).encode()
TOLERANT = "    tolerance: {atol: 0.5}\n"
ARGMAX_TEXT = 'argmax {"axis": -1, "agreement": %s}'
ARGMAX = "{measures: {argmax: {agreement: %s}}}"


def write_tensors(*rules: str) -> str:
    return f"    tensors: {{{', '.join(rules)}}}\n"


def write_json(rules: str) -> str:
    return f"    json: {{o.json: {rules}}}\n"


#: The keys of case `a` before and now, and what is listed.
MANIFESTS: dict[str, tuple[str, str, list[str]]] = {
    "the same": (TOLERANT, TOLERANT, []),
    "tighter": (TOLERANT, "", []),
    "wider": ("", TOLERANT, ["tolerance of a widened: exact → atol 0.5"]),
    "a glob": (
        TOLERANT, TOLERANT + write_tensors('"w*": {tolerance: {atol: 0.9}}'),
        ["tolerance of a/w* widened: atol 0.5 → atol 0.9"]),
    "an entry that is gone": (
        TOLERANT + write_tensors("w1: exact"), TOLERANT,
        ["tolerance of a widened: exact → atol 0.5"]),
    "a dtype": (
        "", "    dtypes: {F32: {tolerance: {ulp: 4}}}\n",
        ["tolerance of a/F32 widened: exact → ulp 4"]),
    "a measure without settings": (
        "", write_tensors("ids: {measures: {set: {}}}"),
        ["tolerance of a/ids widened: exact → set"]),
    "integers, by name": (
        TOLERANT, TOLERANT + write_tensors("ids: {tolerance: {atol: 0.5}}"),
        ["tolerance of a/ids widened: exact → atol 0.5"]),
    "ignored": (
        "", write_tensors('"w*": {ignore: "slow"}'), ["ignored now: a/w*: slow"]),
    "compared again": (write_tensors('"w*": {ignore: "slow"}'), "", []),
    "optional": ("", write_tensors("w1: {optional: true}"), ["optional now: a/w1"]),
    "blind": ("", write_tensors("w1: {blind: small}"), ["blind now: a/w1: small"]),
    "all blind": ("", "    blind: small\n", ["blind now: a/ids, a/w1, a/w2: small"]),
    "like": (
        write_tensors("w3: {like: w1}"), write_tensors("w3: {like: w2}"),
        ["compared with another tensor alone: a/w3: w2"]),
    "a measure": (
        "", write_tensors(f"w1: {ARGMAX % 0.9}"),
        [f"tolerance of a/w1 widened: exact → {ARGMAX_TEXT % 0.9}"]),
    "another measure": (
        write_tensors(f"w1: {ARGMAX % 0.9}"), write_tensors(f"w1: {ARGMAX % 0.8}"),
        [f"tolerance of a/w1 widened: {ARGMAX_TEXT % 0.9} → {ARGMAX_TEXT % 0.8}"]),
    "exact in place of a measure": (write_tensors(f"w1: {ARGMAX % 0.9}"), "", []),
    "exact in place of branches": ("    any_of: [{atol: 0.5}, {ulp: 4}]\n", "", []),
    "a branch more": (
        "", "    any_of: [exact, {max_abs: 1}]\n",
        ["tolerance of a widened: exact → exact or max_abs 1"]),
    "a measure's member": (
        "", write_tensors("w1: {measures: {partition: {with: [w2]}}}"),
        ['tolerance of a/w1 widened: exact → partition {"with": ["w2"]}',
         "compared by a measure of another tensor alone: a/w2: w1"]),
    "a file less": (
        "    reference: {reference/w1.npy: w1, reference/w2.npy: w2}\n",
        "    reference: {reference/w1.npy: w1}\n", ["not compared any more: a/w2"]),
    "JSON": (
        write_json("exact"), write_json("{losses: {atol: 0.5}}"),
        ["tolerance of a/o.json#/losses widened: exact → atol 0.5"]),
    "JSON, a deeper pointer": (
        write_json("{losses: {atol: 0.5}}"),
        write_json("{losses: {atol: 0.5}, /losses/1: {atol: 1}}"),
        ["tolerance of a/o.json#/losses/1 widened: atol 0.5 → atol 1"]),
    "JSON, ignored": (
        write_json("exact"), write_json('{n: {ignore: "random"}}'),
        ["ignored now: a/o.json#/n: random"]),
    "JSON, a set": (
        write_json("exact"), write_json("{ids: set}"),
        ['tolerance of a/o.json#/ids widened: exact → partition {"with": []}']),
    "JSON, gone": (write_json("exact"), "", ["not compared any more: a/o.json#"]),
    "text, gone": ("    text: [t.txt]\n", "", ["not compared any more: a/t.txt"]),
    "metadata, gone": (
        "    metadata: {step: x}\n", "", ["not compared any more: a/__metadata__ step='x'"]),
    "metadata of the reference, gone": (
        "    metadata: true\n", "    metadata: {step: x}\n",
        ["not compared any more: a/__metadata__"]),
    "metadata, an entry changed and one added": (
        "    metadata: {step: x, run: a}\n", "    metadata: {step: y, run: a, more: b}\n",
        ["not compared any more: a/__metadata__ step='x'"]),
    "metadata, an entry removed": (
        "    metadata: {step: x, run: a}\n", "    metadata: {step: x}\n",
        ["not compared any more: a/__metadata__ run='a'"]),
    "expected to be rejected or not": (
        "", "    expect: either\n", ["expect of a: load → either"]),
    "expected to be rejected": (
        "", "    expect: refuse\n",
        ["not compared any more: a/ids, a/w1, a/w2", "expect of a: load → refuse"]),
    "expected to load": ("    expect: either\n", "", []),
}  # fmt: skip

#: Keys of the entry before and now, and what is listed.
ENTRIES: dict[str, tuple[str, str, list[str]]] = {
    "the same": ("", "", []),
    "bounds": (
        "bounds: {a: {atol: 0.1}}", "",
        ["tolerance of a, a/o.json#/losses widened: atol 0.1 → atol 0.5"]),
    "tighter bounds": ("", "bounds: {a: {atol: 0.1}}", []),
    "rtol added to atol": (
        "bounds: {a: {atol: 0.1}}", "bounds: {a: {atol: 0.1, max_abs: 0.1}}", []),
    "options": ("", "options: {gguf-dims: logical}", ['options: none → {"gguf-dims": "logical"}']),
    "an extra file": (
        "extra-files: {w: {source: a.bin, path: w}}", "extra-files: {w: {source: b.bin, path: w}}",
        ["extra file w: a.bin at w → b.bin at w"]),
    "no extra file": (
        "extra-files: {w: {source: a.bin, path: w}}", "", ["extra file w: a.bin at w → none"]),
    "a known failure": (
        "", 'known-failures: {a/w1: "#1"}', ["known failure a/w1 added: #1"]),
    "a claim": ("", 'cases: ["b"]', ["1 case not claimed any more: a"]),
    "a wider claim": ('cases: ["b"]', "", []),
    "a manifest of another name": ("", "manifest: n.yaml", ["manifest: m.yaml → n.yaml"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cases `a`, with floats, integers, JSON and text, and `b`."""
    files = {f"{name}.npy": FLOATS for name in ("w1", "w2")}
    files = {"ids.npy": IDS, "o.json": DOCUMENT, "t.txt": b"text", **files}
    files = {f"a/reference/{name}": one for name, one in files.items()}
    return write_files(tmp_path_factory.mktemp("tree"), {**files, "b/reference/w.npy": FLOATS})


def list_changes(tree: Path, folder: Path, manifests: list[str], entries: list[str]) -> list[str]:
    suite = find_suite("tensors")
    assert suite is not None
    states = []
    for keys, entry in zip(manifests, entries, strict=True):
        manifest = folder / "m.yaml"
        case = f"  a:\n{keys}" if keys else "  a: {}\n"
        manifest.write_text(f"schema: 2\ncases:\n{case}  b: {{}}\n", encoding="utf-8")
        more = entry if "manifest" in entry else f"manifest: m.yaml, {entry}".removesuffix(", ")
        text = f"{{source: b.tar, suite: tensors, dump: {{command: [x]}}, {more}}}"
        (bundle,) = parse(folder / "x", f"schema: 2\nbundles:\n  b: {text}\n".encode()).bundles
        settings = {**bundle.options, "manifest": manifest}
        states += [bundle, read_cases(bundle, suite, tree, settings)]
    return list_weaker(*states)


@pytest.mark.parametrize(("before", "now", "expected"), MANIFESTS.values(), ids=MANIFESTS)
def test_a_change_of_a_manifest(
    before: str, now: str, expected: list[str], tree: Path, tmp_path: Path
) -> None:
    assert list_changes(tree, tmp_path, [before, now], ["", ""]) == expected


@pytest.mark.parametrize(("before", "now", "expected"), ENTRIES.values(), ids=ENTRIES)
def test_a_change_of_an_entry(
    before: str, now: str, expected: list[str], tree: Path, tmp_path: Path
) -> None:
    same = TOLERANT + write_json("{losses: {atol: 0.5}}")
    assert list_changes(tree, tmp_path, [same, same], [before, now]) == expected


#: Tolerances of a case in the lockfile before and now, and whether the change is listed.
BOUNDS: dict[str, tuple[str, str, bool]] = {
    "tighter": ("atol: 0.5, rtol: 0.1", "atol: 0.5", False),
    "rtol added to atol": ("atol: 0.5", "atol: 0.5, rtol: 0.1", True),
    "atol added to rtol": ("rtol: 0.1", "atol: 0.5, rtol: 0.1", True),
    "close in place of the two": ("atol: 0.5, rtol: 0.1", "close: true", True),
    "the two in place of close": ("close: true", "atol: 0.5, rtol: 0.1", True),
    "cosine alone is lost": ("max_abs: 0.5, cosine: 0.9", "max_abs: 0.5", True),
}


@pytest.mark.parametrize(("before", "now", "is_listed"), BOUNDS.values(), ids=BOUNDS)
def test_a_tolerance_that_is_wider_or_of_another_kind_is_listed(
    before: str, now: str, *, is_listed: bool, tree: Path, tmp_path: Path
) -> None:
    bounds = [f"bounds: {{a: {{{one}}}}}" for one in (before, now)]
    same = "    tolerance: {max_abs: 1}\n"
    found = list_changes(tree, tmp_path, [same, same], bounds)
    assert [line.startswith("tolerance of a widened: ") for line in found] == [True] * is_listed
