"""Manifests of schema 2: rules by tensor, their precedence, and every way to contradict one."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parity.tensors.bin import encode_batch, encode_tensor
from tests.support.manifests import ManifestBench
from tests.support.tensors import encode_safetensors, f32, name_dtypes

W = np.arange(12, dtype="<f4").reshape(3, 4) + 1
IDS = np.array([3, 1, 2], "<i8")
REFERENCES = {
    "c/reference/a_mean.npy": W,
    "c/reference/a_entropy.npy": W,
    "c/reference/ids.npy": IDS,
    "c/reference/grads/x.npy": W,
}


def start(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, NDArray[Any] | bytes | None] | None = None,
    references: dict[str, Any] | None = None,
) -> ManifestBench:
    """Return a bench whose dump is the reference, but for ``changes``; None removes a file."""
    right = references or REFERENCES
    dumps = {name.replace("reference/", ""): one for name, one in right.items()}
    dumps |= {f"c/{name}": one for name, one in (changes or {}).items()}
    kept = {name: one for name, one in dumps.items() if one is not None}
    return ManifestBench(tmp_path, capsys, right, kept)


#: Rules of the case, what the dump has, and the verdict with its error codes.
CASES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "right": ("", {}, []),
    "exact by default": ("", {"a_mean.npy": W + 1e-3}, ["values"]),
    "a glob": ('"*_mean": {tolerance: {max_abs: 0.1}}', {"a_mean.npy": W + 1e-2}, []),
    "a glob leaves the others exact": (
        '"*_mean": {tolerance: {max_abs: 0.1}}', {"grads/x.npy": W + 1e-2}, ["values"]),
    "a glob in a folder": ('"grads/*": {tolerance: {max_abs: 0.1}}', {"grads/x.npy": W + 1e-2}, []),
    "a name before a glob": (
        '"*_mean": {tolerance: {max_abs: 0.1}}\n      a_mean: exact',
        {"a_mean.npy": W + 1e-2}, ["values"]),
    "a tolerance replaces the default whole": (
        "a_mean: {tolerance: {max_abs: 0.1}}", {"a_mean.npy": -W}, ["values"]),
    "a glob does not loosen integers": (
        '"*": {tolerance: {max_abs: 5}}', {"ids.npy": IDS + 1}, ["values"]),
    "a name loosens integers": ("ids: {tolerance: {max_abs: 1}}", {"ids.npy": IDS + 1}, []),
    "a name loosens no further": (
        "ids: {tolerance: {max_abs: 1}}", {"ids.npy": IDS + 2}, ["values"]),
    "ignored": ('"*_entropy": {ignore: "not asked"}', {"a_entropy.npy": W + 9}, []),
    "ignored and missing": ('"*_entropy": {ignore: "not asked"}', {"a_entropy.npy": None}, []),
    "ignored and broken": ('"*_entropy": {ignore: "not asked"}', {"a_entropy.npy": b"x"}, []),
    "ignored, of the dump alone": (
        '"*_kl": {ignore: "no reference"}', {"a_kl.npy": W}, []),
    "an extra one": ("", {"a_kl.npy": W}, ["tensor-extra"]),
    "ignored, and nowhere": ('"*_kl": {ignore: "no reference"}', {}, ["names-nothing"]),
    "ignored, and nowhere, but optional": (
        '"*_kl": {ignore: "no reference", optional: true}', {}, []),
    "a name is compared, its glob ignored": (
        '"a_*": {ignore: "not asked"}\n      a_mean: exact', {"a_mean.npy": W + 1}, ["values"]),
    "optional and missing": ("a_mean: {optional: true}", {"a_mean.npy": None}, []),
    "optional and wrong": ("a_mean: {optional: true}", {"a_mean.npy": W + 1}, ["values"]),
    "optional and broken": ("a_mean: {optional: true}", {"a_mean.npy": b"x"}, ["bad-header"]),
    "required and missing": ("grads/x: {optional: true}", {"a_mean.npy": None}, ["tensor-missing"]),
    "optional, and all are missing": (
        '"*": {optional: true}',
        {"a_mean.npy": None, "a_entropy.npy": None, "ids.npy": None, "grads/x.npy": None,
         "notes.txt": b"x"}, ["nothing-compared"]),
    "like another": (
        "traced: {like: a_mean, tolerance: {max_abs: 0.01}}", {"traced.npy": W + 1e-3}, []),
    "like another, and further off": (
        "traced: {like: a_mean, tolerance: {max_abs: 0.01}}", {"traced.npy": W + 1}, ["values"]),
    "like another, and missing": (
        "traced: {like: a_mean, tolerance: {max_abs: 0.01}}", {}, ["tensor-missing"]),
    "like another that is missing": (
        "traced: {like: a_mean, tolerance: {max_abs: 0.01}}\n      a_mean: {optional: true}",
        {"a_mean.npy": None, "traced.npy": W}, ["tensor-missing"]),
    "like another, exact by default": (
        "traced: {like: a_mean}", {"traced.npy": W + 1e-3}, ["values"]),
    "like another of another shape": (
        "traced: {like: a_mean}", {"traced.npy": W.reshape(4, 3)}, ["shape"]),
    "like another of NaN": ("traced: {like: a_mean, tolerance: {max_abs: 1}}",
                            {"traced.npy": W * np.nan}, ["nan"]),
}  # fmt: skip


def write_manifest(rules: str, *, more: str = "") -> str:
    tensors = f"    tensors:\n      {rules}\n" if rules else ""
    return f"schema: 2\ncases:\n  c:\n    why: test\n{more}{tensors}"


@pytest.mark.parametrize(("rules", "changes", "codes"), CASES.values(), ids=CASES)
def test_verdict_of_a_dump_under_rules(
    rules: str,
    changes: dict[str, Any],
    codes: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    start(tmp_path, capsys, changes).check_codes(write_manifest(rules), codes)


#: Wrong entries of `tensors`, with line, column and a part of each message.
WRONG_RULES: dict[str, tuple[str, list[tuple[int, int, str]]]] = {
    "an unknown key": ("a_mean: {tolerence: exact}", [
        (6, 16, "has no key 'tolerence'; known: tolerance")]),
    "a glob without a match": ('"*_men": exact', [
        (6, 7, "case 'c': '*_men' matches no tensor; tensors: a_entropy, a_mean, ids, grads/x")]),
    "a name without a match": ("a_men: {optional: true}", [(6, 7, "'a_men' matches no tensor")]),
    "two globs": ('"a_*": exact\n      "*_mean": {tolerance: {max_abs: 1}}', [
        (7, 7, "'a_*' and '*_mean' set the same key for 'a_mean'")]),
    "two globs, one of which ignores": ('"a_*": exact\n      "*_mean": {ignore: "why"}', [
        (7, 7, "'a_*' and '*_mean' set the same key for 'a_mean'")]),
    "all are ignored": ('"*": {ignore: "why"}', [(6, 7, "every tensor is ignored")]),
    "ignored without a reason": ('a_mean: {ignore: ""}', [
        (6, 16, "ignore of 'a_mean' of tensors of case 'c' must be the reason")]),
    "ignored and compared": ('a_mean: {ignore: "x", tolerance: exact}', [
        (6, 7, "is ignored; remove the other keys")]),
    "like, by a measure that the other one cannot have": (
        "t: {like: a_mean, measures: {argmax: {axis: 9}}}", [
        (6, 7, "argmax of 't' has axis 9, which [3, 4] does not have")]),
    "like, by a measure of a tensor that is not there": (
        "t: {like: ids, measures: {partition: {with: [u]}}}", [
        (6, 7, "a measure of 't' names 'u', which has no reference")]),
    "like without a name": ('t: {like: ""}', [
        (6, 11, "like of 't' of tensors of case 'c' must be a tensor's name")]),
    "like nothing": ("t: {like: mean}", [
        (6, 7, "'t' is to be like 'mean', which has no reference")]),
    "like itself": ("t: {like: t}", [(6, 7, "which has no reference")]),
    "like in a circle": ("t: {like: u}\n      u: {like: t}", [
        (6, 7, "like 'u', which has no reference"),
        (7, 7, "like 't', which has no reference")]),
    "like an ignored one": ('t: {like: a_mean}\n      a_mean: {ignore: "why"}', [
        (6, 7, "like 'a_mean', which is ignored")]),
    "like, of a tensor with a reference": ("ids: {like: a_mean}", [
        (6, 7, "the reference has 'ids' itself")]),
    "like of a glob": ('"*_x": {like: a_mean}', [(6, 7, "needs one tensor's name")]),
    "cosine alone": ("a_mean: {tolerance: {cosine: 0.9}}", [
        (6, 16, "cosine alone passes any scale")]),
    "exact and another": ("a_mean: {tolerance: {exact: true, max_abs: 1}}", [
        (6, 16, "exact excludes the other measures")]),
    "close and atol": ("a_mean: {tolerance: {close: true, atol: 1}}", [
        (6, 16, "close stands for atol and rtol")]),
    "a tolerance below 0": ("a_mean: {tolerance: {max_abs: -1}}", [
        (6, 16, "max_abs is -1, which is not a tolerance")]),
    "an entry that is empty": ("a_mean: {}", [(6, 7, "states nothing")]),
}  # fmt: skip
#: Wrong keys of a case, likewise.
WRONG_KEYS: dict[str, tuple[str, list[tuple[int, int, str]]]] = {
    "a dtype without a match": ("dtypes: {BF16: close}", [(5, 14, "'BF16' matches no tensor")]),
    "an unknown dtype": ("dtypes: {F33: exact}", [
        (5, 14, "'F33' in dtypes of case 'c' is not a dtype")]),
    "metadata that is a number": ("metadata: 1", [
        (5, 5, "metadata of case 'c' must be true or an object, not 1")]),
    "outputs of no stages": ("outputs: [a_mean]", [
        (3, 3, "stages of case 'c' must be a list of 1 to 20,000 stages"),
        (5, 5, "outputs of case 'c' must name the stages that a port must produce")]),
    "the key of schema 1": ("bounds: {max_abs: 1}", [(5, 5, "case 'c' has no key 'bounds'")]),
    "a reference that is not there": ("reference: ref", [
        (5, 5, "'ref', which the bundle does not have")]),
    "a reference of a long name": (f"reference: {'x' * 300}\n    json: {{stdout: exact}}", [
        (5, 5, "which the bundle does not have"), (6, 12, "the reference 'stdout' of case 'c'")]),
    "a folder of a long name": (f"folder: {'x' * 300}\n    reference: {'x' * 300}", [
        (5, 5, "folder of case 'c'"), (6, 5, "reference of case 'c'")]),
    "a folder that is not there": ("folder: d", [
        (5, 5, "folder of case 'c' is 'd', which the bundle does not have")]),
    "a reference outside": ('reference: "../c/reference"', [
        (5, 5, "must be a path below the case's folder")]),
    "names for a tensor twice": ('reference: {"reference/ids.npy": [x, x]}', [
        (5, 17, "names the tensor 'x' twice")]),
    "names for tensors that are not there": ('reference: {"reference/ids.npy": [x, y]}', [
        (5, 17, "case 'c': reference/ids.npy of the reference is one tensor, expected 2")]),
    "a word with a space": ('words: {"a b": c}', [(5, 13, "the name 'a b' in words of case 'c'")]),
}  # fmt: skip
#: Wrong manifests, likewise.
WRONG: dict[str, tuple[str, list[tuple[int, int, str]]]] = {
    **{name: (write_manifest(rules), found) for name, (rules, found) in WRONG_RULES.items()},
    **{
        name: (write_manifest("", more=f"    {key}\n"), found)
        for name, (key, found) in WRONG_KEYS.items()
    },
    "defaults without a match": (
        'schema: 2\ndefaults: {tensors: {"*_kl": exact}}\ncases:\n  c: {}\n', [
        (2, 22, "defaults: '*_kl' matches no tensor")]),
    "ids that share a folder": ("schema: 2\ncases:\n  c: {}\n  C: {folder: c}\n", [
        (4, 3, "case 'C': its dump would be in the folder of case 'c'")]),
    "an id below another": ("schema: 2\ncases:\n  c/d: {folder: c}\n  c: {}\n", [
        (3, 3, "case 'c/d': its dump would be in the folder of case 'c'")]),
    "an id outside": ('schema: 2\ncases:\n  "../c": {folder: c}\n', [(3, 3, "an id is letters")]),
    "schema 1 beside the lockfile": ("schema: 1\ncases:\n  c: {tensors: {}}\n", [
        (3, 7, "case 'c' has no key 'tensors'")]),
    "a key twice": ("schema: 2\ncases:\n  c: {}\n  c: {}\n", [
        (4, 3, "the key 'c' of cases of checks.yaml is in line 3 already")]),
    "an anchor": ("schema: 2\ncases: &x\n  c: {}\n", [(2, 8, "anchors and aliases")]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "problems"), WRONG.values(), ids=WRONG)
def test_a_wrong_manifest_is_exit_2_with_line_and_column(
    text: str,
    problems: list[tuple[int, int, str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = start(tmp_path, capsys).list_problems(text)
    assert [(line, column) for line, column, _ in found] == [one[:2] for one in problems], found
    for (_, _, message), (_, _, part) in zip(found, problems, strict=True):
        assert part in message


def test_a_manifest_beside_a_bundle_that_has_one_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = start(tmp_path, capsys)
    bench.own = b'{"schema": 1, "cases": {"c": {}}}'
    ran = bench.verify("schema: 2\ncases: {c: {}}\n")
    assert (ran.code, ran.list_codes("b")) == (2, ["manifest"])
    assert "the bundle has a parity.json of its own" in ran.out


def test_a_bundle_may_contain_its_manifest_of_schema_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = start(tmp_path, capsys, {"a_mean.npy": W + 1e-3})
    text = b'{"schema": 2,\n "cases": {"c": {"tensors": {"%s": {"tolerance": {"max_abs": 0.1}}}}}}'
    bench.own = text % b"a_mean"
    assert bench.verify("").code == 0
    bench.own = text % b"a_men"
    ran = bench.verify("")
    (found,) = ran.list_findings("b")
    assert (ran.code, found["where"]["line"], found["where"]["column"]) == (2, 2, 30)
    bench.own = b'{"schema": 2, "cases": {"c": {"tensors": {"a_mean": "exact"},\n "tensors": {}}}}'
    (found,) = bench.verify("").list_findings("b")
    assert (found["where"]["line"], found["where"]["column"]) == (2, 2)


def test_a_file_of_several_tensors_has_stated_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = [f32(1, 2), f32(3, 4, 5), f32(6)]
    text = 'schema: 2\ncases:\n  Adam/Default: {reference: {"t.bin": [s0, s1, s5]}}\n'
    folder = "Adam/Default"
    bench = ManifestBench(
        tmp_path, capsys, {f"{folder}/t.bin": encode_batch(steps)},
        {f"{folder}/out.bin": encode_batch(steps)},
    )  # fmt: skip
    ran = bench.verify(text)
    assert (ran.code, ran.verdicts) == (0, {"b/Adam/Default": "pass"})
    per_tensor = ran.report["bundles"][0]["cases"][0]["measures"]["per_tensor"]
    assert {name: one["count"] for name, one in per_tensor.items()} == {"s0": 2, "s1": 3, "s5": 1}
    for dump, codes in {
        encode_batch([steps[0], steps[1], steps[2] + 1]): ["values"],
        b"".join(map(encode_tensor, steps)): [],
        encode_batch(steps[:2]): ["tensor-count"],
        encode_batch(steps) + b"x": ["trailing-bytes"],
        encode_batch([steps[1], steps[0], steps[2]]): ["shape", "shape"],
    }.items():
        bench.dumps = {f"{folder}/out.bin": dump}
        ran = bench.verify(text)
        found = ran.list_findings(f"b/{folder}")
        assert [one["code"] for one in found if one["level"] == "error"] == codes
    assert bench.verify(text, "--case", "b/Adam/*").code == 1
    bench.more = '    known-failures: {"Adam/Default/s*": "swapped"}\n'
    assert bench.verify(text).verdicts == {"b/Adam/Default": "known-failure"}


def test_names_by_folder_are_names_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def encode(value: float) -> bytes:
        return encode_safetensors(name_dtypes({"fc1.weight": W * np.float32(value)}))

    names = [f"epoch_{n}_state" for n in (1, 2)]
    right: dict[str, Any] = {
        f"c/reference/{name}/s.safetensors": encode(n) for n, name in enumerate(names, 1)
    }
    bench = start(tmp_path, capsys, references=right)
    text = write_manifest('"epoch_2_state/*": {tolerance: {max_abs: 9}}')
    assert bench.verify(text).code == 0
    bench.dumps = {f"c/{name}/s.safetensors": encode(1) for name in names}
    assert bench.verify(text).code == 1
    ran = bench.verify(text.replace("max_abs: 9", "max_abs: 99"))
    assert (ran.code, ran.list_codes("b/c")) == (0, ["blind-bound"])


@pytest.mark.process
def test_words_of_a_case_are_placeholders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dump.py").write_text(
        "import pathlib, shutil, sys\n"
        "word, fixture, output = sys.argv[1:]\n"
        "assert word == 'relu-6', word\n"
        "shutil.copytree(pathlib.Path(fixture) / 'reference', output, dirs_exist_ok=True)\n"
    )
    bench = start(tmp_path, capsys)
    words = ["dump.py", "{words.op}-{words.n}", "{fixture_dir}", "{output_dir}"]
    bench.command = json.dumps([sys.executable, *words])
    text = "schema: 2\ndefaults: {words: {op: relu}}\ncases:\n  c: {words: {n: 6}}\n"
    assert bench.verify(text, ready=False).code == 0
    ran = bench.verify(text.replace("n: 6", "m: 6"), ready=False)
    assert ran.code == 2
    assert "case 'c': no argument of a program in 'b' has {words.m}" in ran.out
    assert "checks.yaml:4:15" in ran.out
    ran = bench.verify(text.replace("{n: 6}", "{}"), ready=False)
    assert ran.code == 2
    assert "'{words.n}' in '{words.op}-{words.n}' is not a placeholder of this case" in ran.out


def test_the_lockfile_tightens_every_tensor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = start(tmp_path, capsys, {"a_mean.npy": W + 1e-2})
    rules = '"*_mean": {tolerance: {max_abs: 0.1}}'
    text = write_manifest(rules, more="    tolerance: {max_abs: 0.05}\n")
    assert bench.verify(text).code == 0
    for bounds, code in {
        "{max_abs: 0.05}": 0,
        "{max_abs: 0.001}": 1,
        "{exact: true}": 1,
        "{ulp: 4}": 1,
        "{max_abs: 0.06}": 2,
    }.items():
        bench.more = f"    bounds: {{c: {bounds}}}\n"
        assert bench.verify(text).code == code, bounds
    bench.more = "    bounds: {c: {max_abs: 1e-5}}\n"
    assert bench.verify(write_manifest(rules, more="    tolerance: {max_abs: 1e-5}\n")).code == 1


def test_the_digest_of_the_manifest_is_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "schema: 2\ncases: {c: {}}\n"
    ran = start(tmp_path, capsys).verify(text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert ran.report["bundles"][0]["manifest"] == digest


def test_the_key_manifest_needs_schema_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = start(tmp_path, capsys)
    bench.schema = 1
    ran = bench.verify("schema: 2\ncases: {c: {}}\n")
    assert ran.code == 2
    assert "manifest of bundle 'b' needs schema: 2" in ran.err + ran.out


@pytest.mark.parametrize(
    ("rules", "code"),
    [("tolerance: {max_abs: 5}", 0), ('tensors: {"*": {tolerance: {max_abs: 5}}}', 1)],
)
def test_a_glob_does_not_loosen_integers_where_there_are_no_floats(
    rules: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = start(tmp_path, capsys, {"ids.npy": IDS + 1}, {"c/reference/ids.npy": IDS})
    assert bench.verify(f"schema: 2\ncases:\n  c: {{{rules}}}\n").code == code


@pytest.mark.parametrize(
    ("entry", "codes"),
    [
        ('"*_kl": {ignore: x}', ["names-nothing"]),
        ('"*_kl": {ignore: x, optional: true}', []),
        ('"a_ent*": {ignore: x}', []),
    ],
)
def test_ignored_by_default_and_nowhere(
    entry: str,
    codes: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    manifest = f"schema: 2\ndefaults: {{tensors: {{{entry}}}}}\ncases:\n  c: {{}}\n"
    start(tmp_path, capsys).check_codes(manifest, codes)
