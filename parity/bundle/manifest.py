"""Read the manifest of a generic bundle: its cases, and how their tensors are compared.

It is the bundle's own `parity.json`, or a file beside the lockfile for a bundle without one.
Schema 1 and 2 are read into the same records; ``docs/tensors.md`` documents both. Paths are
relative to the case's folder.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

from parity.bundle.case_parts import read_samples, read_stages
from parity.bundle.document import read_manifest_file
from parity.bundle.layout import Expectation, list_parts
from parity.bundle.manifest_reader import COMPARISON, Item, is_present
from parity.bundle.tensor_case import TensorCase, add_outputs
from parity.bundle.tensor_rules import EXACT, Rule, Rules
from parity.bundle.tolerances import MEASURES, format_value
from parity.errors import ConfigError, Location, Problem, ReferenceSuspectError

SCHEMA = 2  # the newest; 1 is read, too
ID = re.compile("[a-z0-9][a-z0-9._-]{0,99}")
#: Ids of schema 2, as others spell them; each part between slashes is a folder of a dump.
_PART = "[A-Za-z0-9_][A-Za-z0-9._+=-]*"
FREE_ID = re.compile(rf"(?=.{{1,200}}\Z){_PART}(/{_PART})*")
_TEXTS = ("group", "why", "rule", "blind")
_PATHS = ("checkpoint", "reference")
_KEYS = (*_TEXTS, *_PATHS, "expect", "bounds", "inputs", "names")
_DEFAULTS = (*COMPARISON, "dtypes", "tensors", "words")
_KEYS_2 = (
    *(key for key in _KEYS if key != "bounds"),
    *("folder", *_DEFAULTS, "metadata", "json", "text", "writes", "stages", "outputs", "samples"),
)


class Manifest(NamedTuple):
    """A manifest that was read, its cases in order, and the error of an invalid one."""

    cases: tuple[TensorCase, ...]
    error: type[ConfigError | ReferenceSuspectError]


def read_manifest(tree: Path, beside: Path | None = None) -> Manifest:
    """Read a bundle's `parity.json`, or the manifest ``beside`` the lockfile.

    Raises:
        ReferenceSuspectError: `parity.json` is missing, is not JSON, or is invalid in schema 1,
            or names missing files; has all problems at once.
        ConfigError: ``manifest``: likewise, of schema 2 or beside the lockfile, or the bundle
            has a manifest of its own besides.
    """
    document = read_manifest_file(tree, beside)
    schema = document.value.get("schema") if isinstance(document.value, dict) else None
    is_strict = beside is not None or schema == SCHEMA
    code = "manifest" if is_strict else "reference-malformed"
    top = Item(document, code, document.value, "the file")
    cases = _CaseReader(tree, is_new=schema == SCHEMA).read_cases(top)
    manifest = Manifest(cases, ConfigError if is_strict else ReferenceSuspectError)
    if top.problems:
        raise manifest.error(*top.problems)
    return manifest


@dataclass
class _CaseReader:
    """Reads the cases of a manifest of either schema; ``shared`` are the settings of all."""

    tree: Path
    is_new: bool
    shared: dict[str, Any] = field(default_factory=dict)
    sharers: int = 1  # cases in the manifest

    def read_cases(self, top: Item) -> tuple[TensorCase, ...]:
        keys = ("schema", "defaults", "cases") if self.is_new else ("schema", "cases")
        top = replace(top, value=top.read_object(keys))
        value = top.value.get("schema")
        if type(value) is int and value > SCHEMA:
            message = f"schema {format_value(value)} is newer than {SCHEMA}; upgrade parity-action"
            top.add_problem(message, "schema")
        elif type(value) is not int or value < 1:
            top.add_problem(f"schema must be 1 or {SCHEMA}, not {format_value(value)}", "schema")
        defaults = top.enter("defaults", {}, "defaults")
        defaults = replace(defaults, value=defaults.read_object(_DEFAULTS))
        cases = top.enter("cases", what="cases")
        entries = cases.read_object()
        self.sharers = len(entries)
        if not entries and not top.problems:
            path = top.document.path
            top.problems.append(Problem("no-cases", f"{path.name} lists no case", Location(path)))
        if self.is_new:
            self.shared = _read_settings(defaults)
        found = [
            self._read_case(name, cases.enter(name, what=f"case {format_value(name)}"))
            for name in entries
        ]
        if self.is_new:
            _check_ids(cases, [case.id for case in found])
        return tuple(found)

    def _read_case(self, name: str, item: Item) -> TensorCase:
        what = item.what
        if not (FREE_ID if self.is_new else ID).fullmatch(name):
            form = "lower-case letters, digits, '.', '_' and '-'"
            form = "letters, digits, '.', '_', '+', '=', '-' and '/'" if self.is_new else form
            item.add_problem(f"{what}: an id is {form}")
            return TensorCase(id=name, folder=self.tree)
        values = item.value if isinstance(item.value, dict) else {}
        folder = self.tree / name
        if self.is_new and "folder" in values:
            own = item.enter("folder")
            folder = self.tree if own.value == "." else own.read_path(self.tree) or folder
        if not folder.is_dir():
            item.add_problem(f"{what} has no folder of that name")
        item = replace(item, value=item.read_object(_KEYS_2 if self.is_new else _KEYS))
        values = item.value
        texts: dict[str, Any] = {key: item.enter(key, "").read_text() for key in _TEXTS}
        checkpoint = None
        if "checkpoint" in values:
            checkpoint = item.enter("checkpoint").read_path(folder)
        layout: dict[str, tuple[str, ...]] = {}
        reference = None
        if "reference" in values:
            layout, reference = self._read_reference(item.enter("reference"), folder)
        expect = values.get("expect", "load")
        if expect not in get_args(Expectation):
            form = "it must be load, refuse or either"
            item.add_problem(f"expect of {what} is {format_value(expect)}; {form}", "expect")
        parts = list_parts(checkpoint) if checkpoint and expect == "load" else ()
        missing = [part.name for part in parts if not is_present(part)]
        if checkpoint and missing and checkpoint.name not in missing:
            message = f"the checkpoint of {what} lacks its part {format_value(missing[0])}"
            item.add_problem(message, "checkpoint")
        if "reference" not in values and expect != "refuse":
            default = replace(item, value="reference", what=f"the default reference of {what}")
            reference = default.read_path(folder)
        comparison = self._read_comparison(item)
        case = TensorCase(
            id=name,
            folder=folder,
            expect=expect,
            has_expectation="expect" in values,
            checkpoint=checkpoint,
            reference=reference,
            layout=layout,
            inputs=_read_inputs(item.enter("inputs", []), folder),
            names=item.enter("names", []).read_texts(),
            samples=read_samples(item.enter("samples", {}), folder),
            **texts,
            **comparison,
            **_read_stages(item),
        )
        return add_outputs(case, item)

    def _read_reference(
        self, item: Item, folder: Path
    ) -> tuple[dict[str, tuple[str, ...]], Path | None]:
        """Return the stated names of the tensors in each file, and the file or the folder."""
        if self.is_new and isinstance(item.value, dict):
            return item.read_layout(folder), folder
        if self.is_new and item.value == ".":
            return {}, folder
        return {}, item.read_path(folder)

    def _read_comparison(self, item: Item) -> dict[str, Any]:
        """Return the fields of a case that say how it is compared."""
        if not self.is_new:
            stated = item.enter("bounds", {"exact": True})
            check = replace(EXACT[0], bounds=stated.read_tolerance(MEASURES))
            return {"rules": Rules(default=Rule(checks=(check,), place=stated.place))}
        own, shared = _read_settings(item), self.shared
        inherited = {
            name for key in ("tensors", "dtypes") for name in shared[key] if name not in own[key]
        }
        rules = Rules(
            default=own["default"] or shared["default"] or Rule(checks=EXACT, place=item.place),
            tensors={**shared["tensors"], **own["tensors"]},
            dtypes={**shared["dtypes"], **own["dtypes"]},
            shared=frozenset(inherited),
            sharers=self.sharers,
            locate=item.document.locate,
        )
        metadata = item.enter("metadata")
        value = metadata.value
        if isinstance(value, dict):
            value = metadata.read_words()
        elif value is not True and value is not None:
            metadata.reject("true or an object")
        words = {**shared["words"], **own["words"]}
        return {"rules": rules, "words": words, "metadata": value}


def _check_ids(cases: Item, ids: Collection[str]) -> None:
    """Reject ids whose dumps would share a folder, on any file system."""
    known = {name.casefold(): name for name in reversed(list(ids))}
    for name in ids:
        own = name.casefold()
        folders = [own, *(own[: at.start()] for at in re.finditer("/", own))]
        if clash := [known[one] for one in folders if known.get(one, name) != name]:
            message = f"case {name!r}: its dump would be in the folder of case {clash[0]!r}"
            cases.add_problem(message, name)


def _read_inputs(item: Item, folder: Path) -> tuple[Path, ...]:
    if not isinstance(item.value, list):
        item.reject("a list")
        return ()
    what = item.what.replace("inputs", "an input", 1)
    paths = (item.enter(at, what=what).read_path(folder) for at in range(len(item.value)))
    return tuple(path for path in paths if path is not None)


def _read_stages(item: Item) -> dict[str, Any]:
    """Return the stages of a case and those that a port must produce."""
    if "stages" not in item.value and "outputs" not in item.value:
        return {}
    stages, stated = read_stages(item.enter("stages")), item.enter("outputs", [])
    outputs = stated.read_texts()
    if not outputs or not {stage.name for stage in stages}.issuperset(outputs):
        stated.add_problem(f"{stated.what} must name the stages that a port must produce")
    return {"stages": stages, "outputs": outputs}


def _read_settings(item: Item) -> dict[str, Any]:
    """Return the keys that `defaults` and a case have in common."""
    checks = item.read_checks()
    return {
        "default": None if checks is None else Rule(checks=checks, place=item.place),
        "tensors": item.enter("tensors", {}).read_rules(),
        "dtypes": item.enter("dtypes", {}).read_dtypes(),
        "words": item.enter("words", {}).read_words(),
    }
