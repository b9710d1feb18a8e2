"""Read the manifest of a generic bundle: its cases, and how their tensors are compared.

It is the bundle's own `parity.json`, or a file beside the lockfile for a bundle without one.
Schema 1 and 2 are read into the same records; ``docs/tensors.md`` documents both. Paths are
relative to the case's folder.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from parity.bundle.checkpoint_parts import list_parts
from parity.bundle.document import Document, Place, read_manifest_file
from parity.bundle.manifest_outputs import add_outputs
from parity.bundle.manifest_reader import COMPARISON, ManifestReader, is_present
from parity.bundle.stages import read_stages
from parity.bundle.tensor_case import Expectation, TensorCase
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
    *("folder", *_DEFAULTS, "metadata", "json", "text", "stages", "outputs"),
)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A manifest that was read; ``sha256`` is over its bytes, of a file beside the lockfile."""

    cases: tuple[TensorCase, ...]
    sha256: str = ""
    is_strict: bool = False

    def make_error(self, problems: list[Problem]) -> ConfigError | ReferenceSuspectError:
        """Return the error of an invalid manifest: of schema 1, the bundle itself is suspect."""
        return ConfigError(*problems) if self.is_strict else ReferenceSuspectError(*problems)


def load(tree: Path, beside: Path | None = None) -> tuple[TensorCase, ...]:
    """Read the cases of the bundle in ``tree``, in the manifest's order.

    Raises:
        ReferenceSuspectError, ConfigError: As ``read_manifest``.
    """
    return read_manifest(tree, beside).cases


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
    reader = _CaseReader(tree, document, "manifest" if is_strict else "reference-malformed")
    manifest = Manifest(
        cases=reader.read_cases(),
        sha256="" if beside is None else hashlib.sha256(beside.read_bytes()).hexdigest(),
        is_strict=is_strict,
    )
    if reader.problems:
        raise manifest.make_error(reader.problems)
    return manifest


