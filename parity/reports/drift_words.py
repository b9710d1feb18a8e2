"""What changed in a bundle, in words: a table for the console, one in Markdown, a message.

Names come from a bundle that nobody has reviewed yet: each is made harmless, and in
Markdown stands in a code span where it can neither link, mention nor end a cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parity.safetext import counted, safe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from parity.drift import (
        BundleDrift,
        FileDrift,
        Form,
        KeyDrift,
        LoaderDrift,
        TensorDrift,
    )
    from parity.lockfile import Locked

#: Rows of a table before the rest is only counted.
MOST_ROWS = 60
_NAME, _CELL, _SIZES, _KEYS = 120, 60, 8, 5
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}
_COLUMNS = ("what", "before", "after", "changed", "max |Δ|", "max ULP")
_PLAIN = " .,-/_()'Δ…"
_VERDICTS = {
    "first": "locked for the first time",
    "same": "the same archive",
    "re-packed": "re-packed only, its contents are equal",
    "changed": "changed",
}


class Row(NamedTuple):
    """One line of the table; ``sign`` is ``+``, ``-`` or ``~``."""

    sign: str
    what: str
    before: str = ""
    after: str = ""
    changed: str = ""
    max_abs: str = ""
    max_ulp: str = ""


def headline(drift: BundleDrift) -> str:
    """``id: what became of it``, with counts where contents could be compared."""
    text = f"{drift.bundle}: {_VERDICTS[drift.verdict]}"
    if drift.verdict == "changed" and drift.trees is not None:
        files, same = len(drift.trees.files), drift.trees.same
        text += f", {files:,} of {counted(files + same, 'files')}"
    return text


def lines(drift: BundleDrift) -> list[str]:
    """The whole story for a console."""
    found = [headline(drift), *(f"  {line}" for line in _facts(drift))]
    if drift.missing:
        found.append(f"  {safe(_missing(drift), 500)}")
    if table := rows(drift):
        shown = [_COLUMNS, *((f"{row.sign} {row.what}", *row[2:]) for row in table[:MOST_ROWS])]
        found += ["", *(f"  {line}" for line in _aligned(shown))]
        found += [f"  {rest}" for rest in _rest(table)]
    return found


def markdown(drift: BundleDrift) -> list[str]:
    """The same for a pull request."""
    name, _, rest = headline(drift).partition(": ")
    found = [f"### {_code(name)}: {rest}", "", "| | before | after |", "|---|---|---|"]
    for key, before, after in _lock_rows(drift):
        found.append(f"| {key} | {_code(before)} | {_code(after)} |")
    if drift.missing:
        found += ["", _code(_missing(drift), 500)]
    if table := rows(drift):
        heads = " | ".join(column.replace("|", r"\|") for column in _COLUMNS)
        found += ["", f"| | {heads} |", "|---|---|---|---|---|--:|--:|"]
        found += [_markdown_row(row) for row in table[:MOST_ROWS]]
        found += [line for rest in _rest(table) for line in ("", rest)]
    return found


def message(drifts: Sequence[BundleDrift]) -> list[str]:
    """A commit message: a subject, and per bundle a stable line that a program can read."""
    first = all(drift.verdict == "first" for drift in drifts)
    verb = "Lock" if first else "Re-pin"
    what = drifts[0].bundle if len(drifts) == 1 else f"{len(drifts)} bundles"
    found = [f"{verb} {what}", ""]
    for drift in drifts:
        before = f"sha256:{drift.before.sha256}" if drift.before else "none"
        found.append(f"{drift.bundle} {before} -> sha256:{drift.after.sha256}")
    found += ["", *(headline(drift) for drift in drifts)]
    return found


def rows(drift: BundleDrift) -> list[Row]:
    """The table: loaders' cases, then tensors that changed, then what came and went, then keys."""
    if drift.trees is None:
        return []
    files = drift.trees.files
    found = [_loader(loader) for loader in drift.trees.loaders]
    tensors = [_tensor(file.path, tensor) for file in files for tensor in file.tensors]
    found += sorted(tensors, key=lambda row: row.sign != "~")
    found += [_file(file) for file in files if not (file.tensors or file.keys)]
    return found + [row for file in files for row in _keys(file)]


def _file(file: FileDrift) -> Row:
    note = safe(file.note, _NAME)
    sizes = _bytes(file.before), _bytes(file.after)
    return Row(_SIGNS[file.state], safe(file.path, _NAME), *sizes, note)


