"""What a port says of its run in `meta.json`, held against what its batches show.

A claim that nothing contradicts proves nothing, so a missing one is only a notice; but a
port that counts, names or digests other things than it delivers misleads its users.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from parity.layout import MAX_JSON
from parity.matching import UNKNOWN
from parity.reference_pipeline import masked_mean
from parity.results import Finding
from parity.suites.pipeline.audit import omitted_ids
from parity.suites.pipeline.runs import COLUMNS, Slots, lookup
from parity.suites.words import listed, wrong

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from parity.suites.pipeline.runs import Owed, Run

    Claims = Mapping[str, Any]

#: Claims that the contract asks for.
CLAIMS = ("num_batches", "batch_sizes", "order", "omitted_ids", "fingerprint", "masked_mean")
#: Largest difference of a mean, of f32 sums, relative to its size where that is above 1.
_MEAN = 1e-6
_OF_MEANS = "it is the mean of the batches' means, where a short batch weighs as much as a full one"


def read_claims(folder: Path) -> tuple[Claims | None, list[Finding]]:
    """The JSON object in a dump's `meta.json`; None, and perhaps a finding, without one."""
    path = folder / "meta.json"
    if not path.is_file():
        return None, []
    try:
        if path.stat().st_size > MAX_JSON:
            return None, [_unusable("too-large", f"has more than {MAX_JSON:,} bytes")]
        value = json.loads(path.read_bytes())
    except OSError as error:
        return None, [_unusable("unreadable", f"cannot be read: {error.strerror}")]
    except (ValueError, RecursionError) as error:
        return None, [_unusable("not-json", f"is not JSON: {error}")]
    if not isinstance(value, dict):
        return None, [_unusable("not-json", f"holds {type(value).__name__}, not an object")]
    return value, []


def _unusable(code: str, what: str) -> Finding:
    message = f"meta.json {what}"
    return Finding(level="error", kind="dump", code=code, message=message, tensor="meta.json")


def claim_findings(
    claims: Claims | None, run: Run, owed: Owed, asked: Claims, fingerprint: str
) -> list[Finding]:
    """Findings for claims that the batches, the call or the reference contradict.

    Args:
        claims: What the port says; None where it says nothing.
        run: What it delivered.
        owed: What was due.
        asked: Parameters that the port was called with; it need not repeat them.
        fingerprint: Of the data set, 64 hex digits.
    """
    given = {} if claims is None else claims
    claims = {key: v if key == "masked_mean" else _whole(v) for key, v in given.items()}
    found = _missing(claims)
    for key in claims:
        if check := _CHECKS.get(key):
            found += check(claims[key], run, owed)
    found += _parameters(claims, asked)
    if "fingerprint" in claims:
        found += _fingerprint(claims["fingerprint"], run, owed, fingerprint)
    return found


def _missing(claims: Claims) -> list[Finding]:
    absent = [key for key in CLAIMS if key not in claims]
    if not absent:
        return []
    message = f"meta.json says nothing of {', '.join(absent)}, so that was not held against"
    message += " the batches"
    return [Finding(level="notice", code="claims-missing", message=message)]


def _contradiction(key: str, said: Any, held: Any, what: str = "the batches hold") -> Finding:
    message = f"meta.json says {key} = {_shown(said)}, {what} {_shown(held)}"
    return wrong("contradiction", message, measures={"key": key}, tensor="meta.json")


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{listed(value, len(value))}]"
    return f"{value!r:.100}"


