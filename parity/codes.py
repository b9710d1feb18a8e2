"""Codes of findings and causes with their meaning and advice: ``codes.toml``, ``causes.toml``."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class FindingCode(NamedTuple):
    """Meaning of a code, and advice for whoever gets it; each one line of Markdown."""

    meaning: str
    advice: str


@cache
def read_sections(name: str = "codes") -> dict[str, dict[str, FindingCode]]:
    """Return all codes of ``codes.toml`` or ``causes.toml`` by section, in the file's order."""
    text = files("parity").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return {
        title: {code: FindingCode(*texts) for code, texts in section.items()}
        for title, section in tomllib.loads(text).items()
    }


def list_codes(name: str = "codes") -> dict[str, FindingCode]:
    """Return every code of a file with its meaning and advice."""
    sections = read_sections(name).values()
    return {code: entry for section in sections for code, entry in section.items()}
