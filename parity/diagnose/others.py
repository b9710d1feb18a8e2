"""Another tensor of the bundle in this one's place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parity.codecs import FormatError
from parity.diagnose.cause import Cause
from parity.diagnose.claims import Base, Claim, Placed, Turned
from parity.diagnose.places import as_it_is

if TYPE_CHECKING:
    from parity.codecs.stored import Stored
    from parity.diagnose.subject import Subject


def swapped(subject: Subject) -> Cause | None:
    """The other tensor whose values the dump holds, if there is one."""
    for name, other in subject.others().items():
        if name == subject.name or other.count != subject.count or other.dtype != subject.dtype:
            continue
        try:
            claim = _claim(subject, name, other)
        except (FormatError, OSError, ValueError):
            continue
        if claim.proof() is not None:
            count = "the one element is" if subject.count == 1 else f"all {subject.count:,} are"
            evidence = f"{count} equal to those of {name}"
            return Cause("other-tensor", f"these are the values of {name}", evidence)
    return None


def _claim(subject: Subject, name: str, other: Stored) -> Claim:
    values = subject.maps.array(other)
    base = Base(code="other-tensor", text=name, values=values, turn=subject.turned)
    placed: Placed = as_it_is(values, subject.target)
    return Claim(subject, base, placed, Turned())
