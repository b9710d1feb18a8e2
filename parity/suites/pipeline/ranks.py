"""Check what ranks deliver together, random draws, and saved states, on ids and bytes in memory.

Each function takes all runs that belong together, by name (``rank 0``), and returns findings that
name run, batch and item. The suite calls them with dumps, ``parity.loaders`` with arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.items.checks import Ints
from parity.items.matching import UNKNOWN
from parity.items.records import PADDING_ID, Shortfall
from parity.results import Finding
from parity.suites.messages import EXAMPLES, format_list, format_number, report_each, report_error
from parity.suites.pipeline.runs import Run, check_unknown_ids, find_indices
from parity.text import format_count

_RANK_UNUSED = "every rank delivered the same ids: the rank is not used"


Shares = Mapping[str, Run]  # Of ranks, workers or repeated runs, by name


def count_share(count: int, rank: int, world: int, shortfall: Shortfall) -> int:
    """Count the items of a rank's share of ``count`` items."""
    full, rest = divmod(count, world)
    return full + {"fill": rest > 0, "trim": False, "uneven": rank < rest}[shortfall]


def take_share(order: Ints, rank: int, world: int, shortfall: Shortfall) -> Ints:
    """Return a rank's share of an epoch's ``order``, ``(n,)``: every ``world``-th from ``rank``."""
    length = count_share(len(order), rank, world, shortfall)
    return order[(rank + world * np.arange(length)) % max(len(order), 1)]


def check_ranks(
    shares: Shares, ids: Ints, shortfall: Shortfall, *, expected: Ints | None = None
) -> list[Finding]:
    """Check that the shares of all ranks, together, are the data set's ``ids``, ``(m,)``, unique.

    Each item must occur as often as in ``expected``, ids in any order; without that, as often as
    the ``shortfall`` allows. Every rank must have the same number of batches unless ``uneven``.
    """
    indices = {name: find_indices(ids, share.id) for name, share in shares.items()}
    unknown = np.concatenate(
        [(index == UNKNOWN) & (shares[name].id != PADDING_ID) for name, index in indices.items()]
    )
    counts = np.zeros(len(ids), np.int64)
    for index in indices.values():
        counts += np.bincount(index[index != UNKNOWN], minlength=len(ids))
    if expected is not None:
        least = most = np.bincount(find_indices(ids, expected), minlength=len(ids))
    else:
        least, most = _count_allowed(len(ids), len(shares), shortfall)
    return [
        *(_check_counts(shares) if shortfall != "uneven" else ()),
        *(_report_unknown(shares, unknown) if unknown.any() else ()),
        *_check_overlap(shares, indices, ids, counts, most),
        *report_each(
            "rank-missing",
            np.flatnonzero(counts < least),
            lambda item: (
                f"item {ids[item]} was delivered {format_count(counts[item], 'times')}"
                f"{' by all ranks together' * (len(shares) > 1)}, expected {least[item]:,}"
            ),
            "items were not delivered",
        ),
    ]


def _report_unknown(shares: Shares, unknown: NDArray[np.bool_]) -> list[Finding]:
    slots = np.concatenate([share.id for share in shares.values()])
    return check_unknown_ids(slots, unknown, _make_locator(shares))


def _make_locator(shares: Shares) -> Callable[[int], str]:
    """Return the function that formats a slot of all shares, one after another."""
    names, starts = [*shares], np.cumsum([0, *(len(share.id) for share in shares.values())])

    def locate(slot: int) -> str:
        run = int(np.searchsorted(starts, slot, "right")) - 1
        return f"{names[run]} {shares[names[run]].format_position(slot - int(starts[run]))}"

    return locate


def _count_allowed(count: int, world: int, shortfall: Shortfall) -> tuple[Ints, Ints]:
    """Return how often each of ``count`` items occurs in all shares at least, and at most."""
    total = sum(count_share(count, rank, world, shortfall) for rank in range(world))
    bounds = total // max(count, 1), -(-total // max(count, 1))
    least, most = (np.broadcast_to(np.int64(bound), count) for bound in bounds)
    return least, most


def _check_counts(shares: Shares) -> list[Finding]:
    for what in (("batches", "batch"), ("items",)):
        counts = {
            name: len(share.sizes) if len(what) > 1 else int((share.id != PADDING_ID).sum())
            for name, share in shares.items()
        }
        least, most = (choose(counts, key=counts.__getitem__) for choose in (min, max))
        if counts[least] != counts[most]:
            message = (
                f"{least} has {format_count(counts[least], *what)}, {most} has {counts[most]:,}; "
                "every rank must have the same number, else the others wait for it"
            )
            return [report_error("rank-batches", message, measures={"counts": [*counts.values()]})]
    return []


