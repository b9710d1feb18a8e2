"""Finding codes with their meaning and advice, read from ``codes.toml``."""

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
def read_sections() -> dict[str, dict[str, FindingCode]]:
    """Return all codes by section of ``docs/findings.md``, in the order of the file."""
    text = files("parity").joinpath("codes.toml").read_text(encoding="utf-8")
    return {
        title: {code: FindingCode(*texts) for code, texts in section.items()}
        for title, section in tomllib.loads(text).items()
    }


def list_codes() -> dict[str, FindingCode]:
    """Return every finding code with its meaning and advice."""
    return {code: entry for section in read_sections().values() for code, entry in section.items()}