class _CaseReader(ManifestReader):
    """Reads the cases of a manifest of either schema."""

    def __init__(self, tree: Path, document: Document, code: str) -> None:
        super().__init__(document, code)
        self.tree = tree

    def read_cases(self) -> tuple[TensorCase, ...]:
        value = self.document.value
        newest = isinstance(value, dict) and value.get("schema") == SCHEMA
        keys = ("schema", "defaults", "cases") if newest else ("schema", "cases")
        top = self.read_object(value, "the file", keys, ())
        self._check_schema(top.get("schema"))
        defaults = self.read_object(top.get("defaults", {}), "defaults", _DEFAULTS, ("defaults",))
        entries = self.read_object(top.get("cases"), "cases", None, ("cases",))
        if not entries and not self.problems:
            path = self.document.path
            self.problems.append(Problem("no-cases", f"{path.name} lists no case", Location(path)))
        shared = self._read_settings(defaults, "defaults", ("defaults",)) if newest else {}
        cases = tuple(
            self._read_case(name, entry, shared, is_new=newest) for name, entry in entries.items()
        )
        self._check_ids([case.id for case in cases if newest])
        return cases

    def _check_schema(self, value: Any) -> None:
        place = ("schema",)
        if type(value) is int and value > SCHEMA:
            message = f"schema {format_value(value)} is newer than {SCHEMA}; upgrade parity-action"
            self.add_problem(message, place)
        elif type(value) is not int or value < 1:
            self.add_problem(f"schema must be 1 or {SCHEMA}, not {format_value(value)}", place)

    def _check_ids(self, ids: Collection[str]) -> None:
        """Reject ids whose dumps would share a folder, on any file system."""
        known = {name.casefold(): name for name in reversed(list(ids))}
        for name in ids:
            own = name.casefold()
            folders = [own, *(own[: at.start()] for at in re.finditer("/", own))]
            if clash := [known[one] for one in folders if known.get(one, name) != name]:
                message = f"case {name!r}: its dump would be in the folder of case {clash[0]!r}"
                self.add_problem(message, ("cases", name))

    def _read_case(
        self, name: str, entry: Any, shared: Mapping[str, Any], *, is_new: bool
    ) -> TensorCase:
        what, place = f"case {format_value(name)}", ("cases", name)
        if not (FREE_ID if is_new else ID).fullmatch(name):
            form = (
                "letters, digits, '.', '_', '+', '=', '-' and '/'"
                if is_new
                else ("lower-case letters, digits, '.', '_' and '-'")
            )
            self.add_problem(f"{what}: an id is {form}", place)
            return TensorCase(id=name, folder=self.tree)
        values = entry if isinstance(entry, dict) else {}
        folder = self.tree / name
        if is_new and "folder" in values:
            here = (*place, "folder")
            folder = self._read_folder(values["folder"], what, here) or folder
        if not folder.is_dir():
            self.add_problem(f"{what} has no folder of that name", place)
        values = self.read_object(entry, what, _KEYS_2 if is_new else _KEYS, place)
        group, why, rule, blind = (self.read_text(values, key, what, place) for key in _TEXTS)
        checkpoint = self._read_file(folder, values, "checkpoint", what, place)
        layout, reference = self._read_reference(folder, values, what, place, is_new=is_new)
        expect = values.get("expect", "load")
        if expect not in get_args(Expectation):
            message = (
                f"expect of {what} is {format_value(expect)}; it must be load, refuse or either"
            )
            self.add_problem(message, (*place, "expect"))
        if checkpoint is not None and expect == "load":
            self._check_complete(checkpoint, what, place)
        if "reference" not in values and expect != "refuse":
            what_default = f"the default reference of {what}"
            reference = self.read_path(folder, "reference", what_default, place)
        case = TensorCase(
            id=name,
            folder=folder,
            group=group,
            why=why,
            rule=rule,
            blind=blind,
            expect=expect,
            has_expectation="expect" in values,
            checkpoint=checkpoint,
            reference=reference,
            layout=layout,
            **self._read_comparison(values, shared, what, place, is_new=is_new),
            inputs=self._read_inputs(folder, values.get("inputs", []), what, place),
            names=self.read_texts(values.get("names", []), f"names of {what}", (*place, "names")),
            **self._read_stages(values, what, place),
        )
        return add_outputs(self, case, values, what, place)

    def _read_folder(self, value: Any, what: str, place: Place) -> Path | None:
        return (
            self.tree
            if value == "."
            else self.read_path(self.tree, value, f"folder of {what}", place)
        )

    def _read_file(
        self, folder: Path, values: Mapping[str, Any], key: str, what: str, place: Place
    ) -> Path | None:
        if key not in values:
            return None
        return self.read_path(folder, values[key], f"{key} of {what}", (*place, key))

    def _read_reference(
        self, folder: Path, values: Mapping[str, Any], what: str, place: Place, *, is_new: bool
    ) -> tuple[dict[str, tuple[str, ...]], Path | None]:
        value = values.get("reference")
        if is_new and isinstance(value, dict):
            here = (*place, "reference")
            return self.read_layout(folder, value, f"reference of {what}", here), folder
        if is_new and value == ".":
            return {}, folder
        return {}, self._read_file(folder, values, "reference", what, place)

    def _check_complete(self, checkpoint: Path, what: str, place: Place) -> None:
        """Check that a checkpoint that a port must load has all its parts."""
        missing = [part.name for part in list_parts(checkpoint) if not is_present(part)]
        if missing and checkpoint.name not in missing:
            message = f"the checkpoint of {what} lacks its part {format_value(missing[0])}"
            self.add_problem(message, (*place, "checkpoint"))

    def _read_inputs(self, folder: Path, value: Any, what: str, place: Place) -> tuple[Path, ...]:
        here = (*place, "inputs")
        if not isinstance(value, list):
            self.add_problem(f"inputs of {what} must be a list, not {format_value(value)}", here)
            return ()
        paths = [
            self.read_path(folder, item, f"an input of {what}", (*here, at))
            for at, item in enumerate(value)
        ]
        return tuple(path for path in paths if path is not None)

    def _read_stages(self, values: Mapping[str, Any], what: str, place: Place) -> dict[str, Any]:
        """Return the stages of a case and those that a port must produce."""
        if "stages" not in values and "outputs" not in values:
            return {}
        stages = read_stages(self, values.get("stages"), what, (*place, "stages"))
        here = (*place, "outputs")
        outputs = self.read_texts(values.get("outputs", []), f"outputs of {what}", here)
        known = {stage.name for stage in stages}
        if not outputs or not known.issuperset(outputs):
            message = f"outputs of {what} must name the stages that a port must produce"
            self.add_problem(message, here)
        return {"stages": stages, "outputs": outputs}

    def _read_comparison(
        self,
        values: Mapping[str, Any],
        shared: Mapping[str, Any],
        what: str,
        place: Place,
        *,
        is_new: bool,
    ) -> dict[str, Any]:
        """Return the fields of a case that say how it is compared."""
        if not is_new:
            here = (*place, "bounds")
            bounds = self.read_tolerance(
                values.get("bounds", {"exact": True}), f"bounds of {what}", MEASURES, here
            )
            check = replace(EXACT[0], bounds=bounds)
            return {"rules": Rules(default=Rule(checks=(check,), place=here))}
        own = self._read_settings(values, what, place)
        rules = Rules(
            default=own["default"] or shared["default"] or Rule(checks=EXACT, place=place),
            tensors={**shared["tensors"], **own["tensors"]},
            dtypes={**shared["dtypes"], **own["dtypes"]},
            shared=frozenset(
                name
                for key in ("tensors", "dtypes")
                for name in shared[key]
                if name not in own[key]
            ),
            sharers=len(self.document.value["cases"]),
            locate=self.document.locate,
        )
        metadata = values.get("metadata")
        if isinstance(metadata, dict):
            metadata = self.read_words(metadata, f"metadata of {what}", (*place, "metadata"))
        elif metadata is not True and metadata is not None:
            message = f"metadata of {what} must be true or an object, not {format_value(metadata)}"
            self.add_problem(message, (*place, "metadata"))
        return {
            "rules": rules,
            "words": {**shared["words"], **own["words"]},
            "metadata": metadata,
        }

    def _read_settings(self, values: Mapping[str, Any], what: str, place: Place) -> dict[str, Any]:
        """Return the keys that `defaults` and a case have in common."""
        checks = self.read_checks(values, what, place)
        return {
            "default": None if checks is None else Rule(checks=checks, place=place),
            "tensors": self.read_rules(
                values.get("tensors", {}), f"tensors of {what}", (*place, "tensors")
            ),
            "dtypes": self.read_dtypes(
                values.get("dtypes", {}), f"dtypes of {what}", (*place, "dtypes")
            ),
            "words": self.read_words(
                values.get("words", {}), f"words of {what}", (*place, "words")
            ),
        }
