"""Order and describe what diverges in steps of training: losses, gradients, updates.

Names are those of `parity pin trace --train`: ``loss`` [steps], and for each step k from 1 on
``step_k/grad/NAME``, ``step_k/STATE/NAME`` and ``step_k/NAME``, the parameter after the step.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from parity.suites.messages import format_list, format_number
from parity.tensors.compare import find_violations

if TYPE_CHECKING:
    from collections.abc import Collection

    from parity.suites.tensors.stages import StageResults
    from parity.tensors.stored import Tensors

LOSS = "loss"
_STAGE = re.compile(r"step_([0-9]+)/(?:(grad|exp_avg|exp_avg_sq|momentum_buffer)/)?(.+)")


class Place(NamedTuple):
    """A stage of training; its ``part`` is ``grad``, a state of the optimizer, or ``""``."""

    step: int
    part: str
    parameter: str


class LossStep(NamedTuple):
    """The first step whose loss is outside its tolerance."""

    step: int
    expected: str
    obtained: str


def find_place(name: str, stages: Collection[str]) -> Place | None:
    """Return what a stage of training is; None for one of another kind of case."""
    match = _STAGE.fullmatch(name)
    if match is None or f"step_{match[1]}/grad/{match[3]}" not in stages:
        return None
    return Place(int(match[1]), match[2] or "", match[3])


def find_loss_step(results: StageResults, expected: Tensors, obtained: Tensors) -> LossStep | None:
    """Find the first step whose loss diverges; None if all are right or cannot be compared."""
    if LOSS not in results.errors or LOSS not in results.compared:
        return None
    right, given = (side[LOSS].read_array().reshape(-1) for side in (expected, obtained))
    if right.dtype != given.dtype:
        return None
    bounds = results.compared[LOSS]["bounds"]
    at = np.flatnonzero(find_violations(right, given, expected[LOSS].dtype, bounds))
    if not len(at):
        return None
    return LossStep(int(at[0]) + 1, *(format_number(side[at[0]]) for side in (right, given)))


def group_first(results: StageResults, loss: LossStep | None) -> list[list[str]]:
    """Group the stages that diverge first; each group is one fault, its first name the headline.

    All gradients of a step are a group, in the order of the backward pass, and so are its
    updates. A loss that diverges no later than these comes before them, since it feeds them.
    """
    groups: dict[object, list[str]] = {}
    steps = []
    for name in results.first:
        place = find_place(name, results.stages)
        key: object = name if place is None else (place.step, place.part == "grad")
        group = groups.setdefault(key, [])
        # Gradients are computed backwards; of an update, its own stage has a known operator.
        head = find_place(group[0], results.stages) if group else None
        is_after_state = head is not None and bool(head.part)
        is_next = place and (place.part == "grad" or (not place.part and is_after_state))
        group.insert(0 if is_next else len(group), name)
        steps += [place.step] if place else []
    if loss is not None and loss.step <= min(steps, default=loss.step):
        return [[LOSS]]
    return [*groups.values()]


def describe_fault(results: StageResults, group: list[str], loss: LossStep | None) -> str:
    """Describe a fault of training in words; ``""`` for a stage of another kind of case."""
    name, *others = group
    place = find_place(name, results.stages)
    unseen = results.find_feeds(name)[1]
    if name == LOSS and loss is not None:
        text = _describe_loss(loss, results, unseen)
    elif place is None:
        return ""
    elif place.part == "grad":
        text = f"step {place.step}: the gradient of {place.parameter} is the first that diverges"
        where = "in it or in what was not dumped before it" if unseen else "in the backward pass"
        text += f"; no parameter before it is wrong, so the fault is {where}"
        prefix, right = f"step_{place.step}/grad/", results.seen - results.errors.keys()
        if names := [one for one in results.stages if one in right and prefix in one]:
            listed = format_list(one.removeprefix(prefix) for one in names)
            text += f"; right gradients: {listed}"
    else:
        text = _describe_update(place, results, is_open=bool(unseen))
    if others:
        text += f"; also different in this step: {format_list(others)}"
    if place is not None and loss is not None:
        text += f"; the loss diverges from step {loss.step} on"
    return text


def _describe_loss(loss: LossStep, results: StageResults, unseen: list[str]) -> str:
    text = (
        f"step {loss.step}: the loss is the first that diverges, expected {loss.expected}, "
        f"obtained {loss.obtained}"
    )
    gradients = {name for name in results.stages if name.startswith(f"step_{loss.step}/grad/")}
    if gradients and gradients <= results.seen - results.errors.keys():
        return f"{text}; the gradients of this step are right, so it is the loss that is reported"
    if loss.step == 1 or not unseen:
        return f"{text}; the parameters before it are right, so it is the forward pass or the loss"
    return (
        f"{text}; the losses before it are right, so it is a gradient or an update that was not "
        f"dumped, most likely of step {loss.step - 1}"
    )


def _describe_update(place: Place, results: StageResults, *, is_open: bool) -> str:
    what = f"optimizer's {place.part}" if place.part else "update"
    text = f"step {place.step}: the {what} of {place.parameter} is the first that diverges"
    if f"step_{place.step}/grad/{place.parameter}" not in results.seen:
        return f"{text}; its gradient was not dumped, so it is the gradient or the optimizer"
    more = " or what was not dumped before it" if is_open else ""
    return f"{text}; its gradient is right, so it is the optimizer{more}"
