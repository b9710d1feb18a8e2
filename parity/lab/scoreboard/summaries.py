"""One cell for all cases of a group: how many are right, and what became of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from parity.lab.scoreboard.board import (
    DEAD,
    NOT_RUN,
    NOT_SHOWN,
    NOT_SUPPORTED,
    Cell,
    Row,
    Scoreboard,
    Tone,
)

#: Words of cells that are not right, the most severe first.
_ORDER = (*DEAD, "wrong", "accepted", "partial", "refused", NOT_SUPPORTED, NOT_SHOWN)
_TONES: tuple[Tone, ...] = ("none", "good", "mild", "bad", "dead")
#: Words of cells that do not show that the port has what the case is about.
_EMPTY = {"refused", NOT_SUPPORTED, NOT_SHOWN}
SUPPORTED, FAULTLESS = "supported groups", "supported groups without a fault"


@dataclass(frozen=True)
class Summary:
    """The results of one port on the cases of a group."""

    text: str  # such as "2 of 12 wrong, 1 not supported"; empty if none was run
    tone: Tone  # that of the worst case
    cases: tuple[tuple[Row, Cell], ...]  # those that were run


@dataclass(frozen=True)
class GroupRow:
    """A group of cases, with a summary for each port."""

    name: str
    cells: tuple[Summary, ...]


def summarize_groups(board: Scoreboard) -> list[GroupRow]:
    """Return a row for each group, in the order of their names."""
    by_name: dict[str, list[Row]] = {}
    for row in board.rows:
        name = next((cell.case.group for cell in row.cells if cell.case is not None), "")
        by_name.setdefault(name, []).append(row)
    ports = range(len(board.ports))
    return [
        GroupRow(name, tuple(_summarize([(row, row.cells[at]) for row in rows]) for at in ports))
        for name, rows in sorted(by_name.items())
    ]


def _summarize(found: Sequence[tuple[Row, Cell]]) -> Summary:
    cases = tuple((row, cell) for row, cell in found if cell.word != NOT_RUN)
    tone: Tone = max((cell.tone for _, cell in cases), key=_TONES.index, default="none")
    counts = Counter(cell.word for _, cell in cases if cell.tone != "good")
    parts = [(word.replace("-", " "), counts[word]) for word in _ORDER if counts[word]]
    texts = [f"{count:,} {word}" for word, count in parts]
    if tone == "good":
        texts = [f"{len(cases) - counts.total():,}", *texts]
    elif tone != "none":
        word, count = parts[0]
        texts[0] = f"{count:,} of {len(cases):,} {word}"
    elif len(parts) == 1:
        texts = [parts[0][0]]
    return Summary(", ".join(texts), tone, cases)


def count_groups(rows: Sequence[GroupRow]) -> list[tuple[str, tuple[int, ...]]]:
    """Count, by port, the groups of which it computes a case, and those of them without a fault."""
    supported, faultless = [], []
    for column in zip(*(row.cells for row in rows), strict=True):
        tones = [one.tone for one in column if not {c.word for _, c in one.cases} <= _EMPTY]
        supported.append(len(tones))
        faultless.append(sum(tone in ("good", "mild") for tone in tones))
    return [(SUPPORTED, tuple(supported)), (FAULTLESS, tuple(faultless))]