def _whole(value: Any) -> Any:
    """9 for 9.0: a port whose ids are f32 writes whole numbers so."""
    if isinstance(value, list):
        return [_whole(one) if isinstance(one, float) else one for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _same(said: Any, held: Any) -> bool:
    """Equal, where 1, true and "1" are three things."""
    if isinstance(held, list):
        return isinstance(said, list) and len(said) == len(held) and all(map(_same, said, held))
    return type(said) is type(held) and bool(said == held)


def _num_batches(said: Any, run: Run, _owed: Owed) -> list[Finding]:
    held = len(run.sizes)
    return [] if _same(said, held) else [_contradiction("num_batches", said, held)]


def _batch_sizes(said: Any, run: Run, _owed: Owed) -> list[Finding]:
    held = list(run.sizes)
    return [] if _same(said, held) else [_contradiction("batch_sizes", said, held)]


def _omitted(said: Any, run: Run, owed: Owed) -> list[Finding]:
    held = omitted_ids(run, owed)
    if held is None:
        return []
    known = isinstance(said, list) and all(type(value) is int for value in said)
    if known and sorted(said) == held:
        return []
    what = "those that did not come in this epoch are"
    return [_contradiction("omitted_ids", said, held, what)]


def _order(said: Any, run: Run, owed: Owed) -> list[Finding]:
    """The epoch's order: the batches show a part of it, the reference all."""
    start = owed.position
    came = _observed(run, owed)
    part = said[start : start + len(came)] if isinstance(said, list) else said
    if not _same(part, came):
        place = f"order[{start}:{start + len(came)}]"
        return [_with_place(_contradiction(place, part, came), part, came, start)]
    if owed.order is None:
        return []
    due = owed.dataset.ids[owed.order].tolist()
    if _same(said, due) or came != due[start : start + len(came)]:
        return []
    message = f"meta.json says order = {_shown(said)}, the reference's is {_shown(due)}"
    finding = wrong("claim", message, measures={"key": "order"}, tensor="meta.json")
    return [_with_place(finding, said, due)]


def _observed(run: Run, owed: Owed) -> list[int | float]:
    """Ids in order of arrival, without padding, also where it is filled up with items."""
    filler = Slots.of(run, owed.dataset).filler
    return replace(run, **{name: getattr(run, name)[~filler] for name in COLUMNS}).ids


def _with_place(finding: Finding, said: Any, held: list[Any], start: int = 0) -> Finding:
    """The finding with the place where two lists differ first, which may be one not shown."""
    if not isinstance(said, list):
        return finding
    shorter = min(len(said), len(held))
    place = next((k for k in range(shorter) if not _same(said[k], held[k])), shorter)
    pair = [_shown(side[place]) if place < len(side) else "nothing" for side in (said, held)]
    where = f"; they differ first at place {start + place}: {pair[0]} and {pair[1]}"
    return replace(finding, message=finding.message + where)


def _mean(said: Any, run: Run, _owed: Owed) -> list[Finding]:
    real = np.asarray(run.mask == 1)
    held = masked_mean(run.y, real)
    if _near(said, held):
        return []
    if not real.all() and _near(said, masked_mean(run.y, np.ones_like(real))):
        message = (
            f"meta.json says masked_mean = {_shown(said)}, which is the mean of all "
            f"{len(real):,} slots; of the {int(real.sum()):,} observations it is {_shown(held)}"
        )
        return [wrong("padding-counted", message, measures={"key": "masked_mean"})]
    finding = _contradiction("masked_mean", said, held, "that of the batches' labels is")
    return [
        replace(finding, cause=_OF_MEANS) if run.sizes and _near(said, _of_means(run)) else finding
    ]


def _of_means(run: Run) -> float | None:
    """Mean of the batches' own means, as where each batch has the same weight."""
    starts = np.cumsum((0, *run.sizes[:-1]))
    real = (run.mask == 1).astype(np.float64)
    counts = np.add.reduceat(real, starts)
    sums = np.add.reduceat(np.where(real > 0, run.y, 0).astype(np.float64), starts)
    known = counts > 0
    return float((sums[known] / counts[known]).mean()) if known.any() else None


def _near(said: Any, held: float | None) -> bool:
    if held is None or said is None:
        return said is held
    if isinstance(said, bool) or not isinstance(said, (int, float)):
        return False
    if math.isnan(held):
        return math.isnan(said)
    return said == held or abs(said - held) <= _MEAN * max(1.0, abs(held))


def _parameters(claims: Claims, asked: Claims) -> list[Finding]:
    return [
        wrong(
            "claim",
            f"meta.json says {key} = {_shown(claims[key])}, the case asks for {_shown(value)}",
            measures={"key": key},
            tensor="meta.json",
        )
        for key, value in asked.items()
        if key in claims and not _same(claims[key], value)
    ]


def _fingerprint(said: Any, run: Run, owed: Owed, due: str) -> list[Finding]:
    """A port whose values differ within the bound has a fingerprint of its own."""
    said = said.lower() if isinstance(said, str) else said
    if said == due:
        return []
    own, exact = _own_digest(run, owed)
    if own is not None and own == said:
        message = "meta.json's fingerprint is that of the values as delivered, which are not"
        message += " the reference's to the byte"
        return [Finding(level="notice", code="fingerprint", message=message)]
    if own is None and not exact:
        message = "meta.json's fingerprint is another than the reference's, as are the values"
        message += " within the bound; the batches do not hold all items, so it was not checked"
        return [Finding(level="notice", code="fingerprint", message=message)]
    message = (
        f"meta.json says fingerprint = {_shown(said)}, expected {due!r}: the port runs over "
        "another data set, or digests it in another way"
    )
    return [wrong("fingerprint", message, expected=due, obtained=str(said)[:100])]


def _own_digest(run: Run, owed: Owed) -> tuple[str | None, bool]:
    """Digest of x and y as delivered, None unless all items came; and whether they are exact."""
    data = owed.dataset
    item = lookup(data.ids, run.id)
    known = np.flatnonzero(item != UNKNOWN)
    columns = {}
    for name in ("x", "y"):
        column = getattr(data, name).copy()
        column[item[known]] = getattr(run, name)[known]
        columns[name] = column
    exact = all(columns[name].tobytes() == getattr(data, name).tobytes() for name in columns)
    if len(np.unique(item[known])) < len(data):
        return None, exact
    digest = hashlib.sha256()
    for column in columns.values():
        digest.update(str(column.dtype).encode() + str(column.shape).encode() + column.tobytes())
    return digest.hexdigest(), exact


_CHECKS: dict[str, Callable[[Any, Run, Owed], list[Finding]]] = {
    "num_batches": _num_batches,
    "batch_sizes": _batch_sizes,
    "order": _order,
    "omitted_ids": _omitted,
    "masked_mean": _mean,
}
