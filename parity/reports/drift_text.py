"""Changes of a bundle as rows of a table, and as one in Markdown.

Names come from a bundle that nobody has reviewed yet, so all of them are sanitized.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from parity.drift.changes import BundleDrift, FileDrift, LoaderDrift, TensorDrift
from parity.lockfile import Locked
from parity.reports.markdown import format_cell
from parity.text import format_count, sanitize

#: Rows of a table; the others are counted.
MAX_ROWS = 60
_MAX_NAME, _MAX_CELL, _MAX_SIZES, _MAX_KEYS = 120, 60, 8, 5
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}
COLUMNS = ("what", "before", "after", "changed", "max |Δ|", "max ULP")
_VERDICT_TEXT = {
    "first": "locked for the first time",
    "same": "the same archive",
    "re-packed": "re-packed only, same contents",
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


def format_headline(drift: BundleDrift) -> str:
    """Return ``id: verdict``, with counts if contents could be compared."""
    text = f"{drift.bundle}: {_VERDICT_TEXT[drift.verdict]}"
    if drift.verdict == "changed" and drift.trees is not None:
        files, same = len(drift.trees.files), drift.trees.unchanged_files
        text += f", {files:,} of {format_count(files + same, 'files')}"
    return text


def format_markdown(drift: BundleDrift) -> list[str]:
    """Return all changes as lines of Markdown for a pull request."""
    name, _, rest = format_headline(drift).partition(": ")
    found = [f"### {format_cell(name)}: {rest}", "", "| | before | after |", "|---|---|---|"]
    for key, before, after in list_lock_rows(drift):
        found.append(f"| {key} | {format_cell(before)} | {format_cell(after)} |")
    if drift.missing:
        found += ["", format_cell(explain_missing(drift), 500)]
    if table := list_rows(drift):
        heads = " | ".join(column.replace("|", r"\|") for column in COLUMNS)
        found += ["", f"| | {heads} |", "|---|---|---|---|---|--:|--:|"]
        for row in table[:MAX_ROWS]:
            cells = ["|", row.sign, *(format_cell(cell) for cell in row[1:]), ""]
            found.append(" | ".join(cells)[2:].rstrip())
        found += [line for rest in format_rest(table) for line in ("", rest)]
    return found


def list_rows(drift: BundleDrift) -> list[Row]:
    """Return rows for cases of loaders, changed tensors, added and removed ones, files, keys."""
    if drift.trees is None:
        return []
    files = drift.trees.files
    found = [_make_loader_row(loader) for loader in drift.trees.loaders]
    tensors = [_make_tensor_row(file.path, tensor) for file in files for tensor in file.tensors]
    found += sorted(tensors, key=lambda row: row.sign != "~")
    for file in (one for one in files if not (one.tensors or one.keys)):
        sides = (file.before, file.after)
        before, after = ("-" if one is None else format_count(one, "bytes") for one in sides)
        name, note = sanitize(file.path, _MAX_NAME), sanitize(file.note, _MAX_NAME)
        found.append(Row(_SIGNS[file.state], name, before, after, note))
    return found + [row for file in files for row in _make_key_rows(file)]


def _make_key_rows(file: FileDrift) -> Iterator[Row]:
    for key in file.keys[:_MAX_KEYS]:
        sides = (key.before, key.after)
        before, after = ("-" if one is None else sanitize(one, _MAX_CELL) for one in sides)
        name = sanitize(f"{file.path}: {key.path}", _MAX_NAME)
        yield Row(_choose_sign(*sides), name, before, after)
    if more := max(0, len(file.keys) - _MAX_KEYS) + file.more_keys:
        yield Row("~", sanitize(f"{file.path}: {format_count(more, 'more keys')}", _MAX_NAME))


def _make_tensor_row(path: str, tensor: TensorDrift) -> Row:
    sides = (tensor.before, tensor.after)
    before, after = ("-" if one is None else f"{one.dtype} {list(one.shape)}" for one in sides)
    share = sanitize(tensor.note, _MAX_CELL)
    if tensor.count:
        share = f"{tensor.changed:,} of {tensor.count:,}"
    if tensor.lost:
        share += f", {tensor.lost:,} not finite"
    return Row(
        _choose_sign(*sides),
        sanitize(f"{path} {tensor.name}".rstrip(), _MAX_NAME),
        before,
        after,
        share,
        "" if tensor.max_abs is None else f"{tensor.max_abs:.3g}",
        "" if tensor.max_ulp is None else f"{tensor.max_ulp:,}",
    )


def _make_loader_row(loader: LoaderDrift) -> Row:
    name = sanitize(f"items of {loader.case}", _MAX_NAME)
    if loader.note:
        return Row("~", name, changed=sanitize(loader.note, _MAX_NAME))
    counts = {
        "moved": loader.moved,
        "removed": len(loader.removed),
        "added": len(loader.added),
        "unknown": loader.unknown,
    }
    parts = [f"{count:,} {word}" for word, count in counts.items() if count]
    text = f"of {loader.items:,}: {', '.join(parts)}" if parts else "batches only"
    for move in loader.moves[:1]:
        text += f"; item {move.item} from {move.before} to {move.after}"
    sizes = [
        f"batches {', '.join(map(str, side[:_MAX_SIZES]))}" + ", …" * (len(side) > _MAX_SIZES)
        for side in loader.batch_sizes or ()
    ]
    before, after = sizes or ("", "")
    return Row("~", name, before, after, text)


def _choose_sign(before: object, after: object) -> str:
    return "+" if before is None else "-" if after is None else "~"


def list_lock_rows(drift: BundleDrift) -> list[tuple[str, str, str]]:
    """Return key, old value and new value of everything that the two locks state."""
    before, after = _describe_lock(drift.before), _describe_lock(drift.after)
    return [(key, before.get(key, "-"), after.get(key, "-")) for key in {**before, **after}]


def _describe_lock(locked: Locked | None) -> dict[str, str]:
    if locked is None:
        return {}
    digests = {"sha256": locked.sha256, "tree": locked.tree, "rev": locked.rev}
    numbers = {"size": locked.size, "files": locked.files, "unpacked": locked.unpacked}
    digests |= {f"extra {sanitize(name)}": lock.sha256 for name, lock in locked.extra.items()}
    found = {key: f"{value[:12]}…" for key, value in digests.items() if value is not None}
    return found | {
        key: format_count(value, "files" if key == "files" else "bytes")
        for key, value in numbers.items()
        if value is not None
    }


def explain_missing(drift: BundleDrift) -> str:
    """Explain why only the locks are compared."""
    return f"the old bundle is not available, so only the locks are compared: {drift.missing}"


def format_rest(table: Sequence[Row]) -> list[str]:
    """Return a line with the number of rows that are not listed, if there are any."""
    more = len(table) - MAX_ROWS
    return [f"and {format_count(more, 'more rows')}"] if more > 0 else []
