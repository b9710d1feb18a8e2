"""Shrink mutants: fewer edits, and fewer changed bytes, as long as the fault stays the same.

All findings are shrunk side by side: a round gives the smaller mutants of each to the readers and
to the port at once, since a reader takes seconds to start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from parity.lab.fuzz.mutant import Edit, Mutant
from parity.lab.fuzz.trial import Trial

#: Limits: rounds, and mutants of a finding in a round. A program that hangs costs its whole time.
ROUNDS, MUTANTS, MUTANTS_IF_HUNG = 8, 6, 2

Try = Callable[[Sequence[Mutant]], list[Trial]]


def shrink_all(findings: Sequence[Trial], try_mutants: Try) -> list[Trial]:
    """Return for each finding the smallest mutant that was found to have the same fault."""
    best = list(findings)
    growing = list(range(len(best)))
    for number in range(ROUNDS):
        waiting = {at: list(_list_smaller(best[at], number)) for at in growing}
        trials = iter(try_mutants([mutant for found in waiting.values() for mutant in found]))
        growing = []
        for at, mutants in waiting.items():
            tried = list(islice(trials, len(mutants)))
            same = [trial for trial in tried if trial.key == best[at].key]
            if same:
                best[at] = same[0]
                growing.append(at)
        if not growing:
            break
    return best


def _list_smaller(trial: Trial, number: int) -> Iterator[Mutant]:
    """Yield smaller mutants, the smallest ones first, with ids of their own."""
    mutant = trial.mutant
    limit = MUTANTS_IF_HUNG if trial.word == "hung" else MUTANTS
    name = mutant.id.partition("-")[0]
    for count, edits in enumerate(islice(_list_edits(mutant), limit)):
        yield replace(mutant, id=f"{name}-{number}.{count}", edits=edits)


def _list_edits(mutant: Mutant) -> Iterator[tuple[Edit, ...]]:
    """Yield the edits without one of them, then with a smaller one."""
    edits = mutant.edits
    if len(edits) > 1:
        for at in range(len(edits)):
            yield edits[:at] + edits[at + 1 :]
    for at, edit in enumerate(edits):
        for smaller in _shrink_edit(edit, mutant.get_old(edit)):
            yield (*edits[:at], smaller, *edits[at + 1 :])


def _shrink_edit(edit: Edit, old: bytes) -> Iterator[Edit]:
    """Yield edits that change a half of the bytes; what both sides share is cut off first."""
    new, size = edit.new, min(len(edit.new), len(old))
    first = next((at for at in range(size) if old[at] != new[at]), size)
    last = next((at for at in range(size - first) if old[-1 - at] != new[-1 - at]), size - first)
    start, stop = edit.start + first, edit.stop - last
    old, new = old[first : len(old) - last], new[first : len(new) - last]
    half_old, half_new = len(old) // 2, len(new) // 2
    middle = start + half_old
    if len(old) == len(new) > 1:
        yield edit._replace(start=start, stop=middle, new=new[:half_old])
        yield edit._replace(start=middle, stop=stop, new=new[half_old:])
    elif len(old) > 1:  # less is removed
        yield edit._replace(start=start, stop=middle, new=new)
        yield edit._replace(start=middle, stop=stop, new=new)
    elif len(new) > 1:  # less is inserted
        yield edit._replace(start=start, stop=stop, new=new[:half_new])
        yield edit._replace(start=start, stop=stop, new=new[half_new:])
