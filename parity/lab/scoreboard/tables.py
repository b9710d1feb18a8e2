"""The scoreboard as a section of a page; changes of a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from parity.lab.scoreboard.board import NOT_RUN, Cell, Group, Row, Scoreboard
from parity.lab.scoreboard.summaries import Summary, count_groups, summarize_groups
from parity.reports.markdown import escape_markdown
from parity.reports.markdown import format_cell as code
from parity.text import format_count

#: Characters of a dispute's message.
_MAX_DISPUTE = 400
_EMOJI = {"good": "✅", "mild": "🟡", "bad": "❌", "dead": "💥", "none": "▫️"}
#: Cells by heading, row and column, all in Markdown.
Cells = dict[tuple[str, str, str], str]
_RULE = "---"
#: Place of the first port's column, by the heading of the first column.
_FIRST_PORT = {"case": 2, "group": 1}
#: Cells of a row that is not on the page: all ports are right, or not run.
_ABSENT_VALUES = ("✅", "")
#: ``--write`` replaces the lines between BEGIN and END. Those after FACTS depend on the day and the
#: machine, so ``--check`` ignores them.
HEADING = "### "
BEGIN, FACTS, END = (
    f"<!-- scoreboard: {word} -->" for word in ("begin", "facts, which may differ", "end")
)


def format_boards(boards: Sequence[Scoreboard]) -> str:
    """Return the tables of all bundles; of several, each below a heading."""
    if len(boards) == 1:
        return format_markdown(boards[0])
    parts = (f"{HEADING}{code(one.bundle)}\n\n{format_markdown(one)}" for one in boards)
    return "\n".join(parts)


def format_markdown(board: Scoreboard) -> str:
    """Return the totals, and the cases that some port gets wrong."""
    heads = [code(port.name) for port in board.ports]
    groups = summarize_groups(board) if board.by_group else []
    totals = (
        [name, *(f"{number:,}" if number else "" for number in numbers)]
        for name, numbers in [*(count_groups(groups) if groups else ()), *board.count_totals()]
    )
    parts = [_format_table(["", *heads], totals, numbers=True)]
    if groups:
        rows = ([code(row.name), *map(_format_summary, row.cells)] for row in groups)
        parts.append(_format_table(["group", *heads], rows))
    folds = [Group("", board.rows)] if groups else board.groups
    parts += [_fold_group(group, heads, references=board.has_references) for group in folds]
    total, clean = format_count(len(board.rows), "cases"), sum(row.is_clean for row in board.rows)
    text = f"{total} in total; {clean:,} have only ✅. {_LEGEND}{_LEGEND_OF_CASES}"
    if groups:
        count = format_count(len(groups), "groups")
        text = f"{total} in {count}; {clean:,} have only ✅ and ▫️. {_LEGEND}{_LEGEND_OF_GROUPS}"
    parts.append(f"{text}{_REFERENCES if board.has_references else ''}\n")
    return "\n".join(part for part in parts if part)


_LEGEND = (
    "✅ right, or rejected as expected · 🟡 rejected, but must be loaded · ❌ wrong, partial or "
    "accepted · 💥 panicked, crashed, hung or out of memory · ▫️ "
)
_LEGEND_OF_CASES = (
    "not shown: the result says nothing about the port · an empty cell: the port has no reader of "
    "the format."
)
_LEGEND_OF_GROUPS = (
    "not supported: the port does not have it; not shown: the result says nothing about the port · "
    "an empty cell: no case was run. The number is that of the cases."
)
_REFERENCES = (
    " A column (reference) is the format's own reader, run by `parity audit`. If it disagrees with "
    "another reader or with the rule, the case's line says how."
)


def _fold_group(group: Group, heads: Sequence[str], *, references: bool) -> str:
    rows = [row for row in group.rows if not row.is_clean]
    if not rows:
        return ""
    count = f"{len(rows):,} of {format_count(len(group.rows), 'cases')}"
    what = " not right in some column, or disputed" if references else " not right in some column"
    summary = f"<b>{code(group.title) or 'cases'}</b>: {count}{what}"
    table = _format_table(["case", "description", *heads], map(_format_row, rows))
    return f"<details><summary>{summary}</summary>\n\n{table}\n</details>\n"


def _format_row(row: Row) -> list[str]:
    why = code(row.why)
    if row.dispute:
        # Outside a code span an underscore may begin emphasis.
        why += "<br>" + escape_markdown(row.dispute, _MAX_DISPUTE).replace("_", "&#95;")
    return [code(row.case), why, *map(_format_cell, row.cells)]


def _format_cell(cell: Cell) -> str:
    if cell.word == NOT_RUN:
        return ""
    sign = _EMOJI[cell.tone]
    return sign if cell.tone == "good" else f"{sign} {code(cell.word)}"


def _format_summary(cell: Summary) -> str:
    return f"{_EMOJI[cell.tone]} {cell.text}" if cell.text else ""


def _format_table(heads: Sequence[str], rows: Iterator[list[str]], *, numbers: bool = False) -> str:
    rule = ["---", *("--:" if numbers else "---" for _ in heads[1:])]
    table_lines = [heads, rule, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in table_lines) + "\n"


def format_facts(board: Scoreboard, date: str) -> str:
    """Return the date, versions and machines: everything that depends on the day."""
    rows = (
        [code(p.name), code(_describe_port(p.facts)), code(_describe_machine(p.facts))]
        for p in board.ports
    )
    table = _format_table(["port", "version", "machine"], rows)
    head = f"Measured on {date}, {code(board.bundle)} of {code('sha256:' + board.sha256)}.\n\n"
    return f"{head}{table}"


_MACHINE_KEYS = ("system", "machine", "processors", "python", "numpy")


def _describe_port(facts: Sequence[tuple[str, str]]) -> str:
    return ", ".join(
        f"{key} {value}"
        for key, value in facts
        if key in ("crate", "package", "reader", "version", "command", "call")
    )


def _describe_machine(facts: Sequence[tuple[str, str]]) -> str:
    """Return the facts of the machine, each without its details, such as the kernel's build."""
    kept = {key: value for key, value in facts if key in _MACHINE_KEYS and value}
    return ", ".join(f"{key} {value.split()[0]}" for key, value in kept.items())


