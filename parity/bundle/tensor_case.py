"""One case of a generic bundle, as its manifest states it, and its other outputs than tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from parity.bundle.case_parts import Sample, Stage
from parity.bundle.document import Place
from parity.bundle.layout import Expectation
from parity.bundle.manifest_reader import Item, is_below
from parity.bundle.tensor_rules import EXACT, Check, Rules
from parity.bundle.tolerances import JSON_TOLERANCES, format_value
from parity.tensors.json_values import make_pointer

#: Formats of files that a port writes.
FORMATS = ("gguf", "npy", "pth", "safetensors")


class JsonRule(NamedTuple):
    """The comparison of a part of a JSON document; ``bounds`` are None where it is ignored."""

    bounds: dict[str, float] | None
    reason: str = ""
    place: Place = ()
    parts: tuple[str, ...] = ()  # Lists that are compared as parts of one whole, this one first
    is_optional: bool = False  # Only some ports write what is ignored


@dataclass(frozen=True, kw_only=True)
class TensorCase:
    """One case of a generic bundle."""

    id: str
    folder: Path  # Its folder, with ``checkpoint``, ``reference`` and ``inputs``
    group: str = ""
    why: str = ""
    rule: str = ""
    blind: str = ""  # Reason for tolerances under which zeros or a constant would pass
    expect: Expectation = "load"  # What a port must do: load it, refuse it, or either
    #: The bundle states ``expect``; its result then includes the port's ending
    has_expectation: bool = False
    checkpoint: Path | None = None
    #: A folder or a file of tensors; None only where nothing is to be loaded
    reference: Path | None = None
    #: Names of the tensors in each file of the reference, where the manifest states them
    layout: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules, compare=False)  # How each tensor is compared
    #: Placeholders of the case's own, ``{words.NAME}``
    words: Mapping[str, str] = field(default_factory=dict)
    #: Rules of each JSON document by pointer, ``stdout`` for the last line printed
    documents: Mapping[str, Mapping[str, JsonRule]] = field(default_factory=dict)
    texts: tuple[str, ...] = ()  # Files of text, which must be equal
    #: Entries that `__metadata__` of a dump must have: those of the reference (True), stated ones,
    #: or not asked for (None)
    metadata: bool | Mapping[str, str] | None = None
    #: Files that the port must write, each with its format, or with another one that has its bytes
    writes: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[Path, ...] = ()
    #: Tensors that a port may be asked for by name, where no reference names them
    names: tuple[str, ...] = ()
    #: The steps of a model in the order of execution; a port may leave out any of them that is not
    #: among ``outputs``
    stages: tuple[Stage, ...] = ()
    outputs: tuple[str, ...] = ()
    #: Tensors of which the reference has these elements alone, by name
    samples: Mapping[str, Sample] = field(default_factory=dict)
    is_transposed: bool = False  # The port's dump has the dimensions of its reference in reverse

    def find_document(self, source: str) -> Path:
        """Return the reference of a JSON document or a text."""
        place = self.reference or self.folder
        folder = place if place.is_dir() else self.folder
        return folder / ("stdout.json" if source == "stdout" else source)

    @property
    def tolerances(self) -> Mapping[str, float]:
        """The tolerances of a tensor without a rule of its own."""
        checks: tuple[Check, ...] = self.rules.default.checks or EXACT
        return checks[0].bounds


def add_outputs(case: TensorCase, item: Item) -> TensorCase:
    """Read the JSON and text outputs of a case, whose references must be there."""
    sources = {
        source: replace(stated, what=f"{format_value(source)} of {item.what}")
        for source, stated in item.enter("json", {}).enter_all()
    }
    documents = {source: _read_json_rules(stated) for source, stated in sources.items()}
    listed = item.enter("text", [])
    texts = listed.read_texts()
    for source in (*documents, *texts):
        stated = sources.get(source) or listed.enter(texts.index(source))
        what = f"the reference {format_value(source)} of {item.what}"
        name = "stdout.json" if source == "stdout" else source
        replace(stated, value=name, what=what).read_path(case.find_document("stdout").parent)
    writes = _read_writes(item.enter("writes", {}))
    return replace(case, documents=documents, texts=texts, writes=writes)


def _read_writes(item: Item) -> dict[str, str]:
    """Return the files that a port must write: a format each, or the file that it must equal."""
    found = item.read_object()
    for name, form in found.items():
        known = [*FORMATS, *(one for one in found if found[one] in FORMATS and one != name)]
        stated = f"{format_value(name)} in {item.what}"
        if not is_below(name):
            item.add_problem(f"{stated} must be a path below the dump", name)
        elif form not in known:
            forms = f"one of {', '.join(FORMATS)}, or another file of them, with the same bytes"
            item.add_problem(f"{stated} is {format_value(form)}; it must be {forms}", name)
    return found


def _read_json_rules(document: Item) -> dict[str, JsonRule]:
    """Return the rules of a JSON document by pointer; a single word is for all of it."""
    if document.value == "exact":
        return {"": JsonRule({"exact": 1.0})}
    rules: dict[str, JsonRule] = {}
    for name, item in document.enter_all():
        entry, place, pointer = item.value, item.place, make_pointer(name)
        if pointer in rules:
            item.add_problem(f"{item.what} is stated twice")
        if isinstance(entry, dict) and "ignore" in entry:
            rule = item.read_rule(("ignore", "optional"))
            is_optional = bool(rule.optional)
            rules[pointer] = JsonRule(None, rule.ignore, place, is_optional=is_optional)
        elif entry == "set" or (isinstance(entry, dict) and "partition" in entry):
            known = replace(item, value={"partition": []} if entry == "set" else entry)
            known.read_object(("partition",))
            # The whole key is named where an item of the list is wrong.
            others = replace(known.enter("partition"), place=place).read_texts()
            rules[pointer] = JsonRule({}, "", place, (pointer, *map(make_pointer, others)))
        else:
            stated = replace(item, value={"exact": True} if entry == "exact" else entry)
            rules[pointer] = JsonRule(stated.read_tolerance(JSON_TOLERANCES), "", place)
    return rules
