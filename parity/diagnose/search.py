"""The search for claims that hold: one cause first, then two at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parity.diagnose import places, quants, stored, turns
from parity.diagnose.cause import Cause
from parity.diagnose.claims import Base, Claim, Placed, Proof, Step, Turned
from parity.diagnose.fills import zeros_from

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parity.diagnose.subject import Subject

#: Roundings to another float, of which values that are short may fit more than one.
_NARROWER = ("rounded-f16", "rounded-f32", "rounded-bf16", "cut-bf16")
#: Elements by which a shift may go that comes with another cause.
_SLIP = 8
#: Bytes of a tensor that must agree to prove where they were read: fewer are found by chance.
_TELLING = 8


def right(subject: Subject) -> Base:
    """The reference as it is."""
    return Base(values=subject.source, turn=subject.turned)


def single(subject: Subject) -> Cause | None:
    """One cause that explains every element."""
    found = _first(claims_of_one(subject))
    return found if found is None or found.code not in _NARROWER else _narrowed(subject)


def _narrowed(subject: Subject) -> Cause:
    """The narrower float that the values went through; where more fit equally, all are said."""
    it = Claim(subject, right(subject), places.as_it_is(subject.source, subject.target), Turned())
    claims = [
        Claim(subject, it.base, it.placed, turned)
        for turned in turns.all_turns(subject.seen, *it.pairs())
        if turned.code in _NARROWER
    ]
    proven = [(claim, proof) for claim in claims if (proof := claim.proof()) is not None]
    best = max(proof.exact for _, proof in proven)
    fitting = [(claim, proof) for claim, proof in proven if proof.exact == best]
    if len(fitting) == 1:
        return _cause(*fitting[0])
    turned = [claim.turned for claim, _ in fitting]
    bf16 = all(one.code.endswith("-bf16") for one in turned)
    how = ", or ".join(one.how for one in turned)
    return Cause(
        "rounded-bf16" if bf16 else "narrowed",
        ", or ".join(one.text for one in turned),
        f"{how}, {_counted(*fitting[0])}",
    )


def claims_of_one(subject: Subject, stop: int | None = None) -> Iterator[Claim]:
    """All claims of one cause; ``stop`` has them speak only of the elements before it."""
    base, target, plain = right(subject), subject.target, Turned()

    def claim(of: Base, placed: Placed, turned: Turned = plain) -> Claim:
        return Claim(subject, of, placed, turned, stop)

    dtype = stored.known(subject)
    if dtype is not None:
        bytes_of = Base(values=base.values, turn=stored.turn_of(subject, dtype))
        yield from (claim(bytes_of, placed) for placed in stored.orders(subject))
    yield from (claim(base, placed) for placed in places.all_places(base.values, target))
    it = claim(base, places.as_it_is(base.values, target))
    for turned in turns.all_turns(subject.seen, *it.pairs()):
        yield claim(base, it.placed, turned)
    for each, turned in turns.wide_swaps(subject.seen, subject.count):
        yield claim(base, places.mirrored(base.values, target, each), turned)
    for wrong in stored.bases(subject):
        yield claim(wrong, _shaped(subject, wrong))


def slipped(subject: Subject) -> Cause | None:
    """The checkpoint read from another byte on, or as elements of another size.

    Asked for after other tensors, since one of those lies at every distance.
    """
    claims = (
        Claim(
            subject,
            Base(values=subject.source, turn=stored.turn_of(subject, dtype)),
            placed,
            Turned(),
        )
        for dtype, placed in stored.slips(subject)
        if placed.source.nbytes >= _TELLING
    )
    return _first(claims)


def _shaped(subject: Subject, base: Base) -> Placed:
    return Placed(source=base.values, target=subject.target.reshape(base.values.shape))


def double(subject: Subject) -> Cause | None:
    """Two causes that explain every element together, and none of them alone."""
    return _first(_claims_of_two(subject)) or _cut_short(subject)


def _claims_of_two(subject: Subject) -> Iterator[Claim]:
    base, target = right(subject), subject.target
    for placed in places.all_places(base.values, target, _SLIP):
        guess = Claim(subject, base, placed, Turned())
        for turned in turns.all_turns(subject.seen, *guess.pairs()):
            yield Claim(subject, base, placed, turned)
    for wrong in (*stored.bases(subject), *quants.bases(subject)):
        if subject.count > quants.WHOLE:
            # A strided view of a large storage would have to be copied to be rearranged.
            break
        for placed in places.all_places(wrong.values, target, _SLIP):
            yield Claim(subject, wrong, placed, Turned())
        it = Claim(subject, wrong, _shaped(subject, wrong), Turned())
        for turned in turns.all_turns(subject.seen, *it.pairs()):
            yield Claim(subject, wrong, it.placed, turned)
    dtype = stored.known(subject)
    if dtype is not None:
        bytes_of = Base(values=base.values, turn=stored.turn_of(subject, dtype))
        for placed in stored.orders(subject):
            guess = Claim(subject, bytes_of, placed, Turned())
            for turned in turns.all_turns(subject.seen, *guess.pairs()):
                yield Claim(subject, bytes_of, placed, turned)


def _cut_short(subject: Subject) -> Cause | None:
    """A tail of zeros after elements that have another cause."""
    start = zeros_from(subject)
    if start is None:
        return None
    for claim in claims_of_one(subject, start):
        # What comes before the zeros must differ, or the tail is all there is.
        if claim.left_out or subject.overview.first >= start:
            continue
        proof = claim.proof()
        if proof is not None:
            one = claim.steps[0]
            evidence = (
                f"{one.how} the first {start:,} of {subject.count:,} elements are "
                f"{_equal(proof)}, the other {subject.count - start:,} are 0"
            )
            text = f"two causes at once: {one.text}, and only zeros from element {start:,} on"
            return Cause(f"{one.code}+zero-tail", text, evidence)
    return None


def _first(claims: Iterator[Claim]) -> Cause | None:
    for claim in claims:
        if claim.steps and (proof := claim.proof()) is not None:
            return _cause(claim, proof)
    return None


def _cause(claim: Claim, proof: Proof) -> Cause:
    steps = [_rolled(claim, step) if step.code == "shifted" else step for step in claim.steps]
    code = "+".join(step.code for step in steps)
    text = ", and ".join(step.text for step in steps)
    how = " and ".join(step.how for step in steps)
    head = "two causes at once: " if "+" in code else ""
    counted = _counted(claim, proof) if "rolled" not in code else _whole(claim, proof)
    return Cause(code, head + text, f"{how} {counted}")


def _rolled(claim: Claim, step: Step) -> Step:
    """A shift whose elements that fall out come in at the other end is a roll."""
    subject, edge = claim.subject, claim.left_out
    if not edge or claim.turned.code:
        return step
    flat = subject.source.reshape(-1)
    right_way = claim.placed.target.size and "right" in step.text.split(" by ")[0]
    ends = (
        (flat[-edge:], subject.target[:edge])
        if right_way
        else (flat[:edge], subject.target[-edge:])
    )
    good, _ = subject.agree(subject.turned(np.array(ends[0])), np.array(ends[1]))
    if not good.all():
        return step
    way = f"{'right' if right_way else 'left'} by {edge:,} element{'s' * (edge != 1)}"
    text = f"the values are rolled {way}: those that fall out come in at the other end"
    return Step(code="rolled", text=text, how=f"after rolling the reference {way}")


def _whole(claim: Claim, proof: Proof) -> str:
    return f"all {claim.subject.count:,} elements are {_equal(proof)}"


def _counted(claim: Claim, proof: Proof) -> str:
    if not proof.left_out:
        what = "the one element is" if proof.count == 1 else f"all {proof.count:,} elements are"
        return f"{what} {_equal(proof)}"
    return (
        f"{proof.count:,} of {claim.subject.count:,} elements are {_equal(proof)}; the other "
        f"{proof.left_out:,} come from beyond the tensor"
    )


def _equal(proof: Proof) -> str:
    return "bit-equal" if proof.exact else "equal but for a rounding or the bound"