def _check_overlap(
    shares: Shares, indices: Mapping[str, Ints], ids: Ints, counts: Ints, most: Ints
) -> list[Finding]:
    def describe(item: int) -> str:
        places = [
            f"{name} {share.format_position(slot)}"
            for name, share in shares.items()
            for slot in np.flatnonzero(indices[name] == item)[:EXAMPLES].tolist()
        ]
        return (
            f"item {ids[item]} was delivered {format_count(counts[item], 'times')}, expected at "
            f"most {most[item]:,}: {format_list(places, counts[item])}"
        )

    wrong = np.flatnonzero(counts > most)
    found = report_each("rank-overlap", wrong, describe, "items were delivered too often")
    first, *others = (share.id for share in shares.values())
    is_same = bool(others) and all(np.array_equal(first, other) for other in others)
    return [replace(one, cause=_RANK_UNUSED) if is_same else one for one in found]


def check_states(
    states: Mapping[str, bytes], places: Mapping[str, Any] | None = None
) -> list[Finding]:
    """Check that no two cuts saved the same state; each by its name (``after 2 batches``).

    Runs that continue at one of ``places``, by their names, may have the same.
    """
    found: dict[bytes, str] = {}
    for name, state in states.items():
        other = found.setdefault(state, name)
        if other != name and (places is None or places[other] != places[name]):
            size = format_count(len(state), "bytes")
            message = f"the state saved {name} equals the one saved {other} ({size})"
            return [report_error("state-constant", message)]
    return []


def check_saved_again(first: bytes | None, again: bytes | None, name: str) -> list[Finding]:
    """Check that the state of run ``name``, loaded and saved again at once, stays the same.

    None is a state that was not saved, which is reported elsewhere.
    """
    if first is None or again is None or first == again:
        return []
    pairs = zip(first, again, strict=False)
    place = next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(first), len(again)))
    message = (
        f"the state of {name}, loaded and saved again at once, differs from byte {place:,} on "
        f"({len(again):,} bytes, expected {len(first):,})"
    )
    return [report_error("state-changed", message)]


#: By code of draws that are wrong: the message about two slots, and the heading of several.
_DRAW_TEXTS = {
    "draws-shared": (
        "items {} and {} have the same draw {draw}: {places}",
        "items have the draw of another item",
    ),
    "draws-changed": (
        "item {} has draw {draw} and {other_draw}: {places}",
        "items have another draw in another run of the same seed and epoch",
    ),
}


def check_draws(shares: Shares) -> list[Finding]:
    """Check the random draws of runs of one seed and epoch; those without any are left out.

    Different items must have different draws, and an item the same draw in every run.
    """
    names = [name for name, one in shares.items() if one.draws is not None]
    columns = [(shares[name].id, shares[name].draws) for name in names]
    if not names:
        return []
    ids, draws = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    locate = _make_locator({name: shares[name] for name in names})
    real = np.flatnonzero(ids != PADDING_ID)
    found = []
    for code, key, other in (("draws-shared", draws, ids), ("draws-changed", ids, draws)):
        order = real[np.argsort(key[real], kind="stable")]
        left, right = order[:-1], order[1:]
        wrong = np.flatnonzero((key[left] == key[right]) & (other[left] != other[right]))
        pairs = np.sort(np.column_stack((ids[left[wrong]], ids[right[wrong]])), axis=1)
        wrong = wrong[np.unique(pairs, axis=0, return_index=True)[1]]  # each pair of items once
        earlier = dict(zip(right[wrong].tolist(), left[wrong].tolist(), strict=True))
        text, heading = _DRAW_TEXTS[code]

        def describe(slot: int, earlier: Mapping[int, int] = earlier, text: str = text) -> str:
            pair = (earlier[slot], slot)
            one, two = (format_number(draws[place]) for place in pair)
            places = " and ".join(map(locate, pair))
            values = [format_number(ids[place]) for place in pair]
            return text.format(*values, draw=one, other_draw=two, places=places)

        found += report_each(code, np.sort(right[wrong]), describe, heading)
    return found


def check_other_draws(share: Run, other: Run, message: str) -> list[Finding]:
    """Check that another seed or epoch draws other numbers for at least one item in two."""
    if share.draws is None or other.draws is None:
        return []
    items, mine, others = np.intersect1d(share.id, other.id, return_indices=True)
    is_same = share.draws[mine] == other.draws[others]
    count = int((is_same & (items != PADDING_ID)).sum())
    if 2 * count <= len(items):
        return []
    text = f"{message}: {count:,} of {len(items):,} items have the same draw"
    return [report_error("draws-fixed", text)]