def format_section(boards: Sequence[Scoreboard], date: str) -> str:
    """Return the section of a page, with its markers."""
    facts = "\n".join(format_facts(board, date) for board in boards).rstrip("\n")
    return "\n".join([BEGIN, "", format_boards(boards), FACTS, "", facts, "", END])


def replace_section(page: str, new: str) -> str:
    """Return ``page`` with the section between its markers replaced.

    Raises:
        ValueError: It does not have exactly one pair of markers, each on its own line.
    """
    lines = page.split("\n")
    first, last = _find_markers(lines)
    return "\n".join([*lines[:first], *new.split("\n"), *lines[last + 1 :]])


def _find_markers(lines: list[str]) -> tuple[int, int]:
    """Return the indices of the lines with the markers."""
    places = [[at for at, line in enumerate(lines) if line == mark] for mark in (BEGIN, END)]
    if [len(found) for found in places] != [1, 1] or places[0] > places[1]:
        raise ValueError(f"must have one pair of the lines {BEGIN} and {END}")
    return places[0][0], places[1][0]


def read_table_lines(page: str) -> list[str]:
    """Return the lines of a page's section, without those that depend on the day.

    Raises:
        ValueError: It has no section.
    """
    lines = page.split("\n")
    first, last = _find_markers(lines)
    inside = lines[first + 1 : last]
    if FACTS not in inside:
        raise ValueError(f"has no table between {BEGIN} and {FACTS}")
    return [line for line in inside[: inside.index(FACTS)] if line]


def list_changes(
    page_lines: Sequence[str], new_lines: Sequence[str], boards: Sequence[Scoreboard]
) -> Iterator[str]:
    """Yield one line for each column with changed cells, in the tables of all bundles."""
    counts = _count_changes(_read_cells(page_lines), _read_cells(new_lines))
    for port in {port.name: port for board in boards for port in board.ports}.values():
        if count := counts.get(code(port.name), 0):
            cells = "1 cell differs" if count == 1 else f"{count} cells differ"
            whose = "; the reference has changed, not a port" if port.is_reference else ""
            yield f"{port.name}: {cells}{whose}"


def _count_changes(page_cells: Cells, new_cells: Cells) -> Counter[str]:
    changes: Counter[str] = Counter()
    for key in page_cells.keys() | new_cells.keys():
        one, other = page_cells.get(key), new_cells.get(key)
        present = one if other is None else other
        differs = present not in _ABSENT_VALUES if None in (one, other) else one != other
        changes[key[-1]] += differs
    return changes


def _read_cells(lines: Sequence[str]) -> Cells:
    """Read the cells of all tables with one row for each case or group."""
    found: Cells = {}
    heads: list[str] = []
    heading = ""
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        row = _split_row(line)
        heading = line if line.startswith(HEADING) else heading
        if _split_row(following)[:1] == [_RULE]:
            heads = row
        elif row and row[0] != _RULE and heads and heads[0] in _FIRST_PORT:
            at = _FIRST_PORT[heads[0]]
            pairs = zip(heads[at:], row[at:], strict=False)
            found |= {(heading, row[0], head): cell for head, cell in pairs}
    return found


def _split_row(line: str) -> list[str]:
    """Split a line of a table; in foreign text bars are escaped."""
    return [cell.strip() for cell in line[1:-1].split("|")] if line.startswith("|") else []
