"""Read the outputs of a case that are not tensors: JSON documents and text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from parity.bundle.manifest_reader import is_below
from parity.bundle.tolerances import JSON_TOLERANCES, format_value
from parity.tensors.json_values import make_pointer

if TYPE_CHECKING:
    from parity.bundle.document import Place
    from parity.bundle.manifest_reader import Item
    from parity.bundle.tensor_case import TensorCase


#: Formats of files that a port writes.
FORMATS = ("gguf", "npy", "pth", "safetensors")


class JsonRule(NamedTuple):
    """The comparison of a part of a JSON document; ``bounds`` are None where it is ignored."""

    bounds: dict[str, float] | None
    reason: str = ""
    place: Place = ()
    parts: tuple[str, ...] = ()  # Lists that are compared as parts of one whole, this one first
    is_optional: bool = False  # Only some ports write what is ignored


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
