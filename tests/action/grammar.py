"""What GitHub's runner would do with a log, by the runner's own grammar (ActionCommand.cs).

act reads commands otherwise: it splits at the last ``::`` and overlooks ``##[`` in a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_KNOWN = {
    "error", "warning", "notice", "debug", "group", "endgroup", "add-mask", "add-matcher",
    "remove-matcher", "stop-commands", "set-output", "save-state", "set-env", "add-path", "echo",
}  # fmt: skip
_LEGACY = re.compile(r"##\[([^\]]*)\](.*)")


@dataclass(frozen=True)
class Command:
    """One command that the runner obeys."""

    name: str
    data: str
    properties: dict[str, str] = field(default_factory=dict)


def commands(lines: Iterable[str]) -> list[Command]:
    """All commands in ``lines`` that are obeyed."""
    found: list[Command] = []
    stopped: str | None = None
    for line in lines:
        command = _modern(line, stopped) or _legacy(line)
        if command is None:
            continue
        if stopped is not None:
            stopped = None if command.name.lower() == stopped.lower() else stopped
        elif command.name.lower() == "stop-commands":
            stopped = command.data
        elif command.name.lower() in _KNOWN:
            found.append(command)
    return found


def _modern(line: str, stopped: str | None) -> Command | None:
    text = line.lstrip()
    if not text.startswith("::") or "::" not in text[2:]:
        return None
    head, _, data = text[2:].partition("::")
    name, _, rest = head.partition(" ")
    if name.lower() not in _KNOWN and name.lower() != (stopped or "").lower():
        return None
    pairs = (part.partition("=") for part in rest.split(","))
    properties = {key.strip(): _unescaped(value, "::") for key, sign, value in pairs if sign}
    return Command(name, _unescaped(data), properties)


def _legacy(line: str) -> Command | None:
    found = _LEGACY.search(line)
    if found is None:
        return None
    name, _, rest = found[1].partition(" ")
    pairs = (part.partition("=") for part in rest.split(";"))
    return Command(name, found[2], {key: value for key, sign, value in pairs if sign})


def _unescaped(text: str, more: str = "") -> str:
    pairs = [("%0D", "\r"), ("%0A", "\n")]
    pairs += [("%3A", ":"), ("%2C", ",")] if more else []
    for code, char in [*pairs, ("%25", "%")]:
        text = text.replace(code, char)
    return text
