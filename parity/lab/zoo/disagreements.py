"""Explain where the reference readers disagree with each other or with the rule of a case."""

from __future__ import annotations

from collections.abc import Mapping

_NAMES = {"torch": "torch with weights_only", "torch-full": "torch without weights_only"}
#: Verbs by a reader's outcome.
VERBS = {
    "loaded": "reads",
    "refused": "rejects",
    "crashed": "crashes on",
    "limit": "runs out of time or memory on",
}
#: The outcome of every reader where there is nothing to explain.
_UNREMARKABLE = {"load": "loaded", "refuse": "refused", "either": "loaded"}


def explain_disagreement(
    expect: str, rule: str, outcomes: Mapping[str, str], *, disputed: bool = False
) -> str:
    """Explain, in a sentence without its full stop, a case that the readers do not agree on.

    ``rule`` is the section of a document, or another source of the rule; ``disputed`` says that it
    forbids the case although a reader loads it. Nothing is to explain, and the text is empty, where
    every reader does as expected, or loads an ``either``, and the case is not disputed.
    """
    if not outcomes or (set(outcomes.values()) == {_UNREMARKABLE[expect]} and not disputed):
        return ""
    text = ", ".join(_format_clauses(expect, outcomes))
    return f"{text}{_choose_link(expect, outcomes, disputed=disputed)}{rule}" if rule else text


def _choose_link(expect: str, outcomes: Mapping[str, str], *, disputed: bool) -> str:
    """Choose the words between the readers and the rule."""
    if (expect == "refuse" or disputed) and "loaded" in outcomes.values():
        return ", against "
    return "; it must be rejected: " if expect == "refuse" else "; "


def _format_clauses(expect: str, outcomes: Mapping[str, str]) -> list[str]:
    """Format a clause for each reader; torch's two are one where they agree."""
    if len(outcomes) > 1 and outcomes.get("torch") == outcomes.get("torch-full"):
        return [f"torch {_choose_verb(expect, outcomes['torch'])}"]
    return [
        f"{_NAMES.get(reader, reader)} {_choose_verb(expect, outcome)}"
        for reader, outcome in outcomes.items()
    ]


def _choose_verb(expect: str, outcome: str) -> str:
    if expect == "refuse" and outcome == "loaded":
        return "accepts it"
    return f"{VERBS[outcome]} it" if outcome in VERBS else outcome
