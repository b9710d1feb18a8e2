"""Tables of the documentation, generated from the code; ``nox -s docs`` writes them with cog.

A page names its table between ``[[[cog`` and ``[[[end]]]`` in HTML comments.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from parity.checkpoints import blocks
from parity.cli import usage
from parity.cli.parser import build_parser
from parity.codes import list_codes, read_sections
from parity.diagnose.stages.find import read_ways
from parity.tensors.dtypes import DTYPES
from parity.tensors.groups import MEASURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ROOT = Path(__file__).parents[1]


def format_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown, between two empty lines."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines) + "\n"


def format_findings() -> str:
    """Return one table of finding codes for each section."""
    return (
        "".join(
            f"\n## {title}\n"
            + format_table(
                ["code", "meaning", "advice"],
                [(f"`{code}`", entry.meaning, entry.advice) for code, entry in section.items()],
            ).rstrip("\n")
            + "\n"
            for title, section in read_sections().items()
        )
        + "\n"
    )


def format_measures() -> str:
    """Return the table of measures of whole tensors, and one of their settings."""
    rows = []
    settings = []
    for name, measure in MEASURES.items():
        shapes = "may differ" if measure.shapes_differ else "the same"
        memory = measure.memory or "both sides"
        rows.append((f"`{name}`", measure.text, ", ".join(measure.kinds), shapes, memory))
        for key, one in measure.settings.items():
            default = "none" if one.optional else "required"
            default = default if one.default is None else f"`{one.default}`"
            settings.append((f"`{name}`", f"`{key}`", one.text, default))
    heads = ["measure", "compares", "dtypes", "shapes", "reads at a time"]
    keys = ["measure", "setting", "meaning", "default"]
    return format_table(heads, rows) + format_table(keys, settings)


def format_mistakes() -> str:
    """Return the table of known mistakes in decoding quantised blocks."""
    rows = [
        (kind, f"`{mistake.name}`", mistake.text)
        for kind in blocks.DECODERS
        if kind not in DTYPES
        for mistake in blocks.list_mistakes(kind)
    ]
    return format_table(["type", "code", "message"], rows)


def format_causes() -> str:
    """Return the table of causes."""
    rows = [(f"`{code}`", *entry) for code, entry in list_codes("causes").items()]
    return format_table(["code", "meaning", "where to look in the port"], rows)


def format_inputs() -> str:
    """Return the table of the action's inputs."""
    rows = [
        (
            f"`{name}`",
            entry["description"],
            f"`{entry['default']}`" if entry["default"] else "empty",
        )
        for name, entry in _read_action()["inputs"].items()
    ]
    return format_table(["name", "meaning", "default"], rows)


def format_outputs() -> str:
    """Return the table of the action's outputs."""
    outputs = _read_action()["outputs"].items()
    return format_table(
        ["name", "meaning"], [(f"`{name}`", entry["description"]) for name, entry in outputs]
    )


def format_verbs() -> str:
    """Return a section for each verb with its arguments."""
    verbs = _find_subparsers(build_parser())
    sections = []
    for name, verb in usage.VERBS.items():
        table = format_table(["argument", "meaning"], _list_arguments(verbs[name]))
        summary = verb.summary[0].upper() + verb.summary[1:]
        sections.append(f"\n## `parity {name}`\n\n{summary}.\n{table}")
    return "".join(sections)


def _find_subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = [each.choices for each in vars(parser)["_actions"] if each.nargs == argparse.PARSER]
    return found[0] if found else {}


def _list_arguments(parser: argparse.ArgumentParser, prefix: str = "") -> Iterator[list[str]]:
    for name, part in _find_subparsers(parser).items():
        yield [f"`{prefix}{name}`", str(part.description or "")]
        yield from _list_arguments(part, f"{prefix}{name} ")
    for each in vars(parser)["_actions"]:
        if each.nargs == argparse.PARSER:
            continue
        if each.dest != "help" and each.help is not argparse.SUPPRESS:
            value = "" if each.nargs == 0 else f" {each.metavar or _format_choices(each)}"
            names = ", ".join(each.option_strings) + value if each.option_strings else value.strip()
            meaning = (each.help or "").replace("|", r"\|") % {"default": each.default}
            yield [f"`{prefix}{names}`".replace("|", r"\|"), meaning]


def _format_choices(each: argparse.Action) -> str:
    return "{" + ",".join(map(str, each.choices)) + "}" if each.choices else each.dest.upper()


def format_keys(part: str = "") -> str:
    """Return the table of the lockfile's keys at the top, or in a definition of its schema."""
    text = (ROOT / "parity" / "schemas" / "fixtures.lock.schema.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    node = schema["$defs"][part] if part else schema
    rows = []
    for key, value in node["properties"].items():
        entry = {**schema["$defs"].get(value.get("$ref", "").rpartition("/")[2], {}), **value}
        default = json.dumps(entry["default"]).strip('"') if "default" in entry else ""
        required = "required" if key in node.get("required", ()) else f"`{default}`"
        meaning = re.sub(r"(\{\w*\}|\*(?= ))", r"`\1`", entry["description"]).replace(
            "{{ and }}", "`{{` and `}}`"
        )
        rows.append(
            (
                f"`{key}`",
                _name_type(entry),
                required if default or required == "required" else "none",
                meaning,
            )
        )
    return format_table(["key", "type", "default", "meaning"], rows)


def _name_type(entry: dict[str, Any]) -> str:
    if "const" in entry:
        return f"`{json.dumps(entry['const'])}`"
    if "enum" in entry:
        return ", ".join(f"`{word}`" for word in entry["enum"])
    names = {"string": "text", "array": "list", "object": "mapping", "integer": "number"}
    return names.get(entry.get("type", ""), "number")


def format_exit_codes() -> str:
    """Return the table of exit codes."""
    lines = usage.EXIT_CODE_HELP.splitlines()[1:]
    return format_table(["code", "meaning"], [line.strip().split(maxsplit=1) for line in lines])


def _read_action() -> Any:
    return yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


def format_ways() -> str:
    """Return the table of wrong ways to compute each operator."""
    rows = [
        (operator.replace("*", "all"), "; ".join(f"{way.text} (`{way.code}`)" for way in ways))
        for operator, ways in sorted(read_ways().items())
    ]
    return format_table(("operator", "wrong ways"), rows)