def _keys(file: FileDrift) -> Iterator[Row]:
    for key in file.keys[:_KEYS]:
        yield _key(file.path, key)
    if more := max(0, len(file.keys) - _KEYS) + file.more_keys:
        yield Row("~", safe(f"{file.path}: {counted(more, 'more keys')}", _NAME))


def _tensor(path: str, tensor: TensorDrift) -> Row:
    name = f"{path} {tensor.name}" if tensor.name else path
    share = f"{tensor.changed:,} of {tensor.count:,}" if tensor.count else safe(tensor.note, _CELL)
    if tensor.lost:
        share += f", {tensor.lost:,} not finite"
    return Row(
        _sign(tensor.before, tensor.after),
        safe(name, _NAME),
        _form(tensor.before),
        _form(tensor.after),
        share,
        "" if tensor.max_abs is None else f"{tensor.max_abs:.3g}",
        "" if tensor.max_ulp is None else f"{tensor.max_ulp:,}",
    )


def _key(path: str, key: KeyDrift) -> Row:
    before, after = (
        "-" if value is None else safe(value, _CELL) for value in (key.before, key.after)
    )
    return Row(_sign(key.before, key.after), safe(f"{path}: {key.path}", _NAME), before, after)


def _loader(loader: LoaderDrift) -> Row:
    name = safe(f"items of {loader.case}", _NAME)
    if loader.note:
        return Row("~", name, changed=safe(loader.note, _NAME))
    counts = {
        "moved": loader.moved,
        "gone": len(loader.gone),
        "new": len(loader.new),
        "unknown": loader.unknown,
    }
    told = [f"{count:,} {word}" for word, count in counts.items() if count]
    before, after = (_sizes(sizes) for sizes in loader.sizes or ((), ()))
    moves = [f"{move.item} from {move.before} to {move.after}" for move in loader.moves[:1]]
    share = f"of {loader.items:,}: {', '.join(told)}" if told else "batches only"
    return Row("~", name, before, after, "; ".join([share, *(f"item {text}" for text in moves)]))


def _sign(before: object, after: object) -> str:
    return "+" if before is None else "-" if after is None else "~"


def _sizes(sizes: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, sizes[:_SIZES])) + (", …" if len(sizes) > _SIZES else "")
    return f"batches {shown}" if sizes else ""


def _bytes(size: int | None) -> str:
    return "-" if size is None else counted(size, "bytes")


def _form(form: Form | None) -> str:
    return "-" if form is None else f"{form.dtype} {list(form.shape)}"


def _facts(drift: BundleDrift) -> list[str]:
    table = [(key, before, "->", after) for key, before, after in _lock_rows(drift)]
    return _aligned(table)


def _lock_rows(drift: BundleDrift) -> list[tuple[str, str, str]]:
    """What the two locks alone tell."""
    before, after = _stated(drift.before), _stated(drift.after)
    return [(key, before.get(key, "-"), after.get(key, "-")) for key in {**before, **after}]


def _stated(locked: Locked | None) -> dict[str, str]:
    if locked is None:
        return {}
    digests = {"sha256": locked.sha256, "tree": locked.tree, "rev": locked.rev}
    numbers = {"size": locked.size, "files": locked.files, "unpacked": locked.unpacked}
    found = {key: f"{value[:12]}…" for key, value in digests.items() if value is not None}
    return found | {
        key: counted(value, "files" if key == "files" else "bytes")
        for key, value in numbers.items()
        if value is not None
    }


def _missing(drift: BundleDrift) -> str:
    return (
        f"what it was before can no longer be had, so only the two locks are told: {drift.missing}"
    )


def _rest(table: Sequence[Row]) -> list[str]:
    more = len(table) - MOST_ROWS
    return [f"and {counted(more, 'more rows')}"] if more > 0 else []


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


def _markdown_row(row: Row) -> str:
    return " | ".join(["|", row.sign, *(_code(cell) for cell in row[1:]), ""])[2:].rstrip()


def _code(text: str, limit: int = 200) -> str:
    """Foreign text in a code span: every character that Markdown or HTML could read is spelt."""
    shown = safe(text, limit)
    if not shown:
        return ""
    spelt = "".join(c if c.isalnum() or c in _PLAIN else f"&#{ord(c)};" for c in shown)
    # No address may become a link; a colon before a space makes none.
    spelt = spelt.replace("&#58; ", ": ").replace("www.", "www&#46;")
    return f"<code>{spelt}</code>"
