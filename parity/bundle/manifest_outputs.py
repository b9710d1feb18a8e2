"""Read the outputs of a case that are not tensors: JSON documents and text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from parity.bundle.tolerances import JSON_TOLERANCES, format_value
from parity.tensors.json_values import make_pointer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parity.bundle.document import Place
    from parity.bundle.manifest_reader import ManifestReader
    from parity.bundle.tensor_case import TensorCase


class JsonRule(NamedTuple):
    """The comparison of a part of a JSON document; ``bounds`` are None where it is ignored."""

    bounds: dict[str, float] | None
    reason: str = ""
    place: Place = ()
    parts: tuple[str, ...] = ()  # Lists that are compared as parts of one whole, this one first
    is_optional: bool = False  # Only some ports write what is ignored


def add_outputs(
    reader: ManifestReader, case: TensorCase, values: Mapping[str, Any], what: str, place: Place
) -> TensorCase:
    """Read the JSON and text outputs of a case, whose references must be there."""
    here = (*place, "json")
    documents = {
        source: _read_json_rules(
            reader, rules, f"{format_value(source)} of {what}", (*here, source)
        )
        for source, rules in reader.read_object(
            values.get("json", {}), f"json of {what}", None, here
        ).items()
    }
    texts = reader.read_texts(values.get("text", []), f"text of {what}", (*place, "text"))
    for source in (*documents, *texts):
        at = (*here, source) if source in documents else (*place, "text", texts.index(source))
        name = "stdout.json" if source == "stdout" else source
        folder = case.find_document("stdout").parent
        reader.read_path(folder, name, f"the reference {format_value(source)} of {what}", at)
    return replace(case, documents=documents, texts=texts)


def _read_json_rules(
    reader: ManifestReader, value: Any, what: str, place: Place
) -> dict[str, JsonRule]:
    """Return the rules of a JSON document by pointer; a single word is for all of it."""
    if value == "exact":
        return {"": JsonRule({"exact": 1.0})}
    rules: dict[str, JsonRule] = {}
    for name, entry in reader.read_object(value, what, None, place).items():
        here, part = (*place, name), f"{format_value(name)} of {what}"
        pointer = make_pointer(name)
        if pointer in rules:
            reader.add_problem(f"{part} is stated twice", here)
        if isinstance(entry, dict) and "ignore" in entry:
            rule = reader.read_rule(entry, part, here, ("ignore", "optional"))
            is_optional = bool(rule.optional)
            rules[pointer] = JsonRule(None, rule.ignore, here, is_optional=is_optional)
            continue
        if entry == "set" or (isinstance(entry, dict) and "partition" in entry):
            known = {"partition": []} if entry == "set" else entry
            others = reader.read_object(known, part, ("partition",), here)["partition"]
            others = reader.read_texts(others, f"partition of {part}", here)
            rules[pointer] = JsonRule({}, "", here, (pointer, *map(make_pointer, others)))
            continue
        exact = {"exact": True} if entry == "exact" else entry
        bounds = reader.read_tolerance(exact, part, JSON_TOLERANCES, here)
        rules[pointer] = JsonRule(bounds, "", here)
    return rules
